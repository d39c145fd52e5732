"""Ratings to numbers: means, differences, agreement, and what to think of the annotators."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from augless import metrics
from augless.survey import agreement, inference, raters
from augless.survey.agreement import Agreement
from augless.survey.designing import POINTS, Annotator, BadOptions, BadSurvey, Design
from augless.survey.folder import Survey
from augless.survey.inference import Difference, Mean
from augless.survey.raters import Rater
from augless.survey.store import Answer

Answers = Mapping[str, Sequence[Answer]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A system on one scale."""

    system: str
    mean: Mean | None
    """None: nothing was rated"""
    counts: tuple[int, ...]
    """ratings of 1, 2, ... 5"""
    difference: Difference | None
    """from the baseline; None for itself, for what a person wrote, and where nothing is paired"""

    @property
    def claimed(self) -> bool:
        """Whether the difference may be claimed."""
        return self.difference is not None and self.difference.corrected_p < metrics.LEVEL


@dataclass(frozen=True, kw_only=True)
class Scored:
    """All systems on one scale, and how far annotators agree there."""

    scale: str
    question: str
    rows: list[Row]
    alpha: Agreement
    kappas: dict[tuple[str, str], Agreement]
    """names of two annotators -> weighted kappa"""

    def row(self, system: str) -> Row:
        """Return the row of a system."""
        return next(row for row in self.rows if row.system == system)

    @property
    def kappa(self) -> float | None:
        """The mean weighted kappa of all pairs that have one."""
        known = [one.value for one in self.kappas.values() if one.value is not None]
        return statistics.fmean(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Tally:
    """All that a survey says in numbers."""

    survey: Survey
    baseline: str
    scales: list[Scored]
    raters: list[Rater]
    """all annotators, those left out among them"""
    without: tuple[str, ...]
    """names of annotators whose ratings do not count"""
    notes: list[str]

    @property
    def design(self) -> Design:
        """What was to be rated."""
        return self.survey.design

    @property
    def texts(self) -> int:
        """How many texts were rated by those who count, repeated and checking ones included."""
        return sum(rater.done for rater in self.raters if rater.name not in self.without)


def tally(
    survey: Survey,
    *,
    baseline: str | None = None,
    without: Collection[str] = (),
    resamples: int = inference.RESAMPLES,
) -> Tally:
    """Count what was rated so far; the same ratings give the same numbers."""
    design, answers = survey.design, survey.answers()
    if not any(answers.values()):
        raise BadSurvey(f"nothing was rated yet in {survey.folder}; start augless survey serve")
    names = {one.name for one in design.annotators}
    if not {*without} <= names:
        strange = sorted({*without} - names)
        raise BadOptions(f"{strange[0]!r} is no annotator; there are {', '.join(sorted(names))}")
    first = baseline or next(s for s in design.systems if s != design.reference)
    if first not in design.systems:
        known = ", ".join(design.systems)
        raise BadOptions(f"--baseline {first!r} is no system; there are {known}")
    heard = [one for one in design.annotators if one.name not in without and answers[one.id]]
    if not heard:
        raise BadOptions("every annotator who rated anything is left out")
    scales = [
        _scored(design, number, heard, answers, first, resamples)
        for number in range(len(design.scales))
    ]
    counted = Tally(
        survey=survey,
        baseline=first,
        scales=_corrected(scales),
        raters=[raters.rater(design, one, answers[one.id]) for one in design.annotators],
        without=tuple(one.name for one in design.annotators if one.name in without),
        notes=[],
    )
    return dataclasses.replace(counted, notes=_notes(counted))


def table(
    design: Design, number: int, heard: Sequence[Annotator], answers: Answers
) -> NDArray[np.int64]:
    """Return the first ratings of the systems' texts on a scale, (A, tasks); 0 for none."""
    ratings = np.zeros((len(heard), len(design.tasks)), dtype=np.int64)
    for row, annotator in enumerate(heard):
        first = raters.first_places(annotator)
        for answer in answers[annotator.id]:
            task = annotator.order[answer.place]
            if first[task] == answer.place and design.tasks[task].kind == "system":
                ratings[row, task] = answer.scores[number]
    return ratings


def cube(design: Design, ratings: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sort ratings (A, tasks) by item and system, (A, I, S); nan for none."""
    items = sum(item.line > 0 for item in design.items)
    by_item = np.full((len(ratings), items, len(design.systems)), np.nan)
    for number, task in enumerate(design.tasks):
        given = ratings[:, number]
        for system in task.systems:
            by_item[given > 0, task.item, system] = given[given > 0]
    return by_item


def _scored(
    design: Design,
    number: int,
    heard: Sequence[Annotator],
    answers: Answers,
    baseline: str,
    resamples: int,
) -> Scored:
    ratings = table(design, number, heard, answers)
    sorted_ = cube(design, ratings)
    base = design.systems.index(baseline)
    compared = [s for s in design.systems if s not in (baseline, design.reference)]
    means = inference.means(sorted_, resamples=resamples)
    rows = []
    for place, (system, mean) in enumerate(zip(design.systems, means, strict=True)):
        column = sorted_[:, :, place]
        rows.append(
            Row(
                system=system,
                mean=mean,
                counts=tuple(int((column == point).sum()) for point in range(1, POINTS + 1)),
                difference=inference.difference(
                    sorted_,
                    place,
                    base,
                    comparisons=len(compared) * len(design.scales),
                    resamples=resamples,
                )
                if system in compared
                else None,
            )
        )
    whose = np.array([task.item for task in design.tasks])
    pairs = itertools.combinations(range(len(heard)), 2)
    return Scored(
        scale=design.scales[number].name,
        question=design.scales[number].question,
        rows=rows,
        alpha=agreement.alpha(ratings, whose, resamples=resamples),
        kappas={
            (heard[a].name, heard[b].name): agreement.kappa(ratings[a], ratings[b])
            for a, b in pairs
        },
    )


def _corrected(scales: Sequence[Scored]) -> list[Scored]:
    """Correct the p of all systems and scales by Holm: they are one family."""
    known = [row.difference for scored in scales for row in scored.rows if row.difference]
    holm = iter(metrics.holm([one.p for one in known]))
    corrected = []
    for scored in scales:
        rows = [
            dataclasses.replace(
                row, difference=dataclasses.replace(row.difference, corrected_p=next(holm))
            )
            if row.difference
            else row
            for row in scored.rows
        ]
        corrected.append(dataclasses.replace(scored, rows=rows))
    return corrected


def _notes(tally: Tally) -> list[str]:
    """Say what a reader has to know, in whole sentences."""
    design, notes = tally.design, []
    heard = [one for one in tally.raters if one.name not in tally.without]
    behind = [one for one in heard if one.done < one.total]
    if behind:
        left = sum(one.total - one.done for one in behind)
        who = ", ".join(f"{one.name} ({one.done:,} of {one.total:,})" for one in behind)
        notes.append(f"{left:,} texts are not rated yet: {who}.")
    if sum(one.done > 0 for one in heard) == 1:
        notes.append(
            "Only one annotator counts: intervals speak of other items, not of other annotators."
        )
    for scored in tally.scales:
        if scored.alpha.value is None:
            notes.append(f"Alpha of {scored.scale} is undefined: {scored.alpha.reason}.")
    if tally.without:
        notes.append(f"Left out by choice: {', '.join(tally.without)}.")
    for one in heard:
        notes += [f"{one.name}: {flag}." for flag in one.flags]
    kinds = {task.kind for task in design.tasks}
    missing = [
        name
        for name, there in (
            ("--repeats", any(design.repeated(one) for one in design.annotators)),
            ("--degraded", "degraded" in kinds),
            ("--gold", "gold" in kinds),
        )
        if not there
    ]
    if len(missing) == 3:
        notes.append(
            "No text checks the annotators; a survey made with --repeats 10 --degraded 10 has some."
        )
    alike = sum(len(task.systems) > 1 for task in design.tasks)
    if alike:
        notes.append(
            f"{alike:,} texts were written alike by several systems: rated once, counted for each."
        )
    return notes
