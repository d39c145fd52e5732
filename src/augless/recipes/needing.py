"""The models that have to be trained before a recipe can augment: each is a recipe of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from augless import augmentation, training
from augless.augmentation import draws
from augless.recipes import suggesting
from augless.recipes.reading import BadRecipe, Resolved, flat, read, spread
from augless.recipes.recipe import Recipe

_REVERSE = 1  # makes another seed of a seed


def needs(resolved: Resolved[Recipe]) -> dict[str, Resolved[Recipe]]:
    """Return the recipes of the runs that must be done before pairs can be made for this one.

    By the names that the augmenter gives them. The reverse of a recipe has a seed that follows from
    it; any other recipe is what it says, and runs of all seeds share it.
    """
    augmenter = resolved.recipe.augment
    if augmenter is None:
        return {}
    return {
        name: reverse(resolved) if wanted is augmentation.REVERSE else _wanted(name, wanted)
        for name, wanted in augmenter.needs.items()
    }


def others(resolved: Resolved[Recipe]) -> dict[str, Resolved[Recipe]]:
    """Return what a recipe needs that does not follow from it, as its reverse does."""
    augmenter = resolved.recipe.augment
    said = {} if augmenter is None else augmenter.needs
    return {k: need for k, need in needs(resolved).items() if said[k] is not augmentation.REVERSE}


def check(resolved: Resolved[Recipe]) -> None:
    """Refuse an augmenter that cannot serve the corpus, or not with what it is to be trained."""
    recipe = resolved.recipe
    trained = {name: need.recipe.corpus.languages for name, need in needs(resolved).items()}
    if recipe.augment is not None:
        recipe.augment.check(recipe.corpus.languages, trained)


def _wanted(name: str, wanted: Mapping[str, Any]) -> Resolved[Recipe]:
    """Read the recipe that an augmenter names."""
    values = spread(wanted)
    recipe = values.pop("recipe")
    try:
        resolved = read(Recipe, recipe, values, (), suggesting.suggestions)
    except BadRecipe as error:
        raise BadRecipe(f"augment, {name}: {error}") from None
    if resolved.recipe.augment is not None:
        raise BadRecipe(f"augment, {name}: the recipe {recipe} augments; give one that does not")
    return resolved


def reverse(resolved: Resolved[Recipe]) -> Resolved[Recipe]:
    """Return the recipe of the reverse direction: sides swapped, weighted plainly, another seed.

    Model and training are as they are. The seed follows from the recipe's, so that runs with
    several seeds are independent of each other in all they need.
    """
    recipe = resolved.recipe
    plain = training.Term().weighting
    turned = dataclasses.replace(
        recipe,
        corpus=augmentation.Reversed.of(recipe.corpus),
        augment=None,
        text=dataclasses.replace(recipe.text, codec=None),  # which would have its sides swapped
        terms=tuple(dataclasses.replace(term, weighting=plain) for term in recipe.terms),
        training=dataclasses.replace(recipe.training, start=None),
        seed=draws.number((recipe.seed, _REVERSE)),
    )
    origins = {k: v for k, v in resolved.origins.items() if k.startswith("corpus.")}
    origins["corpus.name"] = (f"{resolved.values['corpus.name']} reversed", "reverse")
    for key, value in flat(turned):
        if not key.startswith("corpus."):
            was = resolved.origins.get(key)
            origins[key] = was if was and was[0] == value else (value, "reverse")
    return Resolved(f"{resolved.name}-reverse", turned, origins)
