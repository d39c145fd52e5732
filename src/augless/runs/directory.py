"""A run's folder: made, locked, saved to and read back."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from augless import knobs, schemas, storage, text
from augless.errors import Busy
from augless.runs import files, tensors
from augless.runs.files import FORMAT, SIDES, BadRun
from augless.runs.progress import Best, Logged, Outcome

if TYPE_CHECKING:  # torch is slow to load, and a list of runs does without
    from torch import Tensor

Table = Mapping[str, Any]  # of what JSON can say
Codecs = tuple[text.Codec, text.Codec]
Kind = TypeVar("Kind", files.Manifest, files.Result)
Said = TypeVar("Said", Best, Outcome)

_RUN, _MANIFEST, _STATE, _METRICS = "run.json", "manifest.json", "state.json", "metrics.jsonl"
_RESULT, _LOCK, _TENSORS = "result.json", "lock", ".safetensors"
_VERBS = {"checkpoint": "save", "best": "best"}
_SAVED = re.compile(r"[a-z]+-(\d{6,18})-step-(\d{1,18})", re.ASCII)
_FILE = re.compile(r"\w[\w-]*\.safetensors|state\.json", re.ASCII)
_OURS = re.compile(rf"{_FILE.pattern}|manifest\.json", re.ASCII)
_UPDATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_MOMENTS = ("begun", "written", "renamed")
_SAVING = (*_MOMENTS, "file-written", "durable", "discarding", "pruned")
CRASH_POINTS = (
    *(f"{verb}-{moment}" for verb in ("save", "best") for moment in _SAVING),
    *(f"create-{moment}" for moment in _MOMENTS),
    *(f"{verb}-{moment}" for verb in ("rewind", "finish") for moment in _MOMENTS[1:]),
    "log-written",
)
"""where tests kill a process, by `storage.crash_point`"""


class Changed(BadRun):
    """A run that was made with another recipe, corpus or vocabulary."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to resume from a step."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    """group, such as model or optimizer -> name -> tensor; a file for each group"""
    state: dict[str, Any]
    """what JSON can say"""

    def __repr__(self) -> str:
        groups = ", ".join(f"{len(group)} of {name}" for name, group in self.tensors.items())
        return f"Checkpoint(step {self.step:,}, tensors: {groups})"


class Run:
    """A run's directory."""

    def __init__(self, folder: Path, header: files.Header) -> None:
        self.folder, self.recipe, self.corpus = folder, header.recipe, header.corpus
        self.versions, self._vocabularies = header.versions, header.vocabularies
        self.warnings: list[str] = []
        """what was found damaged and passed over, one line each"""
        self._damaged: set[Path] = set()
        self._locked = False

    @staticmethod
    def create(
        folder: str | Path, *, recipe: Table, corpus: str, codecs: Codecs, versions: Table
    ) -> Run:
        """Make a run, or open the one that is there if it was made from the same.

        `recipe` maps dotted keys to JSON values and `corpus` is a fingerprint. Raises `Changed`
        where either, or a codec, differs; `versions` are only recorded.
        """
        folder = Path(folder)
        vocabularies = {s: c.fingerprint for s, c in zip(SIDES, codecs, strict=True)}
        header = files.Header(
            format=FORMAT,
            recipe=dict(recipe),
            corpus=corpus,
            vocabularies=vocabularies,
            versions=dict(versions),
        )
        content = schemas.written(header)
        # Before anything is written: it may not be JSON, or not what can be read back.
        header = schemas.parsed(files.Header, storage.encoded(content))
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            place = storage.target(folder)  # a link to an empty folder stays a link
            with contextlib.suppress(storage.Taken), storage.making(place, "create") as made:
                for codec, side in zip(codecs, SIDES, strict=True):
                    codec.save(made / side)
                storage.create(made / _RUN, storage.document(content))
        run = Run.open(folder)
        if changes := _changes(run._made_from, Run(folder, header)._made_from):
            these = "; ".join(changes[:3] + ["and more"] * (len(changes) > 3))
            raise Changed(
                f"{folder} was made otherwise: {these}; name another folder\n"
                f"to train on from its weights, add training.start={folder} there"
            )
        return run

    @staticmethod
    def open(folder: str | Path) -> Run:
        """Open a run; refuse what is not one in one line."""
        folder = Path(folder)
        if not (folder / _RUN).exists():
            what = "holds no run" if folder.exists() else "does not exist"
            raise BadRun(f"{folder} {what}; make one with train, or name another folder")
        with files.blaming(folder / _RUN):
            return Run(folder, files.read(files.Header, folder / _RUN))

    @functools.cached_property
    def codecs(self) -> Codecs:
        """The codecs of the source and the target."""
        codecs = []
        for side in SIDES:
            with files.blaming(self.folder / side):
                # Refuses a link, a pipe, a giant.
                storage.read(self.folder / side / text.codec.FILE, files.LARGEST)
                codecs.append(text.Codec.load(self.folder / side))
                if codecs[-1].fingerprint != self._vocabularies.get(side):
                    raise BadRun("not the vocabulary that the run was made with")
        return codecs[0], codecs[1]

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of recipe, corpus and vocabularies: what a checkpoint belongs to."""
        return storage.digest(storage.encoded(self._made_from))

    @property
    def _made_from(self) -> dict[str, Any]:
        vocabularies = {f"the {side} vocabulary": f for side, f in self._vocabularies.items()}
        return {**self.recipe, "the corpus": self.corpus, **vocabularies}

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training this run; the kernel lets go when this one dies."""
        descriptor = os.open(self.folder / _LOCK, _UPDATE, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note = os.pread(descriptor, 120, 0).decode("utf-8", "replace")
                holder = "".join(filter(str.isprintable, note)) or "another process"
                raise Busy(f"{self.folder} is in use by {holder}") from None
            _held.add(descriptor)
            self._locked = True
            with contextlib.suppress(OSError):  # a full disk: the note is not worth a failure
                os.ftruncate(descriptor, 0)
                note = f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}"
                os.pwrite(descriptor, note.encode(), 0)
            yield
        finally:
            if descriptor in _held:
                _held.discard(descriptor)
                self._locked = False
            os.close(descriptor)

    def save(self, checkpoint: Checkpoint, *, keep: int = 2) -> None:
        """Save a checkpoint, whole or not at all, then remove all but the newest `keep`.

        It is on the disk when this returns, and so is every record logged before.
        """
        if keep < 1:
            raise ValueError(f"keep is {keep}; at least 1 checkpoint is kept")
        with contextlib.suppress(FileNotFoundError):
            storage.sync(self.folder / _METRICS)
        self._save("checkpoint", checkpoint, keep)

    def last(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or None if there never was one."""
        return self._newest("checkpoint")

    def forget(self) -> None:
        """Remove all checkpoints: a finished run resumes from none. Its best model stays."""
        for path, _, _ in self.saved("checkpoint"):
            self._discard(path, "save")

    def save_best(self, tensors: Mapping[str, Tensor], state: Table) -> None:
        """Save the best model so far, whole or not at all, in place of the one before.

        `state` names its step. After a fall back it may be ahead of the last checkpoint.
        """
        step = state.get("step", 0)
        self._save("best", Checkpoint(step, {"model": dict(tensors)}, dict(state)), 1)

    def best(self) -> Checkpoint:
        """Return the best model so far, as the group `model`."""
        best = self._newest("best")
        if best is None:
            raise BadRun(f"{self.folder} has no model yet; train it first")
        return best

    def log(self, entry: Logged) -> None:
        """Append an entry to the metrics; a number that is not finite becomes null."""
        said = schemas.finite(schemas.written(entry))
        line = json.dumps(said, allow_nan=False).encode() + b"\n"
        path = self.folder / _METRICS
        with storage.opened(path, _UPDATE | os.O_APPEND) as descriptor:
            end = os.fstat(descriptor).st_size
            if end and os.pread(descriptor, 1, end - 1) != b"\n":  # a kill tore the last line
                os.ftruncate(descriptor, path.read_bytes().rfind(b"\n") + 1)
            storage.write_all(descriptor, line)
        storage.crash_point("log-written")

    def metrics(self) -> list[Logged]:
        """Return what was logged so far; of a finished run it is what it was."""
        path = self.folder / _RESULT
        if os.path.lexists(path):
            with files.blaming(path):
                done = self._own(files.Result, path)
            self._check_log(done.metrics)
        return [entry for entry, _ in self._records()]

    def rewind(self, count: int) -> None:
        """Forget all records but the first ones: the others will be logged again."""
        records = self._records() if count else []
        if len(records) < count:
            raise BadRun(
                f"{self.folder / _METRICS} has {len(records)} records; {count} were logged\n"
                "restore it from a copy, or train in another folder"
            )
        kept = b"".join(line for _, line in records[:count])
        if kept != self._logged():
            with storage.aside(self.folder / _METRICS, "rewind") as aside:
                storage.create(aside, kept)

    def finish(self, result: Table) -> None:
        """Say that the run is done, and with what result."""
        said = files.Result(
            format=FORMAT,
            run=self.fingerprint,
            result=schemas.finite(dict(result)),
            metrics=files.described(self._logged()),
        )
        with storage.aside(self.folder / _RESULT, "finish") as aside:
            storage.create(aside, storage.document(schemas.written(said)))

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run ended with, or None if it is not done."""
        path = self.folder / _RESULT
        if not os.path.lexists(path):
            return None
        with files.blaming(path):
            return self._own(files.Result, path).result

    def outcome(self) -> Outcome | None:
        """Return how training ended, or None if it has not."""
        said = self.result
        # Older runs do not say what they needed.
        return None if said is None else self._whole(Outcome, {"needed": {}, **said}, _RESULT)

    def kept(self) -> Best:
        """Return which model is the best so far, and how it scored."""
        return self._whole(Best, self.best().state, f"{_STATE} of the best model")

    def _whole(self, kind: type[Said], said: dict[str, Any], where: str) -> Said:
        """Check what a training said; no default stands for what is not there."""
        try:
            value = schemas.parsed(kind, storage.encoded(said))
            schemas.check_whole(value, said)
        except ValueError as error:
            raise BadRun(f"{self.folder}: {where} is not ours: {error}") from None
        return value

    def _own(self, kind: type[Kind], path: Path) -> Kind:
        """Read a document that belongs to this run."""
        said = files.read(kind, path)
        if said.run != self.fingerprint:
            raise BadRun("it belongs to another run")
        return said

    def _logged(self) -> bytes:
        """Return the lines of all records, without a last one that a kill tore."""
        path = self.folder / _METRICS
        if not os.path.lexists(path):
            return b""
        with files.blaming(path):
            content = storage.read(path, 1 << 40)
        return content[: content.rfind(b"\n") + 1]

    def _check_log(self, wanted: files.Content) -> None:
        """Refuse records that are not what was logged: cut, changed or gone."""
        with files.blaming(self.folder / _METRICS):
            files.compare(self._logged(), wanted)

    def _records(self) -> list[tuple[Logged, bytes]]:
        """Return entries and their lines."""
        path = self.folder / _METRICS
        records = []
        for number, line in enumerate(self._logged().split(b"\n")[:-1], 1):
            try:
                records.append((schemas.parsed(Logged, line), line + b"\n"))
            except ValueError as error:
                raise BadRun(f"{path}, line {number} is damaged: {error}") from None
        return records

    def saved(self, series: str) -> list[tuple[Path, int, int]]:
        """List folders with their number and step, the last written first."""
        matches = ((p, _SAVED.fullmatch(p.name)) for p in self.folder.glob(f"{series}-*"))
        folders = [(path, int(match[1]), int(match[2])) for path, match in matches if match]
        return sorted(folders, key=lambda entry: entry[1], reverse=True)

    def _save(self, series: str, checkpoint: Checkpoint, keep: int) -> None:
        verb, step = _VERBS[series], checkpoint.step
        state = storage.encoded(dict(checkpoint.state))
        if not (isinstance(step, int) and 0 <= step < 10**18):
            raise ValueError(f"step is {step!r}; it counts from 0")
        if bad := [group for group in checkpoint.tensors if not _FILE.fullmatch(group + _TENSORS)]:
            raise ValueError(f"{bad[0]!r} cannot be the name of a file")
        if self._locked:  # nobody else writes: what lies aside was left by a process that died
            storage.clear(self.folder, ".+", sure=True)
        # Numbered by when they were written, so that a step can be saved again after a fall back.
        number = max((n for _, n, _ in self.saved(series)), default=0) + 1
        manifest = files.Manifest(
            format=FORMAT, run=self.fingerprint, series=series, number=number, step=step, files={}
        )
        if series == "checkpoint":
            manifest = replace(manifest, metrics=files.described(self._logged()))
        with storage.making(self.folder / f"{series}-{number:06d}-step-{step}", verb) as made:
            for group in [None, *checkpoint.tensors]:
                content = state if group is None else tensors.packed(checkpoint.tensors[group])
                name = _STATE if group is None else group + _TENSORS
                manifest.files[name] = files.described(content)
                storage.create(made / name, content)
                storage.crash_point(f"{verb}-file-written")
            storage.create(made / _MANIFEST, storage.document(schemas.written(manifest)))
        storage.crash_point(f"{verb}-durable")
        there = [path for path, _, _ in self.saved(series)]
        kept = [path for path in there if path not in self._damaged][:keep]
        for old in [path for path in there if path not in kept]:
            self._discard(old, verb)
        storage.crash_point(f"{verb}-pruned")

    def _discard(self, path: Path, verb: str) -> None:
        """Remove a folder; half removed, it does not look like a damaged one."""
        aside = storage.beside(path)
        try:
            if foreign := [p.name for p in path.iterdir() if not _OURS.fullmatch(p.name)]:
                raise OSError(f"{foreign[0]!r} in it is not ours")
            os.rename(path, aside)  # noqa: PTH104  # as below
            storage.crash_point(f"{verb}-discarding")
            shutil.rmtree(aside)
        except OSError as error:  # what had to be saved is saved
            self.warnings.append(f"{path} could not be removed: {files.brief(error)}")

    def _newest(self, series: str) -> Checkpoint | None:
        tried: dict[Path, str] = {}
        # Listed again each time: whoever trains may meanwhile have replaced what was there.
        while fresh := [entry for entry in self.saved(series) if entry[0] not in tried]:
            path = fresh[0][0]
            try:
                with files.blaming(path):
                    return self._load(series, *fresh[0])
            except BadRun as error:
                tried[path] = str(error)
                if os.path.lexists(path):  # else it was replaced while it was read
                    self._damaged.add(path)
                    self.warnings.append(f"{error}; going back to an older one")
        if damaged := [reason for path, reason in tried.items() if path in self._damaged]:
            raise BadRun(
                f"{damaged[0]}; and there is none to go back to: "
                "restore it from a copy, or train in another folder"
            )
        return None

    def _load(self, series: str, path: Path, number: int, step: int) -> Checkpoint:
        """Read a checkpoint; nothing of it is used before all of it is verified."""
        if path.is_symlink():
            raise BadRun("it is a link")
        manifest = self._own(files.Manifest, path / _MANIFEST)
        if (manifest.series, manifest.number, manifest.step) != (series, number, step):
            raise BadRun("it was saved under another name")
        self._check_log(manifest.metrics)
        contents = {name: _verified(path, name, one) for name, one in manifest.files.items()}
        state = json.loads(contents.pop(_STATE, b"null"))
        if not isinstance(state, dict):
            raise BadRun(f"{_STATE} is no table")
        groups = {n.removesuffix(_TENSORS): tensors.unpacked(c) for n, c in contents.items()}
        return Checkpoint(step, groups, state)


_held: set[int] = set()


def _let_go() -> None:
    """Drop locks in a forked child, which may outlive its parent; the parent still holds them."""
    for descriptor in _held:
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor, inheritable=False)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def _changes(old: Table, new: Table) -> list[str]:
    """Say of each key with another value what it was and what it is."""
    was, now = ({k: json.dumps(v, ensure_ascii=False) for k, v in d.items()} for d in (old, new))
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    return [f"{k} was {was.get(k, 'not there')} and is now {now.get(k, 'gone')}" for k in keys]


def _verified(folder: Path, name: str, wanted: files.Content) -> bytes:
    """Read a file that a manifest names, and compare it with what the manifest says."""
    if not _FILE.fullmatch(name):
        raise BadRun(f"the manifest names {knobs.shown(name)}")
    content = storage.read(folder / name, wanted.bytes)
    try:
        files.compare(content, wanted)
    except BadRun as error:
        raise BadRun(f"{name}: {error}") from None
    return content
