"""Runs to tables, figures and one HTML page.

::

    evidence = reports.gather(trial)                        # compares what is to be compared
    path = reports.report(evidence, "trials/demo/report")   # index.html; tables and plot beside it
    print(reports.text(evidence))

The page is one file without fonts, pictures or code from elsewhere; its one script, named by its
hash, copies commands. Whatever comes from a corpus, a plan or a record is put into it by templates
that escape, and shown as text.
"""

from __future__ import annotations

import re
from pathlib import Path

from augless import storage
from augless.reports import pages
from augless.reports.evidence import Evidence, gather
from augless.reports.exports import csv, latex, markdown, summary, text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but for tabs and line feeds

__all__ = ["Evidence", "csv", "gather", "latex", "markdown", "report", "summary", "text"]


def report(evidence: Evidence, folder: str | Path) -> Path:
    """Write the page, and the tables and the forest plot beside it; return the page."""
    files = {
        "table.md": markdown(evidence),
        "table.tex": latex(evidence),
        "table.csv": csv(evidence),
        "table.txt": text(evidence),
        "forest.svg": pages.forest(evidence),
        "index.html": pages.page(evidence),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if content:  # whole or not at all, so that a page that is open never shows a half
            clean = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", content)
            storage.replace(folder / name, clean.encode("utf-8", "replace"))
        else:  # nothing to plot
            (folder / name).unlink(missing_ok=True)
    return folder / "index.html"
