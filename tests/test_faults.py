"""Outputs from which nothing may be claimed."""

import random

import pytest

from augless import metrics

SOURCES = [f"satz nummer {n} von vielen" for n in range(100)]
REFERENCES = [f"sentence number {n} of many" for n in range(100)]


def test_good_outputs_pass():
    assert metrics.degenerate(REFERENCES, REFERENCES, SOURCES) is None
    assert metrics.degenerate([*reversed(REFERENCES)], REFERENCES, SOURCES) is None
    assert metrics.unrelated(REFERENCES, REFERENCES) is None


DRAWN = random.Random(1)
WORDS = ["".join(DRAWN.choices("abdefgiklmnorstu", k=5)) for _ in range(100)]
SAID = ["the {} sees a {} near {}".format(*DRAWN.sample(WORDS, 3)) for _ in range(150)]


@pytest.mark.parametrize(
    "outputs",
    [
        [f"a man in a {word} shirt stands here" for word in DRAWN.choices(WORDS, k=150)],
        [*reversed(SAID)],  # in a wrong order
        [*SAID[1:], SAID[0]],
        ["a the a a the the"] * 150,
    ],
)
def test_outputs_that_have_nothing_to_do_with_their_references_are_found(outputs):
    fault = metrics.unrelated(outputs, SAID)
    assert fault.kind == "unrelated"
    assert "150 outputs fit the references of other lines as well as their own" in str(fault)


def test_outputs_that_have_something_to_do_with_their_references_pass():
    words = (line.split()[1] for line in SAID)
    weak = [f"a {word} is here" if n % 4 == 0 else "i see" for n, word in enumerate(words)]
    assert metrics.unrelated(weak, SAID) is None
    assert metrics.unrelated(SAID[:9], [*reversed(SAID[:9])]) is None, "too few lines to tell"
    assert metrics.unrelated(["yes"] * 150, ["no"] * 150) is None, "there is but one reference"
    labels = ["good" if n % 3 else "bad" for n in range(100)]
    assert metrics.unrelated(labels, labels) is None
    assert metrics.unrelated(["good"] * 100, labels).kind == "unrelated"
    assert metrics.unrelated([""] * 100, SAID[:100]).kind == "unrelated"


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
    fault = metrics.degenerate([""] * 48 + REFERENCES[48:], REFERENCES, SOURCES)
    assert fault is not None and fault.kind == "empty"
    assert str(fault) == "48 of 100 outputs are empty"


@pytest.mark.parametrize(
    "tail",
    [
        " a a a a a a a a",
        ",,,,,,,,,,,,,,,",
        " the cat" * 9,
        " However" * 4,
        " in a white shirt" * 3,
        " a man in a blue shirt stands next to another man in a green shirt" * 3,
    ],
)
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


def test_more_than_a_fifth_of_the_outputs_are_empty_and_more_than_twice_the_references():
    def found(outputs, references):
        return metrics.degenerate(
            [" "] * outputs + REFERENCES[outputs:], [""] * references + REFERENCES[references:]
        )

    assert found(20, 0) is None and found(21, 0).kind == "empty"
    assert found(60, 30) is None and found(61, 30).kind == "empty"


def test_more_than_three_tenths_are_one_line_and_more_than_twice_that_of_the_references():
    def found(outputs, references=0):
        return metrics.degenerate(
            ["yes"] * outputs + REFERENCES[outputs:], ["no"] * references + REFERENCES[references:]
        )

    assert found(30) is None and found(31).kind == "constant"
    assert str(found(90)) == "90 of 100 outputs are one and the same line, such as 'yes'"
    assert found(50, 25) is None and found(51, 25).kind == "constant"


def test_a_dialogue_model_of_143_answers_to_1000_queries_passes_and_on_more_queries_too():
    shares = [1 / (rank + 1) for rank in range(143)]  # Zipf's law
    for count in (1000, 10_000):
        lines = [
            f"answer {rank}"
            for rank, share in enumerate(shares)
            for _ in range(max(1, round(count * share / sum(shares))))
        ]
        assert metrics.degenerate(lines, list(map(str, range(len(lines))))) is None


def test_without_references_sources_or_the_number_of_lines_are_compared_with():
    one, few = ["yes"] * 99 + ["no"], [f"{n % 6}" for n in range(100)]
    for sources in (None, SOURCES):
        assert metrics.degenerate(one, sources=sources).kind == "constant"
        assert metrics.degenerate(few, sources=sources).kind == "constant"
        assert metrics.degenerate(REFERENCES, sources=sources) is None
    assert metrics.degenerate(one, sources=["same"] * 100) is None


def test_more_than_a_fifth_of_the_outputs_repeat_themselves_and_more_than_twice_the_references():
    looping = [f"{n} a a a a a a a a" for n in range(100)]

    def found(outputs, references):
        return metrics.degenerate(
            looping[:outputs] + REFERENCES[outputs:], looping[:references] + REFERENCES[references:]
        )

    assert found(20, 0) is None and found(21, 0).kind == "repetitive"
    assert found(30, 15) is None and found(31, 15).kind == "repetitive"


def test_a_tenth_of_the_lines_that_there_should_be_is_too_few():
    def found(distinct):
        return metrics.degenerate([REFERENCES[n % distinct] for n in range(100)], REFERENCES)

    assert found(10).kind == "constant" and found(11) is None
    assert str(found(1)).startswith("100 outputs have only 1 different line, such as")


@pytest.mark.parametrize(("line", "loops"), [("aaaaaaaaaa", True), ("aaaaaaaaa", False)])
def test_a_loop_has_ten_characters_and_half_of_its_line(line, loops):
    for text, expected in [(line, loops), (line + "bcdefghijk", loops), (line + "bcdefghijkl", 0)]:
        found = metrics.degenerate([f"{text}" for _ in range(10)], ["same"] * 10)
        assert (found is not None) == bool(expected), text


def test_a_short_line_that_is_nothing_but_a_loop_is_found():
    assert metrics.degenerate(["I I I I"] * 10, ["same"] * 10).kind == "repetitive"
    assert metrics.degenerate(["I I I"] * 10, ["same"] * 10) is None
    assert metrics.degenerate(["no, I I I I"] * 10, ["same"] * 10) is None


def test_the_example_of_a_repetition_is_what_is_repeated():
    lines = [f"a man number {n} stands" + " in a hat" * 6 for n in range(100)]
    assert str(metrics.degenerate(lines, REFERENCES)).endswith(f"such as '{' in a hat' * 6}'")


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
