"""How far methods differ, had other seeds been drawn: a two-way model, intervals, corrections.

Runs are paired: the same seed gives every method the same first weights, order and dropout, and so
its luck. Per corpus the score of method m with seed s is

    y_ms = method_m + seed_s + e_ms,        e_ms of variance s^2,

and the luck that a seed gives to all methods cancels in a difference. With M methods, S seeds and a
test set that all of them share,

    var(D) = sentence part + 2 s^2 / S,     Student's t of (M - 1)(S - 1) degrees of freedom,

where s^2 is the residual variance of the model, known from *all* methods that were trained on the
same data: others, such as those with augmented data, meet other batches. The sentence part is the
luck of the test set that all seeds share, and that more seeds do not lessen. With a sentence's
difference written g_i + e_si as in `significance`, a bootstrap over sentences gives
(var g + var e / S) / N; the luck e of a seed's own outputs is in s^2 already, so var g / N alone is
counted (`sentence_variance`).

    law = compare({"plain": scores_of_plain, "law": scores_of_law, ...}, "plain")["law"]
    law.estimate, (law.low, law.high), law.p, law.minimum_detectable_effect

Several corpora: `mean_difference` averages over the corpora at hand, which is the primary contrast
of a plan; `random_effects` asks about corpora like these, and needs many to answer. Several
contrasts: `corrected`. Nothing asks that every seed agrees: such a rule gets blinder with every
seed. One seed says nothing about a method: what is compared then is two models, by sentences alone,
and `test` says so.

Where one contrast varies otherwise than the rest (an exact F test of the model), the paired t takes
over, of S - 1 degrees of freedom: always if the model would claim too much, and with 8 seeds or
more also if it would claim too little.

Size and power are simulated by `bench/power.py`; the table is in docs/statistics.md.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from augless.metrics.scores import BadScores
from augless.metrics.significance import (
    System,
    approximate_randomisation,
    holm,
    paired_bootstrap,
)

Floats = NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)
Tested = TypeVar("Tested", bound="Difference")
LEVEL = 0.05
"""p below which a difference is claimed"""
POWER = 0.8
"""of minimum detectable effects"""
# Choice: seeds from which on a paired t has enough degrees of freedom to be preferred where it
# would claim more than the model does.
ENOUGH_SEEDS = 8
# Choice: the level of the test of the model itself.
MODEL_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Scores:
    """What methods scored on one corpus, each with the same seeds."""

    methods: tuple[str, ...]
    values: Floats
    """(M, S), one row per method, one column per seed"""

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) != len(self.methods) or len(self.values) < 2:
            raise BadScores(f"{len(self.methods)} methods cannot be compared")
        if self.values.shape[1] < 2:
            raise BadScores("one seed says nothing about a method; train with at least two")
        if not np.isfinite(self.values).all():
            raise BadScores("a score that is not finite cannot be compared")

    @staticmethod
    def of(systems: Mapping[str, Sequence[float]]) -> Scores:
        """Gather scores by method, in the order of their seeds."""
        counts = {name: len(scores) for name, scores in systems.items()}
        if len(set(counts.values())) > 1:
            raise BadScores(f"methods have different numbers of seeds, {counts}")
        return Scores(tuple(systems), np.array([*systems.values()], dtype=np.float64))

    @property
    def seeds(self) -> int:
        """How many seeds every method was trained with."""
        return int(self.values.shape[1])

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the residual variance: (M - 1)(S - 1)."""
        return (len(self.methods) - 1) * (self.seeds - 1)

    @property
    def squares(self) -> float:
        """Sum of squared residuals of the two-way model."""
        rows, columns = self.values.mean(1, keepdims=True), self.values.mean(0, keepdims=True)
        return float(((self.values - rows - columns + self.values.mean()) ** 2).sum())

    @property
    def variance(self) -> float:
        """The residual variance s^2: how far two runs of different methods and one seed vary."""
        return self.squares / self.degrees

    def row(self, method: str) -> Floats:
        """Return the scores of a method, (S,)."""
        if method not in self.methods:
            raise BadScores(f"{method!r} is none of {', '.join(self.methods)}")
        return np.asarray(self.values[self.methods.index(method)])


@dataclass(frozen=True)
class Difference:
    """A method against another, with how sure that is."""

    estimate: float
    low: float
    high: float
    """ends of the confidence interval"""
    p: float
    """the chance of a difference as large in either direction if there were none"""
    corrected_p: float
    """p, corrected for the contrasts that it is one of; p itself until it is"""
    degrees: float
    """of freedom of Student's t"""
    deviation: float
    """standard error of the estimate"""
    minimum_detectable_effect: float
    """the smallest true difference that would be claimed with the power asked for"""
    test: Literal["two-way", "paired-t", "mean", "random-effects", "sentences"]
    """what the variance is of; "sentences" has one seed, and is of two models, not of methods"""
    sentence_variance: float = 0.0
    """the part of the variance that more seeds do not lessen"""

    @property
    def of_methods(self) -> bool:
        """Whether it is about methods; one seed is about two models."""
        return self.test != "sentences"

    @property
    def claimed(self) -> bool:
        """Whether a difference of the methods may be claimed."""
        return self.of_methods and self.corrected_p < LEVEL


def compare(
    systems: Mapping[str, System],
    baseline: str,
    *,
    apart: Collection[str] = (),
    alpha: float = LEVEL,
    power: float = POWER,
    resamples: int = 2000,
) -> dict[str, Difference]:
    """Compare each system with the baseline on one corpus, not corrected for their number.

    A system is the list of its scores, one per seed, in the same order of seeds. Systems `apart`
    were trained on other data, so that a seed gives them another luck: they do not count for how
    far the others vary.
    """
    if baseline not in systems:
        raise BadScores(f"the baseline {baseline!r} is none of {', '.join(systems)}")
    others = {name: system for name, system in systems.items() if name != baseline}
    theirs = systems[baseline]
    if len(theirs) == 1:
        return {
            name: _of_models(ours, theirs, alpha=alpha, power=power, resamples=resamples)
            for name, ours in others.items()
        }
    # Also refuses what does not compare.
    shared = {
        name: sentence_variance(one, theirs, resamples=resamples) for name, one in others.items()
    }
    values = {name: [score.value for score in system] for name, system in systems.items()}
    differences = {}
    for name, part in shared.items():
        among = {m: of for m, of in values.items() if m not in apart or m in (name, baseline)}
        differences[name] = difference(
            Scores.of(among), name, baseline, sentence_variance=part, alpha=alpha, power=power
        )
    return differences


def sentence_variance(a: System, b: System, *, resamples: int = 2000) -> float:
    """Return the variance of a difference over test sets that all seeds share, var g / N."""
    drawn = paired_bootstrap(a, b, resamples=resamples)
    return max(0.0, drawn.deviation**2 - drawn.between_seeds**2 / len(a))


def _of_models(a: System, b: System, *, alpha: float, power: float, resamples: int) -> Difference:
    """Compare two models by sentences: p by swaps, the interval by a bootstrap."""
    drawn = paired_bootstrap(a, b, resamples=resamples)
    degrees = max(1, len(a[0].statistics) - 1)
    variance = drawn.deviation**2
    judged = _judged(drawn.difference, variance, degrees, alpha=alpha, power=power)
    p = approximate_randomisation(a, b, resamples=resamples).p
    return replace(judged, p=p, corrected_p=p, test="sentences", sentence_variance=variance)


def difference(
    scores: Scores,
    method: str,
    baseline: str,
    *,
    sentence_variance: float = 0.0,
    alpha: float = LEVEL,
    power: float = POWER,
) -> Difference:
    """Compare a method with a baseline on one corpus (see the module)."""
    apart = scores.row(method) - scores.row(baseline)
    variance, own = 2 * scores.variance, float(apart.var(ddof=1))
    fails = model_fails(scores, method, baseline)
    paired = fails and (own > variance or scores.seeds >= ENOUGH_SEEDS)
    total = sentence_variance + (own if paired else variance) / scores.seeds
    degrees = scores.seeds - 1 if paired else scores.degrees
    judged = _judged(float(apart.mean()), total, degrees, alpha=alpha, power=power)
    test: Literal["paired-t", "two-way"] = "paired-t" if paired else "two-way"
    return replace(judged, test=test, sentence_variance=sentence_variance)


def model_fails(scores: Scores, method: str, baseline: str, level: float = MODEL_LEVEL) -> bool:
    """Test whether a contrast varies over seeds otherwise than the two-way model says.

    The contrast (a - b) / sqrt(2) is one of M - 1 orthogonal ones, each of variance s^2 and S - 1
    degrees of freedom under the model; its squares over those of the rest follow F exactly.
    """
    from scipy import special  # late: help must be fast

    rest = (len(scores.methods) - 2) * (scores.seeds - 1)
    if rest == 0:
        return False  # two methods: the model and the paired t are the same
    apart = scores.row(method) - scores.row(baseline)
    mine = float(((apart - apart.mean()) ** 2).sum() / 2)
    others = max(0.0, scores.squares - mine)
    if others == 0:
        return mine > 0
    ratio = (mine / (scores.seeds - 1)) / (others / rest)
    below = float(special.fdtr(scores.seeds - 1, rest, ratio))
    return min(below, 1 - below) < level / 2


def mean_difference(
    differences: Sequence[Difference], *, alpha: float = LEVEL, power: float = POWER
) -> Difference:
    """Average a contrast over corpora: the effect on just these, corpora counting alike.

    var = sum_c var_c / C^2, with Satterthwaite's degrees of freedom over the corpora.
    """
    if not differences:
        raise BadScores("there is no corpus to average over")
    variances = np.array([one.deviation**2 for one in differences])
    degrees = np.array([one.degrees for one in differences])
    spread = float((variances**2 / degrees).sum())
    freedom = float(variances.sum() ** 2 / spread) if spread else float(degrees.sum())
    estimate = float(np.mean([one.estimate for one in differences]))
    total = float(variances.sum()) / len(differences) ** 2
    judged = _judged(estimate, total, freedom, alpha=alpha, power=power)
    shared = sum(one.sentence_variance for one in differences) / len(differences) ** 2
    return replace(judged, test="mean", sentence_variance=shared)


@dataclass(frozen=True)
class RandomEffects:
    """A contrast over corpora that differ in their effect."""

    mean: Difference
    """the mean effect on corpora like these, by Hartung and Knapp's interval"""
    between: float
    """standard deviation of the true effect over corpora (tau)"""
    weights: tuple[float, ...]
    """how much each corpus counts; they sum to 1"""


def random_effects(
    differences: Sequence[Difference], *, alpha: float = LEVEL, power: float = POWER
) -> RandomEffects:
    """Pool a contrast over corpora by a meta-analysis with random effects.

    tau^2 by DerSimonian and Laird; the interval by Hartung and Knapp, whose t of C - 1 degrees of
    freedom holds its level with few corpora, and never narrower than the plain one.
    """
    if len(differences) < 2:
        raise BadScores("random effects need at least two corpora")
    effects = np.array([one.estimate for one in differences])
    variances = np.maximum([one.deviation**2 for one in differences], 1e-300)
    fixed = 1 / variances
    mean = float((fixed * effects).sum() / fixed.sum())
    heterogeneity = float((fixed * (effects - mean) ** 2).sum())
    scale = float(fixed.sum() - (fixed**2).sum() / fixed.sum())
    freedom = len(differences) - 1
    between = max(0.0, (heterogeneity - freedom) / scale)
    weights = 1 / (variances + between)
    mean = float((weights * effects).sum() / weights.sum())
    observed = float((weights * (effects - mean) ** 2).sum()) / freedom
    variance = max(1.0, observed) / float(weights.sum())
    judged = _judged(mean, variance, freedom, alpha=alpha, power=power)
    shares = tuple(float(weight) for weight in weights / weights.sum())
    return RandomEffects(replace(judged, test="random-effects"), math.sqrt(between), shares)


def corrected(
    differences: Mapping[Name, Tested],
    *,
    first: Sequence[Name] = (),
    alpha: float = LEVEL,
    power: float = POWER,
) -> dict[Name, Tested]:
    """Correct contrasts for their number; those of `first` in a fixed sequence.

    The first of the sequence is the primary contrast and needs no correction; each next may be
    claimed only if all before it are. The rest is a family of its own, corrected by Holm. So each
    of the two families claims a null no more often than the level; both together may claim it twice
    as often. Of the rest, the minimum detectable effect is that of Holm's first step.
    """
    for name in first:
        if name not in differences:
            known = ", ".join(map(str, differences))
            raise BadScores(f"{name!r} is none of the contrasts {known}")
    tests, highest = {}, 0.0
    for name in first:
        highest = max(highest, differences[name].p)
        tests[name] = replace(differences[name], corrected_p=highest)
    others = [name for name in differences if name not in first]
    p_values = holm([differences[name].p for name in others])
    for name, p in zip(others, p_values, strict=True):
        one = differences[name]
        effect = minimum_detectable_effect(one.deviation, one.degrees, alpha / len(others), power)
        tests[name] = replace(one, corrected_p=max(p, one.p), minimum_detectable_effect=effect)
    return {name: tests[name] for name in differences}


def seeds_needed(
    effect: float,
    variance: float,
    methods: int,
    *,
    sentence_variance: float = 0.0,
    alpha: float = LEVEL,
    power: float = POWER,
    most: int = 1000,
) -> int | None:
    """Return how many seeds show a true difference with the power asked for; None if none do.

    variance is s^2 of the two-way model, as the first few seeds gave it.
    """

    def seen(seeds: int) -> bool:
        deviation = math.sqrt(sentence_variance + 2 * variance / seeds)
        degrees = (methods - 1) * (seeds - 1)
        return minimum_detectable_effect(deviation, degrees, alpha, power) <= effect

    if not seen(most):
        return None
    # More seeds always see more.
    return bisect.bisect_left(range(2, most), True, key=seen) + 2


def _judged(
    estimate: float, variance: float, degrees: float, *, alpha: float, power: float
) -> Difference:
    """Conclude from an estimate and its variance, by Student's t."""
    from scipy import special

    deviation = math.sqrt(max(0.0, variance))
    reach = float(special.stdtrit(degrees, 1 - alpha / 2)) * deviation
    if deviation:
        p = float(2 * special.stdtr(degrees, -abs(estimate) / deviation))
    else:
        p = 1.0 if estimate == 0 else 0.0
    return Difference(
        estimate=estimate,
        low=estimate - reach,
        high=estimate + reach,
        p=p,
        corrected_p=p,
        degrees=degrees,
        deviation=deviation,
        minimum_detectable_effect=minimum_detectable_effect(deviation, degrees, alpha, power),
        test="two-way",
    )


def minimum_detectable_effect(
    deviation: float, degrees: float, alpha: float, power: float
) -> float:
    """Return the smallest true difference claimed with a power: bisection of the noncentral t."""
    from scipy import special

    threshold = float(special.stdtrit(degrees, 1 - alpha / 2))

    def shown(shift: float) -> float:
        return float(1 - special.nctdtr(degrees, shift, threshold))

    low, high = 0.0, 1.0
    while shown(high) < power:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) >= power else (middle, high)
    return high * deviation
