"""Small models that learn to reverse digits, and runs of them."""

import dataclasses
import json

import numpy as np
import torch

from augless import data, losses, models, polar, runs, text, training

CODEC = text.Codec(
    text.Tokeniser(language="en"),
    text.Words(size=60, min_count=1).learn(dict.fromkeys("abcdefghij", 1)),
)


SMALL = {
    "lstm": {"embedding": 8, "hidden": 8},
    "paper-lstm": {"embedding": 8, "hidden": 8},
    "transformer": {"size": 8, "heads": 2, "feed_forward": 16, "layers": 1},
    "paper-transformer": {"size": 8, "heads": 2, "feed_forward": 16, "layers": 1},
}


VOCABULARY = 14


def ragged(rows):
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return data.Ragged(np.concatenate([np.asarray(r, np.int64) for r in rows]), offsets)


def digits(n, seed=0, weight=None):
    """Make pairs whose target is the source reversed."""
    generator = np.random.default_rng(seed)
    rows = [generator.integers(4, VOCABULARY, generator.integers(1, 9)) for _ in range(n)]
    weights = np.ones(n, np.float32) if weight is None else np.asarray(weight, np.float32)
    return data.Pairs(ragged(rows), ragged([row[::-1] for row in rows]), weights)


PAIRS = digits(40)


def term(loss="cross-entropy", weighting="plain", scale=1.0, **knobs):
    return training.Term(
        loss=losses.LOSSES[loss](), weighting=polar.WEIGHTINGS[weighting](**knobs), scale=scale
    )


def trainer(
    *, model="lstm", terms=None, pairs=PAIRS, seed=3, build=None, precision="float32", **settings
):
    settings = {
        "batch": 8,
        "epochs": 2,
        "log_every": 2,
        "save_every": 1000,
        "metric": "loss",
    } | settings
    return training.Trainer(
        (build or models.MODELS[model](**SMALL[model])).build(VOCABULARY, VOCABULARY, seed=seed),
        terms or [term()],
        training.Settings(precision=precision, **settings),
        pairs,
        seed=seed,
        device=torch.device("cpu"),
    )


def new_run(folder):
    return runs.Run.create(folder, recipe={}, corpus="none", codecs=(CODEC, CODEC), versions={})


def dev_loss(model):
    nats, tokens = training.nats(model, digits(10, seed=9))
    return {"loss": float(nats.sum() / tokens.sum())}


def fit(run, one, **knobs):
    with run.lock():
        knobs = {"validate": dev_loss, "higher_is_better": False} | knobs
        return training.fit(one, run, **knobs)


def everything(run):
    """Return all that a run ended with, but what depends on the clock."""
    last, best = run.last(), run.best()
    position = {k: v for k, v in last.state["position"].items() if k != "seconds"}
    clock = {"seconds", "tokens_per_second", "validation"}
    lines = (run.folder / "metrics.jsonl").read_bytes().splitlines()
    records = [{k: v for k, v in json.loads(line).items() if k not in clock} for line in lines]
    assert len(records) == len(run.metrics())
    tensors = {
        (kind, group, name): (value.dtype, value.numpy().tobytes())
        for kind, one in (("last", last), ("best", best))
        for group, values in one.tensors.items()
        for name, value in values.items()
    }
    state = json.dumps([position, {k: v for k, v in last.state.items() if k != "position"}])
    return tensors, state, best.state, records


OBJECTIVES = {
    "plain": [term()],
    "law": [term(weighting="exponential")],
    "normalised": [term(weighting="uniform", normalise="running-mean")],
    "matched": [term(weighting="matched")],
    "linear": [term(weighting="linear", corollary=2, c1=0.01)],
    "wasserstein": [term(), term("wasserstein", "exponential", 0.1)],
    "both": [term(weighting="uniform"), term("wasserstein", "uniform", 0.1)],
    "wasserstein-alone": [term("wasserstein")],
    "euclidean": [term("euclidean", "point")],
    "r-drop": [term(weighting="exponential"), term("r-drop", scale=0.5)],
    "averaged": [term(weighting="averaged", of=polar.Linear())],
    "shuffled": [term(weighting="shuffled", of=polar.Linear(), window=20)],
    "falling": [dataclasses.replace(term(weighting="falling"), weighed_by="loss-per-token")],
    "staged": [term(weighting="staged", first=polar.Falling(), after=20)],
    "tokens": [
        dataclasses.replace(term(weighting="exponential"), loss=losses.CrossEntropy(per="token"))
    ],
}


OPTIMIZERS = {
    "sgd": training.Sgd(rate=0.5, halve_after=1),
    "momentum": training.Sgd(rate=0.1, momentum=0.9),
    "adam": training.Adam(rate=0.01, warmup=3),
    "adamw": training.AdamW(rate=0.01, warmup=3),
}
