"""The verbs trial and report."""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import trials

_SPEAK = 30.0  # seconds between two lines where there is no terminal


def _plans(incomplete: str) -> list[str]:
    from augless import trials

    return [name for name in trials.shipped() if name.startswith(incomplete)]


PlanName = Annotated[
    str | None,
    typer.Argument(help="A shipped plan's name, or a .toml file.", autocompletion=_plans),
]
Small = Annotated[bool, typer.Option("--small", help="At the plan's scale for a laptop.")]
Out = Annotated[Path, typer.Option(help="Where trials are kept.")]
Records = Annotated[
    Path | None, typer.Option(help="A folder with records of runs that count as done.")
]
Files = Annotated[tuple[Path, Path] | None, typer.Option(metavar="SOURCE TARGET")]


def trial(
    plan: PlanName = None,
    overrides: options.Overrides = None,
    small: Small = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; else as many as there are cores.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1,
    out: Out = Path("trials"),
    records: Records = None,
    device: options.Device = "cpu",
    max_minutes: Annotated[
        float, typer.Option(min=0, help="Save and stop after so many minutes.")
    ] = math.inf,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and how long they will take.")
    ] = False,
    train: Files = None,
    valid: Files = None,
    test: Files = None,
    as_json: options.Json = False,
) -> None:
    """Find out whether it helps: train every method with every seed, compare, write a page.

    Examples:

      augless trial demo

      augless trial --train a.de a.en --valid b.de b.en --test c.de c.en

      augless trial table1 --small --dry-run
    """
    from augless import reports, trials

    chosen = _chosen(plan, overrides or [], small, {"train": train, "valid": valid, "test": test})
    root = _root(out, chosen)
    jobs = jobs or len(os.sched_getaffinity(0))
    if dry_run:
        with terminal.Progress() as progress:
            expected = trials.forecast(
                chosen,
                root=root,
                records=records,
                jobs=jobs,
                threads=threads,
                device=device,
                progress=progress,
            )
        print(terminal.as_json(_forecast(expected)) if as_json else _listed(expected))
        return
    stop = terminal.Stop()
    stop()  # looked at from here on
    with terminal.Progress() as progress, _Live(progress) as live:
        found = trials.run(
            chosen,
            root=root,
            records=records,
            jobs=jobs,
            threads=threads,
            device=device,
            max_minutes=max_minutes,
            stop=stop,
            on_status=live,
            progress=progress,
        )
    done = [entry for entry in found.entries if entry.record is not None]
    failed = [entry for entry in found.entries if entry.failure is not None]
    if done:
        page = reports.report(found, root / "report")
        _print(found, page, as_json)
    for entry in failed:
        what = f"{entry.method}, seed {entry.seed}, on {entry.corpus}"
        print(f"augless: {what} failed: {entry.failure}", file=sys.stderr)
    if len(done) + len(failed) < len(found.entries):
        why = stop.by or f"{max_minutes:g} minutes"
        left = len(found.entries) - len(done) - len(failed)
        print(
            f"augless: stopped ({why}) with {left} of {len(found.entries)} runs to go\n"
            "the same command goes on from there",
            file=sys.stderr,
        )
        raise SystemExit(terminal.STOPPED)


def report(
    plan: PlanName = None,
    overrides: options.Overrides = None,
    small: Small = False,
    out: Out = Path("trials"),
    records: Records = None,
    train: Files = None,
    valid: Files = None,
    test: Files = None,
    as_json: options.Json = False,
) -> None:
    """Write the page of a trial from what its runs have left, without running anything.

    Examples:

      augless report demo

      augless report table1 --small --records records
    """
    from augless import recipes, reports, trials

    chosen = _chosen(plan, overrides or [], small, {"train": train, "valid": valid, "test": test})
    root = _root(out, chosen)
    found = trials.collect(chosen, root=root, records=records)
    if not any(entry.record is not None for entry in found.entries):
        raise recipes.BadRecipe(
            f"no run of {chosen.name} is done below {root}; start augless trial"
        )
    _print(found, reports.report(found, root / "report"), as_json)


def _chosen(
    plan: str | None,
    overrides: list[str],
    small: bool,
    files: dict[str, tuple[Path, Path] | None],
) -> trials.Plan:
    from augless import recipes, trials
    from augless.recipes.reading import written_values

    given = {split: pair for split, pair in files.items() if pair is not None}
    if plan is not None and "=" in plan:  # no plan, and a change right away
        overrides, plan = [plan, *overrides], None
    if plan is not None:
        if given:
            raise recipes.BadRecipe("give a plan or your own files, not both")
        return trials.Plan.load(plan, overrides, small=small)
    if len(given) < len(files):
        raise recipes.BadRecipe(
            "give a plan, or all of --train, --valid and --test with two files each\n"
            f"plans: {', '.join(trials.shipped())}"
        )
    languages = tuple(_ending(path) for path in given["train"])
    return trials.own(
        train=given["train"],
        valid=given["valid"],
        test=given["test"],
        languages=(languages[0], languages[1]),
        overrides=written_values(overrides),
    )


def _ending(path: Path) -> str:
    """Return what the name of a file says of its language, such as de of train.de.gz."""
    name = path.name
    for form in (".gz", ".xz", ".zst"):
        name = name.removesuffix(form)
    return Path(name).suffix.removeprefix(".") or "text"


def _root(out: Path, plan: trials.Plan) -> Path:
    return out / (f"{plan.name}-small" if plan.small else plan.name)


def _print(found: trials.Trial, page: Path, as_json: bool) -> None:
    from augless import reports

    if as_json:
        rows: list[Any] = [
            {
                "corpus": entry.corpus,
                "method": entry.method,
                "seed": entry.seed,
                "scores": entry.record.scores if entry.record else None,
                "failure": entry.failure,
            }
            for entry in found.entries
        ]
        print(terminal.as_json({"page": str(page), "runs": rows, "chosen": found.chosen}))
        return
    print(reports.text(found))
    print(page)


def _forecast(expected: trials.Forecast) -> dict[str, Any]:
    runs = [
        {
            "command": run.job.command,
            "corpus": run.job.corpus,
            "method": run.job.method,
            "seed": run.job.seed,
            "purpose": run.job.purpose,
            "seconds": run.seconds,
            "done": run.share,
        }
        for run in expected.runs
    ]
    return {"runs": runs, "seconds": expected.seconds, "jobs": expected.jobs}


def _listed(expected: trials.Forecast) -> str:
    rows = [["corpus", "method", "seed", "for", "minutes", ""]]
    for run in expected.runs:
        minutes = "?" if run.seconds is None else f"{run.seconds / 60:.1f}"
        state = "done" if run.share == 1 else f"{run.share:.0%} done" if run.share else run.note
        job = run.job
        rows.append([job.corpus, job.method, str(job.seed), job.purpose, minutes, state])
    measured = [
        f"measured: {name}: {one.step:.2f} s a step ({one.steps} steps)"
        for name, one in expected.measured.items()
    ]
    total = f"{len(expected.runs)} runs, {expected.jobs} at once: {_duration(expected.seconds)}"
    return "\n".join([terminal.table(rows, left=4), *measured, total])


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


class _Live:
    """What runs, what is left, how long, and the best so far: kept up to date on stderr."""

    def __init__(self, progress: terminal.Progress) -> None:
        self._progress, self._spoken, self._said = progress, 0.0, ""
        self._live: Any = None

    def __enter__(self) -> _Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, status: trials.Status) -> None:
        lines = _status(status)
        if sys.stderr.isatty():
            if self._live is None:
                from rich.console import Console
                from rich.live import Live

                self._progress.hide()
                self._live = Live(console=Console(stderr=True), auto_refresh=False)
                self._live.start()
            from rich.text import Text

            self._live.update(Text("\n".join(lines)), refresh=True)
        elif time.monotonic() - self._spoken > _SPEAK or status.done == status.total:
            said = "; ".join(lines)
            if said != self._said:
                print(said, file=sys.stderr, flush=True)
            self._spoken, self._said = time.monotonic(), said


def _status(status: trials.Status) -> list[str]:
    eta = "" if status.eta is None else f", {_duration(status.eta)} to go"
    failed = f", {status.failed} failed" if status.failed else ""
    lines = [f"{status.done} of {status.total} runs done{failed}{eta}"]
    for run in status.running:
        score = "" if run.score is None else f", {run.score_name} {run.score:.2f}"
        job = run.job
        where = f"epoch {run.epoch} of {run.epochs}" if run.epoch else "starting"
        lines.append(f"  {job.method} on {job.corpus}, seed {job.seed}: {where}{score}")
    for corpus, (job, best) in status.best.items():
        lines.append(f"  best so far on {corpus}: {job.method}, {best:.2f}")
    return lines
