"""What is handed from step to step: padded sentences to a model, a model's output to a loss.

These are the only types that losses and models share with the rest. They know neither files nor
words, and torch is not loaded before a tensor is there: whoever uses a loss in a loop of their own
loads nothing else of this package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PAD, BOS, EOS, UNK = range(4)
"""Ids that every vocabulary begins with: padding, start, end, unknown word."""


@dataclass(frozen=True)
class Targets:
    """Padded target sentences: what a loss needs. What stands in padding is never looked at."""

    target: Tensor
    """(B, T) ids of the target sentences, the end symbol included."""
    target_mask: Tensor
    """(B, T), true at real tokens."""

    def __post_init__(self) -> None:
        if self.target.dim() != 2 or self.target.shape != self.target_mask.shape:
            shapes = tuple(self.target.shape), tuple(self.target_mask.shape)
            raise ValueError(f"target and target_mask must both be (B, T), not {shapes}")
        if str(self.target_mask.dtype) != "torch.bool":
            raise ValueError(f"target_mask must be boolean, not {self.target_mask.dtype}")


@dataclass(frozen=True)
class Batch(Targets):
    """Padded pairs of sentences."""

    source: Tensor
    """(B, S) ids of the source sentences, the end symbol included."""
    source_mask: Tensor
    """(B, S), true at real tokens."""
    weight: Tensor
    """(B,) weights given with the pairs, 1 unless an augmenter said otherwise."""
    index: NDArray[np.int64]
    """(B,) positions of the pairs in their split."""
    shown: Tensor | None = None
    """(B, T) target words as a teacher shows them, if otherwise than they are."""

    @property
    def decoder_input(self) -> Tensor:
        """(B, T) the words shown, shifted right behind the start symbol."""
        shifted = (self.target if self.shown is None else self.shown).roll(1, dims=1)
        shifted[:, :1] = BOS
        return shifted

    def to(self, device: torch.device) -> Batch:
        """Return the batch with its tensors on a device; the batch itself if they are there."""
        if self.target.device == device:
            return self
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if name != "index" and value is not None
        }
        return replace(self, **moved)


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
        """(B, T, V) scores of every word, computed again each time."""
        from torch.nn import functional

        return functional.linear(self.hidden, self.projection, self.bias)
