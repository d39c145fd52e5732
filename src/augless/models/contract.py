"""What a model does, and what it keeps between two words of a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from augless.contracts import Batch, Output


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
    def forward(self, batch: Batch) -> Output:
        """Read pairs teacher-forced: what it says of each target word given those before it."""

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> State:
        """Read source sentences, (B, S) ids and mask, into the state before the first word."""

    @abstractmethod
    def step(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read the last words, (B,), and return logits of the next, (B, V), and the new state."""
