"""How a training ended: one value, which result.json and records of trials say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pydantic

from augless import schemas, storage
from augless.runs.directory import Run
from augless.runs.files import BadRun
from augless.schemas import Count, Number, Seconds


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
        ended = schemas.parsed(Outcome, storage.encoded(said))
        schemas.check_whole(ended, {"needed": {}, **said})  # which came later
    except ValueError as error:
        raise BadRun(f"{run.folder}: result.json is not ours: {error}") from None
    return ended
