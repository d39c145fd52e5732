"""A survey beside a trial: its tally as what a report shows."""

from __future__ import annotations

from collections.abc import Collection

from augless.reports import human
from augless.survey import exports
from augless.survey.designing import BadSurvey
from augless.survey.folder import Survey
from augless.survey.tallying import Row, Tally, tally


def joined(survey: Survey, methods: Collection[str], baseline: str) -> human.Human:
    """Count a survey whose systems are called as methods; the baseline is theirs, if it has it."""
    design = survey.design
    named = [s for s in design.systems if s in methods and s != design.reference]
    if not named:
        raise BadSurvey(
            f"no system of {survey.folder} has the name of a method: {_few(design.systems)}; "
            f"methods are {_few(methods)}\n"
            "name them when the survey is made: augless survey new --systems METHOD=FILE"
        )
    return of(tally(survey, baseline=baseline if baseline in named else None))


def _few(names: Collection[str]) -> str:
    """List names on one line, the first ones."""
    first = [" ".join(name.split()) for name in list(names)[:6]]
    return ", ".join([*first, *(["..."] if len(names) > len(first) else [])])


def of(found: Tally) -> human.Human:
    """Return what a tally says, as a report shows it."""
    design = found.design
    return human.Human(
        survey=found.survey.id,
        title=design.title,
        baseline=found.baseline,
        reference=design.reference,
        systems=design.systems,
        scales=tuple(
            human.Scale(
                name=scored.scale,
                question=scored.question,
                ratings={
                    row.system: rating
                    for row in scored.rows
                    if (rating := _rating(row)) is not None
                },
                agreement=exports.agreement(scored.alpha),
                kappa=scored.kappa,
            )
            for scored in found.scales
        ),
        sources=tuple(item.source for item in design.items if item.line > 0),
        annotators=sum(one.done > 0 and one.name not in found.without for one in found.raters),
        notes=tuple(found.notes),
    )


def _rating(row: Row) -> human.Rating | None:
    if row.mean is None:
        return None
    apart = row.difference
    return human.Rating(
        mean=row.mean.value,
        low=row.mean.low,
        high=row.mean.high,
        count=row.mean.count,
        difference=apart.value if apart else None,
        p=apart.holm_p if apart else None,
        claimed=row.claimed,
    )
