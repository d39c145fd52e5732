"""What every verb does at a terminal: progress, tables, stopping."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from augless import storage
from augless.errors import STOPPED, Stopped

if TYPE_CHECKING:
    from augless.recipes.reading import Origin

_LONGEST = 1_000  # characters of a line of a message


class Progress:
    """Progress on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

    def __enter__(self) -> Progress:
        self._said, self._spoken = "", 0.0
        self._tasks: dict[str, Any] = {}
        self._drawn: Any = None  # on a terminal: a bar, or lines that are kept up to date
        if sys.stderr.isatty():
            from rich import console, progress

            words = progress.TextColumn("{task.description}", markup=False)
            columns = (words, progress.BarColumn(), progress.TaskProgressColumn())
            left, screen = progress.TimeRemainingColumn(), console.Console(stderr=True)
            self._drawn = progress.Progress(*columns, left, console=screen)
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Say how far a stage is."""
        stage = visible(stage)
        if self._drawn is None:
            share = f": {done / total:.0%}" if total else ""
            if stage != self._said or time.monotonic() - self._spoken > 10:
                print(f"{stage}{share}", file=sys.stderr, flush=True)
                self._said, self._spoken = stage, time.monotonic()
            return
        if stage not in self._tasks:
            # Drawn at once, however short the stage.
            self._tasks[stage] = self._drawn.add_task(stage, total=total, completed=done)
        self._drawn.update(self._tasks[stage], completed=done, total=total)

    def show(self, lines: Sequence[str], now: bool = False) -> None:
        """Keep lines up to date in the place of the bar; elsewhere say them now, or at times."""
        if self._drawn is None:
            said = "; ".join(visible(line).strip() for line in lines)
            if now or time.monotonic() - self._spoken > 30:
                if said != self._said:
                    print(said, file=sys.stderr, flush=True)
                self._said, self._spoken = said, time.monotonic()
            return
        from rich import live, text

        if not isinstance(self._drawn, live.Live):
            self._drawn.stop()
            self._drawn = live.Live(console=self._drawn.console, auto_refresh=False)
            self._drawn.start()
        self._drawn.update(text.Text(visible("\n".join(lines))), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above what is drawn."""
        line = visible(line)
        if self._drawn is not None:
            self._drawn.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Show progress of work that cannot say how far it is."""
    with Progress() as progress:
        progress(name, 0, None)
        yield
        progress(name, 1, 1)


def stopped(why: str, where: str = "") -> Stopped:
    """Say of work that can be resumed why it ended, and how far it is."""
    return Stopped(f"stopped ({why}){where}\nrun the same command to resume")


class Stop:
    """Notes a signal to stop; work that looks here saves and ends, other work ends at once.

    Signals are taken from `listen` on, or from the first look, to the end of a `with`.
    """

    def __init__(self) -> None:
        self.by = ""
        self._heeded = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Tell whether to stop; whoever asks once promises to ask again."""
        self.listen()
        self._heeded = True
        return bool(self.by)

    def listen(self) -> Stop:
        """Take the signals from here on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            if number not in self._before:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:  # from here on, signals do what they did before
            signal.signal(*self._before.popitem())

    def _note(self, number: int, _: object) -> None:
        again, self.by = bool(self.by), signal.Signals(number).name
        if again or not self._heeded:  # a second time, or nobody looks: at once
            self._say("ending; run the same command to resume")
            raise SystemExit(STOPPED)
        self._say("saving after this step")

    def _say(self, what: str) -> None:
        # Not print: the signal may have come in the middle of one.
        os.write(2, f"augless: {self.by}: {what}\n".encode())


def visible(text: str) -> str:
    """Spell out characters that could control a terminal; line feeds and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def say(what: object) -> None:
    """Print a message on stderr, whatever the files had that it speaks of; long lines are cut."""
    lines = visible(f"augless: {what}").split("\n")
    cut = (line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..." for line in lines)
    print("\n".join(cut), file=sys.stderr)


def table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Align rows in columns, the first ones to the left and the others to the right."""
    from augless.reports import exports

    return "\n".join(exports.aligned(rows, left))


def result(for_program: bool, value: Any, text: Callable[[], str]) -> None:
    """Print a result on stdout: as JSON for another program, or its text for a reader."""
    print(as_json(value) if for_program else visible(text()), flush=True)


def as_json(value: Any) -> str:
    """Spell a value without characters that could control a terminal; a dataclass as its fields."""
    spelt = json.dumps(value, ensure_ascii=False, default=_plain)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in spelt)


def _plain(value: Any) -> Any:
    return vars(value) if dataclasses.is_dataclass(value) else str(value)


def print_recipe(origins: Mapping[str, tuple[Any, Origin]], *, verbose: bool) -> None:
    """Print what a recipe sets and where each value came from; the defaults too if verbose."""
    given = {k: v for k, v in origins.items() if verbose or v[1] != "default"}
    for key, (value, origin) in given.items():
        print(f"  {key} = {value!r}  ({origin})", file=sys.stderr)
    if hidden := len(origins) - len(given):
        print(f"  and {hidden} defaults, which --verbose shows", file=sys.stderr)


def print_next(*command: object) -> None:
    """Print what can be done next, on stderr: what is on stdout is for scripts."""
    print(visible(f"next: {shlex.join(map(str, command))}"), file=sys.stderr)


def check_output(path: Path | None) -> None:
    """Refuse, before any work, a file that cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it")
    folder = storage.target(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; make it first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written; name another file")


@contextlib.contextmanager
def output(path: Path | None) -> Iterator[IO[str]]:
    """Open standard output, or a file that appears when it is whole."""
    check_output(path)
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not path.is_file():  # a pipe or a device cannot be put in place
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with storage.replacing(storage.target(path)) as raw:  # of a link, what it points at
        file = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        try:
            yield file
        finally:
            file.detach()  # flushes; whoever opened it closes it
