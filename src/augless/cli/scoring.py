"""The verb score."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augless.cli import options, terminal, writing

if TYPE_CHECKING:
    from augless import metrics

ALPHA = 0.05  # the level at which a difference is claimed


def _metrics(incomplete: str) -> list[str]:
    from augless import metrics

    return [name for name in metrics.METRICS if name.startswith(incomplete)]


def score(
    hypotheses: Annotated[
        list[str] | None,
        typer.Argument(help="FILE, or NAME=FILE,FILE,... with a file for each seed; - is stdin."),
    ] = None,
    references: Annotated[
        list[str] | None, typer.Option("--references", "-r", help="What a person wrote.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="May come several times; bleu and chrf if not given. See augless list metrics.",
            autocompletion=_metrics,
        ),
    ] = None,
    language: Annotated[
        str, typer.Option(help="Whose rules tokenise, for metrics that do.")
    ] = "en",
    baseline: Annotated[
        str | None, typer.Option(help="The system others are compared with; else the first.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(help="For perplexity: RUN, or NAME=RUN,RUN,... with one for each seed."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="The source lines, for perplexity.")] = None,
    as_json: options.Json = False,
) -> None:
    """Score generated text, and say whether systems differ.

    Examples:

      augless score output.en -r test.en

      augless score plain=p1.en,p2.en law=l1.en,l2.en -r test.en -m bleu

      augless score --run runs/RUN --source test.de -r test.en
    """
    from augless import recipes

    if bool(hypotheses) == bool(run):
        raise recipes.BadRecipe("give hypotheses or --run, and what to score against: -r FILE")
    systems = _systems(run or hypotheses or [])
    names = metric or (["perplexity", "bits-per-token"] if run else ["bleu", "chrf"])
    chosen = {name: _metric(name, language) for name in names}
    if not references and (run or any(one.needs_references for one in chosen.values())):
        raise recipes.BadRecipe("give what a person wrote: --references FILE")
    if run and source is None:
        raise recipes.BadRecipe("perplexity needs the source lines too: --source FILE")
    read = _reader()
    streams = [read(path) for path in references or []]
    found: dict[str, dict[str, list[metrics.Score]]] = {name: {} for name in names}
    for system, places in systems.items():
        for name, one in chosen.items():
            found[name][system] = []
            for place in places:
                if run:
                    made = _of_run(one, place, read(source or "-"), streams[0])
                else:
                    made = _of_file(one, place, read(place), streams)
                found[name][system].append(made)
    faults: list[str] = []
    if hypotheses and streams:
        sources = read(source) if source else None
        faults = _faults(systems, read, streams[0], sources)
    _say({name: _result(name, one, baseline, faults) for name, one in found.items()}, as_json)


def _say(results: Mapping[str, dict[str, Any]], as_json: bool) -> None:
    """Print the results of all metrics, and beside them what is to be noted."""
    if as_json:
        print(terminal.as_json(results))
    else:
        print("\n\n".join(_page(name, result) for name, result in results.items()), flush=True)
    for note in dict.fromkeys(note for result in results.values() for note in result["notes"]):
        print(f"augless: {note}", file=sys.stderr)


def _metric(name: str, language: str) -> metrics.Metric:
    from augless import metrics, recipes

    if name not in metrics.METRICS:
        hint = recipes.hint(name, metrics.METRICS)
        raise recipes.BadRecipe(f"there is no metric {name!r}{hint}\n{', '.join(metrics.METRICS)}")
    kind = metrics.METRICS[name]
    knobs = {knob.name for knob in dataclasses.fields(kind)}
    made: metrics.Metric = kind(language=language) if "language" in knobs else kind()
    return made


def _systems(written: Sequence[str]) -> dict[str, list[str]]:
    from augless import recipes

    found: dict[str, list[str]] = {}
    for one in written:
        name, equals, files = one.partition("=")
        named = equals and not Path(one).exists()
        system = name if named else one
        if system in found:
            raise recipes.BadRecipe(f"{system} is given twice; put its files together: NAME=A,B")
        found[system] = files.split(",") if named else [one]
    return found


def _reader() -> Callable[[str], list[str]]:
    """Return what reads the lines of a file, each file once: standard input has no second time."""
    kept: dict[str, list[str]] = {}

    def read(path: str) -> list[str]:
        if path not in kept:
            kept[path] = list(writing.lines(Path(path)))
        return kept[path]

    return read


def _of_file(
    metric: metrics.Metric, place: str, lines: list[str], streams: list[list[str]]
) -> metrics.Score:
    from augless import metrics

    try:
        return metrics.score(metric, lines, streams)
    except metrics.BadScores as error:
        raise metrics.BadScores(f"{place}: {error}") from None


def _of_run(
    metric: metrics.Metric, place: str, sources: list[str], references: list[str]
) -> metrics.Score:
    from augless import metrics
    from augless.recipes import following

    try:
        nats, tokens, vocabulary = following.nats(place, sources, references)
        if isinstance(metric, metrics.Perplexity):  # comparable over one vocabulary only
            metric = dataclasses.replace(metric, vocabulary=vocabulary)
        return metrics.score(metric, nats=nats, tokens=tokens)
    except metrics.BadScores as error:
        raise metrics.BadScores(f"{place}: {error}") from None


def _faults(
    systems: dict[str, list[str]],
    read: Callable[[str], list[str]],
    references: list[str],
    sources: list[str] | None,
) -> list[str]:
    """Say which outputs are degenerate, and what to do about it."""
    from augless import metrics

    found = []
    for system, places in systems.items():
        for place in places:
            if fault := metrics.degenerate(read(place), references, sources):
                where = system if system == place else f"{system} ({place})"
                found.append(f"nothing is claimed: {where}: {fault}\n{metrics.ADVICE}")
    return found


def _result(
    name: str, systems: dict[str, list[metrics.Score]], baseline: str | None, faults: list[str]
) -> dict[str, Any]:
    """Score systems and compare them with the first; nothing is claimed of degenerate outputs."""
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
    notes = list(faults)
    if len(systems) > 1 and systems[first][0].metric.additive:
        means = [one["mean"] for one in result["systems"].values()]
        if all(metrics.near_zero(name, mean) for mean in means):
            notes.append(
                f"nothing is claimed: a {name} of {max(means):.2f} at best is too near 0 to tell "
                f"systems apart\n{metrics.ADVICE}; or compare by characters: -m chrf"
            )
        found = metrics.corrected(metrics.compare(systems, first))
        for system, comparison in found.items():
            of_methods = comparison.test != "sentences"
            claimed = not notes and of_methods and comparison.corrected_p < ALPHA
            compared = {**vars(comparison), "claimed": claimed}
            result["systems"][system]["comparison"] = compared
        if any(one.test == "sentences" for one in found.values()):
            notes.append(
                "one seed says nothing about a method: p is of these outputs; other seeds would "
                "give others\ngive a file for each seed: NAME=SEED1,SEED2,SEED3"
            )
    return result | {"notes": notes}


def _page(name: str, result: dict[str, Any]) -> str:
    systems = result["systems"]
    compared = any("comparison" in one for one in systems.values())
    digits = 4 if max(one["mean"] for one in systems.values()) <= 1 else 2
    head = ["system", name, "sd" if any(one["sd"] for one in systems.values()) else "95 %"]
    if compared:
        head += [f"- {result['baseline']}", "95 % interval", "p", "p (Holm)"]
        head += ["minimum detectable effect", ""]
    rows = [head]
    for system, one in systems.items():
        spread = ""
        if one["sd"] is not None:
            spread = f"{one['sd']:.{digits}f}"
        elif one.get("interval"):
            spread = " to ".join(f"{end:.{digits}f}" for end in one["interval"])
        row = [system, f"{one['mean']:.{digits}f}", spread]
        if compared:
            row += _compared(one.get("comparison"), digits)
        rows.append(row)
    return f"{terminal.table(rows)}\n{next(iter(systems.values()))['signature']}"


def _compared(comparison: dict[str, Any] | None, digits: int) -> list[str]:
    if comparison is None:
        return [""] * 6
    low, high = (f"{comparison[end]:+.{digits}f}" for end in ("low", "high"))
    return [
        f"{comparison['estimate']:+.{digits}f}",
        f"{low} to {high}",
        f"{comparison['p']:.4f}",
        f"{comparison['corrected_p']:.4f}",
        f"{comparison['minimum_detectable_effect']:.{digits}f}",
        "differs" if comparison["claimed"] else "not claimed",
    ]
