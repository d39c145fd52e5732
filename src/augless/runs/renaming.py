"""What is made aside and then renamed, what a kill leaves of it, and tensors as bytes."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless import storage
from augless.runs.schemas import BadRun

if TYPE_CHECKING:  # torch is slow to load, and a list of runs does without
    from torch import Tensor

_MOMENTS = ("begun", "file-written", "written", "renamed", "durable", "discarding", "pruned")
CRASH_POINTS = (
    *(f"{verb}-{moment}" for verb in ("save", "best") for moment in _MOMENTS),
    *(f"{verb}-{moment}" for verb in ("create", "rewind", "finish") for moment in _MOMENTS[2:4]),
    "log-written",
)
_ASIDE = re.compile(r"\..+\.aside(\d{1,9})", re.ASCII)
# What reading a damaged folder gives; any other error of the system is not the run's fault.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EIO}
_met: list[str] = []


def crash_point(name: str) -> None:
    """Kill this process if AUGLESS_CRASH is `name`, `name:n` (n-th time) or `name:n:SIGNAL`."""
    wanted, *rest = os.environ.get("AUGLESS_CRASH", "").split(":")
    if wanted == name:
        _met.append(name)
        if _met.count(name) == int(rest[0] if rest else 1):
            os.kill(os.getpid(), signal.Signals[f"SIG{rest[1] if rest[1:] else 'KILL'}"])


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


def beside(path: Path) -> Path:
    """Return a name beside a path, for what is not whole yet."""
    return path.with_name(f".{path.name}.aside{os.getpid()}")


@contextlib.contextmanager
def aside(path: Path, verb: str) -> Iterator[Path]:
    """Give a name beside a path; what is made there becomes the path at the end, or nothing."""
    made = beside(path)
    try:
        remove(made)
        yield made
        crash_point(f"{verb}-written")
        os.rename(made, path)  # noqa: PTH104  # every call that may fail is in `os`, for tests
        crash_point(f"{verb}-renamed")
        storage.sync(path.parent)
    finally:
        remove(made)


def remove(path: Path) -> None:
    """Remove a file or folder, if there is one and it can be removed."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def clear(folder: Path, start: str, *, sure: bool = False) -> None:
    """Remove what processes left aside; if not sure that they died, only where they did."""
    for path in folder.iterdir():
        match = _ASIDE.fullmatch(path.name) if path.name.startswith(start) else None
        if match and (sure or not storage.alive(int(match[1]))):
            remove(path)
