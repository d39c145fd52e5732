"""A model scored on the validation pairs while it is trained."""

from __future__ import annotations

import math
from collections.abc import Callable

from augless import data, decoding, metrics, models, training
from augless.recipes.recipe import Recipe

Validate = Callable[[models.Model], dict[str, float]]


def validation(recipe: Recipe, prepared: data.Prepared, split: str = "valid") -> Validate:
    """Return what scores a model on the validation pairs, or another split's, never weighted.

    It gives loss per token, perplexity, and the score that chooses the best model.
    """
    metric = recipe.training.metric
    pairs = prepared.pairs(split)
    sources, references = (prepared.lines(split, side) for side in data.SIDES)

    def validate(model: models.Model) -> dict[str, float]:
        nats, tokens = training.nats(model, pairs)
        loss = float(nats.sum() / tokens.sum())
        if not math.isfinite(loss):  # finite parameters can be too large to compute with
            raise FloatingPointError(f"the loss of the {split} pairs is not finite")
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        if metrics.of_text(metric):
            writer = decoding.Writer(model, prepared.codecs, recipe.validation)
            scores[metric] = metrics.score(metric, writer.best(sources), references).value
        elif metric not in scores:
            scores[metric] = metrics.score(metric, nats=nats, tokens=tokens).value
        return scores

    return validate
