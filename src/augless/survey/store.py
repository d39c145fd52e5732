"""Ratings on disk: one SQLite file in WAL mode, where what was acknowledged stays.

An answer is one transaction, and acknowledged after it is on disk (`synchronous = FULL`). Its key
is who gave it and at which place, so that sending it twice cannot store it twice. An answer that is
changed has a higher revision than the one before; a late copy of an older one changes nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from augless.survey.designing import BadSurvey

SLOWEST = 86_400.0
"""seconds: who took longer was away"""

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    annotator TEXT NOT NULL,
    place INTEGER NOT NULL CHECK (place >= 0),
    revision INTEGER NOT NULL CHECK (revision >= 1),
    scores TEXT NOT NULL,
    seconds REAL NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (annotator, place)
) WITHOUT ROWID
"""
_COLUMNS = "annotator, place, revision, scores, seconds, at"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an annotator said of the text at a place of their order."""

    annotator: str
    place: int
    revision: int
    scores: tuple[int, ...]
    """1 to 5 for every scale, in the order of the design"""
    seconds: float
    at: str
    """when it was stored, in UTC"""


class Refused(Exception):  # noqa: N818 - no error of the program: the sender has to look again
    """An answer that does not follow from what is stored: it is older, or skips a text."""


class Store:
    """The answers of a survey. May be used by several threads and processes at once."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            if part.is_symlink() or (part.exists() and not part.is_file()):
                raise BadSurvey(f"{part} is not a plain file; no ratings are read from it")
        self._path = path
        self._lock = threading.Lock()
        address, pragmas = path.absolute().as_uri(), ["trusted_schema = OFF"]
        if read_only:
            # Where nothing can be written, nobody writes: then no lock is needed either.
            address += "?mode=ro" if os.access(path.parent, os.W_OK) else "?immutable=1"
        else:
            pragmas += ["journal_mode = WAL", "synchronous = FULL"]
        with self._blaming():
            self._connection = sqlite3.connect(
                address, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
            for pragma in pragmas:
                self._connection.execute(f"PRAGMA {pragma}")
            if not read_only:
                self._connection.execute(_TABLE)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def put(
        self, annotator: str, place: int, revision: int, scores: Sequence[int], seconds: float
    ) -> int:
        """Store an answer; when this returns it is on disk. Return how many there are now."""
        written = ",".join(map(str, scores))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with self._lock, self._transaction() as execute:
            [(done,)] = execute("SELECT COUNT(*) FROM answers WHERE annotator = ?", annotator)
            stored = execute(
                "SELECT revision, scores FROM answers WHERE annotator = ? AND place = ?",
                annotator,
                place,
            )
            if stored == [(revision, written)]:
                return int(done)  # sent again, because the acknowledgement was lost
            if place > done or revision != (stored[0][0] + 1 if stored else 1):
                raise Refused
            execute(
                f"INSERT OR REPLACE INTO answers ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                annotator,
                place,
                revision,
                written,
                min(max(seconds, 0.0), SLOWEST),
                now,
            )
            return int(done) + (not stored)

    def done(self, annotator: str) -> int:
        """Count the answers of an annotator."""
        with self._lock, self._blaming():
            row = self._connection.execute(
                "SELECT COUNT(*) FROM answers WHERE annotator = ?", (annotator,)
            ).fetchone()
        return int(row[0])

    def at(self, annotator: str, place: int) -> Answer | None:
        """Return the answer at a place, if there is one."""
        answers = self._read("WHERE annotator = ? AND place = ?", (annotator, place))
        return answers[0] if answers else None

    def all(self) -> list[Answer]:
        """Return all answers, by annotator and place."""
        return self._read("", ())

    def _read(self, where: str, values: tuple[str | int, ...]) -> list[Answer]:
        query = f"SELECT {_COLUMNS} FROM answers {where} ORDER BY annotator, place"
        with self._lock, self._blaming():
            rows = self._connection.execute(query, values).fetchall()
        return [self._answer(row) for row in rows]

    def _answer(self, row: tuple[object, ...]) -> Answer:
        """Check a row by form: the file may come from elsewhere."""
        annotator, place, revision, scores, seconds, at = row
        if (
            isinstance(annotator, str)
            and isinstance(place, int)
            and isinstance(revision, int)
            and isinstance(scores, str)
            and isinstance(seconds, float)
            and isinstance(at, str)
            and len(scores) < 100
            and scores.isascii()
            and all(part.isdigit() for part in scores.split(","))
            and 0 <= seconds <= SLOWEST
        ):
            return Answer(
                annotator=annotator,
                place=place,
                revision=revision,
                scores=tuple(map(int, scores.split(","))),
                seconds=seconds,
                at=at,
            )
        raise BadSurvey(f"{self._path} holds an answer that no annotator gave")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Callable[..., list[Any]]]:
        """Run statements that all hold, and are on disk, or none."""
        with self._blaming():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda query, *values: self._connection.execute(query, values).fetchall()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _blaming(self) -> Iterator[None]:
        """Name the file where SQLite fails."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
                raise OSError(f"{self._path}: {error}") from None
            raise BadSurvey(f"{self._path} cannot be read as ratings: {error}") from None
