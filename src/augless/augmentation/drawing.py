"""Measured neighbours beside the assumed laws, as an SVG that is light or dark as its reader is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from scipy import special

from augless import storage
from augless.augmentation.measuring import KINDS, Findings, Floats, Triangles, assess

_WIDTH, _HEIGHT = 380.0, 230.0  # of a panel
_LEFT, _TOP, _BOTTOM = 40.0, 34.0, 36.0
_BINS = 30
_STYLE = """
svg{font:12px system-ui,sans-serif;--paper:#fff;--ink:#1f2328;--faint:#8b949e;--bar:#c9d1d9;
--a:#0969da;--b:#cf222e;--c:#1a7f37;background:var(--paper)}
@media (prefers-color-scheme:dark){svg{--paper:#0d1117;--ink:#e6edf3;--faint:#7d8590;--bar:#30363d;
--a:#58a6ff;--b:#ff7b72;--c:#3fb950}}
text{fill:var(--ink)}.small{font-size:11px}.bar{fill:var(--bar)}.axis{stroke:var(--faint)}
.line{fill:none;stroke-width:2}.a{stroke:var(--a)}.b{stroke:var(--b)}.c{stroke:var(--c)}
.dash{stroke-dasharray:5 3}text.a{fill:var(--a)}text.b{fill:var(--b)}text.c{fill:var(--c)}
text.a,text.b,text.c{stroke:none}
"""

Curve = tuple[str, str, Callable[[Floats], Floats]]
"""class, name, density"""


def save(measured: Mapping[str, Triangles], folder: Path) -> None:
    """Write what each geometry measured, all of its triangles, and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"neighbours.svg": picture(measured)}
    for name, triangles in measured.items():
        files[f"{name}.json"] = triangles.neighbours.document()
        files[f"{name}.csv"] = triangles.table()
    for name, content in files.items():
        storage.replace(storage.inside(folder, name), content.encode())


def picture(measured: Mapping[str, Triangles]) -> str:
    """Draw the densities of radius and angle in each geometry, and what the tests say."""
    rows = [
        (geometry, triangles.of_kind(kind), one, triangles.unit)
        for geometry, triangles in measured.items()
        for one in assess(triangles)
        for kind in KINDS
        if kind == one.kind
    ]
    height = _HEIGHT + 30
    parts = []
    for number, (geometry, some, one, unit) in enumerate(rows):
        top = number * height
        words = f"{geometry}, {one.count:,} neighbours of the {one.kind}"
        parts.append(f'<text x="{_LEFT}" y="{top + 16}" font-weight="600">{escape(words)}</text>')
        parts += _radii(some.radius / unit, one, top)
        parts += _angles(some.angle, one, top)
    size = f"0 0 {2 * _WIDTH:.0f} {max(len(rows), 1) * height:.0f}"
    told = "Measured density of the neighbours' radius and angle beside the assumed laws."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" '
        f'aria-labelledby="t"><title id="t">{told}</title><style>{_STYLE}</style>'
        f"{''.join(parts)}</svg>\n"
    )


def _radii(radius: Floats, one: Findings, top: float) -> list[str]:
    mean = one.radius
    end = max(float(np.quantile(radius, 0.995)), 2.2 * mean)
    curves: list[Curve] = [
        (
            "a",
            f"uniform, R = {2 * mean:.3g} (KS distance {one.uniform_gap:.2f})",
            lambda x: np.where(x <= 2 * mean, 1 / (2 * mean), 0.0),
        ),
        (
            "b",
            f"exponential, R = {mean:.3g} (KS distance {one.exponential_gap:.2f})",
            lambda x: np.exp(-x / mean) / mean,
        ),
    ]
    step = 10.0 ** math.floor(math.log10(end))
    step *= next(k for k in (0.1, 0.2, 0.5, 1.0, 2.0) if end / (k * step) <= 6)
    ticks = [(step * k, f"{step * k:.4g}") for k in range(math.floor(end / step) + 1)]
    p = f"independent of the angle: {_p(one.independent_p)}"
    return _panel(radius, end, curves, ticks, "radius / mean loss", p, 0.0, top)


def _angles(angle: Floats, one: Findings, top: float) -> list[str]:
    # The integral of sin^(d-2) from 0 to π is the beta function of (d - 1) / 2 and 1 / 2.
    whole = float(special.betaln(max((one.dimension - 1) / 2, 1e-3), 0.5))
    curves: list[Curve] = [
        ("a", "uniform, as assumed", lambda x: np.full_like(x, 1 / math.pi)),
        (
            "c",
            f"isotropic in {one.dimension:.1f} dimensions",
            lambda x: np.exp((one.dimension - 2) * np.log(np.sin(x).clip(1e-9)) - whole),
        ),
    ]
    ticks = [(0.0, "0"), (math.pi / 2, "π/2"), (math.pi, "π")]
    p = f"uniform: {_p(one.uniform_angle_p)}; mean cosine {one.cosine:+.2f}"
    return _panel(angle, math.pi, curves, ticks, "angle", p, _WIDTH, top)


def _p(value: float) -> str:
    return f"p = {value:.2g}" if value >= 1e-4 else "p < 0.0001"


def _panel(
    values: Floats,
    end: float,
    curves: Sequence[Curve],
    ticks: Sequence[tuple[float, str]],
    name: str,
    told: str,
    left: float,
    top: float,
) -> list[str]:
    """Draw a histogram with densities over it; what lies beyond the end is in the last bin."""
    counts, edges = np.histogram(np.minimum(values, end), _BINS, (0, end))
    density = counts / max(len(values), 1) / (end / _BINS)
    x0, x1 = left + _LEFT, left + _WIDTH - 14
    y0, y1 = top + _HEIGHT - _BOTTOM, top + _TOP + 30
    places = np.linspace(1e-3 * end, end * (1 - 1e-3), 200)
    drawn = [(kind, said, function(places)) for kind, said, function in curves]
    # A density may have a pole at an end; the bars decide how high the panel is.
    high = 1.15 * max(float(density.max()), *(float(np.quantile(y, 0.9)) for _, _, y in drawn))

    def x(value: float) -> float:
        return x0 + (x1 - x0) * value / end

    def y(value: float) -> float:
        return y0 - (y0 - y1) * min(value / high, 1.0)

    parts = [
        f'<rect class="bar" x="{x(a):.1f}" y="{y(d):.1f}" width="{x(b) - x(a) - 0.8:.1f}" '
        f'height="{y0 - y(d):.1f}"/>'
        for d, a, b in zip(density, edges[:-1], edges[1:], strict=True)
    ]
    for number, (kind, said, heights) in enumerate(drawn):
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in zip(places, heights, strict=True))
        parts.append(f'<path class="line {kind}" d="M{path}"/>')
        at = top + _TOP + 13 * number
        parts.append(f'<text class="{kind} small" x="{x0}" y="{at}">{escape(said)}</text>')
    parts.append(f'<path class="axis" d="M{x0} {y0}H{x1}"/>')
    for value, said in ticks:
        parts.append(
            f'<text class="small" x="{x(value):.1f}" y="{y0 + 14:.1f}" text-anchor="middle">'
            f"{escape(said)}</text>"
        )
    parts.append(
        f'<text class="small" x="{(x0 + x1) / 2:.1f}" y="{y0 + 30:.1f}" text-anchor="middle">'
        f"{escape(name)}; {escape(told)}</text>"
    )
    return parts
