"""Optimisers, each with its schedule: the rate is a pure function of step and epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn

from augless.knobs import AtLeast, Below, Choices, Knobs, Within


@dataclass(frozen=True, kw_only=True)
class Sgd(Knobs):
    """Stochastic gradient descent with the paper's schedule."""

    rate: Annotated[float, "learning rate", Within(0, 1e38)] = 1.0
    momentum: Annotated[
        float, "share of the last step that goes into the next", AtLeast(0), Below(1)
    ] = 0.0
    halve_after: Annotated[
        int,
        "the rate is halved every epoch after this one; 0: never",
        Within(0, 1_000_000),
    ] = 8

    @property
    def entries(self) -> tuple[str, ...]:
        """What it keeps of each parameter."""
        return ("momentum_buffer",) if self.momentum else ()

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimiser."""
        return torch.optim.SGD(parameters, lr=self.rate, momentum=self.momentum)

    def rate_at(self, step: int, epoch: int, steps: int) -> float:
        """Return the rate of a step of so many, in an epoch; both counted from 1."""
        return self.rate * 0.5 ** (max(0, epoch - self.halve_after) if self.halve_after else 0)


@dataclass(frozen=True, kw_only=True)
class Adam(Knobs):
    """Adam with a linear warm-up and a rate that then falls."""

    rate: Annotated[
        float, "highest learning rate, reached at the end of the warm-up", Within(0, 1e30)
    ] = 1e-3
    warmup: Annotated[int, "steps until then", Within(0, 10**9)] = 1000
    schedule: Annotated[
        Literal["inverse-sqrt", "linear"],
        "then it falls as 1 / sqrt(step), but not if warmup is 0; or in a line to 0 at the end",
    ] = "inverse-sqrt"
    beta1: Annotated[float, "memory of the mean gradient", AtLeast(0), Below(1)] = 0.9
    beta2: Annotated[float, "memory of the mean squared gradient", AtLeast(0), Below(1)] = 0.98
    epsilon: Annotated[float, "added to the denominator", Within(0, 1)] = 1e-9

    @property
    def entries(self) -> tuple[str, ...]:
        """What it keeps of each parameter."""
        return ("step", "exp_avg", "exp_avg_sq")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimiser."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam(parameters, self.rate, betas, self.epsilon, fused=True)

    def rate_at(self, step: int, epoch: int, steps: int) -> float:
        """Return the rate of a step of so many, in an epoch; both counted from 1."""
        if self.schedule == "linear":
            rise = step / self.warmup if self.warmup else 1.0
            # Epochs of batches by tokens differ in length: what lies beyond has the last rate.
            fall = max(1, steps - step + 1) / max(1, steps - self.warmup + 1)
            return self.rate * min(1.0, rise, fall)
        if not self.warmup:
            return self.rate
        return self.rate * min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    decay: Annotated[
        float, "share of each parameter that decays per unit of rate", Within(0, 1e6)
    ] = 0.01

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimiser."""
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(parameters, self.rate, betas, self.epsilon, self.decay, fused=True)


# `Any`, so that a type checker lets every kind have knobs of its own.
OPTIMIZERS: dict[str, type[Any]] = Choices({"sgd": Sgd, "adam": Adam, "adamw": AdamW})
