"""How long a plan will take, from a few real steps of each kind of run."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from augless import metrics
from augless.corpora import Progress
from augless.errors import Failure, code_of
from augless.trials import graph, running
from augless.trials.graph import Job
from augless.trials.plans import Plan
from augless.trials.state import State

if TYPE_CHECKING:
    from augless import decoding, training
    from augless.recipes import following

WARM = 2
"""steps that are not timed: the first call loads things"""
SENTENCES = 32
PATIENCE = 3.0
"""seconds for which work is watched, at least"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one kind of work costs, measured on its own data by a model that has learnt nothing."""

    steps: int = 0
    """training steps that were timed"""
    step: float = 0.0
    """seconds of a training step"""
    fixed: float = 0.0
    """seconds of a run besides: the corpus checked, the model built, two steps; of making pairs,
    all of them"""
    training: float = 0.0
    """seconds of all epochs"""
    decoding: dict[str, float] = field(default_factory=dict)
    """split -> seconds of the search in the end; outputs as long as the references"""
    failure: Failure | None = None
    """why nothing could be measured"""

    def seconds(self, splits: tuple[str, ...] = (), share: float = 0.0) -> float:
        """Return what is left when a share of training is done, and splits are to be decoded."""
        decoding = sum(self.decoding[split] for split in splits)
        return self.fixed + (1 - share) * self.training + decoding


@dataclass(frozen=True)
class Expected:
    """A run, and how long it will take."""

    job: Job
    seconds: float | None
    """that are left, with what it needs first; None where it could not be measured"""
    share: float
    """of its training that is done already"""
    note: str = ""
    """for a reader: how far it is, or why it cannot be run"""


@dataclass(frozen=True)
class Forecast:
    """The runs of a plan, and how long they will take."""

    runs: list[Expected]
    jobs: int
    measured: dict[str, Measured]
    """the run that stands for its kind -> what was measured"""

    @property
    def seconds(self) -> float:
        """All that is left, shared out."""
        left = [run.seconds for run in self.runs if run.seconds is not None]
        return max([sum(left) / max(1, self.jobs), *left], default=0.0)


def forecast(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    device: training.Device = "cpu",
    progress: Progress = lambda stage, done, total: None,
) -> Forecast:
    """List a plan's runs and estimate their time; corpora are prepared, but no run is begun.

    One run of each kind (corpus, model, losses, training) takes a few real steps and writes some
    sentences, in this process. Models that have to be trained before pairs can be made are runs
    too; making pairs counts in the first run that needs them. Runs that depend on scores to come
    are listed with the first combination.
    """
    import torch

    torch.set_num_threads(threads)
    state = running.opened(plan, root=root, records=records, retry=True)
    running.prepare(state, progress)
    clock = _Clock(state, device, progress)
    expected = [run for job in state.jobs() for run in clock.expected(job)]
    expected += [run for job in state.later() for run in clock.expected(job, later=True)]
    return Forecast(expected, jobs, clock.named)


class _Clock:
    """Measures each kind of work once, and counts what several runs need once."""

    def __init__(self, state: State, device: training.Device, progress: Progress) -> None:
        self._state, self._device, self._progress = state, device, progress
        self._known: dict[str, Measured] = {}
        self._counted: set[str | None] = set()
        self.named: dict[str, Measured] = {}
        """the run that stands for its kind -> what was measured"""

    def expected(self, job: Job, *, later: bool = False) -> Iterator[Expected]:
        """Yield how long a run takes, after the models that are needed first and not yet listed."""
        for need in graph.with_needs([job]):
            key = self._state.key(need)
            if need.kind == "train" and need.model and key not in self._counted:
                yield self._expected(need, later)
                self._counted.add(key)
        yield self._expected(job, later)

    def _expected(self, job: Job, later: bool) -> Expected:
        """Return how long a run takes, with making pairs that no run before it has needed."""
        state, train = self._state, job if job.kind == "train" else job.needs[0]
        if state.done(job):
            return Expected(job, 0.0, 1.0, "done")
        failure = state.failure(job) or self._measured(train).failure
        if failure is not None:
            return Expected(job, None, 0.0, str(failure))
        if not later and state.key(job) in self._counted:  # two methods may come to the same run
            return Expected(job, 0.0, 0.0, "the same run as another")
        share = 0.0 if later else running.share(state, job)
        note = f"{share:.0%} trained" if share else "after tuning" * later
        splits = job.splits if job.kind == "score" else ()
        seconds = self._measured(train).seconds(splits, share)
        for need in train.needs:
            known = state.key(need) in self._counted or state.done(need)
            if need.kind == "augment" and not known:
                seconds += self._measured(need).seconds()
                self._counted.add(state.key(need))
        self._counted.add(state.key(job))
        return Expected(job, seconds, share, note)

    def _measured(self, job: Job) -> Measured:
        """Measure a kind of work, unless it was; weightings and seeds cost nothing."""
        from augless import polar
        from augless.recipes import following

        recipe = job.resolved.recipe
        terms = tuple(dataclasses.replace(t, weighting=polar.Plain()) for t in recipe.terms)
        kept = dataclasses.replace(recipe, terms=terms, seed=0)
        copies = recipe.augment.copies if recipe.augment else 0
        if job.kind == "train":  # however pairs are made, it is their number that counts
            kept = dataclasses.replace(kept, augment=None)
        kind = repr((job.kind, job.corpus, kept, copies))
        if kind not in self._known:
            who = f"{job.method} on {job.corpus}"
            who = f"the {job.model} of {who}" if job.model else who
            self._progress(f"measuring {who}", 0, None)
            layout = self._state.layout
            place = following.Place(prepared=layout.prepared, device=self._device)
            try:
                # Beside the runs to come, as disks differ.
                with tempfile.TemporaryDirectory(dir=layout.root, prefix=".measured-") as folder:
                    self._known[kind] = measure(job, place, Path(folder))
            except Exception as error:  # whatever it is, the run would fail of it too: it is listed
                self._known[kind] = Measured(failure=Failure(code_of(error), str(error)))
            if self._known[kind].steps:
                self.named[who] = self._known[kind]
        return self._known[kind]


class _Watch:
    """Collects progress, and stops the work once its duration can be estimated."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.stages: dict[str, list[tuple[float, int, int]]] = {}
        """stage -> when something of it was done, how much by then, of how much"""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if total:
            self.stages.setdefault(stage, []).append((time.perf_counter(), done, total))

    def enough(self) -> bool:
        """Tell whether the duration can be estimated by now."""
        late = time.perf_counter() > self.began + PATIENCE
        return late and any(len(marks) > WARM for marks in self.stages.values())

    def timed(self, stage: str) -> tuple[int, float, int]:
        """Return how much of a stage was timed, the seconds of one, and how many there are."""
        marks = [(self.began, 0, 1), *self.stages[stage]]
        (start, first, _), (end, done, total) = marks[min(WARM, len(marks) - 2)], marks[-1]
        return done - first, (end - start) / max(1, done - first), total


def measure(job: Job, place: following.Place, folder: Path) -> Measured:
    """Train for some seconds and write a few sentences; or make pairs for some seconds."""
    from augless.recipes import following
    from augless.training import fitting

    recipe, watch = job.resolved.recipe, _Watch()
    few = dataclasses.replace(place, progress=watch, stop=watch.enough)
    if job.kind == "train":
        plain = dataclasses.replace(job.resolved, recipe=dataclasses.replace(recipe, augment=None))
        following.train(plain, few, folder=folder / "run")
        steps, step, total = watch.timed(fitting.STAGE)
        copies = 0 if recipe.augment is None else recipe.augment.copies
        writing = functools.partial(_writing, job, place)
        of_text = metrics.of_text(recipe.training.metric)
        validation = writing(recipe.validation, "valid") if of_text else 0.0
        return Measured(
            steps=steps,
            step=step,
            fixed=watch.stages[fitting.STAGE][0][0] - watch.began,
            training=step * total * (1 + copies) + recipe.training.epochs * validation,
            decoding={split: writing(recipe.search, split) for split in ("valid", "test")},
        )
    augmenter, models = recipe.augment, [need for need in job.needs if need.kind == "train"]
    if augmenter is not None and models:  # as if they were trained already
        texts = len(following.prepare(job.resolved, place).pairs("train")) * len(augmenter.moves)
        each = [_writing(need, place, need.resolved.recipe.search, "train", 1) for need in models]
        return Measured(fixed=texts * augmenter.copies * sum(each))
    if augmenter is not None and not augmenter.remote:  # that may cost money
        following.augment(job.resolved, dataclasses.replace(few, prepared=folder))
    timed = [watch.timed(stage) for stage in watch.stages]
    return Measured(fixed=sum(seconds * total for _, seconds, total in timed))


def _writing(
    job: Job, place: following.Place, search: decoding.Search, split: str, count: int | None = None
) -> float:
    """Return the seconds of a search over a split, or so many sentences of it, from a few."""
    from augless import decoding
    from augless.recipes import following

    prepared = following.prepare(job.resolved, place)
    if split not in prepared.splits:
        return 0.0
    model = following.build(job.resolved.recipe, prepared.codecs)
    sources = prepared.lines(split, "source")
    few = sources[:: max(1, len(sources) // SENTENCES)][:SENTENCES]
    held = prepared.pairs(split)
    # An untrained model would never end: its outputs get the length of the references.
    ratio = float(held.target.lengths.sum() / max(1, held.source.lengths.sum()))
    bounded = dataclasses.replace(search, max_ratio=ratio, max_extra=1)
    writer = decoding.Writer(model, prepared.codecs, bounded)
    writer.best(few[:2])  # the first call loads things
    clock = time.perf_counter()
    writer.best(few)
    return (time.perf_counter() - clock) * (count or len(sources)) / max(1, len(few))
