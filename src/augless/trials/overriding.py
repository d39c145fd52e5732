"""What a command line changes in the recipes of a plan, and in which order that counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from augless.recipes import reading
from augless.trials.facts import Values

_ALL = ""


class Changes:
    """What was said of all corpora, `overrides.KEY`, and of one, `recipes.LABEL.KEY`."""

    def __init__(self) -> None:
        self._said: dict[str, Values] = {}

    def add(self, dotted: str, value: Any) -> None:
        """Keep a change, if it is one of recipes."""
        first, *parts = dotted.split(".")
        if first not in ("overrides", "recipes"):
            return
        said = self._said.setdefault(_ALL if first == "overrides" else parts.pop(0), {})
        for key, one in reading.spread({".".join(parts): value}).items():
            said.pop(key, None)  # what is said last comes last
            said[key] = one

    def over(self, label: str, values: Mapping[str, Any]) -> Values:
        """Return what a plan says of a corpus, with the last word for what was said of all.

        Unless that was said of this corpus too. Nothing is added where they do not meet.
        """
        of_all, own = self._said.get(_ALL, {}), self._said.get(label, {})
        if not any(_within(a, b) or _within(b, a) for a in of_all for b in values):
            return dict(values)
        kept = {key: v for key, v in values.items() if not any(_within(key, k) for k in of_all)}
        return {**kept, **of_all, **own}


def _within(key: str, other: str) -> bool:
    return f"{key}.".startswith(f"{other}.")
