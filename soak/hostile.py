"""The rows `records` and `recipes`: files from elsewhere and command lines, mutated."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def records(seed: int) -> Iterator[bool]:
    """Yield, for each mutated record, run, plan or prepared corpus, whether it did harm."""
    import test_hostile as quick

    yield from _explored("records", quick.records_case, 230, seed)
    yield from _explored("records", quick.trials_case, 20, seed)


def recipes(seed: int) -> Iterator[bool]:
    """Yield, for each mutated command line or recipe, whether it ended otherwise than promised."""
    import test_hostile as quick

    yield from _explored("recipes", quick.recipes_case, 100, seed)


def _explored(row: str, case: Callable[..., str], count: int, seed: int) -> Iterator[bool]:
    import test_hostile as quick

    with tempfile.TemporaryDirectory() as folder:
        sandbox = quick.Sandbox(Path(folder))

        def one(data: Any) -> str:
            return case(sandbox, data.draw)

        tried, faults = quick.explored(one, count, 10_000 + seed)
    for fault in faults:
        print(f"{row}: seed {seed}: {fault}", file=sys.stderr, flush=True)
    yield from [True] * len(faults) + [False] * (tried - len(faults))
