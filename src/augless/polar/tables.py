"""Exact curves of the laws: dE[Φ]/dL and E[Φ], tabulated once against u = L / R."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import interpolate, special
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Table:
    """dE[Φ]/dL and E[Φ] - u of a law with R = 1, as cubic splines of s, log u = ε sinh s.

    In log u both are smooth but for u = 1, where radii can end: w'' or, for a point law, w' is
    infinite there, and the nodes crowd there to meet it. Below the table the slope falls like u
    (it truly falls like u log u, from 1e-8 on), beyond it the excess falls like 1/u.
    """

    coefficients: Tensor  # (2, 4, intervals)

    def slope(self, relative: Tensor) -> Tensor:
        """Return dE[Φ]/dL at relative losses u, elementwise."""
        below = (relative / math.exp(-_REACH)).clamp(max=1)
        return (self._spline(0, relative) * below).clamp(0, 1)

    def excess(self, relative: Tensor) -> Tensor:
        """Return E[Φ] - u at relative losses u, elementwise."""
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
def tabulate(radii: str, dimension: int, device: torch.device, dtype: torch.dtype) -> Table:
    """Tabulate the law of a radius distribution (none: the point law) and an isotropic angle."""
    nodes = np.linspace(-_END, _END, _INTERVALS + 1)
    relative = np.exp(_CROWDING * np.sinh(nodes))
    rows = _mixture(radii, dimension, relative) if radii else _point(relative, dimension)
    coefficients = interpolate.CubicSpline(nodes, rows, axis=1).c  # (4, intervals, 2)
    table = torch.from_numpy(np.ascontiguousarray(coefficients.transpose(2, 0, 1)))
    return Table(table.to(device, dtype))


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
    point = tabulate("", dimension, torch.device("cpu"), torch.float64)
    ratio = torch.from_numpy(column / radius)
    rows = point.slope(ratio).numpy(), radius * point.excess(ratio).numpy()
    return np.stack([(row * weight).sum(1) for row in rows])


@functools.lru_cache(maxsize=1)
def legendre() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of Gauss-Legendre quadrature on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2
