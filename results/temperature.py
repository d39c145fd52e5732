"""Measure runs at their best temperature: `results/temperature.py NAME` writes `temperature.md`.

The logits of every run are divided by a temperature, the one with the least loss on the validation
set: what is left of a difference then is not one of how sure a model is. It needs the trained runs
(`results/NAME/runs/`), which are not committed.
"""

import sys
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from rare import RESULTS, table

import augless
from augless import contracts, data, losses, metrics, models, text, trials

TEMPERATURES = np.arange(0.85, 1.61, 0.05).round(2)
HEAD = ["temperature", "bits per token", "at this temperature"]
SAID = """Bits per token on the test set, and with logits divided by a temperature, which is chosen
for each run on the validation set; differences from {}, with 95 % intervals of t tests over seeds:

"""


def main(name: str) -> None:
    """Compare every method of a plan with its baseline."""
    root = RESULTS / name
    trial = trials.collect(trials.Plan.load(str(root / "plan.toml")), root=root)
    stores = [data.Prepared.open(folder) for folder in (root / "prepared").iterdir()]
    by_codecs = {fingerprints(store.codecs): store for store in stores}
    plan, parts = trial.plan, [SAID.format(trial.plan.baseline)]
    for label in plan.recipes:
        found: dict[str, dict[int, NDArray[np.float64]]] = {method: {} for method in plan.methods}
        for entry in trial.entries:
            if entry.corpus == label:
                folders = [*root.glob(f"runs/*-{entry.record.id}")] if entry.record else []
                if not folders:
                    sys.exit(f"{entry.method}, seed {entry.seed}: its trained run is not here.")
                writer = augless.load(folders[0], "cpu")
                prepared = by_codecs[fingerprints(writer.codecs)]
                found[entry.method][entry.seed] = at_best(writer.model, prepared)
        parts += [table(label, HEAD, found, plan.baseline, 3), "\n"]
    (root / "temperature.md").write_text("".join(parts), encoding="utf-8")


def fingerprints(codecs: tuple[text.Codec, text.Codec]) -> tuple[str, ...]:
    """Tell a corpus by its vocabularies."""
    return tuple(codec.fingerprint for codec in codecs)


def at_best(model: models.Model, prepared: data.Prepared) -> NDArray[np.float64]:
    """Return the best temperature, and the bits per token of the test set without and with it."""
    valid = bits(model, prepared.pairs("valid"), TEMPERATURES)
    best = TEMPERATURES[valid.argmin()]
    return np.array([best, *bits(model, prepared.pairs("test"), [1.0, best])])


@torch.inference_mode()
def bits(
    model: models.Model, pairs: data.Pairs, temperatures: NDArray[np.float64] | list[float]
) -> NDArray[np.float64]:
    """Return the bits per token of a split at some temperatures."""
    loss, total = losses.CrossEntropy(), np.zeros(len(temperatures))
    for rows in data.batch_rows(pairs, seed=0, epoch=0, tokens=4000):
        batch = data.collate(pairs, rows)
        output = model(batch)
        total += [loss(cooled(output, float(t)), batch).double().sum().item() for t in temperatures]
    return metrics.scores.bits_per_token(total, (pairs.target.lengths + 1).sum())


def cooled(output: contracts.Output, temperature: float) -> contracts.Output:
    """Divide the logits by a temperature."""
    bias = None if output.bias is None else output.bias / temperature
    return replace(output, hidden=output.hidden / temperature, bias=bias)


if __name__ == "__main__":
    main(*sys.argv[1:])
