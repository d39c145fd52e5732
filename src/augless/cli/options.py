"""Arguments and options that several verbs have."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Literal

import typer


def completing(module: str, table: str) -> Callable[[str], list[str]]:
    """Return what completes a name that a table, or a function, of a module lists."""

    def complete(incomplete: str) -> list[str]:
        listed = getattr(importlib.import_module(f"augless.{module}"), table)
        names = listed() if callable(listed) else listed
        return [name for name in names if name.startswith(incomplete)]

    return complete


def unknown(what: str, name: str, known: Collection[str], also: str = "it can be") -> Exception:
    """Return an error: there is nothing of a name; what it can be, and what was meant."""
    from augless import recipes

    hint = recipes.hint(name, known)
    return recipes.BadRecipe(f"there is no {what} {name!r}{hint}\n{also}: {', '.join(known)}")


_RECIPES = completing("recipes", "shipped")
Recipe = Annotated[
    str, typer.Argument(help="A shipped recipe's name, or a .toml file.", autocompletion=_RECIPES)
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What to change in it.")
]
Data = Annotated[Path, typer.Option(help="Where prepared corpora are kept.")]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Processes that prepare the corpus.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Threads of torch; the bits depend on it.")
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option(help="Where to compute; only cpu is tested."),
]
MaxMinutes = Annotated[float, typer.Option(min=0, help="Save and stop after so many minutes.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show all settings, defaults too.")]


def set_threads(threads: int | None) -> None:
    """Have torch use so many threads, if that was asked for."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
