"""The verbs list and doctor."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

import typer

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import knobs

# The tables that list shows: kind -> module and name.
KINDS = {
    "text": ("data", "Settings"),
    "filters": ("data", "Filters"),
    "training": ("training", "Settings"),
    "terms": ("training", "Term"),
    "corpora": ("corpora", "CORPORA"),
    "vocabularies": ("text", "VOCABULARIES"),
    "models": ("models", "MODELS"),
    "losses": ("losses", "LOSSES"),
    "weightings": ("polar", "WEIGHTINGS"),
    "optimizers": ("training", "OPTIMIZERS"),
    "searches": ("decoding", "SEARCHES"),
    "metrics": ("metrics", "METRICS"),
    "augmenters": ("augmentation", "AUGMENTERS"),
}
# How the keys of those that are no choice are written in a recipe.
KEYS = {"text": "text", "filters": "text.filters", "training": "training", "terms": "terms.0"}
EXTRAS = {
    "augment": ("transformers",),
    "search": ("optuna",),
    "survey": ("starlette", "uvicorn"),
    "zstd": ("zstandard",),
    "tensorboard": ("tensorboard",),
}


def list_(
    kind: Annotated[
        str | None, typer.Argument(help=f"recipes, plans, {', '.join(KINDS)}; else all.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what can be chosen, with knobs, defaults and meanings.

    Examples:

      augless list

      augless list weightings

      augless list exponential
    """
    import importlib

    from augless import recipes, trials

    shipped = {"recipes": recipes.shipped, "plans": trials.shipped}
    kinds = [*shipped, *KINDS]
    found: dict[str, Any] = {}
    for one in [kind] if kind in kinds else kinds:
        if one in shipped:
            found[one] = shipped[one]()
            continue
        module, name = KINDS[one]
        table = getattr(importlib.import_module(f"augless.{module}"), name)
        entries = table if isinstance(table, dict) else {KEYS[one]: table}
        found[one] = {key: described(entry) for key, entry in entries.items()}
    if kind is not None and kind not in kinds:
        found = _named(kind, found)
    if as_json:
        print(terminal.as_json(found))
        return
    for one, entries in found.items():
        print(f"{one}:")
        if one in shipped:
            print("  " + "\n  ".join(entries))
            continue
        for name, entry in entries.items():
            print(f"  {name}: {entry['meaning']}")
            knobs = entry["knobs"].items()
            rows = [[f"    {k}", f"= {v['default']}", v["meaning"]] for k, v in knobs]
            if rows:
                print(terminal.table(rows, left=3))


def _named(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a name, of whatever kind they are."""
    from augless import recipes

    named = {
        kind: {name: entries[name]} if isinstance(entries, dict) else [name]
        for kind, entries in found.items()
        if name in entries
    }
    if not named:
        known = [*found, *(one for entries in found.values() for one in entries)]
        meant = recipes.hint(name, known)
        raise recipes.BadRecipe(
            f"there is no kind or choice {name!r}{meant}\nkinds are: {', '.join(found)}"
        )
    return named


def described(kind: type[Any]) -> dict[str, Any]:
    """Return what a component is and its knobs, from its own file."""
    from augless import knobs

    found = {}
    for name, knob in knobs.of(kind).items():
        limits = [knob.wanted] if _limited(knob) else []
        meaning = "; ".join([knob.meaning, *limits])
        found[name] = {"default": _default(knob), "meaning": meaning}
    return {"meaning": (kind.__doc__ or "").split("\n")[0], "knobs": found}


def _limited(knob: knobs.Knob) -> bool:
    """Tell whether a knob's limits say more than its default does."""
    names = knob.among is not None and knob.kind is str
    return bool(knob.limits) or get_origin(knob.kind) is Literal or names


def _default(knob: knobs.Knob) -> str:
    if knob.needed:
        return "(must be given)"
    value, factory = knob.field.default, knob.field.default_factory
    if factory is not dataclasses.MISSING:
        value = factory()
    if dataclasses.is_dataclass(value) and knob.among is not None:
        return next(name for name, kind in knob.among.choices.items() if kind is type(value))
    return "none" if value is None else str(value)


def doctor(as_json: options.Json = False) -> None:
    """Check versions, devices, threads, disk and extras.

    Example:

      augless doctor
    """
    facts, problems = examined()
    if as_json:
        print(terminal.as_json({"facts": facts, "problems": problems}))
        return
    print(terminal.table([[key, value] for key, value in facts.items()], left=2))
    for problem in problems:
        print(f"wrong: {problem}")
    print(f"wrong: {len(problems)}" if problems else "nothing is wrong")


def examined() -> tuple[dict[str, str], list[str]]:
    """Return what is here, and what is wrong."""
    import importlib.metadata
    import importlib.util

    problems = []
    facts = {"python": platform.python_version(), "system": platform.platform()}
    for name in ("augless", "torch", "numpy", "scipy", "tokenizers", "sacremoses", "sacrebleu"):
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = "missing"
            problems.append(f"{name} is not installed; install augless again with pip")
    for extra, needed in EXTRAS.items():
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        facts[f"extra {extra}"] = f"without {', '.join(missing)}" if missing else "there"
    if facts["torch"] != "missing":
        import torch

        from augless import training

        facts["devices"] = ", ".join(
            name
            for name, there in (
                ("cpu", True),
                ("cuda", torch.cuda.is_available()),
                ("mps", torch.backends.mps.is_available()),
            )
            if there
        )
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        facts["threads"] = f"{torch.get_num_threads()} of {cores} cores"
        if torch.get_num_threads() > (cores or 1):
            problems.append(
                f"torch uses {torch.get_num_threads()} threads on {cores} cores, which crawls; "
                "set OMP_NUM_THREADS or --threads"
            )
        try:
            training.check_precision("bfloat16", torch.device("cpu"))
            facts["bfloat16"] = "works"
        except ValueError:
            facts["bfloat16"] = "does not work here; float32 is the default"
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    facts["disk"] = f"{free:.1f} GB free"
    if free < 1:
        problems.append("less than 1 GB of disk is free here; checkpoints need room")
    if not os.access(Path.cwd(), os.W_OK):
        problems.append("this folder cannot be written to; give --out and --data elsewhere")
    if sys.version_info[:2] != (3, 11):
        facts["python"] += " (only 3.11 is tested)"
    return facts, problems
