"""Runs to tables, figures and one HTML page.

::

    path = reports.report(trial, "trials/demo/report")   # index.html, and the table beside it
    print(reports.text(trial))

The page is one file without scripts, fonts or pictures from elsewhere. Whatever comes from a
corpus, a plan or a record is put into it by templates that escape, and shown as text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from augless import trials

__all__ = ["csv", "latex", "markdown", "report", "text"]


def report(trial: trials.Trial, folder: str | Path) -> Path:
    """Write the page, and the table as Markdown, LaTeX, CSV and text beside it; return the page."""
    from augless.reports import evidence, pages, tables

    found = evidence.gather(trial)
    files = {
        "table.md": tables.markdown(found),
        "table.tex": tables.latex(found),
        "table.csv": tables.csv(found),
        "table.txt": tables.text(found),
        "index.html": pages.page(found),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        # Whole or not at all, so that a page that is open never shows a half.
        aside = folder / f".{name}.aside"
        aside.write_text(content, encoding="utf-8", errors="replace", newline="\n")
        aside.replace(folder / name)
    return folder / "index.html"


def markdown(trial: trials.Trial) -> str:
    """Return the table in Markdown."""
    from augless.reports import evidence, tables

    return tables.markdown(evidence.gather(trial))


def latex(trial: trials.Trial) -> str:
    """Return the table in LaTeX, for the packages booktabs and amssymb."""
    from augless.reports import evidence, tables

    return tables.latex(evidence.gather(trial))


def csv(trial: trials.Trial) -> str:
    """Return all numbers of the table, unrounded, as CSV."""
    from augless.reports import evidence, tables

    return tables.csv(evidence.gather(trial))


def text(trial: trials.Trial) -> str:
    """Return the answer and the table for a terminal."""
    from augless.reports import evidence, tables

    return tables.text(evidence.gather(trial))
