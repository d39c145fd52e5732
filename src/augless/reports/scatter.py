"""Points with intervals over a time axis, which is logarithmic where times lie far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from augless.reports import charts
from augless.reports.charts import Dot, Panel, Scale, Series, Shape

FAR = 4.0  # longest over shortest time from which the axis is logarithmic
TICKS = 6  # ticks of it
BESIDE = 5.0  # between points that would cover each other
_UNITS = ((3 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, kw_only=True)
class Point:
    """Something that took a while, and what it scored."""

    style: str
    """class that colours it"""
    name: str
    seconds: float
    score: float
    low: float | None
    """None, as `high`, where there is no interval"""
    high: float | None
    filled: bool
    """whether its difference is claimed"""
    said: str
    """in numbers, shown when pointed at"""


def points(
    found: Sequence[Point], *, title: str, description: str, y_name: str, level: float | None
) -> Panel:
    """Draw points with their intervals and their names at the right; `level` is drawn as a rule."""
    panel = Panel(title=title, description=description)
    found = sorted(found, key=lambda one: (one.seconds, one.name))
    longest = found[-1].seconds
    _, size, unit = next(one for one in _UNITS if longest >= one[0])
    times = [one.seconds / size for one in found]
    x, places, ticks = _across(times)
    series = [
        Series(
            style=one.style,
            name=one.name,
            x=[place],
            y=[one.score],
            low=[] if one.low is None else [one.low],
            high=[] if one.high is None else [one.high],
        )
        for one, place in zip(found, places, strict=True)
    ]
    y = charts.upright(series, None, level, y_name)
    charts.axes(panel, x, y, x_name=f"{unit} in all", y_name=y_name, x_ticks=ticks)
    charts.rule(panel, x, y, level)
    ends = charts.apart([x(place) for place in places], x.start, x.end, BESIDE)
    for one, at in zip(found, ends, strict=True):
        if one.low is not None and one.high is not None:
            line = charts.polyline([(at, y(one.low)), (at, y(one.high))])
            panel.shapes.append(Shape(style=f"interval {one.style}", path=line, title=one.said))
        kind = "claimed" if one.filled else "open"
        panel.dots.append(
            Dot(style=f"mean {kind} {one.style}", x=at, y=y(one.score), radius=4.5, title=one.said)
        )
    charts.named(panel, x, y, series, ends)
    return panel


def _across(times: Sequence[float]) -> tuple[Scale, list[float], list[tuple[float, str]]]:
    """Return a horizontal scale, where times lie on it, and its ticks."""
    start, end = charts.LEFT + 8, charts.WIDTH - charts.RIGHT
    first, last = times[0], times[-1]
    if first <= 0 or last / first < FAR:
        x = Scale(0.0, (last or 1.0) * 1.06, start, end)
        return x, list(times), [(value, charts.shown(value)) for value in x.ticks(4)]
    x = Scale(math.log10(first / 1.2), math.log10(last * 1.2), start, end)
    ticks = [(math.log10(value), charts.shown(value)) for value in decades(first / 1.2, last * 1.2)]
    return x, [math.log10(time) for time in times], ticks


def decades(low: float, high: float) -> list[float]:
    """Return a few round numbers between two that lie far apart: 1, 2, 5, 10, or powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        inside = [step * 10.0**power for power in powers for step in steps]
        inside = [value for value in inside if low <= value <= high]
        if len(inside) <= TICKS:
            return inside
    return inside[:: -(-len(inside) // TICKS)]
