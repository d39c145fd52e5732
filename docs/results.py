"""Write docs/results.md and its figures from the records below results/: `make results`.

A plan `results/NAME.toml` is followed by `augless trial results/NAME.toml --out results`. Its
folder `results/NAME/` holds the records, which are all that is read here; `results/NAME.md` says
what they mean, and `results/order.txt` which plans are shown, one name a line.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from augless import reports, trials
from augless.reports import buckets, evidence, exports, pages

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def main(out: Path) -> None:
    """Write the page and its figures."""
    figures = out / "results"
    figures.mkdir(parents=True, exist_ok=True)
    names = (RESULTS / "order.txt").read_text(encoding="utf-8").split()
    parts = [read("summary"), *(part for name in names for part in section(name, figures)), spent()]
    (out / "results.md").write_text("\n".join(parts), encoding="utf-8")


def section(name: str, figures: Path) -> Iterator[str]:
    """Yield what one plan asked, what came out by each metric, and the picture of it."""
    of_plan = gathered(name)
    plan = of_plan.plan
    yield f"## {plan.title}\n\n{read(name)}"
    with tempfile.TemporaryDirectory() as scratch:
        forest = reports.report(of_plan, scratch).with_name("forest.svg")
        if forest.exists():
            (figures / f"{name}.svg").write_bytes(forest.read_bytes())
            several = f"of *{plan.primary}*, corpus by corpus"
            rows = several if len(plan.recipes) > 1 else "method by method"
            yield f"Difference from {plan.baseline} {rows}; dots are seeds, lines 95 % intervals:\n"
            yield f"![Forest plot](results/{name}.svg)\n"
    yield from where(of_plan, name, figures)
    yield exports.markdown(of_plan)
    for metric in plan.metrics:
        if metric != plan.metric:
            by_metric = exports.markdown(gathered(name, f"metric={metric}"), further=False)
            first, *_ = by_metric.split("\n### ")  # of several corpora, what they say together
            yield first.replace("### ", f"### By {metric}: ") + "\n"


def where(of_plan: evidence.Evidence, name: str, figures: Path) -> Iterator[str]:
    """Yield pictures of which sentences differ, if a plan asks more than one corpus."""
    if len(of_plan.studies) < 2:
        return
    yield "The same by length and by difficulty (plain's loss per token) of test sentences:\n"
    yield "| | by length | by difficulty |\n|---|---|---|"
    for study in of_plan.studies:
        cells = [study.corpus]
        for panel in buckets.quality(study):
            if panel.title.startswith("Difference"):
                file = f"{name}-{study.corpus}-{panel.title.split()[-1]}.svg"
                (figures / file).write_text(pages.alone(panel), encoding="utf-8")
                cells.append(f"![{panel.title}](results/{file})")
        yield f"| {' | '.join(cells)} |"
    yield ""


def gathered(name: str, *changes: str) -> evidence.Evidence:
    """Return all that is known of a plan."""
    folder = RESULTS / name
    plan = trials.Plan.load(str(folder / "plan.toml"), changes)
    return evidence.gather(trials.collect(plan, root=folder))


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
