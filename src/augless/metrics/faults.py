"""Outputs that no score should be read from: empty, nearly constant, or endless repetitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from augless.metrics.scores import METRICS

# Limits are set so that generic but working dialogue models pass, and one constant answer does not.
_EMPTY = 0.5  # share of lines
_DISTINCT = 0.05  # of the distinct lines that there should be
_REPEATED = 0.2  # share of lines
_FEWEST = 10  # lines; fewer tell nothing
_LONGEST = 2000  # characters of a line that are looked at

# A piece of at most 40 characters, five times in a row or more: "a a a a a", ",,,,,,".
_LOOP = re.compile(r"(.{1,40}?)\1{4,}", re.DOTALL)

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
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str] | None = None
) -> Degenerate | None:
    """Return what is wrong with the outputs of a system, or None.

    Outputs are measured against the references, so that a task with few right answers, such as
    labels, is no case of it. No difference may be claimed of a system with degenerate outputs,
    whatever the metric says: a metric near 0 rewards whichever constant is luckier.
    """
    count = len(hypotheses)
    if count < _FEWEST:
        return None
    empty = sum(not line.strip() for line in hypotheses)
    if empty > _EMPTY * count and empty > 2 * sum(not line.strip() for line in references):
        return Degenerate("empty", f"{empty:,} of {count:,} outputs are empty", "")
    looping = [line for line in hypotheses if _loops(line)]
    expected = sum(map(_loops, references))
    if len(looping) > _REPEATED * count and len(looping) > 2 * expected:
        seen = f"{len(looping):,} of {count:,} outputs repeat themselves without end"
        return Degenerate("repetitive", seen, looping[0])
    counts = Counter(hypotheses)
    possible = min(len({*references}), len({*(sources or references)}))
    if possible > 1 and len(counts) <= max(1.0, _DISTINCT * possible):
        seen = f"{count:,} outputs have only {len(counts):,} different lines"
        return Degenerate("constant", seen, counts.most_common(1)[0][0])
    return None


def near_zero(metric: str, value: float | None) -> bool:
    """Tell whether a BLEU is so near 0 that it tells no systems apart."""
    return METRICS[metric].of_phrases and (value or 0.0) < _NEAR_ZERO


def _loops(line: str) -> bool:
    """Tell whether at least half of a line is one piece over and over again."""
    line = line[:_LONGEST]
    longest = max((len(match[0]) for match in _LOOP.finditer(line)), default=0)
    return longest >= max(10, len(line) / 2)
