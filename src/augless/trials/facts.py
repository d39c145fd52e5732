"""What is known of a run, typed: its scores, its log, its terms, what tuning chose.

A dataclass here is also the schema of what is read from a file: `parsed` checks every key and type
and says in one line what is wrong. Keys that it does not know are ignored, so that older and newer
files can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from augless.errors import Failure

Kind = TypeVar("Kind")
Values = dict[str, Any]
"""dotted key of a recipe -> value; a table that has a name stands for a whole choice"""

LOSS = "loss"
"""what tuning chooses by unless a metric is asked for: nats per sentence of the validation set,
never weighted; unlike perplexity it is comparable between vocabularies"""

REWRITING = "rewriting"
"""what a run's result calls making its pairs; models that had to be trained for it have names"""

LARGEST = 1e15
"""a number beyond it counts as not finite: sums and squares of it would not be"""


def _usable(value: float | None) -> float | None:
    return value if value is not None and abs(value) <= LARGEST else None


Number = Annotated[float | None, pydantic.AfterValidator(_usable)]
"""None where it is not known or not finite"""
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Seconds = Annotated[float, pydantic.Field(ge=0, le=LARGEST)]


@dataclass(frozen=True)
class Score:
    """A metric of a test set."""

    value: Number
    """None if it is not finite"""
    signature: str


Scores = dict[str, dict[str, Score]]
"""split -> metric -> score"""


@dataclass(frozen=True, kw_only=True)
class TermLog:
    """Statistics of one term's losses and weights since the entry before."""

    loss: Number = None
    weight: Number = None
    weight_sd: Number = None
    weight_spread: Number = None
    """standard deviation of weights over their mean"""
    weight_within_batches: Number = None
    """share of their variance that is within batches, where a control of batches' means has none"""
    weight_min: Number = None
    weight_max: Number = None
    raised: Number = None
    """share of samples with a weight above 1"""
    effective_samples: Number = None
    """effective sample size, as a share of the samples"""
    weight_length_correlation: Number = None
    histogram: Annotated[tuple[Count, ...], pydantic.Field(max_length=10_000)] = ()
    """of losses, in tenths of the mean loss"""
    mean_loss: Number = None
    """running mean"""
    mean_weight: Number = None
    """running mean"""
    gradient_share: Number = None
    """of the term in the gradient norm"""


@dataclass(frozen=True, kw_only=True)
class Logged:
    """An entry of a run's log: after so many steps, or after an epoch and its validation."""

    kind: Literal["interval", "epoch"]
    step: Count
    epoch: Count = 0
    samples: Count = 0
    tokens: Count = 0
    rate: Number = None
    gradient_norm: Number = None
    clipped: Number = None
    """share of the steps whose gradient was clipped"""
    tokens_per_second: Number = None
    terms: tuple[TermLog, ...] = ()
    scores: dict[str, Number] = field(default_factory=dict)
    """of an epoch: on the validation set, and on splits that are watched"""
    seconds: Number = None
    """of an epoch: spent on the run so far"""
    validation: Number = None
    """of an epoch: seconds of its validation"""

    def term(self, place: int) -> TermLog:
        """Return what was logged of a term, nothing if it was not there."""
        return self.terms[place] if place < len(self.terms) else TermLog()


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What work took."""

    seconds: Seconds = 0.0
    samples: Count = 0
    """that training saw"""

    def __add__(self, other: Spent) -> Spent:
        return Spent(seconds=self.seconds + other.seconds, samples=self.samples + other.samples)


@dataclass(frozen=True, kw_only=True)
class Best:
    """The model that a run kept."""

    step: Count = 0
    epoch: Count = 0
    scores: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a finished run took."""

    steps: Count = 0
    epochs: Count = 0
    samples: Count = 0
    tokens: Count = 0
    seconds: Seconds = 0.0
    best: Best = field(default_factory=Best)
    needed: Annotated[dict[str, Spent], pydantic.Field(max_length=100)] = field(
        default_factory=dict
    )
    """what was done before training, by what it was, such as `REWRITING`; older runs have none"""


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
    scale: float = 1.0

    @property
    def weighs(self) -> bool:
        """Whether it gives samples weights of their own, or of their batch."""
        return self.weighting.name != "plain"


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
    """that all of them had, and no final run has"""
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
        tried = [
            {
                "values": one.values,
                "score": one.score,
                "scores": list(one.scores),
                "loss": one.loss,
                "failure": None if one.failure is None else str(one.failure),
                "seconds": one.seconds,
            }
            for one in self.tried
        ]
        return {
            "values": self.best.values if self.best else {},
            "score": self.best.score if self.best else None,
            "by": self.by,
            "seeds": list(self.seeds),
            "tried": tried,
        }


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """Pairs that an augmenter made, as far as other jobs have to know them."""

    pairs: Count
    seconds: Seconds = 0.0
    """that making them took"""
    samples: Count = 0
    """that a model was trained on to make them"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a method took on a corpus, with all that it needs; each piece of work counts once."""

    own: Spent = Spent()
    """training its final runs"""
    prepare: Spent = Spent()
    augment: Spent = Spent()
    tune: Spent = Spent()
    """training what tuning tried, for itself or for the method that it matches"""
    train: Spent = Spent()
    """training other models that it needs"""

    @property
    def before(self) -> Spent:
        """What had to be done before its final runs."""
        return self.prepare + self.augment + self.tune + self.train

    @property
    def total(self) -> Spent:
        """All of it."""
        return self.own + self.before


_TERM = re.compile(r"terms\.(\d{1,3})\.(loss|weighting|scale)(?:\.(.+))?", re.ASCII)


def terms_of(recipe: Mapping[str, Any]) -> tuple[Term, ...]:
    """Return the objective that a recipe's dotted keys and values say."""
    parts: dict[int, dict[str, dict[str, Any]]] = {}
    for key, value in recipe.items():
        if found := _TERM.fullmatch(key):
            part = parts.setdefault(int(found[1]), {}).setdefault(found[2], {})
            part[found[3] or ""] = value
    return tuple(_term(parts[place]) for place in sorted(parts))


def _term(parts: Mapping[str, dict[str, Any]]) -> Term:
    scale = parts.get("scale", {}).get("", 1.0)
    known = isinstance(scale, int | float) and math.isfinite(scale)
    default = Term()
    return Term(
        loss=_component(parts.get("loss", {}), default.loss),
        weighting=_component(parts.get("weighting", {}), default.weighting),
        scale=float(scale) if known else 1.0,
    )


def _component(values: Mapping[str, Any], default: Component) -> Component:
    name = values.get("name")
    knobs = {key: value for key, value in values.items() if key not in ("", "name")}
    return Component(str(name), knobs) if name is not None else default


_ADAPTERS: dict[Any, pydantic.TypeAdapter[Any]] = {}


def parsed(kind: type[Kind], content: Any) -> Kind:
    """Check what a file says, as JSON's values or as its text, against a schema; one line."""
    adapter = pydantic.TypeAdapter(kind) if kind not in _ADAPTERS else _ADAPTERS[kind]
    _ADAPTERS[kind] = adapter  # slow to make
    try:
        if isinstance(content, bytes):
            return adapter.validate_json(content, strict=True)
        return adapter.validate_python(content)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))[:80]
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise ValueError(f"{where}: {said}" if where else said) from None


def last_of(history: Sequence[Logged]) -> Logged | None:
    """Return the last entry of a log, with the last scores that were logged."""
    scores = next((entry.scores for entry in reversed(history) if entry.scores), {})
    return replace(history[-1], scores=scores) if history else None


def history_of(entries: Iterable[Mapping[str, Any]]) -> tuple[Logged, ...]:
    """Return what a run logged."""
    return tuple(parsed(Logged, dict(entry)) for entry in entries)
