"""What people said of the methods, beside what metrics say; `survey` fills it in."""

from __future__ import annotations

from dataclasses import dataclass

from augless.reports.evidence import MARKS, Evidence, Study, Verdict
from augless.reports.tables import Cell, Line, Table, scored
from augless.reports.words import joined


@dataclass(frozen=True, kw_only=True)
class Rating:
    """How a system was rated on a scale."""

    mean: float
    low: float | None
    """95 % interval; None, as `high`, where one rating has none"""
    high: float | None
    count: int
    difference: float | None = None
    """from the baseline; None of itself and of what a person wrote"""
    p: float | None = None
    """corrected for all comparisons of the survey"""
    claimed: bool = False
    """whether the difference may be claimed"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A question, and how systems were rated on it."""

    name: str
    question: str
    ratings: dict[str, Rating]
    """system -> its ratings; systems that were not rated yet are not here"""
    agreement: str
    """Krippendorff's alpha with its interval, or why it has none"""
    kappa: float | None
    """weighted, the mean over pairs of annotators"""


@dataclass(frozen=True, kw_only=True)
class Human:
    """A survey that was counted."""

    survey: str
    """its fingerprint"""
    title: str
    baseline: str
    reference: str | None
    """the system that is what a person wrote"""
    systems: tuple[str, ...]
    scales: tuple[Scale, ...]
    sources: tuple[str, ...]
    """of the items that were drawn"""
    annotators: int
    """who rated anything and count"""
    notes: tuple[str, ...] = ()


def table(evidence: Evidence) -> Table | None:
    """Lay out what people said; None where there is no survey."""
    human = evidence.human
    if human is None:
        return None
    # The corpus that the rated texts are from; all of them where that is not known.
    rated = {*human.sources}
    studies = [study for study in evidence.studies if rated <= {*study.sources}]
    studies = studies if len(studies) == 1 else evidence.studies
    rows = [
        (method, evidence.styles[method], "")
        for method in evidence.plan.methods
        if method in human.systems and method != human.reference
    ]
    if human.reference is not None:
        rows.append((human.reference, "paper", "written by people"))
    lines = [
        Line(
            name=name,
            style=style,
            small=small,
            cells=[Cell() if small else _automatic(study, name) for study in studies]
            + [_rating(scale.ratings.get(name)) for scale in human.scales],
        )
        for name, style, small in rows
    ]
    units = [s.unit if len(studies) == 1 else f"{s.unit}, {s.corpus}" for s in studies]
    return Table(
        title="Human ratings",
        head=["Method", *units, *(scale.name for scale in human.scales)],
        lines=lines,
        legend=_legend(evidence, human),
        remarks=_remarks(evidence, human, studies),
    )


def _automatic(study: Study, method: str) -> Cell:
    """Write the score of a method, with its mark."""
    row = study.row(method)
    if row is None:
        return Cell()
    mark = MARKS[study.verdict(row.baseline)] if row.baseline else ""
    return Cell(f"{scored(row.cell.mean, row.cell.deviation, study.digits)} {mark}".rstrip())


def _rating(rating: Rating | None) -> Cell:
    """Write the mean with its interval, and with the sign of a claim, as of metrics."""
    if rating is None:
        return Cell()
    kind: Verdict = "open"
    if rating.claimed:
        kind = "better" if (rating.difference or 0.0) > 0 else "worse"
    mean, mark = f"{rating.mean:.2f}", MARKS[kind]
    if rating.low is None or rating.high is None:
        return Cell(f"{mean} {mark}".rstrip(), kind)
    ends = f"{rating.low:.2f} to {rating.high:.2f}"
    return Cell(f"{mean} {mark}".rstrip(), kind, (ends,), f"{mean} ({ends}) {mark}".rstrip())


def _legend(evidence: Evidence, human: Human) -> str:
    people = f"{human.annotators} annotator{'s' * (human.annotators != 1)}"
    agreed = "; ".join(f"{scale.name} {scale.agreement}" for scale in human.scales)
    known = [scale for scale in human.scales if scale.kappa is not None]
    kappas = "; ".join(f"{scale.name} {scale.kappa:.2f}" for scale in known)
    parts = [
        f"Mean ratings from 1 to 5 of {len(human.sources):,} items by {people}, who did not know "
        "which system wrote what, with the 95 % interval over items and annotators.",
        f"▲ higher, ▼ lower than {human.baseline}: permutation test over items, corrected by Holm "
        "over systems and scales, p < 0.05.",
        f"Agreement, Krippendorff's ordinal alpha: {agreed}.",
        f"Mean weighted kappa of pairs: {kappas}." if kappas else "",
    ]
    if len(evidence.plan.seeds) > 1:
        parts.append("People rated one output of each method; metrics are means over all seeds.")
    return " ".join(filter(None, parts))


def _remarks(evidence: Evidence, human: Human, studies: list[Study]) -> list[str]:
    """Say what was rated and is no method, what was not rated, and what the survey warns of."""
    methods, remarks = evidence.plan.methods, []
    others = [name for name in human.systems if name not in methods and name != human.reference]
    unrated = [method for method in methods if method not in human.systems]
    if others:
        remarks.append(f"Rated, but no method of this trial: {joined(others)}.")
    if unrated:
        remarks.append(f"Not rated: {joined(unrated)}.")
    lines = {line for study in studies for line in study.sources}
    strange = sum(source not in lines for source in human.sources)
    if lines and strange:
        remarks.append(
            f"{strange:,} of {len(human.sources):,} items have a source that is not in this "
            "trial's test set: people may have rated other texts than metrics."
        )
    return [*remarks, *human.notes]
