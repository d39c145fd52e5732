"""What the paper's weightings are compared with: their weights without their meaning."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from augless.knobs import Among, Within
from augless.polar import tables
from augless.polar.weightings import (
    Exponential,
    InUnits,
    Plain,
    Unit,
    Weighting,
    require,
)


@dataclass(frozen=True, kw_only=True)
class Falling(InUnits):
    """The mirror image of `exponential`: easy samples weigh most. **Not the paper's.**

    w falls from 1 + strength at L = 0 to 1, as far as the law rises: w + law's w = 2 + strength. No
    law of neighbours gives such weights; it is there to ask whether the paper's sign is right.
    """

    radius: Annotated[
        float, "how far neighbours of its mirror image lie, in units of `unit`", Within(1e-6, 1e6)
    ] = 1.0
    unit: Annotated[Unit, "what losses and radii are measured in"] = "mean-loss"
    strength: Annotated[float, "how much more than 1 the easiest sample weighs", Within(0, 1e6)] = (
        1.0
    )

    falls: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "not the paper's: samples with a low loss weigh more, up to {most:g} times as much"
    )

    def curve(self, relative: Tensor) -> Tensor:
        """Return 1 + strength · (1 - dE[Φ]/dL)."""
        return 1 + self.strength * (1 - self._table(relative).slope(relative))

    def area(self, relative: Tensor) -> Tensor:
        """Return u - strength · (E[Φ] - u)."""
        return relative - self.strength * self._table(relative).excess(relative)

    def unit_loss(self, scale: float) -> float:
        """Return the radius in units of loss."""
        return self.radius * super().unit_loss(scale)

    def _table(self, like: Tensor) -> tables.Table:
        return tables.tabulate(Exponential.radii, 2, like.device, like.dtype)


@dataclass(frozen=True, kw_only=True)
class Staged(Weighting):
    """One weighting at first, another later: a law that sets in late. **Not the paper's.**

    An `Objective` counts the samples, as much as their pairs weigh, and forgets the mean weight
    when it changes from one to the other. Called by itself it is the later one.
    """

    summary: ClassVar[str] = "{first} at first, then {then}: from {after:,} samples on"

    first: Annotated[Weighting, "the weighting at first", Among("polar.WEIGHTINGS")] = field(
        default_factory=Plain
    )
    then: Annotated[Weighting, "the weighting later", Among("polar.WEIGHTINGS")] = field(
        default_factory=Exponential
    )
    after: Annotated[
        int, "samples before the later one sets in: pairs, or tokens if they are", Within(0, 10**12)
    ] = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = (self.first, self.then)
        simple = not any(isinstance(part, Staged | Control) for part in parts)
        require(
            simple, "first and then are no controls and not staged; a control may be `of` staged"
        )
        _ = self._stages  # measured neighbours are read now, not when their turn comes

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the weights of the later one: (B,) -> (B,), detached."""
        return self.of_stage(1)(losses, scale)

    def evaluate(self, losses: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """Return weights and transformed losses of the later one, (B,) each."""
        return self.of_stage(1).evaluate(losses, scale)

    def stage(self, samples: float) -> int:
        """Return 0 at first, 1 later."""
        return int(samples >= self.after)

    def of_stage(self, stage: int) -> Weighting:
        """Return the one whose turn it is, with the clip and the norm of both."""
        return self._stages[stage]

    @functools.cached_property
    def _stages(self) -> tuple[Weighting, Weighting]:
        def joined(one: Weighting) -> Weighting:
            low, high = (min(max(level, self.clip[0]), self.clip[1]) for level in one.clip)
            normalise = self.normalise if self.normalised else one.normalise
            return replace(one, clip=(low, high), normalise=normalise)

        return joined(self.first), joined(self.then)

    @property
    def needs_scale(self) -> bool:
        """Tell whether the later one depends on the mean loss."""
        return self.then.needs_scale


@dataclass(frozen=True, kw_only=True)
class Control(Weighting):
    """The weights of another weighting, given to samples regardless of their own loss.

    An `Objective` knows more than the batch at hand; called by itself a control does what it can.
    """

    of: Annotated[Weighting, "the weighting that is controlled for", Among("polar.WEIGHTINGS")] = (
        field(default_factory=Exponential)
    )

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the mean weight of the batch B times: (B,) -> (B,), detached."""
        return self.shared(self.of(losses, scale).mean(), losses)

    def evaluate(self, losses: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """Return weights, and weight x loss, (B,) each."""
        weights = self(losses, scale)
        return weights, weights * losses

    def shared(self, weights: Tensor, losses: Tensor) -> Tensor:
        """Return weights, or one for all of them, clipped, for each of the losses."""
        return weights.clamp(*self.clip).expand(losses.shape)

    def stage(self, samples: float) -> int:
        """Tell which stage the other weighting is in."""
        return self.of.stage(samples)

    def of_stage(self, stage: int) -> Weighting:
        """Return the control of what the other weighting is in a stage."""
        of = self.of.of_stage(stage)
        return self if of is self.of else replace(self, of=of)

    @property
    def needs_scale(self) -> bool:
        """Tell whether the other weighting depends on the mean loss."""
        return self.of.needs_scale

    @property
    def normalised(self) -> bool:
        """Tell whether it, or the other weighting, is normalised: the control must be too."""
        return super().normalised or self.of.normalised


@dataclass(frozen=True, kw_only=True)
class Matched(Control):
    """The learning rate of each batch: every sample gets the mean weight of its batch.

    It moves the parameters as fast as that weighting does but prefers no sample of a batch. Between
    batches its weight differs: where batches are of one length most of the weights' spread is of
    that kind, so that it keeps 86 to 97 % of the treatment. `shuffled` keeps none.
    """

    summary: ClassVar[str] = (
        "a control: every sample of a batch gets the mean weight that {of} gives the batch"
    )


@dataclass(frozen=True, kw_only=True)
class Averaged(Control):
    """A pure learning rate: every sample gets the running mean weight of another weighting."""

    summary: ClassVar[str] = (
        "a control: every sample gets the running mean weight of {of}, a learning rate"
    )


@dataclass(frozen=True, kw_only=True)
class Shuffled(Control):
    """The same weights on other samples: same mean, spread and effective sample size.

    An `Objective` gives each weight, once, to a sample of a later batch, drawn among the last
    `window` ones; until there are so many, weights are one.
    """

    summary: ClassVar[str] = "a control: the weights of {of}, given to other samples at random"

    window: Annotated[
        int,
        "samples among which weights are shuffled, many batches of them; of tokens ten times more",
        Within(1, 10**7),
    ] = 1000

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the weight of another sample of the batch: (B,) -> (B,), detached."""
        return self.shared(self.of(losses, scale).roll(1), losses)


class Window:
    """The weights that wait to be given to a sample, each once; which, is keyed by the step.

    With several ranks all hold the same weights: sample j of rank r is the (j · ranks + r)-th of
    its step.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.weights: list[float] = []
        self.step = 0
        self._taken = 0  # by this rank, in this step

    def take(self, count: int, rank: int, ranks: int) -> list[float] | None:
        """Take the weights of the next samples of a rank; None as long as there are too few."""
        if len(self.weights) < self.size:
            return None
        order, first = self._order(), self._taken
        self._taken += count
        places = ((j * ranks + rank) % self.size for j in range(first, first + count))
        return [self.weights[order[place]] for place in places]

    def turn(self, fresh: Sequence[Sequence[float]]) -> None:
        """End a step: each rank's own weights take the places of those that it took."""
        ranks = len(fresh)
        placed = {j * ranks + r: w for r, ws in enumerate(fresh) for j, w in enumerate(ws)}
        if len(self.weights) < self.size:
            self.weights = (self.weights + [placed[k] for k in sorted(placed)])[-self.size :]
        else:
            order = self._order()
            for k, weight in placed.items():
                self.weights[order[k % self.size]] = weight
        self.step, self._taken = self.step + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the weights that wait, and the step."""
        return {"weights": self.weights, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if not isinstance(state, dict) or state.keys() != self.state_dict().keys():
            raise ValueError("the weights that wait have other keys than weights, step")
        weights, step = state["weights"], state["step"]
        numbers = isinstance(weights, list) and all(type(w) in (int, float) for w in weights)
        if not numbers or len(weights) > self.size or not all(0 <= w < math.inf for w in weights):
            raise ValueError(f"the weights that wait are not at most {self.size} numbers")
        if type(step) is not int or not 0 <= step < 1 << 62:
            raise ValueError("the step of the weights that wait is no count")
        self.weights, self.step, self._taken = [*weights], step, 0

    def _order(self) -> NDArray[np.int64]:
        return np.random.Generator(np.random.PCG64([self.seed, self.step])).permutation(self.size)
