"""The kinds of sentence of `toy-de-en`: each a function from an author to English and German."""

import re
from collections.abc import Callable
from dataclasses import replace

from augless.corpora.toy import author, english, german
from augless.corpora.toy.author import Author
from augless.corpora.toy.meaning import (
    BE,
    GOVERNORS,
    Adverbial,
    Clause,
    Fixed,
    Nominal,
    Phrase,
    Predicate,
    Pronoun,
    Tense,
    Usage,
    Verb,
    Where,
)

Spelt = tuple[str, str]

BECOME = Verb(
    *("werden", "", ("wird", "wurde", "geworden"), True, False, ""),
    english=("become", "became", "become"),
    after=(),
    particle="",
)
THING = frozenset({"thing", "clothing", "food", "text", "vehicle", "machine", "furniture"})
VERY = (("sehr", "very"), ("zu", "too"), ("ziemlich", "quite"), ("so", "so"))
# Conjunctions, and the tense they go with.
CONJUNCTIONS: tuple[tuple[str, str, tuple[Tense, ...]], ...] = (
    ("weil", "because", ("present", "past")),
    ("wenn", "if", ("present",)),
    ("wenn", "when", ("present",)),
    ("als", "when", ("past",)),
    ("obwohl", "although", ("present", "past")),
    ("während", "while", ("present", "past")),
    ("bevor", "before", ("present", "past")),
    ("da", "because", ("present", "past")),
    ("sobald", "as soon as", ("present", "past")),
)


def _end(en: str, de: str, mark: str = ".") -> Spelt:
    return english.sentence(en, mark), german.sentence(de, mark)


def _by_people(without: str) -> list[Usage]:
    """List what people do."""
    return [usage for usage in author.usages(without, None) if "person" in usage.subjects]


def _final(clause: Clause) -> bool:
    """Tell whether the object can carry a relative clause: nothing follows it in English."""
    after = clause.where or clause.manner or clause.extra or (clause.time and not clause.fronted)
    return not after and len(clause.objects) == 1 and not clause.swapped and not clause.negated


def _elaborated(by: Author, clause: Clause, percent: int) -> Clause:
    """Add a relative clause to the subject or the object."""
    if not by.dice.chance(percent) or clause.swapped:
        return clause
    if _final(clause) and by.dice.chance(60):
        slot, what = clause.objects[0]
        if isinstance(what, Phrase):
            return replace(clause, objects=((slot, by.relative(what)),))
    if isinstance(clause.subject, Phrase):
        return replace(clause, subject=by.relative(clause.subject))
    return clause


def statement(by: Author) -> Spelt:
    """The woman bought a book yesterday."""
    clause = _elaborated(by, by.clause(by.usage()), 14)
    return _end(english.clause(clause), german.clause(clause, "main"))


def _questionable(clause: Clause) -> Clause:
    return replace(clause, fronted=False)


def question(by: Author) -> Spelt:
    """Does the woman buy a book?"""
    clause = _questionable(by.clause(by.usage(), plain=True))
    return _end(english.clause(clause, ask=True), german.clause(clause, "question"), "?")


def who(by: Author) -> Spelt:
    """Who buys the book?"""
    usage = by.dice.pick_early(_by_people("<"))
    clause = _questionable(by.clause(usage, Fixed("wer", "who")))
    return _end(english.clause(clause), german.clause(clause, "main"), "?")


def whom(by: Author) -> Spelt:
    """What is the woman waiting for?"""
    usage = by.dice.pick_early(
        [u for u in author.usages("<", 1) if "queue" not in u.slots[0].kinds]
    )
    clause = replace(_questionable(by.clause(usage, plain=True)), negated=False, gladly=False)
    slot = usage.slots[0]
    if by.dice.chance(40):
        what = by.phrase(slot.kinds, plain=True)
        if what.noun.plural and not what.noun.only and by.dice.chance(40):
            phrase = replace(what, plural=True, determiner="bare", possessor=None, adjectives=())
            de = f"wie viele {german.nominal(phrase, slot.case)}"
            de, en = f"{slot.preposition} {de}", f"how many {english.nominal(phrase)}"
        else:
            phrase = replace(what, determiner="which", possessor=None)
            de = f"{slot.preposition} {german.nominal(phrase, slot.case)}"
            en = english.nominal(phrase)
    elif "person" in slot.kinds:
        de, en = f"{slot.preposition} {german.nominal(Fixed('wer', 'who'), slot.case)}", "who"
    elif slot.preposition:
        de = ("wor" if slot.preposition[0] in "aeiouäöü" else "wo") + slot.preposition
        en = "what"
    elif slot.case == "acc":
        de, en = "was", "what"
    else:
        return question(by)
    clause = replace(clause, gap=0)
    return _end(
        english.clause(clause, ask=True, lead=en),
        german.clause(clause, "question", lead=de.strip()),
        "?",
    )


def where(by: Author) -> Spelt:
    """Where is the woman going? Why? When?"""
    kind = by.dice.weigh({"where": 5, "why": 3, "when": 3})
    if kind == "where":
        usage = by.dice.pick_early(
            [u for u in author.usages("<", None) if u.goal in ("to", "far", "at")]
        )
        clause = by.clause(usage, plain=True)
        de, en = ("wo" if usage.goal == "at" else "wohin"), "where"
        clause = replace(clause, where=None, negated=False)
    else:
        clause = by.clause(by.usage("<"), plain=True)
        de, en = ("warum", "why") if kind == "why" else ("wann", "when")
        if kind == "when":
            clause = replace(clause, negated=False, progressive=False, time=None, often=None)
            tense: Tense = "present" if clause.tense in ("perfect", "ongoing") else clause.tense
            clause = replace(clause, tense=tense, gladly=False)
    if clause.tense == "ongoing":
        clause = replace(clause, tense="present", time=None)
    clause = _questionable(clause)
    return _end(
        english.clause(clause, ask=True, lead=en),
        german.clause(clause, "question", lead=de),
        "?",
    )


def _described(by: Author, subject: Nominal, tense: Tense) -> Clause:
    """Say of somebody or something what it is like."""
    kinds = subject.noun.kinds if isinstance(subject, Phrase) else author.PERSON
    said = [a for a, _ in subject.adjectives] if isinstance(subject, Phrase) else []
    # Not again what the phrase has said: a red car is not blue.
    ranks = {a.rank for a in said if not a.german[1]}
    choice = [a for a in author.adjectives(kinds) if a not in said and a.rank not in ranks]
    adjective = by.dice.pick_early(choice or author.adjectives(kinds))
    very = Adverbial(*by.dice.pick(VERY)) if adjective.german[1] and by.dice.chance(35) else None
    return Clause(subject, BE, tense=tense, predicate=Predicate(adjective, very=very))


def _describable(by: Author) -> Nominal:
    if by.dice.chance(45):
        return by.subject(author.PERSON, plain=True)
    while True:
        phrase = by.phrase(THING | {"animal", "building", "event"}, plain=True, known=True)
        if author.adjectives(phrase.noun.kinds):
            return phrase


def description(by: Author) -> Spelt:
    """The house is very old; it is as old as that one; he is a teacher."""
    dice = by.dice
    tense = dice.pick(author.FEW_TENSES)
    kind = dice.weigh({"plain": 5, "than": 4, "job": 2, "age": 1, "price": 1})
    if kind == "job":
        name: Nominal = dice.pick(author.NAMES)
        sex = "man" if author.owner(name) == "3m" else "woman"
        name = author.pronoun(name) or name if dice.chance(30) else name
        jobs = [n for n in author.nouns(frozenset({"job"})) if sex in n.kinds]
        verb = dice.pick((BE, BE, BECOME))
        tense = "past" if verb is BECOME else tense
        clause = Clause(name, verb, tense=tense, predicate=Predicate(job=dice.pick_early(jobs)))
    elif kind == "age":
        number = 2 + dice.below(80)
        subject = by.subject(author.PERSON, plain=True)
        clause = Clause(subject, BE, tense=tense, where=None)
        en, de = english.clause(clause), german.clause(clause, "main")
        return _end(
            f"{en} {english.number(number)} years old", f"{de} {german.number(number)} Jahre alt"
        )
    elif kind == "price":
        number = 2 + dice.below(97)
        subject = by.phrase(THING, plain=True, known=True)
        verb = Verb("kosten", "", (), False, False, "", ("cost", "cost", "cost"), (), "")
        clause = Clause(subject, verb, tense=tense)
        en, de = english.clause(clause), german.clause(clause, "main")
        return _end(f"{en} {english.number(number)} euros", f"{de} {german.number(number)} Euro")
    else:
        subject = _describable(by)
        clause = _described(by, subject, tense)
        predicate = clause.predicate or Predicate()
        adjective = predicate.adjective
        if kind == "than" and adjective and adjective.german[1]:
            kinds = author.PERSON
            if isinstance(subject, Phrase):
                kinds = subject.noun.kinds & adjective.kinds
            other = by.phrase(kinds, plain=True, known=True)
            if not isinstance(subject, Phrase) or subject.noun.german != other.noun.german:
                than = Predicate(adjective, "as" if dice.chance(30) else "more", than=other)
                clause = replace(clause, predicate=than)
        elif dice.chance(20):
            clause = replace(clause, negated=True)
        elif dice.chance(25):
            clause = _elaborated(by, clause, 100)
    return _end(english.clause(clause), german.clause(clause, "main"))


def _second(by: Author, subject: Nominal, tense: Tense) -> Clause:
    """Think of something else about a person, or about anything."""
    if by.dice.chance(30) and isinstance(subject, Pronoun) and not subject.thing:
        return _described(by, subject, tense)
    return _calm(by.clause(by.usage("<"), tense=tense, plain=True), tense)


def _calm(clause: Clause, tense: Tense) -> Clause:
    """Leave out what would clash in a longer sentence."""
    modal = clause.modal if tense == "present" or clause.modal in german.PAST else ""
    calm = replace(clause, tense=tense, modal=modal, time=None, fronted=False, often=None)
    return replace(calm, progressive=False, gladly=False)


def subordinate(by: Author) -> Spelt:
    """The man is tired because he has worked; if it is late, he sleeps."""
    de, en, tenses = by.dice.pick_early(CONJUNCTIONS)
    tense = by.dice.pick(tenses)
    main = _calm(by.clause(by.usage("<"), tense=tense, plain=True), tense)
    back = author.pronoun(main.subject)
    inner = _second(by, back, tense) if back else _calm(by.clause(by.usage("<")), tense)
    if back and by.dice.chance(60):
        usage = by.dice.pick_early(_by_people("<"))
        if not back.thing and not back.lifeless:
            inner = _calm(by.clause(usage, subject=back, tense=tense), tense)
    inner_de = f"{de} {german.clause(inner, 'final')}"
    inner_en = f"{en} {english.clause(inner)}"
    if by.dice.chance(35) and back != inner.subject:
        text = german.clause(main, "question", lead=f"{inner_de},")
        return _end(f"{inner_en}, {english.clause(main)}", text)
    return _end(f"{english.clause(main)} {inner_en}", f"{german.clause(main, 'main')}, {inner_de}")


def coordination(by: Author) -> Spelt:
    """The woman gets up and calls her brother. She is tired, but he sings."""
    dice = by.dice
    tense = dice.pick(author.FEW_TENSES)
    people = _by_people("<")
    first = _calm(by.clause(dice.pick_early(people), tense=tense, plain=True), tense)
    kind = dice.weigh({"and": 5, "but": 3, "for": 2, "both": 1})
    if kind == "and" and "person" in _kinds(first.subject):
        other = _calm(by.clause(dice.pick_early(people), subject=first.subject, tense=tense), tense)
        # One subject for both verbs, neither of which may borrow the other's modal verb.
        first, other = replace(first, modal=""), replace(other, modal="", gap=-1)
        return _end(
            f"{english.clause(first)} and {english.clause(other)}",
            f"{german.clause(first, 'main')} und {german.clause(other, 'main')}",
        )
    other = _calm(by.clause(dice.pick_early(people), tense=tense, plain=True), tense)
    de, en = {"but": (", aber", ", but"), "for": (", denn", " because")}.get(kind, (" und", " and"))
    return _end(
        f"{english.clause(first)}{en} {english.clause(other)}",
        f"{german.clause(first, 'main')}{de} {german.clause(other, 'main')}",
    )


def _kinds(of: Nominal) -> frozenset[str]:
    return of.noun.kinds if isinstance(of, Phrase) else author.PERSON


def anaphora(by: Author) -> Spelt:
    """The woman buys a lamp because she needs it: it takes the gender of the German noun."""
    dice = by.dice
    tense = dice.pick(author.FEW_TENSES)
    while True:
        usage = dice.pick_early([u for u in author.usages("<", 1) if "person" in u.subjects])
        first = _calm(by.clause(usage, tense=tense, rich=False, plain=True), tense)
        what = first.objects[0][1]
        back = author.pronoun(first.subject)
        it = author.pronoun(what) if isinstance(what, Phrase) else None
        if back and it and isinstance(what, Phrase) and "person" not in what.noun.kinds:
            break
    kinds = what.noun.kinds
    choice = [u for u in author.usages("<", 1) if u.slots[0].kinds & kinds and u != usage]
    choice = [u for u in choice if "person" in u.subjects]
    if not choice or (dice.chance(25) and author.adjectives(kinds)):
        if not author.adjectives(kinds):
            return statement(by)
        said = _described(by, what, tense)
        other = replace(said, subject=it)
    else:
        second = dice.pick_early(choice)
        other = Clause(back, by.verb(second), ((second.slots[0], it),), tense)
    link = dice.weigh({"and": 4, "because": 4, "but": 3})
    if link == "because":
        return _end(
            f"{english.clause(first)} because {english.clause(other)}",
            f"{german.clause(first, 'main')}, weil {german.clause(other, 'final')}",
        )
    if link == "and" and other.subject == back:
        shared = replace(other, gap=-1, subject=first.subject)
        return _end(
            f"{english.clause(first)} and {english.clause(shared)}",
            f"{german.clause(first, 'main')} und {german.clause(shared, 'main')}",
        )
    return _end(
        f"{english.clause(first)}, but {english.clause(other)}",
        f"{german.clause(first, 'main')}, aber {german.clause(other, 'main')}",
    )


def governed(by: Author) -> Spelt:
    """He tries to open the door. She thinks that he sleeps. I do not know whether he sleeps."""
    dice = by.dice
    verbs, form = dice.pick(GOVERNORS)
    subject = by.subject(author.PERSON, plain=True)
    tense: Tense = dice.weigh({"present": 5, "past": 4, "perfect": 1})
    verb = dice.pick(dice.pick(verbs))
    if form == "dass":
        tense = "past" if tense == "perfect" else tense
        inner = _calm(by.clause(by.usage("<")), tense)
        outer = Clause(subject, verb, tense=tense)
        de, en = "dass", "that"
        if verb.german == "wissen" and dice.chance(60):
            outer = replace(outer, negated=True)
            de, en = dice.pick((("ob", "whether"), ("warum", "why"), ("wann", "when")))
            inner = replace(inner, negated=False)
        return _end(
            f"{english.clause(outer)} {en} {english.clause(inner)}",
            f"{german.clause(outer, 'main')}, {de} {german.clause(inner, 'final')}",
        )
    inner = _doing(by, subject)
    outer = Clause(subject, verb, tense=tense)
    return _end(
        f"{english.clause(outer)} {english.bare(inner, 'ing' if form == 'ing' else 'to')}",
        f"{german.clause(outer, 'main')}, {german.clause(inner, 'zu')}",
    )


def _doing(by: Author, subject: Nominal) -> Clause:
    """Think of something one can try, plan or be asked to do."""
    usage = by.dice.pick_early(_by_people("<S"))
    return by.clause(usage, subject=subject, tense="present", rich=False)


def purpose(by: Author) -> Spelt:
    """The woman goes to the market to buy apples."""
    dice = by.dice
    subject = by.subject(author.PERSON, plain=True)
    going = [u for u in _by_people("<S") if u.goal in ("to", "far")]
    first = by.clause(dice.pick_early(going), subject=subject, rich=False)
    inner = _doing(by, subject)
    while inner.where:
        inner = _doing(by, subject)
    en = dice.pick(("to", "in order to")).removesuffix("to").strip()
    return _end(
        f"{english.clause(first)} {en} {english.bare(inner, 'to')}".replace("  ", " "),
        f"{german.clause(first, 'main')}, um {german.clause(inner, 'zu')}",
    )


def passive(by: Author) -> Spelt:
    """The house was built by the farmer. The lamp must be repaired."""
    dice = by.dice
    choice = [u for u in author.usages("<S", 1) if u.slots[0].case == "acc"]
    usage = dice.pick_early(
        [u for u in choice if not u.slots[0].preposition and "person" in u.subjects]
    )
    what = by.phrase(usage.slots[0].kinds, plain=True)
    modal = dice.pick(("müssen", "können")) if dice.chance(25) else ""
    tense: Tense = "present" if modal or dice.chance(25) else "past"
    agent: Nominal = Fixed("", "")
    if dice.chance(40) and not modal:
        agent = by.phrase(author.PERSON, known=True)
        agent = Fixed("", "") if author.same(agent, what) else agent
    clause = Clause(
        agent, by.verb(usage), ((usage.slots[0], what),), tense, modal=modal, passive=True
    )
    if dice.chance(12) and what.definite and isinstance(agent, Fixed):
        clause = replace(clause, negated=True)
    elif dice.chance(25) and not modal:
        clause = replace(clause, time=by.time(tense), fronted=dice.chance(50))
    return _end(english.clause(clause), german.clause(clause, "main"))


def request(by: Author) -> Spelt:
    """Please close the window!"""
    usage = by.dice.pick_early(_by_people("<S"))
    you = Pronoun(3, plural=True)
    clause = by.clause(usage, subject=you, tense="present", rich=False)
    while any(what in (you, Pronoun(2)) for _, what in clause.objects):
        clause = by.clause(usage, subject=you, tense="present", rich=False)
    de = german.clause(replace(clause, gap=-1), "main")
    verb, _, rest = de.partition(" ")
    return _end(f"please {english.bare(clause, '')}", f"bitte {verb} Sie {rest}".strip(), "!")


def existence(by: Author) -> Spelt:
    """There is a park in the city."""
    dice = by.dice
    place = by.spot(frozenset({"home"}), Pronoun(1))
    place = replace(place, determiner=dice.pick(("the", "this", "1p")), possessor=None)
    what = by.phrase(frozenset({"building", "animal", "plant", "furniture"}), plain=True)
    while what.noun.only or what.noun.german == place.noun.german:
        what = by.phrase(frozenset({"building", "animal", "plant", "furniture"}), plain=True)
    numeral = f"#{2 + dice.below(11)}"
    determiner = dice.pick(("bare", "many", numeral)) if what.plural else "a"
    what = replace(what, determiner=determiner, possessor=None)
    past = dice.chance(35)
    none = determiner in ("a", "bare") and dice.chance(20)
    verb = "gab" if past else "gibt"
    de_what = german.nominal(what, "acc", none)
    en_what = english.nominal(what)
    if none:
        en_what = f"no {en_what.removeprefix('a ').removeprefix('an ')}"
    rest = Where(place.noun.place[0], "dat", place.noun.place[2], place)
    de_place = german.prepositional(rest.german, rest.case, rest.of)
    be = ("were" if past else "are") if what.plural else ("was" if past else "is")
    front = dice.chance(50)
    de = f"{de_place} {verb} es {de_what}" if front else f"es {verb} {de_what} {de_place}"
    return _end(f"there {be} {en_what} {english.placed(rest)}", de)


_TWICE = re.compile(r"\b(\w{4,}) \1")  # gives Anna Anna's book

KINDS: dict[Callable[[Author], Spelt], int] = {
    statement: 34,
    question: 9,
    who: 3,
    whom: 6,
    where: 5,
    description: 12,
    subordinate: 14,
    coordination: 8,
    anaphora: 9,
    governed: 9,
    purpose: 3,
    passive: 5,
    request: 4,
    existence: 3,
}


def sentence(by: Author) -> Spelt:
    """Think of a sentence: English and German."""
    while True:
        spelt = by.dice.weigh(KINDS)(by)
        if not _TWICE.search(" ".join(spelt)):
            return spelt
