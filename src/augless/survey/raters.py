"""How each annotator rated: how far they are, and whether their ratings can be relied on.

Nobody is left out by a machine: a flag is a reason to look, and `--without` leaves somebody out.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from augless.survey import agreement
from augless.survey.designing import POINTS, Annotator, Design
from augless.survey.store import Answer

# Choices: when an annotator is flagged.
FASTEST = 60.0  # characters a second; 600 words a minute is faster than people read
LEAST = 1.0  # seconds of any answer: two keys and Enter alone take about that
HASTY = 0.2  # share of answers that are faster
CONSTANT = 0.95  # share of ratings that are one and the same
FEW = 10  # ratings, of which nobody is called constant
SOUND = 0.7  # share of gold and repeated texts that are rated within a point
CAUGHT = 0.75  # share of degraded texts that are rated below the annotator's own mean


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many of how many, and how many of those exactly."""

    hits: int
    of: int
    exact: int = 0

    @property
    def value(self) -> float:
        """The share."""
        return self.hits / self.of

    @property
    def written(self) -> str:
        """The share, for a table."""
        return f"{self.hits}/{self.of}"


@dataclass(frozen=True)
class Flag:
    """Why to look at an annotator's ratings again."""

    what: str
    """in a word or two"""
    why: str

    def __str__(self) -> str:
        """Say both."""
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Rater:
    """An annotator, and how they rated."""

    id: str
    name: str
    done: int
    total: int
    seconds: float | None
    """median of an answer"""
    fast: float | None
    """share of answers too fast to have been read"""
    constant: tuple[str, ...]
    """scales on which nearly all ratings are the same"""
    consistency: Share | None
    """of repeated texts, ratings within a point of the first"""
    self_kappa: float | None
    """weighted kappa of first and second ratings; None where there are none, or no spread"""
    gold: Share | None
    """ratings within a point of the right one"""
    degraded: Share | None
    """ratings of degraded texts that are below the mean of the others"""
    flags: tuple[Flag, ...] = ()
    """why to look at their ratings again"""


def rater(design: Design, annotator: Annotator, answers: Sequence[Answer]) -> Rater:
    """Look at the answers of rated annotator."""
    by_place = {answer.place: answer for answer in answers}
    tasks = [design.tasks[annotator.order[answer.place]] for answer in answers]
    fast = [
        answer.seconds < max(LEAST, len(task.text) / FASTEST)
        for answer, task in zip(answers, tasks, strict=True)
    ]
    usual = [
        answer.scores for answer, task in zip(answers, tasks, strict=True) if task.kind == "system"
    ]
    constant = tuple(
        scale.name for k, scale in enumerate(design.scales) if _constant([s[k] for s in usual])
    )
    consistency, kappa = _again(design, annotator, by_place)
    rated = Rater(
        id=annotator.id,
        name=annotator.name,
        done=len(answers),
        total=len(annotator.order),
        seconds=statistics.median(a.seconds for a in answers) if answers else None,
        fast=sum(fast) / len(fast) if fast else None,
        constant=constant,
        consistency=consistency,
        self_kappa=kappa,
        gold=_gold(design, annotator, answers),
        degraded=_degraded(design, annotator, answers, usual),
    )
    return dataclasses.replace(rated, flags=tuple(_flags(rated)))


def first_places(annotator: Annotator) -> dict[int, int]:
    """Return where each task is first shown: task -> place."""
    places: dict[int, int] = {}
    for place, task in enumerate(annotator.order):
        places.setdefault(task, place)
    return places


def _constant(ratings: Sequence[int]) -> bool:
    most = max((ratings.count(point) for point in range(1, POINTS + 1)), default=0)
    return len(ratings) >= FEW and most >= CONSTANT * len(ratings)


def _again(
    design: Design, annotator: Annotator, by_place: Mapping[int, Answer]
) -> tuple[Share | None, float | None]:
    """Compare the ratings of texts that were shown twice."""
    pairs = [
        (first, second)
        for before, after in design.repeated(annotator).values()
        if before in by_place and after in by_place
        for first, second in zip(by_place[before].scores, by_place[after].scores, strict=True)
    ]
    if not pairs:
        return None, None
    gaps = [abs(first - second) for first, second in pairs]
    one, other = np.array(pairs).T
    share = Share(hits=sum(gap <= 1 for gap in gaps), of=len(gaps), exact=gaps.count(0))
    return share, agreement.kappa(one, other).value


def _gold(design: Design, annotator: Annotator, answers: Sequence[Answer]) -> Share | None:
    gaps = []
    for answer in answers:
        task = design.tasks[annotator.order[answer.place]]
        for scale, score in zip(design.scales, answer.scores, strict=True):
            if scale.name in task.expected:
                gaps.append(abs(score - task.expected[scale.name]))
    if not gaps:
        return None
    return Share(hits=sum(gap <= 1 for gap in gaps), of=len(gaps), exact=gaps.count(0))


def _degraded(
    design: Design,
    annotator: Annotator,
    answers: Sequence[Answer],
    usual: Sequence[tuple[int, ...]],
) -> Share | None:
    degraded = [
        answer.scores
        for answer in answers
        if design.tasks[annotator.order[answer.place]].kind == "degraded"
    ]
    if not degraded or not usual:
        return None
    own = [statistics.fmean(column) for column in zip(*usual, strict=True)]
    below = [score < mean for scores in degraded for score, mean in zip(scores, own, strict=True)]
    return Share(hits=sum(below), of=len(below))


def _flags(rater: Rater) -> Iterator[Flag]:
    """Say, in a few words each, why to look at an annotator's ratings again."""
    if rater.fast is not None and rater.fast > HASTY:
        share = f"{rater.fast:.0%} of the answers came before the text can be read"
        yield Flag("too fast", share)
    if rater.constant:
        yield Flag("constant", f"nearly every {' and '.join(rater.constant)} rating is the same")
    if rater.gold is not None and rater.gold.value < SOUND:
        yield Flag("gold", f"{rater.gold.written} ratings of gold texts are within a point")
    if rater.consistency is not None and rater.consistency.value < SOUND:
        share = f"{rater.consistency.written} repeated ratings are within a point"
        yield Flag("inconsistent", share)
    if rater.degraded is not None and rater.degraded.value < CAUGHT:
        share = f"{rater.degraded.written} ratings of degraded texts are below the others"
        yield Flag("degraded", share)
