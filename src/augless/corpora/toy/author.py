"""Who thinks up the phrases and clauses of `toy-de-en`, by chance and with some sense."""

import functools
from dataclasses import replace

from augless.corpora.toy import english, german, lexicon
from augless.corpora.toy.dice import Dice
from augless.corpora.toy.meaning import (
    ADJECTIVES,
    NOUNS,
    VERBS,
    Adjective,
    Adverbial,
    Clause,
    Fixed,
    Nominal,
    Noun,
    Phrase,
    Pronoun,
    Slot,
    Tense,
    Usage,
    Verb,
    Where,
)

SUBJECTS = (
    Pronoun(1),
    Pronoun(2),
    Pronoun(3, gender="m"),
    Pronoun(3, gender="f"),
    Pronoun(1, plural=True),
    Pronoun(3, plural=True),
)
NAMES = tuple(
    Fixed(name, name, gender)
    for both in zip(lexicon.MEN.split(), lexicon.WOMEN.split(), strict=True)
    for name, gender in zip(both, "mf", strict=True)
)
TOWNS = tuple(Fixed(*(2 * town.split(":"))[:2]) for town in lexicon.TOWNS.split())
SOMEBODY = (Fixed("jemand", "somebody"), Fixed("niemand", "nobody"))
OWNERS = ("1s", "2s", "3m", "3f", "1p", "3p")
TIMES: dict[str, tuple[tuple[str, str], ...]] = {
    "present": (
        ("heute", "today"),
        ("jeden Tag", "every day"),
        ("am Abend", "in the evening"),
        ("am Morgen", "in the morning"),
        ("am Wochenende", "at the weekend"),
        ("im Sommer", "in summer"),
        ("um {} Uhr", "at {} o'clock"),
    ),
    "past": (
        ("gestern", "yesterday"),
        ("letzte Woche", "last week"),
        ("vor {} Tagen", "{} days ago"),
        ("am Montag", "on Monday"),
        ("letztes Jahr", "last year"),
        ("gestern Abend", "yesterday evening"),
        ("vor {} Jahren", "{} years ago"),
    ),
    "perfect": (("heute", "today"), ("diese Woche", "this week")),
    "future": (
        ("morgen", "tomorrow"),
        ("nächste Woche", "next week"),
        ("bald", "soon"),
        ("in {} Tagen", "in {} days"),
        ("nächstes Jahr", "next year"),
    ),
    "ongoing": (
        ("seit {} Jahren", "for {} years"),
        ("seit {} Monaten", "for {} months"),
        ("seit {} Wochen", "for {} weeks"),
    ),
}
OFTEN = {
    "present": (("immer", "always"), ("oft", "often"), ("manchmal", "sometimes"), ("nie", "never")),
    "past": (("oft", "often"), ("selten", "rarely"), ("nie", "never"), ("manchmal", "sometimes")),
    "perfect": (("schon", "already"), ("bereits", "already"), ("nie", "never")),
}
MANNERS = (
    ("schnell", "quickly"),
    ("langsam", "slowly"),
    ("vorsichtig", "carefully"),
    ("leise", "quietly"),
)
BESIDE = (("neben", "next to"), ("hinter", "behind"), ("vor", "in front of"))
UPON = (("auf", "on"), ("auf", "on"), ("unter", "under"), *BESIDE[:2])
TENSES: tuple[Tense, ...] = ("present",) * 43 + ("past",) * 35 + ("perfect",) * 14 + ("future",) * 8
FEW_TENSES: tuple[Tense, ...] = ("present", "present", "present", "past", "past")
PERSON = frozenset({"person"})
ALONE = ("schlafen",)
LASTING = ("wohnen", "leben", "arbeiten", "warten", "kennen", "lernen")


@functools.cache
def nouns(kinds: frozenset[str]) -> tuple[Noun, ...]:
    """List the nouns of any of these kinds."""
    return tuple(noun for noun in NOUNS if noun.kinds & kinds)


@functools.cache
def adjectives(kinds: frozenset[str]) -> tuple[Adjective, ...]:
    """List the adjectives that are said of any of these kinds."""
    return tuple(adjective for adjective in ADJECTIVES if adjective.kinds & kinds)


def owner(of: Nominal) -> str:
    """Give the possessive that points back to somebody; empty where it would not be clear."""
    if isinstance(of, Pronoun):
        return f"{of.person}p" if of.plural else f"{of.person}{'s' if of.person < 3 else of.gender}"
    if isinstance(of, Fixed):
        return f"3{of.gender}" if of in NAMES else ""
    if of.plural:
        return "3p" if not of.noun.only else ""
    if "person" in of.noun.kinds and of.noun.gender == "n":
        return ""
    if "person" in of.noun.kinds:
        return f"3{of.noun.gender}"
    return ""


def pronoun(of: Nominal) -> Pronoun | None:
    """Give the pronoun that stands for somebody or something said before; None if it is unclear."""
    if isinstance(of, Pronoun):
        return of
    if isinstance(of, Fixed):
        return Pronoun(3, gender=of.gender) if of in NAMES else None
    living = bool(of.noun.kinds & {"person", "animal"})
    if of.noun.only or of.determiner in ("every", "all", "many") or of.noun.gender == "p":
        return None
    if of.plural:
        return Pronoun(3, plural=True, lifeless=not living)
    if "person" in of.noun.kinds:
        return Pronoun(3, gender=of.noun.gender) if of.noun.gender != "n" else None
    return Pronoun(3, gender=of.noun.gender, thing=True, lifeless=not living)


class Author:
    """Draws phrases and clauses from dice."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def phrase(
        self, kinds: frozenset[str], mine: str = "", plain: bool = False, known: bool = False
    ) -> Phrase:
        """Think of things of some kinds.

        mine: who may own them; plain: nothing that negation or a question makes unclear (every,
        many, two ...); known: no indefinite article either.
        """
        dice = self.dice
        noun = dice.pick_early(nouns(kinds))
        plural = noun.gender == "p" or (bool(noun.plural) and not noun.only and dice.chance(28))
        weights = {"the": 45, "mine": 12, "this": 0 if noun.only else 7}
        if not known:
            weights["bare" if plural or not noun.plural else "a"] = 25
        if not plain and not noun.only and noun.plural and noun.gender != "p":
            more = {"#": 14, "many": 6, "some": 5, "all": 4} if plural else {"every": 3}
            weights |= more
        if "person" not in noun.kinds and not noun.place:
            weights |= {"name": 5, "whose": 4}
        kind = dice.weigh(weights)
        possessor = None
        if kind == "#":
            kind = f"#{2 + dice.pick_early(range(98))}"
        elif kind == "mine":
            kind = mine if mine and dice.chance(60) else dice.pick(OWNERS)
        elif kind == "name":
            kind = f"@{dice.pick_early(NAMES).german}"
        elif kind == "whose":
            kind, possessor = "the", self._possessor()
        return Phrase(noun, kind, plural, self._adjectives(noun, kind), possessor)

    def _possessor(self) -> Phrase:
        people = [noun for noun in nouns(PERSON) if noun.gender != "p"]
        determiner = self.dice.pick(("the", "the", "1s", "3f", "1p"))
        return Phrase(self.dice.pick_early(people), determiner)

    def _adjectives(self, noun: Noun, determiner: str) -> tuple[tuple[Adjective, bool], ...]:
        choice = adjectives(noun.kinds)
        if not choice or not self.dice.chance(32):
            return ()
        first = self.dice.pick_early(choice)
        if determiner == "the" and first.german[2] and self.dice.chance(12):
            return ((first, True),)
        second = self.dice.pick_early(choice)
        both = [first, second] if self.dice.chance(15) and first.rank != second.rank else [first]
        return tuple((each, False) for each in sorted(both, key=lambda each: each.rank))

    def subject(self, kinds: frozenset[str], plain: bool = False) -> Nominal:
        """Think of a subject."""
        if "person" in kinds and self.dice.chance(72 if kinds == PERSON else 55):
            kind = self.dice.weigh({"pronoun": 38, "name": 16, "phrase": 42, "some": 4})
            if kind == "pronoun":
                return self.dice.pick(SUBJECTS)
            if kind == "name":
                return self.dice.pick_early(NAMES)
            if kind == "some" and not plain:
                return self.dice.pick(SOMEBODY)
            kinds = PERSON
        return self.phrase(kinds, plain=plain, known=plain)

    def object(self, slot: Slot, subject: Nominal, negated: bool) -> Nominal:
        """Think of what a verb is done to."""
        if "person" in slot.kinds and self.dice.chance(40):
            others = [p for p in SUBJECTS if not isinstance(subject, Pronoun) or differ(p, subject)]
            names = [name for name in NAMES if name != subject]
            return self.dice.pick(others) if self.dice.chance(65) else self.dice.pick_early(names)
        bare = slot.case == "acc" and not slot.preposition
        known = (negated and not bare) or bool(slot.preposition and self.dice.chance(80))
        return self.phrase(slot.kinds, owner(subject), plain=negated, known=known)

    def spot(self, noun_kinds: frozenset[str], subject: Nominal) -> Phrase:
        """Think of a place as people mention them."""
        phrase = self.phrase(noun_kinds, owner(subject), plain=True)
        if phrase.determiner not in ("the", "a", "this") and self.dice.chance(60):
            phrase = replace(phrase, determiner="the", possessor=None)
        return phrase

    def rest(self, kinds: frozenset[str], subject: Nominal) -> Where:
        """Think of where somebody is."""
        if self.dice.chance(20) and "wild" not in kinds:
            return Where("in", "dat", "in", self.dice.pick_early(TOWNS))
        place = self.spot(kinds, subject)
        return Where(place.noun.place[0], "dat", place.noun.place[2], place)

    def goal(self, usage: Usage, subject: Nominal) -> Where | None:
        """Think of the place that a verb needs."""
        dice = self.dice
        if usage.goal == "to":
            if dice.chance(15):
                person = self.phrase(PERSON, owner(subject), plain=True, known=True)
                return Where("zu", "dat", "to", person)
            place = self.spot(usage.goal_kinds, subject)
            move = place.noun.place[1]
            return Where(move, "dat" if move == "zu" else "acc", place.noun.place[3], place)
        if usage.goal == "far":
            return Where("nach", "dat", "to", dice.pick_early(TOWNS))
        if usage.goal == "at":
            return self.rest(usage.goal_kinds, subject)
        if usage.goal == "on":
            return Where("auf", "dat", "on", self.spot(frozenset({"seat"}), subject))
        if usage.goal in ("by", "onto"):
            lying = usage.goal == "onto" or usage.subjects & {"flat", "upright"}
            preposition, meaning = dice.pick(UPON if lying else BESIDE)
            furniture = self.spot(frozenset({"furniture"}), subject)
            return Where(preposition, "acc" if usage.goal == "onto" else "dat", meaning, furniture)
        return None

    def time(self, tense: str) -> Adverbial:
        """Think of when something happens."""
        de, en = self.dice.pick_early(TIMES[tense])
        number = 2 + self.dice.below(11)
        return Adverbial(de.format(german.number(number)), en.format(english.number(number)))

    def verb(self, usage: Usage) -> Verb:
        """Choose among synonyms."""
        return self.dice.pick_early(self.dice.pick_early(usage.verbs))

    def usage(self, marks: str = "", objects: int | None = None) -> Usage:
        """Choose a verb without these marks, with so many objects."""
        return self.dice.pick_early(usages(marks, objects))

    def clause(
        self,
        usage: Usage,
        subject: Nominal | None = None,
        tense: Tense | None = None,
        rich: bool = True,
        plain: bool = False,
    ) -> Clause:
        """Think of something that happens.

        rich: with tenses, negation, modal verbs, adverbs; plain: nothing that is odd in a question.
        """
        dice = self.dice
        negated = rich and dice.chance(14)
        given = subject is not None
        if subject is None:
            subject = self.subject(usage.subjects, plain=plain or negated)
        if negated and given and not _plain(subject):
            negated = False
        when = dice.pick(TENSES if rich else FEW_TENSES) if tense is None else tense
        if when == "perfect" and "S" in usage.marks:
            when = "past"
        objects = tuple((slot, self.object(slot, subject, negated)) for slot in usage.slots)
        made = Clause(
            subject,
            self.verb(usage),
            objects,
            when,
            negated=negated,
            swapped="<" in usage.marks,
            to_whom="T" in usage.marks or dice.chance(25),
            where=self.goal(usage, subject),
        )
        if made.swapped and negated:
            made = replace(made, objects=((usage.slots[0], self._known(usage.slots[0])),))
        if usage.slots and not made.swapped and any(same(subject, what) for _, what in objects):
            return self.clause(usage, subject if given else None, when, rich, plain)
        return self._adorned(made, usage) if rich else made

    def _known(self, slot: Slot) -> Phrase:
        return self.phrase(slot.kinds, plain=True, known=True)

    def _adorned(self, made: Clause, usage: Usage) -> Clause:
        """Add what a clause can do without."""
        dice = self.dice
        state = "S" in usage.marks
        person = "person" in usage.subjects
        if made.verb.german in LASTING and made.tense == "present" and dice.chance(30):
            return replace(made, tense="ongoing", time=self.time("ongoing"), negated=False)
        if not state and person and made.tense in ("present", "past") and dice.chance(18):
            modals = ["können", "müssen", "wollen", "dürfen"]
            modals += ["möchten", "sollen"] if made.tense == "present" else []
            made = replace(made, modal=dice.pick(modals))
        elif not state and made.tense in ("present", "past") and dice.chance(14):
            # Not "we were reading": haben gerade gelesen is have just read.
            third = made.tense == "present" or german.agreement(made.subject)[0] == 3
            made = replace(made, progressive=third)
        elif not state and person and made.tense == "present" and not made.negated:
            known = [o for _, o in made.objects if not isinstance(o, Phrase) or o.definite]
            made = replace(made, gladly=not known and dice.chance(12))
        if not made.where and "L" in usage.marks and dice.chance(25):
            made = replace(made, where=self.rest(frozenset({"place"}), made.subject))
        elif "L" in usage.marks and person and made.verb.german not in ALONE and dice.chance(12):
            who = self.object(_WITH, made.subject, True)
            if not same(who, made.subject) and not any(s.preposition for s in usage.slots):
                made = replace(made, extra=Where("mit", "dat", "with", who))
        if "M" in usage.marks and not made.extra and not made.gladly and dice.chance(14):
            made = replace(made, manner=Adverbial(*dice.pick(MANNERS)))
        if dice.chance(30) and not made.progressive and not (made.modal and made.tense == "past"):
            when = "future" if made.modal and dice.chance(50) else made.tense
            made = replace(made, time=self.time(when), fronted=dice.chance(45))
        elif not made.negated and not made.progressive and made.tense in OFTEN and not made.modal:
            sure = made.subject not in SOMEBODY and not made.gladly
            if dice.chance(16) and sure:
                made = replace(made, often=Adverbial(*dice.pick(OFTEN[made.tense])))
        return made

    def relative(self, phrase: Phrase) -> Phrase:
        """Say more about something in a relative clause."""
        if phrase.possessor or phrase.noun.only or phrase.determiner in ("all", "every", "many"):
            return phrase
        dice = self.dice
        doing = [u for u in usages("<", None) if u.subjects & phrase.noun.kinds]
        done = [u for u in usages("<", 1) if u.slots[0].kinds & phrase.noun.kinds]
        if done and (not doing or dice.chance(50)):
            usage = dice.pick_early(done)
            inner = self.clause(usage, rich=False)
            if same(inner.subject, phrase):
                return phrase
            slot = usage.slots[0]
            return replace(phrase, relative=replace(inner, objects=((slot, phrase),), gap=0))
        if not doing:
            return phrase
        inner = self.clause(dice.pick_early(doing), subject=phrase, rich=False)
        return replace(phrase, relative=replace(inner, gap=-1))


_WITH = Slot("dat", "mit", "", PERSON)


@functools.cache
def usages(without: str, objects: int | None) -> tuple[Usage, ...]:
    """List the verbs without any of these marks, with so many objects if that is said."""
    return tuple(
        usage
        for usage in VERBS
        if not set(without) & set(usage.marks)
        and (objects is None or (len(usage.slots) == objects and not usage.goal))
    )


def differ(one: Pronoun, other: Pronoun) -> bool:
    """Tell whether two pronouns can be subject and object: not I and me, not I and us."""
    return one.person != other.person or (one.person == 3 and one != other)


def _plain(of: Nominal) -> bool:
    if isinstance(of, Phrase):
        return of.definite and of.determiner not in ("every", "all")
    return of not in SOMEBODY


def same(one: Nominal, other: Nominal) -> bool:
    """Tell whether two phrases have the same noun, so that one would not know which is meant."""
    if isinstance(one, Phrase) and isinstance(other, Phrase):
        return one.noun.german == other.noun.german or one.noun.english == other.noun.english
    return one == other
