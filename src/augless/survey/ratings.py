"""Every rating with all that belongs to it, as CSV and as JSON lines."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from csv import QUOTE_NONNUMERIC, writer
from dataclasses import asdict, dataclass
from typing import Any

from augless.survey import raters
from augless.survey.folder import Survey

_COLUMNS = ("annotator", "place", "shown", "kind", "line", "systems", "source", "text")


@dataclass(frozen=True, kw_only=True)
class Rating:
    """What an annotator said of a text, and whose it is."""

    annotator: str
    place: int
    """in the annotator's order, from 1"""
    shown: int
    """2 where the same text was shown before"""
    kind: str
    line: int | None
    """of the source in its file; None of a gold text"""
    systems: list[str]
    source: str
    text: str
    scores: dict[str, int]
    """scale -> 1 to 5"""
    seconds: float
    at: str


def ratings(survey: Survey) -> Iterator[Rating]:
    """Yield every rating, by annotator and place."""
    design, answers = survey.design, survey.answers()
    for annotator in design.annotators:
        first = raters.first_places(annotator)
        for answer in answers[annotator.id]:
            number = annotator.order[answer.place]
            task = design.tasks[number]
            item = design.items[task.item]
            yield Rating(
                annotator=annotator.name,
                place=answer.place + 1,
                shown=1 if first[number] == answer.place else 2,
                kind=task.kind,
                line=item.line or None,
                systems=[design.systems[system] for system in task.systems],
                source=item.source,
                text=task.text,
                scores={s.name: v for s, v in zip(design.scales, answer.scores, strict=True)},
                seconds=answer.seconds,
                at=answer.at,
            )


def jsonl(survey: Survey) -> str:
    """Write every rating as a line of JSON."""
    lines = (json.dumps(asdict(one), ensure_ascii=False) for one in ratings(survey))
    # Some readers end a line at these, too.
    marks = str.maketrans({c: f"\\u{ord(c):04x}" for c in "\u0085\u2028\u2029"})
    return "".join(f"{line.translate(marks)}\n" for line in lines)


def csv(survey: Survey) -> str:
    """Write every rating as a row that no spreadsheet takes for a formula."""
    out = io.StringIO()
    table = writer(out, lineterminator="\n", quoting=QUOTE_NONNUMERIC)
    names = [scale.name for scale in survey.design.scales]
    table.writerow(map(literal, [*_COLUMNS, *names, "seconds", "at"]))
    for one in ratings(survey):
        row = {**asdict(one), "systems": " + ".join(one.systems)}
        values = [*(row[name] for name in _COLUMNS), *one.scores.values(), one.seconds, one.at]
        table.writerow(map(literal, values))
    return out.getvalue()


# What spreadsheets take for the start of a formula, at the start of a cell or after what may be
# read as the end of one (in many countries a semicolon); blanks before it are skipped, and
# full-width signs are taken for the usual ones.
_FORMULA = re.compile(r"(^|[;,|\t\r\n\v\f])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r\n])")


def literal(value: Any) -> Any:
    """Keep a spreadsheet from taking a text for a formula: an apostrophe stands before it.

    The texts of the JSON lines are as they were.
    """
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
