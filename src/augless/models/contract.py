"""What a model hands to a loss, and what it keeps between two words of a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from augless import data


@dataclass(frozen=True)
class Output:
    """A teacher-forced prediction that stops before the output layer.

    Logits are as large as everything else together, and a loss that sees the layer's two factors
    need not store them.
    """

    hidden: Tensor
    """(B, T, H) what the output layer reads."""
    projection: Tensor
    """(V, H) weight of the output layer."""
    bias: Tensor | None
    """(V,) bias of the output layer."""
    embeddings: Tensor
    """(V, D) the decoder's embedding table."""

    def __post_init__(self) -> None:
        vocabulary = self.projection.shape[0]
        if self.hidden.dim() != 3 or self.projection.shape != (vocabulary, self.hidden.shape[2]):
            shapes = tuple(self.hidden.shape), tuple(self.projection.shape)
            raise ValueError(f"hidden and projection must be (B, T, H) and (V, H), not {shapes}")
        if self.bias is not None and self.bias.shape != (vocabulary,):
            raise ValueError(f"bias must be ({vocabulary},), not {tuple(self.bias.shape)}")
        if self.embeddings.dim() != 2 or len(self.embeddings) != vocabulary:
            shape = tuple(self.embeddings.shape)
            raise ValueError(f"embeddings must be ({vocabulary}, D), not {shape}")

    @property
    def logits(self) -> Tensor:
        """(B, T, V) scores of every word, computed anew each time."""
        return functional.linear(self.hidden, self.projection, self.bias)


@dataclass(frozen=True)
class State:
    """What a model keeps between two words of a search; the first dimension is the sentence."""

    fixed: tuple[Tensor, ...]
    """(B, ...) what depends on the source alone."""
    moving: tuple[Tensor, ...]
    """(B, ...) what every word changes."""

    def select(self, rows: Tensor) -> State:
        """Return the state of the given rows, in their order; a row may come several times."""
        return State(tuple(t[rows] for t in self.fixed), tuple(t[rows] for t in self.moving))

    def reorder(self, rows: Tensor) -> State:
        """Select among rows with the same source: what depends on the source alone stays."""
        return State(self.fixed, tuple(t[rows] for t in self.moving))


class Model(nn.Module, ABC):
    """A sequence-to-sequence model.

    What stands in padding changes nothing, no position looks ahead, and no sentence sees another.
    """

    @abstractmethod
    def forward(self, batch: data.Batch) -> Output:
        """Read pairs teacher-forced: what it says of each target word given those before it."""

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> State:
        """Read source sentences, (B, S) ids and mask, into the state before the first word."""

    @abstractmethod
    def step(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read the last words, (B,), and return logits of the next, (B, V), and the new state."""
