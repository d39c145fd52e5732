"""The row `corruption`: a run with one damaged file; noticed, and the last good used."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path


def case(chance: random.Random) -> bool:
    """Damage a file of a run; return whether that went unnoticed, or cost more than it had to."""
    import test_runs as quick

    with tempfile.TemporaryDirectory() as folder:
        run = quick.copy(Path(folder) / "run")
        return bool(quick.corruption_missed(chance, run.folder))


def row(seed: int) -> Iterator[bool]:
    """Yield, for each damage, whether it failed."""
    chance = random.Random(f"corruption {seed}")
    for _ in range(100):
        yield case(chance)
