"""How far annotators agree: Krippendorff's ordinal alpha, and weighted kappa of pairs.

Ratings are a table (A, U) of whole numbers, 1 to 5, an annotator per row and a text per column; 0
stands for no rating.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless.survey.designing import POINTS

Floats = NDArray[np.float64]
Ratings = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A coefficient: 1 is perfect agreement, 0 that of chance; None if undefined, and why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def coincidences(ratings: Ratings) -> Floats:
    """Count pairs of ratings of the same text, (A, U) -> (U, POINTS, POINTS).

    A text rated by m annotators has m (m - 1) ordered pairs, each of weight 1 / (m - 1), so that
    every rating counts once. One that fewer than two rated has none.
    """
    counts = (ratings.T[:, :, None] == np.arange(1, POINTS + 1)).sum(1).astype(np.float64)
    raters = counts.sum(1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(POINTS)
    weighted: Floats = pairs / np.maximum(raters - 1, 1)[:, None, None]
    return weighted


def alphas(sums: Floats) -> Floats:
    """Return Krippendorff's ordinal alpha of sums of coincidences, (B, POINTS, POINTS) -> (B,).

    alpha = 1 - (n - 1) sum_ck o_ck d_ck / sum_ck n_c n_k d_ck. The distance of two points is the
    number of ratings between them, half of those at the ends included, squared: d_ck = (p_c -
    p_k)^2 with p_c = n_1 + ... + n_c - n_c / 2. Undefined (nan) where all ratings are the same.
    """
    marginals = sums.sum(2)
    middles = marginals.cumsum(1) - marginals / 2
    distances = (middles[:, :, None] - middles[:, None, :]) ** 2
    observed = (sums * distances).sum((1, 2))
    expected = (marginals[:, :, None] * marginals[:, None, :] * distances).sum((1, 2))
    total = marginals.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: Floats = np.where(expected > 0, 1 - (total - 1) * observed / expected, np.nan)
    return alpha


def alpha(
    ratings: Ratings, items: NDArray[np.int64], *, resamples: int = 10_000, seed: int = 0
) -> Agreement:
    """Give ordinal alpha with a 95 % interval, by drawing items with replacement.

    `items` (U,) says which item a text belongs to: texts of one item are drawn together. Annotators
    are not drawn: one who is drawn twice would agree with themselves.
    """
    by_text = coincidences(ratings)
    numbers, place = np.unique(items, return_inverse=True)
    by_item = np.zeros((len(numbers), POINTS * POINTS))
    np.add.at(by_item, place, by_text.reshape(len(by_text), -1))
    whole = by_item.sum(0).reshape(1, POINTS, POINTS)
    if not whole.any():
        return Agreement(value=None, reason="no text was rated by two annotators")
    value = float(alphas(whole)[0])
    if np.isnan(value):
        point = int(whole[0].sum(1).argmax()) + 1
        reason = (
            f"every rating is {point}: without any spread, agreement cannot be told from chance"
        )
        return Agreement(value=None, reason=reason)
    drawn = np.random.default_rng(seed).multinomial(
        len(numbers), np.full(len(numbers), 1 / len(numbers)), size=resamples
    )
    values = alphas((drawn @ by_item).reshape(-1, POINTS, POINTS))
    values = values[~np.isnan(values)]
    if len(numbers) < 2 or not len(values):
        return Agreement(value=value, reason="one item alone has no interval")
    low, high = np.quantile(values, [0.025, 0.975])
    return Agreement(value=value, low=float(low), high=float(high))


def kappa(one: Ratings, other: Ratings) -> Agreement:
    """Give Cohen's kappa with quadratic weights of two annotators, (U,) and (U,)."""
    both = (one > 0) & (other > 0)
    if not both.any():
        return Agreement(value=None, reason="they rated no text in common")
    table = np.zeros((POINTS, POINTS))
    np.add.at(table, (one[both] - 1, other[both] - 1), 1.0)
    points = np.arange(POINTS)
    weights = (points[:, None] - points[None, :]) ** 2
    total = table.sum()
    chance = (weights * np.outer(table.sum(1), table.sum(0))).sum() / total
    if chance == 0:
        return Agreement(value=None, reason="both gave one and the same rating throughout")
    return Agreement(value=float(1 - (weights * table).sum() / chance))
