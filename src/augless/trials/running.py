"""Schedule a plan's jobs on an executor."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from augless import corpora, data, runs, storage
from augless.corpora import Progress
from augless.errors import Failure, code_of
from augless.trials import facts, graph, pool, searching, summary
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.plans import Plan
from augless.trials.records import TEST_LINES, Entry, Trial
from augless.trials.state import Corpus, State
from augless.trials.work import WORK, Order

if TYPE_CHECKING:
    from augless import training


_TICK = 0.2  # seconds between two looks at whether to stop
SPEAK = 1.0  # seconds between two statuses, at least
_RARE = 25  # times as long as a status took, at least


@dataclass(frozen=True, kw_only=True)
class Running:
    """A job under way."""

    job: Job
    stage: str
    """how far it is, in words"""
    score: float | None = None
    """the last on the validation set"""
    score_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a trial is."""

    done: int
    failed: int
    total: int
    """runs that are known by now; those of methods under tuning are counted in"""
    running: list[Running] = field(default_factory=list)
    eta: float | None = None
    """seconds; None while nothing can be said"""
    best: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """corpus -> the best run so far, and what tuning compares of it: `Plan.choose`"""
    alarm: str = ""
    """what is wrong with the first run from which nothing can be learnt, if there is one"""


def run(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    device: training.Device = "cpu",
    max_minutes: float = math.inf,
    command: str = "",
    stop: Callable[[], bool] = lambda: False,
    on_status: Callable[[Status], None] = lambda status: None,
    executor: pool.Executor | None = None,
) -> Trial:
    """Do what is left of a plan, below `root`, and return all that is known.

    `jobs` jobs are done at once, of `threads` each. A run whose record is there, or in the folder
    `records`, is done; one that was begun is resumed; one that fails is reported and stops no
    other. The same table results from any number of jobs and any number of interruptions. Whether
    all is done: `Trial.complete`. The plan is kept in the folder, with the command that repeats it.
    `executor` does the jobs: processes of this machine, if nobody else is named.
    """
    state = opened(plan, root=root, records=records, retry=True)
    state.require_corpus()
    order = functools.partial(
        Order, layout=state.layout, metrics=plan.metrics, threads=threads, device=device
    )
    with state.layout.alone():
        storage.replace(state.layout.plan, plan.as_toml().encode("utf-8", "replace"))
        line = f"{' '.join(command.split())}\n"
        storage.replace(state.layout.command, line.encode("utf-8", "replace"))
        scheduler = _Scheduler(state, executor or pool.Local(threads), jobs, order)
        deadline, due = time.monotonic() + 60 * max_minutes, time.monotonic() + SPEAK
        try:
            while not stop() and time.monotonic() < deadline and scheduler.submit():
                scheduler.wait()
                if (began := time.monotonic()) >= due:
                    on_status(scheduler.status())
                    # Of a plan of thousands of runs a status takes long: seldom, then.
                    due = time.monotonic() + max(SPEAK, _RARE * (time.monotonic() - began))
        finally:
            scheduler.executor.close()
        state.require_corpus()
        state.keep()
        on_status(scheduler.status())
        return summarised(state)


def opened(
    plan: Plan, *, root: str | Path, records: str | Path | None, retry: bool = False
) -> State:
    """Check a plan before any work, and look at what is there of it.

    With `retry`, jobs that failed count as not tried.
    """
    layout = Layout(Path(root), None if records is None else Path(records))
    state = State(plan, layout, retry=retry)
    if any(map(plan.searched, plan.tune)):
        searching.load()
    graph.check(plan, state.recipes)
    state.recover_missing_corpora()
    return state


def collect(plan: Plan, *, root: str | Path, records: str | Path | None = None) -> Trial:
    """Return what is known of a plan, without running anything; corpora are prepared."""
    state = opened(plan, root=root, records=records)
    prepare(state)
    return summarised(state)


def prepare(state: State, progress: Progress = lambda stage, done, total: None) -> None:
    """Prepare every corpus in this process; raise what is wrong if none can be used."""
    from augless.recipes import following

    place = following.Place(prepared=state.layout.prepared, progress=progress)
    for job in graph.with_needs(state.jobs()):
        if job.kind == "prepare" and not state.done(job) and state.failure(job) is None:
            try:
                state.learn(job, Corpus.of(job, place))
            except (corpora.BadData, data.BadStore, OSError) as error:
                state.learn(job, Failure(code_of(error), str(error)))
    state.require_corpus()


class Pace:
    """How long is left, where runs may report what they have seen but once an epoch."""

    def __init__(self, began: float) -> None:
        self._began = self._heard = began
        self._seen = 0.0

    def left(self, seen: float, to_see: float, unreported: float, now: float) -> float | None:
        """Return seconds, None before the first report; unreported is what may be seen since."""
        if seen != self._seen:
            self._heard, self._seen = now, seen
        if self._heard <= self._began:
            return None
        rate = seen / (self._heard - self._began)
        since = min(rate * (now - self._heard), unreported, to_see)
        # Once a report is overdue the rate falls, and what is left grows.
        return (to_see - since) * (now - self._began) / (seen + since)


class _Scheduler:
    """Hands out jobs that can begin, and takes note of those that end."""

    def __init__(
        self, state: State, executor: pool.Executor, jobs: int, order: Callable[..., Order]
    ) -> None:
        self.state, self.executor, self._most, self._order = state, executor, max(1, jobs), order
        self.known = state.jobs()
        self._under_way: dict[str, tuple[Job, int]] = {}
        """key -> a job, and the samples that its run had seen when it went on"""
        self._pace = Pace(time.monotonic())
        self._seen = 0
        """samples of runs that ended in this call"""
        self._alarm = ""
        self._stale = True
        """whether something ended since jobs were handed out: only then can others begin"""

    def submit(self) -> bool:
        """Begin as many jobs as may be done at once; tell whether any is under way."""
        if self._stale:
            self._stale = False
            for key, job in self.state.ready(self.known).items():
                if len(self._under_way) >= self._most:
                    break
                if key not in self._under_way:
                    self.state.layout.failure(key).unlink(missing_ok=True)
                    self._under_way[key] = (job, progress_of(self.state, job).samples)
                    identifier = self.state.identifier(job) or ""
                    order = self._order(job=job, key=key, identifier=identifier)
                    self.executor.submit(key, order)
        return bool(self._under_way)

    def wait(self) -> None:
        """Wait a little for jobs that end, and learn from them."""
        for ended in self.executor.wait(_TICK):
            job, before = self._under_way.pop(ended.key)
            self._seen += max(0, progress_of(self.state, job).samples - before)
            self.state.learn(job, ended.outcome)
            self._alarm = self._alarm or _alarm(self.state, job)
            self._stale = True
        if self._stale:
            self.known = self.state.jobs()

    def status(self) -> Status:
        """Say how far all is."""
        state = self.state
        done = [job for job in self.known if state.done(job)]
        failed = [job for job in self.known if state.failure(job) is not None]
        hidden = len(state.later())
        sizes = {state.identifier(job): samples(state, job) for job in self.known}
        left = {
            state.identifier(job): samples(state, job)
            for job in self.known
            if job not in done and job not in failed
        }
        seen, unreported, running = self._seen, 0.0, []
        for job, before in self._under_way.values():
            at = progress_of(state, job)
            seen += max(0, at.samples - before)
            unreported += samples(state, job) / max(1, job.resolved.recipe.training.epochs)
            name = state.identifier(job)
            if name in left:
                left[name] = max(0.0, left[name] - at.samples)
            running.append(_running(job, at))
        # Runs that wait for tuning are taken to be as long as the mean of the others.
        to_see = sum(left.values()) + hidden * sum(sizes.values()) / max(1, len(sizes))
        return Status(
            done=len(done),
            failed=len(failed),
            total=len(self.known) + hidden,
            running=running,
            # A corpus that is not prepared yet counts for nothing, so that 0 says nothing.
            eta=self._pace.left(seen, to_see, unreported, time.monotonic()),
            best=_best(state, done),
            alarm=self._alarm,
        )


def _running(job: Job, at: runs.Logged) -> Running:
    if job.kind != "train":
        return Running(job=job, stage=WORK[job.kind].stage)
    settings = job.resolved.recipe.training
    where = f"epoch {at.epoch} of {settings.epochs}" if at.epoch else "starting"
    score = at.scores.get(settings.metric)
    return Running(job=job, stage=where, score=score, score_name=settings.metric)


def _alarm(state: State, job: Job) -> str:
    """Say what is wrong with a run that has just ended, so that nobody waits for more of it."""
    record = state.record(job) if job.method else None
    said = summary.alarm(record, state.plan.metric) if record is not None else ""
    return f"{job.method} on {job.corpus}, seed {job.seed}: {said}" if said else ""


def _best(state: State, done: list[Job]) -> dict[str, tuple[Job, float]]:
    """Return the best run of every corpus, by what tuning would choose it by."""
    sign = 1 if state.plan.chooses_highest else -1
    best: dict[str, tuple[Job, float]] = {}
    for job in done:
        value = state.validated(state.record(job))
        before = best.get(job.corpus)
        if value is not None and (before is None or sign * value > sign * before[1]):
            best[job.corpus] = (job, value)
    return best


def progress_of(state: State, job: Job) -> runs.Logged:
    """Return where a run is: the last entry of its log, with the last scores."""
    try:
        history = runs.Run.open(state.folder(job)).metrics()
    except (ValueError, OSError):  # not begun yet
        history = []
    scores = next((entry.scores for entry in reversed(history) if entry.scores), {})
    last = history[-1] if history else runs.Logged(kind="interval", step=0)
    return replace(last, scores=scores)


def share(state: State, job: Job) -> float:
    """Return which part of a run's training is done."""
    return min(1.0, progress_of(state, job).samples / max(1.0, samples(state, job)))


def samples(state: State, job: Job) -> float:
    """Return how many samples a run sees."""
    corpus, recipe = state.corpora.get(job.source), job.resolved.recipe
    made = 0 if recipe.augment is None else recipe.augment.copies
    return 0.0 if corpus is None else float(corpus.pairs * (1 + made) * recipe.training.epochs)


def summarised(state: State) -> Trial:
    """Return what is known of a plan's runs."""
    plan = state.plan
    entries: list[Entry] = []
    chosen: dict[str, dict[str, facts.Choice]] = {}
    costs: dict[str, dict[str, facts.Cost]] = {}
    for corpus in plan.recipes:
        for method in plan.methods:
            source = plan.source(method)
            choice = state.choice(corpus, source) if source in plan.tune else None
            if choice is not None:
                chosen.setdefault(source, {})[corpus] = choice
            costs.setdefault(method, {})[corpus] = state.cost(corpus, method)
            # In the order of the seeds; where nothing is chosen yet, one job stands for all.
            for seed, job in zip(plan.seeds, itertools.cycle(state.wanted(corpus, method))):
                record = state.record(job) if state.done(job) else None
                failure = state.failure(job)
                entries.append(
                    Entry(corpus=corpus, method=method, seed=seed, record=record, failure=failure)
                )
    sources, references, notes = _lines(state, entries)
    return Trial(
        plan=plan,
        entries=entries,
        sources=sources,
        references=references,
        chosen=chosen,
        costs=costs,
        command=_command(state.layout),
        notes=(*notes, *(f"{why}." for why in sorted(state.records.refused.values()))),
    )


def _lines(
    state: State, entries: list[Entry]
) -> tuple[dict[str, list[str]], dict[str, list[str]], list[str]]:
    """Return the test sets, source and reference, and where they are from if not from here."""
    sources, references, notes = {}, {}, []
    for job in state.jobs():
        corpus = state.corpora.get(job.source)
        if job.corpus in sources or corpus is None:
            continue
        left = [e.record for e in entries if e.corpus == job.corpus and e.record]
        if corpus.here and corpus.folder:
            prepared = data.Prepared.open(storage.inside(state.layout.prepared, corpus.folder))
            if "test" in prepared.splits:
                both = (prepared.lines("test", side) for side in data.SIDES)
                sources[job.corpus], references[job.corpus] = both
        elif left:
            note = f"{job.corpus} is not on this machine: what is said of it is from records."
            notes += [] if note in notes else [note]
            kept = (record.hypotheses or {} for record in left)
            if texts := next((of for of in kept if {*TEST_LINES} <= {*of}), None):
                sources[job.corpus], references[job.corpus] = (texts[side] for side in TEST_LINES)
    return sources, references, notes


def _command(layout: Layout) -> str:
    """Return what the plan of a folder was followed by; older plans say it in their first line."""
    for path, mark in ((layout.command, ""), (layout.plan, "# ")):
        with contextlib.suppress(OSError, ValueError):
            first = storage.read(path, 1 << 20).decode("utf-8").partition("\n")[0]
            if first.startswith(mark):
                return shlex.join(shlex.split(first.removeprefix(mark)))
    return ""
