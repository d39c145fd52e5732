"""What is rated, by whom and in which order: drawn from a seed, fixed before the first rating.

An *item* is a source with what every system made of it. A *task* is one text to rate: what a system
wrote, what a person wrote (the hidden reference), a text that was degraded on purpose, or one whose
right rating is known (gold). An annotator's *order* lists tasks by number; a task that is in it
twice is a repeated one.

All texts of an item are shown one after the other, so that its source is read once. Which system
comes first follows a Latin square: over as many items as there are systems, every system stands at
every place once, and (Williams' design) follows every other equally often.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import pydantic

from augless import schemas
from augless.corpora import reading
from augless.schemas import EXACT

POINTS = 5
"""of every scale; answered by the keys 1 to 5"""
REFERENCE = "Human"
"""name of the hidden system that is the reference"""

_LONGEST = 20_000  # characters of a text; nobody rates a longer one
_NAME = 80  # characters of the name of a system, a scale or an annotator

Read = TypeVar("Read")
Kind = Literal["system", "degraded", "gold"]
Name = Annotated[str, pydantic.Field(min_length=1, max_length=_NAME)]
Text = Annotated[str, pydantic.Field(max_length=_LONGEST)]
Index = Annotated[int, pydantic.Field(ge=0)]
Points = Annotated[int, pydantic.Field(ge=1, le=POINTS)]


class BadSurvey(ValueError):  # noqa: N818 - named for what it is, as BadRun and BadData are
    """A survey, or a file of ratings, that cannot be used: what is wrong and what to do."""


class BadOptions(ValueError):  # noqa: N818
    """A survey that cannot be made as asked for."""


@dataclass(frozen=True)
class Scale:
    """One question that is answered with 1 to 5."""

    __pydantic_config__ = EXACT

    name: Name
    question: Text


# The paper's anchors of the five points; 2 and 4 are for those who are unsure.
ANCHORS = ("not acceptable", "", "acceptable", "", "excellent")
SCALES = {
    scale.name: scale
    for scale in (
        Scale("fluency", "Is it well-formed and natural, whatever it says?"),
        Scale("relevance", "Does it fit the text above it?"),
        Scale("adequacy", "Does it say all that the text above it says, and nothing else?"),
    )
}


@dataclass(frozen=True)
class Item:
    """A source; its line in the file, or 0 for a gold item."""

    __pydantic_config__ = EXACT

    line: Index
    source: Text


@dataclass(frozen=True)
class Task:
    """One text to rate."""

    __pydantic_config__ = EXACT

    kind: Kind
    item: Index
    text: Text
    systems: tuple[Index, ...] = ()
    """who wrote it: several where they wrote the same; nobody if it is degraded or gold"""
    expected: dict[str, Points] = field(default_factory=dict)
    """scale -> the right rating of a gold text"""


@dataclass(frozen=True)
class Annotator:
    """Who rates, under a name for people and one for files, and which tasks in which order."""

    __pydantic_config__ = EXACT

    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9]{1,16}$")]
    name: Name
    order: tuple[Index, ...]


@dataclass(frozen=True, kw_only=True)
class Design:
    """A survey as it was planned. It names systems: no annotator may see it."""

    __pydantic_config__ = EXACT

    format: Literal["augless survey 1"] = "augless survey 1"
    title: Name
    seed: int
    scales: Annotated[tuple[Scale, ...], pydantic.Field(min_length=1, max_length=6)]
    labels: tuple[Name, Name]
    """what source and text are called on the page"""
    languages: tuple[str, str]
    """of source and text, as in HTML; empty where that is not known"""
    instructions: Text
    """what annotators are told besides; empty lines part paragraphs"""
    systems: Annotated[tuple[Name, ...], pydantic.Field(min_length=1, max_length=100)]
    reference: str | None
    """which of the systems is what a person wrote"""
    population: Index
    """lines that the items were drawn from"""
    items: tuple[Item, ...]
    tasks: tuple[Task, ...]
    annotators: Annotated[tuple[Annotator, ...], pydantic.Field(min_length=1, max_length=200)]

    def __post_init__(self) -> None:
        """Refuse a design that contradicts itself."""
        names = [scale.name for scale in self.scales]
        for what, those in (
            ("systems", self.systems),
            ("scales", names),
            ("ids of annotators", [one.id for one in self.annotators]),
            ("names of annotators", [one.name for one in self.annotators]),
        ):
            if len({*those}) < len(those):
                raise ValueError(f"two {what} are the same")
        if self.reference is not None and self.reference not in self.systems:
            raise ValueError("its reference is none of its systems")
        for task in self.tasks:
            if task.item >= len(self.items) or not {*task.expected} <= {*names}:
                raise ValueError("a task has an item or a scale that does not exist")
            if any(system >= len(self.systems) for system in task.systems):
                raise ValueError("a task has a system that does not exist")
            if (task.kind == "system") != bool(task.systems):
                raise ValueError("a task has no system, or one that it must not have")
        for annotator in self.annotators:
            if any(task >= len(self.tasks) for task in annotator.order):
                raise ValueError("an annotator's order has a task that does not exist")
            if any(annotator.order.count(task) > 2 for task in self.repeated(annotator)):
                raise ValueError("a task is repeated more than once")

    def annotator(self, id_: str) -> Annotator:
        """Return the annotator with an id."""
        return next(one for one in self.annotators if one.id == id_)

    @staticmethod
    def repeated(annotator: Annotator) -> dict[int, tuple[int, int]]:
        """Return the places of tasks that an annotator sees twice: task -> first and last."""
        first: dict[int, int] = {}
        places = {}
        for place, task in enumerate(annotator.order):
            if first.setdefault(task, place) != place:
                places[task] = (first[task], place)
        return places


@dataclass(frozen=True)
class Gold:
    """A text whose right rating is known."""

    __pydantic_config__ = EXACT

    source: Text
    text: Text
    scores: Annotated[dict[str, Points], pydantic.Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a survey is to be."""

    items: int = 200
    seed: int = 1
    title: str = "Which text is better?"
    scales: tuple[Scale, ...] = (SCALES["fluency"], SCALES["relevance"])
    annotators: tuple[str, ...] = tuple(f"Annotator {k}" for k in range(1, 6))
    repeats: int = 0
    """texts that every annotator is shown again"""
    degraded: int = 0
    """texts that were degraded, to catch those who do not read"""
    gold: tuple[Gold, ...] = ()
    labels: tuple[str, str] = ("Source", "Text")
    languages: tuple[str, str] = ("", "")
    instructions: str = ""


def design(
    systems: Mapping[str, Sequence[str]],
    sources: Sequence[str],
    references: Sequence[str] | None,
    options: Options,
) -> Design:
    """Draw items and orders; the same arguments give the same design."""
    whole = {name: list(lines) for name, lines in systems.items()}
    if references is not None:
        if REFERENCE in whole:
            raise BadOptions(f"{REFERENCE} is what the reference is called; rename that system")
        whole[REFERENCE] = list(references)
    _check(whole, sources, options)
    chance = random.Random(f"augless survey {options.seed}")
    usable = [
        k
        for k, source in enumerate(sources)
        if source.strip() and (references is None or references[k].strip())
    ]
    if options.items > len(usable):
        raise BadOptions(
            f"there are {len(usable):,} lines to draw from, and {options.items:,} are asked for\n"
            f"give --items {len(usable)} or less; lines without source or reference do not count"
        )
    drawn = sorted(chance.sample(usable, options.items))
    items = [Item(k + 1, sources[k]) for k in drawn]
    tasks = [
        task for number, k in enumerate(drawn) for task in _written(number, k, [*whole.values()])
    ]
    last = [lines[k] for lines in [*whole.values()][-1:] for k in drawn]
    degraded = _degraded(tasks, last, options)
    tasks += degraded
    for gold in options.gold:
        tasks.append(Task("gold", len(items), gold.text, (), dict(gold.scores)))
        items.append(Item(0, gold.source))
    annotators = [
        Annotator(
            f"a{k}",
            name,
            tuple(_order(tasks, len(whole), options, random.Random(f"{options.seed} order {k}"))),
        )
        for k, name in enumerate(options.annotators, 1)
    ]
    return Design(
        title=options.title,
        seed=options.seed,
        scales=options.scales,
        labels=options.labels,
        languages=options.languages,
        instructions=options.instructions.strip(),
        systems=tuple(whole),
        reference=REFERENCE if references is not None else None,
        population=len(sources),
        items=tuple(items),
        tasks=tuple(tasks),
        annotators=tuple(annotators),
    )


def giveaways(design: Design) -> list[str]:
    """Say what tells the reference from the systems at a glance, so that it is not hidden."""
    if design.reference is None:
        return []
    marks: dict[str, Callable[[str], bool]] = {
        "capital letters": lambda text: text != text.lower(),
        "a space before its full stop": lambda text: text.endswith((" .", " ?", " !")),
    }
    human = design.systems.index(design.reference)
    texts = [(task.text, human in task.systems) for task in design.tasks if task.kind == "system"]
    notes = []
    for mark, has in marks.items():
        shares = []
        for is_human in (True, False):
            those = [has(text) for text, whose in texts if whose is is_human]
            shares.append(sum(those) / len(those) if those else 0.0)
        if abs(shares[0] - shares[1]) > 0.7:
            who, other = ("reference", "systems") if shares[0] > 0.5 else ("systems", "reference")
            notes.append(
                f"the {who} mostly {'has' if who == 'reference' else 'have'} {mark}, "
                f"the {other} mostly not: that gives the reference away; write both alike"
            )
    return notes


def scales(written: Sequence[str]) -> tuple[Scale, ...]:
    """Read scales: names of known ones, several parted by commas, or NAME=QUESTION."""
    read: list[Scale] = []
    for one in written:
        name, equals, question = (part.strip() for part in one.partition("="))
        if equals:
            read.append(Scale(name, question))
            continue
        for known in filter(None, (part.strip() for part in one.split(","))):
            if known not in SCALES:
                raise BadOptions(
                    f"there is no scale {known!r}; known are {', '.join(SCALES)}\n"
                    f'ask your own question with --scales "{known}=Is it ...?"'
                )
            read.append(SCALES[known])
    return tuple(read)


def _check(systems: Mapping[str, Sequence[str]], sources: Sequence[str], options: Options) -> None:
    """Refuse, in a line, what cannot be made into a design."""
    for name, lines in systems.items():
        if len(lines) != len(sources):
            raise BadSurvey(
                f"{name} has {len(lines):,} lines and the source {len(sources):,}; "
                "line n must belong to line n"
            )
    for name, lines in (("the source", sources), *systems.items()):
        for number, line in enumerate(lines, 1):
            if len(line) > _LONGEST:
                raise BadSurvey(
                    f"{name}, line {number}: {len(line):,} characters are too long to be rated "
                    f"(at most {_LONGEST:,})"
                )
    if not systems:
        raise BadOptions("there is no system to rate; name files of hypotheses")
    _check_names("name of a system", systems)
    _check_options(options)


def _check_options(options: Options) -> None:
    _check_names("name of a scale", [scale.name for scale in options.scales])
    _check_names("name of an annotator", options.annotators)
    _check_names("label", options.labels, twice=True)
    _check_names("title", [options.title])
    if not 1 <= len(options.scales) <= 6:
        raise BadOptions("a survey has one to six scales")
    if not 1 <= len(options.annotators) <= 200:
        raise BadOptions("a survey has 1 to 200 annotators")
    if options.items < 1 or options.repeats < 0 or options.degraded < 0:
        raise BadOptions("there must be at least one item, and no count can be negative")
    if options.repeats > options.items or options.degraded > options.items:
        raise BadOptions("no more texts can be repeated or degraded than there are items")
    for language in options.languages:
        if not re.fullmatch(r"([A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)?", language):
            raise BadOptions(f"{language!r} is no language tag; such are de, en or pt-BR")
    if len(options.instructions) > _LONGEST:
        raise BadOptions(f"instructions of more than {_LONGEST:,} characters are not read")
    known = {scale.name for scale in options.scales}
    for number, gold in enumerate(options.gold, 1):
        if not {*gold.scores} <= known:
            strange = ", ".join(sorted({*gold.scores} - known))
            raise BadSurvey(f"gold item {number} is rated on {strange}, which is no scale here")


def _check_names(what: str, names: Collection[str], twice: bool = False) -> None:
    for name in names:
        if not 1 <= len(name) <= _NAME or not name.isprintable() or not name.strip():
            raise BadOptions(
                f"{what}: {name[:20]!a} cannot be used; "
                f"take 1 to {_NAME} characters that can be printed"
            )
    if len({*names}) < len(names) and not twice:
        raise BadOptions(f"{what}: the same is given twice")


def _written(number: int, line: int, systems: Sequence[Sequence[str]]) -> Iterator[Task]:
    """Yield the texts of an item; what several systems wrote alike is rated once, for all."""
    whose: dict[str, list[int]] = {}
    for system, lines in enumerate(systems):
        whose.setdefault(lines[line], []).append(system)
    for text, who in whose.items():
        yield Task("system", number, text, tuple(who))


def _degraded(tasks: Sequence[Task], texts: Sequence[str], options: Options) -> list[Task]:
    """Make texts that are bad on every scale: the words of another item, shuffled."""
    chance = random.Random(f"{options.seed} degraded")
    known = {(task.item, task.text) for task in tasks}
    degraded = []
    for number in chance.sample(range(len(texts)), options.degraded):
        donors = [k for k in range(len(texts)) if k != number] or [number]
        # Long ones first: of three words any order may do.
        donor = max(chance.sample(donors, min(5, len(donors))), key=lambda k: len(texts[k]))
        text = shuffled(texts[donor], chance)
        if text.strip() and (number, text) not in known:  # else no text, or one that is not bad
            degraded.append(Task("degraded", number, text))
    return degraded


def shuffled(text: str, chance: random.Random) -> str:
    """Put the words of a text, or the characters of a single word, into another order."""
    words = text.split()
    parts, glue = (words, " ") if len(words) > 1 else (list(text), "")
    made = parts
    for _ in range(20):
        made = chance.sample(parts, len(parts))
        if made != parts:
            break
    return glue.join(made)


def squares(size: int) -> list[list[tuple[int, ...]]]:
    """Return the Latin squares of Williams' design: one for an even size, two for an odd one."""
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    square = [tuple((place + row) % size for place in first) for row in range(size)]
    return [square] if size % 2 == 0 or size == 1 else [square, [row[::-1] for row in square]]


def _order(
    tasks: Sequence[Task], systems: int, options: Options, chance: random.Random
) -> list[int]:
    """Order the tasks for one annotator."""
    by_system: dict[tuple[int, int], int] = {}
    degraded: dict[int, list[int]] = {}
    blocks = []
    for number, task in enumerate(tasks):
        by_system |= {(task.item, system): number for system in task.systems}
        if task.kind == "degraded":
            degraded.setdefault(task.item, []).append(number)
    rows = _rows(systems, chance)
    for item in chance.sample(range(options.items), options.items):
        block = list(dict.fromkeys(by_system[item, system] for system in next(rows)))
        for number in degraded.get(item, ()):
            block.insert(chance.randint(0, len(block)), number)
        blocks.append(block)
    # What is shown again comes from the first third and goes into the last.
    third = -(-len(blocks) // 3)
    early = [n for block in blocks[:third] for n in block if tasks[n].kind == "system"]
    again = chance.sample(early, min(options.repeats, len(early)))
    for number in again:
        blocks.insert(chance.randint(max(third, len(blocks) - third), len(blocks)), [number])
    for number, task in enumerate(tasks):
        if task.kind == "gold":
            blocks.insert(chance.randint(0, len(blocks)), [number])
    return [number for block in blocks for number in block]


def _rows(size: int, chance: random.Random) -> Iterator[tuple[int, ...]]:
    """Yield rows of Latin squares, every square as a whole, without end."""
    while True:
        for square in squares(size):
            yield from chance.sample(square, len(square))


def gold(path: Path) -> tuple[Gold, ...]:
    """Read texts of known rating, a JSON object a line."""
    return tuple(
        parsed(Gold, line, f"{path}, line {number}")
        for number, line in enumerate(reading.lines(path), 1)
        if line.strip()
    )


def parsed(kind: type[Read], content: str | bytes, where: object) -> Read:
    """Read JSON by its schema; what does not fit is said in a line that names `where`."""
    try:
        return schemas.parsed(kind, content)
    except ValueError as error:
        raise BadSurvey(f"{where} is not what it should be: {error}") from None
