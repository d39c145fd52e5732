"""Anybody's own files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from augless.corpora import reading
from augless.corpora.corpus import Corpus, located_in
from augless.corpora.reading import COMPRESSED, BadData, Empty, Pair, Tally
from augless.knobs import Among, Choices, Within

STEMS = {"train": ("train",), "valid": ("valid", "dev", "val"), "test": ("test",)}


@dataclass(frozen=True, kw_only=True)
class Files(Corpus):
    """Plain, TSV or JSONL files, any of them compressed, named one by one or found in a folder.

    A split is two parallel files (source, target), or one file that has both: TSV or JSONL, told
    by its name (.tsv, .jsonl, before .gz and the like) or by `form`. One split can be `-`,
    standard input, which is one file too, so it needs `form`. TSV has no quoting: a tab separates.

    In a folder, a split is `train.de` and `train.en` (after `languages`, so `train.query` and
    `train.response` for dialogue), or else `train.tsv` or `train.jsonl`; likewise `valid` (or
    `dev`, `val`) and `test`. What is not there is not a split. Standard input is read once a
    process and kept in a temporary file.
    """

    languages: Annotated[
        tuple[str, str], "source and target: endings of files, names of JSONL fields"
    ] = ("source", "target")
    path: Annotated[Path | None, "folder that holds the files, if they are not named below"] = None
    train: Annotated[tuple[Path, ...], "source and target file, or one file of both"] = ()
    valid: Annotated[tuple[Path, ...], "source and target file, or one file of both"] = ()
    test: Annotated[tuple[Path, ...], "source and target file, or one file of both"] = ()
    extra: Annotated[tuple[str, ...], "further splits in the folder, such as test2017"] = ()
    form: Annotated[
        str,
        "how a file that has both sides is written; auto: see its name",
        Among("corpora.FORMATS"),
    ] = "auto"
    columns: Annotated[
        tuple[int, int], "TSV columns of source and target, from 1", Within(1, 10_000)
    ] = (1, 2)
    fields: Annotated[tuple[str, ...], "JSONL fields of source and target, if not `languages`"] = ()
    weight: Annotated[str, "TSV column, from 1, or JSONL field of each pair's weight"] = ""
    made: Annotated[str, "JSONL field of pairs that teach no vocabulary, as augment writes"] = ""
    sample: Annotated[
        int, "at most so many training pairs, evenly spread; 0: all", Within(0, 10**12)
    ] = 0
    held_out: Annotated[
        int, "at most so many pairs of any other split, evenly spread; 0: all", Within(0, 10**12)
    ] = 0
    empty: Annotated[Empty, "a pair with an empty side: refuse it, or drop the pair"] = "error"

    licence: ClassVar[str] = "yours"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {split: getattr(self, split) for split in STEMS if getattr(self, split)}
        if (self.path is None) == (not named):
            raise BadData("files: give either path, a folder, or train, valid and test.")
        if self.extra and self.path is None:
            raise BadData("files: extra names splits of the folder path, which is not given.")
        if len(self.fields) not in (0, 2):
            raise BadData(f"fields are {self.fields}; name two, for source and target.")
        for split, paths in named.items():
            if len(paths) > 2:
                raise BadData(f"{split} has {len(paths)} files; give two, or one of both sides.")
            if len(paths) == 2 and reading.STDIN in paths:
                raise BadData(f"{split}: standard input must have both sides, as {_these()}.")
            if len(paths) == 1:
                self._format(paths[0])
        if sum(paths == (reading.STDIN,) for paths in named.values()) > 1:
            raise BadData("standard input (-) can be one split only.")

    def splits(self) -> tuple[str, ...]:
        """List the splits that are named, or there."""
        return tuple(self._files())

    def inputs(self) -> list[Path]:
        """List the files, split by split."""
        return [path for paths in self._files().values() for path in paths]

    def check(self) -> None:
        """Refuse a folder without a split in it, and files that cannot be read."""
        if self.path is not None and not self.path.is_dir():
            kind = "not a directory" if self.path.exists() else "not there"
            raise BadData(f"{reading.name(self.path)}: this folder is {kind}.")
        if not self._files():
            one, other = self.languages
            raise BadData(
                f"{reading.name(self.path or Path())}: no split is in this folder.\n"
                f"Put train.{one} and train.{other} there (or .gz, .xz, .zst), or set languages."
            )
        for paths in self._files().values():
            if len(paths) == 1:
                self._format(paths[0])
        super().check()

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        most = self.sample if split == "train" else self.held_out
        if not most:
            return self._all(split, tally)
        total = sum(1 for _ in self._all(split, Tally()))
        pairs = enumerate(self._all(split, tally))
        share = min(most, total)
        return (pair for i, pair in pairs if (i + 1) * share // total > i * share // total)

    def _all(self, split: str, tally: Tally) -> Iterator[Pair]:
        paths = self._files()[split]
        if len(paths) == 2:
            return reading.parallel(paths[0], paths[1], self.empty, tally)
        form = self._format(paths[0])
        weight = reading.weight_in(self.weight, form.value)
        made = reading.made_by(self.made if form.marks else "")
        return reading.single(paths[0], form.sides(self), self.empty, tally, weight, made)

    def _format(self, path: Path) -> "Format":
        chosen = FORMATS[self.form]
        if chosen is None and path != reading.STDIN:
            ending = [part for part in path.suffixes if part.lower() not in COMPRESSED][-1:]
            chosen = next((one for one in _formats() if [one.suffix] == ending), None)
        if chosen is not None:
            chosen.check(self.weight)
            return chosen
        names = [one.suffix[1:] for one in _formats()]
        raise BadData(
            f"{reading.name(path)}: is it {_these()}? Its name does not tell.\n"
            f"Set corpus.form={' or '.join(names)} "
            f'(in Python: form="{names[0]}"), or give two files.'
        )

    def _files(self) -> dict[str, tuple[Path, ...]]:
        """Find the files of each split."""
        if self.path is None:
            named = {split: getattr(self, split) for split in STEMS}
            return {split: paths for split, paths in named.items() if paths}
        stems = STEMS | {split: (split,) for split in self.extra}
        there = {split: self._in_folder(self.path, names) for split, names in stems.items()}
        missing = [split for split in self.extra if not there[split]]
        if missing:
            raise BadData(f"{reading.name(self.path)}: the split {missing[0]!r} is not there.")
        return {split: paths for split, paths in there.items() if paths}

    def _in_folder(self, folder: Path, stems: tuple[str, ...]) -> tuple[Path, ...]:
        candidates = {stem: self._of_stem(folder, stem) for stem in stems}
        candidates = {stem: paths for stem, paths in candidates.items() if paths}
        if len(candidates) > 1:
            these = " and ".join(candidates)
            raise BadData(
                f"{reading.name(folder)}: {these} are both there; which is meant?\n"
                "Move one of them away."
            )
        return next(iter(candidates.values()), ())

    def _of_stem(self, folder: Path, stem: str) -> tuple[Path, ...]:
        one, other = (located_in((folder,), (f"{stem}.{side}",)) for side in self.languages)
        if one and other:
            return one, other
        if one or other:
            there, absent = (one, self.languages[1]) if one else (other, self.languages[0])
            raise BadData(
                f"{reading.name(there or folder)}: there is no {stem}.{absent} beside this file."
            )
        both = located_in((folder,), tuple(f"{stem}{one.suffix}" for one in _formats()))
        return (both,) if both else ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one file holds both sides of every pair, a pair a line."""

    suffix: str
    """that its files have, before .gz and the like"""
    sides: Callable[[Files], Callable[[Path, int, str], tuple[str, str]]]
    """from a corpus, which says where they are, to what finds source and target in a line"""
    value: Callable[[str, str], Any]
    """what a line says of a key, such as its weight"""
    check: Callable[[str], None] = lambda key: None
    """refuses a key that no line can have"""
    marks: bool = False
    """whether its lines can say that augmentation made them"""


FORMATS: dict[str, Format | None] = Choices(
    {
        "auto": None,  # told by the suffix
        "tsv": Format(
            suffix=".tsv",
            sides=lambda files: reading.columns(files.columns),
            value=reading.column,
            check=reading.check_column,
        ),
        "jsonl": Format(
            suffix=".jsonl",
            sides=lambda files: reading.members(files.fields or files.languages),
            value=reading.member,
            marks=True,
        ),
    }
)
"""name of a file format -> how it is read"""


def _formats() -> list[Format]:
    return [one for one in FORMATS.values() if one is not None]


def _these() -> str:
    return " or ".join(one.suffix[1:].upper() for one in _formats())
