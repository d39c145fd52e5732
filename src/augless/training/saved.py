"""What a checkpoint says of a training: schemas, checked when a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from torch import Tensor

from augless import knobs, runs
from augless.knobs import Knobs, Within
from augless.training.terms import Criterion

_LARGEST_COUNT = 1 << 62
_LARGEST = 1e300


@dataclass
class Position(Knobs):
    """Where a run is: enough, with the parameters, to go on as if nothing had happened."""

    step: Annotated[int, "optimiser steps that are done", Within(0, _LARGEST_COUNT)] = 0
    epoch: Annotated[int, "that it is in, counted from 1", Within(1, _LARGEST_COUNT)] = 1
    batch: Annotated[int, "batches of this epoch that are done", Within(0, _LARGEST_COUNT)] = 0
    samples: Annotated[int, "pairs that were seen", Within(0, _LARGEST_COUNT)] = 0
    tokens: Annotated[int, "target tokens that were seen", Within(0, _LARGEST_COUNT)] = 0
    seconds: Annotated[float, "that it took", Within(0, 1e12)] = 0.0
    best: Annotated[float | None, "score of the best model"] = None
    best_loss: Annotated[
        float | None, "validation loss of the best model: of equal scores the lower loss is better"
    ] = None
    best_step: Annotated[int, "of the best model", Within(0, _LARGEST_COUNT)] = 0
    waited: Annotated[int, "validations since the best one", Within(0, _LARGEST_COUNT)] = 0
    records: Annotated[int, "records logged so far", Within(0, _LARGEST_COUNT)] = 0


@dataclass
class Span(Knobs):
    """What is summed over steps."""

    norm: Annotated[float, "of gradients, before clipping", Within(0, _LARGEST)] = 0.0
    steps: Annotated[int, "how many", Within(0, _LARGEST_COUNT)] = 0
    clipped: Annotated[int, "steps whose gradient was clipped", Within(0, _LARGEST_COUNT)] = 0
    shares: Annotated[
        list[float], "of each term in the gradient norm, summed over measurements", Within(0, 1e18)
    ] = field(default_factory=list)
    measured: Annotated[int, "steps at which shares were measured", Within(0, _LARGEST_COUNT)] = 0

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
class State(Knobs):
    """What state.json of a checkpoint says."""

    position: Annotated[Position, "where the run is"]
    objectives: Annotated[dict[str, Any], "running means and sums of the terms"]
    recent: Annotated[Span, "since the last record"]
    epoch: Annotated[Span, "since the epoch began"]


def read(checkpoint: runs.Checkpoint, criterion: Criterion) -> State:
    """Check what a checkpoint says, and give the terms their part; `runs.BadRun` says what not."""
    try:
        state = knobs.build(State, checkpoint.state)
        for key in ("position", "recent", "epoch"):
            knobs.check_whole(Position if key == "position" else Span, checkpoint.state[key])
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
