"""Raw text to ids: our prepare against a sacremoses + subword-nmt script, one process each.

    python bench/prepare.py --data FOLDER --languages de,en [--lines N]
    python bench/prepare.py --million      # a million generated pairs: peak memory, two workers

FOLDER holds train.de(.gz), train.en(.gz) and so on. Both sides tokenise by Moses' rules, learn
joint subwords of the same size and write ids; each runs in a process of its own, imports included.
Goals: at least 5 times faster; near-linear with two workers; a million pairs in under 1.5 GB.
"""

import argparse
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from augless import corpora

SIZE = 10_000
ROUNDS = 3
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def peer(folder: Path, languages: tuple[str, str]) -> None:
    """Do the same with sacremoses and subword-nmt, as their documentation has it."""
    import io

    import numpy as np
    from sacremoses import MosesTokenizer
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    tokenised = []
    for language in languages:
        tokenizer = MosesTokenizer(language)
        with (folder / f"train.{language}").open(encoding="utf-8", newline="\n") as lines:
            found = [tokenizer.tokenize(line, return_str=True, escape=False) for line in lines]
        (folder / f"tok.{language}").write_text("\n".join(found) + "\n", encoding="utf-8")
        tokenised.append(found)
    codes = io.StringIO()
    learn_bpe(itertools.chain(*tokenised), codes, SIZE)
    codes.seek(0)
    bpe = BPE(codes)
    vocabulary: dict[str, int] = {}
    for language, lines in zip(languages, tokenised, strict=True):
        ids = [
            [
                vocabulary.setdefault(piece, len(vocabulary))
                for piece in bpe.process_line(line).split()
            ]
            for line in lines
        ]
        np.save(
            folder / f"ids.{language}.npy", np.concatenate([np.array(i, np.int32) for i in ids])
        )


def timed(*command: str) -> tuple[float, float]:
    """Return the seconds a command took, and the peak memory of any process so far in MB."""
    start = time.perf_counter()
    subprocess.run(command, check=True, **QUIET)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return time.perf_counter() - start, peak


def ours(folder: Path, languages: str, out: str, workers: int) -> tuple[str, ...]:
    verb = (sys.executable, "-m", "augless", "prepare", "files", f"corpus.path={folder}")
    knobs = (f"corpus.languages={languages}", "corpus.empty=drop", f"text.vocabulary.size={SIZE}")
    return (*verb, *knobs, "--out", out, "--workers", str(workers))


def speed(data: Path, languages: str, lines: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pair = tuple(languages.split(","))
        corpus = corpora.CORPORA["files"](path=data, languages=pair, empty="drop")
        files = [(folder / f"train.{x}").open("w", encoding="utf-8", newline="\n") for x in pair]
        count = 0
        for entry in itertools.islice(corpus.pairs("train"), lines):
            for file, line in zip(files, (entry.source, entry.target), strict=True):
                file.write(line + "\n")
            count += 1
        for file in files:
            file.close()
        sides = {
            "sacremoses + subword-nmt": lambda _: (
                sys.executable, __file__, "--peer", str(folder), "--languages", languages
            ),
            "augless": lambda n: ours(folder, languages, f"{folder}/one-{n}", 1),
            "augless, 2 workers": lambda n: ours(folder, languages, f"{folder}/two-{n}", 2),
        }  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(ROUNDS):
            for name, command in sides.items():
                times[name].append(timed(*command(number))[0])
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"{count:,} pairs, {languages}, {SIZE:,} subwords")
    print(f"{'':<26} {'seconds':>8} {'x peer':>8}")
    for name, seconds in median.items():
        print(f"{name:<26} {seconds:>8.2f} {median['sacremoses + subword-nmt'] / seconds:>8.2f}")


def million() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sentences = list(corpora.CORPORA["toy-de-en"](train=20_000).pairs("train"))
        files = [(folder / f"train.{x}").open("w", encoding="utf-8") for x in ("de", "en")]
        for number in range(1_000_000):
            entry = sentences[number % len(sentences)]
            # a rare word in every fifth pair: a vocabulary that grows with the corpus, as real ones
            rare = f" {number:x}" if number % 5 == 0 else ""
            for file, line in zip(files, (entry.source, entry.target), strict=True):
                file.write(line + rare + "\n")
        for file in files:
            file.close()
        times: dict[int, list[float]] = {1: [], 2: []}
        at_once: list[float] = []
        written = set()
        for number in range(ROUNDS):  # in turns, so that what else the machine does is shared
            for workers, seconds in times.items():
                out = folder / f"out-{workers}-{number}"
                spent, peak = timed(*ours(folder, "de,en", str(out), workers))
                seconds.append(spent)
                (store,) = out.iterdir()
                manifest = json.loads((store / "manifest.json").read_bytes())
                written.add(json.dumps(manifest["files"]))
                print(
                    f"{manifest['splits']['train']:,} pairs, {workers} workers: {spent:.0f} s, "
                    f"peak so far {peak:,.0f} MB, load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
                shutil.rmtree(out)
            # What two cores give two processes that share nothing: no number of workers beats it.
            outs = [folder / f"out-{x}-{number}" for x in ("a", "b")]
            start = time.perf_counter()
            both = [subprocess.Popen(ours(folder, "de,en", str(o), 1), **QUIET) for o in outs]
            for process in both:
                process.wait()
            at_once.append(time.perf_counter() - start)
            for out in outs:
                shutil.rmtree(out)
        one, two = (statistics.median(seconds) for seconds in times.values())
        most = 2 * one / statistics.median(at_once)
        same = "the same bytes" if len(written) == 1 else "DIFFERENT BYTES"
        print(f"medians {one:.0f} s and {two:.0f} s: {one / two:.2f}x with two workers, {same}")
        print(f"two of them at once, independent of each other: {most:.2f}x on this machine")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure prepare.")
    parser.add_argument("--data", type=Path, help="folder with train.de(.gz) and so on")
    parser.add_argument("--languages", default="de,en")
    parser.add_argument("--lines", type=int, default=30_000)
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--million", action="store_true", help="a million pairs: memory, workers")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if arguments.peer:
        peer(arguments.peer, tuple(arguments.languages.split(",")))
    elif arguments.million:
        million()
    elif arguments.data:
        speed(arguments.data, arguments.languages, arguments.lines)
    else:
        print("bench/prepare: give --data FOLDER for the speed; a million pairs only")
        million()


if __name__ == "__main__":
    main()
