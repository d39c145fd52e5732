"""Which process of how many this is, and what they all say together (data parallel training)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """One of several processes that share every batch; alone by default.

    Every rank must make every call of `sum` and `any`, in the same order: the others wait for it.
    With several ranks they go through torch.distributed, whose process group must exist.
    """

    rank: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise ValueError(f"rank {self.rank} is none of {self.count} ranks, counted from 0")

    @property
    def first(self) -> bool:
        """Tell whether this rank is the one that writes."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this rank's rows of a batch; together the ranks have all of them, once."""
        return rows[self.rank :: self.count]

    def sum(self, values: Tensor) -> Tensor:
        """Add a tensor up over all ranks; the result is the same on each."""
        if self.count == 1:
            return values
        from torch import distributed

        # nccl adds up what is on a GPU only, and gloo what is not.
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        total = values.detach().to(device, copy=True)
        distributed.all_reduce(total)
        return total.to(values.device)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return the vectors of all ranks, in their order; each may have its own length."""
        if self.count == 1:
            return [values]
        import torch

        sizes = values.new_zeros(self.count)
        sizes[self.rank] = len(values)
        lengths = [int(size) for size in self.sum(sizes).tolist()]
        start = sum(lengths[: self.rank])
        everything = values.new_zeros(sum(lengths))
        everything[start : start + len(values)] = values
        return list(torch.split(self.sum(everything), lengths))

    def any(self, value: bool) -> bool:
        """Tell whether it is true on some rank."""
        if self.count == 1:
            return value
        import torch

        return bool(self.sum(torch.tensor(float(value))) > 0)


ALONE = Ranks()


def here() -> Ranks:
    """Return the ranks that torch.distributed knows of: one where it was not started."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return ALONE
    return Ranks(distributed.get_rank(), distributed.get_world_size())
