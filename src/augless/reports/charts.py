"""Numbers to the geometry of a panel; chart.svg turns it into SVG, CSS into colours.

A panel is small (420 units wide), so that a phone shows one in a row and a desk two or three, at
nearly the same size of type. Colours are classes, not values: one drawing serves light and dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

WIDTH, HEIGHT = 420.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 112.0, 12.0, 40.0
LINE = 14.0  # of labels, from one baseline to the next
WORD = 16  # characters of a label beside a line
MINUS = "\N{MINUS SIGN}"


Form = Callable[[float], str]


@dataclass(frozen=True)
class Scale:
    """A linear map from numbers to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a number, at the edge if it lies beyond."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Return about `count` round numbers inside."""
        step = round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def round_step(step: float) -> float:
    """Return the number of the form 1, 2 or 5 times a power of ten that is next to a step."""
    if not step > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return power * next(k for k in (1, 2, 5, 10) if step <= k * power * (1 + 1e-9))


def rounded(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round numbers; give a point some room."""
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        room = abs(high) * 0.1 or 1.0
        low, high = low - room, high + room
    # Finer than ticks are, so that lines far from nought are not squeezed towards the top.
    step = round_step((high - low) / 10)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def shown(value: float) -> str:
    """Write a tick: 1,200,000 as 1.2M, and no zeros at the end."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            unit = 1e3 if letter == "k" else size
            return f"{value / unit:.3g}".replace("-", MINUS) + letter
    return f"{round(value, 10):.4g}".replace("-", MINUS)


def fixed(value: float, digits: int) -> str:
    """Write a number with some decimals; nothing has no sign."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(text: str) -> str:
    """Put a plus before a number that has no sign and is not nothing."""
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a panel: values at places, and how far seeds spread around them."""

    style: str
    """class that colours it, such as m3"""
    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dotted: bool = False
    """whether each point is a measurement of its own, and shown as a dot"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A path, with a class, and what it says when pointed at."""

    style: str
    path: str
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A circle."""

    style: str
    x: float
    y: float
    radius: float
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle."""

    style: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Label:
    """A word at a place."""

    x: float
    y: float
    text: str
    style: str = ""
    anchor: Literal["start", "middle", "end"] = "start"
    title: str = ""


@dataclass(kw_only=True)
class Panel:
    """All that is drawn in one small picture."""

    title: str
    """the heading above it"""
    description: str
    """what one sees, for those who do not"""
    width: float = WIDTH
    height: float = HEIGHT
    grid: list[Shape] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def percent(value: float) -> str:
    """Write a share as a tick."""
    return f"{100 * value:.3g}%"


def axes(
    panel: Panel,
    x: Scale,
    y: Scale,
    *,
    x_name: str,
    y_name: str,
    x_ticks: Sequence[tuple[float, str]],
    form: Form = shown,
) -> None:
    """Draw faint lines, numbers, and the names of both axes."""
    for value in y.ticks(4):
        line = polyline([(x.start, y(value)), (x.end, y(value))])
        panel.grid.append(Shape(style="grid", path=line))
        label = Label(x=x.start - 7, y=y(value) + 4, text=form(value), anchor="end")
        panel.labels.append(label)
    for value, text in x_ticks:
        panel.labels.append(Label(x=x(value), y=y.start + 16, text=text, anchor="middle"))
    floor = polyline([(x.start, y.start), (x.end, y.start)])
    panel.grid.append(Shape(style="axis", path=floor))
    middle = (x.start + x.end) / 2
    name = Label(x=middle, y=y.start + 33, text=x_name, style="name", anchor="middle")
    panel.labels.append(name)
    if y_name:
        panel.labels.append(Label(x=2, y=TOP - 3, text=y_name, style="name"))


def curves(
    series: Sequence[Series],
    *,
    title: str,
    description: str,
    x_name: str,
    y_name: str = "",
    x_low: float | None = None,
    x_form: Form = shown,
    y_form: Form = shown,
    level: float | None = None,
    least: tuple[float, float] | None = None,
) -> Panel:
    """Draw lines with bands around them and their names at their ends.

    `level` is drawn as a rule; `least` is a range that the vertical axis covers at any rate.
    """
    panel = Panel(title=title, description=description)
    places = [v for one in series for v in one.x]
    low = min(places) if x_low is None else x_low
    x = Scale(low, max(places), LEFT, WIDTH - RIGHT)
    y = upright(series, least, level, y_name)
    ticks = [(value, x_form(value)) for value in x.ticks(4)]
    axes(panel, x, y, x_name=x_name, y_name=y_name, x_ticks=ticks, form=y_form)
    rule(panel, x, y, level)
    for one in series:
        if one.low:
            upper = [(x(a), y(b)) for a, b in zip(one.x, one.high, strict=True)]
            lower = [(x(a), y(b)) for a, b in zip(one.x, one.low, strict=True)]
            band = polyline([*upper, *reversed(lower)]) + "Z"
            panel.shapes.append(Shape(style=f"band {one.style}", path=band))
    for one in series:
        points = [(x(a), y(b)) for a, b in zip(one.x, one.y, strict=True)]
        line = Shape(style=f"line {one.style}", path=polyline(points), title=one.name)
        panel.shapes.append(line)
        for at, value in zip(points, one.y, strict=True):
            if one.dotted or len(points) == 1:
                said = f"{one.name}: {value:.4g}"
                panel.dots.append(Dot(style=one.style, x=at[0], y=at[1], radius=3.2, title=said))
    named(panel, x, y, series, [x(one.x[-1]) for one in series])
    return panel


def steps(
    series: Sequence[Series],
    categories: Sequence[str],
    *,
    title: str,
    description: str,
    x_name: str,
    level: float | None = None,
) -> Panel:
    """Draw dots in categories, joined, each with the range over seeds; side by side."""
    panel = Panel(title=title, description=description)
    x = Scale(-0.5, len(categories) - 0.5, LEFT, WIDTH - RIGHT)
    y = upright(series, None, level, "")
    ticks = [(float(k), name) for k, name in enumerate(categories)]
    axes(panel, x, y, x_name=x_name, y_name="", x_ticks=ticks)
    rule(panel, x, y, level)
    beside = min(0.11, 0.7 / len(series))
    ends = []
    for k, one in enumerate(series):
        moved = [x(at + beside * (k - (len(series) - 1) / 2)) for at in one.x]
        points = [(at, y(value)) for at, value in zip(moved, one.y, strict=True)]
        ends.append(moved[-1])
        line = Shape(style=f"thin {one.style}", path=polyline(points), title=one.name)
        panel.shapes.append(line)
        for at, low, high in zip(moved, one.low, one.high, strict=False):
            reach = polyline([(at, y(low)), (at, y(high))])
            panel.shapes.append(Shape(style=f"reach {one.style}", path=reach))
        for (at, place), value in zip(points, one.y, strict=True):
            said = f"{one.name}: {value:.4g}"
            panel.dots.append(Dot(style=one.style, x=at, y=place, radius=3.2, title=said))
    named(panel, x, y, series, ends)
    return panel


def upright(
    series: Sequence[Series],
    least: tuple[float, float] | None,
    level: float | None,
    name: str,
) -> Scale:
    """Return a vertical scale that all lines and bands fit in."""
    ends = [v for one in series for v in (*one.y, *one.low, *one.high)]
    ends += [*(least or ()), *(() if level is None else (level,))]
    return Scale(*rounded(min(ends), max(ends)), HEIGHT - BOTTOM, TOP + (12 if name else 0))


def rule(panel: Panel, x: Scale, y: Scale, level: float | None) -> None:
    """Draw a line across at a level that means something, such as no difference."""
    if level is not None:
        line = polyline([(x.start, y(level)), (x.end, y(level))])
        panel.grid.append(Shape(style="rule", path=line))


def named(
    panel: Panel, x: Scale, y: Scale, series: Sequence[Series], ends: Sequence[float]
) -> None:
    """Write the names of lines beside their ends, apart, and lead the eye to them."""
    ordered = sorted(
        zip(series, ends, strict=True), key=lambda pair: (y(pair[0].y[-1]), pair[0].name)
    )
    places = apart([y(one.y[-1]) for one, _ in ordered], y.end, y.start)
    left = x.end + 14
    for (one, end), place in zip(ordered, places, strict=True):
        label = Label(
            x=left, y=place + 4, text=short(one.name), style=f"of {one.style}", title=one.name
        )
        panel.labels.append(label)
        at = y(one.y[-1])
        if abs(place - at) > 2 or end < x.end - 2:
            lead = polyline([(end + 3, at), (max(x.end + 2, end + 4), at), (left - 3, place)])
            panel.grid.append(Shape(style=f"lead {one.style}", path=lead))


def short(name: str) -> str:
    """Cut a name that would not fit beside a line."""
    return name if len(name) <= WORD else name[: WORD - 1].rstrip() + "…"


def apart(places: Sequence[float], top: float, bottom: float, gap: float = LINE) -> list[float]:
    """Move ascending places so that neighbours are a gap apart, and all within bounds."""
    gap = min(gap, (bottom - top) / max(len(places) - 1, 1))
    found = list(places)
    # Pairs that overlap are moved apart evenly, again and again: clusters stay where they are.
    for _ in range(60):
        for i, j in itertools.pairwise(range(len(found))):
            lack = gap - (found[j] - found[i])
            if lack > 0:
                found[i], found[j] = found[i] - lack / 2, found[j] + lack / 2
        found = [min(max(p, top + gap * i), bottom) for i, p in enumerate(found)]
    for i in range(len(found) - 2, -1, -1):
        found[i] = min(found[i], found[i + 1] - gap)
    return found


def histogram(
    counts: Sequence[float],
    curve: Sequence[float] | None,
    *,
    style: str,
    title: str,
    description: str,
    before: Sequence[float] = (),
) -> Panel:
    """Draw shares of samples in tenths of the mean loss, and the weight over it.

    The last count is of all that lies beyond. `before` is an earlier histogram, drawn as an
    outline; `curve` holds the weights at the left edges of the bins and at the end.
    """
    panel = Panel(title=title, description=description)
    beyond = len(counts) - 1
    shares, old = _shares(counts), _shares(before)
    x = Scale(0, len(counts) / 10, LEFT, WIDTH - LEFT)
    y = Scale(0, rounded(0, max([*shares, *old, 0.01]))[1], HEIGHT - BOTTOM, TOP + 12)
    ticks = [(float(k), str(k)) for k in range(beyond // 10)] + [(beyond / 10, f"{beyond // 10}+")]
    axes(
        panel,
        x,
        y,
        x_name="loss / mean loss",
        y_name="samples",
        x_ticks=ticks,
        form=percent,
    )
    for k, share in enumerate(shares):
        left, right, place = x(k / 10), x((k + 1) / 10), y(share)
        where = f"{k / 10:g} or more" if k == beyond else f"{k / 10:g} to {(k + 1) / 10:g}"
        bar = Bar(
            style="count",
            x=left + 0.5,
            y=place,
            width=right - left - 1,
            height=y.start - place,
            title=f"{100 * share:.1f}% of samples have a loss of {where} times the mean",
        )
        panel.bars.append(bar)
    if old:
        steps = [(x((k + side) / 10), y(share)) for k, share in enumerate(old) for side in (0, 1)]
        panel.shapes.append(
            Shape(style="before", path=polyline(steps), title="the first epoch"),
        )
    if curve is not None:
        _weight_curve(panel, curve, x, y, style)
    return panel


def _weight_curve(panel: Panel, curve: Sequence[float], x: Scale, y: Scale, style: str) -> None:
    """Draw weights with an axis of their own at the right."""
    low, high = rounded(min(1.0, *curve), max(1.0, *curve))
    if low == 1.0:  # keep a weight of one off the floor, where it would look like zero
        low = max(0.0, 1.0 - round_step((high - low) / 5))
    w = Scale(low, high, y.start, y.end)
    points = [(x(k / 10), w(weight)) for k, weight in enumerate(curve)]
    panel.shapes.append(Shape(style=f"line {style}", path=polyline(points), title="weight"))
    for value in w.ticks(4):
        panel.labels.append(
            Label(x=x.end + 7, y=w(value) + 4, text=shown(value), style=f"of {style}")
        )
    panel.labels.append(
        Label(x=WIDTH - 2, y=TOP - 3, text="weight", style=f"name of {style}", anchor="end")
    )


def _shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts] if total else []


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A difference to draw with its interval."""

    style: str
    name: str
    estimate: float
    low: float
    high: float
    mark: str
    """of a claim, as in the table"""
    said: str
    """in numbers, shown below the name"""
    seeds: Sequence[float] = ()
    """the difference of each seed"""
    pooled: bool = False
    """whether it sums up the rows above, and is drawn as a diamond"""


def forest(rows: Sequence[Effect], *, title: str, description: str, span: float) -> Panel:
    """Draw a row per effect: its interval as a line, seeds as dots, their mean on top."""
    pitch, top = 40.0, 6.0
    bottom = top + pitch * len(rows)
    panel = Panel(title=title, description=description, height=bottom + BOTTOM - 8)
    x = Scale(-span, span, 146, WIDTH - 18)
    for value in x.ticks(5):
        style = "rule" if abs(value) < 1e-12 else "grid"
        panel.grid.append(
            Shape(style=style, path=polyline([(x(value), top), (x(value), bottom)])),
        )
        panel.labels.append(
            Label(x=x(value), y=bottom + 16, text=signed(shown(value)), anchor="middle"),
        )
    for k, row in enumerate(rows):
        _effect(panel, row, x, top + pitch * (k + 0.5))
    return panel


def _effect(panel: Panel, row: Effect, x: Scale, y: float) -> None:
    said = f"{row.name}: {row.said}"
    low, high, mean = x(row.low), x(row.high), x(row.estimate)
    if row.pooled:
        ends = [(low, y), (mean, y - 7), (high, y), (mean, y + 7)]
        diamond = polyline(ends) + "Z"
        panel.shapes.append(Shape(style=f"pooled {row.style}", path=diamond, title=said))
    else:
        line = polyline([(low, y), (high, y)])
        panel.shapes.append(Shape(style=f"interval {row.style}", path=line, title=said))
        for value in row.seeds:
            told = signed(fixed(value, 2))
            dot = Dot(style=f"seed {row.style}", x=x(value), y=y, radius=3.2, title=told)
            panel.dots.append(dot)
        kind = "claimed" if row.mark else "open"
        panel.dots.append(
            Dot(style=f"mean {kind} {row.style}", x=mean, y=y, radius=5.5, title=said)
        )
    name = short(row.name) if row.mark else row.name[:20]
    title = "" if name == row.name else row.name
    text = f"{name} {row.mark}".rstrip()
    panel.labels += [
        Label(x=2, y=y - 1, text=text, style=f"of {row.style}", title=title),
        Label(x=2, y=y + 13, text=row.said, style="name"),
    ]
