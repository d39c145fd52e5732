"""The tables as Markdown, LaTeX, CSV, text for a terminal, and values for JSON."""

from __future__ import annotations

import dataclasses
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from csv import DictWriter
from dataclasses import replace
from typing import Any

from augless import schemas, trials
from augless.reports import advice, answers, costs, naming, pages, tables
from augless.reports.cells import Table
from augless.reports.evidence import Evidence, MethodResult, Study
from augless.reports.words import MINUS
from augless.trials.summary import AGAINST

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    MINUS: "$-$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    # In the default fonts of LaTeX these three are other characters.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{c: f"\\{c}" for c in "&%$#_"},
}


_COMPARED = ["difference", "low", "high", "p", "corrected_p", "claimed"]
_COMPARED += ["minimum_detectable_effect", "test"]
_PARTS = (*costs.PARTS, "total")
_TREATMENT = ("spread", "effective", "within", "clipped")


def _main(evidence: Evidence) -> list[Table]:
    """Return the tables that an answer rests on."""
    listed = [tables.overview(evidence)]
    for study in evidence.studies:
        table = tables.results(evidence, study)
        said = [table.legend, *_below(table), *evidence.trial.selection]
        listed.append(replace(table, legend=" ".join(said)))
    listed += [evidence.human.table] if evidence.human else []
    return [table for table in listed if table is not None]


def _below(table: Table) -> Iterator[str]:
    """Yield what is small in a table, column by column: its intervals and p-values."""
    for k, heading in enumerate(table.head[1:]):
        small = {line.name: line.cells[k].small for line in table.lines}
        if listed := [f"{name} ({', '.join(parts)})" for name, parts in small.items() if parts]:
            yield f"{heading[:1].upper()}{heading[1:]}: {', '.join(listed)}."


def _all(evidence: Evidence) -> list[Table]:
    """Return all tables, those of costs, of treatments and of other metrics last."""
    further = [costs.table(evidence, study) for study in evidence.studies]
    further += [tables.treatments(study) for study in evidence.studies]
    further += [tables.scores(evidence, study) for study in evidence.studies]
    return [*_main(evidence), *(table for table in further if table is not None)]


def markdown(evidence: Evidence, further: bool = True) -> str:
    """Write the tables in Markdown, a heading each; those that an answer rests on, or all."""
    return _written("tables.md", _all(evidence) if further else _main(evidence))


def latex(evidence: Evidence) -> str:
    """Write the tables in LaTeX, for the packages booktabs and amssymb."""
    return _written("tables.tex", _all(evidence))


def _written(template: str, listed: Sequence[Table]) -> str:
    environment = pages.environment("reports", autoescape=False)
    environment.filters |= {"markdown": in_markdown, "latex": in_latex}
    return environment.get_template(template).render(tables=listed)


def text(evidence: Evidence) -> str:
    """Write the title, the answer, its notes and the main tables for a terminal."""
    from rich.cells import cell_len  # late: help must be fast

    answer, advised = answers.of(evidence), advice.of(evidence)
    said = [evidence.plan.title, answer.sentence, *answer.numbers]
    said += [one for one in (advised.sentence if advised else "", costs.line(evidence)) if one]
    said += [f"- {note}" for note in answer.notes]
    methods = [f"{method}: {what}" for method, what in naming.described(evidence).items()]
    lines = [*map(visible, said), "", *map(visible, methods)]
    lines += [f"\n{visible(one.why)}:\n  {visible(one.line)}" for one in answer.commands]
    parts = ["\n".join(lines) + "\n"]
    for table in _main(evidence):
        head, *rows = aligned([list(map(visible, row)) for row in table.rows])
        rule = "─" * max(map(cell_len, (head, *rows)))
        lines = [visible(table.title), head, rule, *rows]
        parts.append("\n".join([*lines, *map(visible, (table.legend, *table.notes))]) + "\n")
    return "\n".join(parts)


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Align rows in columns, the first ones to the left and the others to the right."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [c + gaps[k] if k < left else gaps[k] + c for k, c in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines


def summary(evidence: Evidence) -> dict[str, Any]:
    """Return the answer and all numbers, unrounded, as values that JSON can say.

    "sentence", "numbers", "advice", "notes", "commands", "metric", "baseline", "primary",
    "overall": method -> its differences over all corpora, "seeds_needed": corpus -> how many would
    show something worth it, "corpora": corpus -> method -> its numbers, what it cost among them,
    and "human": what people said, if there is a survey.
    """
    said, advised, plan = answers.of(evidence), advice.of(evidence), evidence.plan
    corpora: dict[str, dict[str, Any]] = {}
    for study in evidence.studies:
        spent = {one.row.method: one for one in costs.known(evidence, study)}
        corpora[study.corpus] = {
            row.method: _values(evidence, study, row) | {"cost": _cost(spent.get(row.method))}
            for row in study.rows
        } | {method: {"scores": _scores(evidence, study, method)} for method in plan.published_only}
    overall = {
        method: {side: _overall(evidence, getattr(row, side)) for side in AGAINST}
        for method, row in evidence.summary.rows.items()
    }
    seeds = evidence.summary.seeds_needed
    whole = {
        "title": plan.title,
        "sentence": said.sentence,
        "numbers": said.numbers,
        "notes": said.notes,
        "advice": dataclasses.asdict(advised) if advised else None,
        "selection": evidence.trial.selection,
        "commands": [one.line for one in said.commands],
        "metric": plan.metric,
        "baseline": plan.baseline,
        "primary": plan.primary,
        "overall": overall,
        "seeds_needed": {corpus: dataclasses.asdict(one) for corpus, one in seeds.items()},
        "corpora": corpora,
        "human": evidence.human.values if evidence.human else None,
    }
    return {key: schemas.finite(value) for key, value in whole.items()}


def _values(evidence: Evidence, study: Study, row: MethodResult) -> dict[str, Any]:
    control = {"name": row.control_name, "matches": row.matched}
    return {
        "mean": row.mean,
        "deviation": row.deviation,
        "seeds": {str(seed): value for seed, value in row.values.items()},
        "scores": _scores(evidence, study, row.method),
        "baseline": _compared(study, row.baseline),
        "control": control | (_compared(study, row.control) or {}) if row.control_name else None,
        "published": evidence.plan.published(row.method, study.corpus),
        "seconds": row.seconds,
        "tuning_seconds": tables.tuned(evidence, study.corpus).get(row.method),
        "samples": row.samples,
        "treatment": dataclasses.asdict(row.treatment) if row.treatment.known else None,
        "faults": {str(seed): fault for seed, fault in row.faults.items()},
        "failures": {str(seed): str(why) for seed, why in row.failures.items()},
        "tuning_failures": evidence.trial.tuning_failures(row.method, study.corpus),
    }


def _cost(spent: costs.MethodCost | None) -> dict[str, Any] | None:
    if spent is None:
        return None
    parts = {part: spent.cost[part] for part in costs.PARTS} | {"total": spent.cost.total}
    said = {part: dataclasses.asdict(one) for part, one in parts.items()}
    ratios = {"time_ratio": spent.times, "sample_ratio": spent.samples}
    return {**said, **ratios, "complete": spent.row.complete}


def _scores(evidence: Evidence, study: Study, method: str) -> dict[str, Any]:
    row, known = study.row(method), {}
    for metric in evidence.plan.metrics:
        mean, deviation = row.scores.get(metric, (None, None)) if row else (None, None)
        printed = evidence.plan.published(method, study.corpus, metric)
        records = row.records.items() if row else ()
        seeds = {str(seed): record.value("test", metric) for seed, record in records}
        known[metric] = {"mean": mean, "deviation": deviation, "published": printed, "seeds": seeds}
    return known


def _compared(study: Study, contrast: trials.Contrast | None) -> dict[str, Any] | None:
    if contrast is None:
        return None
    values = vars(contrast) | {
        "difference": contrast.estimate,
        "claimed": study.verdict(contrast) != "open",
    }
    return {name: values[name] for name in _COMPARED}


def _overall(evidence: Evidence, contrast: trials.Contrast | None) -> dict[str, Any] | None:
    if contrast is None:
        return None
    likely = contrast.likely
    return (_compared(evidence.first_conclusive, contrast) or {}) | {
        "corpora": contrast.corpora,
        "primary": contrast.primary,
        "random_effects": likely and vars(likely.mean) | {"between": likely.between},
    }


def csv(evidence: Evidence) -> str:
    """Write all numbers, unrounded, a row per corpus, method and metric."""
    whole, lines = summary(evidence), []
    treated = [row.treatment for study in evidence.studies for row in study.rows]
    terms = max((len(one.shares) for one in treated), default=0)
    for corpus, rows in whole["corpora"].items():
        for method, row in rows.items():
            for metric, score in row["scores"].items():
                line = {"corpus": corpus, "method": method, "metric": metric, "mean": score["mean"]}
                line |= {"sd": score["deviation"], "published": score["published"]}
                line["seeds"] = len(row.get("seeds", ()))
                line |= {f"seed_{n}": score["seeds"].get(str(n)) for n in evidence.plan.seeds}
                # Only the plan's metric is tested.
                line |= _tested(row if metric == whole["metric"] else {})
                line |= {key: row.get(key) for key in ("seconds", "tuning_seconds", "samples")}
                line |= _spent(row.get("cost") or {})
                line |= _treated(row.get("treatment") or {}, terms)
                failed = [f"seed {seed}: {why}" for seed, why in row.get("failures", {}).items()]
                line["failures"] = "; ".join([*failed, *row.get("tuning_failures", [])])
                lines.append({key: _literal(value) for key, value in line.items()})
    out = io.StringIO()
    table = DictWriter(out, list(lines[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    return out.getvalue()


def _tested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Name what two methods differ by after the one that they are compared with."""
    names = {"baseline": _COMPARED, "control": ["name", *_COMPARED]}
    return {
        f"{name}_{side}": (row.get(side) or {}).get(name)
        for side in AGAINST
        for name in names[side]
    }


def _treated(treatment: Mapping[str, Any], terms: int) -> dict[str, Any]:
    """Name how strong a treatment was; terms are counted from 1, as on the page."""
    shares = dict(enumerate(treatment.get("shares", ()), 1))
    named = {f"gradient_share_{n}": shares.get(n) for n in range(1, terms + 1)}
    return {key: treatment.get(key) for key in _TREATMENT} | named


def _spent(cost: Mapping[str, Any]) -> dict[str, Any]:
    parts = {f"{p}_{unit}": (p, unit) for p in _PARTS for unit in ("seconds", "samples")}
    spent = {name: (cost.get(part) or {}).get(unit) for name, (part, unit) in parts.items()}
    spent |= {name: cost.get(name) for name in ("time_ratio", "sample_ratio")}
    return {f"cost_{name}": value for name, value in spent.items()}


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
