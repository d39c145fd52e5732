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
