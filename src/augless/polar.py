"""The paper: expected loss over unseen neighbours, and the weight it gives a sample.

A sample with loss L has neighbours at polar coordinates (r, θ), whose loss is Φ(L; r, θ). With
(r, θ) drawn from a frozen law P, minimising L + strength · E_P[Φ(L)] is minimising L with every
gradient multiplied by

    w(L) = 1 + strength · dE_P[Φ]/dL.

All curves here are functions of u = L / R alone, R being the law's radius, so one table per law
serves every radius. Derivations, errata and choices: docs/paper.md.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch
from scipy import interpolate, special
from torch import Tensor, distributed

Angle = Literal["uniform", "isotropic", "measured"]
Unit = Literal["mean-loss", "absolute"]


def phi(loss: Tensor, radius: Tensor, angle: Tensor) -> Tensor:
    """Return the loss of a neighbour at polar coordinates (radius, angle), elementwise.

    Φ(L; r, θ) = sqrt(L² + r² - 2 L r cos θ), the law of cosines (Eq. 3). Written as the length of
    (L - r cos θ, r sin θ) it neither cancels nor overflows.
    """
    return torch.hypot(loss - radius * torch.cos(angle), radius * torch.sin(angle))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Where neighbours lie: radius (N,) >= 0 and angle (N,) in [0, π], in one unit of loss."""

    radius: Tensor
    angle: Tensor

    def __post_init__(self) -> None:
        if self.radius.ndim != 1 or self.radius.shape != self.angle.shape or not len(self.radius):
            raise ValueError("neighbours need a radius and an angle each: two equal vectors (N,)")
        radius_ok = torch.isfinite(self.radius) & (self.radius >= 0)
        angle_ok = (self.angle >= 0) & (self.angle <= math.pi * (1 + 1e-6))
        if not bool((radius_ok & angle_ok).all()):
            index = int((~(radius_ok & angle_ok)).nonzero()[0])
            raise ValueError(
                f"neighbour {index} lies at radius {float(self.radius[index])}, "
                f"angle {float(self.angle[index])}: radii are finite and >= 0, angles in [0, pi]"
            )

    @staticmethod
    def measured(losses: Tensor, radii: Tensor, neighbour_losses: Tensor) -> Neighbours:
        """Solve triangles for their angles: each from three distances (N,), by the law of cosines.

        losses ℓ(f(x), y), radii ℓ(f(x), f(x^)) and neighbour losses ℓ(f(x^), y), as in Fig. 1a.
        Divide all three by the mean loss first if the law's unit is "mean-loss".
        """
        losses, radii, sides = (t.detach().double() for t in (losses, radii, neighbour_losses))
        # Half-angle form: no cancellation for needle-like triangles. A loss that is no metric can
        # break the triangle inequality; such a triangle is flattened to angle 0 or π.
        cosine_gap = (sides - (losses - radii)) * (sides + (losses - radii))
        half_sine = (cosine_gap / (4 * losses * radii)).clamp(0, 1).nan_to_num(0.5).sqrt()
        return Neighbours(radii, 2 * torch.asin(half_sine))

    def save(self, path: str | Path) -> None:
        """Write the neighbours to a small JSON file."""
        document = {
            "format": _NEIGHBOURS_FORMAT,
            "radius": self.radius.tolist(),
            "angle": self.angle.tolist(),
        }
        Path(path).write_text(json.dumps(document), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Neighbours:
        """Read neighbours from a file that `save` wrote."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document["format"] != _NEIGHBOURS_FORMAT:
                raise ValueError(f"its format is {document['format']!r}")
            radius, angle = (torch.tensor(document[k]).double() for k in ("radius", "angle"))
            return Neighbours(radius, angle)
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"{path} is not a file of neighbours ({error}); "
                "write one with polar.Neighbours(radius, angle).save(path)"
            ) from None


_NEIGHBOURS_FORMAT = "augless neighbours 1"


@dataclass(frozen=True, kw_only=True)
class Weighting:
    """A pure function from losses (B,) to weights (B,).

    A kind of weighting says what its weight is at a relative loss u (`curve`, never decreasing),
    the integral of that (`area`), and which loss counts as u = 1 (`unit_loss`).
    """

    clip: Annotated[tuple[float, float], "bounds that every weight is clipped to"] = (0.0, math.inf)
    normalise: Annotated[
        Literal["none", "running-mean"], "what an Objective divides the weights by"
    ] = "none"

    pooled: ClassVar[bool] = False  # one weight for all samples of a batch, whatever their losses

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                choices = ", ".join(map(repr, get_args(hint)))
                raise ValueError(f"{name} is {getattr(self, name)!r}; it can be {choices}")
        low, high = self.clip
        _require(0 <= low <= high, f"clip is {self.clip}; it must be (low, high), 0 <= low <= high")

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the weight of each sample, detached: (B,) losses -> (B,) weights.

        scale is the (running) mean loss, which `unit="mean-loss"` measures the losses by. Weights
        have the losses' type, float32 at least.
        """
        weights = self.curve(self._relative(losses, scale)).clamp(*self.clip)
        return weights.to(_result_type(losses))

    def objective(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the transformed loss W(L) of each sample, W' = w: (B,) -> (B,), differentiable.

        Its gradient is weight x gradient of the loss; first derivatives only.
        """
        values = self._area(self._relative(losses, scale)) * self.unit_loss(scale)
        return _with_gradient(values, self(losses, scale), losses)

    def curve(self, relative: Tensor) -> Tensor:
        """Return the weight at relative losses u, float64, before clipping."""
        raise NotImplementedError

    def area(self, relative: Tensor) -> Tensor:
        """Return the integral of `curve` up to relative losses u, up to a constant."""
        raise NotImplementedError

    def unit_loss(self, scale: float | Tensor) -> float | Tensor:
        """Return the loss that counts as u = 1."""
        return 1.0

    @property
    def relative(self) -> bool:
        """Tell whether the weights depend on the mean loss."""
        return False

    def _relative(self, losses: Tensor, scale: float | Tensor) -> Tensor:
        _check_losses(losses)
        unit = torch.as_tensor(self.unit_loss(scale), dtype=_work_type(losses))
        largest = torch.finfo(unit.dtype).max ** 0.9  # u² / u stays finite in every curve
        smallest = torch.finfo(unit.dtype).tiny  # a mean loss of 0: every loss is 0, and so is u
        unit = unit.to(losses.device).clamp(min=smallest)
        return (losses.detach().to(unit.dtype) / unit).clamp(max=largest)

    def _area(self, relative: Tensor) -> Tensor:
        """Integrate the clipped curve: flat up to one corner, flat again from the other."""
        low, high, zero, first = self._corners
        inside = self.area(relative.clamp(low, high)) - first
        value = zero + self.clip[0] * relative.clamp(max=low) + inside
        if math.isfinite(self.clip[1]):
            value = value + self.clip[1] * (relative - high).clamp(min=0)
        return value

    @functools.cached_property
    def _corners(self) -> tuple[float, float, float, float]:
        """Where the curve leaves the lower clip and reaches the upper; its areas at 0 and there."""
        low, high = (self._crossing(level) for level in self.clip)
        zero, first = self.area(torch.tensor([0.0, low], dtype=torch.float64)).tolist()
        return low, high, zero, first

    def _crossing(self, level: float) -> float:
        """Return the least u at which the curve reaches a level, by bisection of log u."""
        end = 1e100
        if self._at(0.0) >= level:
            return 0.0
        if self._at(end) < level:
            return end
        below, above = -math.log(end), math.log(end)
        while above - below > 1e-13 * max(1.0, abs(above)):
            middle = (below + above) / 2
            reached = self._at(math.exp(middle)) >= level
            below, above = (below, middle) if reached else (middle, above)
        return math.exp(above)

    def _at(self, relative: float) -> float:
        return self.curve(torch.tensor([relative], dtype=torch.float64)).item()


@dataclass(frozen=True, kw_only=True)
class Plain(Weighting):
    """Every weight is one: training as usual."""

    def curve(self, relative: Tensor) -> Tensor:
        """Return ones."""
        return torch.ones_like(relative)

    def area(self, relative: Tensor) -> Tensor:
        """Return u."""
        return relative


@dataclass(frozen=True, kw_only=True)
class Constant(Weighting):
    """Every weight is the same number: a learning rate by another name."""

    value: Annotated[float, "the weight of every sample"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(0 <= self.value < math.inf, f"value is {self.value}; it must be finite and >= 0")

    def curve(self, relative: Tensor) -> Tensor:
        """Return the value."""
        return torch.full_like(relative, self.value)

    def area(self, relative: Tensor) -> Tensor:
        """Return value · u."""
        return self.value * relative


@dataclass(frozen=True, kw_only=True)
class Linear(Weighting):
    """The printed corollaries: the gradient of their quadratic upper bounds of E[Φ].

    Corollary 1 (r uniform):      w = 1 + strength · (1/2 + 2 C1 L), C1 = 1/4.
    Corollary 2 (r exponential):  w = 1 + strength · (C1 + C1 L), C1(R) = (1 - 1/e) R² / 2.
    """

    corollary: Annotated[Literal[1, 2], "which corollary of the paper"] = 1
    c1: Annotated[float | None, "the constant C1; 1/4 for corollary 1 unless given"] = None
    radius: Annotated[float | None, "R of corollary 2, from which C1 follows"] = None
    strength: Annotated[float, "total weight of the neighbours"] = 1.0
    unit: Annotated[Unit, "what the loss is measured in"] = "absolute"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_strength(self.strength)
        if self.corollary == 1:
            _require(
                self.radius is None, "corollary 1 does not depend on a radius; give c1 or none"
            )
        else:
            given = (self.c1 is None) != (self.radius is None)
            _require(given, "corollary 2 needs either c1 or radius, for example c1=1e-4")
        _require((self.c1 or 0) >= 0, f"c1 is {self.c1}; it must be >= 0")
        _require((self.radius or 0) >= 0, f"radius is {self.radius}; it must be >= 0")

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

    def unit_loss(self, scale: float | Tensor) -> float | Tensor:
        """Return the unit."""
        return scale if self.relative else 1.0

    @property
    def relative(self) -> bool:
        """Tell whether the unit is the mean loss."""
        return self.unit == "mean-loss"

    @property
    def _line(self) -> tuple[float, float]:
        c1 = self.constant
        return (0.5, 2 * c1) if self.corollary == 1 else (c1, c1)


@dataclass(frozen=True, kw_only=True)
class Focal(Weighting):
    """The focal weight (1 - p)^gamma, p = exp(-L): hard samples first, without any neighbours."""

    gamma: Annotated[float, "how strongly easy samples are discounted"] = 2.0
    unit: Annotated[Unit, "what the loss is measured in"] = "absolute"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(0 <= self.gamma < math.inf, f"gamma is {self.gamma}; it must be finite and >= 0")

    def curve(self, relative: Tensor) -> Tensor:
        """Return (1 - exp(-u))^gamma."""
        return (-torch.expm1(-relative)) ** self.gamma

    def area(self, relative: Tensor) -> Tensor:
        """Return the integral from 0 by Gauss quadrature; beyond u = 40 the curve is 1."""
        # t = u x⁴ with x in (0, 1): the power u^gamma at 0 becomes smooth enough for any gamma.
        x, dx = (torch.from_numpy(a).to(relative) for a in _legendre())
        end = relative.clamp(max=40).unsqueeze(-1)
        return (self.curve(end * x**4) * end * (4 * x**3 * dx)).sum(-1) + (relative - 40).clamp(0)

    def unit_loss(self, scale: float | Tensor) -> float | Tensor:
        """Return the unit."""
        return scale if self.relative else 1.0

    @property
    def relative(self) -> bool:
        """Tell whether the unit is the mean loss."""
        return self.unit == "mean-loss"


@dataclass(frozen=True, kw_only=True)
class Law(Weighting):
    """An exact weighting: w(L) = 1 + strength · dE[Φ]/dL for neighbours distributed by a law.

    A law is named after its radius. With E[cos θ] = 0 the weight rises from 1 at L = 0 to
    1 + strength at L much larger than the radius.
    """

    radius: Annotated[float, "how far neighbours lie, in units of `unit`"] = 1.0
    unit: Annotated[Unit, "what radii are measured in"] = "mean-loss"
    angle: Annotated[Angle, "how directions are distributed"] = "uniform"
    dimension: Annotated[int, "of the space an isotropic angle is drawn in"] = 256
    strength: Annotated[float, "total weight of the neighbours"] = 1.0

    radii: ClassVar[str] = ""  # the name in scipy.stats of the radius' distribution, R = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(0 < self.radius < math.inf, f"radius is {self.radius}; it must be finite and > 0")
        _require(self.dimension >= 2, f"dimension is {self.dimension}; it must be at least 2")
        _require_strength(self.strength)
        measurable = self.angle != "measured" or isinstance(self, Empirical)
        _require(measurable, "only the law `empirical` has measured angles")

    def expected(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return E[Φ(L)], the expected loss of a neighbour: (B,) -> (B,), differentiable."""
        relative = self._relative(losses, scale)
        values = (self.mean_excess(relative) + relative) * self.unit_loss(scale)
        return _with_gradient(values, self.slope(relative).to(_result_type(losses)), losses)

    def sample(self, n: int, generator: torch.Generator, scale: float | Tensor = 1.0) -> Neighbours:
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

    def unit_loss(self, scale: float | Tensor) -> float | Tensor:
        """Return the radius in units of loss."""
        return self.radius * scale if self.relative else self.radius

    @property
    def relative(self) -> bool:
        """Tell whether the radius is in units of the mean loss."""
        return self.unit == "mean-loss"

    @property
    def _dimension(self) -> int:
        return 2 if self.angle == "uniform" else self.dimension  # sin^(d-2) is flat for d = 2

    def _table(self, like: Tensor) -> _Table:
        return _tabulate(self.radii, self._dimension, like.device, like.dtype)

    def _angles(self, draw: Tensor) -> Tensor:
        """Turn uniform draws into angles of density proportional to sin^(d-2)."""
        if self.angle == "uniform":
            return math.pi * draw
        half = (self.dimension - 1) / 2  # (1 + cos θ) / 2 has the law Beta(half, half)
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

    neighbours: Annotated[Neighbours | str | Path, "measured neighbours, or their file"]
    angle: Annotated[Angle, "how directions are distributed"] = "measured"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._points  # a missing or foreign file is reported now, not in the first step

    def sample(self, n: int, generator: torch.Generator, scale: float | Tensor = 1.0) -> Neighbours:
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
            return self._mean(relative, _slope)
        point = self._table(relative)  # of the point law: an empirical law names no radii
        return self._mean(relative, lambda u, r, _: point.slope(_ratio(u, r)))

    def mean_excess(self, relative: Tensor) -> Tensor:
        """Return E[Φ] - u, the mean over the measured neighbours."""
        if self.angle == "measured":
            return self._mean(relative, lambda u, r, angle: phi(u, r, angle) - u)
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


@dataclass(frozen=True, kw_only=True)
class Matched(Weighting):
    """The learning-rate control: every sample gets the batch's mean weight under another weighting.

    It moves the parameters as fast as that weighting does but prefers no sample: what is left of a
    gain over `matched` is due to which samples were preferred.
    """

    of: Annotated[Weighting, "the weighting whose mean weight is given"] = field(
        default_factory=Exponential
    )

    pooled: ClassVar[bool] = True

    def __call__(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return the mean weight B times: (B,) -> (B,), detached."""
        return self.of(losses, scale).mean().clamp(*self.clip).expand(losses.shape)

    def objective(self, losses: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """Return mean weight x loss: (B,) -> (B,), differentiable."""
        return self(losses, scale) * losses

    @property
    def relative(self) -> bool:
        """Tell whether the other weighting depends on the mean loss."""
        return self.of.relative


class Objective:
    """A weighting with its two running means, for any PyTorch loop.

    Give it the optimiser and call it on unreduced losses; it returns what to call backward() on.
    The means move once per optimiser step, from sums over all micro-batches and all ranks, so
    gradient accumulation and torch.distributed change nothing; every rank must take the step.
    Until a mean that the weighting needs is known, weights are one: that is the first step for the
    mean loss, and one more for `normalise="running-mean"`. Not differentiated losses (validation)
    leave the means alone.
    """

    def __init__(
        self,
        weighting: Weighting,
        optimizer: torch.optim.Optimizer | None,
        *,
        memory: float = 100.0,
    ) -> None:
        """Attach to an optimiser; with None, call `step` yourself after each optimiser step.

        memory is the number of steps over which the running means forget.
        """
        _require(memory >= 1, f"memory is {memory}; it must be at least one step")
        self.weighting = weighting
        self.memory = memory
        self.mean_loss: float | None = None
        self.mean_weight: float | None = None
        self._sums: Tensor | None = None  # of losses, their number, weights, their number
        if optimizer is not None:
            optimizer.register_step_post_hook(lambda *_: self.step())

    def __call__(self, losses: Tensor) -> Tensor:
        """Return the mean transformed loss: (B,) -> (), its gradient the weighted mean."""
        return self.per_sample(losses).mean()

    def per_sample(self, losses: Tensor) -> Tensor:
        """Return the transformed losses, (B,) -> (B,), for a reduction of your own."""
        _check_losses(losses)
        weighting, scale = self.weighting, 1.0 if self.mean_loss is None else self.mean_loss
        weights = None
        if self.mean_loss is not None or not weighting.relative:
            weights = weighting(losses, scale)
            if weighting.pooled:  # the mean over all ranks' samples, not over this rank's
                total = _over_ranks(torch.stack([weights.sum(), weights.new_tensor(len(weights))]))
                weights = (total[0] / total[1]).expand(losses.shape)
        if losses.requires_grad and torch.is_grad_enabled():
            self._remember(losses, weights)
        normalised = weighting.normalise == "running-mean"
        if weights is None or (normalised and self.mean_weight is None):
            return losses
        values = weights * losses if weighting.pooled else weighting.objective(losses, scale)
        return values / self.mean_weight if normalised and self.mean_weight else values

    def step(self) -> None:
        """Move the running means; an optimiser given at the start does it by itself."""
        if self._sums is None:
            return
        losses, samples, weights, weighted = _over_ranks(self._sums).tolist()
        self._sums = None
        self.mean_loss = self._moved(self.mean_loss, losses, samples)
        self.mean_weight = self._moved(self.mean_weight, weights, weighted)

    def state_dict(self) -> dict[str, float | None]:
        """Return the two running means; take it between optimiser steps."""
        return {"mean_loss": self.mean_loss, "mean_weight": self.mean_weight}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        """Go on from the means of `state_dict`."""
        self.mean_loss, self.mean_weight = state["mean_loss"], state["mean_weight"]
        self._sums = None

    def _remember(self, losses: Tensor, weights: Tensor | None) -> None:
        values = losses.detach().to(_work_type(losses))
        pair = [values.sum(), values.new_tensor(len(values))]
        pair += (
            [torch.zeros_like(p) for p in pair]
            if weights is None
            else [weights.to(values).sum(), pair[1]]
        )
        sums = torch.stack(pair)
        self._sums = sums if self._sums is None else self._sums + sums

    def _moved(self, mean: float | None, total: float, count: float) -> float | None:
        if not count:
            return mean
        return total / count if mean is None else mean + (total / count - mean) / self.memory


@dataclass(frozen=True, eq=False)
class _Table:
    """dE[Φ]/dL and E[Φ] - u of a law with R = 1, as cubic splines of s, log u = ε sinh s.

    In log u both are smooth but for u = 1, where radii can end: w'' or, for a point law, w' is
    infinite there, and the nodes crowd there to meet it. Below the table the slope falls like u
    (it truly falls like u log u, from 1e-8 on), beyond it the excess falls like 1/u.
    """

    coefficients: Tensor  # (2, 4, intervals)

    def slope(self, relative: Tensor) -> Tensor:
        below = (relative / math.exp(-_REACH)).clamp(max=1)
        return (self._spline(0, relative) * below).clamp(0, 1)

    def excess(self, relative: Tensor) -> Tensor:
        beyond = (math.exp(_REACH) / relative).clamp(max=1)
        return self._spline(1, relative) * beyond

    def _spline(self, row: int, relative: Tensor) -> Tensor:
        edge = math.exp(_REACH)
        position = torch.asinh(torch.log(relative.clamp(1 / edge, edge)) / _CROWDING)
        step = 2 * _END / _INTERVALS
        whole = ((position + _END) / step).floor().clamp(0, _INTERVALS - 1)
        offset = position + _END - whole * step
        a, b, c, d = self.coefficients[row, :, whole.long()].unbind()
        return ((a * offset + b) * offset + c) * offset + d


_REACH = 20.0  # the table spans log u from -20 to 20
_CROWDING = 1e-6  # ε: how near to u = 1 the nodes crowd
_END = math.asinh(_REACH / _CROWDING)
_INTERVALS = 4096  # even, so that u = 1 is a node


@functools.lru_cache(maxsize=64)
def _tabulate(radii: str, dimension: int, device: torch.device, dtype: torch.dtype) -> _Table:
    """Tabulate the law of a radius distribution (none: the point law) and an isotropic angle."""
    nodes = np.linspace(-_END, _END, _INTERVALS + 1)
    relative = np.exp(_CROWDING * np.sinh(nodes))
    rows = _mixture(radii, dimension, relative) if radii else _point(relative, dimension)
    coefficients = interpolate.CubicSpline(nodes, rows, axis=1).c  # (4, intervals, 2)
    table = torch.from_numpy(np.ascontiguousarray(coefficients.transpose(2, 0, 1)))
    return _Table(table.to(device, dtype))


def _point(u: np.ndarray, dimension: int) -> np.ndarray:
    """Return the slope and excess of the point law, (2, N): a mean over a sphere of radius 1.

    In d dimensions E[Φ] = max(u, 1) · F(z), F = 2F1(-1/2, (1-d)/2; d/2; z), z = min(u, 1/u)²; for
    d = 2 that is the pair of elliptic integrals, without their cancellation at small u.
    """
    if dimension > 32:  # the series overflows, but Gauss nodes of sin^(d-2) converge at once
        half = (dimension - 3) / 2
        cosine, weight = special.roots_jacobi(64, half, half)
        column = u[:, None]
        side = np.sqrt(column**2 + 1 - 2 * column * cosine)
        rows = (column - cosine) / side, (1 - 2 * column * cosine) / (side + column)
        return np.stack([row @ (weight / weight.sum()) for row in rows])
    z = np.minimum(u, 1 / u) ** 2
    a, b, c = -0.5, (1 - dimension) / 2, dimension / 2
    value = special.hyp2f1(a, b, c, z)
    derivative = a * b / c * special.hyp2f1(a + 1, b + 1, c + 1, z)
    slope = np.where(u <= 1, 2 * u * derivative, value - 2 * z * derivative)
    excess = np.where(u <= 1, value - u, u * (value - 1))
    return np.stack([slope, excess])


def _mixture(radii: str, dimension: int, u: np.ndarray) -> np.ndarray:
    """Average the point law over radii: slope_P(u) = E[slope(u/r)], excess_P(u) = E[r excess(u/r)].

    The integrand has a kink at r = u, so each side is integrated by itself, in the radius'
    probability, with double-exponential nodes that ignore what happens at the ends.
    """
    from scipy import stats  # half a second to import, and only building a table needs it

    law = getattr(stats, radii)
    t = np.linspace(-4, 4, 81)
    x = special.expit(math.pi * np.sinh(t))
    dx = math.pi * np.cosh(t) * x * special.expit(-math.pi * np.sinh(t)) * (t[1] - t[0])
    column = u[:, None]
    below, above = law.cdf(column), law.sf(column)
    # Rounding must not carry a node to the other side, where its weight would not match.
    inner = law.ppf(below * x).clip(column * 1e-100, column)
    outer = law.isf(above * x).clip(column, 1e100)
    radius = np.concatenate([inner, outer], axis=1)
    weight = np.concatenate([below * dx, above * dx], axis=1)
    point = _tabulate("", dimension, torch.device("cpu"), torch.float64)
    ratio = torch.from_numpy(column / radius)
    rows = point.slope(ratio).numpy(), radius * point.excess(ratio).numpy()
    return np.stack([(row * weight).sum(1) for row in rows])


@functools.lru_cache(maxsize=1)
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of Gauss-Legendre quadrature on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2


def _slope(loss: Tensor, radius: Tensor, angle: Tensor) -> Tensor:
    """Return dΦ/dL; where a neighbour's loss is 0, the derivative from the right."""
    along = loss - radius * torch.cos(angle)
    side = phi(loss, radius, angle)
    return torch.where(side > 0, along / side, 1.0)


def _ratio(loss: Tensor, radius: Tensor) -> Tensor:
    """Return u = L / r within the range of numbers, for r = 0 too."""
    return (loss / radius.clamp(min=1e-30)).clamp(max=1e30)


def _with_gradient(values: Tensor, slopes: Tensor, losses: Tensor) -> Tensor:
    """Return values whose derivative with respect to the losses is the given slopes."""
    losses = losses.to(slopes.dtype)
    return values.to(slopes.dtype) + slopes * (losses - losses.detach())


def _over_ranks(sums: Tensor) -> Tensor:
    """Add a tensor up over all ranks, if there are several."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(sums)
    return sums


def _result_type(losses: Tensor) -> torch.dtype:
    return torch.promote_types(losses.dtype, torch.float32)


def _work_type(losses: Tensor) -> torch.dtype:
    return torch.float32 if losses.device.type == "mps" else torch.float64  # mps has no float64


def _check_losses(losses: Tensor) -> None:
    if losses.ndim != 1:
        shape = tuple(losses.shape)
        raise ValueError(f"losses must be one per sample, (B,), not {shape}; do not reduce them")
    values = losses.detach()
    fine = (values >= 0) & torch.isfinite(values)
    if not bool(fine.all()):
        index = int((~fine).nonzero()[0])
        raise ValueError(
            f"loss {index} of {len(losses)} is {values[index].item()}; "
            "a weighting needs finite losses >= 0"
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _require_strength(strength: float) -> None:
    _require(0 <= strength < math.inf, f"strength is {strength}; it must be finite and >= 0")


WEIGHTINGS: dict[str, type[Weighting]] = {
    "plain": Plain,
    "constant": Constant,
    "matched": Matched,
    "linear": Linear,
    "uniform": Uniform,
    "exponential": Exponential,
    "point": Point,
    "empirical": Empirical,
    "focal": Focal,
}
