"""Would the tests notice? One-line faults put into the core, and the share that some test kills.

    make mutants                        # a random sample of 400 faults, the same every time
    make mutants SAMPLE=200 SEED=7      # another one
    make mutants SAMPLE=0               # all of them; a day

Works in a copy of the tracked files below build/, by mutmut, which runs the tests that reach the
changed function in a forked process, quickest first, up to the first that fails: most faults cost
less than a second. What lasts seconds is left out (pyproject.toml), and so is what other packages
are tested by. Messages of errors are not changed, nor is what is said at the top of
a module or class: constants, and defaults of knobs, which docs/reference.md holds. Limits of time
are of the processor's, so that a busy machine kills nothing; who runs into one is counted apart.

mutmut passes over decorated functions, so decorators are written as assignments in the copy; and
it never negates a condition, drops a call or swaps two arguments, so that is added to what it does.
One change that changes nothing is tried as well, against all tests: if one kills it, the score is
worth nothing.
"""

import argparse
import ast
import json
import math
import random
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "mutants"
LOG = ROOT / "build" / "mutants.log"
CORE = ("polar/", "losses/", "transport.py", "training/", "metrics/", "data/batches.py")
NOTHING = "augless.data.batches.x_nothing__mutmut_1"  # what it returns, nobody reads
# What is added to files of the copy.
NOTHING_AT_ALL = """

def nothing():
    return 1
"""
OWN_TESTS = """

import os
import sys
import time

import pytest

from augless.data.batches import nothing

OWN = {
    "polar": ("test_polar", "test_theory"),
    "losses": ("test_losses",),
    "transport": ("test_transport",),
    "training": ("test_training", "test_saved", "test_ranks"),
    "metrics": ("test_metrics", "test_contrasts", "test_faults"),
    "data": ("test_batches", "test_training"),
}

if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads an attribute that pytest 9 has renamed
    pytest.Item._nodeid = property(lambda item: item.nodeid)


def pytest_runtest_setup(item):
    nothing()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    item.began = time.process_time()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    if call.when == "call":  # mutmut takes it for the time that the test needs
        call.duration = time.process_time() - item.began


def pytest_collection_modifyitems(items):
    for name in [name for name in sys.modules if name.startswith("augless")]:
        for value in list(vars(sys.modules[name]).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()  # filled before the fork, when nothing was at fault
    fault = os.environ.get("MUTANT_UNDER_TEST", "")
    if fault.startswith("augless.") and "x_nothing" not in fault:
        items[:] = [item for item in items if item.path.stem in OWN[fault.split(".")[1]]]
"""
PLANTED = {"src/augless/data/batches.py": NOTHING_AT_ALL, "tests/conftest.py": OWN_TESTS}
OUTCOMES = {0: "survived", 1: "killed", 3: "killed", 5: "no tests", 33: "no tests"}
OUTCOMES |= dict.fromkeys((24, -24, 36, 152, 255), "timeout")
OPPOSITES = {"min": "max", "amin": "amax", "minimum": "maximum", "any": "all", "argmin": "argmax"}
OPPOSITES |= {other: one for one, other in OPPOSITES.items()}
SYMMETRIC = {*OPPOSITES, "hypot", "isclose"}


def with_more_faults(arguments: list[str]) -> None:
    """Run mutmut in this process, with faults that it does not know."""
    import libcst as cst
    from mutmut import __main__ as mutmut
    from mutmut.mutation import mutators
    from mutmut.workers import isolation

    def negated(node: cst.If) -> Iterator[cst.If]:
        test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))

    def dropped(node: cst.Expr) -> Iterator[cst.Pass]:
        if isinstance(node.value, cst.Call):
            yield cst.Pass()

    def called(node: cst.Call) -> str:
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        return name.value if isinstance(name, cst.Name) else ""

    def swapped(node: cst.Call) -> Iterator[cst.Call]:
        placed = [arg for arg in node.args[:2] if not arg.keyword and not arg.star]
        if len(placed) == 2 and called(node) not in SYMMETRIC:
            first, second = (arg.value for arg in placed)
            changed = placed[0].with_changes(value=second), placed[1].with_changes(value=first)
            yield node.with_changes(args=[*changed, *node.args[2:]])

    def opposite(node: cst.Call) -> Iterator[cst.Call]:
        if other := OPPOSITES.get(called(node)):
            name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
            yield node.with_deep_changes(name, value=other)
        for i, arg in enumerate(node.args):
            if arg.keyword and arg.keyword.value in ("min", "max"):
                keyword = cst.Name(OPPOSITES[arg.keyword.value])
                changed = arg.with_changes(keyword=keyword)
                yield node.with_changes(args=[*node.args[:i], changed, *node.args[i + 1 :]])

    more = [(cst.If, negated), (cst.Expr, dropped), (cst.Call, swapped), (cst.Call, opposite)]
    mutators.mutation_operators.extend(more)
    # What changes nothing is tried like any fault: no need to run the tests once more before.
    isolation.ForkRunner.run_clean_tests = lambda runner, tests: 0
    in_seconds = isolation.register_timeout  # for who waits; who works has a limit of its own
    isolation.register_timeout = lambda pid, timeout_s: in_seconds(pid, 60 * timeout_s)
    mutmut.cli(arguments)


def undecorated(source: str) -> str:
    """Write decorators of functions as assignments."""
    lines = source.split("\n")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in sorted(functions, key=lambda node: node.lineno, reverse=True):
        names = [ast.unparse(decorator) for decorator in node.decorator_list]
        if names and names not in (["staticmethod"], ["classmethod"]):
            value = "(".join([*names, node.name]) + ")" * len(names)
            lines.insert(node.end_lineno, f"{' ' * node.col_offset}{node.name} = {value}")
            del lines[node.decorator_list[0].lineno - 1 : node.lineno - 1]
    return "\n".join(lines)


def copy() -> None:
    """Copy what git tracks, as it is now; what mutmut knows of unchanged files stays."""
    changed = set()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    contents = {}
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.splitlines()):
        contents[name] = (ROOT / name).read_bytes()
        if name.endswith(".py") and name.removeprefix("src/augless/").startswith(CORE):
            contents[name] = undecorated(contents[name].decode()).encode()
        contents[name] += PLANTED.get(name, "").encode()
    before = {str(path.relative_to(WORK)) for path in WORK.rglob("*.py")}
    before = {name for name in before if not name.startswith("mutants/")}
    for name in before | contents.keys():
        path = WORK / name
        if not path.exists() or path.read_bytes() != contents.get(name):
            changed.add(name)
            for old in (path, WORK / "mutants" / name):
                old.unlink(missing_ok=True)
            if name in contents:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(contents[name])
    stats = WORK / "mutants" / "mutmut-stats.json"
    if stats.exists():  # which functions a changed test reaches is to be found out again
        known = json.loads(stats.read_text(encoding="utf-8"))
        times = known["duration_by_test"]
        known["duration_by_test"] = {
            test: time for test, time in times.items() if test.split("::")[0] not in changed
        }
        stats.write_text(json.dumps(known), encoding="utf-8")


def faults(key: str = "exit_code_by_key") -> dict[str, float | None]:
    """Return every fault by its name, with the exit code of its tests; None: not run."""
    found: dict[str, float | None] = {}
    for path in sorted((WORK / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))[key]
    return found


def run(*names: str) -> int:
    """Make the faults there are, time the tests, and try the faults named, one at a time."""
    command = [sys.executable, __file__, "mutmut", "run", "--max-children", "1", *names]
    with LOG.open("a") as log:
        return subprocess.run(command, cwd=WORK, stdout=log, stderr=log).returncode


def module(name: str) -> str:
    return name.split(".x")[0].removeprefix("augless.")


def drawn(names: list[str], size: int, seed: int) -> list[str]:
    """Draw faults, of each module its share."""
    modules: dict[str, list[str]] = {}
    for name in names:
        modules.setdefault(module(name), []).append(name)
    generator = random.Random(seed)
    return [
        name
        for listed in modules.values()
        for name in generator.sample(listed, max(1, round(size * len(listed) / len(names))))
    ]


def change(name: str) -> list[str]:
    """Return the lines that a fault takes away and puts in."""
    command = [sys.executable, "-m", "mutmut", "show", name]
    shown = subprocess.run(command, cwd=WORK, capture_output=True, text=True).stdout
    return [line for line in shown.splitlines() if re.match(r"[+-](?![+-])", line)]


def interval(killed: int, tried: int) -> str:
    """Return Wilson's 95 % interval of a share, in percent."""
    z, share = 1.96, killed / tried
    middle = (share + z**2 / (2 * tried)) / (1 + z**2 / tried)
    half = z / (1 + z**2 / tried) * math.sqrt(share * (1 - share) / tried + (z / 2 / tried) ** 2)
    return f"{100 * (middle - half):.0f} to {100 * (middle + half):.0f} %"


def summarise(chosen: list[str], made: int, seed: int) -> None:
    """Print the survivors, then how many were killed, by module and together."""
    codes, seconds = faults(), faults("durations_by_key")
    results = {name: OUTCOMES.get(codes[name], f"exit {codes[name]}") for name in chosen}
    killed = [name for name in chosen if results[name] in ("killed", "timeout")]
    for name in chosen:
        if name not in killed:
            print(name, results[name], *change(name), sep="\n    ")
    tried, dead = Counter(map(module, chosen)), Counter(map(module, killed))
    for one, count in tried.items():
        print(f"{one:24} {dead[one]:4} of {count:4}")
    spent = [seconds.get(name) or 0.0 for name in chosen]
    late = sum(result == "timeout" for result in results.values())
    print(
        f"killed {len(killed)} of {len(chosen)} ({100 * len(killed) / len(chosen):.1f} %, "
        f"95 % interval {interval(len(killed), len(chosen))}), {late} of them by time; "
        f"seed {seed}, drawn from {made} faults; median {statistics.median(spent):.1f} s a fault, "
        f"{sum(spent) / 60:.0f} min in all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="faults to try; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults whose name holds this")
    options = parser.parse_args()
    copy()
    LOG.write_text("")
    run("none of them")
    names = [name for name in faults() if options.only in name and name != NOTHING]
    chosen = drawn(names, options.sample, options.seed) if options.sample and names else names
    print(f"{len(names)} faults, {len(chosen)} are tried; {LOG} says how far it is", flush=True)
    if run(NOTHING, *chosen):
        sys.exit(f"mutmut stopped; the end of {LOG} says why")
    if faults()[NOTHING] != 0:
        sys.exit("tests fail where nothing was changed: what they kill means nothing")
    summarise(chosen, len(names), options.seed)


if __name__ == "__main__":
    with_more_faults(sys.argv[2:]) if sys.argv[1:2] == ["mutmut"] else main()
