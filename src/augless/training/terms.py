"""The objective as a list of terms, and what is remembered of their losses and weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor

from augless import data, losses, models, polar
from augless.knobs import Among, Knobs, Within

_KEEP = 100.0  # MB of logits that need not be computed again in the backward pass
_BINS = 40  # of a histogram of losses, in tenths of the mean loss; one more for what lies beyond


@dataclass(frozen=True, kw_only=True)
class Term(Knobs):
    """One summand of the objective: a loss, how its samples are weighed, and a factor."""

    loss: Annotated[losses.Loss, "what is measured", Among("losses.LOSSES")] = field(
        default_factory=losses.CrossEntropy
    )
    weighting: Annotated[
        polar.Weighting, "how its samples are weighed", Among("polar.WEIGHTINGS")
    ] = field(default_factory=polar.Plain)
    scale: Annotated[float, "its factor in the objective", Within(0, 1e6)] = 1.0


@dataclass
class Tally:
    """Sums over samples, enough for every statistic of a term's losses and weights."""

    samples: float = 0.0
    loss: float = 0.0
    weight: float = 0.0
    weight_squared: float = 0.0
    length: float = 0.0
    length_squared: float = 0.0
    weight_length: float = 0.0
    raised: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    histogram: list[int] = field(default_factory=lambda: [0] * (_BINS + 1))

    def add(self, values: Tensor, weights: Tensor, lengths: Tensor, mean: float | None) -> None:
        """Add a batch: losses, weights and lengths, (B,) each, and the mean loss so far."""
        work = torch.float32 if values.device.type == "mps" else torch.float64
        loss, weight, length = (t.detach().to(work) for t in (values, weights, lengths))
        rows = [torch.ones_like(loss), loss, weight, weight**2, length, length**2]
        rows += [weight * length, (weight > 1).to(work)]
        sums = torch.stack(rows).sum(1).tolist()
        for name, value in zip(_SUMS, sums, strict=True):
            setattr(self, name, getattr(self, name) + value)
        self.least = min(self.least, weight.min().item())
        self.most = max(self.most, weight.max().item())
        relative = loss / (mean or loss.mean().clamp(min=1e-30))
        bins = (relative * 10).clamp(max=_BINS).long()
        counts = torch.bincount(bins, minlength=_BINS + 1).tolist()
        self.histogram = [a + b for a, b in zip(self.histogram, counts, strict=True)]

    def summary(self) -> dict[str, Any]:
        """Return the statistics that a record holds."""
        n = self.samples or 1.0
        mean, length = self.weight / n, self.length / n
        spread = math.sqrt(max(0.0, self.weight_squared / n - mean**2))
        spread_length = math.sqrt(max(0.0, self.length_squared / n - length**2))
        # Rounding leaves a spread of about 1e-8 of the mean where there is none.
        spread = spread if spread > 1e-6 * abs(mean) else 0.0
        covariance = self.weight_length / n - mean * length
        product = spread * spread_length
        correlation = covariance / product if product else 0.0
        return {
            "loss": self.loss / n,
            "weight": mean,
            "weight_sd": spread,
            "weight_min": self.least,
            "weight_max": self.most,
            "raised": self.raised / n,
            "effective_samples": self.weight**2 / (n * self.weight_squared or 1.0),
            "weight_length_correlation": correlation,
            "histogram": self.histogram,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the sums as JSON; infinities, before any sample, as null."""
        state = asdict(self)
        return {
            k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in state.items()
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> Tally:
        """Go on from the sums of `state_dict`."""
        return Tally(**{key: value for key, value in state.items() if value is not None})


_SUMS = tuple(Tally.__dataclass_fields__)[:8]


class Objectives:
    """The terms with their running means: batches in, a differentiable number out."""

    def __init__(self, terms: Sequence[Term], memory: float) -> None:
        self.terms = tuple(terms)
        self.objectives = [polar.Objective(t.weighting, None, memory=memory) for t in terms]
        self.recent = [Tally() for _ in terms]
        """since the last record"""
        self.epoch = [Tally() for _ in terms]
        """since the epoch began"""

    def __call__(self, output: models.Output, batch: data.Batch) -> Tensor:
        """Return the sum over samples and terms of weight x loss, not yet divided: ()."""
        measured = losses.evaluate([t.loss for t in self.terms], output, batch, keep=_KEEP)
        lengths = batch.target_mask.sum(1)
        total = output.hidden.new_zeros(())
        for i, (term, objective) in enumerate(zip(self.terms, self.objectives, strict=True)):
            if not bool(torch.isfinite(measured[i]).all()):
                raise FloatingPointError(f"the {type(term.loss).__name__} loss is not finite")
            values = objective.per_sample(measured[i])
            total = total + term.scale * (batch.weight.to(values) * values).sum()
            assert objective.weights is not None  # set by the call
            for tally in (self.recent[i], self.epoch[i]):
                tally.add(measured[i], objective.weights, lengths, objective.mean_loss)
        return total

    def step(self) -> None:
        """Move the running means: once per optimiser step."""
        for objective in self.objectives:
            objective.step()

    def summaries(self, tallies: list[Tally]) -> list[dict[str, Any]]:
        """Return the statistics of each term, with its running means."""
        return [
            {**tally.summary(), **objective.state_dict()}
            for tally, objective in zip(tallies, self.objectives, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return all that a later sitting needs, as JSON."""
        return {
            "objectives": [objective.state_dict() for objective in self.objectives],
            "recent": [tally.state_dict() for tally in self.recent],
            "epoch": [tally.state_dict() for tally in self.epoch],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        for objective, means in zip(self.objectives, state["objectives"], strict=True):
            objective.load_state_dict(means)
        self.recent = [Tally.from_state(tally) for tally in state["recent"]]
        self.epoch = [Tally.from_state(tally) for tally in state["epoch"]]
