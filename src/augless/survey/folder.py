"""A survey's folder: what is in it, and how to read it back.

::

    survey.json      what is rated and in which order; names the systems
    tokens.json      the secret in each annotator's link; only its owner may read it
    ratings.sqlite   what was rated on the page that is served
    returned/        what was rated on offline pages, a file per annotator
    lock             held by the process that serves

Files may come from elsewhere: each is read by one strict schema, links are not followed, and a
name that becomes part of a path is checked by form first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from augless import storage
from augless.errors import Busy
from augless.schemas import EXACT
from augless.survey.designing import Annotator, BadSurvey, Design, Points, parsed
from augless.survey.store import SLOWEST, Answer, Store

SURVEY, TOKENS, RATINGS, RETURNED = "survey.json", "tokens.json", "ratings.sqlite", "returned"

_LARGEST = 1 << 27  # bytes of a file; nothing of ours comes near
_TOKEN = r"^[A-Za-z0-9_-]{22,64}$"  # 128 bits or more
_ID = r"^[0-9a-f]{16}$"


@dataclass(frozen=True)
class Returned:
    """The answer at a place, as an offline page saves it."""

    __pydantic_config__ = EXACT

    place: Annotated[int, pydantic.Field(ge=0)]
    scores: Annotated[tuple[Points, ...], pydantic.Field(max_length=6)]
    seconds: Annotated[float, pydantic.Field(ge=0, le=SLOWEST, allow_inf_nan=False)]


@dataclass(frozen=True)
class ReturnedFile:
    """The file that an offline page saves."""

    __pydantic_config__ = EXACT

    format: Literal["augless ratings 1"]
    survey: Annotated[str, pydantic.StringConstraints(pattern=_ID)]
    annotator: Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9]{1,16}$")]
    answers: tuple[Returned, ...]


@dataclass(frozen=True)
class _Tokens:
    """annotator -> token."""

    __pydantic_config__ = EXACT

    tokens: dict[str, Annotated[str, pydantic.StringConstraints(pattern=_TOKEN)]]


@dataclass(frozen=True)
class Survey:
    """A survey that is on disk."""

    folder: Path
    design: Design
    id: str
    """fingerprint of the design"""

    @staticmethod
    def create(folder: str | Path, design: Design) -> Survey:
        """Write a survey, whole or not at all; where the same one is, leave it as it is."""
        folder = Path(folder)
        content = _document(design)
        survey = Survey(folder, design, _fingerprint(content))
        if os.path.lexists(folder / SURVEY):
            if Survey.open(folder).id == survey.id:
                return survey
            raise BadSurvey(f"{folder} holds another survey; name a new folder with --out")
        if folder.is_dir() and any(folder.iterdir()):
            raise BadSurvey(f"{folder} holds something else; name a new folder with --out")
        tokens = {one.id: secrets.token_urlsafe(18) for one in design.annotators}
        secret = json.dumps({"tokens": tokens}, indent=1).encode()
        with storage.making(folder, "survey") as made:
            storage.create(made / TOKENS, secret, mode=0o600)
            storage.create(made / SURVEY, content)
        return survey

    @staticmethod
    def open(folder: str | Path) -> Survey:
        """Read a survey."""
        folder = Path(folder)
        if not os.path.lexists(folder / SURVEY):
            raise BadSurvey(f"{folder} holds no survey; augless survey new makes one")
        content = _bytes(folder / SURVEY)
        return Survey(folder, parsed(Design, content, folder / SURVEY), _fingerprint(content))

    def tokens(self) -> dict[str, str]:
        """Return annotator -> token."""
        path = self.folder / TOKENS
        tokens = parsed(_Tokens, _bytes(path), path).tokens
        ids = {one.id for one in self.design.annotators}
        if {*tokens} != ids or len({*tokens.values()}) < len(tokens):
            raise BadSurvey(f"{path} does not have a token of their own for every annotator")
        return tokens

    def store(self) -> Store:
        """Open the ratings for writing."""
        return Store(self.folder / RATINGS)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from serving the survey meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.folder / "lock", flags, 0o600)
        try:
            if not storage.hold(descriptor):
                raise Busy(f"{self.folder} is served by another process already")
            yield
        finally:
            os.close(descriptor)

    def answers(self) -> dict[str, list[Answer]]:
        """Return all ratings by annotator and place, those of offline pages among them."""
        by_place = self._served()
        for path in self._returned():
            self._add(by_place, self._file(path, _bytes(path)), path)
        return {id_: [of[place] for place in sorted(of)] for id_, of in by_place.items()}

    def keep(self, path: Path) -> Annotator:
        """Take a file of an offline page into the folder, in place of an older one; return whose.

        What was rated on the served page too must have been rated alike.
        """
        content = _bytes(path)
        answers = self._file(path, content)
        self._add(self._served(), answers, path)
        annotator = self.design.annotator(answers[0].annotator)
        folder = self.folder / RETURNED
        if folder.is_symlink():
            raise BadSurvey(f"{folder} is a link; nothing is written through it")
        folder.mkdir(exist_ok=True)
        storage.replace(folder / f"{annotator.id}.json", content)
        return annotator

    def _served(self) -> dict[str, dict[int, Answer]]:
        """Return what was rated on the served page: annotator -> place -> answer."""
        served: dict[str, dict[int, Answer]] = {one.id: {} for one in self.design.annotators}
        path = self.folder / RATINGS
        if os.path.lexists(path):
            with Store(path, read_only=True) as store:
                self._add(served, store.all(), path)
        return served

    def _file(self, path: Path, content: bytes) -> list[Answer]:
        """Read the file of an offline page."""
        file = parsed(ReturnedFile, content, path)
        if file.survey != self.id:
            raise BadSurvey(f"{path} is of another survey than {self.folder}")
        if not file.answers:
            raise BadSurvey(f"{path} rates nothing")
        if len({answer.place for answer in file.answers}) < len(file.answers):
            raise BadSurvey(f"{path} rates one text twice")
        return [
            Answer(annotator=file.annotator, revision=1, at="", **dataclasses.asdict(one))
            for one in file.answers
        ]

    def _returned(self) -> list[Path]:
        folder = self.folder / RETURNED
        if folder.is_symlink():
            raise BadSurvey(f"{folder} is a link; nothing is read through it")
        names = [f"{one.id}.json" for one in self.design.annotators]
        return [folder / name for name in names if os.path.lexists(folder / name)]

    def _add(
        self, by_place: dict[str, dict[int, Answer]], answers: Iterable[Answer], path: Path
    ) -> None:
        """Sort answers in, each checked against the design."""
        known = {one.id: one for one in self.design.annotators}
        for answer in answers:
            who = known.get(answer.annotator)
            if who is None or not _fits(answer, who, self.design):
                raise BadSurvey(f"{path} rates what this survey does not ask for")
            here = by_place[answer.annotator].setdefault(answer.place, answer)
            if here.scores != answer.scores:
                raise BadSurvey(
                    f"{path}: {who.name!r} rated text {answer.place + 1} elsewhere too, "
                    "and otherwise; remove one of the two"
                )


def _fits(answer: Answer, who: Annotator, design: Design) -> bool:
    points = all(score in range(1, 6) for score in answer.scores)
    return (
        points and len(answer.scores) == len(design.scales) and 0 <= answer.place < len(who.order)
    )


def _document(design: Design) -> bytes:
    """Write a design as JSON, a line per entry, for diffs."""
    content: dict[str, Any] = dataclasses.asdict(design)
    parts = []
    for key, value in content.items():
        written = json.dumps(value, ensure_ascii=False)
        if key in ("items", "tasks", "annotators"):
            lines = ",\n ".join(json.dumps(one, ensure_ascii=False) for one in value)
            written = f"[\n {lines}\n]"
        parts.append(f"{json.dumps(key)}: {written}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _bytes(path: Path) -> bytes:
    """Read a plain file that is not too large, and no link."""
    try:
        return storage.read(path, _LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadSurvey(f"{path} cannot be read: {reason}") from None
