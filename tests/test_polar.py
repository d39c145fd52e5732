import itertools
import json
import math
import os
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special
from torch import multiprocessing

from augless import polar

NEIGHBOURS = polar.Neighbours(
    torch.tensor([0.2, 0.7, 1.3, 2.0]), torch.tensor([0.3, 1.4, 2.0, 3.0])
)
NEEDED = {"empirical": {"neighbours": NEIGHBOURS}}
LAWS = [name for name, kind in polar.WEIGHTINGS.items() if issubclass(kind, polar.Law)]
SYMMETRIC = ["uniform", "exponential", "point"]
FIXED = [name for name, kind in polar.WEIGHTINGS.items() if not issubclass(kind, polar.Control)]
CONTROLS = [name for name in polar.WEIGHTINGS if name not in FIXED]


def build(name, **knobs):
    return polar.WEIGHTINGS[name](**NEEDED.get(name, {}), **knobs)


def losses(n=64, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return 0.01 + 3 * torch.rand(n, generator=generator, dtype=torch.float64).pow(3).to(dtype)


# Every weighting


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_are_one_per_sample_detached_and_precise(name, dtype):
    values = losses(dtype=dtype).requires_grad_()
    weights = build(name)(values, 0.7)
    assert weights.shape == values.shape
    assert not weights.requires_grad
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("name", FIXED)
def test_a_weight_depends_on_its_own_loss_only(name):
    values, weighting = losses(), build(name)
    weights = weighting(values, 0.7)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(1))
    assert torch.equal(weighting(values[order], 0.7), weights[order])
    assert torch.equal(weighting(values[:1], 0.7), weights[:1])


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_and_gradients_are_finite_at_the_ends(name, dtype):
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # the least subnormal
    values = torch.tensor([0.0, smallest, 1e-30, 1.0, 1e30], dtype=dtype, requires_grad=True)
    weighting = build(name)
    for scale in (1.0, 0.0, 1e-30, 1e30):
        weights = weighting(values, scale)
        (gradient,) = torch.autograd.grad(weighting.objective(values, scale).sum(), values)
        assert torch.isfinite(weights).all() and (weights >= 0).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
@given(value=st.floats(0, 2.0**127, width=32), radius=st.floats(1e-6, 1e6))
def test_no_finite_loss_gives_nan(name, value, radius):
    weighting = build(name, radius=radius) if name in [*LAWS, "falling"] else build(name)
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([value, 1.0], dtype=dtype)
        assert torch.isfinite(weighting(x)).all()
        assert not torch.isnan(weighting.objective(x)).any()


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("clip", [(0.0, math.inf), (1.2, 1.6), (0.0, 0.5), (3.0, 4.0)])
def test_the_objective_has_the_weight_as_its_gradient(name, clip):
    weighting = build(name, clip=clip)
    values = losses().requires_grad_()
    transformed = weighting.objective(values, 0.7)
    (gradient,) = torch.autograd.grad(transformed.sum(), values)
    weights = weighting(values, 0.7)
    torch.testing.assert_close(gradient, weights, rtol=0, atol=1e-12)
    # and the value itself moves as the gradient says: W really is the integral of the weight
    step = 1e-6 * values.detach()
    ends = [weighting.objective(values.detach() + sign * step, 0.7) for sign in (1, -1)]
    torch.testing.assert_close((ends[0] - ends[1]) / (2 * step), weights, rtol=1e-4, atol=1e-5)
    assert weights.min() >= clip[0] and weights.max() <= clip[1]


@pytest.mark.parametrize("name", FIXED)
def test_a_clipped_objective_is_continuous_and_flat_where_it_should_be(name):
    weighting = build(name, clip=(1.2, 1.6))
    grid = torch.linspace(0, 30, 200_001, dtype=torch.float64)
    steps = weighting.objective(grid).diff() / grid.diff()
    assert steps.min() >= 1.2 - 1e-6 and steps.max() <= 1.6 + 1e-6


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
@pytest.mark.parametrize("bad", [-1e-3, math.nan, math.inf, -math.inf])
def test_a_bad_loss_is_refused_by_its_index(name, bad):
    values = losses(5)
    values[3] = bad
    with pytest.raises(ValueError, match="loss 3 of 5 is"):
        build(name)(values)


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
def test_the_mean_loss_is_one_unless_told(name):
    weighting, values = build(name), losses()
    assert torch.equal(weighting(values), weighting(values, 1.0))
    assert torch.equal(weighting.objective(values), weighting.objective(values, 1.0))
    for found, expected in zip(
        weighting.evaluate(values), weighting.evaluate(values, 1.0), strict=True
    ):
        assert torch.equal(found, expected)
    assert torch.equal(weighting.evaluate(values, 0.7)[0], weighting(values, 0.7))
    if name in LAWS:
        assert torch.equal(weighting.expected(values), weighting.expected(values, 1.0))
        draws = [weighting.sample(9, torch.Generator().manual_seed(1), *s) for s in ((), (1.0,))]
        assert torch.equal(draws[0].radius, draws[1].radius)


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, torch.tensor(math.nan)])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(ValueError, match="scale is"):
        polar.Uniform()(losses(), scale)


@pytest.mark.parametrize("wrong", [torch.tensor(1.0), torch.ones(3, 4), torch.ones(3).long()])
def test_losses_that_are_not_one_number_per_sample_are_refused(wrong):
    with pytest.raises(ValueError, match="one number per sample"):
        polar.Plain()(wrong)


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
def test_an_empty_batch_has_no_weights(name):
    assert build(name)(torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("name", "knobs", "message"),
    [
        (
            "uniform",
            {"radius": 0.0},
            r"radius is 0.0; it must be a number, from 1e-06 to 1,000,000",
        ),
        ("uniform", {"unit": "metre"}, "unit is 'metre'; it must be one of mean-loss, absolute"),
        ("uniform", {"angle": "measured"}, "only the law `empirical`"),
        ("uniform", {"angle": "isotropic", "dimension": 1}, "from 2 to 100,000"),
        ("uniform", {"angle": "isotropic", "dimension": 2.5}, "must be a whole number"),
        ("uniform", {"dimension": 3}, "only for angle"),
        ("uniform", {"radius": "1"}, "radius is '1'; it must be a number"),
        ("plain", {"clip": 2.0}, "clip is 2.0"),
        ("matched", {"of": "uniform"}, "of is 'uniform'; it must be a Weighting"),
        ("point", {"strength": -1.0}, "strength is -1.0"),
        ("plain", {"clip": (2.0, 1.0)}, "clip is"),
        ("plain", {"normalise": "mean"}, "normalise is 'mean'"),
        ("constant", {"value": math.nan}, "value is nan"),
        ("linear", {"corollary": 2}, "needs either c1 or radius"),
        ("linear", {"corollary": 2, "c1": 1.0, "radius": 1.0}, "needs either c1 or radius"),
        ("linear", {"radius": 1.0}, "does not depend on a radius"),
        ("linear", {"c1": -1.0}, "c1 is -1.0"),
        ("linear", {"corollary": 3, "c1": 1.0}, "corollary is 3"),
        ("focal", {"gamma": -1.0}, "gamma is -1.0"),
        ("falling", {"radius": 0.0}, "radius is 0.0"),
        ("falling", {"strength": -1.0}, "strength is -1.0"),
        ("shuffled", {"window": 0}, "window is 0"),
        ("averaged", {"of": 1.0}, "of is 1.0"),
    ],
)
def test_a_wrong_knob_is_refused_when_built(name, knobs, message):
    with pytest.raises(ValueError, match=message):
        build(name, **knobs)


# The single weightings


def test_plain_weights_are_one():
    values = losses()
    assert torch.equal(polar.Plain()(values), torch.ones_like(values))
    assert torch.equal(polar.Plain().objective(values), values)


def test_matched_gives_everybody_the_mean_weight():
    values, law = losses(), polar.Uniform(radius=0.5)
    weights = polar.Matched(of=law)(values, 0.7)
    torch.testing.assert_close(weights, law(values, 0.7).mean().expand(64))
    assert law(values, 0.7).std() > 0.1  # while the law itself prefers some


def test_matched_weights_are_clipped_by_its_own_clip():
    values, law = losses(), polar.Linear()
    mean = law(values).mean().item()
    control = polar.Matched(of=law, clip=(0.0, mean - 0.1))
    assert control(values).tolist() == pytest.approx([mean - 0.1] * 64)
    assert polar.Matched(of=law, clip=(mean + 0.1, 9.0))(values)[0] == pytest.approx(mean + 0.1)


@pytest.mark.parametrize("name", FIXED)
def test_a_weighting_never_decreases_with_the_loss_unless_it_says_that_it_falls(name):
    weighting = build(name)
    steps = weighting(torch.logspace(-8, 8, 2001).double(), 0.7).diff()
    assert (-steps if weighting.falls else steps).min() >= -1e-12
    assert weighting.falls == (name == "falling")


@pytest.mark.parametrize("strength", [0.5, 8.0])
def test_falling_is_the_mirror_image_of_the_exponential_law(strength):
    values, knobs = losses(), {"strength": strength, "radius": 0.6}
    law, mirror = polar.Exponential(**knobs), polar.Falling(**knobs)
    sums = law(values, 0.7) + mirror(values, 0.7)
    torch.testing.assert_close(sums, torch.full_like(values, 2 + strength))
    assert mirror(torch.zeros(1))[0] == 1 + strength
    assert mirror(torch.full((1,), 1e9)).item() == pytest.approx(1)


def test_an_isotropic_angle_has_256_dimensions_unless_told():
    values = losses()
    assert torch.equal(
        polar.Point(angle="isotropic")(values),
        polar.Point(angle="isotropic", dimension=256)(values),
    )


@pytest.mark.parametrize(("strength", "value"), [(1.0, 2.0), (0.5, 3.0)])
def test_linear_weights_are_the_printed_ones(strength, value):
    x = torch.tensor([value], dtype=torch.float64)
    first = polar.Linear(strength=strength)(x)
    assert first.item() == pytest.approx(1 + strength * (0.5 + 2 * 0.25 * value))
    second = polar.Linear(corollary=2, c1=1e-4, strength=strength)(x)
    assert second.item() == pytest.approx(1 + strength * (1e-4 + 1e-4 * value))
    by_radius = polar.Linear(corollary=2, radius=0.0178, strength=strength)(x)
    c1 = (1 - math.exp(-1)) * 0.0178**2 / 2
    assert c1 == pytest.approx(1e-4, rel=0.01)
    assert by_radius.item() == pytest.approx(1 + strength * (c1 + c1 * value))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.0, 5.0])
def test_the_focal_objective_is_the_integral_of_its_weight(gamma):
    weighting = polar.Focal(gamma=gamma)
    for value in (1e-3, 0.5, 3.0, 39.0, 41.0, 500.0):
        exact = integrate.quad(
            lambda t: (1 - math.exp(-t)) ** gamma, 0, value, epsabs=1e-12, points=[min(value, 5)]
        )[0]
        ours = weighting.objective(torch.tensor([value], dtype=torch.float64)).item()
        assert ours == pytest.approx(exact, rel=1e-7)


# Exact laws


def sphere_slope(u, dimension):
    """dE[Φ]/du for r = 1 and θ isotropic, by adaptive quadrature over the angle."""
    log_constant = math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2)

    def integrand(angle):
        log_density = log_constant - 0.5 * math.log(math.pi)
        if dimension > 2:
            log_density += (dimension - 2) * math.log(max(math.sin(angle), 1e-300))
        return math.exp(log_density) * (u - math.cos(angle)) / side(angle)

    def side(angle):
        return math.sqrt((u - 1) ** 2 + 4 * u * math.sin(angle / 2) ** 2) or 1e-300

    width = 8 / math.sqrt(dimension)
    ends = [math.pi / 2 - width, math.pi / 2, math.pi / 2 + width, 1e-6, 1e-4, 1e-2, abs(u - 1)]
    points = sorted({0.0, math.pi, *(p for p in ends if 0 < p < math.pi)})
    pieces = itertools.pairwise(points)
    return sum(integrate.quad(integrand, a, b, epsabs=1e-12, limit=500)[0] for a, b in pieces)


def elliptic_slope(u):
    """The same for θ uniform, from the complete elliptic integrals of docs/paper.md."""
    if u < 1e-3:
        return u / 2 + u**3 / 16
    m = 4 * u / (1 + u) ** 2
    if m > 1 - 1e-15:
        return 2 / math.pi
    return ((u + 1) * special.ellipe(m) + (u - 1) * special.ellipk(m)) / (math.pi * u)


def law_slope(name, u):
    """dE[Φ]/du for R = 1 by adaptive quadrature over the radius, θ uniform."""
    if name == "point":
        return elliptic_slope(u)
    top, density = (1.0, lambda r: 1.0) if name == "uniform" else (60.0, lambda r: math.exp(-r))
    points = [0.0, *sorted({min(top, u * 10.0**k) for k in range(-3, 12)} | {top})]
    pieces = itertools.pairwise(points)
    return sum(
        integrate.quad(lambda r: density(r) * elliptic_slope(u / r), a, b, epsabs=1e-12, limit=300)[
            0
        ]
        for a, b in pieces
    )


@pytest.mark.parametrize("name", SYMMETRIC)
def test_exact_weights_agree_with_adaptive_quadrature(name):
    near_one = 1 + np.array([-0.1, -1e-3, -1e-5, 0.0, 1e-5, 1e-3, 0.1])
    ratios = np.concatenate([10.0 ** np.linspace(-8, 8, 65), near_one])
    exact = 1 + np.array([law_slope(name, u) for u in ratios])
    for radius in (1.0, 37.0, 1e-3):
        law = build(name, radius=radius, unit="absolute")
        double = law(torch.from_numpy(ratios * radius)).numpy()
        single = law(torch.from_numpy(ratios * radius).float()).numpy()
        assert np.abs(double - exact).max() < 1e-9
        assert np.abs(single - exact).max() < 1e-6


def test_exact_weights_are_those_of_the_documentation():
    ratios = torch.tensor([0.01, 0.1, 0.5, 1, 2, 5, 20], dtype=torch.float64)
    uniform = [1.0325, 1.2094, 1.6408, 1.9014, 1.9785, 1.9967, 1.9998]
    exponential = [1.0296, 1.1807, 1.5094, 1.7051, 1.8732, 1.9777, 1.9987]
    assert polar.Uniform()(ratios).tolist() == pytest.approx(uniform, abs=5e-5)
    assert polar.Exponential()(ratios).tolist() == pytest.approx(exponential, abs=5e-5)


@pytest.mark.parametrize("dimension", [2, 3, 5, 32, 33, 256, 5000])
def test_isotropic_angles_agree_with_adaptive_quadrature(dimension):
    ratios = [1e-8, 1e-3, 0.2, 0.9, 0.999, 1.001, 1.5, 10.0, 1e4]
    law = polar.Point(angle="isotropic", dimension=dimension)
    ours = law(torch.tensor(ratios, dtype=torch.float64)) - 1
    exact = [sphere_slope(u, dimension) for u in ratios]
    np.testing.assert_allclose(ours.numpy(), exact, atol=1e-8)


def test_isotropic_in_the_plane_is_uniform():
    values = losses()
    flat = polar.Uniform(angle="isotropic", dimension=2)
    assert torch.equal(flat(values), polar.Uniform()(values))


def test_in_many_dimensions_neighbours_lie_at_right_angles():
    values = losses()
    law = polar.Point(angle="isotropic", dimension=100_000, radius=0.4)
    limit = 1 + values / torch.sqrt(values**2 + 0.4**2)
    torch.testing.assert_close(law(values), limit, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("angle", ["uniform", "isotropic"])
def test_exact_weights_rise_from_one_to_one_plus_strength(name, strength, angle):
    grid = torch.cat([torch.zeros(1), torch.logspace(-12, 12, 100_001)]).double()
    near_one = torch.linspace(0.999, 1.001, 100_001, dtype=torch.float64)
    law = build(name, strength=strength, angle=angle)
    for values in (grid, near_one):
        weights = law(values)
        assert weights.diff().min() >= -1e-15
        assert weights.min() >= 1 and weights.max() <= 1 + strength
    assert law(grid)[0] == 1
    assert law(grid)[-1] == pytest.approx(1 + strength, abs=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("angle", ["uniform", "isotropic"])
def test_the_expectation_and_its_slope_are_those_of_sampled_neighbours(name, angle):
    knobs = {"dimension": 5} if angle == "isotropic" else {}
    law = build(name, radius=0.8, angle=angle, strength=0.6, **knobs)
    generator = torch.Generator().manual_seed(7)
    drawn = law.sample(400_000, generator, scale=0.5)
    values = torch.tensor([0.0, 0.05, 0.3, 0.9, 4.0], dtype=torch.float64, requires_grad=True)
    expected = law.expected(values, 0.5)
    (slope,) = torch.autograd.grad(expected.sum(), values)
    torch.testing.assert_close(law(values, 0.5), 1 + 0.6 * slope)
    torch.testing.assert_close(law.objective(values, 0.5), values + 0.6 * expected)
    for i, value in enumerate(values):
        x = value.detach().expand(400_000).clone().requires_grad_()
        neighbour = polar.phi(x, drawn.radius, drawn.angle)
        (derivative,) = torch.autograd.grad(neighbour.sum(), x)
        for exact, sampled in ((expected[i], neighbour), (slope[i], derivative)):
            error = sampled.std() / math.sqrt(400_000)
            assert abs((exact - sampled.mean()).detach().item()) < 5 * error + 1e-9


@pytest.mark.parametrize("name", LAWS)
def test_a_radius_in_mean_losses_scales_with_the_loss(name):
    values = losses()
    relative = build(name, radius=0.8)
    torch.testing.assert_close(relative(values * 9, 9.0), relative(values))
    absolute = build(name, radius=0.8 * 9.0, unit="absolute")
    torch.testing.assert_close(absolute(values, 123.0), relative(values, 9.0))


# Measured neighbours


def cloud(n=2_000, dimension=6, seed=3):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(3, n, dimension, generator=generator, dtype=torch.float64)
    prediction, target = points[0], points[1]
    return prediction, prediction + 0.5 * points[2], target


def test_measured_angles_rebuild_the_losses_of_the_neighbours():
    prediction, neighbour, target = cloud()
    loss, radius = (target - prediction).norm(dim=1), (neighbour - prediction).norm(dim=1)
    truth = (neighbour - target).norm(dim=1)
    measured = polar.Neighbours.measured(loss, radius, truth)
    torch.testing.assert_close(polar.phi(loss, measured.radius, measured.angle), truth)
    direction = torch.nn.functional.cosine_similarity(target - prediction, neighbour - prediction)
    torch.testing.assert_close(torch.cos(measured.angle), direction)


def test_triangles_without_a_shape_are_solved_by_a_convention():
    """No loss or no radius: a right angle. No triangle at all: flattened, to 0 or to pi."""
    loss, radius = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0]), torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    sides = torch.tensor([1.0, 1.0, 0.0, 2.0, 0.5])
    found = polar.Neighbours.measured(loss, radius, sides)
    expected = [math.pi / 2, math.pi / 2, 0.0, math.pi, 0.0]
    assert found.angle.tolist() == pytest.approx(expected) and found.angle.dtype == torch.float64
    assert torch.equal(found.radius, radius.double())
    assert polar.Neighbours.measured(*(3 * torch.ones(1),) * 3).angle.item() == pytest.approx(
        math.pi / 3
    )


def test_draws_of_measured_radii_have_double_precision():
    generator = torch.Generator().manual_seed(0)
    for angle in ("uniform", "isotropic", "measured"):
        points = polar.Neighbours(NEIGHBOURS.radius.double(), NEIGHBOURS.angle.double())
        drawn = polar.Empirical(neighbours=points, angle=angle, radius=2.0).sample(50, generator)
        assert drawn.angle.dtype == drawn.radius.dtype == torch.float64
        assert {*drawn.radius.tolist()} == {2 * r for r in points.radius.tolist()}
        if angle != "measured":  # float32 has at most 24 bits
            assert any(float(np.float32(x)) != x for x in drawn.angle.tolist())


def test_a_law_fitted_to_samples_of_a_law_is_that_law():
    law = polar.Exponential(radius=0.8, unit="absolute")
    drawn = law.sample(100_000, torch.Generator().manual_seed(0))
    fitted = polar.Empirical(neighbours=drawn, unit="absolute")
    values = losses()
    torch.testing.assert_close(fitted(values), law(values), rtol=0, atol=0.01)
    radii_only = polar.Empirical(neighbours=drawn, unit="absolute", angle="uniform")
    torch.testing.assert_close(radii_only(values), law(values), rtol=0, atol=0.01)


def test_an_empirical_weight_starts_at_one_minus_the_mean_cosine():
    law = polar.Empirical(neighbours=NEIGHBOURS)
    start = law(torch.zeros(1, dtype=torch.float64)).item()
    assert start == pytest.approx(1 - torch.cos(NEIGHBOURS.angle).mean().item())
    grid = law(torch.logspace(-6, 6, 1001))
    assert grid.diff().min() >= -1e-6 and grid.max() <= 2


def test_neighbours_that_are_the_sample_itself_double_the_weight():
    same = polar.Neighbours(torch.zeros(3), torch.zeros(3))
    values = torch.tensor([0.0, 1.0, 5.0])
    assert torch.equal(polar.Empirical(neighbours=same)(values), torch.full((3,), 2.0))


def test_neighbours_survive_their_file(tmp_path):
    path = tmp_path / "neighbours.json"
    NEIGHBOURS.save(path)
    values = losses()
    from_file = polar.Empirical(neighbours=path)(values)
    assert torch.equal(from_file, polar.Empirical(neighbours=NEIGHBOURS)(values))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": "other"}',
        '{"format": "augless neighbours 1", "radius": [1], "angle": []}',
        '{"format": "augless neighbours 1", "radius": [], "angle": []}',
        '{"format": "augless neighbours 1", "radius": ["a"], "angle": [0]}',
        '{"format": "augless neighbours 1", "radius": [NaN], "angle": [0]}',
        '{"format": "augless neighbours 1", "radius": [1], "angle": [4]}',
        "\x80pickle",
    ],
)
def test_a_foreign_file_of_neighbours_is_refused_when_the_law_is_built(tmp_path, content):
    path = tmp_path / "neighbours.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"neighbours\.json is not a file of neighbours"):
        polar.Empirical(neighbours=path)


# The objective in somebody's loop


def train(weighting, micro_batches, steps=6, rank=0, ranks=1, momentum=0.0):
    """Fit a line by robust regression in float64; return the parameters and the running means."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(steps, 24, 3, generator=generator, dtype=torch.float64)
    targets = torch.randn(steps, 24, generator=generator, dtype=torch.float64)
    parameters = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([parameters], lr=0.1, momentum=momentum)
    objective = polar.Objective(weighting, optimizer)
    for step in range(steps):
        mine = slice(rank, None, ranks)
        chunks = [chunk[mine].chunk(micro_batches) for chunk in (inputs[step], targets[step])]
        for x, y in zip(*chunks, strict=True):
            loss = objective((x @ parameters - y).abs()) / micro_batches
            loss.backward()
        if ranks > 1:
            torch.distributed.all_reduce(parameters.grad)
            parameters.grad /= ranks
        optimizer.step()
        optimizer.zero_grad()
    return parameters.detach(), objective


ONES = [
    polar.Exponential(radius=0.5),
    polar.Uniform(radius=0.5, normalise="running-mean"),
    polar.Linear(),
    polar.Empirical(neighbours=NEIGHBOURS, clip=(0.5, 1.5)),
]


MATCHED = [
    polar.Matched(of=polar.Uniform(radius=0.5)),
    polar.Matched(of=polar.Linear(), clip=(0.0, 1.7)),
    polar.Matched(of=polar.Uniform(radius=0.5, normalise="running-mean")),
    polar.Averaged(of=polar.Uniform(radius=0.5)),
    polar.Shuffled(of=polar.Uniform(radius=0.5), window=40),
]


@pytest.mark.parametrize("weighting", [*ONES, *MATCHED[-2:]], ids=lambda w: type(w).__name__)
def test_accumulating_gradients_changes_nothing(weighting):
    whole, one = train(weighting, micro_batches=1)
    for pieces in (2, 4, 8):
        parts, other = train(weighting, micro_batches=pieces)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)
        for name in ("mean_loss", "mean_weight"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), abs=1e-12)


def lonely(rank):
    """Step where one rank has no losses, and validate on one rank alone: nobody may wait."""
    parameter = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    objective = polar.Objective(polar.Matched(of=polar.Linear()), optimizer)
    objective(parameter * torch.tensor([1.0, 2.0 + rank])).backward()
    optimizer.step()
    if rank == 0:
        with torch.no_grad():
            objective(torch.tensor([1.0, 2.0]))
    idle = polar.Objective(polar.Exponential(), optimizer)
    if rank == 0:
        idle(parameter * torch.tensor([1.0, 3.0])).backward()
    optimizer.step()
    assert idle.mean_loss is not None  # rank 1 learnt it from rank 0


def rank_main(rank, ranks, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine calls itself
    address = f"file://{folder}/rendezvous"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)
    results = [train(w, micro_batches=1, rank=rank, ranks=ranks)[0] for w in [*ONES, *MATCHED]]
    lonely(rank)
    if rank == 0:
        torch.save(results, f"{folder}/parameters.pt")
    torch.distributed.destroy_process_group()


def test_two_ranks_take_the_same_steps_as_one(tmp_path):
    multiprocessing.spawn(rank_main, (2, str(tmp_path)), nprocs=2)
    together = torch.load(tmp_path / "parameters.pt", weights_only=True)
    alone = [train(w, 1)[0] for w in [*ONES, *MATCHED]]
    for ours, theirs in zip(together, alone, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_the_first_step_is_plain_where_the_mean_loss_is_needed():
    values = losses().requires_grad_()
    optimizer = torch.optim.SGD([values], lr=0.0)
    law = polar.Uniform(radius=0.5)
    objective = polar.Objective(law, optimizer)
    assert torch.equal(objective(values), values.mean())
    optimizer.step()
    assert objective.mean_loss == pytest.approx(values.mean().item())
    torch.testing.assert_close(objective(values), law.objective(values, objective.mean_loss).mean())
    absolute = polar.Objective(polar.Uniform(unit="absolute"), optimizer)
    torch.testing.assert_close(absolute(values), polar.Uniform().objective(values).mean())


def test_normalised_weights_have_mean_one():
    objective = polar.Objective(polar.Uniform(radius=0.5, normalise="running-mean"), None)
    for step in range(30):
        values = losses(5_000, seed=step).requires_grad_()
        (gradient,) = torch.autograd.grad(objective.per_sample(values).sum(), values)
        objective.step()
        assert gradient.mean().item() == pytest.approx(1, abs=0.02)
    assert 1.3 < objective.mean_weight < 2
    assert gradient.std() > 0.1


def test_a_sample_counts_in_the_running_means_as_often_as_it_is_said_to():
    """As one of weight 3 would, were it there three times."""
    values = losses(4)
    counts = torch.tensor([1.0, 3.0, 0.0, 2.0])
    repeated = values.repeat_interleave(counts.long())
    for weighting in (polar.Linear(), polar.Matched(of=polar.Linear())):
        one, other = polar.Objective(weighting, None), polar.Objective(weighting, None)
        one.per_sample(values.clone().requires_grad_(), counts)
        other.per_sample(repeated.clone().requires_grad_())
        weights = one.weights.repeat_interleave(counts.long())
        torch.testing.assert_close(weights, other.weights)
        one.step(), other.step()
        assert one.state_dict() == pytest.approx(other.state_dict())


@pytest.mark.parametrize("memory", [1.0, 4.0])
def test_a_running_mean_forgets_over_its_memory(memory):
    objective = polar.Objective(polar.Plain(), None, memory=memory)
    mean = None
    for value in (2.0, 6.0, 4.0):
        objective(torch.full((3,), value, requires_grad=True))
        objective.step()
        mean = value if mean is None else mean + (value - mean) / memory
        assert objective.mean_loss == pytest.approx(mean)


def test_validation_leaves_the_running_means_alone():
    _, objective = train(polar.Exponential(), 1)
    before = objective.state_dict()
    objective(losses())
    with torch.no_grad():
        objective(losses().requires_grad_())
    objective.step()
    assert objective.state_dict() == before


def test_an_objective_goes_on_from_its_state():
    weighting = polar.Uniform(normalise="running-mean")
    _, objective = train(weighting, 1)
    resumed = polar.Objective(weighting, None)
    resumed.load_state_dict(objective.state_dict())
    values = losses().requires_grad_()
    assert torch.equal(resumed(values), objective(values))
    for one in (resumed, objective):
        one.step()
    assert resumed.state_dict() == objective.state_dict()


def test_a_bad_loss_is_refused_before_the_first_step_too():
    objective = polar.Objective(polar.Exponential(), None)
    with pytest.raises(ValueError, match="loss 0 of 1 is nan"):
        objective(torch.tensor([math.nan], requires_grad=True))


def test_the_control_is_normalised_like_what_it_controls():
    law = polar.Uniform(radius=0.5, normalise="running-mean")
    controls = [build(name, of=law) for name in CONTROLS if name != "shuffled"]
    for weighting in (law, *controls, polar.Shuffled(of=law, window=500)):
        objective = polar.Objective(weighting, None)
        for _ in range(5):
            values = losses(500).requires_grad_()
            (gradient,) = torch.autograd.grad(objective.per_sample(values).sum(), values)
            objective.step()
        assert gradient.mean().item() == pytest.approx(1, abs=1e-6)


def weights_over_steps(weighting, steps, seed=0, size=50):
    """Return the weights that samples were given, and those the law would have given, by step."""
    objective = polar.Objective(weighting, None, seed=seed)
    given, own = [], []
    for step in range(steps):
        # As with batches of one length, all of a batch is hard or all of it is easy.
        values = (losses(size, seed=step) * (1 + step % 7)).requires_grad_()
        objective.per_sample(values)
        given.append(objective.weights)
        own.append(polar.Linear()(values))
        objective.step()
    return torch.stack(given), torch.stack(own), objective


def test_averaged_gives_everybody_the_running_mean_weight():
    given, own, objective = weights_over_steps(polar.Averaged(of=polar.Linear()), 30)
    mean = None
    for step in range(30):
        expected = 1.0 if mean is None else mean
        assert given[step].tolist() == pytest.approx([expected] * 50)
        now = own[step].mean().item()
        mean = now if mean is None else mean + (now - mean) / 100
    assert objective.mean_weight == pytest.approx(mean)


def test_shuffled_gives_the_same_weights_to_other_samples():
    window = 500
    weighting = polar.Shuffled(of=polar.Linear(), window=window)
    given, own, objective = weights_over_steps(weighting, 60)
    assert (given[:10] == 1).all() and (given[10:] != 1).all()  # ten batches fill the window
    # Each weight is given once, or still waits: nothing is lost and nothing comes twice.
    waiting = torch.tensor(objective.state_dict()["window"]["weights"], dtype=torch.float64)
    assert len(waiting) == window
    out = torch.cat([given[10:].flatten(), waiting]).sort().values
    torch.testing.assert_close(out, own.flatten().sort().values)
    # No relation to the sample's own loss, nor to that of its batch.
    after, before = given[10:], own[10:]
    assert abs(np.corrcoef(after.flatten(), before.flatten())[0, 1]) < 0.1
    assert abs(np.corrcoef(after.mean(1), before.mean(1))[0, 1]) < 0.35
    assert np.corrcoef(before.mean(1), before.mean(1))[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("normalise", ["none", "running-mean"])
@pytest.mark.parametrize("name", polar.WEIGHTINGS)
def test_the_weights_that_an_objective_tells_are_those_that_it_gives(name, normalise):
    knobs = {"window": 50} if name == "shuffled" else {}
    objective = polar.Objective(build(name, normalise=normalise, **knobs), None)
    for step in range(4):
        values = losses(50, seed=step).requires_grad_()
        (given,) = torch.autograd.grad(objective.per_sample(values).sum(), values)
        torch.testing.assert_close(objective.weights, given)
        objective.step()


def staged(**knobs):
    parts = {"first": polar.Falling(normalise="running-mean"), "then": polar.Linear()}
    return polar.Staged(**parts | {"after": 100} | knobs)


def test_staged_weights_change_after_so_many_samples():
    objective = polar.Objective(staged(after=150), None, memory=1.0)
    mean = losses(50).mean().item()
    own = polar.Falling()(losses(50), mean)
    ones = torch.ones(50)  # until the mean loss is known, and then the mean weight
    for weights in [ones, ones, own / own.mean(), polar.Linear()(losses(50), mean)]:
        objective.per_sample(losses(50).requires_grad_())
        torch.testing.assert_close(objective.weights, weights.double())
        objective.step()
    assert objective.state_dict()["samples"] == 200


@pytest.mark.parametrize("control", [None, "shuffled", "averaged", "matched"])
def test_what_is_staged_goes_on_where_it_stopped(control):
    knobs = {"window": 20} if control == "shuffled" else {}
    weighting = polar.WEIGHTINGS[control](of=staged(), **knobs) if control else staged()
    whole, first = (polar.Objective(weighting, None) for _ in range(2))
    for step in range(8):
        for objective in {whole, first}:
            objective.per_sample(losses(20, seed=step).requires_grad_())
            objective.step()
        assert torch.equal(whole.weights, first.weights), step
        stopped = first.state_dict()
        assert stopped["samples"] == 20 * (step + 1)
        first = polar.Objective(weighting, None)
        first.load_state_dict(stopped)
    assert (whole.weights != 1).any()
    with pytest.raises(ValueError, match="number of samples"):
        first.load_state_dict(stopped | {"samples": -1})
    with pytest.raises(ValueError, match="other keys than"):
        first.load_state_dict({k: v for k, v in stopped.items() if k != "samples"})


def test_a_control_of_what_is_staged_gives_no_weights_of_the_stage_before():
    weighting = polar.Shuffled(
        of=polar.Staged(first=polar.Constant(value=5.0), then=polar.Constant(value=2.0), after=60),
        window=20,
    )
    objective, seen = polar.Objective(weighting, None), []
    for step in range(6):
        objective.per_sample(losses(20, seed=step).requires_grad_())
        seen.append(objective.weights.unique().tolist())
        objective.step()
    assert seen == [[1], [5], [5], [1], [2], [2]]


def test_what_staged_clips_and_normalises_it_does_in_both_stages():
    one = staged(clip=(1.1, 3.0), normalise="running-mean")
    first, then = (one.of_stage(stage) for stage in (0, 1))
    assert first.clip == then.clip == (1.1, 3.0) and first.normalised and then.normalised
    narrow = polar.Staged(then=polar.Exponential(clip=(0.5, 2.0)), clip=(1.0, 9.0))
    assert narrow.of_stage(1).clip == (1.0, 2.0)
    weights = narrow(losses(), 0.7)
    assert weights.min() >= 1 and weights.max() <= 2


def test_neighbours_of_a_later_stage_are_read_at_the_start(tmp_path):
    NEIGHBOURS.save(tmp_path / "n.json")
    later = polar.Empirical(neighbours=str(tmp_path / "n.json"))
    objective = polar.Objective(polar.Staged(then=later, after=50), None)
    (tmp_path / "n.json").unlink()
    for _ in range(2):
        objective.per_sample(losses(50).requires_grad_())
        objective.step()
    assert (objective.per_sample(losses(50).requires_grad_()) > losses(50)).all()


@pytest.mark.parametrize("part", [polar.Staged(), polar.Matched()])
def test_a_stage_is_no_control_and_not_staged(part):
    with pytest.raises(ValueError, match="a control may be `of` staged"):
        polar.Staged(then=part)


def test_until_they_are_known_weights_are_ones_of_the_losses_own_precision():
    for dtype, expected in ((torch.float16, torch.float32), (torch.float64, torch.float64)):
        objective = polar.Objective(polar.Exponential(), None)
        values = objective.per_sample(losses(dtype=dtype).requires_grad_())
        assert objective.weights.dtype == values.dtype == expected


def test_weights_that_were_shuffled_lose_no_precision():
    weighting = polar.Shuffled(of=polar.Linear(), window=4)
    objective = polar.Objective(weighting, None)
    for _ in range(2):
        values = losses(4).requires_grad_()
        objective.per_sample(values)
        objective.step()
    assert sorted(objective.weights.tolist()) == sorted(polar.Linear()(values).tolist())


def test_the_ranks_of_a_window_share_out_a_step_as_one_would():
    alone = polar.controls.Window(6, seed=3)
    ranks = [polar.controls.Window(6, seed=3) for _ in range(2)]
    for step in range(5):
        fresh = [10.0 * step + k for k in range(4)]
        taken = alone.take(4, 0, 1)
        shares = [window.take(2, rank, 2) for rank, window in enumerate(ranks)]
        assert taken is None or taken == [w for pair in zip(*shares, strict=True) for w in pair]
        assert (taken is None) == (step < 2) == (shares[0] is None)
        alone.turn([fresh])
        for window in ranks:
            window.turn([fresh[0::2], fresh[1::2]])
            assert window.state_dict() == alone.state_dict()
    assert alone.step == 5


def test_shuffled_alone_gives_a_batch_its_weights_turned_by_one():
    values = losses()
    weights = polar.Shuffled(of=polar.Exponential())(values, 0.7)
    assert torch.equal(weights, polar.Exponential()(values, 0.7).roll(1))


def test_shuffling_is_keyed_by_its_seed_and_goes_on_from_its_state():
    weighting = polar.Shuffled(of=polar.Linear(), window=100)
    one, _, first = weights_over_steps(weighting, 6)
    again, _, second = weights_over_steps(weighting, 6)
    other, *_ = weights_over_steps(weighting, 6, seed=1)
    assert torch.equal(one, again) and not torch.equal(one, other)
    state = json.loads(json.dumps(first.state_dict()))
    resumed = polar.Objective(weighting, None)
    resumed.load_state_dict(state)
    values = losses(50).requires_grad_()
    for objective in (second, resumed):
        objective.per_sample(values)
    assert torch.equal(resumed.weights, second.weights)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_clipped_by_its_own_clip(name):
    knobs = {"window": 50} if name == "shuffled" else {}
    weighting = build(name, of=polar.Linear(), clip=(0.0, 1.6), **knobs)
    given, own, _ = weights_over_steps(weighting, 4)
    assert given.max() == pytest.approx(1.6) and own.max() > 1.7


@pytest.mark.parametrize("wrong", ["exponential", polar.Exponential])
def test_something_else_than_a_weighting_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="give a weighting, such as"):
        polar.Objective(wrong, None)


def test_a_forgotten_step_is_noticed():
    objective = polar.Objective(polar.Exponential(), None)
    values = losses(2).requires_grad_()
    with pytest.warns(UserWarning, match="running means stand still"):
        for _ in range(1_000):
            objective(values)


def test_the_losses_are_checked_once_a_call(monkeypatch):
    calls = []
    check = polar.weightings.check_losses
    for module in (polar.weightings, polar.objective):
        monkeypatch.setattr(module, "check_losses", lambda x: (calls.append(1), check(x))[1])
    objective = polar.Objective(polar.Uniform(unit="absolute"), None)
    objective(losses().requires_grad_())
    polar.Uniform().objective(losses())
    polar.Uniform()(losses())
    assert len(calls) == 3


def test_the_mean_over_a_batch_divides_by_its_size():
    for size in (1, 2, 5):
        values = losses(size).requires_grad_()
        assert polar.Objective(polar.Plain(), None)(values).item() == values.mean().item()


def test_a_loaded_state_forgets_what_was_pending():
    """Losses, weights that wait and calls since the last step belong to the run that was left."""
    weighting = polar.Shuffled(of=polar.Linear(), window=4)
    saved = polar.Objective(weighting, None)
    saved.per_sample(losses(4).requires_grad_())
    saved.step()
    state = json.loads(json.dumps(saved.state_dict()))
    other = polar.Objective(weighting, None)
    other.per_sample(losses(3, seed=1).requires_grad_())
    other.load_state_dict(state)
    other.step()
    assert other.state_dict() == state
    values = losses(4, seed=2).requires_grad_()
    for one in (saved, other):
        one.per_sample(values)
        one.step()
    assert other.state_dict() == saved.state_dict() != state


@pytest.mark.parametrize(
    ("change", "fine"),
    [
        ({}, True),
        ({"step": 0}, True),
        ({"step": -1}, False),
        ({"step": True}, False),
        ({"step": 1.0}, False),
        ({"weights": [0.0, 1]}, True),
        ({"weights": [0.0] * 4}, True),
        ({"weights": [0.0] * 5}, False),
        ({"weights": [-1.0]}, False),
        ({"weights": [math.inf]}, False),
        ({"weights": [True]}, False),
        ({"weights": [1.0, "x"]}, False),
        ({"weights": []}, True),
        ({"weights": (1.0,)}, False),
        ({"more": 1}, False),
    ],
)
def test_the_state_of_a_window_is_checked(change, fine):
    window = polar.controls.Window(4, seed=0)
    state = {"weights": [1.0, 2.0], "step": 7} | change
    if not fine:
        with pytest.raises(ValueError, match="the weights that wait"):
            window.load_state_dict(state)
        assert window.state_dict() == {"weights": [], "step": 0}
        return
    window.load_state_dict(state)
    assert window.state_dict() == state and window.weights is not state["weights"]


@pytest.mark.parametrize(
    "change",
    [{"mean_loss": -1.0}, {"mean_weight": math.inf}, {"mean_loss": True}, {"mean_weight": "1"}],
)
def test_a_state_whose_means_are_no_numbers_is_refused(change):
    objective = polar.Objective(polar.Exponential(), None)
    with pytest.raises(ValueError, match="a running mean is no finite number"):
        objective.load_state_dict({"mean_loss": 1.0, "mean_weight": 1.0} | change)
    with pytest.raises(ValueError, match="other keys than mean_loss, mean_weight"):
        objective.load_state_dict({"mean_loss": 1.0})
    objective.load_state_dict({"mean_loss": 0.0, "mean_weight": None})
    assert (objective.mean_loss, objective.mean_weight) == (0.0, None)


def test_an_empty_batch_costs_nothing():
    losses = torch.zeros(0, requires_grad=True)
    value = polar.Objective(polar.Plain(), None)(losses)
    value.backward()
    assert value.item() == 0.0 and losses.grad is not None and len(losses.grad) == 0


def test_an_objective_asks_for_the_optimiser_that_steps_after_a_few_batches():
    parameter = torch.nn.Parameter(torch.ones(4))
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    objective = polar.Objective(polar.WEIGHTINGS["exponential"](), other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            objective(parameter**2)
    with pytest.warns(UserWarning, match="8 batches without an optimiser step") as said:
        for _ in range(16):
            objective(parameter**2)
    assert len(said) == 1
    objective.step()
    alone = polar.Objective(polar.WEIGHTINGS["exponential"](), None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            objective(parameter**2)
        for _ in range(32):
            alone(parameter**2)


def test_neighbours_come_back_from_a_file_to_the_bit(tmp_path):
    radius = torch.tensor([0.1, 1 / 3, 1e300], dtype=torch.float64)
    polar.Neighbours(radius, torch.tensor([0.0, 0.1, math.pi], dtype=torch.float64)).save(
        tmp_path / "neighbours.json"
    )
    loaded = polar.Neighbours.load(tmp_path / "neighbours.json")
    assert torch.equal(loaded.radius, radius) and loaded.angle[2] == math.pi


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"format": "augless neighbours 1"}',
        '{"format": "augless neighbours 1", "radius": ["x"], "angle": [1]}',
        '{"format": "augless neighbours 1", "radius": [1e999], "angle": [1]}',
        '{"format": "augless neighbours 1", "radius": [1], "angle": [1, 2]}',
        f'{{"format": "augless neighbours 1", "radius": [1{"0" * 400}], "angle": [1]}}',
    ],
    ids=lambda content: content[-30:],
)
def test_a_file_that_holds_no_neighbours_is_refused_in_a_line(tmp_path, content):
    (tmp_path / "n.json").write_text(content)
    with pytest.raises(ValueError, match="is not a file of neighbours") as caught:
        polar.Neighbours.load(tmp_path / "n.json")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
