"""What a weighting costs, as a share of a training step of a small LSTM.

    python bench/polar.py

The step: one-layer 256 LSTM encoder and decoder with attention, batch 64, 25 words a sentence,
vocabulary 8,000, forward, backward, clipping and SGD. Goal: at most 0.02 for the weighting.
"""

import statistics
import time

import torch
from torch.nn import functional

from augless import polar

BATCH, LENGTH, VOCABULARY, SIZE = 64, 25, 8_000, 256
ROUNDS = 15


class Translator(torch.nn.Module):
    """A sequence-to-sequence LSTM with dot-product attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = torch.nn.Embedding(VOCABULARY, SIZE)
        self.encoder = torch.nn.LSTM(SIZE, SIZE, batch_first=True)
        self.decoder = torch.nn.LSTM(SIZE, SIZE, batch_first=True)
        self.combine = torch.nn.Linear(2 * SIZE, SIZE)
        self.output = torch.nn.Linear(SIZE, VOCABULARY)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of each sentence: (B, S), (B, T) -> (B,)."""
        memory, state = self.encoder(self.embeddings(source))
        queries, _ = self.decoder(self.embeddings(target), state)
        context = torch.softmax(queries @ memory.transpose(1, 2), -1) @ memory
        hidden = torch.tanh(self.combine(torch.cat([queries, context], -1)))
        logits = self.output(hidden).flatten(0, 1)
        return (
            functional.cross_entropy(logits, target.flatten(), reduction="none")
            .reshape(target.shape)
            .sum(1)
        )


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Translator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    source, target = torch.randint(VOCABULARY, (2, BATCH, LENGTH))
    losses = model(source, target)
    drawn = polar.Exponential().sample(1_000, torch.Generator().manual_seed(0))
    weightings = {
        name: kind(neighbours=drawn) if kind is polar.Empirical else kind()
        for name, kind in polar.WEIGHTINGS.items()
    }

    def step() -> None:
        optimizer.zero_grad()
        model(source, target).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    times: dict[str, list[float]] = {name: [] for name in ["step", *weightings]}
    for _ in range(ROUNDS):
        times["step"].append(seconds(step))
        for name, weighting in weightings.items():
            times[name].append(
                seconds(lambda weighting=weighting: weighting.objective(losses, 70.0))
            )
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"training step: {1e3 * median['step']:.1f} ms (batch {BATCH}, one thread)")
    print(f"{'weighting':<12} {'ms':>7} {'share of step':>14}")
    for name in weightings:
        print(f"{name:<12} {1e3 * median[name]:>7.3f} {median[name] / median['step']:>14.4f}")


if __name__ == "__main__":
    main()
