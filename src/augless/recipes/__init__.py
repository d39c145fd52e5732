"""One typed recipe: every choice by name, checked before any work starts.

A recipe is TOML that says only what differs from the defaults. A choice (a corpus, a model) is a
name or a table with a name and knobs; the knobs are the fields of the component's dataclass, so a
component's own file is the only place where its knobs, defaults and meanings are written.
Precedence: defaults < what the size of somebody's own files suggests < recipe < key=value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from augless.recipes import suggesting
from augless.recipes.preparing import Preparation, preparation, without_effect
from augless.recipes.reading import BadRecipe, Resolved, hint, read, shipped

if TYPE_CHECKING:  # brings torch, which preparing does without
    from augless.recipes.recipe import Recipe

__all__ = [
    "BadRecipe",
    "Preparation",
    "Resolved",
    "hint",
    "load",
    "preparation",
    "shipped",
    "without_effect",
]


def load(recipe: str, overrides: Sequence[str] = ()) -> Resolved[Recipe]:
    """Read a recipe, a file or the name of a shipped one, and apply key=value overrides."""
    from augless.recipes.recipe import Recipe

    return read(Recipe, recipe, overrides, (), suggesting.suggestions)
