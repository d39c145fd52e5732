"""A plan for somebody's own files, with what their size suggests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from augless import recipes
from augless.trials import spelling
from augless.trials.plans import KEYS, OWN, BadPlan, Plan, Space

_RATE = "training.optimizer.rate"
_RIVALS = {
    "masked-lm": ("augment.name", "masked-lm", "augment.w", [0.5, 1.0]),
    "back-translation": ("augment.name", "back-translation", "augment.w", [0.5, 1.0]),
    "word-edits": ("augment.name", "word-edits", "augment.w", [0.5, 1.0]),
    "r-drop": ("terms", [{}, {"loss": "r-drop"}], "terms.1.scale", [1.0, 5.0]),
}
"""method -> what it sets, and what is tuned besides the learning rate"""
_FACTORS = [0.75, 1.0]


def own(
    *,
    train: Iterable[str | Path],
    valid: Iterable[str | Path],
    test: Iterable[str | Path],
    languages: Iterable[str] = ("source", "target"),
    changes: Iterable[str] = (),
    quick: bool = False,
    rivals: bool = False,
) -> Plan:
    """Plan a trial on somebody's own files: two files (source, target) a split, or one of both.

    `changes` are key=value: what is no key of a plan is one of a recipe. `quick` plans a first
    answer: a sample of the pairs, a narrow model, two seeds. With `rivals`, what people would take
    instead is compared too: augmented data and R-Drop.
    """
    files = {"train": train, "valid": valid, "test": test}
    # Absolute, so that the plan can be followed from anywhere.
    corpus = {k: [str(Path(path).absolute()) for path in v] for k, v in files.items()}
    corpus["languages"] = [*languages]
    given = spelling.written({f"recipes.files.corpus.{k}": v for k, v in corpus.items()})
    if rivals:
        given += spelling.written(_rivals(quick))
    for change in changes:
        key, equals, _ = change.partition("=")
        theirs = bool(equals) and key.split(".")[0] not in KEYS
        given.append(f"overrides.{change}" if theirs else change)
    plan = Plan.load(OWN, given, small=quick)
    (label, base), *_ = plan.recipes.items()
    overrides = spelling.written(plan.overrides) + spelling.written(base.overrides)
    try:
        resolved = recipes.load(base.recipe, overrides)
        suggested, rate = resolved.suggested, resolved.values[_RATE]
    except recipes.BadRecipe as error:
        raise BadPlan(str(error)) from None
    # Written down, so that the plan means the same when the files have grown or are gone.
    whole = replace(base, overrides=base.overrides | suggested)
    spaces = {method: _rates(space, rate) for method, space in plan.tune.items()}
    return replace(plan, recipes=plan.recipes | {label: whole}, tune=spaces)


def _rivals(quick: bool) -> dict[str, Any]:
    """Return what people would take instead, tuned as hard as the weightings are."""
    changes: dict[str, Any] = {}
    for method, (key, value, knob, values) in _RIVALS.items():
        changes |= {f"methods.{method}.{key}": value, f"tune.{method}.{knob}": values}
        if not quick:
            changes[f"tune.{method}.{_RATE}"] = _FACTORS
    return changes


def _rates(space: Space, suggested: float) -> Space:
    """Return a space whose learning rates are given as multiples of the suggested one."""
    factors = space.get(_RATE)
    if not isinstance(factors, list):
        return space
    return space | {_RATE: [float(f"{one * suggested:.3g}") for one in factors]}
