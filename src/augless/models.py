"""The sequence-to-sequence contract: what a model hands to a loss."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


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
