"""Outputs of a system to statistics, and statistics to a value."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from augless import text
from augless.knobs import Choices, Knobs, Within
from augless.knobs import of as knobs_of

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

Floats = NDArray[np.float64]
# Those of sacreBLEU's tokenisers that neither download a model nor need a dictionary.
Tokenisation = Literal["13a", "intl", "zh", "char", "none"]

ORDER = 4  # of BLEU's n-grams


class BadScores(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRecipe are
    """Outputs that cannot be scored, or scores that cannot be compared."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a system made of a test set of N sentences; a metric reads the parts that it `needs`."""

    hypotheses: Sequence[str] = ()
    references: Sequence[Sequence[str]] = ()
    """one or several for each sentence: R lists of N lines, as sacreBLEU takes them"""
    nats: ArrayLike = ()
    """minus the log-probability of each reference, (N,)"""
    tokens: ArrayLike = ()
    """how many tokens that was, with the end of the sentence, (N,)"""

    def check(self, metric: "Metric") -> None:
        """Refuse parts that are missing, empty, or of different lengths."""
        lengths: dict[str, int] = {}
        for name in metric.needs:
            part = getattr(self, name)
            for column in part or [()] if name == "references" else [part]:
                if isinstance(column, str):
                    raise BadScores(f"the {name} are one string, not a list of lines")
                lines = np.size(column) if name in ("nats", "tokens") else len(column)
                if not lines:
                    raise BadScores(f"{metric.name} needs {name}, and there are none")
                first, count = next(iter(lengths.items()), (name, lines))
                if count != lines:
                    raise BadScores(f"the {first} have {count} lines and the {name} {lines}")
                lengths[name] = lines


class Metric(Knobs, ABC):
    """A way to score: from outputs to statistics per sentence, from their sum to a value."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    """what it is called in a sentence, where that is not its name"""
    needs: ClassVar[tuple[str, ...]] = ("hypotheses", "references")
    higher_is_better: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    """whether statistics have a row per sentence, or a single one for the whole output"""
    largest: ClassVar[float] = math.inf
    """value that it can have"""
    of_phrases: ClassVar[bool] = False
    """whether outputs have to share four words in a row with the references to score anything"""

    @abstractmethod
    def statistics(self, outputs: Outputs) -> Floats:
        """Count what the value depends on, -> (N, K)."""

    @abstractmethod
    def value(self, sums: Floats) -> Floats:
        """Turn sums of statistics into scores, (..., K) -> (...)."""

    def signature(self, references: int = 1) -> str:
        """Say all that decides a value; scores with different signatures do not compare."""
        knobs = (f"{name}:{getattr(self, name)}" for name in knobs_of(type(self)))
        return "|".join((self.name, f"refs:{references}", *knobs))

    @property
    def needs_references(self) -> bool:
        """Whether it compares hypotheses with something."""
        return "references" in self.needs


def _sacre_statistics(metric: "SacreMetric", outputs: Outputs) -> Floats:
    # Its public functions give a score, not what it was made of, save for BLEU of one sentence at
    # a time. This one method, on which its own significance tests rest, gives the statistics.
    rows = metric._extract_corpus_statistics(outputs.hypotheses, outputs.references)
    return np.array(rows, dtype=np.float64)


def _sacre_signature(metric: "SacreMetric", references: int, **changes: str) -> str:
    metric.num_refs = references  # otherwise known only after scoring
    signature = metric.get_signature()
    for key, value in changes.items():
        signature.update(key, value)
    return str(signature.format())


def _bleu(sums: Floats) -> Floats:
    """Compute corpus BLEU with sacreBLEU's "exp" smoothing, (..., 2 + 4 + 4) -> (...).

    100 min(1, exp(1 - r/h)) (p_1 p_2 p_3 p_4)^(1/4), where the k-th p that would be 0 is instead
    1 / (2^k n-grams). Without any match, or without any 4-gram, it is 0.
    """
    hypothesis, reference = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2 : 2 + ORDER], sums[..., 2 + ORDER :]
    missed = correct == 0
    smoothed = np.where(missed, 0.5 ** missed.cumsum(-1), correct)
    defined = (total > 0).all(-1) & ~missed.all(-1)
    precisions = smoothed / np.where(defined[..., None], total, 1.0)
    brevity = np.exp(np.minimum(0.0, 1 - reference / np.maximum(hypothesis, 1.0)))
    return np.where(defined, 100 * brevity * np.exp(np.log(precisions).mean(-1)), 0.0)


@dataclass(frozen=True, kw_only=True)
class Bleu(Metric):
    """Corpus BLEU as sacreBLEU computes it, on detokenised text, case kept."""

    name: ClassVar[str] = "bleu"
    title: ClassVar[str] = "BLEU"
    largest: ClassVar[float] = 100.0
    of_phrases: ClassVar[bool] = True
    lowercase: ClassVar[bool] = False
    tokenise: Annotated[Tokenisation, "sacreBLEU's tokeniser: 13a, intl, zh, char, none"] = "13a"

    def _sacre(self) -> "SacreMetric":
        from sacrebleu.metrics.bleu import BLEU  # late: help must be fast

        return BLEU(tokenize=self.tokenise, lowercase=self.lowercase)

    def statistics(self, outputs: Outputs) -> Floats:
        """Count lengths (hypothesis, reference), matched n-grams, all n-grams, -> (N, 10)."""
        return _sacre_statistics(self._sacre(), outputs)

    def value(self, sums: Floats) -> Floats:
        """Compute BLEU, 0 to 100."""
        return _bleu(sums)

    def signature(self, references: int = 1) -> str:
        """Give sacreBLEU's own signature."""
        return _sacre_signature(self._sacre(), references)


@dataclass(frozen=True, kw_only=True)
class LowercasedBleu(Bleu):
    """Corpus BLEU as sacreBLEU computes it with `-lc`: detokenised text, lower-cased."""

    name: ClassVar[str] = "bleu-lowercased"
    title: ClassVar[str] = "lower-cased BLEU"
    lowercase: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Chrf(Metric):
    """chrF as sacreBLEU computes it: F of character n-grams, recall counting `beta` times."""

    name: ClassVar[str] = "chrf"
    title: ClassVar[str] = "chrF"
    largest: ClassVar[float] = 100.0
    characters: Annotated[int, "longest character n-gram", Within(1, 100)] = 6
    words: Annotated[int, "longest word n-gram: 0 is chrF, 2 is chrF++", Within(0, 100)] = 0
    beta: Annotated[int, "how many times as important recall is as precision", Within(1, 1000)] = 2

    def _sacre(self) -> "SacreMetric":
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(char_order=self.characters, word_order=self.words, beta=self.beta)

    def statistics(self, outputs: Outputs) -> Floats:
        """Count n-grams of each order (hypothesis, reference, matched), -> (N, 3 orders)."""
        return _sacre_statistics(self._sacre(), outputs)

    def value(self, sums: Floats) -> Floats:
        """Compute chrF, 0 to 100: of mean precision and recall over the orders both sides have."""
        hypothesis, reference, matched = (sums[..., k::3] for k in range(3))
        both = (hypothesis > 0) & (reference > 0)
        orders = np.maximum(both.sum(-1), 1)
        precision, recall = (
            (matched / np.where(both, side, np.inf)).sum(-1) / orders
            for side in (hypothesis, reference)
        )
        weighted = self.beta**2 * precision + recall
        some = weighted > 0
        f = (1 + self.beta**2) * precision * recall / np.where(some, weighted, 1.0)
        return np.asarray(100 * f)

    def signature(self, references: int = 1) -> str:
        """Give sacreBLEU's own signature, and beta where it is not that of chrF2."""
        # sacreBLEU says beta in the metric's name.
        beta = "" if self.beta == 2 else f"beta:{self.beta}|"
        return beta + _sacre_signature(self._sacre(), references)


@dataclass(frozen=True, kw_only=True)
class _Tokenised(Metric):
    """A metric of Moses' tokens, lower-cased."""

    language: Annotated[str, "code of the language whose rules cut words, such as de"] = "en"

    def _tokens(self, lines: Sequence[str]) -> list[str]:
        tokeniser = text.Tokeniser(language=self.language, kind="moses", lowercase=True)
        return [tokeniser.tokens(line) for line in lines]

    def _tokenisation(self) -> str:
        return f"moses-{self.language}-sacremoses-{metadata.version('sacremoses')}"


@dataclass(frozen=True, kw_only=True)
class TokenisedBleu(_Tokenised):
    """The paper's BLEU: Moses' tokens, lower-cased, and no tokenisation of sacreBLEU's."""

    name: ClassVar[str] = "bleu-tokenised"
    title: ClassVar[str] = "tokenised BLEU"
    largest: ClassVar[float] = 100.0
    of_phrases: ClassVar[bool] = True
    smoothing: ClassVar[str] = "exp"

    def _sacre(self) -> "SacreMetric":
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize="none", smooth_method=self.smoothing, force=True)

    def statistics(self, outputs: Outputs) -> Floats:
        """Count as `bleu` does, -> (N, 10)."""
        references = [self._tokens(lines) for lines in outputs.references]
        tokenised = Outputs(self._tokens(outputs.hypotheses), references)
        return _sacre_statistics(self._sacre(), tokenised)

    def value(self, sums: Floats) -> Floats:
        """Compute BLEU, 0 to 100."""
        return _bleu(sums)

    def signature(self, references: int = 1) -> str:
        """Give sacreBLEU's signature, with our tokeniser in it."""
        return _sacre_signature(self._sacre(), references, case="lc", tok=self._tokenisation())


@dataclass(frozen=True, kw_only=True)
class Precision1(TokenisedBleu):
    """The share of words that the reference has too, clipped: BLEU-1 of the paper's Table 2."""

    name: ClassVar[str] = "precision-1"
    title: ClassVar[str] = ""
    of_phrases: ClassVar[bool] = False
    smoothing: ClassVar[str] = "none"
    order: ClassVar[int] = 1

    def statistics(self, outputs: Outputs) -> Floats:
        """Count matched n-grams and all n-grams of the order, -> (N, 2)."""
        return super().statistics(outputs)[:, [1 + self.order, 1 + ORDER + self.order]]

    def value(self, sums: Floats) -> Floats:
        """Compute the precision over the corpus, 0 to 100, without a brevity penalty."""
        return _percent(sums)

    def signature(self, references: int = 1) -> str:
        """Give the signature of the BLEU that it is the n-gram precision of."""
        return f"order:{self.order}|{super().signature(references)}"


@dataclass(frozen=True, kw_only=True)
class Precision2(Precision1):
    """The share of word pairs that the reference has too, clipped: BLEU-2 of Table 2."""

    name: ClassVar[str] = "precision-2"
    order: ClassVar[int] = 2


def _percent(sums: Floats) -> Floats:
    return np.asarray(100 * sums[..., 0] / np.maximum(sums[..., 1], 1.0))


def _grams(tokens: list[str], order: int) -> set[tuple[str, ...]]:
    return set(zip(*(tokens[k:] for k in range(order)), strict=False))


@dataclass(frozen=True, kw_only=True)
class Distinct1(_Tokenised):
    """Distinct words / words of a response, the mean over responses: Dist1 of Table 2."""

    name: ClassVar[str] = "distinct-1"
    largest: ClassVar[float] = 1.0
    needs: ClassVar[tuple[str, ...]] = ("hypotheses",)
    order: ClassVar[int] = 1
    mean_over: ClassVar[str] = "responses"

    def statistics(self, outputs: Outputs) -> Floats:
        """Measure the share of distinct n-grams, and count the response, -> (N, 2)."""
        # Choice: as in Li et al. (2016) the divisor is tokens, for pairs of words too. A response
        # of no words says nothing distinct: 0.
        lines = [line.split() for line in self._tokens(outputs.hypotheses)]
        shares = [len(_grams(line, self.order)) / max(len(line), 1) for line in lines]
        return np.stack([shares, np.ones(len(shares))], 1)

    def value(self, sums: Floats) -> Floats:
        """Compute the share, 0 to 1."""
        return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1.0))

    def signature(self, references: int = 1) -> str:
        """Say what is counted in what; references play no part."""
        return (
            f"order:{self.order}|mean:{self.mean_over}|divisor:tokens|case:lc"
            f"|tok:{self._tokenisation()}"
        )


@dataclass(frozen=True, kw_only=True)
class Distinct2(Distinct1):
    """Distinct pairs of words / words of a response, the mean over responses: Dist2 of Table 2."""

    name: ClassVar[str] = "distinct-2"
    order: ClassVar[int] = 2


@dataclass(frozen=True, kw_only=True)
class CorpusDistinct1(Distinct1):
    """Distinct words / words of the whole output; falls with its length, so compare equal ones."""

    name: ClassVar[str] = "corpus-distinct-1"
    mean_over: ClassVar[str] = "corpus"
    # What is distinct in two sentences is not the sum of what is distinct in each. A bootstrap of
    # sentences would repeat some and so always find fewer distinct words than there are.
    additive: ClassVar[bool] = False

    def statistics(self, outputs: Outputs) -> Floats:
        """Count distinct n-grams and tokens of the whole output, -> (1, 2)."""
        lines = [line.split() for line in self._tokens(outputs.hypotheses)]
        distinct = set[tuple[str, ...]]().union(*(_grams(line, self.order) for line in lines))
        return np.array([[len(distinct), sum(map(len, lines))]], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class CorpusDistinct2(CorpusDistinct1):
    """Distinct pairs of words / words of the whole output; falls with its length."""

    name: ClassVar[str] = "corpus-distinct-2"
    order: ClassVar[int] = 2


def bits_per_token(nats: ArrayLike, tokens: ArrayLike) -> Floats:
    """Compute how many bits a token takes, from total nats and tokens."""
    return np.asarray(np.asarray(nats, dtype=np.float64) / np.asarray(tokens) / math.log(2))


def perplexity(nats: ArrayLike, tokens: ArrayLike) -> Floats:
    """Compute exp(nats per token), from total nats and tokens; infinite where that overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.asarray(nats, dtype=np.float64) / np.asarray(tokens)))


@dataclass(frozen=True, kw_only=True)
class Perplexity(Metric):
    """exp(nats per token) of the references under the model, end of sentence counted."""

    name: ClassVar[str] = "perplexity"
    needs: ClassVar[tuple[str, ...]] = ("nats", "tokens")
    higher_is_better: ClassVar[bool] = False
    vocabulary: Annotated[str, "what tokens are, such as a codec's hash: others do not compare"] = (
        "unnamed"
    )

    def statistics(self, outputs: Outputs) -> Floats:
        """Put nats beside tokens, -> (N, 2)."""
        rows = np.stack(
            [np.ravel(np.asarray(x, np.float64)) for x in (outputs.nats, outputs.tokens)], 1
        )
        if not np.isfinite(rows).all():
            row = int(np.argmin(np.isfinite(rows).all(1)))
            raise BadScores(f"the nats or tokens of sentence {row + 1} are no finite number")
        if rows[:, 1].min() < 1:
            raise BadScores(
                f"sentence {int(rows[:, 1].argmin()) + 1} has no token, not even an end"
            )
        return rows

    def value(self, sums: Floats) -> Floats:
        """Compute perplexity, 1 or more for a discrete model."""
        return perplexity(sums[..., 0], sums[..., 1])

    def signature(self, references: int = 1) -> str:
        """Say what is averaged."""
        return f"base:e|mean:tokens|end:counted|vocabulary:{self.vocabulary}"


@dataclass(frozen=True, kw_only=True)
class BitsPerToken(Perplexity):
    """log2 of the perplexity."""

    name: ClassVar[str] = "bits-per-token"

    def value(self, sums: Floats) -> Floats:
        """Compute bits per token."""
        return bits_per_token(sums[..., 0], sums[..., 1])

    def signature(self, references: int = 1) -> str:
        """Say what is averaged."""
        return super().signature(references).replace("base:e", "base:2")


@dataclass(frozen=True, kw_only=True)
class NatsPerToken(Perplexity):
    """The cross-entropy of the references under the model, in nats per token."""

    name: ClassVar[str] = "loss"

    def value(self, sums: Floats) -> Floats:
        """Compute nats per token."""
        return np.asarray(sums[..., 0] / sums[..., 1])

    def signature(self, references: int = 1) -> str:
        """Say what is averaged."""
        return super().signature(references).replace("base:e", "log:e")


_LISTED: tuple[type[Metric], ...] = (
    Bleu,
    LowercasedBleu,
    TokenisedBleu,
    Chrf,
    Precision1,
    Precision2,
    Distinct1,
    Distinct2,
    CorpusDistinct1,
    CorpusDistinct2,
    Perplexity,
    BitsPerToken,
    NatsPerToken,
)
METRICS: dict[str, type[Any]] = Choices({metric.name: metric for metric in _LISTED})


def higher_is_better(name: str) -> bool:
    """Tell the direction of a metric."""
    return bool(METRICS[name].higher_is_better)


def of_text(name: str) -> bool:
    """Tell whether a metric scores generated sentences; the others need nats and tokens only."""
    return "nats" not in METRICS[name].needs


def made(name: str, **known: str) -> Metric:
    """Make a metric; of what is known of the texts, it takes what it has a knob for."""
    if name not in METRICS:
        raise BadScores(f"metric {name!r} is none of {', '.join(METRICS)}")
    own = {knob.name for knob in fields(METRICS[name])}
    metric: Metric = METRICS[name](**{key: known[key] for key in known if key in own})
    return metric


@dataclass(frozen=True)
class Score:
    """A value, what it means, and what it was computed from."""

    metric: Metric
    value: float
    signature: str
    statistics: Floats = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its metric's name."""
        return self.metric.name


def score_of(metric: Metric, statistics: Floats, signature: str) -> Score:
    """Make the score of statistics that were computed before, such as a run's record, (N, K)."""
    return Score(metric, float(metric.value(statistics.sum(0))), signature, statistics)


def score(
    metric: str | Metric,
    hypotheses: Sequence[str] = (),
    references: Sequence[str] | Sequence[Sequence[str]] = (),
    *,
    nats: ArrayLike = (),
    tokens: ArrayLike = (),
) -> Score:
    """Score a system's hypotheses, or a model's nats and tokens, whichever the metric needs.

    `references` are N lines, or several lists of N lines. A metric is a name, or an instance where
    its knobs matter.
    """
    chosen = made(metric) if isinstance(metric, str) else metric
    single = bool(references) and isinstance(references[0], str)
    streams: Any = [references] if single else references
    outputs = Outputs(hypotheses, streams, nats, tokens)
    outputs.check(chosen)
    signature = chosen.signature(max(len(streams), 1))
    return score_of(chosen, chosen.statistics(outputs), signature)
