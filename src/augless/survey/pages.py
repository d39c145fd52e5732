"""The page that people rate on: one file, for a server or to be opened without one.

It asks nothing of other places. Its only script and style are named in its Content-Security-Policy
by their hashes, and the policy lets no text become HTML (Trusted Types), whatever is in a corpus.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib import resources
from typing import Any

from augless.survey.designing import ANCHORS, Annotator, Design


@functools.cache
def _part(name: str) -> str:
    return resources.files("augless.survey").joinpath(name).read_text(encoding="utf-8")


def policy(connect: str = "'self'") -> str:
    """Return the Content-Security-Policy of the page, and of every response."""
    script, style = (
        base64.b64encode(hashlib.sha256(_part(name).encode()).digest()).decode()
        for name in ("page.js", "page.css")
    )
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{script}'",
            f"style-src 'sha256-{style}'",
            f"connect-src {connect}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


@functools.cache
def served() -> bytes:
    """Return the page for a server: the same bytes for everybody, without any text to rate."""
    return _page(policy="", data="")


def offline(design: Design, survey: str, annotator: Annotator) -> bytes:
    """Return the page with all that an annotator rates, to be opened without a server."""
    places: dict[str, int] = {}
    tasks = []
    for number in annotator.order:
        task = design.tasks[number]
        source = design.items[task.item].source
        tasks.append([places.setdefault(source, len(places)), task.text])
    content = {
        "survey": survey,
        "annotator": annotator.id,
        **shared(design, annotator),
        "sources": list(places),
        "tasks": tasks,
    }
    rules = policy(connect="'none'")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
    block = f'<script type="application/json" id="survey">{_inert(content)}</script>\n'
    return _page(policy=meta, data=block)


def shared(design: Design, annotator: Annotator) -> dict[str, Any]:
    """Return what the page has to know besides the texts. No system is named in it."""
    return {
        "title": design.title,
        "name": annotator.name,
        "labels": list(design.labels),
        "languages": list(design.languages),
        "scales": [{"name": one.name, "question": one.question} for one in design.scales],
        "anchors": list(ANCHORS),
        "instructions": design.instructions,
    }


def _inert(content: Any) -> str:
    """Write JSON that cannot end the element it stands in."""
    text = json.dumps(content, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _page(**parts: str) -> bytes:
    # In one pass: what is put in is not looked at again.
    values = {"style": _part("page.css"), "script": _part("page.js"), **parts}
    pieces = _part("page.html").split("[[")
    made = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("]]")
        made += [values[name], rest]
    return "".join(made).encode()
