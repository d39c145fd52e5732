"""The row `disk`: a call of the system fails; the last good is whole and nothing is misreported."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path


def case(chance: random.Random) -> bool:
    """Let one call fail; return whether something was lost, left over, or wrongly called saved."""
    import test_runs as quick

    while True:
        action, name = chance.choice(list(quick.ACTIONS)), chance.choice(quick.FAULTS)
        turn, number = chance.randint(1, 12), chance.choice(quick.ERRNOS)
        with tempfile.TemporaryDirectory() as folder:
            run = quick.copy(Path(folder) / "run")
            happened, wrong = quick.disk_failed(run.folder, action, name, turn, number)
        if happened or wrong:  # else there were fewer calls: draw again
            return bool(wrong)


def row(seed: int) -> Iterator[bool]:
    """Yield, for each failing call, whether something went wrong."""
    chance = random.Random(f"disk {seed}")
    for _ in range(50):
        yield case(chance)
