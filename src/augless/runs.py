"""A run's directory: what is in it, and how to read it back.

::

    run.json                            recipe, fingerprints of corpus and codecs, versions
    source/codec.json, target/codec.json
    checkpoint-000007-step-1200/        manifest.json, state.json, model.safetensors, ...
    best-000002-step-900/               the same, for the best model so far
    metrics.jsonl                       one record a line
    result.json                         there once the run is done
    lock                                held by the process that trains

Whatever has to be whole is written aside under a name that starts with a dot, flushed, and renamed.
Every byte that is read back is compared with a SHA-256 first. A file can name no class, and nothing
is unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import math
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless import storage, text

if TYPE_CHECKING:  # torch is slow to load, and a list of runs does without
    from torch import Tensor

Table = Mapping[str, Any]  # of what JSON can say
Codecs = tuple[text.Codec, text.Codec]

FORMAT = "augless run 1"
SIDES = ("source", "target")
_MOMENTS = ("begun", "file-written", "written", "renamed", "durable", "discarding", "pruned")
CRASH_POINTS = (
    *(f"{verb}-{moment}" for verb in ("save", "best") for moment in _MOMENTS),
    *(f"{verb}-{moment}" for verb in ("create", "rewind", "finish") for moment in _MOMENTS[2:4]),
    "log-written",
)

_RUN, _MANIFEST, _STATE, _METRICS = "run.json", "manifest.json", "state.json", "metrics.jsonl"
_RESULT, _LOCK, _TENSORS = "result.json", "lock", ".safetensors"
_VERBS = {"checkpoint": "save", "best": "best"}
_SAVED = re.compile(r"[a-z]+-(\d{6,18})-step-(\d{1,18})", re.ASCII)
_ASIDE = re.compile(r"\..+\.aside(\d{1,9})", re.ASCII)
_FILE = re.compile(r"\w[\w-]*\.safetensors|state\.json", re.ASCII)
_OURS = re.compile(rf"{_FILE.pattern}|manifest\.json", re.ASCII)
_UPDATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_LARGEST = 1 << 26  # bytes of a JSON file; nothing of ours comes near
# What reading a damaged folder gives; any other error of the system is not the run's fault.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EIO}


class BadRun(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRecipe are
    """A folder that cannot be used as a run, or what is in it, and why."""


class Changed(BadRun):
    """A run that was made with another recipe, corpus or vocabulary."""


class Busy(RuntimeError):  # noqa: N818  # named for what it is
    """A run that another process is working on."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on from a step."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    """group, such as model or optimizer -> name -> tensor; a file for each group"""
    state: dict[str, Any]
    """what JSON can say"""


class Run:
    """A run's directory."""

    def __init__(self, folder: Path, header: Table) -> None:
        self.folder = folder
        self.recipe: dict[str, Any] = _part(header, "recipe", dict)
        self.corpus: str = _part(header, "corpus", str)
        self.versions: dict[str, Any] = _part(header, "versions", dict)
        self.warnings: list[str] = []
        """what was found damaged and passed over, one line each"""
        self._vocabularies: dict[str, Any] = _part(header, "vocabularies", dict)
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
        header = {"format": FORMAT, "recipe": dict(recipe), "corpus": corpus}
        header |= {"vocabularies": vocabularies, "versions": dict(versions)}
        document = _document(header)  # before anything is written: it may not be JSON
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            place = storage.target(folder)  # a link to an empty folder stays a link
            place.parent.mkdir(parents=True, exist_ok=True)
            _clear(place.parent, f".{place.name}.")
            try:
                with _aside(place, "create") as aside:
                    aside.mkdir()
                    for codec, side in zip(codecs, SIDES, strict=True):
                        _sync(codec.save(aside / side))
                        _sync(aside / side)
                    _write(aside / _RUN, document)
                    _sync(aside)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise  # else another process was faster
        run = Run.open(folder)
        if changes := _changes(run._made_from, Run(folder, _parse(document))._made_from):
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
        with _blaming(folder / _RUN):
            return Run(folder, _parse(storage.read(folder / _RUN, _LARGEST)))

    @functools.cached_property
    def codecs(self) -> Codecs:
        """The codecs of the source and the target."""
        found = []
        for side in SIDES:
            with _blaming(self.folder / side):
                storage.read(
                    self.folder / side / text.codec.FILE, _LARGEST
                )  # refuses a link, a pipe, a giant
                found.append(text.Codec.load(self.folder / side))
                if found[-1].fingerprint != self._vocabularies.get(side):
                    raise BadRun("not the vocabulary that the run was made with")
        return found[0], found[1]

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of recipe, corpus and vocabularies: what a checkpoint belongs to."""
        return _digest(_encoded(self._made_from))

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
            _sync(self.folder / _METRICS)
        self._save("checkpoint", checkpoint, keep)

    def last(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or None if there never was one."""
        return self._newest("checkpoint")

    def forget(self) -> None:
        """Remove all checkpoints: a finished run goes on from none. Its best model stays."""
        for path, _, _ in self._saved("checkpoint"):
            self._discard(path, "save")

    def save_best(self, tensors: Mapping[str, Tensor], state: Table) -> None:
        """Save the best model so far, whole or not at all, in place of the one before.

        `state` names its step. After a fall back it may be ahead of the last checkpoint.
        """
        step = state.get("step", 0)
        self._save("best", Checkpoint(step, {"model": dict(tensors)}, dict(state)), 1)

    def best(self) -> Checkpoint:
        """Return the best model so far, as the group `model`."""
        found = self._newest("best")
        if found is None:
            raise BadRun(f"{self.folder} has no model yet; train it first")
        return found

    def log(self, record: Table) -> None:
        """Append a record to the metrics; a number that is not finite becomes null."""
        line = json.dumps(finite(dict(record)), allow_nan=False).encode() + b"\n"
        path = self.folder / _METRICS
        with _opened(path, _UPDATE | os.O_APPEND) as descriptor:
            end = os.fstat(descriptor).st_size
            if end and os.pread(descriptor, 1, end - 1) != b"\n":  # a kill tore the last line
                os.ftruncate(descriptor, path.read_bytes().rfind(b"\n") + 1)
            _write_all(descriptor, line)
        crash_point("log-written")

    def metrics(self) -> list[dict[str, Any]]:
        """Return the records logged so far."""
        return [record for record, _ in self._records()]

    def rewind(self, count: int) -> None:
        """Forget all records but the first ones: the others will be logged again."""
        records = self._records()
        kept = [line for _, line in records[:count]]
        if len(kept) < len(records):
            with _aside(self.folder / _METRICS, "rewind") as aside:
                _write(aside, b"".join(kept))

    def finish(self, result: Table) -> None:
        """Say that the run is done, and with what result."""
        content = {"format": FORMAT, "run": self.fingerprint, "result": finite(dict(result))}
        with _aside(self.folder / _RESULT, "finish") as aside:
            _write(aside, _document(content))

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run ended with, or None if it is not done."""
        path = self.folder / _RESULT
        if not os.path.lexists(path):
            return None
        with _blaming(path):
            return _part(self._own(path), "result", dict)  # type: ignore[no-any-return]  # checked

    def _own(self, path: Path) -> dict[str, Any]:
        """Read a document that belongs to this run."""
        content = _parse(storage.read(path, _LARGEST))
        if content.get("run") != self.fingerprint:
            raise BadRun("it belongs to another run")
        return content

    def _records(self) -> list[tuple[dict[str, Any], bytes]]:
        """Return records and their lines, without a last line that a kill tore."""
        path = self.folder / _METRICS
        if not os.path.lexists(path):
            return []
        with _blaming(path):
            lines = storage.read(path, 1 << 40).split(b"\n")[:-1]
        records = []
        for number, line in enumerate(lines, 1):
            try:
                record = _part({"record": json.loads(line)}, "record", dict)
                _part({"step": 0, **record}, "step", int)
            except (ValueError, RecursionError) as error:
                raise BadRun(f"{path}, line {number} is damaged: {_brief(error)}") from None
            records.append((record, line + b"\n"))
        return records

    def _saved(self, series: str) -> list[tuple[Path, int, int]]:
        """List folders with their number and step, the last written first."""
        matches = ((p, _SAVED.fullmatch(p.name)) for p in self.folder.glob(f"{series}-*"))
        found = [(path, int(match[1]), int(match[2])) for path, match in matches if match]
        return sorted(found, key=lambda entry: entry[1], reverse=True)

    def _save(self, series: str, checkpoint: Checkpoint, keep: int) -> None:
        verb, step = _VERBS[series], checkpoint.step
        state = _encoded(dict(checkpoint.state))
        if not (isinstance(step, int) and 0 <= step < 10**18):
            raise ValueError(f"step is {step!r}; it counts from 0")
        if bad := [group for group in checkpoint.tensors if not _FILE.fullmatch(group + _TENSORS)]:
            raise ValueError(f"{bad[0]!r} cannot be the name of a file")
        if self._locked:  # nobody else writes: what lies aside was left by a process that died
            _clear(self.folder, ".", sure=True)
        # Numbered by when they were written, so that a step can be saved again after a fall back.
        number = max((n for _, n, _ in self._saved(series)), default=0) + 1
        manifest: dict[str, Any] = {"format": FORMAT, "run": self.fingerprint, "series": series}
        manifest |= {"number": number, "step": step, "files": {}}
        with _aside(self.folder / f"{series}-{number:06d}-step-{step}", verb) as aside:
            aside.mkdir()
            crash_point(f"{verb}-begun")
            for group in [None, *checkpoint.tensors]:
                content = state if group is None else _packed(checkpoint.tensors[group])
                name = _STATE if group is None else group + _TENSORS
                manifest["files"][name] = {"bytes": len(content), "sha256": _digest(content)}
                _write(aside / name, content)
                crash_point(f"{verb}-file-written")
            _write(aside / _MANIFEST, _document(manifest))
            _sync(aside)
        crash_point(f"{verb}-durable")
        there = [path for path, _, _ in self._saved(series)]
        kept = [path for path in there if path not in self._damaged][:keep]
        for old in [path for path in there if path not in kept]:
            self._discard(old, verb)
        crash_point(f"{verb}-pruned")

    def _discard(self, path: Path, verb: str) -> None:
        """Remove a folder; half removed, it does not look like a damaged one."""
        aside = _beside(path)
        try:
            if foreign := [p.name for p in path.iterdir() if not _OURS.fullmatch(p.name)]:
                raise OSError(f"{foreign[0]!r} in it is not ours")
            os.rename(path, aside)  # noqa: PTH104  # as below
            crash_point(f"{verb}-discarding")
            shutil.rmtree(aside)
        except OSError as error:  # what had to be saved is saved
            self.warnings.append(f"{path} could not be removed: {_brief(error)}")

    def _newest(self, series: str) -> Checkpoint | None:
        tried: dict[Path, str] = {}
        # Listed anew each time: whoever trains may meanwhile have replaced what was there.
        while fresh := [entry for entry in self._saved(series) if entry[0] not in tried]:
            path = fresh[0][0]
            try:
                with _blaming(path):
                    return self._load(series, *fresh[0])
            except BadRun as error:
                tried[path] = str(error)
                if os.path.lexists(path):  # else it was replaced while it was read
                    self._damaged.add(path)
                    self.warnings.append(f"{error}; going back to an older one")
        if damaged := [reason for path, reason in tried.items() if path in self._damaged]:
            raise BadRun(f"{damaged[0]}; and there is none to go back to")
        return None

    def _load(self, series: str, path: Path, number: int, step: int) -> Checkpoint:
        """Read a checkpoint; nothing of it is used before all of it is verified."""
        if path.is_symlink():
            raise BadRun("it is a link")
        manifest = self._own(path / _MANIFEST)
        if [manifest.get(key) for key in ("series", "number", "step")] != [series, number, step]:
            raise BadRun("it was saved under another name")
        files = _part(manifest, "files", dict)
        contents = {name: _verified(path, name, entry) for name, entry in files.items()}
        state = _part({_STATE: json.loads(contents.pop(_STATE, b"null"))}, _STATE, dict)
        groups = {n.removesuffix(_TENSORS): _unpacked(c) for n, c in contents.items()}
        return Checkpoint(step, groups, state)


_met: list[str] = []
_held: set[int] = set()


def crash_point(name: str) -> None:
    """Kill this process if AUGLESS_CRASH is `name`, `name:n` (n-th time) or `name:n:SIGNAL`."""
    wanted, *rest = os.environ.get("AUGLESS_CRASH", "").split(":")
    if wanted == name:
        _met.append(name)
        if _met.count(name) == int(rest[0] if rest else 1):
            os.kill(os.getpid(), signal.Signals[f"SIG{rest[1] if rest[1:] else 'KILL'}"])


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


def _part(content: Any, key: str, kind: type[Any]) -> Any:
    found = content.get(key) if isinstance(content, dict) else None
    if not isinstance(found, kind):
        raise BadRun(f"it has no {kind.__name__} {key!r}")
    return found


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot say, such as a correlation of constants, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _brief(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())[:300]


@contextlib.contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Say of whatever a foreign or damaged file gives that the file is not usable."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGE:
            raise
        raise BadRun(f"{path} is damaged, or not ours: {_brief(error)}") from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _encoded(content: Any) -> bytes:
    return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"


def _document(content: Table) -> bytes:
    """Write a table as JSON that ends with the SHA-256 of the rest."""
    return _encoded({**content, "sha256": _digest(_encoded(content))})


def _parse(raw: bytes) -> dict[str, Any]:
    """Read a document back: every byte has to be as it was written."""
    content = json.loads(raw)
    if (found := _part(content, "format", str)) != FORMAT:
        raise BadRun(f"it has the format {found[:40]!r}, not {FORMAT!r}")
    rest = {key: value for key, value in content.items() if key != "sha256"}
    if _document(rest) != raw:
        raise BadRun("its content is not what was written")
    return rest


def _verified(folder: Path, name: str, entry: Any) -> bytes:
    """Read a file that a manifest names, and compare it with what the manifest says."""
    if not _FILE.fullmatch(name):
        raise BadRun(f"the manifest names {name[:80]!r}")
    size, digest = _part(entry, "bytes", int), _part(entry, "sha256", str)
    content = storage.read(folder / name, size)
    if len(content) != size or _digest(content) != digest:
        raise BadRun(f"{name} is not what was written")
    return content


def _packed(tensors: Mapping[str, Tensor]) -> bytes:
    import safetensors.torch

    # Some types, and one name, can be written but not read.
    _unpacked(safetensors.torch.save({n: t.new_empty(0) for n, t in tensors.items()}))
    # Cloned, since tensors that share memory are refused.
    whole = {n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}
    return safetensors.torch.save(whole)


def _unpacked(content: bytes) -> dict[str, Tensor]:
    import safetensors.torch

    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError) as error:
        raise BadRun(f"the tensors cannot be read ({_brief(error)})") from None


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.aside{os.getpid()}")


@contextlib.contextmanager
def _aside(path: Path, verb: str) -> Iterator[Path]:
    """Give a name beside a path; what is made there becomes the path at the end, or nothing."""
    aside = _beside(path)
    try:
        _remove(aside)
        yield aside
        crash_point(f"{verb}-written")
        os.rename(aside, path)  # noqa: PTH104  # every call that may fail is in `os`, for tests
        crash_point(f"{verb}-renamed")
        _sync(path.parent)
    finally:
        _remove(aside)


def _remove(path: Path) -> None:
    """Remove a file or folder, if there is one and it can be removed."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def _clear(folder: Path, start: str, *, sure: bool = False) -> None:
    """Remove what processes left aside; if not sure that they died, only where they did."""
    for path in folder.iterdir():
        match = _ASIDE.fullmatch(path.name) if path.name.startswith(start) else None
        if match and (sure or not storage.alive(int(match[1]))):
            _remove(path)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file or folder; errors name it, also those of calls that see a number only."""
    try:
        descriptor = os.open(path, flags, 0o666)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _write(path: Path, content: bytes) -> None:
    """Write a new file through to the disk."""
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        _write_all(descriptor, content)
        os.fsync(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:  # a disk that fills up takes a part, and says so at the next call
        rest = rest[os.write(descriptor, rest) :]


def _sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    with _opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)
