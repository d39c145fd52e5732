"""The memory that a model needs at least, and a refusal if the machine has less."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from augless import models, text, training
from augless.recipes.reading import BadRecipe

_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of a container, below:
_GROUPS = Path("/sys/fs/cgroup")


def check(
    model: models.Architecture,
    codecs: tuple[text.Codec, text.Codec],
    settings: training.Settings | None = None,
) -> None:
    """Refuse a model that cannot be held in memory, or trained if settings are given."""
    source, target = map(len, codecs)
    with torch.device("meta"):  # nothing is allocated there
        count = sum(one.numel() for one in model.make(source, target).parameters())
    copies = 1 if settings is None else 2 + _moments(settings)  # weights, gradients, moments
    size = 8 if settings is not None and settings.precision == "float64" else 4
    needed, there = count * size * copies, available()
    if needed > there:
        raise BadRecipe(
            f"model: {count:,} parameters need at least {needed / 1e9:,.1f} GB of memory; "
            f"there are {there / 1e9:,.1f} GB\ntry smaller sizes, or a smaller text.vocabulary.size"
        )


def _moments(settings: training.Settings) -> int:
    """Count what the optimiser keeps for each parameter."""
    optimizer = settings.optimizer
    return 2 if isinstance(optimizer, training.Adam) else int(optimizer.momentum > 0)


def available() -> int:
    """Return the bytes of memory of this machine, or of the container it runs in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            limits.append(int((_GROUPS / name).read_text(encoding="ascii")))
    return min(limits)
