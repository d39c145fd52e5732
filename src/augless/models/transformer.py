"""Transformer encoder and decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from augless.contracts import Batch, Output
from augless.knobs import Within
from augless.models import parts
from augless.models.contract import Model, State

Layers = Annotated[int, "layers of the encoder, and of the decoder", Within(1, 256)]
Size = Annotated[int, "size of word vectors and of every layer's output", Within(1, 65_536)]
Heads = Annotated[int, "attention heads; they share out the size", Within(1, 65_536)]
Inner = Annotated[int, "units between the two matrices after attention", Within(1, 1_000_000)]
Norm = Annotated[Literal["pre", "post"], "each layer normalises its input, or its output"]


@dataclass(frozen=True, kw_only=True)
class Transformer(parts.Architecture):
    """A Transformer of a size for small corpora, normalised first: it trains without warm-up."""

    layers: Layers = 3
    size: Size = 256
    heads: Heads = 4
    feed_forward: Inner = 1024
    norm: Norm = "pre"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = self.size % self.heads == 0
        parts.require(whole, f"size is {self.size}; {self.heads} heads cannot share it evenly")
        parts.require(self.size % 2 == 0, f"size is {self.size}; it must be even")

    def make(self, source_vocabulary: int, target_vocabulary: int) -> Model:
        """Make the model, its weights still arbitrary."""
        return Attentive(self, source_vocabulary, target_vocabulary)

    def first(self, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw the first value of a parameter: Xavier's for matrices, biases 0, scales 1."""
        if len(shape) == 1:
            return torch.full(shape, float(name.endswith("norm.weight")))
        if name in ("words.target", "words.own_source"):
            # Scaled up by sqrt(size) they are as large as the positions added to them.
            return parts.uniform(shape, math.sqrt(3 / self.size), generator)
        return parts.uniform(shape, math.sqrt(6 / sum(shape)), generator)


@dataclass(frozen=True, kw_only=True)
class PaperTransformer(Transformer):
    """The Transformer of the paper's experiments: Vaswani et al.'s with two layers a side."""

    layers: Layers = 2
    size: Size = 512
    heads: Heads = 8
    feed_forward: Inner = 2048
    norm: Norm = "post"


class Attention(nn.Module):
    """Heads that read every position as a mean of others."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key_value = nn.Linear(size, 2 * size)
        self.output = nn.Linear(size, size)

    def read(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, (B, S, D) -> (B, heads, S, d) each."""
        key, value = self.key_value(memory).chunk(2, 2)
        return self._split(key), self._split(value)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False
    ) -> Tensor:
        """Look from x at keys and values, (B, T, D) -> (B, T, D)."""
        # Where the mask leaves nothing to look at torch answers 0.
        attended = functional.scaled_dot_product_attention(
            self._split(self.query(x)), keys, values, attn_mask=mask, is_causal=causal
        )
        joined: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return joined

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class Residual(nn.Module):
    """What surrounds each part of a layer: add its output to its input, and normalise."""

    def __init__(self, knobs: Transformer) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(knobs.size)
        self.first, self.dropout = knobs.norm == "pre", knobs.dropout

    def before(self, x: Tensor) -> Tensor:
        """Return what the part reads."""
        return self.norm(x) if self.first else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        """Return what the next part is given."""
        x = x + functional.dropout(change, self.dropout, self.training)
        return x if self.first else self.norm(x)


class FeedForward(nn.Module):
    """Two matrices, applied to every position by itself."""

    def __init__(self, knobs: Transformer) -> None:
        super().__init__()
        self.around = Residual(knobs)
        self.inner = nn.Linear(knobs.size, knobs.feed_forward)
        self.outer = nn.Linear(knobs.feed_forward, knobs.size)

    def read(self, x: Tensor) -> Tensor:
        """Read every position, (B, T, D) -> (B, T, D)."""
        inner = functional.relu(self.inner(self.around.before(x)))
        return self.around.after(x, self.outer(inner))


class EncoderLayer(nn.Module):
    """Attention to the sentence itself, then feed forward."""

    def __init__(self, knobs: Transformer) -> None:
        super().__init__()
        self.around = Residual(knobs)
        self.attention = Attention(knobs.size, knobs.heads)
        self.feed_forward = FeedForward(knobs)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Read a sentence, (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        y = self.around.before(x)
        x = self.around.after(x, self.attention(y, *self.attention.read(y), mask))
        return self.feed_forward.read(x)


class DecoderLayer(nn.Module):
    """Attention to the words so far, attention to the source, then feed forward."""

    def __init__(self, knobs: Transformer) -> None:
        super().__init__()
        self.around, self.around_cross = Residual(knobs), Residual(knobs)
        self.attention = Attention(knobs.size, knobs.heads)
        self.cross = Attention(knobs.size, knobs.heads)
        self.feed_forward = FeedForward(knobs)

    def forward(
        self, x: Tensor, past: Sequence[Tensor], source: Sequence[Tensor], mask: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Read one more word, or all words when there is no past, (B, T, D) -> (B, T, D).

        `past` and `source` are keys and values; those of the words so far are returned too.
        """
        y = self.around.before(x)
        keys, values = map(_joined, past, self.attention.read(y))
        change = self.attention(y, keys, values, None, causal=x.shape[1] > 1)
        x = self.around.after(x, change)
        x = self.around_cross.after(x, self.cross(self.around_cross.before(x), *source, mask))
        return self.feed_forward.read(x), (keys, values)


def _joined(past: Tensor, new: Tensor) -> Tensor:
    return torch.cat([past, new], 2) if past.shape[2] else new


def positions(start: int, count: int, size: int, like: Tensor) -> Tensor:
    """Return sines and cosines of positions from start on, (count, size), as Vaswani et al. do."""
    kind = torch.promote_types(like.dtype, torch.float32)  # half precision cannot count
    place = torch.arange(start, start + count, device=like.device, dtype=kind)
    step = torch.arange(size // 2, device=like.device, dtype=kind) / (size // 2)
    angles = place[:, None] * 10000**-step
    return torch.cat([angles.sin(), angles.cos()], 1).to(like.dtype)


class Attentive(Model):
    """Transformer layers. Its state: keys and values of the source, and of the words so far."""

    def __init__(self, knobs: Transformer, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.size, self.heads, self.dropout = knobs.size, knobs.heads, knobs.dropout
        self.words = parts.Words(
            source_vocabulary,
            target_vocabulary,
            embedding=knobs.size,
            hidden=knobs.size,
            tie=knobs.tie,
            bias=False,
        )
        self.encoder = parts.stack(EncoderLayer(knobs) for _ in range(knobs.layers))
        self.decoder = parts.stack(DecoderLayer(knobs) for _ in range(knobs.layers))
        # Normalising every input leaves the last output as it is.
        last = nn.LayerNorm if knobs.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last(knobs.size), last(knobs.size)

    def forward(self, batch: Batch) -> Output:
        """Read pairs teacher-forced: what it says of each target word given those before it."""
        state = self.encode(batch.source, batch.source_mask)
        hidden, _ = self._read(state, batch.decoder_input)
        return Output(hidden, self.words.projection, None, self.words.target)

    def encode(self, source: Tensor, source_mask: Tensor) -> State:
        """Read source sentences, (B, S) ids and mask, into the state before the first word."""
        x = self._embedded(source, self.words.source, 0)
        mask = source_mask[:, None, None]
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        read = [each for layer in self.decoder for each in layer.cross.read(x)]
        nothing = x.new_empty(len(x), self.heads, 0, self.size // self.heads)
        return State((mask, *read), (nothing,) * len(read))

    def step(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read the last words, (B,), and return logits of the next, (B, V), and the new state."""
        hidden, state = self._read(state, words[:, None])
        return self.words.logits(hidden[:, 0]), state

    def _read(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read the next word, or all words from the start, (B, T) -> (B, T, D)."""
        mask, *source = state.fixed
        x = self._embedded(words, self.words.target, state.moving[0].shape[2])
        moving: list[Tensor] = []
        for depth, layer in enumerate(self.decoder):
            pair = slice(2 * depth, 2 * depth + 2)
            x, words_so_far = layer(x, state.moving[pair], source[pair], mask)
            moving += words_so_far
        return self.decoder_norm(x), State(state.fixed, tuple(moving))

    def _embedded(self, words: Tensor, table: Tensor, start: int) -> Tensor:
        x = functional.embedding(words, table) * math.sqrt(self.size)
        x = x + positions(start, words.shape[1], self.size, x)
        return functional.dropout(x, self.dropout, self.training)
