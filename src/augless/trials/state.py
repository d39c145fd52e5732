"""What is known of a trial's jobs: which are done, by content, and which failed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pydantic

from augless import corpora, data, recipes, runs, storage
from augless.errors import BUG, Failure, code_of
from augless.trials import facts, graph
from augless.trials.facts import Attempt, Choice, Values
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.loading import Records
from augless.trials.plans import Plan
from augless.trials.records import Record
from augless.trials.searching import points_of

if TYPE_CHECKING:
    from augless.recipes import Resolved
    from augless.recipes.following import Recipe

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A prepared corpus, as far as other jobs have to know it."""

    fingerprint: str
    folder: str = ""
    """its name among the prepared"""
    pairs: facts.Count = 0
    """of training"""
    seconds: facts.Seconds = 0.0
    """that preparing it took when it was prepared first"""
    here: bool = True
    """False where its files are gone, and it is known from records"""


class State:
    """What is known by now of a plan's jobs.

    With `retry`, failures of earlier calls do not count: what failed is tried again.
    """

    def __init__(self, plan: Plan, layout: Layout, *, retry: bool) -> None:
        self.plan, self.layout, self.retry = plan, layout, retry
        self.resolve: graph.Resolve = functools.cache(recipes.load)
        self.corpora: dict[str, Corpus | Failure] = {}
        """`source` of a job -> its corpus, or why it cannot be prepared"""
        self.failures: dict[str, Failure] = {}
        """key of a job -> why it failed since"""
        self.records = Records(layout)
        self._remembered = _remembered(layout)
        self._resolved: dict[tuple[object, ...], Resolved[Recipe]] = {}
        self._named: dict[tuple[object, ...], str] = {}

    def resolved(self, job: Job) -> Resolved[Recipe]:
        """Return a job's recipe."""
        about = (job.recipe, job.overrides, job.need)
        if about not in self._resolved:
            self._resolved[about] = graph.as_asked(job, self.resolve(job.recipe, job.overrides))
        return self._resolved[about]

    def source(self, job: Job) -> str:
        """Return what says where a job's corpus is and how it is prepared."""
        values = self.resolved(job).values
        parts = {k: v for k, v in values.items() if k.split(".")[0] in ("corpus", "text")}
        return json.dumps(parts, sort_keys=True)

    def identifier(self, job: Job) -> str | None:
        """Return what a run is called; None while its corpus, or what else it needs, is not known.

        Two runs of one recipe that learn from different work, such as made pairs, are two.
        """
        from augless.recipes import following

        corpus = self.corpora.get(self.source(job))
        keys = [self.key(need) for need in job.trained.blocking if need.kind != "prepare"]
        if self.resolved(job).recipe.augment is not None:
            keys = []  # the recipe says all of it, also where that was done on another machine
        if not isinstance(corpus, Corpus) or None in keys:
            return None
        content = corpus.fingerprint
        if keys:
            content = hashlib.sha256(json.dumps([content, *keys]).encode()).hexdigest()
        about = (job.recipe, job.overrides, job.need, content)
        if about not in self._named:  # reads whole models, where pairs are made by given ones
            self._named[about] = following.run_name(self.resolved(job), content)
        return self._named[about]

    def key(self, job: Job) -> str | None:
        """Return what a job is called by its content; None while that is not known."""
        if job.kind == "prepare":
            return f"prepare-{hashlib.sha256(self.source(job).encode()).hexdigest()[:12]}"
        identifier = self.identifier(job)
        if identifier is None:
            return None
        return "-".join((job.kind, identifier, *(job.splits if job.kind == "score" else ())))

    def done(self, job: Job) -> bool:
        """Tell whether a job's work is there."""
        return DONE[job.kind](self, job)

    def here(self, job: Job) -> bool:
        """Tell whether a job's corpus is prepared, on this machine."""
        corpus = self.corpora.get(self.source(job))
        return isinstance(corpus, Corpus) and corpus.here

    def augmented(self, job: Job) -> facts.Augmented | None:
        """Return what is known of the pairs that a job made, if it has."""
        with contextlib.suppress(OSError, ValueError):
            path = self.layout.made(self.identifier(job) or "")
            return facts.parsed(facts.Augmented, storage.read(path, 1 << 16))
        return None

    def result(self, job: Job) -> facts.Result | None:
        """Return what training a run took, if it is finished and here."""
        try:
            result = runs.Run.open(self.folder(job)).result
            return None if result is None else facts.parsed(facts.Result, result)
        except (runs.BadRun, OSError, ValueError):
            return None

    def spent(self, job: Job) -> facts.Spent:
        """Return what a job itself took, without what it needs; decoding is not measured."""
        if job.kind == "prepare":
            source = self.source(job)
            known = (self.corpora.get(source), self._remembered.get(source))
            # The longest: it was prepared once, and found prepared ever since.
            return facts.Spent(
                seconds=max((one.seconds for one in known if isinstance(one, Corpus)), default=0.0)
            )
        if job.kind == "augment":
            made = self.augmented(job)
            return (
                facts.Spent(seconds=made.seconds, samples=made.samples) if made else facts.Spent()
            )
        result = self._trained(job) if job.kind == "train" else None
        return (
            facts.Spent(seconds=result.seconds, samples=result.samples) if result else facts.Spent()
        )

    def told(self, job: Job) -> Mapping[str, facts.Spent]:
        """Return what a run says was done before its training, by what it was."""
        result = self._trained(job)
        return result.needed if result else {}

    def _trained(self, job: Job) -> facts.Result | None:
        """Return what training a run took, from its record or from the run itself."""
        if (identifier := self.identifier(job)) is None:
            return None
        record = self.records.of(identifier)
        return record.result if record else self.result(job)

    def folder(self, job: Job) -> Path:
        """Return the folder of a run."""
        return self.layout.run(f"{self.resolved(job).name}-{self.identifier(job)}")

    def failure(self, job: Job) -> Failure | None:
        """Return why a job has no result and will have none, if that is so."""
        if self.done(job):
            return None
        if job.kind == "prepare":
            corpus = self.corpora.get(self.source(job))
            if isinstance(corpus, Corpus):  # but its files are gone
                return _missing(self.resolved(job).recipe.corpus)
            return corpus
        before = (self.failure(need) for need in job.blocking)
        return next((why for why in before if why), None) or self._own_failure(job)

    def _own_failure(self, job: Job) -> Failure | None:
        key = self.key(job)
        if key is None or self.retry:
            return self.failures.get(key or "")
        with contextlib.suppress(OSError, ValueError):
            return facts.parsed(Failure, storage.read(self.layout.failure(key), 1 << 16))
        return None

    def fail(self, job: Job, why: Failure) -> None:
        """Take note of why a job failed, for reports too."""
        key = self.key(job)
        assert key is not None  # else it could not have begun
        if job.kind == "prepare":
            self.corpora[self.source(job)] = why
            return
        path = self.layout.failure(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.replace(path, json.dumps(dataclasses.asdict(why)).encode())
        self.failures[key] = why

    def record(self, job: Job) -> Record | None:
        """Return what a run left, if it is scored: here, or on whatever machine."""
        identifier = self.identifier(job)
        if identifier is None:
            return None
        record = self.records.of(identifier)
        return record if record is not None and self._covers(record, job) else None

    def _covers(self, record: Record, job: Job) -> bool:
        scored = (record.scores.get(split, {}) for split in job.splits)
        return all(name in scores for scores in scored for name in self.plan.metrics)

    def learn(self, job: Job, outcome: Corpus | facts.Augmented | Failure | None) -> None:
        """Take note of how a job ended; look for what it left."""
        if isinstance(outcome, Failure):
            self.fail(job, outcome)
        elif isinstance(outcome, facts.Augmented):
            path = self.layout.made(self.identifier(job) or "")
            path.parent.mkdir(parents=True, exist_ok=True)
            storage.replace(path, json.dumps(dataclasses.asdict(outcome)).encode())
        elif isinstance(outcome, Corpus):
            self.corpora[self.source(job)] = outcome
        elif job.kind == "score":
            self.records.forget(self.identifier(job) or "")
            if self.record(job) is None:
                self.fail(job, Failure(BUG, "it left no record that can be used"))

    # Corpora whose files are not on this machine

    def stand_in(self, wanted: Iterable[Job]) -> None:
        """Know corpora whose files are gone by what was prepared here, or by records of others.

        Somebody's own files have no name: if they are not where they should be, any may be meant.
        Of a public corpus all records must be of the same files.
        """
        files: dict[str, list[str]] = {}
        absent: dict[str, corpora.Corpus] = {}
        for job in graph.whole(wanted):
            corpus, source = self.resolved(job).recipe.corpus, self.source(job)
            there = _there(corpus)
            if source in self.corpora or all(there):
                continue
            absent[source] = corpus
            if source in self._remembered:
                known = self._remembered[source]
                self.corpora[source] = dataclasses.replace(known, here=False)
            elif not any(there) and not isinstance(corpus, corpora.Files):
                for record in self.records.everything:
                    inputs = sorted(file.sha256 for file in record.inputs) or [record.corpus]
                    fits = files.get(job.corpus, inputs) == inputs
                    if fits and graph.same(record.recipe, self.resolved(job)):
                        files[job.corpus] = inputs
                        self.corpora[source] = Corpus(fingerprint=record.corpus, here=False)
                        break
        for source, corpus in absent.items():
            if source not in self.corpora:
                self.corpora[source] = _missing(corpus)

    def recall(self, wanted: Iterable[Job]) -> None:
        """Take corpora that nobody has looked at in this call to be what they were in the last."""
        for job in graph.whole(wanted):
            if (source := self.source(job)) in self._remembered:
                self.corpora.setdefault(source, self._remembered[source])

    def prepare(self, job: Job, *, workers: int, progress: Progress) -> None:
        """Prepare a job's corpus in this process."""
        source = self.source(job)
        if source not in self.corpora:
            try:
                recipe, name = self.resolved(job).recipe, self.resolved(job).name
                self.corpora[source] = prepared(
                    recipe.corpus, recipe.text, self.layout, name, workers, progress
                )
            except (corpora.BadData, data.BadStore, OSError) as error:
                self.corpora[source] = Failure(code_of(error), str(error))

    def keep(self, wanted: Iterable[Job]) -> None:
        """Keep what this trial was done with, for reports: records, and which corpora they are of.

        So that a page can be made again when corpora or the folder of others' records are gone.
        """
        known = dict(self._remembered)
        for job in graph.whole(wanted):
            corpus = self.corpora.get(self.source(job))
            record = self.record(job) if job.kind == "score" else None
            if isinstance(corpus, Corpus) and corpus.here:
                before = known.get(self.source(job))
                seconds = max(corpus.seconds, before.seconds if before else 0.0)
                known[self.source(job)] = dataclasses.replace(corpus, seconds=seconds)
            if record is not None and not self.layout.record(record.id).exists():
                record.save(self.layout.record(record.id))
        content = {source: dataclasses.asdict(corpus) for source, corpus in known.items()}
        storage.replace(self.layout.corpora, json.dumps(content, indent=1, sort_keys=True).encode())

    # Tuning

    def points(self, corpus: str, method: str) -> list[Values]:
        """List the combinations to try; a search knows its last ones by the scores of the first."""
        return points_of(self.plan, corpus, method, lambda p: self._attempt(corpus, method, p))

    def _attempt(self, corpus: str, method: str, point: Values) -> Attempt | None:
        """Return what came of a combination; None while that is not known."""
        scores: list[float | None] = []
        losses: list[float | None] = []
        failures: list[Failure] = []
        seconds: list[float] = []
        for job in graph.tuning(self.plan, self.resolve, corpus, method, point):
            record = self.record(job)
            failure = self.failure(job) if record is None else None
            if record is None and failure is None:
                return None
            score = loss = _loss(record) if record else None
            if record is not None and self.plan.choose != facts.LOSS:
                score = record.value("valid", self.plan.choose)
            scores.append(score)
            losses.append(loss)
            failures += [failure] if failure else []
            seconds += [record.result.seconds] if record else []
        return Attempt(
            values=point,
            score=_mean(scores),
            scores=tuple(scores),
            loss=_mean(losses),
            failure=failures[0] if failures else None,
            seconds=sum(seconds) if seconds else None,
        )

    def choice(self, corpus: str, method: str) -> Choice | None:
        """Return what was best on the validation set; None while that is not known.

        Of equals the one with the lower loss wins, then the first. A combination whose run failed
        is passed over.
        """
        attempts = [self._attempt(corpus, method, p) for p in self.points(corpus, method)]
        tried = [attempt for attempt in attempts if attempt is not None]
        if len(tried) < self.plan.budget:
            return None
        sign = 1 if self.plan.chooses_highest else -1
        done = [
            (sign * one.score, -math.inf if one.loss is None else -one.loss, one)
            for one in tried
            if one.score is not None
        ]
        best = max(done, key=lambda ranked: ranked[:2], default=(0.0, 0.0, None))[2]
        seeds = self.plan.seeds_of_tuning
        return Choice(best=best, by=self.plan.choose, seeds=seeds, tried=tuple(tried))

    def jobs(self) -> list[Job]:
        """List the runs to score that are known by now, tuning first."""
        return graph.of(self.plan, self.resolve, self.points, self.choice)

    def ready(self, wanted: Iterable[Job]) -> list[Job]:
        """List the jobs that could begin now: once each, whatever needs them."""
        found: dict[str, Job] = {}
        for job in wanted:
            for one in self._open(job):
                found.setdefault(self.key(one) or "", one)
        return list(found.values())

    def _open(self, job: Job) -> Iterator[Job]:
        """Yield what is to be done first of a job and its needs."""
        if self.done(job) or self.failure(job) is not None:
            return
        waiting = [need for need in job.blocking if not self.done(need)]
        if not waiting:
            yield job
        for need in waiting:
            yield from self._open(need)


DONE: dict[graph.Kind, Callable[[State, Job], bool]] = {
    "prepare": State.here,
    "augment": lambda state, job: state.augmented(job) is not None,
    "train": lambda state, job: state.result(job) is not None,
    "score": lambda state, job: state.record(job) is not None,
}
"""kind of job -> whether its work is there"""


def _loss(record: Record) -> float | None:
    """Return the validation loss, in nats per sentence; None if it is not known or not finite."""
    nats = record.statistics.get("valid/nats")
    return None if nats is None else float(nats.mean())


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, None if any is not known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def prepared(
    corpus: corpora.Corpus,
    text: data.Settings,
    layout: Layout,
    name: str,
    workers: int,
    progress: Progress,
) -> Corpus:
    """Prepare a corpus, or find that it was."""
    began = time.monotonic()
    found = data.prepare(
        corpus, text, layout.prepared, name=name, workers=workers, progress=progress
    )
    return Corpus(
        fingerprint=found.fingerprint,
        folder=found.folder.name,
        pairs=found.manifest["splits"]["train"],
        seconds=time.monotonic() - began,
    )


def _there(corpus: corpora.Corpus) -> list[bool]:
    """Tell of each file of a corpus whether it exists."""
    try:
        return [path.exists() for path in corpus.inputs()]
    except corpora.BadData:  # such as two forms of a file: it is there
        return []


def _missing(corpus: corpora.Corpus) -> Failure:
    """Say what is missing of a corpus."""
    try:
        corpus.check()
        corpus.fingerprint()
    except (corpora.BadData, OSError) as error:
        return Failure(code_of(error), str(error))
    return Failure(code_of(corpora.BadData()), "files of it are not there")


Remembered = Annotated[
    Corpus,
    pydantic.BeforeValidator(lambda v: {"fingerprint": v} if isinstance(v, str) else v),
]
"""older files have the fingerprint alone"""


def _remembered(layout: Layout) -> dict[str, Corpus]:
    """Return what was prepared here before."""
    try:
        return facts.parsed(dict[str, Remembered], storage.read(layout.corpora, 1 << 26))
    except (OSError, ValueError):
        return {}
