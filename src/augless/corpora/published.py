"""Public corpora, from the files as their publishers distribute them.

`address` says where the files are, or were, to be had; `check` says which of them to put where.
`download` fetches those that have an address of their own and a checksum somebody published.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from augless import text
from augless.corpora import reading
from augless.corpora.corpus import Corpus, located_in
from augless.corpora.downloading import Progress, Remote, download
from augless.corpora.reading import BadData, Empty, Numbered, Pair, Tally

TED = "CC BY-NC-ND 3.0 (TED Conference LLC)"
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


@dataclass(frozen=True, kw_only=True)
class Published(Corpus):
    """A public corpus in a local folder."""

    path: Annotated[Path, "folder that holds the files, unpacked from what the publisher offers"]
    empty: Annotated[Empty, "a pair with an empty side: refuse it, or drop the pair"] = "drop"

    remotes: ClassVar[tuple[Remote, ...]] = ()

    def check(self) -> None:
        """Refuse a missing or unreadable file, and say where it is to be had."""
        for path in self.inputs():
            try:
                reading.check(path)
            except BadData as error:
                source = f"It is published at {self.address}" if self.address else "Look for it"
                there = "put it there"
                if not self._unknown:
                    there += ", or fetch it: `augless prepare` with --download"
                raise BadData(f"{str(error).splitlines()[0]}\n{source}; {there}.") from None

    def download(self, progress: Progress = lambda *_: None) -> list[Path]:
        """Fetch the files that are not there yet, checksums verified; return them."""
        if self._unknown:
            these = " and ".join(map(repr, self._unknown))
            raise BadData(
                f"no checksum of these files is known for {these}, so nothing is downloaded.\n"
                f"They are published at {self.address}; put them into {reading.name(self.path)}."
            )
        ours = {self.path / name for remote in self.remotes for name in remote.files}
        there = [path for path in self.inputs() if path.exists()]
        if len(there) == len(self.inputs()):  # under whatever names
            return []
        if foreign := [path for path in there if path not in ours]:
            raise BadData(
                f"{reading.name(foreign[0])} is here already, under another name than downloads "
                "have.\nComplete this folder by hand, or download into another one."
            )
        return download(self.remotes, self.path, progress)

    @property
    def _unknown(self) -> list[str]:
        """The languages whose files nobody published a checksum of."""
        known = {name.rpartition(".")[2] for remote in self.remotes for name in remote.files}
        return [language for language in self.languages if language not in known]

    def _file(self, *stems: str, below: str = "") -> Path:
        """Find a file, in the folder or in the one below; where it should be, if it is absent."""
        folders = (self.path, self.path / below) if below else (self.path,)
        return located_in(folders, stems) or self.path / stems[0]


def unescape(line: str) -> str:
    """Undo the five named escapes of XML and those by number; what is not one of them is text."""
    return _ENTITY.sub(_character, line) if "&" in line else line


def _character(entity: re.Match[str]) -> str:
    body = entity[1]
    if body in _NAMED:
        return _NAMED[body]
    code = int(body[2:], 16) if body[1] == "x" else int(body[1:])
    sound = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if sound else entity[0]


@dataclass(frozen=True, kw_only=True)
class IWSLT14(Published):
    """Talks, as packed for IWSLT 2014: `train.tags.de-en.de` and `IWSLT14.TED.*.de-en.de.xml`.

    Of the training files, lines of metadata are dropped, titles and descriptions are kept without
    their tags, as the script that most papers cite does. Of the XML files, the `<seg>` lines count;
    they are read as lines, not by an XML parser: some are not well-formed, and none can do harm.

    `paper`: all training lines; valid is tst2011, test is tst2012. `fairseq`: training lines of 1
    to 175 Moses tokens a side and a ratio of at most 1.5, of which every 23rd is valid; test is
    dev2010, dev2012 (where there is one), tst2010, tst2011 and tst2012 joined.
    """

    languages: Annotated[
        tuple[str, str], "en and another of the campaign, such as de, fr or it; in either order"
    ] = ("de", "en")
    split: Annotated[Literal["paper", "fairseq"], "which lines are valid and test"] = "paper"

    licence: ClassVar[str] = TED
    address: ClassVar[str] = "https://wit3.fbk.eu/2014-01"
    choices: ClassVar[tuple[str, ...]] = (
        *("de", "en", "fr", "it"),  # the official ones; the paper's
        *("ar", "es", "fa", "he", "nl", "pl", "pt-br", "ro", "ru", "sl", "tr", "zh"),  # optional
    )
    pivot: ClassVar[str] = "en"
    SETS: ClassVar[dict[str, tuple[str, ...]]] = {
        "paper valid": ("TED.tst2011",),
        "paper test": ("TED.tst2012",),
        "fairseq test": (
            "TED.dev2010",
            "TEDX.dev2012",
            "TED.tst2010",
            "TED.tst2011",
            "TED.tst2012",
        ),
    }

    def inputs(self) -> list[Path]:
        """List the training files and the XML files of the chosen split."""
        sets = (both for split in self.splits() for both in self._sets(split))
        return list(dict.fromkeys(itertools.chain.from_iterable(sets)))  # fairseq: valid is train

    def _sets(self, split: str) -> list[tuple[Path, Path]]:
        """List the files of a split, source and target."""
        sets = self.SETS.get(f"{self.split} {split}")
        if sets is None:
            return [self._both("train.tags.{pair}.{side}")]
        both = {name: self._both(f"IWSLT14.{name}.{{pair}}.{{side}}.xml") for name in sets}
        # Only some languages have the TEDx talks.
        return [
            paths
            for name, paths in both.items()
            if not name.startswith("TEDX") or any(path.exists() for path in paths)
        ]

    def _both(self, pattern: str) -> tuple[Path, Path]:
        other = next(side for side in self.languages if side != "en")
        there: list[Path] = []
        for side in self.languages:
            # Either archive serves either direction.
            names = [
                pattern.format(pair=pair, side=side) for pair in (f"{other}-en", f"en-{other}")
            ]
            below = (self.path, self.path / f"{other}-en", self.path / f"en-{other}")
            paths = (located_in(below, (name,)) for name in names)
            there.append(next(filter(None, paths), self.path / names[0]))
        return there[0], there[1]

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        if f"{self.split} {split}" in self.SETS:
            for paths in self._sets(split):
                yield from self._segments(paths, tally)
        elif self.split == "paper":
            yield from self._training(tally)
        else:
            # Valid is taken from the same lines.
            mine = tally if split == "train" else Tally()
            for number, pair in enumerate(filter(self._kept, self._training(mine)), 1):
                if (number % 23 == 0) == (split == "valid"):
                    yield pair

    def _training(self, tally: Tally) -> Iterator[Pair]:
        paths = self._sets("train")[0]
        one, other = (_spoken(path, tally) for path in paths)
        return reading.paired(paths, (one, other), self.empty, tally)

    def _kept(self, pair: Pair) -> bool:
        sides = zip(self.languages, (pair.source, pair.target), strict=True)
        low, high = sorted(len(text.moses(side).tokenise(line).split()) for side, line in sides)
        return low >= 1 and high <= 175 and high <= 1.5 * low

    def _segments(self, paths: tuple[Path, Path], tally: Tally) -> Iterator[Pair]:
        one, other = (_segments(path, tally) for path in paths)
        return reading.paired(paths, (one, other), self.empty, tally)


_TAGS = ("url", "keywords", "talkid", "speaker", "reviewer", "translator", "doc", "/doc")
_METADATA = re.compile(rf"\s*<(?:{'|'.join(_TAGS)})[ >]")
_MARKUP = re.compile("</?(?:title|description)>")


def _spoken(path: Path, tally: Tally) -> Numbered:
    """Yield the lines of a file of training data that are text."""
    for number, line in reading.numbered(path, tally):
        if "<" not in line:
            yield number, line
        elif not _METADATA.match(line):
            yield number, _MARKUP.sub("", line)


_SEGMENT = re.compile(r'\s*<seg id="\d+">(.*)</seg>\s*', re.DOTALL)


def _segments(path: Path, tally: Tally) -> Numbered:
    """Yield the texts of the `<seg>` lines of an XML file."""
    for number, line in reading.numbered(path, tally):
        if "<seg" in line:
            segment = _SEGMENT.fullmatch(line)
            if not segment:
                raise BadData(
                    f"{reading.name(path)}, line {number}: not a whole <seg id=...>...</seg>.\n"
                    "Take the file as it is published: one segment on each line."
                )
            # The cited script straightens this apostrophe here, and not in the training files.
            spoken = unescape(segment[1]).replace("\u2019", "'").strip()
            yield number, reading.sound(path, number, spoken)


@dataclass(frozen=True, kw_only=True)
class IWSLT15EnglishVietnamese(Published):
    """Talks in the files that Stanford prepared: `train.en`, `tst2012.en`, `tst2013.en`, `.vi`.

    They are tokenised, and escaped as Moses does (`&apos;`). Valid is tst2012, test is tst2013.
    """

    languages: Annotated[tuple[str, str], "en and vi, in either order"] = ("en", "vi")
    escapes: Annotated[Literal["undo", "keep"], "what becomes of &apos; and the like"] = "undo"

    licence: ClassVar[str] = TED
    address: ClassVar[str] = "https://nlp.stanford.edu/projects/nmt/"
    choices: ClassVar[tuple[str, ...]] = ("en", "vi")
    STEMS: ClassVar[dict[str, str]] = {"train": "train", "valid": "tst2012", "test": "tst2013"}
    remotes: ClassVar[tuple[Remote, ...]] = tuple(
        Remote(
            addresses={f"https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/{name}": digest},
            files=(name,),
        )
        for name, digest in {
            "train.en": "c26dfeed74b6bf3752f5ca552f2412456f0de153f7c804df8717931fb3a5c78a",
            "train.vi": "707206edf2dc0280273952c7b70544ea8a1363aa69aaeb9d70514b888dc3067d",
            "tst2012.en": "b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2",
            "tst2012.vi": "01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0",
            "tst2013.en": "3860ce60bc5b85d96cc2d3d580cf1bc9d62440e939c1b964676d3607c4e8f1df",
            "tst2013.vi": "29af16842808da2812b8fd4d47fc05d082ba870e60ab7755090ad04b380994cd",
        }.items()
    )

    def inputs(self) -> list[Path]:
        """List the six files."""
        return [path for split in self.STEMS for path in self._both(split)]

    def _both(self, split: str) -> tuple[Path, Path]:
        one, other = self.languages
        return self._file(f"{self.STEMS[split]}.{one}"), self._file(f"{self.STEMS[split]}.{other}")

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        for pair in reading.parallel(*self._both(split), self.empty, tally):
            if self.escapes == "undo" and ("&" in pair.source or "&" in pair.target):
                yield Pair(unescape(pair.source), unescape(pair.target))
            else:
                yield pair


@dataclass(frozen=True, kw_only=True)
class Multi30k(Published):
    """Captions of pictures: `train.de.gz`, `val.de.gz`, `test_2016_flickr.de.gz` and so on.

    As in data/task1/raw of the publishers' repository, the top of which will do as `path`; also
    under the names train, valid and test. The later tests are the splits `test2017` and
    `testcoco`, where they are there.
    """

    languages: Annotated[tuple[str, str], "two of cs, de, en and fr"] = ("de", "en")

    licence: ClassVar[str] = "non-commercial research and education (pictures of Flickr30K)"
    address: ClassVar[str] = "https://github.com/multi30k/dataset"
    choices: ClassVar[tuple[str, ...]] = ("cs", "de", "en", "fr")
    STEMS: ClassVar[dict[str, tuple[str, ...]]] = {
        "train": ("train",),
        "valid": ("val", "valid"),
        "test": ("test_2016_flickr", "test2016", "test"),
        "test2017": ("test_2017_flickr", "test2017"),
        "testcoco": ("test_2017_mscoco", "testcoco"),
    }
    # German and English as packed for the shared task of 2016, whose server is often away; a copy.
    remotes: ClassVar[tuple[Remote, ...]] = tuple(
        Remote(
            addresses={
                f"http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/{name}.tar.gz": one,
                "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/"
                f"{name}.tar.gz": other,
            },
            files=(f"{stem}.de", f"{stem}.en"),
        )
        for name, stem, one, other in (
            (
                "training",
                "train",
                "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
                "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
            ),
            (
                "validation",
                "val",
                "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
                "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
            ),
            (
                "mmt16_task1_test",
                "test",
                "0681be16a532912288a91ddd573594fbdd57c0fbb81486eff7c55247e35326c2",
                "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
            ),
        )
    )

    def splits(self) -> tuple[str, ...]:
        """List train, valid and test, and the later tests that are there."""
        later = ("test2017", "testcoco")
        there = (split for split in later if all(path.exists() for path in self._both(split)))
        return ("train", "valid", "test", *there)

    def inputs(self) -> list[Path]:
        """List the files, split by split."""
        return [path for split in self.splits() for path in self._both(split)]

    def _both(self, split: str) -> tuple[Path, Path]:
        stems = self.STEMS[split]
        one, other = (
            self._file(*(f"{stem}.{side}" for stem in stems), below="data/task1/raw")
            for side in self.languages
        )
        return one, other

    def stream(self, split: str, tally: Tally) -> Iterator[Pair]:
        """Stream the pairs of a split."""
        return reading.parallel(*self._both(split), self.empty, tally)
