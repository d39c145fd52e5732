"""Files of public corpora from the network, when asked, and only with the checksum they must have.

Nothing else in the package opens a connection.
"""

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from augless import storage
from augless.corpora import reading
from augless.corpora.reading import BadData

Progress = Callable[[str, int, int | None], None]
"""called with what is done, how far it is, and its end, if that is known"""

TIMEOUT = 30.0  # seconds without a byte
LARGEST = 1 << 30  # bytes of a file
_CHUNK = 1 << 16


class Unreachable(OSError):  # noqa: N818  # named for what it is, as BadData is
    """A file that could not be had: from where, why, and what to do by hand."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A file on the network, or a tar archive of some."""

    addresses: dict[str, str]
    """address -> SHA-256 of what is there; the first that answers is taken"""
    files: tuple[str, ...]
    """what it holds: itself, if it is no archive"""

    @property
    def packed(self) -> bool:
        """Whether it is an archive."""
        return any(map(_is_archive, self.addresses))


def download(
    remotes: tuple[Remote, ...], folder: Path, progress: Progress = lambda *_: None
) -> list[Path]:
    """Fetch into a folder what is not there yet; return what was fetched.

    A file appears under its name when it is whole and its checksum is right. One that is there is
    left alone, but refused if it is another than would be fetched. Of what an archive held no
    checksum is known: it is fetched again, to compare.
    """
    made = []
    for remote in remotes:
        there = [name for name in remote.files if os.path.lexists(folder / name)]
        if there and not remote.packed:
            digest = hashlib.sha256((folder / there[0]).read_bytes()).hexdigest()
            _refuse([name for name in there if digest not in remote.addresses.values()], folder)
            continue
        content = _fetched(remote, folder, progress)
        _refuse([n for n in there if (folder / n).read_bytes() != content[n]], folder)
        for name in (name for name in remote.files if name not in there):
            folder.mkdir(parents=True, exist_ok=True)
            storage.replace(folder / name, content[name])
            made.append(folder / name)
    return made


def _refuse(wrong: list[str], folder: Path) -> None:
    """Refuse files that are others than would be fetched."""
    if wrong:
        raise BadData(
            f"{reading.name(folder / wrong[0])} is another file than the one to download\n"
            "move it away to fetch that; or leave out --download to use your own"
        )


def _fetched(remote: Remote, folder: Path, progress: Progress) -> dict[str, bytes]:
    """Return the files of the first address that has what it should."""
    reasons = []
    for address, checksum in remote.addresses.items():
        try:
            content = _read(address, progress)
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            reasons.append(f"{address}: {reason or type(error).__name__}")
            continue
        if hashlib.sha256(content).hexdigest() == checksum:
            return _unpacked(address, content, remote.files)
        reasons.append(f"{address}: it is another file by now (SHA-256 differs)")
    raise Unreachable(
        f"could not download {', '.join(remote.files)}: {'; '.join(reasons)}\n"
        f"put them into {reading.name(folder)} by hand, and call again"
    )


def _read(address: str, progress: Progress) -> bytes:
    stage = f"downloading {address.rpartition('/')[2]}"
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # https or http, of ours
        size = answer.headers.get("Content-Length")
        # Whatever a server says; ² is a digit too, but no number.
        said = size and size.isascii() and size.isdecimal() and len(size) < 20
        total = int(size) if said else None
        content = io.BytesIO()
        progress(stage, 0, total)
        while part := answer.read(_CHUNK):
            content.write(part)
            progress(stage, content.tell(), total)
            if content.tell() > LARGEST:
                raise OSError(f"it has more than {LARGEST:,} bytes")
    if total is not None and content.tell() < total:
        raise OSError(f"the connection broke after {content.tell():,} of {total:,} bytes")
    return content.getvalue()


def _is_archive(address: str) -> bool:
    return ".tar" in address or address.endswith(".tgz")


def _unpacked(address: str, content: bytes, files: tuple[str, ...]) -> dict[str, bytes]:
    """Take the named files out of an archive, if it is one; nothing else in it matters."""
    if not _is_archive(address):
        return {files[0]: content}
    contents = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name in files and (stream := archive.extractfile(member)) is not None:
                contents[name] = stream.read(LARGEST)
    if absent := [name for name in files if name not in contents]:
        raise BadData(f"{address} holds no {', '.join(absent)}")
    return contents
