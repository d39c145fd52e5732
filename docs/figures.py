"""Draw the figures of the README and the docs: python docs/figures.py [FOLDER].

Each comes in a light and a dark version, as SVG whose bytes depend on the code alone.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Arc

from augless import polar

mpl.use("svg")


@dataclass(frozen=True)
class Theme:
    """Colours of one version of every figure."""

    name: str
    paper: str
    ink: str
    faint: str
    cycle: tuple[str, ...]


THEMES = (
    Theme(
        name="light",
        paper="#ffffff",
        ink="#1f2328",
        faint="#8b949e",
        cycle=("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bc4c00", "#57606a"),
    ),
    Theme(
        name="dark",
        paper="#0d1117",
        ink="#e6edf3",
        faint="#7d8590",
        cycle=("#58a6ff", "#ff7b72", "#3fb950", "#bc8cff", "#f0883e", "#8b949e"),
    ),
)


def label(
    axes: Axes, point: np.ndarray, text: str, shift: tuple[float, float], colour: str
) -> None:
    """Write beside a point."""
    axes.annotate(
        text,
        point,
        xytext=shift,
        textcoords="offset points",
        color=colour,
        ha="center",
        va="center",
    )


def edge(axes: Axes, a: np.ndarray, b: np.ndarray, colour: str, style: str = "-") -> None:
    """Join two points."""
    axes.plot([a[0], b[0]], [a[1], b[1]], style, color=colour, lw=1.8, zorder=2)


def triangles(theme: Theme) -> plt.Figure:
    """Draw the paper's Figure 1: where the neighbours of a sample lie, for three kinds of them."""
    prediction, target = np.array([0.0, 0.0]), np.array([2.6, 0.0])
    blue, red, green = theme.cycle[:3]
    near_prediction = prediction + 1.15 * np.array([math.cos(0.95), math.sin(0.95)])
    near_target = target + 1.05 * np.array([math.cos(math.pi - 1.15), math.sin(math.pi - 1.15)])
    below_target = target + 1.05 * np.array([math.cos(math.pi + 1.2), math.sin(math.pi + 1.2)])
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.3))
    titles = ("a neighbour of the input", "a neighbour of the output", "a neighbouring pair")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=11)
        axes.set(xlim=(-1.2, 3.7), ylim=(-1.6, 1.45), aspect="equal")
        axes.axis("off")
        edge(axes, prediction, target, theme.ink)
        label(axes, prediction, "f(x)", (-16, -9), theme.ink)
        label(axes, target, "y", (13, -9), theme.ink)
        axes.plot(*zip(prediction, target, strict=True), "o", color=theme.ink, ms=6, zorder=3)
    middle = (prediction + target) / 2

    def moved(axes: Axes, start: np.ndarray, end: np.ndarray, name: str, colour: str) -> None:
        edge(axes, start, end, colour)
        axes.plot(*end, "o", color=colour, ms=6, zorder=3)
        away = 13 if end[1] > 0 else -12
        label(axes, end, name, (0, away), colour)
        axes.add_patch(
            plt.Circle(
                tuple(start), float(np.linalg.norm(end - start)), color=colour, alpha=0.10, lw=0
            )
        )

    def angle(
        axes: Axes, pole: np.ndarray, first: float, last: float, at: tuple[float, float]
    ) -> None:
        axes.add_patch(
            Arc(tuple(pole), 0.75, 0.75, theta1=first, theta2=last, color=theme.ink, lw=1.2)
        )
        label(axes, pole, "θ", at, theme.ink)

    one, two, three = panels
    moved(one, prediction, near_prediction, "f(x̂)", blue)
    edge(one, near_prediction, target, blue, ":")
    angle(one, prediction, 0, math.degrees(0.95), (24, 11))
    label(one, (prediction + near_prediction) / 2, "r", (-9, 5), blue)
    label(one, (near_prediction + target) / 2, "Φ(L; r, θ)", (31, 9), blue)
    label(one, middle, "L", (0, -10), theme.ink)

    moved(two, target, near_target, "ŷ", red)
    edge(two, near_target, prediction, red, ":")
    angle(two, target, 180 - math.degrees(1.15), 180, (-24, 11))
    label(two, (target + near_target) / 2, "r", (10, 4), red)
    label(two, (near_target + prediction) / 2, "Φ(L; r, θ)", (-28, 10), red)
    label(two, middle, "L", (0, -10), theme.ink)

    moved(three, prediction, near_prediction, "f(x̂)", blue)
    moved(three, target, below_target, "ŷ", red)
    edge(three, near_prediction, below_target, green)
    edge(three, near_prediction, target, blue, ":")
    edge(three, prediction, below_target, red, ":")
    label(three, (near_prediction + target) / 2, "Φ", (10, 8), blue)
    label(three, (prediction + below_target) / 2, "Φ", (-8, -9), red)
    label(three, (prediction + near_prediction) / 2, "r", (-9, 5), blue)
    label(three, (target + below_target) / 2, "r", (11, -3), red)
    label(three, middle * 0.55, "L", (-4, -9), theme.ink)
    three.text(1.3, -1.58, "green ≤ half of all blue and red", color=green, ha="center", fontsize=9)
    figure.tight_layout()
    return figure


def weights(theme: Theme) -> plt.Figure:
    """Draw the weight of a sample against its loss in units of the radius, for every weighting."""
    ratio = torch.logspace(-2, math.log10(30), 600, dtype=torch.float64)
    x = ratio.numpy()
    blue, red, green, purple, orange, grey = theme.cycle
    # Neighbours measured around a prediction: a cloud that leans towards the target.
    generator = torch.Generator().manual_seed(0)
    cloud = 0.7 * torch.randn(20_000, 3, generator=generator) + torch.tensor([0.35, 0.0, 0.0])
    measured = polar.Neighbours(cloud.norm(dim=1), torch.acos(cloud[:, 0] / cloud.norm(dim=1)))
    high = polar.Exponential(angle="isotropic", dimension=256)
    rows = [
        ("linear, corollary 1", polar.Linear(), orange, "-"),
        ("uniform", polar.Uniform(), blue, "-"),
        ("exponential, isotropic in 256 dimensions", high, red, ":"),
        ("exponential", polar.Exponential(), red, "-"),
        ("point", polar.Point(), green, "-"),
        ("empirical: a cloud leaning to y", polar.Empirical(neighbours=measured), purple, "-"),
        ("matched: the batch's mean weight", polar.Matched(of=polar.Exponential()), grey, "--"),
        ("linear, corollary 2, C1 = 1e-4", polar.Linear(corollary=2, c1=1e-4), orange, "--"),
        ("plain (and constant)", polar.Plain(), theme.ink, (0, (1, 5))),
        ("focal", polar.Focal(), grey, "-"),
    ]
    figure, axes = plt.subplots(figsize=(10.5, 4.4))
    for name, weighting, colour, style in rows:
        axes.plot(x, weighting(ratio).numpy(), ls=style, color=colour, lw=2, label=name)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9.5)
    axes.set(xscale="log", xlim=(0.01, 30), ylim=(0, 2.6))
    axes.set_xlabel("loss / radius")
    axes.set_ylabel("weight of the sample")
    axes.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    axes.grid(color=theme.faint, alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def curvature(theme: Theme) -> plt.Figure:
    """Draw the paper's Figure 4, a fat triangle: on a sphere, beside one of equal sides."""
    corners = np.array([[-0.55, -0.35, 0.0], [0.75, -0.25, 0.0], [0.0, 0.72, 0.0]])
    corners[:, 2] = np.sqrt(1 - (corners**2).sum(1))
    names, places = ("x", "y", "z"), ((-12, -8), (13, -8), (0, 12))
    sides = {(i, j): math.acos(corners[i] @ corners[j]) for i, j in ((0, 1), (0, 2), (1, 2))}
    a, b, c = sides[0, 1], sides[0, 2], sides[1, 2]
    fat = math.acos((math.cos(c) - math.cos(a) * math.cos(b)) / (math.sin(a) * math.sin(b)))
    flat = math.acos((a**2 + b**2 - c**2) / (2 * a * b))
    figure, (round_, plane) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    for axes in (round_, plane):
        axes.set(xlim=(-1.15, 1.15), ylim=(-1.05, 1.05), aspect="equal")
        axes.axis("off")
    round_.add_patch(plt.Circle((0, 0), 1.0, color=theme.faint, alpha=0.12, lw=0))
    steps = np.linspace(0, 1, 40)[:, None]
    for (i, j), side in sides.items():
        ends = np.sin((1 - steps) * side) * corners[i] + np.sin(steps * side) * corners[j]
        path = ends / math.sin(side)
        round_.plot(path[:, 0], path[:, 1], color=theme.cycle[0], lw=1.8)
    flat_corners = np.array([[0, 0], [a, 0], [b * math.cos(flat), b * math.sin(flat)]])
    flat_corners = (flat_corners - flat_corners.mean(0)) * 0.95
    for i, j in sides:
        edge(plane, flat_corners[i], flat_corners[j], theme.cycle[1])
    for axes, points, colour in ((round_, corners, 0), (plane, flat_corners, 1)):
        for name, point, shift in zip(names, points, places, strict=True):
            axes.plot(*point[:2], "o", color=theme.cycle[colour], ms=6)
            label(axes, point[:2], name, shift, theme.ink)
    label(round_, corners[0, :2], f"θ = {math.degrees(fat):.0f}°", (44, 12), theme.ink)
    label(plane, flat_corners[0], f"{math.degrees(flat):.0f}°", (32, 10), theme.ink)
    round_.set_title("curved outwards, as Wasserstein space is", fontsize=11)
    plane.set_title("a flat triangle with the same sides", fontsize=11)
    figure.tight_layout()
    return figure


FIGURES = {"triangles": triangles, "weights": weights, "curvature": curvature}


def main(folder: Path) -> None:
    """Write every figure in every theme."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        style = {
            "svg.hashsalt": "augless",
            "svg.fonttype": "path",
            "font.size": 10.5,
            "figure.facecolor": theme.paper,
            "axes.facecolor": theme.paper,
            "text.color": theme.ink,
            **dict.fromkeys(("axes.edgecolor", "axes.labelcolor"), theme.ink),
            **dict.fromkeys(("xtick.color", "ytick.color"), theme.ink),
        }
        for name, draw in FIGURES.items():
            with mpl.rc_context(style):
                path = folder / f"{name}-{theme.name}.svg"
                figure = draw(theme)
                figure.savefig(path, metadata={"Date": None})
                plt.close(figure)
            print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "figures")
