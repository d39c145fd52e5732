"""How long help takes, beside a bare interpreter and the library it is printed with.

python bench/help.py
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 9
GOAL = 0.5
SIDES = {
    "augless --help": ["-m", "augless", "--help"],
    "augless train --help": ["-m", "augless", "train", "--help"],
    "import typer": ["-c", "import typer"],
    "python": ["-c", "pass"],
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(ROUNDS):  # in turns, so that a busy moment hits all
        for name, arguments in SIDES.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - began)
    bare = statistics.median(seconds["python"])
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"{name:<22} {median:6.3f} s  {median / bare:5.1f} times a bare interpreter")
    met = statistics.median(seconds["augless --help"]) < GOAL
    print(f"goal: help in under {GOAL} s: {'met' if met else 'missed'}")


if __name__ == "__main__":
    main()
