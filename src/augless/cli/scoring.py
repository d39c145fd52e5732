"""The verb score."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import metrics

Systems = Mapping[str, Sequence[str]]
"""name -> its files or runs, one for each seed"""
_METRICS = options.completing("metrics", "METRICS")


def score(
    hypotheses: Annotated[
        list[str] | None, "FILE, or NAME=FILE,FILE,... with a file for each seed; - is stdin."
    ] = None,
    *,
    references: Annotated[list[str] | None, "What a person wrote.", "--references", "-r"] = None,
    metric: Annotated[
        list[str] | None,
        "May come several times; bleu and chrf if not given. See augless list metrics.",
        "--metric",
        "-m",
        _METRICS,
    ] = None,
    language: Annotated[str, "Whose rules tokenise, for metrics that do."] = "en",
    baseline: Annotated[str | None, "The system others are compared with; else the first."] = None,
    run: Annotated[
        list[str] | None, "For perplexity: RUN, or NAME=RUN,RUN,... with one for each seed."
    ] = None,
    source: Annotated[str | None, "The source lines, for perplexity."] = None,
    as_json: options.Json = False,
) -> None:
    """Score generated text, and say whether systems differ.

    Examples:

      augless score output.en -r test.en

      augless score plain=p1.en,p2.en law=l1.en,l2.en -r test.en -m bleu

      augless score --run runs/RUN --source test.de -r test.en
    """
    from augless import metrics, recipes
    from augless.corpora import reading

    if bool(hypotheses) == bool(run):
        raise recipes.BadRecipe("give hypotheses or --run, and what to score against: -r FILE")
    systems = _systems(run or hypotheses or [])
    names = metric or (["perplexity", "bits-per-token"] if run else ["bleu", "chrf"])
    chosen = {name: _metric(name, language) for name in names}
    if not references and (run or any(one.needs_references for one in chosen.values())):
        raise recipes.BadRecipe("give what a person wrote: --references FILE")
    if run and source is None:
        raise recipes.BadRecipe("perplexity needs the source lines too: --source FILE")
    # Each file is read once: standard input has no second time.
    read = functools.cache(lambda path: list(reading.lines(Path(path))))
    streams = [read(path) for path in references or []]
    sources = read(source) if source else None

    def scored(one: metrics.Metric, place: str) -> metrics.Score:
        try:
            if run:
                return _of_run(one, place, sources or [], streams[0])
            return metrics.score(one, read(place), streams)
        except metrics.BadScores as error:
            raise metrics.BadScores(f"{place}: {error}") from None

    scores = {
        name: {system: [scored(one, p) for p in places] for system, places in systems.items()}
        for name, one in chosen.items()
    }
    faults = _faults(systems, read, streams[0], sources) if hypotheses and streams else []
    results = {name: _result(name, of, baseline, faults) for name, of in scores.items()}
    terminal.result(as_json, results, lambda: "\n\n".join(map(_table, results, results.values())))
    for note in dict.fromkeys(note for one in results.values() for note in one["notes"]):
        terminal.say(note)


def _metric(name: str, language: str) -> metrics.Metric:
    from augless import metrics

    if name not in metrics.METRICS:
        raise options.unknown("metric", name, metrics.METRICS)
    return metrics.made(name, language=language)


def _systems(written: Sequence[str]) -> Systems:
    from augless import recipes

    systems: dict[str, list[str]] = {}
    for one in written:
        name, equals, files = one.partition("=")
        named = equals and not Path(one).exists()
        system = name if named else one
        if system in systems:
            raise recipes.BadRecipe(f"{system} is given twice; put its files together: NAME=A,B")
        systems[system] = files.split(",") if named else [one]
    return systems


def _of_run(
    metric: metrics.Metric, place: str, sources: list[str], references: list[str]
) -> metrics.Score:
    from augless import metrics
    from augless.recipes import following

    nats, tokens, vocabulary = following.nats(place, sources, references)
    if isinstance(metric, metrics.Perplexity):  # comparable over one vocabulary only
        metric = dataclasses.replace(metric, vocabulary=vocabulary)
    return metrics.score(metric, nats=nats, tokens=tokens)


def _faults(
    systems: Systems,
    read: Callable[[str], list[str]],
    references: list[str],
    sources: list[str] | None,
) -> list[str]:
    """Say which outputs are degenerate, and what to do about it."""
    from augless import metrics

    faults = []
    for system, places in systems.items():
        for place in places:
            if fault := metrics.degenerate(read(place), references, sources):
                where = system if system == place else f"{system} ({place})"
                faults.append(f"nothing is claimed: {where}: {fault}\n{metrics.ADVICE}")
    return faults


def _result(
    name: str, systems: dict[str, list[metrics.Score]], baseline: str | None, faults: list[str]
) -> dict[str, Any]:
    """Score systems and compare them with the first; nothing is claimed of degenerate outputs."""
    from augless import metrics

    first = baseline or next(iter(systems))
    if first not in systems:
        raise metrics.BadScores(f"--baseline {first!r} is none of {', '.join(systems)}")
    additive, notes = systems[first][0].metric.additive, list(faults)
    listed: dict[str, dict[str, Any]] = {}
    for system, scores in systems.items():
        values = [score.value for score in scores]
        listed[system] = {
            "mean": statistics.mean(values),
            "values": values,
            "sd": statistics.stdev(values) if len(values) > 1 else None,
            "signature": scores[0].signature,
        }
        if additive:
            interval = metrics.interval(scores[0]) if len(scores) == 1 else None
            listed[system]["interval"] = interval
    if len(systems) > 1 and additive:
        means = [one["mean"] for one in listed.values()]
        if all(metrics.near_zero(name, mean) for mean in means):
            notes.append(
                f"nothing is claimed: a {name} of {max(means):.2f} at best is too near 0 to tell "
                f"systems apart\n{metrics.ADVICE}; or compare by characters: -m chrf"
            )
        compared = metrics.corrected(metrics.compare(systems, first))
        for system, one in compared.items():
            listed[system]["comparison"] = {**vars(one), "claimed": one.claimed and not notes}
        if not all(one.of_methods for one in compared.values()):
            notes.append(
                "one seed says nothing about a method: p is of these outputs; other seeds would "
                "give others\ngive a file for each seed: NAME=SEED1,SEED2,SEED3"
            )
    return {"baseline": first, "systems": listed, "notes": notes}


def _table(name: str, result: dict[str, Any]) -> str:
    systems = result["systems"]
    compared = any("comparison" in one for one in systems.values())
    digits = 4 if max(one["mean"] for one in systems.values()) <= 1 else 2
    head = ["system", name, "sd" if any(one["sd"] for one in systems.values()) else "95 %"]
    if compared:
        head += [f"- {result['baseline']}", "95 % interval", "p", "p (Holm)"]
        head += ["minimum detectable effect", ""]
    rows = [head]
    for system, one in systems.items():
        spread = "" if one["sd"] is None else f"{one['sd']:.{digits}f}"
        if one.get("interval"):
            spread = " to ".join(f"{end:.{digits}f}" for end in one["interval"])
        row = [system, f"{one['mean']:.{digits}f}", spread]
        rows.append([*row, *(_compared(one.get("comparison"), digits) if compared else ())])
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
