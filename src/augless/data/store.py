"""Prepared pairs on disk: flat ids and offsets behind memory maps, and a manifest."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pydantic
from numpy.typing import NDArray

from augless import schemas, storage, text
from augless.knobs import shown
from augless.schemas import EXACT, Count

FORMAT = "augless prepared 2"
MANIFEST = "manifest.json"
SIDES = ("source", "target")
_LARGEST = 1 << 26  # bytes of a manifest; nothing of ours comes near
_SPLIT = r"[^\W_][\w.-]*"
# What a prepared folder holds: nothing else in one is ever deleted.
FILES = re.compile(
    rf"manifest\.json|(?:source|target)/codec\.json|{_SPLIT}\.(?:weight|made)"
    rf"|{_SPLIT}\.(?:source|target)\.(?:ids|offsets|text)"
)
_Ids = Annotated[int, pydantic.Field(ge=1, le=1 << 32)]
Type = Literal["uint8", "uint16", "uint32"]


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of a prepared folder."""

    __pydantic_config__ = EXACT

    bytes: Count
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Input(File):
    """A file that was read."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """What was counted of one side of a split."""

    __pydantic_config__ = EXACT

    tokens: Count
    unknown: Annotated[float, pydantic.Field(ge=0, le=1)]
    """share of unknown ids"""
    lengths: dict[str, Count]
    """length -> sentences"""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What was counted of a split."""

    __pydantic_config__ = EXACT

    pairs: Count
    """that were kept"""
    read: Count
    dropped: dict[str, Count]
    """reason -> pairs"""
    source: Side
    target: Side
    cut_words: Count = 0
    """training words that were cut because they are very long"""
    shared: Count = 0
    """training pairs in another split too"""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `manifest.json` says, checked when it is read."""

    __pydantic_config__ = EXACT

    format: str
    fingerprint: str
    """of the corpus that was read"""
    inputs: list[Input]
    """the files that were read"""
    settings: dict[str, Any]
    """how text became ids"""
    languages: tuple[str, str]
    vocabulary: tuple[_Ids, _Ids]
    """number of ids of each side"""
    types: dict[str, Type]
    """of each side's ids"""
    splits: dict[str, Count]
    """split -> pairs"""
    statistics: dict[str, Statistics]
    """split -> what was counted"""
    files: dict[str, File]
    """what the folder holds"""

    def __post_init__(self) -> None:
        if foreign := [name for name in self.files if not FILES.fullmatch(name)]:
            raise ValueError(f"it names {shown(foreign[0])}, which is not ours")
        if {*self.types} != {*SIDES} or "train" not in self.splits:
            raise ValueError("it lacks a side or the training pairs")
        if {*self.splits} != {*self.statistics}:
            raise ValueError("it counts other splits than it has")


class BadStore(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRecipe are
    """A prepared folder that cannot be used, and what to do about it."""


@dataclass(frozen=True)
class Ragged:
    """Many sequences of ids, one after another: sequence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: NDArray[Any]
    offsets: NDArray[np.int64]

    @staticmethod
    def of(sequences: Sequence[NDArray[Any]]) -> Ragged:
        """Put sequences one after another."""
        offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
        return Ragged(np.concatenate([np.zeros(0, np.int64), *sequences]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @functools.cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each sequence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Pairs:
    """One split: aligned source and target sequences, and each pair's weight."""

    source: Ragged
    target: Ragged
    weight: NDArray[np.float32]

    def __repr__(self) -> str:
        source, target = (len(side.ids) for side in (self.source, self.target))
        return f"Pairs({len(self):,} pairs, {source:,} to {target:,} ids)"

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus."""

    folder: Path
    manifest: Manifest

    def __repr__(self) -> str:
        languages, pairs = " to ".join(self.manifest.languages), self.manifest.splits["train"]
        return f"Prepared({str(self.folder)!r}, {languages}, {pairs:,} training pairs)"

    @staticmethod
    def open(folder: str | Path) -> Prepared:
        """Open a prepared folder; refuse what is not one, or not whole, in one line."""
        folder = Path(folder)
        try:
            said = storage.parse(storage.read(folder / MANIFEST, _LARGEST), FORMAT)
            manifest = schemas.parsed(Manifest, storage.encoded(said))
            schemas.check_whole(manifest.statistics["train"], said["statistics"]["train"])
        except FileNotFoundError:
            raise BadStore(f"{folder} holds no prepared corpus; make one with prepare") from None
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise BadStore(f"{folder / MANIFEST} is damaged ({reason}); prepare again") from None
        for name, entry in manifest.files.items():
            path, size = folder / name, entry.bytes
            actual = path.stat().st_size if path.is_file() else -1
            if actual != size:
                state = "is missing" if actual < 0 else f"has {actual} bytes instead of {size}"
                raise BadStore(f"{path} {state}; prepare again")
        prepared = Prepared(folder, manifest)
        for split, n in manifest.splits.items():
            needed = [f"{split}.{side}.{part}" for side in SIDES for part in ("ids", "offsets")]
            if absent := [name for name in needed if name not in manifest.files]:
                raise BadStore(f"{folder / MANIFEST} does not name {absent[0]}; prepare again")
            for side in SIDES:
                ragged = prepared._ragged(split, side)
                if len(ragged) != n or ragged.offsets[-1] != len(ragged.ids):
                    raise BadStore(f"{folder}: {split} and its manifest disagree; prepare again")
        return prepared

    def verify(self) -> None:
        """Read every file and compare its SHA-256 with the manifest's."""
        for name, file in self.manifest.files.items():
            if digest(self.folder / name) != file.sha256:
                raise BadStore(f"{self.folder / name} is not what was written; prepare again")

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.manifest.splits)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that was written: two prepared corpora with the same one are the same."""
        entries = sorted((name, file.sha256) for name, file in self.manifest.files.items())
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()

    @functools.cached_property
    def codecs(self) -> tuple[text.Codec, text.Codec]:
        """The codecs of the source and the target."""
        try:
            source, target = (text.Codec.load(self.folder / side) for side in SIDES)
        except ValueError as error:
            raise BadStore(f"{error}; prepare again") from None
        return source, target

    def pairs(self, split: str) -> Pairs:
        """Return one split, memory-mapped."""
        if split not in self.splits:
            raise BadStore(f"{self.folder} has no split {split!r}; it has {', '.join(self.splits)}")
        source, target = (self._ragged(split, side) for side in SIDES)
        path = self.folder / f"{split}.weight"
        weight = np.ones(len(source), np.float32)
        if path.name in self.manifest.files:
            weight = np.fromfile(path, "<f4")
            if len(weight) != len(source) or not (np.isfinite(weight) & (weight >= 0)).all():
                raise BadStore(f"{path} has no weight for each pair; prepare again")
        return Pairs(source, target, weight)

    def lines(self, split: str, side: str) -> list[str]:
        """Return one side of a split other than train, as it was read."""
        path = self.folder / f"{split}.{side}.text"
        if path.name not in self.manifest.files:
            raise BadStore(f"{self.folder} has no text of {split}; prepare again")
        return path.read_bytes().decode().split("\n")[:-1]

    def _ragged(self, split: str, side: str) -> Ragged:
        kind = np.dtype(self.manifest.types[side]).newbyteorder("<")
        ids, offsets = (self.folder / f"{split}.{side}.{part}" for part in ("ids", "offsets"))
        return Ragged(_mapped(ids, kind), _mapped(offsets, "<i8"))


class Writer:
    """Write the sequences of one side of a split as they come."""

    def __init__(self, folder: Path, split: str, side: str, vocabulary: int) -> None:
        self.type = np.dtype(smallest_type(vocabulary)).newbyteorder("<")
        paths = (folder / f"{split}.{side}.{part}" for part in ("ids", "offsets"))
        self._ids, self._offsets = (path.open("wb") for path in paths)
        self._end = 0
        self._offsets.write(np.zeros(1, "<i8").tobytes())

    def write(self, ids: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """Append sequences, given as one array of all their ids and the length of each."""
        self._ids.write(ids.astype(self.type).tobytes())
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        self._offsets.write(ends.astype("<i8").tobytes())
        self._end = int(ends[-1]) if len(ends) else self._end

    def close(self) -> None:
        """Finish the files."""
        for file in (self._ids, self._offsets):
            file.close()


def write_lines(folder: Path, split: str, pairs: Iterable[Sequence[str]]) -> set[str]:
    """Write both sides of pairs as text; return the names of the files."""
    names = [f"{split}.{side}.text" for side in SIDES]
    with (folder / names[0]).open("wb") as source, (folder / names[1]).open("wb") as target:
        for pair in pairs:
            for file, line in zip((source, target), pair, strict=True):
                file.write(line.encode() + b"\n")
    return set(names)


def smallest_type(vocabulary: int) -> Type:
    """Return the smallest unsigned integer type that holds every id of a vocabulary."""
    kinds: tuple[Type, ...] = get_args(Type)
    return next(kind for kind in kinds if vocabulary <= np.iinfo(kind).max + 1)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(folder: Path, names: Iterable[str]) -> dict[str, File]:
    """Return size and SHA-256 of files, for a manifest."""
    return {
        name: File(bytes=(folder / name).stat().st_size, sha256=digest(folder / name))
        for name in sorted(names)
    }


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, kind)
    return np.memmap(path, kind, "r")
