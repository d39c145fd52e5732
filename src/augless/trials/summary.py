"""A trial to numbers: means over seeds, differences and how sure they are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from augless import metrics
from augless.errors import Failure
from augless.trials.plans import Plan
from augless.trials.records import Record, Trial

# (label of the corpus, method) -> beside another method.
Comparisons = dict[tuple[str, str], metrics.Comparison]

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A method on a corpus."""

    values: dict[int, float]
    """seed -> the plan's metric on the test set, where it is finite"""
    mean: float | None
    deviation: float | None
    """over seeds; None where there is one"""
    scores: dict[str, tuple[float, float | None]]
    """every metric -> mean over seeds, and deviation"""
    baseline: metrics.Comparison | None
    """with the plan's baseline; None for itself, and until every seed of both is done and scored
    in one way; Holm over methods and corpora"""
    control: metrics.Comparison | None
    """with its control; Holm over methods and corpora that share the control"""
    control_name: str | None
    published: float | None
    seconds: float | None
    """of training, the mean over seeds"""
    samples: float | None
    """that training saw, the mean over seeds"""
    failures: dict[int, Failure]
    """seed -> why there is no value"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method, or a row of the paper that no method here makes."""

    method: str
    cells: dict[str, Cell]
    """label of the corpus -> what is known there"""
    published_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """All that a trial says in numbers."""

    title: str
    metric: str
    signatures: dict[str, dict[str, str]]
    """label of the corpus -> metric -> signature"""
    corpora: list[str]
    seeds: tuple[int, ...]
    rows: list[Row]
    level: float = LEVEL
    power: float = POWER
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, method: str) -> Row:
        """Return the row of a method."""
        return next(row for row in self.rows if row.method == method)


def table(trial: Trial, *, trials: int = 10_000) -> Table:
    """Summarise a trial by the evidence protocol; the same trial gives the same table."""
    plan = trial.plan
    done: dict[tuple[str, str], dict[int, Record]] = {}
    failures: dict[tuple[str, str], dict[int, Failure]] = {}
    for entry in trial.entries:
        key = (entry.corpus, entry.method)
        if entry.record is not None:
            done.setdefault(key, {})[entry.seed] = entry.record
        elif entry.failure is not None:
            failures.setdefault(key, {})[entry.seed] = entry.failure
    warnings: list[str] = []
    against_baseline, against_control = _compared(plan, done, trials)
    rows = []
    for method in plan.methods:
        cells = {}
        for corpus in plan.recipes:
            records = done.get((corpus, method), {})
            cells[corpus] = _cell(
                plan,
                method,
                corpus,
                records,
                failures.get((corpus, method), {}),
                against_baseline.get((corpus, method)),
                against_control.get((corpus, method)),
            )
            missing = len(plan.seeds) - len(records)
            if missing:
                warnings.append(f"{method} on {corpus}: {missing} of {len(plan.seeds)} seeds left")
        rows.append(Row(method=method, cells=cells))
    for method in plan.published_only:
        cells = {c: _cell(plan, method, c, {}, {}, None, None) for c in plan.recipes}
        rows.append(Row(method=method, cells=cells, published_only=True))
    signatures, differing = _signatures(trial)
    return Table(
        title=plan.title,
        metric=plan.metric,
        signatures=signatures,
        corpora=list(plan.recipes),
        seeds=plan.seeds,
        rows=rows,
        warnings=warnings + differing,
    )


def score_of(record: Record, metric: str, split: str = "test") -> metrics.Score:
    """Return a record's score, its statistics with it, as it was computed."""
    found = record.scores[split][metric]
    value = float("nan") if found.value is None else found.value
    table = record.statistics[f"{split}/{metric}"]
    return metrics.Score(metrics.METRICS[metric](), value, found.signature, table)


def _compared(
    plan: Plan, done: Mapping[tuple[str, str], Mapping[int, Record]], trials: int
) -> tuple[Comparisons, Comparisons]:
    """Compare methods with the baseline and with their controls, where every seed is done.

    All that is compared with the same method, on whatever corpus, is one family.
    """
    if not metrics.METRICS[plan.metric].additive:
        return {}, {}
    whole = {
        key: [score_of(records[seed], plan.metric) for seed in plan.seeds]
        for key, records in done.items()
        if all(seed in records for seed in plan.seeds)
        and all(_comparable(record, plan.metric) for record in records.values())
    }
    ways = {key: _way(scores) for key, scores in whole.items()}

    def against(other: str, methods: Iterable[str]) -> Comparisons:
        """Compare with one method those that were scored in the same way, on as many sentences."""
        groups = {
            corpus: {
                method: whole[corpus, method]
                for method in dict.fromkeys([other, *methods])
                if ways.get((corpus, method)) == ways[corpus, other]
            }
            for corpus in plan.recipes
            if ways.get((corpus, other)) is not None
        }
        found = metrics.compare_groups(groups, other, alpha=LEVEL, power=POWER, trials=trials)
        return {(corpus, m): one for corpus, here in found.items() for m, one in here.items()}

    controls = {method: plan.control_of(method) for method in plan.methods}
    controlled: Comparisons = {}
    for control in dict.fromkeys(controls.values()):
        if control is not None:
            controlled |= against(control, [m for m in controls if controls[m] == control])
    return against(plan.baseline, plan.methods), controlled


def _comparable(record: Record, metric: str) -> bool:
    return record.value("test", metric) is not None and f"test/{metric}" in record.statistics


def _way(scores: Sequence[metrics.Score]) -> tuple[str, tuple[int, ...]] | None:
    """Return the signature and sentences of all seeds, None where seeds differ in them."""
    ways = {(score.signature, score.statistics.shape) for score in scores}
    return ways.pop() if len(ways) == 1 else None


def _cell(
    plan: Plan,
    method: str,
    corpus: str,
    records: Mapping[int, Record],
    failures: dict[int, Failure],
    baseline: metrics.Comparison | None,
    control: metrics.Comparison | None,
) -> Cell:
    ordered = [records[seed] for seed in plan.seeds if seed in records]
    scores = {}
    for name in plan.metrics:
        values = [record.value("test", name) for record in ordered]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            scores[name] = _spread(known)
    mean, deviation = scores.get(plan.metric, (None, None))
    return Cell(
        values={
            seed: value
            for seed in plan.seeds
            if seed in records and (value := records[seed].value("test", plan.metric)) is not None
        },
        mean=mean,
        deviation=deviation,
        scores=scores,
        baseline=baseline,
        control=control,
        control_name=plan.control_of(method) if method in plan.methods else None,
        published=plan.published(method, corpus),
        seconds=_mean([record.result.seconds for record in ordered]),
        samples=_mean([record.result.samples for record in ordered]),
        failures=failures,
    )


def _spread(values: Sequence[float]) -> tuple[float, float | None]:
    mean = statistics.fmean(values)
    return mean, statistics.stdev(values) if len(values) > 1 else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _signatures(trial: Trial) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the signature of every metric, and what was scored by several."""
    found: dict[str, dict[str, str]] = {}
    differing = []
    for entry in trial.entries:
        if entry.record is None:
            continue
        here = found.setdefault(entry.corpus, {})
        for metric in trial.plan.metrics:
            signature = entry.record.signature("test", metric)
            if here.setdefault(metric, signature) != signature:
                differing.append(
                    f"{metric} on {entry.corpus} was scored in several ways: methods that were "
                    "scored in another way are not compared"
                )
    return found, list(dict.fromkeys(differing))
