"""An OpenAI-compatible endpoint: bounded, patient with a server that misbehaves, paid for once."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from augless.augmentation import draws
from augless.augmentation.augmenter import BadAugmentation

_LARGEST = 1 << 20  # bytes of an answer; a server may send without end
_LONGEST_WAIT = 60.0  # seconds between two tries
_KEY = re.compile(r"[!-~]+")  # what a header can carry, and a server can tell apart
AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)


class EndpointError(OSError):
    """An endpoint that refuses, or does not answer as it should."""


class _Failed(Exception):  # noqa: N818  # it may be tried again
    """A request that failed in a way that may pass."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where an endpoint is, and how it is asked."""

    url: str
    key: str
    """name of the environment variable that holds the key"""
    concurrency: int
    retries: int
    backoff: float
    timeout: float
    limit: int


class Answers:
    """Answers on disk by the content of their question, and how many requests each job made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "answers.sqlite"
        self._lock = threading.Lock()
        try:
            self._base = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
            with self._base as base:
                base.execute("PRAGMA journal_mode=WAL")
                base.execute("CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, text)")
                base.execute("CREATE TABLE IF NOT EXISTS spent (job TEXT PRIMARY KEY, requests)")
        except sqlite3.DatabaseError as error:
            raise BadAugmentation(
                f"{self.path} holds no answers of ours ({error}); move it away"
            ) from None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._base.close()

    def get(self, question: str) -> str | None:
        """Return the answer to a question that was asked before."""
        with self._lock:
            rows = self._base.execute("SELECT text FROM answers WHERE question = ?", (question,))
            row = rows.fetchone()
        return None if row is None else str(row[0])

    def put(self, question: str, text: str) -> None:
        """Keep an answer: it is on the disk when this returns."""
        with self._lock, self._base as base:
            base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (question, text))

    def spent(self, job: str) -> int:
        """Return how many requests a job has made."""
        with self._lock:
            rows = self._base.execute("SELECT requests FROM spent WHERE job = ?", (job,))
            row = rows.fetchone()
        return 0 if row is None else int(row[0])

    def spend(self, job: str, limit: int) -> bool:
        """Count one more request of a job, if it may make one: before it is made."""
        with self._lock, self._base as base:
            base.execute("INSERT OR IGNORE INTO spent VALUES (?, 0)", (job,))
            changed = base.execute(
                "UPDATE spent SET requests = requests + 1 WHERE job = ? AND requests < ?",
                (job, limit),
            )
            return changed.rowcount == 1


class Client:
    """Asks an endpoint, several questions at once."""

    def __init__(self, settings: Settings, answers: Answers, job: str) -> None:
        self.settings, self.answers, self.job = settings, answers, job
        self.address = check(settings)
        self._secret = os.environ.get(settings.key, "") if settings.key else ""
        self._end = threading.Event()
        self._failures: list[Exception] = []

    def ask(self, bodies: Sequence[dict[str, Any]]) -> list[str]:
        """Return the answer to each body of a request, in order; one failure ends all."""
        pool = ThreadPoolExecutor(self.settings.concurrency)
        self._failures = []
        try:
            futures = [pool.submit(self._answer, body) for body in bodies]
            # Not one after the other: the first may wait for its next try while another has failed.
            wait(futures, return_when=FIRST_EXCEPTION)
            if self._failures:
                raise self._failures[0]
            return [future.result() for future in futures]
        finally:
            # Those that wait for their next try give up. What is under way is paid for: its answer
            # is waited for and kept.
            self._end.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._end.clear()

    def _answer(self, body: dict[str, Any]) -> str:
        try:
            return self._looked_up(body)
        except Exception as error:
            self._failures.append(error)
            self._end.set()  # before this thread takes up the next question
            raise

    def _looked_up(self, body: dict[str, Any]) -> str:
        content = json.dumps(body, sort_keys=True)
        question = hashlib.sha256(f"{self.settings.url}\n{content}".encode()).hexdigest()
        if (answer := self.answers.get(question)) is not None:
            return answer
        for attempt in range(self.settings.retries + 1):
            if self._end.is_set():
                raise EndpointError("ended with another request")
            if not self.answers.spend(self.job, self.settings.limit):
                raise BadAugmentation(
                    f"the limit of {self.settings.limit:,} requests is used up\n"
                    "answers are kept; run the same command to resume, with a higher limit"
                )
            try:
                text = self._request(content)
            except _Failed as error:
                if attempt == self.settings.retries:
                    tries = f"{attempt + 1} tries" if attempt else "one try"
                    raise EndpointError(
                        f"{self.settings.url}: {error}, after {tries}\n"
                        "answers are kept; run the same command to resume"
                    ) from None
                self._end.wait(self.pause(question, attempt, error.wait))
            else:
                self.answers.put(question, text)
                return text
        raise AssertionError("unreachable")

    def pause(self, question: str, attempt: int, asked: float) -> float:
        """Return how long to wait: twice as long each time, up to half as much by chance."""
        chance = draws.number((int(question[:12], 16), attempt)) / 2**32
        wait: float = self.settings.backoff * 2.0**attempt * (1 + chance)
        return min(max(wait, asked), _LONGEST_WAIT)

    def _request(self, content: str) -> str:
        """Make one request; raise `_Failed` where another may succeed, `EndpointError` else."""
        deadline = time.monotonic() + self.settings.timeout
        connection = self.address.connection(self.settings.timeout)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        used: socket.socket | None = None
        try:
            connection.connect()
            # `connection` lets go of it as soon as a server says that it will hang up.
            used = connection.sock
            connection.request("POST", self.address.path, content.encode(), headers)
            with connection.getresponse() as response:
                raw = _read(response, used, deadline)
        except (TimeoutError, ssl.SSLError, http.client.HTTPException, OSError) as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                raise EndpointError(f"{self.settings.url}: {error.verify_message}") from None
            reason = "no answer in time" if isinstance(error, TimeoutError) else _brief(error)
            raise _Failed(reason) from None
        finally:
            connection.close()
            if used is not None:
                used.close()
        if response.status != 200:
            reason = self._without_key(f"status {response.status} {_message(raw)}".strip())
            if response.status in AGAIN:
                raise _Failed(reason, retry_after(response.getheader("Retry-After")))
            raise EndpointError(f"{self.settings.url} refuses: {reason}")
        return _text(raw)

    def _without_key(self, reason: str) -> str:
        """Take the key out of what a server says: it may repeat what it was sent."""
        return reason.replace(self._secret, "***") if self._secret else reason


@dataclass(frozen=True)
class Address:
    """Where requests go."""

    host: str
    port: int
    path: str
    encrypted: bool

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """Return a connection that is not yet made. It follows no redirection."""
        if self.encrypted:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


def check(settings: Settings) -> Address:
    """Read an endpoint's address; refuse one that is none, and to send a key in the clear."""
    try:
        parts = urlsplit(settings.url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise BadAugmentation(f"url is {settings.url!r}; it must be like http://localhost:8000/v1")
    encrypted = parts.scheme == "https"
    if settings.key and settings.key not in os.environ:
        raise BadAugmentation(
            f"key names the environment variable {settings.key}, which is not set"
        )
    if settings.key and not _KEY.fullmatch(os.environ[settings.key]):
        raise BadAugmentation(
            f"the key in the environment variable {settings.key} is empty, or has spaces, line "
            "ends or letters that no key has"
        )
    if settings.key and not encrypted and not _is_local(parts.hostname):
        raise BadAugmentation(f"{settings.url} would get the key unencrypted; use https")
    path = parts.path.rstrip("/")
    path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
    return Address(parts.hostname, port or (443 if encrypted else 80), path, encrypted)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(response: http.client.HTTPResponse, used: socket.socket, deadline: float) -> bytes:
    """Read an answer whole, within its time and size however slowly it comes."""
    parts, size = [], 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        used.settimeout(left)
        part = response.read1(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise OSError(f"an answer of more than {_LARGEST >> 20} MiB")
    if response.length:  # fewer bytes came than were announced
        raise OSError("the answer was cut off")
    return b"".join(parts)


def _text(raw: bytes) -> str:
    """Return what the model said; nothing, if it was cut at its limit."""
    try:
        choice = json.loads(raw)["choices"][0]
        said = choice["message"]["content"] if "message" in choice else choice["text"]
        whole = choice.get("finish_reason") != "length"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _Failed("the answer is not what an OpenAI-compatible endpoint sends") from None
    if not isinstance(said, str):
        raise _Failed("the answer holds no text")
    return said if whole else ""


def _message(raw: bytes) -> str:
    """Return a server's own words, short and printable."""
    try:
        answer = json.loads(raw)
        error = answer.get("error", answer.get("message", ""))
        said = error.get("message", "") if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError, RecursionError):
        said = raw.decode("utf-8", "replace")
    said = "".join(c if c.isprintable() else " " for c in str(said))
    return f"({' '.join(said.split())[:160]})" if said.strip() else ""


def _brief(error: Exception) -> str:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:160].lower()


def retry_after(written: str | None) -> float:
    """Read a Retry-After in seconds; dates are for others to read."""
    try:
        return max(0.0, min(float(written or 0), _LONGEST_WAIT))
    except ValueError:
        return 0.0
