"""What every augmenter is: knobs, which side it reads and writes, and how texts are rewritten."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from augless import corpora, schemas
from augless.augmentation import draws
from augless.corpora import Progress
from augless.knobs import Knobs, Within

if TYPE_CHECKING:  # brings torch, which augmenters without a model do without
    from augless import decoding

Side = Literal["source", "target", "both"]
Move = tuple[int, int]
"""the side that is read and the side that is written: 0 is the source, 1 the target"""
Stop = Callable[[], bool]
Languages = tuple[str, str]
Wanted = Mapping[str, Any]
"""a recipe to train first: its name or file under `recipe`, and what to change in it"""
REVERSE: Wanted = {}
"""the recipe that augments itself, with source and target swapped"""

MOVES: dict[str, tuple[Move, ...]] = {
    "source": ((0, 0),),
    "target": ((1, 1),),
    "both": ((0, 0), (1, 1)),
}
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"


class BadAugmentation(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRun are
    """An augmentation that cannot be made as asked: why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class SmallModel:
    """How the training of a small model of the corpus went."""

    parameters: schemas.Count
    steps: schemas.Count
    samples: schemas.Count = 0
    """texts that all steps looked at"""
    last_loss: float
    """mean of the last epoch"""
    last_accuracy: float
    seconds: schemas.Seconds


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What only some augmenters can tell of their work."""

    requests: schemas.Count | None = None
    """to an endpoint"""
    small_model: SmallModel | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A text to rewrite, and the key of its draws."""

    text: str
    key: draws.Key
    """seed, place of the pair in the corpus, side"""


Rewriter = Callable[[Sequence[Line]], list[list[str]]]
"""Gives each line as many rewritings as there are copies; an empty one is left out."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What an augmenter is handed: on which corpus it works, and what it may use for that."""

    corpus: corpora.Corpus
    seed: int
    work: Path
    """a folder that is kept until the work is whole"""
    cache: Path
    """where answers that were paid for are kept"""
    writer: Callable[[str | Path], decoding.Writer] | None = None
    """opens the best model of a run, as `augless.load` does"""
    download: bool = False
    """whether models may be fetched from the Hugging Face hub"""
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Augmenter(Knobs, ABC):
    """Pairs to pairs: every pair is rewritten `copies` times.

    What a pair becomes depends on the seed, on its place in the corpus and on itself: not on the
    other pairs of a batch, nor on how many processes work.
    """

    w: Annotated[float, "weight of a made pair, as a share of its original's", Within(0, 1e6)] = 1.0
    copies: Annotated[int, "made pairs for each original", Within(1, 1000)] = 1

    version: ClassVar[int] = 1  # raised when the same knobs begin to give other texts
    reverses: ClassVar[bool] = False  # whether the recipe's model is trained first, reversed

    @property
    def name(self) -> str:
        """Its name in the table: its class's, in small letters."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def free(self) -> tuple[str, ...]:
        """Knobs that change no text, or by the content that `identity` gives."""
        return ()

    @property
    def remote(self) -> bool:
        """Tell whether other machines do the work, so that this one waits for them."""
        return False

    @property
    def seeded(self) -> bool:
        """Tell whether a recipe's seed changes the texts; if not, runs of all seeds share them."""
        return True

    @property
    def needs(self) -> dict[str, Wanted]:
        """List the models that have to be trained first, each by a name of its own."""
        return {}

    def with_runs(self, folders: Mapping[str, Path]) -> Augmenter:
        """Return the augmenter that uses trained runs, by the names that `needs` gives."""
        return self

    @property
    @abstractmethod
    def moves(self) -> tuple[Move, ...]:
        """Which sides are read and written."""

    def check(self, languages: Languages, trained: Mapping[str, Languages] | None = None) -> None:
        """Refuse, before any work, what cannot serve a corpus of these languages.

        `trained` are the languages of the models that it `needs`, where these are to be trained.
        """
        return

    def identity(self, context: Context) -> Any:
        """Return what else decides the texts, as JSON: the content of models and files."""
        return None

    def extra(self) -> Iterator[str]:
        """Stream texts of the side that is read that belong to no pair."""
        return iter(())

    def prepare(self, context: Context, progress: Progress, stop: Stop) -> Augmenter:
        """Do once what all processes need; return an augmenter that finds it done."""
        return self

    @abstractmethod
    def open(self, context: Context) -> AbstractContextManager[Rewriter]:
        """Load what is needed to rewrite lines."""

    def notes(self, context: Context) -> Notes:
        """Return what the manifest should say besides."""
        return Notes()

    def pairs(self, pairs: Iterable[corpora.Pair], context: Context) -> Iterator[corpora.Pair]:
        """Map pairs to made pairs, those of the first first."""
        ready = self.prepare(context, lambda *_: None, lambda: False)
        with ready.open(context) as rewriter:
            samples = enumerate(pairs)
            while some := [Sample(i, p) for i, p in itertools.islice(samples, 256)]:
                for made in rewritten(ready, rewriter, some, context.seed):
                    yield from (pair for pair in made if pair is not None)


@dataclass(frozen=True, slots=True)
class Sample:
    """A pair at its place in the corpus, or a text alone, on the side that is read."""

    index: int
    pair: corpora.Pair


def rewritten(
    augmenter: Augmenter, rewriter: Rewriter, samples: Sequence[Sample], seed: int
) -> list[list[corpora.Pair | None]]:
    """Make the pairs of some samples, as many of each as there are copies; None is left out."""
    lines = [
        Line(_sides(sample.pair)[read], (seed, sample.index, write))
        for read, write in augmenter.moves
        for sample in samples
    ]
    answers = iter(rewriter(lines))
    sides = {write: list(itertools.islice(answers, len(samples))) for _, write in augmenter.moves}
    made: list[list[corpora.Pair | None]] = []
    for place, sample in enumerate(samples):
        copies: list[corpora.Pair | None] = []
        for copy in range(augmenter.copies):
            texts = [sample.pair.source, sample.pair.target]
            for write, rewritings in sides.items():
                texts[write] = (rewritings[place] + [""] * augmenter.copies)[copy]
            whole = all(text.strip() for text in texts)
            weight = augmenter.w * sample.pair.weight
            pair = corpora.Pair(texts[0], texts[1], weight, made=True)
            copies.append(pair if whole else None)
        made.append(copies)
    return made


def _sides(pair: corpora.Pair) -> tuple[str, str]:
    return pair.source, pair.target


# The same as below for texts that have no other letters, and ten times as fast.
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['\-][A-Za-z0-9]+)*")


@functools.cache
def _word() -> re.Pattern[str]:
    # Letters, their marks (in many scripts the vowels), and digits, with apostrophes and hyphens
    # inside. A Chinese character or kana is a word, because no spaces part words there.
    marks = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c)[0] == "M")
    letters = rf"(?:[^\W_{_CJK}]|[{marks}])+"
    return re.compile(rf"[{_CJK}]|{letters}(?:['\u2019\-]{letters})*")


def words(text: str) -> list[tuple[int, int]]:
    """Find the words of a text: where each starts and ends. Punctuation is no word."""
    pattern = _ASCII_WORD if text.isascii() else _word()
    return [match.span() for match in pattern.finditer(text)]


def chosen(line: Line, copy: int, rate: float, among: Sequence[int], total: int) -> list[int]:
    """Choose that share of a text's words, at least one, among those that may be, in order."""
    if not among or rate == 0:
        return []
    count = min(len(among), max(1, round(rate * total)))
    order = draws.generator((*line.key, copy)).permutation(len(among))[:count]
    return sorted(among[i] for i in order)


def changed(before: str, after: str) -> tuple[int, int]:
    """Count the words of a text that another has not, and the words.

    Place by place where both have as many words, else as bags of words.
    """
    old, new = ([text[start:end] for start, end in words(text)] for text in (before, after))
    if len(old) == len(new):
        return sum(a != b for a, b in zip(old, new, strict=True)), len(old)
    left: dict[str, int] = {}
    for word in old:
        left[word] = left.get(word, 0) + 1
    kept = 0
    for word in new:
        if left.get(word, 0) > 0:
            left[word] -= 1
            kept += 1
    longer = max(len(old), len(new))
    return longer - kept, longer


def knobs(augmenter: Augmenter) -> dict[str, Any]:
    """Return the knobs of an augmenter, as JSON has them."""
    values: dict[str, Any] = {}
    for knob in dataclasses.fields(augmenter):
        value = getattr(augmenter, knob.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {"kind": type(value).__name__, **dataclasses.asdict(value)}
        values[knob.name] = json.loads(json.dumps(value, default=str))
    return values


def require(holds: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a knob's value."""
    if not holds:
        raise BadAugmentation(f"{name} is {value}; it must be {wanted}")
