"""Batches: what a model is trained on."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Padded sentences; what stands in padding is never looked at."""

    target: Tensor
    """(B, T) ids of the target sentences, the end symbol included."""
    target_mask: Tensor
    """(B, T), true at real tokens."""

    def __post_init__(self) -> None:
        if self.target.dim() != 2 or self.target.shape != self.target_mask.shape:
            shapes = tuple(self.target.shape), tuple(self.target_mask.shape)
            raise ValueError(f"target and target_mask must both be (B, T), not {shapes}")
        if self.target_mask.dtype != torch.bool:
            raise ValueError(f"target_mask must be boolean, not {self.target_mask.dtype}")
