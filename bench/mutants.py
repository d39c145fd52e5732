"""Would the tests notice? One-line faults put into the core, and the share that some test kills.

    make mutants                        # a random sample of 400 faults, the same every time
    make mutants SAMPLE=0               # all of them; hours

Works in a copy of the tracked files below build/, by mutmut. Messages of errors are not changed.
The sample is drawn per file, in proportion to its faults. Survivors are listed with their change.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "mutants"
# mutmut 3.8 reads an attribute that pytest 9 has renamed.
SHIM = """

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)
"""
KILLED = {"1": "killed", "3": "killed", "36": "timeout", "24": "timeout", "-24": "timeout"}


def mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    run = subprocess.run(command, cwd=WORK, capture_output=True, text=True, errors="replace")
    return run.stdout + run.stderr


def faults() -> dict[str, int | None]:
    """Return every fault by its name, with the exit code of its tests; None: not run."""
    found: dict[str, int | None] = {}
    for path in sorted((WORK / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def copy() -> None:
    """Copy what git tracks, as it is now."""
    shutil.rmtree(WORK, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (WORK / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, WORK / name)
    with (WORK / "tests" / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(SHIM)


def drawn(names: list[str], size: int, seed: int) -> list[str]:
    """Draw faults, of each module its share."""
    modules: dict[str, list[str]] = {}
    for name in names:
        modules.setdefault(name.split(".x")[0], []).append(name)
    generator = random.Random(seed)
    return [
        name
        for listed in modules.values()
        for name in generator.sample(listed, max(1, round(size * len(listed) / len(names))))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="faults to try; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules whose name holds this")
    options = parser.parse_args()
    copy()
    first = mutmut("run", "--max-children", "1", "no such fault")  # makes them and times the tests
    names = [name for name in faults() if options.only in name]
    if not names:
        sys.exit(f"no faults were made:\n{first[-2000:]}")
    chosen = drawn(names, options.sample, options.seed) if options.sample else names
    print(f"{len(names)} faults, {len(chosen)} tried", flush=True)
    for start in range(0, len(chosen), 50):
        mutmut("run", "--max-children", "1", *chosen[start : start + 50])
        print(f"{min(start + 50, len(chosen))} done", file=sys.stderr, flush=True)
    codes = faults()
    results = {name: KILLED.get(str(codes[name]), f"exit {codes[name]}") for name in chosen}
    survived = [name for name in chosen if results[name] not in ("killed", "timeout")]
    for name in survived:
        change = [line for line in mutmut("show", name).splitlines() if line[:1] in "+-"]
        print(name, results[name], *change[2:], sep="\n    ")
    dead, tried = Counter(), Counter(name.split(".x")[0] for name in chosen)
    dead.update(name.split(".x")[0] for name in chosen if name not in survived)
    for module, count in tried.items():
        print(f"{module:40} {dead[module]:4} of {count:4}")
    print(f"killed {len(chosen) - len(survived)} of {len(chosen)}")


if __name__ == "__main__":
    main()
