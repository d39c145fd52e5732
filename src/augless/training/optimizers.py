"""Optimisers, each with its schedule: the rate is a pure function of step and epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent with the paper's schedule."""

    rate: Annotated[float, "learning rate"] = 1.0
    momentum: Annotated[float, "share of the last step that goes into the next"] = 0.0
    halve_after: Annotated[int, "the rate is halved every epoch after this one; 0: never"] = 8

    def __post_init__(self) -> None:
        _check(rate=self.rate, momentum=self.momentum, halve_after=self.halve_after)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimiser."""
        return torch.optim.SGD(parameters, lr=self.rate, momentum=self.momentum)

    def rate_at(self, step: int, epoch: int, steps: int) -> float:
        """Return the rate of a step of so many, in an epoch; both counted from 1."""
        return self.rate * 0.5 ** (max(0, epoch - self.halve_after) if self.halve_after else 0)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam with a linear warm-up and a rate that then falls."""

    rate: Annotated[float, "highest learning rate, reached at the end of the warm-up"] = 1e-3
    warmup: Annotated[int, "steps until then"] = 1000
    schedule: Annotated[
        Literal["inverse-sqrt", "linear"],
        "then it falls as 1 / sqrt(step), but not if warmup is 0; or in a line to 0 at the end",
    ] = "inverse-sqrt"
    beta1: Annotated[float, "memory of the mean gradient"] = 0.9
    beta2: Annotated[float, "memory of the mean squared gradient"] = 0.98
    epsilon: Annotated[float, "added to the denominator"] = 1e-9

    def __post_init__(self) -> None:
        _check(rate=self.rate, warmup=self.warmup, epsilon=self.epsilon)
        for name, value in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; it must be from 0 to below 1")

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

    decay: Annotated[float, "share of each parameter that decays per unit of rate"] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(decay=self.decay)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimiser."""
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(parameters, self.rate, betas, self.epsilon, self.decay, fused=True)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}; it must be finite and not negative")


# `Any`, so that a type checker lets every kind have knobs of its own.
OPTIMIZERS: dict[str, type[Any]] = {"sgd": Sgd, "adam": Adam, "adamw": AdamW}
