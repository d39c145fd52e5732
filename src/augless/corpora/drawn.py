"""Public corpora that come without splits: a seeded draw makes them."""

import functools
import hashlib
import re
import unicodedata
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from augless.corpora import reading
from augless.corpora.published import Published
from augless.corpora.reading import BadData, Pair, Tally
from augless.knobs import LARGEST_SEED, Within


def _rank(seed: int, *parts: str) -> int:
    """Draw 64 bits that depend on the seed and on a text, and on nothing else."""
    key = "\0".join((str(seed), *parts)).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def _chosen(pairs: Iterator[Pair], places: bytes, wanted: int) -> Iterator[Pair]:
    """Stream the pairs whose place is the wanted one."""
    for number, pair in enumerate(pairs):
        if number == len(places):
            raise BadData("the corpus changed while it was being read: begin again.")
        if places[number] == wanted:
            yield pair


@dataclass(frozen=True, kw_only=True)
class Reddit(Published):
    """Single rounds of the commonsense conversation set (Zhou et al. 2018).

    `trainset.txt`, `validset.txt` and `testset.txt` of JSON objects, whose `post` and `response`
    are lists of words. The three are pooled; rounds with both sides under 20 words are kept, once;
    and a seeded draw fills test, valid and train. All responses to a post go to the same split.
    Two passes, and 17 bytes of memory for each round.
    """

    languages: Annotated[tuple[str, str], "query and response"] = ("query", "response")
    seed: Annotated[int, "of the draw", Within(0, LARGEST_SEED)] = 1
    train: Annotated[int, "pairs in train", Within(1, 10**9)] = 200_000
    valid: Annotated[int, "pairs in valid", Within(1, 10**9)] = 2_000
    test: Annotated[int, "pairs in test", Within(1, 10**9)] = 5_000
    words: Annotated[int, "a side must have fewer words than this", Within(2, 1_000_000)] = 20

    address: ClassVar[str] = (
        "http://coai.cs.tsinghua.edu.cn/file/commonsense_conversation_dataset.tar.gz"
    )
    choices: ClassVar[tuple[str, ...]] = ("query", "response")

    def inputs(self) -> list[Path]:
        """List the three files."""
        below = "commonsense_conversation_dataset"
        return [self._file(f"{split}set.txt", below=below) for split in self.splits()]

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        turned = self.languages[0] == "response"
        mine = tally if split == "train" else Tally()
        for pair in _chosen(self._rounds(mine), self._drawn, self.splits().index(split)):
            yield Pair(pair.target, pair.source) if turned else pair

    def _rounds(self, tally: Tally) -> Iterator[Pair]:
        """Stream the rounds that are short enough."""
        tally.expect(*self.inputs())
        for path in self.inputs():
            for number, line in reading.numbered(path, tally):
                if line.strip():
                    record = reading.record(path, number, line)
                    sides = [self._side(path, number, record.get(k), k) for k in _SIDES]
                    if any(len(words) >= self.words for words in sides):
                        continue
                    one, other = (reading.sound(path, number, " ".join(side)) for side in sides)
                    if one.strip() and other.strip():
                        yield Pair(one, other)
                    elif self.empty == "error":
                        raise reading.blank(path, number, "post" if not one.strip() else "response")
                    else:
                        tally.empty += 1

    def _side(self, path: Path, number: int, words: object, key: str) -> list[str]:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BadData(f"{reading.name(path)}, line {number}: {key!r} is not a list of words.")
        return words

    @functools.cached_property
    def _drawn(self) -> bytes:
        """Give the split of each round, by number; 3 for none."""
        posts, rounds = array("Q"), array("Q")
        for pair in self._rounds(Tally()):
            posts.append(_rank(self.seed, pair.source))
            rounds.append(_rank(self.seed, pair.source, pair.target))
        return _assign(posts, rounds, (self.train, self.valid, self.test))


_SIDES = ("post", "response")


def _assign(posts: "array[int]", rounds: "array[int]", sizes: tuple[int, ...]) -> bytes:
    """Fill test, valid and train with the posts that rank first, each with all of its rounds."""
    import numpy as np  # late: most corpora do without

    by_post, by_round = (np.array(ranks, dtype=np.uint64) for ranks in (posts, rounds))
    _, once = np.unique(by_round, return_index=True)
    order = once[np.lexsort((by_round[once], by_post[once]))]
    place = np.full(len(by_post), 3, np.uint8)
    start = 0
    for split in (2, 1, 0):
        end = start + sizes[split]
        if end > len(order):
            raise BadData(
                f"the draw wants {sum(sizes):,} pairs, but only {len(order):,} are short enough.\n"
                "Set train, valid and test to fewer."
            )
        place[order[start:end]] = split
        # What is left of the last post belongs to no split.
        while 0 < end < len(order) and by_post[order[end]] == by_post[order[end - 1]]:
            end += 1
        start = end
    return place.tobytes()


@dataclass(frozen=True, kw_only=True)
class Tatoeba(Published):
    """Sentences of everyday life: the export for Anki, such as `fra.txt` or `deu.txt`.

    Lines of English, the other language and (in later exports) an attribution, between tabs. Pairs
    that share a sentence of either side, not minding case and punctuation, are a group; a seeded
    draw gives whole groups to test and valid, so no sentence occurs in two splits. Two passes;
    the groups take some 200 bytes of memory a pair.
    """

    languages: Annotated[tuple[str, str], "en and another, in either order"] = ("en", "fr")
    seed: Annotated[int, "of the draw", Within(0, LARGEST_SEED)] = 1
    valid: Annotated[int, "pairs in valid", Within(1, 10**9)] = 2_000
    test: Annotated[int, "pairs in test", Within(1, 10**9)] = 2_000

    licence: ClassVar[str] = "CC BY 2.0 (manythings.org/anki and tatoeba.org)"
    address: ClassVar[str] = "https://www.manythings.org/anki/"
    pivot: ClassVar[str] = "en"
    # The export's names; for another language, its name itself: languages=("en", "tur").
    NAMES: ClassVar[dict[str, str]] = {
        "cs": "ces",
        "de": "deu",
        "es": "spa",
        "fr": "fra",
        "it": "ita",
        "vi": "vie",
    }

    def inputs(self) -> list[Path]:
        """List the one file."""
        other = next(side for side in self.languages if side != "en")
        return [self._file(f"{self.NAMES.get(other, other)}.txt")]

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        mine = tally if split == "train" else Tally()
        return _chosen(self._all(mine), self._drawn, self.splits().index(split))

    def _all(self, tally: Tally) -> Iterator[Pair]:
        order = (1, 2) if self.languages[0] == "en" else (2, 1)
        return reading.single(self.inputs()[0], reading.columns(order), self.empty, tally)

    @functools.cached_property
    def _drawn(self) -> bytes:
        """Give the split of each pair, by number."""
        leaders = array("L")  # of each pair: an earlier one of its group, or itself
        first: dict[int, int] = {}  # the first pair that has a sentence

        def leader(pair: int) -> int:
            while leaders[pair] != pair:
                leaders[pair] = pair = leaders[leaders[pair]]
            return pair

        for number, pair in enumerate(self._all(Tally())):
            leaders.append(number)
            for side, sentence in enumerate((pair.source, pair.target)):
                other = leader(first.setdefault(_rank(side, bare(sentence)), number))
                mine = leader(number)
                leaders[max(mine, other)] = min(mine, other)
        groups: dict[int, list[int]] = {}
        for number in range(len(leaders)):
            groups.setdefault(leader(number), []).append(number)
        place = bytearray(len(leaders))
        room = {2: self.test, 1: self.valid}
        for group in sorted(groups, key=lambda group: _rank(self.seed, str(group))):
            size = len(groups[group])
            for split in room:
                # Small groups, so that neither split is full of one sentence's variants.
                if size <= min(room[split], 6):
                    room[split] -= size
                    for number in groups[group]:
                        place[number] = split
                    break
        if any(room.values()):
            path = reading.name(self.inputs()[0])
            raise BadData(
                f"{path}: too few sentences stand alone to fill the splits.\n"
                f"Set valid to at most {self.valid - room[1]}, test to {self.test - room[2]}."
            )
        return bytes(place)


def bare(sentence: str) -> str:
    """Strip what does not make a sentence another one: case, punctuation, spacing."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return " ".join(re.findall(r"\w+", folded)) or sentence
