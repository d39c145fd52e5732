"""The verb score."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import metrics

Systems = Mapping[str, Sequence[str]]
"""name -> its files or runs, one for each seed"""
_METRICS = options.completing("metrics", "METRICS")
_LOOKED_AT = 200  # lines that a run writes, to see whether they vary


@dataclass(frozen=True, kw_only=True)
class System:
    """What a system scored by one metric."""

    mean: float
    values: list[float]
    """of each seed"""
    sd: float | None
    signature: str
    interval: tuple[float, float] | None
    """of the score of one seed"""
    comparison: metrics.Difference | None = None
    """from the baseline"""
    claimed: bool = False
    """whether the difference is; nothing is where outputs are degenerate"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What systems scored by one metric, and whether they differ."""

    baseline: str
    systems: dict[str, System]
    notes: list[str]

    def plain(self) -> dict[str, Any]:
        """Return it for JSON; what is claimed is said of the comparison."""
        values = dataclasses.asdict(self)
        for one in values["systems"].values():
            claimed = one.pop("claimed")
            if one["comparison"] is not None:
                one["comparison"]["claimed"] = claimed
        return values


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
        list[str] | None,
        "For perplexity: RUN, or NAME=RUN,RUN,... with one for each seed; may come several times.",
    ] = None,
    source: Annotated[
        str | None, "The source lines: for perplexity, and to see whether outputs vary."
    ] = None,
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

    if hypotheses and run:
        raise recipes.BadRecipe(
            "give hypotheses or --run, not both; of several runs, each has its own: "
            f"--run {run[0]} --run {hypotheses[0]}"
        )
    if not hypotheses and not run:
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
    faults = _faults(systems, None if run else read, streams, sources)
    results = {name: _result(name, of, baseline, *faults) for name, of in scores.items()}
    plain = {name: one.plain() for name, one in results.items()}
    terminal.result(as_json, plain, lambda: "\n\n".join(map(_table, results, results.values())))
    for note in dict.fromkeys(note for one in results.values() for note in one.notes):
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


def _faults_of_runs(
    systems: Systems, streams: list[list[str]], sources: list[str]
) -> tuple[list[str], list[str]]:
    """Say the same of what runs write: a loss alone does not show that they answer all alike."""
    from augless.recipes import following

    few = slice(None, None, max(1, len(sources) // _LOOKED_AT))

    def written(run: str) -> list[str]:
        return [texts[0].text for texts in following.writer(run, "cpu").texts(sources[few])]

    if len(systems) < 2:  # one alone is compared with nothing
        return [], []
    return _faults(systems, written, [stream[few] for stream in streams], sources[few])


def _faults(
    systems: Systems,
    read: Callable[[str], list[str]] | None,
    streams: list[list[str]],
    sources: list[str] | None,
) -> tuple[list[str], list[str]]:
    """Say which outputs are degenerate, and which have nothing to do with their references.

    Without `read`, what it would read is written by runs.
    """
    from augless import metrics

    if read is None:
        return _faults_of_runs(systems, streams, sources or [])

    faults, unrelated = [], []
    references = streams[0] if streams else None
    for system, place in ((system, one) for system, places in systems.items() for one in places):
        lines = read(place)
        said = f"nothing is claimed: {system if system == place else f'{system} ({place})'}"
        if fault := metrics.degenerate(lines, references, sources):
            faults.append(f"{said}: {fault}\n{metrics.ADVICE}")
        elif references and (fault := metrics.unrelated(lines, references, sources)):
            order = "check that they are in the order of the references; else"
            unrelated.append(f"{said}: {fault}\n{order} {metrics.ADVICE}")
    return faults, unrelated


def _result(
    name: str,
    systems: dict[str, list[metrics.Score]],
    baseline: str | None,
    faults: list[str],
    unrelated: list[str],
) -> Result:
    """Score systems and compare them with the first; nothing is claimed of degenerate outputs."""
    from augless import metrics

    first = baseline or next(iter(systems))
    if first not in systems:
        raise metrics.BadScores(f"--baseline {first!r} is none of {', '.join(systems)}")
    metric = systems[first][0].metric
    additive, notes = metric.additive, [*faults, *(unrelated if metric.needs_references else [])]
    listed = {system: _system(scores) for system, scores in systems.items()}
    if len(systems) > 1 and additive:
        lines = len(systems[first][0].statistics)
        if lines < metrics.FEWEST:
            notes.append(f"nothing is claimed: {lines} lines are too few to tell systems apart")
        means = [one.mean for one in listed.values()]
        if all(metrics.near_zero(name, mean) for mean in means):
            others = "" if notes else "; or compare by characters: -m chrf"
            notes.append(
                f"nothing is claimed: a {name} of {max(means):.2f} at best is too near 0 to tell "
                f"systems apart\n{metrics.ADVICE}{others}"
            )
        compared = metrics.corrected(metrics.compare(systems, first))
        for system, one in compared.items():
            claimed = one.claimed and not notes
            listed[system] = dataclasses.replace(listed[system], comparison=one, claimed=claimed)
        if not all(one.of_methods for one in compared.values()):
            notes.append(
                "one seed says nothing about a method: p is of these outputs; other seeds would "
                "give others\ngive a file for each seed: NAME=SEED1,SEED2,SEED3"
            )
    return Result(baseline=first, systems=listed, notes=notes)


def _system(scores: Sequence[metrics.Score]) -> System:
    from augless import metrics

    values, alone = [score.value for score in scores], len(scores) == 1
    return System(
        mean=statistics.mean(values),
        values=values,
        sd=None if alone else statistics.stdev(values),
        signature=scores[0].signature,
        interval=metrics.interval(scores[0]) if alone and scores[0].metric.additive else None,
    )


def _table(name: str, result: Result) -> str:
    from augless import metrics

    systems = result.systems
    compared = any(one.comparison for one in systems.values())
    small = max(one.mean for one in systems.values()) <= 1
    digits = 4 if small and metrics.METRICS[name].largest != 100 else 2
    head = ["system", name, "sd" if any(one.sd is not None for one in systems.values()) else "95 %"]
    if compared:
        head += [f"- {result.baseline}", "95 % interval", "p", "p (Holm)"]
        head += ["minimum detectable effect", ""]
    rows = [head]
    for system, one in systems.items():
        spread = "" if one.sd is None else f"{one.sd:.{digits}f}"
        if one.interval:
            spread = " to ".join(f"{end:.{digits}f}" for end in one.interval)
        row = [system, f"{one.mean:.{digits}f}", spread]
        rows.append([*row, *(_compared(one, digits) if compared else ())])
    return f"{terminal.table(rows)}\n{next(iter(systems.values())).signature}"


def _compared(system: System, digits: int) -> list[str]:
    if (one := system.comparison) is None:
        return [""] * 6
    return [
        f"{one.estimate:+.{digits}f}",
        f"{one.low:+.{digits}f} to {one.high:+.{digits}f}",
        f"{one.p:.4f}",
        f"{one.corrected_p:.4f}",
        f"{one.minimum_detectable_effect:.{digits}f}",
        "differs" if system.claimed else "not claimed",
    ]
