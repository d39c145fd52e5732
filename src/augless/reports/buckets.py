"""The test set cut into short and long, easy and hard sentences, and the score of each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from augless.reports import charts
from augless.reports.evidence import Row, Study
from augless.reports.figures import Figure

QUARTERS = ("easiest", "easy", "hard", "hardest")


def quality(study: Study) -> Figure | None:
    """Draw the score of short and long, of easy and hard sentences."""
    base = study.baseline
    if not study.metric.additive:
        return None
    theirs = _tables(study, base)
    if not theirs:
        return None
    # What was scored in another way, or on other sentences, is cut in no way like it.
    alike = _way(study, base)
    tables = {
        row.method: _tables(study, row) if _way(study, row) == alike else {} for row in study.rows
    }
    panels: list[charts.Panel] = []
    record = next(iter(study.records[base.method].values()))
    size = len(next(iter(theirs.values())))
    lengths = record.statistics.get("test/source_length")
    if lengths is not None and len(lengths) == size:
        buckets, names = by_length(lengths)
        panels += _by_bucket(study, tables, buckets, names, "length", "tokens of the source")
    hardness = _hardness(study, base, size)
    if hardness is not None:
        order = np.argsort(hardness, kind="stable")
        buckets = [np.sort(part) for part in np.array_split(order, 4) if len(part)]
        names = list(QUARTERS) if len(buckets) == 4 else [str(k + 1) for k in range(len(buckets))]
        panels += _by_bucket(study, tables, buckets, names, "difficulty", "quarter of the test set")
    if not panels:
        return None
    return Figure(
        panels=panels,
        caption="Quarters of the test set, but sentences of equal length are kept together; "
        f"difficulty is the loss per token of {base.method}, the end symbol being one. Mean over "
        "seeds; bars are their range. A bucket is small: read a trend, not a point.",
    )


def by_length(lengths: NDArray[np.float64]) -> tuple[list[NDArray[np.int64]], list[str]]:
    """Cut sentences into quarters by length, equal lengths together; name them by their range."""
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    places = np.searchsorted(edges, lengths, side="left")
    buckets, names = [], []
    for k in range(len(edges) + 1):
        inside = np.flatnonzero(places == k)
        if len(inside):
            low, high = int(lengths[inside].min()), int(lengths[inside].max())
            buckets.append(inside)
            names.append(str(low) if low == high else f"{low}\N{EN DASH}{high}")
    return buckets, names


def _by_bucket(
    study: Study,
    tables: Mapping[str, Mapping[int, NDArray[np.float64]]],
    buckets: Sequence[NDArray[np.int64]],
    names: Sequence[str],
    what: str,
    x_name: str,
) -> list[charts.Panel]:
    """Draw scores, and differences from the baseline, in buckets of sentences."""
    base = study.baseline
    unit = study.unit
    scored = {
        method: {
            seed: np.array([float(study.metric.value(table[b].sum(0))) for b in buckets])
            for seed, table in of.items()
        }
        for method, of in tables.items()
    }
    absolute, relative = [], []
    for row in study.rows:
        mine, theirs = scored[row.method], scored[base.method]
        shared = [seed for seed in mine if seed in theirs]
        if mine:
            absolute.append(_bucketed(row, list(mine.values())))
        if shared and row.method != base.method:
            relative.append(_bucketed(row, [mine[seed] - theirs[seed] for seed in shared]))
    panels = []
    for lines, title, level in (
        (absolute, f"{unit} by {what}", None),
        (relative, f"Difference from {base.method}, by {what}", 0.0),
    ):
        if lines:
            said = "; ".join(f"{s.name} {' '.join(f'{v:.2f}' for v in s.y)}" for s in lines)
            panels.append(
                charts.steps(
                    lines,
                    names,
                    title=title,
                    description=f"{title} ({', '.join(names)}): {said}.",
                    x_name=x_name,
                    level=level,
                )
            )
    return panels


def _bucketed(row: Row, of_seeds: Sequence[NDArray[np.float64]]) -> charts.Series:
    values = np.stack(of_seeds)
    several = len(of_seeds) > 1
    return charts.Series(
        style=row.style,
        name=row.method,
        x=[float(k) for k in range(values.shape[1])],
        y=values.mean(0).tolist(),
        low=values.min(0).tolist() if several else (),
        high=values.max(0).tolist() if several else (),
    )


def _tables(study: Study, row: Row) -> dict[int, NDArray[np.float64]]:
    key = f"test/{study.metric.name}"
    found = study.records.get(row.method, {})
    tables = {s: r.statistics[key] for s, r in found.items() if key in r.statistics}
    sizes = {len(table) for table in tables.values()}
    return tables if len(sizes) == 1 else {}


def _way(study: Study, row: Row) -> set[tuple[str, int]]:
    """Return how a method was scored, and on how many sentences."""
    name = study.metric.name
    records = study.records.get(row.method, {}).values()
    return {
        (record.signature("test", name), len(record.statistics.get(f"test/{name}", ())))
        for record in records
    }


def _hardness(study: Study, base: Row, size: int) -> NDArray[np.float64] | None:
    """Return the baseline's nats per token, the mean over seeds, (N,)."""
    found = []
    for record in study.records[base.method].values():
        nats, length = (record.statistics.get(f"test/{k}") for k in ("nats", "length"))
        if nats is not None and length is not None and len(nats) == len(length) == size:
            found.append(nats / (length + 1))  # nats are of the end symbol too
    return np.mean(found, axis=0) if found else None
