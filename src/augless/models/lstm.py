"""LSTM encoder and decoder with Luong's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from augless.contracts import Batch, Output
from augless.knobs import Above, Below, Within
from augless.models import parts
from augless.models.contract import Model, State

Bidirectional = Annotated[bool, "half of the encoder's units read from right to left"]
InputFeeding = Annotated[bool, "the decoder reads its last output beside the last word"]
Shortcut = Annotated[bool, "attention reads source words' own vectors, added to their states"]

_SHUT = 1e4  # far beyond any sum of inputs of a gate: its sigmoid is 0 or 1, its gradient 0


@dataclass(frozen=True, kw_only=True)
class Lstm(parts.Architecture):
    """An LSTM that is fast on a CPU: a bidirectional encoder, a decoder in one fused call."""

    layers: Annotated[int, "layers of the encoder, and of the decoder", Within(1, 256)] = 1
    embedding: Annotated[int, "size of word vectors", Within(1, 65_536)] = 256
    hidden: Annotated[int, "size of the states of encoder and decoder", Within(1, 65_536)] = 256
    attention: Annotated[
        Literal["general", "dot"], "score of a source position: s'Wh or s'h (Luong et al.)"
    ] = "general"
    bidirectional: Bidirectional = True
    input_feeding: InputFeeding = False
    # Attention then forms at once, and not later in one run than in another (docs/log.md).
    shortcut: Shortcut = False
    init: Annotated[float, "first weights are drawn from [-init, init]", Above(0), Below(1000)] = (
        0.1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        even = self.hidden % 2 == 0 or not self.bidirectional
        parts.require(
            even, f"hidden is {self.hidden}; a bidirectional encoder needs an even number"
        )
        parts.require(
            self.tie == "none" or self.embedding == self.hidden,
            f"tie={self.tie!r} needs hidden as large as embedding, "
            f"not {self.hidden} and {self.embedding}",
        )
        parts.require(
            not self.shortcut or self.embedding == self.hidden,
            f"shortcut needs hidden as large as embedding, not {self.hidden} and {self.embedding}",
        )

    @property
    def autocasts(self) -> bool:
        """Tell that it always computes in its parameters' type."""
        return False

    def make(self, source_vocabulary: int, target_vocabulary: int) -> Model:
        """Make the model, its weights still arbitrary."""
        return Recurrent(self, source_vocabulary, target_vocabulary)

    def first(self, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw the first value of a parameter, biases included as in the paper."""
        return parts.uniform(shape, self.init, generator)


@dataclass(frozen=True, kw_only=True)
class PaperLstm(Lstm):
    """The LSTM of the paper's experiments, as fairseq builds it but for dropout (docs/paper.md)."""

    bidirectional: Bidirectional = False
    input_feeding: InputFeeding = True


def _full_precision(x: Tensor) -> torch.autocast:
    # Choice: autocast is ignored. A state that is rounded at every word would drift, and torch's
    # LSTM fails in half precision on a CPU that has no instructions for it.
    return torch.autocast(x.device.type, enabled=False)


class Layer(nn.Module):
    """The weights of one LSTM layer in one direction; gates in torch's order i, f, g, o."""

    def __init__(self, inputs: int, carried: int, hidden: int) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(4 * hidden, inputs))
        self.hidden_weight = nn.Parameter(torch.empty(4 * hidden, carried))
        self.bias = nn.Parameter(torch.empty(4 * hidden))

    def read(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """Read all positions from a state on, (B, T, D), (B, H), (B, H) -> (B, T, H)."""
        return _lstm(x, h[None], c[None], [(self.input_weight, self.hidden_weight, self.bias)])[0]

    def inputs(self, x: Tensor) -> Tensor:
        """Add up what enters the gates from below, (..., D) -> (..., 4H)."""
        return functional.linear(x, self.input_weight, self.bias)


class Encoder(nn.Module):
    """One layer that reads padded sentences, in one direction or in two, of H units together."""

    def __init__(self, inputs: int, hidden: int, directions: int) -> None:
        super().__init__()
        each = hidden // directions
        self.directions = parts.stack(Layer(inputs, each, each) for _ in range(directions))

    def read(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read sentences, (B, S, D) -> (B, S, H), 0 in padding, and the last h and c, (B, H)."""
        # Padding is one more input, which shuts the gates: i = 0 and f = 1 keep the cell, o = 0
        # hides it. That is what packed sequences compute, but for them torch has no fast kernel:
        # on a CPU they take 1.4 times as long, forward and backward together.
        hidden = self.directions[0].hidden_weight.shape[1]
        shut = x.new_tensor([-_SHUT, _SHUT, 0, -_SHUT]).repeat_interleave(hidden)[:, None]
        x = torch.cat([x, ~mask[:, :, None]], 2)
        zero = x.new_zeros(len(self.directions), len(x), hidden)
        weights = [
            (torch.cat([one.input_weight, shut], 1), one.hidden_weight, one.bias)
            for one in self.directions
        ]
        outputs, h, c = _lstm(x, zero, zero, weights)
        # Reading from left to right ends at the last real token, the other way at the first.
        last = (mask.sum(1) - 1).clamp(min=0)
        rightmost = outputs[torch.arange(len(x), device=x.device), last, :hidden]
        return outputs, torch.cat([rightmost, *h[1:]], 1), torch.cat(c.unbind(), 1)


def _lstm(
    x: Tensor, h: Tensor, c: Tensor, weights: Sequence[tuple[Tensor, Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run torch's LSTM: (B, T, D), two (directions, B, H) -> (B, T, directions H), last h and c."""
    flat: list[Tensor] = []
    for inputs, hidden, bias in weights:
        flat += inputs, hidden, bias, torch.zeros_like(bias)  # torch has two biases, which add up
    return torch.lstm(
        x, (h, c), flat, True, 1, 0.0, torch.is_grad_enabled(), len(weights) == 2, True
    )


def _cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Read one position, what enters the gates being added up, (B, 4H), (B, H) -> h, c."""
    i, f, g, o = gates.chunk(4, 1)
    c = torch.addcmul(i.sigmoid() * g.tanh(), f.sigmoid(), c)
    return o.sigmoid() * c.tanh(), c


class _Late(torch.autograd.Function):
    """Announce products with a weight, so that its gradient is one product instead of many.

    To `sums`, (T, B, N), the caller will add x_t W' for all t, with W detached, and append each x_t
    to `factors`. The gradients of the sums then give W's: dW = sum_t dsum_t' x_t.
    """

    @staticmethod
    def forward(ctx: Any, sums: Tensor, weight: Tensor, factors: list[Tensor]) -> Tensor:
        ctx.factors = factors
        return sums.view_as(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_sums: Tensor) -> tuple[Tensor, Tensor, None]:
        return d_sums, d_sums.flatten(0, 1).t() @ torch.cat(ctx.factors), None


class Attention(nn.Module):
    """Luong's attention: a_t = tanh(W [context; h_t])."""

    score_weight: nn.Parameter | None

    def __init__(self, hidden: int, score: str) -> None:
        super().__init__()
        general = nn.Parameter(torch.empty(hidden, hidden)) if score == "general" else None
        self.register_parameter("score_weight", general)
        self.context_weight = nn.Parameter(torch.empty(hidden, hidden))
        self.hidden_weight = nn.Parameter(torch.empty(hidden, hidden))

    def memorise(self, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys, values, (B, S, H), and what to add to the scores, (B, 1, S)."""
        # W is applied to the memory, once, rather than to each context, which is a mean of it.
        keys = memory if self.score_weight is None else memory @ self.score_weight
        return keys, memory @ self.context_weight, parts.barrier(mask, memory)[:, None]

    def read(self, h: Tensor, keys: Tensor, values: Tensor, barrier: Tensor) -> Tensor:
        """Attend from all positions at once, (B, T, H) -> (B, T, H)."""
        shares = torch.baddbmm(barrier, h, keys.mT).softmax(2)
        return torch.baddbmm(h @ self.hidden_weight, shares, values).tanh()


class Recurrent(Model):
    """LSTM layers; attention reads from the last one of the decoder to the last of the encoder."""

    def __init__(self, knobs: Lstm, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.dropout, self.input_feeding = knobs.dropout, knobs.input_feeding
        self.shortcut = knobs.shortcut
        size, hidden = knobs.embedding, knobs.hidden
        self.words = parts.Words(
            source_vocabulary,
            target_vocabulary,
            embedding=size,
            hidden=hidden,
            tie=knobs.tie,
            bias=True,
        )
        directions = 2 if knobs.bidirectional else 1
        inputs = [size] + [hidden] * (knobs.layers - 1)
        self.encoder = parts.stack(Encoder(each, hidden, directions) for each in inputs)
        # With input feeding the first layer is carried over h and the last output, side by side.
        carried = [2 * hidden if knobs.input_feeding else hidden] + [hidden] * (knobs.layers - 1)
        self.decoder = parts.stack(map(Layer, inputs, carried, [hidden] * knobs.layers))
        self.attention = Attention(hidden, knobs.attention)

    def forward(self, batch: Batch) -> Output:
        """Read pairs teacher-forced: what it says of each target word given those before it."""
        with _full_precision(batch.source):
            state = self.encode(batch.source, batch.source_mask)
            x = self._dropped(functional.embedding(batch.decoder_input, self.words.target))
            hidden = self._feed(x, state) if self.input_feeding else self._read(x, state)
            words = self.words
            return Output(self._dropped(hidden), words.projection, words.bias, words.target)

    def encode(self, source: Tensor, source_mask: Tensor) -> State:
        """Read source sentences, (B, S) ids and mask, into the state before the first word."""
        with _full_precision(source):
            x = words = self._dropped(functional.embedding(source, self.words.source))
            moving: list[Tensor] = []
            for depth, layer in enumerate(self.encoder):
                x, h, c = layer.read(self._dropped(x) if depth else x, source_mask)
                moving += h, c
            if self.input_feeding:
                moving.append(torch.zeros_like(moving[-1]))
            x = x + words if self.shortcut else x
            return State(self.attention.memorise(x, source_mask), tuple(moving))

    def step(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read the last words, (B,), and return logits of the next, (B, V), and the new state."""
        with _full_precision(words):
            x = self._dropped(functional.embedding(words, self.words.target))
            first, carried = self.decoder[0], self._carried(state.moving)
            gates = torch.addmm(first.inputs(x), carried, first.hidden_weight.t())
            hidden, state = self._advance(gates, state)
            return self.words.logits(self._dropped(hidden)), state

    def _read(self, x: Tensor, state: State) -> Tensor:
        """Read all words at once, (B, T, D) -> (B, T, H)."""
        for depth, layer in enumerate(self.decoder):
            h, c = state.moving[2 * depth : 2 * depth + 2]
            x = layer.read(self._dropped(x) if depth else x, h, c)
        return self.attention.read(x, *state.fixed)

    def _feed(self, x: Tensor, state: State) -> Tensor:
        """Read one word after the other, each with the output before it, (B, T, D) -> (B, T, H)."""
        factors: list[Tensor] = []
        outputs: list[Tensor] = []
        sums, weight = self.decoder[0].inputs(x.transpose(0, 1)), self.decoder[0].hidden_weight
        sums = _Late.apply(sums, weight, factors)  # type: ignore[no-untyped-call]  # torch's
        for below in sums.unbind():
            carried = self._carried(state.moving)
            factors.append(carried.detach())
            gates = torch.addmm(below, carried, weight.detach().t())
            hidden, state = self._advance(gates, state)
            outputs.append(hidden)
        return torch.stack(outputs, 1)

    def _carried(self, moving: Sequence[Tensor]) -> Tensor:
        """Return what the first layer is carried over from the last word, (B, H) or (B, 2H)."""
        return torch.cat([moving[0], moving[-1]], 1) if self.input_feeding else moving[0]

    def _advance(self, gates: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one word, (B, 4H) as it enters the first layer's gates, -> output, (B, H)."""
        moving: list[Tensor] = []
        for depth, layer in enumerate(self.decoder):
            h, c = state.moving[2 * depth : 2 * depth + 2]
            if depth:
                below = layer.inputs(self._dropped(moving[-2]))
                gates = torch.addmm(below, h, layer.hidden_weight.t())
            moving += _cell(gates, c)
        hidden = self.attention.read(moving[-2][:, None], *state.fixed)[:, 0]
        if self.input_feeding:
            moving.append(hidden)
        return hidden, State(state.fixed, tuple(moving))

    def _dropped(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)
