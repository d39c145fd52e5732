"""Weightings: pure functions from losses (B,) to weights (B,)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from scipy import special
from torch import Tensor

from augless.knobs import Knobs, Within
from augless.polar import neighbours, tables
from augless.polar.neighbours import Neighbours

Angle = Literal["uniform", "isotropic", "measured"]
Unit = Literal["mean-loss", "absolute"]


@dataclass(frozen=True, kw_only=True)
class Weighting(Knobs):
    """A pure function from losses (B,) to weights (B,).

    A kind of weighting says what its weight is at a relative loss u (`curve`, never decreasing; or
    never increasing, if it `falls`), the integral of that (`area`), and which loss counts as u = 1
    (`unit_loss`).
    """

    falls: ClassVar[bool] = False
    """whether easy samples weigh more than hard ones"""
    summary: ClassVar[str] = ""
    """what it does, as a report says it; known are {of}, {value}, {most} (the largest
    weight), and {first}, {then} and {after} of `Staged`"""

    clip: Annotated[
        tuple[float, float], "bounds that every weight is clipped to", Within(0, math.inf)
    ] = (0.0, math.inf)
    normalise: Annotated[
        Literal["none", "running-mean"], "what an Objective divides the weights by"
    ] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        ordered = self.clip[0] <= self.clip[1]
        require(ordered, f"clip is {self.clip}; it must be (low, high), 0 <= low <= high")

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the weight of each sample, detached: (B,) losses -> (B,) weights.

        scale is the (running) mean loss, which `unit="mean-loss"` measures the losses by. Weights
        have the losses' type, float32 at least.
        """
        check_losses(losses)
        relative, _ = self._relative(losses, scale)
        return self._weights(relative, losses)

    def objective(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the transformed loss W(L) of each sample, W' = w: (B,) -> (B,), differentiable.

        Its gradient is weight x gradient of the loss; first derivatives only.
        """
        return self.evaluate(losses, scale)[1]

    def evaluate(self, losses: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """Return weights and transformed losses, (B,) each, for the price of one check."""
        check_losses(losses)
        relative, unit = self._relative(losses, scale)
        weights = self._weights(relative, losses)
        return weights, _with_gradient(self._area(relative) * unit, weights, losses)

    def curve(self, relative: Tensor) -> Tensor:
        """Return the weight at relative losses u, float64, before clipping."""
        raise NotImplementedError

    def area(self, relative: Tensor) -> Tensor:
        """Return the integral of `curve` up to relative losses u, up to a constant."""
        raise NotImplementedError

    def unit_loss(self, scale: float) -> float:
        """Return the loss that counts as u = 1."""
        return 1.0

    def stage(self, samples: float) -> int:
        """Tell which of its stages an Objective is in after so many samples; most have one."""
        return 0

    def of_stage(self, stage: int) -> Weighting:
        """Return what an Objective weighs by in a stage."""
        return self

    @property
    def needs_scale(self) -> bool:
        """Tell whether the weights depend on the mean loss."""
        return False

    @property
    def normalised(self) -> bool:
        """Tell whether an Objective divides the weights by their running mean."""
        return self.normalise == "running-mean"

    def _weights(self, relative: Tensor, losses: Tensor) -> Tensor:
        return self.curve(relative).clamp(*self.clip).to(result_type(losses))

    def _relative(self, losses: Tensor, scale: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return relative losses u = L / unit, (B,), and the unit, ()."""
        scale = float(scale)
        require(0 <= scale < math.inf, f"scale is {scale}; it is a mean loss, finite and >= 0")
        unit = torch.tensor(self.unit_loss(scale), dtype=work_type(losses))
        smallest = torch.finfo(unit.dtype).tiny  # a mean loss of 0: every loss is 0, and so is u
        largest = torch.finfo(unit.dtype).max ** 0.9  # leaves the curves room to stay finite
        unit = unit.to(losses.device).clamp(min=smallest)
        return (losses.detach().to(unit.dtype) / unit).clamp(max=largest), unit

    def _area(self, relative: Tensor) -> Tensor:
        """Integrate the clipped curve: flat up to one corner, flat again from the other."""
        before, after = self._levels
        low, high, zero, first = self._corners
        value = zero + self.area(relative.clamp(low, high)) - first
        if low > 0:
            value = value + before * relative.clamp(max=low)
        if math.isfinite(after):
            value = value + after * (relative - high).clamp(min=0)
        return value

    @property
    def _levels(self) -> tuple[float, float]:
        """The clip that holds for small losses, and the one for large ones."""
        low, high = self.clip
        return (high, low) if self.falls else (low, high)

    @functools.cached_property
    def _corners(self) -> tuple[float, float, float, float]:
        """Where the curve leaves the first clip and reaches the other; its areas at 0 and there."""
        low, high = (self._crossing(level) for level in self._levels)
        zero, first = self.area(torch.tensor([0.0, low], dtype=torch.float64)).tolist()
        return low, high, zero, first

    def _crossing(self, level: float) -> float:
        """Return the least u at which the curve reaches a level, by bisection of log u."""
        end, sign = 1e100, -1 if self.falls else 1

        def reaches(relative: float) -> bool:
            return sign * self._at(relative) >= sign * level

        if reaches(0.0):
            return 0.0
        if not reaches(end):
            return end
        below, above = -math.log(end), math.log(end)
        while above - below > 1e-13 * max(1.0, abs(above)):
            middle = (below + above) / 2
            below, above = (below, middle) if reaches(math.exp(middle)) else (middle, above)
        return math.exp(above)

    def _at(self, relative: float) -> float:
        return self.curve(torch.tensor([relative], dtype=torch.float64)).item()


@dataclass(frozen=True, kw_only=True)
class Plain(Weighting):
    """Every weight is one: training as usual."""

    summary: ClassVar[str] = "every sample has the weight 1"

    def curve(self, relative: Tensor) -> Tensor:
        """Return ones."""
        return torch.ones_like(relative)

    def area(self, relative: Tensor) -> Tensor:
        """Return u."""
        return relative


@dataclass(frozen=True, kw_only=True)
class Constant(Weighting):
    """Every weight is the same number: a learning rate by another name."""

    summary: ClassVar[str] = "every sample has the weight {value}: a learning rate by another name"

    value: Annotated[float, "the weight of every sample", Within(0, 1e6)] = 1.0

    def curve(self, relative: Tensor) -> Tensor:
        """Return the value."""
        return torch.full_like(relative, self.value)

    def area(self, relative: Tensor) -> Tensor:
        """Return value · u."""
        return self.value * relative


@dataclass(frozen=True, kw_only=True)
class InUnits(Weighting):
    """A weighting whose losses can be measured by their mean."""

    unit: Annotated[Unit, "what losses and radii are measured in"] = "absolute"

    def unit_loss(self, scale: float) -> float:
        """Return the unit."""
        return scale if self.needs_scale else 1.0

    @property
    def needs_scale(self) -> bool:
        """Tell whether the unit is the mean loss."""
        return self.unit == "mean-loss"


@dataclass(frozen=True, kw_only=True)
class Linear(InUnits):
    """The printed corollaries: the gradient of their quadratic upper bounds of E[Φ].

    Corollary 1 (r uniform):      w = 1 + strength · (1/2 + 2 C1 L), C1 = 1/4.
    Corollary 2 (r exponential):  w = 1 + strength · (C1 + C1 L), C1(R) = (1 - 1/e) R² / 2.
    """

    summary: ClassVar[str] = (
        "the weights as the paper prints them: they grow with the loss, without end"
    )

    corollary: Annotated[Literal[1, 2], "which corollary of the paper"] = 1
    c1: Annotated[
        float | None, "the constant C1; 1/4 for corollary 1 unless given", Within(0, 1e6)
    ] = None
    radius: Annotated[float | None, "R of corollary 2, from which C1 follows", Within(0, 1e6)] = (
        None
    )
    strength: Annotated[float, "total weight of the neighbours", Within(0, 1e6)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.corollary == 1:
            require(self.radius is None, "corollary 1 does not depend on a radius; give c1 or none")
        else:
            given = (self.c1 is None) != (self.radius is None)
            require(given, "corollary 2 needs either c1 or radius, for example c1=1e-4")

    @property
    def constant(self) -> float:
        """The constant C1 in force."""
        if self.c1 is not None:
            return self.c1
        # Choice: C1(R) as printed. Its derivation is wrong (docs/paper.md, erratum 1), so R is
        # only a way to name C1 here; the exact law `exponential` is what R should have meant.
        return 0.25 if self.radius is None else (1 - math.exp(-1)) * self.radius**2 / 2

    def curve(self, relative: Tensor) -> Tensor:
        """Return 1 + strength · (a + b u)."""
        intercept, slope = self._line
        return 1 + self.strength * (intercept + slope * relative)

    def area(self, relative: Tensor) -> Tensor:
        """Return u + strength · (a u + b u² / 2); the bound's constant C2 is left out."""
        intercept, slope = self._line
        return relative * (1 + self.strength * (intercept + slope / 2 * relative))

    @property
    def _line(self) -> tuple[float, float]:
        c1 = self.constant
        return (0.5, 2 * c1) if self.corollary == 1 else (c1, c1)


@dataclass(frozen=True, kw_only=True)
class Focal(InUnits):
    """The focal weight (1 - p)^gamma, p = exp(-L): hard samples first, without any neighbours."""

    summary: ClassVar[str] = "the focal loss: samples with a high loss weigh more, up to 1"

    gamma: Annotated[float, "how strongly easy samples are discounted", Within(0, 1000)] = 2.0

    def curve(self, relative: Tensor) -> Tensor:
        """Return (1 - exp(-u))^gamma."""
        return (-torch.expm1(-relative)) ** self.gamma

    def area(self, relative: Tensor) -> Tensor:
        """Return the integral from 0 by Gauss quadrature; beyond u = 40 the curve is 1."""
        # t = u x⁴ with x in (0, 1): the power u^gamma at 0 becomes smooth enough for any gamma.
        x, dx = (torch.from_numpy(a).to(relative) for a in tables.legendre())
        end = relative.clamp(max=40).unsqueeze(-1)
        return (self.curve(end * x**4) * end * (4 * x**3 * dx)).sum(-1) + (relative - 40).clamp(0)


@dataclass(frozen=True, kw_only=True)
class Law(InUnits):
    """An exact weighting: w(L) = 1 + strength · dE[Φ]/dL for neighbours distributed by a law.

    A law is named after its radius. With E[cos θ] = 0 the weight rises from 1 at L = 0 to
    1 + strength at L much larger than the radius.
    """

    radius: Annotated[float, "how far neighbours lie, in units of `unit`", Within(1e-6, 1e6)] = 1.0
    unit: Annotated[Unit, "what losses and radii are measured in"] = "mean-loss"
    angle: Annotated[Angle, "how directions are distributed"] = "uniform"
    dimension: Annotated[
        int | None,
        "of the space of an isotropic angle; 256 unless given",
        Within(2, 100_000),
    ] = None
    strength: Annotated[float, "total weight of the neighbours", Within(0, 1e6)] = 1.0

    radii: ClassVar[str] = ""  # the name in scipy.stats of the radius' distribution, R = 1
    summary: ClassVar[str] = (
        "an exact law of the paper: samples with a high loss weigh more, "
        "up to {most:g} times as much"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension is not None:
            require(self.angle == "isotropic", 'dimension is only for angle="isotropic"')
        measurable = self.angle != "measured" or isinstance(self, Empirical)
        require(measurable, "only the law `empirical` has measured angles")

    def expected(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return E[Φ(L)], the expected loss of a neighbour: (B,) -> (B,), differentiable."""
        check_losses(losses)
        relative, unit = self._relative(losses, scale)
        values = (self.mean_excess(relative) + relative) * unit
        return _with_gradient(values, self.slope(relative).to(result_type(losses)), losses)

    def sample(self, n: int, generator: torch.Generator, scale: float = 1.0) -> Neighbours:
        """Draw n neighbours, their radii in units of loss."""
        from scipy import stats  # half a second to import, and only drawing needs it

        draw = torch.rand(2, n, generator=generator, dtype=torch.float64)
        radius = torch.ones(n, dtype=torch.float64)
        if self.radii:
            radius = torch.from_numpy(getattr(stats, self.radii).ppf(draw[0].numpy()))
        return Neighbours(radius * self.unit_loss(scale), self._angles(draw[1]))

    def slope(self, relative: Tensor) -> Tensor:
        """Return dE[Φ]/dL at relative losses u."""
        return self._table(relative).slope(relative)

    def mean_excess(self, relative: Tensor) -> Tensor:
        """Return E[Φ] - u at relative losses u, for R = 1."""
        return self._table(relative).excess(relative)

    def curve(self, relative: Tensor) -> Tensor:
        """Return 1 + strength · dE[Φ]/dL."""
        return 1 + self.strength * self.slope(relative)

    def area(self, relative: Tensor) -> Tensor:
        """Return u + strength · E[Φ], the paper's objective (Eq. 4)."""
        return relative + self.strength * (self.mean_excess(relative) + relative)

    def unit_loss(self, scale: float) -> float:
        """Return the radius in units of loss."""
        return self.radius * super().unit_loss(scale)

    @property
    def _dimension(self) -> int:
        if self.angle == "uniform":
            return 2  # sin^(d-2) is flat for d = 2
        return self.dimension or 256  # Choice: the paper's word vectors

    def _table(self, like: Tensor) -> tables.Table:
        return tables.tabulate(self.radii, self._dimension, like.device, like.dtype)

    def _angles(self, draw: Tensor) -> Tensor:
        """Turn uniform draws into angles of density proportional to sin^(d-2)."""
        if self.angle == "uniform":
            return math.pi * draw
        half = (self._dimension - 1) / 2  # (1 + cos θ) / 2 has the law Beta(half, half)
        return torch.acos(2 * torch.from_numpy(special.betaincinv(half, half, draw.numpy())) - 1)


@dataclass(frozen=True, kw_only=True)
class Uniform(Law):
    """Radii uniform in (0, R): the assumption of Corollary 1, without its bound."""

    radii: ClassVar[str] = "uniform"


@dataclass(frozen=True, kw_only=True)
class Exponential(Law):
    """Radii exponential with mean R: the assumption of Corollary 2, without its bound."""

    radii: ClassVar[str] = "expon"


@dataclass(frozen=True, kw_only=True)
class Point(Law):
    """All neighbours at distance R."""


@dataclass(frozen=True, kw_only=True)
class Empirical(Law):
    """Neighbours where real ones were measured; `radius` then only scales the measured radii.

    Measured angles need not balance, so the weight starts at 1 - strength · E[cos θ].
    """

    summary: ClassVar[str] = f"{Law.summary}, for neighbours that were measured"

    neighbours: Annotated[Neighbours | str | Path, "measured neighbours, or their file"]
    angle: Annotated[Angle, "how directions are distributed"] = "measured"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._points  # a missing or foreign file is reported now, not in the first step

    def sample(self, n: int, generator: torch.Generator, scale: float = 1.0) -> Neighbours:
        """Draw n of the measured neighbours with replacement, their radii in units of loss."""
        points = self._points
        index = torch.randint(len(points.radius), (n,), generator=generator)
        angle = points.angle[index]
        if self.angle != "measured":
            angle = self._angles(torch.rand(n, generator=generator, dtype=torch.float64))
        return Neighbours(points.radius[index] * self.unit_loss(scale), angle)

    def slope(self, relative: Tensor) -> Tensor:
        """Return dE[Φ]/dL, the mean over the measured neighbours."""
        if self.angle == "measured":
            return self._mean(relative, neighbours.phi_slope)
        point = self._table(relative)  # of the point law: an empirical law names no radii
        return self._mean(relative, lambda u, r, _: point.slope(_ratio(u, r)))

    def mean_excess(self, relative: Tensor) -> Tensor:
        """Return E[Φ] - u, the mean over the measured neighbours."""
        if self.angle == "measured":
            return self._mean(relative, lambda u, r, angle: neighbours.phi(u, r, angle) - u)
        point = self._table(relative)  # of the point law: an empirical law names no radii
        return self._mean(relative, lambda u, r, _: r * point.excess(_ratio(u, r)))

    def _mean(
        self, relative: Tensor, function: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Average a function of (u, r, θ) over the neighbours, a bounded block at a time."""
        points = self._points
        radius, angle = (t.to(relative) for t in (points.radius, points.angle))
        flat = relative.reshape(-1, 1)
        block = max(1, 2**22 // len(radius))
        means = [function(u, radius, angle).mean(-1) for u in torch.split(flat, block)]
        return torch.cat(means).reshape(relative.shape)

    @functools.cached_property
    def _points(self) -> Neighbours:
        given = self.neighbours
        return given if isinstance(given, Neighbours) else Neighbours.load(given)


def _ratio(loss: Tensor, radius: Tensor) -> Tensor:
    """Return u = L / r within the range of numbers, for r = 0 too."""
    return (loss / radius.clamp(min=1e-30)).clamp(max=1e30)


def _with_gradient(values: Tensor, slopes: Tensor, losses: Tensor) -> Tensor:
    """Return values whose derivative with respect to the losses is the given slopes."""
    losses = losses.to(slopes.dtype)
    return values.to(slopes.dtype) + slopes * (losses - losses.detach())


def result_type(losses: Tensor) -> torch.dtype:
    """Return the type of weights and transformed losses: the losses', float32 at least."""
    return torch.promote_types(losses.dtype, torch.float32)


def work_type(losses: Tensor) -> torch.dtype:
    """Return the type to compute in: a weighting costs so little that it can afford float64."""
    return torch.float32 if losses.device.type == "mps" else torch.float64  # mps has no float64


def check_losses(losses: Tensor) -> None:
    """Refuse losses that no weighting can use, by index; one reduction in the good case."""
    if losses.ndim != 1 or not losses.is_floating_point():
        raise ValueError(
            f"losses must be one number per sample, (B,), not {losses.dtype} "
            f'{tuple(losses.shape)}; use reduction="none" and sum over the tokens of a sample'
        )
    values = losses.detach()
    fine = (values >= 0) & torch.isfinite(values)
    if not bool(fine.all()):
        index = int((~fine).nonzero()[0])
        raise ValueError(
            f"loss {index} of {len(losses)} is {values[index].item()}; "
            "a weighting needs finite losses >= 0"
        )


def require(condition: bool, message: str) -> None:
    """Raise the message unless the condition holds."""
    if not condition:
        raise ValueError(message)
