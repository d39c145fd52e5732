"""Values and plans as TOML, as they are read back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from augless.trials.plans import Plan

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(values: Mapping[str, Any]) -> list[str]:
    """Write overrides as key=value, the value in TOML, as a command line has them."""
    return [f"{key}={literal(value)}" for key, value in values.items()]


def literal(value: Any) -> str:
    """Write a value in TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(k)} = {literal(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def shortened(values: Mapping[str, Any]) -> str:
    """Say which values are tried, each by the last part of its key if that tells it from others."""
    last = [key.rpartition(".")[2] for key in values]
    found = []
    for (key, value), name in zip(values.items(), last, strict=True):
        said = f"{value:.3g}" if isinstance(value, float) else str(value)
        found.append(f"{name if last.count(name) == 1 else key}={said}")
    return ", ".join(found)


def _quoted(key: str) -> str:
    return key if _BARE.fullmatch(key) else literal(key)


def as_toml(plan: Plan) -> str:
    """Write a plan, at the scale it has, so that it is read back as it is."""
    tables: dict[str, dict[str, Any]] = {
        "recipes": {k: {"recipe": b.recipe, **b.overrides} for k, b in plan.recipes.items()},
        "methods": {
            name: {
                "matches": method.matches,
                "kind": method.kind if method.matches else None,
                "series": method.series,
                "at": method.at,
                **method.overrides,
                **({"published": method.published} if method.published else {}),
            }
            for name, method in plan.methods.items()
        },
        "tune": {
            method: {k: v if isinstance(v, list) else vars(v) for k, v in space.items()}
            for method, space in plan.tune.items()
        },
        "published_only": plan.published_only,
    }
    rest = {knob.name: getattr(plan, knob.name) for knob in fields(plan) if knob.name not in tables}
    lines = [f"{key} = {literal(value)}" for key, value in rest.items() if value is not None]
    for key, table in tables.items():
        if table:
            lines += ["", f"[{key}]"]
            lines += [f"{_quoted(name)} = {literal(entry)}" for name, entry in table.items()]
    return "\n".join(lines) + "\n"
