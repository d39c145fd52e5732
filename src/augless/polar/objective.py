"""A weighting in somebody's training loop."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from augless import ranks as processes
from augless.polar.controls import Averaged, Control, Shuffled, Window
from augless.polar.weightings import Weighting, check_losses, result_type, work_type

PATIENCE = 8
"""batches without a step of the optimiser, after which it is asked whether it is the right one"""
LONG_PATIENCE = 32
"""the same where whoever calls `step` has no optimiser to be wrong about"""


class Objective:
    """A weighting with its two running means, for any PyTorch loop.

    `shuffled` has its window beside them, and `staged` the number of samples.

    Give it the optimiser and call it on unreduced losses; it returns what to call backward() on.
    The means move once per optimiser step, from sums over all micro-batches and all ranks, so
    gradient accumulation and torch.distributed change nothing; every rank must take every step
    (and, for `matched`, make every call). As always when accumulating, divide what it returns by
    the number of micro-batches; for batches of unequal sizes reduce `per_sample` yourself.

    Until a mean that the weighting needs is known, weights are one: that is the first step for the
    mean loss, and one more for `normalise="running-mean"`, which `staged` learns anew. Losses
    without a gradient (validation) leave the means alone. A copy of the optimiser does not move
    them: attach a new objective to it.
    """

    def __init__(
        self,
        weighting: Weighting,
        optimizer: torch.optim.Optimizer | None,
        *,
        memory: float = 100.0,
        ranks: processes.Ranks | None = None,
        seed: int = 0,
    ) -> None:
        """Attach to an optimiser; with None, call `step` yourself after each optimiser step.

        memory is the number of steps over which the running means forget; ranks are those that
        share a step, all that torch.distributed knows of unless given; seed is of `shuffled`.
        """
        if not isinstance(weighting, Weighting):
            example = 'polar.WEIGHTINGS["exponential"](radius=1.0)'
            raise TypeError(f"weighting is {weighting!r}; give a weighting, such as {example}")
        if memory < 1:
            raise ValueError(f"memory is {memory}; it must be at least one step")
        self.weighting = weighting
        self.memory = memory
        self._ranks = ranks
        self._samples = 0.0  # that it has learnt from, kept for `staged` only
        self._stage = weighting.stage(0.0)
        self._now = weighting.of_stage(self._stage)
        self.mean_loss: float | None = None
        self.mean_weight: float | None = None
        self.weights: Tensor | None = None
        """(B,) what the samples of the last call were weighed by, detached."""
        self._sums: Tensor | None = None  # of losses, their number, weights, their number
        self._calls = 0  # with a gradient, since the last step
        self._patience = LONG_PATIENCE if optimizer is None else PATIENCE
        self._window: Window | None = None
        if isinstance(weighting, Shuffled):
            self._window = Window(weighting.window, seed)
        self._fresh: list[Tensor] = []  # weights that enter the window with the next step
        if optimizer is not None:
            optimizer.register_step_post_hook(lambda *_: self.step())

    def __call__(self, losses: Tensor) -> Tensor:
        """Return the mean transformed loss: (B,) -> (), its gradient the weighted mean."""
        values = self.per_sample(losses)
        return values.sum() / max(1, len(values))  # of an empty batch 0, not NaN

    def per_sample(self, losses: Tensor, counts: Tensor | None = None) -> Tensor:
        """Return the transformed losses, (B,) -> (B,), for a reduction of your own.

        counts, (B,), says as how many samples each counts in the means: a pair's own weight. What
        is returned is not multiplied by it.
        """
        learning = losses.requires_grad and torch.is_grad_enabled()
        counts = torch.ones_like(losses.detach()) if counts is None else counts
        own, weights, values = self._evaluate(losses, counts, learning)
        if learning:
            self._remember(losses, counts, own)
        normalised = self._now.normalised
        if weights is None or (normalised and self.mean_weight is None):
            self.weights = torch.ones_like(losses.detach(), dtype=result_type(losses))
            return losses.to(result_type(losses))
        # A mean weight of 0 only if every weight was.
        mean = (self.mean_weight if normalised else None) or 1.0
        self.weights = weights.detach() / mean
        return values / mean

    def step(self) -> None:
        """Move the running means; an optimiser given at the start does it by itself."""
        ranks = self.ranks
        if self._sums is None and ranks.count == 1:
            return
        # A rank without losses in this step takes part all the same: the others wait for it.
        nothing = torch.zeros(4, dtype=torch.float64)
        pending = nothing if self._sums is None else self._sums
        losses, samples, weights, weighted = ranks.sum(pending).tolist()
        self._sums, self._calls = None, 0
        self.mean_loss = self._moved(self.mean_loss, losses, samples)
        self.mean_weight = self._moved(self.mean_weight, weights, weighted)
        if self._window is not None:
            fresh = torch.cat([torch.zeros(0), *self._fresh]).double().cpu()
            self._window.turn([each.tolist() for each in ranks.gather(fresh)])
            self._fresh = []
        self._count(self._samples + samples)

    @property
    def ranks(self) -> processes.Ranks:
        """The ranks that share a step: asked for again, as they may have started by now."""
        return self._ranks or processes.here()

    def state_dict(self) -> dict[str, Any]:
        """Return the two running means, and what `shuffled` and `staged` need; between steps."""
        state: dict[str, Any] = {"mean_loss": self.mean_loss, "mean_weight": self.mean_weight}
        if self._window is not None:
            state["window"] = self._window.state_dict()
        staged = self.weighting.stage(0.0) != self.weighting.stage(math.inf)
        return state | ({"samples": self._samples} if staged else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if state.keys() != self.state_dict().keys():
            wanted = ", ".join(self.state_dict())
            raise ValueError(f"the state of an objective has other keys than {wanted}")
        means = state["mean_loss"], state["mean_weight"]
        if any(mean is not None and not _is_mean(mean) for mean in means):
            raise ValueError("a running mean is no finite number, at least 0")
        if not _is_mean(samples := state.get("samples", 0.0)):
            raise ValueError("the number of samples is no finite number, at least 0")
        self._count(samples)
        self.mean_loss, self.mean_weight = means
        if self._window is not None:
            self._window.load_state_dict(state["window"])
        self._sums, self._fresh = None, []

    def _count(self, samples: float) -> None:
        """Know how many samples there were; in a new stage weights of the old one are forgotten."""
        self._samples, stage = samples, self.weighting.stage(samples)
        if stage == self._stage:
            return
        self._stage, self._now = stage, self.weighting.of_stage(stage)
        self.mean_weight = None
        if self._window is not None:
            self._window.weights = []

    def _evaluate(
        self, losses: Tensor, counts: Tensor, learning: bool
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return weights to remember, weights to give, if known yet, and transformed losses."""
        weighting = self._now
        if weighting.needs_scale and self.mean_loss is None:
            check_losses(losses)
            return None, None, losses
        scale = 1.0 if self.mean_loss is None else self.mean_loss
        if not isinstance(weighting, Control) or not learning:
            weights, values = weighting.evaluate(losses, scale)
            return weights, weights, values
        own = weighting.of(losses, scale)
        given = self._given(own, counts)
        if given is None:
            return own, None, losses
        weights = weighting.shared(given.to(own), losses)
        return own, weights, weights * losses

    def _given(self, own: Tensor, counts: Tensor) -> Tensor | None:
        """Return the weights that a control gives, or one for all samples; None if not known."""
        if isinstance(self._now, Averaged):
            return None if self.mean_weight is None else torch.tensor(self.mean_weight)
        ranks = self.ranks
        if self._window is not None:
            self._fresh.append(own)
            taken = self._window.take(len(own), ranks.rank, ranks.count)
            return None if taken is None else torch.tensor(taken, dtype=torch.float64)
        # `matched`: the mean over all ranks' samples, not over this rank's.
        counts = counts.to(own)
        total = ranks.sum(torch.stack([(counts * own).sum(), counts.sum()]))
        return total[0] / total[1].clamp(min=1e-30)  # every pair of weight 0: nothing depends on it

    def _remember(self, losses: Tensor, counts: Tensor, weights: Tensor | None) -> None:
        values = losses.detach().to(work_type(losses))
        counts = counts.to(values)
        count = counts.sum()
        weighted = (0 * count, 0 * count)
        if weights is not None:
            weighted = ((counts * weights.to(values)).sum(), count)
        sums = torch.stack([(counts * values).sum(), count, *weighted])
        self._sums = sums if self._sums is None else self._sums + sums
        self._calls += 1
        if self._calls == self._patience + 1:
            warnings.warn(
                f"{self._patience} batches without an optimiser step: the running means stand "
                "still. Give Objective the optimiser that steps, or call its step(). "
                "If gradients are accumulated over so many batches, all is well.",
                stacklevel=4,
            )

    def _moved(self, mean: float | None, total: float, count: float) -> float | None:
        if not count:
            return mean
        return total / count if mean is None else mean + (total / count - mean) / self.memory


def _is_mean(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]  # checked
