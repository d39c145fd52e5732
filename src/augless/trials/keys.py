"""What a plan's file says, key by key: each value is checked, and a mistake says what to write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from augless import recipes

_DIGITS = re.compile("[0-9]{1,18}")  # Python reads no number of thousands of digits


class BadPlan(recipes.BadRecipe):
    """A plan that cannot be followed: which key, why, and what to write instead."""


def assign(content: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key of a plan; what is below overrides is a recipe's key, and stays dotted."""
    here, parts = content, dotted.split(".")
    depth = {"overrides": 1, "recipes": 2, "methods": 2, "tune": 2}.get(parts[0], 0)
    for part in parts[:depth]:
        inner = here.setdefault(part, {})
        if not isinstance(inner, dict):
            raise BadPlan(f"{dotted}: {part} is {inner!r}, not a table; write it out in a file")
        here = inner
    rest = ".".join(parts[depth:])
    if not rest:
        raise BadPlan(f"{dotted} is a table; set a key of it")
    for key in [k for k in here if k.startswith(f"{rest}.")]:
        del here[key]
    here[rest] = value


def strict(where: str, content: Any, known: Iterable[str]) -> None:
    """Refuse keys that there are not."""
    for key in table(where or "the plan", content):
        if key not in known:
            full = f"{where}.{key}" if where else key
            these = ", ".join(known)
            raise BadPlan(
                f"there is no key {full!r}{recipes.hint(key, known)}\nit can have: {these}"
            )


def known(where: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that there is not."""
    if name not in known:
        these = ", ".join(known)
        raise BadPlan(f"{where} names {name!r}{recipes.hint(name, known)}\nthere is: {these}")


def table(where: str, value: Any) -> Mapping[str, Any]:
    """Return a table, or say that it must be one."""
    if not isinstance(value, dict):
        raise BadPlan(f"{where} is {value!r}; it must be a table of keys")
    return value


def string(where: str, value: Any) -> str:
    """Return a string, or say that it must be one."""
    if not isinstance(value, str) or not value:
        raise BadPlan(f"{where} is {value!r}; it must be a string")
    return value


def strings(where: str, value: Any) -> list[str]:
    """Return a list of strings, or say that it must be one."""
    if not isinstance(value, list):
        raise BadPlan(f"{where} is {value!r}; it must be a list of strings")
    return [string(where, one) for one in value]


def numbers(where: str, value: Any) -> list[int]:
    """Return whole numbers that are not negative, or say that they must be."""
    if isinstance(value, int):  # seeds=1
        value = [value]
    elif isinstance(value, str):  # seeds=1,2
        value = [int(one) if _DIGITS.fullmatch(one) else one for one in value.split(",")]
    fine = isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value
    )
    if not fine:
        raise BadPlan(f"{where} is {value!r}; it must be whole numbers, 0 or more")
    return list(value)


def whole(where: str, value: Any) -> int:
    """Return a whole number that is not negative, or say that it must be."""
    return numbers(where, [value])[0]
