"""What is known of a run, typed: its scores, its terms, what tuning chose.

A dataclass here is also the schema of what is read from a file; see `schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import pydantic

from augless.errors import Failure
from augless.runs import Spent
from augless.schemas import LARGEST, Count, Number

Values = dict[str, Any]
"""dotted key of a recipe -> value; a table that has a name stands for a whole choice"""

LOSS = "sentence-loss"
"""what tuning chooses by unless a metric is asked for: nats per sentence of the validation set,
never weighted; unlike perplexity it is comparable between vocabularies"""


@dataclass(frozen=True)
class Score:
    """A metric of a test set."""

    value: Number
    """None if it is not finite"""
    signature: str


Scores = dict[str, dict[str, Score]]
"""split -> metric -> score"""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A file that a corpus was read from."""

    name: str
    bytes: Count
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Component:
    """A choice of a recipe: its name and its knobs."""

    name: str
    knobs: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """A term of a recipe's objective."""

    loss: Component = Component("cross-entropy")
    weighting: Component = Component("plain")
    weighed_by: str = "loss"
    scale: float = 1.0

    @property
    def weighs(self) -> bool:
        """Whether it gives samples weights of their own, or of their batch."""
        return self.weighting.name != "plain"

    @property
    def normalised(self) -> bool:
        """Whether its weights have a mean of 1, so that they are no learning rate."""
        norms = (self.weighting.knobs.get(key) for key in ("normalise", "of.normalise"))
        return "running-mean" in norms

    @property
    def by_token(self) -> bool:
        """Whether its samples are tokens, not sentences."""
        return bool(self.loss.knobs.get("per") == "token")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A combination of hyper-parameters that tuning tried."""

    values: Values
    score: float | None
    """on the validation set, the mean over seeds; None if a run failed, or a score is not finite"""
    scores: tuple[float | None, ...] = ()
    """of each seed"""
    loss: float | None = None
    """validation loss, the mean over seeds; of equal scores the lower loss wins"""
    failure: Failure | None = None
    """of the first seed whose run failed"""
    seconds: float | None = None
    """of training, all seeds together"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What tuning chose for a method on a corpus."""

    best: Attempt | None
    """None if every run failed"""
    by: str
    """`LOSS`, or the name of a metric"""
    seeds: tuple[int, ...]
    """seeds of tuning; no final run uses them"""
    tried: tuple[Attempt, ...]

    @property
    def failed(self) -> list[Attempt]:
        """The combinations that could not be chosen because a run failed."""
        return [attempt for attempt in self.tried if attempt.failure is not None]

    @property
    def seconds(self) -> float:
        """What trying all of them took."""
        return sum(attempt.seconds or 0.0 for attempt in self.tried)

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON can say."""
        best = self.best or Attempt(values={}, score=None)
        tried = [asdict(one) | {"failure": one.failure and str(one.failure)} for one in self.tried]
        chosen = {"values": best.values, "score": best.score}
        return {**chosen, "by": self.by, "seeds": self.seeds, "tried": tried}


Part = Literal["own", "prepare", "augment", "tune", "train", "other"]
"""what costs consist of: training the final runs; preparing; making pairs; training what tuning
tried, for the method or for the one that it matches; training other models that it needs; kinds of
work that were added"""


@dataclass(frozen=True)
class Cost:
    """What a method took on a corpus, with all that it needs; each piece of work counts once."""

    parts: dict[Part, Spent] = field(default_factory=dict)

    def __getitem__(self, part: Part) -> Spent:
        """Return what a part took."""
        return self.parts.get(part, Spent())

    @property
    def total(self) -> Spent:
        """All of it."""
        return sum(self.parts.values(), Spent())


def terms_of(recipe: Mapping[str, Any]) -> tuple[Term, ...]:
    """Return the objective that a recipe's dotted keys and values say."""
    terms: dict[str, Values] = {}
    for key, value in recipe.items():
        match key.split(".", 2):
            case ["terms", place, knob] if place.isascii() and place.isdecimal():
                terms.setdefault(place, {})[knob] = value
    return tuple(_term(terms[place]) for place in sorted(terms, key=lambda p: (len(p), p)))


def _term(values: Values) -> Term:
    scale = values.get("scale")
    return Term(
        loss=component(values, "loss") or Term.loss,
        weighting=component(values, "weighting") or Term.weighting,
        weighed_by=str(values.get("weighed_by", Term.weighed_by)),
        scale=float(scale) if isinstance(scale, int | float) and abs(scale) <= LARGEST else 1.0,
    )


def component(recipe: Mapping[str, Any], key: str) -> Component | None:
    """Return the choice of a key; None where nothing is chosen."""
    prefix = f"{key}."
    knobs = {k.removeprefix(prefix): v for k, v in recipe.items() if k.startswith(prefix)}
    name = knobs.pop("name", None)
    return None if name is None else Component(str(name), knobs)
