"""The verb score."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augless.cli import options, terminal, writing

if TYPE_CHECKING:
    from augless import metrics


def score(
    hypotheses: Annotated[
        list[str] | None,
        typer.Argument(help="FILE, or NAME=FILE,FILE,... with a file for each seed."),
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--references", "-r", help="What a person wrote.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="May come several times.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The system others are compared with; else the first.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="A run, for perplexity: RUN, or NAME=RUN,RUN,... with one for each seed."
        ),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="The source lines, for perplexity.")] = None,
    as_json: options.Json = False,
) -> None:
    """Score generated text, and say whether systems differ.

    Examples:

      augless score output.en -r test.en

      augless score plain=p1.en,p2.en,p3.en law=l1.en,l2.en,l3.en -r test.en -m bleu -m chrf

      augless score --run runs/toy-de-en-0123456789ab --source test.de -r test.en
    """
    from augless import metrics, recipes

    if not references or bool(hypotheses) == bool(run):
        raise recipes.BadRecipe("give hypotheses or --run, and --references FILE")
    streams = [list(writing.lines(path)) for path in references]
    found: dict[str, dict[str, list[metrics.Score]]] = {}
    if run:
        if source is None:
            raise recipes.BadRecipe("perplexity needs the source lines too: --source FILE")
        names = metric or ["perplexity", "bits-per-token"]
        sources = list(writing.lines(source))
        for system, folders in _systems(run).items():
            measured = [_measured(folder, sources, streams[0]) for folder in folders]
            for name in names:
                scores = [metrics.score(name, nats=n, tokens=t) for n, t in measured]
                found.setdefault(name, {})[system] = scores
    else:
        for system, files in _systems(hypotheses or []).items():
            for name in metric or ["bleu", "chrf"]:
                found.setdefault(name, {})[system] = [
                    metrics.score(name, list(writing.lines(Path(file))), streams) for file in files
                ]
    results = {name: _result(systems, baseline) for name, systems in found.items()}
    if as_json:
        print(terminal.as_json(results))
        return
    print("\n\n".join(_page(name, result) for name, result in results.items()))


def _systems(written: Sequence[str]) -> dict[str, list[str]]:
    found = {}
    for one in written:
        name, equals, files = one.partition("=")
        named = equals and not Path(one).exists()
        found[name if named else one] = files.split(",") if named else [one]
    return found


def _measured(folder: str, sources: list[str], references: list[str]) -> tuple[Any, Any]:
    from augless.recipes import following

    return following.nats(folder, sources, references)


def _result(systems: dict[str, list[metrics.Score]], baseline: str | None) -> dict[str, Any]:
    from augless import metrics

    first = baseline or next(iter(systems))
    if first not in systems:
        raise metrics.BadScores(f"--baseline {first!r} is none of {', '.join(systems)}")
    result: dict[str, Any] = {"baseline": first, "systems": {}}
    for system, scores in systems.items():
        values = [score.value for score in scores]
        one: dict[str, Any] = {"mean": statistics.mean(values), "values": values}
        one["sd"] = statistics.stdev(values) if len(values) > 1 else None
        one["signature"] = scores[0].signature
        if scores[0].metric.additive:
            one["interval"] = metrics.interval(scores[0]) if len(scores) == 1 else None
        result["systems"][system] = one
    if len(systems) > 1 and systems[first][0].metric.additive:
        for system, comparison in metrics.compare(systems, first).items():
            result["systems"][system]["comparison"] = vars(comparison)
    return result


def _page(name: str, result: dict[str, Any]) -> str:
    systems = result["systems"]
    compared = any("comparison" in one for one in systems.values())
    head = ["system", name, "sd" if any(one["sd"] for one in systems.values()) else "95 %"]
    if compared:
        head += [f"- {result['baseline']}", "p", "p (Holm)", "smallest seen", ""]
    rows = [head]
    for system, one in systems.items():
        spread = ""
        if one["sd"] is not None:
            spread = f"{one['sd']:.2f}"
        elif one.get("interval"):
            spread = "{:.2f} to {:.2f}".format(*one["interval"])
        row = [system, f"{one['mean']:.2f}", spread]
        if compared:
            row += _compared(one.get("comparison"))
        rows.append(row)
    return f"{terminal.table(rows)}\n{next(iter(systems.values()))['signature']}"


def _compared(comparison: dict[str, Any] | None) -> list[str]:
    if comparison is None:
        return [""] * 5
    sure = "significant" if comparison["significant"] else "not significant"
    if not comparison["every_seed_agrees"]:
        sure += ", seeds disagree"
    return [
        f"{comparison['difference']:+.2f}",
        f"{comparison['p']:.4f}",
        f"{comparison['holm_p']:.4f}",
        f"{comparison['smallest_detectable']:.2f}",
        sure,
    ]
