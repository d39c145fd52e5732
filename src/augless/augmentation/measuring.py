"""Where real neighbours lie: each made pair's (r, θ) under a trained run, and what laws say of it.

The paper assumes that a neighbour's radius and angle are independent, that the angle is uniform,
and that the law is the same for every sample. `measure` solves the triangle of each made pair;
`assess` tests these assumptions and fits the radius.

A made pair with another source is a neighbour of the input: its triangle has the corners f(x),
f(x^) and y, all with the same target before the words (teacher forcing). One with another target is
a neighbour of the output: f(x), y and y^. One with both has both triangles.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from augless import data, decoding, losses, polar
from augless.augmentation.augmenter import BadAugmentation
from augless.augmentation.folders import Augmented
from augless.corpora import Progress

Floats = NDArray[np.float64]
Kind = Literal["input", "output"]

GEOMETRIES = ("euclidean", "wasserstein")
KINDS: tuple[Kind, ...] = ("input", "output")
_BATCH = 32
_FEWEST = 20  # triangles below which nothing is tested


@dataclass(frozen=True)
class Triangles:
    """Triangles of neighbours in one geometry, (N,) each: distances in the unit of the loss."""

    loss: Floats
    """from prediction to target"""
    radius: Floats
    """from the original's corner to the neighbour's"""
    side: Floats
    """the neighbour's loss"""
    kind: NDArray[np.str_]
    of: NDArray[np.int64]
    """which original"""

    def __len__(self) -> int:
        return len(self.loss)

    @property
    def unit(self) -> float:
        """The mean loss, which radii are measured by."""
        return float(self.loss.mean())

    @property
    def neighbours(self) -> polar.Neighbours:
        """Radii in units of the mean loss, and angles: what the law `empirical` is built from."""
        scaled = (torch.from_numpy(x / self.unit) for x in (self.loss, self.radius, self.side))
        return polar.Neighbours.measured(*scaled)

    @property
    def angle(self) -> Floats:
        """The angle at the original's corner, between the neighbour and the loss, from 0 to π."""
        angles: Floats = self.neighbours.angle.numpy()
        return angles

    def of_kind(self, kind: Kind) -> Triangles:
        """Return the triangles of one kind, one for each original: those are independent."""
        chosen = np.flatnonzero(self.kind == kind)
        _, first = np.unique(self.of[chosen], return_index=True)
        return self[chosen[first]]

    def __getitem__(self, rows: NDArray[np.int64]) -> Triangles:
        columns = (self.loss, self.radius, self.side, self.kind, self.of)
        # A type checker does not follow what is unpacked.
        return Triangles(*(column[rows] for column in columns))  # type: ignore[arg-type]

    def table(self) -> str:
        """Write the triangles as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("of", "kind", "loss", "radius", "side", "angle"))
        columns = (self.of, self.kind, self.loss, self.radius, self.side, self.angle)
        for of, kind, *numbers in zip(*columns, strict=True):
            writer.writerow((of, kind, *(f"{number:.6g}" for number in numbers)))
        return text.getvalue()


@dataclass(frozen=True)
class _Pairs:
    """Made pairs beside their originals, as texts."""

    source: list[str]
    target: list[str]
    made_source: list[str]
    made_target: list[str]
    of: list[int]

    def __len__(self) -> int:
        return len(self.of)


def measure(
    writer: decoding.Writer,
    augmented: Augmented,
    *,
    limit: int = 2000,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Triangles]:
    """Solve the triangles of made pairs under a run's model, in each geometry.

    Of the originals, at most `limit` are looked at, evenly spaced. A made pair that is the same as
    its original to the model has no triangle.
    """
    pairs = _read(augmented, limit)
    source, target, made_source, made_target = _encoded(writer, pairs)
    ones = np.ones(len(pairs), np.float32)
    original, other = (data.Pairs(s, target, ones) for s in (source, made_source))
    moved = data.Pairs(source, made_target, ones)
    moves = {
        "input": _unlike(source, made_source),
        "output": _unlike(target, made_target),
    }
    if not any(map(len, moves.values())):
        raise BadAugmentation(f"{augmented.folder}: no made pair differs from its original")
    solved: dict[str, list[tuple[Floats, ...]]] = {name: [] for name in GEOMETRIES}
    kinds, ofs = [], []
    done, total = 0, sum(map(len, moves.values()))
    for kind, rows in moves.items():
        ordered = rows[np.argsort(target.lengths[rows], kind="stable")]
        for start in range(0, len(ordered), _BATCH):
            part = ordered[start : start + _BATCH]
            changed = other if kind == "input" else moved
            for name, sides in _triangles(writer.model, original, changed, part, kind).items():
                solved[name].append(sides)
            kinds += [kind] * len(part)
            ofs += [pairs.of[row] for row in part]
            done += len(part)
            progress("measuring neighbours", done, total)
    joined = {
        name: [np.concatenate(column) for column in zip(*sides, strict=True)]
        for name, sides in solved.items()
    }
    return {
        name: Triangles(loss, radius, side, np.array(kinds), np.array(ofs, np.int64))
        for name, (loss, radius, side) in joined.items()
    }


def _encoded(writer: decoding.Writer, pairs: _Pairs) -> list[data.Ragged]:
    texts = (pairs.source, 0), (pairs.target, 1), (pairs.made_source, 0), (pairs.made_target, 1)
    return [data.Ragged.of(writer.codecs[side].encode_lines(lines)) for lines, side in texts]


def _read(augmented: Augmented, limit: int) -> _Pairs:
    """Read some made pairs and their originals; pairs made of a text alone have none."""
    names = augmented.manifest.languages
    total = augmented.manifest.pairs.original
    wanted = {place * total // min(limit, total) for place in range(min(limit, total))}
    kept: dict[int, tuple[str, str]] = {}
    pairs = _Pairs([], [], [], [], [])
    for place, row in enumerate(augmented.rows()):
        texts = str(row[names[0]]), str(row[names[1]])
        if "of" not in row:
            if place in wanted:
                kept[place] = texts
        elif row["of"] in kept:
            before = kept[row["of"]]
            columns = (pairs.source, pairs.target, pairs.made_source, pairs.made_target)
            for column, text in zip(columns, (*before, *texts), strict=True):
                column.append(text)
            pairs.of.append(int(row["of"]))
    return pairs


def _unlike(one: data.Ragged, other: data.Ragged) -> NDArray[np.int64]:
    rows = [i for i in range(len(one)) if not np.array_equal(one[i], other[i])]
    return np.array(rows, np.int64)


@torch.inference_mode()
def _triangles(
    model: Any, original: data.Pairs, changed: data.Pairs, rows: NDArray[np.int64], kind: str
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Return loss, radius and the neighbour's loss of some pairs, in each geometry."""
    device = next(model.parameters()).device
    predicted, target, mask = _vectors(model, original, rows, device)
    if kind == "input":
        other, _, other_mask = _vectors(model, changed, rows, device)
        corner, neighbour, far = predicted, other, target
        masks = mask, other_mask, mask
    else:
        _, other, other_mask = _vectors(model, changed, rows, device)
        corner, neighbour, far = target, other, predicted
        masks = mask, other_mask, mask
    corners = list(zip((corner, neighbour, far), masks, strict=True))
    sides = ((0, 2), (0, 1), (1, 2))  # loss, radius, the neighbour's loss
    return {
        name: tuple(
            # A corner is two tensors; a type checker does not count them.
            distance(*corners[a], *corners[b]).double().cpu().numpy()  # type: ignore[misc]
            for a, b in sides
        )
        for name, distance in _DISTANCES.items()
    }


def _vectors(
    model: Any, pairs: data.Pairs, rows: NDArray[np.int64], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return soft predictions, embedded targets, (B, T, D) each, and the mask of real words."""
    batch = data.collate(pairs, rows)
    parts = ("source", "source_mask", "target", "target_mask", "weight")
    there = {name: getattr(batch, name).to(device) for name in parts}
    batch = type(batch)(index=batch.index, **there)
    output = model(batch)
    predicted = losses.soft_predictions(output.logits, output.embeddings)
    target = output.embeddings.float()[batch.target]
    mask = batch.target_mask[:, :, None]
    return predicted * mask, target * mask, batch.target_mask


def _euclidean(u: Tensor, u_mask: Tensor, v: Tensor, v_mask: Tensor) -> Tensor:
    """Measure sentences as concatenated vectors; a shorter one is filled up with zeros."""
    longest = max(u.shape[1], v.shape[1])
    u, v = (torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[1])) for x in (u, v))
    return losses.euclidean(u.double().flatten(1), v.double().flatten(1), epsilon=1e-12)


def _wasserstein(u: Tensor, u_mask: Tensor, v: Tensor, v_mask: Tensor) -> Tensor:
    return losses.wasserstein(u.double(), v.double(), u_mask, v_mask, epsilon=1e-12)


_DISTANCES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "euclidean": _euclidean,
    "wasserstein": _wasserstein,
}


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What triangles of one kind say of the paper's assumptions; lengths in mean losses."""

    kind: Kind
    count: int
    radius: float
    """the mean radius, which fits an exponential law; a uniform one has twice that"""
    exponential_gap: float
    """largest difference of the measured distribution function from that law's (KS distance)"""
    uniform_gap: float
    cosine: float
    """mean cosine of the angle; 0 under every law with balanced directions"""
    dimension: float
    """in which isotropic directions would spread as these do; 2 is a uniform angle"""
    flat: float
    """share of triangles so flat that no plane has them: angle 0 or π"""
    uniform_angle_p: float
    """of the hypothesis that the angle is uniform (Kolmogorov-Smirnov)"""
    independent_p: float
    """of the hypothesis that radius and angle are independent (chi-squared on ranks)"""
    radius_correlation: float
    """Spearman's, of radius and angle"""
    loss_radius_p: float
    """of the hypothesis that the radius does not depend on the sample's loss"""
    loss_angle_p: float


def assess(triangles: Triangles) -> list[Findings]:
    """Test the paper's assumptions on each kind of neighbours there are enough of."""
    findings = []
    for kind in KINDS:
        some = triangles.of_kind(kind)
        if len(some) >= _FEWEST:
            findings.append(_assessed(some, kind, triangles.unit))
    return findings


def _assessed(some: Triangles, kind: Kind, unit: float) -> Findings:
    radius, angle, loss = some.radius / unit, some.angle, some.loss / unit
    mean = float(radius.mean())
    cosine = np.cos(angle)
    return Findings(
        kind=kind,
        count=len(some),
        radius=mean,
        exponential_gap=float(stats.kstest(radius, stats.expon(scale=mean).cdf).statistic),
        uniform_gap=float(stats.kstest(radius, stats.uniform(scale=2 * mean).cdf).statistic),
        cosine=float(cosine.mean()),
        dimension=1 / max(float((cosine**2).mean()), 1e-9),
        flat=float(((angle < 1e-6) | (angle > math.pi - 1e-6)).mean()),
        uniform_angle_p=float(stats.kstest(angle, stats.uniform(scale=math.pi).cdf).pvalue),
        independent_p=independence(radius, angle),
        radius_correlation=float(stats.spearmanr(radius, angle).statistic),
        loss_radius_p=independence(loss, radius),
        loss_angle_p=independence(loss, angle),
    )


def independence(one: Floats, other: Floats) -> float:
    """Return the p-value of the hypothesis that two measurements are independent, (N,), (N,).

    Both are cut at their quantiles and the counts of the resulting grid compared with equal ones
    (Pearson's chi-squared): any kind of dependence shows, not only a rising or falling one.
    """
    cells = min(6, max(2, math.isqrt(len(one) // 10)))
    ranks = [np.argsort(np.argsort(x, kind="stable"), kind="stable") for x in (one, other)]
    places = [rank * cells // len(one) for rank in ranks]
    counts = np.bincount(cells * places[0] + places[1], minlength=cells**2)
    table = counts.reshape(cells, cells)
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def said(findings: Sequence[Findings]) -> list[str]:
    """Say in words whether the assumptions hold, at the level of 0.05, corrected for several."""
    lines = []
    for one in findings:
        p = {
            "the angle is uniform": one.uniform_angle_p,
            "radius and angle are independent": one.independent_p,
            "the radius does not depend on the loss": one.loss_radius_p,
            "the angle does not depend on the loss": one.loss_angle_p,
        }
        for claim, value in p.items():
            verdict = "rejected" if value * len(p) < 0.05 else "not rejected"
            lines.append(f"{one.kind}: {claim}: {verdict} (p = {value:.2g}, n = {one.count:,})")
    return lines
