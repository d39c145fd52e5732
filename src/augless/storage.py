"""Files and folders that are whole or absent, and never outside their folder.

`replacing` writes a file, and `making` a folder, under another name until all of it is on the disk.

Folders of runs, records and trials come from other people too. So what a file says is an identifier
is checked by its form before it becomes part of a path, a link below such a folder is never
followed for writing or deleting (`inside`), and only files of known names are deleted (`discard`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

_IDENTIFIER = re.compile(r"[0-9a-f]{12}", re.ASCII)
_ASIDE = re.compile(r"\.(.+)\.aside(\d{1,9})", re.ASCII)
_met: list[str] = []


class Linked(OSError):  # noqa: N818  # named for what it is
    """A link where a plain file or folder belongs."""

    def __str__(self) -> str:
        return str(self.args[1])


class Taken(FileExistsError):  # noqa: N818  # named for what it is
    """A folder with something in it, which somebody else has made meanwhile."""

    def __str__(self) -> str:
        return str(self.args[1])


class Misnamed(OSError, ValueError):  # noqa: N818  # named for what it is
    """A name, said by a file, that would lead out of a folder."""


def identifier(name: object) -> str:
    """Return what a file says is the identifier of a run, if it has the form of one."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"{str(name)[:40]!r} is no identifier: 12 digits of 0-9 and a-f")
    return name


def inside(root: Path, *names: str) -> Path:
    """Return the path of an entry below `root`, if no part below `root` is a link.

    `root` itself is the user's word, and may be a link.
    """
    path = root
    for name in names:
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise Misnamed(
                f"{name[:80]!r} cannot be the name of a file in {path}\n"
                "what says so is damaged, or from elsewhere: remove it"
            )
        path = path / name
        if path.is_symlink():
            raise Linked(
                errno.ELOOP,
                f"{path} is a link, which is not followed\nreplace it by a plain file or folder",
            )
    return path


def target(path: Path) -> Path:
    """Return what a path that the user named leads to, through links; refuse a loop of links."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise Linked(errno.ELOOP, f"{path} is a link to itself\nname another path")
    return real


def read(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes; not through a link, and not from a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise ValueError(f"{path.name} is not a plain file of at most {largest} bytes")
        return file.read()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` once it is whole, and keeps its mode.

    The name aside cannot be guessed, and is never an existing file or link.
    """
    aside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.aside")
    mode = 0o666
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.lstat().st_mode) if not path.is_symlink() else mode
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode != 0o666:
                os.fchmod(descriptor, mode)
            yield file
            with _naming(path):
                file.flush()
                os.fsync(descriptor)
        aside.replace(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def making(folder: Path, verb: str) -> Iterator[Path]:
    """Make a folder aside, which takes the place of `folder` once it is whole.

    Meant for a folder that is not there, or empty; `Taken` is raised if another process was faster.
    What processes that were killed left of earlier attempts is removed.
    """
    folder = folder.absolute()  # else "." has no name
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear(folder.parent, re.escape(folder.name))
    with aside(folder, verb) as made:
        made.mkdir()
        crash_point(f"{verb}-begun")
        yield made


@contextlib.contextmanager
def aside(path: Path, verb: str) -> Iterator[Path]:
    """Give a name beside a path; what is made there takes the place of the path at the end.

    That is a file or a folder. It is on the disk before it gets its name; if anything fails, it is
    gone, and what a kill leaves of it `clear` removes. `verb` names the points where tests kill.
    """
    made = beside(path)
    try:
        _erase(made)
        yield made
        for one in (*sorted(made.rglob("*"), reverse=True), made):
            sync(one)
        crash_point(f"{verb}-written")
        try:
            os.rename(made, path)  # noqa: PTH104  # every call that may fail is in `os`, for tests
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            what = f"{path} was made by another process meanwhile"
            raise Taken(errno.EEXIST, what, str(path)) from None
        crash_point(f"{verb}-renamed")
        sync(path.parent)
    finally:
        _erase(made)


def beside(path: Path) -> Path:
    """Return a name beside a path, for what is not whole yet, or not any more."""
    return path.with_name(f".{path.name}.aside{os.getpid()}")


def clear(folder: Path, names: str, *, sure: bool = False) -> None:
    """Remove what processes left aside in a folder, of names that an expression matches.

    If not sure that they died, only where they did.
    """
    for path in folder.glob(".*.aside*"):
        match = _ASIDE.fullmatch(path.name)
        if match and re.fullmatch(names, match[1]) and (sure or not alive(int(match[2]))):
            _erase(path)


def _erase(path: Path) -> None:
    """Remove a file, a link or a folder, if there is one and it can be removed."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def crash_point(name: str) -> None:
    """Kill this process if AUGLESS_CRASH is `name`, `name:n` (n-th time) or `name:n:SIGNAL`."""
    wanted, *rest = os.environ.get("AUGLESS_CRASH", "").split(":")
    if wanted == name:
        _met.append(name)
        if _met.count(name) == int(rest[0] if rest else 1):
            os.kill(os.getpid(), signal.Signals[f"SIG{rest[1] if rest[1:] else 'KILL'}"])


def document(content: Mapping[str, Any]) -> bytes:
    """Write a table as JSON that ends with the SHA-256 of the rest."""
    return encoded({**content, "sha256": digest(encoded(content))})


def parse(
    raw: bytes, form: str, write: Callable[[Mapping[str, Any]], bytes] = document
) -> dict[str, Any]:
    """Read a document back, without its SHA-256: every byte has to be as it was written.

    `form` is what its key `format` says, `write` what wrote it. Raises `ValueError`, whatever is
    wrong.
    """
    try:
        content = json.loads(raw)
        if not isinstance(content, dict) or not isinstance(content.get("format"), str):
            raise ValueError("it has no format")
        if content["format"] != form:
            raise ValueError(f"it has the format {content['format'][:40]!r}, not {form!r}")
        content.pop("sha256", None)
        if write(content) != raw:
            raise ValueError("its content is not what was written")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


def encoded(content: Any) -> bytes:
    """Write what JSON can say."""
    return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def discard(folder: Path, known: re.Pattern[str]) -> None:
    """Delete the plain files of a folder whose names `known` matches, and nothing else."""
    if folder.is_symlink():
        return
    for path in folder.iterdir():
        if known.fullmatch(path.name) and not path.is_symlink() and path.is_file():
            path.unlink()


def remove(folder: Path, known: re.Pattern[str]) -> None:
    """Delete a folder if all of its files, seen from it, have names that `known` matches.

    Otherwise nothing is deleted. A link is never followed; one in place of the folder is refused.
    """
    if folder.is_symlink():
        raise Linked(errno.ELOOP, f"{folder} is a link, which is not deleted\nremove it yourself")
    inside = sorted(folder.rglob("*"))
    for path in inside:
        plain = path.is_symlink() or not path.is_dir()
        name = path.relative_to(folder).as_posix()
        if plain and (path.is_symlink() or not known.fullmatch(name)):
            raise FileExistsError(
                f"{folder} is to be made again, but {name!r} in it is not ours\n"
                "move the folder away, and call again"
            )
    for path in reversed(inside):  # what is inside before what it is in
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


@contextlib.contextmanager
def opened(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    """Open a file or folder; errors name it, also those of calls that see a number only."""
    with _naming(path):
        descriptor = os.open(path, flags, mode)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def create(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file of something that is made aside, which is flushed as a whole."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as descriptor:
        write_all(descriptor, content)


def write_all(descriptor: int, content: bytes) -> None:
    """Write bytes to an open file, all of them or with an error."""
    rest = memoryview(content)
    while rest:  # a disk that fills up takes a part, and says so at the next call
        rest = rest[os.write(descriptor, rest) :]


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    with opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def hold(descriptor: int, patience: float = 0.0) -> bool:
    """Lock an open file or folder; tell whether no other process holds it, now or in some seconds.

    It is let go when it is closed. Some file systems of networks have no locks: there it counts as
    held.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF):
                raise
            return True


def alive(process: int) -> bool:
    """Tell whether another process of this number runs: what it left aside is not to be touched."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return process != os.getpid()
