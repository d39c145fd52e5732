"""Values as TOML and as words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(values: Mapping[str, Any]) -> list[str]:
    """Write overrides as key=value, the value in TOML, as a command line has them."""
    return [f"{key}={literal(value)}" for key, value in values.items()]


def literal(value: Any) -> str:
    """Write a value in TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{key_of(k)} = {literal(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def key_of(name: str) -> str:
    """Write a key in TOML."""
    return name if _BARE.fullmatch(name) else literal(name)


def shortened(values: Mapping[str, Any]) -> str:
    """Say which values are tried, each by the last part of its key if that tells it from others."""
    names = [key.rpartition(".")[2] for key in values]
    said = []
    for (key, value), name in zip(values.items(), names, strict=True):
        spelt = f"{value:.3g}" if isinstance(value, float) else str(value)
        said.append(f"{name if names.count(name) == 1 else key}={spelt}")
    return ", ".join(said)
