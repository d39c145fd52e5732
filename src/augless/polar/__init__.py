"""The paper: expected loss over unseen neighbours, and the weight it gives a sample.

A sample with loss L has neighbours at polar coordinates (r, θ), whose loss is Φ(L; r, θ). With
(r, θ) drawn from a frozen law P, minimising L + strength · E_P[Φ(L)] is minimising L with every
gradient multiplied by

    w(L) = 1 + strength · dE_P[Φ]/dL.

All curves here are functions of u = L / R alone, R being the law's radius, so one table per law
serves every radius. Derivations, errata and choices: docs/paper.md.
"""

from typing import Any

from augless.knobs import Choices
from augless.polar.controls import Averaged, Control, Falling, Matched, Shuffled, Staged
from augless.polar.neighbours import Neighbours, phi
from augless.polar.objective import Objective
from augless.polar.weightings import (
    Constant,
    Empirical,
    Exponential,
    Focal,
    Law,
    Linear,
    Plain,
    Point,
    Uniform,
    Weighting,
)

# `Any`, so that a type checker lets every kind have knobs of its own.
WEIGHTINGS: dict[str, type[Any]] = Choices(
    {
        "plain": Plain,
        "constant": Constant,
        "matched": Matched,
        "averaged": Averaged,
        "shuffled": Shuffled,
        "linear": Linear,
        "uniform": Uniform,
        "exponential": Exponential,
        "point": Point,
        "empirical": Empirical,
        "falling": Falling,
        "staged": Staged,
        "focal": Focal,
    }
)

__all__ = [
    "WEIGHTINGS",
    "Averaged",
    "Constant",
    "Control",
    "Empirical",
    "Exponential",
    "Falling",
    "Focal",
    "Law",
    "Linear",
    "Matched",
    "Neighbours",
    "Objective",
    "Plain",
    "Point",
    "Shuffled",
    "Staged",
    "Uniform",
    "Weighting",
    "phi",
]
