"""The verb generate."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import decoding


def generate(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    source: Annotated[
        Path, typer.Argument(help="A file with one text per line; - is standard input.")
    ] = Path("-"),
    overrides: options.Overrides = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; else standard output.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write score, tab, text; all of search.n_best.")
    ] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each line.")
    ] = False,
) -> None:
    """Write what a trained model answers to each line, in the order of the lines.

    Examples:

      augless generate runs/toy-de-en-0123456789ab test.de > test.hypotheses.en

      echo "ein Haus" | augless generate runs/toy-de-en-0123456789ab

      augless generate RUN test.de search=sampling search.temperature=0.8 search.n_best=3 --scores
    """
    from augless.recipes import following

    options.set_threads(threads)
    writer = following.writer(run, device, overrides or [])
    if str(source) == "-" and sys.stdin.isatty():  # an answer to each line, not to 2,000
        writer = dataclasses.replace(
            writer, batching=dataclasses.replace(writer.batching, window=1)
        )
    total = None if str(source) == "-" else sum(1 for _ in lines(source))
    truncated = 0
    with terminal.Progress() as progress, terminal.output(output) as file:
        done = 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            if total is not None:
                progress("generating", done, total)

        for texts in writer.texts(lines(source), progress=report):
            truncated += texts[0].truncated
            for row in _rows(texts, scores, as_json):
                file.write(row + "\n")
            if total is None:
                file.flush()  # somebody may be waiting at the other end
    if truncated:
        longest = writer.batching.max_source
        print(f"augless: {truncated:,} lines were cut at {longest:,} ids", file=sys.stderr)


def _rows(texts: list[decoding.Text], scores: bool, as_json: bool) -> Iterator[str]:
    if as_json:
        yield terminal.as_json(
            [
                {
                    "text": one.text,
                    "score": one.hypothesis.score,
                    "log_probability": one.hypothesis.log_probability,
                    "finished": one.hypothesis.finished,
                }
                for one in texts
            ]
        )
    elif scores:
        yield from (f"{one.hypothesis.score:.6f}\t{one.text}" for one in texts)
    else:
        yield texts[0].text


def lines(path: Path) -> Iterator[str]:
    """Read the lines of a file, or of standard input as they come; only LF ends a line."""
    from augless import corpora

    if str(path) != "-":
        corpora.reading.check(path)
        for block in corpora.reading.blocks(path, corpora.Tally()):
            yield from block
        return
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            yield raw.removesuffix(b"\n").decode()
        except UnicodeDecodeError:
            raise corpora.BadData(f"standard input: line {number} is not UTF-8") from None
