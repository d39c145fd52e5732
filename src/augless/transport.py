"""Optimal transport between two bags of vectors.

    value = min <plan, cost>   over plans >= 0 with rows summing to the source masses p
                               and columns summing to the target masses q

Every solver has one signature, `(B, N, M) cost, (B, N) and (B, M) masks[, masses] -> Plan`, and is
listed in `SOLVERS`. The plan is a constant to autograd: by the envelope theorem the derivative of
the optimal value in the cost *is* the plan (the plan's own first-order change cannot improve the
value, or it would not have been optimal), so gradients need not flow through a solver.

IPOT is the inexact proximal point method of Xie, Wang, Wang and Zha (UAI 2020), the paper's solver.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

# Choice: scalings of a hard problem between two certificates, each of which costs as much as four.
BLOCK = 20
# Choice: plain steps between two absorptions; fewer cost more, and certify hardly more problems.
ABSORB = 12


@dataclass(frozen=True)
class Plan:
    """A batch of transport plans, and how good they are."""

    plan: Tensor
    """(B, N, M), detached; zero at padding."""
    value: Tensor
    """(B,), `<plan, cost>`; its gradient in the cost is the plan."""
    marginal_error: Tensor
    """(B,), the larger side's L1 distance to its masses, as a share of the total mass."""
    gap: Tensor
    """(B,), certified bound of (value - optimum) / (mean cost * total mass); inf: not certified."""
    iterations: Tensor
    """(B,), how many times the plan was rescaled; 0 for a direct solver."""


@dataclass(frozen=True)
class _Problem:
    """What a solver sees: validated, with padding harmless and masses summing to one."""

    cost: Tensor  # (B, N, M), in the caller's graph; finite and >= 0 everywhere
    source: Tensor  # (B, N), zero at padding
    target: Tensor  # (B, M), zero at padding
    mean: Tensor  # (B,), mean cost over unmasked pairs, never 0
    total: Tensor | None  # (B,), the masses' sum; None stands for 1


def _first(bad: Tensor) -> int:
    """Return the index of the first sample with a true entry."""
    return int(bad.flatten(1).any(1).nonzero()[0, 0])


def _masses(mass: Tensor, mask: Tensor, name: str, dtype: torch.dtype) -> Tensor:
    """Return given masses with padding at zero."""
    if mass.shape != mask.shape:
        raise ValueError(f"{name} has shape {tuple(mass.shape)}, its mask {tuple(mask.shape)}")
    mass = torch.where(mask, mass.detach().to(dtype), 0.0)
    if bool((bad := ~((mass >= 0) & mass.isfinite())).any()):
        raise ValueError(f"sample {_first(bad)}: {name} must be finite and not negative")
    return mass


def _problem(
    cost: Tensor,
    source_mask: Tensor,
    target_mask: Tensor,
    source_mass: Tensor | None,
    target_mass: Tensor | None,
) -> _Problem:
    """Check a batch of problems and make its padding harmless."""
    if cost.dim() != 3 or 0 in cost.shape[1:]:
        raise ValueError(f"cost must be (B, N, M) with N, M >= 1, not {tuple(cost.shape)}")
    if source_mask.shape != cost.shape[:2] or target_mask.shape != cost.shape[::2]:
        shapes = tuple(source_mask.shape), tuple(target_mask.shape)
        raise ValueError(f"masks of shapes {shapes} do not fit a cost {tuple(cost.shape)}")
    if source_mask.dtype != torch.bool or target_mask.dtype != torch.bool:
        raise ValueError(f"masks must be bool, not {source_mask.dtype} and {target_mask.dtype}")
    if cost.dtype not in (torch.float32, torch.float64):
        cost = cost.float()  # half precision cannot hold squared distances
    source, target = source_mask.to(cost.dtype), target_mask.to(cost.dtype)
    source_count, target_count = source.sum(1, keepdim=True), target.sum(1, keepdim=True)
    if bool((bad := (source_count > 0) != (target_count > 0)).any()):
        raise ValueError(f"sample {_first(bad)}: one side is empty, the other is not")
    low, high = torch.aminmax(cost.detach()) if len(cost) else (cost.new_zeros(()),) * 2
    if not (float(low) >= 0 and float(high) < torch.inf):
        # Either padding holds anything (allowed; `where` keeps it out of values and gradients, and
        # costs as much as five scalings, hence only here) or the caller erred.
        valid = source_mask[:, :, None] & target_mask[:, None, :]
        cost = torch.where(valid, cost, 0.0)
        if bool((bad := ~((cost.detach() >= 0) & cost.detach().isfinite())).any()):
            raise ValueError(f"sample {_first(bad)}: costs must be finite and not negative")
    source, target = source / source_count.clamp(min=1), target / target_count.clamp(min=1)
    # A convex combination cannot overflow, whatever the range of the costs.
    mean = (torch.bmm(source[:, None], cost.detach())[:, 0] * target).sum(1)
    mean = mean.clamp(min=torch.finfo(cost.dtype).smallest_normal * torch.finfo(cost.dtype).eps)
    if source_mass is None and target_mass is None:
        return _Problem(cost, source, target, mean, None)
    if source_mass is not None:
        source = _masses(source_mass, source_mask, "source_mass", cost.dtype)
    if target_mass is not None:
        target = _masses(target_mass, target_mask, "target_mass", cost.dtype)
    total, other = source.sum(1), target.sum(1)
    if bool((bad := (total - other).abs() > 1e-5 * torch.maximum(total, other)).any()):
        index = _first(bad[:, None])
        sums = f"{float(total[index]):g} and {float(other[index]):g}"
        raise ValueError(f"sample {index}: source and target masses sum to {sums}")
    tiny = torch.finfo(cost.dtype).tiny
    source = source / total.clamp(min=tiny)[:, None]
    target = target / other.clamp(min=tiny)[:, None]
    return _Problem(cost, source, target, mean, total)


def _result(problem: _Problem, plan: Tensor, gap: Tensor, iterations: Tensor) -> Plan:
    """Attach to a plan of unit mass its value and how far it misses its marginals."""
    plan = plan.to(problem.cost.dtype)
    rows = (plan.sum(2) - problem.source).abs().sum(1)
    columns = (plan.sum(1) - problem.target).abs().sum(1)
    if problem.total is not None:
        plan = plan * problem.total[:, None, None]
    # The one line through which gradients flow: d value / d cost = plan.
    value = (plan * problem.cost).sum((1, 2))
    error = torch.maximum(rows, columns).detach()
    return Plan(plan.detach(), value, error, gap.to(value.dtype), iterations)


def exact(
    cost: Tensor,
    source_mask: Tensor,
    target_mask: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
) -> Plan:
    """Solve each problem exactly: as an assignment where it is one, else as a linear program.

    An assignment has as many source as target tokens, all of equal mass; by Birkhoff's theorem one
    of its optimal plans is a permutation. Under teacher forcing this is the usual case.
    """
    from scipy.optimize import linear_sum_assignment  # half a second, which other losses save

    problem = _problem(cost, source_mask, target_mask, source_mass, target_mass)
    shifted = problem.cost.detach().double()
    # Shifting a column moves every plan's value alike. It spares the assignment, whose search
    # starts from zero potentials, a third to two thirds of its time.
    matrices = (shifted - shifted.amin(1, keepdim=True)).cpu().numpy()
    sources, targets = problem.source.cpu().numpy(), problem.target.cpu().numpy()
    # The target position of each source position, where a problem is an assignment.
    choice = np.zeros(sources.shape, dtype=np.int64)
    positions = np.arange(targets.shape[1])
    programs = {}
    spans = zip(_spans(sources), _spans(targets), strict=True)
    for index, (rows, columns) in enumerate(spans):
        block = matrices[index, rows][:, columns]
        if block.shape[0] == block.shape[1] and (
            problem.total is None or _equal(sources[index, rows], targets[index, columns])
        ):
            choice[index, rows] = positions[columns][linear_sum_assignment(block)[1]]
        else:
            programs[index] = np.zeros(matrices.shape[1:])
            where = np.ix_(sources[index] > 0, targets[index] > 0)
            masses = sources[index, rows], targets[index, columns]
            programs[index][where] = _linear_program(block, *masses)
    plan = torch.zeros_like(problem.cost, requires_grad=False)
    chosen = torch.from_numpy(choice).to(plan.device)[:, :, None]
    plan.scatter_(2, chosen, problem.source[:, :, None])
    for index, program in programs.items():
        plan[index] = torch.from_numpy(program).to(plan)
    zero = torch.zeros_like(problem.mean)
    return _result(problem, plan, zero, torch.zeros_like(zero, dtype=torch.long))


def _spans(masses: Array) -> list[slice | Array]:
    """Return where each sample has mass: a slice where there are no gaps, as views beat copies."""
    present = masses > 0
    counts, first = present.sum(1), present.argmax(1)
    last = present.shape[1] - 1 - present[:, ::-1].argmax(1)
    return [
        slice(start, start + count) if gapless else row.nonzero()[0]
        for start, count, gapless, row in zip(
            first.tolist(), counts.tolist(), last - first + 1 == counts, present, strict=True
        )
    ]


def _equal(source: Array, target: Array) -> bool:
    """Say whether all tokens of both sides have the same mass, up to float32's rounding."""
    masses = np.concatenate([source, target])
    return bool(np.ptp(masses) <= 1e-6 * masses.mean()) if len(masses) else True


def _linear_program(cost: Array, source: Array, target: Array) -> Array:
    """Return an optimal plan of one problem, (N, M), by HiGHS' dual simplex."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, kron, vstack

    rows, columns = cost.shape
    # Sums over each row, then over each column, of a plan that is laid out row by row.
    row_sums = kron(eye_array(rows), np.ones((1, columns)))
    column_sums = kron(np.ones((1, rows)), eye_array(columns))
    source, target = source.astype(np.float64), target.astype(np.float64)
    # The last column's sum follows from all the others; as an equation of its own it would, once
    # masses are rounded, contradict them. Very small masses make the presolver too believe in a
    # contradiction, and without it the solver is no slower.
    # HiGHS' tolerances are absolute: costs in units of their mean, masses of about 1 each.
    solved = linprog(  # type: ignore[call-overload]  # the stubs do not know sparse constraints
        cost.ravel() / (cost.mean() or 1.0),
        A_eq=csr_array(vstack([row_sums, column_sums]))[:-1],
        b_eq=np.concatenate([source / source.sum(), target / target.sum()])[:-1] * rows,
        method="highs-ds",
        options={"presolve": False},
    )
    if not solved.success:
        raise RuntimeError(f"no {rows} x {columns} plan was found: {solved.message}")
    plan: Array = solved.x.reshape(rows, columns) / rows
    return plan


def _padded(mass: Tensor) -> Tensor:
    """Return the masses with 1 at padding, where they are 0."""
    return mass + (mass == 0)


def recurrence(
    cost: Tensor, source: Tensor, target: Tensor, beta: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Return IPOT's log plan (B, N, M) after some steps, and its target potential v (B, M).

    One step is `Q = exp(-cost / beta) * T`, `a = p / (Q b)`, `b = q / (Q' a)`,
    `T = diag(a) Q diag(b)` (Xie et al., algorithm 1 with one inner iteration), from `T = p q'`. So
    `log T = log p + log q + u + v - steps * cost / beta` for some potentials u, v.

    In the log domain, differentiable, unrounded: the columns sum to the target masses, the rows to
    the source masses in the limit. A mass of 0 marks padding.
    """
    valid = (source > 0)[:, :, None] & (target > 0)[:, None, :]
    # Finite where -inf is meant, because a row of nothing but -inf has no gradient.
    log_step = torch.where(valid, -cost / beta, -1e30)
    log_masses = _padded(source).log()[:, :, None] + _padded(target).log()[:, None, :]
    log_plan = log_masses + log_step
    v = before = torch.zeros_like(target)
    for step in range(1, steps + 1):
        log_kernel = log_masses + step * log_step
        # The printed b is carried over from step to step, not reset, which extrapolates v: it goes
        # on growing as it last grew. Without that the marginals are ten times worse.
        v, before = 2 * v - before, v
        u = _padded(source).log() - torch.logsumexp(log_kernel + v[:, None, :], 2)
        u = torch.where(source > 0, u, 0.0)
        v = _padded(target).log() - torch.logsumexp(log_kernel + u[:, :, None], 1)
        v = torch.where(target > 0, v, 0.0)
        log_plan = log_kernel + u[:, :, None] + v[:, None, :]
    return log_plan, v


def _steps(
    cost: Tensor, source: Tensor, target: Tensor, beta: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Return plan and v of the same recurrence, fast: in the probability domain and in place.

    With `T = diag(a) K diag(b)` kept in factors, a step is one product `K <- G * K` and two of a
    matrix with a vector. Now and then a and b are absorbed into K, and their last growth into
    `G = exp(-cost / beta)`; these are diagonal factors, which the next a and b undo. What
    underflows all the same misses its marginals or is not finite: its certificate fails.
    """
    kernel = source[:, :, None] * target[:, None, :]
    growth = (cost / -beta).exp_()
    # At padding the kernel is 0 and the fractions below are 1 / 1.
    source, target = source[:, None], target[:, None]
    tiny = torch.finfo(kernel.dtype).tiny
    source_floor, target_floor = (source == 0) + tiny, (target == 0) + tiny
    source, target = _padded(source), _padded(target)
    ones = torch.ones_like(source), torch.ones_like(target)
    (a, b), b_before = ones, ones[1]
    v = v_rate = torch.zeros_like(target)
    absorbed = 0
    for step in range(1, steps + 1):
        kernel.mul_(growth)
        a_before, b, b_before = a, b * (b / b_before), b
        a = source / torch.bmm(b, kernel.mT).add_(source_floor)
        b = target / torch.bmm(a, kernel).add_(target_floor)
        if step % ABSORB == 1 or step == steps:
            kernel.mul_(a.mT).mul_(b)
            v = v + b.log() + (step - absorbed) * v_rate
            absorbed = step
            if step < steps:
                growth.mul_((a / a_before).mT).mul_(b / b_before)
                v_rate = v_rate + (b / b_before).log()
                (a, b), b_before = ones, ones[1]
    return kernel, v[:, 0]


def _rounded(plan: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Return a feasible plan near one whose columns are right, (B, N, M).

    Algorithm 2 of Altschuler, Weed and Rigollet (2017): shrink the rows that have too much (no
    column has, for they were right), then spread what is missing as a product.
    """
    tiny = torch.finfo(plan.dtype).tiny
    rows = plan.sum(2)
    plan = plan * (source / rows.clamp(min=tiny)).clamp(max=1)[:, :, None]
    missing_rows = (source - rows).clamp(min=0)
    missing_columns = (target - plan.sum(1)).clamp(min=0)
    share = missing_columns / missing_rows.sum(1, keepdim=True).clamp(min=tiny)
    return plan.addcmul_(missing_rows[:, :, None], share[:, None, :])


def _source_potential(cost: Tensor, target: Tensor, g: Tensor) -> Tensor:
    """Return the largest f (B, N) with `f_i + g_j <= cost_ij` over unpadded j.

    Any such pair is feasible in the dual problem, `max <p, f> + <q, g>`, and so bounds the optimum
    from below. It is read off the cost, not the plan, whose entries may have underflowed.
    """
    return (cost - g.masked_fill(target == 0, -1e12)[:, None, :]).amin(2)


def _gap(
    plan: Tensor, cost: Tensor, source: Tensor, target: Tensor, f: Tensor, g: Tensor
) -> Tensor:
    """Return how far `<plan, cost>` is above `<p, f> + <q, g>`, (B,); below 0 is rounding noise."""
    return ((plan * cost).sum((1, 2)) - (source * f).sum(1) - (target * g).sum(1)).clamp(min=0)


def _scalings(kernel: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return scalings a (B, N) and b (B, M) after a block of them, the columns' last."""
    # Floors far inside float64's range, so that no fraction overflows; 1 / 1 at padding.
    source_floor, target_floor = ((mass == 0)[:, None] + 1e-250 for mass in (source, target))
    source, target = _padded(source)[:, None], _padded(target)[:, None]
    a, b = torch.ones_like(source), torch.ones_like(target)
    b_new = b
    for _ in range(BLOCK):
        # Over-relaxed by a half, a <- a (a_new / a)^1.5: far fewer scalings where they are slow.
        a_new = source / torch.bmm(b, kernel.mT).add_(source_floor)
        a = a_new * (a_new / a).sqrt()
        b_new = target / torch.bmm(a, kernel).add_(target_floor)
        b = b_new * (b_new / b).sqrt()
    return a[:, 0], b_new[:, 0]


def _stragglers(
    cost: Tensor, source: Tensor, target: Tensor, beta: float, tolerance: float, cap: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return plan, gap and iterations of problems that the plain recurrence leaves open.

    The same method in float64, with proximal steps of adaptive size and a block of scalings in
    each: after a time t, counted in plain steps, the plan is `diag(a) exp(-t cost / beta) diag(b)`.
    The certificate steers. Where the gap is mostly the blur of `epsilon = beta / t`, take a step;
    elsewhere the marginals are to blame, so only scale on.
    """
    valid = (source > 0)[:, :, None] & (target > 0)[:, None, :]
    cost, source, target = torch.where(valid, cost, 0.0).double(), source.double(), target.double()
    # Under heavy tails tokens outbid one another by epsilon at a time over a range of max(cost):
    # begin where that range is one bid.
    time = (beta / cost.amax((1, 2)).clamp(min=1e-9)).clamp(max=1)[:, None]
    # The product of the masses is feasible: whatever happens below, so is the answer.
    best = source[:, :, None] * target[:, None, :]
    best_gap = torch.full_like(time[:, 0], torch.inf)
    iterations = torch.zeros_like(best_gap, dtype=torch.long)
    left = torch.arange(len(cost), device=cost.device)
    f, g = torch.zeros_like(source), torch.zeros_like(target)
    for _ in range(0, cap, BLOCK):
        epsilon = beta / time
        exponent = (f[:, :, None] + g[:, None, :] - cost) / epsilon[:, :, None]
        # Bounded for the sake of padding alone, whose f and g mean nothing.
        kernel = exponent.clamp_(max=300).exp_()
        kernel.mul_(source[:, :, None]).mul_(target[:, None, :])
        a, b = _scalings(kernel, source, target)
        f, g = f + epsilon * a.log(), g + epsilon * b.log()
        plan = kernel.mul_(a[:, :, None]).mul_(b[:, None, :])
        feasible, bound = _rounded(plan, source, target), _source_potential(cost, target, g)
        gap = _gap(feasible, cost, source, target, bound, g)
        blur = _gap(plan, cost, plan.sum(2), target, bound, g)
        iterations[left] += BLOCK
        better = gap < best_gap[left]
        best[left[better]], best_gap[left[better]] = feasible[better], gap[better]
        # Blur falls about as epsilon does: aim at a third of the tolerance, fourfold at most.
        faster = time * (blur / (0.3 * tolerance)).clamp(1.2, 4)[:, None]
        time = torch.where((blur > 0.5 * gap)[:, None], faster, time)
        # The done leave the batch: a few hard problems must not cost as much as all.
        (todo,) = torch.where(~(gap <= tolerance))
        if not len(todo):
            break
        left, cost, source, target = left[todo], cost[todo], source[todo], target[todo]
        f, g, time = f[todo], g[todo], time[todo]
    return best, best_gap, iterations


def ipot(
    cost: Tensor,
    source_mask: Tensor,
    target_mask: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    beta: float = 0.05,  # proximal step, in units of the mean cost
    steps: int = 13,  # plain steps before the certificate is first asked
    tolerance: float = 0.0045,  # certified gap at which a problem is done
    cap: int = 10_000,  # further scalings after which a problem is returned with the gap it has
    unroll: int = 0,  # differentiate through so many plain steps, unrounded; 0: envelope theorem
) -> Plan:
    """Solve a batch by the inexact proximal point method until each problem's gap is certified.

    Plain steps come first, on all problems at once; those they leave open are solved with more
    care. The marginals are exact, and `gap <= tolerance` unless the cap was reached. With `unroll`
    neither holds: it stops after its steps, whatever it has.
    """
    # Choice: the paper names neither beta nor the steps. On clouds of words 13 steps of 0.05 end
    # about as near the optimum as 24 of 0.1, as the carried-over b keeps the marginals right.
    if beta <= 0 or steps < 1 or unroll < 0:
        raise ValueError(f"beta {beta} must be > 0, steps {steps} >= 1 and unroll {unroll} >= 0")
    problem = _problem(cost, source_mask, target_mask, source_mass, target_mass)
    source, target = problem.source, problem.target
    if unroll:
        # Choice: beta is a setting, so no gradient flows into the mean cost that is its unit.
        scaled = (problem.cost / problem.mean[:, None, None]).clamp(max=1e9)
        log_plan, v = recurrence(scaled, source, target, beta, unroll)
        plan = log_plan.exp()
        with torch.no_grad():
            g = v * (beta / unroll)
            gap = _gap(plan, scaled, source, target, _source_potential(scaled, target, g), g)
        return _result(problem, plan, gap, torch.full_like(gap, unroll, dtype=torch.long))
    # No autograd at all inside, which saves a tenth of the time; hence the clones at the end.
    with torch.inference_mode():
        # Bounded for padding, which may hold any finite number; real entries are at most N * M.
        scaled = (problem.cost / problem.mean[:, None, None]).clamp_(max=1e9)
        # float32 is enough for the fast part; what it cannot certify is solved in float64.
        fast = scaled.float(), source.float(), target.float()
        plan, v = _steps(*fast, beta, steps)
        g = v * (beta / steps)
        plan = _rounded(plan, *fast[1:])
        gap = _gap(plan, *fast, _source_potential(fast[0], fast[2], g), g)
        iterations = torch.full_like(gap, steps, dtype=torch.long)
        (left,) = torch.where(~(gap <= tolerance))
        if len(left):
            plan, gap = plan.to(scaled.dtype), gap.to(scaled.dtype)
            more, tight, used = _stragglers(
                scaled[left], source[left], target[left], beta, tolerance, cap
            )
            iterations[left] += used
            # The plan of the plain steps stands if it is finite and the cap let nothing beat it.
            better = ~(gap[left] <= tight)
            plan[left[better]] = more[better].to(plan.dtype)
            gap[left[better]] = tight[better].to(gap.dtype)
    return _result(problem, plan.clone(), gap.clone(), iterations.clone())


def diagonal(
    cost: Tensor,
    source_mask: Tensor,
    target_mask: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
) -> Plan:
    """Match position to position: an ablation, and nearly the optimum late in training.

    Position i moves what both sides have there, `min(p_i, q_i)`. Where they differ the rest stays
    unmoved, and `marginal_error` says so. Nothing is certified.
    """
    problem = _problem(cost, source_mask, target_mask, source_mass, target_mass)
    length = min(cost.shape[1:])
    plan = torch.zeros_like(problem.cost, requires_grad=False)
    moved = torch.minimum(problem.source[:, :length], problem.target[:, :length])
    plan.diagonal(dim1=1, dim2=2).copy_(moved)
    gap = torch.full_like(problem.mean, torch.inf)
    return _result(problem, plan, gap, torch.zeros_like(gap, dtype=torch.long))


class Solver(Protocol):
    """The signature that all solvers share; knobs of their own have defaults."""

    def __call__(
        self,
        cost: Tensor,
        source_mask: Tensor,
        target_mask: Tensor,
        source_mass: Tensor | None = None,
        target_mass: Tensor | None = None,
    ) -> Plan:
        """Transport the source masses to the target masses of each sample."""


SOLVERS: dict[str, Solver] = {"exact": exact, "ipot": ipot, "diagonal": diagonal}
