"""Transport against its definition, against POT, and against itself in other clothes."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from augless import transport

OPTIMAL = ("exact", "ipot")
KINDS = (
    "uniform", "zero", "constant", "ties", "binary", "blocks", "cauchy", "lognormal", "pareto",
    "plane", "line", "words", "permuted", "separable", "spike", "needle", "mixed",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclasses.dataclass(frozen=True)
class Batch:
    """Problems as a solver gets them, with padding anywhere and anything in it."""

    cost: Tensor
    source_mask: Tensor
    target_mask: Tensor
    source_mass: Tensor
    target_mass: Tensor

    def solve(self, name: str) -> transport.Plan:
        return transport.SOLVERS[name](
            self.cost, self.source_mask, self.target_mask, self.source_mass, self.target_mass
        )

    def unpadded(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Cost, source and target masses of each problem in float64."""
        for cost, rows, columns, source, target in zip(
            self.cost, self.source_mask, self.target_mask, self.source_mass, self.target_mass,
            strict=True,
        ):  # fmt: skip
            p, q = source[rows].double().numpy(), target[columns].double().numpy()
            yield cost[rows][:, columns].double().numpy(), p / p.sum(), q / q.sum()


def matrix(rng: np.random.Generator, kind: str, rows: int, columns: int) -> np.ndarray:
    """A cost matrix of one of the KINDS, each of which has broken some solver."""
    shape = rows, columns
    match kind:
        case "uniform":
            return rng.random(shape)
        case "zero":
            return np.zeros(shape)
        case "constant":
            return np.full(shape, rng.random() + 0.1)
        case "ties":
            return rng.integers(0, 4, shape).astype(float)
        case "binary":
            return (rng.random(shape) < rng.random()).astype(float)
        case "blocks":
            return np.kron(rng.random((6, 6)), np.ones((10, 10)))[:rows, :columns]
        case "cauchy":
            return np.abs(rng.standard_cauchy(shape))
        case "lognormal":
            return np.exp(3 * rng.standard_normal(shape))
        case "pareto":
            return rng.pareto(0.5, shape)
        case "plane" | "line" | "words" | "permuted":
            dimension = {"plane": 2, "line": 1, "words": 256, "permuted": 3}[kind]
            x, y = rng.standard_normal((rows, dimension)), rng.standard_normal((columns, dimension))
            if kind == "permuted":
                y = x[rng.permutation(max(shape))[:columns] % rows]
            return np.square(x[:, None] - y[None]).sum(-1)
        case "separable":
            return (
                10 * rng.random((rows, 1))
                + 10 * rng.random((1, columns))
                + 1e-3 * rng.random(shape)
            )
        case "spike":
            cost = 1e-3 * rng.random(shape)
            cost[rng.integers(rows), rng.integers(columns)] = 1e3
            return cost
        case "needle":
            cost = np.ones(shape)
            cost[rng.permutation(rows)[: min(shape)], rng.permutation(columns)[: min(shape)]] = 0
            return cost
        case _:
            return np.where(rng.random(shape) < 0.5, 1e3, 1.0) * rng.random(shape)


def problems(seed: int, count: int, size: int = 250) -> Iterator[Batch]:
    """Yield `count` random problems in batches: every kind, scale, shape, mass and padding."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, size):
        batch = min(size, count - start)
        length = 60 + int(rng.choice([0, 4, 40]))
        cost = rng.choice(np.array([np.nan, np.inf, -1.0, 0.0, 1e30]), (batch, length, length))
        source_mask, target_mask = (np.zeros((batch, length), dtype=bool) for _ in range(2))
        source_mass, target_mass = (np.full((batch, length), np.nan) for _ in range(2))
        for index in range(batch):
            rows, columns = rng.integers(1, 61, 2)
            shape = [(1, 60), (rows, rows), (60, columns), (rows, columns), (rows, columns)]
            rows, columns = shape[rng.integers(len(shape))]
            # Tokens stay in order; the padding stands before, between and behind them.
            i, j = (np.sort(rng.permutation(length)[:n]) for n in (rows, columns))
            scale = 10.0 ** rng.choice([-6, 0, 6])
            kind = KINDS[(start + index) % len(KINDS)]
            cost[index, i[:, None], j] = scale * matrix(rng, kind, rows, columns)
            source_mask[index, i], target_mask[index, j] = True, True
            uneven = rng.random() < 0.4
            for mass, tokens in ((source_mass, i), (target_mass, j)):
                drawn = rng.dirichlet(np.full(len(tokens), rng.choice([0.05, 0.3, 3.0]))) + 1e-12
                mass[index, tokens] = drawn / drawn.sum() if uneven else 1 / len(tokens)
        yield Batch(
            torch.from_numpy(cost).float(),
            torch.from_numpy(source_mask),
            torch.from_numpy(target_mask),
            torch.from_numpy(source_mass).float(),
            torch.from_numpy(target_mass).float(),
        )


def optimum(cost: np.ndarray, source: np.ndarray, target: np.ndarray) -> float:
    unit = cost.max() or 1.0
    return float(ot.emd2(source, target, cost / unit, numItermax=1_000_000)) * unit


def clouds(
    seed: int, lengths: list[int], dtype: torch.dtype = torch.float64, dimension: int = 16
) -> tuple[Tensor, Tensor]:
    """Squared distances between random clouds, and the mask of both sides."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, len(lengths), max(lengths), dimension, generator=generator, dtype=dtype)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.cdist(x, y).square(), mask


def test_ipot_solves_ten_thousand_problems_to_half_a_percent_of_the_mean_cost() -> None:
    for batch in problems(seed=2021, count=10_000):
        plan = batch.solve("ipot")
        assert plan.value.isfinite().all()
        assert plan.plan.isfinite().all()
        assert (plan.plan >= 0).all()
        assert plan.marginal_error.max() <= 1e-3
        for index, (cost, source, target) in enumerate(batch.unpadded()):
            mean = cost.mean() or 1.0
            error = (float(plan.value[index]) - optimum(cost, source, target)) / mean
            assert abs(error) <= 0.005
            # What is certified is true, up to float32's rounding of the value.
            assert error <= float(plan.gap[index]) + 1e-4


def test_ipot_solves_all_but_the_hard_problems_by_plain_steps() -> None:
    cost, mask = clouds(0, [10, 20, 30, 15] * 8, dimension=256)
    assert (transport.ipot(cost, mask, mask).iterations == 13).all()


@pytest.mark.parametrize("kind", ["line", "cauchy", "ties", "permuted"])
def test_ipot_reaches_a_stricter_tolerance_when_asked(kind: str) -> None:
    rng = np.random.default_rng(5)
    cost = torch.tensor(np.stack([matrix(rng, kind, 12, 12) for _ in range(8)]))
    mask = torch.ones(8, 12, dtype=torch.bool)
    plan = transport.ipot(cost, mask, mask, tolerance=1e-4, cap=20_000)
    best = transport.exact(cost, mask, mask).value
    assert (plan.gap <= 1e-4).all()
    assert ((plan.value - best) / cost.mean((1, 2)) <= 1e-4 + 1e-9).all()


def test_a_problem_given_up_at_the_cap_is_feasible_and_says_so() -> None:
    cost, mask = clouds(1, [30, 20])
    plan = transport.ipot(cost, mask, mask, tolerance=0.0, cap=40)
    assert (plan.iterations == 13 + 40).all()
    assert (plan.gap > 0).all()
    assert plan.gap.isfinite().all()
    assert plan.marginal_error.max() < 1e-6
    error = (plan.value - transport.exact(cost, mask, mask).value) / cost.mean()
    assert (error <= 2 * plan.gap).all()


def test_a_cap_of_nothing_leaves_the_plan_of_the_plain_steps() -> None:
    cost, mask = clouds(1, [30, 20])
    capped = transport.ipot(cost, mask, mask, tolerance=0.0, cap=0)
    plain = transport.ipot(cost, mask, mask, tolerance=torch.inf)
    torch.testing.assert_close(capped.plan, plain.plan)
    torch.testing.assert_close(capped.gap, plain.gap)
    assert (capped.iterations == 13).all()


@pytest.mark.parametrize("seed", range(5))
def test_exact_equals_pot_for_equal_and_unequal_lengths_and_masses(seed: int) -> None:
    for batch in problems(seed=seed, count=85):
        plan = batch.solve("exact")
        assert plan.marginal_error.max() < 1e-5
        assert (plan.gap == 0).all()
        for index, (cost, source, target) in enumerate(batch.unpadded()):
            expected = optimum(cost, source, target)
            within = 1e-7 * cost.mean()  # the tolerance of the linear programs
            assert float(plan.value[index]) == pytest.approx(expected, 1e-5, within)


def test_exact_plan_of_an_assignment_is_a_permutation() -> None:
    cost, mask = clouds(3, [7, 4])
    plan = transport.exact(cost, mask, mask).plan
    assert torch.equal((plan > 0).sum(2), mask.long())
    assert torch.equal((plan > 0).sum(1), mask.long())
    torch.testing.assert_close(plan.sum(2), mask / mask.sum(1, keepdim=True).double())


@pytest.mark.parametrize("name", transport.SOLVERS)
@pytest.mark.parametrize("junk", [0.0, -1.0, 1e30, torch.inf, torch.nan])
def test_padding_never_changes_a_value_or_a_gradient(name: str, junk: float) -> None:
    cost, mask = clouds(4, [9, 9, 9])
    size = 14
    padded = torch.full((3, size, size), junk, dtype=cost.dtype)
    padded[:, :9, :9] = cost
    cost.requires_grad_()
    padded.requires_grad_()
    wide = torch.arange(size).expand(3, size) < 9
    small = transport.SOLVERS[name](cost, mask, mask)
    large = transport.SOLVERS[name](padded, wide, wide)
    small.value.sum().backward()
    large.value.sum().backward()
    torch.testing.assert_close(large.value, small.value, rtol=1e-5, atol=0)
    assert padded.grad is not None
    torch.testing.assert_close(padded.grad[:, :9, :9], cost.grad, rtol=0, atol=1e-5)
    assert (padded.grad[:, 9:] == 0).all()
    assert (padded.grad[:, :, 9:] == 0).all()
    torch.testing.assert_close(large.marginal_error, small.marginal_error, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_the_order_of_positions_never_matters(name: str) -> None:
    cost, mask = clouds(5, [12, 7, 10])
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    plain = transport.SOLVERS[name](cost, mask, mask)
    moved = transport.SOLVERS[name](cost[:, order][:, :, order], mask[:, order], mask[:, order])
    torch.testing.assert_close(moved.value, plain.value, rtol=1e-5, atol=0)
    torch.testing.assert_close(moved.plan, plain.plan[:, order][:, :, order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMAL)
def test_the_order_of_one_side_never_matters(name: str) -> None:
    cost, mask = clouds(6, [12, 7, 10])
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    plain = transport.SOLVERS[name](cost, mask, mask)
    moved = transport.SOLVERS[name](cost[:, order], mask[:, order], mask)
    torch.testing.assert_close(moved.plan, plain.plan[:, order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_a_batch_gives_what_its_samples_give_alone(name: str) -> None:
    (batch,) = problems(seed=7, count=51)
    together = batch.solve(name)
    for index in range(51):
        fields = (getattr(batch, f.name)[index : index + 1] for f in dataclasses.fields(batch))
        alone = Batch(*fields).solve(name)
        scale = float(together.value[index].abs()) + 1e-30
        assert float(alone.value[0]) == pytest.approx(
            float(together.value[index]), 1e-4, 1e-6 * scale
        )
        assert float(alone.marginal_error[0]) == pytest.approx(
            float(together.marginal_error[index]), abs=1e-5
        )


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_a_plan_is_detached_and_every_field_is_per_sample(name: str) -> None:
    cost, mask = clouds(8, [5, 3], torch.float32)
    plan = transport.SOLVERS[name](cost.requires_grad_(), mask, mask)
    assert not plan.plan.requires_grad
    assert plan.value.requires_grad
    assert plan.plan.shape == cost.shape
    for field in ("value", "marginal_error", "gap", "iterations"):
        assert getattr(plan, field).shape == (2,)
    assert plan.value.dtype == plan.plan.dtype == plan.gap.dtype == torch.float32


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_the_gradient_of_a_value_is_the_plan(name: str) -> None:
    cost, mask = clouds(9, [6, 4])
    plan = transport.SOLVERS[name](cost.requires_grad_(), mask, mask)
    plan.value.sum().backward()
    assert torch.equal(cost.grad, plan.plan)


@pytest.mark.parametrize("unequal", [False, True])
def test_the_plan_is_the_finite_difference_of_the_optimal_value(unequal: bool) -> None:
    cost, source_mask = clouds(10, [6])
    target_mask = source_mask.clone()
    if unequal:
        target_mask[:, 4:] = False

    def value(cost: Tensor) -> Tensor:
        return transport.exact(cost, source_mask, target_mask).value

    assert torch.autograd.gradcheck(value, cost.requires_grad_(), eps=1e-5)
    converged = transport.ipot(cost, source_mask, target_mask, tolerance=1e-6).plan
    torch.testing.assert_close(
        converged, transport.exact(cost, source_mask, target_mask).plan, rtol=0, atol=1e-4
    )


def test_unrolled_gradients_are_finite_and_tend_to_the_plan() -> None:
    cost, mask = clouds(11, [6, 4])
    cost = cost.masked_fill(~(mask[:, :, None] & mask[:, None, :]), torch.nan).requires_grad_()
    plan = transport.ipot(cost, mask, mask, unroll=60)
    plan.value.sum().backward()
    assert (plan.marginal_error < 1e-3).all()
    exact = transport.exact(cost, mask, mask).plan
    torch.testing.assert_close(cost.grad, exact, rtol=0, atol=5e-3)
    # Short of convergence autograd sees the solver: its gradient is not the plan.
    cost.grad = None
    short = transport.ipot(cost, mask, mask, unroll=2)
    short.value.sum().backward()
    assert cost.grad.isfinite().all()
    assert (cost.grad - short.plan).abs().max() > 0.01
    assert (short.iterations == 2).all()
    assert not short.plan.requires_grad


def test_the_unrolled_gradient_is_that_of_the_unrolled_value() -> None:
    cost, mask = clouds(12, [4])
    mass, unit = mask.double() / 4, float(cost.mean())

    def value(cost: Tensor) -> Tensor:
        log_plan, _ = transport.recurrence(cost, mass, mass, 0.1 * unit, 5)
        return (log_plan.exp() * cost).sum((1, 2))

    assert torch.autograd.gradcheck(value, cost.requires_grad_())
    torch.testing.assert_close(
        transport.ipot(cost, mask, mask, beta=0.1, unroll=5).value, value(cost), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("steps", [1, 2, 7, 30])
def test_the_log_cross_ratio_of_a_two_by_two_plan_falls_by_the_same_amount_each_step(
    steps: int,
) -> None:
    cost = torch.rand(20, 2, 2, generator=torch.Generator().manual_seed(steps), dtype=torch.float64)
    half, beta = torch.full((20, 2), 0.5, dtype=torch.float64), 0.3
    log_plan, _ = transport.recurrence(cost, half, half, beta, steps)

    def cross(matrix: Tensor) -> Tensor:
        return matrix[:, 0, 0] + matrix[:, 1, 1] - matrix[:, 0, 1] - matrix[:, 1, 0]

    torch.testing.assert_close(cross(log_plan), -steps * cross(cost) / beta)


@pytest.mark.parametrize("steps", [1, 2, 7, 13, 20, 30])
def test_the_fast_steps_are_the_printed_recurrence(steps: int) -> None:
    cost, mask = clouds(13, [12, 8, 5])
    fast = transport.ipot(cost, mask, mask, steps=steps, tolerance=torch.inf)
    printed = transport.ipot(cost, mask, mask, unroll=steps)
    # Rounding moves at most twice what the marginals were off (Altschuler et al., lemma 7).
    moved = (fast.plan - printed.plan).abs().sum((1, 2))
    assert (moved <= 2 * printed.marginal_error + 1e-5).all()
    # Their potentials bound the optimum alike (a gap of 0 may stand for a negative one, by which
    # an infeasible plan is below the bound).
    unit = torch.stack([c[m][:, m].mean() for c, m in zip(cost, mask, strict=True)])
    bounds = [plan.value / unit - plan.gap for plan in (fast, printed)]
    assert (bounds[0] >= bounds[1] - 1e-4).all()
    shown = printed.gap > 0
    assert shown.any()
    torch.testing.assert_close(bounds[0][shown], bounds[1][shown], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", OPTIMAL)
@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30, 1e36])
def test_any_scale_that_float32_holds_is_solved(name: str, scale: float) -> None:
    cost, mask = clouds(14, [9, 5])
    unit = transport.exact(cost, mask, mask).value
    plan = transport.SOLVERS[name]((cost * scale).float(), mask, mask)
    error = plan.value.double() / scale - unit
    assert (error.abs() <= 0.005 * cost.mean() + 1e-2 * (scale < 1e-38)).all()


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_half_precision_costs_are_solved_in_float32(name: str) -> None:
    cost, mask = clouds(15, [6, 6])
    plan = transport.SOLVERS[name](cost.half(), mask, mask)
    assert plan.value.dtype == torch.float32
    assert plan.marginal_error.max() < 1e-6


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_an_empty_pair_costs_nothing_and_an_empty_batch_is_empty(name: str) -> None:
    cost, mask = clouds(16, [4, 4])
    mask[1] = False
    cost.requires_grad_()
    plan = transport.SOLVERS[name](cost, mask, mask)
    plan.value.sum().backward()
    assert plan.value[1] == plan.marginal_error[1] == 0
    assert (cost.grad[1] == 0).all()
    assert transport.SOLVERS[name](cost[:0], mask[:0], mask[:0]).value.shape == (0,)


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_a_single_pair_of_tokens_moves_all_its_mass(name: str) -> None:
    one = torch.ones(1, 1, dtype=torch.bool)
    assert transport.SOLVERS[name](torch.full((1, 1, 1), 3.5), one, one).value == 3.5


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_the_value_is_proportional_to_the_mass_and_the_errors_are_not(name: str) -> None:
    cost, mask = clouds(17, [6, 6])
    mass = torch.rand(2, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = transport.SOLVERS[name](cost, mask, mask, mass, mass.flip(1))
    ten = transport.SOLVERS[name](cost, mask, mask, 10 * mass, 10 * mass.flip(1))
    torch.testing.assert_close(ten.value, 10 * one.value)
    torch.testing.assert_close(ten.plan, 10 * one.plan)
    torch.testing.assert_close(ten.marginal_error, one.marginal_error, rtol=0, atol=1e-6)
    torch.testing.assert_close(ten.gap, one.gap)


@pytest.mark.parametrize("name", OPTIMAL)
def test_a_token_without_mass_is_as_good_as_padding(name: str) -> None:
    cost, mask = clouds(18, [6])
    mass = torch.tensor([[0.25, 0.25, 0.0, 0.25, 0.25, 0.0]], dtype=torch.float64)
    weighed = transport.SOLVERS[name](cost, mask, mask, mass, mass)
    masked = transport.SOLVERS[name](cost, mass > 0, mass > 0)
    # The mean cost, and with it beta, is taken over other tokens: equal up to the tolerance.
    torch.testing.assert_close(weighed.value, masked.value, rtol=5e-3, atol=0)
    assert weighed.marginal_error.max() < 1e-6


def test_the_diagonal_says_how_much_mass_it_leaves() -> None:
    cost, mask = clouds(19, [4, 3])
    shorter = mask.clone()
    shorter[:, 2:] = False
    whole, part = (transport.diagonal(cost, mask, side) for side in (mask, shorter))
    assert whole.marginal_error.max() < 1e-12
    torch.testing.assert_close(whole.value[0], cost[0].diagonal().mean())
    # Of 1/2, 1/2 the first moves 1/4, 1/4, the second 1/3, 1/3.
    expected = torch.tensor([0.5, 1 / 3], dtype=torch.float64)
    torch.testing.assert_close(part.marginal_error, expected)
    torch.testing.assert_close(part.plan.sum((1, 2)), 1 - expected)
    assert part.gap.isinf().all()


@pytest.mark.parametrize("name", transport.SOLVERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": (2, 0, 1, -1.0)}, "sample 2: costs must be finite and not negative"),
        ({"cost": (1, 0, 1, torch.nan)}, "sample 1: costs must be finite and not negative"),
        ({"cost": (0, 3, 1, torch.inf)}, "sample 0: costs must be finite and not negative"),
        ({"source_mask": (1, slice(None), False)}, "sample 1: one side is empty, the other is not"),
        ({"target_mass": (2, 0, 2.0)}, "sample 2: source and target masses sum to 4 and 5"),
        ({"source_mass": (2, 0, -1.0)}, "sample 2: source_mass must be finite and not negative"),
        ({"target_mass": (0, 1, torch.nan)}, "sample 0: target_mass must be finite and not neg"),
    ],
)
def test_a_wrong_sample_is_named(name: str, change: dict[str, tuple], message: str) -> None:
    cost, mask = clouds(20, [4, 4, 4])
    mass = torch.ones(3, 4, dtype=torch.float64)
    fields = {
        "cost": cost, "source_mask": mask, "target_mask": mask.clone(),
        "source_mass": mass, "target_mass": mass.clone(),
    }  # fmt: skip
    for field, (*where, value) in change.items():
        fields[field][tuple(where)] = value
    with pytest.raises(ValueError, match=message):
        transport.SOLVERS[name](**fields)


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_shapes_and_types_that_do_not_fit_are_refused(name: str) -> None:
    cost, mask = clouds(21, [4, 4])
    solver = transport.SOLVERS[name]
    with pytest.raises(ValueError, match="do not fit a cost"):
        solver(cost, mask[:, :3], mask)
    with pytest.raises(ValueError, match=r"must be \(B, N, M\)"):
        solver(cost[0], mask, mask)
    with pytest.raises(ValueError, match="masks must be bool"):
        solver(cost, mask.double(), mask)
    with pytest.raises(ValueError, match="source_mass has shape"):
        solver(cost, mask, mask, torch.ones(2, 3), torch.ones(2, 4))


@pytest.mark.parametrize("knobs", [{"beta": 0.0}, {"steps": 0}, {"unroll": -1}])
def test_knobs_without_a_meaning_are_refused(knobs: dict[str, float]) -> None:
    cost, mask = clouds(22, [4])
    with pytest.raises(ValueError, match="must be > 0"):
        transport.ipot(cost, mask, mask, **knobs)


@pytest.mark.parametrize("sharpness", [1.0, 6.0])
@pytest.mark.parametrize("shape", [(30, 30), (1, 60), (17, 23)])
def test_exact_solves_very_uneven_masses(sharpness: float, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = (
        torch.softmax(sharpness * torch.randn(20, n, generator=generator), 1) for n in shape
    )
    cost = torch.rand(20, *shape, generator=generator)
    masks = torch.ones_like(source).bool(), torch.ones_like(target).bool()
    plan = transport.exact(cost, *masks, source, target)
    assert plan.marginal_error.max() <= 1e-5
    for index in range(20):
        p, q = (mass[index].double().numpy() for mass in (source, target))
        best = optimum(cost[index].double().numpy(), p / p.sum(), q / q.sum())
        assert float(plan.value[index]) == pytest.approx(best, abs=1e-5)


def fields(plan: transport.Plan) -> list[Tensor]:
    return [plan.plan, plan.value, plan.marginal_error, plan.gap, plan.iterations]


def test_a_plan_says_how_it_was_found() -> None:
    cost, mask = clouds(20, [6, 4])
    for name, gap in (("exact", 0.0), ("diagonal", torch.inf)):
        plan = transport.SOLVERS[name](cost, mask, mask)
        assert plan.iterations.tolist() == [0, 0] and plan.iterations.dtype == torch.long
        assert plan.gap.tolist() == [gap, gap] and plan.gap.dtype == cost.dtype
    knobs = {"beta": 0.05, "steps": 13, "tolerance": 0.0045, "cap": 10_000, "unroll": 0}
    found, said = transport.ipot(cost, mask, mask), transport.ipot(cost, mask, mask, **knobs)
    for one, other in zip(fields(found), fields(said), strict=True):
        assert torch.equal(one, other)
    few = transport.ipot(cost, mask, mask, steps=5, tolerance=torch.inf)
    unrolled = transport.ipot(cost, mask, mask, unroll=5)
    for plan in (few, unrolled):
        assert plan.iterations.tolist() == [5, 5] and plan.iterations.dtype == torch.long


def test_the_gap_is_in_units_of_the_mean_cost() -> None:
    cost, mask = clouds(21, [9, 5])
    one, ten = (transport.ipot(x, mask, mask, tolerance=torch.inf) for x in (cost, 10 * cost))
    torch.testing.assert_close(one.gap, ten.gap, rtol=1e-3, atol=1e-6)
    best = transport.exact(cost, mask, mask).value
    valid = mask[:, :, None] & mask[:, None, :]
    means = torch.stack([each[there].mean() for each, there in zip(cost, valid, strict=True)])
    assert ((one.value - best) / means <= one.gap + 1e-6).all() and (one.gap < 0.1).all()


@pytest.mark.parametrize("name", transport.SOLVERS)
def test_equal_masses_are_meant_where_none_are_given(name: str) -> None:
    cost, mask = clouds(22, [6, 3])
    solve, mass = transport.SOLVERS[name], mask / mask.sum(1, keepdim=True)
    plain = solve(cost, mask, mask)
    for given in ((mass, None), (None, mass), (mass, mass)):
        torch.testing.assert_close(solve(cost, mask, mask, *given).value, plain.value)
    with pytest.raises(ValueError, match="sample 0: source and target masses sum to 2 and 1"):
        solve(cost, mask, mask, 2 * mass, None)
    nearly = mass * torch.tensor([[1 + 5e-6], [1.0]])
    torch.testing.assert_close(
        solve(cost, mask, mask, nearly, mass).value, plain.value, rtol=1e-5, atol=0
    )
    with pytest.raises(ValueError, match="sample 1: source and target masses"):
        solve(cost, mask, mask, mass, mass * torch.tensor([[1.0], [1 + 5e-5]]))


@pytest.mark.parametrize("name", OPTIMAL)
def test_where_nothing_costs_anything_every_plan_is_right(name: str) -> None:
    mask = torch.ones(2, 5, dtype=torch.bool)
    fewer = mask[:, :3]
    plan = transport.SOLVERS[name](torch.zeros(2, 5, 3), mask, fewer)
    assert plan.value.tolist() == [0, 0] and plan.marginal_error.max() < 1e-6
    assert (plan.gap <= 1e-6).all()


def test_the_diagonal_of_unequal_lengths_ends_with_the_shorter() -> None:
    cost = torch.arange(15.0).view(1, 3, 5)
    short, long = (torch.ones(1, n, dtype=torch.bool) for n in (3, 5))
    for plan in (transport.diagonal(cost, short, long), transport.diagonal(cost.mT, long, short)):
        assert plan.value.item() == pytest.approx((0 + 6 + 12) / 5)
        assert plan.plan.sum().item() == pytest.approx(3 / 5)
        assert plan.marginal_error.item() == pytest.approx(2 / 5)
