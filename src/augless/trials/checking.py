"""Keys and values of a plan, each checked; what is wrong is said with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from augless import recipes


class BadPlan(recipes.BadRecipe):
    """A plan that cannot be followed: which key, why, and what to write instead."""


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
    """Refuse a name that is none of those known."""
    if name not in known:
        these = ", ".join(known)
        raise BadPlan(f"{where} names {name!r}{recipes.hint(name, known)}\nthere is: {these}")


def table(where: str, value: Any) -> Mapping[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise BadPlan(f"{where} is {value!r}; it must be a table of keys")
    return value


def string(where: str, value: Any) -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise BadPlan(f"{where} is {value!r}; it must be a string")
    return value


def strings(where: str, value: Any) -> list[str]:
    """Return a list of strings."""
    if not isinstance(value, list):
        raise BadPlan(f"{where} is {value!r}; it must be a list of strings")
    return [string(where, one) for one in value]


def numbers(where: str, value: Any) -> list[int]:
    """Return whole numbers, 0 or more."""
    fine = isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value
    )
    if not fine:
        raise BadPlan(f"{where} is {value!r}; it must be whole numbers, 0 or more")
    return list(value)
