"""The server: one page, three answers, and nothing else.

::

    GET  /s/TOKEN         the page
    GET  /api/state       what the survey asks, how far the annotator is, and the next text
    GET  /api/items/3     a text that was rated already, or the next one
    POST /api/answers     a rating; acknowledged when it is on disk

No file is ever opened for a request. Whoever has no token gets 401, whatever they ask for. The
token is in the address of the page and in a header of what the page asks; a header cannot be sent
by a form or a picture on another site. A foreign Host (DNS rebinding) or Origin is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import socket
import sys
import time
import traceback
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pydantic
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from augless.survey import pages
from augless.survey.designing import Annotator, BadOptions, Points
from augless.survey.folder import Survey
from augless.survey.store import SLOWEST, Refused, Store

LARGEST = 4096  # bytes of a body; a rating has about a hundred
PATIENCE = 10.0  # seconds that a body may take
SHORTEST = 8  # characters of a password
GUESSES, PENANCE = 10, 60.0  # wrong passwords, and seconds that then have to pass

HEADERS = {
    "content-security-policy": f"{pages.policy()}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Given:
    """A rating as the page sends it."""

    __pydantic_config__: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        extra="forbid", strict=True
    )

    place: Annotated[int, pydantic.Field(ge=0, le=1_000_000)]
    revision: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    scores: Annotated[tuple[Points, ...], pydantic.Field(max_length=6)]
    seconds: Annotated[float, pydantic.Field(ge=0, le=SLOWEST, allow_inf_nan=False)]


@dataclass(frozen=True)
class Address:
    """Where a server is to be reached."""

    host: str
    port: int
    url: str | None = None
    """what people open, if it is not the same: that of a proxy"""

    @property
    def public(self) -> bool:
        """Whether others than this machine can reach it."""
        names = [self.host, *([urllib.parse.urlsplit(self.url).hostname or ""] if self.url else [])]
        return not all(_loopback(name) for name in names)

    @property
    def base(self) -> str:
        """What links start with."""
        if self.url:
            return self.url.rstrip("/")
        anywhere = self.host in ("", "0.0.0.0", "::")
        return f"http://{_bracketed(socket.gethostname() if anywhere else self.host)}:{self.port}"

    @property
    def origins(self) -> frozenset[str]:
        """Schemes, hosts and ports by which a browser may call it."""
        allowed = {_origin(self.base), _origin(f"http://{_bracketed(self.host)}:{self.port}")}
        if _loopback(self.host):
            here = ("127.0.0.1", "localhost", "[::1]")
            allowed |= {_origin(f"http://{name}:{self.port}") for name in here}
        return frozenset(allowed)


@dataclass
class Guesses:
    """Wrong passwords in a row, and when the last one came."""

    count: int = 0
    last: float = 0.0


@dataclass
class Application:
    """An ASGI application that serves a survey."""

    survey: Survey
    store: Store
    address: Address
    password: str | None = None
    _guesses: dict[str, Guesses] = field(default_factory=dict)

    def __post_init__(self) -> None:
        design = self.survey.design
        # By their hashes: how long a comparison takes then says nothing of a token.
        self._annotators = {
            _hash(token): design.annotator(id_) for id_, token in self.survey.tokens().items()
        }
        self._origins = self.address.origins
        self._hosts = {origin.partition("://")[2] for origin in self._origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; whatever happens, with the headers of `HEADERS`."""
        if scope["type"] != "http":  # no websockets, and nothing to do at start and end
            raise RuntimeError(f"{scope['type']} is not served")
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        request = Request(scope, receive)
        try:
            await (await self._answer(request))(scope, receive, guarded)
        except ClientDisconnect:
            pass
        except Exception:  # a bug of ours: the server goes on, and says where
            traceback.print_exc(file=sys.stderr)
            if not started:
                response = _error(500, "Something went wrong on the server.")
                await response(scope, receive, guarded)

    async def _answer(self, request: Request) -> Response:
        if not self._at_home(request):
            return _error(403, "This address is not the one of the survey.")
        path, method = request.scope["path"], request.method
        page = path.startswith("/s/")
        token = path[3:] if page else _bearer(request)
        annotator = self._annotators.get(_hash(token))
        if annotator is None:
            if page:
                return PlainTextResponse(
                    "This link is not known. Ask the person who sent it for a new one.\n", 401
                )
            return _error(401, "This link is not known. Ask the person who sent it.")
        if page:
            if method not in ("GET", "HEAD"):
                return _error(405, "This page can only be read.")
            return Response(pages.served(), media_type="text/html")
        if path == "/api/state":
            verb, action = "GET", self._state
        elif path.startswith("/api/items/"):
            verb, action = "GET", self._items
        elif path == "/api/answers":
            verb, action = "POST", self._answers
        else:
            return _error(404, "There is nothing here.")
        if method != verb:
            return _error(405, f"This is asked for by {verb}.")
        return self._unlocked(request, annotator) or await action(request, annotator)

    def _at_home(self, request: Request) -> bool:
        """Tell whether a request was meant for this server, and comes from its page if any."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            return False
        host = hosts[0].lower()
        # By the number of this machine's own address nobody can be led here by a foreign name.
        name, port = request.scope.get("server") or ("", 0)
        mine = host == f"{_bracketed(str(name))}:{port}"
        if host not in self._hosts and not mine:
            return False
        origins = self._origins | ({f"http://{host}"} if mine else frozenset())
        return all(origin in origins for origin in request.headers.getlist("origin"))

    def _unlocked(self, request: Request, annotator: Annotator) -> Response | None:
        """Refuse whoever does not know the password, if there is one."""
        if self.password is None:
            return None
        guesses = self._guesses.setdefault(annotator.id, Guesses())
        now = time.monotonic()
        if guesses.count >= GUESSES and now - guesses.last < PENANCE:
            return _error(429, "Too many wrong passwords. Try again in a minute.")
        given = urllib.parse.unquote(request.headers.get("x-password", ""))
        if hmac.compare_digest(_hash(given), _hash(self.password)):
            guesses.count = 0
            return None
        if given:
            guesses.count, guesses.last = guesses.count + 1, now
        return _error(401, "That is not the password." if given else "A password is needed.")

    async def _state(self, request: Request, annotator: Annotator) -> Response:
        done = await run_in_threadpool(self.store.done, annotator.id)
        item = await run_in_threadpool(self._item, annotator, done)
        shared = pages.shared(self.survey.design, annotator)
        total = len(annotator.order)
        return JSONResponse({**shared, "total": total, "done": done, "item": item})

    async def _items(self, request: Request, annotator: Annotator) -> Response:
        written = request.scope["path"].removeprefix("/api/items/")
        done = await run_in_threadpool(self.store.done, annotator.id)
        if not (written.isascii() and written.isdigit() and len(written) < 8):
            return _error(404, "There is no such text.")
        if int(written) > done:
            return _error(404, "That text was not rated yet.")
        item = await run_in_threadpool(self._item, annotator, int(written))
        return JSONResponse({"done": done, "item": item})

    async def _answers(self, request: Request, annotator: Annotator) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _error(415, "A rating is sent as JSON.")
        body = await _body(request)
        if isinstance(body, Response):
            return body
        try:
            given = _GIVEN.validate_json(body)
        except pydantic.ValidationError:
            return _error(422, "That is not a rating.")
        design = self.survey.design
        if len(given.scores) != len(design.scales) or given.place >= len(annotator.order):
            return _error(422, "That is not a rating of this survey.")
        try:
            done = await run_in_threadpool(
                self.store.put,
                annotator.id,
                given.place,
                given.revision,
                given.scores,
                given.seconds,
            )
        except Refused:
            return _error(409, "This text was rated elsewhere meanwhile.")
        except OSError as error:  # a full disk, say: the page tries again
            print(f"augless: a rating could not be saved: {error}", file=sys.stderr)
            return _error(503, "The rating could not be saved.")
        item = await run_in_threadpool(self._item, annotator, given.place + 1)
        return JSONResponse({"done": done, "item": item})

    def _item(self, annotator: Annotator, place: int) -> dict[str, Any] | None:
        """Return all that an annotator is told of a text."""
        if place >= len(annotator.order):
            return None
        design = self.survey.design
        task = design.tasks[annotator.order[place]]
        answer = self.store.at(annotator.id, place)
        return {
            "place": place,
            "source": design.items[task.item].source,
            "text": task.text,
            "scores": list(answer.scores) if answer else None,
            "revision": answer.revision if answer else 0,
        }


_GIVEN = pydantic.TypeAdapter(Given)


def links(survey: Survey, address: Address) -> dict[str, str]:
    """Return each annotator's own link, by name."""
    tokens = survey.tokens()
    return {one.name: f"{address.base}/s/{tokens[one.id]}" for one in survey.design.annotators}


def bind(address: Address, password: str | None) -> tuple[Address, socket.socket]:
    """Take a port; refuse, before anything is served, what would be open to all."""
    if address.url is not None:
        parts = urllib.parse.urlsplit(address.url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.path not in ("", "/")
        ):
            raise BadOptions("--url is the start of the links, such as https://survey.example.org")
    if password is not None and len(password) < SHORTEST:
        raise BadOptions(f"a password has at least {SHORTEST} characters")
    if address.public and password is None:
        raise BadOptions(
            "others can reach this address, and there is no password\n"
            "set AUGLESS_SURVEY_PASSWORD, or name a file that holds one: --password-file FILE"
        )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Of a socket whose protocol is named, asyncio turns off Nagle's delay: 40 ms of every answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror or error}\n"
            "--port 0 takes a port that is free"
        ) from None
    return Address(address.host, listener.getsockname()[1], address.url), listener


class Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Protocol(H11Protocol):
    """HTTP/1.1; what cannot even be read as a request is answered with our headers, too."""

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is none, and close."""
        head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        body = "This is no HTTP request.\n"
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(
                f"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n{head}"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
            )
        self.transport.close()


def server(application: ASGIApp) -> Server:
    """Return a server for an application; `run(sockets=[...])` serves."""
    return Server(
        uvicorn.Config(
            application,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
        )
    )


async def _body(request: Request) -> bytes | Response:
    """Read a body, but not a large one or one that never ends."""
    body = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    return _closing(_error(413, f"A rating has at most {LARGEST} bytes."))
    except TimeoutError:
        return _closing(_error(408, "The rating did not arrive in time."))
    return body


def _closing(response: Response) -> Response:
    response.headers["connection"] = "close"  # the rest of the body is not read
    return response


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _origin(url: str) -> str:
    """Return scheme, host and port as a browser writes them: without the usual port."""
    parts = urllib.parse.urlsplit(url)
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    return f"{parts.scheme}://{_bracketed(parts.hostname or '')}{port}"
