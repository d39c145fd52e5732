"""Outputs from which nothing may be claimed."""

import pytest

from augless import metrics

SOURCES = [f"satz nummer {n} von vielen" for n in range(100)]
REFERENCES = [f"sentence number {n} of many" for n in range(100)]


def test_good_outputs_pass():
    assert metrics.degenerate(REFERENCES, REFERENCES, SOURCES) is None
    assert metrics.degenerate([*reversed(REFERENCES)], REFERENCES, SOURCES) is None


def test_generic_answers_of_a_dialogue_model_pass():
    generic = [f"i do not know , {n % 12}" for n in range(100)]
    assert metrics.degenerate(generic, REFERENCES, SOURCES) is None


@pytest.mark.parametrize("constant", ["i do not know .", "yes"])
def test_a_constant_answer_is_found(constant):
    fault = metrics.degenerate([constant] * 98 + ["no", "well"], REFERENCES, SOURCES)
    assert fault is not None and fault.kind == "constant"
    assert str(fault) == f"100 outputs have only 3 different lines, such as {constant!r}"


def test_few_answers_are_right_where_there_are_few_right_ones():
    labels = ["good" if n % 3 else "bad" for n in range(100)]
    assert metrics.degenerate(labels, labels, SOURCES) is None
    fault = metrics.degenerate(["good"] * 100, labels, SOURCES)
    assert fault is not None and fault.kind == "constant"


def test_one_source_over_and_over_may_have_one_answer():
    assert metrics.degenerate(["yes"] * 100, REFERENCES, ["same"] * 100) is None


def test_empty_outputs_are_found():
    fault = metrics.degenerate([""] * 60 + REFERENCES[60:], REFERENCES, SOURCES)
    assert fault is not None and fault.kind == "empty"
    assert str(fault) == "60 of 100 outputs are empty"


@pytest.mark.parametrize("tail", [" a a a a a a a a", ",,,,,,,,,,,,,,,", " the cat" * 9])
def test_endless_repetitions_are_found(tail):
    looping = [f"{n}{tail}" for n in range(100)]
    fault = metrics.degenerate(looping, REFERENCES, SOURCES)
    assert fault is not None and fault.kind == "repetitive"
    assert "100 of 100 outputs repeat themselves" in str(fault)


def test_repetitions_that_references_have_too_are_no_fault():
    songs = [f"la la la la la la la {n}" for n in range(100)]
    assert metrics.degenerate(songs, songs, SOURCES) is None


def test_a_few_lines_tell_nothing():
    assert metrics.degenerate(["yes"] * 9, REFERENCES[:9], SOURCES[:9]) is None


def test_a_line_of_megabytes_takes_no_time():
    assert metrics.degenerate(["ab" * 2_000_000] * 10, REFERENCES[:10]) is not None


def test_more_than_half_of_the_outputs_are_empty_and_more_than_twice_the_references():
    half = [""] * 50 + REFERENCES[50:]
    assert metrics.degenerate(half, REFERENCES, SOURCES) is None
    assert metrics.degenerate([" ", *half[:50], *half[51:]], REFERENCES, SOURCES) is not None
    sparse = [""] * 30 + REFERENCES[30:]
    assert metrics.degenerate([""] * 60 + REFERENCES[60:], sparse, SOURCES) is None
    assert metrics.degenerate([""] * 61 + REFERENCES[61:], sparse, SOURCES).kind == "empty"


def test_more_than_a_fifth_of_the_outputs_repeat_themselves_and_more_than_twice_the_references():
    looping = [f"{n} a a a a a a a a" for n in range(100)]

    def found(outputs, references):
        return metrics.degenerate(
            looping[:outputs] + REFERENCES[outputs:], looping[:references] + REFERENCES[references:]
        )

    assert found(20, 0) is None and found(21, 0).kind == "repetitive"
    assert found(30, 15) is None and found(31, 15).kind == "repetitive"


def test_a_twentieth_of_the_lines_that_there_should_be_is_too_few():
    def found(distinct):
        return metrics.degenerate([REFERENCES[n % distinct] for n in range(100)], REFERENCES)

    assert found(5).kind == "constant" and found(6) is None


@pytest.mark.parametrize(("line", "loops"), [("aaaaaaaaaa", True), ("aaaaaaaaa", False)])
def test_a_loop_has_ten_characters_and_half_of_its_line(line, loops):
    for text, expected in [(line, loops), (line + "bcdefghijk", loops), (line + "bcdefghijkl", 0)]:
        found = metrics.degenerate([f"{text}" for _ in range(10)], ["same"] * 10)
        assert (found is not None) == bool(expected), text


def test_a_long_example_is_cut():
    long = metrics.Degenerate("constant", "seen", "x" * 61)
    assert str(long) == f"seen, such as '{'x' * 57}...'"
    assert str(metrics.Degenerate("constant", "seen", "x" * 60)) == f"seen, such as '{'x' * 60}'"


@pytest.mark.parametrize(
    ("metric", "value", "near"),
    [
        ("bleu", 1.99, True),
        ("bleu", 2.0, False),
        ("bleu-tokenised", 0.0, True),
        ("bleu", None, True),
        ("chrf", 0.0, False),
    ],
)
def test_a_bleu_below_two_is_near_zero(metric, value, near):
    assert metrics.near_zero(metric, value) is near
