"""What methods cost, with all that they need: a table, a picture, and a line for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from augless import runs
from augless.reports import charts, words
from augless.reports.cells import Cell, Line, Table
from augless.reports.evidence import Evidence, MethodResult, Study
from augless.reports.tables import noted
from augless.trials import facts

LONGEST = 100  # characters of the line for a terminal
FAR = 4.0  # longest over shortest time from which an axis of times is logarithmic
TICKS = 6  # ticks of it
BESIDE = 5.0  # between points that would cover each other
PARTS: dict[facts.Part, str] = {
    "own": "own training",
    "prepare": "preparing",
    "augment": "augmentation",
    "train": "other models",
    "tune": "tuning",
    "other": "other work",
}
"""what costs consist of -> what it is called"""
_UNITS = ((3 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, kw_only=True)
class MethodCost:
    """What a method cost on a corpus, in numbers."""

    row: MethodResult
    cost: facts.Cost
    times: float | None
    """its seconds over the baseline's; None where runs of either are missing"""
    samples: float | None
    """its samples over the baseline's"""

    @property
    def seconds(self) -> float:
        """All that it took."""
        return self.cost.total.seconds


def known(evidence: Evidence, study: Study) -> list[MethodCost]:
    """Return what methods cost on a corpus, those of which something is known."""
    costs, base = evidence.trial.costs, study.baseline
    spent = {
        row.method: costs.get(row.method, {}).get(study.corpus, facts.Cost()) for row in study.rows
    }
    plain, listed = spent[base.method].total, []
    for row in study.rows:
        total, both = spent[row.method].total, row.complete and base.complete
        times = total.seconds / plain.seconds if both and plain.seconds else None
        samples = total.samples / plain.samples if both and plain.samples else None
        if total.seconds:
            listed.append(MethodCost(row=row, cost=spent[row.method], times=times, samples=samples))
    return listed


def table(evidence: Evidence, study: Study) -> Table | None:
    """Make the table of a corpus; None where nothing is known of any cost."""
    spent = known(evidence, study)
    if not spent:
        return None
    plain, seeds, lines = study.baseline.method, len(evidence.plan.seeds), []
    # Parts that nothing was spent on are left out, and so is preparing where it took no time.
    least: dict[facts.Part, float] = {"prepare": 0.05}
    parts = {
        part: name
        for part, name in PARTS.items()
        if any(one.cost[part].seconds > least.get(part, 0.0) for one in spent)
    }
    for one in spent:
        row = one.row
        done = "" if row.complete else f"{len(row.values)} of {seeds} seeds"
        numbers = ["" if one.times is None else f"{one.times:.2f}", f"{one.cost.total.samples:,}"]
        numbers += ["" if one.samples is None else f"{one.samples:.2f}"]
        numbers += [_seconds(one.cost[part].seconds) for part in parts]
        cells = [noted(Cell(_seconds(one.seconds)), done), *map(Cell, numbers)]
        lines.append(Line(name=row.method, style=row.style, cells=cells))
    head = ["Method", "seconds in all", f"time / {plain}", "samples in all", f"samples / {plain}"]
    head += parts.values()
    legend = " ".join(_legend(evidence, study, spent))
    return Table(title=f"{study.corpus}, cost", head=head, lines=lines, legend=legend)


def _seconds(value: float) -> str:
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _legend(evidence: Evidence, study: Study, spent: Sequence[MethodCost]) -> Iterator[str]:
    plan = evidence.plan
    over = f"of all {len(plan.seeds)} seeds together" if len(plan.seeds) > 1 else "of one seed"
    yield f"Seconds {over}, with all that a method needs, each piece of work counted once;"
    yield "what they were spent on is at the right. Samples are those that any training saw."
    yield "Decoding is not counted. Runs went side by side: times are rough."
    tuned = [one.row.method for one in spent if one.cost["tune"].seconds]
    if shared := [f"{m} that of {plan.source(m)}" for m in tuned if plan.source(m) != m]:
        yield f"A control needs the tuning of its method: {words.joined(shared)}."
    if not all(one.row.complete for one in spent):
        yield "Where runs are missing, there is less to count, and nothing to compare."
    lost = evidence.trial.tuning_failures
    if any(row.failures or lost(row.method, study.corpus) for row in study.rows):
        yield "What failed runs took is not known."


def figure(evidence: Evidence, study: Study) -> list[charts.Panel]:
    """Draw quality against total time, a point per method; nothing where there are not two."""
    complete = [one for one in known(evidence, study) if one.row.complete]
    spent = [one for one in complete if one.row.mean is not None]
    if len(spent) < 2:
        return []
    spent.sort(key=lambda one: (one.seconds, one.row.method))
    _, size, unit = next(unit for unit in _UNITS if spent[-1].seconds >= unit[0])
    x, places, ticks = across([one.seconds / size for one in spent])
    points = [_point(study, one, place) for one, place in zip(spent, places, strict=True)]
    return [
        charts.plot(
            points,
            title=f"{study.unit} against total time",
            x_name=f"{unit} in all",
            y_name=study.unit,
            x=x,
            ticks=ticks,
            level=study.baseline.mean,
        )
    ]


def _point(study: Study, one: MethodCost, place: float) -> charts.Series:
    row, contrast = one.row, one.row.baseline
    mean, plain = row.mean or 0.0, study.baseline.mean or 0.0
    return charts.Series(
        style=row.style,
        name=row.method,
        x=[place],
        y=[mean],
        low=[plain + contrast.low] if contrast else (),
        high=[plain + contrast.high] if contrast else (),
        form="point",
        claimed=contrast is not None and study.verdict(contrast) != "open",
        said=f"{row.method}: {mean:.2f} {study.unit}, {words.short_duration(one.seconds)}",
    )


def across(times: Sequence[float]) -> tuple[charts.Scale, list[float], charts.Ticks]:
    """Return a horizontal scale for ascending times, where they lie on it, and its ticks.

    It is logarithmic where times lie far apart. Points that would cover each other are moved.
    """
    start, end = charts.LEFT + 8, charts.WIDTH - charts.RIGHT
    first, last = times[0], times[-1]
    if first <= 0 or last / first < FAR:
        x = charts.Scale(0.0, (last or 1.0) * 1.06, start, end)
        places = list(times)
        ticks = [(value, words.tick(value)) for value in x.ticks(4)]
    else:
        x = charts.Scale(math.log10(first / 1.2), math.log10(last * 1.2), start, end)
        places = [math.log10(time) for time in times]
        inside = decades(first / 1.2, last * 1.2)
        ticks = [(math.log10(value), words.tick(value)) for value in inside]
    unit = (x.high - x.low) / (end - start)
    return x, charts.apart(places, x.low, x.high, BESIDE * unit), ticks


def decades(low: float, high: float) -> list[float]:
    """Return a few round numbers between two that lie far apart: 1, 2, 5, 10, or powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        inside = [step * 10.0**power for power in powers for step in steps]
        inside = [value for value in inside if low <= value <= high]
        if len(inside) <= TICKS:
            return inside
    return inside[:: -(-len(inside) // TICKS)]


def total(evidence: Evidence, method: str) -> runs.Spent:
    """Return what a method cost over all corpora."""
    costs = evidence.trial.costs.get(method, {})
    spent = (costs[study.corpus].total for study in evidence.studies if study.corpus in costs)
    return sum(spent, runs.Spent())


def line(evidence: Evidence) -> str:
    """Say in a line what each method took, over all corpora; nothing if that is not known."""
    plain = evidence.plan.baseline
    complete = [m for m in evidence.plan.methods if all(row.complete for row in evidence.rows(m))]
    spent = {method: total(evidence, method).seconds for method in complete}
    if not spent.get(plain):
        return ""
    others = {m: s / spent[plain] for m, s in spent.items() if m != plain and s}
    listed = [f"{m} {times(ratio)}\N{MULTIPLICATION SIGN}" for m, ratio in others.items()]
    start = f"Time with all that it needs: {plain} {words.short_duration(spent[plain])}"
    if len(start) + len(", ".join(listed)) < LONGEST or len(others) < 2:
        return f"{', '.join([start, *listed])}."
    ends = sorted(zip(others.values(), listed, strict=True))
    return f"{start}, others from {ends[0][1]} to {ends[-1][1]}."


def times(ratio: float) -> str:
    """Write how many times as much something is, in two digits."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"
