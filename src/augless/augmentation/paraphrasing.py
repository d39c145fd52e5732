"""Texts said otherwise by a language model, here or behind an endpoint."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from augless import text
from augless.augmentation import draws, endpoint, generating, pretrained
from augless.augmentation.augmenter import (
    MOVES,
    Augmenter,
    Context,
    Languages,
    Line,
    Move,
    Notes,
    Rewriter,
    Side,
    require,
)
from augless.knobs import Within

_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("„", "“"), ("«", "»"), ("»", "«"))


@dataclass(frozen=True, kw_only=True)
class Paraphrase(Augmenter):
    """Have a language model say texts otherwise.

    The model is a Hugging Face text-to-text or chat model by name or folder; with `url`, what an
    OpenAI-compatible endpoint calls so (vLLM, llama.cpp, Ollama and others serve one). Answers of
    an endpoint are kept on disk: what was paid for once is not asked again.
    """

    model: Annotated[str, "a Hugging Face model's name or folder, or the endpoint's name for it"]
    url: Annotated[str, "an endpoint, such as http://localhost:8000/v1; none: compute here"] = ""
    prompt: Annotated[str, "what is asked, on one line; {text} stands for the text"] = (
        "Say the following in other words, in the same language, and write nothing else: {text}"
    )
    side: Annotated[Side, "which side is rewritten"] = "source"
    temperature: Annotated[
        float, "the higher, the freer; 0: the most probable words", Within(0, 10)
    ] = 0.7
    key: Annotated[str, "name of the environment variable that holds the endpoint's key"] = ""
    concurrency: Annotated[int, "requests under way at once", Within(1, 256)] = 4
    retries: Annotated[int, "times a failed request is made again", Within(0, 100)] = 5
    backoff: Annotated[
        float, "seconds before the first of these; then twice as long each time", Within(0, 60)
    ] = 1.0
    timeout: Annotated[float, "seconds an answer may take", Within(0.01, 3600)] = 60.0
    limit: Annotated[
        int, "requests that are made at most, failed ones and restarts counted", Within(0, 10**9)
    ] = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.model), "model", repr(self.model), "a name or a folder")
        fits = "{text}" in self.prompt and "\n" not in self.prompt
        require(fits, "prompt", repr(self.prompt), "one line with {text} in it")
        varied = self.copies == 1 or self.temperature > 0
        require(varied, "temperature", 0, "above 0 for several copies, or all would be the same")

    @property
    def remote(self) -> bool:
        """Tell whether an endpoint does the work."""
        return bool(self.url)

    @property
    def free(self) -> tuple[str, ...]:
        """How an endpoint is asked, and where a model lies that is here."""
        asked = ("key", "concurrency", "retries", "backoff", "timeout", "limit")
        return asked if self.url else (*asked, "model")

    @property
    def moves(self) -> tuple[Move, ...]:
        """Each chosen side is read and written."""
        return MOVES[self.side]

    def check(self, languages: Languages, trained: Mapping[str, Languages] | None = None) -> None:
        """Refuse an address that is none, and a key that is not there."""
        if self.url:
            endpoint.check(self._settings())

    def identity(self, context: Context) -> Any:
        """Return the content of the model, if it is here."""
        if self.url:
            return None
        return pretrained.digest(pretrained.find(self.model, context.download))

    @contextlib.contextmanager
    def open(self, context: Context) -> Iterator[Rewriter]:
        """Load the model, or make ready to ask."""
        if self.url:
            answers = endpoint.Answers(context.cache)
            try:
                yield self._asking(endpoint.Client(self._settings(), answers, self._job(context)))
            finally:
                answers.close()
            return
        folder = pretrained.find(self.model, context.download)
        generator = generating.Generator(folder, context.device)
        manner = generating.Manner(copies=self.copies, temperature=self.temperature)

        def rewrite(lines: Sequence[Line]) -> list[list[str]]:
            prompts = [self._asked(line.text) for line in lines]
            made = generator.answers(prompts, [line.key for line in lines], manner)
            return [
                [_answer(one, line.text) for one in texts]
                for line, texts in zip(lines, made, strict=True)
            ]

        yield rewrite

    def notes(self, context: Context) -> Notes:
        """Say how many requests were made."""
        if not self.url:
            return Notes()
        answers = endpoint.Answers(context.cache)
        try:
            return Notes(requests=answers.spent(self._job(context)))
        finally:
            answers.close()

    def _asking(self, client: endpoint.Client) -> Rewriter:
        def rewrite(lines: Sequence[Line]) -> list[list[str]]:
            bodies = [self._body(line, copy) for line in lines for copy in range(self.copies)]
            answers = iter(client.ask(bodies))
            return [
                [_answer(next(answers), line.text) for _ in range(self.copies)] for line in lines
            ]

        return rewrite

    def _body(self, line: Line, copy: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": self._asked(line.text)}],
            "temperature": self.temperature,
            "seed": draws.number((*line.key, copy)),
            "max_tokens": 2 * len(line.text) + 64,  # a word piece has a letter at least
        }

    def _asked(self, line: str) -> str:
        return self.prompt.replace("{text}", " ".join(line.split("\n")))

    def _job(self, context: Context) -> str:
        """Name a job by what it asks, so that its requests add up over restarts."""
        parts = [self.url, self.model, self.prompt, self.side, self.copies, self.temperature]
        whole = [*parts, context.seed, context.corpus.fingerprint()]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()

    def _settings(self) -> endpoint.Settings:
        return endpoint.Settings(
            url=self.url,
            key=self.key,
            concurrency=self.concurrency,
            retries=self.retries,
            backoff=self.backoff,
            timeout=self.timeout,
            limit=self.limit,
        )


def _answer(said: str, asked: str) -> str:
    """Return an answer as one line, without quotes that the text did not have."""
    line = text.normalise(said)
    for first, last in _QUOTES:
        if len(line) > 2 and line[0] == first and line[-1] == last and asked.strip()[:1] != first:
            return line[1:-1].strip()
    return line
