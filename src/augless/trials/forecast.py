"""How long a plan will take, from a few real steps of each kind of run."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from augless import corpora, data, recipes
from augless.trials import jobs, running, worker
from augless.trials.jobs import Book, Job, Progress
from augless.trials.plans import Plan

_COMMAND = "import sys; from augless.trials.forecast import main; sys.exit(main())"

STEPS, WARM = 8, 2
SENTENCES = 32


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one kind of run costs, measured on its own data by a model that has learnt nothing."""

    steps: int
    """training steps that were timed"""
    step: float
    """seconds of a training step"""
    startup: float
    """seconds until the first run begins to train; others are forked from what is loaded then"""
    epoch: float
    """seconds of an epoch, by its tokens"""
    validation: float
    """seconds of a validation, by its sentences; outputs as long as the references"""
    decoding: dict[str, float]
    """split -> seconds of the search in the end"""
    epochs: int

    def seconds(self, splits: tuple[str, ...]) -> float:
        """Return what a whole run takes."""
        end = sum(self.decoding[split] for split in splits)
        return self.epochs * (self.epoch + self.validation) + end


@dataclass(frozen=True)
class Expected:
    """A run, and how long it will take."""

    job: Job
    seconds: float | None
    """None where it could not be measured"""
    share: float
    """that is done already; 1: there is a record"""
    note: str = ""


@dataclass(frozen=True)
class Forecast:
    """The runs of a plan, and how long they will take."""

    runs: list[Expected]
    jobs: int
    measured: dict[str, Measured]
    """the run that stands for its kind -> what was measured"""

    @property
    def seconds(self) -> float:
        """All that is left, shared out: processes are taken not to slow each other down."""
        left = [(1 - run.share) * run.seconds for run in self.runs if run.seconds is not None]
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
    sentences. Runs that depend on scores to come are listed with the first combination.
    """
    book = running.opened(plan, root=root, records=records, workers=workers, progress=progress)
    measured: dict[str, Measured | str] = {}
    names: dict[str, str] = {}
    found = []
    known = book.jobs()
    for i, job in enumerate(known + _later(book)):
        later = i >= len(known)  # what such a run is like may be done, but not that run
        if not later and book.record(job) is not None:
            found.append(Expected(job, 0.0, 1.0, "done"))
            continue
        if (failure := book.failure(job)) is not None:
            found.append(Expected(job, None, 0.0, failure))
            continue
        kind = _kind(book, job)
        if kind not in measured:
            progress(f"measuring {job.method} on {job.corpus}", 0, None)
            measured[kind] = _measured(book, job, threads, device)
            names[kind] = f"{job.method} on {job.corpus}"
        share = 0.0 if later else running.share(book, job)
        found.append(_expected(job, measured[kind], share))
    fine = {names[kind]: one for kind, one in measured.items() if isinstance(one, Measured)}
    return Forecast(found, jobs, fine)


def _expected(job: Job, measured: Measured | str, share: float) -> Expected:
    if isinstance(measured, str):
        return Expected(job, None, 0.0, measured)
    return Expected(job, measured.seconds(job.splits), share, "begun" if share else "")


def _later(book: Book) -> list[Job]:
    """List the runs that wait for scores, with the first combination."""
    plan = book.plan
    found = []
    for corpus in plan.recipes:
        for method in plan.tune:
            left = plan.budget - len(book.points(corpus, method))
            for point in plan.points(method)[:1] * left:
                found.append(book.job(corpus, method, plan.seeds[0], point, "tune"))
    for corpus in plan.recipes:
        for method, entry in plan.methods.items():
            source = entry.matches or method
            if source in plan.tune and book.choice(corpus, source) is None:
                point = plan.points(source)[0]
                found += [book.job(corpus, method, seed, point) for seed in plan.seeds]
    return found


def _kind(book: Book, job: Job) -> str:
    """Return what decides how long a run takes: weightings and seeds cost nothing."""
    values = book.resolved(job).values
    kept = {k: v for k, v in values.items() if ".weighting." not in k and k != "seed"}
    return json.dumps([job.corpus, kept], sort_keys=True)


def _measured(book: Book, job: Job, threads: int, device: str) -> Measured | str:
    order = worker.Order(
        job=dataclasses.replace(job, purpose="final"),
        identifier="measured",
        root=book.layout.root,
        metrics=book.plan.metrics,
        threads=threads,
        device=device,
    )
    count = str(threads)
    result = subprocess.run(
        [sys.executable, "-P", "-c", _COMMAND],
        input=order.line(),
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count},
    )
    if result.returncode:
        last = result.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        return f"exit code {result.returncode}: {last}"
    return Measured(**json.loads(result.stdout))


def measure(order: worker.Order, began: float) -> Measured:
    """Take a few steps of a run and write a few sentences; leave nothing behind."""
    import torch

    from augless import decoding, training
    from augless.recipes import following

    torch.set_num_threads(order.threads)
    resolved = recipes.load(order.job.recipe, order.job.overrides)
    recipe = resolved.recipe
    layout = jobs.Layout(order.root)
    prepared = data.prepare(recipe.corpus, recipe.text, layout.prepared, name=resolved.name)
    pairs = prepared.pairs("train")
    settings = dataclasses.replace(recipe.training, metric="loss")
    device = training.choose_device(order.device)  # type: ignore[arg-type]  # checked
    model = following.build(recipe, prepared.codecs)
    trainer = training.Trainer(
        model, recipe.terms, settings, pairs, seed=recipe.seed, device=device
    )
    parts = settings.plan(pairs, recipe.seed, 1)
    startup = time.perf_counter() - began
    timed = parts[WARM : WARM + STEPS] or parts
    for rows in parts[:WARM]:
        trainer.step(rows)
    begun = time.perf_counter()
    for rows in timed:
        trainer.step(rows)
    spent = time.perf_counter() - begun
    lengths = pairs.target.lengths + 1
    tokens = sum(int(lengths[rows].sum()) for rows in timed)

    def writing(search: Any, split: str) -> float:
        """Return the seconds of a search over a split, from a few of its sentences."""
        sources, _ = jobs.lines(recipe.corpus, split)
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

    held_out = [split for split in ("valid", "test") if split in prepared.splits]
    return Measured(
        steps=len(timed),
        step=spent / len(timed),
        startup=startup,
        epoch=spent / max(1, tokens) * int(lengths.sum()),
        validation=0.0 if recipe.metric == "loss" else writing(recipe.validation, "valid"),
        decoding={split: writing(recipe.search, split) for split in held_out},
        epochs=settings.epochs,
    )


def main() -> int:
    """Measure the run that is ordered on standard input."""
    began = time.perf_counter()
    try:
        print(json.dumps(asdict(measure(worker.Order.read(sys.stdin.buffer.readline()), began))))
    except (recipes.BadRecipe, corpora.BadData, data.BadStore, ValueError, OSError) as error:
        print("; ".join(str(error).splitlines()), file=sys.stderr)
        return worker.USAGE
    return 0
