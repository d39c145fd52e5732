"""Arguments and options that several verbs have."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer

from augless.knobs import AtLeast, Within

Verb = TypeVar("Verb", bound=Callable[..., None])


def verb(app: typer.Typer, name: str | None = None) -> Callable[[Verb], Verb]:
    """Make a function a verb of a command line; its parameters are described as knobs are::

        workers: Annotated[int, "Processes that prepare the corpus.", Within(1, 256)] = 1

    Those before the star are arguments, those after it options. A further string is a name if it
    has dashes, else what stands for a value in the help; what completes values may be given, and a
    dict of what else typer is told.
    """

    def add(function: Verb) -> Verb:
        hints = get_type_hints(function, include_extras=True)
        annotated: Any = Annotated
        for key, parameter in inspect.signature(function).parameters.items():
            kind, meaning, *more = get_args(hints[key])
            told: dict[str, Any] = {"help": meaning, "readable": False}  # what is wrong, verbs say
            for one in more:
                if isinstance(one, Within):
                    told |= {"min": one.low, "max": one.high}
                elif isinstance(one, AtLeast):
                    told |= {"min": one.bound}
                elif callable(one):
                    told |= {"autocompletion": one}
                elif not isinstance(one, str):
                    told |= one
                elif not one.startswith("-"):
                    told |= {"metavar": one}
            names = [one for one in more if isinstance(one, str) and one.startswith("-")]
            if kind is bool and not names:
                names = [f"--{key.replace('_', '-')}"]
            option = parameter.kind is parameter.KEYWORD_ONLY
            said = typer.Option(*names, **told) if option else typer.Argument(**told)
            function.__annotations__[key] = annotated[kind, said]
        app.command(name)(function)
        return function

    return add


def completing(module: str, table: str) -> Callable[[str], list[str]]:
    """Return what completes a name that a table, or a function, of a module lists."""

    def complete(incomplete: str) -> list[str]:
        listed = getattr(importlib.import_module(f"augless.{module}"), table)
        names = listed() if callable(listed) else listed
        return [name for name in names if name.startswith(incomplete)]

    return complete


def unknown(what: str, name: str, known: Collection[str]) -> Exception:
    """Return an error: there is nothing of a name; what it can be, and what was meant."""
    from augless import recipes

    hint = recipes.hint(name, known)
    return recipes.BadRecipe(f"there is no {what} {name!r}{hint}\nit can be: {', '.join(known)}")


_RECIPES = completing("recipes", "shipped")
Recipe = Annotated[str, "A shipped recipe's name, or a .toml file.", _RECIPES]
Overrides = Annotated[list[str] | None, "What to change in it.", "[KEY=VALUE]..."]
Data = Annotated[Path, "Where prepared corpora are kept."]
DATA = Path("data")
Workers = Annotated[int, "Processes that prepare the corpus.", Within(1, 256)]
Threads = Annotated[int | None, "Threads of torch; the bits depend on it.", Within(1, 1024)]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], "Where to compute; only cpu is tested."]
MaxMinutes = Annotated[float, "Save and stop after so many minutes.", AtLeast(0)]
Json = Annotated[bool, "Print the result as JSON.", "--json"]
Verbose = Annotated[bool, "Show all settings, defaults too.", "--verbose"]


def set_threads(threads: int | None) -> None:
    """Have torch use so many threads, if that was asked for."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
