"""A survey beside a trial: what people said of its methods, as its report shows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from augless.reports import tables, words
from augless.reports.cells import MARKS, Cell, Line, Table, Verdict
from augless.reports.evidence import Evidence, Human, Study
from augless.survey import exports
from augless.survey.designing import BadSurvey
from augless.survey.folder import Survey
from augless.survey.tallying import Row, Scored, Tally, tally

WRITTEN = "written by people"


def counted(survey: Survey, methods: Collection[str], baseline: str) -> Tally:
    """Count a survey whose systems are called as methods; the baseline is theirs, if it has it."""
    design = survey.design
    named = [s for s in design.systems if s in methods and s != design.reference]
    if not named:
        raise BadSurvey(
            f"no system of {survey.folder} has the name of a method: {_few(design.systems)}; "
            f"methods are {_few(methods)}\n"
            "name them when the survey is made: augless survey new --systems METHOD=FILE"
        )
    return tally(survey, baseline=baseline if baseline in named else None)


def _few(names: Collection[str]) -> str:
    """List names on one line, the first ones."""
    first = [" ".join(name.split()) for name in list(names)[:6]]
    return ", ".join([*first, *(["..."] if len(names) > len(first) else [])])


def beside(evidence: Evidence, said: Tally) -> Evidence:
    """Return the evidence with human scores beside automatic ones."""
    design, rated = said.design, {*_sources(said)}
    # The corpus that the rated texts are from; all of them where that is not known.
    studies = [study for study in evidence.studies if rated <= {*study.sources}]
    studies = studies if len(studies) == 1 else evidence.studies
    systems = [(m, s, "") for m, s in evidence.styles.items() if m in design.systems]
    systems = [system for system in systems if system[0] != design.reference]
    if design.reference is not None:
        systems.append((design.reference, "paper", WRITTEN))
    lines = [
        Line(
            name=name,
            style=style,
            small=small,
            cells=[Cell() if small else _automatic(study, name) for study in studies]
            + [_rating(scored.row(name)) for scored in said.scales],
        )
        for name, style, small in systems
    ]
    units = [s.unit if len(studies) == 1 else f"{s.unit}, {s.corpus}" for s in studies]
    table = Table(
        title="Human ratings",
        head=["Method", *units, *(scored.scale for scored in said.scales)],
        lines=lines,
        legend=_legend(evidence, said),
        remarks=_remarks(evidence, said, studies),
    )
    return replace(evidence, human=Human(table=table, values=_values(said)))


def _sources(said: Tally) -> list[str]:
    """Return the sources of the items that were drawn."""
    return [item.source for item in said.design.items if item.line > 0]


def _heard(said: Tally) -> int:
    """Return how many annotators rated anything and count."""
    return sum(one.done > 0 and one.name not in said.without for one in said.raters)


def _automatic(study: Study, method: str) -> Cell:
    """Write the score of a method, with its mark."""
    row = study.row(method)
    if row is None:
        return Cell()
    mark = MARKS[study.verdict(row.baseline)] if row.baseline else ""
    return tables.scored(row.mean, row.deviation, study.digits, mark)


def _rating(row: Row) -> Cell:
    """Write the mean with its interval, and with the sign of a claim, as of metrics."""
    if row.mean is None:
        return Cell()
    kind: Verdict = "open"
    if row.claimed and row.difference is not None:
        kind = "better" if row.difference.value > 0 else "worse"
    mean, mark = f"{row.mean.value:.2f}", MARKS[kind]
    if row.mean.low is None or row.mean.high is None:
        return Cell(mean, kind, mark=mark)
    ends = f"{row.mean.low:.2f} to {row.mean.high:.2f}"
    return Cell(mean, kind, (ends,), f"{mean} ({ends}) {mark}".rstrip(), mark=mark)


def _legend(evidence: Evidence, said: Tally) -> str:
    people = f"{_heard(said)} annotator{'s' * (_heard(said) != 1)}"
    agreed = "; ".join(f"{one.scale} {exports.agreement(one.alpha)}" for one in said.scales)
    known = [one for one in said.scales if one.kappa is not None]
    kappas = "; ".join(f"{one.scale} {one.kappa:.2f}" for one in known)
    parts = [
        f"Mean ratings from 1 to 5 of {len(_sources(said)):,} items by {people}, who did not know "
        "which system wrote what, with the 95 % interval over items and annotators.",
        f"▲ higher, ▼ lower than {said.baseline}: permutation test over items, corrected by Holm "
        "over systems and scales, p < 0.05.",
        f"Agreement, Krippendorff's ordinal alpha: {agreed}.",
        f"Mean weighted kappa of pairs: {kappas}." if kappas else "",
    ]
    if len(evidence.plan.seeds) > 1:
        parts.append("People rated one output of each method; metrics are means over all seeds.")
    return " ".join(filter(None, parts))


def _remarks(evidence: Evidence, said: Tally, studies: Sequence[Study]) -> list[str]:
    """Say what was rated and is no method, what was not rated, and what the survey warns of."""
    methods, design, remarks = evidence.plan.methods, said.design, []
    others = [name for name in design.systems if name not in methods and name != design.reference]
    unrated = [method for method in methods if method not in design.systems]
    if others:
        remarks.append(f"Rated, but no method of this trial: {words.joined(others)}.")
    if unrated:
        remarks.append(f"Not rated: {words.joined(unrated)}.")
    lines, sources = {line for study in studies for line in study.sources}, _sources(said)
    strange = sum(source not in lines for source in sources)
    if lines and strange:
        remarks.append(
            f"{strange:,} of {len(sources):,} items have a source that is not in this trial's "
            "test set: people may have rated other texts than metrics."
        )
    return [*remarks, *said.notes]


def _values(said: Tally) -> dict[str, Any]:
    """Return all numbers, for JSON."""
    return {
        "survey": said.survey.id,
        "title": said.design.title,
        "baseline": said.baseline,
        "reference": said.design.reference,
        "systems": said.design.systems,
        "scales": [_scale(one) for one in said.scales],
        "sources": _sources(said),
        "annotators": _heard(said),
        "notes": said.notes,
    }


def _scale(scored: Scored) -> dict[str, Any]:
    ratings = {}
    for row in scored.rows:
        if row.mean is not None:
            apart = row.difference
            ratings[row.system] = {
                "mean": row.mean.value,
                "low": row.mean.low,
                "high": row.mean.high,
                "count": row.mean.count,
                "difference": apart.value if apart else None,
                "p": apart.p if apart else None,
                "corrected_p": apart.corrected_p if apart else None,
                "claimed": row.claimed,
            }
    return {
        "name": scored.scale,
        "question": scored.question,
        "ratings": ratings,
        "agreement": exports.agreement(scored.alpha),
        "kappa": scored.kappa,
    }
