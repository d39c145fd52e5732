"""The loop itself: every draw and every order is a function of the seed and a position."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from augless import data, losses, models, runs
from augless.knobs import Among, Knobs, Within
from augless.training.optimizers import Adam, Sgd
from augless.training.terms import Objectives, Tally, Term

Precision = Literal["float32", "float64", "bfloat16"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Validate = Callable[[models.Model], Mapping[str, float]]

LOWER_IS_BETTER = ("loss", "perplexity")
_TYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}


class NotFinite(FloatingPointError):  # noqa: N818  # named for what it is
    """A loss or gradient that is not a finite number: at which step, on which pairs."""


@dataclass(frozen=True, kw_only=True)
class Settings(Knobs):
    """How a model is trained."""

    optimizer: Annotated[Sgd | Adam, "how gradients become steps", Among("training.OPTIMIZERS")] = (
        field(default_factory=Sgd)
    )
    epochs: Annotated[int, "passes over the training pairs", Within(1, 1_000_000)] = 12
    batch: Annotated[int, "size of a batch", Within(1, 1_000_000)] = 64
    batch_by: Annotated[
        Literal["sentences", "tokens"], "what that counts; tokens of the longer side, padded"
    ] = "sentences"
    accumulate: Annotated[
        int, "pieces in which a batch is computed, to save memory", Within(1, 1_000_000)
    ] = 1
    per: Annotated[
        Literal["sentence", "token"], "the objective is a mean per sentence, or per target token"
    ] = "sentence"
    clip: Annotated[float, "largest gradient norm; 0: any", Within(0, 1e12)] = 5.0
    metric: Annotated[str, "score that chooses the best model; auto: BLEU, in the text's case"] = (
        "auto"
    )
    watch: Annotated[tuple[str, ...], "further splits scored with it, which choose nothing"] = ()
    patience: Annotated[
        int,
        "validations without improvement before it stops; 0: never",
        Within(0, 1_000_000),
    ] = 0
    memory: Annotated[float, "steps over which running mean losses forget", Within(1, 1e12)] = 100.0
    precision: Annotated[Precision, "what the model computes in"] = "float32"
    start: Annotated[Path | None, "a run whose best model to start from"] = None
    log_every: Annotated[int, "steps between two records", Within(1, 10**9)] = 100
    save_every: Annotated[
        int,
        "steps between two checkpoints; each epoch ends with one too",
        Within(1, 10**9),
    ] = 500
    keep: Annotated[int, "checkpoints that are kept", Within(1, 10_000)] = 2

    def plan(self, pairs: data.Pairs, seed: int, epoch: int) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch."""
        by_tokens = self.batch_by == "tokens"
        sentences, tokens = (None, self.batch) if by_tokens else (self.batch, None)
        return data.plan(pairs, seed=seed, epoch=epoch, sentences=sentences, tokens=tokens)


@dataclass
class Position:
    """Where a run is: enough, with the parameters, to go on as if nothing had happened."""

    step: int = 0
    epoch: int = 1
    batch: int = 0
    """batches of this epoch that are done"""
    samples: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    """validations since the best one"""
    records: int = 0
    """records logged so far"""


@dataclass
class Span:
    """What is summed over steps."""

    norm: float = 0.0
    """of gradients, before clipping"""
    steps: int = 0


class Trainer:
    """A model under training, with all that a checkpoint must hold."""

    def __init__(
        self,
        model: models.Model,
        terms: Sequence[Term],
        settings: Settings,
        pairs: data.Pairs,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings, self.pairs, self.seed, self.device = settings, pairs, seed, device
        self.model = model.to(device, _TYPES[settings.precision])
        self.parameters = dict(self.model.named_parameters())
        self.optimizer = settings.optimizer.build(self.parameters.values())
        self.objectives = Objectives(terms, settings.memory)
        self.at = Position()
        self.recent, self.epoch = Span(), Span()
        """since the last record, and since the epoch began"""

    def step(self, rows: NDArray[np.int64]) -> None:
        """Take one optimiser step on the given pairs."""
        at, settings = self.at, self.settings
        self.model.train()
        rate = settings.optimizer.rate_at(at.step + 1, at.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        try:
            for piece in self._backward(rows):
                at.tokens += piece
            norm = self._clipped_norm()
        except FloatingPointError as error:
            pairs = ", ".join(map(str, rows))
            raise NotFinite(
                f"{error} at step {at.step + 1} (epoch {at.epoch}, batch {at.batch + 1})\n"
                f"rows of the batch in the prepared corpus: {pairs}; nothing of it was saved\n"
                "try a lower training.optimizer.rate or training.clip"
            ) from None
        self.optimizer.step()
        self.objectives.step()
        for span in (self.recent, self.epoch):
            span.norm, span.steps = span.norm + norm, span.steps + 1
        at.step, at.batch, at.samples = at.step + 1, at.batch + 1, at.samples + len(rows)

    def _backward(self, rows: NDArray[np.int64]) -> list[int]:
        """Add up the gradients of a batch, piece by piece; return the target tokens of each."""
        weight = self.pairs.weight[rows].astype(np.float64)
        if self.settings.per == "token":
            weight = weight * (self.pairs.target.lengths[rows] + 1)
        # Choice: pair weights make a weighted mean, so that adding augmented pairs at a low weight
        # does not lower the learning rate of the others.
        divisor = float(weight.sum()) or 1.0
        tokens = []
        for index, part in enumerate(
            np.array_split(rows, min(self.settings.accumulate, len(rows)))
        ):
            batch = _moved(data.collate(self.pairs, part), self.device)
            # Every draw of this piece is keyed, so that no generator's state need be saved.
            key = np.random.SeedSequence([self.seed, self.at.step, 0, index])
            torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))
            half = self.settings.precision == "bfloat16"
            with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
                output = self.model(batch)
            torch.autograd.backward(self.objectives(output, batch) / divisor)
            tokens.append(int(batch.target_mask.sum()))
        return tokens

    def _clipped_norm(self) -> float:
        clip = self.settings.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), clip).item()
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite")
        return norm

    def checkpoint(self) -> runs.Checkpoint:
        """Return all that a later sitting needs."""
        optimizer = {
            f"{name}/{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.optimizer.state[parameter].items()
            if isinstance(value, Tensor)
        }
        state = {
            "position": vars(self.at),
            "objectives": self.objectives.state_dict(),
            "recent": vars(self.recent),
            "epoch": vars(self.epoch),
        }
        return runs.Checkpoint(
            step=self.at.step,
            tensors={"model": self.weights(), "optimizer": optimizer},
            state=state,
        )

    def weights(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        return {name: parameter.detach() for name, parameter in self.parameters.items()}

    def load(self, checkpoint: runs.Checkpoint) -> None:
        """Go on from a checkpoint."""
        set_weights(self.model, checkpoint.tensors["model"])
        for key, value in checkpoint.tensors["optimizer"].items():
            name, _, entry = key.rpartition("/")
            parameter = self.parameters[name]
            self.optimizer.state[parameter][entry] = value.to(self.device)
        self.at = Position(**checkpoint.state["position"])
        self.objectives.load_state_dict(checkpoint.state["objectives"])
        self.recent = Span(**checkpoint.state["recent"])
        self.epoch = Span(**checkpoint.state["epoch"])

    def record(self, kind: str, tallies: list[Tally], span: Span) -> dict[str, Any]:
        """Return what is known at this position."""
        at = self.at
        return {
            "kind": kind,
            "step": at.step,
            "epoch": at.epoch,
            "samples": at.samples,
            "tokens": at.tokens,
            "rate": self.settings.optimizer.rate_at(max(1, at.step), at.epoch),
            "gradient_norm": span.norm / max(1, span.steps),
            "terms": self.objectives.summaries(tallies),
        }


def fit(
    trainer: Trainer,
    run: runs.Run,
    *,
    validate: Validate,
    stop: Callable[[], bool] = lambda: False,
    max_minutes: float = math.inf,
    on_record: Callable[[Mapping[str, Any]], None] = lambda record: None,
    progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> bool:
    """Train until the end or until asked to stop; return whether the run is finished.

    The caller holds the run's lock. The same call goes on where the last one stopped. `validate`
    gives the scores of a model, never weighted; the one named by `settings.metric` chooses the
    best model.
    """
    if run.result is not None:
        return True
    checkpoint = run.last()
    if checkpoint is not None:
        trainer.load(checkpoint)
    run.rewind(trainer.at.records)
    session = _Session(trainer, run, validate, on_record)
    deadline = time.monotonic() + 60 * max_minutes
    settings = trainer.settings
    with torch.random.fork_rng(devices=[]):  # the caller's draws are none of our business
        while not session.over:
            at = trainer.at
            plan = settings.plan(trainer.pairs, trainer.seed, at.epoch)
            while at.batch < len(plan):
                trainer.step(plan[at.batch])
                done = (at.epoch - 1) * len(plan) + at.batch
                progress("training", done, settings.epochs * len(plan))
                if trainer.recent.steps >= settings.log_every:
                    session.log_interval()
                halt = stop() or time.monotonic() >= deadline
                # Before a validation, too: it may take long, and a killer may not wait.
                if halt or at.step % settings.save_every == 0 or at.batch == len(plan):
                    session.save()
                if halt:
                    return False
            session.end_epoch()
            if not session.over and (stop() or time.monotonic() >= deadline):
                return False
    session.finish()
    return True


class _Session:
    """One sitting: what is written to the run, and when."""

    def __init__(
        self,
        trainer: Trainer,
        run: runs.Run,
        validate: Validate,
        on_record: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.trainer, self.run, self.validate, self.on_record = trainer, run, validate, on_record
        self.clock = time.monotonic()
        self.interval = self.epoch = (time.monotonic(), trainer.at.tokens)

    @property
    def over(self) -> bool:
        at, settings = self.trainer.at, self.trainer.settings
        tired = 0 < settings.patience <= at.waited
        return at.epoch > settings.epochs or tired

    def log_interval(self) -> None:
        trainer = self.trainer
        record = trainer.record("interval", trainer.objectives.recent, trainer.recent)
        seconds, tokens = time.monotonic() - self.interval[0], trainer.at.tokens - self.interval[1]
        record["tokens_per_second"] = tokens / max(seconds, 1e-9)
        self._write(record)
        trainer.objectives.recent = [Tally() for _ in trainer.objectives.recent]
        trainer.recent = Span()
        self.interval = (time.monotonic(), trainer.at.tokens)

    def end_epoch(self) -> None:
        """Validate, keep the model if it is the best so far, and save."""
        trainer, at = self.trainer, self.trainer.at
        record = trainer.record("epoch", trainer.objectives.epoch, trainer.epoch)
        seconds = max(time.monotonic() - self.epoch[0], 1e-9)  # of this sitting
        record["tokens_per_second"] = (at.tokens - self.epoch[1]) / seconds
        self._check_parameters()
        trainer.model.eval()
        began = time.monotonic()
        try:
            scores = dict(self.validate(trainer.model))
        except FloatingPointError as error:
            raise NotFinite(f"validation after step {at.step}: {error}") from None
        self._spend()
        score = self._chosen(scores)
        record |= {"scores": scores, "seconds": at.seconds, "validation": time.monotonic() - began}
        self._write(record)
        if at.best is None or score > at.best:
            at.best, at.best_step, at.waited = score, at.step, 0
            state = {"step": at.step, "epoch": at.epoch, "scores": scores}
            self.run.save_best(trainer.weights(), state)
        else:
            at.waited += 1
        at.epoch, at.batch = at.epoch + 1, 0
        trainer.objectives.epoch = [Tally() for _ in trainer.objectives.epoch]
        trainer.epoch = Span()
        self.save()
        self.interval = self.epoch = (time.monotonic(), at.tokens)

    def save(self) -> None:
        self._check_parameters()
        self._spend()
        self.run.save(self.trainer.checkpoint(), keep=self.trainer.settings.keep)

    def finish(self) -> None:
        at, best = self.trainer.at, self.run.best()
        result: dict[str, Any] = {"steps": at.step, "epochs": at.epoch - 1, "samples": at.samples}
        result |= {"tokens": at.tokens, "seconds": at.seconds, "best": best.state}
        self.run.finish(result)

    def _chosen(self, scores: Mapping[str, float]) -> float:
        metric = self.trainer.settings.metric
        if metric not in scores:
            known = ", ".join(scores)
            raise ValueError(f"training.metric is {metric!r}; validation gives {known}")
        score = scores[metric]
        if not math.isfinite(score):
            raise NotFinite(f"{metric} on the validation pairs is {score}; nothing of it was saved")
        return -score if metric in LOWER_IS_BETTER else score

    def _check_parameters(self) -> None:
        for name, parameter in self.trainer.parameters.items():
            if not bool(torch.isfinite(parameter).all()):
                raise NotFinite(
                    f"parameter {name} is not finite after step {self.trainer.at.step}\n"
                    "nothing of it was saved; try a lower training.optimizer.rate"
                )

    def _spend(self) -> None:
        self.trainer.at.seconds += time.monotonic() - self.clock
        self.clock = time.monotonic()

    def _write(self, record: Mapping[str, Any]) -> None:
        self.run.log(record)
        self.trainer.at.records += 1
        self.on_record(record)


@torch.inference_mode()
def nats(
    model: models.Model, pairs: data.Pairs, *, tokens: int = 4000
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the cross-entropy and the number of target tokens of each pair, (N,) each."""
    training, device = model.training, next(model.parameters()).device
    model.eval()
    loss = losses.CrossEntropy()
    found = np.zeros(len(pairs))
    for rows in data.plan(pairs, seed=0, epoch=0, tokens=tokens):  # by length: little padding
        batch = _moved(data.collate(pairs, rows), device)
        found[rows] = loss(model(batch), batch).double().cpu().numpy()
    model.train(training)
    return found, pairs.target.lengths + 1


def set_weights(model: models.Model, tensors: Mapping[str, Tensor]) -> None:
    """Give a model parameters by name; refuse if they are not its own."""
    parameters = dict(model.named_parameters())
    for name in {*parameters, *tensors}:
        ours = tuple(parameters[name].shape) if name in parameters else None
        theirs = tuple(tensors[name].shape) if name in tensors else None
        if ours != theirs:
            raise runs.BadRun(f"parameter {name} is {ours} in the model and {theirs} in the run")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def choose_device(name: Device) -> torch.device:
    """Return the device of that name; auto takes the fastest there is."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = "cuda" if there["cuda"] else "mps" if there["mps"] else "cpu"
    elif not there.get(name, name == "cpu"):
        raise ValueError(f"there is no {name} device here; use --device cpu")
    return torch.device(name)


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuse a precision that the device cannot compute in."""
    if precision == "float64" and device.type == "mps":
        raise ValueError("mps has no float64; use training.precision=float32")
    if precision != "bfloat16":
        return
    # Some processors advertise instructions that then kill the process: let another one try.
    attempt = (
        f"import torch; like = dict(dtype=torch.bfloat16, device={device.type!r}); "
        "a = torch.ones(64, 64, **like); torch.nn.Linear(64, 64, **like)(a @ a).sum().backward()"
    )
    if subprocess.run([sys.executable, "-c", attempt], capture_output=True).returncode:
        raise ValueError(
            f"bfloat16 does not work on this {device.type}; use training.precision=float32"
        )


def _moved(batch: data.Batch, device: torch.device) -> data.Batch:
    if device.type == "cpu":
        return batch
    names = ("source", "source_mask", "target", "target_mask", "weight")
    tensors = {name: getattr(batch, name).to(device, non_blocking=True) for name in names}
    return data.Batch(index=batch.index, **tensors)
