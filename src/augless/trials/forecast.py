"""How long a plan will take, from a few real steps of each kind of run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from augless import data, recipes
from augless.errors import Failure, code_of
from augless.trials import jobs, running, worker
from augless.trials.jobs import Book, Job, Progress
from augless.trials.plans import Plan

_COMMAND = "import sys; from augless.trials.forecast import main; sys.exit(main())"

DONE = "done"
STEPS, WARM = 8, 2
SENTENCES = 32
SAVES = 3
"""of a checkpoint's size in an epoch: before and after its validation, and the best model"""


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
    on scores to come are listed with the first combination.
    """
    book = running.checked(
        plan, root=root, records=records, workers=workers, progress=progress, retry=True
    )
    book.prepare()
    known = book.jobs()
    kinds: dict[str, Measured | Failure] = {}
    names: dict[str, str] = {}

    def measured(job: Job) -> Measured | Failure:
        kind = _kind(book, job)
        if kind not in kinds:
            progress(f"measuring {job.method} on {job.corpus}", 0, None)
            kinds[kind] = _measured(book, job, min(jobs, len(known)), threads, device)
            names[kind] = f"{job.method} on {job.corpus}"
        return kinds[kind]

    found, listed = [], set()
    for job in known:
        key = (book.identifier(job), job.splits)
        if book.record(job) is not None:
            found.append(Expected(job, 0.0, 1.0, DONE))
        elif (failure := book.failure(job)) is not None:
            found.append(Expected(job, None, 0.0, str(failure)))
        elif key in listed:  # two methods may come to the same run: it is done once
            found.append(Expected(job, 0.0, 0.0, "the same run as another"))
        else:
            share = running.share(book, job)
            found.append(
                _expected(job, measured(job), share, f"{share:.0%} trained" if share else "")
            )
        listed.add(key)
    for job in _later(book):
        if (failure := book.failure(job)) is not None:
            found.append(Expected(job, None, 0.0, str(failure)))
            continue
        run = _expected(job, measured(job), 0.0, "after tuning")
        # Which values it will have is not known yet.
        found.append(dataclasses.replace(run, job=dataclasses.replace(job, tried=())))
    fine = {names[kind]: one for kind, one in kinds.items() if isinstance(one, Measured)}
    return Forecast(found, jobs, fine)


def _expected(job: Job, measured: Measured | Failure, share: float, note: str) -> Expected:
    if isinstance(measured, Failure):
        return Expected(job, None, 0.0, str(measured))
    return Expected(job, measured.seconds(job.splits, share), share, note)


def _later(book: Book) -> list[Job]:
    """List the runs that wait for scores, with the first combination."""
    plan = book.plan
    found = []
    for corpus in plan.recipes:
        for method in plan.tune:
            left = plan.budget - len(book.points(corpus, method))
            for point in plan.points(method)[:1] * left:
                found.append(book.job(corpus, method, plan.tuning_seed, point, "tune"))
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


def _measured(book: Book, job: Job, count: int, threads: int, device: str) -> Measured | Failure:
    """Measure a run in several processes at once; the slowest counts."""
    root = book.layout.root
    root.mkdir(parents=True, exist_ok=True)
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    found, processes = [], []
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            # Beside the runs to come, as disks differ; cleared away even if interrupted.
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(dir=root, prefix=".measured-"))
            )
            order = worker.Order(
                job=dataclasses.replace(job, purpose="final"),
                identifier=folder.name,
                root=root,
                metrics=book.plan.metrics,
                threads=threads,
                device=device,
            )
            (folder / "order").write_bytes(order.line())
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-P", "-c", _COMMAND],
                    stdin=stack.enter_context((folder / "order").open("rb")),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=os.environ | limits,
                )
            )
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            result, errors = process.communicate()
            if process.returncode:
                last = errors.decode("utf-8", "replace").strip().split("\n")[-1]
                return Failure(process.returncode, last)
            found.append(Measured(**json.loads(result)))
    return max(found, key=lambda one: one.seconds(job.splits))


def measure(order: worker.Order, began: float) -> Measured:
    """Take a few steps of a run and write a few sentences."""
    worker.load()
    import torch

    from augless import decoding, training
    from augless.recipes import following

    startup = time.perf_counter() - began
    torch.set_num_threads(order.threads)
    resolved = recipes.load(order.job.recipe, order.job.overrides)
    recipe = resolved.recipe
    layout = jobs.Layout(order.root)
    prepared = data.prepare(recipe.corpus, recipe.text, layout.prepared, name=resolved.name)
    pairs = prepared.pairs("train")
    settings = dataclasses.replace(recipe.training, metric="loss")
    parts = settings.plan(pairs, recipe.seed, 1)
    warm = min(WARM, len(parts))
    looks = iter(range(warm - 1))
    clock = time.perf_counter()
    run, _ = following.train(
        resolved,
        folder=order.root / order.identifier / "run",
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
        epoch=spent / max(1, tokens) * int(lengths.sum()) + saves,
        validation=0.0 if recipe.training.metric == "loss" else writing(recipe.validation, "valid"),
        decoding={split: writing(recipe.search, split) for split in held_out},
        epochs=settings.epochs,
        fixed=fixed,
    )


def main() -> int:
    """Measure the run that is ordered on standard input."""
    began = time.perf_counter()
    try:
        print(json.dumps(asdict(measure(worker.Order.read(sys.stdin.buffer.readline()), began))))
    except (ValueError, OSError, FloatingPointError) as error:
        print("; ".join(str(error).splitlines()), file=sys.stderr)
        return code_of(error)
    return 0
