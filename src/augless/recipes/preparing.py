"""The part of a recipe that decides the prepared corpus; read without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from augless import corpora, data
from augless.knobs import Among, Knobs
from augless.recipes import suggesting
from augless.recipes.reading import Resolved, read

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
    return read(Preparation, recipe, overrides, OTHERS, suggesting.suggestions)


def without_effect(resolved: Resolved[Any]) -> str:
    """Say what was asked for and does nothing, because tokens and vocabularies are taken."""
    codec, origins = resolved.recipe.text.codec, resolved.origins
    asked = [key for key, (_, by) in origins.items() if by == "command line"]
    idle = [key for key in asked if key.startswith(_OF_CODEC)]
    if codec is None or not idle:
        return ""
    return f"{', '.join(idle)}: without effect, as text.codec={codec} has its own"
