"""What every corpus is: knobs, files, splits, pairs and a fingerprint."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from augless.corpora import reading
from augless.corpora.reading import COMPRESSED, BadData, Pair, Tally
from augless.knobs import Knobs


@dataclass(frozen=True, kw_only=True)
class Corpus(Knobs):
    """Pairs of texts in named splits, read from files or made from a seed.

    A kind of corpus is a subclass: its knobs are its fields; it says which files it reads and
    what the pairs of a split are. `pairs` streams, so a fault in a file is raised when the stream
    gets there: use nothing of a split before it has ended.
    """

    languages: Annotated[
        tuple[str, str], "source and target; swapped, they swap the sides of the corpus"
    ]

    licence: ClassVar[str] = "not stated"
    address: ClassVar[str] = ""  # where the publisher has, or had, it
    version: ClassVar[int] = 1  # raised when the same inputs and knobs begin to give other pairs
    choices: ClassVar[tuple[str, ...]] = ()  # the languages there are; any, if none are listed
    pivot: ClassVar[str] = ""  # the language that all others are paired with, if there is one

    def __post_init__(self) -> None:
        super().__post_init__()
        one, other = self.languages
        if one == other or (self.choices and not {one, other} <= {*self.choices}):
            these = f" of {', '.join(self.choices)}" if self.choices else ""
            raise BadData(f"languages are {one!r} and {other!r}; they must be two{these}.")
        if self.pivot and self.pivot not in self.languages:
            raise BadData(
                f"languages are {one!r} and {other!r}; one of them must be {self.pivot!r}."
            )

    def splits(self) -> tuple[str, ...]:
        """List the splits, train first."""
        return ("train", "valid", "test")

    def pairs(self, split: str, tally: Tally | None = None) -> Iterator[Pair]:
        """Stream the pairs of a split, and keep the tally that is handed in up to date.

        An empty pair that several splits could have had is counted in train.
        """
        if split not in self.splits():
            these = ", ".join(self.splits())
            raise BadData(f"there is no split {split!r}; there is {these}.")
        return self.stream(split, tally or Tally())

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split that there is, and count them; `pairs` calls this."""
        raise NotImplementedError

    def inputs(self) -> list[Path]:
        """List the files that are read, without looking into them."""
        return []

    def check(self) -> None:
        """Refuse, before any work, files that are missing or cannot be read."""
        for path in self.inputs():
            reading.check(path)

    @property
    def located(self) -> list[str]:
        """The knobs that say where files are."""
        names = (field.name for field in dataclasses.fields(self))
        return [name for name in names if _located(getattr(self, name))]

    def settled(self) -> dict[str, Any]:
        """Give its knobs, but for those that say where files are."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in self.located}

    def fingerprint(self) -> str:
        """Give a SHA-256 that tells whether the pairs may be other ones.

        Over the kind, its version, its knobs and the bytes of its files; not over where they are.
        """
        digest = hashlib.sha256()
        for part in (type(self).__name__, self.version, self.settled(), self.splits()):
            digest.update(json.dumps(part, sort_keys=True).encode() + b"\0")
        for path in self.inputs():
            digest.update(reading.digest(path))
        return digest.hexdigest()


def _located(value: Any) -> bool:
    return isinstance(value, Path) or (isinstance(value, tuple) and any(map(_located, value)))


def located_in(folders: tuple[Path, ...], stems: tuple[str, ...]) -> Path | None:
    """Find the one file that has one of these names, compressed or not; None if there is none.

    The first folder that has any decides. Two such files there are refused: one may be stale.
    """
    for folder in folders:
        there = [folder / f"{stem}{suffix}" for stem in stems for suffix in ("", *COMPRESSED)]
        there = [path for path in there if path.exists() or path.is_symlink()]
        if len(there) > 1:
            these = " and ".join(path.name for path in there[:2])
            raise BadData(
                f"{reading.name(folder)}: {these} are both there; which is meant?\n"
                "Move one of them away."
            )
        if there:
            return there[0]
    return None
