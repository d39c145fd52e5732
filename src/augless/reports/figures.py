"""What the figures show, from records alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from augless import metrics, runs, trials
from augless.recipes import BadRecipe, reading
from augless.reports import charts, words
from augless.reports.cells import MARKS
from augless.reports.charts import Panel
from augless.reports.evidence import COLOURS, Evidence, MethodResult, Study, metric_name
from augless.trials import summary

POINTS_SHOWN = 80  # points of a line: more cannot be seen
Read = Callable[[MethodResult, runs.Logged], float | None]


# Differences


def differences(study: Study) -> list[Panel]:
    """Draw how far each method is from the baseline, and from its control, on one corpus."""
    drawn: dict[str, list[charts.Effect]] = {}
    for side in summary.AGAINST:
        rows = [(row, one) for row in study.rows if (one := getattr(row, side)) is not None]
        controls = {row.control_name or "" for row, _ in rows}
        control = controls.pop() if len(controls) == 1 else "its control"
        other = study.baseline.method if side == "baseline" else control
        if rows:
            effects = [_effect(study, row, row.method, one) for row, one in rows]
            drawn[f"{study.unit}, difference from {other}"] = effects
    span = charts.span([one for effects in drawn.values() for one in effects])
    return [charts.forest(effects, title, span) for title, effects in drawn.items()]


def forest(evidence: Evidence) -> list[Panel]:
    """Draw the effect of every method on every corpus, and over all of them; the primary first."""
    plan, panels = evidence.plan, []
    methods = sorted(evidence.summary.rows, key=lambda method: method != plan.primary)
    for method in methods:
        whole = evidence.summary.rows[method].baseline
        if whole is None or whole.corpora < 2:
            continue
        effects = [
            _effect(study, row, study.corpus, row.baseline)
            for study in evidence.studies
            if (row := study.row(method)) is not None and row.baseline is not None
        ]
        style, mark = evidence.styles[method], MARKS[evidence.verdict(whole)]
        effects.append(charts.Effect(style, f"mean of {whole.corpora}", whole, mark))
        if whole.likely is not None:
            effects.append(charts.Effect(style, "mean of such corpora", whole.likely.mean, ""))
        title = f"{method}: {evidence.studies[0].unit}, difference from {plan.baseline}"
        panels.append(charts.forest(effects, title, charts.span(effects)))
    return panels


def _effect(study: Study, row: MethodResult, name: str, one: trials.Contrast) -> charts.Effect:
    return charts.Effect(row.style, name, one, MARKS[study.verdict(one)], one.seeds)


# Training


def over_seeds(
    style: str,
    name: str,
    x: Sequence[float],
    values: Sequence[Sequence[float]],
    form: charts.Shown = "line",
) -> charts.Series:
    """Return the means of values, seed by seed at every place, and their range."""
    several = max(map(len, values)) > 1
    return charts.Series(
        style=style,
        name=name,
        x=x,
        y=[statistics.fmean(of) for of in values],
        low=[min(of) for of in values] if several else (),
        high=[max(of) for of in values] if several else (),
        form=form,
    )


def learning(study: Study) -> list[Panel]:
    """Draw the validation score, or the watched test score, over the samples seen."""
    records = [record for row in study.rows for record in row.records.values()]
    watched = study.watched

    def scores(entry: runs.Logged) -> dict[str, float | None]:
        return entry.watched.get("test", {}) if watched else entry.scores

    known = list(dict.fromkeys(n for one in records for epoch in one.epochs for n in scores(epoch)))
    if not known:
        return []
    others = [name for name in known if name not in metrics.METRICS or metrics.of_text(name)]
    score = study.metric.name if study.metric.name in known else (others or known)[-1]
    lines = _lines(study.rows, lambda row, entry: scores(entry).get(score), ("epoch",))
    if not lines:
        return []
    name = metric_name(score)
    title = f"{'Test' if watched else 'Validation'} {name}"
    panels = [charts.plot(lines, title=title, x_name="samples seen", x_low=0.0, y_name=name)]
    late = [_second_half(line) for line in lines]
    if max(len(line.x) for line in late) >= 3:
        panels.append(
            charts.plot(
                late,
                title="The second half of each, closer",
                x_name="share of its own training",
                x_form=words.percent,
                y_name=name,
            )
        )
    return panels


def sweep(plan: trials.Plan, study: Study) -> list[Panel]:
    """Draw the test score against the knob that a plan varies, a line per series."""
    series: dict[str, dict[float, list[float]]] = {}
    for row in study.rows:
        method = plan.methods[row.method]
        if method.series is not None and method.at is not None and row.values:
            series.setdefault(method.series, {})[method.at] = [*row.values.values()]
    panels, level = [], study.baseline.mean
    for k, (name, points) in enumerate(series.items()):
        places = sorted(points)
        values = [points[at] for at in places]
        line = over_seeds(f"m{k % COLOURS}", name, places, values, "dotted")
        panels.append(charts.plot([line], title=name, x_name=name, y_name=study.unit, level=level))
    return panels


@dataclass(frozen=True)
class _Statistic:
    """A statistic of weights that is drawn over time."""

    read: Callable[[runs.TermLog], float | None]
    title: str
    note: str
    level: float | None = None
    share: bool = False


_OVER_TIME = (
    _Statistic(lambda t: t.weight, "Mean weight", "above 1 it is also a larger step", 1.0),
    _Statistic(lambda t: t.weight_sd, "Spread of weights", "standard deviation over samples"),
    _Statistic(lambda t: t.raised, "Share weighted above 1", "of all samples", share=True),
    _Statistic(
        lambda t: t.weight_length_correlation,
        "Correlation with length",
        "of weight and target length",
        0.0,
    ),
)


def weights(study: Study) -> list[Panel]:
    """Draw statistics of the weights over the samples seen."""
    weighing, panels = [row for row in study.rows if row.weighs], []
    for one in _OVER_TIME:

        def read(row: MethodResult, entry: runs.Logged, one: _Statistic = one) -> float | None:
            return one.read(entry.term(row.weighted_term or 0))

        if lines := _lines(weighing, read, ("interval", "epoch")):
            panels.append(
                charts.plot(
                    lines,
                    title=one.title,
                    x_name="samples seen",
                    x_low=0.0,
                    y_name=one.note,
                    y_form=words.percent if one.share else words.tick,
                    cover=(0.0, 1.0) if one.share else (),
                    level=one.level,
                )
            )
    return panels


def losses(study: Study) -> list[Panel]:
    """Draw the losses of the last epoch, and the weight that each would get."""
    panels = []
    for row in study.rows:
        place = row.weighted_term
        runs = [record.epochs for record in row.records.values() if record.epochs]
        if place is None or not runs:
            continue
        first, last = (_summed([run[k].term(place).histogram for run in runs]) for k in (0, -1))
        if not last:
            continue
        curve = weight_curve(row, place, len(last))
        spoken = f" Weights run from {min(curve):.3g} to {max(curve):.3g}." if curve else ""
        said = f"Losses of {row.method} in the last epoch, in units of the mean.{spoken}"
        title = f"{row.method}{_of_term(row)}"
        panels.append(
            charts.histogram(last, first, curve, style=row.style, title=title, description=said)
        )
    return panels


def _of_term(row: MethodResult) -> str:
    """Name the term that a method weighs, where its objective has several."""
    place, terms = row.weighted_term, next(iter(row.records.values())).terms
    if place is None or not place < len(terms) or len(terms) < 2:
        return ""
    term = terms[place]
    factor = "" if term.scale == 1 else f" \N{MULTIPLICATION SIGN} {term.scale:g}"
    return f", term {place + 1} of {len(terms)}: {term.loss.name}{factor}"


def of_terms(study: Study) -> str:
    """Say of which terms the weights are, where that is a question."""
    weighing = [row for row in study.rows if row.weighs]
    named = [f"{row.method}{said}" for row in weighing if (said := _of_term(row))]
    return f" Weights are those of one term: {'; '.join(named)}." if named else ""


def weight_curve(row: MethodResult, term: int, bins: int) -> list[float] | None:
    """Return the weight at each tenth of the mean loss, as it was at the end of training."""
    import torch

    from augless import polar, training

    record = next(iter(row.records.values()))
    if not record.epochs or not term < len(record.terms):
        return None
    last, chosen = record.epochs[-1].term(term), record.terms[term].weighting
    scale, mean = last.mean_loss or last.loss, last.mean_weight
    values = {"weighting": reading.nested({"name": chosen.name, **chosen.knobs})}
    try:
        weighting = reading.resolve(training.Term, "", values, {}).recipe.weighting
    except BadRecipe:  # such as measured neighbours whose file is not on this machine
        return None
    if not scale:
        return None
    end = record.epochs[-1]
    samples = end.tokens if record.terms[term].by_token else end.samples
    weighting = weighting.of_stage(weighting.stage(samples))
    if isinstance(weighting, polar.Control):  # depends on the batch: what it was on average
        return [last.weight] * (bins + 1) if last.weight else None
    relative = torch.arange(bins + 1, dtype=torch.float64) / 10
    weights = weighting(relative * scale, scale)
    return (weights / (mean if weighting.normalised and mean else 1.0)).tolist()


def _lines(rows: Sequence[MethodResult], read: Read, kinds: Sequence[str]) -> list[charts.Series]:
    """Return what was logged over samples, a line per method, as far as all seeds have come.

    Entries are of the first of the kinds that tells anything.
    """
    lines = []
    for row in rows:
        paths = next(filter(None, (_paths(row, read, kind) for kind in kinds)), [])
        length = min(map(len, paths), default=0)
        # Evenly thinned, always with the last.
        kept = sorted({round(k) for k in np.linspace(0, length - 1, min(length, POINTS_SHOWN))})
        if kept:
            places = [statistics.fmean(path[k][0] for path in paths) for k in kept]
            values = [[path[k][1] for path in paths] for k in kept]
            lines.append(over_seeds(row.style, row.method, places, values))
    return lines


def _paths(row: MethodResult, read: Read, kind: str) -> list[list[tuple[int, float]]]:
    """Return samples and values, seed by seed."""
    paths = []
    for record in row.records.values():
        values = [(e.samples, read(row, e)) for e in record.history if e.kind == kind]
        paths.append([(samples, value) for samples, value in values if value is not None])
    return [path for path in paths if path]


def _second_half(line: charts.Series) -> charts.Series:
    """Return the second half of a line, over the share of its own samples."""
    kept = slice(next(k for k, x in enumerate(line.x) if 2 * x >= line.x[-1]), None)
    shares = [x / line.x[-1] for x in line.x[kept]]
    return replace(line, x=shares, y=line.y[kept], low=line.low[kept], high=line.high[kept])


def _summed(histograms: Sequence[Sequence[int]]) -> list[float]:
    """Add up histograms of the same bins."""
    alike = [h for h in histograms if h and len(h) == len(histograms[0])]
    return [float(sum(column)) for column in zip(*alike, strict=True)]
