"""Corpora made of other corpora: one with its augmented pairs, and one with its sides swapped."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from augless import corpora
from augless.augmentation import folders
from augless.augmentation.augmenter import BadAugmentation
from augless.corpora.corpus import Corpus
from augless.knobs import Within


@dataclass(frozen=True, kw_only=True)
class Enlarged(Corpus):
    """A corpus whose training pairs are followed by the made ones of an augmented folder.

    `loss(x, y) + w loss(x^, y)` comes of the weight; the other splits pass through. The pairs of
    the folder must have been made from this corpus.
    """

    original: Annotated[Corpus, "the corpus that was augmented"]
    path: Annotated[Path, "the folder that augment made of it"]
    w: Annotated[float, "weight of a made pair, as a share of its original's", Within(0, 1e6)] = 1.0

    @staticmethod
    def of(original: Corpus, path: str | Path, w: float = 1.0) -> Enlarged:
        """Join a corpus and the folder that was made of it."""
        return Enlarged(languages=original.languages, original=original, path=Path(path), w=w)

    def splits(self) -> tuple[str, ...]:
        """List the splits of the original."""
        return self.original.splits()

    def inputs(self) -> list[Path]:
        """List the files of the original and that of the made pairs."""
        return [*self.original.inputs(), self.path / folders.TRAIN]

    def check(self) -> None:
        """Refuse files that cannot be read, and pairs that were made from another corpus."""
        self.original.check()
        made_from = folders.Augmented.open(self.path).manifest.made_from
        if made_from.get("corpus") != self.original.fingerprint():
            raise BadAugmentation(
                f"{self.path} was made from another corpus, or its files have changed since\n"
                "augment this one into another folder"
            )

    def fingerprint(self) -> str:
        """Give a SHA-256 over the original's, the made pairs and their weight."""
        made = corpora.reading.digest(self.path / folders.TRAIN).hex()
        parts = [type(self).__name__, self.version, self.original.fingerprint(), made, self.w]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def stream(self, split: str, tally: corpora.Tally) -> Iterator[corpora.Pair]:
        """Stream the pairs of a split."""
        weights = array("d")
        for pair in self.original.pairs(split, tally):
            weights.append(pair.weight)
            yield pair
        if split == "train":
            yield from self._made(weights)

    def _made(self, weights: array[float]) -> Iterator[corpora.Pair]:
        source, target = self.languages
        for row in folders.Augmented.open(self.path).rows():
            if "of" in row:
                of = row["of"]
                weight = 1.0 if of is None else weights[of]
                yield corpora.Pair(row[source], row[target], self.w * weight, made=True)


@dataclass(frozen=True, kw_only=True)
class Reversed(Corpus):
    """A corpus with its sides swapped, which the reverse model is trained on."""

    original: Annotated[Corpus, "the corpus whose sides are swapped"]

    @staticmethod
    def of(original: Corpus) -> Reversed:
        """Turn a corpus round."""
        source, target = original.languages
        return Reversed(languages=(target, source), original=original)

    def splits(self) -> tuple[str, ...]:
        """List the splits of the original."""
        return self.original.splits()

    def inputs(self) -> list[Path]:
        """List the files of the original."""
        return self.original.inputs()

    def check(self) -> None:
        """Refuse what the original refuses."""
        self.original.check()

    def fingerprint(self) -> str:
        """Give a SHA-256 over the original's."""
        parts = [type(self).__name__, self.version, self.original.fingerprint()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def stream(self, split: str, tally: corpora.Tally) -> Iterator[corpora.Pair]:
        """Stream the pairs of a split."""
        for pair in self.original.pairs(split, tally):
            yield corpora.Pair(pair.target, pair.source, pair.weight, pair.made)
