"""One verb per step; the only module that knows all the others."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from augless import corpora, data, recipes

USAGE, BAD_DATA, IO_ERROR = 2, 3, 5

app = typer.Typer(
    add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback()
def root() -> None:
    """Train text-generation models as if their data had been augmented, without augmented data."""


@app.command()
def prepare(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe's name, or a .toml file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What to change in it.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where prepared corpora are kept.")] = Path("data"),
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Turn raw parallel text into checked, binarised data.

    Examples:

      augless prepare toy-de-en

      augless prepare multi30k-de-en corpus.path=downloads/multi30k --workers 2

      augless prepare files corpus.path=mine corpus.languages='["de", "en"]' text.lowercase=true
    """
    resolved = recipes.load(recipe, overrides or [])
    with _Progress() as progress:
        prepared = data.prepare(
            resolved.recipe.corpus,
            resolved.recipe.text,
            out,
            name=resolved.name,
            workers=workers,
            progress=progress,
        )
    if as_json:
        print(json.dumps({"folder": str(prepared.folder), **prepared.manifest}, ensure_ascii=False))
        return
    for key, (value, origin) in resolved.origins.items():
        print(f"  {key} = {value!r}  ({origin})", file=sys.stderr)
    print(summary(prepared))


def summary(prepared: data.Prepared) -> str:
    """Say in a few lines what a prepared corpus holds."""
    manifest = prepared.manifest
    lines = [f"{'split':<8} {'pairs':>9} {'source ids':>12} {'target ids':>12} {'unknown':>17}"]
    for split, numbers in manifest["statistics"].items():
        source, target = numbers["source"], numbers["target"]
        unknown = f"{source['unknown']:.3%} / {target['unknown']:.3%}"
        lines.append(
            f"{split:<8} {numbers['pairs']:>9,} {source['tokens']:>12,} {target['tokens']:>12,} "
            f"{unknown:>17}"
        )
    for split, numbers in manifest["statistics"].items():
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in numbers["dropped"].items())
        if split == "train" or reasons:
            lines.append(f"{split}: {numbers['read']:,} pairs read; dropped: {reasons or 'none'}")
    shared = manifest["statistics"]["train"]["shared"]
    lines.append(f"training pairs that are in another split too: {shared:,}")
    lines.append(f"vocabulary: {' / '.join(f'{n:,}' for n in manifest['vocabulary'])}")
    pairs = prepared.pairs("train")
    share = data.padding_share(pairs, data.plan(pairs, seed=1, epoch=0, tokens=4096))
    lines.append(f"padding in batches of 4,096 tokens: {share:.1%}")
    lines.append(str(prepared.folder))
    return "\n".join(lines)


class _Progress:
    """Progress on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

    def __enter__(self) -> _Progress:
        self._stage, self._bar, self._spoken = "", None, 0.0
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._bar is not None:
            if stage != self._stage:
                self._task = self._bar.add_task(stage, total=total)
            self._bar.update(self._task, completed=done, total=total)
        elif stage != self._stage or time.monotonic() - self._spoken > 10:
            of = f" of {total:,}" if total else ""
            print(f"{stage}: {done:,}{of}" if done else stage, file=sys.stderr, flush=True)
            self._spoken = time.monotonic()
        self._stage = stage


def main() -> None:
    """Run the command line; a user's mistake is a few lines and an exit code, never a traceback."""
    # As an exception, so that what is half-made is cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except recipes.BadRecipe as error:
        _fail(error, USAGE)
    except (corpora.BadData, data.BadStore) as error:
        _fail(error, BAD_DATA)
    except OSError as error:
        _fail(error, IO_ERROR)


def _fail(error: Exception, code: int) -> None:
    print(f"augless: {error}", file=sys.stderr)
    raise SystemExit(code)
