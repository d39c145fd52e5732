"""Outputs side by side, chosen by rule and not by hand, differences to the reference marked."""

from __future__ import annotations

import difflib
import functools
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless import trials
from augless.reports.evidence import Row, Study

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


@dataclass(frozen=True)
class Kind:
    """Examples chosen by one rule."""

    title: str
    examples: list[Example]


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
    hypothesis, reference = shortened(hypothesis), shortened(reference)
    tokens = _tokens().findall(hypothesis)
    words = [token for token in tokens if not token.isspace()]
    others = [token for token in _tokens().findall(reference) if not token.isspace()]
    same = [False] * len(words)
    matcher = difflib.SequenceMatcher(None, others, words, autojunk=False)
    for block in matcher.get_matching_blocks():
        same[block.b : block.b + block.size] = [True] * block.size
    pieces: list[Piece] = []
    flags = iter(same)
    for token in tokens:
        # A space belongs to the piece before it, so that a run of words is marked as one.
        flag = (pieces[-1].same if pieces else True) if token.isspace() else next(flags)
        if pieces and pieces[-1].same == flag:
            pieces[-1] = Piece(pieces[-1].text + token, flag)
        else:
            pieces.append(Piece(token, flag))
    return _tidy(pieces)


def _tidy(pieces: Sequence[Piece]) -> list[Piece]:
    """Move spaces at the end of a marked piece out of it."""
    found: list[Piece] = []
    for piece in pieces:
        end = len(piece.text.rstrip())
        if piece.same or end == len(piece.text):
            found.append(piece)
        else:
            found += [Piece(piece.text[:end], False), Piece(piece.text[end:], True)]
    return found


def shortened(text: str) -> str:
    """Cut what would fill the page."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def kinds(study: Study, focus: str | None) -> tuple[int | None, list[Kind]]:
    """Choose examples of a corpus: the largest gains, the largest losses, and random ones.

    Returns the seed whose outputs are shown, the first that both the baseline and the method have,
    or None if there is none, or no outputs.
    """
    base, row = study.baseline, study.row(focus)
    if row is None or base.method == row.method:
        return None, []
    seed = next(iter(sorted({*_written(study, base)} & {*_written(study, row)})), None)
    if seed is None:
        return None, []
    gains = _gains(study, base, row, seed)
    count = len(lines_of(study.records[base.method][seed]))
    chosen: list[tuple[str, list[int]]] = []
    if gains is not None:
        order = [int(i) for i in np.argsort(-gains, kind="stable")]
        best = [i for i in order if gains[i] > 0][:EACH]
        worst = [i for i in reversed(order) if gains[i] < 0][:EACH]
        chosen += [("Largest gains", best), ("Largest losses", worst)]
    taken = {i for _, those in chosen for i in those}
    left = [i for i in range(count) if i not in taken]
    drawn = np.random.default_rng(0).permutation(len(left))[:EACH]
    chosen.append(("Drawn at random", sorted(left[int(k)] for k in drawn)))
    return seed, [
        Kind(title, [_example(study, base, row, seed, i) for i in those])
        for title, those in chosen
        if those
    ]


def lines_of(record: trials.Record) -> list[str]:
    """Return what a run generated for the test set."""
    return (record.hypotheses or {}).get("test", [])


def _written(study: Study, row: Row) -> list[int]:
    """Return the seeds of a method whose outputs are there, and fit the test set."""
    size = len(study.references)
    found = study.records.get(row.method, {})
    return [seed for seed, record in found.items() if size and len(lines_of(record)) == size]


def _gains(study: Study, base: Row, row: Row, seed: int) -> NDArray[np.float64] | None:
    """Return how much the baseline's score would gain by the method's output, (N,).

    One sentence at a time. Scores of single sentences would choose the shortest ones, where a word
    is everything.
    """
    key = f"test/{study.metric.name}"
    both = [study.records[r.method][seed].statistics.get(key) for r in (row, base)]
    found = [table for table in both if table is not None and len(table) == len(study.references)]
    if len(found) < 2:
        return None
    ours, theirs = found
    total = theirs.sum(0)
    changes = study.metric.value(total + ours - theirs) - study.metric.value(total)
    return np.nan_to_num(changes) * (1 if study.metric.higher_is_better else -1)


def _example(study: Study, base: Row, row: Row, seed: int, index: int) -> Example:
    reference = study.references[index]
    outputs: list[Output] = []
    others: list[Output] = []
    for one in study.rows:
        record = study.records.get(one.method, {}).get(seed)
        if record is None or len(lines_of(record)) != len(study.references):
            continue
        output = Output(one.method, one.style, marked(lines_of(record)[index], reference))
        (outputs if one.method in (base.method, row.method) else others).append(output)
    source = study.sources[index] if index < len(study.sources) else ""
    return Example(index + 1, shortened(source), shortened(reference), outputs, others)
