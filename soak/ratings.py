"""The row `ratings`: the server is killed under five annotators; none acknowledged is lost."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def row(seed: int) -> Iterator[bool]:
    """Yield, for each kill, whether a rating was lost, doubled or changed in its survey."""
    import test_survey_serving as quick

    with tempfile.TemporaryDirectory() as folder:
        hits, wrong, _ = quick.killed(Path(folder) / "survey", kills=10, seed=1_000 + seed)
    for fault in wrong:
        print(f"ratings: seed {seed}: {fault}", file=sys.stderr)
    yield from [bool(wrong)] * hits
