"""A tally as text, Markdown, LaTeX, a figure, a page, and values for JSON.

Names and texts may hold anything: each form escapes them its own way.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from augless import metrics, storage
from augless.reports import exports as escaping
from augless.reports import pages
from augless.survey import datasheet, figures, ratings
from augless.survey.agreement import Agreement
from augless.survey.tallying import Row, Scored, Tally

MARK = "†"
"""of a difference that may be claimed"""


def save(tally: Tally, folder: str | Path) -> Path:
    """Write the page, and beside it the table, the figure, the ratings and a data sheet."""
    folder = Path(folder)
    files = {
        "table.md": markdown(tally),
        "table.tex": latex(tally),
        "tally.txt": text(tally) + "\n",
        "tally.json": json.dumps(summary(tally), ensure_ascii=False, indent=1) + "\n",
        "figure.svg": svg(tally),
        "ratings.csv": ratings.csv(tally.survey),
        "ratings.jsonl": ratings.jsonl(tally.survey),
        "datasheet.md": datasheet.markdown(tally),
        "index.html": page(tally),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        storage.replace(folder / name, content.encode("utf-8", "replace"))
    return folder / "index.html"


# Tables


def systems(tally: Tally) -> list[str]:
    """Return the systems in the order of the table: what a person wrote comes last."""
    reference = tally.design.reference
    return sorted(tally.design.systems, key=lambda system: system == reference)


def _ranks(tally: Tally, scored: Scored) -> dict[str, int]:
    """Return the best and the second-best system, as rounded in the table: system -> 1 or 2."""
    means = {
        row.system: round(row.mean.value, 3)
        for row in scored.rows
        if row.mean is not None and row.system != tally.design.reference
    }
    best = sorted({*means.values()}, reverse=True)[:2]
    return {system: best.index(mean) + 1 for system, mean in means.items() if mean in best}


@dataclass(frozen=True)
class _Style:
    """How a format writes names and emphasis."""

    escaped: Callable[[str], str]
    best: str
    second: str
    mark: str


_MARKDOWN = _Style(escaping.in_markdown, "**{}**", "<u>{}</u>", MARK)
_LATEX = _Style(escaping.in_latex, r"\textbf{{{}}}", r"\underline{{{}}}", r"$^\dagger$")


def _table2(tally: Tally, style: _Style) -> Iterator[list[str]]:
    """Yield a row per system with its mean on every scale: the human columns of Table 2."""
    ranks = {scored.scale: _ranks(tally, scored) for scored in tally.scales}
    for system in systems(tally):
        cells = [style.escaped(system)]
        for scored in tally.scales:
            row = scored.row(system)
            if row.mean is None:
                cells.append("")
                continue
            cell = f"{row.mean.value:.3f}"
            rank = ranks[scored.scale].get(system)
            cell = {1: style.best, 2: style.second}.get(rank or 0, "{}").format(cell)
            cells.append(cell + (style.mark if row.claimed else ""))
        yield cells


def sentence(tally: Tally) -> str:
    """Say in a sentence per scale which systems differ from the baseline."""
    said = []
    for scored in tally.scales:
        sides: dict[str, list[str]] = {"higher": [], "lower": []}
        for row in scored.rows:
            if row.claimed and row.difference is not None:
                side = "higher" if row.difference.value > 0 else "lower"
                sides[side].append(f"{row.system} ({row.difference.value:+.2f})")
        parts = [f"{', '.join(names)} rated {side}" for side, names in sides.items() if names]
        what = f"{' and '.join(parts)} than {tally.baseline}" if parts else ""
        said.append(
            f"On {scored.scale}, {what}."
            if what
            else f"On {scored.scale}, no system is shown to differ from {tally.baseline}."
        )
    return " ".join(said)


def _facts(tally: Tally) -> str:
    """Say in a few sentences what the numbers are."""
    design = tally.design
    heard = sum(one.done > 0 and one.name not in tally.without for one in tally.raters)
    agreed = "; ".join(f"{scored.scale} {agreement(scored.alpha)}" for scored in tally.scales)
    hidden = f"{design.reference} is the reference, hidden among the systems."
    said = [
        f"Mean ratings from 1 to 5 of {sum(item.line > 0 for item in design.items):,} items by "
        f"{heard} annotator{'s' * (heard != 1)}.",
        *([hidden] if design.reference is not None else []),
        f"Krippendorff's ordinal alpha: {agreed}.",
    ]
    return " ".join(said)


def _marks(tally: Tally) -> str:
    """Explain what marks a number."""
    return (
        "The best system is bold, the second-best underlined. "
        f"{MARK}: differs from {tally.baseline} (permutation test over items, Holm over systems "
        f"and scales, p < {metrics.LEVEL:g})."
    )


def markdown(tally: Tally) -> str:
    """Write the rows of Table 2, then all numbers of every scale, in Markdown."""
    head = ["Model", *(escaping.in_markdown(s.scale.capitalize()) for s in tally.scales)]
    parts = [
        _grid(head, list(_table2(tally, _MARKDOWN))),
        escaping.in_markdown(f"{_facts(tally)} {_marks(tally)}"),
    ]
    for scored in tally.scales:
        rows = [[escaping.in_markdown(cell) for cell in row] for row in _numbers(tally, scored)]
        parts += [
            f"### {escaping.in_markdown(scored.scale.capitalize())}",
            _grid(rows[0], rows[1:]),
        ]
    parts += [f"- {escaping.in_markdown(note)}" for note in tally.notes]
    return "\n\n".join(parts) + "\n"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def latex(tally: Tally) -> str:
    """Write the rows of Table 2 as a table in LaTeX, for booktabs."""
    head = ["Model", *(escaping.in_latex(s.scale.capitalize()) for s in tally.scales)]
    rows = list(_table2(tally, _LATEX))
    body = [" & ".join(row) + r" \\" for row in rows]
    if tally.design.reference is not None:
        body.insert(-1, r"\midrule")
    said = f"{_facts(tally)} {_marks(tally)}"
    caption = escaping.in_latex(said).replace(MARK, _LATEX.mark)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'r' * len(tally.scales)}}}",
        r"\toprule",
        " & ".join(head) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _numbers(tally: Tally, scored: Scored) -> Iterator[list[str]]:
    """Yield the head and a row per system with all that is known on a scale."""
    yield [
        "System",
        "mean",
        "95 %",
        "ratings",
        f"- {tally.baseline}",
        "95 % of it",
        "p",
        "p (Holm)",
        "minimum detectable effect",
    ]
    for system in systems(tally):
        row = scored.row(system)
        mean, apart = row.mean, row.difference
        if mean is None:
            yield [system, *[""] * 8]
            continue
        cells = [system, f"{mean.value:.3f}", _range(mean.low, mean.high), f"{mean.count:,}"]
        if apart is None:
            cells += [""] * 5
        else:
            cells += [
                f"{apart.value:+.3f}{MARK if row.claimed else ''}",
                _range(apart.low, apart.high),
                f"{apart.p:.4f}",
                f"{apart.corrected_p:.4f}",
                "undefined"
                if apart.minimum_detectable_effect is None
                else f"{apart.minimum_detectable_effect:.2f}",
            ]
        yield cells


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def agreement(alpha: Agreement) -> str:
    """Write an agreement with its interval, or why it has none."""
    if alpha.value is None:
        return f"undefined ({alpha.reason})"
    ends = _range(alpha.low, alpha.high)
    return f"{alpha.value:.3f} ({ends})" if ends else f"{alpha.value:.3f}"


def _raters(tally: Tally) -> list[list[str]]:
    """Return the head and a row per annotator."""
    rows = [
        ["Annotator", "rated", "median s", "too fast", "same twice", "gold", "degraded", "look at"]
    ]
    for one in tally.raters:
        checks = (one.consistency, one.gold, one.degraded)
        flags = [flag.what for flag in one.flags]
        if one.name in tally.without:
            flags = ["left out"]
        rows.append(
            [
                one.name,
                f"{one.done:,} of {one.total:,}",
                "" if one.seconds is None else f"{one.seconds:.1f}",
                "" if one.fast is None else f"{one.fast:.0%}",
                *("" if share is None else share.written for share in checks),
                ", ".join(flags),
            ]
        )
    return rows


def _agreements(tally: Tally) -> list[list[str]]:
    rows = [["Agreement", "Krippendorff's alpha (95 %)", "weighted kappa, mean of pairs"]]
    for scored in tally.scales:
        mean = "undefined" if scored.kappa is None else f"{scored.kappa:.3f}"
        pairs = len(scored.kappas)
        over = f"{mean} ({pairs} pair{'s' * (pairs != 1)})" if pairs else ""
        rows.append([scored.scale, agreement(scored.alpha), over])
    return rows


def text(tally: Tally) -> str:
    """Write all tables and notes for a terminal."""
    tables = [list(_numbers(tally, scored)) for scored in tally.scales]
    for scored, rows in zip(tally.scales, tables, strict=True):
        rows[0][0] = scored.scale.capitalize()
    tables += [_agreements(tally), _raters(tally)]
    parts = [
        "\n".join(escaping.aligned([[escaping.visible(cell) for cell in row] for row in rows]))
        for rows in tables
    ]
    said = [escaping.visible(sentence(tally)), *(f"- {escaping.visible(n)}" for n in tally.notes)]
    return "\n\n".join(["\n".join(said), *parts])


# The page


def page(tally: Tally) -> str:
    """Write a page that needs nothing else, in the style of the reports."""
    design = tally.design
    return str(
        pages.environment("reports", "survey")
        .get_template("tally.html")
        .render(
            title=design.title,
            style=figures.STYLE,
            palette=figures.PALETTE,
            fresh=_fresh(),
            panels=[figures.distribution(scored) for scored in tally.scales],
            answer=sentence(tally),
            facts=_facts(tally),
            scales=[(scored, list(_numbers(tally, scored))) for scored in tally.scales],
            agreements=_agreements(tally),
            raters=_raters(tally),
            notes=tally.notes,
            survey=tally.survey.id,
            version=metadata.version("augless"),
        )
    )


def svg(tally: Tally) -> str:
    """Write the figure as a file of its own: the scales one below the other."""
    panels = [figures.distribution(scored) for scored in tally.scales]
    return str(
        pages.environment("reports", "survey")
        .get_template("figure.svg")
        .render(style=figures.STYLE, fresh=_fresh(), panels=panels)
    )


def _fresh() -> Callable[[], str]:
    counter = itertools.count(1)
    return lambda: f"s{next(counter)}"


# Values


def summary(tally: Tally) -> dict[str, Any]:
    """Return all numbers, unrounded, as values that JSON can say."""
    return {
        "title": tally.design.title,
        "sentence": sentence(tally),
        "survey": tally.survey.id,
        "baseline": tally.baseline,
        "reference": tally.design.reference,
        "texts": tally.texts,
        "scales": {scored.scale: _scale(scored) for scored in tally.scales},
        "annotators": {
            one.name: {
                "rated": one.done,
                "of": one.total,
                "seconds": one.seconds,
                "too_fast": one.fast,
                "constant": list(one.constant),
                "self_consistency": _share(one.consistency),
                "self_kappa": one.self_kappa,
                "gold": _share(one.gold),
                "degraded": _share(one.degraded),
                "flags": list(map(str, one.flags)),
                "counts": one.name not in tally.without,
            }
            for one in tally.raters
        },
        "notes": tally.notes,
    }


def _scale(scored: Scored) -> dict[str, Any]:
    return {
        "question": scored.question,
        "alpha": vars(scored.alpha),
        "kappa": scored.kappa,
        "kappas": [[*pair, one.value] for pair, one in scored.kappas.items()],
        "systems": {row.system: _row(row) for row in scored.rows},
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "mean": None if row.mean is None else vars(row.mean),
        "counts": list(row.counts),
        "difference": None if row.difference is None else vars(row.difference),
        "claimed": row.claimed,
    }


def _share(share: Any) -> dict[str, Any] | None:
    return None if share is None else {**vars(share), "share": share.value}
