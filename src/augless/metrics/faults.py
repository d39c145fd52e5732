"""Outputs that no score should be read from: empty, nearly constant, endless, or of other lines."""

from __future__ import annotations

import math
import re
import statistics
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
_LONGEST = 600  # characters of a line that are looked at

# A piece four times in a row or more, "a a a a ", ",,,,,,"; a long one three times.
_LOOP = re.compile(r"(.{1,80}?)\1{3,}|(.{8,80}?)\2{2,}", re.DOTALL)
# Choice: standard errors by which outputs have to fit their own references better than others'.
_FITS = 2.0
_OTHERS = 5  # references of other lines that each output is compared with

# Choice: a BLEU below this says nothing of which system is better.
_NEAR_ZERO = 2.0

FEWEST = 10
"""lines; fewer tell nothing"""
ADVICE = "train longer, on more data, or with other settings; compare nothing until outputs vary"


@dataclass(frozen=True)
class Degenerate:
    """What is wrong with a system's outputs as a whole."""

    kind: Literal["empty", "constant", "repetitive", "unrelated"]
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
    if count < FEWEST:
        return None
    given = [lines for lines in (references, sources) if lines]

    def too_many(share: float, counted: Callable[[Sequence[str]], int]) -> bool:
        found = counted(hypotheses) / count
        return found > share and all(found > 2 * counted(lines) / len(lines) for lines in given)

    if too_many(_EMPTY, _empty):
        return Degenerate("empty", f"{_empty(hypotheses):,} of {count:,} outputs are empty", "")
    if too_many(_REPEATED, _looping):
        seen = f"{_looping(hypotheses):,} of {count:,} outputs repeat themselves without end"
        return Degenerate("repetitive", seen, next(filter(None, map(_loop, hypotheses))))
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


def unrelated(
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str] | None = None
) -> Degenerate | None:
    """Return that outputs fit the references of other lines as well as their own; or None.

    So do sentences that vary without regard to their sources, and outputs in a wrong order. Metrics
    that compare with references then say nothing; a loss may.
    """
    count = len(hypotheses)
    if count < FEWEST or 1 in (len({*references}), len({*(sources or ())})):
        return None
    ours, theirs = ([_pieces(line) for line in lines] for lines in (hypotheses, references))
    # Far away: lines that follow each other may be about the same.
    steps = {max(1, count * k // (_OTHERS + 1)) for k in range(1, _OTHERS + 1)}
    gains = []
    for place, mine in enumerate(ours):
        fits = [_fit(mine, theirs[(place + step) % count]) for step in steps]
        gains.append(_fit(mine, theirs[place]) - statistics.fmean(fits))
    error = statistics.stdev(gains) / math.sqrt(count)
    if statistics.fmean(gains) > _FITS * error:
        return None
    seen = f"{count:,} outputs fit the references of other lines as well as their own"
    return Degenerate("unrelated", seen, Counter(hypotheses).most_common(1)[0][0])


def _pieces(line: str) -> set[str]:
    """Return all three characters in a row of a line, of any script."""
    line = line[:_LONGEST].lower()
    return {line[k : k + 3] for k in range(max(1, len(line) - 2))}


def _fit(one: set[str], other: set[str]) -> float:
    """Return which share of their pieces two lines have in common (Dice's coefficient)."""
    return 2 * len(one & other) / (len(one) + len(other))


def near_zero(metric: str, value: float | None) -> bool:
    """Tell whether a BLEU is so near 0 that it tells no systems apart."""
    return (value or 0.0) < noise(metric)


def noise(metric: str) -> float:
    """Return the score below which a metric, or a loss, tells nothing apart."""
    kind = METRICS.get(metric)
    return _NEAR_ZERO if kind is not None and kind.of_phrases else -math.inf


def _empty(lines: Sequence[str]) -> int:
    return sum(not line.strip() for line in lines)


def _looping(lines: Sequence[str]) -> int:
    return sum(bool(_loop(line)) for line in lines)


def _commonest(lines: Sequence[str]) -> int:
    return Counter(lines).most_common(1)[0][1]


def _loop(line: str) -> str:
    """Return the loop that a line, or at least half of a long one, consists of; else nothing."""
    line = line[:_LONGEST]
    # With a space after it, the last word of a loop is a piece like the others.
    loops = (match[0] for match in _LOOP.finditer(f"{line} "))
    longest = max(loops, key=len, default="")
    whole = len(longest) > len(line) or len(longest) >= max(10, len(line) / 2)
    return longest if whole else ""
