"""What re-weighting does, where its theory is exact: regression under the Euclidean distance.

    python examples/regression.py

A network maps inputs to points in space; its training targets are noisy; the loss is the distance
to the target. "augmented" really draws 64 neighbours of every target in every step; the law gives
each sample the weight that all possible neighbours amount to. "matched" has the law's mean weight.
The column "from augmented" is the mean distance of a method's predictions from those of the network
trained on explicit neighbours. Ends with a table and a picture of the weights.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

from augless import polar

INPUTS, OUTPUTS, TRAIN, TEST = 6, 4, 400, 2_000
STEPS, BATCH, RATE = 600, 64, 0.02
COPIES, RADIUS, NOISE = 64, 2.0, 0.5
SEEDS = range(5)

# Radii are absolute here, so that neighbours drawn explicitly and the law mean the same thing.
LAW = polar.Uniform(radius=RADIUS, unit="absolute", angle="isotropic", dimension=OUTPUTS)


@dataclass(frozen=True)
class Result:
    """One trained network: its predictions for the test inputs, their error, its final losses."""

    predictions: Tensor
    error: float
    losses: Tensor


def network(size: int) -> torch.nn.Sequential:
    """Return a small network from inputs to outputs."""
    return torch.nn.Sequential(
        torch.nn.Linear(INPUTS, size), torch.nn.Tanh(), torch.nn.Linear(size, OUTPUTS)
    )


def weighted(weighting: polar.Weighting) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the objective of a weighting."""
    return lambda predicted, target: weighting.objective(distance(predicted, target)).mean()


def augmented(predicted: Tensor, target: Tensor) -> Tensor:
    """Return the loss plus the mean loss over freshly drawn neighbours of each target."""
    directions = torch.nn.functional.normalize(torch.randn(COPIES, *target.shape), dim=-1)
    neighbours = target + RADIUS * torch.rand(COPIES, len(target), 1) * directions
    return (distance(predicted, target) + distance(predicted, neighbours).mean(0)).mean()


def distance(predicted: Tensor, target: Tensor) -> Tensor:
    """Return the Euclidean distance of points."""
    return (predicted - target).norm(dim=-1)


AUGMENTED = f"augmented x{COPIES}"
METHODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "plain": weighted(polar.Plain()),
    "matched": weighted(polar.Matched(of=LAW)),
    "uniform law": weighted(LAW),
    AUGMENTED: augmented,
}


def train(objective: Callable[[Tensor, Tensor], Tensor], seed: int) -> Result:
    """Fit a network to noisy pairs by SGD and measure it on clean ones."""
    torch.manual_seed(seed)
    with torch.no_grad():
        truth = network(32)
        inputs = torch.randn(TRAIN + TEST, INPUTS)
        clean = 3 * truth(inputs)
        targets = clean[:TRAIN] + NOISE * torch.randn(TRAIN, OUTPUTS)
    student = network(64)
    optimizer = torch.optim.SGD(student.parameters(), lr=RATE)
    for batch in torch.randint(TRAIN, (STEPS, BATCH)):
        optimizer.zero_grad()
        objective(student(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        predictions = student(inputs[TRAIN:])
        error = distance(predictions, clean[TRAIN:]).mean().item()
        return Result(predictions, error, distance(student(inputs[:TRAIN]), targets))


def draw(losses: Tensor, path: Path) -> None:
    """Draw the weight curve over the losses it is applied to."""
    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6))
    grid = torch.linspace(0, float(losses.max()) * 1.05, 400)
    axes.hist(losses.numpy(), bins=40, color="#d0d7de")
    axes.set(xlabel="loss of a training sample", ylabel="samples", xlim=(0, grid[-1]))
    curve = axes.twinx()
    curve.plot(grid, LAW(grid), color="#0969da", lw=2)
    curve.set(ylim=(0.95, 2.05))
    curve.set_ylabel("weight", color="#0969da")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Train every method with every seed, and say what came out."""
    torch.set_num_threads(1)
    print(f"{len(SEEDS)} seeds, {TRAIN} noisy training pairs, {TEST} clean test pairs\n")
    runs = {name: [train(objective, seed) for seed in SEEDS] for name, objective in METHODS.items()}
    print(f"{'method':<15} {'test error':>14} {'from augmented':>16} {'distances per sample':>22}")
    for name, results in runs.items():
        errors = [result.error for result in results]
        pairs = zip(results, runs[AUGMENTED], strict=True)
        gap = statistics.mean(
            distance(a.predictions, b.predictions).mean().item() for a, b in pairs
        )
        print(
            f"{name:<15} {statistics.mean(errors):>7.3f} ± {statistics.stdev(errors):.3f}"
            f"{gap:>16.3f} {1 + COPIES * (name == AUGMENTED):>22}"
        )
    path = Path("runs") / "demo" / "weights.svg"
    draw(runs["uniform law"][0].losses, path)
    print(f"\nthe law's weights over its training losses: {path}")


if __name__ == "__main__":
    main()
