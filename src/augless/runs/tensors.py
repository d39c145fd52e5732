"""Tensors as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from augless.runs.files import BadRun, brief

if TYPE_CHECKING:  # torch is slow to load, and a list of runs does without
    from torch import Tensor


def packed(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors as a file has them; refuse what could not be read back."""
    import safetensors.torch

    # Some types, and one name, can be written but not read.
    unpacked(safetensors.torch.save({n: t.new_empty(0) for n, t in tensors.items()}))
    # Cloned, since tensors that share memory are refused.
    whole = {n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}
    return safetensors.torch.save(whole)


def unpacked(content: bytes) -> dict[str, Tensor]:
    """Read tensors back."""
    import safetensors.torch

    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError) as error:
        raise BadRun(f"the tensors cannot be read ({brief(error)})") from None
