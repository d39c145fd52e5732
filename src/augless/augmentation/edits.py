"""Words deleted, swapped or replaced at random: the augmenter that needs no model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from augless import storage
from augless.augmentation import draws
from augless.augmentation.augmenter import (
    MOVES,
    Augmenter,
    Context,
    Line,
    Move,
    Rewriter,
    Side,
    Stop,
    chosen,
    words,
)
from augless.corpora import Progress
from augless.knobs import Within

Edit = Literal["delete", "swap", "replace", "mixed"]
_WORDS = "words.json"


@dataclass(frozen=True, kw_only=True)
class WordEdits(Augmenter):
    """Delete words, swap them with the next, or replace them by any word of the corpus.

    Replacing is in the manner of SwitchOut (Wang et al. 2018): every word of the side's vocabulary
    is as likely as any other. The number of edited words follows from the rate, though, and is not
    drawn. The last word that is left is never deleted.
    """

    rate: Annotated[float, "share of the words that are edited; at least one is", Within(0, 1)] = (
        0.1
    )
    side: Annotated[Side, "which side is edited"] = "source"
    edit: Annotated[Edit, "what is done to a word; mixed: any of the three"] = "mixed"

    @property
    def moves(self) -> tuple[Move, ...]:
        """Each chosen side is read and written."""
        return MOVES[self.side]

    def prepare(self, context: Context, progress: Progress, stop: Stop) -> Augmenter:
        """Gather the words of each side, to replace others by."""
        if self.edit in ("replace", "mixed") and self.rate > 0:
            progress("gathering words", 0, None)
            sides: tuple[set[str], set[str]] = (set(), set())
            for pair in context.corpus.pairs("train"):
                for side, text in zip(sides, (pair.source, pair.target), strict=True):
                    side.update(text[start:end] for start, end in words(text))
            content = json.dumps([sorted(side) for side in sides])
            storage.replace(context.work / _WORDS, content.encode())
        return self

    @contextlib.contextmanager
    def open(self, context: Context) -> Iterator[Rewriter]:
        """Read the words back."""
        vocabularies: list[list[str]] = [[], []]
        if (path := context.work / _WORDS).exists():
            vocabularies = json.loads(storage.read(path, 1 << 40))

        def rewrite(lines: Sequence[Line]) -> list[list[str]]:
            return [
                [
                    self._edited(line, copy, vocabularies[line.key[-1]])
                    for copy in range(self.copies)
                ]
                for line in lines
            ]

        yield rewrite

    def _edited(self, line: Line, copy: int, vocabulary: Sequence[str]) -> str:
        spans = words(line.text)
        picked = chosen(line, copy, self.rate, range(len(spans)), len(spans))
        if not picked:
            return line.text
        random = draws.generator((*line.key, copy, 1))
        tokens = [line.text[start:end] for start, end in spans]
        edges = [0, *(edge for span in spans for edge in span), len(line.text)]
        between = [line.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        kinds = ("delete", "swap", "replace") if self.edit == "mixed" else (self.edit,)
        left = len(tokens)
        for place in picked:
            kind = kinds[int(random.integers(len(kinds)))]
            if kind == "delete" and left > 1:
                tokens[place], left = "", left - 1
            elif kind == "swap" and len(tokens) > 1:
                other = place + 1 if place + 1 < len(tokens) else place - 1
                tokens[place], tokens[other] = tokens[other], tokens[place]
            elif kind == "replace" and vocabulary:
                tokens[place] = _another(vocabulary, tokens[place], random)
        return _joined(tokens, between)


def _another(vocabulary: Sequence[str], word: str, random: np.random.Generator) -> str:
    """Draw a word that is not this one, if there is any."""
    place = int(random.integers(len(vocabulary)))
    return vocabulary[place] if vocabulary[place] != word else vocabulary[place - 1]


def _joined(tokens: Sequence[str], between: Sequence[str]) -> str:
    """Put words and what stands between them together; of a word that is gone, one space goes."""
    text = between[0]
    for token, after in zip(tokens, between[1:], strict=True):
        if token:
            text += token + after
        elif text.endswith(" "):
            text = text[:-1] + after
        else:
            text += after.removeprefix(" ")
    return text
