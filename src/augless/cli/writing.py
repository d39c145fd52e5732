"""The verb generate."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import decoding


def generate(
    run: Annotated[Path, "A run's folder."],
    source: Annotated[str, "A file with one text per line; - is standard input."] = "-",
    overrides: Annotated[
        list[str] | None, "How to search, such as search.size=10.", "[KEY=VALUE]..."
    ] = None,
    *,
    output: Annotated[
        Path | None, "Where to write; else standard output.", "--output", "-o"
    ] = None,
    scores: Annotated[bool, "Write line number, score and text of all search.n_best."] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: Annotated[bool, "Write a JSON object for each line.", "--json"] = False,
) -> None:
    """Write what a trained model answers to each line.

    Examples:

      augless generate runs/toy-de-en-0123456789ab test.de > test.hypotheses.en

      echo "ein Haus" | augless generate runs/toy-de-en-0123456789ab

      augless generate RUN test.de search=sampling search.n_best=3 --scores
    """
    from augless.recipes import following

    overrides = overrides or []
    if "=" in source and not Path(source).exists():  # no file, and a change right away
        source, overrides = "-", [source, *overrides]
    terminal.check_output(output)
    options.set_threads(threads)
    writer = following.writer(run, device, overrides)
    if source == "-" and sys.stdin is not None and sys.stdin.isatty():
        batching = dataclasses.replace(writer.batching, window=1)  # an answer to each line
        writer = dataclasses.replace(writer, batching=batching)
    path = Path(source)
    total = sum(1 for _ in lines(path)) if path.is_file() else None  # a pipe is read once only
    truncated = 0
    with terminal.Progress() as progress, terminal.output(output) as file:
        done = 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            if total is not None:
                progress("generating", done, total)

        answers = writer.texts(lines(path), progress=report)
        for number, texts in enumerate(answers, 1):
            truncated += texts[0].truncated
            for row in _rows(number, texts, scores, as_json):
                file.write(row + "\n")
            if total is None:
                file.flush()  # somebody may be waiting at the other end
    if truncated:
        longest = writer.batching.max_source
        terminal.say(f"{truncated:,} lines were cut at {longest:,} ids")


def _rows(number: int, texts: list[decoding.Text], scores: bool, as_json: bool) -> Iterator[str]:
    if as_json:
        told = ("score", "log_probability", "finished")
        hypotheses = [
            {"text": one.text} | {key: getattr(one.hypothesis, key) for key in told}
            for one in texts
        ]
        yield terminal.as_json({"line": number, "hypotheses": hypotheses})
    elif scores:
        yield from (f"{number}\t{one.hypothesis.score:.6f}\t{one.text}" for one in texts)
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
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file")
    longest = corpora.reading.LONGEST
    for number in itertools.count(1):
        raw = sys.stdin.buffer.readline(longest + 2)  # no more is held, however long the line
        if not raw:
            return
        if len(raw.removesuffix(b"\n")) > longest:
            size = f"{longest >> 20} MiB"
            raise corpora.BadData(f"standard input, line {number}: longer than {size}")
        try:
            line = raw.removesuffix(b"\n").decode()
        except UnicodeDecodeError:
            raise corpora.BadData(f"standard input: line {number} is not UTF-8") from None
        if "\0" in line:
            raise corpora.BadData(f"standard input: line {number} has a NUL character")
        yield line
