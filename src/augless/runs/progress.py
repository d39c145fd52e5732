"""How a training goes, and how it ended: what a run logs, its result, and records of trials say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pydantic

from augless.schemas import Count, Number, Seconds


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What work took."""

    seconds: Seconds = 0.0
    samples: Count = 0
    """pairs that training saw, or texts that were rewritten"""

    def __add__(self, other: Spent) -> Spent:
        return Spent(seconds=self.seconds + other.seconds, samples=self.samples + other.samples)


Needed = Annotated[dict[str, Spent], pydantic.Field(max_length=100)]
"""what was done before training, by what it was, such as `following.REWRITING`"""


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


@dataclass(frozen=True)
class Caution:
    """Something to know before believing a run, measured over an epoch."""

    kind: Literal["weak-term", "clipping"]
    share: Number
    """of the gradient norm, or of the steps"""
    term: Count | None = None
    """which one, counted from 0"""

    def __str__(self) -> str:
        """Say it in one line, with what to do."""
        if self.kind == "weak-term":
            return (
                f"term {self.term} makes {self.share:.2%} of the gradient: it is hardly trained; "
                f"raise terms.{self.term}.scale, or use training.per=token"
            )
        return (
            f"{self.share:.0%} of the steps were clipped, which undoes what the weights of a batch "
            "have in common; raise training.clip, or use training.per=token"
        )


Moment = Literal["interval", "epoch"]


@dataclass(frozen=True, kw_only=True)
class Logged:
    """An entry of a run's log: after so many steps, or after an epoch and its validation.

    A line of metrics.jsonl has its fields in this order, without those that are as by default.
    """

    kind: Moment
    step: Count
    epoch: Count = 0
    samples: Count = 0
    tokens: Count = 0
    rate: Number = None
    gradient_norm: Number = None
    clipped: Number = None
    """share of the steps whose gradient was clipped"""
    terms: tuple[TermLog, ...] = ()
    by_token: tuple[Count, ...] = ()
    """places of the terms whose samples are tokens, not sentences"""
    tokens_per_second: Number = None
    scores: dict[str, Number] = field(default_factory=dict)
    """of an epoch: on the validation set"""
    watched: dict[str, dict[str, Number]] = field(default_factory=dict)
    """of an epoch: split that chooses nothing -> its scores"""
    seconds: Number = None
    """of an epoch: spent on the run so far"""
    validation: Number = None
    """of an epoch: seconds of its validation"""
    needed: Needed = field(default_factory=dict)
    """of an epoch"""
    cautions: tuple[Caution, ...] | None = None
    """of an epoch"""

    def __post_init__(self) -> None:
        # Older runs have watched scores among the others, named such as "test bleu".
        for split, space, name in [key.partition(" ") for key in self.scores]:
            if space:
                score = self.scores.pop(f"{split} {name}")
                self.watched.setdefault(split, {})[name] = score

    def term(self, place: int) -> TermLog:
        """Return what was logged of a term, nothing if it was not there."""
        return self.terms[place] if place < len(self.terms) else TermLog()


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
    needed: Needed = field(default_factory=dict)
