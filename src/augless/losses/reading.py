"""What one pass over the vocabulary says of a batch: likelihoods and soft predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from augless import contracts

Per = Literal["sentence-sum", "sentence-mean", "token"]
Embeddings = Literal["detached", "trained"]

# Choice: entries in a chunk of logits. 8 MB of float32 stay in the last-level cache between the
# passes over them; with fewer than 128 rows the matrix products themselves become slower.
CHUNK_ENTRIES = 2**21
CHUNK_ROWS = 128


def at_least_float32(values: Tensor) -> Tensor:
    """Return values in their own type, or in float32 if that has less."""
    # Half precision holds neither the sum of a sentence's losses nor a squared distance.
    return values.to(torch.promote_types(values.dtype, torch.float32))


@dataclass(frozen=True)
class Tokens:
    """Where the real tokens of a padded batch stand."""

    index: Tensor  # (n,) their places in the batch, read row by row
    sentence: Tensor  # (n,) the sample each belongs to
    mask: Tensor  # (B, L) true at real tokens, once these have moved to the front of their rows

    @classmethod
    def of(cls, mask: Tensor) -> "Tokens":
        """Find the real tokens of a (B, T) mask."""
        index = mask.flatten().nonzero()[:, 0]
        lengths = mask.sum(1)
        longest = max([1, *lengths.tolist()])
        places = torch.arange(longest, device=mask.device)
        sentence = index.div(max(mask.shape[1], 1), rounding_mode="floor")
        return cls(index, sentence, places < lengths[:, None])

    def gather(self, values: Tensor) -> Tensor:
        """Take the real tokens' values, (B, T, ...) -> (n, ...)."""
        return values.flatten(0, 1).index_select(0, self.index)

    def padded(self, values: Tensor) -> Tensor:
        """Put vectors back into rows, filled up with zeros, (n, D) -> (B, L, D)."""
        places = self.mask.flatten().nonzero()[:, 0]
        rows = values.new_zeros(self.mask.numel(), values.shape[1]).index_copy(0, places, values)
        return rows.view(*self.mask.shape, values.shape[1])

    def per(self, unit: Per, values: Tensor) -> Tensor:
        """Sum or average over each sentence, (n,) -> (B,), or leave each token as it is: (n,)."""
        if unit == "token":
            return values
        sums = values.new_zeros(len(self.mask)).index_add(0, self.sentence, values)
        return sums if unit == "sentence-sum" else sums / self.mask.sum(1).clamp(min=1)


@dataclass(frozen=True, kw_only=True)
class Soft:
    """How a soft prediction is made; `SoftLoss` says what the knobs mean."""

    temperature: float
    embeddings: Embeddings
    threshold: float
    drop: float

    def table(self, embeddings: Tensor) -> Tensor:
        """Return the embedding table as this soft prediction uses it."""
        return embeddings.detach() if self.embeddings == "detached" else embeddings


@dataclass(frozen=True)
class Reading:
    """What one pass over the vocabulary says of a batch's n real tokens."""

    tokens: Tokens
    target: Tensor  # (n,) ids
    output: contracts.Output  # at real tokens, hidden being (1, n, H); at least float32
    nll: Tensor  # (n,) -log p(target)
    log_total: Tensor  # (n,) log sum exp(logits)
    softs: dict[Soft, Tensor]  # (n, D) soft predictions of each kind asked for

    def uniform_nll(self) -> Tensor:
        """Average -log p over the vocabulary, (n,)."""
        # The mean logit is linear in the layer's mean row: this is no pass over the vocabulary.
        mean = self.output.hidden[0] @ self.output.projection.mean(0)
        return self.log_total - (
            mean if self.output.bias is None else mean + self.output.bias.mean()
        )


def read(
    output: contracts.Output,
    batch: contracts.Targets,
    softs: Sequence[Soft] = (),
    keep: float = 0.0,
) -> Reading:
    """Pass over the vocabulary once, at real tokens only; `keep` as in `evaluate`."""
    if output.hidden.shape[:2] != batch.target.shape:
        shapes = tuple(output.hidden.shape[:2]), tuple(batch.target.shape)
        raise ValueError(f"output and batch must have the same (B, T), not {shapes}")
    tokens = Tokens.of(batch.target_mask)
    hidden, target = at_least_float32(tokens.gather(output.hidden)), tokens.gather(batch.target)
    projection, embeddings = (x.to(hidden.dtype) for x in (output.projection, output.embeddings))
    bias = None if output.bias is None else output.bias.to(hidden.dtype)
    kinds = tuple(dict.fromkeys(softs))
    tables = [soft.table(embeddings) for soft in kinds]
    kept_rows = int(keep * 1e6 / (len(projection) * hidden.element_size()))
    nll, log_total, *picked = _VocabularyPass.apply(  # type: ignore[no-untyped-call]  # torch's
        hidden, projection, bias, target, kinds, kept_rows, *tables
    )
    vectors = [
        _soft_vectors(table, len(hidden), *picked[4 * i : 4 * i + 4])
        for i, table in enumerate(tables)
    ]
    seen = contracts.Output(hidden[None], projection, bias, embeddings)
    return Reading(tokens, target, seen, nll, log_total, dict(zip(kinds, vectors, strict=True)))


def _soft_vectors(
    table: Tensor, count: int, share: Tensor, place: Tensor, dense: Tensor, row: Tensor
) -> Tensor:
    """Put sparse and dense soft predictions together, (V, D) table, ... -> (count, D)."""
    if len(row) == count:
        return dense
    token, word = place.div(len(table), rounding_mode="floor"), place % len(table)
    first = torch.searchsorted(token, torch.arange(count, device=token.device))
    bags = functional.embedding_bag(word, table, first, mode="sum", per_sample_weights=share)
    kept = share.new_zeros(count).index_add(0, token, share)
    # Choice: what was dropped goes to the table's mean, not to the words that were kept. The
    # dropped words are many and unlike, so their vectors average out; renormalising would stretch
    # the prediction instead. On a translation model after its first epoch, at equal threshold, the
    # error is 30 to 70 times smaller.
    vectors = bags + (1 - kept)[:, None] * table.mean(0)
    return vectors.index_copy(0, row, dense) if len(row) else vectors


def chunk_rows(vocabulary: int) -> int:
    """Return how many tokens' logits are computed at a time."""
    return max(CHUNK_ENTRIES // vocabulary, CHUNK_ROWS)


def logits_of(
    hidden: Tensor, projection: Tensor, bias: Tensor | None, kept: Sequence[Tensor] = ()
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of each chunk and their logits, in memory that the next chunk overwrites.

    The logits of the first chunks may have been kept.
    """
    size = chunk_rows(len(projection))
    buffer = hidden.new_empty(min(size, len(hidden)), len(projection))
    for number, start in enumerate(range(0, max(len(hidden), 1), size)):
        rows = hidden[start : start + size]
        logits = buffer[: len(rows)]
        if number < len(kept):
            logits.copy_(kept[number])
        elif bias is None:
            torch.mm(rows, projection.t(), out=logits)
        else:
            torch.addmm(bias, rows, projection.t(), out=logits)
        yield slice(start, start + len(rows)), logits


@dataclass(frozen=True)
class _Picked:
    """Soft predictions of a chunk: where little is dropped by their largest shares, else whole."""

    share: Tensor  # (k,) the probabilities kept for the sparse tokens
    place: Tensor  # (k,) where: token * V + word, ascending
    dense: Tensor  # (m, D) soft predictions of the dense tokens
    row: Tensor  # (m,) the dense tokens, ascending


def _pick(powers: Tensor, totals: Tensor, soft: Soft, table: Tensor) -> _Picked:
    """Make the soft predictions of a chunk whose probabilities are powers / totals."""
    if soft.drop == 0:
        row = torch.arange(len(powers), device=powers.device)
        return _Picked(totals[:0], row[:0], powers @ table / totals[:, None], row)
    place = places_above(powers, totals[:, None] * soft.threshold)
    token = place.div(powers.shape[1], rounding_mode="floor")
    share = powers.view(-1)[place] / totals[token]
    sparse = 1 - torch.zeros_like(totals).index_add_(0, token, share) <= soft.drop
    row = sparse.logical_not().nonzero()[:, 0]
    if len(row):
        kept = sparse[token]
        share, place = share[kept], place[kept]
    return _Picked(share, place, powers[row] @ table / totals[row, None], row)


def places_above(values: Tensor, bound: Tensor) -> Tensor:
    """Find the entries above their row's bound, read row by row, (c, V), (c, 1) -> (k,)."""
    if values.device.type == "cpu":
        # torch compares and counts one by one here; numpy takes a sixth of the time.
        return torch.from_numpy(np.flatnonzero(values.numpy() > bound.numpy()))
    return (values > bound).flatten().nonzero()[:, 0]


class _VocabularyPass(torch.autograd.Function):
    """Read likelihoods and soft predictions of n tokens off the output layer, by chunks.

    Inputs: hidden (n, H), projection (V, H), bias (V,) or None, target (n,), a tuple of `Soft`, how
    many rows of logits may be kept, and for each `Soft` its table (V, D). Outputs: nll (n,),
    log_total (n,), and for each `Soft` the fields of `_Picked`, all chunks together.

    Unless it is to be kept nothing of size n x V outlives a chunk: the backward pass computes the
    logits again. Gradients cannot be formed in the forward pass, as torch's fused sum does, because
    each sample has its own weight, known only once its loss is. torch's F.linear_cross_entropy with
    reduction="none" computes again too, but on a CPU takes twice the time of this, and it has
    neither label smoothing nor soft predictions.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        projection: Tensor,
        bias: Tensor | None,
        target: Tensor,
        softs: tuple[Soft, ...],
        kept_rows: int,
        *tables: Tensor,
    ) -> tuple[Tensor, ...]:
        # Temperature 1 comes last, because it overwrites the logits.
        temperatures = [*sorted({soft.temperature for soft in softs} - {1.0}), 1.0]
        nll = hidden.new_empty(len(hidden))
        log_totals = hidden.new_empty(len(temperatures), len(hidden))
        picked: list[list[_Picked]] = [[] for _ in softs]
        starts, kept = [], []
        for rows, logits in logits_of(hidden, projection, bias):
            starts.append(rows.start)
            if rows.stop <= kept_rows:
                kept.append(logits.clone())
            top = logits.amax(1, keepdim=True)
            likely = logits.gather(1, target[rows, None]) - top
            logits.sub_(top)
            for temperature, log_total in zip(temperatures, log_totals, strict=True):
                powers = logits.exp_() if temperature == 1 else (logits / temperature).exp_()
                totals = powers.sum(1)
                log_total[rows] = totals.log() + top[:, 0] / temperature
                for soft, table, chunks in zip(softs, tables, picked, strict=True):
                    if soft.temperature == temperature:
                        chunks.append(_pick(powers, totals, soft, table))
            # totals >= 1 and likely <= 0 in any rounding, so no nll is ever negative.
            nll[rows] = totals.log() - likely[:, 0]
        ctx.save_for_backward(hidden, projection, bias, target, log_totals, *tables, *kept)
        ctx.softs, ctx.temperatures, ctx.picked = softs, temperatures, picked
        outputs = [x for chunks in picked for x in _joined(chunks, starts, len(projection))]
        ctx.mark_non_differentiable(*outputs[1::2])
        return nll, log_totals[-1].clone(), *outputs

    @staticmethod
    def backward(
        ctx: Any, d_nll: Tensor, d_log_total: Tensor, *d_picked: Tensor
    ) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("a loss has no second derivatives: create_graph=True is refused")
        hidden, projection, bias, target, log_totals, *rest = ctx.saved_tensors
        tables, kept = rest[: len(ctx.softs)], rest[len(ctx.softs) :]
        inputs = hidden, projection, bias, target, None, None, *tables
        gradients = [
            torch.zeros_like(x) if wanted else None
            for x, wanted in zip(inputs, ctx.needs_input_grad, strict=True)
        ]
        d_hidden, d_projection, d_bias, _, _, _, *d_tables = gradients
        columns = ctx.softs, tables, d_tables, ctx.picked, d_picked[::4], d_picked[2::4]
        pulls = [_Pull(*column) for column in zip(*columns, strict=True)]
        for number, (rows, logits) in enumerate(logits_of(hidden, projection, bias, kept)):
            # CE and all soft predictions meet in one gradient of the logits, so that its products
            # with projection and hidden are formed once, whatever the number of losses.
            d_logits = torch.zeros(())
            for temperature, log_total in zip(ctx.temperatures, log_totals, strict=True):
                shares = logits if temperature == 1 else logits / temperature
                shares.sub_(log_total[rows, None]).exp_()
                scale = (d_nll + d_log_total)[rows] * (temperature == 1)
                mine = [pull for pull in pulls if pull.soft.temperature == temperature]
                additions = [pull.act(number, shares, scale) for pull in mine]
                shares.mul_(scale[:, None])
                for row, dense, place, sparse in additions:
                    shares.index_add_(0, row, dense)
                    shares.view(-1).index_add_(0, place, sparse)
                d_logits = shares.add_(d_logits)
            d_logits.scatter_add_(1, target[rows, None], -d_nll[rows, None])
            if d_hidden is not None:
                torch.mm(d_logits, projection, out=d_hidden[rows])
            if d_projection is not None:
                d_projection.addmm_(d_logits.t(), hidden[rows])
            if d_bias is not None:
                d_bias += d_logits.sum(0)
        return tuple(gradients)


def _joined(chunks: list[_Picked], starts: list[int], vocabulary: int) -> list[Tensor]:
    """Put the chunks' picks together, counting tokens from the first chunk's first."""
    places = [c.place + start * vocabulary for c, start in zip(chunks, starts, strict=True)]
    rows = [c.row + start for c, start in zip(chunks, starts, strict=True)]
    columns = [c.share for c in chunks], places, [c.dense for c in chunks], rows
    return [torch.cat(column) for column in columns]


@dataclass(frozen=True)
class _Pull:
    """What one kind of soft prediction adds to the gradient of the logits.

    With p = softmax(logits / t) and u = sum_k p_k E_k: du/dlogit_j = p_j (E_j - u) / t. A share p_k
    alone: dp_k/dlogit_j = p_k (1[j = k] - p_j) / t. The parts that are p times a number per token
    join CE's; of a sparse token there is nothing else but its few own words.
    """

    soft: Soft
    table: Tensor
    d_table: Tensor | None
    picked: list[_Picked]
    d_share: Tensor
    d_dense: Tensor

    def act(
        self, number: int, shares: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Add to a chunk's `scale` in place; return rows and entries to be added after scaling."""
        chunk, temperature = self.picked[number], self.soft.temperature
        d_share = torch.split(self.d_share, [len(chunk.share) for chunk in self.picked])[number]
        d_dense = torch.split(self.d_dense, [len(chunk.row) for chunk in self.picked])[number]
        sparse = chunk.share * d_share / temperature
        token = chunk.place.div(shares.shape[1], rounding_mode="floor")
        scale.index_add_(0, token, -sparse)
        scale.index_add_(0, chunk.row, -(d_dense * chunk.dense).sum(1) / temperature)
        dense = shares[chunk.row]
        if self.d_table is not None:
            self.d_table.addmm_(dense.t(), d_dense)
        dense *= (d_dense / temperature) @ self.table.t()
        return chunk.row, dense, chunk.place, sparse
