"""Size and power of the comparison of methods, simulated: the table of docs/statistics.md.

A trial has six methods with paired seeds on one or four corpora. A score is the mean over 1,000
sentences, so that a bootstrap over sentences is known in closed form:

    y_msi = seed_s + method_m + model_ms + g_mi + e_msi

Over seeds the score of one method varies by the run's deviation, 0.2, 0.4 or 2 BLEU, correlated 0.8
between methods of one seed. (In the second table, of trials like those of docs/results.md, it is
0.5, correlated 0.3, and the effect may vary between corpora.) What is left, own to a run, is half
`model` and half `e`, the luck of its outputs. g, how well a method suits this test set, makes a
difference vary by 0.1 BLEU.

Printed is how often method `a` is claimed to differ from plain, with

    effect 0       size: every claim is false
    effect 0.5     power, on every corpus; counted only in the right direction
    covered        how often the 95 % interval holds the true effect of 0.5
    MDE            minimum detectable effect, the mean over trials

by `primary`, the plan's primary contrast, the mean over corpora; `holm`, one of five other
contrasts; `random`, random effects over corpora; and `unanimous`, the rule that was there before,
on the first corpus: p over sentences, corrected, and every seed agrees.
"""

import argparse

import numpy as np
from scipy import stats

from augless import metrics

METHODS = ("plain", "a", "b", "c", "d", "e")
SENTENCES = 1000
SUITS = 0.1  # deviation of a difference over test sets that all seeds share, in BLEU
CORRELATION = 0.8
LIKE_RESULTS = [
    (0.3, corpora, seeds, apart)
    for corpora, seeds, apart in [
        (1, 4, 0.0),
        (1, 8, 0.0),
        (3, 4, 0.0),
        (3, 8, 0.0),
        (3, 8, 0.2),
        (3, 8, 0.4),
    ]
]
"""correlation, corpora, seeds, deviation of the effect between corpora"""
ALPHA = 0.05


def drawn(generator, seeds, deviation, effect, correlation):
    """Draw scores of one corpus, (M, S), and differences of sentences from plain, (M - 1, S, N)."""
    own = deviation * (1 - correlation) ** 0.5
    shared = generator.standard_normal((1, seeds, 1)) * deviation * correlation**0.5
    model = generator.standard_normal((len(METHODS), seeds, 1)) * own / 2**0.5
    suits = generator.standard_normal((len(METHODS), 1, SENTENCES), dtype=np.float32)
    luck = generator.standard_normal((len(METHODS), seeds, SENTENCES), dtype=np.float32)
    root = SENTENCES**0.5
    values = 30 + shared + model + suits * (SUITS / 2**0.5 * root) + luck * (own / 2**0.5 * root)
    values[1] += effect
    return values.mean(2), values[1:] - values[:1]


def bootstrap(apart):
    """Return the deviation of a difference over test sets, and its part that all seeds share."""
    pooled = apart.mean(0).var() / SENTENCES
    of_seeds = apart.var(0, ddof=1).mean() / SENTENCES
    return pooled**0.5, max(0.0, pooled - of_seeds / len(apart))


def on_one(generator, seeds, deviation, effect, correlation):
    """Compare on one corpus: differences from plain, and what the rule of before would claim."""
    values, apart = drawn(generator, seeds, deviation, effect, correlation)
    scores = metrics.Scores(METHODS, values.astype(np.float64))
    found, sentence_p = {}, []
    for name, one in zip(METHODS[1:], apart, strict=True):
        deviation, shared = bootstrap(one)
        found[name] = metrics.difference(scores, name, "plain", sentence_variance=shared)
        sentence_p.append(2 * stats.norm.sf(abs(found[name].estimate) / deviation))
    signs = {float(sign) for sign in np.sign(apart[0].mean(1))}
    return found, len(signs) == 1 and metrics.holm(sentence_p)[0] < ALPHA


def simulated(trials, corpora, seeds, deviation, effect, correlation=CORRELATION, between=0.0):
    """Return the share of trials with each outcome."""
    generator = np.random.default_rng([corpora, seeds, round(10 * deviation)])
    rows = []
    for _ in range(trials):
        effects = effect + (between * generator.standard_normal(corpora) if between else 0.0)
        effects = np.broadcast_to(effects, corpora)
        parts = [on_one(generator, seeds, deviation, one, correlation) for one in effects]
        found = {m: metrics.mean_difference([one[m] for one, _ in parts]) for m in METHODS[1:]}
        right = found["a"].estimate > 0 or effect == 0
        primary = found["a"]
        among, alike = metrics.corrected(found), primary
        if corpora > 1:
            alike = metrics.random_effects([one["a"] for one, _ in parts]).mean
        rows.append(
            {
                "primary": right and primary.p < ALPHA,
                "holm": right and among["a"].corrected_p < ALPHA,
                "random": right and alike.p < ALPHA,
                "unanimous": right and parts[0][1],
                "covered": primary.low <= effects.mean() <= primary.high,
                "mean covered": alike.low <= effect <= alike.high,
                "mde": primary.minimum_detectable_effect,
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    """Print the table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    names = ("primary", "holm", "random", "unanimous")
    head = ["corpora", "run SD", "seeds", *names, *names, "covered", "MDE"]
    print(f"| {' | '.join(head)} |\n|{'--:|' * len(head)}")
    for corpora in (1, 4):
        for deviation in (0.2, 0.4, 2.0):
            for seeds in (3, 5, 10):
                null, real = (
                    simulated(trials, corpora, seeds, deviation, effect) for effect in (0.0, 0.5)
                )
                shares = [f"{one[name]:.3f}" for one in (null, real) for name in names]
                ends = [f"{real['covered']:.3f}", f"{real['mde']:.2f}"]
                row = [str(corpora), f"{deviation:g}", str(seeds), *shares, *ends]
                print(f"| {' | '.join(row)} |", flush=True)
    names = ("primary", "random")
    head = ["corpora", "seeds", "effects differ by", *names, *names, "covered", "mean covered"]
    print(f"\n| {' | '.join([*head, 'MDE'])} |\n|{'--:|' * (len(head) + 1)}")
    for correlation, corpora, seeds, between in LIKE_RESULTS:
        null, real = (
            simulated(trials, corpora, seeds, 0.5, effect, correlation, between)
            for effect in (0.0, 0.5)
        )
        shares = [f"{one[name]:.3f}" for one in (null, real) for name in names]
        ends = [f"{real[name]:.3f}" for name in ("covered", "mean covered")]
        row = [str(corpora), str(seeds), f"{between:g}", *shares, *ends, f"{real['mde']:.2f}"]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
