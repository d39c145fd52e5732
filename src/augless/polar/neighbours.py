"""Where neighbours lie, and what their losses are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from augless import storage


def phi(loss: Tensor, radius: Tensor, angle: Tensor) -> Tensor:
    """Return the loss of a neighbour at polar coordinates (radius, angle), elementwise.

    Φ(L; r, θ) = sqrt(L² + r² - 2 L r cos θ), the law of cosines (Eq. 3). Written as the length of
    (L - r cos θ, r sin θ) it neither cancels nor overflows.
    """
    return torch.hypot(loss - radius * torch.cos(angle), radius * torch.sin(angle))


def phi_slope(loss: Tensor, radius: Tensor, angle: Tensor) -> Tensor:
    """Return dΦ/dL; where a neighbour's loss is 0, the derivative from the right."""
    along = loss - radius * torch.cos(angle)
    side = phi(loss, radius, angle)
    return torch.where(side > 0, along / side, 1.0)


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

    def document(self) -> str:
        """Write the neighbours as JSON."""
        content = {
            "format": _NEIGHBOURS_FORMAT,
            "radius": self.radius.tolist(),
            "angle": self.angle.tolist(),
        }
        return json.dumps(content)

    def save(self, path: str | Path) -> None:
        """Write the neighbours to a small JSON file."""
        storage.replace(storage.target(Path(path)), self.document().encode())

    @staticmethod
    def load(path: str | Path) -> Neighbours:
        """Read neighbours from a file that `save` wrote."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document["format"] != _NEIGHBOURS_FORMAT:
                raise ValueError(f"its format is {document['format']!r}")
            radius, angle = (
                torch.tensor(document[k], dtype=torch.float64) for k in ("radius", "angle")
            )
            return Neighbours(radius, angle)
        except (ValueError, KeyError, TypeError, RuntimeError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:200]  # RecursionError is a RuntimeError
            raise ValueError(
                f"{path} is not a file of neighbours ({reason}); "
                "write one with polar.Neighbours(radius, angle).save(path)"
            ) from None


_NEIGHBOURS_FORMAT = "augless neighbours 1"
