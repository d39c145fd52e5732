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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from augless import corpora, runs, schemas, storage
from augless.errors import BAD_DATA, BUG, Failure, code_of
from augless.runs import Spent
from augless.trials import facts, graph
from augless.trials.facts import Attempt, Choice, Cost, Part, Values
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.plans import Plan
from augless.trials.records import Record, Records
from augless.trials.searching import points_of

if TYPE_CHECKING:
    from augless.recipes import following


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A prepared corpus, as far as other jobs have to know it."""

    fingerprint: str
    folder: str = ""
    """its name among the prepared"""
    pairs: schemas.Count = 0
    """of training"""
    seconds: schemas.Seconds = 0.0
    """that preparing it took when it was prepared first"""
    here: bool = True
    """False where its files are gone, and it is known from records"""

    @staticmethod
    def of(job: Job, place: following.Place) -> Corpus:
        """Prepare the corpus of a job, or find that it was."""
        from augless.recipes import following

        began = time.monotonic()
        prepared = following.prepare(job.resolved, place)
        return Corpus(
            fingerprint=prepared.fingerprint,
            folder=prepared.folder.name,
            pairs=prepared.manifest.splits["train"],
            seconds=time.monotonic() - began,
        )


class State:
    """What is known by now of a plan's jobs.

    With `retry`, failures of earlier calls do not count: what failed is tried again.
    """

    def __init__(self, plan: Plan, layout: Layout, *, retry: bool) -> None:
        self.plan, self.layout, self.retry = plan, layout, retry
        self.corpora: dict[str, Corpus] = {}
        """`source` of a job -> its corpus"""
        self.failures: dict[str, Failure] = {}
        """key of a job -> why it failed since"""
        self.records = Records(layout)
        self._remembered = _remembered(layout)
        self._named: dict[tuple[str, ...], str] = {}
        self._choices: dict[tuple[str, str], Choice] = {}
        """corpus, method -> what was chosen, which stays: no run that ended begins again"""
        self.recipes = graph.Recipes()

    # What jobs are called, and how they stand

    def identifier(self, job: Job) -> str | None:
        """Return what a run is called by its content; None while its corpus is not known."""
        from augless.recipes import following

        corpus = self.corpora.get(job.source)
        if corpus is None:
            return None
        about = (job.recipe, *job.overrides, job.model, corpus.fingerprint)
        if about not in self._named:  # reads whole models, where pairs are made by given ones
            self._named[about] = following.run_name(job.resolved, corpus.fingerprint)
        return self._named[about]

    def key(self, job: Job) -> str | None:
        """Return what a job is called by its content; None while that is not known."""
        if job.kind == "prepare":
            return f"prepare-{hashlib.sha256(job.source.encode()).hexdigest()[:12]}"
        identifier = self.identifier(job)
        splits = job.splits if job.kind == "score" else ()
        return None if identifier is None else "-".join((job.kind, identifier, *splits))

    def folder(self, job: Job) -> Path:
        """Return the folder of a run."""
        from augless.recipes import following

        return self.layout.run(following.folder_name(job.resolved, str(self.identifier(job))))

    def done(self, job: Job) -> bool:
        """Tell whether a job's work is there."""
        return DONE[job.kind](self, job) if job.kind in DONE else self.marked(job) is not None

    def prepared(self, job: Job) -> bool:
        """Tell whether a job's corpus is prepared, on this machine."""
        corpus = self.corpora.get(job.source)
        return corpus is not None and corpus.here

    def marked(self, job: Job) -> Spent | None:
        """Return what a job took that is marked as done."""
        try:
            path = self.layout.done(self.key(job) or "")
            return schemas.parsed(Spent, storage.read(path, 1 << 16))
        except (OSError, ValueError):
            return None

    def outcome(self, job: Job) -> runs.Outcome | None:
        """Return how training a run ended, if it has and is here."""
        try:
            return runs.Run.open(self.folder(job)).outcome()
        except (OSError, ValueError):
            return None

    def record(self, job: Job) -> Record | None:
        """Return what a run left, if it is scored: here, or on whatever machine."""
        record = self.records.of(self.identifier(job))
        if record is None:
            return None
        scored = (record.scores.get(split, {}) for split in job.splits)
        return record if all({*self.plan.metrics} <= {*scores} for scores in scored) else None

    def failure(self, job: Job) -> Failure | None:
        """Return why a job has no result and will have none, if that is so."""
        if self.done(job):
            return None
        if job.kind == "choose":  # a combination whose run failed is passed over
            choice = self.choice(job.corpus, job.method)
            return _unchosen(job.method, choice) if choice else None
        for need in job.needs:
            if (why := self.failure(need)) is not None:
                return why
        key = self.key(job) or ""
        if key not in self.failures and not self.retry:
            with contextlib.suppress(OSError, ValueError):
                path = self.layout.failure(key)
                self.failures[key] = schemas.parsed(Failure, storage.read(path, 1 << 16))
        return self.failures.get(key)

    def ready(self, wanted: Iterable[Job]) -> dict[str, Job]:
        """Return the jobs that could begin now by their keys: once each, whatever needs them."""
        jobs: dict[str, Job] = {}
        for job in wanted:
            for one in self._open(job):
                jobs.setdefault(self.key(one) or "", one)
        return jobs

    def _open(self, job: Job) -> Iterator[Job]:
        """Yield what is to be done first of a job and its needs."""
        if self.done(job) or self.failure(job) is not None:
            return
        waiting = [need for need in job.needs if not self.done(need)]
        if not waiting:
            yield job
        for need in waiting:
            yield from self._open(need)

    def learn(self, job: Job, outcome: Corpus | Spent | Failure | None) -> None:
        """Take note of how a job ended; look for what it left."""
        if isinstance(outcome, Corpus):
            # The first time counts: it was prepared once, and found prepared ever since.
            first = self._remembered.get(job.source, outcome)
            self.corpora[job.source] = dataclasses.replace(outcome, seconds=first.seconds)
        if job.kind == "score":
            self.records.forget(self.identifier(job))
            if outcome is None and self.record(job) is None:
                outcome = Failure(BUG, "it left no record that can be used")
        if isinstance(outcome, Failure):
            key = self.key(job)
            assert key is not None  # else it could not have begun
            self.failures[key] = outcome
            if job.kind != "prepare":  # for reports, which prepare corpora themselves
                path = self.layout.failure(key)
                path.parent.mkdir(parents=True, exist_ok=True)
                storage.replace(path, json.dumps(dataclasses.asdict(outcome)).encode())

    # Corpora whose files are not on this machine

    def recover_missing_corpora(self) -> None:
        """Know corpora whose files are gone by what was prepared here, or by records of others.

        Somebody's own files have no name: if they are not where they should be, any may be meant.
        Of a public corpus all records must be of the same files.
        """
        files: dict[str, list[str]] = {}
        for job in graph.with_needs(self.jobs()):
            corpus = _original(job.resolved.recipe.corpus)
            source, there = job.source, _there(corpus)
            if source in self.corpora or all(there):
                continue
            if job.kind == "prepare":
                self.failures[self.key(job) or ""] = _missing(job)
            if source in self._remembered:
                self.corpora[source] = dataclasses.replace(self._remembered[source], here=False)
            elif not any(there) and not isinstance(corpus, corpora.Files):
                record = self._elsewhere(job, files.get(job.corpus))
                if record is not None:
                    files[job.corpus] = record.files
                    self.corpora[source] = Corpus(fingerprint=record.corpus, here=False)

    def _elsewhere(self, job: Job, files: list[str] | None) -> Record | None:
        """Return the record of a run whose corpus is not here, if it was of these files.

        The run's name tells the corpus by name alone: its knobs, such as its languages, must fit.
        """
        from augless.recipes import following

        values = job.resolved.values.items()
        knobs = {key: value for key, value in values if key.startswith("corpus.")}
        for corpus in dict.fromkeys(record.corpus for record in self.records.everything):
            record = self.records.of(following.run_name(job.resolved, corpus))
            if (
                record is not None
                and files in (None, record.files)
                and all(record.recipe.get(key, value) == value for key, value in knobs.items())
            ):
                return record
        return None

    def require_corpus(self) -> None:
        """Raise what is wrong with the corpora if none can be used and no record stands in."""
        jobs = self.jobs()
        reasons = [self.failure(job) for job in graph.with_needs(jobs) if job.kind == "prepare"]
        bad = [why.why for why in reasons if why is not None and why.code == BAD_DATA]
        if len(bad) == len(reasons) and not any(map(self.done, jobs)):
            raise corpora.BadData(bad[0])

    def keep(self) -> None:
        """Keep what this trial was done with, for reports: records, and which corpora they are of.

        So that a page can be made again when corpora or the folder of others' records are gone.
        Corpora that nobody has looked at in this call are taken to be what they were in the last.
        """
        kept = self._remembered | {s: corpus for s, corpus in self.corpora.items() if corpus.here}
        self.corpora = self._remembered | self.corpora
        content = {source: dataclasses.asdict(corpus) for source, corpus in kept.items()}
        storage.replace(self.layout.corpora, json.dumps(content, indent=1, sort_keys=True).encode())
        for job in self.jobs():
            record = self.record(job)
            if record is not None and not self.layout.record(record.id).exists():
                record.save(self.layout.record(record.id))

    # Runs, and what tuning chooses

    def jobs(self) -> list[Job]:
        """List the runs to score that are known by now, tuning first."""
        pairs = [(corpus, method) for corpus in self.plan.recipes for method in self.plan.methods]
        wanted = graph.with_needs(job for pair in pairs for job in self.wanted(*pair))
        tried = [need for job in wanted if job.kind == "choose" for need in job.needs]
        return tried + [job for job in wanted if job.kind == "score" and job.purpose == "final"]

    def later(self) -> list[Job]:
        """List the runs that wait for scores, with the first combination in place of theirs."""
        plan, jobs = self.plan, []
        for corpus in plan.recipes:
            for method in plan.tune:
                left = plan.budget - len(self.points(corpus, method))
                jobs += self.tries(corpus, method, plan.points(method)[0]) * left
            for method in plan.methods:
                first = self.wanted(corpus, method)[0]
                if first.kind == "choose" and self.choice(corpus, first.method) is None:
                    jobs += self._finals(corpus, method, plan.points(first.method)[0], first)
        return [dataclasses.replace(job, tried={}) for job in jobs]

    def wanted(self, corpus: str, method: str) -> list[Job]:
        """List the final runs of a method; while these are not known, the job that chooses."""
        source = self.plan.source(method)
        if source not in self.plan.tune:
            return self._finals(corpus, method, {})
        tried = [self.tries(corpus, source, point) for point in self.points(corpus, source)]
        choose = graph.choose([job for jobs in tried for job in jobs])
        best = self.chosen(choose)
        return [choose] if best is None else self._finals(corpus, method, best.values, choose)

    def _finals(
        self, corpus: str, method: str, point: Values, choose: Job | None = None
    ) -> list[Job]:
        """List the runs of a method with a combination, one for each seed of the plan."""
        run = functools.partial(graph.run, self.plan, corpus, method, read=self.recipes)
        return [run(seed, point, choose=choose) for seed in self.plan.seeds]

    def tries(self, corpus: str, method: str, point: Values) -> list[Job]:
        """List the runs that try a combination, one for each seed of tuning."""
        run = functools.partial(graph.run, self.plan, corpus, method, read=self.recipes)
        return [run(seed, point, "tune") for seed in self.plan.seeds_of_tuning]

    def points(self, corpus: str, method: str) -> list[Values]:
        """List the combinations to try; a search knows its last ones by the scores of the first."""
        return points_of(self.plan, corpus, method, lambda p: self._attempt(corpus, method, p))

    def _attempt(self, corpus: str, method: str, point: Values) -> Attempt | None:
        """Return what came of a combination; None while that is not known."""
        jobs = self.tries(corpus, method, point)
        records = [self.record(job) for job in jobs]
        failures = [self.failure(job) for job in jobs]
        if any(not one and not why for one, why in zip(records, failures, strict=True)):
            return None
        losses = [_loss(record) for record in records]
        scores = [self.validated(record) for record in records]
        seconds = [record.result.seconds for record in records if record]
        return Attempt(
            values=point,
            score=_mean(scores),
            scores=tuple(scores),
            loss=_mean(losses),
            failure=next((why for why in failures if why), None),
            seconds=sum(seconds) if seconds else None,
        )

    def validated(self, record: Record | None) -> float | None:
        """Return what tuning compares of a run: its validation loss, or a metric."""
        if self.plan.choose == facts.LOSS:
            return _loss(record)
        return record.value("valid", self.plan.choose) if record else None

    def choice(self, corpus: str, method: str) -> Choice | None:
        """Return what was best on the validation set; None while that is not known.

        Of equals, and of scores near 0, the one with the lower loss wins, then the first. A
        combination whose run failed is passed over.
        """
        if (known := self._choices.get((corpus, method))) is not None:
            return known
        attempts = [self._attempt(corpus, method, p) for p in self.points(corpus, method)]
        tried = [attempt for attempt in attempts if attempt is not None]
        if len(tried) < self.plan.budget:
            return None
        sign = -1 if self.plan.chooses_highest else 1

        def rank(one: Attempt) -> tuple[float, float]:
            assert one.score is not None
            return sign * self.plan.ranked(one.score), math.inf if one.loss is None else one.loss

        best = min((one for one in tried if one.score is not None), key=rank, default=None)
        seeds = self.plan.seeds_of_tuning
        choice = Choice(best=best, by=self.plan.choose, seeds=seeds, tried=tuple(tried))
        return self._choices.setdefault((corpus, method), choice)

    def chosen(self, job: Job) -> Attempt | None:
        """Return what a job has chosen; None while it has not, or where all runs failed."""
        choice = self.choice(job.corpus, job.method)
        return choice.best if choice else None

    def cost(self, corpus: str, method: str) -> Cost:
        """Add up what a method's runs took with all that they need, each piece of work once.

        What making pairs took, and training the model that made them, the runs themselves say: so
        it is known where only records are. Decoding is not measured.
        """
        work: dict[str, tuple[Part, Spent]] = {}
        for job in graph.with_needs(self.wanted(corpus, method)):
            for part, key, spent in self._spent(job):
                work.setdefault(key, (part, spent))
        parts: dict[Part, Spent] = {}
        for part, spent in work.values():
            parts[part] = parts.get(part, Spent()) + spent
        return Cost(parts)

    def _spent(self, job: Job) -> Iterator[tuple[Part, str, Spent]]:
        """Yield what a job took, and a run's pairs before: part of a cost, key, cost."""
        from augless.recipes import following

        key, corpus = self.key(job), self.corpora.get(job.source)
        if key is None or corpus is None:
            return
        if job.kind == "prepare":
            yield "prepare", key, Spent(seconds=corpus.seconds)
        elif job.kind not in DONE and job.kind != "augment":
            yield "other", key, self.marked(job) or Spent()
        if job.kind != "train" or job.model:
            return
        record = self.records.of(self.identifier(job))
        ended = record.result if record else self.outcome(job) or runs.Outcome()
        yield "own" if job.purpose == "final" else "tune", key, ended
        for made in job.needs:
            if made.kind != "augment":
                continue
            trains = {need.model: self.key(need) for need in made.needs if need.kind == "train"}
            for what, took in ended.needed.items():
                # Rewriting trains nothing.
                spent = Spent(seconds=took.seconds) if what == following.REWRITING else took
                # A corpus with its sides swapped is not known where it was never prepared.
                key = trains.get(what) or f"{self.key(made)}, {what}"
                yield "train" if what in trains else "augment", key, spent


DONE: dict[graph.Kind, Callable[[State, Job], bool]] = {
    "prepare": State.prepared,
    "train": lambda state, job: state.outcome(job) is not None,
    "score": lambda state, job: state.record(job) is not None,
    "choose": lambda state, job: state.chosen(job) is not None,
}
"""kind of job -> whether its work is there; other kinds are marked as done"""


def _loss(record: Record | None) -> float | None:
    """Return the validation loss, in nats per sentence; None if it is not known or not finite."""
    nats = record.table("valid", "nats") if record else None
    return None if nats is None else float(nats.mean())


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, None if any is not known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _unchosen(method: str, choice: Choice) -> Failure:
    """Say why nothing could be chosen."""
    first = choice.tried[0].failure or Failure(BUG, "no score is finite")
    return Failure(first.code, f"nothing could be chosen for {method}: {first.why}")


def _original(corpus: corpora.Corpus) -> corpora.Corpus:
    """Return a corpus as it was before its sides were swapped."""
    from augless import augmentation

    return corpus.original if isinstance(corpus, augmentation.Reversed) else corpus


def _there(corpus: corpora.Corpus) -> list[bool]:
    """Tell of each file of a corpus whether it exists."""
    if isinstance(corpus, corpora.Files) and corpus.path and not corpus.path.exists():
        return [False]  # what was in it, nobody can list
    try:
        return [path.exists() for path in corpus.inputs()]
    except corpora.BadData:  # such as two forms of a file: it is there
        return []


def _missing(job: Job) -> Failure:
    """Say what is missing of a job's corpus."""
    try:
        job.resolved.recipe.corpus.check()
        job.resolved.recipe.corpus.fingerprint()
    except (corpora.BadData, OSError) as error:
        return Failure(code_of(error), str(error))
    return Failure(BAD_DATA, "files of it are not there")


def _remembered(layout: Layout) -> dict[str, Corpus]:
    """Return what was prepared here before."""
    try:
        return schemas.parsed(dict[str, Corpus], storage.read(layout.corpora, 1 << 26))
    except (OSError, ValueError):
        return {}
