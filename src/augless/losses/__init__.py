"""One number per sample: how far a model's output is from its target.

Functions on tensors come first. `LOSSES` lists the losses that recipes name; each is called as
`loss(output, batch) -> (B,)` and is never reduced, because a sample's weight is a function of its
own loss; with `per = "token"` the samples are the batch's n real tokens, (n,), row by row.
`evaluate` computes several losses of one output in a single pass over the vocabulary. A
loss that compares several forward passes says how many (`passes`); the others average over them.

    cross-entropy   -sum_t log p_t(y_t)                      y: the target sentence
    euclidean       |u - v|                                  u, v: sentences as concatenated vectors
    wasserstein     sqrt(min_T sum_ij T_ij |u_i - v_j|^2)    u, v: sentences as bags of vectors
    r-drop          sum_t (KL(p_t, q_t) + KL(q_t, p_t)) / 2  p, q: two passes, each with its dropout

where `v` is the embedded target and `u_t = sum_k p_t(k) E_k` the soft prediction, the word vector
the model expects at position t.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import checkpoint

from augless import contracts, transport
from augless.knobs import Above, Among, AtMost, Choices, Knobs, Within
from augless.losses import reading as passes
from augless.losses.reading import Embeddings, Per, Reading, Soft, Tokens, at_least_float32, read

Cost = Literal["squared-euclidean", "cosine"]


def smooth_root(squared: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Take a square root that is 0 at 0 and smooth there: `sqrt(x + eps) - sqrt(eps)`.

    The paper calls sqrt(WMD) smooth; it is Lipschitz, but its gradient jumps at 0, just where a
    perfect prediction is.
    """
    return (squared + epsilon).sqrt() - math.sqrt(epsilon)


def euclidean(u: Tensor, v: Tensor, *, epsilon: float = 1e-6) -> Tensor:
    """Measure the Euclidean distance of two representations, (B, D), (B, D) -> (B,)."""
    return smooth_root((at_least_float32(u) - v).square().sum(1), epsilon)


def wasserstein(
    u: Tensor,
    v: Tensor,
    u_mask: Tensor,
    v_mask: Tensor,
    *,
    solver: str = "exact",
    cost: Cost = "squared-euclidean",
    ngram: int = 1,
    root: bool = True,
    epsilon: float = 1e-6,
) -> Tensor:
    """Measure the cheapest transport between bags of vectors, (B, N, D), (B, M, D) -> (B,).

    Masks are true at real vectors, which share the mass 1 of their bag equally. Without `root` and
    with the default cost this is the paper's WMD, the squared 2-Wasserstein distance; with `root`
    its WD. n-grams as in `cost_matrix`; n at least the length makes it the Euclidean distance.
    """
    _check_choice("solver", solver, transport.SOLVERS)
    u, u_mask = _packed(u, u_mask)
    v, v_mask = _packed(v, v_mask)
    costs = cost_matrix(u, v, cost, ngram)
    # Of T words there are T - n + 1 windows, at least one if there are words.
    u_windows, v_windows = (torch.cat([m[:, :1], m[:, ngram:]], 1) for m in (u_mask, v_mask))
    value = transport.SOLVERS[solver](costs, u_windows, v_windows).value
    return smooth_root(value, epsilon) if root else value


def cost_matrix(u: Tensor, v: Tensor, cost: Cost = "squared-euclidean", ngram: int = 1) -> Tensor:
    """Compare every n-gram of u with every n-gram of v, (B, N, D), (B, M, D) -> (B, N', M').

    An n-gram is n consecutive vectors, concatenated; there are N' = max(N - n + 1, 1) of them, the
    only one of a shorter sentence being filled up with zeros. They are never formed: the norms and
    inner products of n-grams are sums of those of their words, along the diagonal.
    """
    _check_choice("cost", cost, get_args(Cost))
    words, high, wide = u @ v.mT, *(max(x.shape[1] - ngram + 1, 1) for x in (u, v))
    shifts = range(1, min(ngram, *words.shape[1:]))
    inner = sum((words[:, k : k + high, k : k + wide] for k in shifts), words[:, :high, :wide])
    u_norm = _window_sum(u.square().sum(2), ngram)[:, :, None]
    v_norm = _window_sum(v.square().sum(2), ngram)[:, None, :]
    # Rounding may leave a distance of 0 slightly negative, which a root would not survive.
    if cost == "squared-euclidean":
        return (u_norm + v_norm - 2 * inner).clamp(min=0)
    # Half the squared Euclidean distance of the normalised vectors, so its root is a distance too.
    # Choice: a zero vector has no direction and costs 1.
    return (1 - inner * ((u_norm + 1e-12) * (v_norm + 1e-12)).rsqrt()).clamp(min=0)


def _window_sum(values: Tensor, ngram: int) -> Tensor:
    """Sum n consecutive values at each start, (B, N) -> (B, N')."""
    count = max(values.shape[1] - ngram + 1, 1)
    shifts = range(1, min(ngram, values.shape[1]))
    return sum((values[:, k : k + count] for k in shifts), values[:, :count])


def soft_predictions(logits: Tensor, embeddings: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the word vectors a model expects, (..., V) logits, (V, D) -> (..., D)."""
    return (at_least_float32(logits) / temperature).softmax(-1) @ at_least_float32(embeddings)


def cross_entropy_of_logits(
    logits: Tensor,
    target: Tensor,
    mask: Tensor,
    *,
    per: Per = "sentence-sum",
    smoothing: float = 0.0,
) -> Tensor:
    """Measure -log p(target), (B, T, V) logits, (B, T) target and mask -> (B,), or (n,) tokens."""
    _check_choice("per", per, get_args(Per))
    tokens = Tokens.of(mask)
    scores, words = at_least_float32(tokens.gather(logits)), tokens.gather(target)
    nll = functional.cross_entropy(scores, words, reduction="none", label_smoothing=smoothing)
    return tokens.per(per, nll)


def cross_entropy(
    hidden: Tensor,
    projection: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Tensor,
    *,
    per: Per = "sentence-sum",
    smoothing: float = 0.0,
) -> Tensor:
    """Measure the same from the output layer's factors, (B, T, H), (V, H), (V,) or None -> (B,).

    The logits exist a chunk at a time, in the forward pass and again in the backward pass.
    """
    output = contracts.Output(hidden, projection, bias, projection)
    return CrossEntropy(per=per, smoothing=smoothing)(output, contracts.Targets(target, mask))


def _check_choice(name: str, value: object, choices: Sequence[object] | dict[str, Any]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _packed(vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Move real vectors to the front and fill up with zeros: what stood in padding is gone."""
    tokens = Tokens.of(mask)
    return tokens.padded(at_least_float32(tokens.gather(vectors))), tokens.mask


def evaluate(
    losses: Sequence["Loss"],
    output: contracts.Output | Sequence[contracts.Output],
    batch: contracts.Targets,
    *,
    keep: float = 0.0,
) -> list[Tensor]:
    """Compute several losses, (B,) or (n,) each, in a single pass over the vocabulary.

    `output` is one, or those of several forward passes of the same batch, each passed over once: a
    loss averages over them, or over as many groups as there are of the `passes` that it compares.
    `keep`: up to so many MB of logits are kept for the backward pass, which otherwise computes them
    again, at the cost of a third more work in the output layer.
    """
    example = 'losses.LOSSES["cross-entropy"]()'
    if isinstance(losses, str) or not isinstance(losses, Sequence):
        raise TypeError(f"{losses!r} is no list of losses, such as [{example}]")
    for loss in losses:
        if not isinstance(loss, Loss):
            raise TypeError(f"{loss!r} is no loss; give a list of losses, such as [{example}]")
    outputs = [output] if isinstance(output, contracts.Output) else output
    # Autocast would send the products back to half precision.
    with torch.autocast(outputs[0].hidden.device.type, enabled=False):
        softs = [loss.soft for loss in losses if loss.soft is not None]
        readings = [read(one, batch, softs, keep) for one in outputs]
        return [_averaged(loss, readings) for loss in losses]


def _averaged(loss: "Loss", readings: Sequence[Reading]) -> Tensor:
    size = loss.passes
    if len(readings) < size:
        name = type(loss).__name__
        raise ValueError(f"{name} compares {size} forward passes; there is {len(readings)}")
    groups = len(readings) // size
    values = [loss.measure(*readings[i * size : (i + 1) * size]) for i in range(groups)]
    return values[0] if groups == 1 else torch.stack(values).mean(0)


@dataclass(frozen=True, kw_only=True)
class Loss(Knobs, ABC):
    """How far an output is from its target: `loss(output, batch) -> (B,)`, never reduced."""

    passes: ClassVar[int] = 1
    """how many forward passes of a batch, each with its own dropout, `measure` compares"""

    def __call__(
        self, output: contracts.Output | Sequence[contracts.Output], batch: contracts.Targets
    ) -> Tensor:
        """Compute this loss alone."""
        return evaluate([self], output, batch)[0]

    @property
    def soft(self) -> Soft | None:
        """The kind of soft prediction this loss needs, if any."""
        return None

    @property
    def by_token(self) -> bool:
        """Tell whether its samples are tokens, not sentences."""
        return False

    @property
    def grows(self) -> bool:
        """Tell whether it is a sum over tokens, which grows with the sentence."""
        return False

    @abstractmethod
    def measure(self, *readings: Reading) -> Tensor:
        """Compute the loss, (B,), from what a pass over the vocabulary found, `passes` of them.

        It is (n,) where each token is a sample.
        """


@dataclass(frozen=True, kw_only=True)
class TokenLoss(Loss):
    """A loss of each token, of which a sentence has the sum or the mean."""

    per: Annotated[Per, "a sentence's tokens are summed, averaged, or samples of their own"] = (
        "sentence-sum"
    )

    @property
    def by_token(self) -> bool:
        """Tell whether each token is a sample."""
        return self.per == "token"

    @property
    def grows(self) -> bool:
        """Tell whether tokens are summed, by it or by whoever sums over samples."""
        return self.per != "sentence-mean"


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(TokenLoss):
    """The negative log-likelihood of the target sentence, in nats."""

    smoothing: Annotated[
        float, "share of the target spread over the whole vocabulary", Within(0, 1)
    ] = 0.0

    def measure(self, *readings: Reading) -> Tensor:
        """Compute the loss, (B,) or (n,), from the tokens' likelihoods."""
        (reading,) = readings
        nll = reading.nll
        if self.smoothing > 0:
            nll = nll.lerp(reading.uniform_nll(), self.smoothing)
        return reading.tokens.per(self.per, nll)


@dataclass(frozen=True, kw_only=True)
class SoftLoss(Loss):
    """A distance of the soft prediction from the embedded target."""

    temperature: Annotated[
        float, "temperature of the softmax of the soft prediction", Within(1e-6, 1e6)
    ] = 1.0
    embeddings: Annotated[Embeddings, "detached: no gradient to word vectors"] = "detached"
    # Choice: with these WD is within 0.2 % and its gradient within 4 % of the dense form, on
    # translation models after one to four epochs; about a hundred words a token are kept.
    threshold: Annotated[
        float, "sparse tokens keep the words more probable than this", Within(0, 1)
    ] = 3e-4
    drop: Annotated[
        float, "a token may be sparse if it drops at most this; 0: all dense", Within(0, 1)
    ] = 0.5
    epsilon: Annotated[
        float, "added to the squared distance under the root", Above(0), AtMost(1)
    ] = 1e-6

    @property
    def soft(self) -> Soft:
        """The kind of soft prediction this loss needs."""
        return Soft(
            temperature=self.temperature,
            embeddings=self.embeddings,
            threshold=self.threshold,
            drop=self.drop,
        )

    def vectors(self, reading: Reading) -> tuple[Tensor, Tensor]:
        """Return predicted and target sentences, (B, L, D) each, zero at padding."""
        target = self.soft.table(reading.output.embeddings)[reading.target]
        return reading.tokens.padded(reading.softs[self.soft]), reading.tokens.padded(target)


@dataclass(frozen=True, kw_only=True)
class Euclidean(SoftLoss):
    """The Euclidean distance of predicted and target sentence, as concatenated word vectors."""

    def measure(self, *readings: Reading) -> Tensor:
        """Compute the loss, (B,), from the soft predictions."""
        (reading,) = readings
        predicted, target = self.vectors(reading)
        return euclidean(predicted.flatten(1), target.flatten(1), epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Wasserstein(SoftLoss):
    """The Wasserstein distance of predicted and target sentence as bags of word vectors."""

    solver: Annotated[str, "how the transport is solved", Among("transport.SOLVERS")] = "exact"
    cost: Annotated[Cost, "cost of moving one word vector to another"] = "squared-euclidean"
    ngram: Annotated[
        int, "length of the windows that are transported; 1: words", Within(1, 10_000)
    ] = 1
    root: Annotated[bool, "sqrt of the transport cost (WD) instead of the cost itself (WMD)"] = True

    def measure(self, *readings: Reading) -> Tensor:
        """Compute the loss, (B,), from the soft predictions."""
        (reading,) = readings
        predicted, target = self.vectors(reading)
        mask = reading.tokens.mask
        return wasserstein(
            predicted,
            target,
            mask,
            mask,
            solver=self.solver,
            cost=self.cost,
            ngram=self.ngram,
            root=self.root,
            epsilon=self.epsilon,
        )


@dataclass(frozen=True, kw_only=True)
class RDrop(TokenLoss):
    """R-Drop: how far two passes, each with its own dropout, are from one another.

    Half the symmetric Kullback-Leibler divergence of their predictions, no target needed. Liang et
    al. (2021) minimise CE + CE' + alpha x this; beside the mean of both CE that is `scale` alpha/2.
    """

    passes: ClassVar[int] = 2

    def measure(self, *readings: Reading) -> Tensor:
        """Compute the loss, (B,) or (n,), from the output layers of two passes."""
        one, other = (reading.output for reading in readings)
        size = passes.chunk_rows(len(one.projection))
        chunks = zip(*(torch.split(x.hidden[0], size) for x in (one, other)), strict=True)
        # As in `_VocabularyPass`, nothing of size n x V outlives a chunk.
        apart = [
            checkpoint.checkpoint(
                _divergence,
                *chunk,
                one.projection,
                one.bias,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for chunk in chunks
        ]
        return readings[0].tokens.per(self.per, torch.cat(apart)).clamp(min=0)


def _divergence(p: Tensor, q: Tensor, projection: Tensor, bias: Tensor | None) -> Tensor:
    """Return (KL(p, q) + KL(q, p)) / 2 = sum (p - q) (log p - log q) / 2, (n, H) twice -> (n,)."""
    p, q = (functional.linear(x, projection, bias).log_softmax(1) for x in (p, q))
    return ((p.exp() - q.exp()) * (p - q)).sum(1) / 2


# `Any`, so that a type checker lets every kind have knobs of its own.
LOSSES: dict[str, type[Any]] = Choices(
    {
        "cross-entropy": CrossEntropy,
        "euclidean": Euclidean,
        "wasserstein": Wasserstein,
        "r-drop": RDrop,
    }
)
