"""How sure a mean rating, or a difference of two systems, is.

Ratings of one scale are a cube (A, I, S): annotators, items, systems; nan stands for none. Neither
two ratings of one item nor two of one annotator are independent, so

- intervals draw items and annotators, both with replacement, and give a rating the product of the
  two counts (the pigeonhole bootstrap): they speak of other items *and* other annotators. Of five
  annotators, plain percentiles are too narrow, as of any small sample; they are expanded as
  Student's t is wider than the normal distribution;
- tests swap the two systems at an item for all annotators at once, as `metrics.significance` does
  with sentences: they speak of these annotators on other items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless import metrics

Floats = NDArray[np.float64]

RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of ratings, and where 95 % of such surveys would have it."""

    value: float
    low: float | None
    """None, as `high`, where there is but one rating"""
    high: float | None
    count: int
    """ratings"""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A system beside the baseline: the mean over items of the mean over annotators."""

    value: float
    low: float | None
    high: float | None
    p: float
    """two-sided, by permutation over items"""
    corrected_p: float
    """corrected for all comparisons of the survey: systems times scales"""
    minimum_detectable_effect: float | None
    """minimum detectable effect: the true difference that four surveys of five would claim"""
    items: int


def means(cube: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> list[Mean | None]:
    """Give every system's mean, (A, I, S) -> (S,); None where nothing was rated."""
    drawn = _drawn(cube, resamples, seed)
    listed: list[Mean | None] = []
    for system in range(cube.shape[2]):
        ratings = cube[:, :, system]
        count = int((~np.isnan(ratings)).sum())
        if not count:
            listed.append(None)
            continue
        low, high = _ends(drawn[:, system], ratings)
        mean = Mean(value=float(np.nanmean(ratings)), low=low, high=high, count=count)
        listed.append(mean)
    return listed


def paired(cube: Floats, system: int, baseline: int) -> Floats:
    """Return the difference at every item where an annotator rated both, (A, I, S) -> (N,)."""
    apart = cube[:, :, system] - cube[:, :, baseline]
    rated = ~np.isnan(apart)
    count = rated.sum(0)
    differences: Floats = np.where(rated, apart, 0.0).sum(0)[count > 0] / count[count > 0]
    return differences


def difference(
    cube: Floats,
    system: int,
    baseline: int,
    *,
    comparisons: int = 1,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference | None:
    """Compare two systems; None where no annotator rated both of an item.

    `corrected_p` is the plain p: whoever has all the comparisons corrects them.
    """
    per_item = paired(cube, system, baseline)
    if not len(per_item):
        return None
    apart = cube[:, :, system] - cube[:, :, baseline]
    low, high = _ends(_drawn(apart[:, :, None], resamples, seed)[:, 0], apart)
    p = permutation_p(per_item, resamples=resamples, seed=seed)
    return Difference(
        value=float(per_item.mean()),
        low=low,
        high=high,
        p=p,
        corrected_p=p,
        minimum_detectable_effect=_minimum_detectable_effect(per_item, metrics.LEVEL / comparisons),
        items=len(per_item),
    )


def permutation_p(differences: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Test a mean difference by turning signs: all ways where they are few, else drawn ones.

    p is the share of ways with a mean as far from 0; of drawn ways, the one that was seen counts
    in, (1 + extreme) / (1 + resamples), which is exact for any number of them.
    """
    moved = differences[differences != 0]
    size = len(moved)
    # Rounding must not decide between equals.
    bound = abs(float(moved.sum())) - 1e-9 * float(np.abs(moved).sum())
    if 2**size <= resamples:
        ways = np.arange(2**size)[:, None] >> np.arange(size) & 1
        sums = np.abs((1.0 - 2.0 * ways) @ moved)
        return float((sums >= bound).mean())
    generator = np.random.default_rng(seed)
    extreme = 0
    step = max(1, (1 << 21) // size)
    for start in range(0, resamples, step):
        signs = generator.integers(0, 2, (min(step, resamples - start), size)) * 2.0 - 1.0
        extreme += int((np.abs(signs @ moved) >= bound).sum())
    return (1 + extreme) / (1 + resamples)


def _drawn(cube: Floats, resamples: int, seed: int) -> Floats:
    """Draw means of items and annotators with replacement, (A, I, S) -> (resamples, S)."""
    annotators, items, systems = cube.shape
    generator = np.random.default_rng(seed)
    of_annotators, of_items = (
        generator.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)
        for n in (annotators, items)
    )
    drawn = np.empty((resamples, systems))
    for system in range(systems):
        ratings = cube[:, :, system]
        rated = ~np.isnan(ratings)
        total, count = (
            ((of_annotators @ table) * of_items).sum(1)
            for table in (np.where(rated, ratings, 0.0), rated.astype(np.float64))
        )
        with np.errstate(invalid="ignore"):
            drawn[:, system] = total / np.where(count > 0, count, np.nan)
    return drawn


def _ends(drawn: Floats, ratings: Floats) -> tuple[float | None, float | None]:
    """Return the ends of a 95 % interval from drawn means, (resamples,), of ratings (A, I)."""
    from scipy import special  # late: help must be fast

    freedom = _freedom(ratings)
    if freedom is None:  # one annotator and one item
        return None, None
    # Expanded percentiles: what is 1.96 deviations of a large sample is t sqrt(n / (n - 1)) here.
    reach = special.stdtrit(freedom, 0.975) * math.sqrt((freedom + 1) / freedom)
    tail = float(special.ndtr(-reach))
    # A draw that met no rating at all says nothing.
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _freedom(ratings: Floats) -> float | None:
    """Return Satterthwaite's degrees of freedom of a mean of ratings, (A, I)."""
    parts = []
    rated = ~np.isnan(ratings)
    for axis in (0, 1):
        count = rated.sum(axis)
        means = np.where(rated, ratings, 0.0).sum(axis)[count > 0] / count[count > 0]
        if len(means) > 1:
            parts.append((float(means.var(ddof=1)) / len(means), len(means) - 1))
    if not parts:
        return None
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return float(max(freedom for _, freedom in parts))
    return total**2 / sum(variance**2 / freedom for variance, freedom in parts)


def _minimum_detectable_effect(differences: Floats, level: float) -> float | None:
    """Give the smallest true mean that a t-test, much like a permutation test, finds."""
    from scipy import special  # late: help must be fast

    size = len(differences)
    if size < 2:
        return None
    error = float(differences.std(ddof=1)) / math.sqrt(size)
    # Of 2^n ways to turn signs, this one and its mirror image are as extreme.
    if error == 0 or 2.0 ** (1 - np.count_nonzero(differences)) >= level:
        return None
    reach = special.stdtrit(size - 1, 1 - level / 2) + special.stdtrit(size - 1, metrics.POWER)
    return float(reach * error)
