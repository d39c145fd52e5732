"""A trial to numbers: means over seeds, differences and how sure they are.

Differences are those of `metrics.contrasts`. Over all corpora the plan's primary method is compared
with the baseline, without any correction, then with its control, which counts only if the first
does; all other contrasts over all corpora are corrected by Holm, and so are those on single
corpora, where there are several, as a family of their own.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from augless import metrics
from augless.errors import Failure
from augless.trials.plans import Plan
from augless.trials.records import Record, Trial, fault_of

Side = Literal["baseline", "control"]
SIDES: tuple[Side, Side] = ("baseline", "control")
Name = TypeVar("Name", bound=Hashable)
Done = Mapping[tuple[str, str], Mapping[int, Record]]
"""(label of the corpus, method) -> seed -> record"""

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A method beside another one, on a corpus or over several."""

    test: metrics.Difference
    """corrected for the contrasts that it was found among"""
    seeds: tuple[float, ...] = ()
    """the difference of each seed; none over several corpora"""
    corpora: int = 1
    primary: bool = False
    """whether it is the plan's primary contrast"""
    alike: bool = False
    """whether no sentence differs in its score"""
    likely: metrics.RandomEffects | None = None
    """what it is on corpora like these, where there are three or more"""
    fault: str = ""
    """why nothing may be claimed, whatever the numbers: outputs of these methods are degenerate"""

    @property
    def difference(self) -> float:
        """The method's score less the other's."""
        return self.test.estimate

    @property
    def corrected_p(self) -> float:
        """Its p, corrected for the contrasts that it was found among."""
        return self.test.corrected_p

    @property
    def of_methods(self) -> bool:
        """Whether it is about methods; one seed is about two models."""
        return self.test.test != "sentences"

    @property
    def claimed(self) -> bool:
        """Whether a difference of the methods may be claimed."""
        return self.of_methods and not self.fault and self.corrected_p < LEVEL


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How many seeds would show a difference that is worth it."""

    effect: float
    """such as half a BLEU point"""
    seeds: int | None
    """None: no number of seeds would, for lack of sentences"""


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
    baseline: Contrast | None
    """with the plan's baseline; None for itself, and until every seed of both is done and scored
    in one way"""
    control: Contrast | None
    """with its control"""
    control_name: str | None
    published: float | None
    seconds: float | None
    """of training, the mean over seeds"""
    samples: float | None
    """that training saw, the mean over seeds"""
    failures: dict[int, Failure]
    """seed -> why there is no value"""
    faults: dict[int, str]
    """seed -> what is wrong with its outputs as a whole, where something is"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method, or a row of the paper that no method here makes."""

    method: str
    cells: dict[str, Cell]
    """label of the corpus -> what is known there"""
    baseline: Contrast | None = None
    """with the plan's baseline, over all corpora where they can be compared"""
    control: Contrast | None = None
    """with its control"""
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
    needed: dict[str, Needed] = field(default_factory=dict)
    """label of the corpus -> seeds that would show a difference of the primary method there"""
    level: float = LEVEL
    power: float = POWER
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, method: str) -> Row:
        """Return the row of a method."""
        return next(row for row in self.rows if row.method == method)


def table(trial: Trial, *, trials: int = 2000) -> Table:
    """Summarise a trial; the same trial gives the same table."""
    plan = trial.plan
    done: dict[tuple[str, str], dict[int, Record]] = {}
    failures: dict[tuple[str, str], dict[int, Failure]] = {}
    for entry in trial.entries:
        key = (entry.corpus, entry.method)
        if entry.record is not None:
            done.setdefault(key, {})[entry.seed] = entry.record
        elif entry.failure is not None:
            failures.setdefault(key, {})[entry.seed] = entry.failure
    faults = _faults(trial, done)
    single, overall = _corrected(plan, _compared(plan, done, faults, trials))
    warnings, rows = [], []
    for method in plan.methods:
        cells = {}
        for corpus in plan.recipes:
            key = (corpus, method)
            records, failed = done.get(key, {}), failures.get(key, {})
            cells[corpus] = _cell(plan, method, corpus, records, failed, faults.get(key, {}))
            cells[corpus] = replace(
                cells[corpus],
                baseline=single.get(("baseline", *key)),
                control=single.get(("control", *key)),
            )
            missing = len(plan.seeds) - len(records)
            if missing:
                warnings.append(f"{method} on {corpus}: {missing} of {len(plan.seeds)} seeds left")
        rows.append(
            Row(
                method=method,
                cells=cells,
                baseline=overall.get(("baseline", method)),
                control=overall.get(("control", method)),
            )
        )
    for method in plan.published_only:
        cells = {c: _cell(plan, method, c, {}, {}, {}) for c in plan.recipes}
        rows.append(Row(method=method, cells=cells, published_only=True))
    signatures, differing = _signatures(trial)
    return Table(
        title=plan.title,
        metric=plan.metric,
        signatures=signatures,
        corpora=list(plan.recipes),
        seeds=plan.seeds,
        rows=rows,
        needed=_needed(plan, rows),
        warnings=warnings + differing,
    )


def alarm(record: Record, metric: str) -> str:
    """Say of a finished run, at once, that no comparison can be read from it; else nothing."""
    if fault := fault_of(record):
        return f"its outputs tell nothing: {fault}; {metrics.ADVICE}"
    known = (record.value(split, metric) for split in ("test", "valid"))
    value = next((value for value in known if value is not None), None)
    if value is not None and metrics.near_zero(metric, value):
        return f"its {metric} of {value:.2f} is too near 0 to compare anything; {metrics.ADVICE}"
    return ""


def score_of(record: Record, metric: str, split: str = "test") -> metrics.Score:
    """Return a record's score, its statistics with it, as it was computed."""
    found = record.scores[split][metric]
    value = float("nan") if found.value is None else found.value
    table = record.statistics[f"{split}/{metric}"]
    return metrics.Score(metrics.METRICS[metric](), value, found.signature, table)


def _faults(trial: Trial, done: Done) -> dict[tuple[str, str], dict[int, str]]:
    """Find degenerate outputs."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for (corpus, method), records in done.items():
        lines = trial.sources.get(corpus, ()), trial.references.get(corpus, ())
        for seed, record in records.items():
            if fault := fault_of(record, *lines):
                found.setdefault((corpus, method), {})[seed] = fault
    return found


def _compared(
    plan: Plan, done: Done, faults: Mapping[tuple[str, str], Mapping[int, str]], trials: int
) -> dict[tuple[Side, str, str], Contrast]:
    """Compare methods with the baseline and with their controls, where every seed is done."""
    if not metrics.METRICS[plan.metric].additive:
        return {}
    whole = {
        key: [score_of(records[seed], plan.metric) for seed in plan.seeds]
        for key, records in done.items()
        if all(seed in records for seed in plan.seeds)
        and all(_comparable(record, plan.metric) for record in records.values())
    }
    ways = {key: _way(scores) for key, scores in whole.items()}
    found: dict[tuple[Side, str, str], Contrast] = {}
    for corpus in plan.recipes:
        others: dict[str, list[tuple[Side, str]]] = {}
        for method in plan.methods:
            if method != plan.baseline:
                others.setdefault(plan.baseline, []).append(("baseline", method))
            if (control := plan.control_of(method)) is not None:
                others.setdefault(control, []).append(("control", method))
        for other, asked in others.items():
            way = ways.get((corpus, other))
            # Those that were scored in the same way, on as many sentences, share the model.
            systems = {m: whole[c, m] for (c, m), w in ways.items() if c == corpus and w == way}
            if way is None:
                continue
            tests = metrics.compare(systems, other, alpha=LEVEL, power=POWER, trials=trials)
            for side, method in asked:
                if method in tests:
                    pair = systems[method], systems[other]
                    seen = {m: faults.get((corpus, m), {}) for m in (method, other)}
                    found[side, corpus, method] = _contrast(tests[method], *pair, seen)
    return found


def _contrast(
    test: metrics.Difference,
    mine: Sequence[metrics.Score],
    theirs: Sequence[metrics.Score],
    faults: Mapping[str, Mapping[int, str]],
) -> Contrast:
    pairs = list(zip(mine, theirs, strict=True))
    said = (f"{m}, seed {seed}: {fault}" for m, of in faults.items() for seed, fault in of.items())
    return Contrast(
        test=test,
        seeds=tuple(a.value - b.value for a, b in pairs),
        alike=all(np.array_equal(a.statistics, b.statistics) for a, b in pairs),
        fault=next(said, ""),
    )


def _corrected(
    plan: Plan, single: Mapping[tuple[Side, str, str], Contrast]
) -> tuple[dict[tuple[Side, str, str], Contrast], dict[tuple[Side, str], Contrast]]:
    """Pool contrasts over corpora, and correct both kinds for their number (see the module)."""
    parts: dict[tuple[Side, str], list[Contrast]] = {}
    for (side, _, method), one in single.items():
        parts.setdefault((side, method), []).append(one)
    overall = {key: _pooled(of) for key, of in parts.items()}
    sequence = [(side, plan.primary) for side in SIDES]
    first = [key for key in sequence if key in overall]
    if first[:1] != sequence[:1]:
        first = []  # its control alone is no primary contrast
    overall = _family(overall, first)
    if first:
        overall[first[0]] = replace(overall[first[0]], primary=True)
    if len(plan.recipes) == 1:
        return {key: overall[key[0], key[2]] for key in single}, overall
    return _family(single, []), overall


def _family(contrasts: Mapping[Name, Contrast], first: Sequence[Name]) -> dict[Name, Contrast]:
    tests = {key: one.test for key, one in contrasts.items()}
    found = metrics.corrected(tests, first=first, alpha=LEVEL, power=POWER)
    return {key: replace(one, test=found[key]) for key, one in contrasts.items()}


def _pooled(parts: Sequence[Contrast]) -> Contrast:
    if len(parts) == 1:
        return parts[0]
    tests = [one.test for one in parts]
    test = metrics.mean_difference(tests, alpha=LEVEL, power=POWER)
    # Choice: of two corpora nobody learns how corpora vary.
    likely = metrics.random_effects(tests, alpha=LEVEL, power=POWER) if len(tests) > 2 else None
    if not all(one.of_methods for one in parts):
        test = replace(test, test="sentences")
    return Contrast(
        test=test,
        corpora=len(parts),
        likely=likely,
        alike=all(one.alike for one in parts),
        fault=next((one.fault for one in parts if one.fault), ""),
    )


def worthwhile(metric: metrics.Metric, level: float) -> float:
    """Return a difference that is worth seeing: half a BLEU point, or 0.01 nats per token."""
    # Of perplexity, and nearly so of bits per token, 0.01 nats are one percent.
    return metric.largest / 200 if metric.largest <= 100 else abs(level) / 100


def _needed(plan: Plan, rows: Sequence[Row]) -> dict[str, Needed]:
    """Say how many seeds would show something worth it of the primary method, by corpus."""
    found = {}
    for corpus in plan.recipes:
        cells = {row.method: row.cells[corpus] for row in rows}
        cell = cells.get(plan.primary or "")
        one, mean = cell.baseline if cell else None, cells[plan.baseline].mean
        if one is None or mean is None or not one.of_methods or one.alike:
            continue
        seeds = len(one.seeds)
        effect = worthwhile(metrics.METRICS[plan.metric](), mean)
        shared = one.test.sentence_variance
        needed = metrics.seeds_needed(
            effect,
            max(0.0, one.test.deviation**2 - shared) * seeds / 2,
            1 + round(one.test.degrees / (seeds - 1)),
            sentence_variance=shared,
            alpha=LEVEL,
            power=POWER,
        )
        found[corpus] = Needed(effect=effect, seeds=needed)
    return found


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
    faults: dict[int, str],
) -> Cell:
    """Sum up a method on a corpus, but for what it is compared with."""
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
        baseline=None,
        control=None,
        control_name=plan.control_of(method) if method in plan.methods else None,
        published=plan.published(method, corpus),
        seconds=_mean([record.result.seconds for record in ordered]),
        samples=_mean([record.result.samples for record in ordered]),
        failures=failures,
        faults=faults,
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
