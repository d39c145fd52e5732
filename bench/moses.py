"""Time our tokeniser against sacremoses on the same lines, and the whole path from text to ids.

    python bench/moses.py --data FILE.gz --language de

All figures are lines per second of processor time, in one process. The two tokenisers take turns,
so that a busy machine slows both; medians are printed. `first` starts with nothing remembered,
`again` is a second pass over the same lines.
"""

import argparse
import gzip
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import sacremoses

from augless import corpora, text


def lines_per_second(work: Callable[[], object], lines: int) -> float:
    start = time.process_time()
    work()
    return lines / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="text, one line each, .gz or not; else generated")
    parser.add_argument("--language", default="en", help="code of its language")
    parser.add_argument("--lines", type=int, default=20_000, help="take at most so many lines")
    parser.add_argument("--rounds", type=int, default=5, help="turns each tokeniser takes")
    parser.add_argument("--size", type=int, default=10_000, help="ids of the subword vocabulary")
    options = parser.parse_args()

    if options.data:
        raw = options.data.read_bytes()
        raw = gzip.decompress(raw) if options.data.suffix == ".gz" else raw
        lines = raw.decode("utf-8").removesuffix("\n").split("\n")[: options.lines]
    else:
        toy = corpora.CORPORA["toy-de-en"](train=options.lines)
        lines = [pair.target for pair in toy.pairs("train")]
    reference = sacremoses.MosesTokenizer(options.language)
    theirs, first, again, encode_first, encode_again = ([] for _ in range(5))

    def by_sacremoses() -> list[str]:
        return [" ".join(reference.tokenize(line, escape=False)) for line in lines]

    tokeniser = text.Tokeniser(options.language)
    learning = time.process_time()
    vocabulary = text.Subwords(options.size).learn(tokeniser.count(lines))
    learning = time.process_time() - learning
    for _ in range(options.rounds):
        ours = text.Moses(options.language)
        codec = text.Codec(tokeniser, vocabulary)
        for rates, work in (
            (theirs, by_sacremoses),
            (first, lambda ours=ours: list(map(ours.tokenise, lines))),
            (again, lambda ours=ours: list(map(ours.tokenise, lines))),
            (encode_first, lambda codec=codec: codec.encode_flat(lines)),
            (encode_again, lambda codec=codec: codec.encode_flat(lines)),
        ):
            rates.append(lines_per_second(work, len(lines)))

    different = sum(a != b for a, b in zip(by_sacremoses(), map(ours.tokenise, lines), strict=True))
    slow = statistics.median(theirs)
    source = options.data.name if options.data else "generated text"
    print(f"{source}: {len(lines)} lines, {different} of them tokenised differently")
    print(f"{'sacremoses':>22} {slow:>10,.0f} lines/s")
    for name, rates in (
        ("tokenise, first", first),
        ("tokenise, again", again),
        ("text to ids, first", encode_first),
        ("text to ids, again", encode_again),
    ):
        rate = statistics.median(rates)
        print(f"{name:>22} {rate:>10,.0f} lines/s {rate / slow:>7.1f} x")
    print(f"{'count and learn':>22} {learning:>10.2f} s for {len(vocabulary)} ids")


if __name__ == "__main__":
    main()
