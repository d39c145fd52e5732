"""What each kind of job does, in a process of its own: a function each, and a table of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from augless import data, metrics, runs, storage
from augless.errors import Busy, Stopped
from augless.trials import facts, graph, records, state
from augless.trials.layout import Layout
from augless.trials.pool import GRACE, Stop

if TYPE_CHECKING:
    from augless import training
    from augless.recipes import following

INTERVALS = 200
"""entries of a log between two epochs that are kept at most"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A job for another process, with all that it has to know."""

    job: graph.Job
    key: str
    identifier: str
    """of the run; nothing where there is none"""
    layout: Layout
    metrics: tuple[str, ...] = ()
    threads: int = 1
    device: training.Device = "cpu"

    @property
    def log(self) -> Path:
        """Where what it prints goes."""
        return self.layout.log(self.key)

    @property
    def saves(self) -> bool:
        """Whether it looks for a stop: the others leave nothing half done."""
        return WORK[self.job.kind].saves

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        from augless.recipes import following

        return self.layout.run(following.folder_name(self.job.resolved, self.identifier))

    def place(self, stop: Stop) -> following.Place:
        """Return where and how the recipe is followed."""
        from augless.recipes import following

        return following.Place(
            prepared=self.layout.prepared,
            runs=self.layout.runs,
            device=self.device,
            stop=stop,
            on_record=_say,
            progress=_Said(),
        )

    def __call__(self, stop: Stop) -> Any:
        """Do the job; mark it as done where nothing else tells that."""
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        what = f"{self.job.kind} {self.job.model} for" if self.job.model else self.job.kind
        print(f"{when} {what} {self.job.command}", flush=True)
        began = time.monotonic()
        outcome = WORK[self.job.kind].do(self, stop)
        if self.job.kind not in state.DONE:
            timed = runs.Spent(seconds=time.monotonic() - began)
            took = outcome if isinstance(outcome, runs.Spent) else timed
            mark = self.layout.done(self.key)
            mark.parent.mkdir(parents=True, exist_ok=True)
            storage.replace(mark, storage.encoded(asdict(took)))
        return outcome


@dataclass(frozen=True, kw_only=True)
class Work:
    """A kind of work."""

    do: Callable[[Order, Stop], Any]
    """what it returns is told to the trial; if that is `Spent`, it is what the work cost, else the
    time counts"""
    stage: str
    """what is said of it while it goes on"""
    saves: bool = False
    """whether it looks for a stop, and saves: other kinds are ended at once"""


class _Said:
    """Prints how far something is, now and then."""

    def __init__(self) -> None:
        self._stage, self._at = "", 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage or time.monotonic() - self._at > 1:
            print(f"{stage}: {done / total:.0%}" if total else stage, flush=True)
            self._stage, self._at = stage, time.monotonic()


def _say(record: runs.Logged) -> None:
    if record.kind == "epoch":
        scores = " ".join(f"{name} {value:.4f}" for name, value in record.scores.items())
        print(f"epoch {record.epoch} step {record.step} {scores}", flush=True)


def prepare(order: Order, stop: Stop) -> state.Corpus:
    """Prepare a corpus, or find that it was."""
    return state.Corpus.of(order.job, order.place(stop))


def augment(order: Order, stop: Stop) -> None:
    """Make the pairs that a recipe adds, or resume that."""
    from augless.recipes import following

    if following.augment(order.job.resolved, order.place(stop)) is None:
        raise Stopped("stopped; run the same trial to resume")


def train(order: Order, stop: Stop) -> None:
    """Train a run to its end, or resume it."""
    from augless.recipes import following

    patience = time.monotonic() + GRACE
    while True:
        try:
            place = order.place(stop)
            _, finished = following.train(order.job.resolved, place, folder=order.folder)
            break
        except Busy:  # the process of a killed trial may still be saving
            if time.monotonic() > patience or stop():
                raise
            time.sleep(0.2)
    if not finished:
        raise Stopped("stopped; run the same trial to resume")


def score(order: Order, stop: Stop) -> None:
    """Decode what the job asks for and leave the record."""
    from augless import training
    from augless.recipes import following

    layout, job = order.layout, order.job
    run = runs.Run.open(order.folder)
    ended = run.outcome()
    assert ended is not None  # a score needs a trained run
    prepared = following.prepare(job.resolved, order.place(stop))
    writer = following.writer(run.folder, order.device)
    target = prepared.codecs[1]
    known = {"language": target.tokeniser.language, "vocabulary": target.fingerprint[:12]}
    scores: facts.Scores = {}
    statistics = {}
    hypotheses = {}
    fault = unrelated = ""
    for split in job.splits:  # the test set last
        print(f"decoding {split}", flush=True)
        sources, references = (prepared.lines(split, side) for side in data.SIDES)
        pairs = prepared.pairs(split)
        nats, tokens = training.nats(writer.model, pairs)
        hypotheses[split] = writer.best(sources)
        fault = str(metrics.degenerate(hypotheses[split], references, sources) or "")
        unrelated = str(metrics.unrelated(hypotheses[split], references, sources) or "")
        if split == "test":
            hypotheses |= dict(zip(records.TEST_LINES, (sources, references), strict=True))
            statistics["test/length"] = pairs.target.lengths.astype(np.float64)
            statistics["test/source_length"] = pairs.source.lengths.astype(np.float64)
        statistics[f"{split}/nats"] = nats
        scores[split] = {}
        for name in order.metrics:
            metric = metrics.made(name, **known)
            scored = metrics.score(metric, hypotheses[split], references, nats=nats, tokens=tokens)
            value = scored.value if math.isfinite(scored.value) else None
            scores[split][name] = facts.Score(value, scored.signature)
            if split == "test":  # nothing is tested on the others
                statistics[f"{split}/{name}"] = scored.statistics
            print(f"{split} {name} {scored.value:.4f}", flush=True)
    records.save_hypotheses(layout.hypotheses(order.identifier), hypotheses)
    records.Record(
        id=order.identifier,
        name=job.resolved.name,
        recipe=graph.settled(job.resolved),
        seed=job.seed,
        corpus=prepared.fingerprint,
        inputs=tuple(facts.Input(**vars(file)) for file in prepared.manifest.inputs),
        versions={key: str(value) for key, value in run.versions.items()},
        command=f"{job.portable} --threads {order.threads} --device {order.device}",
        result=ended,
        scores=scores,
        statistics=statistics,
        history=thinned(run.metrics()),
        fault=fault,
        unrelated=unrelated,
    ).save(layout.record(order.identifier))
    # Its best model stays; what it would have gone on from is three times as large.
    run.forget()


WORK: dict[graph.Kind, Work] = {
    "prepare": Work(do=prepare, stage="preparing"),
    "augment": Work(do=augment, stage="augmenting", saves=True),
    "train": Work(do=train, stage="training", saves=True),
    "score": Work(do=score, stage="scoring"),
}


def thinned(history: Sequence[runs.Logged]) -> tuple[runs.Logged, ...]:
    """Keep every epoch of a run's history, and evenly spaced ones of what lies between."""
    between = [place for place, entry in enumerate(history) if entry.kind == "interval"]
    every = -(-len(between) // INTERVALS) or 1
    left_out = {*between} - {*between[every - 1 :: every]}
    return tuple(entry for place, entry in enumerate(history) if place not in left_out)
