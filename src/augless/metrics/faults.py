"""Outputs that no score should be read from: empty, nearly constant, or endless repetitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from augless.metrics.scores import METRICS

# Choice: generic but working dialogue models pass (143 different answers to 1,000 queries), and
# one answer to nearly all does not. Shares of lines count only above twice that of references.
_EMPTY = 0.2  # share of lines
_REPEATED = 0.2  # share of lines
_COMMONEST = 0.3  # share of lines that are one and the same
_DISTINCT = 0.1  # of the distinct lines that there should be
_FEW = 100  # distinct lines are enough: they grow slower than a test set
_FEWEST = 10  # lines; fewer tell nothing
_LONGEST = 2000  # characters of a line that are looked at

# A piece of at most 40 characters, four times in a row or more: "a a a a ", ",,,,,,".
_LOOP = re.compile(r"(.{1,40}?)\1{3,}", re.DOTALL)

# Choice: a BLEU below this says nothing of which system is better.
_NEAR_ZERO = 2.0

ADVICE = "train longer, on more data, or with other settings; compare nothing until outputs vary"


@dataclass(frozen=True)
class Degenerate:
    """What is wrong with a system's outputs as a whole."""

    kind: Literal["empty", "constant", "repetitive"]
    seen: str
    """what was seen, in words"""
    example: str

    def __str__(self) -> str:
        shown = self.example if len(self.example) <= 60 else f"{self.example[:57]}..."
        quoted = f", such as {shown!r}" if shown else ""
        return f"{self.seen}{quoted}"


def degenerate(
    hypotheses: Sequence[str],
    references: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
) -> Degenerate | None:
    """Return what is wrong with the outputs of a system, or None.

    Outputs are measured against references and sources, so that a task with few right answers, such
    as labels, is no case of it; without both, every line should have an answer of its own. No
    difference may be claimed of a system with degenerate outputs, whatever the metric says: a
    metric near 0 rewards whichever constant is luckier.
    """
    count = len(hypotheses)
    if count < _FEWEST:
        return None
    given = [lines for lines in (references, sources) if lines]

    def too_many(share: float, counted: Callable[[Sequence[str]], int]) -> bool:
        shares = [share, *(2 * counted(lines) / len(lines) for lines in given)]
        return counted(hypotheses) > max(shares) * count

    if too_many(_EMPTY, _empty):
        return Degenerate("empty", f"{_empty(hypotheses):,} of {count:,} outputs are empty", "")
    if too_many(_REPEATED, _looping):
        seen = f"{_looping(hypotheses):,} of {count:,} outputs repeat themselves without end"
        return Degenerate("repetitive", seen, next(filter(_loops, hypotheses)))
    distinct, possible = len({*hypotheses}), min([count, *(len({*lines}) for lines in given)])
    line = Counter(hypotheses).most_common(1)[0][0]
    if possible > 1 and distinct <= max(1.0, min(_FEW, _DISTINCT * possible)):
        word = "line" if distinct == 1 else "lines"
        seen = f"{count:,} outputs have only {distinct:,} different {word}"
        return Degenerate("constant", seen, line)
    if too_many(_COMMONEST, _commonest):
        seen = f"{_commonest(hypotheses):,} of {count:,} outputs are one and the same line"
        return Degenerate("constant", seen, line)
    return None


def near_zero(metric: str, value: float | None) -> bool:
    """Tell whether a BLEU is so near 0 that it tells no systems apart."""
    return METRICS[metric].of_phrases and (value or 0.0) < _NEAR_ZERO


def _empty(lines: Sequence[str]) -> int:
    return sum(not line.strip() for line in lines)


def _looping(lines: Sequence[str]) -> int:
    return sum(map(_loops, lines))


def _commonest(lines: Sequence[str]) -> int:
    return Counter(lines).most_common(1)[0][1]


def _loops(line: str) -> bool:
    """Tell whether a line, or at least half of a long one, is one piece over and over again."""
    line = line[:_LONGEST]
    # With a space after it, the last word of a loop is a piece like the others.
    longest = max((len(match[0]) for match in _LOOP.finditer(f"{line} ")), default=0)
    return longest > len(line) or longest >= max(10, len(line) / 2)
