"""Files of text to lines and pairs, streaming, with every fault named by file and line.

- A line ends at LF, and nowhere else: U+2028, U+0085, vertical tab, form feed and a bare CR are
  characters of the line. One CR before the LF (or before the end of the file) belongs to the line
  end, as Windows writes it. A last line without LF counts.
- Text is strict UTF-8; a byte order mark at the start of a file is dropped; NUL is refused.
- gzip, xz and zstd are told by the name, or else by the first bytes, which no UTF-8 text can have.
- Memory is bounded by the longest line allowed (`LONGEST`), not by the file.
"""

import gzip
import hashlib
import importlib
import itertools
import json
import lzma
import math
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

BLOCK = 1 << 20  # bytes read at once
LONGEST = 8 << 20  # bytes of the longest line that is still believed to be text
STDIN = Path("-")
COMPRESSED = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
"""suffix of a compressed file -> its first bytes"""

Empty = Literal["error", "drop"]
Numbered = Iterator[tuple[int, str]]


class BadData(ValueError):  # noqa: N818 - what it is, in the user's words
    """Data that cannot be used: what is wrong, where, and what to do, in one to three lines."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One sample: a source, a target, and how much it counts."""

    source: str
    target: str
    weight: float = 1.0
    made: bool = False
    """whether augmentation made it: it is trained on, but no vocabulary is learnt from it"""


@dataclass(slots=True)
class Tally:
    """What a stream of pairs has come to so far; whoever streams hands it in and looks at it."""

    empty: int = 0
    """pairs left out for an empty side"""
    done: int = 0
    """bytes of the files, as they are on disk, or pairs, of a corpus that is made"""
    total: int = 0
    """what `done` is going to be; 0 if that is not known"""

    def expect(self, *paths: Path) -> None:
        """Add files that are going to be read."""
        # What is not there, or no file, is for the reader to complain about.
        self.total += sum(local(path).stat().st_size for path in paths if local(path).exists())


def name(path: Path) -> str:
    """Spell a path for a message: on one line, whatever characters it has."""
    if path in (STDIN, *spooled):
        return "standard input"
    text = str(path)
    return text if text.isprintable() else ascii(text)


def quoted(text: str) -> str:
    """Spell the start of a text for a message: on one line, short, and printable."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


spooled: dict[Path, IO[bytes]] = {}
"""the path of a copy of standard input -> the copy, once there is one"""


def local(path: Path) -> Path:
    """Give the file to read for a path: itself, or a copy of standard input where it is `-`.

    Standard input is copied to a temporary file once, because a split is read more than once: for
    its fingerprint, to learn a vocabulary, to be encoded.
    """
    if path != STDIN:
        return path
    if not spooled:
        if sys.stdin is None or sys.stdin.isatty():
            raise BadData("standard input: nothing is piped in.\nPipe a file in, or name one.")
        # It has no name, so it is gone with the process, however that ends. On Linux its
        # descriptor can be opened as often as a file, each time from the start.
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        shutil.copyfileobj(sys.stdin.buffer, copy, BLOCK)
        copy.flush()
        spooled[Path(f"/proc/self/fd/{copy.fileno()}")] = copy
    return next(iter(spooled))


def check(path: Path) -> None:
    """Refuse a file that cannot be read, before any work: only its first bytes are looked at."""
    try:
        if path == STDIN:
            path = local(path)
        elif path.is_dir():
            raise BadData(f"{name(path)}: this is a directory.\nName a file in it.")
        elif not os.path.lexists(path):
            raise BadData(f"{name(path)}: there is no such file.")
        elif path.exists() and not path.is_file():
            # A pipe can be read only once, and a device may never end.
            raise BadData(f"{name(path)}: this is not a regular file.\nSave it to one first.")
        with _opened(path):
            pass
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> BadData:
    if isinstance(error, BadData):
        return error
    reason = getattr(error, "strerror", None) or str(error)
    return BadData(f"{name(path)}: cannot be read ({reason}).")


class _Stream(Protocol):
    """What is read from: a file, or what decompresses it."""

    def read(self, size: int, /) -> bytes: ...


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], _Stream]]:
    """Open a file, and what decompresses it; whoever reads names the faults."""
    suffix = path.suffix.lower()
    with path.open("rb") as raw:
        if suffix not in COMPRESSED:
            start = raw.read(6)
            raw.seek(0)
            suffix = next((s for s, magic in COMPRESSED.items() if start.startswith(magic)), "")
        if suffix == ".gz":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield raw, stream
        elif suffix == ".xz":
            with lzma.LZMAFile(raw) as stream:
                yield raw, stream
        elif suffix == ".zst":
            yield raw, _Zstandard(path, raw)
        else:
            yield raw, raw


class _Zstandard:
    """Read a zstd file, noticing a frame that is cut short, which the library's reader does not."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        try:
            zstandard = importlib.import_module("zstandard")  # an extra: may be missing
        except ImportError:
            raise BadData(
                f"{name(path)}: reading .zst needs the package zstandard.\n"
                "Install it (pip install zstandard), or decompress the file."
            ) from None
        self._new: Callable[[], Any] = zstandard.ZstdDecompressor().decompressobj
        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Any = None
        self._stream = raw

    def read(self, _: int, /) -> bytes:
        output: list[bytes] = []
        # Small steps, because a step may grow ten-thousandfold and its output has no limit.
        while sum(map(len, output)) < 1 << 16 and (data := self._stream.read(1 << 10)):
            while data:
                self._frame = self._frame or self._new()
                try:
                    output.append(self._frame.decompress(data))
                except self._error as error:
                    raise zlib.error(str(error)) from None
                data = self._frame.unused_data if self._frame.eof else b""
                self._frame = None if self._frame.eof else self._frame
        if not any(output) and self._frame is not None:
            raise EOFError
        return b"".join(output)


def _blocks(path: Path, tally: Tally) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed."""
    advice = "Fetch or make the file again."
    try:
        with _opened(path) as (raw, stream):
            before, block = 0, b" "
            while block:
                block = stream.read(BLOCK)
                tally.done += raw.tell() - before
                before = raw.tell()
                for start in range(0, len(block), BLOCK):
                    yield block[start : start + BLOCK]
    except EOFError:
        raise BadData(f"{name(path)}: the compressed file is cut short.\n{advice}") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        reason = f"the compressed file is damaged ({error})"
        raise BadData(f"{name(path)}: {reason}.\n{advice}") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def blocks(path: Path, tally: Tally) -> Iterator[list[str]]:
    """Yield the lines of a file, without their ends, many at a time."""
    path = local(path)
    number = 0  # lines before `rest`
    rest = b""
    start = True
    for block in itertools.chain(_blocks(path, tally), [None]):
        if block is None:
            whole, rest = rest, b""
        elif (cut := block.rfind(b"\n") + 1) or len(rest) + len(block) > LONGEST:
            whole, rest = rest + block[:cut], block[cut:]
            if not cut or whole.find(b"\n") > LONGEST:
                raise _endless(path, number + 1)
        else:
            rest += block
            continue
        if start:
            whole = whole.removeprefix(b"\xef\xbb\xbf")
            start = False
        if whole:
            lines = _lines(path, whole, number)
            number += len(lines)
            yield lines


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or of standard input as they come; only LF ends a line."""
    if path == STDIN:
        yield from piped()
        return
    check(path)
    for block in blocks(path, Tally()):
        yield from block


def piped() -> Iterator[str]:
    """Yield the lines of standard input, each as soon as it is there; they are read once."""
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file")
    for before in itertools.count():
        line = sys.stdin.buffer.readline(LONGEST + 2)  # no more is held, however long the line
        if not line:
            return
        if len(line.removesuffix(b"\n")) > LONGEST:
            raise _endless(STDIN, before + 1)
        yield from _lines(STDIN, line, before)


def _endless(path: Path, number: int) -> BadData:
    return BadData(
        f"{name(path)}, line {number}: longer than {LONGEST >> 20} MiB.\n"
        "This is not text in lines; end each sample with a line feed."
    )


def _lines(path: Path, whole: bytes, before: int) -> list[str]:
    # A line feed byte is never part of another character, so whole lines decode by themselves.
    try:
        text = whole.decode()
    except UnicodeDecodeError as error:
        raise _at(path, whole, before, error.start, "is not UTF-8") from None
    if "\0" in text:
        raise _at(path, whole, before, whole.index(b"\0"), "is NUL")
    text = text.removesuffix("\n")
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text.split("\n")


def _at(path: Path, whole: bytes, before: int, where: int, what: str) -> BadData:
    line = before + whole.count(b"\n", 0, where) + 1
    column = where - whole.rfind(b"\n", 0, where)
    advice = "Convert the file to UTF-8 text, or fix that line."
    if line == 1 and whole.startswith((b"\xff\xfe", b"\xfe\xff")):
        advice = "It looks like UTF-16: convert it to UTF-8."
    elif line == 1 and whole.startswith(b"PK\x03\x04"):
        advice = "It looks like a zip archive: unpack it."
    place = f"{name(path)}, line {line}, byte {column}"
    return BadData(f"{place}: this byte (0x{whole[where]:02x}) {what}.\n{advice}")


def numbered(path: Path, tally: Tally) -> Numbered:
    """Yield the lines of a file with their numbers, from 1."""
    return enumerate(itertools.chain.from_iterable(blocks(path, tally)), 1)


def parallel(source: Path, target: Path, empty: Empty, tally: Tally) -> Iterator[Pair]:
    """Pair two files line by line."""
    # As `paired`, but without a tuple per line: a million pairs a second.
    tally.expect(source, target)
    left = itertools.chain.from_iterable(blocks(source, tally))
    right = itertools.chain.from_iterable(blocks(target, tally))
    some = False
    for number, (one, other) in enumerate(itertools.zip_longest(left, right), 1):
        if one and other and not one.isspace() and not other.isspace():
            some = True
            yield Pair(one, other)
        elif one is None or other is None:
            counts = (
                number - 1 + (one is not None) + sum(1 for _ in left),
                number - 1 + (other is not None) + sum(1 for _ in right),
            )
            raise _unequal((source, target), counts, number, one if other is None else other)
        elif empty == "error":
            raise blank(source if not one.strip() else target, number)
        else:
            tally.empty += 1
    if not some:
        raise _nothing((source, target))


def paired(
    paths: tuple[Path, Path], sides: tuple[Numbered, Numbered], empty: Empty, tally: Tally
) -> Iterator[Pair]:
    """Pair what was taken from two files, the number of each line beside it."""
    tally.expect(*paths)
    left, right = sides
    some = False
    for count, (one, other) in enumerate(itertools.zip_longest(left, right)):
        if one is None or other is None:
            counts = (
                count + (one is not None) + sum(1 for _ in left),
                count + (other is not None) + sum(1 for _ in right),
            )
            number, text = one or other or (0, "")
            raise _unequal(paths, counts, number, text)
        if one[1].strip() and other[1].strip():
            some = True
            yield Pair(one[1], other[1])
        elif empty == "error":
            raise blank(*((paths[1], other[0]) if one[1].strip() else (paths[0], one[0])))
        else:
            tally.empty += 1
    if not some:
        raise _nothing(paths)


def single(
    path: Path,
    fields: Callable[[Path, int, str], tuple[str, str]],
    empty: Empty,
    tally: Tally,
    weight: Callable[[Path, int, str], float] = lambda *_: 1.0,
    made: Callable[[str], bool] = lambda _: False,
) -> Iterator[Pair]:
    """Yield the pairs of one file, both sides of which `fields` finds in a line."""
    tally.expect(path)
    some = False
    for number, line in numbered(path, tally):
        one, other = fields(path, number, line) if line.strip() else ("", "")
        if one.strip() and other.strip():
            some = True
            yield Pair(one, other, weight(path, number, line), made(line))
        elif empty == "error":
            side = "line" if not line.strip() else "source" if not one.strip() else "target"
            raise blank(path, number, side)
        else:
            tally.empty += 1
    if not some:
        raise _nothing((path,))


def weight_in(key: str, written_at: Callable[[str, str], Any]) -> Callable[[Path, int, str], float]:
    """Make what finds a pair's weight in a line, where `key` says; without a key it is 1."""
    if not key:
        return lambda *_: 1.0

    def find(path: Path, number: int, line: str) -> float:
        written: Any = None
        try:
            written = written_at(line, key)
            value = float(written)
        except (ValueError, TypeError, LookupError):
            value = -1.0
        if not 0 <= value < math.inf:
            raise BadData(
                f"{name(path)}, line {number}: the weight {key!r} is {quoted(str(written))}.\n"
                "A weight is a number, 0 or more."
            )
        return value

    return find


def made_by(key: str) -> Callable[[str], bool]:
    """Make what tells whether augmentation made a line's pair: whether it has that JSONL field."""
    return (lambda line: key in json.loads(line)) if key else lambda _: False


def _unequal(
    paths: tuple[Path, Path], counts: tuple[int, int], number: int, text: str | None
) -> BadData:
    longer = paths[counts[1] > counts[0]]
    return BadData(
        f"{name(paths[0])} has {counts[0]:,} lines and {name(paths[1])} has {counts[1]:,}: "
        f"they are not parallel.\n"
        f"Line {number} of {name(longer)} is the first without a partner: {quoted(text or '')}.\n"
        "Line i of one file must translate or answer line i of the other."
    )


def blank(path: Path, number: int, side: str = "line") -> BadData:
    """Refuse an empty side."""
    return BadData(
        f"{name(path)}, line {number}: the {side} is empty.\n"
        'Fix it, or set corpus.empty=drop (in Python: empty="drop") to leave such pairs out.'
    )


def _nothing(paths: Iterable[Path]) -> BadData:
    return BadData(f"{' and '.join(map(name, paths))}: no pair in it, only blank lines or none.")


def columns(wanted: tuple[int, int]) -> Callable[[Path, int, str], tuple[str, str]]:
    """Make a reader of tab-separated lines: no quoting, columns counted from 1."""
    one, other = wanted

    def fields(path: Path, number: int, line: str) -> tuple[str, str]:
        cells = line.split("\t")
        if max(wanted) > len(cells):
            raise BadData(
                f"{name(path)}, line {number}: column {max(wanted)} is wanted, of {len(cells)}.\n"
                "Columns are separated by one tab each."
            )
        return cells[one - 1], cells[other - 1]

    return fields


def check_column(key: str) -> None:
    """Refuse what is no number of a column, counted from 1; nothing asks for none."""
    if key and not re.fullmatch("[1-9][0-9]{0,4}", key):
        raise BadData(f"weight is {key!r}; name its TSV column by number, from 1.")


def column(line: str, key: str) -> str:
    """Return what stands in a column, counted from 1, of a tab-separated line."""
    return line.split("\t")[int(key) - 1]


def members(wanted: tuple[str, ...]) -> Callable[[Path, int, str], tuple[str, str]]:
    """Make a reader of lines that are JSON objects with two named fields of text."""

    def fields(path: Path, number: int, line: str) -> tuple[str, str]:
        members = record(path, number, line)
        one, other = (_text(path, number, members, key) for key in wanted)
        return one, other

    return fields


def member(line: str, key: str) -> Any:
    """Return a field of a line that is a JSON object."""
    return json.loads(line)[key]


def record(path: Path, number: int, line: str) -> dict[str, Any]:
    """Parse a line that must be a JSON object."""
    # Besides bad syntax: integers of thousands of digits (ValueError), nesting (RecursionError).
    try:
        members = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "too deep or too long a number")
        raise BadData(f"{name(path)}, line {number}: not JSON ({reason}).") from None
    if not isinstance(members, dict):
        raise BadData(f"{name(path)}, line {number}: not a JSON object, but {quoted(line)}.")
    return members


def _text(path: Path, number: int, members: dict[str, Any], key: str) -> str:
    place = f"{name(path)}, line {number}"
    if key not in members:
        there = ", ".join(map(quoted, itertools.islice(members, 5))) or "none"
        raise BadData(f"{place}: no field {quoted(key)}.\nIts fields are: {there}.")
    value = members[key]
    if not isinstance(value, str):
        raise BadData(f"{place}: the field {quoted(key)} is not text, but {quoted(repr(value))}.")
    return sound(path, number, value)


def sound(path: Path, number: int, text: str) -> str:
    r"""Refuse what JSON can spell and UTF-8 text cannot hold: NUL and halves of \uD83D\uDE00."""
    if "\0" in text or not _encodable(text):
        raise BadData(f"{name(path)}, line {number}: NUL or half a character (\\ud800) in text.")
    return text


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest(path: Path) -> bytes:
    """Give the SHA-256 of a file's bytes as they are on disk."""
    path = local(path)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        raise _unreadable(path, error) from None
