"""What methods cost, with all that they need: a table, a picture, and a line for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from augless.reports import answers, scatter
from augless.reports.evidence import Evidence, Row, Study
from augless.reports.figures import Figure
from augless.trials import facts

LONGEST = 100  # characters of the line for a terminal


@dataclass(frozen=True, kw_only=True)
class Line:
    """A method and what it cost, as shown; what is not known is empty."""

    method: str
    style: str
    role: str
    cells: list[str]
    seeds: str
    """how many are done, if not all"""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What all methods cost on a corpus."""

    names: list[str]
    rows: list[Line]
    legend: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a method cost on a corpus, in numbers."""

    row: Row
    cost: facts.Cost
    times: float | None
    """its seconds over the baseline's; None where runs of either are missing"""
    samples: float | None
    """its samples over the baseline's"""

    @property
    def whole(self) -> bool:
        """Whether every run of it is done."""
        return whole(self.row)


def whole(row: Row) -> bool:
    """Tell whether every run of a method is done, so that its cost is all of it."""
    return bool(row.cell.values) and not row.cell.failures and not row.waiting


def known(found: Evidence, study: Study) -> list[Known]:
    """Return what methods cost on a corpus, those of which something is known."""
    costs = found.trial.costs
    spent = [(row, costs.get(row.method, {}).get(study.corpus, facts.Cost())) for row in study.rows]
    plain = next(cost for row, cost in spent if row is study.baseline).total
    return [
        Known(
            row=row,
            cost=cost,
            times=_ratio(cost.total.seconds, plain.seconds) if comparable else None,
            samples=_ratio(cost.total.samples, plain.samples) if comparable else None,
        )
        for row, cost in spent
        if cost.total.seconds
        for comparable in [whole(row) and whole(study.baseline)]
    ]


def _ratio(mine: float, theirs: float) -> float | None:
    return mine / theirs if theirs else None


def duration(seconds: float) -> str:
    """Write a time as one says it."""
    if seconds < 180:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"


def times(ratio: float) -> str:
    """Write how many times as much something is, in two digits."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def _seconds(value: float) -> str:
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


_PARTS: dict[str, Callable[[facts.Cost], facts.Spent]] = {
    "own training": lambda cost: cost.own,
    "preparing": lambda cost: cost.prepare,
    "augmentation": lambda cost: cost.augment,
    "other models": lambda cost: cost.train,
    "tuning": lambda cost: cost.tune,
}


def table(found: Evidence, study: Study) -> Costs | None:
    """Make the table of a corpus; None where nothing is known of any cost."""
    spent = known(found, study)
    if not spent:
        return None
    # Parts that nothing was spent on are left out, and so is preparing where it took no time.
    parts = {
        name: part
        for name, part in _PARTS.items()
        if any(part(one.cost).seconds >= (0.05 if name == "preparing" else 1e-9) for one in spent)
    }
    plain = study.baseline.method
    names = ["seconds in all", f"time / {plain}", "samples in all", f"samples / {plain}", *parts]
    rows = [
        Line(
            method=one.row.method,
            style=one.row.style,
            role=one.row.role,
            cells=[
                _seconds(one.cost.total.seconds),
                "" if one.times is None else f"{one.times:.2f}",
                f"{one.cost.total.samples:,}",
                "" if one.samples is None else f"{one.samples:.2f}",
                *(_seconds(part(one.cost).seconds) for part in parts.values()),
            ],
            seeds=""
            if one.whole
            else f"{len(one.row.cell.values)} of {len(found.plan.seeds)} seeds",
        )
        for one in spent
    ]
    return Costs(names=names, rows=rows, legend=_legend(found, study, spent))


def _legend(found: Evidence, study: Study, spent: list[Known]) -> str:
    plan = found.plan
    over = f"of all {len(plan.seeds)} seeds together" if len(plan.seeds) > 1 else "of one seed"
    said = [
        f"Seconds {over}, with all that a method needs, each piece of work counted once; what they "
        "were spent on is at the right. Samples are those that any training saw. Decoding is not "
        "counted.",
        "Runs went side by side: times are rough.",
    ]
    tuned = {one.row.method for one in spent if one.cost.tune.seconds}
    shared = [m for m in plan.methods if m in tuned and plan.source(m) != m]
    if shared:
        those = answers.joined([f"{m} that of {plan.source(m)}" for m in shared])
        said.append(f"A control needs the tuning of its method: {those}.")
    if not all(one.whole for one in spent):
        said.append("Where runs are missing, there is less to count, and nothing to compare.")
    failed = any(row.cell.failures for row in study.rows) or any(
        found.trial.tuning_failures(row.method, study.corpus) for row in study.rows
    )
    if failed:
        said.append("What failed runs took is not known.")
    return " ".join(said)


def figure(found: Evidence, study: Study) -> Figure | None:
    """Draw quality against total time, a point per method; None where there are not two."""
    drawn = [point for one in known(found, study) if (point := _point(study, one)) is not None]
    if len(drawn) < 2:
        return None
    unit, plain = study.unit, study.baseline
    title = f"{unit} against total time"
    better = "Higher" if study.metric.higher_is_better else "Lower"
    intervals = any(point.low is not None for point in drawn)
    said = f"{better} and further to the left is better. Line across: {plain.method}."
    if intervals:
        said += (
            f" Bars: 95 % interval of the difference from {plain.method}; where one crosses the "
            "line, no difference is shown. Filled: a difference that may be claimed."
        )
    if len({one.seconds for one in drawn}) > 1:
        said += " Points that would cover each other are moved apart a little."
    panel = scatter.points(
        drawn,
        title=title,
        description=f"{title}. {'; '.join(point.said for point in drawn)}.",
        y_name=unit,
        level=plain.cell.mean,
    )
    return Figure(panels=[panel], caption=said)


def _point(study: Study, one: Known) -> scatter.Point | None:
    cell, contrast, plain = one.row.cell, one.row.baseline, study.baseline.cell.mean
    if cell.mean is None or not one.whole:
        return None
    low = high = None
    if contrast is not None and plain is not None:
        low, high = plain + contrast.test.low, plain + contrast.test.high
    spent = duration(one.cost.total.seconds)
    return scatter.Point(
        style=one.row.style,
        name=one.row.method,
        seconds=one.cost.total.seconds,
        score=cell.mean,
        low=low,
        high=high,
        filled=contrast is not None and answers.verdict(study, contrast) != "open",
        said=f"{one.row.method}: {cell.mean:.2f} {study.unit}, {spent}",
    )


def total(found: Evidence, method: str) -> facts.Spent:
    """Return what a method cost over all corpora."""
    costs = found.trial.costs.get(method, {})
    spent = (costs[study.corpus].total for study in found.studies if study.corpus in costs)
    return sum(spent, facts.Spent())


def line(found: Evidence) -> str:
    """Say in a line what each method took, over all corpora; nothing if that is not known."""
    plain = found.plan.baseline
    missing = {row.method for study in found.studies for row in study.rows if not whole(row)}
    spent = {m: total(found, m).seconds for m in found.plan.methods if m not in missing}
    if not spent.get(plain):
        return ""
    others = {m: s / spent[plain] for m, s in spent.items() if m != plain and s}
    listed = [f"{m} {times(ratio)}\N{MULTIPLICATION SIGN}" for m, ratio in others.items()]
    start = f"Time with all that it needs: {plain} {duration(spent[plain])}"
    if len(start) + len(", ".join(listed)) < LONGEST or len(others) < 2:
        return f"{', '.join([start, *listed])}."
    ends = sorted(zip(others.values(), listed, strict=True))
    return f"{start}, others from {ends[0][1]} to {ends[-1][1]}."
