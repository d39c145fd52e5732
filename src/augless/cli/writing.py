"""The verb generate."""

from __future__ import annotations

import dataclasses
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
    scores: Annotated[
        bool, "Write line number, score and text, in search.n_best lines per line."
    ] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: Annotated[bool, "Write a JSON object for each line.", "--json"] = False,
) -> None:
    """Write what a trained model answers, a line for each line.

    Examples:

      augless generate runs/toy-de-en-0123456789ab test.de > test.hypotheses.en

      echo "ein Haus" | augless generate runs/toy-de-en-0123456789ab

      augless generate RUN test.de search=sampling search.n_best=3 --scores
    """
    from augless.corpora import reading
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
    # A pipe is read once only.
    total = sum(1 for _ in reading.lines(path)) if path.is_file() else None
    truncated, more = 0, 1
    with terminal.Progress() as progress, terminal.output(output) as file:
        done = 0

        def report(lines: int) -> None:
            nonlocal done
            done += lines
            if total is not None:
                progress("generating", done, total)

        answers = writer.texts(reading.lines(path), progress=report)
        for number, texts in enumerate(answers, 1):
            truncated, more = truncated + texts[0].truncated, max(more, len(texts))
            for row in _rows(number, texts, scores, as_json):
                file.write(row + "\n")
            if total is None:
                file.flush()  # somebody may be waiting at the other end
    if more > 1 and not scores and not as_json:
        terminal.say(f"the best of {more} answers to each line was written; --scores writes all")
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
