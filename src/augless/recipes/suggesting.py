"""What a recipe leaves open and its corpus decides, mostly by its size.

The paper's settings belong to the paper's corpora. Small corpora need fewer subwords, smaller
batches, more dropout and more passes, and an optimiser that needs no luck. Precedence:
defaults < these < recipe < key=value. Each value is printed with its reason.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augless import corpora, data, knobs
from augless.recipes.reading import Suggestion
from augless.text import Codec

COUNTED_PAIRS = 200_000
"""pairs that are counted at most: beyond, everything is suggested as for so many"""


@dataclass(frozen=True)
class Size:
    """How much there is to learn from."""

    pairs: int
    words: int
    """of both sides together, between spaces"""
    correlation: float = 1.0
    """of the lengths of both sides: near 1 in translation, near 0 in dialogue"""
    characters: int = 0
    """different ones, of both sides"""

    @staticmethod
    def of(corpus: corpora.Corpus) -> Size:
        """Count the training pairs and their words, and compare the lengths of both sides."""
        words, characters = 0, set[str]()
        lengths: tuple[list[float], list[float]] = ([], [])
        for pair in itertools.islice(corpus.pairs("train"), COUNTED_PAIRS):
            for side, line in zip(lengths, (pair.source, pair.target), strict=True):
                words += line.count(" ") + 1
                characters.update(line)
                # In characters, as not all languages have spaces; of the logarithm, so that a few
                # very long lines do not decide.
                side.append(math.log1p(len(line)))
        vary = all(len(set(side)) > 1 for side in lengths)
        correlation = statistics.correlation(*lengths) if vary else 1.0
        return Size(len(lengths[0]), words, correlation, len(characters))

    def __str__(self) -> str:
        return f"{self.pairs:,} training pairs{self.more}"

    @property
    def together(self) -> bool:
        """Whether long sources have long targets: not in dialogue, where answers get too short."""
        return self.correlation > 0.5

    @property
    def lengths(self) -> str:
        """What is said of the lengths of both sides."""
        go = "go" if self.together else "do not go"
        return f"lengths of both sides {go} together, correlation {self.correlation:.2f}"

    @property
    def more(self) -> str:
        """What is said after a number if there may be more."""
        return " or more" if self.pairs >= COUNTED_PAIRS else ""


def suggestions(values: Mapping[str, Any]) -> list[Suggestion]:
    """Suggest what a recipe for somebody's own files leaves open; `auto` is as good as nothing.

    The recipes of known corpora say themselves what they need.
    """
    open_keys = [key for key, *_ in _suggested(values, Size(1, 1)) if _is_open(values, key)]
    given = _table(values.get("corpus"))
    if not open_keys or given.get("name") != "files":
        return []
    try:
        size = measured(knobs.build(corpora.Files, {k: given[k] for k in given if k != "name"}))
    except (knobs.BadKnob, corpora.BadData, OSError):  # whoever uses the corpus says what is wrong
        return []
    suggested = _suggested(values, size) if size.pairs else ()
    return [Suggestion(*one) for one in suggested if one[0] in open_keys]


def measured(corpus: corpora.Corpus) -> Size:
    """Count the training pairs, once for as long as the files stay as they are."""
    stamps = tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in corpus.inputs())
    key = (corpus, stamps)  # of the same files another corpus may take a sample
    if key not in _sizes:
        _sizes[key] = Size.of(corpus)
    return _sizes[key]


_sizes: dict[tuple[corpora.Corpus, tuple[Any, ...]], Size] = {}


AUTO = "auto"


def _is_joint(codec: object, asked: bool) -> bool:
    """Tell whether both sides have one vocabulary: as asked, or as those that are taken do."""
    if not codec:
        return asked
    try:
        source, target = (Codec.load(Path(str(codec)) / side) for side in data.SIDES)
    except (OSError, ValueError):  # whoever takes them says what is wrong
        return asked
    return source.vocabulary == target.vocabulary


def _is_open(values: Mapping[str, Any], key: str) -> bool:
    """Tell whether what can be suggested is not given."""
    *path, last = key.split(".")
    here: Any = values
    for part in path:
        here = here[int(part)] if isinstance(here, list) else _table(here).get(part)
    table = _table(here)
    name = str(table.get("name", AUTO))
    suits = {
        "vocabulary": name in (AUTO, "subwords"),
        "model": not name.startswith("paper-"),  # a preset is what it is
        # Whoever names an optimiser means its own values; a rate alone is one of what is suggested.
        "optimizer": name == AUTO,
        "search": name in (AUTO, "beam"),
    }
    return suits.get(path[-1], True) and bool(table.get(last, AUTO) == AUTO)


def _suggested(values: Mapping[str, Any], size: Size) -> Iterator[tuple[str, Any, str]]:
    """Yield keys, their values and why."""
    pairs, by_size = max(1, size.pairs), f"for {size}"
    settings = {k: v for k, v in _table(values.get("training")).items() if v != AUTO}
    text = _table(values.get("text"))
    codec = text.get("codec")
    joint = _is_joint(codec, text.get("joint", True))
    if not codec:  # which has a vocabulary of its own
        yield "text.vocabulary.size", *_subwords(size)
    dropout = _by_size(pairs, (5_000, 0.5), (20_000, 0.4), (100_000, 0.3), rest=0.2)
    yield "model.dropout", dropout, by_size
    model = _table(values.get("model"))
    is_lstm = "lstm" in str(model.get("name", "lstm"))
    hidden = model.get("hidden", 256)
    square = not is_lstm or model.get("embedding", 256) == hidden
    fits = "embeddings are as wide as the model" if square else "embedding differs from hidden"
    tie = ("all" if joint else "output") if square else "none"
    yield "model.tie", tie, fits if joint or not square else "each side has its own vocabulary"
    if is_lstm:
        yield "model.shortcut", square, fits
    # Gains more than any weighting, for nothing (docs/results.md).
    for place, term in enumerate(_terms(values)):
        if _table(_table(term).get("loss")).get("name", "cross-entropy") == "cross-entropy":
            smoothing = _by_size(pairs, (20_000, 0.2), rest=0.1) if size.together else 0.1
            why = by_size if size.together else size.lengths
            yield f"terms.{place}.loss.smoothing", smoothing, why
    batch = settings.get("batch", _by_size(pairs, (2_000, 8), (20_000, 16), (100_000, 32), rest=64))
    epochs = settings.get("epochs", min(20, max(6, round(148 * pairs**-0.25))))
    yield "training.batch", batch, by_size
    yield "training.epochs", epochs, by_size
    patience = max(3, epochs // 4) if isinstance(epochs, int) else 3
    yield "training.patience", patience, f"for {epochs} epoch{'s' * (epochs != 1)}"
    # Of sums over sentences most steps would be clipped, and clipping cancels weights. Norms per
    # token are about 1 on real text, so that 5 clips what is far off only.
    yield "training.per", "token", "so that clipping does not cancel weights"
    yield "training.clip", 5.0, "rarely reached by a loss per token"
    by_sentences = settings.get("batch_by", "sentences") == "sentences"
    whole = isinstance(batch, int) and isinstance(epochs, int) and batch > 0
    counted = whole and by_sentences
    steps = epochs * math.ceil(pairs / batch) if counted else 4_000
    # Attention forms early or not at all: a short warm-up to a high rate, then down to 0.
    # Narrow models take, and need, a higher one.
    rate, width = 0.001, f"for {model.get('name')}"
    if is_lstm:
        rate = min(0.016, 1.536 / hidden) if isinstance(hidden, int) and hidden > 0 else 0.006
        width = f"for hidden = {hidden}"
    warmup = min(1_000, max(1, steps // 20))
    yield "training.optimizer.name", "adam", "needs less luck than SGD"
    yield "training.optimizer.rate", rate, width
    yield (
        "training.optimizer.warmup",
        warmup,
        f"for {steps:,} steps" if counted else "for any number of steps",
    )
    yield "training.optimizer.schedule", "linear", "ends at 0, so that the last steps are small"
    penalty = _by_size(pairs, (10_000, 1.0), rest=0.6) if size.together else 2.0
    yield "search.length_penalty", penalty, f"{f'{by_size}; ' * size.together}{size.lengths}"


def _subwords(size: Size) -> tuple[int, str]:
    """Return how many subwords to learn, and why."""
    # Answers are learnt better from half as many, and are less often too short (docs/log.md).
    wanted = (22 if size.together else 11) * size.words**0.4
    why = f"for {size.words:,} words{size.more}{f'; {size.lengths}' * (not size.together)}"
    # A vocabulary holds all characters, and more: of Chinese or Korean these alone are many.
    least = 2 * size.characters
    if least > wanted:
        wanted, why = least, f"for {size.characters:,} different characters"
    return min(16_000, max(300, 100 * round(wanted / 100))), why


def _terms(values: Mapping[str, Any]) -> list[Any]:
    """Return the terms of a recipe, of which there is one if none is given."""
    terms = values.get("terms", [{}])
    return terms if isinstance(terms, list) else []


def _by_size(pairs: int, *steps: tuple[int, Any], rest: Any) -> Any:
    """Return what belongs to a number of pairs: the first whose bound is above it."""
    return next((value for bound, value in steps if pairs < bound), rest)


def _table(value: Any) -> Mapping[str, Any]:
    """Return a choice as a table: it may be a name alone, or not be given."""
    if value is None or value == AUTO:
        return {}
    return value if isinstance(value, Mapping) else {"name": value}
