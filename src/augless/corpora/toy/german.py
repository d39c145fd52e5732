"""German for `toy-de-en`: inflection, and the order of words in a clause."""

import re
from typing import Literal

from augless.corpora.toy.meaning import (
    Case,
    Clause,
    Fixed,
    Nominal,
    Noun,
    Phrase,
    Predicate,
    Pronoun,
    Slot,
    Verb,
    Where,
)

Order = Literal["main", "question", "final", "zu"]

# Endings by case for m, f, n and the plural.
_STRONG: dict[str, tuple[str, ...]] = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("en", "er", "en", "er"),
}
_WEAK: dict[str, tuple[str, ...]] = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
    "gen": ("en", "en", "en", "en"),
}
_MIXED: dict[str, tuple[str, ...]] = {
    **_WEAK,
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
}
_ARTICLES = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
    "gen": ("des", "der", "des", "der"),
}
_DIES = {**_STRONG, "gen": ("es", "er", "es", "er")}
_EIN = {**_DIES, "nom": ("", "e", "", "e"), "acc": ("en", "e", "", "e")}
_WORDS = {"this": "dies", "every": "jed", "which": "welch", "all": "all"}
_OWNERS = {
    "1s": "mein",
    "2s": "dein",
    "3m": "sein",
    "3f": "ihr",
    "3n": "sein",
    "1p": "unser",
    "3p": "ihr",
}
_PRONOUNS = {
    (1, False): ("ich", "mich", "mir"),
    (2, False): ("du", "dich", "dir"),
    (1, True): ("wir", "uns", "uns"),
    (3, True): ("sie", "sie", "ihnen"),
}
_THIRD = {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}
_PRESENT = {
    "sein": ("bin", "bist", "ist", "sind"),
    "haben": ("habe", "hast", "hat", "haben"),
    "werden": ("werde", "wirst", "wird", "werden"),
    "können": ("kann", "kannst", "kann", "können"),
    "müssen": ("muss", "musst", "muss", "müssen"),
    "wollen": ("will", "willst", "will", "wollen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen"),
    "sollen": ("sollte", "solltest", "sollte", "sollten"),  # should
    "möchten": ("möchte", "möchtest", "möchte", "möchten"),
    "mögen": ("mag", "magst", "mag", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen"),
}
PAST = {
    "sein": "war",
    "haben": "hatte",
    "werden": "wurde",
    "können": "konnte",
    "müssen": "musste",
    "wollen": "wollte",
    "dürfen": "durfte",
}
_WRITTEN = ("sein", "haben", "werden", "wissen", "kennen", "mögen", "brauchen")
_SHORT = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}
_ONES = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def number(value: int) -> str:
    """Spell a number from 2 to 99."""
    if value <= 12:
        return _ONES.split()[value]
    if value < 20:
        return {16: "sech", 17: "sieb"}.get(value, _ONES.split()[value - 10]) + "zehn"
    tens, ones = divmod(value, 10)
    return (f"{_ONES.split()[ones]}und" if ones else "") + _TENS.split()[tens - 2]


def _column(noun: Noun, plural: bool) -> int:
    return 3 if plural else "mfn".index(noun.gender)


def declined(noun: Noun, case: Case, plural: bool) -> str:
    """Spell a noun in a case and number."""
    if plural:
        plain = case != "dat" or noun.plural.endswith(("n", "s"))
        return noun.plural if plain else noun.plural + "n"
    if noun.weak and case != "nom":
        return noun.plural  # den Studenten, den Bären, den Nachbarn: always as in the plural
    if case == "gen" and noun.gender != "f":
        syllables = len(re.findall("[aeiouyäöü]+", noun.german.lower()))
        long = syllables == 1 and noun.german[-1] not in "aeo"
        return noun.german + ("es" if long else "s")  # of the people who own things
    return noun.german


def attributive(word: str, ending: str) -> str:
    """Spell an adjective before its noun."""
    if word.endswith(("el", "euer")):
        word = word[:-2] + word[-1]
    return word.removesuffix("e") + ending


def _determiner(phrase: Phrase, case: Case, none: bool) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Spell what stands before a noun, and say which endings its adjectives take."""
    column = _column(phrase.noun, phrase.plural)
    kind = phrase.determiner
    if kind == "the":
        return _ARTICLES[case][column], _WEAK
    if kind in _WORDS:
        return _WORDS[kind] + _DIES[case][column], _WEAK
    if kind in ("a", "bare") and none:
        return "kein" + _EIN[case][column], _MIXED
    if kind == "a":
        return "ein" + _EIN[case][column], _MIXED
    if kind in _OWNERS:
        return _OWNERS[kind] + _EIN[case][column], _MIXED
    if kind in ("many", "some"):
        return {"many": "viel", "some": "einig"}[kind] + _DIES[case][column], _STRONG
    if kind[0] == "#":
        return number(int(kind[1:])), _STRONG
    return (kind[1:] + "s" if kind[0] == "@" else ""), _STRONG


def nominal(of: Nominal, case: Case, none: bool = False) -> str:
    """Spell a noun phrase, pronoun or name, without its relative clause."""
    if isinstance(of, Fixed):
        return {"wer": {"acc": "wen", "dat": "wem"}}.get(of.german, {}).get(case, of.german)
    if isinstance(of, Pronoun):
        forms = _PRONOUNS.get((of.person, of.plural)) or _THIRD[of.gender]
        return forms[("nom", "acc", "dat").index(case)]
    determiner, endings = _determiner(of, case, none)
    column = _column(of.noun, of.plural)
    words = [determiner]
    for adjective, superlative in of.adjectives:
        stem = adjective.german[2 if superlative else 0]
        words.append(attributive(stem, endings[case][column]))
    words.append(declined(of.noun, case, of.plural))
    if of.possessor:
        words.append(nominal(of.possessor, "gen"))
    return " ".join(filter(None, words))


def _relative(of: Nominal) -> str:
    """Spell the relative clause of a phrase, between commas."""
    if not isinstance(of, Phrase) or of.relative is None:
        return ""
    inner = of.relative
    slot = Slot("nom", "", "", frozenset()) if inner.gap == -1 else inner.objects[inner.gap or 0][0]
    column = _column(of.noun, of.plural)
    pronoun = _ARTICLES[slot.case][column]
    if slot.case == "dat" and column == 3:
        pronoun = "denen"
    lead = f"{slot.preposition} {pronoun}".strip()
    return f", {lead} {clause(inner, 'final')},"


def prepositional(preposition: str, case: Case, of: Nominal) -> str:
    """Spell a preposition and what follows it: im Haus, darauf, mit ihr."""
    if isinstance(of, Pronoun) and of.lifeless:
        return ("dar" if preposition[0] in "aeiouäöü" else "da") + preposition
    text = nominal(of, case)
    if isinstance(of, Phrase) and of.determiner == "the" and not of.relative:
        article, _, rest = text.partition(" ")
        if (preposition, article) in _SHORT:
            return f"{_SHORT[preposition, article]} {rest}"
    return f"{preposition} {text}"


def agreement(of: Nominal) -> tuple[int, bool]:
    """Give person and number."""
    if isinstance(of, Pronoun):
        return of.person, of.plural
    return 3, isinstance(of, Phrase) and of.plural


def _stem(infinitive: str) -> str:
    return infinitive.removesuffix("en") if infinitive.endswith("en") else infinitive[:-1]


def principal(verb: Verb) -> tuple[str, str, str]:
    """Give third person, past and participle; a prefix that separates is only in the last."""
    if verb.forms:
        third, past, participle = verb.forms
        return third, past, participle
    stem = _stem(verb.german)
    # arbeitet, öffnet; but lernt, wohnt
    link = "e" if re.search("([td]|[^aeiouäöülrh][mn])$", stem) else ""
    bare = verb.german.startswith(("be", "ver", "er", "zer", "ge", "emp", "unter", "ent"))
    plain = bare or verb.german.endswith("ieren")
    participle = verb.prefix + ("" if plain else "ge") + stem + link + "t"
    return stem + link + "t", stem + link + "te", participle


def finite(verb: Verb, past: bool, person: int, plural: bool) -> str:
    """Conjugate a verb in the present or the simple past."""
    third, simple, _ = principal(verb)
    if past:
        simple = PAST.get(verb.german, simple)
        if plural:
            return simple + ("n" if simple.endswith("e") else "en")
        return simple + {True: "st", False: ""}[person == 2]
    if verb.german in _PRESENT:
        return _PRESENT[verb.german][3 if plural else person - 1]
    if plural:
        return verb.german
    if person == 1:
        stem = _stem(verb.german)
        return stem[:-2] + "le" if verb.german.endswith("eln") else stem + "e"
    if person == 2:
        base = third[:-1]
        return base + ("t" if base.endswith(("s", "ß", "z")) else "st")
    return third


def auxiliary(infinitive: str) -> Verb:
    """Return an auxiliary or modal verb, of which only the infinitive matters."""
    return Verb(infinitive, "", ("", "", ""), False, False, "", (), (), "")


def _verbal(of: Clause, person: int, plural: bool) -> tuple[str, list[str], bool]:
    """Give the finite verb, what ends the clause, and whether the two fuse in final position."""
    verb = of.verb
    participle = principal(verb)[2]
    end = [participle, "werden"] if of.passive else [verb.prefix + verb.german]
    if of.modal:
        return finite(auxiliary(of.modal), of.tense == "past", person, plural), end, False
    if of.tense == "future":
        return finite(auxiliary("werden"), False, person, plural), end, False
    if of.passive:
        return finite(auxiliary("werden"), of.tense == "past", person, plural), [participle], False
    # Choice: ich, du and wir tell the past in the perfect, as speakers do.
    spoken = of.tense == "past" and person != 3 and verb.german not in _WRITTEN
    if of.tense == "perfect" or spoken:
        helper = "sein" if verb.being else "haben"
        return finite(auxiliary(helper), False, person, plural), [participle], False
    past = of.tense == "past"
    return finite(verb, past, person, plural), [verb.prefix] if verb.prefix else [], True


def _reflexive(person: int, plural: bool) -> str:
    return "sich" if person == 3 else _PRONOUNS[person, plural][1]


def _middle(of: Clause, others: list[tuple[Slot, Nominal]]) -> list[str]:
    """Order what stands between the two parts of the verb."""
    bare = [(slot, what) for slot, what in others if not slot.preposition]
    bare.sort(key=lambda item: item[0].case == "acc")  # the dative first
    pronouns = [item for item in bare if isinstance(item[1], Pronoun)]
    pronouns.sort(key=lambda item: item[0].case == "dat")  # but: gibt es ihr
    nouns = [item for item in bare if not isinstance(item[1], Pronoun)]
    known = [i for i in nouns if not isinstance(i[1], Phrase) or i[1].definite]
    fresh = [i for i in nouns if isinstance(i[1], Phrase) and not i[1].definite]
    none = of.negated and (bool(of.verb.fixed) or any(slot.case == "acc" for slot, _ in fresh))
    words = [nominal(what, slot.case) for slot, what in pronouns]
    if of.time and not of.fronted:
        words.append(of.time.german)
    if of.progressive:
        words.append("gerade")
    words += [nominal(what, slot.case) for slot, what in known]
    if of.often:
        words.append(of.often.german)
    if of.gladly:
        words.append("gern")
    if of.negated and not none:
        words.append("nicht")
    words += [nominal(what, slot.case, none and slot.case == "acc") for slot, what in fresh]
    if of.verb.fixed:
        words.append(("keine " if of.verb.fixed == "Angst" else "keinen ") * none + of.verb.fixed)
    if of.manner:
        words.append(of.manner.german)
    if of.extra:
        words.append(_placed(of.extra))
    words += [prepositional(s.preposition, s.case, what) for s, what in others if s.preposition]
    if of.where:
        words.append(_placed(of.where))
    if of.predicate:
        words.append(_predicate(of.predicate))
    return words


def _placed(where: Where) -> str:
    return prepositional(where.german, where.case, where.of)


def _predicate(of: Predicate) -> str:
    if of.job:
        return of.job.german
    if of.adjective is None:
        return ""
    very = f"{of.very.german} " if of.very else ""
    if of.than is None:
        return very + of.adjective.german[0]
    than = nominal(of.than, "nom")
    if of.degree == "more":
        return f"{of.adjective.german[1]} als {than}"
    return f"so {of.adjective.german[0]} wie {than}"


def clause(of: Clause, order: Order, lead: str = "") -> str:
    """Spell a clause; `lead` is what stands before the verb instead of the subject."""
    subject = of.subject
    # Of the objects, those that a relative pronoun or question word does not stand for.
    others = [item for index, item in enumerate(of.objects) if index != of.gap]
    if of.swapped:
        others = [(of.objects[0][0], of.subject)]
        subject = of.objects[0][1]
    elif of.passive:
        subject = of.objects[0][1]
        others = []
    person, plural = agreement(subject)
    verb, end, fuses = _verbal(of, person, plural)
    middle = _middle(of, others)
    if of.passive and not isinstance(of.subject, Fixed):
        middle.append(prepositional("von", "dat", of.subject))
    first = [] if of.gap == -1 and not of.passive else [nominal(subject, "nom"), _relative(subject)]
    oneself = [_reflexive(person, plural)] if of.verb.reflexive else []
    inverted = [*first, *oneself] if isinstance(subject, Pronoun) else [*oneself, *first]
    late = "".join(_relative(what) for _, what in others)
    if order == "zu":
        prefix = of.verb.prefix
        words = [
            *oneself,
            *middle,
            f"{prefix}zu{of.verb.german}" if prefix else f"zu {of.verb.german}",
        ]
    elif order == "final":
        words = [*inverted, *middle, *(["".join([*end, verb])] if fuses else [*end, verb])]
    elif order == "question":
        words = [lead, verb, *inverted, *middle, *end]
    elif lead or (of.time and of.fronted):
        front = lead or (of.time.german if of.time else "")
        words = [front, verb, *inverted, *middle, *end]
    else:
        words = [*first, verb, *oneself, *middle, *end]
    return " ".join(filter(None, [*words, late]))


def sentence(text: str, mark: str) -> str:
    """Capitalise, set commas right, and end."""
    text = re.sub(" *,[ ,]*", ", ", text).strip(" ,")
    return text[0].upper() + text[1:] + mark
