"""Paraphrases from an endpoint: a real server on loopback that misbehaves in every way it can."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace

import pytest

from augless import corpora, errors
from augless.augmentation import AUGMENTERS, BadAugmentation, augment, endpoint, folders, making
from chat_server import answer, serving
from support import until

TOY = corpora.CORPORA["toy-de-en"](train=12, valid=3, test=3)
SECRET = "sk-do-not-write-me"


def paraphrase(server, **knobs):
    common = {"model": "m", "prompt": "say: {text}", "backoff": 0.001, "timeout": 30.0}
    return AUGMENTERS["paraphrase"](**common | {"url": server.url} | knobs)


def made(augmented):
    return [row["de"] for row in augmented.rows() if "of" in row]


def test_every_pair_is_asked_for_once_and_answers_become_sources(tmp_path):
    with serving() as server:
        augmented = augment(paraphrase(server, concurrency=3), TOY, tmp_path / "out")
        assert len(server.seen) == 12 and {*server.paths} == {"/v1/chat/completions"}
        assert 1 <= server.most <= 3 and {*server.keys} == {None}
        body = json.loads(server.seen[0])
        assert body["model"] == "m" and body["temperature"] == 0.7 and body["max_tokens"] > 0
    assert augmented.manifest.requests == 12
    pairs = list(TOY.pairs("train"))
    for text, pair in zip(made(augmented), pairs, strict=True):
        assert text.startswith(f"neu: {pair.source} ")


def test_copies_are_asked_for_with_seeds_of_their_own(tmp_path):
    with serving() as server:
        augmented = augment(paraphrase(server, copies=2), TOY, tmp_path / "out")
        assert len({json.loads(one)["seed"] for one in server.seen}) == 24
    assert len({*made(augmented)}) == 24


def flaky(how, times=1):
    """Misbehave on the first tries of each question, then answer."""
    tries = Counter()

    def behave(number, body):
        key = json.dumps(body, sort_keys=True)
        tries[key] += 1
        return how(body) if tries[key] <= times else answer(body)

    return behave


def cut_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.close()


def hang_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65536)


def garbage(handler):
    handler.wfile.write(b"\x00\x01 not http at all\r\n\r\n")


MISBEHAVIOUR = {
    "too many requests": lambda body: (429, b'{"error": {"message": "slow down"}}'),
    "too many, with a date": lambda body: (429, b"", [("Retry-After", "Fri, 31 Dec 1999")]),
    "server error": lambda body: (500, b"<html>oops</html>"),
    "overloaded": lambda body: (503, b""),
    "cut off": lambda body: cut_off,
    "hung up": lambda body: hang_up,
    "without end": lambda body: endless,
    "not HTTP": lambda body: garbage,
    "not JSON": lambda body: (200, b"Hello!"),
    "other JSON": lambda body: (200, b'{"choices": []}'),
    "JSON of another kind": lambda body: (200, b"[1, 2]"),
    "nested": lambda body: (200, b"[" * 100_000),
    "no text": lambda body: (200, b'{"choices": [{"message": {"content": null}}]}'),
    "a number": lambda body: (200, b'{"choices": [{"message": {"content": 7}}]}'),
    "not UTF-8": lambda body: (200, b'{"choices": [{"text": "\xff"}]}'),
}


@pytest.mark.parametrize("how", MISBEHAVIOUR)
def test_a_failure_that_may_pass_is_tried_again(how, tmp_path):
    with serving(flaky(MISBEHAVIOUR[how], times=2)) as server:
        augmented = augment(paraphrase(server), TOY, tmp_path / "out")
        assert len(server.seen) == 36 == augmented.manifest.requests
    assert len(made(augmented)) == 12


@pytest.mark.parametrize("how", MISBEHAVIOUR)
def test_a_failure_that_does_not_pass_ends_in_a_few_lines_and_leaves_nothing(how, tmp_path):
    with serving(lambda number, body: MISBEHAVIOUR[how](body)) as server:
        with pytest.raises(endpoint.EndpointError, match="after 3 tries") as caught:
            augment(paraphrase(server, retries=2), TOY, tmp_path / "out")
        assert errors.code_of(caught.value) == 5 and str(caught.value).count("\n") <= 2
        assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_server_that_never_answers_is_given_up_in_time(tmp_path):
    free = threading.Event()

    def wait(handler):
        free.wait(60)

    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not free.wait(0.02):
                handler.wfile.write(b" ")
                handler.wfile.flush()

    for how in (wait, drip):
        with serving(lambda number, body, how=how: how) as server:
            with pytest.raises(endpoint.EndpointError, match="no answer in time"):
                augment(paraphrase(server, timeout=0.2, retries=1), TOY, tmp_path / "out")
            free.set()
        free.clear()


def test_retry_after_is_heeded_within_bounds(tmp_path):
    assert endpoint.retry_after("3") == 3
    assert endpoint.retry_after("1e9") == 60 and endpoint.retry_after("-5") == 0
    assert endpoint.retry_after("nan") == 0 and endpoint.retry_after("tomorrow") == 0
    asked = {"concurrency": 1, "retries": 5, "backoff": 0.001, "timeout": 30.0, "limit": 10}
    settings = endpoint.Settings(url="http://127.0.0.1:9/v1", key="", **asked)
    with contextlib.closing(endpoint.Answers(tmp_path)) as answers:
        client = endpoint.Client(settings, answers, "job")
    pauses = [client.pause("0123456789abcdef", attempt, 0.0) for attempt in range(40)]
    for attempt, pause in enumerate(pauses):
        assert min(0.001 * 2**attempt, 60) <= pause <= min(0.0015 * 2**attempt, 60)
    assert client.pause("0123456789abcdef", 0, 5.0) == 5.0


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(status, tmp_path):
    where = [("Location", "http://127.0.0.1:9/elsewhere")]
    refusal = status, b'{"error": {"message": "no such\\u001b[31m model"}}', where
    with serving(lambda number, body: refusal) as server:
        with pytest.raises(endpoint.EndpointError, match=f"refuses: status {status}") as caught:
            augment(paraphrase(server, concurrency=1), TOY, tmp_path / "out")
        assert len(server.seen) == 1
    assert "\x1b" not in str(caught.value) and errors.code_of(caught.value) == 5


def test_nobody_listens(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        augmenter = AUGMENTERS["paraphrase"](model="m", url=url, retries=1, backoff=0.0)
        with pytest.raises(endpoint.EndpointError, match="connection refused, after 2 tries"):
            augment(augmenter, TOY, tmp_path / "out")


def test_what_was_answered_is_not_asked_again(tmp_path):
    def limping(number, body):
        return answer(body) if number <= 7 else (401, b"")

    with serving(limping) as server:
        with pytest.raises(endpoint.EndpointError):
            augment(paraphrase(server, concurrency=1), TOY, tmp_path / "out")
        assert len(server.seen) == 8
        server.behave = lambda number, body: answer(body)
        augment(paraphrase(server, concurrency=4), TOY, tmp_path / "out")
        assert len(server.seen) == 13  # seven answers were kept
        augment(paraphrase(server, w=0.5), TOY, tmp_path / "other")
        assert len(server.seen) == 13  # another weight asks nothing


def test_the_limit_holds_over_failures_and_restarts(tmp_path):
    with serving(flaky(MISBEHAVIOUR["server error"])) as server:
        for _ in range(3):
            with pytest.raises(BadAugmentation, match=r"limit of 9 requests is used up\n.*higher"):
                augment(paraphrase(server, limit=9), TOY, tmp_path / "out")
            assert len(server.seen) == 9
        augmented = augment(paraphrase(server, limit=100), TOY, tmp_path / "out")
        assert len(server.seen) == 24 == augmented.manifest.requests


def test_a_killed_job_pays_for_nothing_twice(tmp_path):
    """The process is killed while answers are under way; what came before is kept."""
    held = threading.Event()

    def behave(number, body):
        if number > 6:
            held.wait(120)
        return answer(body)

    with serving(behave) as server:
        command = [
            *(sys.executable, "-m", "augless", "augment", "paraphrase", "toy-de-en"),
            *("corpus.train=12", "corpus.valid=3", "corpus.test=3", f"url={server.url}"),
            *("model=m", "prompt=say: {text}", "concurrency=2", "--out", "out"),
        ]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: len(server.seen) == 8)  # six answers, and two requests that wait

        def kept():
            with (
                contextlib.suppress(sqlite3.Error),
                contextlib.closing(sqlite3.connect(tmp_path / "data" / "answers.sqlite")) as base,
            ):
                return base.execute("SELECT count(*) FROM answers").fetchone()[0]

        until(lambda: kept() == 6)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "out").exists()
        held.set()
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert len(server.seen) == 8 + 6
        asked = Counter(server.seen)
        assert sorted(asked.values()) == [1] * 10 + [2] * 2  # only what had not been answered
    whole = tmp_path / "whole"
    with serving() as server:
        cached = tmp_path / "fresh"
        augmented = augment(paraphrase(server), TOY, whole, cache=cached)
    assert (tmp_path / "out" / "made.de").read_bytes() == (
        augmented.folder / "made.de"
    ).read_bytes()
    assert "requests to the endpoint: 14" in done.stdout


# Keys


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)

    def telltale(number, body):
        return (401, f"bad key {SECRET}".encode()) if number > 5 else answer(body)

    with serving(telltale) as server:
        with pytest.raises(endpoint.EndpointError) as caught:
            augment(paraphrase(server, key="MY_KEY", concurrency=1), TOY, tmp_path / "out")
        assert SECRET not in str(caught.value) and "bad key ***" in str(caught.value)
        server.behave = lambda number, body: answer(body)
        augment(paraphrase(server, key="MY_KEY"), TOY, tmp_path / "out")
        assert {*server.keys} == {f"Bearer {SECRET}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5 and not any(SECRET.encode() in path.read_bytes() for path in files)


def test_a_key_that_is_not_there_is_said_before_any_request(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with serving() as server:
        with pytest.raises(BadAugmentation, match="MY_KEY, which is not set"):
            augment(paraphrase(server, key="MY_KEY"), TOY, tmp_path / "out")
        assert not server.seen


@pytest.mark.parametrize("key", ["", f"{SECRET}\n", f" {SECRET}", f"{SECRET}\u2192", f"{SECRET}é"])
def test_a_key_that_no_header_carries_is_refused_without_saying_it(key, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    with serving() as server:
        with pytest.raises(BadAugmentation, match="variable MY_KEY is empty, or has") as caught:
            augment(paraphrase(server, key="MY_KEY"), TOY, tmp_path / "out")
        assert SECRET not in str(caught.value) and not server.seen


def test_a_key_is_not_sent_in_the_clear(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    augmenter = AUGMENTERS["paraphrase"](model="m", url="http://example.com/v1", key="MY_KEY")
    with pytest.raises(BadAugmentation, match="unencrypted; use https"):
        augment(augmenter, TOY, tmp_path / "out")


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://x:port/", "http://me:pw@x/v1", "x"]
)
def test_an_address_that_is_none_is_refused(url, tmp_path):
    with pytest.raises(BadAugmentation, match="it must be like http://localhost:8000/v1"):
        augment(AUGMENTERS["paraphrase"](model="m", url=url), TOY, tmp_path / "out")


# Answers


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("ein\nHaus\r\n\tda", "ein Haus da"),
        ('"Ein Haus."', "Ein Haus."),
        ("  \u2028 Ein\u0000 Haus ", "Ein Haus"),
        ('"a" und "b', '"a" und "b'),
    ],
)
def test_an_answer_becomes_one_line_of_text(said, kept, tmp_path):
    with serving(lambda number, body: answer(body, said)) as server:
        assert {*made(augment(paraphrase(server), TOY, tmp_path / "out"))} == {kept}


def test_empty_and_cut_answers_are_left_out_and_counted(tmp_path):
    def behave(number, body):
        return answer(body, "") if number % 2 else answer(body, "halb", finish_reason="length")

    with serving(behave) as server:
        augmented = augment(paraphrase(server), TOY, tmp_path / "out")
    assert augmented.manifest.pairs == folders.Pairs(12, 0, 12)


def test_a_file_that_holds_no_answers_is_left_alone(tmp_path):
    (tmp_path / "answers.sqlite").write_bytes(b"my diary, which is not a database at all" * 99)
    before = (tmp_path / "answers.sqlite").read_bytes()
    with serving() as server, pytest.raises(BadAugmentation, match="holds no answers of ours"):
        augment(paraphrase(server), TOY, tmp_path / "out")
    assert (tmp_path / "answers.sqlite").read_bytes() == before


def test_processes_share_the_limit_and_the_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "BLOCK", 3)
    with serving() as server:
        one = augment(paraphrase(server), TOY, tmp_path / "one", cache=tmp_path / "a")
        two = augment(paraphrase(server), TOY, tmp_path / "two", cache=tmp_path / "b", workers=2)
        assert len(server.seen) == 24
    assert (one.folder / "made.de").read_bytes() == (two.folder / "made.de").read_bytes()
    assert two.manifest.requests == 12


def test_one_failure_ends_the_others_at_once(tmp_path):
    """With a back-off of a minute, waiting threads would keep the process for long."""

    def behave(number, body):
        return (500, b"") if number < 4 else (401, b"")

    with serving(behave) as server:
        with pytest.raises(endpoint.EndpointError, match="refuses: status 401"):
            augment(paraphrase(server, concurrency=4, backoff=60.0), TOY, tmp_path / "out")
        assert len(server.seen) == 4  # not one pause was waited out


def test_nothing_of_the_environment_is_in_a_request(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert os.environ["OPENAI_API_KEY"] == SECRET
    with serving() as server:
        augment(replace(paraphrase(server)), TOY, tmp_path / "out")
        assert {*server.keys} == {None} and not any(SECRET in one for one in server.seen)
