"""What the figures show, from records alone."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from augless import metrics, trials
from augless.recipes import BadRecipe, reading
from augless.reports import answers, charts, evidence
from augless.reports.evidence import Evidence, Row, Study
from augless.trials import summary

POINTS_SHOWN = 80  # points of a line: more cannot be seen
Histories = Mapping[int, Sequence[trials.Logged]]
Read = Callable[[trials.Logged], float | None]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels that are looked at together."""

    panels: list[charts.Panel]
    caption: str


def differences(study: Study) -> Figure | None:
    """Draw how far each method is from the baseline, and from its control, on one corpus."""
    sides = {
        side: [(row, one) for row in study.rows if (one := getattr(row.cell, side)) is not None]
        for side in summary.SIDES
    }
    drawn = {
        side: [_effect(study, row.style, row.method, one) for row, one in rows]
        for side, rows in sides.items()
        if rows
    }
    if not drawn:
        return None
    span, panels = _span([one for of in drawn.values() for one in of]), []
    for side, effects in drawn.items():
        names = {row.cell.control_name or "" for row, _ in sides[side]}
        control = names.pop() if len(names) == 1 else "its control"
        other = study.baseline.method if side == "baseline" else control
        panels.append(_forest(effects, f"{study.unit}, difference from {other}", span))
    return Figure(panels=panels, caption=_how_to_read(study))


def forest(found: Evidence, methods: Sequence[str]) -> Figure | None:
    """Draw the effect of methods on every corpus, and over all of them."""
    panels, study = [], found.studies[0]
    plain, unit = found.plan.baseline, study.unit
    for method in methods:
        whole = found.overall[method].baseline
        if whole is None or whole.corpora < 2:
            continue
        effects = [
            _effect(one, row.style, one.corpus, row.baseline)
            for one in found.studies
            if (row := one.row(method)) is not None and row.baseline is not None
        ]
        mark = answers.overall_mark(found, whole)
        style = found.styles[method]
        effects.append(_pooled(style, f"mean of {whole.corpora}", whole.test, mark))
        if whole.likely is not None:
            effects.append(_pooled(style, "others like these", whole.likely.mean, ""))
        panels.append(_forest(effects, f"{method}: {unit}, difference from {plain}"))
    if not panels:
        return None
    said = (
        " Diamonds: the mean over these corpora, which is what is tested, and, from three corpora "
        "on, what to expect on corpora like these (random effects)."
    )
    return Figure(panels=panels, caption=_how_to_read(study) + said)


def _forest(
    effects: Sequence[charts.Effect], title: str, span: float | None = None
) -> charts.Panel:
    said = "; ".join(f"{one.name} {one.said} {one.mark}".rstrip() for one in effects)
    span = _span(effects) if span is None else span
    return charts.forest(effects, title=title, description=f"{title}: {said}.", span=span)


def _effect(study: Study, style: str, name: str, one: trials.Contrast) -> charts.Effect:
    effect = _pooled(style, name, one.test, answers.mark(study, one))
    return dataclasses.replace(effect, seeds=one.seeds, pooled=False)


def _pooled(style: str, name: str, test: metrics.Difference, mark: str) -> charts.Effect:
    size = max(map(abs, (test.estimate, test.low, test.high)))
    digits = 2 if size >= 0.1 else 3
    middle, low, high = (
        charts.signed(charts.fixed(value, digits)) for value in (test.estimate, test.low, test.high)
    )
    return charts.Effect(
        style=style,
        name=name,
        estimate=test.estimate,
        low=test.low,
        high=test.high,
        mark=mark,
        said=f"{middle} ({low} to {high})",
        pooled=True,
    )


def _span(effects: Sequence[charts.Effect]) -> float:
    """Return how far an axis reaches to both sides of 0."""
    ends = [abs(v) for one in effects for v in (one.low, one.high, one.estimate, *one.seeds)]
    return charts.rounded(0.0, max(ends) * 1.04)[1]


def _how_to_read(study: Study) -> str:
    better = "right" if study.metric.higher_is_better else "left"
    if not any(one.of_methods for row in study.rows if (one := row.baseline or row.control)):
        return f"Line: 95 % interval over sentences, of one seed. Better is to the {better}."
    return (
        "Line: 95 % interval. Small dots: seeds. Large dot: their mean, filled where a difference "
        f"may be claimed, ▲ or ▼ in the table. Better is to the {better}."
    )


def learning(study: Study, metric: str) -> Figure | None:
    """Draw the validation score, or the watched test score, over the samples seen."""
    epochs = {row.method: _histories(study, row, "epoch") for row in study.rows}
    logged = [e for of in epochs.values() for history in of.values() for e in history]
    known = list(dict.fromkeys(name for epoch in logged for name in epoch.scores))
    if not known:
        return None
    others = [name for name in known if name not in ("loss", "perplexity")]
    watched = [name for name in others if name.startswith(evidence.WATCHED)]
    score = metric if metric in known else (others or known)[-1]
    score = watched[0] if watched else score
    which = "Test" if watched else "Validation"
    lines = [
        line
        for row in study.rows
        if (line := _over_time(row, epochs[row.method], lambda e: e.scores.get(score)))
    ]
    if not lines:
        return None
    name = evidence.metric_name(score.removeprefix(evidence.WATCHED))
    ends = "; ".join(f"{line.name} {line.y[-1]:.2f}" for line in lines)
    described = f"{which} {name} over the samples seen. At the end: {ends}."
    panels = []
    panels.append(
        charts.curves(
            lines,
            title=f"{which} {name}",
            description=described,
            x_name="samples seen",
            x_low=0.0,
            y_name=name,
        )
    )
    late = [_second_half(line) for line in lines]
    if max(len(line.x) for line in late) >= 3:
        panels.append(
            charts.curves(
                late,
                title="The second half of each, closer",
                description="The same over the second half of each method's training.",
                x_name="of its own training",
                x_form=charts.percent,
                y_name=name,
            )
        )
    note = (
        "The test set was scored at every epoch, as this plan asks; it chose nothing."
        if watched
        else "Validation is never weighted."
    )
    return Figure(
        panels=panels,
        caption="Mean over seeds; the band is their range. A line ends where its first seed did. "
        + note,
    )


def sweep(study: Study, plan: trials.Plan) -> Figure | None:
    """Draw the test score against the knob that a plan varies, a line per series."""
    found: dict[str, list[tuple[float, Row]]] = {}
    for row in study.rows:
        method = plan.methods[row.method]
        if method.series is not None and method.at is not None and row.cell.values:
            found.setdefault(method.series, []).append((method.at, row))
    lines = []
    for k, (name, points) in enumerate(found.items()):
        points.sort(key=lambda point: point[0])
        scores = [list(row.cell.values.values()) for _, row in points]
        lines.append(
            charts.Series(
                style=f"m{k % evidence.COLOURS}",
                name=name,
                x=[at for at, _ in points],
                y=[statistics.fmean(values) for values in scores],
                low=[min(values) for values in scores],
                high=[max(values) for values in scores],
                dotted=True,
            )
        )
    if not lines:
        return None
    name = study.unit
    base = study.baseline
    panels = [
        charts.curves(
            [line],
            title=line.name,
            description=f"Test {name} of {line.name}: "
            + "; ".join(f"{x:g} gives {y:.2f}" for x, y in zip(line.x, line.y, strict=True)),
            x_name=line.name,
            y_name=name,
            level=base.cell.mean,
        )
        for line in lines
    ]
    ruled = f" The rule is {base.method}." if base.cell.mean is not None else ""
    return Figure(panels=panels, caption=f"Mean over seeds; the band is their range.{ruled}")


@dataclass(frozen=True)
class _Statistic:
    """A statistic of weights that is drawn over time."""

    read: Callable[[trials.TermLog], float | None]
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


def weights(study: Study) -> Figure | None:
    """Draw statistics of the weights over the samples seen."""
    panels = []
    shown = [row for row in study.rows if row.weighs]
    for one in _OVER_TIME:
        lines = [line for row in shown if (line := _weights_of(study, row, one))]
        if lines:
            ends = "; ".join(f"{line.name} {line.y[-1]:.3g}" for line in lines)
            panels.append(
                charts.curves(
                    lines,
                    title=one.title,
                    description=f"{one.title} over the samples seen. At the end: {ends}.",
                    x_name="samples seen",
                    x_low=0.0,
                    y_name=one.note,
                    y_form=charts.percent if one.share else charts.shown,
                    level=one.level,
                    least=(0.0, 1.0) if one.share else None,
                )
            )
    if not panels:
        return None
    return Figure(
        panels=panels,
        caption="Methods that weigh their samples; the others give every sample the weight 1. "
        f"Mean over seeds; the band is their range.{_of_terms(study, shown)}",
    )


def _weights_of(study: Study, row: Row, one: _Statistic) -> charts.Series | None:
    place = _term(study, row) or 0
    histories = _histories(study, row, "interval") or _histories(study, row, "epoch")
    return _over_time(row, histories, lambda entry: one.read(entry.term(place)))


def losses(study: Study) -> Figure | None:
    """Draw the losses of the last epoch, and the weight that each would get."""
    panels, shown = [], []
    for row in study.rows:
        term = _term(study, row)
        epochs = _histories(study, row, "epoch")
        if term is None or not epochs:
            continue
        first = [history[0].term(term).histogram for history in epochs.values()]
        last = [history[-1].term(term).histogram for history in epochs.values()]
        before, after = _summed(first), _summed(last)
        if not after:
            continue
        shown.append(row)
        curve = weight_curve(study, row, term, len(after))
        spoken = f" Weights run from {min(curve):.3g} to {max(curve):.3g}." if curve else ""
        panels.append(
            charts.histogram(
                after,
                curve,
                style=row.style,
                title=f"{row.method}{_of_term(study, row)}",
                description=f"Losses of {row.method} in the last epoch, in units of the mean."
                + spoken,
                before=before,
            )
        )
    if not panels:
        return None
    return Figure(
        panels=panels,
        caption="Bars: losses in the last epoch, all seeds. Thin outline: the first epoch. Line: "
        "the weight that a sample with this loss gets at the end, on the axis at the right."
        + _of_terms(study, shown),
    )


def _of_term(study: Study, row: Row) -> str:
    """Name the term that a method weighs, where its objective has several."""
    place = _term(study, row)
    terms = next(iter(study.records[row.method].values())).terms
    if place is None or not place < len(terms) or len(terms) < 2:
        return ""
    term = terms[place]
    factor = "" if term.scale == 1 else f" \N{MULTIPLICATION SIGN} {term.scale:g}"
    return f", term {place + 1} of {len(terms)}: {term.loss.name}{factor}"


def _of_terms(study: Study, rows: Sequence[Row]) -> str:
    """Say of which terms the weights are, where that is a question."""
    named = [f"{row.method}{said}" for row in rows if (said := _of_term(study, row))]
    return f" Weights are those of one term: {'; '.join(named)}." if named else ""


def _term(study: Study, row: Row) -> int | None:
    """Return which term of a method's objective weighs its samples."""
    found = (record.weighted_term for record in study.records.get(row.method, {}).values())
    return next((term for term in found if term is not None), None)


def weight_curve(study: Study, row: Row, term: int, bins: int) -> list[float] | None:
    """Return the weight at each tenth of the mean loss, as it was at the end of training."""
    import torch

    from augless import polar, training

    record = next(iter(study.records[row.method].values()))
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
    if isinstance(weighting, polar.Control):  # depends on the batch: what it was on average
        return [last.weight] * (bins + 1) if last.weight else None
    relative = torch.arange(bins + 1, dtype=torch.float64) / 10
    found = weighting(relative * scale, scale)
    return (found / (mean if weighting.normalised and mean else 1.0)).tolist()


def _histories(study: Study, row: Row, kind: str) -> dict[int, list[trials.Logged]]:
    """Return what was logged, seed by seed."""
    found = {
        seed: [entry for entry in record.history if entry.kind == kind]
        for seed, record in study.records.get(row.method, {}).items()
    }
    return {seed: history for seed, history in found.items() if history}


def _over_time(row: Row, histories: Histories, read: Read) -> charts.Series | None:
    """Return a statistic over samples, the mean and range over seeds as far as all have come."""
    paths = []
    for history in histories.values():
        points = [(entry.samples, read(entry)) for entry in history]
        path = [(float(x), y) for x, y in points if y is not None]
        if path:
            paths.append(path)
    if not paths:
        return None
    length = min(map(len, paths))
    # Evenly thinned, always with the last.
    kept = sorted({round(k) for k in np.linspace(0, length - 1, min(length, POINTS_SHOWN))})
    columns = [[path[k] for path in paths] for k in kept]
    several = len(paths) > 1
    return charts.Series(
        style=row.style,
        name=row.method,
        x=[statistics.fmean(x for x, _ in column) for column in columns],
        y=[statistics.fmean(y for _, y in column) for column in columns],
        low=[min(y for _, y in column) for column in columns] if several else (),
        high=[max(y for _, y in column) for column in columns] if several else (),
    )


def _second_half(line: charts.Series) -> charts.Series:
    """Return the second half of a line, over the share of its own samples."""
    kept = slice(next(k for k, x in enumerate(line.x) if 2 * x >= line.x[-1]), None)
    return charts.Series(
        style=line.style,
        name=line.name,
        x=[x / line.x[-1] for x in line.x[kept]],
        y=line.y[kept],
        low=line.low[kept],
        high=line.high[kept],
    )


def _summed(histograms: Sequence[Sequence[int]]) -> list[float]:
    """Add up histograms of the same bins."""
    found = [h for h in histograms if h and len(h) == len(histograms[0])]
    return [float(sum(column)) for column in zip(*found, strict=True)]
