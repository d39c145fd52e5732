"""Numbers, times and lists as one writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from augless import metrics, trials

MINUS = "\N{MINUS SIGN}"


def fixed(value: float | None, digits: int) -> str:
    """Write a number with some decimals: nothing has no sign, and none is not written."""
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float, digits: int) -> str:
    """Write a number with its sign, plus too, unless it is nothing."""
    text = fixed(value, digits)
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def interval(low: float, high: float, digits: int) -> str:
    """Write the ends of an interval."""
    return f"{signed(low, digits)} to {signed(high, digits)}"


def probability(contrast: trials.Contrast) -> str:
    """Write a contrast's p-value, which is corrected unless the contrast is the primary one.

    A value that is not the level is not rounded to it.
    """
    name, p = "p" if contrast.primary else "corrected p", contrast.corrected_p
    if p < 0.001 or p >= 0.1:
        return f"{name} < 0.001" if p < 0.001 else f"{name} = {p:.2f}"
    digits = 1
    while float(text := f"{p:.{digits}g}") == metrics.LEVEL != p:
        digits += 1
    return f"{name} = {text}"


def tick(value: float) -> str:
    """Write a number on an axis: 1,200,000 as 1.2M, and no zeros at the end."""
    for size, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= size:
            return f"{value / unit:.3g}{letter}".replace("-", MINUS)
    return f"{round(value, 10):.4g}".replace("-", MINUS)


def percent(value: float) -> str:
    """Write a share on an axis."""
    return f"{100 * value:.3g}%"


def value(value: Any) -> str:
    """Write a value of a recipe."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def counted(count: float, word: str) -> str:
    """Write a number of things, which are several unless it is one."""
    shown = f"{count:,.0f}"
    return f"{shown} {word}" if shown == "1" else f"{shown} {word}s"


def duration(seconds: float) -> str:
    """Say how long something takes, as well as that can be known."""
    if seconds < 90:
        return counted(max(1, round(seconds)), "second")
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def short_duration(seconds: float) -> str:
    """Write a time in short."""
    if seconds < 180:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"


def joined(parts: Sequence[str]) -> str:
    """Return a list as one reads it out."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
