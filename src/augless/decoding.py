"""Greedy, beam and sampled search over any model that keeps the contract.

`SEARCHES` lists the searches that recipes name; `search(model, source, mask)` of each returns the
hypotheses of every sentence, the best first. `generate` goes from lines to lines, and a `Writer` is
a model with its codecs, ready to do that.

The output for a sentence depends on nothing else in its batch: the limit of its length is its own,
draws are keyed by its place in the input, and ties go to the lower id. What has ended leaves the
batch.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from augless import data, models, text
from augless.knobs import LARGEST_SEED, Above, AtMost, Choices, Knobs, Within

Codecs = tuple[text.Codec, text.Codec]


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search."""

    ids: tuple[int, ...]
    """The words, without the end symbol."""
    log_probability: float
    """What the model gives to these words, and to the end symbol if `finished`."""
    score: float
    """What the search compares hypotheses by."""
    finished: bool
    """Whether it ended by itself; else the limit of its length cut it off."""


@dataclass(frozen=True, kw_only=True)
class Search(Knobs, ABC):
    """How to look for a probable output; padding and the start symbol are never part of one."""

    max_ratio: Annotated[
        float, "an output has at most so many ids for each of its source", Within(0, 1000)
    ] = 2.0
    max_extra: Annotated[int, "and so many more; the end symbols count", Within(0, 100_000)] = 20

    def search(
        self,
        model: models.Model,
        source: Tensor,
        source_mask: Tensor,
        index: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Find hypotheses for each sentence, (B, S) ids and mask, the best first.

        index says at which places of the input the sentences stand, 0, 1, ... by default: draws
        depend on it. The model is left in the mode it was in.
        """
        index = range(len(source)) if index is None else index
        if source.dim() != 2 or source.shape != source_mask.shape or len(index) != len(source):
            shapes = tuple(source.shape), tuple(source_mask.shape), (len(index),)
            raise ValueError(f"source, mask, index must be (B, S), (B, S), (B,), not {shapes}")
        lengths = source_mask.sum(1)
        if not lengths.all():
            raise ValueError("a source sentence has no ids")
        if not len(source):
            return []
        limits = (self.max_ratio * lengths + self.max_extra).long().clamp(min=1)
        with _reading(model):
            return self._search(model, model.encode(source, source_mask), limits, index)

    @abstractmethod
    def _search(
        self, model: models.Model, state: models.State, limits: Tensor, index: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """Search from the state before the first word; no output has more ids than limits, (B,)."""


@dataclass(frozen=True, kw_only=True)
class Greedy(Search):
    """Take the most probable word each time. Its score is the log-probability."""

    def _search(
        self, model: models.Model, state: models.State, limits: Tensor, index: Sequence[int]
    ) -> list[list[Hypothesis]]:
        hypotheses = _walk(model, state, limits, lambda scores, rows, step: scores.argmax(1))
        return [[hypothesis] for hypothesis in hypotheses]


@dataclass(frozen=True, kw_only=True)
class Beam(Search):
    """Keep the most probable hypotheses of each length; score: log-probability / length^penalty.

    The length counts the end symbol. A hypothesis that ends keeps its place and the beam goes on
    narrower by one, so size 1 is greedy. A sentence is done when all have ended, or when no open
    one can still score better than the n_best that have: at best its log-probability stays as it
    is while it grows to the limit, so nothing is lost. At the limit, open ones count if fewer than
    n_best have ended, and stand behind those.
    """

    size: Annotated[int, "hypotheses kept of each sentence", Within(1, 10_000)] = 5
    length_penalty: Annotated[
        float, "power of the length: the higher, the longer outputs", Within(0, 10)
    ] = 1.0
    n_best: Annotated[int, "hypotheses returned of each sentence", Within(1, 10_000)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.size:
            raise ValueError(f"n_best is {self.n_best}; it must be at most size, {self.size}")

    def _search(
        self, model: models.Model, state: models.State, limits: Tensor, index: Sequence[int]
    ) -> list[list[Hypothesis]]:
        count = len(limits)
        # A row is an open hypothesis: of which sentence, and at which place of its beam.
        sentence = torch.arange(count, device=limits.device)
        place, words = torch.zeros_like(sentence), torch.full_like(sentence, text.BOS)
        totals = torch.zeros_like(sentence, dtype=torch.get_default_dtype())
        lines = words[:, None]
        width = torch.full_like(lines, self.size)
        kept = totals.new_full((count, self.n_best), -math.inf)
        ended: list[tuple[Tensor, ...]] = []
        length = 0
        while len(sentence):
            length += 1
            logits, state = model.step(state, words)
            best, rows, words = self._extend(_scores(logits), totals, sentence, place, count)

            inside = (torch.arange(self.size, device=limits.device) < width) & (best > -math.inf)
            ends = inside & (words == text.EOS)
            left = inside & ~ends
            width = width - ends.sum(1, keepdim=True)
            scores = (best / length**self.length_penalty).where(ends, -math.inf)
            kept = torch.cat([kept.to(scores), scores], 1).topk(self.n_best).values
            hope = best.where(left, -math.inf).amax(1) / limits.to(best) ** self.length_penalty
            full = limits <= length
            done = full | (hope <= kept[:, -1])

            out = ends | (left & full[:, None])
            whose, _ = out.nonzero(as_tuple=True)
            grown = torch.cat([lines[rows[out]], words[out][:, None]], 1)
            ended.append((whose, best[out], ends[out], grown[:, 1:]))

            goes = left & ~done[:, None]
            before, (sentence, place) = sentence, goes.nonzero(as_tuple=True)
            rows, words, totals = rows[goes], words[goes], best[goes]
            lines = torch.cat([lines[rows], words[:, None]], 1)
            same = torch.equal(before, sentence)
            state = state.reorder(rows) if same else state.select(rows)
        return self._ranked(ended, count)

    def _extend(
        self, scores: Tensor, totals: Tensor, sentence: Tensor, place: Tensor, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best extensions of each sentence, (B, size): totals, rows they extend, words.

        (R, V) log-probabilities of words after each row, and (R,) what the rows are.
        """
        scores, words = _best(scores, self.size)
        breadth = scores.shape[1]
        # Side by side in their sentence: the same place twice takes the word of the lower id first.
        table = scores.new_full((count, self.size, breadth), -math.inf)
        table[sentence, place] = totals.to(scores)[:, None] + scores
        best, at = table.flatten(1).sort(dim=1, descending=True, stable=True)
        best, at = best[:, : self.size], at[:, : self.size]
        row = torch.zeros_like(table[:, :, 0], dtype=torch.long)
        row[sentence, place] = torch.arange(len(sentence), device=row.device)
        rows = row.gather(1, at // breadth)
        return best, rows, words[rows, at % breadth]

    def _ranked(self, ended: list[tuple[Tensor, ...]], count: int) -> list[list[Hypothesis]]:
        ranked: list[list[Hypothesis]] = [[] for _ in range(count)]
        for chunk in ended:
            for whose, total, finished, ids in zip(*(t.tolist() for t in chunk), strict=True):
                score = total / len(ids) ** self.length_penalty
                kept = tuple(ids[:-1] if finished else ids)
                ranked[whose].append(Hypothesis(kept, total, score, finished))
        return [sorted(s, key=lambda h: (not h.finished, -h.score))[: self.n_best] for s in ranked]


@dataclass(frozen=True, kw_only=True)
class Sampling(Search):
    """Draw each word from the model's distribution, sharpened and cut off if asked.

    Temperature comes first, then top_k, then top_p of what is left. Draws depend on the seed, the
    sentence's place in the input, which of its samples it is, and the step. The score is the
    log-probability under the model as it is.
    """

    temperature: Annotated[
        float, "logits are divided by it: the lower, the surer", Within(1e-6, 1e6)
    ] = 1.0
    top_k: Annotated[
        int, "draw among so many most probable words; 0: among all", Within(0, 10**9)
    ] = 0
    top_p: Annotated[
        float, "draw among the fewest words that together are so probable", Above(0), AtMost(1)
    ] = 1.0
    seed: Annotated[int, "decides all draws", Within(0, LARGEST_SEED)] = 1
    n_best: Annotated[int, "samples of each sentence", Within(1, 10_000)] = 1

    def _search(
        self, model: models.Model, state: models.State, limits: Tensor, index: Sequence[int]
    ) -> list[list[Hypothesis]]:
        uniform = np.zeros((len(index), self.n_best, int(limits.max())))
        for draws, place, limit in zip(uniform, index, limits.tolist(), strict=True):
            # As many as this sentence can need: not more because it stands beside a longer one.
            generator = np.random.Generator(np.random.Philox([self.seed, place]))
            draws[:, :limit] = generator.random((self.n_best, limit))
        points = torch.from_numpy(uniform).flatten(0, 1).to(limits.device, torch.float32)
        rows = torch.arange(len(index), device=limits.device).repeat_interleave(self.n_best)
        hypotheses = _walk(
            model,
            state.select(rows),
            limits[rows],
            lambda scores, rows, step: self.draw(scores, points[rows, step]),
        )
        samples = (hypotheses[i : i + self.n_best] for i in range(0, len(hypotheses), self.n_best))
        return [sorted(sample, key=lambda h: -h.score) for sample in samples]

    def draw(self, scores: Tensor, points: Tensor) -> Tensor:
        """Draw a word from each row: (B, V) log-probabilities, (B,) points in [0, 1] -> (B,)."""
        probabilities, words = (scores / self.temperature).softmax(1), None
        if self.top_k or self.top_p < 1:
            probabilities, words = _best(probabilities, self.top_k or probabilities.shape[1])
            sums = probabilities.cumsum(1)
            # A word is in as long as those before it do not make up the share asked for.
            inside = sums - probabilities < self.top_p * sums[:, -1:]
            probabilities = probabilities.where(inside, 0)
        sums = probabilities.cumsum(1)
        whole = sums[:, -1:].contiguous()
        places = torch.searchsorted(sums, points.to(sums)[:, None] * whole, right=True)
        # The point 1 lies behind all words: it means the last that has a probability.
        places = torch.minimum(places, torch.searchsorted(sums, whole))
        return (places if words is None else words.gather(1, places))[:, 0]


# `Any`, so that a type checker lets every search have knobs of its own.
SEARCHES: dict[str, type[Any]] = Choices({"greedy": Greedy, "beam": Beam, "sampling": Sampling})


@dataclass(frozen=True, kw_only=True)
class Batching(Knobs):
    """How much is read and searched at once; of the output, only `max_source` decides anything."""

    sentences: Annotated[int, "sentences of a batch at most", Within(1, 100_000)] = 64
    tokens: Annotated[int, "source ids of a batch at most, padding counted", Within(1, 10**7)] = (
        4_000
    )
    window: Annotated[
        int, "lines read and sorted by length before any is written", Within(1, 10**7)
    ] = 2_000
    max_source: Annotated[
        int, "ids of a line at most; what follows is not read", Within(1, 100_000)
    ] = 1_000


@dataclass(frozen=True)
class Text:
    """A hypothesis, spelt out."""

    text: str
    hypothesis: Hypothesis
    truncated: bool
    """Whether the line was longer than `max_source`."""


LinesDone = Callable[[int], object]
"""Called with how many more lines are done."""


def generate(
    model: models.Model,
    codecs: Codecs,
    lines: Iterable[str],
    *,
    search: Search,
    batching: Batching | None = None,
    progress: LinesDone | None = None,
    places: Sequence[int] | None = None,
) -> Iterator[list[Text]]:
    """Write what the model answers to each line: texts, the best first, in the order of the lines.

    The codecs are those of source and target. Lines are read a window at a time, so that a stream
    of any length needs little memory. An empty line has one answer, which is empty. Draws depend
    on the places of the lines, which are 0, 1, ... if not given.
    """
    if isinstance(lines, str):
        raise ValueError("lines must be several strings, not one")
    where = places if places is not None else range(sys.maxsize)
    return _windows(model, codecs, iter(lines), search, batching or Batching(), progress, where)


def _windows(
    model: models.Model,
    codecs: Codecs,
    lines: Iterator[str],
    search: Search,
    batching: Batching,
    progress: LinesDone | None,
    places: Sequence[int],
) -> Iterator[list[Text]]:
    source, target = codecs
    device = _device(model)
    start = 0
    while window := list(itertools.islice(lines, batching.window)):
        encoded = source.encode_lines(window)
        ids = [i[: batching.max_source] for i in encoded]
        empty = Text("", Hypothesis((), 0.0, 0.0, True), truncated=False)
        texts = [[empty] for _ in window]
        if progress is not None and (blank := sum(not len(i) for i in ids)):
            progress(blank)
        side = data.Ragged.of(ids)
        for part in batched(ids, batching):
            words, mask = map(torch.from_numpy, data.padded(side, np.array(part)))
            where = [places[start + i] for i in part]
            searched = search.search(model, words.to(device), mask.to(device), where)
            for i, hypotheses in zip(part, searched, strict=True):
                cut = len(encoded[i]) > batching.max_source
                texts[i] = [Text(target.decode(h.ids), h, cut) for h in hypotheses]
            if progress is not None:
                progress(len(part))
        yield from texts
        start += len(window)


def batched(ids: Sequence[NDArray[np.int32]], batching: Batching) -> Iterator[list[int]]:
    """Cut lines into batches by length, the longest first: what is too large fails at once."""
    order = sorted((i for i in range(len(ids)) if len(ids[i])), key=lambda i: -len(ids[i]))
    start = 0
    while start < len(order):
        fit = batching.tokens // (len(ids[order[start]]) + 1)
        end = start + max(1, min(fit, batching.sentences))
        yield order[start:end]
        start = end


@dataclass(frozen=True)
class Writer:
    """A model with its codecs, of source and target: lines in, lines out."""

    model: models.Model
    codecs: Codecs
    search: Search = field(default_factory=Beam)
    batching: Batching = field(default_factory=Batching)

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.model.parameters())
        model, search = type(self.model).__name__, type(self.search).__name__
        source, target = map(len, self.codecs)
        return f"Writer({model} of {size:,} parameters, {source:,} to {target:,} pieces, {search})"

    def texts(
        self,
        lines: Iterable[str],
        search: Search | None = None,
        progress: LinesDone | None = None,
        places: Sequence[int] | None = None,
    ) -> Iterator[list[Text]]:
        """Write all answers to each line, the best first, with their scores; see `generate`."""
        return generate(
            self.model,
            self.codecs,
            lines,
            search=search or self.search,
            batching=self.batching,
            progress=progress,
            places=places,
        )

    def generate(
        self, lines: Iterable[str], search: Search | None = None, **knobs: object
    ) -> list[str]:
        """Write one answer to each line; `texts` gives all that a search finds."""
        if knobs:
            named = ", ".join(f"{name}={value!r}" for name, value in knobs.items())
            changed = f"dataclasses.replace(writer.search, {named})"
            verb = "texts" if "n_best" in knobs else "generate"
            raise TypeError(f"knobs belong to the search: writer.{verb}(lines, {changed})")
        if (count := getattr(search or self.search, "n_best", 1)) > 1:
            raise ValueError(
                f"generate writes one answer to each line, and the search gives {count} (n_best): "
                "texts() writes all of them, best() the best"
            )
        return self.best(lines, search)

    def best(self, lines: Iterable[str], search: Search | None = None) -> list[str]:
        """Write the best answer to each line, however many a search finds."""
        best = [texts[0] for texts in self.texts(lines, search)]
        if truncated := sum(one.truncated for one in best):
            longest = self.batching.max_source
            warnings.warn(f"{truncated} lines were cut at {longest} ids", stacklevel=2)
        return [one.text for one in best]


def _walk(
    model: models.Model,
    state: models.State,
    limits: Tensor,
    pick: Callable[[Tensor, Tensor, int], Tensor],
) -> list[Hypothesis]:
    """Follow one hypothesis from each row of the state, to limits (B,).

    pick chooses the next words, (R, V) log-probabilities, (R,) rows, step -> (R,).
    """
    rows = torch.arange(len(limits), device=limits.device)
    words = torch.full_like(rows, text.BOS)
    lines = torch.full((len(rows), int(limits.max())), text.EOS, device=limits.device)
    totals = torch.zeros_like(rows, dtype=torch.get_default_dtype())
    step = 0
    while len(rows):
        logits, state = model.step(state, words)
        scores = _scores(logits)
        words = pick(scores, rows, step)
        gained = scores.gather(1, words[:, None])[:, 0]
        totals = totals.to(gained)
        totals[rows] += gained
        lines[rows, step] = words
        step += 1
        goes = (words != text.EOS) & (step < limits[rows])
        if not goes.all():
            stay = goes.nonzero()[:, 0]
            rows, words, state = rows[stay], words[stay], state.select(stay)
    parts = lines, (lines != text.EOS).sum(1), limits, totals
    return [
        Hypothesis(tuple(ids[:length]), total, total, length < limit)
        for ids, length, limit, total in zip(*(part.tolist() for part in parts), strict=True)
    ]


def _scores(logits: Tensor) -> Tensor:
    """Return log-probabilities, (R, V); what is never generated has none."""
    scores = logits.log_softmax(1, dtype=torch.promote_types(logits.dtype, torch.float32))
    scores[:, [text.PAD, text.BOS]] = -math.inf
    if not scores.amax(1).isfinite().all():
        raise FloatingPointError("the model gives probabilities that are not numbers: it diverged")
    return scores


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the highest of each row, (R, V) -> (R, count) and ids, ties by the lower id."""
    count, size = min(count, scores.shape[1]), scores.shape[1]
    if count == size:
        values, ids = scores.sort(dim=1, descending=True, stable=True)
        return values, ids
    # topk is much faster than a stable sort, and takes any among equals: one more shows whether
    # the last is such.
    values, ids = scores.topk(count + 1)
    tied = values[:, count - 1] == values[:, count]
    ids = ids[:, :count].sort(1).values
    values, order = scores.gather(1, ids).sort(dim=1, descending=True, stable=True)
    ids = ids.gather(1, order)
    if tied.any():
        whole, by_id = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], ids[tied] = whole[:, :count], by_id[:, :count]
    return values, ids


@contextlib.contextmanager
def _reading(model: models.Model) -> Iterator[None]:
    """Switch off what only training needs, and leave every part in the mode it was in."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _device(model: models.Model) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device
