"""What each kind of job does, in a process of its own: a function each, and a table of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from augless import data, metrics, recipes, runs
from augless.trials import facts, graph, records, state
from augless.trials.layout import Layout
from augless.trials.pool import GRACE, Stop, Stopped

if TYPE_CHECKING:
    from augless.recipes import Resolved
    from augless.recipes.following import Recipe

INTERVALS = 200
"""entries of a log between two epochs that are kept at most"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A job for another process, with all that it has to know."""

    job: graph.Job
    key: str
    identifier: str
    """of the run; nothing where there is none"""
    root: Path
    metrics: tuple[str, ...]
    threads: int
    device: str
    workers: int = 1

    @property
    def layout(self) -> Layout:
        """Where the trial keeps what."""
        return Layout(self.root)

    @property
    def log(self) -> Path:
        """Where what it prints goes."""
        return self.layout.log(self.key)

    @property
    def saves(self) -> bool:
        """Whether it looks for a stop: the others leave nothing half done."""
        return self.job.kind in ("augment", "train")

    @property
    def resolved(self) -> Resolved[Recipe]:
        """The recipe."""
        return graph.as_asked(self.job, recipes.load(self.job.recipe, self.job.overrides))

    def __call__(self, stop: Stop) -> Any:
        """Do the job."""
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        what = f"{self.job.kind} {self.job.need} for" if self.job.need else self.job.kind
        print(f"{when} {what} {self.job.command}", flush=True)
        return WORK[self.job.kind](self, stop)


def prepare(order: Order, stop: Stop) -> state.Corpus:
    """Prepare a corpus, or find that it was."""
    resolved: Resolved[Any] = (
        order.resolved
        if order.job.need
        else recipes.preparation(order.job.recipe, order.job.overrides)
    )
    recipe = resolved.recipe
    return state.prepared(
        recipe.corpus, recipe.text, order.layout, resolved.name, order.workers, _Said()
    )


class _Said:
    """Prints how far something is, now and then."""

    def __init__(self) -> None:
        self._stage, self._at = "", 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage or time.monotonic() - self._at > 1:
            print(f"{stage}: {done / total:.0%}" if total else stage, flush=True)
            self._stage, self._at = stage, time.monotonic()


def augment(order: Order, stop: Stop) -> facts.Augmented:
    """Make the pairs that a recipe adds, or go on with it."""
    from augless.recipes import following, needing

    layout, resolved = order.layout, order.resolved
    made = following.augment(
        resolved,
        prepared_root=layout.prepared,
        runs_root=layout.runs,
        device=order.device,  # type: ignore[arg-type]  # checked by whoever gave the order
        workers=order.workers,
        stop=stop,
        progress=_Said(),
    )
    if made is None:
        raise Stopped("stopped; the same trial goes on from here")
    took = following.costs(resolved, made, layout.prepared, layout.runs)
    for need in needing.needs(resolved):
        took.pop(need)  # a job of its own
    rewriting = took.pop(facts.REWRITING)
    return facts.Augmented(
        pairs=made.manifest["pairs"]["made"],
        seconds=rewriting["seconds"] + sum(one["seconds"] for one in took.values()),
        samples=int(sum(one["samples"] for one in took.values())),
    )


def train(order: Order, stop: Stop) -> None:
    """Train a run to its end, or go on with it."""
    from augless.recipes import following

    resolved = order.resolved
    patience = time.monotonic() + GRACE
    while True:
        try:
            _, finished = following.train(
                resolved,
                folder=order.layout.run(f"{resolved.name}-{order.identifier}"),
                prepared_root=order.layout.prepared,
                runs_root=order.layout.runs,
                device=order.device,  # type: ignore[arg-type]  # checked by whoever gave the order
                stop=stop,
                on_record=_say,
            )
            break
        except runs.Busy:  # the process of a killed trial may still be saving
            if time.monotonic() > patience or stop():
                raise
            time.sleep(0.2)
    if not finished:
        raise Stopped("stopped; the same trial goes on from here")


def score(order: Order, stop: Stop) -> None:
    """Decode what the job asks for and leave the record."""
    from augless import training
    from augless.recipes import following

    layout, job, resolved = order.layout, order.job, order.resolved
    recipe = resolved.recipe
    run = runs.Run.open(layout.run(f"{resolved.name}-{order.identifier}"))
    prepared = data.prepare(recipe.corpus, recipe.text, layout.prepared, name=resolved.name)
    writer = following.writer(run.folder, order.device)  # type: ignore[arg-type]  # checked
    scores: facts.Scores = {}
    statistics = {}
    hypotheses = {}
    fault = ""
    for split in job.splits:  # the test set last
        print(f"decoding {split}", flush=True)
        sources, references = (prepared.lines(split, side) for side in data.SIDES)
        pairs = prepared.pairs(split)
        nats, tokens = training.nats(writer.model, pairs)
        hypotheses[split] = writer.generate(sources)
        fault = str(metrics.degenerate(hypotheses[split], references, sources) or "")
        if split == "test":
            hypotheses |= dict(zip(records.SIDES, (sources, references), strict=True))
            statistics["test/length"] = pairs.target.lengths.astype(np.float64)
            statistics["test/source_length"] = pairs.source.lengths.astype(np.float64)
        statistics[f"{split}/nats"] = nats
        scores[split] = {}
        for name in order.metrics:
            metric = _metric(name, prepared)
            found = metrics.score(metric, hypotheses[split], references, nats=nats, tokens=tokens)
            value = found.value if math.isfinite(found.value) else None
            scores[split][name] = facts.Score(value, found.signature)
            if split == "test":  # nothing is tested on the others
                statistics[f"{split}/{name}"] = found.statistics
            print(f"{split} {name} {found.value:.4f}", flush=True)
    records.save_hypotheses(layout.hypotheses(order.identifier), hypotheses)
    command = graph.portable(job, resolved)
    records.Record(
        id=order.identifier,
        name=resolved.name,
        recipe=graph.settled(resolved),
        seed=job.seed,
        corpus=prepared.fingerprint,
        inputs=facts.parsed(tuple[facts.Input, ...], prepared.manifest["inputs"]),
        versions={key: str(value) for key, value in run.versions.items()},
        command=f"{command} --threads {order.threads} --device {order.device}",
        result=facts.parsed(facts.Result, run.result),
        scores=scores,
        statistics=statistics,
        history=thinned(facts.history_of(run.metrics())),
        fault=fault,
    ).save(layout.record(order.identifier))
    # Its best model stays; what it would have gone on from is three times as large.
    run.forget()


WORK: dict[graph.Kind, Callable[[Order, Stop], Any]] = {
    "prepare": prepare,
    "augment": augment,
    "train": train,
    "score": score,
}
"""kind of job -> what does it; what it returns is told to the trial"""


def thinned(history: Sequence[facts.Logged]) -> tuple[facts.Logged, ...]:
    """Keep every epoch of a run's history, and evenly spaced ones of what lies between."""
    between = sum(entry.kind == "interval" for entry in history)
    every, seen = -(-between // INTERVALS) or 1, 0
    kept = []
    for entry in history:
        if entry.kind == "interval":
            seen += 1
            if seen % every:
                continue
        kept.append(entry)
    return tuple(kept)


def _metric(name: str, prepared: data.Prepared) -> metrics.Metric:
    """Make a metric, in the language of the target where that matters."""
    kind = metrics.METRICS[name]
    knobs = {knob.name for knob in fields(kind)}
    given = {}
    if "language" in knobs:
        given["language"] = prepared.codecs[1].tokeniser.language
    if "vocabulary" in knobs:
        given["vocabulary"] = prepared.codecs[1].fingerprint[:12]
    metric: metrics.Metric = kind(**given)
    return metric


def _say(record: Any) -> None:
    if record["kind"] == "epoch":
        scores = " ".join(f"{name} {value:.4f}" for name, value in record["scores"].items())
        print(f"epoch {record['epoch']} step {record['step']} {scores}", flush=True)
