"""What a trial says of its runs: beforehand, while they go on, and of those that failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from augless.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from augless import trials
    from augless.recipes.reading import Suggestion

_LONGEST = 200  # characters of a reason; the whole of it is in a log


def print_suggested(suggestions: list[Suggestion]) -> None:
    """Print what own files suggest for all methods, a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for one in suggestions:
        reasons.setdefault(one.reason, []).append(f"{one.key} = {one.value}")
    for reason, values in reasons.items():
        print(terminal.visible(f"  {', '.join(values)}  ({reason})"), file=sys.stderr)


class Live:
    """What runs, what is left, how long, and the best so far: kept up to date on stderr."""

    def __init__(self, progress: terminal.Progress, choose: str) -> None:
        self.last: trials.Status | None = None
        self._progress, self._choose, self._alarmed = progress, choose, False

    def __call__(self, status: trials.Status) -> None:
        """Show how far the trial is."""
        self.last = status
        if status.alarm and not self._alarmed:  # at once, and once
            self._progress.say(f"augless: {status.alarm}")
            self._alarmed = True
        self._progress.show(_status(status, self._choose), now=_over(status))

    @property
    def left(self) -> str:
        """How many runs are still to be done."""
        assert self.last is not None  # a trial ends with one
        left = self.last.total - self.last.done - self.last.failed
        return f" with {left} of {self.last.total} runs to go"


def _status(status: trials.Status, choose: str) -> list[str]:
    from augless.reports import words
    from augless.trials import facts

    failed = f", {status.failed} failed" if status.failed else ""
    lines = [f"{status.done} of {status.total} runs done{failed}"]
    if status.eta is not None and not _over(status):
        left = "under a minute" if status.eta < 60 else words.duration(status.eta)
        lines[0] += f", {left} to go"
    for run in status.running:
        unit = " per token" * (run.score_name == "loss")
        score = "" if run.score is None else f", {run.score_name} {run.score:.2f}{unit}"
        job = run.job
        who = f"{_named(job)} on {job.corpus}, seed {job.seed}" if job.method else job.corpus
        who += f", {job.model}" * bool(job.model)
        lines.append(f"  {who}: {run.stage}{score}")
    for corpus, (job, best) in status.best.items():
        score = "loss {:.2f} per sentence" if choose == facts.LOSS else f"{choose} {{:.2f}}"
        said = f"{_named(job)}, {score.format(best)} (validation)"
        lines.append(f"  best so far on {corpus}: {said}")
    return lines


def _over(status: trials.Status) -> bool:
    return status.done + status.failed == status.total


def _named(job: trials.Job) -> str:
    from augless.trials import spelling

    return f"{job.method} ({spelling.shortened(job.tried)})" if job.tried else job.method


def forecast(expected: trials.Forecast) -> dict[str, Any]:
    """Return a forecast for another program."""
    from augless.trials import spelling

    parts = ("command", "corpus", "method", "seed")
    runs = [
        {part: getattr(run.job, part) for part in parts}
        | {"purpose": run.job.model or run.job.purpose, "tried": spelling.written(run.job.tried)}
        | {"seconds": run.seconds, "done": run.share, "note": run.note}
        for run in expected.runs
    ]
    return {"runs": runs, "seconds": expected.seconds, "jobs": expected.jobs}


def listed(expected: trials.Forecast) -> str:
    """Return a forecast for a reader."""
    from augless.reports.words import duration
    from augless.trials import spelling

    rows = [["corpus", "method", "seed", "for", "with", "", "time"]]
    for run in expected.runs:
        job = run.job
        spent = "?" if run.seconds is None else duration(run.seconds) if run.seconds else ""
        row = [job.corpus, job.method, str(job.seed), job.model or job.purpose]
        rows.append([*row, spelling.shortened(job.tried), _cut(run.note, 60), spent])
    measured = [
        f"measured: {name}: {one.step:.2g} s a step ({one.steps} steps), "
        f"{one.fixed:.1f} s to start and save"
        for name, one in expected.measured.items()
    ]
    whole = [f"about {duration(expected.seconds)}"] if expected.seconds else []
    if unknown := sum(run.seconds is None for run in expected.runs):
        whole.append(f"{unknown} could not be measured")
    left, of = sum(run.seconds != 0 for run in expected.runs), len(expected.runs)
    runs = f"{left} of {of} runs to go" if 0 < left < of else f"{of} runs"
    total = f"{runs}, {expected.jobs} at once: {', '.join(whole) or 'all done'}"
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
