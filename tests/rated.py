"""Surveys of generated lines: designed, answered and served in this process."""

import contextlib
import http.client
import json
import random
import threading

from augless import survey
from augless.survey import serving

WORDS = ("the", "old", "man", "sees", "a", "red", "house", "and", "forgets", "his", "small", "dog")


def lines(count, seed=0, least=5):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(least, 9))) for _ in range(count)]


def planned(systems=3, count=60, reference=True, **options):
    """Design a survey of some systems on generated lines."""
    named = {f"system-{k}": lines(count, seed=k) for k in range(1, systems + 1)}
    sources = [f"source {k} {line}" for k, line in enumerate(lines(count, seed=100))]
    chosen = survey.Options(**{"items": 12, "annotators": ("anna", "ben"), **options})
    return survey.design(named, sources, lines(count, seed=200) if reference else None, chosen)


def made(folder, **options):
    return survey.Survey.create(folder, planned(**options))


def answer_all(made_survey, scored, *, upto=None):
    """Rate texts as `scored(annotator, task, number of the scale)` says."""
    with made_survey.store() as kept:
        for one in made_survey.design.annotators:
            for place, number in enumerate(one.order[:upto]):
                task = made_survey.design.tasks[number]
                scores = [scored(one, task, k) for k in range(len(made_survey.design.scales))]
                kept.put(one.id, place, 1, scores, 5.0)


PASSWORD = "correct horse"


class Served:
    """A survey served in a thread of this process."""

    def __init__(self, made_survey, password=None, host="127.0.0.1", url=None):
        self.survey, self.password = made_survey, password
        self.address, listener = serving.bind(serving.Address(host, 0, url), password)
        self.port = self.address.port
        self.store, self._tokens = made_survey.store(), made_survey.tokens()
        application = serving.Application(made_survey, self.store, self.address, password)
        self._server = serving.server(application)
        self._thread = threading.Thread(target=self._server.run, args=([listener],))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join()
        self.store.__exit__(None, None, None)

    def token(self, annotator="a1"):
        return self._tokens[annotator]

    def ask(self, path, *, method="GET", token=None, body=None, headers=(), host=None):
        """Return status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            if token:
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def rate(self, place, scores, *, revision=1, annotator="a1", **changes):
        """Send a rating; return the status, and what the answer says."""
        given = {"place": place, "revision": revision, "scores": scores, "seconds": 3.5, **changes}
        status, _, body = self.ask(
            "/api/answers",
            method="POST",
            token=self.token(annotator),
            body=json.dumps(given).encode(),
            headers=[("Content-Type", "application/json")],
        )
        return status, json.loads(body)
