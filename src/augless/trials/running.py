"""The runs of a plan, each in a process of its own, until all are done or it is told to stop."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from augless import corpora, metrics, runs, storage
from augless.errors import BUG, Failure
from augless.trials import facts, jobs, worker
from augless.trials.jobs import Book, Job, Layout, Progress
from augless.trials.plans import Plan
from augless.trials.records import SIDES, Entry, Trial

_COMMAND = "import sys; from augless.trials import worker; sys.exit(worker.main())"
_TICK = 0.05  # seconds between two looks at the processes
_SPEAK = 1.0  # seconds between two statuses


@dataclass(frozen=True)
class Running:
    """A run under way."""

    job: Job
    epoch: int
    epochs: int
    step: int
    share: float
    """of its training samples that have been seen"""
    score: float | None
    """the last on the validation set"""
    score_name: str
    seconds: float
    """since its process started"""


@dataclass(frozen=True)
class Status:
    """How far a trial is."""

    done: int
    failed: int
    total: int
    """runs that are known by now; those of methods under tuning are counted in"""
    running: list[Running]
    waiting: list[Job]
    seconds: float
    eta: float | None
    """seconds; None while nothing can be said"""
    best: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """corpus -> the best run so far and its score on the validation set"""


def run(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    workers: int = 1,
    device: str = "cpu",
    max_minutes: float = math.inf,
    command: str = "",
    stop: Callable[[], bool] = lambda: False,
    on_status: Callable[[Status], None] = lambda status: None,
    progress: Progress = lambda stage, done, total: None,
) -> Trial:
    """Do what is left of a plan, below `root`, and return all that is known.

    `jobs` runs are done at once, of `threads` each; `workers` processes prepare a corpus.
    A run whose record is there, or in the folder `records`, is done; one that was begun goes on;
    one that fails is reported and stops no other. The same table results from any number of jobs
    and any number of interruptions. Whether all is done: `Trial.complete`. The plan is kept in the
    folder, with the command that repeats it.
    """
    book = checked(plan, root=root, records=records, workers=workers, progress=progress, retry=True)
    with book.layout.alone():
        book.prepare()
        kept = f"# {' '.join(command.split())}\n{plan.as_toml()}"
        storage.replace(book.layout.plan, kept.encode("utf-8", "replace"))
        pool = _Pool(book, threads=threads, device=device)
        began = spoken = time.monotonic()
        waiting = pool.waiting()
        try:
            while True:
                if stop() or time.monotonic() - began >= 60 * max_minutes:
                    break
                while waiting and len(pool.children) < max(1, jobs):
                    pool.start(waiting.pop(0))
                if not pool.children:
                    break
                if pool.poll():
                    waiting = pool.waiting()
                if time.monotonic() - spoken >= _SPEAK:
                    on_status(pool.status())
                    spoken = time.monotonic()
                time.sleep(_TICK)
        finally:
            pool.close()
        on_status(pool.status())
        book.remember()
        return summarised(book)


def checked(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None,
    workers: int = 1,
    progress: Progress = lambda stage, done, total: None,
    retry: bool = False,
) -> Book:
    """Check a plan before any work; with `retry`, runs that failed count as not tried."""
    layout = Layout(Path(root), None if records is None else Path(records))
    book = Book(plan, layout, workers=workers, progress=progress, retry=retry)
    book.check()
    return book


def collect(plan: Plan, *, root: str | Path, records: str | Path | None = None) -> Trial:
    """Return what is known of a plan, without running anything."""
    book = checked(plan, root=root, records=records)
    book.prepare()
    return summarised(book)


def summarised(book: Book) -> Trial:
    """Return what is known of a plan's runs."""
    plan = book.plan
    entries: list[Entry] = []
    sources, references = {}, {}
    notes = []
    chosen: dict[str, dict[str, facts.Choice]] = {}
    known = book.jobs()
    for corpus in plan.recipes:
        for method, knobs in plan.methods.items():
            source = knobs.matches or method
            point: facts.Values = {}
            blocked: Failure | None = None
            if source in plan.tune:
                choice = book.choice(corpus, source)
                if choice is not None:
                    chosen.setdefault(source, {})[corpus] = choice
                    point = choice.best.values if choice.best else {}
                    if choice.best is None:
                        first = choice.tried[0].failure or Failure(BUG, "no score is finite")
                        why = f"nothing could be chosen for {source}: {first.why}"
                        blocked = Failure(first.code, why)
            ready = source not in plan.tune or (bool(point) and blocked is None)
            for seed in plan.seeds:
                record, failure = None, blocked
                if ready:  # else nobody knows which run it will be
                    job = book.job(corpus, method, seed, point)
                    record = book.record(job)
                    failure = book.failure(job) if record is None else None
                entries.append(
                    Entry(corpus=corpus, method=method, seed=seed, record=record, failure=failure)
                )
        job = next(job for job in known if job.corpus == corpus)
        if not isinstance(book.prepared(job), corpora.BadData):
            both = jobs.lines(book.resolved(job).recipe.corpus, "test")
            sources[corpus], references[corpus] = both
        elif book.gone(job):
            left = [e.record for e in entries if e.corpus == corpus and e.record]
            if left:
                notes.append(
                    f"{corpus} is not on this machine: what is said of it is from records."
                )
            for record in left:
                if (kept := record.hypotheses or {}) and {*SIDES} <= {*kept}:
                    sources[corpus], references[corpus] = (kept[side] for side in SIDES)
                    break
    return Trial(
        plan=plan,
        entries=entries,
        sources=sources,
        references=references,
        chosen=chosen,
        command=_command(book.layout.plan),
        notes=tuple(notes),
    )


def _command(plan: Path) -> str:
    """Return what the plan of a folder was followed by."""
    try:
        first = plan.read_text("utf-8").partition("\n")[0]
    except OSError:
        return ""
    return first.removeprefix("#").strip()


@dataclass
class _Child:
    job: Job
    folder: Path
    began: float
    samples: int
    """that the run had seen when it went on"""


class _Pool:
    """The processes of a trial."""

    def __init__(self, book: Book, *, threads: int, device: str) -> None:
        self.book, self.threads, self.device = book, threads, device
        self.children: dict[str, _Child] = {}
        """identifier -> what is under way"""
        self.began = time.monotonic()
        self.seen = 0
        """samples of runs that ended in this sitting"""
        self._parent: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self._closing = False

    def waiting(self) -> list[Job]:
        """List the runs that could start now."""
        found, listed = [], set(self.children)
        for job in self.book.jobs():
            if self.book.failure(job) is None and self.book.record(job) is None:
                identifier = self.book.identifier(job)
                # Two methods may come to the same run: it is done once.
                if identifier is not None and identifier not in listed:
                    listed.add(identifier)
                    found.append(job)
        return found

    def start(self, job: Job) -> None:
        """Start the process of a run."""
        identifier = self.book.identifier(job)
        assert identifier is not None  # else it has failed already
        layout = self.book.layout
        layout.failure(identifier, job.splits).unlink(missing_ok=True)
        folder = layout.run(f"{self.book.resolved(job).name}-{identifier}")
        order = worker.Order(
            job=job,
            identifier=identifier,
            root=layout.root,
            metrics=self.book.plan.metrics,
            threads=self.threads,
            device=self.device,
        )
        samples = _Progress.of(folder).samples
        self.children[identifier] = _Child(job, folder, time.monotonic(), samples)
        self._tell(order.line())

    def _tell(self, line: bytes) -> None:
        """Write a line to the process that forks runs; there is one from the first on."""
        if self._parent is None:
            count = str(self.threads)
            names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
            log = self.book.layout.log("trial")
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as errors:
                self._parent = subprocess.Popen(
                    [sys.executable, "-P", "-c", _COMMAND],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=os.environ | dict.fromkeys(names, count),
                    process_group=0,  # a Ctrl-C is for us; we tell them
                )
            assert self._parent.stdout is not None
            os.set_blocking(self._parent.stdout.fileno(), False)
        assert self._parent.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: `poll` will find out
            self._parent.stdin.write(line)
            self._parent.stdin.flush()

    def poll(self) -> bool:
        """Take note of the runs that ended; tell whether any did."""
        if self._parent is None or self._parent.stdout is None:
            return False
        part = self._parent.stdout.read()  # None: nothing new
        self._heard += part or b""
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            answer = json.loads(line)
            log = self.book.layout.log(answer["id"])
            self._ended(answer["id"], _reason(answer["code"], log))
        if part == b"":  # it died, and its children with it
            reason = _reason(self._parent.wait(), self.book.layout.log("trial"))
            self._parent = None
            for identifier in list(self.children):
                self._ended(identifier, reason)
            return True
        return bool(lines)

    def _ended(self, identifier: str, reason: Failure) -> None:
        child = self.children.pop(identifier)
        self.seen += max(0, _Progress.of(child.folder).samples - child.samples)
        self.book.refresh(identifier)
        if self.book.record(child.job) is None and not self._closing:
            self.book.fail(identifier, child.job.splits, reason)

    def close(self) -> None:
        """Tell the runs to save and end, and wait for them."""
        self._closing = True
        if self._parent is None:
            return
        # A run that takes longer has a checkpoint, from which it goes on to the same bits.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.children:
                self._tell(worker.SIGNAL + str(int(number)).encode() + b"\n")
            deadline = time.monotonic() + worker.GRACE
            while self.children and time.monotonic() < deadline and self._parent is not None:
                self.poll()
                time.sleep(_TICK)
        if self._parent is not None:
            self._parent.communicate()  # closes its input, and so ends it

    def status(self) -> Status:
        """Say how far all is."""
        book, plan = self.book, self.book.plan
        known = book.jobs()
        records = [book.record(job) for job in known]
        done = sum(record is not None for record in records)
        failed = sum(
            record is None and book.failure(job) is not None
            for job, record in zip(known, records, strict=True)
        )
        hidden = len(plan.seeds) * sum(
            book.choice(corpus, entry.matches or method) is None
            for corpus in plan.recipes
            for method, entry in plan.methods.items()
            if (entry.matches or method) in plan.tune
        )
        # Those of a search that wait for earlier ones.
        hidden += sum(
            plan.budget - len(book.points(corpus, method))
            for corpus in plan.recipes
            for method in plan.tune
        )
        sign = 1 if metrics.METRICS[plan.metric].higher_is_better else -1
        best: dict[str, tuple[Job, float]] = {}
        for job, record in zip(known, records, strict=True):
            value = record.value("valid", plan.metric) if record else None
            if value is not None and (
                job.corpus not in best or sign * value > sign * best[job.corpus][1]
            ):
                best[job.corpus] = (job, value)
        waiting = self.waiting()
        running = [self._running(child) for child in self.children.values()]
        seconds = time.monotonic() - self.began
        seen = self.seen + sum(
            max(0, _Progress.of(child.folder).samples - child.samples)
            for child in self.children.values()
        )
        left = sum(_samples(self.book, job) for job in waiting)
        left += sum((1 - one.share) * _samples(self.book, one.job) for one in running)
        # Runs that wait for tuning are taken to be as long as the mean of the others.
        mean = sum(_samples(self.book, job) for job in known) / max(1, len(known))
        left += hidden * mean
        eta = left * seconds / seen if seen else (0.0 if not left else None)
        return Status(
            done=done,
            failed=failed,
            total=len(known) + hidden,
            running=running,
            waiting=waiting,
            seconds=seconds,
            eta=eta,
            best=best,
        )

    def _running(self, child: _Child) -> Running:
        at = _Progress.of(child.folder)
        recipe = self.book.resolved(child.job).recipe
        return Running(
            job=child.job,
            epoch=at.epoch,
            epochs=recipe.training.epochs,
            step=at.step,
            share=min(1.0, at.samples / max(1.0, _samples(self.book, child.job))),
            score=at.scores.get(recipe.training.metric),
            score_name=recipe.training.metric,
            seconds=time.monotonic() - child.began,
        )


@dataclass(frozen=True)
class _Progress:
    """What a run's metrics say of where it is."""

    epoch: int = 0
    step: int = 0
    samples: int = 0
    scores: dict[str, float | None] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path) -> _Progress:
        try:
            history = facts.history_of(runs.Run.open(folder).metrics())
        except (ValueError, OSError):  # not begun yet
            return _Progress()
        if not history:
            return _Progress()
        last = history[-1]
        scores = next((entry.scores for entry in reversed(history) if entry.scores), {})
        return _Progress(last.epoch, last.step, last.samples, scores)


def share(book: Book, job: Job) -> float:
    """Return which part of a run's training is done."""
    identifier = book.identifier(job)
    if identifier is None:
        return 0.0
    folder = book.layout.run(f"{book.resolved(job).name}-{identifier}")
    return min(1.0, _Progress.of(folder).samples / max(1.0, _samples(book, job)))


def _samples(book: Book, job: Job) -> float:
    """Return how many samples a run sees."""
    prepared = book.prepared(job)
    if isinstance(prepared, corpora.BadData):
        return 0.0
    return float(prepared.manifest["splits"]["train"] * book.resolved(job).recipe.training.epochs)


def _reason(code: int, log: Path) -> Failure:
    """Say why a process ended: its code and the last line it printed."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return Failure(BUG, f"killed by {signal.Signals(-code).name}; see {log}")
        return Failure(BUG, f"killed by signal {-code}; see {log}")
    lines = [line for line in log.read_text("utf-8", "replace").split("\n") if line.strip()]
    return Failure(code, lines[-1].strip()[:300] if lines else "it said nothing")
