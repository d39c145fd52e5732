"""What a recipe leaves open and the size of its corpus decides.

The paper's settings belong to the paper's corpora. Small corpora need fewer subwords, smaller
batches, more dropout and more passes, and an optimiser that needs no luck. Precedence:
defaults < these < recipe < key=value. Each value is printed with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from augless import corpora

ENOUGH = 200_000
"""pairs that are counted at most: beyond, everything is suggested as for so many"""


@dataclass(frozen=True)
class Size:
    """How much there is to learn from."""

    pairs: int
    words: int
    """of both sides together, between spaces"""

    @staticmethod
    def of(corpus: corpora.Corpus) -> Size:
        """Count the training pairs, and their words."""
        pairs = words = 0
        for pair in corpus.pairs("train"):
            pairs, words = pairs + 1, words + pair.source.count(" ") + pair.target.count(" ") + 2
            if pairs == ENOUGH:
                break
        return Size(pairs, words)

    def __str__(self) -> str:
        more = " or more" if self.pairs >= ENOUGH else ""
        return f"{self.pairs:,} training pairs{more}"


@dataclass(frozen=True)
class Suggestion:
    """A value that follows from the size of a corpus."""

    key: str
    value: Any
    reason: str


def suggestions(values: Mapping[str, Any], corpus: corpora.Corpus) -> list[Suggestion]:
    """Suggest what a recipe's values leave open; nothing if they leave nothing open."""
    wanted = [*_open(values)]
    if not wanted:
        return []
    try:
        size = Size.of(corpus)
    except (corpora.BadData, OSError):  # whoever prepares it will say what is wrong
        return []
    known = dict(_suggested(values, size))
    return [Suggestion(key, known[key], f"for {size}") for key in wanted if size.pairs]


def _open(values: Mapping[str, Any]) -> Iterator[str]:
    """List what is not given, of what can be suggested."""
    settings = values.get("training", {})
    vocabulary = _table(_table(values.get("text", {})).get("vocabulary", {}))
    if vocabulary.get("name", "subwords") == "subwords" and "size" not in vocabulary:
        yield "text.vocabulary.size"
    if "model" not in values:
        yield from ("model.dropout", "model.tie")
    yield from (f"training.{key}" for key in _TRAINING if key not in settings)


_TRAINING = ("batch", "epochs", "optimizer", "patience")


def _suggested(values: Mapping[str, Any], size: Size) -> Iterator[tuple[str, Any]]:
    pairs = max(1, size.pairs)
    settings = _table(values.get("training", {}))
    joint = _table(values.get("text", {})).get("joint", True)
    yield "text.vocabulary.size", _rounded(22 * size.words**0.4, 300, 16_000)
    yield "model.dropout", 0.4 if pairs < 5_000 else 0.3 if pairs < 50_000 else 0.2
    yield "model.tie", "all" if joint else "output"
    batch = settings.get("batch", 16 if pairs < 20_000 else 32 if pairs < 100_000 else 64)
    epochs = settings.get("epochs", min(20, max(6, round(45 * pairs**-0.16))))
    yield "training.batch", batch
    yield "training.epochs", epochs
    yield "training.patience", max(3, epochs // 4) if isinstance(epochs, int) else 3
    by_sentences = settings.get("batch_by", "sentences") == "sentences"
    whole = isinstance(batch, int) and isinstance(epochs, int) and batch > 0
    steps = epochs * math.ceil(pairs / batch) if whole and by_sentences else 4_000
    # Attention forms early or not at all: a short warm-up to a high rate, then down to 0.
    rate = 0.003 if _name(values.get("model", "lstm")) in ("lstm", "paper-lstm") else 0.001
    warmup = min(1_000, max(1, steps // 20))
    yield (
        "training.optimizer",
        {"name": "adam", "rate": rate, "warmup": warmup, "schedule": "linear"},
    )


def _rounded(value: float, low: int, high: int) -> int:
    return min(high, max(low, 100 * round(value / 100)))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"name": value}


def _name(value: Any) -> Any:
    return _table(value).get("name", "lstm")
