"""An augmented corpus on disk: written aside, whole or absent, and read back with suspicion."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from augless import corpora, schemas, storage
from augless.augmentation.augmenter import BadAugmentation, Notes
from augless.errors import Busy

Format = Literal["augless augmented 1"]
FORMAT: Format = "augless augmented 1"
MANIFEST, TRAIN, LOCK = "manifest.json", "train.jsonl", "lock"
_LARGEST = 1 << 26  # bytes of a manifest; nothing of ours comes near
_FILE = re.compile(r"\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class File:
    """A file of an augmented folder."""

    bytes: schemas.Count
    sha256: str


@dataclass(frozen=True)
class Pairs:
    """How many pairs there are."""

    original: schemas.Count
    made: schemas.Count
    left_out: schemas.Count


@dataclass(frozen=True)
class Words:
    """How many words of the rewritten sides there were, and how many of them were changed."""

    all: schemas.Count
    changed: schemas.Count
    share: float


@dataclass(frozen=True, kw_only=True)
class Manifest(Notes):
    """What `manifest.json` says, checked when it is read."""

    format: Format
    fingerprint: str
    made_from: dict[str, Any]
    """all that decides the texts"""
    named: dict[str, str] = field(default_factory=dict)
    """knob -> name of a model or file whose content decides"""
    languages: tuple[str, str]
    pairs: Pairs
    words: Words
    samples: list[dict[str, str]]
    """some pairs: source, target, made_source, made_target"""
    seconds: schemas.Seconds
    """of rewriting"""
    versions: dict[str, str]
    files: dict[str, File]


@dataclass(frozen=True)
class Augmented:
    """A folder that `augment` made.

    ``train.jsonl`` holds the original pairs and then the made ones, each with its weight; a made
    pair has the fields ``of`` (its original's line, from 0) and ``copy``. The other splits are as
    they were. ``made.LANGUAGE`` are the made pairs as plain text.
    """

    folder: Path
    manifest: Manifest

    @staticmethod
    def open(folder: str | Path) -> Augmented:
        """Open a folder; refuse what is not one, or not whole, in one line."""
        folder = Path(folder)
        path = folder / MANIFEST
        try:
            manifest = schemas.parsed(Manifest, storage.read(path, _LARGEST))
            for name, file in manifest.files.items():
                if not _FILE.fullmatch(name):
                    raise ValueError(f"it names {name[:80]!r}")
                status = (folder / name).lstat()
                if not stat.S_ISREG(status.st_mode) or status.st_size != file.bytes:
                    raise ValueError(f"{name} is not the file that was written")
        except FileNotFoundError as error:
            lost = Path(error.filename or path).name
            raise BadAugmentation(
                f"{folder} holds no augmented corpus: there is no {lost}; make one with augment"
            ) from None
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise BadAugmentation(f"{path} is damaged, or not ours: {reason}") from None
        return Augmented(folder, manifest)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the made pairs: augmenter, models, seed and corpus."""
        return self.manifest.fingerprint

    def verify(self) -> None:
        """Compare every file with the SHA-256 in the manifest."""
        for name, file in self.manifest.files.items():
            if corpora.reading.digest(self.folder / name).hex() != file.sha256:
                raise BadAugmentation(
                    f"{self.folder / name} is not what was written\n"
                    f"move {self.folder} away and augment again"
                )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Stream the lines of the training file."""
        path = self.folder / TRAIN
        for number, line in corpora.reading.numbered(path, corpora.Tally()):
            yield corpora.reading.record(path, number, line)


def write(path: Path, lines: Iterable[str]) -> File:
    """Write a new file of lines; return its size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for line in lines:
            content = line.encode() + b"\n"
            file.write(content)
            digest.update(content)
            size += len(content)
    return File(size, digest.hexdigest())


def check_place(folder: Path) -> None:
    """Refuse, before any work, a folder that cannot be written or holds something else."""
    if folder.is_symlink():
        raise BadAugmentation(f"{folder} is a link; name the folder itself")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder that is new")
    if folder.is_dir() and any(folder.iterdir()) and not os.path.lexists(folder / MANIFEST):
        raise BadAugmentation(f"{folder} holds something else; name a folder that is new or empty")
    above = folder.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is a file; {folder} cannot be made below it")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(f"{above} cannot be written to; name another folder")


@contextlib.contextmanager
def workplace(folder: Path, fingerprint: str) -> Iterator[Path]:
    """Give a hidden folder beside the one to be made, held against other processes.

    It is found again by the same fingerprint, and removed once the folder is there, or if nothing
    was done in it.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.with_name(f".{folder.name}.{fingerprint[:12]}")
    with contextlib.suppress(FileExistsError):
        work.mkdir()
    if work.is_symlink() or not work.is_dir():
        raise BadAugmentation(f"{work} is not a folder of ours; move it away")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    lock = os.open(work / LOCK, flags, 0o666)
    ours = False
    try:
        ours = storage.hold(lock)
        if not ours:
            raise Busy(f"{folder} is being made by another process")
        yield work
    finally:
        whole = folder.is_dir() and any(folder.iterdir())  # nothing here is needed again
        if ours and (whole or [path.name for path in work.glob("*")] == [LOCK]):
            shutil.rmtree(work, ignore_errors=True)
        os.close(lock)
