"""How ratings are distributed: a bar of five parts for each system."""

from __future__ import annotations

from collections.abc import Sequence

from augless.reports import charts, words
from augless.survey.tallying import Row, Scored

_LEFT, _RIGHT, _TOP, _STEP, _THICK = 100.0, 98.0, 22.0, 26.0, 17.0
_SHOWN = 0.09  # share below which a part is too narrow for its number
# Shades from warm to cool by way of a neutral one, told apart in grey and by the colour-blind; each
# with the colour of the numbers on it.
PALETTE = {
    "r1": ("#b35806", "#ffffff"),
    "r2": ("#f1a340", "#1d1c1a"),
    "r3": ("#d8d4cb", "#1d1c1a"),
    "r4": ("#8ea9d6", "#1d1c1a"),
    "r5": ("#2f5597", "#ffffff"),
}
STYLE = "".join(
    f"svg .{name} {{ fill: {colour}; }} svg text.on-{name} {{ fill: {ink}; }}\n"
    for name, (colour, ink) in PALETTE.items()
)


def distribution(scored: Scored) -> charts.Panel:
    """Draw the shares of 1 to 5 of every system on a scale, and its mean with the interval."""
    rows = [row for row in scored.rows if row.mean is not None]
    x = charts.Scale(0.0, 1.0, _LEFT, charts.WIDTH - _RIGHT)
    panel = charts.Panel(
        title=scored.scale.capitalize(),
        description=_described(scored.scale, rows),
        height=_TOP + _STEP * len(rows) + 26.0,
    )
    panel.labels.append(
        charts.Label(x=charts.WIDTH - 2, y=12.0, text="mean, 95 %", style="name", anchor="end")
    )
    for number, row in enumerate(rows):
        _bar(panel, row, x, _TOP + _STEP * number)
    floor = _TOP + _STEP * len(rows) + 12.0
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        label = charts.Label(
            x=x(share), y=floor, text=words.percent(share), style="name", anchor="middle"
        )
        panel.labels.append(label)
    return panel


def _bar(panel: charts.Panel, row: Row, x: charts.Scale, top: float) -> None:
    assert row.mean is not None
    middle, total, begun = top + _THICK / 2 + 4.0, sum(row.counts), 0
    name = charts.Label(
        x=_LEFT - 8, y=middle, text=charts.short(row.system), anchor="end", title=row.system
    )
    panel.labels.append(name)
    for point, count in enumerate(row.counts, 1):
        left, right = x(begun / total), x((begun + count) / total)
        begun += count
        if not count:
            continue
        said = f"{row.system}: {count} of {total} ratings are {point}"
        panel.bars.append(
            charts.Bar(
                style=f"r{point}", x=left, y=top, width=right - left, height=_THICK, title=said
            )
        )
        if count / total >= _SHOWN:
            place = (left + right) / 2
            panel.labels.append(
                charts.Label(
                    x=place, y=middle, text=str(point), style=f"on-r{point}", anchor="middle"
                )
            )
    mean = row.mean
    text = f"{mean.value:.2f}"
    panel.labels.append(charts.Label(x=charts.WIDTH - _RIGHT + 8, y=middle, text=text))
    if mean.low is not None and mean.high is not None:
        spread = f"{mean.low:.1f}\N{EN DASH}{mean.high:.1f}"
        panel.labels.append(
            charts.Label(x=charts.WIDTH - 2, y=middle, text=spread, style="name", anchor="end")
        )


def _described(scale: str, rows: Sequence[Row]) -> str:
    means = "; ".join(f"{row.system} {row.mean.value:.2f}" for row in rows if row.mean)
    return f"Shares of ratings from 1 to 5 for {scale}. Means: {means}."
