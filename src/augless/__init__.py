"""Train text-generation models as if their data had been augmented, without augmented data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch is slow to load
    from augless import decoding, training

__all__ = ["load"]


def load(run: str | Path, device: training.Device = "auto") -> decoding.Writer:
    """Open the best model of a run: `augless.load(folder).generate(["..."])`."""
    from augless.recipes import following

    return following.writer(run, device)
