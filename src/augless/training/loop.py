"""A model under training: every draw and every order is a function of the seed and a position."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from augless import data, knobs, losses, models, runs
from augless.contracts import Batch, Output
from augless.knobs import Among, AtLeast, Below, Knobs, Within
from augless.ranks import ALONE, Ranks
from augless.training import saved
from augless.training.optimizers import Adam, Sgd
from augless.training.saved import Position, Span
from augless.training.terms import Criterion, Tally, Term

Precision = Literal["float32", "float64", "bfloat16"]
Device = Literal["auto", "cpu", "cuda", "mps"]

_SHOWN = 64  # rows of a batch that a message lists
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
    bucket: Annotated[
        int,
        "batches whose sentences are sorted by length together, to save padding; 1: none",
        Within(1, 1_000_000),
    ] = 64
    accumulate: Annotated[
        int, "pieces in which a batch is computed, to save memory", Within(1, 1_000_000)
    ] = 1
    per: Annotated[
        Literal["sentence", "token"],
        "a mean per sentence; or per target token, of losses that are sums over tokens",
    ] = "sentence"
    clip: Annotated[float, "largest gradient norm; 0: any", Within(0, 1e12)] = 5.0
    metric: Annotated[
        str,
        "validation score that chooses the best model; of equals, as BLEU below 2, the lower loss",
    ] = "loss"
    watch: Annotated[tuple[str, ...], "further splits scored with it, which choose nothing"] = ()
    word_dropout: Annotated[
        float,
        "share of source words and of the words a teacher shows, replaced by unknown",
        AtLeast(0),
        Below(1),
    ] = 0.0
    patience: Annotated[
        int,
        "early stopping: validations without improvement before it stops; 0: never",
        Within(0, 1_000_000),
    ] = 0
    memory: Annotated[float, "steps over which running mean losses forget", Within(1, 1e12)] = 100.0
    precision: Annotated[Precision, "what the model computes in"] = "float32"
    start: Annotated[Path | None, "warm start: a run whose best model to start from"] = None
    log_every: Annotated[int, "steps between two records", Within(1, 10**9)] = 100
    save_every: Annotated[
        int,
        "steps between two checkpoints; each epoch ends with one too",
        Within(1, 10**9),
    ] = 500
    keep: Annotated[int, "checkpoints that are kept", Within(1, 10_000)] = 2

    def batch_rows(self, pairs: data.Pairs, seed: int, epoch: int) -> list[NDArray[np.int64]]:
        """Return which rows of the pairs are in which batch of an epoch."""
        by_tokens = self.batch_by == "tokens"
        return data.batch_rows(
            pairs,
            seed=seed,
            epoch=epoch,
            sentences=None if by_tokens else self.batch,
            tokens=self.batch if by_tokens else None,
            bucket=self.bucket,
        )


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
        ranks: Ranks = ALONE,
    ) -> None:
        self.settings, self.pairs, self.seed, self.device = settings, pairs, seed, device
        self.ranks = ranks
        self.model = model.to(device, _TYPES[settings.precision])
        self.parameters = dict(self.model.named_parameters())
        self.optimizer = settings.optimizer.build(self.parameters.values())
        self.criterion = Criterion(terms, settings.memory, ranks, seed)
        self.steps = settings.epochs * len(settings.batch_rows(pairs, seed, 1))
        """of the whole run, if it is not stopped early"""
        self.at = Position()
        self.recent, self.epoch = Span(), Span()
        """since the last record, and since the epoch began"""
        weight = pairs.weight.astype(np.float64)
        self._totals = {
            "sentence": float(weight.sum()) or 1.0,
            "token": float((weight * (pairs.target.lengths + 1)).sum()) or 1.0,
        }
        """of the corpus, each pair counted by its own weight"""

    def step(self, rows: NDArray[np.int64]) -> None:
        """Take one optimiser step on the given pairs, of which this rank computes its share."""
        at, settings = self.at, self.settings
        self.model.train()
        rate = settings.optimizer.rate_at(at.step + 1, at.epoch, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        try:
            alone = self._backward(rows)
            self._sum_gradients()
            shares = self._shares(alone)
            norm, clipped = self._clipped_norm()
        except FloatingPointError as error:
            pairs = ", ".join(map(str, rows[:_SHOWN])) + ", ..." * (len(rows) > _SHOWN)
            raise NotFinite(
                f"{error} at step {at.step + 1} (epoch {at.epoch}, batch {at.batch + 1})\n"
                f"rows of the batch in the prepared corpus: {pairs}"
            ) from None
        self.optimizer.step()
        self.criterion.step()
        for span in (self.recent, self.epoch):
            span.add(norm, clipped, shares)
        at.step, at.batch, at.samples = at.step + 1, at.batch + 1, at.samples + len(rows)
        at.tokens += self._tokens(rows)

    def _tokens(self, rows: NDArray[np.int64]) -> int:
        return int(self.pairs.target.lengths[rows].sum()) + len(rows)  # with the end symbols

    def _divisors(self, rows: NDArray[np.int64]) -> list[float]:
        """Return what each term's sum over a batch is divided by to become a mean."""
        # Choice: a batch is a share of the corpus, and its sum is divided by that share of the
        # corpus' total, never by its own. Else batches of short sentences would teach as much as
        # those of long ones, so that tokens of short sentences counted more, and pairs of low
        # weight would be raised where they are among themselves (docs/paper.md).
        share = len(rows) / len(self.pairs)
        if self.settings.batch_by == "tokens":
            share = self._tokens(rows) / self._tokens(np.arange(len(self.pairs)))
        by_tokens = self.settings.per == "token"
        return [
            share * self._totals["token" if by_tokens and term.loss.grows else "sentence"]
            for term in self.criterion.terms
        ]

    def _backward(self, rows: NDArray[np.int64]) -> list[Tensor]:
        """Add up the gradients of a batch, piece by piece.

        Return those of each term but the first by itself, (P,), on this rank; none if this is not
        a step at which they are measured. That is one more backward pass for each, and changes no
        bit of the gradient.
        """
        pieces = min(self.settings.accumulate, len(rows))
        divisors, terms = self._divisors(rows), self.criterion.terms
        due = self.at.batch == 0 or self.recent.steps + 1 >= self.settings.log_every
        measured = due and len(terms) > 1
        alone = [torch.zeros(()) for _ in terms[1:]] if measured else []
        for index, part in enumerate(np.array_split(rows, pieces)):
            mine = self.ranks.share(part)
            if not len(mine):
                self.criterion.idle()
                continue
            batch = data.collate(self.pairs, mine).to(self.device)
            passes = range(self.criterion.passes)
            outputs = [self.output(batch, index + pieces * number) for number in passes]
            sums = self.criterion(outputs, batch)
            values = [value / divisor for value, divisor in zip(sums, divisors, strict=True)]
            torch.autograd.backward(sum(values[1:], values[0]), retain_graph=measured)
            for i in range(len(alone)):
                alone[i] = alone[i] + self._gradient(values[i + 1])
        return alone

    def output(self, batch: Batch, draw: int) -> Output:
        """Read a batch once; every draw is keyed, so that no generator's state need be saved."""
        key = np.random.SeedSequence([self.seed, self.at.step, self.ranks.rank, draw])
        torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))
        batch = data.drop_words(batch, self.settings.word_dropout)
        half = self.settings.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            return self.model(batch)  # type: ignore[no-any-return]  # torch's

    def _gradient(self, value: Tensor) -> Tensor:
        """Return the gradient of a number alone, (P,), and leave the gradients as they are."""
        parameters = [*self.parameters.values()]
        gradients = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
        pairs = zip(gradients, parameters, strict=True)
        flat = [(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs]
        return torch.cat(flat)

    def _sum_gradients(self) -> None:
        """Add up the gradients of all ranks (data parallel)."""
        if self.ranks.count == 1:
            return
        for parameter in self.parameters.values():
            gradient = parameter.grad
            parameter.grad = self.ranks.sum(
                torch.zeros_like(parameter) if gradient is None else gradient
            )

    def _shares(self, alone: list[Tensor]) -> list[float]:
        """Return each term's share of the gradient norm, given the gradients of all but one."""
        if not alone:
            return []
        size = sum(parameter.numel() for parameter in self.parameters.values())
        others = [self.ranks.sum(gradient.expand(size)) for gradient in alone]
        flat = [
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten()
            for p in self.parameters.values()
        ]
        first = torch.cat(flat) - torch.stack(others).sum(0)
        norms = [float(gradient.norm()) for gradient in (first, *others)]
        return [norm / (sum(norms) or 1.0) for norm in norms]

    def _clipped_norm(self) -> tuple[float, bool]:
        clip = self.settings.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), clip).item()
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite")
        return norm, norm > clip

    def checkpoint(self) -> runs.Checkpoint:
        """Return all that is needed to resume."""
        optimizer = {
            f"{name}/{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.optimizer.state[parameter].items()
            if isinstance(value, Tensor)
        }
        state = {
            "position": vars(self.at),
            "objectives": self.criterion.state_dict(),
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
        kept = checkpoint.tensors.get("optimizer", {})
        saved.check_entries(kept, self.parameters, self.settings.optimizer.entries)
        state = saved.read(checkpoint, self.criterion)
        set_weights(self.model, checkpoint.tensors.get("model", {}))
        for key, value in kept.items():
            name, _, entry = key.rpartition("/")
            parameter = self.parameters[name]
            self.optimizer.state[parameter][entry] = value.to(self.device)
        self.at, self.recent, self.epoch = state.position, state.recent, state.epoch

    def record(self, kind: runs.Moment, tallies: list[Tally], span: Span) -> runs.Logged:
        """Return what is known at this position."""
        at = self.at
        return runs.Logged(
            kind=kind,
            step=at.step,
            epoch=at.epoch,
            samples=at.samples,
            tokens=at.tokens,
            rate=self.settings.optimizer.rate_at(max(1, at.step), at.epoch, self.steps),
            gradient_norm=span.norm / max(1, span.steps),
            clipped=span.clipped / max(1, span.steps),
            terms=self.criterion.summaries(tallies, span.mean_shares(len(tallies))),
            by_token=tuple(i for i, t in enumerate(self.criterion.terms) if t.loss.by_token),
        )


@torch.inference_mode()
def nats(
    model: models.Model, pairs: data.Pairs, *, tokens: int = 4000
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the cross-entropy and the number of target tokens of each pair, (N,) each."""
    training, device = model.training, next(model.parameters()).device
    model.eval()
    loss = losses.CrossEntropy()
    nats = np.zeros(len(pairs))
    for rows in data.batch_rows(pairs, seed=0, epoch=0, tokens=tokens):  # by length: little padding
        batch = data.collate(pairs, rows).to(device)
        nats[rows] = loss(model(batch), batch).double().cpu().numpy()
    model.train(training)
    return nats, pairs.target.lengths + 1


def set_weights(model: models.Model, tensors: Mapping[str, Tensor]) -> None:
    """Give a model parameters by name; refuse if they are not its own."""
    parameters = dict(model.named_parameters())
    for name in {*parameters, *tensors}:
        ours = tuple(parameters[name].shape) if name in parameters else None
        theirs = tuple(tensors[name].shape) if name in tensors else None
        if ours != theirs:
            shown = knobs.shown(name)
            raise runs.BadRun(f"parameter {shown} is {ours} in the model and {theirs} in the run")
        if not tensors[name].is_floating_point() or not bool(tensors[name].isfinite().all()):
            raise runs.BadRun(f"parameter {knobs.shown(name)} of the run is not all finite numbers")
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
