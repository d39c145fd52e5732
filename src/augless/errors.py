"""What a user can do something about, with its exit code.

Exceptions are known by the names of their classes, so that this module imports none of those that
define them, and looking up a code loads nothing. Two that several packages raise are defined here.
"""

from __future__ import annotations

from dataclasses import dataclass

DONE, BUG, USAGE, BAD_DATA, BAD_RUN, IO_ERROR, BUSY, NOT_FINITE = range(8)
STOPPED = 75

MEANINGS = {
    DONE: "done",
    USAGE: "recipe or usage",
    BAD_DATA: "data",
    BAD_RUN: "not a usable run",
    IO_ERROR: "input or output",
    BUSY: "run in use",
    NOT_FINITE: "loss not finite",
    STOPPED: "stopped and resumable",
    BUG: "a bug of ours",
}
"""exit code -> what it says; README prints this table"""

CODES = {
    "BadRecipe": USAGE,
    "BadKnob": USAGE,
    "BadOptions": USAGE,
    "BadAugmentation": USAGE,
    "BadData": BAD_DATA,
    "BadStore": BAD_DATA,
    "BadScores": BAD_DATA,
    "BadSurvey": BAD_DATA,
    "BadRun": BAD_RUN,
    "BadRecord": BAD_RUN,
    "Busy": BUSY,
    "Stopped": STOPPED,
}


class Stopped(Exception):  # noqa: N818  # no error: somebody asked for it
    """Work that was asked to stop before its end, and can be resumed."""


class Busy(RuntimeError):  # noqa: N818  # named for what it is
    """A folder that another process is working on."""


@dataclass(frozen=True)
class Failure:
    """Why a piece of work has no result."""

    code: int
    """the exit code of a command that fails so; of a process that was killed, as of a bug, 1"""
    why: str

    def __str__(self) -> str:
        return self.why if self.code == BUG else f"exit code {self.code}: {self.why}"


def code_of(error: BaseException) -> int:
    """Return the exit code of an exception; whatever no user can do something about is a bug."""
    for kind in type(error).__mro__:
        if kind.__module__.startswith("augless.") and kind.__name__ in CODES:
            return CODES[kind.__name__]
    if isinstance(error, FloatingPointError):
        return NOT_FINITE
    return IO_ERROR if isinstance(error, OSError) else BUG


def code_of_all(failures: list[Failure]) -> int:
    """Return the exit code of failures: theirs if it is the same for all, else 1."""
    codes = {failure.code for failure in failures}
    return codes.pop() if len(codes) == 1 else BUG
