"""What the files of a run say, checked when they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from augless import knobs, storage
from augless.knobs import Knobs, Within

FORMAT = "augless run 1"
SIDES = ("source", "target")
_KEY = re.compile(r"[\w.-]{1,200}", re.ASCII)


class BadRun(ValueError):  # noqa: N818  # named for what it is, as BadData and BadRecipe are
    """A folder that cannot be used as a run, or what is in it, and why."""


@dataclass(frozen=True, kw_only=True)
class Header(Knobs):
    """What run.json says."""

    format: Annotated[str, "of the folder"]
    recipe: Annotated[dict[str, Any], "dotted key -> value"]
    corpus: Annotated[str, "fingerprint of the prepared corpus"]
    vocabularies: Annotated[dict[str, str], "side -> fingerprint of its codec"]
    versions: Annotated[dict[str, str], "what else the bits depend on"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if foreign := [key for key in self.recipe if not _KEY.fullmatch(key)]:
            raise ValueError(f"its recipe has the key {knobs.shown(foreign[0])}")
        words = (self.corpus, *self.vocabularies.values(), *self.versions, *self.versions.values())
        if foreign := [word for word in words if not word.isprintable()]:
            raise ValueError(f"it says {knobs.shown(foreign[0])}")
        if {*self.vocabularies} != {*SIDES}:
            raise ValueError("its vocabularies are not of source and target")


@dataclass(frozen=True, kw_only=True)
class Content(Knobs):
    """What a file holds, or the beginning of one that grows."""

    bytes: Annotated[int, "how many", Within(0, 1 << 50)]
    sha256: Annotated[str, "of them"]


def described(content: bytes) -> dict[str, Any]:
    """Describe content, for a file."""
    return {"bytes": len(content), "sha256": storage.digest(content)}


def compare(content: bytes, wanted: Content) -> None:
    """Refuse content that does not begin as it was written."""
    if len(content) < wanted.bytes:
        raise BadRun(f"{wanted.bytes:,} bytes were written, {len(content):,} are there")
    if storage.digest(content[: wanted.bytes]) != wanted.sha256:
        raise BadRun("its content is not what was written")


# Of records, before a manifest or a result said how many there were.
_ANY = Content(**described(b""))


@dataclass(frozen=True, kw_only=True)
class Manifest(Knobs):
    """What manifest.json says."""

    format: Annotated[str, "of the folder"]
    run: Annotated[str, "fingerprint of the run that it belongs to"]
    series: Annotated[str, "checkpoint or best"]
    number: Annotated[int, "in its series", Within(0, 10**18)]
    step: Annotated[int, "when it was saved", Within(0, 10**18)]
    files: Annotated[dict[str, Content], "name -> content"]
    metrics: Annotated[Content, "records logged by then"] = _ANY


@dataclass(frozen=True, kw_only=True)
class Result(Knobs):
    """What result.json says."""

    format: Annotated[str, "of the folder"]
    run: Annotated[str, "fingerprint of the run that it belongs to"]
    result: Annotated[dict[str, Any], "what the run ended with"]
    metrics: Annotated[Content, "records logged by then"] = _ANY
