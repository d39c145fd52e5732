"""Size and power of the tests of differences between methods, simulated.

A trial has six methods, seeds paired over them, and a test set of 1,000 sentences. Of one run the
score varies over seeds by 2 (BLEU), correlated 0.8 between methods of one seed, as in trials on
generated text. Compared are

    present    a difference of models by swaps of sentences (Holm) and every seed agreeing
    counting   `method_p`, which counts seeds in as if they were not paired (Holm)
    two-way    `metrics.difference`, alone as the primary contrast
    holm       the same, corrected over the five contrasts

printed as the share of simulated trials in which method `a` is claimed to be better than plain.
"""

import argparse
import statistics

import numpy as np
from scipy import stats

from augless import metrics

METHODS = ("plain", "a", "b", "c", "d", "e")
# Deviation of a difference of two models over test sets of 1,000 sentences, in BLEU.
SENTENCES = 0.5


def trial(generator, seeds, effect, deviation=2.0, correlation=0.8):
    """Draw scores, (methods, seeds), and the luck of sentences that all seeds share."""
    shared = generator.standard_normal((1, seeds)) * deviation * correlation**0.5
    own = generator.standard_normal((len(METHODS), seeds)) * deviation * (1 - correlation) ** 0.5
    luck = generator.standard_normal((len(METHODS), 1)) * SENTENCES / 2**0.5
    values = 30 + shared + own + luck
    values[1] += effect
    return metrics.Scores(METHODS, values)


def claims(scores, effect):
    """Say which of the tests claim that `a` is better."""
    seeds = scores.seeds
    rows = {name: scores.row(name) for name in METHODS}
    apart = {name: rows[name] - rows["plain"] for name in METHODS[1:]}
    order = list(apart)
    # A swap test over sentences comes near the normal law with the deviation of sentences.
    sentence_p = [2 * stats.norm.sf(abs(apart[n].mean()) / SENTENCES) for n in order]
    method_p = []
    for name in order:
        spread = sum(statistics.variance(rows[x].tolist()) for x in (name, "plain")) / seeds
        t = abs(apart[name].mean()) / (SENTENCES**2 + spread) ** 0.5
        method_p.append(2 * stats.t(2 * (seeds - 1)).sf(t))
    better = apart["a"].mean() > 0
    agree = bool((apart["a"] > 0).all())
    found = {
        name: metrics.difference(scores, name, "plain", sentence_variance=SENTENCES**2)
        for name in order
    }
    return {
        "present": agree and metrics.holm(sentence_p)[0] < 0.05,
        "counting": better and metrics.holm(method_p)[0] < 0.05,
        "two-way": better and found["a"].p < 0.05,
        "holm": better and metrics.corrected(found)["a"].corrected_p < 0.05,
        "covered": found["a"].low <= effect <= found["a"].high,
        "mde": found["a"].minimum_detectable_effect,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    columns = ("present", "counting", "two-way", "holm", "covered", "mde")
    print("seeds effect", *(f"{name:>9}" for name in columns))
    for seeds in (3, 5, 8, 10):
        for effect in (0.0, 1.0, 2.0, 3.0):
            generator = np.random.default_rng(seeds)
            found = []
            for _ in range(trials):
                found.append(claims(trial(generator, seeds, effect), effect))
            means = [np.mean([one[name] for one in found]) for name in columns]
            print(f"{seeds:5} {effect:6.1f}", *(f"{value:9.3f}" for value in means), flush=True)


if __name__ == "__main__":
    main()
