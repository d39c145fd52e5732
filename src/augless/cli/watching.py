"""What a trial says of its runs: beforehand, while they go on, and of those that failed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from augless.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from augless import trials

_SPEAK = 30.0  # seconds between two lines where there is no terminal
_LONGEST = 200  # characters of a reason; the whole of it is in a log


class Live:
    """What runs, what is left, how long, and the best so far: kept up to date on stderr."""

    def __init__(self, progress: terminal.Progress, metric: str) -> None:
        self.last: trials.Status | None = None
        self._progress, self._metric = progress, metric
        self._spoken, self._said, self._alarm = 0.0, "", ""
        self._live: Any = None

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, status: trials.Status) -> None:
        """Show how far the trial is."""
        self.last = status
        lines = [terminal.visible(line) for line in _status(status, self._metric)]
        if status.alarm and not self._alarm:  # at once, and once
            self._alarm = terminal.visible(f"augless: {status.alarm}")
            if self._live is None:
                print(self._alarm, file=sys.stderr, flush=True)
            else:
                self._live.console.print(self._alarm, markup=False, highlight=False)
        if sys.stderr.isatty():
            self._show("\n".join(lines))
        elif time.monotonic() - self._spoken > _SPEAK or _over(status):
            said = "; ".join(line.strip() for line in lines)
            if said != self._said:
                print(said, file=sys.stderr, flush=True)
            self._spoken, self._said = time.monotonic(), said

    def _show(self, text: str) -> None:
        """Put a text in the place of the one that a terminal shows."""
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._progress.hide()
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(Text(text), refresh=True)


def _status(status: trials.Status, metric: str) -> list[str]:
    from augless.reports import words

    failed = f", {status.failed} failed" if status.failed else ""
    lines = [f"{status.done} of {status.total} runs done{failed}"]
    if status.eta is not None and not _over(status):
        left = "under a minute" if status.eta < 60 else words.duration(status.eta)
        lines[0] += f", {left} to go"
    for run in status.running:
        score = "" if run.score is None else f", {run.score_name} {run.score:.2f}"
        job = run.job
        who = f"{_named(job)} on {job.corpus}, seed {job.seed}" if job.method else job.corpus
        lines.append(f"  {who}: {run.stage}{score}")
    for corpus, (job, best) in status.best.items():
        lines.append(f"  best so far on {corpus}: {_named(job)}, {metric} {best:.2f} (validation)")
    return lines


def _over(status: trials.Status) -> bool:
    return status.done + status.failed == status.total


def _named(job: trials.Job) -> str:
    tried = _tried(job)
    return f"{job.method} ({tried})" if tried else job.method


def _tried(job: trials.Job) -> str:
    from augless.recipes import reading
    from augless.trials import spelling

    return spelling.shortened(reading.written_values(job.tried))


def forecast(expected: trials.Forecast) -> dict[str, Any]:
    """Return a forecast for another program."""
    parts = ("command", "corpus", "method", "seed", "purpose", "tried")
    runs = [
        {part: getattr(run.job, part) for part in parts}
        | {"seconds": run.seconds, "done": run.share, "note": run.note}
        for run in expected.runs
    ]
    return {"runs": runs, "seconds": expected.seconds, "jobs": expected.jobs}


def listed(expected: trials.Forecast) -> str:
    """Return a forecast for a reader."""
    from augless.reports.words import duration

    rows = [["corpus", "method", "seed", "for", "with", "", "time"]]
    for run in expected.runs:
        job = run.job
        spent = "?" if run.seconds is None else duration(run.seconds) if run.seconds else ""
        row = [job.corpus, job.method, str(job.seed), job.purpose, _tried(job)]
        rows.append([*row, _cut(run.note, 60), spent])
    measured = [
        f"measured: {name}: {one.step:.2g} s a step ({one.steps} steps), "
        f"{one.fixed:.1f} s to start and save"
        for name, one in expected.measured.items()
    ]
    whole = [f"about {duration(expected.seconds)}"] if expected.seconds else []
    if unknown := sum(run.seconds is None for run in expected.runs):
        whole.append(f"{unknown} could not be measured")
    total = f"{len(expected.runs)} runs, {expected.jobs} at once: {', '.join(whole) or 'all done'}"
    return "\n".join([terminal.table(rows, left=6), *measured, total])


def failures(trial: trials.Trial) -> Iterator[str]:
    """Yield a line for every combination and every method that failed, with its seeds."""
    from augless.trials import spelling

    for method, corpora in trial.chosen.items():
        for corpus, choice in corpora.items():
            for tried in choice.failed:
                what = f"{method} with {spelling.shortened(tried.values)}, on {corpus}"
                yield f"tuning {what} failed: {_cut(str(tried.failure))}"
    seeds: dict[tuple[str, str, str], list[str]] = {}
    for entry in trial.entries:
        if entry.failure is not None:
            key = (entry.method, entry.corpus, _cut(str(entry.failure)))
            seeds.setdefault(key, []).append(str(entry.seed))
    for (method, corpus, why), numbers in seeds.items():
        seed = "seed" if len(numbers) == 1 else "seeds"
        yield f"{method}, {seed} {', '.join(numbers)}, on {corpus} failed: {why}"


def _cut(reason: str, longest: int = _LONGEST) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
