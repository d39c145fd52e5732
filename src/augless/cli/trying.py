"""The verbs trial and report."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from augless import storage
from augless.cli import options, terminal, watching
from augless.errors import code_of_all
from augless.knobs import Within

if TYPE_CHECKING:
    from augless import trials
    from augless.recipes.reading import Suggestion
    from augless.survey import Tally


_PLANS = options.completing("trials", "shipped")
Small = Annotated[
    bool,
    "At the plan's scale for a laptop; on own files, a first answer in some 10 minutes.",
    "--small",
    "--quick",
]
Out = Annotated[Path, "Where trials are kept."]
Records = Annotated[
    Path | None,
    "A folder with records of runs that count as done.",
    {"exists": True, "file_okay": False},
]
Files = Annotated[tuple[Path, Path] | None, None, "SOURCE TARGET"]
Rivals = Annotated[
    bool, "With own files: compare with masked-LM, back-translation, R-Drop and others."
]
RoundTrip = Annotated[
    tuple[str, str] | None,
    "With --rivals, for dialogue: two models of translation, runs or Hugging Face ones.",
    "THERE BACK",
]
_PLAN = "plan.toml"  # which a trial leaves in its folder
_Files = dict[str, tuple[Path, Path]]


def trial(
    plan: Annotated[str | None, "A shipped plan's name, or a .toml file.", _PLANS] = None,
    overrides: options.Overrides = None,
    *,
    small: Small = False,
    jobs: Annotated[
        int | None, "Runs at once; else as many as there are cores.", Within(1, 1024)
    ] = None,
    threads: Annotated[int, "Threads of each run.", Within(1, 1024)] = 1,
    out: Out = Path("trials"),
    records: Records = None,
    device: options.Device = "cpu",
    max_minutes: options.MaxMinutes = math.inf,
    dry_run: Annotated[bool, "List the runs and how long they will take."] = False,
    write_plan: Annotated[
        Path | None, "Write the plan to a file to edit; run nothing.", "FILE"
    ] = None,
    train: Files = None,
    valid: Files = None,
    test: Files = None,
    rivals: Rivals = False,
    round_trip: RoundTrip = None,
    as_json: options.Json = False,
) -> None:
    """Compare methods: train each with several seeds, write a page.

    Examples:

      augless trial demo

      augless trial --train a.de a.en --valid b.de b.en --test c.de c.en --quick

      augless trial --train a.de a.en --valid b.de b.en --test c.de c.en

      augless trial --train a.de a.en --valid b.de b.en --test c.de c.en --rivals

      augless trial table1 --small --dry-run
    """
    from augless import trials

    files = _given(train=train, valid=valid, test=test)
    suggested: list[Suggestion] = []
    chosen = _chosen(plan, overrides or [], small, files, rivals, round_trip, suggested.extend)
    root = out / chosen.name
    terminal.say(chosen.title)
    watching.print_suggested(suggested)
    if write_plan is not None:
        _write(chosen, write_plan)
        print(f"next: augless trial {shlex.quote(str(write_plan))}")
        return
    how: dict[str, Any] = {"root": root, "records": records, "threads": threads, "device": device}
    how["jobs"] = jobs or len(os.sched_getaffinity(0))
    if dry_run:
        with terminal.Progress() as progress:
            expected = trials.forecast(chosen, **how, progress=progress)
        terminal.result(as_json, watching.forecast(expected), lambda: watching.listed(expected))
        terminal.say(f"what was prepared is kept in {root}, so that the trial need not do it again")
        return
    _warn(root, chosen)
    with terminal.Progress() as progress, terminal.Stop() as stop:
        live = watching.Live(progress, chosen.choose)
        tried = trials.run(
            chosen,
            **how,
            max_minutes=max_minutes,
            command=shlex.join(["augless", *sys.argv[1:]]),
            stop=stop,
            on_status=live,
        )
    present(tried, root, as_json)
    if not all(entry.record or entry.failure for entry in tried.entries):
        raise terminal.stopped(stop.by or f"{max_minutes:g} minutes", live.left)
    if tried.failures:
        raise SystemExit(code_of_all(tried.failures))


def report(
    plan: Annotated[
        str | None, "A trial's folder, a shipped plan's name, or a .toml file.", "plan", _PLANS
    ] = None,
    overrides: options.Overrides = None,
    *,
    small: Small = False,
    out: Out = Path("trials"),
    records: Records = None,
    train: Files = None,
    valid: Files = None,
    test: Files = None,
    survey: Annotated[
        Path | None,
        "A survey, whose ratings stand beside the scores of methods of the same name.",
        "FOLDER",
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write the page of a trial again, without running anything.

    Examples:

      augless report trials/demo

      augless report trials/demo --survey survey

      augless report table1 --small --records records
    """
    from augless import recipes, trials

    files = _given(train=train, valid=valid, test=test)
    folder = None if plan is None else _folder(plan)
    if folder is not None:
        plan = str(folder / _PLAN)
    chosen = _chosen(plan, overrides or [], small, files)
    root = folder or out / chosen.name
    ratings = None if survey is None else _rated(survey, chosen)
    done = trials.collect(chosen, root=root, records=records)
    if not any(entry.record or entry.failure for entry in done.entries):
        raise recipes.BadRecipe(
            f"no run of {chosen.name} that counts is done below {root}; start augless trial"
        )
    present(done, root, as_json, ratings)


def _rated(folder: Path, plan: trials.Plan) -> Tally:
    """Count a survey, for a trial's page."""
    from augless import survey
    from augless.survey import joining

    opened = survey.Survey.open(folder)
    with terminal.stage("counting"):
        return joining.counted(opened, plan.methods, plan.baseline)


def _folder(plan: str) -> Path | None:
    """Return the folder of a trial, if that is what was given."""
    from augless import recipes, trials

    folder = Path(plan)
    if (folder / _PLAN).is_file():
        return folder
    if folder.is_dir() and plan not in trials.shipped():
        raise recipes.BadRecipe(f"{plan} is no folder of a trial: it has no {_PLAN}")
    return None


def _given(**files: tuple[Path, Path] | None) -> dict[str, tuple[Path, Path]]:
    """Return which files of one's own were given: split -> source and target."""
    from augless import recipes

    given = {split: pair for split, pair in files.items() if pair is not None}
    for split, pair in given.items():
        if path := next((path for path in map(str, pair) if path.startswith("-")), ""):
            raise recipes.BadRecipe(
                f"--{split} takes two files, source and target, not {path}; "
                f"such as --{split} {split}.de {split}.en"
            )
    return given


def _chosen(
    plan: str | None,
    overrides: list[str],
    small: bool,
    files: _Files,
    rivals: bool = False,
    round_trip: tuple[str, str] | None = None,
    on_suggestions: Callable[[list[Suggestion]], None] = lambda suggestions: None,
) -> trials.Plan:
    from augless import recipes, trials

    if plan is not None and "=" in plan:  # no plan, and a change right away
        overrides, plan = [plan, *overrides], None
    if plan is not None:
        if files:
            raise recipes.BadRecipe(
                f"give a plan ({plan}) or your own files, not both; "
                "--train, --valid and --test take two files each"
            )
        if rivals or round_trip:
            option = "--rivals" if rivals else "--round-trip"
            raise recipes.BadRecipe(f"{option} goes with your own files; a plan lists its methods")
        return trials.Plan.load(plan, overrides, small=small)
    if len(files) < 3:
        raise recipes.BadRecipe(
            "give a plan, or all of --train, --valid and --test with two files each\n"
            f"plans: {', '.join(trials.shipped())}"
        )
    languages = trials.languages_of(files["train"])
    if rivals and round_trip is None and trials.monolingual(languages):
        terminal.say(
            f"no round trip of {' and '.join(languages)} is compared: if both are one language, as "
            "in dialogue, give two models of translation with --round-trip THERE BACK"
        )
    return trials.own(
        **files,
        languages=languages,
        changes=overrides,
        quick=small,
        rivals=rivals,
        round_trip=round_trip,
        on_suggestions=on_suggestions,
    )


def _write(plan: trials.Plan, path: Path) -> None:
    """Write a plan to a file to edit, but never over one that was edited."""
    from augless import recipes

    text = plan.as_toml()
    if path.is_file() and path.read_text(encoding="utf-8", errors="replace") not in ("", text):
        raise recipes.BadRecipe(f"{path} is there already and may have been edited; name another")
    with terminal.output(path) as file:
        file.write(text)


def _warn(root: Path, plan: trials.Plan) -> None:
    """Say so where a folder held a plan that had the same name and other corpora."""
    from augless import trials

    try:
        earlier = trials.Plan.load(str(root / _PLAN))
    except ValueError:  # none, or none that can be read any more
        return
    if _corpora(earlier) != _corpora(plan):
        terminal.say(
            f"{root} held a plan for other corpora, {earlier.title!r}: its page will be replaced, "
            "its runs stay; --out FOLDER keeps them apart"
        )


def _corpora(plan: trials.Plan) -> dict[str, Any]:
    """Return what a plan's recipes say of their corpora."""
    return {
        label: (base.recipe, {k: v for k, v in base.overrides.items() if k.startswith("corpus")})
        for label, base in plan.recipes.items()
    }


def present(trial: trials.Trial, root: Path, as_json: bool, ratings: Tally | None = None) -> None:
    """Write the page and print the table, or all of it as JSON; name what failed."""
    from augless import reports
    from augless.survey import joining

    with terminal.stage("comparing"):
        evidence = reports.gather(trial)
        if ratings is not None:
            evidence = joining.beside(evidence, ratings)
        page = reports.report(evidence, storage.inside(root, "report"))
    values = {"page": str(page), **reports.summary(evidence), **_runs(trial)}
    terminal.result(as_json, values, lambda: f"{reports.text(evidence)}\n{page}")
    for line in watching.failures(trial):
        terminal.say(line)


def _runs(trial: trials.Trial) -> dict[str, Any]:
    """Return the runs and what tuning chose, as values that JSON can say."""
    runs = [
        {
            "corpus": entry.corpus,
            "method": entry.method,
            "seed": entry.seed,
            "scores": None if entry.record is None else entry.record.scores,
            "failure": None if entry.failure is None else str(entry.failure),
        }
        for entry in trial.entries
    ]
    chosen = {
        method: {corpus: choice.as_json() for corpus, choice in of.items()}
        for method, of in trial.chosen.items()
    }
    return {"runs": runs, "chosen": chosen}
