"""What the files of a run say: schemas, and errors that name the file."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic

from augless import knobs, schemas, storage
from augless.schemas import EXACT

FORMAT = "augless run 1"
SIDES = ("source", "target")
LARGEST = 1 << 26
"""bytes of a JSON file; nothing of ours comes near"""
Kind = TypeVar("Kind")
_KEY = re.compile(r"[\w.-]{1,200}", re.ASCII)
# What reading a damaged folder gives; any other error of the system is not the run's fault.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EIO}
_Place = Annotated[int, pydantic.Field(ge=0, le=10**18)]


class BadRun(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRecipe are
    """A folder that cannot be used as a run, or what is in it, and why."""


def brief(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())[:300]


@contextlib.contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Say of whatever a foreign or damaged file gives that the file is not usable."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGE:
            raise
        raise BadRun(f"{path} is damaged, or not ours: {brief(error)}") from None


@dataclass(frozen=True, kw_only=True)
class Header:
    """What run.json says."""

    __pydantic_config__ = EXACT

    format: str
    recipe: dict[str, Any]
    """dotted key -> value"""
    corpus: str
    """fingerprint of the prepared corpus"""
    vocabularies: dict[str, str]
    """side -> fingerprint of its codec"""
    versions: dict[str, str]
    """what else the bits depend on"""

    def __post_init__(self) -> None:
        if foreign := [key for key in self.recipe if not _KEY.fullmatch(key)]:
            raise ValueError(f"its recipe has the key {knobs.shown(foreign[0])}")
        words = (self.corpus, *self.vocabularies.values(), *self.versions, *self.versions.values())
        if foreign := [word for word in words if not word.isprintable()]:
            raise ValueError(f"it says {knobs.shown(foreign[0])}")
        if {*self.vocabularies} != {*SIDES}:
            raise ValueError("its vocabularies are not of source and target")


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a file holds, or the beginning of one that grows."""

    __pydantic_config__ = EXACT

    bytes: Annotated[int, pydantic.Field(ge=0, le=1 << 50)]
    sha256: str


def described(content: bytes) -> Content:
    """Describe content, for a file."""
    return Content(bytes=len(content), sha256=storage.digest(content))


def compare(content: bytes, wanted: Content) -> None:
    """Refuse content that does not begin as it was written."""
    if len(content) < wanted.bytes:
        raise BadRun(f"{wanted.bytes:,} bytes were written, {len(content):,} are there")
    if storage.digest(content[: wanted.bytes]) != wanted.sha256:
        raise BadRun("its content is not what was written")


def read(kind: type[Kind], path: Path) -> Kind:
    """Read a document by its schema; every byte has to be as it was written."""
    content = storage.parse(storage.read(path, LARGEST), FORMAT)
    return schemas.parsed(kind, storage.encoded(content))


# Of records, before a manifest or a result said how many there were.
_ANY = described(b"")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What manifest.json says."""

    __pydantic_config__ = EXACT

    format: str
    run: str
    """fingerprint of the run that it belongs to"""
    series: str
    """checkpoint or best"""
    number: _Place
    """in its series"""
    step: _Place
    """when it was saved"""
    files: dict[str, Content]
    metrics: Content = _ANY
    """records logged by then"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What result.json says."""

    __pydantic_config__ = EXACT

    format: str
    run: str
    """fingerprint of the run that it belongs to"""
    result: dict[str, Any]
    """what the run ended with"""
    metrics: Content = _ANY
    """records logged by then"""
