"""The objective as a list of terms, and what is remembered of their losses and weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

import pydantic
import torch
from torch import Tensor

from augless import losses, polar, runs, schemas, storage
from augless.contracts import Batch, Output
from augless.knobs import Among, Knobs, Within
from augless.polar.weightings import work_type
from augless.ranks import ALONE, Ranks

_KEEP = 100.0  # MB of logits that need not be computed again in the backward pass
_BINS = 40  # of a histogram of losses, in tenths of the mean loss; one more for what lies beyond
_ALL = pydantic.Field(min_length=_BINS + 1, max_length=_BINS + 1)
_Histogram = Annotated[list[schemas.Count], _ALL]


@dataclass(frozen=True, kw_only=True)
class Term(Knobs):
    """One summand of the objective: a loss, how its samples are weighed, and a factor."""

    loss: Annotated[losses.Loss, "what is measured", Among("losses.LOSSES")] = field(
        default_factory=losses.CrossEntropy
    )
    weighting: Annotated[
        polar.Weighting, "how its samples are weighed", Among("polar.WEIGHTINGS")
    ] = field(default_factory=polar.Plain)
    weighed_by: Annotated[
        Literal["loss", "loss-per-token"],
        "what decides a sample's weight: its loss, or that per target token (hard, not long)",
    ] = "loss"
    scale: Annotated[float, "its factor in the objective", Within(0, 1e6)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss.by_token and self.weighed_by != "loss":
            raise ValueError(
                'tokens (per = "token") are weighed by their own loss: leave weighed_by out'
            )


def _or(absent: float) -> pydantic.WrapValidator:
    """Read null, which stands for an infinity in a file."""
    return pydantic.WrapValidator(lambda value, read: absent if value is None else read(value))


@dataclass
class Tally:
    """Sums over samples, enough for every statistic of a term's losses and weights.

    A pair counts as much as its own weight says: one of weight 0.1 is a tenth of a sample.
    """

    __pydantic_config__ = schemas.EXACT

    samples: Annotated[float, pydantic.Field(ge=0)] = 0.0
    loss: float = 0.0
    weight: float = 0.0
    weight_squared: float = 0.0
    length: float = 0.0
    length_squared: float = 0.0
    weight_length: float = 0.0
    raised: float = 0.0
    within: float = 0.0
    """squared deviations of weights from the mean of their batch"""
    least: Annotated[float, _or(math.inf)] = math.inf
    most: Annotated[float, _or(-math.inf)] = -math.inf
    histogram: _Histogram = field(default_factory=lambda: [0] * (_BINS + 1))

    def add(
        self, loss: Tensor, weight: Tensor, length: Tensor, count: Tensor, relative: Tensor
    ) -> None:
        """Add samples, (B,) each; relative is the loss that was weighed, over its mean."""
        work = work_type(loss)
        loss, weight, length, count = (t.detach().to(work) for t in (loss, weight, length, count))
        rows = [torch.ones_like(loss), loss, weight, weight**2, length, length**2]
        rows += [weight * length, (weight > 1).to(work)]
        sums = (torch.stack(rows) * count).sum(1).tolist()
        for name, value in zip(_SUMS, sums, strict=True):
            setattr(self, name, getattr(self, name) + value)
        self.least = min(self.least, weight.min().item())
        self.most = max(self.most, weight.max().item())
        bins = (relative.detach() * 10).clamp(max=_BINS).long()
        counts = torch.bincount(bins, minlength=_BINS + 1).tolist()
        self.histogram = [a + b for a, b in zip(self.histogram, counts, strict=True)]

    def batch(self, ranks: Ranks) -> Tally:
        """Return the sums over all ranks, those of one batch."""
        sums = [getattr(self, name) for name in _SUMS] + self.histogram
        ends = torch.tensor([self.least, self.most], dtype=torch.float64)
        total = ranks.sum(torch.tensor(sums, dtype=torch.float64)).tolist()
        one = Tally(**dict(zip(_SUMS, total, strict=False)))
        one.histogram = [int(n) for n in total[len(_SUMS) :]]
        one.within = one.weight_squared - one.weight**2 / (one.samples or 1.0)
        least, most = torch.stack(ranks.gather(ends)).unbind(1)
        one.least, one.most = least.min().item(), most.max().item()
        return one

    def __add__(self, other: Tally) -> Tally:
        names = (*_SUMS, "within")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        histogram = [a + b for a, b in zip(self.histogram, other.histogram, strict=True)]
        ends = {"least": min(self.least, other.least), "most": max(self.most, other.most)}
        return Tally(**sums, **ends, histogram=histogram)

    def summary(self) -> runs.TermLog:
        """Return the statistics that are logged."""
        n = self.samples or 1.0
        mean, length = self.weight / n, self.length / n
        squares = max(0.0, self.weight_squared - n * mean**2)
        spread = math.sqrt(squares / n)
        spread_length = math.sqrt(max(0.0, self.length_squared / n - length**2))
        # Rounding leaves a spread of about 1e-8 of the mean where there is none.
        spread = spread if spread > 1e-6 * abs(mean) else 0.0
        covariance = self.weight_length / n - mean * length
        product = spread * spread_length
        correlation = covariance / product if product else 0.0
        return runs.TermLog(
            loss=self.loss / n,
            weight=mean,
            weight_sd=spread,
            weight_spread=spread / mean if mean else 0.0,
            weight_within_batches=self.within / squares if spread else None,
            weight_min=self.least,
            weight_max=self.most,
            raised=self.raised / n,
            effective_samples=self.weight**2 / (n * self.weight_squared or 1.0),
            weight_length_correlation=correlation,
            histogram=tuple(self.histogram),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the sums as JSON; infinities, before any sample, as null."""
        state = asdict(self)
        return {
            k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in state.items()
        }


_SUMS = tuple(Tally.__dataclass_fields__)[:8]


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """What a state says of all terms."""

    __pydantic_config__ = schemas.EXACT

    objectives: list[dict[str, Any]]
    """running means of each"""
    recent: list[Tally]
    """sums since the last record"""
    epoch: list[Tally]
    """sums since the epoch began"""


class Criterion:
    """The terms with their running means: batches in, a differentiable number per term out."""

    def __init__(
        self, terms: Sequence[Term], memory: float, ranks: Ranks = ALONE, seed: int = 0
    ) -> None:
        self.terms, self.ranks = tuple(terms), ranks
        self.objectives = [
            polar.Objective(t.weighting, None, memory=memory, ranks=ranks, seed=seed) for t in terms
        ]
        self.passes = max(term.loss.passes for term in terms)
        """forward passes of a batch that the losses ask for"""
        self._pending = [Tally() for _ in terms]
        """since the last step, on this rank"""
        self.recent = [Tally() for _ in terms]
        """since the last record"""
        self.epoch = [Tally() for _ in terms]
        """since the epoch began"""

    def __call__(self, outputs: Sequence[Output], batch: Batch) -> list[Tensor]:
        """Return each term's sum over samples of scale x weight x loss, not yet divided: ()."""
        measured = self._measured(outputs, batch)
        sums, sentences = [], (batch.target_mask.sum(1), batch.weight)
        owner = batch.target_mask.nonzero()[:, 0]  # of each token, in the order of losses
        for i, (term, objective) in enumerate(zip(self.terms, self.objectives, strict=True)):
            mean, by_token = objective.mean_loss, term.loss.by_token
            lengths, counts = (x[owner] if by_token else x for x in sentences)
            # With W' = w, the gradient of n W(L / n) is w(L / n) times that of L.
            size = lengths.clamp(min=1) if term.weighed_by == "loss-per-token" else 1
            values = size * objective.per_sample(measured[i] / size, counts)
            sums.append(term.scale * (counts.to(values) * values).sum())
            assert objective.weights is not None  # set by the call
            weighed = (measured[i].detach() / size).to(work_type(measured[i]))
            relative = weighed / (mean or weighed.mean().clamp(min=1e-30))
            tensors = objective.weights, lengths, counts, relative
            self._pending[i].add(measured[i], *tensors)
        return sums

    def idle(self) -> None:
        """Take part in a batch of which this rank has no sample: the others wait for it."""
        self._check("")
        for objective in self.objectives:
            objective.per_sample(torch.zeros(0, requires_grad=True))

    def _measured(self, outputs: Sequence[Output], batch: Batch) -> list[Tensor]:
        """Measure the losses of a batch, all finite."""
        try:
            measured = losses.evaluate([t.loss for t in self.terms], outputs, batch, keep=_KEEP)
        except ValueError:  # transport refuses costs that are not finite
            if all(_finite(o.hidden, o.projection, o.embeddings) for o in outputs):
                raise
            measured = []
        pairs = zip(self.terms, measured, strict=False)
        bad = [f"the {type(t.loss).__name__} loss" for t, values in pairs if not _finite(values)]
        self._check(bad[0] if bad else "" if measured else "what the model computes")
        return measured

    def _check(self, broken: str) -> None:
        """Stop all ranks where something of one of them is not finite."""
        if self.ranks.any(bool(broken)):
            raise FloatingPointError(f"{broken or 'a loss of another rank'} is not finite")

    def step(self) -> None:
        """Move the running means and add up the statistics: once per optimiser step."""
        for i, objective in enumerate(self.objectives):
            objective.step()
            done = self._pending[i].batch(self.ranks)
            self.recent[i], self.epoch[i] = self.recent[i] + done, self.epoch[i] + done
            self._pending[i] = Tally()

    def summaries(
        self, tallies: list[Tally], shares: Sequence[float | None]
    ) -> tuple[runs.TermLog, ...]:
        """Return the statistics of each term, with its running means and share of the gradient."""
        return tuple(
            replace(
                tally.summary(),
                mean_loss=objective.mean_loss,
                mean_weight=objective.mean_weight,
                gradient_share=share,
            )
            for tally, objective, share in zip(tallies, self.objectives, shares, strict=True)
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to resume, as JSON."""
        return {
            "objectives": [objective.state_dict() for objective in self.objectives],
            "recent": [tally.state_dict() for tally in self.recent],
            "epoch": [tally.state_dict() for tally in self.epoch],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        known = schemas.parsed(_Terms, storage.encoded(state))
        for key, tallies in (("recent", known.recent), ("epoch", known.epoch)):
            for tally, said in zip(tallies, state[key], strict=True):
                schemas.check_whole(tally, said)
                tally.summary()  # refuses what cannot be summed up
        these = (known.objectives, known.recent, known.epoch)
        if any(len(one) != len(self.terms) for one in these):
            raise ValueError("it has another number of terms")
        for objective, means in zip(self.objectives, known.objectives, strict=True):
            objective.load_state_dict(means)
        self.recent, self.epoch = known.recent, known.epoch


def _finite(*tensors: Tensor) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)
