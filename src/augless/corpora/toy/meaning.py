"""What a sentence of `toy-de-en` means, before either language spells it."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from augless.corpora.toy import lexicon

Tense = Literal["present", "past", "perfect", "future", "ongoing"]
Value = TypeVar("Value")
Case = Literal["nom", "acc", "dat", "gen"]


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of both languages; `plural` is empty where German has none."""

    german: str
    plural: str
    gender: str  # m, f, n, or p where there is only a plural
    weak: bool
    english: str
    english_plural: str
    only: str  # the one number it has in English, where German goes its own way
    kinds: frozenset[str]
    place: tuple[str, ...]  # German preposition of rest and movement, English of rest and movement


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective of both languages, with comparative and superlative (empty: none)."""

    german: tuple[str, str, str]
    english: tuple[str, ...]
    rank: int
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """One German and one English verb that mean the same in some company."""

    german: str  # infinitive without separable prefix
    prefix: str
    forms: tuple[str, ...]  # third person, past, participle; none of a regular verb
    being: bool  # perfect with sein
    reflexive: bool
    fixed: str  # a noun that is part of the expression: Angst haben
    english: tuple[str, ...]  # base, past, participle; or the base of a regular verb
    after: tuple[str, ...]  # words that follow the English verb
    particle: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for an object: case, the prepositions before it, and what fits."""

    case: Case
    preposition: str  # of German
    english: str  # preposition of English, where it is not part of the verb
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Usage:
    """A verb's synonyms, its objects, its subjects and its marks."""

    verbs: tuple[tuple[Verb, ...], ...]  # German synonyms x English synonyms
    slots: tuple[Slot, ...]
    goal: str  # to, far, at, by, on, onto: a place it needs
    goal_kinds: frozenset[str]
    subjects: frozenset[str]
    marks: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun with what belongs to it.

    The determiner is a word (the, a, bare, this, every, which, all, many, some), a number (`#21`),
    an owner (`1s`, `3f`, `3p` ...) or an owner's name (`@Anna`).
    """

    noun: Noun
    determiner: str
    plural: bool = False
    adjectives: tuple[tuple[Adjective, bool], ...] = ()  # True: superlative
    possessor: "Phrase | None" = None
    relative: "Clause | None" = None

    @property
    def definite(self) -> bool:
        """Tell whether it stands before adverbs in German, and keeps its article when negated."""
        return self.determiner not in ("a", "bare", "many", "some") and self.determiner[0] != "#"


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun. `gender` is German's; `thing` makes it `it` in English."""

    person: int
    plural: bool = False
    gender: str = "m"
    thing: bool = False
    lifeless: bool = False  # after a preposition German then says darauf, not auf ihn


@dataclass(frozen=True, slots=True)
class Fixed:
    """A name, or another subject that does not change: Anna, nobody, who."""

    german: str
    english: str
    gender: str = "m"


Nominal = Phrase | Pronoun | Fixed


@dataclass(frozen=True, slots=True)
class Adverbial:
    """An adverb or adverbial phrase of both languages."""

    german: str
    english: str


@dataclass(frozen=True, slots=True)
class Where:
    """A preposition of both languages and what follows it."""

    german: str
    case: Case
    english: str
    of: Nominal


@dataclass(frozen=True, slots=True)
class Predicate:
    """What is said with to be: an adjective (positive, comparative or equal), or a profession."""

    adjective: Adjective | None = None
    degree: Literal["plain", "more", "as"] = "plain"
    very: Adverbial | None = None
    than: Nominal | None = None
    job: Noun | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject, a verb and all that goes with them."""

    subject: Nominal
    verb: Verb
    objects: tuple[tuple[Slot, Nominal], ...] = ()
    tense: Tense = "present"
    modal: str = ""
    negated: bool = False
    progressive: bool = False
    gladly: bool = False  # liest gern: likes to read
    passive: bool = False
    swapped: bool = False  # the English object is the German subject
    to_whom: bool = False  # English: gives the book to her, not gives her the book
    time: Adverbial | None = None
    fronted: bool = False
    often: Adverbial | None = None
    manner: Adverbial | None = None
    where: Where | None = None
    extra: Where | None = None
    predicate: Predicate | None = None
    gap: int | None = (
        None  # the object that a relative pronoun or question word stands for; -1: subject
    )


BE = Verb("sein", "", ("ist", "war", "gewesen"), True, False, "", ("be",), (), "")


def _noun(entry: str, kinds: list[str]) -> Noun:
    words = [word for word in entry.split() if word[0] not in "+@"]
    extra = [word[1:] for word in entry.split() if word[0] == "+"]
    place = [word[1:].split("/") for word in entry.split() if word[0] == "@"]
    article, german = words[0], words[1].rstrip("*")
    plural = german if article == "pl" else words[2].replace("-", "")
    english = [word.replace("_", " ") for word in words[2 if article == "pl" else 3 :]]
    only = {"=": "plural", "~": "singular"}.get(english[0][0], "plural" if article == "pl" else "")
    single = english[0].lstrip("=~")
    several = english[1] if len(english) > 1 else plural_of(single)
    return Noun(
        german=german,
        plural=plural,
        gender={"der": "m", "die": "f", "das": "n", "pl": "p"}[article],
        weak=words[1].endswith("*"),
        english=single,
        english_plural=single if only else several,
        only=only,
        kinds=frozenset(kinds + extra),
        place=tuple((*place[0], "to")[:4]) if place else (),
    )


def plural_of(noun: str) -> str:
    """Spell the regular English plural (and the third person of a verb)."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + "s"


def _german(text: str) -> Verb:
    words = text.split()
    reflexive = words[0] == "sich"
    words = words[reflexive:]
    fixed = words.pop() if len(words) > 1 and words[-1][0].isupper() else ""
    prefix, _, base = words[0].rstrip("!").rpartition(".")
    forms = tuple(word.rstrip("!") for word in words[1:])
    if base == "haben":
        forms = ("hat", "hatte", "gehabt")
    return Verb(base, prefix, forms, words[-1].endswith("!"), reflexive, fixed, (), (), "")


def _verbs(german: str, english: str) -> tuple[tuple[Verb, ...], ...]:
    def both(one: Verb, other: str) -> Verb:
        first, *rest = other.split()
        particle = rest[-1][1:] if rest and rest[-1][0] == "+" else ""
        after = tuple(word for word in rest if word[0] != "+")
        return Verb(
            *(one.german, one.prefix, one.forms, one.being, one.reflexive, one.fixed),
            english=tuple(first.split("/")),
            after=after,
            particle=particle,
        )

    return tuple(
        tuple(both(_german(one), other) for other in english.split(";"))
        for one in german.split(";")
    )


def _usage(line: str) -> Usage:
    german, english, governed, subjects, marks = [*line.split("|"), "", "", ""][:5]
    slots: list[Slot] = []
    goal, goal_kinds = "", ""
    for word in governed.split():
        marker, *parts = word.split(":")
        preposition, _, case = marker.rpartition("+")
        if case in ("acc", "dat"):
            between = parts[0] if len(parts) == 2 else ""
            kinds = frozenset(parts[-1].split(","))
            slots.append(Slot("acc" if case == "acc" else "dat", preposition, between, kinds))
        else:
            goal, goal_kinds = marker, parts[0] if parts else "place"
    return Usage(
        verbs=_verbs(german, english),
        slots=tuple(slots),
        goal=goal,
        goal_kinds=frozenset(goal_kinds.split()),
        subjects=frozenset(subjects.split() or ["person"]),
        marks=marks.strip(),
    )


def _adjectives(line: str) -> list[Adjective]:
    germans, englishes, rank, kinds = (part.strip() for part in line.split("|"))
    return [
        Adjective(_degrees(german), tuple(english.split()), int(rank), frozenset(kinds.split()))
        for german in germans.split(";")
        for english in englishes.split(";")
    ]


def _degrees(german: str) -> tuple[str, str, str]:
    first, *rest = german.split()
    if rest:
        return (first, "", "") if rest == ["-"] else (first, rest[0], rest[1])
    if first.endswith("el") or first.endswith("euer"):
        more = first[:-2] + first[-1] + "er"
    else:
        more = first + ("r" if first.endswith("e") else "er")
    hissing = first.endswith(("d", "t", "s", "ß", "z", "sch"))
    return first, more, first + ("est" if hissing else "st")


def _mixed(groups: Iterable[list[Value]]) -> list[Value]:
    """Take the first of each group, then the second of each: common words of all kinds first."""
    rounds = itertools.zip_longest(*groups)
    return [value for values in rounds for value in values if value is not None]


def _frames(usages: Iterable[Usage]) -> Iterable[list[Usage]]:
    """Group verbs by what they govern."""
    groups: dict[tuple[object, ...], list[Usage]] = {}
    for usage in usages:
        frame = (usage.goal != "", *((slot.case, bool(slot.preposition)) for slot in usage.slots))
        groups.setdefault(frame, []).append(usage)
    return groups.values()


NOUNS = _mixed(
    [_noun(entry, kinds.split()) for entry in entries.split(",")]
    for kinds, entries in lexicon.NOUNS.items()
)
VERBS = _mixed(_frames(map(_usage, lexicon.VERBS.strip().splitlines())))
ADJECTIVES = [a for line in lexicon.ADJECTIVES.strip().splitlines() for a in _adjectives(line)]
GOVERNORS = [
    (_verbs(*line.split("|")[:2]), line.split("|")[2].strip())
    for line in lexicon.GOVERNORS.strip().splitlines()
]
