"""Write docs/results.md, and docs/results/ beside it, from the records: `make results`.

A plan `results/NAME.toml` is followed by `augless trial results/NAME.toml --out results`. Its
folder `results/NAME/` holds the records, which are all that is read here; `results/NAME.md` says
what they mean, and `results/order.txt` which plans are shown, one name a line. The page has what a
plan asked and found, and `docs/results/NAME.md` its tables and pictures.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from pathlib import Path

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

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
GLANCE = """## At a glance

What the primary method of each plan does, beside its baseline, over all corpora of the plan, and
every other method that is claimed to differ by BLEU; in brackets 95 % intervals. ▲ better, ▼ worse:
p < 0.05, corrected by Holm but for the primary method. Of bits per token fewer are better.

"""

POOLED = """## {} on all corpora

*{}* is the one weighting that was confirmed: an exact law in the paper's direction, weak. Here is
what it does in every plan that has it beside {}, each run counted once: other corpora, models and
settings. Dots are seeds, lines 95 % intervals; the diamond is the mean over all rows, and below it
what is to be expected of others like them (random effects). A mean over rows is not the primary
contrast, and rows of one corpus share test sentences, so that it is a little less sure than its
interval says.

"""

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
    parts = [read("summary"), glance(plans.values()), *pooled(plans, pictures)]
    for name, known in plans.items():
        parts += section(name, known, pictures)
        page = "\n".join(details(name, known, pictures))
        (pictures / f"{name}.md").write_text(page, encoding="utf-8")
    (out / "results.md").write_text("\n".join([*parts, spent(names)]), encoding="utf-8")


def glance(plans: Iterable[Known]) -> str:
    """Say in a table what the primary method of each plan did, and what else was claimed."""
    lines = ["| Plan | compared | corpora | seeds | BLEU | bits per token |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for known in plans:
        plan = next(iter(known.values())).plan
        bleu = next(of for metric, of in known.items() if metric.startswith("bleu"))
        claimed = [m for m, row in bleu.summary.rows.items() if differs(bleu, row.baseline)]
        for method in dict.fromkeys((plan.primary or "", *claimed)):
            cells = [f"[{plan.title}](#{anchor(plan.title)})", f"{method} against {plan.baseline}"]
            cells += [str(len(plan.recipes)), str(len(plan.seeds))]
            for of_plan, digits in ((bleu, 2), (known["bits-per-token"], 3)):
                cell = tables.delta(of_plan, of_plan.summary[method].baseline, digits)
                cells.append(f"{cell.text} ({cell.small[0]})" if cell.small else "")
            lines.append(f"| {' | '.join(cells)} |")
    return GLANCE + "\n".join(lines) + "\n"


def pooled(plans: dict[str, Known], out: Path) -> Iterator[str]:
    """Yield what the primary method of the first plan does in all plans that have it."""
    first = next(iter(next(iter(plans.values())).values())).plan
    method, baseline = first.primary or "", first.baseline
    yield POOLED.format(method.capitalize(), method, baseline)
    for metric in ("bleu", "bits-per-token"):
        found = {name: known[metric] for name, known in plans.items() if metric in known}
        effects = list(effects_of(method, baseline, found))
        whole = [metrics.mean_difference([one.test for one in effects])]
        whole += [metrics.random_effects([one.test for one in effects]).mean]
        for said, test in zip((f"mean of {len(effects)}", "others like these"), whole, strict=True):
            effects.append(charts.Effect(effects[0].style, said, test, ""))
        title = f"{evidence.metric_name(metric)}, difference from {baseline}"
        panel = charts.forest(effects, title, charts.span(effects))
        (out / f"all-{metric}.svg").write_text(pages.alone(panel), encoding="utf-8")
        yield f"![{title}: {method}, all corpora](results/all-{metric}.svg)\n"


def effects_of(
    method: str, baseline: str, plans: dict[str, evidence.Evidence]
) -> Iterator[charts.Effect]:
    """Yield a method's difference from a baseline wherever it was run, no run twice."""
    seen: set[str] = set()
    for name, of_plan in plans.items():
        for study in of_plan.studies if of_plan.plan.baseline == baseline else ():
            row = study.row(method)
            if row is None or row.baseline is None or study.inconclusive:
                continue
            ids = {record.id for record in row.records.values()}
            if not ids & seen:
                said, one = f"{study.corpus}, {name}", row.baseline
                yield charts.Effect(row.style, said, one, MARKS[study.verdict(one)], one.seeds)
            seen |= ids


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
    yield f"## {plan.title}\n\n{read(name)}"
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
    yield from pictured(of_plan, name, out)
    yield exports.markdown(of_plan)
    for other in others:
        first, *_ = exports.markdown(other, further=False).split("\n### ")  # of all corpora
        heading, table = first.removeprefix("### ").split("\n", 1)
        said = f"By {evidence.metric_name(other.plan.metric)}: {heading[:1].lower()}{heading[1:]}"
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
    for said, columns, panels in compress(shown, (several, costly, True)):
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
    """Say how many runs all of this is."""
    found = (path.parent for n in names for path in RESULTS.glob(f"{n}/records/*/record.json"))
    folders = {folder.name: folder for folder in found}
    hours = sum(trials.Record.load(folder).result.seconds for folder in folders.values()) / 3600
    return f"## What it took\n\n{len(folders)} runs, {hours:.1f} hours of training on one core.\n"


if __name__ == "__main__":
    main(ROOT / "docs")
