"""Write docs/results.md and its figures from the records below results/: `make results`.

A plan `results/NAME.toml` is followed by `augless trial results/NAME.toml --out results`; its
records are committed in `results/NAME/`, and are all that is read here. What people say about the
numbers is in `results/NAME.md`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from augless import metrics, reports, trials

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
NAMES = {"bleu": "BLEU", "chrf": "chrF", "bits-per-token": "bits per token"}
DIGITS = {"bits-per-token": 3}


def main() -> None:
    """Write the page, or into another folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    out = parser.parse_args().out
    (out / "figures").mkdir(parents=True, exist_ok=True)
    parts = [(RESULTS / "summary.md").read_text(encoding="utf-8")]
    for plan in (RESULTS / "order.txt").read_text(encoding="utf-8").split():
        parts.append("\n".join(section(plan, out / "figures")))
    parts.append("\n".join(spent()))
    (out / "results.md").write_text("\n".join(parts), encoding="utf-8")


def section(name: str, figures: Path) -> Iterator[str]:
    """Yield the lines about one plan."""
    folder = RESULTS / name
    plan = trials.Plan.load(str(folder / "plan.toml"))
    trial = collected(name, plan.metric)
    yield f"## {plan.title}\n"
    remarks = RESULTS / f"{name}.md"
    if remarks.exists():
        yield remarks.read_text(encoding="utf-8")
    for metric in plan.metrics:
        of_metric = trial if metric == plan.metric else collected(name, metric)
        yield from table(of_metric, metric)
    yield from treatments(trial)
    with tempfile.TemporaryDirectory() as scratch:
        forest = reports.report(trial, scratch).with_name("forest.svg")
        if forest.exists():
            shutil.copy(forest, figures / f"results-{name}.svg")
            yield f"![Differences from {plan.baseline}](figures/results-{name}.svg)\n"


def collected(name: str, metric: str) -> trials.Trial:
    """Return a trial compared by a metric."""
    folder = RESULTS / name
    plan = trials.Plan.load(str(folder / "plan.toml"), [f"metric={metric}"])
    return trials.collect(plan, root=folder)


def table(trial: trials.Trial, metric: str) -> Iterator[str]:
    """Yield a table of one metric: a row per method, a column per corpus, and the mean effect."""
    plan, found = trial.plan, trials.table(trial)
    digits = DIGITS.get(metric, 2)
    better = "higher" if metrics.METRICS[metric].higher_is_better else "lower"
    yield f"**{NAMES.get(metric, metric)}** on the test set ({better} is better), mean of "
    yield f"{len(plan.seeds)} seeds ± standard deviation; below it the difference from "
    yield f"{plan.baseline} with its 95 % interval. ▲ better, ▼ worse: p < 0.05, corrected by Holm "
    yield "but for the primary contrast.\n"
    several = len(found.corpora) > 1
    head = ["method", *found.corpora, *(["all corpora, against plain"] if several else [])]
    head += [f"against {plan.control}"] if plan.control else []
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in found.rows:
        cells = [row.method]
        for corpus in found.corpora:
            cell = row.cells[corpus]
            if cell.mean is None:
                cells.append("")
                continue
            shown = f"{cell.mean:.{digits}f}"
            shown += f" ± {cell.deviation:.{digits}f}" if cell.deviation is not None else ""
            apart = contrast(cell.baseline, metric)
            cells.append(f"{shown}<br>{apart}" if apart else shown)
        if several:
            cells.append(contrast(row.baseline, metric))
        if plan.control:
            cells.append(contrast(row.control, metric))
        yield "| " + " | ".join(cells) + " |"
    yield ""
    detectable = [
        f"{one.test.minimum_detectable_effect:.{digits}f} on {corpus}"
        for corpus in found.corpora
        if plan.primary and (one := found[plan.primary].cells[corpus].baseline)
    ]
    whole = found[plan.primary].baseline if plan.primary else None
    if several and whole:
        detectable.append(f"{whole.test.minimum_detectable_effect:.{digits}f} over all")
    yield f"Minimum detectable effect of *{plan.primary}*: {', '.join(detectable)}.\n"


def contrast(one: trials.Contrast | None, metric: str) -> str:
    """Write a difference with its interval, marked where it may be claimed."""
    if one is None:
        return ""
    digits, test = DIGITS.get(metric, 2), one.test
    mark = ""
    if one.claimed:
        mark = " ▲" if (test.estimate > 0) == metrics.METRICS[metric].higher_is_better else " ▼"
    low, high = (f"{value:+.{digits}f}" for value in (test.low, test.high))
    return f"{test.estimate:+.{digits}f} ({low} to {high}){mark}".replace("-", "\N{MINUS SIGN}")


def treatments(trial: trials.Trial) -> Iterator[str]:
    """Yield how strong each treatment was: what the weights of the last epoch were like."""
    rows = []
    for method in trial.plan.methods:
        for corpus in trial.plan.recipes:
            entries = [e for e in trial.entries if (e.method, e.corpus) == (method, corpus)]
            logs = [e.record.epochs[-1] for e in entries if e.record and e.record.epochs]
            strong = [term for log in logs for term in log.terms if term.weight_spread]
            if strong:
                rows.append((method, corpus, strong, [log.clipped for log in logs]))
    if not rows:
        return
    yield "How strong the treatments were (last epoch): spread of weights over their mean, what the"
    yield "samples are worth (effective sample size), correlation of weight and length, share of"
    yield "the spread within batches, share of clipped steps.\n"
    yield "| method | corpus | spread | effective | with length | within batches | clipped |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for method, corpus, terms, clipped in rows:
        numbers = [
            mean([term.weight_spread for term in terms]),
            mean([term.effective_samples for term in terms]),
            mean([term.weight_length_correlation for term in terms]),
            mean([term.weight_within_batches for term in terms]),
            mean(clipped),
        ]
        yield f"| {method} | {corpus} | " + " | ".join(f"{n:.2f}" for n in numbers) + " |"
    yield ""


def mean(values: Sequence[float | None]) -> float:
    """Return the mean of what is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")


def spent() -> Iterator[str]:
    """Yield how many runs all of this is."""
    folders = [path.parent for path in RESULTS.glob("*/records/*/record.json")]
    known = {folder.name: trials.Record.load(folder) for folder in folders}
    hours = sum(record.result.seconds for record in known.values()) / 3600
    yield "## What it took\n"
    yield f"{len(known)} runs, {hours:.1f} hours of one core for their training."
    yield ""


if __name__ == "__main__":
    main()
