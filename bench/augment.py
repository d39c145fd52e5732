"""Time masked-LM augmentation against nlpaug, and back-translation against generate.

    python -m venv peer && peer/bin/pip install torch nlpaug 'transformers<5'
    python bench/augment.py --peer peer/bin/python [--data FILE.gz] [--lines 5000]

The same small BERT, trained for a moment on the lines and saved, rewrites 15 % of the words of the
same sentences, drawing among 10: here, and by nlpaug's ContextualWordEmbsAug under the interpreter
`--peer` (an environment with nlpaug and transformers 4: with 5 it does not work). Each turn is a
process of its own on one thread, and they take turns, so that a busy machine slows both. Counted is
processor time from texts to texts, without imports and loading. nlpaug is given the batch size, of
two, that is kinder to it. Then back-translation and `generate` write the same sentences with the
same run, in turns too. Medians and ratios are printed.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RATE, TOP_K = 0.15, 10


def by_nlpaug(model: Path, lines: list[str], batch: int) -> tuple[float, list[str]]:
    import nlpaug.augmenter.word as words
    import torch

    torch.set_num_threads(1)
    augmenter = words.ContextualWordEmbsAug(
        model_path=str(model),
        model_type="bert",
        action="substitute",
        aug_p=RATE,
        aug_min=1,
        aug_max=None,
        top_k=TOP_K,
        batch_size=batch,
        device="cpu",
    )
    return timed(lambda: augmenter.augment(lines))


def by_us(model: Path, lines: list[str], batch: int) -> tuple[float, list[str]]:
    import torch

    from augless import augmentation, corpora
    from augless.augmentation import making
    from augless.augmentation.augmenter import Line

    torch.set_num_threads(1)
    chosen = augmentation.MaskedLm(model=str(model), rate=RATE, top_k=TOP_K, batch=batch)
    here = Path()
    corpus = corpora.CORPORA["toy-de-en"](train=1)
    context = augmentation.Context(corpus=corpus, seed=1, work=here, cache=here, device="cpu")
    with chosen.open(context) as rewrite:

        def work() -> list[str]:
            numbered = [Line(line, (1, place, 0)) for place, line in enumerate(lines)]
            found: list[str] = []
            for start in range(0, len(numbered), making.BLOCK):
                found += [made[0] for made in rewrite(numbered[start : start + making.BLOCK])]
            return found

        return timed(work)


WORKERS = {"ours": by_us, "nlpaug": by_nlpaug}


def timed(work: Callable[[], list[str]]) -> tuple[float, list[str]]:
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def turn(python: str, worker: str, folder: Path, batch: int) -> tuple[float, float]:
    """Have a process rewrite the lines; return its seconds and the share of lines that changed."""
    command = [python, __file__, "--worker", worker, "--folder", str(folder), "--batch", str(batch)]
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **one}
    )
    if done.returncode:
        sys.exit(f"{worker} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().split("\n")[-1])
    return float(found["seconds"]), float(found["changed"])


def work(options: argparse.Namespace) -> None:
    """Be one of the processes."""
    lines = json.loads((options.folder / "lines.json").read_text("utf-8"))
    seconds, made = WORKERS[options.worker](options.folder / "model", lines, options.batch)
    if len(made) != len(lines):
        sys.exit(f"{len(lines)} lines became {len(made)}")
    changed = sum(a != b for a, b in zip(made, lines, strict=True)) / len(lines)
    print(json.dumps({"seconds": seconds, "changed": changed}))


def masked(options: argparse.Namespace, folder: Path, lines: list[str]) -> None:
    from augless import augmentation, corpora
    from augless.augmentation import small

    (folder / "lines.json").write_text(json.dumps(lines), "utf-8")
    for side in ("de", "en"):
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    corpus = corpora.Files(path=folder, languages=("de", "en"))
    context = augmentation.Context(corpus=corpus, seed=1, work=folder, cache=folder, device="cpu")
    settings = small.Small(steps=options.steps)
    made = small.train(settings, context, [0], lambda *_: None, lambda: False)
    made.rename(folder / "model")
    settled = folder / "model" / "tokenizer_config.json"
    said = json.loads(settled.read_text("utf-8"))
    # The name that versions 4 of transformers know, which nlpaug needs, and 5 too.
    said["tokenizer_class"] = "PreTrainedTokenizerFast"
    settled.write_text(json.dumps(said), "utf-8")
    seconds: dict[tuple[str, int], list[float]] = {}
    changed: dict[tuple[str, int], float] = {}
    for number in range(options.rounds):
        for worker, batch in (("ours", 64), ("nlpaug", 8), ("nlpaug", 32)):
            python = options.peer if worker == "nlpaug" else sys.executable
            spent, share = turn(python, worker, folder, batch)
            seconds.setdefault((worker, batch), []).append(spent)
            changed[worker, batch] = share
            print(f"round {number + 1} {worker} batch {batch}: {spent:.2f} s", flush=True)
    medians = {who: statistics.median(spent) for who, spent in seconds.items()}
    for (worker, batch), spent in medians.items():
        share = changed[worker, batch]
        print(f"masked-lm {worker:>6} batch {batch:>3}: {spent:7.2f} s, {share:.1%} changed")
    best = min(spent for (worker, _), spent in medians.items() if worker == "nlpaug")
    print(f"times faster than nlpaug: {best / medians['ours', 64]:.1f}")


def translated(options: argparse.Namespace, folder: Path) -> None:
    """Compare back-translation with generating the same sentences with the same run."""
    import torch

    from augless import augmentation, recipes
    from augless.augmentation import making
    from augless.augmentation.augmenter import Line
    from augless.recipes import following, needing

    torch.set_num_threads(1)
    keys = [f"corpus.train={options.pairs}", "training.epochs=2", "training.metric=loss"]
    resolved = needing.reverse(recipes.load("toy-de-en", keys))
    places = {"prepared_root": folder / "data", "runs_root": folder / "runs"}
    run, _ = following.train(resolved, **places, device="cpu")
    corpus = recipes.load("toy-de-en", keys).recipe.corpus
    texts = [pair.target for pair in corpus.pairs("train")][: options.translated]
    chosen = augmentation.BackTranslation(run=run.folder)
    context = augmentation.Context(
        corpus=corpus, seed=1, work=folder, cache=folder, writer=following.writer, device="cpu"
    )
    writer = following.writer(run.folder, "cpu")
    seconds: dict[str, list[float]] = {"generate": [], "back-translation": []}
    with chosen.open(context) as rewrite:
        lines = [Line(text, (1, place, 0)) for place, text in enumerate(texts)]

        def back() -> list[str]:
            size = making.BLOCK
            blocks = [lines[start : start + size] for start in range(0, len(lines), size)]
            return [made[0] for block in blocks for made in rewrite(block)]

        for _ in range(options.rounds):
            seconds["generate"].append(timed(lambda: list(writer.generate(texts)))[0])
            seconds["back-translation"].append(timed(back)[0])
    medians = {name: statistics.median(spent) for name, spent in seconds.items()}
    for name, spent in medians.items():
        print(f"{name:>16}: {spent:6.2f} s for {len(texts):,} sentences")
    ratio = medians["back-translation"] / medians["generate"]
    print(f"back-translation takes {ratio:.2f} times as long as generate")


def read(options: argparse.Namespace) -> list[str]:
    if options.data is None:
        from augless import corpora

        toy = corpora.CORPORA["toy-de-en"](train=options.lines)
        return [pair.source for pair in toy.pairs("train")]
    raw = options.data.read_bytes()
    raw = gzip.decompress(raw) if options.data.suffix == ".gz" else raw
    return raw.decode("utf-8").removesuffix("\n").split("\n")[: options.lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default=sys.executable, help="a Python that has nlpaug")
    parser.add_argument("--data", type=Path, help="text, one line each, .gz or not; else generated")
    parser.add_argument("--lines", type=int, default=5000, help="sentences that are rewritten")
    parser.add_argument("--steps", type=int, default=300, help="that the small model is trained")
    parser.add_argument("--rounds", type=int, default=3, help="turns that each takes")
    parser.add_argument(
        "--pairs", type=int, default=3000, help="that the reverse run is trained on"
    )
    parser.add_argument("--translated", type=int, default=1000, help="sentences translated back")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "masked").mkdir()
        masked(options, Path(place) / "masked", read(options))
        translated(options, Path(place) / "translated")


if __name__ == "__main__":
    main()
