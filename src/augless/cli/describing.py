"""The verbs list and doctor."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.resources
import importlib.util
import itertools
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import knobs

# The tables that list shows: kind -> module and name.
KINDS = {
    "recipes": ("recipes", "shipped"),
    "plans": ("trials", "shipped"),
    "plan": ("trials", "Plan"),
    "method": ("trials", "Method"),
    "recipe": ("recipes.recipe", "Recipe"),
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
# How the keys of those that are no choice are written in a recipe or a plan.
KEYS = {name: name for name in ("plan", "recipe", "text", "training")} | {
    "filters": "text.filters",
    "method": "methods.NAME",
    "terms": "terms.0",
}
EXTRAS = {
    "augment": ("transformers",),
    "search": ("optuna",),
    "survey": ("starlette", "uvicorn"),
    "zstd": ("zstandard",),
    "tensorboard": ("tensorboard",),
}


def list_(
    kind: Annotated[str | None, f"{', '.join(KINDS)}; else all."] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Show what can be chosen, with knobs, defaults and meanings.

    Examples:

      augless list

      augless list weightings

      augless list exponential
    """
    from augless import recipes

    listed = {one: _entries(one) for one in ([kind] if kind in KINDS else KINDS)}
    if kind is not None and kind not in KINDS:
        named = {one: entries for one, entries in listed.items() if kind in entries}
        if not named:
            meant = recipes.hint(kind, [*listed, *itertools.chain(*listed.values())])
            raise recipes.BadRecipe(
                f"there is no kind or choice {kind!r}{meant}\nkinds are: {', '.join(listed)}"
            )
        listed = {one: {kind: entries[kind]} for one, entries in named.items()}
    terminal.result(
        as_json, listed, lambda: "\n".join(itertools.chain(*map(_said, listed.items())))
    )


def _entries(kind: str) -> dict[str, Any]:
    """Return what can be chosen of a kind, with its knobs; what is shipped has none."""
    module, name = KINDS[kind]
    table = getattr(importlib.import_module(f"augless.{module}"), name)
    if name == "shipped":
        return {key: {"meaning": _title(module, key), "knobs": {}} for key in table()}
    entries = table if isinstance(table, dict) else {KEYS[kind]: table}
    return {key: described(entry) for key, entry in entries.items()}


def _title(module: str, name: str) -> str:
    """Return the title of a shipped plan, or the first comment of a recipe."""
    file = importlib.resources.files(f"augless.{module}") / f"{name}.toml"
    content = file.read_text("utf-8")
    title: str = tomllib.loads(content).get("title") or content.split("\n")[0].removeprefix("# ")
    return title


def _said(listed: tuple[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a kind and what can be chosen of it."""
    kind, entries = listed
    yield f"{kind}:"
    for name, entry in entries.items():
        yield f"  {name}: {entry['meaning']}"
        knobs = entry["knobs"].items()
        if rows := [[f"    {k}", f"= {v['default']}", v["meaning"]] for k, v in knobs]:
            yield terminal.table(rows, left=3)


def described(kind: type[Any]) -> dict[str, Any]:
    """Return what a component is and its knobs, from its own file."""
    listed = {}
    for name, knob in _keys(kind):
        # Whether its limits say more than its default does.
        limited = bool(knob.limits or knob.names) or get_origin(knob.kind) is Literal
        meaning = f"{knob.meaning}; {knob.wanted}" if limited else knob.meaning
        listed[name] = {"default": _default(knob), "meaning": meaning}
    return {"meaning": (kind.__doc__ or "").split("\n")[0], "knobs": listed}


def _keys(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, knobs.Knob]]:
    """Yield the keys below a component; those of a table in it, unless that is listed apart."""
    from augless import knobs

    for name, knob in knobs.of(kind).items():
        if knob.meaning == name:  # keys of a recipe, written beside the others
            continue
        one = get_args(knob.kind)[0] if get_origin(knob.kind) is tuple else knob.kind
        if knob.among is not None or not dataclasses.is_dataclass(one):
            yield prefix + name, knob
        elif name not in KEYS:
            yield from _keys(knob.kind, f"{prefix}{name}.")


def _default(knob: knobs.Knob) -> str:
    if knob.needed:
        return "(must be given)"
    value, factory = knob.field.default, knob.field.default_factory
    if factory is not dataclasses.MISSING:
        value = factory()
    if dataclasses.is_dataclass(value) and knob.among is not None:
        return next(name for name, kind in knob.among.choices.items() if kind is type(value))
    return "none" if value is None else str(value)


def doctor(*, as_json: options.Json = False) -> None:
    """Check versions, devices, threads, disk and extras.

    Example:

      augless doctor
    """
    facts, problems = examined()
    table = terminal.table([[key, value] for key, value in facts.items()], left=2)
    wrong = [f"wrong: {problem}" for problem in (*problems, len(problems))]
    said = "\n".join([table, *(wrong if problems else ["nothing is wrong"])])
    terminal.result(as_json, {"facts": facts, "problems": problems}, lambda: said)


def examined() -> tuple[dict[str, str], list[str]]:
    """Return what is here, and what is wrong."""
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

        others = {"cuda": torch.cuda, "mps": torch.backends.mps}
        devices = [name for name, device in others.items() if device.is_available()]
        facts["devices"] = ", ".join(["cpu", *devices])
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
