"""The row `untrusted`: foreign files in a run; refused in a line, nothing executed or imported."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path


def case(chance: random.Random) -> bool:
    """Put a pickle, an archive, a config or a malformed header into a run; return if it failed."""
    import test_runs as quick

    kind = chance.choice([quick.pickles, quick.archives, quick.configs, quick.headers])
    with tempfile.TemporaryDirectory() as folder:
        run = quick.copy(Path(folder) / "run")
        run.last()  # what reading imports is imported before
        return bool(quick.untrusted_failed(chance, run.folder, kind))


def row(seed: int) -> Iterator[bool]:
    """Yield, for each foreign file, whether it failed."""
    chance = random.Random(f"untrusted {seed}")
    for _ in range(100):
        yield case(chance)
