"""The batches of an epoch: a pure function of the seed, the epoch and the sizes asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from augless.contracts import EOS, PAD, UNK, Batch
from augless.data.store import Pairs, Ragged
from augless.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from torch import Tensor


def batch_rows(
    pairs: Pairs,
    *,
    seed: int,
    epoch: int,
    sentences: int | None = None,
    tokens: int | None = None,
    shuffle: bool = True,
    bucket: int = 64,
) -> list[NDArray[np.int64]]:
    """Return which rows are in which batch of an epoch: all pairs, once, batched by length.

    Give the size as a number of sentences or of tokens; tokens count the longer side with its
    padding. A position in an epoch is an index into this list. A bucket is so many batches, whose
    sentences are sorted together: little padding, and still mixed. With 1 batches are of any
    length.
    """
    if (sentences is None) == (tokens is None):
        raise ValueError("a batch is sized either by sentences or by tokens")
    if (sentences or tokens or 0) < 1:
        raise ValueError(f"a batch of {sentences or tokens} is empty")
    if bucket < 1:
        raise ValueError(f"a bucket of {bucket} batches is empty")
    lengths = np.maximum(pairs.source.lengths, pairs.target.lengths) + 1  # the end symbol
    if not shuffle:
        return _cut(np.arange(len(pairs)), lengths, sentences, tokens)
    generator = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = generator.permutation(len(pairs))
    mean = max(1.0, float(lengths.mean())) if len(pairs) else 1.0
    size = bucket * (sentences or max(1, int((tokens or 1) / mean)))
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), size):
        part = order[start : start + size]
        batches += _cut(part[np.argsort(lengths[part], kind="stable")], lengths, sentences, tokens)
    return [batches[i] for i in generator.permutation(len(batches))]


def batches(
    pairs: Pairs,
    parts: list[NDArray[np.int64]],
    *,
    start: int = 0,
    ranks: Ranks = ALONE,
) -> Iterator[Batch]:
    """Make batches of their rows, from a position on; a rank gets its share of the rows of each.

    Together the ranks see exactly the batches that one rank would see.
    """
    for rows in parts[start:]:
        yield collate(pairs, ranks.share(rows))


def collate(pairs: Pairs, rows: NDArray[np.int64]) -> Batch:
    """Make one batch of the given pairs, padded to the longest."""
    import torch

    source, source_mask = padded(pairs.source, rows)
    target, target_mask = padded(pairs.target, rows)
    return Batch(
        source=torch.from_numpy(source),
        source_mask=torch.from_numpy(source_mask),
        target=torch.from_numpy(target),
        target_mask=torch.from_numpy(target_mask),
        weight=torch.from_numpy(pairs.weight[rows]),
        index=rows,
    )


def drop_words(batch: Batch, share: float) -> Batch:
    """Replace a share of the words that a model reads by the unknown word (word dropout).

    Source words and those that a teacher shows, never the end of a sentence nor what is predicted;
    drawn from torch's global generator.
    """
    if not share:
        return batch
    import torch

    def dropped(ids: Tensor) -> Tensor:
        chosen = torch.rand(ids.shape, device=ids.device) < share
        return ids.masked_fill(chosen & (ids != EOS) & (ids != PAD), UNK)

    return replace(batch, source=dropped(batch.source), shown=dropped(batch.target))


def padding_share(pairs: Pairs, parts: list[NDArray[np.int64]]) -> float:
    """Return which share of all positions of both sides would be padding."""
    padded = full = 0
    for side in (pairs.source, pairs.target):
        lengths = side.lengths + 1
        padded += sum(len(rows) * int(lengths[rows].max()) for rows in parts if len(rows))
        full += int(lengths[np.concatenate(parts)].sum()) if parts else 0
    return 1 - full / padded if padded else 0.0


def _cut(
    order: NDArray[np.int64],
    lengths: NDArray[np.int64],
    sentences: int | None,
    tokens: int | None,
) -> list[NDArray[np.int64]]:
    """Cut an order into batches of so many sentences, or of at most so many padded tokens."""
    if sentences is not None:
        return [order[i : i + sentences] for i in range(0, len(order), sentences)]
    batches, start, longest = [], 0, 0
    for end, length in enumerate(lengths[order].tolist()):
        longest = max(longest, length)
        # A sentence longer than the limit makes a batch of its own: none is lost.
        if end > start and longest * (end - start + 1) > (tokens or 0):
            batches.append(order[start:end])
            start, longest = end, length
    if start < len(order):
        batches.append(order[start:])
    return batches


def padded(side: Ragged, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return ids (B, T) with the end symbol, and where they are real."""
    lengths = side.lengths[rows]
    width = int(lengths.max()) + 1 if len(rows) else 1
    steps = np.arange(width)
    ids = np.full((len(rows), width), PAD, np.int64)
    inside = steps < lengths[:, None]
    flat = side.offsets[rows][:, None] + steps
    ids[inside] = side.ids[flat[inside]]
    ids[np.arange(len(rows)), lengths] = EOS
    return ids, steps <= lengths[:, None]
