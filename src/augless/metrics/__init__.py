"""Scores with signatures, and their significance.

A metric is two functions with a table between them::

    outputs -> statistics (N, K), one row per sentence -> sum (K,) -> value

The sum is all that a metric's value depends on, so a corpus-level score such as BLEU is computed
again for ten thousand reshuffled test sets by one matrix product. `METRICS` lists the metrics that
recipes name. Perplexity is one of them: its rows are a run's nats and tokens instead of counts of
n-grams. The two `corpus-distinct` metrics are not sums over sentences; their table is one row, the
whole output, and intervals and tests refuse it.
"""

from augless.metrics.contrasts import (
    LEVEL,
    POWER,
    Difference,
    RandomEffects,
    Scores,
    compare,
    corrected,
    difference,
    mean_difference,
    model_fails,
    random_effects,
    seeds_needed,
    sentence_variance,
)
from augless.metrics.faults import (
    ADVICE,
    FEWEST,
    Degenerate,
    degenerate,
    near_zero,
    noise,
    unrelated,
)
from augless.metrics.scores import (
    METRICS,
    BadScores,
    Metric,
    Outputs,
    Perplexity,
    Score,
    bits_per_token,
    higher_is_better,
    made,
    of_text,
    perplexity,
    score,
    score_of,
)
from augless.metrics.significance import (
    PairedTest,
    approximate_randomisation,
    holm,
    interval,
    paired_bootstrap,
)

__all__ = [
    "ADVICE",
    "FEWEST",
    "LEVEL",
    "METRICS",
    "POWER",
    "BadScores",
    "Degenerate",
    "Difference",
    "Metric",
    "Outputs",
    "PairedTest",
    "Perplexity",
    "RandomEffects",
    "Score",
    "Scores",
    "approximate_randomisation",
    "bits_per_token",
    "compare",
    "corrected",
    "degenerate",
    "difference",
    "higher_is_better",
    "holm",
    "interval",
    "made",
    "mean_difference",
    "model_fails",
    "near_zero",
    "noise",
    "of_text",
    "paired_bootstrap",
    "perplexity",
    "random_effects",
    "score",
    "score_of",
    "seeds_needed",
    "sentence_variance",
    "unrelated",
]
