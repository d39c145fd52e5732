"""The test set cut into short and long, easy and hard sentences, and the score of each part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from augless.reports import charts, figures
from augless.reports.charts import Panel
from augless.reports.evidence import MethodResult, Study

QUARTERS = ("easiest", "easy", "hard", "hardest")
Parts = Sequence[tuple[str, NDArray[np.int64]]]
"""name of a part of the test set, and which sentences are in it"""


def quality(study: Study) -> list[Panel]:
    """Draw the score of short and long, of easy and hard sentences."""
    base = study.baseline
    panels: list[Panel] = []
    sizes = {len(table) for table in _tables(study, base).values()}
    if not study.metric.additive or len(sizes) != 1:
        return []
    size = sizes.pop()
    lengths = next(iter(base.records.values())).table("test", "source_length")
    if lengths is not None and len(lengths) == size:
        panels += _panels(study, by_length(lengths), "length", "tokens of the source")
    losses = losses_per_token(base, size)
    if losses is not None:
        parts = [part for part in np.array_split(np.argsort(losses, kind="stable"), 4) if len(part)]
        names = QUARTERS if len(parts) == 4 else [str(k + 1) for k in range(len(parts))]
        named = list(zip(names, parts, strict=True))
        panels += _panels(study, named, "difficulty", "quarter of the test set")
    return panels


def by_length(lengths: NDArray[np.float64]) -> Parts:
    """Cut sentences into quarters by length, equal lengths together; name them by their range."""
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    places = np.searchsorted(edges, lengths, side="left")
    parts = []
    for part in (np.flatnonzero(places == place) for place in np.unique(places)):
        low, high = int(lengths[part].min()), int(lengths[part].max())
        parts.append((str(low) if low == high else f"{low}\N{EN DASH}{high}", part))
    return parts


def losses_per_token(row: MethodResult, size: int) -> NDArray[np.float64] | None:
    """Return a method's nats per token of each sentence, the mean over seeds, (N,)."""
    losses = []
    for record in row.records.values():
        nats, length = (record.table("test", k) for k in ("nats", "length"))
        if nats is not None and length is not None and len(nats) == len(length) == size:
            losses.append(nats / (length + 1))  # nats are of the end symbol too
    return np.mean(losses, axis=0) if losses else None


def _panels(study: Study, parts: Parts, what: str, x_name: str) -> list[Panel]:
    """Draw scores, and differences from the baseline, in parts of the test set."""
    base, alike = study.baseline, _way(study, study.baseline)
    # What was scored in another way, or on other sentences, is cut in no way like it.
    rows = [row for row in study.rows if _way(study, row) == alike]
    scores = {
        row.method: {
            seed: np.array([float(study.metric.value(table[part].sum(0))) for _, part in parts])
            for seed, table in _tables(study, row).items()
        }
        for row in rows
    }
    plain = scores[base.method]
    apart = {
        method: {seed: of[seed] - plain[seed] for seed in of if seed in plain}
        for method, of in scores.items()
        if method != base.method
    }
    titles = (f"{study.unit} by {what}", f"Difference from {base.method}, by {what}")
    panels = []
    for title, values, level in zip(titles, (scores, apart), (None, 0.0), strict=True):
        shown = [row for row in rows if values.get(row.method)]
        beside = min(0.11, 0.7 / max(len(shown), 1))
        lines = [
            figures.over_seeds(
                row.style,
                row.method,
                [place + beside * (k - (len(shown) - 1) / 2) for place in range(len(parts))],
                [*zip(*values[row.method].values(), strict=True)],
                "steps",
            )
            for k, row in enumerate(shown)
        ]
        if lines:
            x = charts.Scale(-0.5, len(parts) - 0.5, charts.LEFT, charts.WIDTH - charts.RIGHT)
            ticks = [(float(k), name) for k, (name, _) in enumerate(parts)]
            panels.append(
                charts.plot(lines, title=title, x_name=x_name, x=x, ticks=ticks, level=level)
            )
    return panels


def _tables(study: Study, row: MethodResult) -> dict[int, NDArray[np.float64]]:
    """Return the metric's statistics per sentence, seed by seed."""
    tables = {seed: one.table("test", study.metric.name) for seed, one in row.records.items()}
    return {seed: table for seed, table in tables.items() if table is not None}


def _way(study: Study, row: MethodResult) -> set[tuple[str, int]]:
    """Return how a method was scored, and on how many sentences."""
    name, sizes = study.metric.name, {s: len(table) for s, table in _tables(study, row).items()}
    return {(r.signature("test", name), sizes.get(seed, 0)) for seed, r in row.records.items()}
