"""Outputs side by side, chosen by rule and not by hand, differences to the reference marked."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless.reports.evidence import MethodResult, Study

EACH = 3  # examples of a kind
LONGEST = 700  # characters of a sentence that are shown
# Scripts without spaces are compared character by character: kana, Han, Hangul, and those of
# Thailand, Laos, Myanmar and Cambodia.
_ALONE = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"


@dataclass(frozen=True)
class Piece:
    """Some words, and whether the reference has them there."""

    text: str
    same: bool


@dataclass(frozen=True)
class Output:
    """What a method made of a sentence."""

    method: str
    style: str
    pieces: list[Piece]


@dataclass(frozen=True)
class Example:
    """A sentence and what was made of it."""

    number: int
    """in the test set, from 1"""
    source: str
    reference: str
    outputs: list[Output]
    """of the baseline and of the method in question"""
    others: list[Output]


@functools.cache
def _tokens() -> re.Pattern[str]:
    """Return what cuts text into words, or characters, with the marks that combine with them."""
    marks = (chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] == "M")
    # Joiners, and the vowels AM of Thai and Lao, which are letters to Unicode.
    joined = f"[{''.join(marks)}\u200c\u200d\u0e33\u0eb3]"
    emoji = rf"[^\w\s](?:{joined}|(?<=\u200d)[^\w\s])*"
    return re.compile(rf"\s+|{_ALONE}{joined}*|(?:\w{joined}*)+|{emoji}")


def marked(hypothesis: str, reference: str) -> list[Piece]:
    """Cut a hypothesis into pieces that the reference has, in order, and others."""
    tokens = _tokens().findall(shortened(hypothesis))
    words = [place for place, token in enumerate(tokens) if not token.isspace()]
    others = [token for token in _tokens().findall(shortened(reference)) if not token.isspace()]
    matcher = difflib.SequenceMatcher(None, others, [tokens[k] for k in words], autojunk=False)
    same = [token.isspace() for token in tokens]
    for block in matcher.get_matching_blocks():
        for place in words[block.b : block.b + block.size]:
            same[place] = True
    # Spaces between words that are marked are marked with them, so that these are one piece.
    for place in {*range(1, len(tokens) - 1)} - {*words}:
        same[place] = same[place - 1] or same[place + 1]
    parts = itertools.groupby(zip(same, tokens, strict=True), key=lambda pair: pair[0])
    return [Piece("".join(token for _, token in part), flag) for flag, part in parts]


def shortened(text: str) -> str:
    """Cut what would fill the page."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def chosen(focus: str | None, study: Study) -> tuple[int, dict[str, list[Example]]] | None:
    """Choose examples of a corpus: the largest gains, the largest losses, and random ones.

    Returns the seed whose outputs are shown, the first that both the baseline and the method have,
    and the examples by what they are; None where outputs are missing.
    """
    base, row = study.baseline, study.row(focus)
    if row is None or base.method == row.method:
        return None
    seeds = [s for s in sorted(row.records) if _lines(study, row, s) and _lines(study, base, s)]
    if not seeds:
        return None
    numbers: dict[str, list[int]] = {}
    gains = _gains(study, base, row, seeds[0])
    if gains is not None:
        order = [int(place) for place in np.argsort(-gains, kind="stable")]
        numbers["Largest gains"] = [k for k in order if gains[k] > 0][:EACH]
        numbers["Largest losses"] = [k for k in reversed(order) if gains[k] < 0][:EACH]
    taken = {k for those in numbers.values() for k in those}
    left = [k for k in range(len(study.references)) if k not in taken]
    drawn = np.random.default_rng(0).permutation(len(left))[:EACH]
    numbers["Drawn at random"] = sorted(left[int(k)] for k in drawn)
    return seeds[0], {
        title: [_example(study, (base, row), seeds[0], k) for k in those]
        for title, those in numbers.items()
        if those
    }


def _lines(study: Study, row: MethodResult, seed: int) -> list[str]:
    """Return what a run generated for the test set; nothing if it does not fit it."""
    record = row.records.get(seed)
    lines = (record.hypotheses or {}).get("test", []) if record else []
    return lines if len(lines) == len(study.references) else []


def _gains(
    study: Study, base: MethodResult, row: MethodResult, seed: int
) -> NDArray[np.float64] | None:
    """Return how much the baseline's score would gain by the method's output, (N,).

    One sentence at a time. Scores of single sentences would choose the shortest ones, where a word
    is everything.
    """
    name = study.metric.name
    ours, theirs = (one.records[seed].table("test", name) for one in (row, base))
    if ours is None or theirs is None or not len(ours) == len(theirs) == len(study.references):
        return None
    total = theirs.sum(0)
    changes = study.metric.value(total + ours - theirs) - study.metric.value(total)
    return np.nan_to_num(changes) * (1 if study.metric.higher_is_better else -1)


def _example(study: Study, shown: Sequence[MethodResult], seed: int, place: int) -> Example:
    reference = study.references[place]
    outputs: list[Output] = []
    others: list[Output] = []
    for row in study.rows:
        if lines := _lines(study, row, seed):
            output = Output(row.method, row.style, marked(lines[place], reference))
            (outputs if row in shown else others).append(output)
    source = study.sources[place] if place < len(study.sources) else ""
    return Example(place + 1, shortened(source), shortened(reference), outputs, others)
