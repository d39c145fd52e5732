"""English for `toy-de-en`: inflection, auxiliaries, and the order of words in a clause."""

import re

from augless.corpora.toy.meaning import (
    Adjective,
    Clause,
    Fixed,
    Nominal,
    Phrase,
    Predicate,
    Pronoun,
    Slot,
    Verb,
    Where,
    plural_of,
)

_PRONOUNS = {
    (1, False): ("I", "me"),
    (2, False): ("you", "you"),
    (1, True): ("we", "us"),
    (3, True): ("they", "them"),
}
_OWNERS = {
    "1s": "my",
    "2s": "your",
    "3m": "his",
    "3f": "her",
    "3n": "its",
    "1p": "our",
    "3p": "their",
}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def number(value: int) -> str:
    """Spell a number from 2 to 99."""
    if value < 20:
        return _ONES.split()[value]
    tens, ones = divmod(value, 10)
    return _TENS.split()[tens - 2] + (f"-{_ONES.split()[ones]}" if ones else "")


def plural(of: Nominal) -> bool:
    """Tell whether it is plural in English."""
    if isinstance(of, Phrase):
        return of.noun.only == "plural" or (of.plural and of.noun.only != "singular")
    return isinstance(of, Pronoun) and of.plural


def agreement(of: Nominal) -> tuple[int, bool]:
    """Give person and number."""
    return (of.person if isinstance(of, Pronoun) else 3), plural(of)


def _determiner(phrase: Phrase, several: bool, following: str, any_of_it: bool) -> str:
    kind = phrase.determiner
    if kind in _OWNERS:
        return _OWNERS[kind]
    if kind[0] == "@":
        return kind[1:] + "'s"
    if kind[0] == "#":
        return number(int(kind[1:]))
    if kind == "this":
        return "these" if several else "this"
    if kind == "a" and not several:
        return "an" if following[0] in "aeiou" else "a"
    if kind in ("a", "bare"):
        return "any" if any_of_it else ""
    return kind


def degree(adjective: Adjective, step: int) -> str:
    """Spell the positive (0), comparative (1) or superlative (2), with more or most if need be."""
    word = adjective.english[0]
    if step == 0 or len(adjective.english) > 1:
        return adjective.english[step]
    syllables = len(re.findall("[aeiouy]+", word.removesuffix("e")))
    if syllables > 1 and not word.endswith("y"):
        return ("more ", "most ")[step - 1] + word
    if re.search("[^aeiou][aeiou][bdgmnpt]$", word):
        word += word[-1]
    word = word[:-1] + "i" if word.endswith("y") else word.removesuffix("e")
    return word + ("er", "est")[step - 1]


def nominal(of: Nominal, subject: bool = False, any_of_it: bool = False) -> str:
    """Spell a noun phrase, pronoun or name, with its relative clause."""
    if isinstance(of, Fixed):
        return of.english
    if isinstance(of, Pronoun):
        if (of.person, of.plural) in _PRONOUNS:
            return _PRONOUNS[of.person, of.plural][0 if subject else 1]
        if of.thing:
            return "it"
        return {"m": ("he", "him"), "f": ("she", "her")}[of.gender][0 if subject else 1]
    several = plural(of)
    words = [degree(adjective, 2 if top else 0) for adjective, top in of.adjectives]
    words.append(of.noun.english_plural if several else of.noun.english)
    if of.possessor:
        determiner = nominal(of.possessor) + "'s"
    else:
        determiner = _determiner(of, several, words[0], any_of_it)
    relative = ""
    if of.relative is not None:
        person = "person" in of.noun.kinds
        relative = ("who " if person and of.relative.gap == -1 else "that ") + clause(of.relative)
    return " ".join(filter(None, [determiner, *words, relative]))


def third(word: str) -> str:
    """Spell the third person singular of the present."""
    return {"have": "has", "do": "does", "go": "goes", "be": "is"}.get(word) or plural_of(word)


def ing(word: str) -> str:
    """Spell the present participle."""
    if word.endswith("ie"):
        return word[:-2] + "ying"
    if word.endswith("e") and word != "be" and not word.endswith("ee"):
        return word[:-1] + "ing"
    if re.fullmatch("[^aeiou]*[aeiou][bdgmnpt]", word) or word in ("begin", "forget", "travel"):
        return word + word[-1] + "ing"
    return word + "ing"


def parts(verb: Verb) -> tuple[str, str, str]:
    """Give base, past and participle."""
    if len(verb.english) == 3:
        base, past, participle = verb.english
        return base, past, participle
    base = verb.english[0]
    if base == "be":
        return "be", "was", "been"
    if base.endswith("y") and base[-2] not in "aeou":
        past = base[:-1] + "ied"
    elif re.fullmatch("[^aeiou]*[aeiou][bdgmnpt]", base):
        past = base + base[-1] + "ed"
    else:
        past = base.removesuffix("e") + "ed"
    return base, past, past


def _be(past: bool, person: int, several: bool) -> str:
    if past:
        return "were" if several or person == 2 else "was"
    return "are" if several or person == 2 else "am" if person == 1 else "is"


def _have(person: int, several: bool) -> str:
    return "has" if person == 3 and not several else "have"


def _modal(of: Clause, base: list[str], person: int, several: bool) -> tuple[str, list[str]]:
    """Give the finite auxiliary (if any) and the rest, for each German modal verb."""
    past = of.tense == "past"
    if of.modal == "dürfen":
        if past:
            return _be(True, person, several), ["allowed", "to", *base]
        return ("must" if of.negated else "may"), base
    if of.modal == "müssen":
        if not past and not of.negated:
            return "must", base
        return "", ["have", "to", *base]
    if of.modal == "wollen":
        return "", ["want", "to", *base]
    if of.modal == "möchten":
        return "would", ["like", "to", *base]
    return {"können": "could" if past else "can", "sollen": "should"}[of.modal], base


def _verbal(of: Clause, helped: bool) -> tuple[str, list[str]]:
    """Give the finite auxiliary (empty if none) and the verbs after it.

    helped: a negation or question, which wants an auxiliary.
    """
    person, several = agreement(of.objects[0][1] if of.passive else of.subject)
    base, simple, participle = parts(of.verb)
    rest = ["be", participle] if of.passive else [base]
    if of.gladly:
        rest = ["like", "to", *rest]
    past = of.tense == "past"
    if of.modal:
        helper, rest = _modal(of, rest, person, several)
        simple = {"have": "had", "want": "wanted"}.get(rest[0], "")
        if helper:
            return helper, rest
    elif of.tense == "future":
        return "will", rest
    elif of.tense in ("perfect", "ongoing"):
        return _have(person, several), [participle]
    elif of.passive:
        return _be(past, person, several), [participle]
    elif of.progressive:
        return _be(past, person, several), [ing(base)]
    elif base == "be":
        return _be(past, person, several), []
    elif of.gladly:
        simple = "liked"
    singular = person == 3 and not several
    if helped:
        return ("did" if past else "does" if singular else "do"), rest
    head = simple if past else third(rest[0]) if singular else rest[0]
    return "", [head, *rest[1:]]


def _objects(of: Clause, others: list[tuple[Slot, Nominal]]) -> list[str]:
    """Order what follows the verb: the words of its expression, objects, a moving particle."""
    verb = of.verb
    direct = [item for item in others if not item[0].english]
    if len(direct) == 2:
        (_, whom), (_, what) = direct
        # gives it to her, gives her the book, explains the plan to her
        if of.to_whom or isinstance(what, Pronoun):
            return [*verb.after, nominal(what, any_of_it=of.negated), "to", nominal(whom)]
        return [*verb.after, nominal(whom), nominal(what, any_of_it=of.negated)]
    words = [nominal(what, any_of_it=of.negated) for _, what in direct]
    if len(of.objects) == 2 and not of.objects[1][0].english and of.gap == 1:
        words = ["to", *words]  # the book that he gives to her
    moves = direct and isinstance(direct[0][1], Pronoun)
    words = [*words, verb.particle] if moves else [verb.particle, *words]
    words += [f"{slot.english} {nominal(what)}" for slot, what in others if slot.english]
    return [*verb.after, *words]


def placed(where: Where) -> str:
    """Spell a preposition and what follows it."""
    return f"{where.english} {nominal(where.of)}"


def _predicate(of: Predicate) -> str:
    if of.job:
        return ("an " if of.job.english[0] in "aeiou" else "a ") + of.job.english
    if of.adjective is None:
        return ""
    very = f"{of.very.english} " if of.very else ""
    if of.than is None:
        return very + degree(of.adjective, 0)
    than = nominal(of.than, subject=True)
    if of.degree == "more":
        return f"{degree(of.adjective, 1)} than {than}"
    return f"as {degree(of.adjective, 0)} as {than}"


def tail(of: Clause, verbs: list[str]) -> list[str]:
    """Spell a clause from its main verb on."""
    others = [item for index, item in enumerate(of.objects) if index != of.gap]
    words = [*verbs, *_objects(of, [] if of.passive else others)]
    if of.passive and not isinstance(of.subject, Fixed):
        words += ["by", nominal(of.subject)]
    if of.predicate:
        words.append(_predicate(of.predicate))
    if of.manner:
        words.append(of.manner.english)
    if of.where:
        words.append(placed(of.where))
    if of.extra:
        words.append(placed(of.extra))
    if of.time and not of.fronted:
        words.append(of.time.english)
    return words


def clause(of: Clause, ask: bool = False, lead: str = "") -> str:
    """Spell a clause; `lead` is a question word before it."""
    subject = of.objects[0][1] if of.passive else of.subject
    first = "" if of.gap == -1 and not of.passive else nominal(subject, subject=True)
    helper, verbs = _verbal(of, of.negated or (ask and bool(first)))
    words = [helper, first] if ask else [first, helper]
    if of.negated:
        words = [w for w in words if w]
        place = len(words) if not ask else 2
        words.insert(place, "not")
    if of.often:
        words.append(of.often.english)
    words += tail(of, verbs)
    front = f"{of.time.english}," if of.time and of.fronted and not ask else ""
    text = " ".join(filter(None, [lead or front, *words]))
    return text.replace("can not", "cannot")


def bare(of: Clause, form: str) -> str:
    """Spell a clause without subject: `to` buy it, `ing` buying it, `` buy it."""
    base = parts(of.verb)[0]
    verbs = ["to", base] if form == "to" else [ing(base)] if form == "ing" else [base]
    return " ".join(filter(None, tail(of, verbs)))


def sentence(text: str, mark: str) -> str:
    """Capitalise and end."""
    text = re.sub(" +,", ",", text)
    return text[0].upper() + text[1:] + mark
