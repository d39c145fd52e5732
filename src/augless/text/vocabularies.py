"""Words to ids: which pieces have one, how they are learnt, and how a word is spelt with them."""

import contextlib
import functools
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from augless.contracts import UNK
from augless.knobs import Choices, Knobs, Within
from augless.text import cleaning, tokenisation

if TYPE_CHECKING:
    from tokenizers import models

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")  # in the order of their ids in `contracts`
LEARNT_FROM = 2_000_000  # running words to learn subwords from; more change them hardly at all
# Characters, with the space at the end: longer words are learnt from and spelt in parts, because
# the time to learn grows with the square of a word's length. Text in words has none so long.
LONGEST_WORD = 256


@dataclass(frozen=True)
class Vocabulary:
    """The pieces that have ids, in the order of their ids, after the special symbols.

    A piece with a space at its end ends a word. With `merges`, words are spelt with pieces by
    byte-pair encoding; without, a piece is a whole word.
    """

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...] | None

    def __post_init__(self) -> None:
        known = set(self.pieces)
        if len(known) < len(self.pieces) or "" in known:
            raise ValueError("a piece of the vocabulary is empty or occurs twice")
        # A lone surrogate can be written in JSON, but is no character. This raises ValueError.
        whole = "".join(self.pieces)
        whole.encode()
        # Text that was cleaned has none of these: such a piece could start a new line of output.
        marks = str.maketrans("", "", f" {tokenisation.JOIN}")
        inner = any(" " in piece[:-1] for piece in self.pieces)
        if inner or cleaning.BLANK.search(whole.translate(marks)):
            raise ValueError("a piece of the vocabulary has a control character, or a space inside")
        if self.merges is None and not all(piece.endswith(" ") for piece in self.pieces):
            raise ValueError("a word of the vocabulary does not end in a space")
        for left, right in self.merges or ():
            if not {left, right, left + right} <= known:
                raise ValueError(f"merge of {left!r} and {right!r} is not among the pieces")

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.pieces)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} {'words' if self.merges is None else 'subwords'})"

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[Any, Any]]:
        return Vocabulary, (self.pieces, self.merges)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces, len(SPECIALS))}

    @functools.cached_property
    def _model(self) -> "models.BPE":
        from tokenizers import models

        # A space occurs at the end of pieces only, so this name is not to be spelt by text.
        unknown = " unknown"
        ids = {**self._ids, unknown: UNK}
        return models.BPE(vocab=ids, merges=list(self.merges or ()), unk_token=unknown)

    def encode(self, word: str) -> list[int]:
        """Spell a word, given without its final space, as ids."""
        if self.merges is None:
            return [self._ids.get(word + " ", UNK)]
        return [token.id for part in _parts(word) for token in self._model.tokenize(part)]


def _parts(word: str) -> list[str]:
    """Return a word with its final space, cut if it is very long."""
    spelt = word + " "
    starts = range(0, len(spelt), LONGEST_WORD)
    return [spelt[i : i + LONGEST_WORD] for i in starts]


def _interruptibly(work: Callable[[], None]) -> None:
    """Do native work in a thread, so that signals are answered while it lasts.

    Interrupted, the thread is left behind; it ends with its work, or with the process.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keep `tokenizers` from starting threads: it would then complain in every forked worker."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def thinned(counts: Mapping[str, int], total: int) -> Iterator[tuple[str, int]]:
    """Yield words with counts that add up to `LEARNT_FROM`, if there are more: every k-th one.

    Systematic sampling of the occurrences in the order of the words' spelling: without chance,
    off by less than one occurrence for any word and for all words of any beginning, and rare words
    stay in their proportion.
    """
    if total <= LEARNT_FROM:
        yield from counts.items()
        return
    seen = before = 0
    for word in sorted(counts):
        seen += counts[word]
        after = seen * LEARNT_FROM // total
        if after > before:
            yield word, after - before
        before = after


@dataclass(frozen=True)
class Subwords(Knobs):
    """Byte-pair encoding (Sennrich et al. 2016): merges inside words, the most frequent first.

    Of more than two million running words, every k-th is learnt from, and `min_count` is a k-th
    too, since the library takes no counts and its time follows them. On eight million real
    words the ids of a text become 0.02 % (10,000 subwords) or 0.06 % (32,000) more by that. All
    their characters stay in the vocabulary.
    """

    size: Annotated[
        int,
        "number of ids, with the special symbols and all characters",
        Within(6, 1_000_000),
    ] = 10_000
    min_count: Annotated[int, "a pair seen fewer times is not merged", Within(0, 10**9)] = 2

    def learn(self, counts: Mapping[str, int]) -> Vocabulary:
        """Learn a vocabulary from counts of words; their order does not matter."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        room = self.size - len(SPECIALS)
        alphabet = sorted({character for word in counts for character in word} | {" "})
        if not counts:
            raise ValueError("no words to learn a vocabulary from")
        if len(alphabet) > room:
            raise ValueError(
                f"a vocabulary of {self.size} cannot hold the {len(alphabet)} characters of the "
                f"text: ask for at least {len(alphabet) + len(SPECIALS)}"
            )

        total = sum(counts.values())

        def repeated() -> Iterator[str]:
            # The library counts words itself and takes no counts. It counts one long string of
            # the same word twice as fast as many short strings.
            for word, n in thinned(counts, total):
                for part in _parts(word):
                    for start in range(0, n, 4096):
                        yield (part + "\n") * min(4096, n - start)

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("\n")
        trainer = trainers.BpeTrainer(
            vocab_size=room,
            min_frequency=math.ceil(self.min_count * LEARNT_FROM / max(total, LEARNT_FROM)),
            initial_alphabet=alphabet,
            show_progress=False,
        )
        with _one_thread():
            _interruptibly(lambda: tokenizer.train_from_iterator(repeated(), trainer))
        model = json.loads(tokenizer.to_str())["model"]
        return Vocabulary(
            pieces=tuple(sorted(model["vocab"], key=model["vocab"].__getitem__)),
            merges=tuple((left, right) for left, right in model["merges"]),
        )


@dataclass(frozen=True)
class Words(Knobs):
    """Whole words, the most frequent first; all others are unknown."""

    size: Annotated[
        int, "number of ids at most, with the special symbols", Within(5, 10_000_000)
    ] = 50_000
    min_count: Annotated[int, "a word seen fewer times is unknown", Within(0, 10**9)] = 2

    def learn(self, counts: Mapping[str, int]) -> Vocabulary:
        """Learn a vocabulary from counts of words; their order does not matter."""
        room = self.size - len(SPECIALS)
        known = sorted(
            (-n, word)
            for word, n in counts.items()
            if n >= self.min_count and len(word) < LONGEST_WORD
        )
        if not known:
            short = f"no word of fewer than {LONGEST_WORD} characters"
            raise ValueError(f"{short} occurs {self.min_count} times: nothing to learn from")
        return Vocabulary(tuple(word + " " for _, word in known[:room]), merges=None)


VOCABULARIES = Choices({"subwords": Subwords, "words": Words})
