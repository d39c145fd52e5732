"""The tables, as cells for the page and for any other format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from augless import metrics, trials
from augless.reports import answers, charts, evidence
from augless.reports.evidence import Evidence, Row, Study


@dataclass(frozen=True, kw_only=True)
class Delta:
    """A difference, as shown."""

    text: str
    kind: answers.Verdict
    mark: str
    said: tuple[str, ...]

    @property
    def marked(self) -> str:
        """The number with its mark."""
        return f"{self.text} {self.mark}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table, as shown; what is not known is empty."""

    method: str
    style: str
    role: str
    score: str = ""
    spread: str = ""
    baseline: Delta | None = None
    control: Delta | None = None
    detectable: str = ""
    """minimum detectable effect"""
    published: str = ""
    seconds: str = ""
    samples: str = ""
    seeds: str = ""
    whole: bool = True
    """whether every seed is done"""
    failures: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    """combinations that tuning could not try, and why"""

    @property
    def scored(self) -> str:
        """The mean with its deviation."""
        return f"{self.score} ± {self.spread}" if self.spread else self.score


@dataclass(frozen=True, kw_only=True)
class Table:
    """The table of one corpus."""

    corpus: str
    metric: str
    level: float
    seeds: int
    lines: list[Line]
    tuned: dict[str, float]
    """method -> seconds of training what was tried for it"""
    needed: str
    """how many seeds would show something worth it"""
    columns: dict[str, str]
    """name of a column -> its heading, in order; columns that nothing is known of are left out"""

    def cells(self, line: Line) -> list[str]:
        """Return what is in a row, as text."""
        return [_CELLS[column](line) for column in self.columns]


_CELLS: dict[str, Callable[[Line], str]] = {
    "method": lambda line: line.method,
    "score": lambda line: line.scored or ("failed" if line.failures else ""),
    "baseline": lambda line: line.baseline.marked if line.baseline else "",
    "control": lambda line: line.control.marked if line.control else "",
    "detectable": lambda line: line.detectable,
    "published": lambda line: line.published,
    "seconds": lambda line: line.seconds,
    "samples": lambda line: line.samples,
    "seeds": lambda line: line.seeds,
}


def tables(found: Evidence) -> list[Table]:
    """Make a table per corpus."""
    return [table(found, study) for study in found.studies]


def table(found: Evidence, study: Study) -> Table:
    """Make the table of a corpus; rows that only the paper has come last."""
    plan = found.plan
    means = [abs(row.cell.mean) for row in study.rows if row.cell.mean is not None]
    digits = digits_of(max(means, default=1.0))
    named = {row.cell.control_name for row in study.rows if row.control}
    lines = [_line(found, study, row, digits, len(named) > 1) for row in study.rows]
    for method in plan.published_only:
        if shown := published(found, study, method, plan.metric):
            lines.append(Line(method=method, style="paper", role="paper", published=shown))
    headings = {
        "method": "Method",
        "score": study.unit,
        "baseline": f"against {plan.baseline}",
        "control": f"against {named.pop()}" if len(named) == 1 else "against its control",
        "detectable": "minimum detectable effect",
        "published": "in the paper",
        "seconds": "seconds",
        "samples": "samples",
        "seeds": "seeds",
    }
    used = {
        key: heading
        for key, heading in headings.items()
        if key in ("method", "score") or any(_CELLS[key](line) for line in lines)
    }
    return Table(
        corpus=study.corpus,
        metric=study.unit,
        level=study.level,
        seeds=len(plan.seeds),
        lines=lines,
        tuned=tuned(found, study.corpus),
        needed=answers.needed(found, study.corpus),
        columns=used,
    )


def digits_of(score: float) -> int:
    """Return how many digits scores of this size are shown with."""
    return 2 if abs(score) >= 10 else 3


def _line(found: Evidence, study: Study, row: Row, digits: int, several: bool) -> Line:
    """Lay out a method; of several controls each difference says which."""
    cell, metric = row.cell, found.plan.metric
    control = _delta(study, row.control, digits)
    if control and several:
        control = replace(control, said=(f"from {cell.control_name}", *control.said))
    return Line(
        method=row.method,
        style=row.style,
        role=row.role,
        score=number(cell.mean, digits),
        spread=number(cell.deviation, digits),
        baseline=_delta(study, row.baseline, digits),
        control=control,
        detectable=_detectable(row.baseline, digits),
        published=published(found, study, row.method, metric),
        seconds="" if cell.seconds is None else f"{cell.seconds:,.0f}",
        samples="" if cell.samples is None else f"{cell.samples:,.0f}",
        seeds=f"{len(cell.values)} of {len(found.plan.seeds)}",
        whole=len(cell.values) == len(found.plan.seeds),
        failures=tuple(row.failures),
        untried=tuple(found.trial.tuning_failures(row.method, study.corpus)),
    )


def _detectable(contrast: trials.Contrast | None, digits: int) -> str:
    if contrast is None or contrast.alike or not contrast.of_methods:
        return ""
    return number(contrast.test.minimum_detectable_effect, digits)


def tuned(found: Evidence, corpus: str) -> dict[str, float]:
    """Return the seconds of training what was tried for methods, where they are known."""
    chosen = found.trial.chosen.items()
    seconds = {method: of[corpus].seconds for method, of in chosen if corpus in of}
    return {method: spent for method, spent in seconds.items() if spent}


def _delta(study: Study, contrast: trials.Contrast | None, digits: int) -> Delta | None:
    if contrast is None:
        return None
    kind, mark = answers.verdict(study, contrast), answers.mark(study, contrast)
    said = [span(contrast.test, digits), answers.probability(contrast.corrected_p)]
    said += ["degenerate outputs"] if contrast.fault else []
    text = charts.signed(charts.fixed(contrast.difference, digits))
    return Delta(text=text, kind=kind, mark=mark, said=tuple(said))


def span(test: metrics.Difference, digits: int) -> str:
    """Write an interval."""
    low, high = (charts.signed(charts.fixed(end, digits)) for end in (test.low, test.high))
    return f"{low} to {high}"


def number(value: float | None, digits: int) -> str:
    """Write a score; nothing where there is none."""
    return "" if value is None else charts.fixed(value, digits)


def published(found: Evidence, study: Study, method: str, metric: str) -> str:
    """Write the paper's number, if it has one, with as many digits as it prints of a metric."""
    shown = 3 if "distinct" in metric else 2
    return number(found.plan.published(method, study.corpus, metric), shown)


def legend(table: Table) -> str:
    """Say how to read the table of a corpus."""
    said = f"{table.metric} on the test set, {_over(table.seeds)}. "
    said += _marks(table.seeds, table.level)
    said += f" {table.needed}" if table.needed else ""
    if "seconds" in table.columns:
        said += (
            " Seconds are of training alone, without tuning, and of runs side by side: "
            "a rough figure."
        )
        spent = [f"{seconds:,.0f} seconds for {method}" for method, seconds in table.tuned.items()]
        said += f" Tuning took another {answers.joined(spent)}." if spent else ""
    return said


def _over(seeds: int) -> str:
    return "mean ± standard deviation over seeds" if seeds > 1 else "of one seed"


def _marks(seeds: int, level: float) -> str:
    """Say what the marks of tables mean."""
    if seeds == 1:
        return "One seed says nothing about a method: intervals are over sentences alone."
    return (
        f"▲ better, ▼ worse: p < {level:g}, corrected by Holm but for the primary contrast. "
        "Intervals are of 95 %."
    )


@dataclass(frozen=True)
class OverviewCell:
    """A method on one corpus, in brief."""

    score: str
    kind: answers.Verdict
    mark: str
    published: str
    seeds: str
    """how many are done, if not all"""

    @property
    def text(self) -> str:
        """All of it on a line."""
        paper = f"({self.published})" if self.published else ""
        seeds = f"[{self.seeds}]" if self.seeds else ""
        return " ".join(filter(None, (self.score, self.mark, seeds, paper)))


@dataclass(frozen=True)
class OverviewRow:
    """A method on all corpora."""

    method: str
    style: str
    cells: list[OverviewCell]
    overall: Delta | None


@dataclass(frozen=True)
class Overview:
    """Methods by corpora, as the paper's Table 1 has them."""

    corpora: list[str]
    rows: list[OverviewRow]
    legend: str


def overview(found: Evidence) -> Overview | None:
    """Make a table of all corpora, if there are several."""
    if len(found.studies) < 2:
        return None
    by_corpus = tables(found)
    methods = list(dict.fromkeys(line.method for one in by_corpus for line in one.lines))
    rows = []
    for method in methods:
        cells, style = [], ""
        for one in by_corpus:
            line = next((line for line in one.lines if line.method == method), None)
            delta = line.baseline if line else None
            kind: answers.Verdict = delta.kind if delta else "open"
            score = _CELLS["score"](line).split(" ± ")[0] if line else ""
            mark, paper = delta.mark if delta else "", line.published if line else ""
            partial = f"{line.seeds} seeds" if line and line.score and not line.whole else ""
            cells.append(OverviewCell(score, kind, mark, paper, partial))
            style = line.style if line else style
        rows.append(OverviewRow(method, style, cells, _overall(found, method)))
    said = f"{by_corpus[0].metric} on the test sets, mean over seeds, against {found.plan.baseline}"
    printed = any(cell.published for row in rows for cell in row.cells)
    said += "; in brackets what the paper has. " if printed else ". "
    said += "Mean: the difference over all corpora. "
    said += _marks(len(found.plan.seeds), found.table.level)
    return Overview([one.corpus for one in by_corpus], rows, said)


def _overall(found: Evidence, method: str) -> Delta | None:
    """Lay out a difference over all corpora."""
    row = found.overall.get(method)
    contrast = row.baseline if row else None
    if contrast is None or contrast.corpora < 2:
        return None
    kind, mark = answers.overall(found, contrast), answers.overall_mark(found, contrast)
    text = charts.signed(charts.fixed(contrast.difference, 2))
    said = (span(contrast.test, 2), answers.probability(contrast.corrected_p))
    return Delta(text=text, kind=kind, mark=mark, said=said)


@dataclass(frozen=True)
class Number:
    """A mean and its deviation, and what the paper has, as shown."""

    mean: str
    spread: str
    published: str

    @property
    def text(self) -> str:
        """All of it on a line."""
        spread = f"± {self.spread}" if self.spread else ""
        paper = f"({self.published})" if self.published else ""
        return " ".join(filter(None, (self.mean, spread, paper)))


@dataclass(frozen=True)
class ScoreRow:
    """All scores of a method, or of a row that only the paper has."""

    method: str
    style: str
    cells: list[Number]


@dataclass(frozen=True)
class Scores:
    """All scores of all methods on a corpus."""

    names: list[str]
    rows: list[ScoreRow]
    legend: str


def scores(found: Evidence, study: Study) -> Scores | None:
    """Make a table of all metrics, if there are several."""
    plan = found.plan
    names = [name for name in plan.metrics if any(name in r.cell.scores for r in study.rows)]
    if len(names) < 2:
        return None
    rows = []
    for row in study.rows:
        cells = []
        for name in names:
            mean, deviation = row.cell.scores.get(name, (None, None))
            digits = 2 if mean is None else digits_of(mean)
            paper = published(found, study, row.method, name)
            cells.append(Number(number(mean, digits), number(deviation, digits), paper))
        rows.append(ScoreRow(row.method, row.style, cells))
    for method in plan.published_only:
        cells = [Number("", "", published(found, study, method, name)) for name in names]
        if any(cell.published for cell in cells):
            rows.append(ScoreRow(method, "paper", cells))
    said = f"All scores on the test set, {_over(len(plan.seeds))}"
    if any(cell.published for row in rows for cell in row.cells):
        said += "; in brackets what the paper has"
    lower = [evidence.metric_name(n) for n in names if not metrics.METRICS[n].higher_is_better]
    said += f". Lower is better for {answers.joined(lower)}." if lower else "."
    return Scores([evidence.metric_name(name) for name in names], rows, said)


@dataclass(frozen=True)
class TreatmentRow:
    """How strong a method's treatment was, beside its effect."""

    method: str
    style: str
    cells: list[str]


@dataclass(frozen=True)
class Treatments:
    """All treatments on a corpus."""

    names: list[str]
    rows: list[TreatmentRow]
    legend: str


def treatments(study: Study) -> Treatments | None:
    """Make a table of how strong each treatment was, if anything was logged of it."""
    rows = []
    for row in study.rows:
        one = row.treatment
        if not one.known:
            continue
        effect = _delta(study, row.baseline, 2)
        shares = " + ".join(_share(share) for share in one.shares) if len(one.shares) > 1 else ""
        numbers = [_share(one.spread), _share(one.effective), _share(one.within)]
        cells = [f"{effect.marked} ({effect.said[0]})" if effect else ""]
        rows.append(
            TreatmentRow(row.method, row.style, [*cells, *numbers, shares, _share(one.clipped)])
        )
    if not rows:
        return None
    names = ["effect", "spread of weights", "effective sample size", "spread within batches"]
    names += ["share of the gradient", "clipped steps"]
    used = [k for k in range(len(names)) if any(row.cells[k] for row in rows)]
    rows = [replace(row, cells=[row.cells[k] for k in used]) for row in rows]
    said = (
        "How strong each treatment was, the mean over epochs and seeds. Spread of weights: their "
        "standard deviation over their mean; within batches: the share of their variance that is "
        "not between batches. Share of the gradient: that of each term in its norm. Where steps "
        "are clipped, what the weights of a batch have in common is undone."
    )
    return Treatments([names[k] for k in used], rows, said)


def _share(value: float | None) -> str:
    """Write a share in percent, small ones too."""
    if value is None:
        return ""
    digits = 1 if abs(value) >= 0.01 or value == 0 else 2
    return f"{100 * value:.{digits}f} %"
