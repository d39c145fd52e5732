"""What every model is made of: checked knobs, tables of words, and how first weights are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from augless.knobs import AtLeast, Below, Knobs
from augless.models.contract import Model

Tie = Annotated[
    Literal["none", "output", "all"],
    "one table for target words and output layer, or for source words too",
]

Layer = TypeVar("Layer", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class Architecture(Knobs, ABC):
    """The knobs of a model, and how it is built from them."""

    dropout: Annotated[float, "share of units dropped", AtLeast(0), Below(1)] = 0.1
    tie: Tie = "none"

    @property
    def autocasts(self) -> bool:
        """Tell whether it computes in lower precision where autocast asks for it."""
        return True

    def build(
        self, source_vocabulary: int, target_vocabulary: int, *, seed: int, shared: bool = False
    ) -> Model:
        """Make a model for vocabularies of these sizes; the same seed gives the same bits.

        `shared`: both sides use the same vocabulary, which `tie="all"` needs.
        """
        sizes = source_vocabulary, target_vocabulary
        require(min(sizes) >= 1, f"vocabularies of {sizes} words: each must have at least one")
        same = sizes[0] == sizes[1]
        require(same or not shared, f"a shared vocabulary cannot have two sizes, {sizes}")
        require(
            self.tie != "all" or same, f"tie='all' needs a shared vocabulary; sizes are {sizes}"
        )
        require(self.tie != "all" or shared, "tie='all' needs a vocabulary shared by both sides")
        # Torch's layers draw weights as soon as they are made: nobody else may notice.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            model = self.make(*sizes)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.first(name, parameter.shape, generator))
        return model

    @abstractmethod
    def make(self, source_vocabulary: int, target_vocabulary: int) -> Model:
        """Make the model, its weights still arbitrary."""

    @abstractmethod
    def first(self, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw the first value of a parameter."""


def require(condition: bool, message: str) -> None:
    """Raise the message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def uniform(shape: torch.Size, bound: float, generator: torch.Generator) -> Tensor:
    """Draw from [-bound, bound], on the CPU and in float32, so that every device gets the same."""
    values = torch.empty(shape, dtype=torch.float32, device="cpu")
    return values.uniform_(-bound, bound, generator=generator)


def barrier(mask: Tensor, like: Tensor) -> Tensor:
    """Return what to add to attention scores, of the mask's shape: 0 at real tokens, else very low.

    It is finite: where nothing is real, attention means nothing, but is not NaN.
    """
    lowest = torch.finfo(like.dtype).min / 2  # also finite if autocast rounds it
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(~mask, lowest)


def stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    """Make a part of a module out of layers, without forgetting their type as torch does."""
    return cast("Sequence[Layer]", nn.ModuleList(layers))


class Words(nn.Module):
    """The tables of words and the output layer. Tied ones are a single parameter, named once."""

    target: nn.Parameter
    """(V, D) embeddings of target words."""
    bias: nn.Parameter | None
    """(V,) bias of the output layer."""
    own_source: nn.Parameter | None
    own_projection: nn.Parameter | None

    def __init__(
        self, source: int, target: int, *, embedding: int, hidden: int, tie: str, bias: bool
    ) -> None:
        super().__init__()
        self.target = nn.Parameter(torch.empty(target, embedding))
        own = nn.Parameter(torch.empty(source, embedding)) if tie != "all" else None
        self.register_parameter("own_source", own)
        own = nn.Parameter(torch.empty(target, hidden)) if tie == "none" else None
        self.register_parameter("own_projection", own)
        self.register_parameter("bias", nn.Parameter(torch.empty(target)) if bias else None)

    @property
    def source(self) -> Tensor:
        """(V, D) embeddings of source words."""
        return self.target if self.own_source is None else self.own_source

    @property
    def projection(self) -> Tensor:
        """(V, H) weight of the output layer."""
        return self.target if self.own_projection is None else self.own_projection

    def logits(self, hidden: Tensor) -> Tensor:
        """Score every word, (..., H) -> (..., V)."""
        return functional.linear(hidden, self.projection, self.bias)
