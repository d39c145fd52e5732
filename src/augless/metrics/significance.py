"""How sure a score, or a difference between systems, is.

A system is the list of its scores, one per seed, all on the same N sentences. The difference of two
systems is that of their means over seeds,

    D = mean_s value(sum_i a_si) - mean_s value(sum_i b_si)

Choice: the unit of chance is the sentence with the outputs of *all* seeds. A trial swaps (or draws)
a sentence for every seed at once, never seed by seed. Under the null, what is exchangeable at
sentence i is the vector of a's outputs over seeds with that of b's: a method that happens to suit
some sentences and not others suits them under every seed. Write a sentence's difference as
g_i + e_si. The variance of D over test sets is (var g + var e / S) / N, which is what swaps of
whole sentences produce; swaps seed by seed produce (var g + var e) / (S N), up to S times too
little. With var g = 0 both are right, so nothing is lost. Of 2,000 simulated nulls (3 seeds, 200
sentences) this share has p <= 0.05:

    var g : var e    whole sentences    seed by seed
    0 : 1                  0.052            0.053
    1 : 1                  0.051            0.150
    1 : 0.09               0.051            0.231

What such a test speaks of is the models that were trained. That other seeds might have given better
or worse models is no part of it. The protocol's guard is that every seed must agree, but three
agree by luck one time in four: where the seeds' part of the deviation of D is 0, 0.7 and 2.1 times
that of sentences, a null is claimed in 0.050, 0.094 and 0.217 of simulated comparisons.
`Comparison.method_p` counts seeds in, on the safe side: 0.002, 0.004 and 0.022 of the same have
`method_p` <= 0.05.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless.metrics import scores
from augless.metrics.scores import BadScores, Score

Floats = NDArray[np.float64]
System = Sequence[Score]
# Makes weights of sentences in the next trials: (generator, trials, N) -> (trials, N).
Weights = Callable[[np.random.Generator, int, int], Floats]

# Choice: entries of a chunk of weights, 16 MB, whatever the number of trials and sentences.
CHUNK_ENTRIES = 2**21


@dataclass(frozen=True)
class PairedTest:
    """What a test on two systems found."""

    difference: float
    """of the mean over seeds, a - b"""
    p: float
    """the chance of a difference as large in either direction if there were none"""
    deviation: float
    """the standard deviation of the difference over trials"""


@dataclass(frozen=True)
class Comparison:
    """A system beside the baseline, in the terms of the evidence protocol."""

    difference: float
    """system - baseline, each the mean over seeds"""
    p: float
    """by approximate randomisation over sentences: for the models that were trained"""
    holm_p: float
    """the same, corrected for the number of systems"""
    method_p: float | None
    """for the method, had other seeds been drawn; not corrected, None where a seed is alone"""
    every_seed_agrees: bool
    """whether the system is better with every seed, or worse with every seed"""
    smallest_detectable: float
    """the size of difference that the test would have found, corrected, with the given power"""
    significant: bool
    """whether it may be claimed: `holm_p` below the level, and every seed agrees"""


def _swaps(generator: np.random.Generator, trials: int, sentences: int) -> Floats:
    bits = np.frombuffer(generator.bytes(trials * -(-sentences // 8)), dtype=np.uint8)
    return np.unpackbits(bits.reshape(trials, -1), axis=1, count=sentences).astype(np.float64)


def _draws(generator: np.random.Generator, trials: int, sentences: int) -> Floats:
    drawn = generator.integers(sentences, size=(trials, sentences))
    drawn += np.arange(0, trials * sentences, sentences)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=trials * sentences)
    return counts.reshape(trials, sentences).astype(np.float64)


def _weighted(table: Floats, weights: Weights, trials: int, seed: int) -> Floats:
    """Sum statistics under the weights of each trial, (S, N, K) -> (trials, S, K)."""
    if trials < 1:
        raise BadScores(f"{trials} trials are none")
    generator = np.random.default_rng(seed)
    seeds, sentences, kinds = table.shape
    columns = table.transpose(1, 0, 2).reshape(sentences, seeds * kinds)
    step = max(1, CHUNK_ENTRIES // sentences)
    sizes = [min(step, trials - start) for start in range(0, trials, step)]
    sums = [weights(generator, size, sentences) @ columns for size in sizes]
    return np.concatenate(sums).reshape(trials, seeds, kinds)


def _table(system: System) -> Floats:
    """Stack the statistics of scores that compare with one another, -> (S, N, K)."""
    if not system:
        raise BadScores("there are no scores to compare")
    first = system[0]
    for score in system:
        if not score.metric.additive:
            raise BadScores(f"{score.name} is no sum over sentences: it has no interval or test")
        if (score.metric, score.signature) != (first.metric, first.signature):
            one, other = (f"{s.name} ({s.signature})" for s in (first, score))
            raise BadScores(f"{one} does not compare with {other}")
        if len(score.statistics) != len(first.statistics):
            counts = f"{len(first.statistics)} sentences and {len(score.statistics)}"
            raise BadScores(f"the systems were scored on {counts}, which cannot be paired")
        if not math.isfinite(score.value):
            raise BadScores(f"a {score.name} of {score.value} cannot be compared")
    return np.stack([score.statistics for score in system])


def _tables(a: System, b: System) -> tuple[scores.Metric, Floats, Floats]:
    if len(a) != len(b):
        raise BadScores(f"the systems have {len(a)} seeds and {len(b)}, which cannot be paired")
    left, right = np.split(_table([*a, *b]), 2)
    return a[0].metric, left, right


def approximate_randomisation(
    a: System, b: System, *, trials: int = 10_000, seed: int = 0
) -> PairedTest:
    """Test a difference by swapping the outputs of sentences between two systems.

    Each trial swaps each sentence with probability 1/2, for all seeds at once (see the module).
    p = (1 + trials with |D*| >= |D|) / (1 + trials), which is exact for any number of trials.
    """
    metric, left, right = _tables(a, b)
    total_a, total_b = left.sum(1), right.sum(1)
    moved = _weighted(left - right, _swaps, trials, seed)
    trial = (metric.value(total_a - moved) - metric.value(total_b + moved)).mean(1)
    values = metric.value(total_a), metric.value(total_b)
    return _paired_test(*values, trial, trial)


def paired_bootstrap(a: System, b: System, *, trials: int = 10_000, seed: int = 0) -> PairedTest:
    """Test a difference by drawing test sets of N sentences with replacement.

    Drawn differences are spread around D as D would be around 0 under the null:
    p = (1 + trials with |D* - D| >= |D|) / (1 + trials). Two-sided; sacreBLEU counts one tail of
    the same distribution, and so prints half of this.
    """
    metric, left, right = _tables(a, b)
    drawn = _weighted(np.concatenate([left, right]), _draws, trials, seed)
    drawn_a, drawn_b = np.split(metric.value(drawn), 2, axis=1)
    trial = drawn_a.mean(1) - drawn_b.mean(1)
    values = metric.value(left.sum(1)), metric.value(right.sum(1))
    return _paired_test(*values, trial, trial - (values[0].mean() - values[1].mean()))


def _paired_test(a: Floats, b: Floats, trial: Floats, null: Floats) -> PairedTest:
    """Conclude from values (S,), (S,), differences of trials and those centred at 0."""
    difference = float(a.mean() - b.mean())
    scale = float(np.abs(a).mean() + np.abs(b).mean())
    # Rounding must not decide between equals; a value that overflowed (nan) counts as extreme.
    extreme = int((~(np.abs(null) < abs(difference) - 1e-12 * scale)).sum())
    return PairedTest(difference, (1 + extreme) / (1 + len(null)), float(trial.std()))


def interval(
    score: Score, *, confidence: float = 0.95, trials: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Give the interval that a score falls in on other test sets, by percentile bootstrap."""
    table = _table([score])
    values = score.metric.value(_weighted(table, _draws, trials, seed))[:, 0]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's step-down, in the order given.

    The k-th smallest of m is multiplied by m - k + 1, and never falls below one before it.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]


def smallest_detectable(
    a: System,
    b: System,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    trials: int = 10_000,
    seed: int = 0,
) -> float:
    """Give the size of difference that approximate randomisation finds with the given power.

    (z_{1 - alpha/2} + z_power) sigma, where sigma is the deviation of D under random swaps.
    """
    test = approximate_randomisation(a, b, trials=trials, seed=seed)
    return _detectable(test.deviation, power, alpha)


def _detectable(deviation: float, power: float, alpha: float) -> float:
    z = statistics.NormalDist().inv_cdf
    return (z(1 - alpha / 2) + z(power)) * deviation


def _method_p(test: PairedTest, a: System, b: System) -> float | None:
    """Test D against the spread of sentences and that of seeds together.

    var D = sigma^2 + (var_s a + var_s b) / S, with sigma from swaps of sentences; Student's t.
    """
    from scipy import special  # late: help must be fast

    seeds = len(a)
    if seeds < 2:
        return None
    spread = sum(statistics.variance(score.value for score in system) for system in (a, b))
    variance = test.deviation**2 + spread / seeds
    if variance == 0:
        return 1.0  # no sentence differs, so neither does the value
    # Choice: errs on the safe side. The degrees of freedom are those of the seeds alone, because
    # Satterthwaite's, in between, call up to 0.13 of nulls significant with so few seeds; what a
    # seed has in common in both systems is not taken off, because then half of them are left.
    freedom = 2 * (seeds - 1)
    return float(2 * special.stdtr(freedom, -abs(test.difference) / math.sqrt(variance)))


def compare(
    systems: Mapping[str, System],
    baseline: str,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    trials: int = 10_000,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare each system with the baseline by the evidence protocol, Holm over systems.

    A system's p does not depend on which others are listed, because each test starts from the seed.
    Its smallest detectable difference is that of Holm's first and strictest step, alpha / systems.
    """
    if baseline not in systems:
        raise BadScores(f"the baseline {baseline!r} is none of {', '.join(systems)}")
    plain = systems[baseline]
    names = [name for name in systems if name != baseline]
    tests = {
        name: approximate_randomisation(systems[name], plain, trials=trials, seed=seed)
        for name in names
    }
    corrected = holm([test.p for test in tests.values()])
    comparisons = {}
    for name, holm_p in zip(names, corrected, strict=True):
        test, pairs = tests[name], zip(systems[name], plain, strict=True)
        signs = {float(np.sign(score.value - other.value)) for score, other in pairs}
        agrees = len(signs) == 1 and 0.0 not in signs
        comparisons[name] = Comparison(
            difference=test.difference,
            p=test.p,
            holm_p=holm_p,
            method_p=_method_p(test, systems[name], plain),
            every_seed_agrees=agrees,
            smallest_detectable=_detectable(test.deviation, power, alpha / len(names)),
            significant=holm_p < alpha and agrees,
        )
    return comparisons
