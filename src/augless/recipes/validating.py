"""A model scored on the validation pairs while it is trained."""

from __future__ import annotations

import math
from collections.abc import Callable

from augless import data, decoding, metrics, models, training
from augless.recipes.recipe import Recipe

Validate = Callable[[models.Model], dict[str, float]]


def validation(recipe: Recipe, prepared: data.Prepared) -> Validate:
    """Return what scores a model on the validation pairs, never weighted.

    It gives loss per token, perplexity, and the score that chooses the best model.
    """
    metric = recipe.training.metric
    pairs = {split: prepared.pairs(split) for split in ("valid", *recipe.training.watch)}
    lines = {split: [prepared.lines(split, side) for side in data.SIDES] for split in pairs}

    def scores_of(model: models.Model, split: str) -> dict[str, float]:
        nats, tokens = training.nats(model, pairs[split])
        loss = float(nats.sum() / tokens.sum())
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of the {split} pairs is not finite")
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        if metrics.of_text(metric):
            writer = decoding.Writer(model, prepared.codecs, recipe.validation)
            sources, references = lines[split]
            scores[metric] = metrics.score(metric, writer.generate(sources), references).value
        elif metric not in scores:
            scores[metric] = metrics.score(metric, nats=nats, tokens=tokens).value
        return scores

    def validate(model: models.Model) -> dict[str, float]:
        try:
            scores = scores_of(model, "valid")
            watched = {s: scores_of(model, s)[metric] for s in recipe.training.watch}
        except FloatingPointError as error:  # finite parameters can be too large to compute with
            raise training.NotFinite(f"{error}; what the model computes is not finite") from None
        return scores | {f"{split} {metric}": score for split, score in watched.items()}

    return validate
