"""What the losses cost: whole training steps, and the output layer alone.

    python bench/losses.py [--data DIR] [--source de --target en] [--epochs 1] [--rounds 20]

A one-layer 256 LSTM encoder and decoder with Luong attention (no input feeding) is first trained
by plain cross-entropy, one epoch unless told otherwise. DIR holds train.de.gz and train.en.gz;
without it a Zipfian corpus is generated. Then, on one thread and with batches of 64, every variant
takes a step on each of the same batches in turn, so that a busy machine disturbs all alike. Shown
are medians, and medians of the ratios to the fused cross-entropy; peak is the most memory held
beyond what was there before. Goal: a step of CE + 0.1 WD at most 1.4 times a step of CE.
"""

import argparse
import gzip
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from augless import data, losses, models

BATCH, SIZE, VOCABULARY, LONGEST = 64, 256, 8_000, 60
PAD, EDGE, UNKNOWN = range(3)

Ids = list[list[int]]


class Translator(nn.Module):
    """A sequence-to-sequence LSTM with Luong's general attention."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, SIZE)
        self.target = nn.Embedding(VOCABULARY, SIZE)
        self.encoder = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.decoder = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.score = nn.Linear(SIZE, SIZE, bias=False)
        self.combine = nn.Linear(2 * SIZE, SIZE, bias=False)
        self.output = nn.Linear(SIZE, VOCABULARY)
        self.dropout = nn.Dropout(0.1)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, source: Tensor, target: Tensor) -> models.Output:
        """Predict each target word from those before it."""
        memory, state = self.encoder(self.dropout(self.source(source)))
        before = functional.pad(target[:, :-1], (1, 0), value=EDGE)
        queries, _ = self.decoder(self.dropout(self.target(before)), state)
        scores = self.score(queries) @ memory.mT
        context = scores.masked_fill((source == PAD)[:, None], -1e9).softmax(-1) @ memory
        hidden = self.dropout(torch.tanh(self.combine(torch.cat([context, queries], -1))))
        table = self.target.weight
        return models.Output(hidden, self.output.weight, self.output.bias, table)


def read_pairs(folder: Path, languages: tuple[str, str]) -> tuple[Ids, Ids]:
    """Return both sides of a parallel corpus as ids of its most frequent words."""
    sides = []
    for language in languages:
        with gzip.open(folder / f"train.{language}.gz", "rt", encoding="utf-8") as lines:
            words = [re.findall(r"\w+|[^\w\s]", line.lower())[: LONGEST - 1] for line in lines]
        frequent = Counter(word for line in words for word in line).most_common(VOCABULARY - 3)
        ids = {word: number for number, (word, _) in enumerate(frequent, start=3)}
        sides.append([[*(ids.get(word, UNKNOWN) for word in line), EDGE] for line in words])
    return sides[0], sides[1]


def generate_pairs(count: int = 20_000) -> tuple[Ids, Ids]:
    """Return Zipfian sentences and their word-by-word translations, neighbours at times swapped.

    A source word follows its predecessor's topic half of the time, and has three translations.
    """
    draw = torch.Generator().manual_seed(0)
    words = VOCABULARY - 3
    zipf = (torch.arange(words) + 2.7) ** -1.2
    # The others are words of about the same frequency.
    ranks = torch.arange(words)[:, None]
    translations = (ranks * torch.tensor([1.0, 0.9, 0.8])).long()
    topics = torch.multinomial(zipf, 4 * words, replacement=True, generator=draw).view(words, 4)
    lengths = torch.randint(6, 21, (count,), generator=draw).tolist()
    total = sum(lengths)
    fresh = torch.multinomial(zipf, total, replacement=True, generator=draw).tolist()
    follows = (torch.rand(total, generator=draw) < 0.5).tolist()
    which = torch.randint(4, (total,), generator=draw).tolist()
    chosen = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), total, True, generator=draw).tolist()
    sources, targets, place = [], [], 0
    topic_list, translation_list = topics.tolist(), translations.tolist()
    for length in lengths:
        source: list[int] = []
        for k in range(place, place + length):
            source.append(topic_list[source[-1]][which[k]] if source and follows[k] else fresh[k])
        target = [translation_list[w][chosen[place + k]] for k, w in enumerate(source)]
        for k in range(1, length, 2):
            if which[place + k] == 0:
                target[k - 1 : k + 1] = target[k], target[k - 1]
        sources.append([w + 3 for w in source] + [EDGE])
        targets.append([w + 3 for w in target] + [EDGE])
        place += length
    return sources, targets


def batches(pairs: tuple[Ids, Ids], seed: int) -> Iterator[tuple[Tensor, data.Targets]]:
    """Yield an epoch of batches of like length."""
    draw = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(pairs[1]), generator=draw).tolist()
    order = sorted(shuffled, key=lambda i: len(pairs[1][i]))
    starts = torch.arange(0, len(order), BATCH)[
        torch.randperm(-(-len(order) // BATCH), generator=draw)
    ]
    for start in starts.tolist():
        source, target = (
            nn.utils.rnn.pad_sequence(
                [torch.tensor(side[i]) for i in order[start : start + BATCH]], batch_first=True
            )
            for side in pairs
        )
        yield source, data.Targets(target, target != PAD)


Objective = Callable[[models.Output, data.Targets], Tensor]


def plain(output: models.Output, batch: data.Targets) -> Tensor:
    """Store the logits of all real tokens and their log-softmax."""
    hidden, target = output.hidden[batch.target_mask], batch.target[batch.target_mask]
    logits = functional.linear(hidden, output.projection, output.bias)
    return functional.cross_entropy(logits, target, reduction="none").sum()


def chunked(output: models.Output, batch: data.Targets) -> Tensor:
    """Let torch chunk; reduction="sum" would be faster, but knows no weight per sample."""
    nll = functional.linear_cross_entropy(
        output.hidden[batch.target_mask],
        output.projection,
        batch.target[batch.target_mask],
        linear_bias=output.bias,
        reduction="none",
        options=nn.LinearCrossEntropyOptions(),
    )
    return nll.sum()


def ours(*terms: tuple[float, losses.Loss], keep: float = 0.0) -> Objective:
    """Sum scaled losses, computed in one pass."""

    def objective(output: models.Output, batch: data.Targets) -> Tensor:
        values = losses.evaluate([loss for _, loss in terms], output, batch, keep=keep)
        return sum(scale * value.sum() for (scale, _), value in zip(terms, values, strict=True))

    return objective


def naive(output: models.Output, batch: data.Targets) -> Tensor:
    """Do what one would do without this package: logits, softmax, product with the table."""
    hidden, target = output.hidden[batch.target_mask], batch.target[batch.target_mask]
    logits = functional.linear(hidden, output.projection, output.bias)
    table, tokens = output.embeddings.detach(), losses.Tokens.of(batch.target_mask)
    predicted = tokens.padded(losses.soft_predictions(logits, table))
    distance = losses.wasserstein(predicted, table[batch.target], tokens.mask, tokens.mask)
    return functional.cross_entropy(logits, target, reduction="sum") + 0.1 * distance.sum()


CE, WD = losses.CrossEntropy(), losses.Wasserstein()
REFERENCE = "CE, fused"
VARIANTS: dict[str, Objective] = {
    "CE, F.cross_entropy": plain,
    "CE, F.linear_cross_entropy, chunked": chunked,
    REFERENCE: ours((1.0, CE)),
    "CE, fused, logits kept": ours((1.0, CE), keep=1_000),
    "CE + 0.1 WD": ours((1.0, CE), (0.1, WD)),
    "CE + 0.1 WD, logits kept": ours((1.0, CE), (0.1, WD), keep=1_000),
    "CE + 0.1 WD, dense": ours((1.0, CE), (0.1, losses.Wasserstein(drop=0))),
    "CE + 0.1 WD, dense, not fused": naive,
}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(work: Callable[[], object]) -> float:
    """Return how much memory a call held at most beyond what was there before, in MB."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    results = record.profiler.kineto_results
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest / 1e6


def show(title: str, times: dict[str, list[float]]) -> None:
    print(f"\n{title:<40} {'ms':>7} {'ratio':>6}")
    for name, values in times.items():
        ratios = [a / b for a, b in zip(values, times[REFERENCE], strict=True)]
        row = f"{1e3 * statistics.median(values):>7.1f} {statistics.median(ratios):>6.2f}"
        print(f"{name:<40} {row}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with train.LANGUAGE.gz of both sides")
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--epochs", type=int, default=1, help="of training before measuring")
    parser.add_argument("--rounds", type=int, default=20, help="batches measured")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    languages = options.source, options.target
    pairs = read_pairs(options.data, languages) if options.data else generate_pairs()
    model = Translator()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def step(objective: Objective, source: Tensor, batch: data.Targets) -> float:
        optimizer.zero_grad()
        value = objective(model(source, batch.target), batch) / BATCH
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return value.item()

    def layer(objective: Objective, output: models.Output, batch: data.Targets) -> None:
        optimizer.zero_grad()
        output.hidden.grad = None
        objective(output, batch).backward()

    for epoch in range(options.epochs):
        total = sum(step(plain, source, batch) for source, batch in batches(pairs, epoch))
        tokens = sum(len(side) for side in pairs[1])
        print(f"epoch {epoch + 1}: {BATCH * total / tokens:.3f} nats per token", flush=True)

    steps: dict[str, list[float]] = {name: [] for name in VARIANTS}
    layers: dict[str, list[float]] = {name: [] for name in VARIANTS}
    counts = []
    for source, batch in islice(batches(pairs, options.epochs), options.rounds):
        counts.append(int(batch.target_mask.sum()))
        for name, objective in VARIANTS.items():
            steps[name].append(seconds(partial(step, objective, source, batch)))
        output = model(source, batch.target)
        output = replace(output, hidden=output.hidden.detach().requires_grad_())
        for name, objective in VARIANTS.items():
            layers[name].append(seconds(partial(layer, objective, output, batch)))
    median = statistics.median(counts)
    print(f"batches of {BATCH} sentences, {median:.0f} target tokens in the median")
    show("training step", steps)
    show("output layer and losses alone", layers)
    print(f"\n{f'the same, {counts[-1]} tokens':<40} {'peak MB':>7}")
    for name, objective in VARIANTS.items():
        optimizer.zero_grad()  # here, so that what it frees is not counted
        output.hidden.grad = None
        print(f"{name:<40} {peak(partial(layer, objective, output, batch)):>7.1f}")


if __name__ == "__main__":
    main()
