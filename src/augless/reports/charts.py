"""Numbers to the geometry of a panel; chart.svg turns it into SVG, CSS into colours.

A panel is small (420 units wide), so that a phone shows one in a row and a desk two or three, at
nearly the same size of type. Colours are classes, not values: one drawing serves light and dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from augless.reports.words import percent, signed, tick

if TYPE_CHECKING:
    from augless import metrics

WIDTH, HEIGHT = 420.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 112.0, 12.0, 40.0
LINE = 14.0  # of labels, from one baseline to the next
WORD = 16  # characters of a label beside a line
Form = Callable[[float], str]
Ticks = Sequence[tuple[float, str]]
Shown = Literal["line", "dotted", "steps", "point"]
"""a line with a band; that, with a dot for each measurement; dots in categories, joined, with bars;
a dot with a bar"""


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
    # Finer than ticks are, so that lines far from 0 are not squeezed towards the top.
    step = round_step((high - low) / 10)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


@dataclass(frozen=True)
class Shape:
    """A path, with a class, and what it says when pointed at."""

    style: str
    path: str
    title: str = ""


@dataclass(frozen=True)
class Dot:
    """A circle."""

    style: str
    x: float
    y: float
    radius: float = 3.2
    title: str = ""


@dataclass(frozen=True)
class Bar:
    """A rectangle."""

    style: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""


@dataclass(frozen=True)
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

    def axes(self, x: Scale, y: Scale, names: tuple[str, str], ticks: Ticks, form: Form) -> None:
        """Draw faint lines, numbers, and the names of both axes."""
        for value in y.ticks(4):
            self.across(x, y(value), "grid")
            self.labels.append(Label(x.start - 7, y(value) + 4, form(value), anchor="end"))
        for value, text in ticks:
            self.labels.append(Label(x(value), y.start + 16, text, anchor="middle"))
        self.across(x, y.start, "axis")
        middle = (x.start + x.end) / 2
        self.labels.append(Label(middle, y.start + 33, names[0], "name", "middle"))
        if names[1]:
            self.labels.append(Label(2, TOP - 3, names[1], "name"))

    def across(self, x: Scale, place: float, style: str) -> None:
        """Draw a line from the left to the right."""
        self.grid.append(Shape(style, polyline([(x.start, place), (x.end, place)])))


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
    form: Shown = "line"
    claimed: bool = False
    """of a point: whether its difference may be claimed"""
    said: str = ""
    """of a point: in numbers, shown when it is pointed at"""

    def described(self, places: Ticks) -> str:
        """Say it in numbers: the end of a line, every value of what is measured at few places."""
        if self.form == "line":
            return f"{self.name} {self.y[-1]:.4g} at the end"
        names = dict(places)
        values = zip(self.x, self.y, strict=True)
        listed = (f"{y:.4g} at {names.get(round(x), f'{x:g}')}" for x, y in values)
        return self.said or f"{self.name} {', '.join(listed)}"


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """Return a path through points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def plot(
    series: Sequence[Series],
    *,
    title: str,
    x_name: str,
    y_name: str = "",
    x: Scale | None = None,
    x_low: float | None = None,
    ticks: Ticks = (),
    x_form: Form = tick,
    y_form: Form = tick,
    cover: Sequence[float] = (),
    level: float | None = None,
) -> Panel:
    """Draw lines or points, with how far they spread and their names at the right.

    The horizontal axis `x` and its `ticks` follow from the values unless they are given. The
    vertical one covers `cover` at any rate; `level` is drawn as a rule across.
    """
    numbers = "; ".join(one.described(ticks) for one in series)
    panel = Panel(title=title, description=f"{title} ({x_name}): {numbers}.")
    places = [value for one in series for value in one.x]
    low = min(places) if x_low is None else x_low
    x = x or Scale(low, max(places), LEFT, WIDTH - RIGHT)
    ends = [value for one in series for value in (*one.y, *one.low, *one.high)]
    ends += [*cover, *([] if level is None else [level])]
    y = Scale(*rounded(min(ends), max(ends)), HEIGHT - BOTTOM, TOP + (12 if y_name else 0))
    ticks = ticks or [(value, x_form(value)) for value in x.ticks(4)]
    panel.axes(x, y, (x_name, y_name), ticks, y_form)
    if level is not None:
        panel.across(x, y(level), "rule")
    for one in series:
        if one.low and one.form in ("line", "dotted"):
            upper = zip(map(x, one.x), map(y, one.high), strict=True)
            lower = zip(map(x, one.x), map(y, one.low), strict=True)
            band = polyline([*upper, *reversed([*lower])]) + "Z"
            panel.shapes.append(Shape(f"band {one.style}", band))
    for one in series:
        _draw(panel, one, x, y)
    _name(panel, series, x, y)
    return panel


def _draw(panel: Panel, one: Series, x: Scale, y: Scale) -> None:
    """Draw a line, its bars and its dots."""
    points = [*zip(map(x, one.x), map(y, one.y), strict=True)]
    if one.form != "point":
        stroke = "thin" if one.form == "steps" else "line"
        panel.shapes.append(Shape(f"{stroke} {one.style}", polyline(points), one.name))
    if one.form in ("steps", "point"):
        bar = "reach" if one.form == "steps" else "interval"
        for (at, _), low, high in zip(points, one.low, one.high, strict=False):
            path = polyline([(at, y(low)), (at, y(high))])
            panel.shapes.append(Shape(f"{bar} {one.style}", path, one.said))
    if one.form == "point":
        kind = "claimed" if one.claimed else "open"
        panel.dots.append(Dot(f"mean {kind} {one.style}", *points[0], 4.5, one.said))
    elif one.form != "line" or len(points) == 1:
        for point, value in zip(points, one.y, strict=True):
            panel.dots.append(Dot(one.style, *point, title=f"{one.name}: {value:.4g}"))


def _name(panel: Panel, series: Sequence[Series], x: Scale, y: Scale) -> None:
    """Write the names of lines beside their ends, apart, and lead the eye to them."""
    ordered = sorted(series, key=lambda one: (y(one.y[-1]), one.name))
    places = apart([y(one.y[-1]) for one in ordered], y.end, y.start)
    left = x.end + 14
    for one, place in zip(ordered, places, strict=True):
        name = Label(left, place + 4, short(one.name), f"of {one.style}", title=one.name)
        panel.labels.append(name)
        end, at = x(one.x[-1]), y(one.y[-1])
        if abs(place - at) > 2 or end < x.end - 2:
            lead = polyline([(end + 3, at), (max(x.end + 2, end + 4), at), (left - 3, place)])
            panel.grid.append(Shape(f"lead {one.style}", lead))


def short(name: str, most: int = WORD) -> str:
    """Cut a name that would not fit beside a line."""
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def apart(places: Sequence[float], top: float, bottom: float, gap: float = LINE) -> list[float]:
    """Move ascending places so that neighbours are a gap apart, and all within bounds."""
    gap = min(gap, (bottom - top) / max(len(places) - 1, 1))
    moved = list(places)
    # Pairs that overlap are moved apart evenly, again and again: clusters stay where they are.
    for _ in range(60):
        for i, j in itertools.pairwise(range(len(moved))):
            lack = gap - (moved[j] - moved[i])
            if lack > 0:
                moved[i], moved[j] = moved[i] - lack / 2, moved[j] + lack / 2
        moved = [min(max(p, top + gap * i), bottom) for i, p in enumerate(moved)]
    for i in range(len(moved) - 2, -1, -1):
        moved[i] = min(moved[i], moved[i + 1] - gap)
    return moved


def histogram(
    counts: Sequence[float],
    before: Sequence[float],
    curve: Sequence[float] | None,
    *,
    style: str,
    title: str,
    description: str,
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
    panel.axes(x, y, ("loss / mean loss", "samples"), ticks, percent)
    for k, share in enumerate(shares):
        left, right, place = x(k / 10), x((k + 1) / 10), y(share)
        where = f"{k / 10:g} or more" if k == beyond else f"{k / 10:g} to {(k + 1) / 10:g}"
        said = f"{100 * share:.1f}% of samples have a loss of {where} times the mean"
        bar = Bar("count", left + 0.5, place, right - left - 1, y.start - place, said)
        panel.bars.append(bar)
    if old:
        outline = [(x((k + side) / 10), y(share)) for k, share in enumerate(old) for side in (0, 1)]
        panel.shapes.append(Shape("before", polyline(outline), "the first epoch"))
    if curve is not None:
        _weights(panel, curve, x, y, style)
    return panel


def _weights(panel: Panel, curve: Sequence[float], x: Scale, y: Scale, style: str) -> None:
    """Draw weights with an axis of their own at the right."""
    low, high = rounded(min(1.0, *curve), max(1.0, *curve))
    if low == 1.0:  # keep a weight of one off the floor, where it would look like zero
        low = max(0.0, 1.0 - round_step((high - low) / 5))
    scale = Scale(low, high, y.start, y.end)
    points = [(x(k / 10), scale(weight)) for k, weight in enumerate(curve)]
    panel.shapes.append(Shape(f"line {style}", polyline(points), "weight"))
    for value in scale.ticks(4):
        panel.labels.append(Label(x.end + 7, scale(value) + 4, tick(value), f"of {style}"))
    panel.labels.append(Label(WIDTH - 2, TOP - 3, "weight", f"name of {style}", "end"))


def _shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts] if total else []


@dataclass(frozen=True)
class Effect:
    """A difference to draw with its interval."""

    style: str
    name: str
    test: metrics.Difference
    mark: str
    """of a claim, as in the table"""
    seeds: Sequence[float] | None = None
    """the difference of each seed; None of what sums up the rows above, drawn as a diamond"""

    @property
    def numbers(self) -> tuple[float, float, float]:
        """What is drawn: the lower end, the mean and the upper end."""
        return self.test.low, self.test.estimate, self.test.high

    @property
    def said(self) -> str:
        """In numbers, shown below the name."""
        digits = 2 if max(map(abs, self.numbers)) >= 0.1 else 3
        low, middle, high = (signed(value, digits) for value in self.numbers)
        return f"{middle} ({low} to {high})"


def span(effects: Sequence[Effect]) -> float:
    """Return how far an axis reaches to both sides of 0."""
    ends = [abs(value) for one in effects for value in (*one.numbers, *(one.seeds or ()))]
    return rounded(0.0, max(ends, default=1.0) * 1.04)[1]


def forest(effects: Sequence[Effect], title: str, span: float) -> Panel:
    """Draw a row per effect: its interval as a line, seeds as dots, their mean on top."""
    pitch, top = 40.0, 6.0
    bottom = top + pitch * len(effects)
    said = "; ".join(f"{one.name} {one.said} {one.mark}".rstrip() for one in effects)
    panel = Panel(title=title, description=f"{title}: {said}.", height=bottom + BOTTOM - 8)
    x = Scale(-span, span, 146, WIDTH - 18)
    for value in x.ticks(5):
        style = "rule" if abs(value) < 1e-12 else "grid"
        panel.grid.append(Shape(style, polyline([(x(value), top), (x(value), bottom)])))
        text = tick(value) if value <= 0 else f"+{tick(value)}"
        panel.labels.append(Label(x(value), bottom + 16, text, anchor="middle"))
    for k, one in enumerate(effects):
        _effect(panel, one, x, top + pitch * (k + 0.5))
    return panel


def _effect(panel: Panel, one: Effect, x: Scale, y: float) -> None:
    said = f"{one.name}: {one.said}"
    low, mean, high = map(x, one.numbers)
    if one.seeds is None:
        diamond = polyline([(low, y), (mean, y - 7), (high, y), (mean, y + 7)]) + "Z"
        panel.shapes.append(Shape(f"pooled {one.style}", diamond, said))
    else:
        line = polyline([(low, y), (high, y)])
        panel.shapes.append(Shape(f"interval {one.style}", line, said))
        for value in one.seeds:
            panel.dots.append(Dot(f"seed {one.style}", x(value), y, title=signed(value, 2)))
        kind = "claimed" if one.mark else "open"
        panel.dots.append(Dot(f"mean {kind} {one.style}", mean, y, 5.5, said))
    name = short(one.name) if one.mark else short(one.name, 22)
    title = "" if name == one.name else one.name
    text = f"{name} {one.mark}".rstrip()
    panel.labels.append(Label(2, y - 1, text, f"of {one.style}", title=title))
    panel.labels.append(Label(2, y + 13, one.said, "name"))
