"""A small BERT trained on the corpus itself, where no pretrained model can be had."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from augless import schemas, storage
from augless.augmentation import draws, pretrained
from augless.augmentation.augmenter import (
    BadAugmentation,
    Context,
    SmallModel,
    Stop,
    require,
)
from augless.corpora import Progress
from augless.errors import Stopped
from augless.knobs import Knobs, Within

CORPUS = "corpus"
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PAD, _UNK, _CLS, _SEP, _MASK = range(5)
_LONGEST = 128  # ids of a text; what is longer is cut
_TOKENS = 512  # ids of a batch
# Choice: of the words that are masked in training. With 0.15, as in BERT, it learns less in the
# same time: the loss on held-out words of Multi30k was 4.81 after 100 seconds, with 0.4 4.63.
_SHARE = 0.4
SAVE_EVERY = 200  # steps between two checkpoints
_FOLDER, _STATE, _REPORT = "small-bert", "training.safetensors", "small-bert.json"


@dataclass(frozen=True, kw_only=True)
class Small(Knobs):
    """How a small BERT is trained on the corpus."""

    pieces: Annotated[int, "word pieces it knows", Within(100, 1_000_000)] = 8000
    size: Annotated[int, "dimensions of its layers, a multiple of 32", Within(32, 4096)] = 128
    layers: Annotated[int, "how many layers", Within(1, 100)] = 2
    steps: Annotated[
        int, "optimiser steps, on about 512 word pieces each", Within(1, 100_000_000)
    ] = 3000
    rate: Annotated[float, "highest learning rate of AdamW", Within(1e-8, 1)] = 2e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.size % 32 == 0, "size", self.size, "a multiple of 32")


def train(
    settings: Small, context: Context, sides: Sequence[int], progress: Progress, stop: Stop
) -> Path:
    """Train a model on sides of the training pairs, or resume; return its folder."""
    folder = context.work / _FOLDER
    if folder.exists():
        return folder
    import torch

    progress("learning word pieces", 0, None)
    texts = [
        (pair.source, pair.target)[side] for pair in context.corpus.pairs("train") for side in sides
    ]
    tokenizer = _tokenizer(texts, settings.pieces)
    rows = _rows(tokenizer, texts)
    with torch.random.fork_rng(devices=[]):  # the caller's draws are none of our business
        lesson = _Lesson(settings, context, rows, tokenizer.get_vocab_size())
        report = lesson.run(progress, stop)
    wrapped = pretrained.transformers().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=_LONGEST,
        **{f"{name.strip('[]').lower()}_token": name for name in _SPECIALS},
    )
    with storage.making(folder, "small") as made:
        with pretrained.quiet():
            lesson.model.save_pretrained(made)
            wrapped.save_pretrained(made)
        storage.replace(context.work / _REPORT, storage.encoded(asdict(report)))
    with contextlib.suppress(FileNotFoundError):
        (context.work / _STATE).unlink()
    return folder


def report(context: Context) -> SmallModel | None:
    """Return how the training went, if there was one."""
    path = context.work / _REPORT
    return schemas.parsed(SmallModel, storage.read(path, 1 << 20)) if path.exists() else None


def masked_logits(model: Any, ids: Any, attention: Any, masked: Any) -> Any:
    """Return the logits at masked places only, (B, T) ids and masks -> (N, V), in reading order.

    The output layer, the largest of a small model, is handed those places alone.
    """

    def pick(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs[0][masked], *inputs[1:]) if inputs[0].dim() == 3 else inputs

    layer = model.get_output_embeddings()
    hook = None if layer is None else layer.register_forward_pre_hook(pick)
    try:
        logits = model(input_ids=ids, attention_mask=attention).logits
    finally:
        if hook is not None:
            hook.remove()
    return logits if logits.dim() == 2 else logits[masked]


def _tokenizer(texts: Sequence[str], size: int) -> Any:
    """Make a tokenizer that knows all characters and the most frequent words.

    Other words are spelt by the longest that is known, and then by characters. The library's own
    trainer is not used, because it gives other pieces from run to run.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    normaliser = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    cutter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        cut = cutter.pre_tokenize_str(normaliser.normalize_str(text))
        counts.update(word for word, _ in cut)
    letters = sorted({letter for word in counts for letter in word})
    pieces = [*_SPECIALS, *letters, *(f"##{letter}" for letter in letters)]
    known = sorted((-n, word) for word, n in counts.items() if n > 1 and len(word) > 1)
    pieces += [word for _, word in known[: max(0, size - len(pieces))]]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    made: Any = Tokenizer(models.WordPiece(vocabulary, unk_token=_SPECIALS[_UNK]))
    made.normalizer, made.pre_tokenizer = normaliser, cutter
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", _CLS), ("[SEP]", _SEP)]
    )
    made.encode_special_tokens = True
    return made


@dataclass(frozen=True, slots=True)
class _Row:
    """A text as ids, and the places of words that are one id each."""

    ids: list[int]
    words: list[int]


def _rows(tokenizer: Any, texts: Sequence[str]) -> list[_Row]:
    pieces = {i: piece for piece, i in tokenizer.get_vocab().items()}
    goes_on = {i for i, piece in pieces.items() if piece.startswith("##")}
    letters = {i for i, piece in pieces.items() if piece.isalpha() and i >= len(_SPECIALS)}
    rows = []
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        ids = [_CLS, *encoding.ids[: _LONGEST - 2], _SEP]
        alone = [
            place
            for place, (this, following) in enumerate(itertools.pairwise(ids))
            if this in letters and following not in goes_on
        ]
        if alone:
            rows.append(_Row(ids, alone))
    if not rows:
        raise BadAugmentation("no word occurs often enough to train a masked language model on")
    return rows


class _Lesson:
    """The training of one small model; every order and draw is a function of seed and step."""

    def __init__(
        self, settings: Small, context: Context, rows: Sequence[_Row], vocabulary: int
    ) -> None:
        import torch

        from augless import training

        self.torch, self.settings, self.rows = torch, settings, rows
        self.seed, self.path = context.seed, context.work / _STATE
        # Checked by whoever reads the command line.
        self.device = training.choose_device(context.device)  # type: ignore[arg-type]
        library = pretrained.transformers()
        torch.manual_seed(draws.number((self.seed, 0)))
        config = library.BertConfig(
            vocab_size=vocabulary,
            hidden_size=settings.size,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.size // 32,
            intermediate_size=4 * settings.size,
            max_position_embeddings=_LONGEST + 2,
            pad_token_id=_PAD,
        )
        self.model = library.BertForMaskedLM(config).to(self.device)
        self.parameters = dict(self.model.named_parameters())
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=settings.rate)
        self.batches = _cut(rows)
        self.steps, self.step = settings.steps, 0
        self.seconds = 0.0

    def run(self, progress: Progress, stop: Stop) -> SmallModel:
        """Train to the end, or raise `Stopped`; return how it went."""
        from augless import training  # brings torch

        self._restore()
        self.model.train()
        loss, right, count = 0.0, 0, 0
        order: list[int] = []
        clock = training.worked(self.device)
        while self.step < self.steps:
            epoch, at = divmod(self.step, len(self.batches))
            if at == 0 or not order:
                seen = draws.generator((self.seed, 1, epoch)).permutation(len(self.batches))
                order, loss, right, count = seen.tolist(), 0.0, 0, 0
            one, hits, masks = self._learn(self.batches[order[at]])
            loss, right, count = loss + one * masks, right + hits, count + masks
            self.step += 1
            progress("training a masked language model", self.step, self.steps)
            halt = self.step < self.steps and stop()
            if halt or self.step % SAVE_EVERY == 0:
                self.seconds += training.worked(self.device) - clock
                clock = training.worked(self.device)
                self._save()
            if halt:
                raise Stopped
        self.model.eval()
        spent = self.seconds + training.worked(self.device) - clock
        return SmallModel(
            parameters=sum(p.numel() for p in self.parameters.values()),
            steps=self.steps,
            samples=self._samples(),
            last_loss=round(loss / max(count, 1), 4),
            last_accuracy=round(right / max(count, 1), 4),
            seconds=round(spent, 1),
        )

    def _samples(self) -> int:
        """Count the texts that all steps look at."""
        epochs, rest = divmod(self.steps, len(self.batches))
        last = draws.generator((self.seed, 1, epochs)).permutation(len(self.batches))
        return epochs * len(self.rows) + sum(len(self.batches[i]) for i in last[:rest])

    def _learn(self, batch: Sequence[int]) -> tuple[float, int, int]:
        """Take one step; return the loss, the masks predicted right, and the masks."""
        torch = self.torch
        rows = [self.rows[i] for i in batch]
        width = max(len(row.ids) for row in rows)
        ids = np.full((len(rows), width), _PAD)
        masked = np.zeros((len(rows), width), bool)
        random = draws.generator((self.seed, 2, self.step))
        for at, row in enumerate(rows):
            ids[at, : len(row.ids)] = row.ids
            count = max(1, round(_SHARE * len(row.words)))
            masked[at, random.permutation(row.words)[:count]] = True
        target = torch.from_numpy(ids[masked]).to(self.device)
        attention = torch.from_numpy(ids != _PAD).to(self.device)
        ids[masked] = _MASK
        torch.manual_seed(draws.number((self.seed, 3, self.step)))  # of dropout
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        self.optimizer.zero_grad(set_to_none=True)
        inputs, places = (torch.from_numpy(a).to(self.device) for a in (ids, masked))
        logits = masked_logits(self.model, inputs, attention, places)
        loss = torch.nn.functional.cross_entropy(logits, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise FloatingPointError(
                f"the masked language model diverged at step {self.step + 1}\n"
                "try a lower small.rate"
            )
        return value, int((logits.argmax(1) == target).sum()), len(target)

    def _rate(self) -> float:
        """Rise over the first tenth of the steps, then fall to nothing."""
        share = (self.step + 1) / self.steps
        return self.settings.rate * min(share / 0.1, (1 - share) / 0.9 + 1e-3)

    def _save(self) -> None:
        import safetensors.torch

        tensors = {f"model/{name}": p.detach() for name, p in self.parameters.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"optimizer/{name}/{key}"] = value
        tensors = {name: t.cpu().contiguous().clone() for name, t in tensors.items()}
        told = {"step": str(self.step), "seconds": str(self.seconds)}
        storage.replace(self.path, safetensors.torch.save(tensors, told))

    def _restore(self) -> None:
        """Go on from the last checkpoint, if there is one that is whole."""
        import safetensors

        try:
            with safetensors.safe_open(self.path, "pt") as file:
                told = file.metadata()
                # It is no mapping: it has keys, but cannot be iterated over.
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step, seconds = int(told["step"]), float(told["seconds"])
            models = {n: tensors[f"model/{n}"] for n in self.parameters}
            for name, parameter in self.parameters.items():
                with self.torch.no_grad():
                    parameter.copy_(models[name])
                for key in ("step", "exp_avg", "exp_avg_sq"):
                    value = tensors[f"optimizer/{name}/{key}"]
                    where = "cpu" if key == "step" else self.device
                    self.optimizer.state[parameter][key] = value.to(where)
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            safetensors.SafetensorError,
        ):
            return
        self.step, self.seconds = step, seconds


def _cut(rows: Sequence[_Row]) -> list[list[int]]:
    """Put texts of about one length together, so that little of a batch is padding."""
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), i))
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        size = max(1, _TOKENS // len(rows[order[start]].ids))
        batches.append(order[start : start + size])
        start += size
    return batches
