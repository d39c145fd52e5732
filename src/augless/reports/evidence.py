"""A trial, sorted for showing: what each method scored, and how it compares."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from augless import metrics, runs, trials
from augless.reports.cells import Table, Verdict
from augless.trials import facts

Role = Literal["baseline", "control", "method"]
COLOURS = 8  # of the palette in chart.css
# Choice: weights that vary by less than this share of their mean can hardly do anything.
SMALL_SPREAD = 0.05


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """Means over the epochs of a method's runs, as shares; None where nothing was logged."""

    spread: float | None = None
    """relative spread of the weights: standard deviation over mean"""
    effective: float | None = None
    """effective sample size"""
    within: float | None = None
    """share of the weights' variance within batches"""
    idle: bool = False
    """whether it should shuffle weights, and its runs ended before it had enough of them"""
    shares: tuple[float | None, ...] = ()
    """of each term in the gradient norm"""
    clipped: float | None = None
    """steps whose gradient was clipped"""

    @property
    def known(self) -> bool:
        """Whether anything was logged."""
        return any(v is not None for v in (self.spread, self.clipped, *self.shares))


@dataclass(frozen=True, kw_only=True)
class MethodResult(trials.Result):
    """A method on one corpus, with what it is there for and what its treatment was."""

    method: str
    style: str
    """class that colours it"""
    role: Role
    weighs: bool
    """whether it gives samples weights of their own, or of their batch"""
    matched: bool
    """whether its control takes the weights of this very method"""
    differs_elsewhere: bool
    """whether it differs from the baseline in more than its weights"""
    waiting: int
    """runs that are neither done nor failed"""
    treatment: Treatment

    @property
    def weighted_term(self) -> int | None:
        """Which term of its objective weighs its samples."""
        terms = (record.weighted_term for record in self.records.values())
        return next((term for term in terms if term is not None), None)

    @property
    def complete(self) -> bool:
        """Whether every run of it is done."""
        return bool(self.values) and not self.failures and not self.waiting


@dataclass(frozen=True, kw_only=True)
class Study:
    """All that is known on one corpus."""

    corpus: str
    metric: metrics.Metric
    rows: list[MethodResult]
    sources: Sequence[str]
    references: Sequence[str]

    def row(self, method: str | None) -> MethodResult | None:
        """Return the row of a method, if it is there."""
        return next((row for row in self.rows if row.method == method), None)

    @property
    def baseline(self) -> MethodResult:
        """The row that all are compared with."""
        return next(row for row in self.rows if row.role == "baseline")

    @property
    def candidates(self) -> list[tuple[MethodResult, trials.Contrast]]:
        """The methods in question that can be compared with the baseline."""
        return [(row, row.baseline) for row in self.rows if row.role == "method" and row.baseline]

    def near_zero(self, row: MethodResult) -> bool:
        """Whether a method's score is so near 0 that it says nothing."""
        return metrics.near_zero(self.metric.name, row.mean)

    @property
    def inconclusive(self) -> bool:
        """Whether all that is compared has learnt too little to be compared."""
        rows = [self.baseline, *(row for row, _ in self.candidates)]
        return all(map(self.near_zero, rows)) or all(row.faults for row in rows)

    @property
    def watched(self) -> bool:
        """Whether the test set was scored during training."""
        runs = (record for row in self.rows for record in row.records.values())
        entries = (entry for record in runs for entry in record.history)
        return any("test" in entry.watched for entry in entries)

    @property
    def unit(self) -> str:
        """What its metric is called in a sentence."""
        return metric_name(self.metric.name)

    @property
    def digits(self) -> int:
        """How many decimals its scores are shown with."""
        means = [row.mean for row in self.rows if row.mean is not None]
        return digits_of(self.metric.name, max(map(abs, means), default=1.0))

    def gain(self, difference: float) -> float:
        """Return a difference so that more is better."""
        return difference if self.metric.higher_is_better else -difference

    def verdict(self, contrast: trials.Contrast) -> Verdict:
        """Say whether a difference may be claimed, and in which direction."""
        if not contrast.claimed or self.inconclusive:
            return "open"
        return "better" if self.gain(contrast.estimate) > 0 else "worse"


@dataclass(frozen=True, kw_only=True)
class Human:
    """What people said of the methods; `survey` fills it in."""

    table: Table
    values: dict[str, Any]
    """all numbers, for JSON"""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A trial with its numbers, by corpus."""

    trial: trials.Trial
    summary: trials.Summary
    styles: dict[str, str]
    """method -> class that colours it, in the order of the plan"""
    studies: list[Study]
    human: Human | None = None
    """what people said, where there is a survey"""

    @property
    def plan(self) -> trials.Plan:
        """What was to be done."""
        return self.trial.plan

    @property
    def records(self) -> list[trials.Record]:
        """Of all runs that are done."""
        return [entry.record for entry in self.trial.entries if entry.record is not None]

    @functools.cached_property
    def by_other_metrics(self) -> dict[str, Evidence]:
        """The same runs compared by the plan's other metrics."""
        others = (replace(self.plan, metric=m) for m in self.plan.metrics if m != self.plan.metric)
        return {plan.metric: gather(replace(self.trial, plan=plan)) for plan in others}

    @property
    def first_conclusive(self) -> Study:
        """The first corpus on which models have learnt enough to be compared, else the first."""
        return next((study for study in self.studies if not study.inconclusive), self.studies[0])

    def study(self, corpus: str) -> Study:
        """Return what is known on a corpus."""
        return next(study for study in self.studies if study.corpus == corpus)

    def rows(self, method: str) -> list[MethodResult]:
        """Return a method on every corpus."""
        return [row for study in self.studies for row in study.rows if row.method == method]

    def verdict(self, contrast: trials.Contrast) -> Verdict:
        """Say whether a difference over all corpora may be claimed, and in which direction."""
        return self.first_conclusive.verdict(contrast)


def gather(trial: trials.Trial) -> Evidence:
    """Compare what is to be compared, and sort it by corpus."""
    summary, colours = trials.summarise(trial), styles(trial.plan)
    studies = [_study(trial, summary, colours, corpus) for corpus in trial.plan.recipes]
    return Evidence(trial=trial, summary=summary, styles=colours, studies=studies)


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
    roles = {method: role(plan, method) for method in plan.methods}
    asked = [method for method in roles if roles[method] == "method"]
    colours = {
        method: f"m{place % COLOURS}" + (" again" if place >= COLOURS else "")
        for place, method in enumerate(asked)
    }
    controls = [method for method in roles if roles[method] == "control"]
    for method in controls:
        matched = colours.get(plan.methods[method].matches or "", "")
        colours[method] = f"control {matched}".rstrip() if len(controls) > 1 else "control"
    colours[plan.baseline] = "base"
    # The place lets the page hide a method.
    return {method: f"{colours[method]} of-{k}" for k, method in enumerate(plan.methods, 1)}


def metric_name(metric: str) -> str:
    """Return what a metric is called in a sentence."""
    return metrics.METRICS.get(metric, metrics.Metric).title or metric.replace("-", " ")


def digits_of(metric: str, score: float) -> int:
    """Return how many decimals scores of this size are shown with; BLEU and chrF with two."""
    kind = metrics.METRICS.get(metric)  # none of what is only chosen by
    return 2 if abs(score) >= 10 or (kind is not None and kind.largest == 100) else 3


def _study(
    trial: trials.Trial, summary: trials.Summary, colours: Mapping[str, str], corpus: str
) -> Study:
    plan = trial.plan
    results = {method: row.results[corpus] for method, row in summary.rows.items()}
    plain = results[plan.baseline]
    rows = [
        MethodResult(
            **vars(result),
            method=method,
            style=colours[method],
            role=role(plan, method),
            weighs=any(record.weighted_term is not None for record in result.records.values()),
            matched=plan.methods[result.control_name or method].matches == method,
            differs_elsewhere=_differ_elsewhere(result.records.values(), plain.records.values()),
            waiting=len(plan.seeds) - len({*result.records, *result.failures}),
            treatment=treatment_of(list(result.records.values())),
        )
        for method, result in results.items()
    ]
    return Study(
        corpus=corpus,
        metric=metrics.METRICS[plan.metric](),
        rows=rows,
        sources=trial.sources.get(corpus, ()),
        references=trial.references.get(corpus, ()),
    )


def _differ_elsewhere(ours: Iterable[trials.Record], theirs: Iterable[trials.Record]) -> bool:
    """Tell whether recipes differ in more than seeds and weightings."""
    first, other = (
        [(record.unweighted, [*map(_unweighted, record.terms)]) for record in records][:1]
        for records in (ours, theirs)
    )
    return bool(first and other) and first != other


def _unweighted(term: facts.Term) -> tuple[str, dict[str, Any], float]:
    """Return what a term trains without its weights: the sum over tokens that are samples too."""
    knobs = term.loss.knobs
    if term.by_token:
        knobs = {**knobs, "per": "sentence-sum"}
    return term.loss.name, knobs, term.scale


def treatment_of(records: Sequence[trials.Record]) -> Treatment:
    """Measure a treatment; the weights are those of the first term that weighs."""
    epochs = [entry for record in records for entry in record.epochs]
    terms = max((len(record.terms) for record in records), default=0)
    place = next((t for record in records if (t := record.weighted_term) is not None), None)

    def mean(read: Callable[[runs.TermLog], float | None]) -> float | None:
        return None if place is None else _mean(read(entry.term(place)) for entry in epochs)

    spread = mean(lambda term: term.weight_spread)
    shuffled = place is not None and records[0].terms[place].weighting.name == "shuffled"
    return Treatment(
        spread=spread,
        idle=shuffled and spread == 0,
        effective=mean(lambda term: term.effective_samples),
        within=mean(lambda term: term.weight_within_batches),
        shares=tuple(_mean(e.term(k).gradient_share for e in epochs) for k in range(terms)),
        clipped=_mean(entry.clipped for entry in epochs),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
