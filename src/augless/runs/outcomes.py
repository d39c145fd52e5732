"""How a training ended: one value, which result.json and records of trials say.

A dataclass with these types is also the schema of what is read from a file: `parsed` checks every
key and type and says in one line what is wrong. Keys that it does not know are ignored, so that
older and newer files can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypeVar

import pydantic

from augless import storage
from augless.runs.directory import Run
from augless.runs.schemas import BadRun

Kind = TypeVar("Kind")

LARGEST = 1e15
"""a number beyond it counts as not finite: sums and squares of it would not be"""


def _usable(value: float | None) -> float | None:
    return value if value is not None and abs(value) <= LARGEST else None


Number = Annotated[float | None, pydantic.AfterValidator(_usable)]
"""None where it is not known or not finite"""
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Seconds = Annotated[float, pydantic.Field(ge=0, le=LARGEST)]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What work took."""

    seconds: Seconds = 0.0
    samples: Count = 0
    """pairs that training saw, or texts that were rewritten"""

    def __add__(self, other: Spent) -> Spent:
        return Spent(seconds=self.seconds + other.seconds, samples=self.samples + other.samples)


@dataclass(frozen=True, kw_only=True)
class Best:
    """The model that a run kept."""

    step: Count = 0
    epoch: Count = 0
    scores: dict[str, Number] = field(default_factory=dict)
    """on the validation set"""


@dataclass(frozen=True, kw_only=True)
class Outcome(Spent):
    """How a training ended, and what it took."""

    steps: Count = 0
    epochs: Count = 0
    tokens: Count = 0
    best: Best = field(default_factory=Best)
    needed: Annotated[dict[str, Spent], pydantic.Field(max_length=100)] = field(
        default_factory=dict
    )
    """what was done before training, by what it was, such as `following.REWRITING`"""


def outcome(run: Run) -> Outcome | None:
    """Return how a training ended, or None if it has not; what a run of ours says is whole."""
    if (said := run.result) is None:
        return None
    try:
        ended = parsed(Outcome, storage.encoded(said))
        for kind, table in ((Outcome, said), (Best, said.get("best", {}))):
            names = [one.name for one in fields(kind) if one.name != "needed"]  # it came later
            if absent := [name for name in names if name not in table]:
                raise ValueError(f"the key {absent[0]!r} is missing")
    except ValueError as error:
        raise BadRun(f"{run.folder}: result.json is not ours: {error}") from None
    return ended


_ADAPTERS: dict[Any, pydantic.TypeAdapter[Any]] = {}


def parsed(kind: type[Kind], content: Any) -> Kind:
    """Check what a file says, as JSON's values or as its text, against a schema; one line."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = pydantic.TypeAdapter(kind)  # slow to make
    adapter: pydantic.TypeAdapter[Kind] = _ADAPTERS[kind]
    try:
        if isinstance(content, bytes):
            return adapter.validate_json(content, strict=True)
        return adapter.validate_python(content)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))[:80]
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise ValueError(f"{where}: {said}" if where else said) from None
