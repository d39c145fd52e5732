"""The jobs of a plan, each done by somebody, until all are done or it is told to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from augless import corpora, data, metrics, runs, storage
from augless.errors import BAD_DATA, BUG, Failure
from augless.trials import facts, graph, pool, searching, summary
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.plans import Plan
from augless.trials.records import SIDES, Entry, Trial
from augless.trials.state import Corpus, Progress, State
from augless.trials.work import Order

_TICK = 0.2  # seconds between two looks at whether to stop
_SPEAK = 1.0  # seconds between two statuses, at least
_RARE = 25  # times as long as a status took, at least


@dataclass(frozen=True, kw_only=True)
class Running:
    """A job under way."""

    job: Job
    stage: str
    """how far it is, in words"""
    share: float
    """of its training samples that have been seen"""
    score: float | None = None
    """the last on the validation set"""
    score_name: str = ""
    seconds: float = 0.0
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
    alarm: str = ""
    """what is wrong with the first run from which nothing can be learnt, if there is one"""


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
    executor: pool.Executor | None = None,
) -> Trial:
    """Do what is left of a plan, below `root`, and return all that is known.

    `jobs` jobs are done at once, of `threads` each; `workers` processes prepare a corpus.
    A run whose record is there, or in the folder `records`, is done; one that was begun goes on;
    one that fails is reported and stops no other. The same table results from any number of jobs
    and any number of interruptions. Whether all is done: `Trial.complete`. The plan is kept in the
    folder, with the command that repeats it. `executor` does the jobs: processes of this machine,
    if nobody else is named.
    """
    state = checked(plan, root=root, records=records, retry=True)
    state.stand_in(state.jobs())
    _require_corpus(state)
    with state.layout.alone():
        kept = f"# {' '.join(command.split())}\n{plan.as_toml()}"
        storage.replace(state.layout.plan, kept.encode("utf-8", "replace"))
        give = {"threads": threads, "device": device, "workers": workers}
        desk = _Desk(state, executor or pool.Local(threads), jobs, give)
        deadline, due = time.monotonic() + 60 * max_minutes, time.monotonic() + _SPEAK
        try:
            while not stop() and time.monotonic() < deadline and desk.submit():
                desk.wait()
                if (began := time.monotonic()) >= due:
                    on_status(desk.status())
                    # Of a plan of thousands of runs a status takes long: seldom, then.
                    due = time.monotonic() + max(_SPEAK, _RARE * (time.monotonic() - began))
        finally:
            desk.executor.close()
        _require_corpus(state)
        state.recall(state.jobs())
        on_status(desk.status())
        state.keep(state.jobs())
        return summarised(state)


def checked(
    plan: Plan, *, root: str | Path, records: str | Path | None, retry: bool = False
) -> State:
    """Check a plan before any work; with `retry`, jobs that failed count as not tried."""
    layout = Layout(Path(root), None if records is None else Path(records))
    state = State(plan, layout, retry=retry)
    if any(map(plan.searched, plan.tune)):
        searching.load()
    graph.check(plan, state.resolve)
    return state


def collect(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Trial:
    """Return what is known of a plan, without running anything; corpora are prepared."""
    state = checked(plan, root=root, records=records)
    prepare(state, workers=1, progress=progress)
    return summarised(state)


def prepare(state: State, *, workers: int, progress: Progress) -> None:
    """Prepare every corpus in this process; raise what is wrong if none can be used."""
    state.stand_in(state.jobs())
    for job in state.jobs():
        for need in job.all_needs():
            if need.kind == "prepare":
                state.prepare(need, workers=workers, progress=progress)
    _require_corpus(state)


def _require_corpus(state: State) -> None:
    """Raise what is wrong with the corpora if none can be used and no record stands in."""
    jobs = state.jobs()
    needs = [need for job in jobs for need in job.all_needs() if need.kind == "prepare"]
    failures = [state.failure(need) for need in needs]
    bad = [why for why in failures if why is not None and why.code == BAD_DATA]
    if len(bad) == len(needs) and not any(map(state.done, jobs)):
        raise corpora.BadData(bad[0].why)


class _Desk:
    """Hands out jobs that can begin, and takes note of those that end."""

    def __init__(
        self, state: State, executor: pool.Executor, jobs: int, give: Mapping[str, object]
    ) -> None:
        self.state, self.executor, self._most, self._give = state, executor, max(1, jobs), give
        self.known = state.jobs()
        self._under_way: dict[str, _UnderWay] = {}
        self._began = time.monotonic()
        self._seen = 0
        """samples of runs that ended in this call"""
        self._alarm = ""
        self._stale = True
        """whether something ended since jobs were handed out: only then can others begin"""

    def submit(self) -> bool:
        """Begin as many jobs as may be done at once; tell whether any is under way."""
        if not self._stale:
            return bool(self._under_way)
        self._stale = False
        ready = {self.state.key(job): job for job in self.state.ready(self.known)}
        for key, job in ready.items():
            if key is not None and key not in self._under_way:
                if len(self._under_way) >= self._most:
                    break
                self._begin(key, job)
        return bool(self._under_way)

    def _begin(self, key: str, job: Job) -> None:
        layout = self.state.layout
        layout.failure(key).unlink(missing_ok=True)
        order = Order(
            job=job,
            key=key,
            identifier=self.state.identifier(job) or "",
            root=layout.root,
            metrics=self.state.plan.metrics,
            **self._give,  # type: ignore[arg-type]  # as `run` has checked
        )
        at = progress_of(self.state, job)
        self._under_way[key] = _UnderWay(job, time.monotonic(), at.samples)
        self.executor.submit(key, order)

    def wait(self) -> None:
        """Wait a little for jobs that end, and learn from them."""
        ended = self.executor.wait(_TICK)
        for one in ended:
            under_way = self._under_way.pop(one.key)
            job = under_way.job
            self._seen += max(0, progress_of(self.state, job).samples - under_way.samples)
            self.state.learn(job, one.outcome)
            self._alarm = self._alarm or _alarm(self.state, job)
        if ended:
            self.known, self._stale = self.state.jobs(), True

    def status(self) -> Status:
        """Say how far all is."""
        state, plan, known = self.state, self.state.plan, self.known
        done = [job for job in known if state.done(job)]
        failed = [job for job in known if state.failure(job) is not None]
        hidden = _hidden(state)
        waiting = [job for job in known if job not in done and job not in failed]
        running = [self._running(one) for one in self._under_way.values()]
        seconds = time.monotonic() - self._began
        seen = self._seen + sum(
            max(0, progress_of(state, one.job).samples - one.samples)
            for one in self._under_way.values()
        )
        shares = {state.identifier(one.job): one.share for one in running}
        sizes = {state.identifier(job): samples(state, job) for job in waiting}
        left = sum((1 - shares.get(name, 0.0)) * size for name, size in sizes.items())
        # Runs that wait for tuning are taken to be as long as the mean of the others.
        left += hidden * sum(samples(state, job) for job in known) / max(1, len(known))
        eta = left * seconds / seen if seen else (0.0 if not left else None)
        return Status(
            done=len(done),
            failed=len(failed),
            total=len(known) + hidden,
            running=running,
            waiting=waiting,
            seconds=seconds,
            eta=eta,
            best=_best(state, done, plan),
            alarm=self._alarm,
        )

    def _running(self, one: _UnderWay) -> Running:
        job, state = one.job, self.state
        seconds = time.monotonic() - one.began
        if job.kind != "train":
            words = {"prepare": "preparing", "augment": "augmenting", "score": "scoring"}
            return Running(job=job, stage=words.get(job.kind, job.kind), share=0.0, seconds=seconds)
        at, recipe = progress_of(state, job), state.resolved(job).recipe
        where = f"epoch {at.epoch} of {recipe.training.epochs}" if at.epoch else "starting"
        return Running(
            job=job,
            stage=where,
            share=min(1.0, at.samples / max(1.0, samples(state, job))),
            score=at.scores.get(recipe.training.metric),
            score_name=recipe.training.metric,
            seconds=seconds,
        )


@dataclass(frozen=True)
class _UnderWay:
    job: Job
    began: float
    samples: int
    """that the run had seen when it went on"""


def _alarm(state: State, job: Job) -> str:
    """Say what is wrong with a run that has just ended, so that nobody waits for more of it."""
    record = state.record(job) if job.method else None
    said = summary.alarm(record, state.plan.metric) if record is not None else ""
    return f"{job.method} on {job.corpus}, seed {job.seed}: {said}" if said else ""


def _hidden(state: State) -> int:
    """Count the runs that wait for scores, and are not listed yet."""
    plan = state.plan
    finals = sum(
        state.choice(corpus, plan.source(method)) is None
        for corpus in plan.recipes
        for method in plan.methods
        if plan.source(method) in plan.tune
    )
    searched = plan.tuning_seeds * sum(
        plan.budget - len(state.points(corpus, method))
        for corpus in plan.recipes
        for method in plan.tune
    )
    return len(plan.seeds) * finals + searched


def _best(state: State, done: list[Job], plan: Plan) -> dict[str, tuple[Job, float]]:
    sign = 1 if metrics.METRICS[plan.metric].higher_is_better else -1
    best: dict[str, tuple[Job, float]] = {}
    for job in done:
        record = state.record(job)
        value = record.value("valid", plan.metric) if record else None
        if value is not None and (
            job.corpus not in best or sign * value > sign * best[job.corpus][1]
        ):
            best[job.corpus] = (job, value)
    return best


def progress_of(state: State, job: Job) -> facts.Logged:
    """Return where a run is: the last entry of its log, with the last scores."""
    start = facts.Logged(kind="interval", step=0)
    if job.kind == "prepare" or state.identifier(job) is None:
        return start
    try:
        history = facts.history_of(runs.Run.open(state.folder(job)).metrics())
    except (ValueError, OSError):  # not begun yet
        return start
    return facts.last_of(history) or start


def share(state: State, job: Job) -> float:
    """Return which part of a run's training is done."""
    return min(1.0, progress_of(state, job).samples / max(1.0, samples(state, job)))


def samples(state: State, job: Job) -> float:
    """Return how many samples a run sees."""
    corpus = state.corpora.get(state.source(job))
    if not isinstance(corpus, Corpus):
        return 0.0
    recipe = state.resolved(job).recipe
    made = 0 if recipe.augment is None else recipe.augment.copies
    return float(corpus.pairs * (1 + made) * recipe.training.epochs)


def summarised(state: State) -> Trial:
    """Return what is known of a plan's runs."""
    plan = state.plan
    entries: list[Entry] = []
    chosen: dict[str, dict[str, facts.Choice]] = {}
    costs: dict[str, dict[str, facts.Cost]] = {}
    finals: dict[tuple[str, str], list[Job]] = {}
    for job in state.jobs():
        if job.purpose == "final":
            finals.setdefault((job.corpus, job.method), []).append(job)
    for corpus in plan.recipes:
        for method in plan.methods:
            source = plan.source(method)
            choice = state.choice(corpus, source) if source in plan.tune else None
            if choice is not None:
                chosen.setdefault(source, {})[corpus] = choice
            jobs = {job.seed: job for job in finals.get((corpus, method), [])}
            spent = graph.cost(jobs.values(), state.key, state.spent, state.told)
            costs.setdefault(method, {})[corpus] = spent
            for seed in plan.seeds:
                record = failure = None
                if seed in jobs:
                    record, failure = state.record(jobs[seed]), state.failure(jobs[seed])
                elif choice is not None:
                    failure = _unchosen(source, choice)
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
        command=_command(state.layout.plan),
        notes=(*notes, *sorted(state.records.refused.values())),
    )


def _unchosen(method: str, choice: facts.Choice) -> Failure:
    first = choice.tried[0].failure or Failure(BUG, "no score is finite")
    return Failure(first.code, f"nothing could be chosen for {method}: {first.why}")


def _lines(
    state: State, entries: list[Entry]
) -> tuple[dict[str, list[str]], dict[str, list[str]], list[str]]:
    """Return the test sets, source and reference, and where they are from if not from here."""
    sources, references, notes = {}, {}, []
    for job in state.jobs():
        corpus = state.corpora.get(state.source(job))
        if job.corpus in sources or not isinstance(corpus, Corpus):
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
            if texts := next((of for of in kept if {*SIDES} <= {*of}), None):
                sources[job.corpus], references[job.corpus] = (texts[side] for side in SIDES)
    return sources, references, notes


def _command(plan: Path) -> str:
    """Return what the plan of a folder was followed by."""
    try:
        first = plan.read_text("utf-8").partition("\n")[0]
    except (OSError, ValueError):
        return ""
    return first.removeprefix("#").strip()
