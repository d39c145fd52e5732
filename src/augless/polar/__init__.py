"""The paper: expected loss over unseen neighbours, and the weight it gives a sample.

A sample with loss L has neighbours at polar coordinates (r, θ), whose loss is Φ(L; r, θ). With
(r, θ) drawn from a frozen law P, minimising L + strength · E_P[Φ(L)] is minimising L with every
gradient multiplied by

    w(L) = 1 + strength · dE_P[Φ]/dL.

All curves here are functions of u = L / R alone, R being the law's radius, so one table per law
serves every radius. Derivations, errata and choices: docs/paper.md.
"""

from augless.polar.neighbours import Neighbours, phi
from augless.polar.objective import Objective
from augless.polar.weightings import (
    WEIGHTINGS,
    Constant,
    Empirical,
    Exponential,
    Focal,
    Law,
    Linear,
    Matched,
    Plain,
    Point,
    Uniform,
    Weighting,
)

__all__ = [
    "WEIGHTINGS",
    "Constant",
    "Empirical",
    "Exponential",
    "Focal",
    "Law",
    "Linear",
    "Matched",
    "Neighbours",
    "Objective",
    "Plain",
    "Point",
    "Uniform",
    "Weighting",
    "phi",
]
