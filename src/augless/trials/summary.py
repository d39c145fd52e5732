"""A trial to numbers: means over seeds, differences and how sure they are.

Differences are those of `metrics.contrasts`. Over all corpora the plan's primary method is compared
with the baseline, without any correction, then with its control, which counts only if the first
does; all other contrasts over all corpora are corrected by Holm, and so are those on single
corpora, where there are several, as a family of their own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from augless import metrics
from augless.errors import Failure
from augless.trials.plans import Plan
from augless.trials.records import Record, Trial, fault_of

Side = Literal["baseline", "control"]
AGAINST: tuple[Side, Side] = ("baseline", "control")
Key = tuple[str, str]
"""label of the corpus, method"""


@dataclass(frozen=True, kw_only=True)
class Contrast(metrics.Difference):
    """A method beside another one, on a corpus or over several."""

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
    def claimed(self) -> bool:
        """Whether a difference of the methods may be claimed."""
        return super().claimed and not self.fault


@dataclass(frozen=True, kw_only=True)
class SeedsNeeded:
    """How many seeds would show a difference that is worth it."""

    effect: float
    """such as half a BLEU point"""
    seeds: int | None
    """None: no number of seeds would, for lack of sentences"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A method on a corpus."""

    records: dict[int, Record]
    """seed -> what a run that is done has left"""
    values: dict[int, float]
    """seed -> the plan's metric on the test set, where it is finite"""
    mean: float | None
    deviation: float | None
    """over seeds; None where there is one"""
    scores: dict[str, tuple[float, float | None]]
    """every metric -> mean over seeds, and deviation"""
    control_name: str | None
    seconds: float | None
    """of training, the mean over seeds"""
    samples: float | None
    """that training saw, the mean over seeds"""
    baseline: Contrast | None = None
    """with the plan's baseline; None for itself, and until every seed of both is done and scored
    in one way"""
    control: Contrast | None = None
    """with its control"""
    failures: dict[int, Failure] = field(default_factory=dict)
    """seed -> why there is no value"""
    faults: dict[int, str] = field(default_factory=dict)
    """seed -> what is wrong with its outputs as a whole, where something is"""


@dataclass(frozen=True, kw_only=True)
class Overall:
    """A method over all corpora of the plan."""

    results: dict[str, Result]
    """label of the corpus -> what is known there"""
    baseline: Contrast | None = None
    """with the plan's baseline, over all corpora where they can be compared"""
    control: Contrast | None = None
    """with its control"""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that a trial says in numbers."""

    signatures: dict[str, dict[str, str]]
    """label of the corpus -> metric -> signature"""
    rows: dict[str, Overall]
    """method -> its row, in the order of the plan"""
    seeds_needed: dict[str, SeedsNeeded] = field(default_factory=dict)
    """label of the corpus -> seeds that would show a difference of the primary method there"""
    warnings: list[str] = field(default_factory=list)
    """sentences: what was scored in several ways"""

    def __getitem__(self, method: str) -> Overall:
        """Return the row of a method."""
        return self.rows[method]


def summarise(trial: Trial, *, resamples: int = 2000) -> Summary:
    """Summarise a trial; the same trial gives the same summary."""
    plan = trial.plan
    results = {
        (c, method): _result(trial, c, method) for c in plan.recipes for method in plan.methods
    }
    single, overall = _corrected(plan, _compared(plan, results, resamples))
    rows = {}
    for method in plan.methods:
        here = {}
        for corpus in plan.recipes:
            baseline, control = (single.get((side, corpus, method)) for side in AGAINST)
            here[corpus] = replace(results[corpus, method], baseline=baseline, control=control)
        baseline, control = (overall.get((side, method)) for side in AGAINST)
        rows[method] = Overall(results=here, baseline=baseline, control=control)
    signatures, warnings = _signatures(trial)
    return Summary(
        signatures=signatures, rows=rows, seeds_needed=_seeds_needed(plan, rows), warnings=warnings
    )


def alarm(record: Record, metric: str) -> str:
    """Say of a finished run, at once, that no comparison can be read from it; else nothing."""
    if fault := fault_of(record, metric):
        return f"its outputs tell nothing: {fault}; {metrics.ADVICE}"
    known = (record.value(split, metric) for split in ("test", "valid"))
    value = next((value for value in known if value is not None), None)
    if value is not None and metrics.near_zero(metric, value):
        return f"its {metric} of {value:.2f} is too near 0 to compare anything; {metrics.ADVICE}"
    return ""


def score_of(record: Record, metric: str, split: str = "test") -> metrics.Score:
    """Return a record's score, its statistics with it, as it was computed."""
    score = record.scores[split][metric]
    value = float("nan") if score.value is None else score.value
    table = record.table(split, metric)
    assert table is not None  # whoever asks has looked
    return metrics.Score(metrics.METRICS[metric](), value, score.signature, table)


def _compared(
    plan: Plan, results: Mapping[Key, Result], resamples: int
) -> dict[tuple[Side, str, str], Contrast]:
    """Compare methods with the baseline and with their controls, where every seed is done."""
    if not metrics.METRICS[plan.metric].additive:
        return {}
    scores = {
        key: [score_of(record, plan.metric) for record in result.records.values()]
        for key, result in results.items()
        if len(result.records) == len(plan.seeds)
        and all(_comparable(record, plan.metric) for record in result.records.values())
    }
    ways = {key: _way(of) for key, of in scores.items()}
    asked: list[tuple[Side, str, str | None]] = []
    for method in plan.methods:
        asked.append(("baseline", method, None if method == plan.baseline else plan.baseline))
        asked.append(("control", method, plan.control_of(method)))
    contrasts = {}
    for corpus in plan.recipes:
        tests: dict[str, Mapping[str, metrics.Difference]] = {}
        for side, method, other in asked:
            way = ways.get((corpus, other or ""))
            if other is None or way is None or ways.get((corpus, method)) != way:
                continue
            if other not in tests:
                # Those that were scored in the same way, on as many sentences, share the model.
                systems = {
                    m: scores[c, m] for (c, m), w in ways.items() if c == corpus and w == way
                }
                apart = {m for m in systems if _augmented(results[corpus, m])}
                tests[other] = metrics.compare(systems, other, apart=apart, resamples=resamples)
            contrasts[side, corpus, method] = _contrast(
                tests[other][method],
                scores[corpus, method],
                scores[corpus, other],
                {name: results[corpus, name].faults for name in (method, other)},
            )
    return contrasts


def _augmented(result: Result) -> bool:
    """Tell whether runs were trained on made pairs: they met other batches than plain ones."""
    return any(record.augmenter for record in result.records.values())


def _contrast(
    test: metrics.Difference,
    mine: Sequence[metrics.Score],
    theirs: Sequence[metrics.Score],
    faults: Mapping[str, Mapping[int, str]],
) -> Contrast:
    pairs = list(zip(mine, theirs, strict=True))
    said = (f"{m}, seed {seed}: {fault}" for m, of in faults.items() for seed, fault in of.items())
    return Contrast(
        **vars(test),
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
    sequence = [(side, plan.primary) for side in AGAINST]
    first = [key for key in sequence if key in overall]
    if first[:1] != sequence[:1]:
        first = []  # its control alone is no primary contrast
    overall = metrics.corrected(overall, first=first)
    if first:
        overall[first[0]] = replace(overall[first[0]], primary=True)
    if len(plan.recipes) == 1:
        return {key: overall[key[0], key[2]] for key in single}, overall
    return metrics.corrected(single), overall


def _pooled(parts: Sequence[Contrast]) -> Contrast:
    if len(parts) == 1:
        return parts[0]
    test = metrics.mean_difference(parts)
    if not all(one.of_methods for one in parts):
        test = replace(test, test="sentences")
    return Contrast(
        **vars(test),
        corpora=len(parts),
        # Choice: of two corpora nobody learns how corpora vary.
        likely=metrics.random_effects(parts) if len(parts) > 2 else None,
        alike=all(one.alike for one in parts),
        fault=next((one.fault for one in parts if one.fault), ""),
    )


def worthwhile(metric: metrics.Metric, level: float) -> float:
    """Return a difference that is worth seeing: half a BLEU point, or 0.01 nats per token."""
    # Of perplexity, and nearly so of bits per token, 0.01 nats are one percent.
    return metric.largest / 200 if metric.largest <= 100 else abs(level) / 100


def _seeds_needed(plan: Plan, rows: Mapping[str, Overall]) -> dict[str, SeedsNeeded]:
    """Say how many seeds would show something worth it of the primary method, by corpus."""
    needed = {}
    for corpus in plan.recipes:
        results = {method: row.results[corpus] for method, row in rows.items()}
        result = results.get(plan.primary or "")
        one, mean = result.baseline if result else None, results[plan.baseline].mean
        if one is None or mean is None or not one.of_methods or one.alike or one.fault:
            continue
        seeds = len(one.seeds)
        effect = worthwhile(metrics.METRICS[plan.metric](), mean)
        shared = one.sentence_variance
        count = metrics.seeds_needed(
            effect,
            max(0.0, one.deviation**2 - shared) * seeds / 2,
            1 + round(one.degrees / (seeds - 1)),
            sentence_variance=shared,
        )
        needed[corpus] = SeedsNeeded(effect=effect, seeds=count)
    return needed


def _comparable(record: Record, metric: str) -> bool:
    return record.value("test", metric) is not None and record.table("test", metric) is not None


def _way(scores: Sequence[metrics.Score]) -> tuple[str, tuple[int, ...]] | None:
    """Return the signature and sentences of all seeds, None where seeds differ in them."""
    ways = {(score.signature, score.statistics.shape) for score in scores}
    return ways.pop() if len(ways) == 1 else None


def _result(trial: Trial, corpus: str, method: str) -> Result:
    """Sum up a method on a corpus, but for what it is compared with."""
    plan = trial.plan
    entries = [one for one in trial.entries if (one.corpus, one.method) == (corpus, method)]
    done = {one.seed: one.record for one in entries if one.record}
    records = {seed: done[seed] for seed in plan.seeds if seed in done}
    lines = trial.sources.get(corpus, ()), trial.references.get(corpus, ())
    faults = {seed: fault_of(record, plan.metric, *lines) for seed, record in records.items()}
    values = {
        metric: {seed: record.value("test", metric) for seed, record in records.items()}
        for metric in plan.metrics
    }
    scores = {metric: _spread(list(of.values())) for metric, of in values.items()}
    known = {metric: spread for metric, spread in scores.items() if spread is not None}
    mean, deviation = known.get(plan.metric, (None, None))
    results = [record.result for record in records.values()]
    return Result(
        records=records,
        values={seed: v for seed, v in values[plan.metric].items() if v is not None},
        mean=mean,
        deviation=deviation,
        scores=known,
        control_name=plan.control_of(method),
        seconds=statistics.fmean(one.seconds for one in results) if results else None,
        samples=statistics.fmean(one.samples for one in results) if results else None,
        failures={one.seed: one.failure for one in entries if one.failure and not one.record},
        faults={seed: fault for seed, fault in faults.items() if fault},
    )


def _spread(values: Sequence[float | None]) -> tuple[float, float | None] | None:
    """Return mean and deviation of seeds; None where a seed has no value."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None


def _signatures(trial: Trial) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the signature of every metric, and what was scored by several."""
    signatures: dict[str, dict[str, str]] = {}
    differing = []
    for corpus, record in [(one.corpus, one.record) for one in trial.entries if one.record]:
        here = signatures.setdefault(corpus, {})
        for metric in trial.plan.metrics:
            signature = record.signature("test", metric)
            if here.setdefault(metric, signature) != signature:
                differing.append(
                    f"{metric} on {corpus} was scored in several ways: methods that were scored in "
                    "another way are not compared."
                )
    return signatures, list(dict.fromkeys(differing))
