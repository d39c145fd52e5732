"""The table, as cells for the page and as Markdown, LaTeX, CSV and text."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable, Sequence
from csv import writer
from dataclasses import dataclass

from augless.reports import answers, charts
from augless.reports.evidence import Contrast, Evidence, Row, Study

MARKS = {"better": "▲", "worse": "▼", "open": ""}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    charts.MINUS: "$-$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    **{c: f"\\{c}" for c in "&%$#_"},
}


@dataclass(frozen=True, kw_only=True)
class Delta:
    """A difference, as shown."""

    text: str
    kind: answers.Verdict
    said: tuple[str, ...]

    @property
    def marked(self) -> str:
        """The number with its mark."""
        return f"{self.text} {MARKS[self.kind]}".rstrip()


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
    smallest: str = ""
    published: str = ""
    seconds: str = ""
    samples: str = ""
    seeds: str = ""
    failures: tuple[str, ...] = ()

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
    lines: list[Line]
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
    "smallest": lambda line: line.smallest,
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
    plan, digits = found.plan, digits_of(study)
    lines = [_line(study, row, digits, len(plan.seeds)) for row in study.rows]
    for method in plan.published_only:
        number = plan.published(method, study.corpus)
        if number is not None:
            line = Line(method=method, style="paper", role="paper", published=f"{number:g}")
            lines.append(line)
    headings = {
        "method": "Method",
        "score": study.unit,
        "baseline": f"against {plan.baseline}",
        "control": "against its control",
        "smallest": "could have seen",
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
        corpus=study.corpus, metric=study.unit, level=study.level, lines=lines, columns=used
    )


def digits_of(study: Study) -> int:
    """Return how many digits scores of this size are shown with."""
    means = [abs(row.cell.mean) for row in study.rows if row.cell.mean is not None]
    return 2 if max(means, default=1.0) >= 10 else 3


def _line(study: Study, row: Row, digits: int, seeds: int) -> Line:
    cell = row.cell
    return Line(
        method=row.method,
        style=row.style,
        role=row.role,
        score=number(cell.mean, digits),
        spread=number(cell.deviation, digits),
        baseline=_delta(study, row.baseline, digits),
        control=_delta(study, row.control, digits),
        smallest=number(row.baseline.smallest if row.baseline else None, digits),
        published="" if cell.published is None else f"{cell.published:g}",
        seconds="" if cell.seconds is None else f"{cell.seconds:,.0f}",
        samples="" if cell.samples is None else f"{cell.samples:,.0f}",
        seeds=f"{len(cell.values)} of {seeds}",
        failures=tuple(row.failures),
    )


def _delta(study: Study, contrast: Contrast | None, digits: int) -> Delta | None:
    if contrast is None:
        return None
    disagree = len(contrast.seeds) > 1 and not contrast.agree
    said = (answers.probability(contrast.p), *(["seeds disagree"] if disagree else []))
    text = f"{contrast.difference:+.{digits}f}".replace("-", charts.MINUS)
    return Delta(text=text, kind=answers.verdict(study, contrast), said=said)


def number(value: float | None, digits: int) -> str:
    """Write a score; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}".replace("-", charts.MINUS)


def legend(table: Table) -> str:
    """Say how to read the table of a corpus."""
    return f"{table.metric} on the test set, mean ± standard deviation over seeds. {_marks(table)}"


def _marks(table: Table) -> str:
    return f"▲ better, ▼ worse: p < {table.level:g} after Holm's correction, every seed agrees."


@dataclass(frozen=True)
class OverviewCell:
    """A method on one corpus, in brief."""

    score: str
    kind: answers.Verdict
    published: str

    @property
    def text(self) -> str:
        """All of it on a line."""
        paper = f"({self.published})" if self.published else ""
        return " ".join(filter(None, (self.score, MARKS[self.kind], paper)))


@dataclass(frozen=True)
class OverviewRow:
    """A method on all corpora."""

    method: str
    style: str
    cells: list[OverviewCell]


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
            kind: answers.Verdict = line.baseline.kind if line and line.baseline else "open"
            score = _CELLS["score"](line).split(" ± ")[0] if line else ""
            cells.append(OverviewCell(score, kind, line.published if line else ""))
            style = line.style if line else style
        rows.append(OverviewRow(method, style, cells))
    said = f"{by_corpus[0].metric} on the test sets, mean over seeds, against {found.plan.baseline}"
    paper = any(cell.published for row in rows for cell in row.cells)
    said += "; in brackets what the paper has. " if paper else ". "
    return Overview([one.corpus for one in by_corpus], rows, said + _marks(by_corpus[0]))


@dataclass(frozen=True)
class _Grid:
    """A table as plain text, for any format."""

    title: str
    head: list[str]
    rows: list[list[str]]
    legend: str
    remarks: list[str]


def _grids(found: Evidence) -> list[_Grid]:
    grids = []
    if (whole := overview(found)) is not None:
        rows = [[row.method, *(cell.text for cell in row.cells)] for row in whole.rows]
        grids.append(_Grid("All corpora", ["Method", *whole.corpora], rows, whole.legend, []))
    for one in tables(found):
        remarks = [f"{line.method}, {failure}" for line in one.lines for failure in line.failures]
        rows = [one.cells(line) for line in one.lines]
        grids.append(_Grid(one.corpus, [*one.columns.values()], rows, legend(one), remarks))
    return grids


def markdown(found: Evidence) -> str:
    """Write the tables in Markdown, a heading each."""
    parts = []
    for grid in _grids(found):
        rows = [[_markdown(cell) for cell in row] for row in (grid.head, *grid.rows)]
        rows.insert(1, ["---"] + ["---:"] * (len(grid.head) - 1))
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        remarks = "".join(f"\n- {_markdown(remark)}" for remark in grid.remarks)
        said = _markdown(grid.legend) + (f"\n{remarks}" if remarks else "")
        parts.append(f"### {_markdown(grid.title)}\n\n{body}\n\n{said}\n")
    return "\n".join(parts)


def latex(found: Evidence) -> str:
    """Write the tables in LaTeX, for booktabs and amssymb."""
    parts = ["% \\usepackage{booktabs,amssymb}\n"]
    for grid in _grids(found):
        rows = (grid.head, *grid.rows)
        head, *body = (" & ".join(_latex(cell) for cell in row) + r" \\" for row in rows)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(grid.title)}: {_latex(grid.legend)}}}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def csv(found: Evidence) -> str:
    """Write all numbers, unrounded, a row per corpus and method."""
    out = io.StringIO()
    table = writer(out, lineterminator="\n")
    contrast = ("difference", "p", "seeds_agree", "claimed", "smallest_detectable")
    table.writerow(
        ["corpus", "method", "metric", "seeds", "mean", "sd"]
        + [f"{name}_{side}" for side in ("baseline", "control") for name in contrast]
        + ["published", "seconds", "samples", "failures"]
    )
    for study in found.studies:
        for row in study.rows:
            cell = row.cell
            table.writerow(
                [
                    _literal(study.corpus),
                    _literal(row.method),
                    found.plan.metric,
                    *(len(cell.values), cell.mean, cell.deviation),
                    *_numbers(row.baseline),
                    *_numbers(row.control),
                    *(cell.published, cell.seconds, cell.samples),
                    _literal("; ".join(row.failures)),
                ]
            )
    return out.getvalue()


def _numbers(contrast: Contrast | None) -> list[float | bool | None]:
    if contrast is None:
        return [None] * 5
    return [
        contrast.difference,
        contrast.p,
        contrast.agree,
        contrast.claimed,
        contrast.smallest,
    ]


def text(found: Evidence) -> str:
    """Write the answer and the tables for a terminal."""
    from rich import cells  # late: help must be fast

    parts = [visible(answers.answer(found.studies).sentence) + "\n"]
    for grid in _grids(found):
        rows = [[visible(cell) for cell in row] for row in (grid.head, *grid.rows)]
        widths = [max(map(cells.cell_len, column)) for column in zip(*rows, strict=True)]
        lines = [_aligned(row, widths, cells.cell_len) for row in rows]
        lines.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
        said = [grid.legend, *map(visible, grid.remarks)]
        parts.append("\n".join([visible(grid.title), *lines, *said]) + "\n")
    return "\n".join(parts)


def _aligned(row: Sequence[str], widths: Sequence[int], length: Callable[[str], int]) -> str:
    first, *rest = (" " * (width - length(cell)) for cell, width in zip(row, widths, strict=True))
    cells = [row[0] + first, *(gap + cell for gap, cell in zip(rest, row[1:], strict=True))]
    return "  ".join(cells).rstrip()


def visible(text: str) -> str:
    """Return text on one line, without characters that would command a terminal."""
    return "".join(c if unicodedata.category(c)[0] != "C" else " " for c in " ".join(text.split()))


def _literal(text: str) -> str:
    """Keep a spreadsheet from taking a name for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _markdown(text: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", r"\\\1", visible(text))
    return re.sub(r"\\([+()])", r"\1", escaped)  # these are harmless inside a line


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in visible(text))
