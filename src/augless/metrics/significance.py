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

Choice: whoever compares many systems on many corpora looks for the best of them all, so both are
corrected over all of them. Of simulated trials without any difference (3 seeds, 5 systems, models
that differ by far more than the luck of sentences) this share claims one with `method_p` < 0.05:

    corpora    over all    per corpus    method_p not corrected
    1            0.03         0.03               0.12
    8            0.00         0.11               0.67
"""

import functools
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from augless.metrics import scores
from augless.metrics.scores import BadScores, Score

Floats = NDArray[np.float64]
System = Sequence[Score]
# Makes weights of sentences in the next trials: (generator, trials, N) -> (trials, N).
Weights = Callable[[np.random.Generator, int, int], Floats]

Group = TypeVar("Group", bound=Hashable)

# Choice: entries of a chunk of weights, 16 MB, whatever the number of trials and sentences.
CHUNK_ENTRIES = 2**21
# Draws behind the smallest detectable difference, which is then sure to within about 1 %.
DRAWS = 2**14


@dataclass(frozen=True)
class PairedTest:
    """What a test on two systems found."""

    difference: float
    """of the mean over seeds, a - b"""
    p: float
    """the chance of a difference as large in either direction if there were none"""
    deviation: float
    """the standard deviation of the difference over trials"""
    between_seeds: float
    """that of one seed's difference around the mean of seeds; 0 where a seed is alone"""


@dataclass(frozen=True)
class Comparison:
    """A system beside the baseline, in the terms of the evidence protocol."""

    difference: float
    """system - baseline, each the mean over seeds"""
    p: float
    """by approximate randomisation over sentences: for the models that were trained"""
    holm_p: float
    """the same, corrected for all comparisons of its family: systems times groups"""
    method_p: float | None
    """for the method, had other seeds been drawn; corrected likewise, None where a seed is alone"""
    every_seed_agrees: bool
    """whether the system is better with every seed, or worse with every seed"""
    smallest_detectable: float | None
    """the smallest true difference that would have been claimed with the given power, had sentences
    and seeds been drawn anew; None where none could. With one seed, about these models only"""
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
    null = metric.value(total_a - moved) - metric.value(total_b + moved)
    return _paired_test(metric.value(total_a), metric.value(total_b), null)


def paired_bootstrap(a: System, b: System, *, trials: int = 10_000, seed: int = 0) -> PairedTest:
    """Test a difference by drawing test sets of N sentences with replacement.

    Drawn differences are spread around D as D would be around 0 under the null:
    p = (1 + trials with |D* - D| >= |D|) / (1 + trials). Two-sided; sacreBLEU counts one tail of
    the same distribution, and so prints half of this.
    """
    metric, left, right = _tables(a, b)
    drawn = _weighted(np.concatenate([left, right]), _draws, trials, seed)
    drawn_a, drawn_b = np.split(metric.value(drawn), 2, axis=1)
    values = metric.value(left.sum(1)), metric.value(right.sum(1))
    return _paired_test(*values, drawn_a - drawn_b - (values[0] - values[1]))


def _paired_test(a: Floats, b: Floats, null: Floats) -> PairedTest:
    """Conclude from values, (S,) and (S,), and differences of seeds under the null, (trials, S)."""
    difference = float(a.mean() - b.mean())
    scale = float(np.abs(a).mean() + np.abs(b).mean())
    pooled = null.mean(1)
    # Rounding must not decide between equals; a value that overflowed (nan) counts as extreme.
    extreme = int((~(np.abs(pooled) < abs(difference) - 1e-12 * scale)).sum())
    between = math.sqrt(null.var(1, ddof=1).mean()) if len(a) > 1 else 0.0
    return PairedTest(difference, (1 + extreme) / (1 + len(null)), float(pooled.std()), between)


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


def _seed_variance(a: System, b: System) -> float:
    """Add the variances of both systems over seeds; 0 where a seed is alone."""
    if len(a) < 2:
        return 0.0
    return sum(statistics.variance(score.value for score in system) for system in (a, b))


def _method_p(test: PairedTest, a: System, b: System) -> float | None:
    """Test D against the spread of sentences and that of seeds together.

    var D = sigma^2 + (var_s a + var_s b) / S, with sigma from swaps of sentences; Student's t.
    """
    from scipy import special  # late: help must be fast

    seeds = len(a)
    if seeds < 2:
        return None
    variance = test.deviation**2 + _seed_variance(a, b) / seeds
    if variance == 0:
        return 1.0  # no sentence differs, so neither does the value
    # Choice: errs on the safe side. The degrees of freedom are those of the seeds alone, because
    # Satterthwaite's, in between, call up to 0.13 of nulls significant with so few seeds; what a
    # seed has in common in both systems is not taken off, because then half of them are left.
    freedom = 2 * (seeds - 1)
    return float(2 * special.stdtr(freedom, -abs(test.difference) / math.sqrt(variance)))


@functools.cache
def _luck(seeds: int) -> tuple[Floats, Floats]:
    """Draw D, and how far the lowest seed lies below the mean of seeds, each in deviations."""
    drawn = np.random.default_rng(0).standard_normal((DRAWS, 1 + seeds))
    return drawn[:, 0], drawn[:, 1:].mean(1) - drawn[:, 1:].min(1)


def _smallest_detectable(
    test: PairedTest, a: System, b: System, *, alpha: float, power: float, trials: int
) -> float | None:
    """Give the smallest true difference that is claimed with the given power, None if none is.

    Drawn anew, seed s would show d_s = delta + g + u_s: g is the luck of sentences that all seeds
    share, u_s its own luck, of variance v = var_s a + var_s b as in `_method_p`. A claim needs

        D = mean_s d_s > t sigma    and    min_s d_s > 0, that is, D > mean_s u_s - min_s u_s

    with sigma from swaps and Student's t of n - 1 degrees for n sentences that differ, which a
    randomisation test comes near. D varies by var g + v / S, and independently of how far the
    lowest u_s lies below their mean, so the delta that is needed can be drawn; the answer is its
    quantile. What a seed has in common in both systems is not taken off v, here as there: where
    there is much of it, the answer is too large. With one seed the second condition is void and v
    is unknown, so taken for that of sentences alone: the answer is about these models on other
    sentences.
    """
    from scipy import special  # late: help must be fast

    pairs = zip(a, b, strict=True)
    apart = [(one.statistics != other.statistics).any(1) for one, other in pairs]
    sentences = int(np.any(apart, axis=0).sum())
    # Of the 2^n ways to swap, at least this one and its mirror image give a D as large.
    least = (1 + trials * 2.0 ** (1 - sentences)) / (1 + trials)
    if least >= alpha:
        return None
    # The luck of a seed's sentences is part of v, and better known from swaps: v cannot be less.
    own = max(0.0, _seed_variance(a, b) - test.between_seeds**2)
    luck, below = _luck(len(a))
    threshold = special.stdtrit(sentences - 1, 1 - alpha / 2) * test.deviation
    lowest = math.sqrt(own + test.between_seeds**2) * below
    deviation = math.sqrt(test.deviation**2 + own / len(a))
    size = float(np.quantile(np.maximum(threshold, lowest) - deviation * luck, power))
    # Also where a value overflowed: no comparison holds for nan.
    return size if 0 < size <= a[0].metric.largest else None


def compare(
    systems: Mapping[str, System],
    baseline: str,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    trials: int = 10_000,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare each system with the baseline by the evidence protocol, Holm over systems."""
    groups = {"": systems}
    found = compare_groups(groups, baseline, alpha=alpha, power=power, trials=trials, seed=seed)
    return found[""]


def compare_groups(
    groups: Mapping[Group, Mapping[str, System]],
    baseline: str,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    trials: int = 10_000,
    seed: int = 0,
) -> dict[Group, dict[str, Comparison]]:
    """Compare systems with the baseline of their group; Holm over all systems of all groups.

    A group is what was scored on the same sentences, such as a corpus: name -> system, the baseline
    among them. All comparisons are one family: `holm_p` and `method_p` are corrected for their
    number, so that whoever looks at them all finds a difference where there is none no more often
    than the level. A system's p does not depend on which others are listed, because each test
    starts from the seed. Its smallest detectable difference is that of Holm's first and strictest
    step, alpha / comparisons.
    """
    pairs: dict[tuple[Group, str], tuple[System, System]] = {}
    for group, systems in groups.items():
        if baseline not in systems:
            raise BadScores(f"the baseline {baseline!r} is none of {', '.join(systems)}")
        others = {name: system for name, system in systems.items() if name != baseline}
        pairs |= {(group, name): (one, systems[baseline]) for name, one in others.items()}
    tests = {
        key: approximate_randomisation(*pair, trials=trials, seed=seed)
        for key, pair in pairs.items()
    }
    holm_p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    raw = {key: _method_p(test, *pairs[key]) for key, test in tests.items()}
    known = {key: p for key, p in raw.items() if p is not None}
    method_p = dict(zip(known, holm([*known.values()]), strict=True))
    found: dict[Group, dict[str, Comparison]] = {group: {} for group in groups}
    for key, test in tests.items():
        (group, name), pair = key, pairs[key]
        signs = {float(np.sign(one.value - other.value)) for one, other in zip(*pair, strict=True)}
        agrees = len(signs) == 1 and 0.0 not in signs
        found[group][name] = Comparison(
            difference=test.difference,
            p=test.p,
            holm_p=holm_p[key],
            method_p=method_p.get(key),
            every_seed_agrees=agrees,
            smallest_detectable=_smallest_detectable(
                test, *pair, alpha=alpha / len(tests), power=power, trials=trials
            ),
            significant=holm_p[key] < alpha and agrees,
        )
    return found
