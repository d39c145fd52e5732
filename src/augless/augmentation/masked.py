"""Words re-predicted in their context by a masked language model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from augless.augmentation import draws, pretrained, small
from augless.augmentation.augmenter import (
    MOVES,
    Augmenter,
    BadAugmentation,
    Context,
    Line,
    Move,
    Notes,
    Rewriter,
    Side,
    Stop,
    chosen,
    require,
    words,
)
from augless.corpora import Progress
from augless.knobs import Within

# Two logits so close may change places with the shape of a batch, because sums are then rounded
# otherwise. The differences seen are a hundred times smaller.
CLOSE = 1e-3
_SPARE = 16  # candidates looked at beyond the first k, some of which may be as close


@dataclass(frozen=True, kw_only=True)
class MaskedLm(Augmenter):
    """Re-predict a share of the words in their context with a masked language model.

    Whole words are masked, each by one mask, and replaced by whole words of the model's vocabulary:
    the number of words, punctuation, spacing and all other words stay as they are, and no symbol of
    the model appears. The word that stood there is never predicted. Numbers are left alone.
    """

    version: ClassVar[int] = 2

    model: Annotated[str, "a Hugging Face model's name or folder; corpus: train a small one"] = (
        small.CORPUS
    )
    rate: Annotated[
        float, "share of the words that predictions replace; at least one", Within(0, 1)
    ] = 0.15
    side: Annotated[Side, "which side is rewritten"] = "source"
    top_k: Annotated[
        int, "draw among so many most probable words; 1: take the first", Within(1, 10_000)
    ] = 10
    batch: Annotated[int, "texts that are predicted at once", Within(1, 100_000)] = 64
    small: Annotated[small.Small, "how the small model is trained, if it is"] = field(
        default_factory=small.Small
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.model), "model", repr(self.model), "a name or a folder")

    @property
    def free(self) -> tuple[str, ...]:
        """The size of a batch, and where the model lies."""
        return ("batch", "model")

    @property
    def moves(self) -> tuple[Move, ...]:
        """Each chosen side is read and written."""
        return MOVES[self.side]

    def identity(self, context: Context) -> Any:
        """Return the content of the model, unless it is made of the corpus."""
        if self.model == small.CORPUS:
            return None
        return pretrained.digest(pretrained.find(self.model, context.download))

    def prepare(self, context: Context, progress: Progress, stop: Stop) -> MaskedLm:
        """Train the small model, if it is asked for, and look at the one that will predict."""
        ready = self
        if self.model == small.CORPUS:
            sides = [read for read, _ in self.moves]
            folder = small.train(self.small, context, sides, progress, stop)
            ready = dataclasses.replace(self, model=str(folder))
        progress("loading the masked language model", 0, None)
        with ready.open(context):  # what is wrong with it is said here, once
            return ready

    def notes(self, context: Context) -> Notes:
        """Say how the small model was trained."""
        return Notes(small_model=small.report(context))

    @contextlib.contextmanager
    def open(self, context: Context) -> Iterator[Rewriter]:
        """Load the model."""
        folder = pretrained.find(self.model, context.download)
        predictor = Predictor(folder, context.device)

        def rewrite(lines: Sequence[Line]) -> list[list[str]]:
            texts = [[line.text] * self.copies for line in lines]
            if self.rate == 0:
                return texts
            tasks = [
                task
                for place, (line, read) in enumerate(
                    zip(lines, predictor.read([line.text for line in lines]), strict=True)
                )
                for copy in range(self.copies)
                for task in self._tasks(predictor, place, line, read, copy)
            ]
            tasks.sort(key=lambda task: len(task.ids))
            changes: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
            for start in range(0, len(tasks), self.batch):
                some = tasks[start : start + self.batch]
                for task, replaced in zip(some, predictor.predict(some, self.top_k), strict=True):
                    changes.setdefault((task.place, task.copy), []).extend(replaced)
            for (place, copy), replaced in changes.items():
                texts[place][copy] = _spliced(lines[place].text, replaced)
            return texts

        yield rewrite

    def _tasks(
        self, predictor: Predictor, place: int, line: Line, read: Read, copy: int
    ) -> list[Task]:
        picked = chosen(line, copy, self.rate, range(len(read.words)), read.total)
        masked = [read.words[i] for i in picked]
        key = (*line.key, copy, 1)
        return [
            Task(place, copy, key, ids, words, line.text)
            for ids, words in predictor.masked(read, masked)
        ]


@dataclass(frozen=True, slots=True)
class Word:
    """A word that can be masked: where it is in the text, and in the ids."""

    start: int
    end: int
    first: int
    last: int
    """of the ids, the end excluded"""


@dataclass(frozen=True, slots=True)
class Read:
    """A text as the model reads it."""

    ids: list[int]
    words: list[Word]
    total: int
    """words there are, those that cannot be masked among them"""


@dataclass(frozen=True, slots=True)
class Task:
    """Ids with masks in them, which stand for words of a text."""

    place: int
    copy: int
    key: draws.Key
    ids: list[int]
    words: list[Word]
    """one for each mask, in order"""
    text: str


class Predictor:
    """A masked language model that answers with whole words."""

    def __init__(self, folder: Path, device: str) -> None:
        import torch

        self.torch = torch
        self.tokenizer, self.model = pretrained.load(folder, "MaskedLM", device)
        if self.tokenizer.mask_token_id is None:
            raise BadAugmentation(f"{folder} has no mask token: it is no masked language model")
        self.mask: int = self.tokenizer.mask_token_id
        self.pad: int = self.tokenizer.pad_token_id or 0
        self.backend = self.tokenizer.backend_tokenizer
        self.backend.no_truncation()
        self.backend.no_padding()
        self.backend.encode_special_tokens = True  # a text may spell [MASK]; it is not one
        normaliser = self.backend.normalizer
        self.uncased = normaliser is not None and normaliser.normalize_str("A") == "a"
        self.before, self.after = self._frame()
        self.longest = pretrained.longest(self.tokenizer, self.model)
        self.longest -= len(self.before) + len(self.after)
        self.candidates, self.spellings = self._candidates()
        if self.longest < 1 or len(self.candidates) < 2:
            raise BadAugmentation(
                f"{folder} knows {len(self.candidates)} whole words and reads {self.longest} ids; "
                "it cannot predict words"
            )
        self.columns = torch.from_numpy(self.candidates).to(self.model.device)
        self.alike: dict[str, list[int]] = {}
        for column, word in enumerate(self.spellings):
            self.alike.setdefault(self._read_as(word), []).append(column)

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return the ids that the model expects before and after a text."""
        bare = self.backend.encode("a", add_special_tokens=False).ids
        framed = self.backend.encode("a", add_special_tokens=True).ids
        for start in range(len(framed) - len(bare) + 1):
            if framed[start : start + len(bare)] == bare:
                return framed[:start], framed[start + len(bare) :]
        return [], []

    def _candidates(self) -> tuple[NDArray[np.int64], list[str]]:
        """Find the ids that are whole words: in a text, that word becomes that id alone."""
        size = self.model.config.vocab_size
        ids = [i for i in self.tokenizer.get_vocab().values() if i < size]
        ids = sorted({*ids} - {*self.tokenizer.all_special_ids})
        spelt = [text.strip() for text in self.backend.decode_batch([[i] for i in ids])]
        whole = [
            (i, word)
            for i, word in zip(ids, spelt, strict=True)
            if _has_letter(word) and words(word) == [(0, len(word))]
        ]
        start = len("a ")
        alone = []
        encodings = self.backend.encode_batch(
            [f"a {word} a" for _, word in whole], add_special_tokens=False
        )
        for (i, word), encoding in zip(whole, encodings, strict=True):
            inside = [
                token
                for token, (_, end) in zip(encoding.ids, encoding.offsets, strict=True)
                if start < end <= start + len(word)
            ]
            if inside == [i]:
                alone.append((i, word))
        return np.array([i for i, _ in alone], np.int64), [word for _, word in alone]

    def read(self, texts: Sequence[str]) -> list[Read]:
        """Cut texts into ids, and find the words whose ids are theirs alone."""
        texts_read = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            starts: dict[int, int] = {}
            ends: dict[int, int] = {}
            for place, (start, end) in enumerate(encoding.offsets):
                while start < end and text[start].isspace():  # some ids begin with a space
                    start += 1
                if start < end:
                    starts.setdefault(start, place)
                    ends[end] = place + 1
            spans = [(a, b) for a, b in words(text) if _has_letter(text[a:b])]
            able = [Word(a, b, starts[a], ends[b]) for a, b in spans if a in starts and b in ends]
            texts_read.append(Read(encoding.ids, able, len(spans)))
        return texts_read

    def masked(self, read: Read, chosen: Sequence[Word]) -> list[tuple[list[int], list[Word]]]:
        """Put a mask in place of each chosen word; cut what is too long for the model."""
        ids: list[int] = []
        places: list[int] = []
        after = 0
        for word in chosen:
            ids += read.ids[after : word.first]
            places.append(len(ids))
            ids.append(self.mask)
            after = word.last
        ids += read.ids[after:]
        parts = []
        for start in range(0, len(ids), self.longest):
            end = start + self.longest
            inside = [w for w, at in zip(chosen, places, strict=True) if start <= at < end]
            if inside:
                parts.append((ids[start:end], inside))
        return parts

    def predict(self, tasks: Sequence[Task], top_k: int) -> list[list[tuple[int, int, str]]]:
        """Predict the masked words of each task: start and end in its text, and the new word.

        What is too close to call is predicted again by itself, so that a batch decides nothing.
        """
        best, sure = self._choose(tasks, *self.best(tasks, top_k), top_k)
        predicted: list[list[tuple[int, int, str]]] = []
        row = 0
        for task in tasks:
            mine = slice(row, row + len(task.words))
            choices = best[mine]
            if len(tasks) > 1 and not sure[mine].all():
                choices, _ = self._choose([task], *self.best([task], top_k), top_k)
            predicted.append(
                [
                    (word.start, word.end, self._cased(self.spellings[column], task.text, word))
                    for word, column in zip(task.words, choices.tolist(), strict=True)
                ]
            )
            row += len(task.words)
        return predicted

    def best(
        self, tasks: Sequence[Task], top_k: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the highest logits of each mask, (N, K), and the candidates that have them."""
        torch, device = self.torch, self.model.device
        rows = [[*self.before, *task.ids, *self.after] for task in tasks]
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows], device=device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        attention = torch.arange(width, device=device) < lengths[:, None]
        within = attention & (ids == self.mask)
        with torch.inference_mode():
            logits = small.masked_logits(self.model, ids, attention, within)[:, self.columns]
            # A text may hold no mask of its own, so masks and words are as many.
            away = [
                (at, column)
                for at, word in enumerate(w for task in tasks for w in self._spelt(task))
                for column in self.alike.get(self._read_as(word), ())
            ]
            if away:
                logits[tuple(torch.tensor(away, device=device).T)] = -torch.inf
            values, columns = logits.topk(min(top_k + _SPARE, logits.shape[1]))
        return values.double().cpu().numpy(), columns.cpu().numpy()

    def _read_as(self, word: str) -> str:
        """Return what words have in common that are one word to the model, or but for capitals.

        Many models of small letters drop accents too: to them Männer is manner.
        """
        normaliser = self.backend.normalizer
        return str(word if normaliser is None else normaliser.normalize_str(word)).casefold()

    def _spelt(self, task: Task) -> list[str]:
        return [task.text[word.start : word.end] for word in task.words]

    def _choose(
        self,
        tasks: Sequence[Task],
        values: NDArray[np.float64],
        columns: NDArray[np.int64],
        top_k: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Choose a candidate for each mask, (N,), and tell where rounding could not change it."""
        scores = values
        if top_k > 1:
            keys = [(*task.key, word.start) for task in tasks for word in task.words]
            scores = values + draws.many_gumbels(keys, self.candidates[columns])
        # Words that must not be predicted stand last; only a tiny vocabulary has so few others.
        finite = np.isfinite(values).sum(1)
        chosen = np.zeros(len(values), np.int64)
        sure = np.zeros(len(values), bool)
        for count in np.unique(finite).tolist():
            rows = np.flatnonzero(finite == count)
            first = min(top_k, count)
            some, theirs = values[rows, :count], scores[rows, :count]
            sure[rows] = surely_best(some, theirs, first)
            chosen[rows] = columns[rows, theirs[:, :first].argmax(1)]
        return chosen, sure

    def _cased(self, new: str, text: str, word: Word) -> str:
        """Write a word of a model that knows small letters only as the old one was written."""
        old = text[word.start : word.end]
        if not self.uncased:
            return new
        if len(old) > 1 and old.isupper():
            return new.upper()
        return new[:1].upper() + new[1:] if old[:1].isupper() else new


def surely_best(
    logits: NDArray[np.float64], scores: NDArray[np.float64], count: int
) -> NDArray[np.bool_]:
    """Tell of each row whether the best of the first `count` is so by more than rounding changes.

    Logits and scores, with noise, are (N, K), the logits falling; the answer is (N,).
    """
    size = logits.shape[1]
    perhaps = logits > logits[:, count - 1 : count] - CLOSE  # may be among the first
    surely = np.ones_like(perhaps)
    if count < size:
        surely = logits > logits[:, count : count + 1] + CLOSE
    rows = np.arange(len(logits))
    rivals = np.where(perhaps, scores, -np.inf)
    first = rivals.argmax(1)
    highest = rivals[rows, first]
    rivals[rows, first] = -np.inf
    apart = highest - rivals.max(1, initial=-np.inf) > CLOSE
    # If all that were looked at may be among the first, so may be others that were not.
    unseen = perhaps.all(1) & (size > count)
    clear: NDArray[np.bool_] = surely[rows, first] & apart & ~unseen
    return clear


def _has_letter(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _spliced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Put new words in place of old ones."""
    for start, end, word in sorted(changes, reverse=True):
        text = text[:start] + word + text[end:]
    return text
