"""How long a plan will take, from a few real steps of each kind of run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from augless import data
from augless.errors import Failure
from augless.trials import graph, pool, running
from augless.trials.graph import Job
from augless.trials.plans import Plan
from augless.trials.state import Progress, State
from augless.trials.work import Order

if TYPE_CHECKING:
    from augless import decoding, models

DONE = "done"
STEPS, WARM = 8, 2
SENTENCES = 32
SAVES = 3
"""files of a checkpoint's size that an epoch writes: one before its validation, one after, and the
best model"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one kind of run costs, measured on its own data by a model that has learnt nothing."""

    steps: int
    """training steps that were timed"""
    step: float
    """seconds of a training step"""
    startup: float
    """seconds until all is loaded that runs are forked from"""
    epoch: float
    """seconds of an epoch, by its tokens, and of what it saves"""
    validation: float
    """seconds of a validation, by its sentences; outputs as long as the references"""
    decoding: dict[str, float]
    """split -> seconds of the search in the end"""
    epochs: int
    fixed: float = 0.0
    """seconds of a run besides: the corpus checked, the model built, two steps, a save"""

    def seconds(self, splits: tuple[str, ...], share: float = 0.0) -> float:
        """Return what is left of a run when a share of its training is done."""
        end = sum(self.decoding[split] for split in splits)
        return self.fixed + (1 - share) * self.epochs * (self.epoch + self.validation) + end


@dataclass(frozen=True)
class Expected:
    """A run, and how long it will take."""

    job: Job
    seconds: float | None
    """that are left; None where it could not be measured"""
    share: float
    """of its training that is done already"""
    note: str = ""
    """how far it is, `DONE` where there is a record, or why it cannot be run"""


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
        startup = max((one.startup for one in self.measured.values()), default=0.0)
        return startup + max([sum(left) / max(1, self.jobs), *left], default=0.0)


def forecast(
    plan: Plan,
    *,
    root: str | Path,
    records: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    workers: int = 1,
    device: str = "cpu",
    progress: Progress = lambda stage, done, total: None,
) -> Forecast:
    """List a plan's runs and estimate their time; corpora are prepared, but no run is begun.

    One run of each kind (corpus, model, losses, training) takes a few real steps and writes some
    sentences, in as many processes as there will be: they slow each other down. Runs that depend
    on scores to come are listed with the first combination. Models that have to be trained before
    pairs can be made are runs too; how long making pairs takes is not known.
    """
    state = running.checked(plan, root=root, records=records, retry=True)
    running.prepare(state, workers=workers, progress=progress)
    known = state.jobs()
    kinds: dict[str, Measured | Failure] = {}
    names: dict[str, str] = {}

    def measured(job: Job) -> Measured | Failure:
        kind = _kind(state, job)
        if kind not in kinds:
            progress(f"measuring {job.method} on {job.corpus}", 0, None)
            kinds[kind] = _measured(state, job, min(jobs, len(known)), threads, device)
            names[kind] = f"{job.method} on {job.corpus}"
        return kinds[kind]

    found: list[Expected] = []
    listed: set[str | None] = set()
    for job in _with_needs(known):
        key = state.key(job)
        if job.need and key in listed:
            continue
        if state.done(job):
            found.append(Expected(job, 0.0, 1.0, DONE))
        elif (failure := state.failure(job)) is not None:
            found.append(Expected(job, None, 0.0, str(failure)))
        elif key in listed:  # two methods may come to the same run: it is done once
            found.append(Expected(job, 0.0, 0.0, "the same run as another"))
        else:
            share = running.share(state, job)
            found.append(
                _expected(job, measured(job), share, f"{share:.0%} trained" if share else "")
            )
        listed.add(key)
    for job in _with_needs(_later(state)):
        if job.need:
            if state.done(job) or state.key(job) in listed:
                continue
            listed.add(state.key(job))
        if (failure := state.failure(job)) is not None:
            found.append(Expected(job, None, 0.0, str(failure)))
            continue
        run = _expected(job, measured(job), 0.0, "after tuning")
        # Which values it will have is not known yet.
        found.append(dataclasses.replace(run, job=dataclasses.replace(job, tried=())))
    fine = {names[kind]: one for kind, one in kinds.items() if isinstance(one, Measured)}
    return Forecast(found, jobs, fine)


def _with_needs(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield runs, each after the models that its pairs are made by."""
    for job in jobs:
        yield from (need for need in job.all_needs() if need.kind == "train" and need.need)
        yield job


def _expected(job: Job, measured: Measured | Failure, share: float, note: str) -> Expected:
    if isinstance(measured, Failure):
        return Expected(job, None, 0.0, str(measured))
    splits = () if job.need else job.splits  # which scores nothing
    return Expected(job, measured.seconds(splits, share), share, note)


def _later(state: State) -> list[Job]:
    """List the runs that wait for scores, with the first combination."""
    plan = state.plan
    found = []
    for corpus in plan.recipes:
        for method in plan.tune:
            left = plan.budget - len(state.points(corpus, method))
            for point in plan.points(method)[:1] * left:
                found += graph.tuning(plan, state.resolve, corpus, method, point)
    for corpus in plan.recipes:
        for method in plan.methods:
            source = plan.source(method)
            if source in plan.tune and state.choice(corpus, source) is None:
                point = plan.points(source)[0]
                found += [
                    graph.run(plan, state.resolve, corpus, method, seed, point)
                    for seed in plan.seeds
                ]
    return found


def _kind(state: State, job: Job) -> str:
    """Return what decides how long a run takes: weightings and seeds cost nothing."""
    values = state.resolved(job).values
    kept = {k: v for k, v in values.items() if ".weighting." not in k and k != "seed"}
    kept = {k: v for k, v in kept.items() if not k.startswith("augment") or k == "augment.copies"}
    return json.dumps([job.corpus, kept], sort_keys=True)


@dataclass(frozen=True)
class _Probe:
    """Takes a few steps of a run, in a process of its own."""

    order: Order
    began: float
    saves: ClassVar[bool] = False

    @property
    def log(self) -> Path:
        """Where what it prints goes: beside what it makes."""
        return self.order.root / self.order.key / "log"

    def __call__(self, stop: pool.Stop) -> Measured:
        """Measure."""
        return measure(self.order, self.began)


def _measured(state: State, job: Job, count: int, threads: int, device: str) -> Measured | Failure:
    """Measure a run in several processes at once; the slowest counts."""
    root = state.layout.root
    root.mkdir(parents=True, exist_ok=True)
    executor = pool.Local(threads)
    found: list[Measured] = []
    with contextlib.ExitStack() as stack:
        stack.callback(executor.close)
        for _ in range(count):
            # Beside the runs to come, as disks differ; cleared away even if interrupted.
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=root, prefix=".measured-"))
            key = Path(folder).name
            order = Order(
                job=job,
                key=key,
                identifier="",
                root=root,
                metrics=state.plan.metrics,
                threads=threads,
                device=device,
            )
            executor.submit(key, _Probe(order, time.monotonic()))
        while len(found) < count:
            for ended in executor.wait(60.0):
                if isinstance(ended.outcome, Failure):
                    return ended.outcome
                found.append(ended.outcome)
    return max(found, key=lambda one: one.seconds(job.splits))


def measure(order: Order, began: float) -> Measured:
    """Take a few steps of a run and write a few sentences."""
    from augless import training
    from augless.recipes import following

    startup = time.monotonic() - began
    layout = order.layout
    recipe = dataclasses.replace(order.resolved.recipe, augment=None)  # no pairs are there yet
    resolved = dataclasses.replace(order.resolved, recipe=recipe)
    augmenter = order.resolved.recipe.augment
    longer = 1 if augmenter is None else 1 + augmenter.copies
    prepared = data.prepare(recipe.corpus, recipe.text, layout.prepared, name=resolved.name)
    pairs = prepared.pairs("train")
    settings = dataclasses.replace(recipe.training, metric="loss")
    parts = settings.plan(pairs, recipe.seed, 1)
    warm = min(WARM, len(parts))
    looks = iter(range(warm - 1))
    clock = time.perf_counter()
    run, _ = following.train(
        resolved,
        folder=order.root / order.key / "run",
        prepared_root=layout.prepared,
        device=order.device,  # type: ignore[arg-type]  # checked
        stop=lambda: next(looks, None) is None,  # after each step: stops with the last warm one
    )
    fixed = time.perf_counter() - clock
    model = following.build(recipe, prepared.codecs)
    device = training.choose_device(order.device)  # type: ignore[arg-type]  # checked
    trainer = training.Trainer(
        model, recipe.terms, settings, pairs, seed=recipe.seed, device=device
    )
    for rows in parts[:warm]:
        trainer.step(rows)
    timed = parts[warm : warm + STEPS] or parts
    clock = time.perf_counter()
    for rows in timed:
        trainer.step(rows)
    spent = time.perf_counter() - clock
    clock = time.perf_counter()
    run.save(trainer.checkpoint(), keep=settings.keep)
    saves = (SAVES + len(parts) // settings.save_every) * (time.perf_counter() - clock)
    lengths = pairs.target.lengths + 1
    tokens = sum(int(lengths[rows].sum()) for rows in timed)

    held_out = [split for split in ("valid", "test") if split in prepared.splits]
    return Measured(
        steps=len(timed),
        step=spent / len(timed),
        startup=startup,
        epoch=longer * spent / max(1, tokens) * int(lengths.sum()) + saves,
        validation=0.0
        if recipe.training.metric == "loss"
        else _writing(model, prepared, recipe.validation, "valid"),
        decoding={split: _writing(model, prepared, recipe.search, split) for split in held_out},
        epochs=settings.epochs,
        fixed=fixed,
    )


def _writing(
    model: models.Model, prepared: data.Prepared, search: decoding.Search, split: str
) -> float:
    """Return the seconds of a search over a split, from a few of its sentences."""
    from augless import decoding

    sources = prepared.lines(split, "source")
    few = sources[:: max(1, len(sources) // SENTENCES)][:SENTENCES]
    held = prepared.pairs(split)
    # An untrained model would never end: its outputs get the length of the references.
    ratio = float(held.target.lengths.sum() / max(1, held.source.lengths.sum()))
    bounded = dataclasses.replace(search, max_ratio=ratio, max_extra=1)
    writer = decoding.Writer(model, prepared.codecs, bounded)
    writer.generate(few[:2])  # the first call loads things
    clock = time.perf_counter()
    writer.generate(few)
    return (time.perf_counter() - clock) * len(sources) / max(1, len(few))
