"""Write docs/results.md and its figures from the records below results/: `make results`.

A plan `results/NAME.toml` is followed by `augless trial results/NAME.toml --out results`. Its
folder `results/NAME/` holds the records, which are all that is read here; `results/NAME.md` says
what they mean, and `results/order.txt` which plans are shown, one name a line.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from augless import reports, trials
from augless.reports import buckets, charts, evidence, exports, figures, pages, tables

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
GLANCE = """## At a glance

What the primary method of each plan does, beside its baseline, over all corpora of the plan; in
brackets 95 % intervals. ▲ better, ▼ worse: p < 0.05. Of bits per token fewer are better.

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
    plans = {name: by_metric(gathered(name)) for name in names}
    parts = [read("summary"), glance(plans.values())]
    parts += [part for name, known in plans.items() for part in section(name, known, pictures)]
    (out / "results.md").write_text("\n".join([*parts, spent()]), encoding="utf-8")


def glance(plans: Iterable[Known]) -> str:
    """Say in a table what the primary method of each plan did."""
    shown = ["bleu", "bits-per-token"]
    heads = ["Plan", "compared", "corpora", "seeds", *map(evidence.metric_name, shown)]
    lines = [f"| {' | '.join(heads)} |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for known in plans:
        plan = next(iter(known.values())).plan
        link = re.sub(r"[^\w -]", "", plan.title.lower()).replace(" ", "-")
        cells = [f"[{plan.title}](#{link})", f"{plan.primary} against {plan.baseline}"]
        cells += [str(len(plan.recipes)), str(len(plan.seeds))]
        for metric in shown:
            contrast = known[metric].summary[plan.primary or ""].baseline
            cell = tables.delta(known[metric], contrast, 2 if metric == "bleu" else 3)
            cells.append(f"{cell.text} ({cell.small[0]})" if cell.small else "")
        lines.append(f"| {' | '.join(cells)} |")
    return GLANCE + "\n".join(lines) + "\n"


def section(name: str, known: Known, out: Path) -> Iterator[str]:
    """Yield what one plan asked, what came out by each metric, and the picture of it."""
    of_plan, *others = known.values()
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
    yield from pictured(of_plan, name, out)
    yield exports.markdown(of_plan)
    for other in others:
        first, *_ = exports.markdown(other, further=False).split("\n### ")  # of all corpora
        yield first.replace("### ", f"### By {other.plan.metric}: ") + "\n"


def pictured(of_plan: evidence.Evidence, name: str, out: Path) -> Iterator[str]:
    """Yield pictures of each corpus, if a plan asks more than one: which sentences, and when."""
    if len(of_plan.studies) < 2:
        return
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
            "While training, mean over seeds:",
            CURVES,
            lambda study: dict(zip(CURVES, figures.learning(study), strict=False)),
        ),
    ]
    for said, columns, panels in shown:
        yield f"{said}\n\n| | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|"
        for study in of_plan.studies:
            cells, drawn = [study.corpus], panels(study)
            for column in columns:
                cells.append("")
                if column in drawn:
                    file = f"{name}-{study.corpus}-{column.split()[-1]}.svg"
                    (out / file).write_text(pages.alone(drawn[column]), encoding="utf-8")
                    cells[-1] = f"![{drawn[column].title}](results/{file})"
            yield f"| {' | '.join(cells)} |"
        yield ""


def gathered(name: str) -> evidence.Evidence:
    """Return all that is known of a plan."""
    folder = RESULTS / name
    plan = trials.Plan.load(str(folder / "plan.toml"))
    return evidence.gather(trials.collect(plan, root=folder))


def by_metric(of_plan: evidence.Evidence) -> Known:
    """Compare the same runs by every metric of the plan, its own first."""
    trial, plan = of_plan.trial, of_plan.plan
    others = {m: replace(trial, plan=replace(plan, metric=m)) for m in plan.metrics}
    others.pop(plan.metric)
    return {plan.metric: of_plan} | {m: evidence.gather(one) for m, one in others.items()}


def read(name: str) -> str:
    """Read what was written about results."""
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def spent() -> str:
    """Say how many runs all of this is."""
    folders = {path.parent.name: path.parent for path in RESULTS.glob("*/records/*/record.json")}
    hours = sum(trials.Record.load(folder).result.seconds for folder in folders.values()) / 3600
    return f"## What it took\n\n{len(folders)} runs, {hours:.1f} hours of training on one core.\n"


if __name__ == "__main__":
    main(ROOT / "docs")
