"""Run one row of the reliability table for some minutes and add it to the ledger.

    make soak ROW=transport
    python soak/soak.py transport --minutes 5

Each call goes on with fresh seeds where the last one stopped; tried and failed add up in
soak/ledger.json. Without a row it prints the ledger. No failure in N cases bounds the rate at 3/N.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corruption
import disk
import hostile
import ratings
import surveys
import untrusted

ROOT = Path(__file__).parent
LEDGER = ROOT / "ledger.json"
sys.path.insert(0, str(ROOT.parent / "tests"))  # a row runs what the quick tests run, longer


def transport(seed: int) -> Iterator[bool]:
    """Yield, for each random problem, whether IPOT failed: not finite, off, or infeasible."""
    import test_transport as quick

    for batch in quick.problems(seed=10_000 + seed, count=250):
        plan = batch.solve("ipot")
        for index, (cost, source, target) in enumerate(batch.unpadded()):
            best, mean = quick.optimum(cost, source, target), cost.mean() or 1.0
            within = abs(float(plan.value[index]) - best) / mean <= 0.005
            yield not (within and float(plan.marginal_error[index]) <= 1e-3)


def text(seed: int) -> Iterator[bool]:
    """Yield, for each fuzzed corpus, whether it failed: a traceback, a hang or a wrong pair."""
    import random

    import test_data as quick

    def hang(*_: object) -> None:
        raise RuntimeError("took more than a minute")  # not an OSError, which readers expect

    signal.signal(signal.SIGALRM, hang)
    for number in range(100 * seed, 100 * seed + 100):
        signal.alarm(60)
        try:
            with tempfile.TemporaryDirectory() as folder:
                quick.prepare_fuzzed(quick.fuzzed(random.Random(number)), Path(folder))
        except Exception as error:  # whatever it is, the row goes on
            print(f"text: corpus {number}: {error!r}", file=sys.stderr)
            yield True
        else:
            yield False
        finally:
            signal.alarm(0)


_WHOLE: dict[str, Any] = {}  # case -> how a run never stopped ends, and its seconds


def kill(seed: int) -> Iterator[bool]:
    """Yield, for each SIGKILL at a random moment, whether the run that it hit ended otherwise."""
    import random

    import test_interruptions as quick
    from augless import runs

    draws = random.Random(1_000 + seed)
    case = sorted(quick.CASES)[seed % len(quick.CASES)]
    with tempfile.TemporaryDirectory() as folder:
        if case not in _WHOLE:
            began = time.monotonic()
            assert quick.session(Path(folder) / "whole", case) == 0
            end = quick.quick.everything(runs.Run.open(Path(folder) / "whole"))
            _WHOLE[case] = end, time.monotonic() - began
        expected, seconds = _WHOLE[case]
        hits = quick.survive(Path(folder) / "killed", case, draws, seconds)
        same = quick.quick.everything(runs.Run.open(Path(folder) / "killed")) == expected
    yield from [not same] * hits


ROWS: dict[str, Callable[[int], Iterator[bool]]] = {
    "blinding": surveys.blinding,
    "corruption": corruption.row,
    "disk": disk.row,
    "kill": kill,
    "ratings": ratings.row,
    "recipes": hostile.recipes,
    "records": hostile.records,
    "survey": surveys.server,
    "text": text,
    "transport": transport,
    "untrusted": untrusted.row,
}


def main() -> int:
    """Run a row until the time is up, and say what came out."""
    parser = argparse.ArgumentParser(description="Run one row of the reliability table.")
    parser.add_argument("row", nargs="?", choices=sorted(ROWS))
    parser.add_argument("--minutes", type=float, default=9.0, help="at most so long (default: 9)")
    arguments = parser.parse_args()
    ledger = json.loads(LEDGER.read_text("utf-8")) if LEDGER.exists() else {}
    if arguments.row:
        entry = ledger.setdefault(arguments.row, {"tried": 0, "failed": 0, "seeds": 0})
        end = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < end:
            outcomes = list(ROWS[arguments.row](entry["seeds"]))
            entry["tried"] += len(outcomes)
            entry["failed"] += sum(outcomes)
            entry["seeds"] += 1
            LEDGER.write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8")
    for row, entry in sorted(ledger.items()):
        print(f"{row}: tried {entry['tried']:,}, failed {entry['failed']:,}")
    return 1 if any(entry["failed"] for entry in ledger.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
