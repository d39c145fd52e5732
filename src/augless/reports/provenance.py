"""Everything that decided the numbers: what tuning tried, signatures, files, versions, commands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from augless import trials
from augless.reports import evidence, tables
from augless.reports.evidence import Evidence


@dataclass(frozen=True)
class Tried:
    """A combination of hyper-parameters and its score."""

    cells: list[str]
    chosen: bool


@dataclass(frozen=True)
class Choice:
    """What was chosen on the validation set, and from what."""

    method: str
    style: str
    corpus: str
    names: list[str]
    rows: list[Tried]
    caption: str


@dataclass(frozen=True)
class RunLine:
    """A run, and how to repeat it."""

    id: str
    method: str
    corpus: str
    seed: int
    command: str


def choices(found: Evidence) -> list[Choice]:
    """List what tuning tried."""
    listed = []
    for method, per_corpus in found.trial.chosen.items():
        for corpus, choice in per_corpus.items():
            style = evidence.colour(found.styles.get(method, ""))
            where = corpus if len(found.studies) > 1 else ""
            names, rows = _tried(found, choice)
            spent = f": {choice.seconds:,.0f} seconds of training" if choice.seconds else ""
            caption = f"All that was tried, the best on the validation set first{spent}."
            listed.append(Choice(method, style, where, names, rows, caption))
    return listed


def _tried(found: Evidence, choice: trials.Choice) -> tuple[list[str], list[Tried]]:
    """Lay out combinations, the best first: a column per hyper-parameter, then the score."""
    sign = -1 if found.plan.chooses_highest else 1
    tried = sorted(choice.tried, key=lambda one: _rank(one.score, sign))
    keys = list(dict.fromkeys(key for one in tried for key in one.values))
    rows = []
    for one in tried:
        chosen = choice.best is not None and one.values == choice.best.values
        shown = "—" if one.failure is None else str(one.failure)
        if one.score is not None:
            shown = tables.number(one.score, tables.digits_of(one.score))
        cells = [value(one.values[key]) if key in one.values else "" for key in keys]
        rows.append(Tried([*cells, f"{shown} ← chosen" if chosen else shown], chosen))
    return [*keys, found.plan.chooses_by], rows


def _rank(score: float | None, sign: int) -> float:
    return math.inf if score is None else sign * score


def value(value: Any) -> str:
    """Write a value of a recipe."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def signatures(found: Evidence) -> list[tuple[str, str]]:
    """Return the signature of every metric, by corpus only where they differ."""
    listed: dict[tuple[str, str], list[str]] = {}
    for corpus, of in found.table.signatures.items():
        for metric, signature in of.items():
            listed.setdefault((metric, signature), []).append(corpus)
    every = len(found.table.signatures)
    return [
        (metric if len(corpora) == every else f"{metric} ({', '.join(corpora)})", signature)
        for (metric, signature), corpora in listed.items()
    ]


def files(found: Evidence) -> list[tuple[str, str]]:
    """Name the files that the corpora were read from, with their SHA-256."""
    records = (entry.record for entry in found.trial.entries if entry.record is not None)
    files = ((file.name, file.sha256) for record in records for file in record.inputs)
    return list(dict.fromkeys(files))


def corpora(found: Evidence) -> list[tuple[str, str]]:
    """Return the fingerprints of the prepared corpora."""
    pairs = [(e.corpus, e.record.corpus) for e in found.trial.entries if e.record is not None]
    return list(dict.fromkeys(pairs))


def versions(found: Evidence) -> list[tuple[str, str]]:
    """Return the versions of all runs; several of one thing are all named."""
    listed: dict[str, list[str]] = {}
    for entry in found.trial.entries:
        for name, version in (entry.record.versions if entry.record else {}).items():
            if version not in listed.setdefault(name, []):
                listed[name].append(version)
    return [(name, "; ".join(versions)) for name, versions in listed.items()]


def runs(found: Evidence) -> list[RunLine]:
    """List the runs and their commands."""
    return [
        RunLine(e.record.id, e.method, e.corpus, e.seed, e.record.command)
        for e in found.trial.entries
        if e.record is not None
    ]
