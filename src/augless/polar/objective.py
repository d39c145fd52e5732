"""A weighting in somebody's training loop."""

from __future__ import annotations

import torch
from torch import Tensor, distributed

from augless.polar.weightings import Weighting, check_losses, work_type


class Objective:
    """A weighting with its two running means, for any PyTorch loop.

    Give it the optimiser and call it on unreduced losses; it returns what to call backward() on.
    The means move once per optimiser step, from sums over all micro-batches and all ranks, so
    gradient accumulation and torch.distributed change nothing; every rank must take the step.
    Until a mean that the weighting needs is known, weights are one: that is the first step for the
    mean loss, and one more for `normalise="running-mean"`. Not differentiated losses (validation)
    leave the means alone.
    """

    def __init__(
        self,
        weighting: Weighting,
        optimizer: torch.optim.Optimizer | None,
        *,
        memory: float = 100.0,
    ) -> None:
        """Attach to an optimiser; with None, call `step` yourself after each optimiser step.

        memory is the number of steps over which the running means forget.
        """
        if memory < 1:
            raise ValueError(f"memory is {memory}; it must be at least one step")
        self.weighting = weighting
        self.memory = memory
        self.mean_loss: float | None = None
        self.mean_weight: float | None = None
        self._sums: Tensor | None = None  # of losses, their number, weights, their number
        if optimizer is not None:
            optimizer.register_step_post_hook(lambda *_: self.step())

    def __call__(self, losses: Tensor) -> Tensor:
        """Return the mean transformed loss: (B,) -> (), its gradient the weighted mean."""
        return self.per_sample(losses).mean()

    def per_sample(self, losses: Tensor) -> Tensor:
        """Return the transformed losses, (B,) -> (B,), for a reduction of your own."""
        check_losses(losses)
        weighting, scale = self.weighting, 1.0 if self.mean_loss is None else self.mean_loss
        weights = None
        if self.mean_loss is not None or not weighting.relative:
            weights = weighting(losses, scale)
            if weighting.pooled:  # the mean over all ranks' samples, not over this rank's
                total = _over_ranks(torch.stack([weights.sum(), weights.new_tensor(len(weights))]))
                weights = (total[0] / total[1]).expand(losses.shape)
        if losses.requires_grad and torch.is_grad_enabled():
            self._remember(losses, weights)
        normalised = weighting.normalise == "running-mean"
        if weights is None or (normalised and self.mean_weight is None):
            return losses
        values = weights * losses if weighting.pooled else weighting.objective(losses, scale)
        return values / self.mean_weight if normalised and self.mean_weight else values

    def step(self) -> None:
        """Move the running means; an optimiser given at the start does it by itself."""
        if self._sums is None:
            return
        losses, samples, weights, weighted = _over_ranks(self._sums).tolist()
        self._sums = None
        self.mean_loss = self._moved(self.mean_loss, losses, samples)
        self.mean_weight = self._moved(self.mean_weight, weights, weighted)

    def state_dict(self) -> dict[str, float | None]:
        """Return the two running means; take it between optimiser steps."""
        return {"mean_loss": self.mean_loss, "mean_weight": self.mean_weight}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        """Go on from the means of `state_dict`."""
        self.mean_loss, self.mean_weight = state["mean_loss"], state["mean_weight"]
        self._sums = None

    def _remember(self, losses: Tensor, weights: Tensor | None) -> None:
        values = losses.detach().to(work_type(losses))
        count = values.new_tensor(len(values))
        weighted = (0 * count, 0 * count) if weights is None else (weights.to(values).sum(), count)
        sums = torch.stack([values.sum(), count, *weighted])
        self._sums = sums if self._sums is None else self._sums + sums

    def _moved(self, mean: float | None, total: float, count: float) -> float | None:
        if not count:
            return mean
        return total / count if mean is None else mean + (total / count - mean) / self.memory


def _over_ranks(sums: Tensor) -> Tensor:
    """Add a tensor up over all ranks, if there are several."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(sums)
    return sums
