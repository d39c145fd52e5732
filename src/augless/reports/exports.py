"""The tables as Markdown, LaTeX, CSV, text for a terminal, and values for JSON."""

from __future__ import annotations

import dataclasses
import io
import re
import unicodedata
from collections.abc import Callable, Sequence
from csv import writer
from dataclasses import dataclass
from typing import Any

from augless import runs, trials
from augless.reports import advice, answers, charts, costs, human, naming, tables
from augless.reports.evidence import Evidence, Row, Study
from augless.trials import summary as trials_summary

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    charts.MINUS: "$-$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    # In the default fonts of LaTeX these three are other characters.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{c: f"\\{c}" for c in "&%$#_"},
}


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
    if (whole := tables.overview(found)) is not None:
        rows = [
            [row.method, *(cell.text for cell in row.cells), _mean(row.overall)]
            for row in whole.rows
        ]
        head = ["Method", *whole.corpora, "mean"]
        grids.append(_Grid("All corpora", head, rows, whole.legend, []))
    for one in tables.tables(found):
        remarks = [
            f"{line.method}, {failure}"
            for line in one.lines
            for failure in (*line.failures, *line.untried)
        ]
        rows = [one.cells(line) for line in one.lines]
        said = " ".join([tables.legend(one) + _chances(one), *found.trial.selection])
        grids.append(_Grid(one.corpus, [*one.columns.values()], rows, said, remarks))
    if (people := human.table(found)) is not None:
        rows = [[row.name, *row.cells] for row in people.rows]
        head = ["Method", *people.names]
        grids.append(_Grid("Human ratings", head, rows, people.legend, people.remarks))
    return grids


def _mean(delta: tables.Delta | None) -> str:
    return f"{delta.marked} ({', '.join(delta.said)})" if delta else ""


def _chances(table: tables.Table) -> str:
    """List the intervals and p-values of a table, which has only marks."""
    sides = {
        table.columns.get("baseline", ""): {line.method: line.baseline for line in table.lines},
        table.columns.get("control", ""): {line.method: line.control for line in table.lines},
    }
    said = ""
    for heading, deltas in sides.items():
        known = [f"{method} ({', '.join(d.said)})" for method, d in deltas.items() if d]
        said += f" {heading.capitalize()}: {', '.join(known)}." if known else ""
    return said


def _all_grids(found: Evidence) -> list[_Grid]:
    """Return all tables, those of costs, of treatments and of other metrics last."""
    grids = _grids(found)
    for study in found.studies:
        if (spent := costs.table(found, study)) is not None:
            rows = [[f"{row.method} {_partial(row)}".rstrip(), *row.cells] for row in spent.rows]
            title, head = f"{study.corpus}, cost", ["Method", *spent.names]
            grids.append(_Grid(title, head, rows, spent.legend, []))
    for study in found.studies:
        if (strong := tables.treatments(study)) is not None:
            rows = [[row.method, *row.cells] for row in strong.rows]
            title, head = f"{study.corpus}, treatments", ["Method", *strong.names]
            grids.append(_Grid(title, head, rows, strong.legend, []))
    for study in found.studies:
        if (scores := tables.scores(found, study)) is not None:
            rows = [[row.method, *(cell.text for cell in row.cells)] for row in scores.rows]
            title, head = f"{study.corpus}, all metrics", ["Method", *scores.names]
            grids.append(_Grid(title, head, rows, scores.legend, []))
    return grids


def _partial(row: costs.Line) -> str:
    return f"[{row.seeds}]" if row.seeds else ""


def markdown(found: Evidence) -> str:
    """Write the tables in Markdown, a heading each."""
    parts = []
    for grid in _all_grids(found):
        rows = [[in_markdown(cell) for cell in row] for row in (grid.head, *grid.rows)]
        rows.insert(1, ["---"] + ["---:"] * (len(grid.head) - 1))
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        remarks = "".join(f"\n- {in_markdown(remark)}" for remark in grid.remarks)
        said = in_markdown(grid.legend) + (f"\n{remarks}" if remarks else "")
        parts.append(f"### {in_markdown(grid.title)}\n\n{body}\n\n{said}\n")
    return "\n".join(parts)


def latex(found: Evidence) -> str:
    """Write the tables in LaTeX, for booktabs and amssymb."""
    parts = ["% \\usepackage{booktabs,amssymb}\n"]
    for grid in _all_grids(found):
        rows = (grid.head, *grid.rows)
        said = " ".join([grid.legend, *(f"{remark}." for remark in grid.remarks)])
        head, *body = (" & ".join(in_latex(cell) for cell in row) + r" \\" for row in rows)
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
            rf"\caption{{{in_latex(grid.title)}: {in_latex(said)}}}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def summary(found: Evidence) -> dict[str, Any]:
    """Return the answer and all numbers, unrounded, as values that JSON can say."""
    said, plan = answers.of(found), found.plan
    corpora: dict[str, dict[str, Any]] = {}
    for study in found.studies:
        spent = {one.row.method: one for one in costs.known(found, study)}
        rows = {
            row.method: _values(found, study, row) | {"cost": _cost(spent.get(row.method))}
            for row in study.rows
        }
        rows |= {
            method: {"scores": _scores(found, study, method)} for method in plan.published_only
        }
        corpora[study.corpus] = rows
    overall = {
        method: {side: _overall(found, getattr(row, side)) for side in trials_summary.SIDES}
        for method, row in found.overall.items()
    }
    needed = {corpus: dataclasses.asdict(one) for corpus, one in found.table.needed.items()}
    return {
        "title": plan.title,
        "sentence": said.sentence,
        "numbers": list(said.numbers),
        "notes": list(said.notes),
        "advice": _advised(advice.of(found)),
        "selection": list(found.trial.selection),
        "commands": [one.line for one in said.commands],
        "metric": plan.metric,
        "baseline": plan.baseline,
        "primary": plan.primary,
        "overall": runs.finite(overall),
        "seeds_needed": runs.finite(needed),
        "corpora": runs.finite(corpora),
        "human": runs.finite(dataclasses.asdict(found.human)) if found.human else None,
    }


def _advised(found: advice.Advice | None) -> dict[str, Any] | None:
    return dataclasses.asdict(found) | {"left_out": list(found.left_out)} if found else None


def _values(found: Evidence, study: Study, row: Row) -> dict[str, Any]:
    cell, control = row.cell, {"name": row.cell.control_name, "matches": row.matched}
    return {
        "mean": cell.mean,
        "deviation": cell.deviation,
        "seeds": {str(seed): value for seed, value in cell.values.items()},
        "scores": _scores(found, study, row.method),
        "baseline": _compared(study, row.baseline),
        "control": control | (_compared(study, row.control) or {}) if cell.control_name else None,
        "published": cell.published,
        "seconds": cell.seconds,
        "tuning_seconds": tables.tuned(found, study.corpus).get(row.method),
        "samples": cell.samples,
        "treatment": dataclasses.asdict(row.treatment) if row.treatment.known else None,
        "faults": {str(seed): fault for seed, fault in cell.faults.items()},
        "failures": {str(seed): str(why) for seed, why in cell.failures.items()},
        "tuning_failures": found.trial.tuning_failures(row.method, study.corpus),
    }


_PARTS = ("own", "prepare", "augment", "train", "tune", "total")


def _cost(spent: costs.Known | None) -> dict[str, Any] | None:
    if spent is None:
        return None
    parts = {name: dataclasses.asdict(getattr(spent.cost, name)) for name in _PARTS}
    ratios = {"time_ratio": spent.times, "sample_ratio": spent.samples}
    return {**parts, **ratios, "complete": spent.whole}


def _scores(found: Evidence, study: Study, method: str) -> dict[str, Any]:
    row, known = study.row(method), {}
    for metric in found.plan.metrics:
        mean, deviation = row.cell.scores.get(metric, (None, None)) if row else (None, None)
        printed = found.plan.published(method, study.corpus, metric)
        records = study.records.get(method, {})
        seeds = {str(s): r.value("test", metric) for s, r in records.items()}
        known[metric] = {"mean": mean, "deviation": deviation, "published": printed, "seeds": seeds}
    return known


_COMPARED = (
    "difference",
    "low",
    "high",
    "p",
    "corrected_p",
    "claimed",
    "minimum_detectable_effect",
    "test",
)


def _compared(study: Study, contrast: trials.Contrast | None) -> dict[str, Any] | None:
    if contrast is None:
        return None
    claimed = answers.verdict(study, contrast) != "open"
    values = dataclasses.asdict(contrast.test) | {"claimed": claimed}
    return {name: values.get(name, contrast.difference) for name in _COMPARED}


def _overall(found: Evidence, contrast: trials.Contrast | None) -> dict[str, Any] | None:
    if contrast is None:
        return None
    values = _compared(found.studies[0], contrast) or {}
    values["claimed"] = answers.overall(found, contrast) != "open"
    like = contrast.likely
    return values | {
        "corpora": contrast.corpora,
        "primary": contrast.primary,
        "random_effects": like and dataclasses.asdict(like.mean) | {"between": like.between},
    }


def csv(found: Evidence) -> str:
    """Write all numbers, unrounded, a row per corpus, method and metric."""
    out = io.StringIO()
    table = writer(out, lineterminator="\n")
    sides = [("baseline", name) for name in _COMPARED]
    sides += [("control", name) for name in ("name", *_COMPARED)]
    table.writerow(
        ["corpus", "method", "metric", "mean", "sd", "published", "seeds"]
        + [f"seed_{seed}" for seed in found.plan.seeds]
        + [f"{name}_{side}" for side, name in sides]
        + ["seconds", "tuning_seconds", "samples", *_SPENT, *_TREATMENT, "failures"]
    )
    whole = summary(found)
    for corpus, rows in whole["corpora"].items():
        for method, row in rows.items():
            for metric, score in row["scores"].items():
                # Only the plan's metric is tested.
                tested = row if metric == whole["metric"] else {}
                compared = [(tested.get(side) or {}).get(name) for side, name in sides]
                last = [row.get(key) for key in ("seconds", "tuning_seconds", "samples")]
                last += _spent(row.get("cost"))
                treatment = row.get("treatment") or {}
                last += [treatment.get(key) for key in _TREATMENT]
                line = [corpus, method, metric, score["mean"], score["deviation"]]
                line += [score["published"], len(row.get("seeds", ()))]
                line += [score["seeds"].get(str(seed)) for seed in found.plan.seeds]
                table.writerow(map(_literal, [*line, *compared, *last, _reasons(row)]))
    return out.getvalue()


_RATIOS, _UNITS = ("time_ratio", "sample_ratio"), ("seconds", "samples")
_SPENT = tuple(
    f"cost_{name}" for name in (*(f"{part}_{unit}" for part in _PARTS for unit in _UNITS), *_RATIOS)
)


def _spent(cost: dict[str, Any] | None) -> list[Any]:
    if cost is None:
        return [None] * len(_SPENT)
    parts = [cost[part][unit] for part in _PARTS for unit in _UNITS]
    return [*parts, *(cost[name] for name in _RATIOS)]


_TREATMENT = ("spread", "effective", "within", "clipped")


def _reasons(row: dict[str, Any]) -> str:
    said = [f"seed {seed}: {why}" for seed, why in row.get("failures", {}).items()]
    return "; ".join([*said, *row.get("tuning_failures", [])])


def text(found: Evidence) -> str:
    """Write the answer and the tables for a terminal."""
    from rich import cells  # late: help must be fast

    answer, advised = answers.of(found), advice.of(found)
    said = [visible(answer.sentence), *map(visible, answer.numbers)]
    said += [visible(advised.sentence)] if advised else []
    said += [visible(cost)] if (cost := costs.line(found)) else []
    said += [f"- {visible(note)}" for note in answer.notes]
    named = {visible(method): visible(is_) for method, is_ in naming.described(found).items()}
    said += ["", *(f"{method}: {is_}" for method, is_ in named.items())]
    said += [f"\n{visible(one.why)}:\n  {visible(one.line)}" for one in answer.commands]
    parts = ["\n".join(said) + "\n"]
    for grid in _grids(found):
        rows = [[visible(cell) for cell in row] for row in (grid.head, *grid.rows)]
        widths = [max(map(cells.cell_len, column)) for column in zip(*rows, strict=True)]
        lines = [_aligned(row, widths, cells.cell_len) for row in rows]
        lines.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
        said = [visible(grid.legend), *map(visible, grid.remarks)]
        parts.append("\n".join([visible(grid.title), *lines, *said]) + "\n")
    return "\n".join(parts)


def _aligned(row: Sequence[str], widths: Sequence[int], length: Callable[[str], int]) -> str:
    first, *rest = (" " * (width - length(cell)) for cell, width in zip(row, widths, strict=True))
    cells = [row[0] + first, *(gap + cell for gap, cell in zip(rest, row[1:], strict=True))]
    return "  ".join(cells).rstrip()


def visible(text: str) -> str:
    """Return text on one line, without characters that would command a terminal."""
    return "".join(c if unicodedata.category(c)[0] != "C" else " " for c in " ".join(text.split()))


def _literal(value: Any) -> Any:
    """Keep a spreadsheet from taking a name for a formula."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula else value


def in_markdown(text: str) -> str:
    """Return text that Markdown shows as it is."""
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", r"\\\1", visible(text))
    return re.sub(r"\\([+()])", r"\1", escaped)  # these are harmless inside a line


def in_latex(text: str) -> str:
    """Return text that LaTeX shows as it is."""
    return "".join(_LATEX.get(c, c) for c in visible(text))
