"""Write docs/results.md, and docs/results/ beside it, from the records: `make results`.

A plan `results/NAME.toml` is followed by `augless trial results/NAME.toml --out results`. Its
folder `results/NAME/` holds the records, which are all that is read here; `results/NAME.md` says
what they mean, and `results/order.txt` which plans are shown, one name a line. The page has what a
plan asked and found, and `docs/results/NAME.md` its tables and pictures.
"""

import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from augless import metrics, reports, trials
from augless.reports import (
    answers,
    buckets,
    charts,
    costs,
    evidence,
    exports,
    figures,
    pages,
    tables,
)
from augless.reports.cells import MARKS
from augless.reports.words import signed, tick

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
GLANCE = """## At a glance

What the primary method of each plan does, beside its baseline, over all corpora of the plan, and
every other method that is claimed to differ by BLEU; in brackets 95 % intervals. ▲ better, ▼ worse:
p < 0.05, corrected by Holm but for the primary method by the metric that the plan decides by. Of
bits per token fewer are better. *Dose* is how far weights vary: their standard deviation over their
mean. Plans with *fresh seeds* in their title confirm what others found; all others are first looks.
Of one seed an interval tells how far sentences differ, not how far seeds do.

"""

POOLED = """## {} on all corpora

An exact law in the paper's direction, strength 1 and radius 1, is the one weighting that was put to
a confirming plan first. Here is what it does in every plan that has it beside {}, whatever it is
called there, each run counted once: other corpora, models and settings, the plan that chose it
among them. Dots are seeds, lines 95 % intervals; the diamond is the mean effect by random effects,
which count a row the more the surer it is. Most rows are of two corpora and share test sentences,
so that means are less sure than they look; nor was pooling them planned.

"""
STRONGER = """And *{}*, the same with strength 8 and radius 4, beside {}: weights vary two to three
times as much.

"""
DIRECTION = """And against *shuffled*, which gives the same weights to other samples: what the
direction itself does, whatever plain's luck was. All plans that have such a control of weights on
sentences, with the dose (how far weights vary); first those by the loss per token, then those by
the sentence's loss, as in the paper, which prefer long sentences.

"""
DOSES = """## Dose and response

Every weighting of sentences that was compared with plain training and has a mean weight of 1, by
its dose: how far its weights vary, to the right if hard samples weigh more (the paper's direction),
to the left if easy ones do. A dot for each method and corpus, with its 95 % interval: blue by the
loss per token, red by the sentence's loss, grey *shuffled*, with the dose of its method. Rows of
one plan share their plain runs, so that they go up and down together.

"""
SLOPES = """Change of {} for each 10 % that weights vary more in the paper's direction: a line for
each seed through all doses of a kind, plain among them; mean and 95 % interval of a t test over
seeds.

| doses | slope | p | each seed |
| --- | ---: | ---: | --- |
"""
KINDS = {"m0": "by the loss per token", "m1": "by the sentence's loss"}
"""class that colours a kind of weights -> what it is"""
ALPHA = 0.05
FEWEST = 3  # doses of a kind, plain apart, through which a line is drawn; rows to average

Known = dict[str, evidence.Evidence]
"""metric -> a plan's runs, compared by it; the plan's own metric first"""
Panels = Callable[[evidence.Study], dict[str, charts.Panel]]
CURVES = ["all samples", "second half"]


def main(out: Path) -> None:
    """Write the page and its figures."""
    pictures = out / "results"
    pictures.mkdir(parents=True, exist_ok=True)
    names = (RESULTS / "order.txt").read_text(encoding="utf-8").split()
    plans = {name: gathered(name) for name in names}
    parts = [read("summary"), glance(plans), *pooled(plans, pictures), *doses(plans, pictures)]
    for name, known in plans.items():
        parts += section(name, known, pictures)
        page = "\n".join(details(name, known, pictures))
        (pictures / f"{name}.md").write_text(page, encoding="utf-8")
    (out / "results.md").write_text("\n".join([*parts, spent(names)]), encoding="utf-8")


def glance(plans: dict[str, Known]) -> str:
    """Say in a table what the primary method of each plan did, and what else was claimed."""
    lines = ["| Plan | file | compared | corpora | seeds | dose | BLEU | bits per token |"]
    lines.append("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, known in plans.items():
        plan = next(iter(known.values())).plan
        bleu = next(of for metric, of in known.items() if metric.startswith("bleu"))
        claimed = [m for m, row in bleu.summary.rows.items() if differs(bleu, row.baseline)]
        for method in dict.fromkeys((plan.primary or "", *claimed)):
            cells = [f"[{plan.title}](#{anchor(plan.title)})", f"`{name}`"]
            cells += [f"{method} against {plan.baseline}"]
            varied = [one for row in bleu.rows(method) if (one := row.treatment.spread)]
            cells += [str(len(plan.recipes)), str(len(plan.seeds))]
            cells += [f"{100 * np.mean(varied):.1f} %" if varied else ""]
            for of_plan, digits in ((bleu, 2), (known["bits-per-token"], 3)):
                cell = tables.delta(of_plan, of_plan.summary[method].baseline, digits)
                cells.append(f"{cell.text} ({cell.small[0]})" if cell.small else "")
            lines.append(f"| {' | '.join(cells)} |")
    return GLANCE + "\n".join([*lines, "", over_plans(plans)]) + "\n"


def over_plans(plans: dict[str, Known]) -> str:
    """Say which primary contrasts would be claimed if they were corrected for one another."""
    firsts = {name: next(iter(known.values())) for name, known in plans.items()}
    found = {
        name: contrast
        for name, of_plan in firsts.items()
        if (contrast := of_plan.summary[of_plan.plan.primary or ""].baseline) is not None
        and len(of_plan.plan.seeds) > 1
    }
    corrected = metrics.holm([contrast.p for contrast in found.values()])
    left = [f"`{name}`" for name, p in zip(found, corrected, strict=True) if p < ALPHA]
    claimed = sum(contrast.claimed for contrast in found.values())
    return (
        f"Every plan has one primary contrast, by one metric, that is not corrected. Of the "
        f"{len(found)} with several seeds, {claimed} are claimed; corrected by Holm for one "
        f"another as well {len(left)} are left: {', '.join(left)}.\n"
    )


def pooled(plans: dict[str, Known], out: Path) -> Iterator[str]:
    """Yield what the primary methods of two plans do in all plans that have them."""
    for name, said in (("core", POOLED), ("large", STRONGER)):
        of_plan = next(iter(plans[name].values()))
        method, baseline = of_plan.plan.primary or "", of_plan.plan.baseline
        like = weighting(of_plan.studies[0].row(method))
        yield said.format(method if said is STRONGER else method.capitalize(), baseline)
        for metric, found in by_metric(plans).items():
            rows = [
                (f"{study.corpus}, {plan}", study, one)
                for plan, study, row, one in compared(found, baseline)
                if weighting(row) == like and not row.differs_elsewhere
            ]
            panel = forest(rows, f"{evidence.metric_name(metric)}, difference from {baseline}")
            yield drawn(panel, out / f"all-{name}-{metric}.svg", f"{method}, all corpora")
            lstms = [one for _, study, one in rows if model(study) == "lstm"]
            mean = metrics.random_effects(lstms).mean
            digits = 2 if metric == "bleu" else 3
            said = " to ".join(signed(x, digits) for x in (mean.low, mean.high))
            yield f"LSTMs alone: {signed(mean.estimate, digits)} ({said}; {len(lstms)} rows).\n"
    yield DIRECTION
    for style, of_kind in KINDS.items():
        for metric, found in by_metric(plans).items():
            rows = [
                (f"{study.corpus}, {name}, {100 * dose(row):.0f} %", study, one)
                for name, study, row, one in compared(found)
                if dose(row) > 0 and kind(row) == style
            ]
            panel = forest(rows, f"{evidence.metric_name(metric)}, hard against shuffled", style)
            yield drawn(panel, out / f"direction-{style}-{metric}.svg", of_kind)


def model(study: evidence.Study) -> object:
    """Return the name of a study's model."""
    return next(iter(study.baseline.records.values())).recipe["model.name"]


def by_metric(plans: dict[str, Known]) -> dict[str, dict[str, evidence.Evidence]]:
    """Sort plans by the metrics that most of them have."""
    return {
        metric: {name: known[metric] for name, known in plans.items() if metric in known}
        for metric in ("bleu", "bits-per-token")
    }


def drawn(panel: charts.Panel, path: Path, said: str) -> str:
    """Write a picture, and return what shows it."""
    path.write_text(pages.alone(panel), encoding="utf-8")
    return f"![{panel.title}: {said}](results/{path.name})\n"


def forest(
    rows: Sequence[tuple[str, evidence.Study, trials.Contrast]], title: str, style: str = "m0"
) -> charts.Panel:
    """Draw differences on several corpora, and below three or more their mean (random effects)."""
    effects = [
        charts.Effect(style, name, one, MARKS[study.verdict(one)], one.seeds)
        for name, study, one in rows
    ]
    if len(rows) >= FEWEST:
        mean = metrics.random_effects([one.test for one in effects]).mean
        effects.append(charts.Effect(style, f"mean of {len(rows)}", mean, ""))
    return charts.forest(effects, title, charts.span(effects))


Compared = tuple[str, evidence.Study, evidence.MethodResult, trials.Contrast]


def compared(plans: dict[str, evidence.Evidence], baseline: str = "") -> Iterator[Compared]:
    """Yield every method beside a baseline, else beside its control, everywhere; no run twice."""
    seen: set[str] = set()
    for name, of_plan in plans.items():
        for study in of_plan.studies if baseline in ("", of_plan.plan.baseline) else ():
            for row in study.rows if not study.inconclusive else ():
                one = row.baseline if baseline else row.control if row.matched else None
                ids = {record.id for record in row.records.values()}
                if one is not None and not ids & seen:
                    yield name, study, row, one
                    seen |= ids


def weighting(row: evidence.MethodResult | None) -> object:
    """Return what tells one weighting of sentences from another; None of all else."""
    record = next(iter(row.records.values()), None) if row else None
    if record is None or len(record.terms) > 1 or record.weighted_term is None:
        return None
    (term,) = record.terms
    return None if term.by_token else (term.weighting, term.weighed_by, term.loss.knobs["per"])


def kind(row: evidence.MethodResult) -> str:
    """Return by what loss a weighting of sentences weighs, as one of `KINDS`."""
    (term,) = next(iter(row.records.values())).terms
    averaged = term.weighed_by == "loss-per-token" or term.loss.knobs["per"] == "sentence-mean"
    return "m0" if averaged else "m1"


def dose(row: evidence.MethodResult) -> float:
    """Return how far weights vary, below 0 if easy samples weigh more; 0 of no such weighting."""
    if weighting(row) is None or row.differs_elsewhere:
        return 0.0
    (term,) = next(iter(row.records.values())).terms
    if not term.normalised or term.weighting.name == "staged":
        return 0.0
    return (row.treatment.spread or 0.0) * (-1 if term.weighting.name == "falling" else 1)


def doses(plans: dict[str, Known], out: Path) -> Iterator[str]:
    """Yield pictures of what every weighting of sentences does, by its dose."""
    yield DOSES
    for metric, found in by_metric(plans).items():
        points = [
            (
                dose(row),
                one,
                "control" if row.role == "control" else kind(row),
                f"{row.method}, {name}",
            )
            for name, _, row, one in compared(found, "plain")
            if dose(row)
        ]
        panel = scattered(points, f"{evidence.metric_name(metric)}, difference from plain")
        yield drawn(panel, out / f"doses-{metric}.svg", "by dose")


def scattered(
    points: Sequence[tuple[float, trials.Contrast, str, str]], title: str
) -> charts.Panel:
    """Draw differences over doses."""
    said = (f"{name}: {one.estimate:+.3f} at {at:+.1%}" for at, one, _, name in points)
    panel = charts.Panel(title=title, description=f"{title}, by dose: {'; '.join(said)}.")
    far = charts.rounded(0.0, max(abs(at) for at, *_ in points))[1]
    x = charts.Scale(-far, far, charts.LEFT, charts.WIDTH - charts.LEFT)
    low, high = min(one.low for _, one, *_ in points), max(one.high for _, one, *_ in points)
    y = charts.Scale(*charts.rounded(low, high), charts.HEIGHT - charts.BOTTOM, charts.TOP + 12)
    ticks = [(at, f"{signed(100 * at, 0)} %") for at in x.ticks(6)]
    panel.axes(
        x, y, ("spread of weights: easy samples weigh more < 0 < hard ones", title), ticks, tick
    )
    panel.across(x, y(0.0), "rule")
    for at, one, style, name in points:
        line = charts.polyline([(x(at), y(one.low)), (x(at), y(one.high))])
        panel.shapes.append(charts.Shape(f"interval {style}", line, name))
        kind = "claimed" if one.claimed else "open"
        panel.dots.append(charts.Dot(f"mean {kind} {style}", x(at), y(one.estimate), 3.5, name))
    return panel


def slopes(of_plan: evidence.Evidence) -> Iterator[str]:
    """Yield the slope over doses of each kind of loss that has enough of them."""
    for study in of_plan.studies:
        kinds: dict[str, list[evidence.MethodResult]] = {}
        for row in study.rows:
            if row.role == "method" and dose(row):
                kinds.setdefault(KINDS[kind(row)], []).append(row)
        lines = []
        for of_kind, rows in kinds.items():
            seeds = sorted(set.intersection(*({*row.values} for row in (study.baseline, *rows))))
            if len(rows) < FEWEST or len(seeds) < 2:
                continue
            at = np.array([0.0, *map(dose, rows)])
            scores = [[row.values[seed] for row in (study.baseline, *rows)] for seed in seeds]
            each = 0.1 * np.polyfit(at, np.array(scores).T, 1)[0]
            half, p = (
                stats.t.ppf(0.975, len(each) - 1) * stats.sem(each),
                stats.ttest_1samp(each, 0).pvalue,
            )
            mean = each.mean()
            said = f"{signed(mean, 3)} ({signed(mean - half, 3)} to {signed(mean + half, 3)})"
            shown = ", ".join(signed(one, 2) for one in each)
            lines.append(f"| {of_kind}, {len(rows)} doses | {said} | {p:.3f} | {shown} |")
        if lines:
            yield SLOPES.format(study.unit) + "\n".join(lines) + "\n"


def anchor(title: str) -> str:
    """Name a heading as links to it do."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def differs(of_plan: evidence.Evidence, contrast: trials.Contrast | None) -> bool:
    """Say whether a difference is claimed."""
    return contrast is not None and of_plan.verdict(contrast) in ("better", "worse")


def section(name: str, known: Known, out: Path) -> Iterator[str]:
    """Yield what one plan asked and what came out, with the picture of it."""
    of_plan = next(iter(known.values()))
    plan = of_plan.plan
    yield f"## {plan.title}\n\nPlan [`{name}`](../results/{name}.toml). {read(name)}"
    with tempfile.TemporaryDirectory() as scratch:
        forest = reports.report(of_plan, scratch).with_name("forest.svg")
        if forest.exists():
            (out / f"{name}.svg").write_bytes(forest.read_bytes())
            several = f"of *{plan.primary}*, corpus by corpus"
            rows = several if len(plan.recipes) > 1 else "method by method"
            yield f"Difference from {plan.baseline} {rows}; dots are seeds, lines 95 % intervals:\n"
            yield f"![Forest plot](results/{name}.svg)\n"
    yield f"[All tables, learning curves and costs](results/{name}.md)\n"


def details(name: str, known: Known, out: Path) -> Iterator[str]:
    """Yield the tables and pictures of one plan, by each metric."""
    of_plan, *others = known.values()
    title, answer = of_plan.plan.title, answers.of(of_plan)
    yield f"# {title}\n\nWhat was asked and found: [results](../results.md#{anchor(title)}).\n"
    yield f"What `augless` says: *{' '.join((answer.sentence, *answer.numbers))}*\n"
    yield from (path.read_text(encoding="utf-8") for path in sorted((RESULTS / name).glob("*.md")))
    for of_metric in known.values():
        yield from slopes(of_metric)
    yield from pictured(of_plan, name, out)
    yield exports.markdown(of_plan)
    for other in others:
        first, *_ = exports.markdown(other, further=False).split("\n### ")  # of all corpora
        heading, table = first.removeprefix("### ").split("\n", 1)
        if heading not in other.plan.recipes:
            heading = f"{heading[:1].lower()}{heading[1:]}"
        said = f"By {evidence.metric_name(other.plan.metric)}: {heading}"
        yield f"<details><summary>{said}</summary>\n{table}\n</details>\n"


def pictured(of_plan: evidence.Evidence, name: str, out: Path) -> Iterator[str]:
    """Yield pictures of each corpus: which sentences if there are several, costs, and when."""
    shown: list[tuple[str, list[str], Panels]] = [
        (
            "The same by length and by difficulty (plain's loss per token) of test sentences:",
            ["by length", "by difficulty"],
            lambda study: {
                f"by {panel.title.split()[-1]}": panel
                for panel in buckets.quality(study)
                if panel.title.startswith("Difference")
            },
        ),
        (
            "Score against the time that a method needs in all:",
            ["total time"],
            lambda study: dict(zip(["total time"], costs.figure(of_plan, study), strict=False)),
        ),
        (
            "While training, mean over seeds:",
            CURVES,
            lambda study: dict(zip(CURVES, figures.learning(study), strict=False)),
        ),
    ]
    several, costly = len(of_plan.studies) > 1, max(times(of_plan)) > 1.5
    for said, columns, panels in itertools.compress(shown, (several, costly, True)):
        yield f"{said}\n\n| | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|"
        for study in of_plan.studies:
            cells, drawn = [study.corpus], panels(study)
            for column in columns:
                cells.append("")
                if column in drawn:
                    file = f"{name}-{study.corpus}-{column.split()[-1]}.svg"
                    (out / file).write_text(pages.alone(drawn[column]), encoding="utf-8")
                    cells[-1] = f"![{drawn[column].title}]({file})"
            yield f"| {' | '.join(cells)} |"
        yield ""


def times(of_plan: evidence.Evidence) -> Iterator[float]:
    """Yield how many times as long as the baseline each method took, with all that it needs."""
    base = costs.total(of_plan, of_plan.plan.baseline).seconds
    yield from (costs.total(of_plan, m).seconds / base for m in of_plan.plan.methods)


def gathered(name: str) -> Known:
    """Compare the runs of a plan by every metric of it, its own first."""
    folder = RESULTS / name
    plan = trials.Plan.load(str(folder / "plan.toml"))
    known = evidence.gather(trials.collect(plan, root=folder))
    return {plan.metric: known, **known.by_other_metrics}


def read(name: str) -> str:
    """Read what was written about results."""
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def spent(names: Iterable[str]) -> str:
    """Say how many runs all of this is, and how many predictions held."""
    found = (path.parent for n in names for path in RESULTS.glob(f"{n}/records/*/record.json"))
    folders = {folder.name: folder for folder in found}
    hours = sum(trials.Record.load(folder).result.seconds for folder in folders.values()) / 3600
    ends = [re.findall(r"\| (yes|no|open) \|$", read(name), re.MULTILINE) for name in names]
    held = Counter(itertools.chain.from_iterable(ends))
    return (
        f"## What it took, and what was foreseen\n\n{len(folders)} runs, {hours:.1f} hours of "
        f"training on one core. Of {held.total()} predictions that were written down before the "
        f"runs {held['yes']} held, {held['no']} did not, and {held['open']} could not be decided.\n"
    )


if __name__ == "__main__":
    main(ROOT / "docs")
