"""A corpus and an augmenter to a folder: block by block, resumable, the same bytes in any order."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless import corpora, schemas, storage
from augless.augmentation import folders
from augless.augmentation.augmenter import (
    Augmenter,
    BadAugmentation,
    Context,
    Rewriter,
    Sample,
    Stop,
    changed,
    knobs,
    require,
    rewritten,
)
from augless.augmentation.folders import Augmented
from augless.corpora import Progress
from augless.data import workers
from augless.errors import Stopped

if TYPE_CHECKING:
    from augless import decoding

BLOCK = 512  # pairs that are rewritten and saved at once: what a kill can cost
SAMPLES = 10
VERSION = 1  # of this procedure: another number makes everything again

Texts = list[list[tuple[str, str] | None]]
"""for each sample, source and target of each copy"""


def augment(
    augmenter: Augmenter,
    corpus: corpora.Corpus,
    folder: str | Path,
    *,
    seed: int = 1,
    workers: int = 1,
    writer: Callable[[str | Path], decoding.Writer] | None = None,
    download: bool = False,
    cache: str | Path | None = None,
    device: str = "auto",
    progress: Progress = lambda stage, done, total: None,
    stop: Stop = lambda: False,
) -> Augmented | None:
    """Augment the training pairs of a corpus, or find that it was done; None if asked to stop.

    The folder is there when it is whole. Until then what is done lies beside it, and the same call
    resumes it. The same seed gives the same bytes, whatever the number of workers. The splits
    other than train are written as they are. `writer` opens a run, for augmenters that need one:
    `augless.load`.
    """
    folder = Path(folder)
    require(0 <= seed < 2**63, "seed", seed, "from 0 to below 2^63")
    folders.check_place(folder)
    corpus.check()
    _refuse_augmented(corpus)
    augmenter.check(corpus.languages)
    if needs := augmenter.needs:
        raise BadAugmentation(
            f"{augmenter.name} needs a trained run: the {' and the '.join(needs)}"
        )
    above = folder.absolute().parent
    context = Context(
        corpus=corpus,
        seed=seed,
        work=above,
        cache=Path(cache) if cache is not None else above,
        writer=writer,
        download=download,
        device=device,
    )
    progress("reading checksums", 0, None)
    origin = made_from(augmenter, context)
    fingerprint = fingerprint_of(origin)
    if made := _existing(folder, origin, fingerprint):
        return made
    with folders.workplace(folder, fingerprint) as work:
        if made := _existing(folder, origin, fingerprint):  # another process was faster
            return made
        job = _Job(augmenter, _inside(context, work), origin, fingerprint, progress, stop)
        try:
            return job.run(folder, workers)
        except Stopped:
            return None


def made_from(augmenter: Augmenter, context: Context) -> dict[str, Any]:
    """Return all that decides what an augmented folder holds, as JSON."""
    return {
        "procedure": VERSION,
        "augmenter": augmenter.name,
        "version": augmenter.version,
        **{k: v for k, v in knobs(augmenter).items() if k not in augmenter.free},
        "content": augmenter.identity(context),
        "seed": context.seed,
        "corpus": context.corpus.fingerprint(),
    }


def fingerprint_of(origin: Mapping[str, Any]) -> str:
    """Return a SHA-256 of what `made_from` gives."""
    return hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()


def _inside(context: Context, work: Path) -> Context:
    return Context(**{**vars(context), "work": work})


def _refuse_augmented(corpus: corpora.Corpus) -> None:
    if taken := {*corpus.languages} & {"weight", "of", "copy"}:
        raise BadAugmentation(f"a side cannot be called {taken.pop()!r}: a field of the output is")
    for path in corpus.inputs():
        try:
            before = Augmented.open(path.parent).manifest
        except BadAugmentation:
            continue
        if path.name in before.files:
            how = f"{before.made_from.get('augmenter')}, seed {before.made_from.get('seed')}"
            raise BadAugmentation(
                f"{path} is augmented already ({how})\naugment the corpus it came from"
            )


def _existing(folder: Path, origin: Mapping[str, Any], fingerprint: str) -> Augmented | None:
    if not os.path.lexists(folder / folders.MANIFEST):
        return None
    made = Augmented.open(folder)
    if made.fingerprint == fingerprint:
        made.verify()
        return made
    was, now = made.manifest.made_from, json.loads(json.dumps(origin))
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    what = [
        f"{key} was {json.dumps(was.get(key))[:60]} and is now {json.dumps(now.get(key))[:60]}"
        for key in keys
    ]
    these = "; ".join(what[:3] + ["and more"] * (len(what) > 3))
    raise BadAugmentation(f"{folder} was made otherwise: {these}\nname another folder")


@dataclass
class _Job:
    """One augmentation at work."""

    augmenter: Augmenter
    context: Context
    origin: dict[str, Any]
    fingerprint: str
    progress: Progress
    stop: Stop

    def run(self, folder: Path, workers: int) -> Augmented:
        self.progress("reading the corpus", 0, None)
        pairs = sum(1 for _ in self.context.corpus.pairs("train"))
        lone = sum(1 for _ in self.augmenter.extra())
        ready = self.augmenter.prepare(self.context, self.progress, self.stop)
        self._rewrite(ready, pairs + lone, workers)
        if self.context.corpus.fingerprint() != self.origin["corpus"]:
            raise corpora.BadData("the files changed while they were read; augment again")
        with storage.making(folder, "augment") as whole:
            self._assemble(whole, ready, pairs)
        return Augmented.open(folder)

    def samples(self) -> Iterator[Sample]:
        """Stream what is rewritten: the pairs, and then texts that belong to none."""
        pairs = self.context.corpus.pairs("train")
        read, _ = self.augmenter.moves[0]
        lone = (
            corpora.Pair(*((line, "") if read == 0 else ("", line)))
            for line in self.augmenter.extra()
        )
        return (Sample(i, pair) for i, pair in enumerate(itertools.chain(pairs, lone)))

    def _blocks(self) -> Iterator[tuple[int, list[Sample]]]:
        samples = self.samples()
        for number in itertools.count():
            if not (some := list(itertools.islice(samples, BLOCK))):
                return
            yield number, some

    def _rewrite(self, ready: Augmenter, total: int, workers: int) -> None:
        done = 0
        self.progress("rewriting", done, total)
        todo: list[int] = []
        for number, samples in self._blocks():
            if self._load(number, len(samples)) is None:
                todo.append(number)
            else:
                done += len(samples)
        wanted = set(todo)
        missing = (block for block in self._blocks() if block[0] in wanted)
        with _worker_processes(ready, self.context, min(workers, len(todo))) as work:
            for number, texts, seconds in work(missing):
                self._save(number, texts, seconds)
                done += len(texts)
                self.progress("rewriting", done, total)
                if number != todo[-1] and self.stop():
                    raise Stopped

    def _path(self, number: int) -> Path:
        return self.context.work / f"block-{number:06d}.jsonl"

    def _save(self, number: int, texts: Texts, seconds: float) -> None:
        rows = [json.dumps(row, ensure_ascii=False) for row in texts]
        digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        header = {"block": number, "sha256": digest, "seconds": round(seconds, 3)}
        content = "\n".join([json.dumps(header), *rows]) + "\n"
        storage.replace(self._path(number), content.encode())

    def _load(self, number: int, count: int) -> tuple[Texts, float] | None:
        """Return a block that was saved, if it is whole."""
        try:
            content = storage.read(self._path(number), 1 << 40).decode()
            head, _, rest = content.removesuffix("\n").partition("\n")
            header, rows = json.loads(head), rest.split("\n")
            digest = hashlib.sha256(rest.encode()).hexdigest()
            if (header["block"], header["sha256"], len(rows)) != (number, digest, count):
                return None
            return [json.loads(row) for row in rows], float(header["seconds"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _assemble(self, whole: Path, ready: Augmenter, pairs: int) -> None:
        """Write the files of the folder and its manifest."""
        corpus, tally = self.context.corpus, _Tally(pairs)
        languages = corpus.languages
        files: dict[str, folders.File] = {}
        for split in corpus.splits():
            lines: Iterator[str] = (_row(languages, pair) for pair in corpus.pairs(split))
            if split == "train":
                lines = itertools.chain(lines, self._made(whole, files, tally))
            files[f"{split}.jsonl"] = folders.write(whole / f"{split}.jsonl", lines)
        manifest = folders.Manifest(
            format=folders.FORMAT,
            fingerprint=self.fingerprint,
            made_from=self.origin,
            named=self._named(),
            languages=languages,
            pairs=folders.Pairs(pairs, tally.made, tally.left_out),
            words=folders.Words(tally.words, tally.changed, tally.share),
            samples=tally.samples,
            seconds=round(tally.seconds, 1),
            versions=_versions(),
            files=dict(sorted(files.items())),
            **vars(ready.notes(self.context)),
        )
        document = json.dumps(schemas.written(manifest), indent=1, ensure_ascii=False)
        folders.write(whole / folders.MANIFEST, [document])

    def _named(self) -> dict[str, str]:
        """Return what models and files are called whose content decides, wherever they lie."""
        said = {k: v for k, v in knobs(self.augmenter).items() if k in self.augmenter.free}
        return {k: Path(v).name for k, v in said.items() if isinstance(v, str) and v}

    def _made(self, whole: Path, files: dict[str, folders.File], tally: _Tally) -> Iterator[str]:
        """Stream the made pairs as lines; write them as plain text on the way."""
        languages = self.context.corpus.languages
        names = [f"made.{language}" for language in languages]
        with contextlib.ExitStack() as stack:
            plain = [stack.enter_context((whole / name).open("xb")) for name in names]
            for number, samples in self._blocks():
                loaded = self._load(number, len(samples))
                if loaded is None:
                    raise OSError(f"{self._path(number)} was there and is gone; augment again")
                tally.seconds += loaded[1]
                for sample, copies in zip(samples, loaded[0], strict=True):
                    lone = sample.index >= tally.pairs
                    tally.note(sample, copies, self.augmenter.moves)
                    for copy, texts in enumerate(copies, 1):
                        if texts is None:
                            continue
                        for file, text in zip(plain, texts, strict=True):
                            file.write(" ".join(text.split("\n")).encode() + b"\n")
                        weight = self.augmenter.w * sample.pair.weight
                        pair = corpora.Pair(texts[0], texts[1], weight, made=True)
                        of = None if lone else sample.index
                        yield _row(languages, pair, {"of": of, "copy": copy})
        for name in names:
            path = whole / name
            digest = corpora.reading.digest(path).hex()
            files[name] = folders.File(path.stat().st_size, digest)


@dataclass
class _Tally:
    """What is counted on the way."""

    pairs: int
    made: int = 0
    left_out: int = 0
    words: int = 0
    changed: int = 0
    seconds: float = 0.0
    """of rewriting, added up over processes and earlier calls"""
    samples: list[dict[str, str]] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.changed / self.words if self.words else 0.0

    def note(
        self, sample: Sample, copies: Sequence[tuple[str, str] | None], moves: Sequence[Any]
    ) -> None:
        """Count the copies of a sample; keep one here and there to be read."""
        lone = sample.index >= self.pairs
        before = (sample.pair.source, sample.pair.target)
        for texts in copies:
            self.made += texts is not None
            self.left_out += texts is None
            for _, write in moves:
                if texts is not None and not lone:
                    some, all_ = changed(before[write], texts[write])
                    self.changed, self.words = self.changed + some, self.words + all_
        due = len(self.samples) * max(self.pairs, 1) // SAMPLES
        if sample.index < due or lone or len(self.samples) == SAMPLES:
            return
        if (first := copies[0]) is not None:
            shown = {"source": before[0], "target": before[1]}
            self.samples.append(shown | {"made_source": first[0], "made_target": first[1]})


def _row(
    languages: Sequence[str], pair: corpora.Pair, more: Mapping[str, int | None] | None = None
) -> str:
    row = {languages[0]: pair.source, languages[1]: pair.target, "weight": pair.weight}
    return json.dumps(row | dict(more or {}), ensure_ascii=False)


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("augless", "torch", "transformers", "tokenizers"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


# Rewriting blocks, here or in other processes

Work = Callable[[Iterator[tuple[int, list[Sample]]]], Iterator[tuple[int, Texts, float]]]


def timed(
    augmenter: Augmenter, rewriter: Rewriter, samples: Sequence[Sample], seed: int
) -> tuple[Texts, float]:
    """Rewrite some samples; return their texts and the seconds that it took."""
    clock = time.monotonic if augmenter.remote else time.process_time
    began = clock()
    made = rewritten(augmenter, rewriter, samples, seed)
    texts: Texts = [
        [None if pair is None else (pair.source, pair.target) for pair in copies] for copies in made
    ]
    spent = clock() - began
    return texts, spent if augmenter.remote else spent / (_threads() or 1)


@contextlib.contextmanager
def _worker_processes(augmenter: Augmenter, context: Context, workers: int) -> Iterator[Work]:
    """Give what rewrites blocks, in as many processes as are asked for."""
    if workers <= 1:
        with contextlib.ExitStack() as stack:
            opened: list[Rewriter] = []

            def here(
                blocks: Iterator[tuple[int, list[Sample]]],
            ) -> Iterator[tuple[int, Texts, float]]:
                for number, samples in blocks:
                    if not opened:  # not before there is something to do
                        opened.append(stack.enter_context(augmenter.open(context)))
                    yield number, *timed(augmenter, opened[0], samples, context.seed)

            yield here
        return
    threads = _threads()
    arguments = (os.getpid(), augmenter, context, threads)
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, arguments) as pool:

        def there(
            blocks: Iterator[tuple[int, list[Sample]]],
        ) -> Iterator[tuple[int, Texts, float]]:
            waiting: deque[tuple[int, Future[tuple[Texts, float]]]] = deque()
            for number, samples in blocks:
                waiting.append((number, pool.submit(_serve, samples)))
                if len(waiting) > 2 * workers:
                    number, future = waiting.popleft()
                    yield number, *future.result()
            while waiting:
                number, future = waiting.popleft()
                yield number, *future.result()

        try:
            yield there
        except BrokenProcessPool:
            raise OSError(
                "a worker process died, perhaps for want of memory\n"
                "run the same command to resume, with fewer --workers"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _threads() -> int | None:
    """Return how many threads torch uses here, if it is loaded: bits can depend on it."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


_worker: dict[str, Any] = {}


def _begin(parent: int, augmenter: Augmenter, context: Context, threads: int | None) -> None:
    """Begin a worker process; what it needs is loaded with its first block."""
    workers.serve(parent)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    _worker.update(augmenter=augmenter, context=context, stack=contextlib.ExitStack())


def _serve(samples: list[Sample]) -> tuple[Texts, float]:
    augmenter, context = _worker["augmenter"], _worker["context"]
    if "rewriter" not in _worker:  # here, so that what is wrong is an error of this block
        _worker["rewriter"] = _worker["stack"].enter_context(augmenter.open(context))
    return timed(augmenter, _worker["rewriter"], samples, context.seed)
