"""The server of a survey: whom it answers, with what, and what it keeps when it is killed."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from augless import survey
from augless.survey import pages, serving, store
from rated import PASSWORD, Served, answer_all, lines, made


def raw(port, request):
    """Send bytes as they are, and return the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(request)
        received = b""
        while some := line.recv(1 << 16):
            received += some
            head, ended, body = received.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if ended and length and len(body) >= int(length[1]):
                break
    return received


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(made(tmp_path_factory.mktemp("served") / "s")) as here:
        yield here


@pytest.fixture
def fresh(tmp_path):
    with Served(made(tmp_path / "s", repeats=3, degraded=3)) as here:
        yield here


def assert_guarded(headers):
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "frame-ancestors 'none'", "trusted-types 'none'"):
        assert rule in policy
    assert "unsafe" not in policy and "*" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


# Whom it answers


def test_the_page_is_for_those_who_have_a_token(served):
    status, headers, body = served.ask(f"/s/{served.token()}")
    assert (status, body) == (200, pages.served())
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert_guarded(headers)


PATHS = [
    "/",
    "/s/",
    "/s/nobody",
    "/api/state",
    "/api/items/0",
    "/api/answers",
    "/favicon.ico",
    "/x",
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_without_a_token_nothing_is_there(served, method):
    for path in PATHS:
        for token in (None, "x", "x" * 24, served.token()[:-1], served.token() + "x"):
            status, headers, _ = served.ask(path, method=method, token=token)
            assert status == 401
            assert_guarded(headers)


def test_a_token_opens_what_there_is_and_nothing_else(served):
    expected = {"/api/state": 200, "/api/items/0": 200, "/api/answers": 405, "/": 404, "/x": 404}
    expected |= {"/api/items/1": 404, "/api/items/-1": 404, "/api/items/0/": 404, "/api/": 404}
    expected |= {"/api/items/\u0661".encode().decode("latin-1"): 404, "/api/state/": 404}
    for path, code in expected.items():
        status, headers, _ = served.ask(urllib.parse.quote(path), token=served.token())
        assert status == code, path
        assert_guarded(headers)
    assert served.ask(f"/s/{served.token()}", method="POST")[0] == 405
    assert served.ask("/api/state", method="DELETE", token=served.token())[0] == 405


HOSTS = [
    "evil.example",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost.evil.example:{port}",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1:{port}@evil.example",
    "[::1]:1",
    "",
    "0.0.0.0:{port}",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_host_is_refused(served, host):
    for path in (f"/s/{served.token()}", "/api/state"):
        status, headers, _ = served.ask(
            path, token=served.token(), host=host.format(port=served.port) or " "
        )
        assert status == 403
        assert_guarded(headers)


def test_the_names_of_this_machine_are_known(served):
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        host = f"{name}:{served.port}"
        assert served.ask("/api/state", token=served.token(), host=host)[0] == 200


def test_two_hosts_or_none_are_refused(served):
    head = f"GET /api/state HTTP/1.1\r\nAuthorization: Bearer {served.token()}\r\n"
    home = f"Host: 127.0.0.1:{served.port}\r\n"
    for hosts in ("", f"{home}Host: evil.example\r\n"):
        answer = raw(served.port, f"{head}{hosts}\r\n".encode())
        assert answer.split()[1] in (b"400", b"403")
        assert b"content-security-policy" in answer


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}", "file://", ""],
)
def test_a_foreign_origin_is_refused(fresh, origin):
    headers = [("Origin", origin.format(port=fresh.port)), ("Content-Type", "application/json")]
    given = {"place": 0, "revision": 1, "scores": [1, 1], "seconds": 1}
    for method, path in (("POST", "/api/answers"), ("GET", "/api/state")):
        status, answered, _ = fresh.ask(
            path,
            method=method,
            token=fresh.token(),
            headers=headers,
            body=json.dumps(given).encode() if method == "POST" else None,
        )
        assert status == 403
        assert_guarded(answered)
    assert fresh.store.all() == []


def test_its_own_origin_is_welcome(served):
    headers = [("Origin", f"http://localhost:{served.port}")]
    assert served.ask("/api/state", token=served.token(), headers=headers)[0] == 200


# Passwords and public addresses


def test_a_public_address_needs_a_password(tmp_path):
    for address in (
        serving.Address("0.0.0.0", 0),
        serving.Address("::", 0),
        serving.Address("203.0.113.1", 0),
        serving.Address("127.0.0.1", 0, "https://survey.example"),
    ):
        with pytest.raises(survey.BadOptions, match="password"):
            serving.bind(address, None)
    for host in ("127.0.0.1", "127.0.0.9", "localhost"):
        assert not serving.Address(host, 0).public
    with pytest.raises(survey.BadOptions, match="at least 8"):
        serving.bind(serving.Address("127.0.0.1", 0), "1234567")


def test_the_password_is_asked_for_before_any_text_is_shown(tmp_path):
    with Served(made(tmp_path / "s"), PASSWORD, url="https://survey.example") as here:
        token, home = here.token(), f"127.0.0.1:{here.port}"
        assert here.ask(f"/s/{token}", host=home)[2] == pages.served()
        for headers in ([], [("X-Password", "wrong")], [("X-Password", "%ff")]):
            status, answered, body = here.ask("/api/state", token=token, headers=headers)
            assert status == 401 and b"source" not in body
            assert_guarded(answered)
        known = [("X-Password", urllib.parse.quote(PASSWORD))]
        assert here.ask("/api/state", token=token, headers=known)[0] == 200
        assert here.ask("/api/state", token="x" * 24, headers=known)[0] == 401
        # Behind a proxy, by its name.
        assert here.ask("/api/state", token=token, headers=known, host="survey.example")[0] == 200
        known.append(("Origin", "https://survey.example"))
        assert here.ask("/api/state", token=token, headers=known)[0] == 200
        assert serving.links(here.survey, here.address)["anna"].startswith(
            "https://survey.example/s/"
        )


def test_passwords_cannot_be_tried_one_after_the_other(tmp_path):
    with Served(made(tmp_path / "s"), PASSWORD) as here:
        codes = [
            here.ask("/api/state", token=here.token(), headers=[("X-Password", f"guess {k}")])[0]
            for k in range(serving.GUESSES + 3)
        ]
        assert codes == [401] * serving.GUESSES + [429] * 3
        known = [("X-Password", urllib.parse.quote(PASSWORD))]
        assert here.ask("/api/state", token=here.token(), headers=known)[0] == 429
        # Others are not kept out.
        assert here.ask("/api/state", token=here.token("a2"), headers=known)[0] == 200


def test_on_all_addresses_only_the_number_and_the_name_of_this_machine_are_known(tmp_path):
    with Served(made(tmp_path / "s"), PASSWORD, host="0.0.0.0") as here:
        known = [("X-Password", urllib.parse.quote(PASSWORD))]
        for host, code in (("127.0.0.1", 200), (socket.gethostname(), 200), ("evil.example", 403)):
            status, _, _ = here.ask(
                "/api/state", token=here.token(), headers=known, host=f"{host}:{here.port}"
            )
            assert status == code, host


# What it keeps


def test_a_rating_is_stored_and_the_next_text_comes_back(fresh):
    status, answer = fresh.rate(0, [4, 5])
    order = fresh.survey.design.annotators[0].order
    tasks = fresh.survey.design.tasks
    assert (status, answer["done"], answer["item"]["place"]) == (200, 1, 1)
    assert answer["item"]["text"] == tasks[order[1]].text
    assert fresh.store.at("a1", 0).scores == (4, 5)
    assert fresh.rate(0, [4, 5])[1]["done"] == 1  # again, because the answer was lost
    assert fresh.rate(0, [1, 1])[0] == 409
    assert fresh.rate(0, [2, 2], revision=2)[0] == 200
    _, _, body = fresh.ask("/api/items/0", token=fresh.token())
    assert json.loads(body)["item"]["scores"] == [2, 2]
    assert fresh.rate(5, [1, 1])[0] == 409


def test_nobody_sees_the_ratings_of_another(fresh):
    for place in range(3):
        fresh.rate(place, [1, 1])
    for path in ("/api/state", "/api/items/0"):
        body = json.loads(fresh.ask(path, token=fresh.token("a2"))[2])
        assert body["done"] == 0 and body["item"]["scores"] is None
    assert fresh.ask("/api/items/1", token=fresh.token("a2"))[0] == 404
    assert fresh.rate(0, [5, 5], annotator="a2")[1]["done"] == 1
    assert fresh.store.at("a1", 0).scores == (1, 1)


def test_the_last_rating_is_followed_by_nothing(fresh):
    last = len(fresh.survey.design.annotators[0].order) - 1
    answer_all(fresh.survey, lambda *_: 3, upto=last)
    status, answer = fresh.rate(last, [3, 3])
    assert (status, answer) == (200, {"done": last + 1, "item": None})
    assert fresh.rate(last + 1, [3, 3])[0] == 422
    assert json.loads(fresh.ask("/api/state", token=fresh.token())[2])["item"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": [1]},
        {"scores": [1, 2, 3]},
        {"scores": [0, 1]},
        {"scores": [6, 1]},
        {"scores": ["1", 1]},
        {"scores": [True, 1]},
        {"scores": [1.5, 1]},
        {"scores": None},
        {"place": -1},
        {"place": 10**30},
        {"place": "0"},
        {"revision": 0},
        {"seconds": -1},
        {"seconds": 1e300},
        {"seconds": float("nan")},
        {"system": "x"},
        {"annotator": "a2"},
    ],
    ids=str,
)
def test_what_is_no_rating_is_refused(served, changes):
    given = {"place": 0, "revision": 1, "scores": [1, 1], "seconds": 1.0, **changes}
    status, headers, _ = served.ask(
        "/api/answers",
        method="POST",
        token=served.token(),
        body=json.dumps(given).encode(),
        headers=[("Content-Type", "application/json")],
    )
    assert status == 422
    assert_guarded(headers)
    assert served.store.all() == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"null", b"[" * 4000, b"{" * 4000])
def test_a_body_that_is_no_json_is_refused(served, body):
    status, _, _ = served.ask(
        "/api/answers",
        method="POST",
        token=served.token(),
        body=body,
        headers=[("Content-Type", "application/json; charset=utf-8")],
    )
    assert status == 422


def test_only_json_is_taken_so_that_no_form_can_send_it(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        status, _, _ = served.ask(
            "/api/answers",
            method="POST",
            token=served.token(),
            body=b"{}",
            headers=[("Content-Type", kind)],
        )
        assert status == 415


def test_a_large_body_is_refused_before_it_has_come(served):
    head = (
        f"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {served.token()}\r\nContent-Type: application/json\r\n"
    )
    for length in (f"Content-Length: {1 << 40}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):
        body = b" " * 8192 if "Content" in length else b"2000\r\n" + b" " * 8192 + b"\r\n"
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as line:
            line.sendall((head + length).encode() + body)  # and the rest never comes
            answer = line.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"content-security-policy" in answer


def test_a_body_that_does_not_come_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(serving, "PATIENCE", 0.05)
    request = (
        f"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {served.token()}\r\nContent-Type: application/json\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as line:
        line.sendall(request.encode())
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_what_is_no_request_is_answered_with_a_policy_too(served, request_):
    answer = raw(served.port, request_)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"content-security-policy: default-src 'none'" in answer


def test_headers_without_end_are_cut_off(served):
    line = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    with line, pytest.raises(OSError):  # the server hangs up
        for _ in range(1 << 12):
            line.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * (1 << 16))
    assert served.ask("/api/state", token=served.token())[0] == 200


def test_a_disk_that_fails_is_said_and_the_server_goes_on(fresh, monkeypatch, capsys):
    def full(*_):
        raise OSError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(fresh.store, "put", full)
        assert fresh.rate(0, [1, 1])[0] == 503
    assert "disk is full" in capsys.readouterr().err
    assert fresh.rate(0, [1, 1])[0] == 200


def test_a_bug_is_one_answer_with_a_policy_and_the_server_goes_on(fresh, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(fresh.store, "done", lambda *_: 1 / 0)
        status, headers, body = fresh.ask("/api/state", token=fresh.token())
    assert status == 500 and b"ZeroDivision" not in body
    assert_guarded(headers)
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert fresh.ask("/api/state", token=fresh.token())[0] == 200


# Files outside

CANARY = "a canary that nobody may see"
_UP = ["..", "%2e%2e", "%2E.", "..%00", "....//", "..%c0%af", "..%5c", "..;", "%252e%252e", ". ."]
_ENDS = [
    "etc/passwd",
    "survey.json",
    "tokens.json",
    "ratings.sqlite",
    "canary.txt",
    "proc/self/environ",
]
_STARTS = [
    "/",
    "/s/",
    "/s/{token}/",
    "/s/{token}%2f",
    "/api/",
    "/api/items/",
    "/static/",
    "//",
    "/\\",
]


def traversal(chance, token):
    """Draw an address that tries to get at a file."""
    joint = chance.choice(["/", "%2f", "\\", "%5c", "//", "%252f"])
    steps = joint.join(chance.choice(_UP) for _ in range(chance.randint(1, 7)))
    start = chance.choice(_STARTS).format(token=token)
    tail = chance.choice(["", "%00", "%00.html", "?x=1", "#x", "/.", "::$DATA", "%0d%0aX: y"])
    if chance.random() < 0.1:
        start = chance.choice(["file://", "http://127.0.0.1/", "*", "/%73/"]) + start
    return (start + steps + joint + chance.choice(_ENDS) + tail).replace(" ", "%20")


opened = []
_watching = threading.Event()


def _watch(event, arguments):
    if event == "open" and _watching.is_set():
        opened.append(arguments[0])


def traversals_failed(here, chance, count):
    """Ask for addresses with and without a token; return those that were answered wrongly."""
    failed = []
    for _ in range(count):
        path = traversal(chance, here.token())
        token = here.token() if chance.random() < 0.5 else None
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {token}\r\n" if token else ""
        answer = raw(here.port, f"{head}\r\n".encode())
        refused = answer.split(b" ")[1] in (b"400", b"401", b"404")
        inside = CANARY.encode() in answer or b"system-1" in answer or b"root:" in answer
        if not refused or inside or b"content-security-policy" not in answer:
            failed.append(path)
    return failed


def test_addresses_that_climb_read_nothing(served):
    (served.survey.folder.parent / "canary.txt").write_text(CANARY)
    sys.addaudithook(_watch)  # no file may be opened, whatever is asked for
    opened.clear()
    _watching.set()
    try:
        assert traversals_failed(served, random.Random(1), 250) == []
    finally:
        _watching.clear()
    assert opened == []


# Blinding


def blind(folder, seed, count=12):
    """Make a survey whose systems have names that stand nowhere else."""
    from augless.survey import designing

    chance = random.Random(seed)
    names = ["".join(chance.choices("qxzjk", k=9)) + "-system" for _ in range(3)]
    texts = {name: lines(60, seed=seed + k) for k, name in enumerate(names)}
    gold = (survey.Gold("what", "a gold text", {"fluency": 5, "relevance": 5}),)
    options = survey.Options(
        items=count, annotators=("anna", "ben"), seed=seed, repeats=4, degraded=4, gold=gold
    )
    design = survey.design(texts, lines(60, seed=seed + 9), lines(60, seed=seed + 8), options)
    assert isinstance(design, designing.Design)
    return survey.Survey.create(folder, design)


def leaks(here):
    """Rate all; yield, for each answer of the server, whether it gives anything away."""
    design = here.survey.design
    words = [*design.systems[:-1], "degraded", 'gold"', '"kind"', '"systems"', "Human"]
    words += [here.survey.id, str(here.survey.folder)]
    secret = re.compile("|".join(map(re.escape, words)).encode())

    def told(answer):
        _, headers, body = answer
        return bool(secret.search(str(headers.items()).encode()) or secret.search(body))

    for one in design.annotators:
        token = here.token(one.id)
        yield told(here.ask(f"/s/{token}"))
        yield told(here.ask("/api/state", token=token))
        for place in range(len(one.order)):
            given = {"place": place, "revision": 1, "scores": [3, 4], "seconds": 2.0}
            yield told(
                here.ask(
                    "/api/answers",
                    method="POST",
                    token=token,
                    body=json.dumps(given).encode(),
                    headers=[("Content-Type", "application/json")],
                )
            )
            yield told(here.ask(f"/api/items/{place}", token=token))


def test_no_byte_names_a_system(tmp_path):
    with Served(blind(tmp_path / "s", seed=3)) as here:
        leaked = list(leaks(here))
        assert len(leaked) > 200 and not any(leaked)
        shown = {*json.loads(here.ask("/api/items/0", token=here.token())[2])["item"]}
        assert shown == {"place", "source", "text", "scores", "revision"}
        for one in here.survey.design.annotators:
            page = pages.offline(here.survey.design, here.survey.id, one)
            assert not any(name.encode() in page for name in here.survey.design.systems)


# Kills


class Crowd:
    """Five annotators who rate as fast as they can, whatever happens to the server."""

    def __init__(self, folder, seed):
        self.survey = made(folder, annotators=tuple("abcde"), items=40, count=60, seed=seed)
        self.acknowledged = {one.id: {} for one in self.survey.design.annotators}
        self.sent = {one.id: {} for one in self.survey.design.annotators}
        self.port, self.stop, self.faults = None, threading.Event(), []
        self._process = None

    def start(self):
        command = ["survey", "serve", str(self.survey.folder), "--port", "0", "--json"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "augless", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        said = json.loads(self._process.stdout.readline())
        self.port = int(said["address"].rpartition(":")[2])

    def kill(self):
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL
        self._process.stdout.close()

    def total(self):
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, more):
        """Wait until so many more ratings are acknowledged, or all are."""
        goal = self.total() + more
        while self.total() < goal and any(thread.is_alive() for thread in self.threads):
            time.sleep(0.001)

    def begin(self, seed):
        self.threads = [
            threading.Thread(target=self._rate, args=(one, random.Random(f"{seed} {one.id}")))
            for one in self.survey.design.annotators
        ]
        for thread in self.threads:
            thread.start()

    def _rate(self, one, chance):
        token = self.survey.tokens()[one.id]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        line, port = None, None
        while not self.stop.is_set():
            try:
                if port != self.port:
                    if line is not None:
                        line.close()
                    port = self.port
                    line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    line.request("GET", "/api/state", headers=headers)
                    place = json.loads(line.getresponse().read())["done"]
                    if place < len(self.acknowledged[one.id]):
                        self.faults.append(f"{one.id} was sent back to {place}")
                if place == len(one.order):
                    break
                scores = self.sent[one.id].setdefault(
                    place, [chance.randint(1, 5), chance.randint(1, 5)]
                )
                given = {"place": place, "revision": 1, "scores": scores, "seconds": 1.0}
                line.request("POST", "/api/answers", json.dumps(given), headers)
                answer = line.getresponse()
                body = answer.read()
                if answer.status != 200:
                    self.faults.append(f"{one.id} at {place}: {answer.status}")
                    break
                if json.loads(body)["done"] != place + 1:
                    self.faults.append(f"{one.id} at {place}: {body!r}")
                self.acknowledged[one.id][place] = tuple(scores)
                place += 1
            except (OSError, http.client.HTTPException, ValueError):
                port = None  # the server is gone: go on when it is back
                time.sleep(0.005)
        if line is not None:
            line.close()

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def wrong(self):
        """Return what is lost, doubled or changed, of what was acknowledged."""
        with store.Store(self.survey.folder / "ratings.sqlite") as kept:
            rows = kept.all()
        faults = list(self.faults)
        stored = {(row.annotator, row.place): row.scores for row in rows}
        if len(stored) < len(rows):
            faults.append("a rating is there twice")
        for id_, places in self.acknowledged.items():
            faults += [
                f"{id_} at {place} is lost or changed"
                for place, scores in places.items()
                if stored.get((id_, place)) != scores
            ]
        for (id_, place), scores in stored.items():
            if scores != tuple(self.sent[id_].get(place, ())):
                faults.append(f"{id_} at {place} was never sent like this")
        return faults


def killed(folder, kills, seed):
    """Kill the server some times under five annotators; return how often, and what went wrong."""
    chance = random.Random(seed)
    crowd = Crowd(folder, seed)
    crowd.start()
    crowd.begin(seed)
    hits = 0
    try:
        for _ in range(kills):
            crowd.wait_for(chance.randint(1, 25))
            if not any(thread.is_alive() for thread in crowd.threads):
                break
            time.sleep(chance.random() * 0.01)  # somewhere inside a request
            crowd.kill()
            hits += 1
            crowd.start()
        crowd.wait_for(5)
    finally:
        crowd.end()
        crowd.kill()
    return hits, crowd.wrong(), crowd.total()


def test_no_acknowledged_rating_is_lost_or_doubled_when_the_server_is_killed(tmp_path):
    hits, wrong, total = killed(tmp_path / "s", kills=3, seed=5)
    assert (hits, wrong) == (3, [])
    assert total > 8


def test_the_verb_serves_until_it_is_stopped(tmp_path):
    made_survey = made(tmp_path / "s")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "augless",
            "survey",
            "serve",
            str(made_survey.folder),
            "--port",
            "0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "Give each annotator their own link:\n"
        name, link = process.stdout.readline().split()
        process.stdout.readline()
        parts = urllib.parse.urlsplit(link)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", parts.path)
            answer = connection.getresponse()
            assert (name, answer.status) == ("anna", 200) and answer.read() == pages.served()
        second = subprocess.run(
            [
                sys.executable,
                "-m",
                "augless",
                "survey",
                "serve",
                str(made_survey.folder),
                "--port",
                "0",
            ],
            capture_output=True,
            text=True,
        )
        assert second.returncode == 6 and "another process" in second.stderr
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0 and "all that was rated is kept" in said
        assert "Traceback" not in said
    finally:
        process.kill()
        process.communicate()
