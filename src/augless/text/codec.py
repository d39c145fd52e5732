"""Lines to ids and back, and the file that remembers how."""

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from augless import contracts, schemas, storage
from augless.text import cleaning, tokenisation, vocabularies

Ids = NDArray[np.int32]

FILE = "codec.json"
Format = Literal["augless codec 1"]
FORMAT: str = get_args(Format)[0]


@dataclass(frozen=True)
class Codec:
    """Lines to ids and back, for one side of a corpus.

    ``decode(encode(line)) == normalise(line)``, lower-cased if asked, unless a piece is unknown or
    the tokeniser is ``moses``. Two sides with a joint vocabulary are two codecs that share it.
    """

    tokeniser: tokenisation.Tokeniser
    vocabulary: vocabularies.Vocabulary

    pad: ClassVar[int] = contracts.PAD
    bos: ClassVar[int] = contracts.BOS
    eos: ClassVar[int] = contracts.EOS
    unk: ClassVar[int] = contracts.UNK

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __repr__(self) -> str:
        return f"Codec({self.tokeniser!r}, {self.vocabulary!r})"

    def __reduce__(self) -> tuple[type["Codec"], tuple[Any, Any]]:
        # What was memoised stays behind when a codec is handed to another process.
        return Codec, (self.tokeniser, self.vocabulary)

    @functools.cached_property
    def _memo(self) -> tokenisation.Memo[bytes]:
        def packed(key: str) -> bytes:
            words = map(self.vocabulary.encode, self.tokeniser.cuts[key])
            return np.fromiter(itertools.chain.from_iterable(words), np.int32).tobytes()

        return tokenisation.Memo(packed)

    def encode(self, line: str) -> list[int]:
        """Encode one line, without any special symbol."""
        return cast("list[int]", self.encode_flat([line])[0].tolist())

    def encode_lines(self, lines: Iterable[str]) -> list[Ids]:
        """Encode many lines: one array each."""
        ids, lengths = self.encode_flat(lines)
        ends = np.cumsum(lengths).tolist()
        return [ids[start:end] for start, end in itertools.pairwise([0, *ends])]

    def encode_flat(self, lines: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode many lines into one array of all their ids, and the number of ids of each."""
        keys, lookup, join = self.tokeniser.keys, self._memo.__getitem__, b"".join
        packed = [join(map(lookup, keys(cleaning.normalise(line)))) for line in lines]
        lengths = np.fromiter(map(len, packed), np.int64, len(packed)) // np.int32().itemsize
        return np.frombuffer(join(packed), np.int32), lengths

    def tokens(self, ids: Iterable[int]) -> str:
        """Decode ids to the tokenised view, as papers score it."""
        return self._words(ids).replace(tokenisation.JOIN, "")

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids, up to the first `eos`, to a line."""
        return self.tokeniser.line(self._words(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Show each id to people: ``▁`` where a word ends, ``￭`` where tokens touch."""
        shown = [*vocabularies.SPECIALS, *self.vocabulary.pieces]
        marks = str.maketrans({" ": "▁", tokenisation.JOIN: "￭"})
        return [shown[i].translate(marks) for i in self._known(ids)]

    @functools.cached_property
    def _spellings(self) -> list[str]:
        # An unknown piece stands for a character, or for a word together with its final space.
        end = " " if self.vocabulary.merges is None else ""
        special = ("", "", "", vocabularies.SPECIALS[self.unk] + end)
        return [*special, *self.vocabulary.pieces]

    def _words(self, ids: Iterable[int]) -> str:
        text = itertools.takewhile(lambda i: i != self.eos, self._known(ids))
        words = "".join(map(self._spellings.__getitem__, text)).split(" ")
        # Two word ends may follow each other in what a model generates.
        return " ".join(filter(None, words))

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < len(self):
                raise ValueError(f"id {i} is not among the {len(self)} of this codec")
        return known

    @property
    def _content(self) -> dict[str, Any]:
        # Not `asdict` of the whole, which copies every piece and merge.
        vocabulary = {"pieces": self.vocabulary.pieces, "merges": self.vocabulary.merges}
        return {"tokeniser": asdict(self.tokeniser), "vocabulary": vocabulary}

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides which ids a line gets."""
        return digest_of(self._content)

    def save(self, folder: Path) -> Path:
        """Write the codec into a folder, as one JSON file, whole or not at all."""
        path = folder / FILE
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "sha256": self.fingerprint, **self._content}
        storage.replace(path, f"{json.dumps(content, ensure_ascii=False)}\n".encode())
        return path

    @staticmethod
    def load(folder: Path) -> "Codec":
        """Read a codec that was saved in a folder.

        Raises `ValueError`, in one line that names the file, where that is not what the file is.
        """
        path = folder / FILE
        try:
            said = schemas.parsed(_Saved, path.read_bytes())
            codec = Codec(said.tokeniser, said.vocabulary)
            if codec.fingerprint != said.sha256:
                raise ValueError("its content is not what was saved")
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{path} is damaged, or not a codec of ours: {reason}") from None
        return codec


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 of what a saved codec says."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class _Saved:
    """What a saved codec says."""

    format: Format
    sha256: str
    tokeniser: tokenisation.Tokeniser
    vocabulary: vocabularies.Vocabulary
