"""Runs to tables, figures and one HTML page.

::

    path = reports.report(trial, "trials/demo/report")   # index.html; table and plot beside it
    print(reports.text(trial))

The page is one file without fonts, pictures or code from elsewhere; its one script, named by its
hash, copies commands. Whatever comes from a corpus, a plan or a record is put into it by templates
that escape, and shown as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless import storage

if TYPE_CHECKING:
    from augless import trials
    from augless.reports.human import Human

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but for tabs and line feeds

__all__ = ["csv", "latex", "markdown", "report", "summary", "text"]


def report(trial: trials.Trial, folder: str | Path, human: Human | None = None) -> Path:
    """Write the page, and the table and the forest plot beside it; return the page.

    `human` is what people said, as `survey.joining` counts it.
    """
    from augless.reports import evidence, exports, pages

    found = evidence.gather(trial, human)
    files = {
        "table.md": exports.markdown(found),
        "table.tex": exports.latex(found),
        "table.csv": exports.csv(found),
        "table.txt": exports.text(found),
        "forest.svg": pages.forest(found),
        "index.html": pages.page(found),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not content:  # nothing to plot
            (folder / name).unlink(missing_ok=True)
            continue
        # Whole or not at all, so that a page that is open never shows a half.
        clean = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", content)
        storage.replace(folder / name, clean.encode("utf-8", "replace"))
    return folder / "index.html"


def markdown(trial: trials.Trial, human: Human | None = None) -> str:
    """Return the table in Markdown."""
    from augless.reports import evidence, exports

    return exports.markdown(evidence.gather(trial, human))


def latex(trial: trials.Trial, human: Human | None = None) -> str:
    """Return the table in LaTeX, for the packages booktabs and amssymb."""
    from augless.reports import evidence, exports

    return exports.latex(evidence.gather(trial, human))


def csv(trial: trials.Trial) -> str:
    """Return all numbers of the tables, unrounded, as CSV."""
    from augless.reports import evidence, exports

    return exports.csv(evidence.gather(trial))


def summary(trial: trials.Trial, human: Human | None = None) -> dict[str, Any]:
    """Return the answer and all numbers as values that JSON can say.

    "sentence", "numbers", "advice", "notes", "commands", "metric", "baseline", "primary",
    "overall": method -> its differences over all corpora, "seeds_needed": corpus -> how many would
    show something worth it, "corpora": corpus -> method -> its numbers, what it cost among them,
    and "human": what people said, if there is a survey.
    """
    from augless.reports import evidence, exports

    return exports.summary(evidence.gather(trial, human))


def text(trial: trials.Trial, human: Human | None = None) -> str:
    """Return the answer, its notes and the table for a terminal."""
    from augless.reports import evidence, exports

    return exports.text(evidence.gather(trial, human))
