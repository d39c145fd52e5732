"""How sure a score, or a difference between systems, is.

A system is the list of its scores, one per seed, all on the same N sentences. The difference of two
systems is that of their means over seeds,

    D = mean_s value(sum_i a_si) - mean_s value(sum_i b_si)

Choice: the unit of chance is the sentence with the outputs of *all* seeds. A resample swaps (or
draws) a sentence for every seed at once, never seed by seed. Under the null, what is exchangeable
at sentence i is the vector of a's outputs over seeds with that of b's: a method that happens to
suit some sentences and not others suits them under every seed. Write a sentence's difference as
g_i + e_si. The variance of D over test sets is (var g + var e / S) / N, which is what swaps of
whole sentences produce; swaps seed by seed produce (var g + var e) / (S N), up to S times too
little. With var g = 0 both are right, so nothing is lost. Of 2,000 simulated nulls (3 seeds, 200
sentences) this share has p <= 0.05:

    var g : var e    whole sentences    seed by seed
    0 : 1                  0.052            0.053
    1 : 1                  0.051            0.150
    1 : 0.09               0.051            0.231

What such a test speaks of is the models that were trained. That other seeds might have given better
or worse models is no part of it: `contrasts` counts that in.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless.metrics import scores
from augless.metrics.scores import BadScores, Score

Floats = NDArray[np.float64]
System = Sequence[Score]
# Makes weights of sentences in the next ones: (generator, resamples, N) -> (resamples, N).
Weights = Callable[[np.random.Generator, int, int], Floats]

# Choice: entries of a chunk of weights, 16 MB, whatever the number of resamples and sentences.
CHUNK_ENTRIES = 2**21


@dataclass(frozen=True)
class PairedTest:
    """What a test on two systems found."""

    difference: float
    """of the mean over seeds, a - b"""
    p: float
    """the chance of a difference as large in either direction if there were none"""
    deviation: float
    """the standard deviation of the difference over resamples"""
    between_seeds: float
    """that of one seed's difference around the mean of seeds; 0 where a seed is alone"""


def _swaps(generator: np.random.Generator, resamples: int, sentences: int) -> Floats:
    bits = np.frombuffer(generator.bytes(resamples * -(-sentences // 8)), dtype=np.uint8)
    return np.unpackbits(bits.reshape(resamples, -1), axis=1, count=sentences).astype(np.float64)


def _draws(generator: np.random.Generator, resamples: int, sentences: int) -> Floats:
    drawn = generator.integers(sentences, size=(resamples, sentences))
    drawn += np.arange(0, resamples * sentences, sentences)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * sentences)
    return counts.reshape(resamples, sentences).astype(np.float64)


def _weighted(table: Floats, weights: Weights, resamples: int, seed: int) -> Floats:
    """Sum statistics under the weights of each resample, (S, N, K) -> (resamples, S, K)."""
    if resamples < 1:
        raise BadScores(f"{resamples} resamples are none")
    generator = np.random.default_rng(seed)
    seeds, sentences, kinds = table.shape
    columns = table.transpose(1, 0, 2).reshape(sentences, seeds * kinds)
    step = max(1, CHUNK_ENTRIES // sentences)
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    sums = [weights(generator, size, sentences) @ columns for size in sizes]
    return np.concatenate(sums).reshape(resamples, seeds, kinds)


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
    a: System, b: System, *, resamples: int = 10_000, seed: int = 0
) -> PairedTest:
    """Test a difference by swapping the outputs of sentences between two systems.

    Each resample swaps each sentence with probability 1/2, for all seeds at once (see the module).
    p = (1 + resamples with |D*| >= |D|) / (1 + resamples), which is exact for any number of them.
    """
    metric, left, right = _tables(a, b)
    total_a, total_b = left.sum(1), right.sum(1)
    moved = _weighted(left - right, _swaps, resamples, seed)
    null = metric.value(total_a - moved) - metric.value(total_b + moved)
    return _paired_test(metric.value(total_a), metric.value(total_b), null)


def paired_bootstrap(a: System, b: System, *, resamples: int = 10_000, seed: int = 0) -> PairedTest:
    """Test a difference by drawing test sets of N sentences with replacement.

    Drawn differences are spread around D as D would be around 0 under the null:
    p = (1 + resamples with |D* - D| >= |D|) / (1 + resamples). Two-sided; sacreBLEU counts one tail
    of the same distribution, and so prints half of this.
    """
    metric, left, right = _tables(a, b)
    drawn = _weighted(np.concatenate([left, right]), _draws, resamples, seed)
    drawn_a, drawn_b = np.split(metric.value(drawn), 2, axis=1)
    values = metric.value(left.sum(1)), metric.value(right.sum(1))
    return _paired_test(*values, drawn_a - drawn_b - (values[0] - values[1]))


def _paired_test(a: Floats, b: Floats, null: Floats) -> PairedTest:
    """Conclude from values, (S,) and (S,), and differences under the null, (resamples, S)."""
    difference = float(a.mean() - b.mean())
    scale = float(np.abs(a).mean() + np.abs(b).mean())
    pooled = null.mean(1)
    # Rounding must not decide between equals; a value that overflowed (nan) counts as extreme.
    extreme = int((~(np.abs(pooled) < abs(difference) - 1e-12 * scale)).sum())
    between = math.sqrt(null.var(1, ddof=1).mean()) if len(a) > 1 else 0.0
    return PairedTest(difference, (1 + extreme) / (1 + len(null)), float(pooled.std()), between)


def interval(
    score: Score, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Give the interval that a score falls in on other test sets, by percentile bootstrap."""
    table = _table([score])
    values = score.metric.value(_weighted(table, _draws, resamples, seed))[:, 0]
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
