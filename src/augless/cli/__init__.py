"""One verb per step; the only module that knows all the others.

A verb imports what it needs when it is called, so that help answers at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Annotated, TextIO

import typer

from augless.cli import (
    augmenting,
    describing,
    options,
    preparing,
    scoring,
    surveying,
    terminal,
    training,
    trying,
    writing,
)
from augless.errors import BUG, code_of

app = typer.Typer(
    add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"augless {metadata.version('augless')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train text-generation models as if their data had been augmented, without augmented data.

    Examples:

      augless train toy-de-en

      augless generate runs/RUN input.de > output.en

      augless score output.en -r reference.en

      augless trial --train a.de a.en --valid b.de b.en --test c.de c.en
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":  # as torchrun sets it: each would do all of it
        from augless import recipes

        raise recipes.BadRecipe(
            "augless does not yet share its work among processes (data parallel)\n"
            "start it once, without torchrun; --threads uses more cores"
        )


options.verb(app)(preparing.prepare)
options.verb(app)(augmenting.augment)
options.verb(app)(augmenting.neighbours)
options.verb(app)(training.train)
options.verb(app)(writing.generate)
options.verb(app)(scoring.score)
options.verb(app)(trying.trial)
options.verb(app)(trying.report)
app.add_typer(surveying.app, name="survey")
options.verb(app, "list")(describing.list_)
options.verb(app)(describing.doctor)


def main() -> None:
    """Run the command line; a user's mistake is a few lines and an exit code, never a traceback."""
    # As an exception, so that what is half-made is cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # Closed by whoever called: then nobody reads, and no file of ours may get the number 0, 1 or 2.
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    sys.stdout, sys.stderr = (stream or _nowhere() for stream in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        try:
            app()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # which typer takes for a failure
                raise end.__context__ from None
            print(end="", flush=True)  # not at exit, where a reader that is gone is complained of
            raise
    except BrokenPipeError:
        # Nobody reads any more: end without a word, with the code of the signal that would have
        # ended us if Python did not ignore it.
        with _nowhere() as nowhere:
            for number in (1, 2):
                os.dup2(nowhere.fileno(), number)
        raise SystemExit(128 + signal.SIGPIPE) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except Exception as error:
        code = code_of(error)
        if code == BUG:  # say where
            raise
        terminal.say(error)
        raise SystemExit(code) from None


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - has no path
