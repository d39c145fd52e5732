"""The part of a recipe that decides the prepared corpus; read without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from augless import corpora, data
from augless.knobs import Among, Knobs
from augless.recipes import suggesting
from augless.recipes.reading import BadRecipe, Resolved, read

OTHERS = ("augment", "model", "terms", "training", "validation", "search", "seed")
"""the other keys of a recipe, which stay unread"""
_OF_CODEC = ("text.tokeniser", "text.lowercase", "text.vocabulary", "text.joint")


@dataclass(frozen=True, kw_only=True)
class Preparation(Knobs):
    """The part of a recipe that decides the prepared corpus."""

    corpus: Annotated[corpora.Corpus, "which pairs", Among("corpora.CORPORA")]
    text: Annotated[data.Settings, "how text becomes ids"] = field(default_factory=data.Settings)


def preparation(recipe: str, overrides: Sequence[str] = ()) -> Resolved[Preparation]:
    """Read what a recipe says about its corpus, and leave the rest unread."""
    resolved = read(Preparation, recipe, overrides, OTHERS, suggesting.suggestions)
    check_codec(resolved)
    return resolved


def check_codec(resolved: Resolved[Any]) -> None:
    """Refuse to learn a vocabulary, or to cut words, in another way than a codec that is taken.

    What a recipe says of that is what it does without one.
    """
    if resolved.recipe.text.codec is None:
        return
    for key, (_, by) in resolved.origins.items():
        if by == "command line" and key.startswith(_OF_CODEC):
            codec = resolved.recipe.text.codec
            raise BadRecipe(
                f"{key}: tokens and vocabularies are those of text.codec={codec}\n"
                f"leave out either {key} or text.codec"
            )
