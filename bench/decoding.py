"""What batching, beams and leaving the batch do to the speed of a search, as ratios in one run.

    python bench/decoding.py [--model lstm] [--data FOLDER --languages de,en]

A model is trained for a minute on the embedded corpus, or on train.de(.gz) and train.en(.gz) of a
folder, just so that its outputs end where sentences do; untrained ones go on to the limit. Then all
ways to search the same lines take turns, so that a busy machine slows all of them; medians are
printed. Times are of the processor, on one thread. `staying` searches as if what has ended did not
leave the batch: the model goes on computing as many rows as there ever were.
"""

import argparse
import gzip
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from augless import corpora, data, decoding, models, text


class Full(models.State):
    """A state that never gets fewer rows: those that should leave are replaced by the first."""

    def select(self, rows: Tensor) -> "Full":
        """Return the state of the given rows, filled up to as many as there were."""
        filled = functional.pad(rows, (0, max(0, len(self.moving[0]) - len(rows))))
        chosen = super().select(filled)
        return Full(chosen.fixed, chosen.moving)

    def reorder(self, rows: Tensor) -> "Full":
        """Select likewise: what depends on the source alone stays."""
        filled = functional.pad(rows, (0, max(0, len(self.moving[0]) - len(rows))))
        chosen = super().reorder(filled)
        return Full(chosen.fixed, chosen.moving)


class Staying(models.Model):
    """A model whose batch never gets smaller."""

    def __init__(self, model: models.Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: data.Batch) -> models.Output:
        """Read pairs teacher-forced."""
        return self.model(batch)

    def encode(self, source: Tensor, source_mask: Tensor) -> models.State:
        """Read source sentences."""
        state = self.model.encode(source, source_mask)
        return Full(state.fixed, state.moving)

    def step(self, state: models.State, words: Tensor) -> tuple[Tensor, models.State]:
        """Read the last words, and any others for the rows that should have left."""
        filled = functional.pad(words, (0, len(state.moving[0]) - len(words)))
        logits, state = self.model.step(state, filled)
        return logits[: len(words)], Full(state.fixed, state.moving)


def read(options: argparse.Namespace) -> tuple[list[str], list[str], list[str]]:
    """Return both sides to train on, and lines to search for."""
    if options.data is None:
        toy = corpora.CORPORA["toy-de-en"](train=10_000)
        pairs = [(pair.source, pair.target) for pair in toy.pairs("train")]
        source, target = map(list, zip(*pairs, strict=True))
    else:
        source, target = (
            lines(options.data / f"train.{language}") for language in options.languages.split(",")
        )
    cut = len(source) - options.lines
    return source[:cut], target[:cut], source[cut:]


def lines(path: Path) -> list[str]:
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return raw.decode("utf-8").removesuffix("\n").split("\n")


def padded(codec: text.Codec, part: list[str]) -> tuple[Tensor, Tensor]:
    rows = [torch.tensor([*codec.encode(line)[:60], text.EOS]) for line in part]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return ids, torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def train(model: models.Model, codecs: decoding.Codecs, pairs, seconds: float) -> float:
    """Train for so many seconds, and return the last loss per token."""
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    draw, losses, start = torch.Generator().manual_seed(0), [], time.process_time()
    while time.process_time() - start < seconds:
        rows = torch.randint(len(pairs[0]), (64,), generator=draw)
        (source, source_mask), (target, mask) = (
            padded(codec, [side[i] for i in rows.tolist()])
            for codec, side in zip(codecs, pairs, strict=True)
        )
        weight = torch.ones(len(rows))
        batch = data.Batch(target, mask, source, source_mask, weight, rows.numpy())
        loss = functional.cross_entropy(model(batch).logits[mask], target[mask])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        losses.append(loss.item())
    return statistics.mean(losses[-20:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="lstm", choices=models.MODELS, help="kind of model")
    parser.add_argument("--data", type=Path, help="folder of a parallel corpus; else generated")
    parser.add_argument("--languages", default="de,en", help="endings of its two files")
    parser.add_argument("--lines", type=int, default=512, help="lines to search for")
    parser.add_argument("--size", type=int, default=4_000, help="ids of the joint subwords")
    parser.add_argument("--seconds", type=float, default=60, help="time to train")
    parser.add_argument("--rounds", type=int, default=5, help="turns each way takes")
    options = parser.parse_args()

    torch.set_num_threads(1)
    source, target, asked = read(options)
    sides = [text.Tokeniser(name, lowercase=True) for name in options.languages.split(",")]
    counts = sides[0].count(source)
    counts.update(sides[1].count(target))
    vocabulary = text.Subwords(options.size).learn(counts)
    codecs = text.Codec(sides[0], vocabulary), text.Codec(sides[1], vocabulary)
    model = models.MODELS[options.model]().build(len(vocabulary), len(vocabulary), seed=1)
    loss = train(model, codecs, (source, target), options.seconds)

    few = asked[: max(1, len(asked) // 8)]  # one by one is slow

    def way(search, lines, model=model, **sizes) -> tuple[int, Callable[[], list]]:
        writer = decoding.Writer(model, codecs, search, decoding.Batching(**sizes))
        return len(lines), lambda: list(writer.texts(lines))

    greedy, beam = decoding.Greedy(), decoding.Beam()
    ways = {
        "greedy": way(greedy, asked),
        "greedy, one by one": way(greedy, few, sentences=1),
        "greedy, staying": way(greedy, asked, Staying(model)),
        "beam 5": way(beam, asked),
        "beam 5, one by one": way(beam, few, sentences=1),
        "beam 5, staying": way(beam, asked, Staying(model)),
        "sampling": way(decoding.Sampling(), asked),
        "sampling, top-p 0.9": way(decoding.Sampling(top_p=0.9), asked),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    found = {}
    for _ in range(options.rounds):
        for name, (count, work) in ways.items():
            start = time.process_time()
            found[name] = work()
            rates[name].append(count / (time.process_time() - start))
    rate = {name: statistics.median(values) for name, values in rates.items()}

    best = [texts[0].hypothesis for texts in found["beam 5"]]
    ids, ended = sum(len(h.ids) for h in best), sum(h.finished for h in best)
    print(f"{options.model}, {len(vocabulary)} ids, loss {loss:.2f} per token, one thread")
    print(f"{len(asked)} lines; {ids / len(best):.1f} ids an output, {ended / len(best):.0%} ended")
    for name, value in rate.items():
        print(f"{name:>22} {value:>9,.1f} lines/s")
    for this, other in (
        ("greedy", "greedy, one by one"),
        ("beam 5", "beam 5, one by one"),
        ("greedy", "greedy, staying"),
        ("beam 5", "beam 5, staying"),
        ("greedy", "beam 5"),
        ("greedy", "sampling"),
    ):
        print(f"{this} is {rate[this] / rate[other]:.2f} times as fast as {other}")


if __name__ == "__main__":
    main()
