"""Print bits per token at the best temperature of each run: `results/temperature.py tokens`.

The logits of every run are divided by a temperature, the one with the least loss on the validation
set: what is left of a difference then is not one of how sure a model is. It needs the trained runs
(`results/NAME/runs/`), which are not committed.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import augless
from augless import contracts, data, losses, metrics, models, text, trials

TEMPERATURES = np.arange(0.6, 2.01, 0.05).round(2)


def main(name: str) -> None:
    """Say what a temperature does to each method."""
    root = Path(__file__).parent / name
    trial = trials.collect(trials.Plan.load(str(root / "plan.toml")), root=root)
    stores = [data.Prepared.open(folder) for folder in (root / "prepared").iterdir()]
    by_codecs = {fingerprints(store.codecs): store for store in stores}
    found = defaultdict(list)
    for entry in trial.entries:
        folders = [*root.glob(f"runs/*-{entry.record.id}")] if entry.record else []
        for writer in (augless.load(folder, "cpu") for folder in folders):
            prepared = by_codecs[fingerprints(writer.codecs)]
            valid, test = (bits(writer.model, prepared.pairs(s)) for s in ("valid", "test"))
            best = int(valid.argmin())
            at_one = test[TEMPERATURES.tolist().index(1.0)]
            found[entry.corpus, entry.method].append((TEMPERATURES[best], at_one, test[best]))
    for (corpus, method), rows in found.items():
        temperature, before, after = np.mean(rows, axis=0)
        print(f"{corpus:14} {method:24} {len(rows)} seeds: temperature {temperature:.2f}, ", end="")
        print(f"{before:.3f} bits per token before and {after:.3f} after")


def fingerprints(codecs: tuple[text.Codec, text.Codec]) -> tuple[str, ...]:
    """Tell a corpus by its vocabularies."""
    return tuple(codec.fingerprint for codec in codecs)


@torch.inference_mode()
def bits(model: models.Model, pairs: data.Pairs) -> np.ndarray:
    """Return the bits per token of a split at every temperature."""
    loss, total = losses.CrossEntropy(), np.zeros(len(TEMPERATURES))
    for rows in data.batch_rows(pairs, seed=0, epoch=0, tokens=4000):
        batch = data.collate(pairs, rows)
        output = model(batch)
        total += [loss(cooled(output, float(t)), batch).double().sum().item() for t in TEMPERATURES]
    return metrics.scores.bits_per_token(total, (pairs.target.lengths + 1).sum())


def cooled(output: contracts.Output, temperature: float) -> contracts.Output:
    """Divide the logits by a temperature."""
    bias = None if output.bias is None else output.bias / temperature
    return replace(output, hidden=output.hidden / temperature, bias=bias)


if __name__ == "__main__":
    main(*sys.argv[1:])
