"""What is made aside and then renamed, what a kill leaves of it, and tensors as bytes."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless.runs.schemas import BadRun

if TYPE_CHECKING:  # torch is slow to load, and a list of runs does without
    from torch import Tensor

_MOMENTS = ("begun", "written", "renamed")
_SAVING = (*_MOMENTS, "file-written", "durable", "discarding", "pruned")
CRASH_POINTS = (
    *(f"{verb}-{moment}" for verb in ("save", "best") for moment in _SAVING),
    *(f"create-{moment}" for moment in _MOMENTS),
    *(f"{verb}-{moment}" for verb in ("rewind", "finish") for moment in _MOMENTS[1:]),
    "log-written",
)
# What reading a damaged folder gives; any other error of the system is not the run's fault.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EIO}


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot say, such as a correlation of constants, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def brief(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())[:300]


@contextlib.contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Say of whatever a foreign or damaged file gives that the file is not usable."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGE:
            raise
        raise BadRun(f"{path} is damaged, or not ours: {brief(error)}") from None


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
