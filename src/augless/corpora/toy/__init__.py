"""The corpora that this package makes itself, from a seed: nothing to download, nothing shipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from augless.corpora.corpus import Corpus
from augless.corpora.reading import BadData, Pair, Tally
from augless.corpora.toy import dialogue, sentences
from augless.corpora.toy.author import Author
from augless.corpora.toy.dice import Dice
from augless.knobs import LARGEST_SEED, Within

PATIENCE = 2_000  # draws in a row that bring nothing new, before giving up


@dataclass(frozen=True, kw_only=True)
class Toy(Corpus):
    """Pairs made from a seed. Test and valid do not depend on how large train is."""

    seed: Annotated[
        int, "of all chance; another seed gives another corpus", Within(0, LARGEST_SEED)
    ] = 1
    train: Annotated[int, "pairs in train", Within(1, 10**9)] = 2_000
    valid: Annotated[int, "pairs in valid", Within(1, 10**9)] = 400
    test: Annotated[int, "pairs in test", Within(1, 10**9)] = 400

    licence: ClassVar[str] = "Apache-2.0, as this package"

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        turned = self.languages[0] != type(self).languages[0]
        sizes = {"test": self.test, "valid": self.valid, "train": self.train}
        source = self._distinct(sizes)
        tally.total = sizes[split]
        for part, size in sizes.items():
            for _ in range(size):
                one, other = next(source)
                if part == split:
                    tally.done += 1
                    yield Pair(other, one) if turned else Pair(one, other)
            if part == split:
                return

    def _distinct(self, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
        """Stream pairs, none twice, in the order test, valid, train."""
        raise NotImplementedError


def _gave_up(made: int, sizes: dict[str, int]) -> BadData:
    return BadData(
        f"this corpus can make only about {made:,} different pairs, "
        f"but {sum(sizes.values()):,} are asked for.\nSet train, valid and test to fewer."
    )


@dataclass(frozen=True, kw_only=True)
class ToyGermanEnglish(Toy):
    """German and English sentences from one grammar of both.

    A sentence is thought up as a meaning (`author`, `sentences`) and then spelt in each language by
    its own rules (`german`, `english`). What a model has to learn: three genders and four cases,
    with the endings of articles, possessives and adjectives; weak nouns; prepositions that govern
    a case, or two; plurals and numerals; present, past, perfect (with haben or sein) and future;
    verbs that separate, are reflexive or take a dative; modal verbs; the verb second, first or
    last; negation by nicht or kein; questions; passives; subordinate, relative and infinitive
    clauses; pronouns that follow the gender of a noun said before.

    And what cannot be translated word by word: to eat is essen or fressen, to know kennen or
    wissen, to put legen or stellen; Birne is a pear or a light bulb, Bank a bench or a bank; likes
    to read is liest gern, has lived for two years is lebt seit zwei Jahren; synonyms are free.

    Sentences have 3 to 20 words on either side, and no sentence of either side occurs twice.
    """

    languages: Annotated[tuple[str, str], "de and en, in either order"] = ("de", "en")
    choices: ClassVar[tuple[str, ...]] = ("de", "en")

    def _distinct(self, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
        by = Author(Dice(self.seed))
        seen: set[str] = set()
        misses = 0
        while misses < PATIENCE:
            english, german = sentences.sentence(by)
            misses += 1
            long_enough = all(3 <= len(side.split()) <= 20 for side in (english, german))
            if long_enough and english not in seen and german not in seen:
                seen |= {english, german}
                misses = 0
                yield german, english
        raise _gave_up(len(seen) // 2, sizes)


@dataclass(frozen=True, kw_only=True)
class ToyDialogue(Toy):
    """Short English exchanges from templates: an opening, and one of several fitting responses.

    In train an opening may occur again with another response; the openings of valid and test occur
    once, and in no other split. See `dialogue` for what is talked about.
    """

    languages: Annotated[tuple[str, str], "query and response"] = ("query", "response")
    choices: ClassVar[tuple[str, ...]] = ("query", "response")

    def _distinct(self, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
        dice = Dice(self.seed)
        held_out = sizes["test"] + sizes["valid"]
        queries: set[str] = set()
        seen: set[tuple[str, str]] = set()
        misses = 0
        while misses < PATIENCE:
            pair = dialogue.exchange(dice)
            misses += 1
            if pair[0] not in queries and pair not in seen:
                if len(seen) < held_out:
                    queries.add(pair[0])
                seen.add(pair)
                misses = 0
                yield pair
        raise _gave_up(len(seen), sizes)
