"""What a checkpoint says of a training: schemas, checked when a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pydantic
from torch import Tensor

from augless import knobs, runs, schemas, storage
from augless.schemas import EXACT, Count, Seconds
from augless.training.terms import Criterion


@dataclass
class Position:
    """Where a run is: enough, with the parameters, to resume as if nothing had happened."""

    __pydantic_config__ = EXACT

    step: Count = 0
    """optimiser steps that are done"""
    epoch: Annotated[Count, pydantic.Field(ge=1)] = 1
    """that it is in, counted from 1"""
    batch: Count = 0
    """batches of this epoch that are done"""
    samples: Count = 0
    """pairs that were seen"""
    tokens: Count = 0
    """target tokens that were seen"""
    seconds: Seconds = 0.0
    """that it took"""
    best: float | None = None
    """score of the best model"""
    best_loss: float | None = None
    """validation loss of the best model: of equal scores the lower loss is better"""
    best_step: Count = 0
    """of the best model"""
    waited: Count = 0
    """validations since the best one"""
    records: Count = 0
    """records logged so far"""


@dataclass
class Span:
    """What is summed over steps."""

    __pydantic_config__ = EXACT

    norm: Annotated[float, pydantic.Field(ge=0, le=1e300)] = 0.0
    """of gradients, before clipping"""
    steps: Count = 0
    """how many"""
    clipped: Count = 0
    """steps whose gradient was clipped"""
    shares: list[Annotated[float, pydantic.Field(ge=0, le=1e18)]] = field(default_factory=list)
    """of each term in the gradient norm, summed over measurements"""
    measured: Count = 0
    """steps at which shares were measured"""

    def add(self, norm: float, clipped: bool, shares: list[float]) -> None:
        """Count a step; shares are empty where they were not measured."""
        self.norm, self.steps, self.clipped = (
            self.norm + norm,
            self.steps + 1,
            self.clipped + clipped,
        )
        if shares:
            self.measured += 1
            before = self.shares or [0.0] * len(shares)
            self.shares = [a + b for a, b in zip(before, shares, strict=True)]

    def mean_shares(self, terms: int) -> list[float | None]:
        """Return each term's share of the gradient norm; None where it was not measured."""
        if terms == 1:
            return [1.0]
        return [s / self.measured for s in self.shares] if self.measured else [None] * terms


@dataclass(frozen=True, kw_only=True)
class State:
    """What state.json of a checkpoint says."""

    __pydantic_config__ = EXACT

    position: Position
    """where the run is"""
    objectives: dict[str, Any]
    """running means and sums of the terms"""
    recent: Span
    """since the last record"""
    epoch: Span
    """since the epoch began"""


def read(checkpoint: runs.Checkpoint, criterion: Criterion) -> State:
    """Check what a checkpoint says, and give the terms their part; `runs.BadRun` says what not."""
    try:
        state = schemas.parsed(State, storage.encoded(checkpoint.state))
        schemas.check_whole(state, checkpoint.state)
        if state.position.step != checkpoint.step:
            raise ValueError(f"it is of step {state.position.step}")
        for span in (state.recent, state.epoch):
            if len(span.shares) not in (0, len(criterion.terms)):
                raise ValueError(f"{len(span.shares)} shares are not one for each term")
            if bool(span.shares) != bool(span.measured):
                raise ValueError("shares were summed but not measured")
        criterion.load_state_dict(state.objectives)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        reason = " ".join(str(error).split())[:300]
        raise runs.BadRun(
            f"the checkpoint of step {checkpoint.step} is not ours: state.json: {reason}\n"
            "train in another folder"
        ) from None
    return state


def check_entries(
    tensors: Mapping[str, Tensor], parameters: Mapping[str, Tensor], entries: tuple[str, ...]
) -> None:
    """Refuse what an optimiser does not keep, or of another shape; `entries` of each parameter."""
    kept: dict[str, list[str]] = {}
    for key, tensor in tensors.items():
        name, _, entry = key.rpartition("/")
        ours = tuple(parameters[name].shape) if name in parameters else None
        shape = () if entry == "step" else ours
        if ours is None or entry not in entries or tuple(tensor.shape) != shape:
            raise runs.BadRun(f"the optimiser keeps no {knobs.shown(key)} {tuple(tensor.shape)}")
        if not tensor.is_floating_point():
            raise runs.BadRun(f"{knobs.shown(key)} of the optimiser is not of floating point")
        kept.setdefault(name, []).append(entry)
    if uneven := [name for name, these in kept.items() if len(these) != len(entries)]:
        raise runs.BadRun(f"the optimiser's memory of {knobs.shown(uneven[0])} is not whole")
