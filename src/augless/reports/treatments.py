"""How strong a treatment was: what a method did to the gradient, from what its runs logged."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from augless import trials

# Choice: weights that vary by less than this share of their mean can hardly do anything.
FAINT = 0.05


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """Means over the epochs of a method's runs, as shares; None where nothing was logged."""

    spread: float | None = None
    """relative spread of the weights: standard deviation over mean"""
    effective: float | None = None
    """effective sample size"""
    within: float | None = None
    """share of the weights' variance within batches"""
    shares: tuple[float | None, ...] = ()
    """of each term in the gradient norm"""
    clipped: float | None = None
    """steps whose gradient was clipped"""

    @property
    def known(self) -> bool:
        """Whether anything was logged."""
        return any(v is not None for v in (self.spread, self.clipped, *self.shares))


def of(records: Sequence[trials.Record]) -> Treatment:
    """Measure a treatment; the weights are those of the first term that weighs."""
    epochs = [entry for record in records for entry in record.epochs]
    terms = max((len(record.terms) for record in records), default=0)
    place = next((t for record in records if (t := record.weighted_term) is not None), None)

    def mean(read: Callable[[trials.TermLog], float | None]) -> float | None:
        return None if place is None else _mean(read(entry.term(place)) for entry in epochs)

    return Treatment(
        spread=mean(lambda term: term.weight_spread),
        effective=mean(lambda term: term.effective_samples),
        within=mean(lambda term: term.weight_within_batches),
        shares=tuple(_mean(e.term(k).gradient_share for e in epochs) for k in range(terms)),
        clipped=_mean(entry.clipped for entry in epochs),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
