"""How good are the settings that augless suggests? Beside ten drawn at random, and JoeyNMT's own.

    python bench/defaults.py --data FOLDER --languages de,en [--pairs 3000] [--held-out N]
        [--seeds 5] [--draws 10] [--keep 3] [--joey PYTHON] [--out trials]

FOLDER holds train.de, valid.de, test.de and so on. Three things are trained, on one thread each:

- what is suggested for so many pairs, with several seeds;
- ten settings drawn at random (vocabulary, size of the model, dropout, label smoothing, learning
  rate, batch, epochs), one seed each: a random search, which is longer than the suggestion in all.
  With --keep, all are trained for a quarter of their epochs first, and only so many of them, the
  best by loss on the validation set, for all of their epochs (successive halving);
- with --joey, the Python of an environment that has `joeynmt==2.3.0`: its published settings for a
  small corpus, a Transformer and a GRU, on the same ids, for as much processor time as the
  suggestion took. It is stopped then, and its best model so far is taken.

Printed is a table of test scores. What was trained before is found in --out, and not trained again.
"""

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

SUGGESTED = "suggested"
METRICS = ["bleu", "chrf"]
SCORED = [*METRICS, "bits-per-token"]


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", default="de,en")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--joey", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("trials"))
    options = parser.parse_args()

    corpus = {
        "name": "files",
        "path": str(options.data),
        "languages": options.languages.split(","),
        "sample": options.pairs,
        "held_out": options.held_out,
    }
    name = f"{options.data.name}-{options.pairs or 'all'}"
    seeds = [*range(1, options.seeds + 1)]
    suggested = followed(plan(f"defaults-{name}", corpus, {SUGGESTED: {}}, seeds), options)
    drawn = {str(k): draw(k, corpus) for k in range(1, options.draws + 1)}
    if options.keep:
        drawn = kept(f"first-{name}", corpus, drawn, options)
    searched = followed(plan(f"search-{name}", corpus, drawn, [1]), options) if drawn else None

    heads = ["settings", "seeds", *METRICS, "bits per character", "seconds"]
    print(f"\n## {name}\n\n| {' | '.join(heads)} |\n|---{'|--:' * (len(heads) - 1)}|")
    size = characters(corpus)
    print(row(SUGGESTED, suggested, SUGGESTED, size))
    for method in drawn:
        said = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in drawn[method].items())
        print(row(f"{method}: {said}", searched, method, size))
    if options.joey:
        first = entries(suggested, SUGGESTED)[0]
        for config in CONFIGS:
            print(joey(config, name, first, corpus, options))


# The suggestion, and draws around it


def plan(name: str, corpus: dict[str, Any], methods: dict[str, Any], seeds: list[int]) -> Any:
    """Return a plan that compares settings on one corpus."""
    from augless.trials import plans

    content = {
        "title": name,
        "seeds": seeds,
        "metrics": SCORED,
        "recipes": {"corpus": {"recipe": "files", "corpus": corpus}},
        "overrides": {"training": {"log_every": 10_000}},
        "methods": methods,
    }
    return plans.parsed(name, content)


def draw(which: int, corpus: dict[str, Any]) -> dict[str, Any]:
    """Draw settings; those of one number are the same on all corpora.

    Vocabulary and batch are drawn around the suggested ones, all others around fixed values, so
    that a better suggestion has the same draws to beat.
    """
    from augless.recipes import suggesting

    drawn = random.Random(which)
    resolved = recipes_of(corpus)
    values, pairs = resolved.values, suggesting.measured(resolved.recipe.corpus).pairs

    def times(base: int, *factors: float) -> int:
        return max(1, round(base * drawn.choice(factors)))

    hidden = drawn.choice([192, 256, 320])
    return {
        "text.vocabulary.size": times(values["text.vocabulary.size"], 0.5, 1, 2),
        "model.embedding": hidden,
        "model.hidden": hidden,
        "model.dropout": drawn.choice([0.2, 0.3, 0.4, 0.5, 0.6]),
        "terms.0.loss.smoothing": drawn.choice([0.0, 0.1, 0.2]),
        "training.batch": times(values["training.batch"], 0.5, 1, 2),
        "training.epochs": times(min(20, max(6, round(75 * pairs**-0.195))), 0.7, 1, 1.4),
        "training.optimizer.rate": round(0.004 * drawn.choice([0.4, 0.6, 1, 1.6, 2.5]), 5),
    }


def followed(plan: Any, options: argparse.Namespace) -> Any:
    """Follow a plan as far as it was not, and return its runs."""
    from augless import trials

    folder = options.out / plan.name
    folder.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{plan.name}.toml"
    path.write_text(plan.as_toml(), encoding="utf-8")
    command = [sys.executable, "-m", "augless", "trial", str(path), "--out", str(options.out)]
    subprocess.run([*command, "--jobs", str(options.jobs)], check=False, stdout=subprocess.DEVNULL)
    return trials.collect(plan, root=folder)


def entries(trial: Any, method: str) -> list[Any]:
    """Return the records of a method."""
    return [e.record for e in trial.entries if e.method == method and e.record is not None]


def kept(
    name: str, corpus: dict[str, Any], drawn: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Train draws for a quarter of their epochs, and return the best of them."""
    epochs = "training.epochs"
    short = {k: {**one, epochs: max(1, round(one[epochs] / 4))} for k, one in drawn.items()}
    first = followed(plan(name, corpus, short, [1]), options)
    # Of all of the text, whatever the vocabulary; BLEU is near 0 in dialogue.
    done = {k: one[0] for k in drawn if (one := entries(first, k))}
    losses = {k: float(record.table("valid", "nats").sum()) for k, record in done.items()}
    said = ", ".join(f"{k}: {value:,.0f}" for k, value in losses.items())
    print(f"{name}, nats of the validation set: {said}")
    best = sorted(losses, key=lambda k: losses[k])[: options.keep]
    return {k: drawn[k] for k in drawn if k in best}


def characters(corpus: dict[str, Any]) -> int:
    """Count the characters of the references of the test set, and an end for each."""
    resolved = recipes_of(corpus)
    return sum(len(pair.target) + 1 for pair in resolved.recipe.corpus.pairs("test"))


def row(name: str, trial: Any, method: str, characters: int) -> str:
    """Say what a method scored on the test set; bits per token depend on the vocabulary."""
    records = entries(trial, method)
    if not records:
        return f"| {name} | 0 |" + " |" * (len(METRICS) + 2)
    columns = [[record.value("test", metric) for record in records] for metric in METRICS]
    columns.append(
        [float(r.table("test", "nats").sum()) / math.log(2) / characters for r in records]
    )
    cells = []
    for values in columns:
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.2f}{spread}")
    seconds = statistics.mean(record.result.seconds for record in records)
    return f"| {name} | {len(records)} | " + " | ".join(cells) + f" | {seconds:.0f} |"


def recipes_of(corpus: dict[str, Any]) -> Any:
    """Return the recipe of a corpus, with all that is suggested for it."""
    from augless import recipes

    given = [f"corpus.{key}={json.dumps(value)}" for key, value in corpus.items() if key != "name"]
    return recipes.load("files", given)


# JoeyNMT, on the same ids

TRANSFORMER = {"type": "transformer", "num_layers": 6, "num_heads": 4, "hidden_size": 256}
TRANSFORMER |= {"ff_size": 1024, "dropout": 0.3}
TRANSFORMER |= {"embeddings": {"embedding_dim": 256, "scale": True, "dropout": 0.0}}
GRU = {
    "type": "recurrent",
    "rnn_type": "gru",
    "num_layers": 1,
    "embeddings": {"embedding_dim": 620, "scale": False},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": {
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "init_gain": 1.0,
            "embed_init_gain": 1.0,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": TRANSFORMER,
            "decoder": TRANSFORMER,
        },
        "training": {
            "learning_rate": 0.0003,
            "batch_size": 4096,
            "batch_type": "token",
            "label_smoothing": 0.1,
            "patience": 5,
        },
    },
    "gru": {
        "model": {
            "encoder": GRU | {"hidden_size": 500, "bidirectional": True, "dropout": 0.0},
            "decoder": GRU
            | {
                "hidden_size": 1000,
                "dropout": 0.0,
                "hidden_dropout": 0.2,
                "input_feeding": True,
                "init_hidden": "bridge",
                "attention": "bahdanau",
            },
        },
        "training": {
            "learning_rate": 0.0002,
            "batch_size": 80,
            "batch_type": "sentence",
            "label_smoothing": 0.0,
            "patience": 8,
        },
    },
}
"""its published settings for IWSLT14 German to English, but for the vocabulary, which is ours"""
LAUNCH = """
import runpy
from torch.optim import lr_scheduler

class Plateau(lr_scheduler.ReduceLROnPlateau):
    def __init__(self, *given, verbose=False, **knobs):  # which torch has dropped
        super().__init__(*given, **knobs)

lr_scheduler.ReduceLROnPlateau = Plateau
runpy.run_module("joeynmt", run_name="__main__")
"""


def joey(
    which: str, name: str, record: Any, corpus: dict[str, Any], options: argparse.Namespace
) -> str:
    """Train a model of JoeyNMT for as long as ours took, and say what it scores."""
    from augless import metrics
    from augless.recipes import following

    folder = options.out / f"joey-{which}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    resolved = recipes_of(corpus)
    prepared = following.prepare(resolved, following.Place(prepared=options.out / "joey-data"))
    for split in ("train", "valid", "test"):
        pairs = prepared.pairs(split)
        for side, ids in (("src", pairs.source), ("trg", pairs.target)):
            # It is slow on what it validates on: a hundred pairs have to do.
            count = min(100, len(pairs)) if split == "valid" else len(pairs)
            lines = (" ".join(map(str, ids[k])) for k in range(count))
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    seconds, outputs = trained_by_joey(which, folder, record.result.seconds, prepared, options.joey)
    references = [pair.target for pair in resolved.recipe.corpus.pairs("test")]
    cells = [f"{metrics.score(m, outputs, references).value:.2f}" for m in METRICS]
    return f"| JoeyNMT {which} | 1 | " + " | ".join(cells) + f" | | {seconds:.0f} |"


def trained_by_joey(
    which: str, folder: Path, budget: float, prepared: Any, python: Path
) -> tuple[float, list[str]]:
    """Train until the processor time is used up; translate the test set with the best model."""
    config = folder / "config.yaml"
    content = joey_config(which, folder, len(prepared.pairs("train")))
    # It translates what it validates on as well, which would take most of the time. The loss
    # decides, so one token each will do.
    longest, content["testing"]["max_output_length"] = content["testing"]["max_output_length"], 1
    config.write_text(json.dumps(content, indent=1), encoding="utf-8")
    log = (folder / "log.txt").open("w")

    def limit() -> None:
        most = int(budget)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))

    single = {**os.environ, "OMP_NUM_THREADS": "1"}
    train_it = [str(python), "-c", LAUNCH, "train", str(config), "--skip-test"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(train_it, env=single, stdout=log, stderr=log, preexec_fn=limit, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    content["testing"]["max_output_length"] = longest
    config.write_text(json.dumps(content, indent=1), encoding="utf-8")
    test_it = [str(python), "-c", LAUNCH, "translate", str(config)]
    with (folder / "test.src").open() as sources:
        said = subprocess.run(
            test_it, env=single, stdin=sources, stdout=subprocess.PIPE, stderr=log, text=True
        ).stdout
    (folder / "out.txt").write_text(said)
    lines = said.split("\n")[:-1] or [""] * len(prepared.pairs("test"))  # no model so far
    codec = prepared.codecs[1]
    return spent, [codec.decode([int(w) for w in line.split() if w.isdigit()]) for line in lines]


def joey_config(which: str, folder: Path, pairs: int) -> dict[str, Any]:
    """Return the settings of a model of JoeyNMT, and write its vocabulary."""
    own = CONFIGS[which]
    batch, by = own["training"]["batch_size"], own["training"]["batch_type"]
    steps = pairs // (batch if by == "sentence" else batch // 16)
    # The vocabulary of both sides together, as tied tables need it.
    words = {word for s in ("src", "trg") for word in (folder / f"train.{s}").read_text().split()}
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=int)))
    side = {"max_length": 200, "level": "word", "voc_min_freq": 1, "lowercase": False}
    side["voc_file"] = str(folder / "words.txt")
    return {
        "name": which,
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 42,
        "data": {
            **{name: str(folder / own) for name, own in JOEY_SPLITS.items()},
            "dataset_type": "plain",
            "src": {"lang": "src", **side},
            "trg": {"lang": "trg", **side},
        },
        "testing": {
            "beam_size": 1,  # a beam of 5 takes longer than the training does
            "batch_size": 64,
            "batch_type": "sentence",
            "max_output_length": 60,
            "eval_metrics": ["bleu"],
        },
        "training": {
            **JOEY_TRAINING,
            # Its own, 1,000, would not be reached, nor would two epochs.
            "validation_freq": max(10, steps // 3),
            **own["training"],
        },
        "model": own["model"],
    }


JOEY_SPLITS = {"train": "train", "dev": "valid", "test": "test"}
JOEY_TRAINING = {
    "optimizer": "adam",
    "adam_betas": [0.9, 0.999],
    "normalization": "tokens",
    "scheduling": "plateau",
    "decrease_factor": 0.7,
    "loss": "crossentropy",
    "learning_rate_min": 0.0,
    "weight_decay": 0.0,
    "epochs": 100_000,
    "logging_freq": 1,
    "early_stopping_metric": "loss",
    "overwrite": True,
    "shuffle": True,
    "print_valid_sents": [],
    "keep_best_ckpts": 1,
}


if __name__ == "__main__":
    main()
