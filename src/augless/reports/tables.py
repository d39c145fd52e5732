"""The tables, laid out once: the page and every export write the same cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from augless import metrics, trials
from augless.reports import answers, words
from augless.reports.cells import MARKS, Cell, Line, Table, Verdict
from augless.reports.evidence import Evidence, MethodResult, Study, digits_of, metric_name

_IN_BRACKETS = "; in brackets what the paper has"
_PAPER = 5  # the column of the main table with what the paper has


def results(evidence: Evidence, study: Study) -> Table:
    """Make the main table of a corpus; rows that only the paper has come last."""
    plan = evidence.plan
    controls = {row.control_name for row in study.rows if row.control}
    head = [
        "Method",
        study.unit,
        f"against {plan.baseline}",
        f"against {'its control' if len(controls) != 1 else next(iter(controls))}",
        "minimum detectable effect",
        "in the paper",
        "seconds",
        "samples",
        "seeds",
    ]
    lines = [_line(evidence, study, row, len(controls) > 1) for row in study.rows]
    for method in plan.published_only:
        if shown := published(evidence, study, method, plan.metric):
            cells = [Cell(shown if place == _PAPER else "") for place in range(1, len(head))]
            only = "in the paper only"
            lines.append(Line(name=method, style="paper", small=only, cells=cells))
    legend = " ".join(filter(None, _legend(evidence, study)))
    table = Table(title=study.corpus, head=head, lines=lines, legend=legend)
    return table.without_empty(2)


def _line(evidence: Evidence, study: Study, row: MethodResult, several: bool) -> Line:
    """Lay out a method; of several controls each difference says which."""
    digits, seeds = study.digits, len(evidence.plan.seeds)
    control = delta(study, row.control, digits)
    if row.control and several:
        control = replace(control, small=(f"from {row.control_name}", *control.small))
    failed = Cell("failed", "worse") if row.mean is None and row.failures else None
    failures = (f"seed {seed}: {failure}" for seed, failure in row.failures.items())
    return Line(
        name=row.method,
        style=row.style,
        cells=[
            failed or scored(row.mean, row.deviation, digits),
            delta(study, row.baseline, digits),
            control,
            Cell(_detectable(row.baseline, digits)),
            Cell(published(evidence, study, row.method, study.metric.name)),
            Cell("" if row.seconds is None else f"{row.seconds:,.0f}"),
            Cell("" if row.samples is None else f"{row.samples:,.0f}"),
            Cell(f"{len(row.values)} of {seeds}"),
        ],
        remarks=(*failures, *evidence.trial.tuning_failures(row.method, study.corpus)),
    )


def _detectable(contrast: trials.Contrast | None, digits: int) -> str:
    if contrast is None or contrast.alike or not contrast.of_methods:
        return ""
    return words.fixed(contrast.minimum_detectable_effect, digits)


def scored(mean: float | None, deviation: float | None, digits: int, mark: str = "") -> Cell:
    """Write a mean with its deviation, as far as they are known."""
    return Cell(words.fixed(mean, digits), deviation=words.fixed(deviation, digits), mark=mark)


def delta(where: Study | Evidence, contrast: trials.Contrast | None, digits: int) -> Cell:
    """Write a difference with the mark of a claim; its interval and its p are small."""
    if contrast is None:
        return Cell()
    kind = where.verdict(contrast)
    small = [words.interval(contrast.low, contrast.high, digits)]
    small += [words.probability(contrast)]
    small += ["degenerate outputs"] if contrast.fault else []
    value = words.signed(contrast.estimate, digits)
    return Cell(value, kind, tuple(small), mark=MARKS[kind])


def published(evidence: Evidence, study: Study, method: str, metric: str) -> str:
    """Write the paper's number, if it has one, with as many digits as it prints of a metric."""
    digits = 2 if metrics.METRICS[metric].largest > 1 else 3
    return words.fixed(evidence.plan.published(method, study.corpus, metric), digits)


def tuned(evidence: Evidence, corpus: str) -> dict[str, float]:
    """Return the seconds of training what was tried for methods, where they are known."""
    chosen = evidence.trial.chosen.items()
    seconds = {method: of[corpus].seconds for method, of in chosen if corpus in of}
    return {method: spent for method, spent in seconds.items() if spent}


def _legend(evidence: Evidence, study: Study) -> Iterator[str]:
    """Yield how to read the table of a corpus."""
    yield f"{study.unit} on the test set, {_over(evidence)}."
    yield _marks(evidence)
    yield answers.seeds_needed(evidence, study.corpus)
    if any(row.seconds is not None for row in study.rows):
        yield "Seconds are of training alone, without tuning, and of runs side by side:"
        yield "a rough figure."
        spent = tuned(evidence, study.corpus).items()
        each = words.joined(
            [f"{words.counted(seconds, 'second')} for {method}" for method, seconds in spent]
        )
        yield f"Tuning took another {each}." if each else ""


def _over(evidence: Evidence) -> str:
    several = len(evidence.plan.seeds) > 1
    return "mean ± standard deviation over seeds" if several else "of one seed"


def _marks(evidence: Evidence) -> str:
    """Say what the marks of tables mean."""
    if len(evidence.plan.seeds) == 1:
        return "One seed says nothing about a method: intervals are over sentences alone."
    return (
        f"▲ better, ▼ worse: p < {metrics.LEVEL:g}, corrected by Holm but for the primary "
        "contrast. Intervals are of 95 %."
    )


def overview(evidence: Evidence) -> Table | None:
    """Make a table of all corpora, as the paper's Table 1, if there are several."""
    if len(evidence.studies) < 2:
        return None
    plan, lines, printed = evidence.plan, [], False
    for method, style in _all_methods(evidence).items():
        paper = any(published(evidence, one, method, plan.metric) for one in evidence.studies)
        if method in plan.methods or paper:
            cells = [_brief(evidence, study, method) for study in evidence.studies]
            cells.append(_overall(evidence, method))
            lines.append(Line(name=method, style=style, cells=cells))
            printed |= paper
    said = f"{metric_name(plan.metric)} on the test sets, mean over seeds, against {plan.baseline}"
    said += f"{_IN_BRACKETS if printed else ''}. Mean: the difference over all corpora. "
    head = ["Method", *(study.corpus for study in evidence.studies), "mean"]
    return Table(title="All corpora", head=head, lines=lines, legend=said + _marks(evidence))


def _all_methods(evidence: Evidence) -> dict[str, str]:
    """Return the methods, and those that only the paper has, with what colours them."""
    return evidence.styles | dict.fromkeys(evidence.plan.published_only, "paper")


def _brief(evidence: Evidence, study: Study, method: str) -> Cell:
    """Write what a method scored on a corpus, and whether that is better."""
    row, paper = study.row(method), published(evidence, study, method, study.metric.name)
    if row is None:
        return noted(Cell(), "", paper)
    kind: Verdict = study.verdict(row.baseline) if row.baseline else "open"
    score = words.fixed(row.mean, study.digits) or ("failed" if row.failures else "")
    done, asked = len(row.values), len(evidence.plan.seeds)
    partial = f"{done} of {asked} seeds" if row.mean is not None and done < asked else ""
    return noted(Cell(score, kind, mark=MARKS[kind]), partial, paper)


def noted(cell: Cell, seeds: str, paper: str = "") -> Cell:
    """Add how many seeds are done, if not all, and what the paper has."""
    paper = f"({paper})" if paper else ""
    line = (cell.text, f"[{seeds}]" if seeds else "", paper)
    small = tuple(filter(None, (seeds, paper)))
    return replace(cell, small=small, line=" ".join(filter(None, line)))


def _overall(evidence: Evidence, method: str) -> Cell:
    """Write a difference over all corpora."""
    row = evidence.summary.rows.get(method)
    if row is None or row.baseline is None or row.baseline.corpora < 2:
        return Cell()
    digits = max(study.digits for study in evidence.studies)
    cell = delta(evidence, row.baseline, digits)
    return replace(cell, line=f"{cell.text} ({', '.join(cell.small)})")


def scores(evidence: Evidence, study: Study) -> Table | None:
    """Make a table of all metrics, if there are several."""
    plan, lines = evidence.plan, []
    names = [name for name in plan.metrics if any(name in row.scores for row in study.rows)]
    if len(names) < 2:
        return None
    for method, style in _all_methods(evidence).items():
        row, cells = study.row(method), []
        for name in names:
            mean, deviation = row.scores.get(name, (None, None)) if row else (None, None)
            cell = scored(mean, deviation, digits_of(name, mean or 0.0))
            cells.append(noted(cell, "", published(evidence, study, method, name)))
        if row or any(cell.line for cell in cells):
            lines.append(Line(name=method, style=style, cells=cells))
    said = f"All scores on the test set, {_over(evidence)}"
    said += _IN_BRACKETS if any(cell.small for line in lines for cell in line.cells) else ""
    lower = [metric_name(name) for name in names if not metrics.METRICS[name].higher_is_better]
    said += f". Lower is better for {words.joined(lower)}." if lower else "."
    head = ["Method", *map(metric_name, names)]
    return Table(title=f"{study.corpus}, all metrics", head=head, lines=lines, legend=said)


def treatments(study: Study) -> Table | None:
    """Make a table of how strong each treatment was, if anything was logged of it."""
    lines = []
    for row in study.rows:
        one, effect = row.treatment, delta(study, row.baseline, study.digits)
        if one.known:
            shares = " + ".join(map(_share, one.shares)) if len(one.shares) > 1 else ""
            numbers = [*map(_share, (one.spread, one.effective, one.within)), shares]
            said = f"{effect.text} ({effect.small[0]})" if effect.text else ""
            cells = [Cell(text) for text in (said, *numbers, _share(one.clipped))]
            lines.append(Line(name=row.method, style=row.style, cells=cells))
    if not lines:
        return None
    head = ["Method", "effect", "spread of weights", "effective sample size"]
    head += ["spread within batches", "share of the gradient", "clipped steps"]
    said = (
        "How strong each treatment was, the mean over epochs and seeds. Spread of weights: their "
        "standard deviation over their mean; within batches: the share of their variance that is "
        "not between batches. Share of the gradient: that of each term in its norm. Where steps "
        "are clipped, what the weights of a batch have in common is undone."
    )
    title = f"{study.corpus}, treatments"
    return Table(title=title, head=head, lines=lines, legend=said).without_empty()


def _share(value: float | None) -> str:
    """Write a share in percent, small ones too."""
    if value is None:
        return ""
    digits = 1 if abs(value) >= 0.01 or value == 0 else 2
    return f"{100 * value:.{digits}f} %"


def tried(evidence: Evidence) -> list[Table]:
    """Make a table of what tuning tried, the best first, for each method on each corpus."""
    several = len(evidence.studies) > 1
    return [
        _attempts(evidence.plan, choice, f"{method} on {corpus}" if several else method)
        for method, of_corpora in evidence.trial.chosen.items()
        for corpus, choice in of_corpora.items()
    ]


def _attempts(plan: trials.Plan, choice: trials.Choice, what: str) -> Table:
    """Lay out combinations: a column per hyper-parameter, then the score."""
    sign, lines = -1 if plan.chooses_highest else 1, []
    ranked = sorted(choice.tried, key=lambda a: math.inf if a.score is None else sign * a.score)
    keys = list(dict.fromkeys(key for attempt in ranked for key in attempt.values))
    for attempt in ranked:
        shown = "—" if attempt.failure is None else str(attempt.failure)
        if attempt.score is not None:
            shown = words.fixed(attempt.score, digits_of(plan.choose, attempt.score))
        chosen = choice.best is not None and attempt.values == choice.best.values
        values = [words.value(attempt.values.get(key, "")) for key in keys]
        first, *rest = (*values, f"{shown} ← chosen" if chosen else shown)
        cells = [Cell(text) for text in rest]
        lines.append(Line(name=first, kind="better" if chosen else "open", cells=cells))
    spent = f": {words.counted(choice.seconds, 'second')} of training" if choice.seconds else ""
    said = f"All that was tried, the best on the validation set first{spent}."
    head = [*keys, plan.chooses_by]
    return Table(title=f"Chosen for {what}", head=head, lines=lines, legend=said)
