"""Neighbours measured under a trained run, and the tests of what the paper assumes of them."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch

import augless
from augless import augmentation, corpora, data, losses, polar, recipes
from augless.augmentation import drawing, measuring
from augless.augmentation.measuring import Triangles
from augless.recipes import following

TOY = corpora.CORPORA["toy-de-en"](train=60, valid=5, test=5)


def triangles(count, seed=0, angle=None, radius=None, kind="input"):
    """Make triangles whose neighbours follow a law; the sides come out of the law of cosines."""
    random = np.random.default_rng(seed)
    loss = random.gamma(9.0, 1 / 3, count)
    radius = random.exponential(2.0, count) if radius is None else radius(random, count)
    theta = random.uniform(0, math.pi, count) if angle is None else angle(random, radius)
    side = np.sqrt(loss**2 + radius**2 - 2 * loss * radius * np.cos(theta))
    return Triangles(loss, radius, side, np.array([kind] * count), np.arange(count))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run that is good for nothing, edited pairs of both sides, and their triangles."""
    folder = tmp_path_factory.mktemp("measured")
    keys = ["corpus.train=60", "corpus.valid=5", "corpus.test=5", "text.vocabulary.size=200"]
    keys += ["model.embedding=16", "model.hidden=16", "training.epochs=1"]
    place = following.Place(prepared=folder / "data", device="cpu")
    run, _ = following.train(recipes.load("toy-de-en", keys), place, folder=folder / "run")
    edits = augmentation.AUGMENTERS["word-edits"](side="both", edit="replace", copies=2)
    made = augmentation.augment(edits, TOY, folder / "made")
    writer = augless.load(run.folder)
    return writer, made, measuring.measure(writer, made)


# Triangles


def test_every_made_pair_has_both_triangles_in_both_geometries(measured):
    _, _, triangles = measured
    assert {*triangles} == {*measuring.GEOMETRIES}
    for one in triangles.values():
        assert len(one) == 240 and {*one.kind.tolist()} == {"input", "output"}
        assert len(one.of_kind("input")) == len(one.of_kind("output")) == 60


def test_euclidean_triangles_close(measured):
    one = measured[2]["euclidean"]
    assert (one.side <= one.loss + one.radius + 1e-9).all()
    assert (one.side >= abs(one.loss - one.radius) - 1e-9).all()
    spread = polar.phi(
        *(torch.from_numpy(x) for x in (one.loss / one.unit, one.radius / one.unit, one.angle))
    )
    assert np.allclose(spread.numpy() * one.unit, one.side, rtol=1e-6)


def alone(writer, source, target):
    """Return the soft prediction and the embedded target of one pair, (1, T, D) each."""
    sides = zip(writer.codecs, (source, target), strict=True)
    ids = [data.Ragged.of(codec.encode_lines([line])) for codec, line in sides]
    batch = data.collate(data.Pairs(*ids, np.ones(1, np.float32)), np.array([0]))
    with torch.no_grad():
        output = writer.model(batch)
        table = output.embeddings.double()
        return output.logits.double().softmax(-1) @ table, table[batch.target]


def distance(geometry, one, other):
    if geometry == "wasserstein":
        masks = (torch.ones(x.shape[:2], dtype=torch.bool) for x in (one, other))
        return float(losses.wasserstein(one, other, *masks, epsilon=1e-12))
    longest = max(one.shape[1], other.shape[1])
    one, other = (torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[1])) for x in (one, other))
    return float((one - other).norm())


@pytest.mark.parametrize("geometry", measuring.GEOMETRIES)
def test_a_triangle_is_what_the_model_says_of_the_pair_alone(measured, geometry):
    """The batch of a pair, and its padding, change nothing: computed here one by one."""
    writer, made, triangles = measured
    rows = list(made.rows())
    one = triangles[geometry]
    for row in [row for row in rows if row.get("copy") == 1][:8]:
        before = rows[row["of"]]
        predicted, target = alone(writer, before["de"], before["en"])
        _, moved = alone(writer, before["de"], row["en"])
        (place, *_) = np.flatnonzero((one.of == row["of"]) & (one.kind == "output"))
        sides = [one.loss[place], one.radius[place], one.side[place]]
        corners = ((target, predicted), (target, moved), (moved, predicted))
        assert np.allclose(sides, [distance(geometry, *pair) for pair in corners], rtol=1e-4)
        (place, *_) = np.flatnonzero((one.of == row["of"]) & (one.kind == "input"))
        other, _ = alone(writer, row["de"], before["en"])
        sides = [one.loss[place], one.side[place]]
        corners = ((predicted, target), (other, target))
        assert np.allclose(sides, [distance(geometry, *pair) for pair in corners], rtol=1e-4)
        assert one.radius[place] == pytest.approx(distance(geometry, predicted, other), abs=1e-4)


def test_a_pair_that_is_the_same_to_the_model_has_no_triangle(measured, tmp_path):
    writer = measured[0]
    edits = augmentation.AUGMENTERS["word-edits"](rate=0.0)
    made = augmentation.augment(edits, TOY, tmp_path / "same")
    with pytest.raises(augmentation.BadAugmentation, match="no made pair differs"):
        measuring.measure(writer, made)


def test_a_limit_takes_originals_evenly(measured):
    writer, made, _ = measured
    triangles = measuring.measure(writer, made, limit=20)["euclidean"]
    assert sorted({*triangles.of.tolist()}) == list(range(0, 60, 3))


def test_the_law_empirical_is_built_from_the_file(measured, tmp_path):
    one = measured[2]["wasserstein"]
    (tmp_path / "n.json").write_text(one.neighbours.document())
    read = polar.Neighbours.load(tmp_path / "n.json")
    assert torch.allclose(read.radius, one.neighbours.radius, rtol=1e-6)
    law = polar.WEIGHTINGS["empirical"](neighbours=str(tmp_path / "n.json"))
    weights = law(torch.tensor([0.01, 1.0, 100.0]), 1.0)
    assert (weights.diff() >= 0).all() and bool(torch.isfinite(weights).all())


def test_the_table_has_a_line_for_each_triangle(measured):
    one = measured[2]["euclidean"]
    header, *lines = one.table().split("\n")[:-1]
    assert header == "of,kind,loss,radius,side,angle" and len(lines) == len(one)
    first = lines[0].split(",")
    assert float(first[2]) == pytest.approx(one.loss[0], rel=1e-5)


# What is assumed, tested


def test_under_the_assumed_law_nothing_is_rejected_more_often_than_it_should():
    p = [measuring.assess(triangles(300, seed))[0] for seed in range(100)]
    for name in ("uniform_angle_p", "independent_p", "loss_radius_p", "loss_angle_p"):
        values = [getattr(one, name) for one in p]
        assert sum(value < 0.05 for value in values) <= 12, name
        assert 0.35 < np.mean(values) < 0.65, name


def test_the_fitted_radius_is_that_of_the_law():
    sample = triangles(4000)
    (one,) = measuring.assess(sample)
    assert one.radius * sample.unit == pytest.approx(2.0, rel=0.05)
    assert one.exponential_gap < 0.03 < 0.1 < one.uniform_gap
    even = triangles(4000, radius=lambda random, n: random.uniform(0, 3.0, n))
    (other,) = measuring.assess(even)
    assert 2 * other.radius * even.unit == pytest.approx(3.0, rel=0.05)
    assert other.uniform_gap < 0.03 < 0.1 < other.exponential_gap


@pytest.mark.parametrize("dimension", [2, 3, 20])
def test_isotropic_directions_have_their_dimension(dimension):
    def isotropic(random, radius):
        vectors = random.normal(size=(len(radius), dimension))
        return np.arccos(vectors[:, 0] / np.linalg.norm(vectors, axis=1))

    (one,) = measuring.assess(triangles(4000, angle=isotropic))
    assert one.dimension == pytest.approx(dimension, rel=0.1)
    assert (one.uniform_angle_p < 1e-6) == (dimension > 2)


def test_an_angle_that_follows_the_radius_is_noticed_though_nothing_rises_or_falls():
    def bent(random, radius):
        rank = np.argsort(np.argsort(radius)) / len(radius)
        return math.pi * np.clip(abs(2 * rank - 1) + random.normal(0, 0.05, len(radius)), 0, 1)

    (one,) = measuring.assess(triangles(500, angle=bent))
    assert one.independent_p < 1e-10 and abs(one.radius_correlation) < 0.2
    said = measuring.said([one])
    assert any("radius and angle are independent: rejected" in line for line in said)


def test_many_claims_are_corrected_for():
    (one,) = measuring.assess(triangles(300))
    for p, verdict in ((0.012, "rejected"), (0.013, "not rejected")):
        lines = measuring.said([replace(one, uniform_angle_p=p)])
        assert any(f"the angle is uniform: {verdict} (p = {p}" in line for line in lines)


def test_copies_of_an_original_count_once():
    sample = triangles(40)
    twice = sample[np.repeat(np.arange(40), 2)]
    assert len(twice) == 80 and measuring.assess(twice)[0].count == 40


def test_too_few_say_nothing():
    assert measuring.assess(triangles(19)) == []
    assert len(measuring.assess(triangles(20))) == 1


# The picture


def test_the_picture_is_whole_and_says_what_was_found(measured):
    triangles = measured[2]
    picture = drawing.picture(triangles)
    root = ElementTree.fromstring(picture)
    text = "".join(root.itertext())
    assert "nan" not in picture.lower() and "inf" not in text.lower()
    for geometry, one in triangles.items():
        for finding in measuring.assess(one):
            assert f"{geometry}, {finding.count} neighbours of the {finding.kind}" in text
            assert f"exponential, R = {finding.radius:.3g}" in text
    panels = len(triangles) * 2 * 2  # kinds, and radius beside angle
    assert len(root.findall("{*}rect")) == panels * 30


def test_nothing_to_draw_is_drawn_as_nothing():
    picture = drawing.picture({"euclidean": triangles(5)})
    assert not ElementTree.fromstring(picture).findall("{*}rect")
