"""A trial, sorted for showing: what each method scored, and how it compares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from augless import metrics, trials
from augless.reports import treatments
from augless.reports.treatments import Treatment

if TYPE_CHECKING:
    from augless.reports.human import Human

Role = Literal["baseline", "control", "method"]

WATCHED = "test "  # how scores of a split that is only watched begin
COLOURS = 8  # of the palette in page.css
_NAMES = {
    "bleu": "BLEU",
    "bleu-lowercased": "lower-cased BLEU",
    "bleu-tokenised": "tokenised BLEU",
    "chrf": "chrF",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method on one corpus."""

    method: str
    style: str
    """class that colours it"""
    role: Role
    cell: trials.Cell
    weighs: bool
    """whether it gives samples weights of their own, or of their batch"""
    matched: bool
    """whether its control takes the weights of this very method"""
    besides: bool
    """whether it differs from the baseline in more than its weights"""
    waiting: int
    """runs that are neither done nor failed"""
    treatment: Treatment

    @property
    def baseline(self) -> trials.Contrast | None:
        """How it compares with the baseline."""
        return self.cell.baseline

    @property
    def control(self) -> trials.Contrast | None:
        """How it compares with its control."""
        return self.cell.control

    @property
    def failures(self) -> list[str]:
        """What went wrong, seed by seed."""
        return [f"seed {seed}: {failure}" for seed, failure in self.cell.failures.items()]


@dataclass(frozen=True, kw_only=True)
class Study:
    """All that is known on one corpus."""

    corpus: str
    metric: metrics.Metric
    level: float
    rows: list[Row]
    records: Mapping[str, Mapping[int, trials.Record]]
    """method -> seed -> record"""
    sources: Sequence[str]
    references: Sequence[str]

    def row(self, method: str | None) -> Row | None:
        """Return the row of a method, if it is there."""
        return next((row for row in self.rows if row.method == method), None)

    @property
    def baseline(self) -> Row:
        """The row that all are compared with."""
        return next(row for row in self.rows if row.role == "baseline")

    @property
    def candidates(self) -> list[tuple[Row, trials.Contrast]]:
        """The methods in question that can be compared with the baseline."""
        return [(row, row.baseline) for row in self.rows if row.role == "method" and row.baseline]

    def near_zero(self, row: Row) -> bool:
        """Whether a method's score is so near 0 that it says nothing."""
        return metrics.near_zero(self.metric.name, row.cell.mean)

    @property
    def silent(self) -> bool:
        """Whether all that is compared has learnt too little to be compared."""
        rows = [self.baseline, *(row for row, _ in self.candidates)]
        return all(map(self.near_zero, rows)) or all(row.cell.faults for row in rows)

    @property
    def watched(self) -> bool:
        """Whether the test set was scored during training."""
        runs = (record for of in self.records.values() for record in of.values())
        entries = (entry for record in runs for entry in record.history)
        return any(name.startswith(WATCHED) for entry in entries for name in entry.scores)

    @property
    def unit(self) -> str:
        """What its metric is called in a sentence."""
        return metric_name(self.metric.name)

    def gain(self, difference: float) -> float:
        """Return a difference so that more is better."""
        return difference if self.metric.higher_is_better else -difference


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A trial with its numbers, by corpus."""

    trial: trials.Trial
    table: trials.Table
    styles: dict[str, str]
    """method -> class that colours it"""
    studies: list[Study]
    human: Human | None = None
    """what people said, where there is a survey"""

    @property
    def plan(self) -> trials.Plan:
        """What was to be done."""
        return self.trial.plan

    @property
    def overall(self) -> dict[str, trials.Row]:
        """Method -> how it compares over all corpora."""
        return {row.method: row for row in self.table.rows if not row.published_only}

    def study(self, corpus: str) -> Study:
        """Return what is known on a corpus."""
        return next(study for study in self.studies if study.corpus == corpus)


_gathered: list[Evidence] = []  # the last one: a page and a terminal's text are made of one trial


def gather(trial: trials.Trial, human: Human | None = None) -> Evidence:
    """Compare what is to be compared, once for the same trial, and sort it by corpus."""
    if not _gathered or _gathered[0].trial is not trial:
        table, colours = trials.table(trial), styles(trial.plan)
        studies = [_study(trial, table, colours, corpus) for corpus in table.corpora]
        _gathered[:] = [Evidence(trial=trial, table=table, styles=colours, studies=studies)]
    return replace(_gathered[0], human=human) if human else _gathered[0]


def role(plan: trials.Plan, method: str) -> Role:
    """Return what a method is there for."""
    if method == plan.baseline:
        return "baseline"
    control = method == plan.control or plan.methods[method].matches is not None
    return "control" if control else "method"


def styles(plan: trials.Plan) -> dict[str, str]:
    """Return classes per method: neutral for the baseline, a colour for each of the others.

    A lone control is neutral too; of several, each has the colour of the method that it matches.
    """
    found: dict[str, str] = {}
    for method in plan.methods:
        if role(plan, method) == "method":
            colour = len(found)
            found[method] = f"m{colour % COLOURS}" + (" again" if colour >= COLOURS else "")
    controls = [method for method in plan.methods if role(plan, method) == "control"]
    for method in controls:
        matched = found.get(plan.methods[method].matches or "", "")
        found[method] = f"control {matched}".rstrip() if len(controls) > 1 else "control"
    found[plan.baseline] = "base"
    # The place lets the page hide a method.
    return {m: f"{found[m]} of-{k}" for k, m in enumerate(plan.methods, 1)}


def colour(style: str) -> str:
    """Return what colours a method, without the class by which figures hide it."""
    return re.sub(r" ?\bof-\d+", "", style)


def metric_name(metric: str) -> str:
    """Return what a metric is called in a sentence."""
    return _NAMES.get(metric, metric.replace("-", " "))


def _study(
    trial: trials.Trial, table: trials.Table, colours: Mapping[str, str], corpus: str
) -> Study:
    plan = trial.plan
    records: dict[str, dict[int, trials.Record]] = {method: {} for method in plan.methods}
    for entry in trial.entries:
        if entry.corpus == corpus and entry.record is not None:
            records[entry.method][entry.seed] = entry.record
    cells = {row.method: row.cells[corpus] for row in table.rows if not row.published_only}

    rows = [
        Row(
            method=method,
            style=colours[method],
            role=role(plan, method),
            cell=cell,
            weighs=any(record.weighted_term is not None for record in records[method].values()),
            matched=plan.methods[cell.control_name or method].matches == method,
            besides=_besides(records[method].values(), records[plan.baseline].values()),
            waiting=len(plan.seeds) - len({*records[method], *cell.failures}),
            treatment=treatments.of(list(records[method].values())),
        )
        for method, cell in cells.items()
    ]
    metric: metrics.Metric = metrics.METRICS[plan.metric]()
    return Study(
        corpus=corpus,
        metric=metric,
        level=table.level,
        rows=rows,
        records=records,
        sources=trial.sources.get(corpus, ()),
        references=trial.references.get(corpus, ()),
    )


def _besides(mine: Iterable[trials.Record], theirs: Iterable[trials.Record]) -> bool:
    """Tell whether recipes differ in more than seeds and weightings."""
    ours, plain = (
        [
            (record.unweighted, [(term.loss, term.scale) for term in record.terms])
            for record in records
        ]
        for records in (mine, theirs)
    )
    return bool(ours and plain) and ours[0] != plain[0]
