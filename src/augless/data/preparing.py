"""A corpus to a prepared folder, streaming: memory follows the vocabulary, not the corpus."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from augless import corpora, storage, text
from augless.corpora import Progress, reading
from augless.data import store
from augless.data.store import Prepared
from augless.data.workers import Block, Workers, in_order, worker_processes
from augless.knobs import Among, Knobs, Within

VERSION = 4  # of this procedure: another number prepares everything again


@dataclass(frozen=True, kw_only=True)
class Filters(Knobs):
    """Which training pairs are left out. Validation and test pairs all stay."""

    min_length: Annotated[int, "words a side has at least", Within(0, 1_000_000)] = 1
    max_length: Annotated[int, "words a side has at most", Within(1, 1_000_000)] = 175
    ratio: Annotated[
        float | None,
        "words of the longer side over the shorter, at most",
        Within(1, 1_000_000),
    ] = None
    duplicates: Annotated[Literal["keep", "drop"], "pairs that occurred before"] = "keep"
    shared: Annotated[Literal["keep", "drop"], "pairs that are in another split too"] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_length > self.max_length:
            these = f"{self.min_length} and {self.max_length}"
            raise ValueError(f"min_length and max_length are {these}; 0 <= min <= max")


@dataclass(frozen=True, kw_only=True)
class Settings(Knobs):
    """How text becomes ids."""

    tokeniser: Annotated[text.Kind, "joined (exact), moses (the paper's) or whitespace"] = "joined"
    lowercase: Annotated[bool, "lower-case all words"] = False
    vocabulary: Annotated[
        text.Subwords | text.Words, "how a vocabulary is learnt", Among("text.VOCABULARIES")
    ] = field(default_factory=text.Subwords)
    joint: Annotated[bool, "one vocabulary for both sides"] = True
    codec: Annotated[
        Path | None, "a run or prepared corpus: its tokens and vocabularies, none are learnt"
    ] = None
    filters: Annotated[Filters, "which training pairs are left out"] = field(
        default_factory=Filters
    )


REASONS = ("kept", "too short", "too long", "ratio", "shared", "duplicate", "empty")


def prepare(
    corpus: corpora.Corpus,
    settings: Settings,
    root: str | Path,
    *,
    name: str,
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> Prepared:
    """Prepare a corpus below root, or find that it was, and open it.

    The folder is named after the corpus and a fingerprint of its content and the settings, so
    changed inputs make another folder. It is written aside and renamed when whole. The bytes
    written do not depend on the number of workers.
    """
    corpus.check()
    progress("reading checksums", 0, None)
    before = _stamps(corpus)
    inputs = corpus.fingerprint()
    fingerprint = _fingerprint(inputs, _knobs(settings))
    folder = Path(root) / f"{name}-{fingerprint[:12]}"
    storage.clear(folder.parent, r".+-[0-9a-f]{12}")
    if folder.exists():
        try:
            prepared = Prepared.open(folder)
            prepared.verify()
            return prepared
        except store.BadStore as error:
            progress(f"{error}: doing so", 0, None)
            storage.remove(folder, store.FILES)
    try:
        with storage.making(folder, "prepare") as made:
            with worker_processes(workers) as pool:
                _write(corpus, settings, made, pool, progress, inputs)
            changed = before is None or _stamps(corpus) != before
            if changed and corpus.fingerprint() != inputs:
                raise corpora.BadData("the files changed while they were read; prepare again")
    except OSError:
        if not folder.exists():  # else another process was faster, with the same bytes
            raise
    return Prepared.open(folder)


def fingerprint(corpus: corpora.Corpus, settings: Settings) -> str:
    """Return the fingerprint that a corpus has when it is prepared."""
    return _fingerprint(corpus.fingerprint(), _knobs(settings))


def _knobs(settings: Settings) -> dict[str, Any]:
    learner = {type(settings.vocabulary).__name__: asdict(settings.vocabulary)}
    knobs = asdict(settings) | {"vocabulary": learner}
    given = knobs.pop("codec")  # by content, not by place
    if given is not None:
        knobs["codec"] = [codec.fingerprint for codec in _taken(given)]
    return knobs


def _fingerprint(inputs: str, knobs: dict[str, Any]) -> str:
    identity = json.dumps([VERSION, inputs, knobs], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


def _write(
    corpus: corpora.Corpus,
    settings: Settings,
    folder: Path,
    pool: Workers,
    progress: Progress,
    fingerprint: str,
) -> None:
    inputs = _described(corpus)
    taken = None if settings.codec is None else _taken(settings.codec)
    tokenisers = _tokenisers(corpus, settings, taken)
    held_out = frozenset(
        (text.normalise(pair.source), text.normalise(pair.target))
        for split in corpus.splits()
        if split != "train"
        for pair in corpus.pairs(split)
    )
    counts, kept, reasons = _measure(corpus, settings, tokenisers, held_out, pool, progress)
    if not kept.any():
        raise _none_left(corpus, reasons, len(kept) + reasons["empty"])
    if taken is None:
        progress("learning the vocabulary", 0, None)
    codecs = taken or _learn(settings, tokenisers, counts)
    files = {
        str(c.save(folder / s).relative_to(folder))
        for c, s in zip(codecs, store.SIDES, strict=True)
    }
    statistics: dict[str, store.Statistics] = {}
    for split in corpus.splits():
        mask = kept if split == "train" else None
        few = pool if split == "train" else Workers(None)  # the others are too small to share
        statistics[split], made = _encode(corpus, split, codecs, mask, folder, few, progress)
        files |= made
    statistics["train"] = replace(
        statistics["train"],
        read=len(kept) + reasons["empty"],
        dropped={r: reasons[r] for r in REASONS[1:] if reasons[r]},
        cut_words=sum(
            n for side in counts for word, n in side.items() if len(word) >= text.LONGEST_WORD
        ),
        shared=reasons["shared pairs seen"],
    )
    source, target = codecs
    manifest = store.Manifest(
        format=store.FORMAT,
        fingerprint=fingerprint,
        inputs=inputs,
        settings=_knobs(settings),
        languages=corpus.languages,
        vocabulary=(len(source), len(target)),
        types={s: store.smallest_type(len(c)) for c, s in zip(codecs, store.SIDES, strict=True)},
        splits={split: counted.pairs for split, counted in statistics.items()},
        statistics=statistics,
        files=store.describe(folder, files),
    )
    storage.create(folder / store.MANIFEST, storage.document(asdict(manifest)))


def _tokenisers(
    corpus: corpora.Corpus, settings: Settings, taken: list[text.Codec] | None
) -> tuple[text.Tokeniser, ...]:
    """Return what cuts each side into words: that of the given codecs, or the settings'."""
    if taken is not None:
        return tuple(codec.tokeniser for codec in taken)
    kind, lower = settings.tokeniser, settings.lowercase
    return tuple(
        text.Tokeniser(language=rules(name), kind=kind, lowercase=lower)
        for name in corpus.languages
    )


def _none_left(corpus: corpora.Corpus, reasons: Counter[str], read: int) -> corpora.BadData:
    most = max(REASONS[1:], key=lambda reason: reasons[reason])
    names = " and ".join(path.name for path in corpus.inputs()[:2]) or "the corpus"
    return corpora.BadData(
        f"{names}: no training pair is left of {read}; most were dropped as {most!r}\n"
        "loosen text.filters (min_length, max_length, ratio)"
    )


def _measure(
    corpus: corpora.Corpus,
    settings: Settings,
    tokenisers: tuple[text.Tokeniser, ...],
    held_out: frozenset[tuple[str, str]],
    pool: Workers,
    progress: Progress,
) -> tuple[list[Counter[str]], NDArray[np.bool_], Counter[str]]:
    """Read the training pairs once: count the words of those kept, and remember which are."""
    counts: list[Counter[str]] = [Counter(), Counter()]
    reasons: Counter[str] = Counter()
    first, verdicts = bytearray(), bytearray()
    tally = corpora.Tally()
    pairs = corpus.pairs("train", tally)
    if settings.filters.duplicates == "drop":
        pairs = _without_duplicates(pairs, first)
    measurer = _Measurer(tokenisers, settings.filters, held_out)
    for judged, shared, counted in in_order(measurer, pairs, pool):
        verdicts += judged
        reasons["shared pairs seen"] += shared
        for total, part in zip(counts, counted, strict=True):
            total.update(part)
        progress("counting words", tally.done, tally.total or None)
    kept = np.frombuffer(verdicts, np.uint8) == 0
    reasons.update({REASONS[v]: verdicts.count(v) for v in range(1, len(REASONS))})
    reasons["empty"] = tally.empty
    if first:
        kept_first, kept = kept, np.frombuffer(first, np.uint8) == 1
        reasons["duplicate"] = first.count(0)
        kept[kept] = kept_first
    return counts, kept, reasons


def _visible(pairs: Iterable[corpora.Pair], blank: list[corpora.Pair]) -> Iterator[corpora.Pair]:
    """Pass on pairs of which both sides have text, and collect the others."""
    for pair in pairs:
        if text.normalise(pair.source) and text.normalise(pair.target):
            yield pair
        else:
            blank.append(pair)


def _without_duplicates(pairs: Iterable[corpora.Pair], first: bytearray) -> Iterator[corpora.Pair]:
    """Pass on what did not occur before, and note for every pair whether it was that."""
    seen: set[bytes] = set()
    for pair in pairs:
        identity = _identity(pair)
        first.append(identity not in seen)
        if first[-1]:
            seen.add(identity)
            yield pair


def _taken(folder: Path) -> list[text.Codec]:
    """Read the codecs of a run or of a prepared corpus."""
    try:
        return [text.Codec.load(folder / side) for side in store.SIDES]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise corpora.BadData(
            f"text.codec: {folder} is no run or prepared corpus ({why})"
        ) from None


def _learn(
    settings: Settings, tokenisers: tuple[text.Tokeniser, ...], counts: list[Counter[str]]
) -> list[text.Codec]:
    """Learn one vocabulary, or two, from the words of both sides."""
    try:
        if settings.joint:
            vocabularies = [settings.vocabulary.learn(counts[0] + counts[1])] * 2
        else:
            vocabularies = [settings.vocabulary.learn(side) for side in counts]
    except ValueError as error:
        raise corpora.BadData(str(error)) from None
    return [text.Codec(t, v) for t, v in zip(tokenisers, vocabularies, strict=True)]


def _encode(
    corpus: corpora.Corpus,
    split: str,
    codecs: list[text.Codec],
    kept: NDArray[np.bool_] | None,
    folder: Path,
    pool: Workers,
    progress: Progress,
) -> tuple[store.Statistics, set[str]]:
    """Write one split; return its statistics and the names of its files."""
    blank: list[corpora.Pair] = []
    tally = corpora.Tally()
    pairs: Iterator[corpora.Pair] = corpus.pairs(split, tally)
    # No other split is filtered, but a side of invisible characters alone has no ids at all.
    files = set()
    if kept is not None:
        pairs, total = itertools.compress(pairs, kept), int(kept.sum())
    else:  # small enough to hold, and kept as text too, to be generated from and scored against
        held = list(_visible(pairs, blank))
        pairs, total = iter(held), len(held)
        files |= store.write_lines(folder, split, [[p.source, p.target] for p in held])
    writers = [
        store.Writer(folder, split, s, len(c)) for s, c in zip(store.SIDES, codecs, strict=True)
    ]
    lengths: list[Counter[int]] = [Counter(), Counter()]
    unknown, weights = [0, 0], []
    size = 0
    for sides, weight in in_order(_Encoder(tuple(codecs)), pairs, pool):
        for i, (ids, counts) in enumerate(sides):
            writers[i].write(ids, counts)
            unknown[i] += int((ids == text.UNK).sum())
            lengths[i].update(dict(enumerate(np.bincount(counts).tolist())))
        size += len(weight)
        weights.append(weight)
        progress(f"writing {split}", size, total)
    for writer in writers:
        writer.close()
    files |= {f"{split}.{side}.{part}" for side in store.SIDES for part in ("ids", "offsets")}
    if any((weight != 1).any() for weight in weights):
        storage.create(folder / f"{split}.weight", np.concatenate(weights).astype("<f4").tobytes())
        files.add(f"{split}.weight")
    empty = len(blank) + tally.empty
    dropped = {"empty": empty} if empty else {}
    source, target = map(_counted, lengths, unknown)
    statistics = store.Statistics(
        pairs=size, read=size + empty, dropped=dropped, source=source, target=target
    )
    return statistics, files


def _counted(lengths: Counter[int], unknown: int) -> store.Side:
    tokens = sum(length * n for length, n in lengths.items())
    histogram = {str(length): n for length, n in sorted(lengths.items()) if n}
    return store.Side(tokens=tokens, unknown=unknown / max(tokens, 1), lengths=histogram)


@dataclass(frozen=True)
class _Measurer:
    """Judge a block of training pairs, and count the words of those that may stay."""

    tokenisers: tuple[text.Tokeniser, ...]
    filters: Filters
    held_out: frozenset[tuple[str, str]]

    def __call__(self, block: Block) -> tuple[bytes, int, list[Counter[str]]]:
        lines = [list(map(text.normalise, side)) for side in block[:2]]
        keys = [
            list(map(tokeniser.keys, side))
            for tokeniser, side in zip(self.tokenisers, lines, strict=True)
        ]
        verdicts = self._judge(keys)
        pairs = zip(*lines, strict=True)
        shared = np.fromiter((pair in self.held_out for pair in pairs), bool, len(verdicts))
        if self.filters.shared == "drop":
            verdicts[shared & (verdicts == 0)] = REASONS.index("shared")
        counts = []
        teaches = (verdicts == 0) & ~np.array(block[3], bool)  # the vocabulary
        for tokeniser, side in zip(self.tokenisers, keys, strict=True):
            stay = itertools.compress(side, teaches)
            counts.append(tokeniser.fold(Counter(itertools.chain.from_iterable(stay))))
        return verdicts.tobytes(), int(shared.sum()), counts

    def _judge(self, keys: list[list[list[str]]]) -> NDArray[np.uint8]:
        sizes = []
        for tokeniser, side in zip(self.tokenisers, keys, strict=True):
            cuts = tokeniser.cuts
            lengths = (sum([len(cuts[key]) for key in line]) for line in side)
            sizes.append(np.fromiter(lengths, np.int64, len(side)))
        shorter, longer = np.minimum(*sizes), np.maximum(*sizes)
        limit = self.filters.ratio
        rules = [
            shorter < self.filters.min_length,
            longer > self.filters.max_length,
            longer > limit * shorter if limit is not None else np.zeros(len(longer), bool),
        ]
        return np.select(rules, [1, 2, 3], 0).astype(np.uint8)


@dataclass(frozen=True)
class _Encoder:
    """Turn a block of pairs into ids: for each side all ids and the length of each sequence."""

    codecs: tuple[text.Codec, ...]

    def __call__(
        self, block: Block
    ) -> tuple[list[tuple[NDArray[np.int32], NDArray[np.int64]]], NDArray[np.float32]]:
        sides = [c.encode_flat(side) for c, side in zip(self.codecs, block[:2], strict=True)]
        return sides, np.array(block[2], np.float32)


def _identity(pair: corpora.Pair) -> bytes:
    """Return 16 bytes that stand for a pair, however it was spaced."""
    line = f"{text.normalise(pair.source)}\n{text.normalise(pair.target)}"
    return hashlib.blake2b(line.encode(), digest_size=16).digest()


def _described(corpus: corpora.Corpus) -> list[store.Input]:
    """Name the files that were read, with sizes and checksums; not where they are."""
    return [
        store.Input(
            name=os.fsencode(path.name).decode("utf-8", "replace"),  # it need not be text
            bytes=path.stat().st_size,
            sha256=store.digest(path),
        )
        for path in corpus.inputs()
        if path.is_file()
    ]


def _stamps(corpus: corpora.Corpus) -> list[tuple[int, ...]] | None:
    """Return what changes with any writing to the files; None where that cannot be told.

    Nobody can set the time of the last change back, but its clock may tick 100 times a second only.
    """
    try:
        stats = [reading.local(path).stat() for path in corpus.inputs()]
    except OSError:  # gone by now: hashing will say so
        return None
    if any(time.time_ns() - s.st_ctime_ns < 1_000_000_000 for s in stats):
        return None
    return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in stats]


def rules(name: str) -> str:
    """Return the language whose rules cut a side: English, where its name is no two-letter code.

    That is meant for sides such as `query`; the summary of what was prepared says so of any.
    """
    return name if len(name) == 2 else "en"
