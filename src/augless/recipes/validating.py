"""A model scored on the validation pairs while it is trained."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from augless import data, decoding, metrics, models, training

if TYPE_CHECKING:
    from augless.recipes.following import Recipe


class Validation:
    """Score a model on the validation pairs, never weighted."""

    def __init__(self, recipe: Recipe, prepared: data.Prepared) -> None:
        self.recipe, self.codecs = recipe, prepared.codecs
        splits = ("valid", *recipe.training.watch)
        self.pairs = {split: prepared.pairs(split) for split in splits}
        self.lines = {s: [prepared.lines(s, side) for side in data.SIDES] for s in splits}

    def __call__(self, model: models.Model) -> dict[str, float]:
        """Return loss per token, perplexity, and the score that chooses the best model."""
        metric = self.recipe.training.metric
        scores: dict[str, float] = {}
        try:
            for split in self.pairs:
                found = self._scores(model, split)
                scores |= found if split == "valid" else {f"{split} {metric}": found[metric]}
        except FloatingPointError as error:  # finite parameters can be too large to compute with
            raise training.NotFinite(f"{error}; what the model computes is not finite") from None
        return scores

    def _scores(self, model: models.Model, split: str) -> dict[str, float]:
        nats, tokens = training.nats(model, self.pairs[split])
        loss = float(nats.sum() / tokens.sum())
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of the {split} pairs is not finite")
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        if (metric := self.recipe.training.metric) not in scores:
            writer = decoding.Writer(model, self.codecs, self.recipe.validation)
            sources, references = self.lines[split]
            scores[metric] = metrics.score(metric, writer.generate(sources), references).value
        return scores
