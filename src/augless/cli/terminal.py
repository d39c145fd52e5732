"""What every verb does at a terminal: progress, tables, stopping."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from augless import storage
from augless.errors import STOPPED

_LONGEST = 1_000  # characters of a line of a message


class Progress:
    """Progress on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

    def __enter__(self) -> Progress:
        self._stage, self._bar, self._spoken = "", None, 0.0
        self._tasks: dict[str, Any] = {}
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                TaskProgressColumn,
                TextColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
            )
            self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Say how far a stage is."""
        stage = visible(stage)
        if self._bar is not None:
            if stage not in self._tasks:
                # Drawn at once, however short the stage.
                self._tasks[stage] = self._bar.add_task(stage, total=total, completed=done)
            self._bar.update(self._tasks[stage], completed=done, total=total)
        elif stage != self._stage or time.monotonic() - self._spoken > 10:
            share = f": {done / total:.0%}" if total else ""
            print(f"{stage}{share}", file=sys.stderr, flush=True)
            self._spoken = time.monotonic()
        self._stage = stage

    def hide(self) -> None:
        """Take the bar away, for something else to be shown."""
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        line = visible(line)
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Show progress of work that cannot say how far it is."""
    with Progress() as progress:
        progress(name, 0, None)
        yield
        progress(name, 1, 1)


class Stopped(Exception):  # noqa: N818  # named for what it is
    """Work that can be resumed: why it ended, and how far it is."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"stopped ({why}){where}\nthe same command goes on from there")


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
            self._say("ending; the same command goes on")
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
    """Spell a value without characters that could control a terminal."""
    spelt = json.dumps(value, ensure_ascii=False, default=str)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in spelt)


def print_recipe(origins: Mapping[str, tuple[Any, str]], *, verbose: bool) -> None:
    """Print what a recipe sets and where each value came from; the defaults too if verbose."""
    given = {k: v for k, v in origins.items() if verbose or v[1] != "default"}
    for key, (value, origin) in given.items():
        print(f"  {key} = {value!r}  ({origin})", file=sys.stderr)
    if hidden := len(origins) - len(given):
        print(f"  and {hidden} defaults, which --verbose shows", file=sys.stderr)


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
