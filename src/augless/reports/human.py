"""What people said of the methods, beside what metrics say; `survey` fills it in."""

from __future__ import annotations

from dataclasses import dataclass

from augless.reports import answers, tables
from augless.reports.evidence import Evidence, Study


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

    @property
    def mark(self) -> str:
        """The sign of a claim, as of metrics."""
        return ("▲" if (self.difference or 0.0) > 0 else "▼") if self.claimed else ""

    @property
    def text(self) -> str:
        """The mean with its interval."""
        ends = "" if self.low is None or self.high is None else f" ({self.ends})"
        return f"{self.mean:.2f}{ends} {self.mark}".rstrip()

    @property
    def ends(self) -> str:
        """The interval."""
        return f"{self.low:.2f} to {self.high:.2f}"


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


@dataclass(frozen=True, kw_only=True)
class Line:
    """A method, or what a person wrote."""

    name: str
    style: str
    role: str
    automatic: list[str]
    """scores by metrics, a column each"""
    ratings: list[Rating | None]
    """a column for each scale"""

    @property
    def cells(self) -> list[str]:
        """All of it as text."""
        return [*self.automatic, *(one.text if one else "" for one in self.ratings)]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Human scores beside automatic ones."""

    names: list[str]
    rows: list[Line]
    legend: str
    remarks: list[str]


def table(found: Evidence) -> Table | None:
    """Lay out what people said; None where there is no survey."""
    said = found.human
    if said is None:
        return None
    studies = _studies(found, said)
    automatic = {study.corpus: _automatic(found, study) for study in studies}
    rows = [
        Line(
            name=method,
            style=found.styles[method],
            role="method",
            automatic=[of.get(method, "") for of in automatic.values()],
            ratings=[scale.ratings.get(method) for scale in said.scales],
        )
        for method in found.plan.methods
        if method in said.systems and method != said.reference
    ]
    if said.reference is not None:
        rows.append(
            Line(
                name=said.reference,
                style="paper",
                role="reference",
                automatic=["" for _ in studies],
                ratings=[scale.ratings.get(said.reference) for scale in said.scales],
            )
        )
    names = [s.unit if len(studies) == 1 else f"{s.unit}, {s.corpus}" for s in studies]
    return Table(
        names=[*names, *(scale.name for scale in said.scales)],
        rows=rows,
        legend=_legend(found, said),
        remarks=_remarks(found, said, studies),
    )


def _automatic(found: Evidence, study: Study) -> dict[str, str]:
    """Return the score of every method, with its mark."""
    lines = tables.table(found, study).lines
    return {
        line.method: f"{line.scored} {line.baseline.mark if line.baseline else ''}".rstrip()
        for line in lines
    }


def _studies(found: Evidence, said: Human) -> list[Study]:
    """Return the corpus that the rated texts are from; all of them where that is not known."""
    rated = {*said.sources}
    known = [study for study in found.studies if rated <= {*study.sources}]
    return known if len(known) == 1 else found.studies


def _legend(found: Evidence, said: Human) -> str:
    people = f"{said.annotators} annotator{'s' * (said.annotators != 1)}"
    agreed = "; ".join(f"{scale.name} {scale.agreement}" for scale in said.scales)
    kappas = "; ".join(
        f"{scale.name} {scale.kappa:.2f}" for scale in said.scales if scale.kappa is not None
    )
    parts = [
        f"Mean ratings from 1 to 5 of {len(said.sources):,} items by {people}, who did not know "
        "which system wrote what, with the 95 % interval over items and annotators.",
        f"▲ higher, ▼ lower than {said.baseline}: permutation test over items, corrected by Holm "
        "over systems and scales, p < 0.05.",
        f"Agreement, Krippendorff's ordinal alpha: {agreed}.",
        f"Mean weighted kappa of pairs: {kappas}." if kappas else "",
    ]
    if len(found.plan.seeds) > 1:
        parts.append("People rated one output of each method; metrics are means over all seeds.")
    return " ".join(filter(None, parts))


def _remarks(found: Evidence, said: Human, studies: list[Study]) -> list[str]:
    """Say what was rated and is no method, what was not rated, and what the survey warns of."""
    methods = found.plan.methods
    others = [name for name in said.systems if name not in methods and name != said.reference]
    unrated = [method for method in methods if method not in said.systems]
    remarks = []
    if others:
        remarks.append(f"Rated, but no method of this trial: {answers.joined(others)}.")
    if unrated:
        remarks.append(f"Not rated: {answers.joined(unrated)}.")
    lines = {line for study in studies for line in study.sources}
    strange = sum(source not in lines for source in said.sources)
    if lines and strange:
        remarks.append(
            f"{strange:,} of {len(said.sources):,} items have a source that is not in this "
            "trial's test set: people may have rated other texts than metrics."
        )
    return [*remarks, *said.notes]
