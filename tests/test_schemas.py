"""Files read by their schema: what is wrong is one printable line that names the key."""

import json
import math
from dataclasses import dataclass, field

import pytest

from augless import schemas
from augless.schemas import EXACT, Count, Number, Seconds


@dataclass(frozen=True)
class Inner:
    many: Count = 0
    score: Number = None

    def __post_init__(self):
        if self.many == 13:
            raise ValueError("it is unlucky,\nand says \x1b[31m")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    took: Seconds = 0.0
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    table: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class Exact:
    __pydantic_config__ = EXACT

    share: float
    inner: Inner = Inner()


def test_what_is_written_comes_back_without_its_defaults():
    whole = Outer(name="a", inners=(Inner(3, 0.5), Inner()), table={"x": 1})
    said = schemas.written(whole)
    assert [*said] == ["name", "inners", "table"]
    assert said["inners"][1] == {"many": 0, "score": None}  # what lies deeper is as it is
    assert schemas.parsed(Outer, json.dumps(said)) == whole


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (Outer, '{"took": 1}', "name: it is missing"),
        (Outer, '{"name": 3}', "name: input should be a valid string"),
        (Outer, '{"name": "a", "took": "1"}', "took: input should be a valid number"),
        (Outer, '{"name": "a", "took": -1}', "took: input should be greater than or equal to 0"),
        (Outer, '{"name": "a", "inner": {"many": true}}', "inner.many: input should be a valid"),
        (Outer, '{"name": "a", "inner": {"many": 1.0}}', "inner.many: input should be a valid"),
        (Outer, '{"name": "a", "inner": {"many": 13}}', r"inner: it is unlucky, and says \x1b[31m"),
        (Outer, '{"name": "a", "inners": [{}, []]}', "inners.1: input should be an object"),
        (Outer, '{"name": "a", "table": {"\\u001b[31m": "x"}}', r"table.\x1b[31m: input should be"),
        (Outer, "[]", "input should be an object"),
        (Outer, "{", "invalid JSON"),
        (Outer, "[" * 100_000, "invalid JSON"),
        (Exact, '{"share": 1, "other": 2}', "other: there is no such key"),
        (Exact, '{"share": 1, "inner": {"other": 2}}', "inner.other: there is no such key"),
        (Exact, '{"share": 1e400}', "share: input should be a finite number"),
        (Exact, '{"share": NaN}', "share: input should be a finite number"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_that_names_the_key(kind, content, said):
    with pytest.raises(ValueError) as caught:
        schemas.parsed(kind, content)
    line = str(caught.value)
    assert said in line and line.isprintable() and len(line) < 400


def test_a_key_that_is_not_known_is_ignored_unless_asked_otherwise():
    assert schemas.parsed(Outer, b'{"name": "a", "newer": 1}') == Outer(name="a")


@pytest.mark.parametrize("value", ["1e16", "-1e300", "1e400", "NaN", "null", "9" * 400])
def test_a_number_that_cannot_be_used_is_none(value):
    assert schemas.parsed(Inner, f'{{"score": {value}}}') == Inner(0, None)


def test_a_default_does_not_stand_for_what_a_file_once_said():
    whole = {"name": "a", "took": 1, "inner": {"many": 1, "score": 2}, "inners": [], "table": {}}
    schemas.check_whole(schemas.parsed(Outer, json.dumps(whole)), whole)
    for broken in (whole | {"inner": {"many": 1}}, {k: whole[k] for k in whole if k != "took"}):
        with pytest.raises(ValueError, match=r"the key '(score|took)' is missing"):
            schemas.check_whole(schemas.parsed(Outer, json.dumps(broken)), broken)


def test_what_json_cannot_say_is_null():
    table = {"a": [math.nan, (1, -math.inf)], "b": {"c": 0.5, "d": "nan"}}
    assert schemas.finite(table) == {"a": [None, [1, None]], "b": {"c": 0.5, "d": "nan"}}
