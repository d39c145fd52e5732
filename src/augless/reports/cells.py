"""What a table consists of, whatever it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Verdict = Literal["better", "worse", "open"]
MARKS: dict[Verdict, str] = {"better": "▲", "worse": "▼", "open": ""}


@dataclass(frozen=True)
class Cell:
    """What stands at a place of a table; nothing where nothing is known."""

    value: str = ""
    kind: Verdict = "open"
    """of a claim, which colours it"""
    small: tuple[str, ...] = ()
    """shown below it on the page; where there is no page, below the table"""
    line: str = ""
    """all of it on one line, where that is said in the table itself"""
    deviation: str = ""
    """over seeds"""
    mark: str = ""
    """of a claim"""

    @property
    def text(self) -> str:
        """All of it but what is small."""
        spread = f"± {self.deviation}" if self.deviation else ""
        return " ".join(filter(None, (self.value, spread, self.mark)))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a table."""

    name: str
    """of the method, in the first column"""
    style: str = ""
    """class that colours it; nothing where it is no method"""
    kind: Verdict = "open"
    """which colours all of it"""
    small: str = ""
    """said of the method on the page"""
    cells: Sequence[Cell]
    remarks: tuple[str, ...] = ()
    """what went wrong"""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, as shown."""

    title: str
    head: Sequence[str]
    lines: Sequence[Line]
    legend: str
    remarks: Sequence[str] = ()
    """what else must be said, below it"""

    @property
    def rows(self) -> list[list[str]]:
        """All of it as text, the head first."""
        rows = ([line.name, *(c.line or c.text for c in line.cells)] for line in self.lines)
        return [list(self.head), *rows]

    @property
    def notes(self) -> list[str]:
        """What went wrong in its rows, and its remarks."""
        wrong = [f"{line.name}, {remark}" for line in self.lines for remark in line.remarks]
        return [*wrong, *self.remarks]

    def without_empty(self, first: int = 1) -> Table:
        """Return it without the columns that nothing is known of; the first ones stay."""
        used = [
            k
            for k in range(len(self.head))
            if k < first or any(line.cells[k - 1].text for line in self.lines)
        ]
        lines = [replace(line, cells=[line.cells[k - 1] for k in used[1:]]) for line in self.lines]
        return replace(self, head=[self.head[k] for k in used], lines=lines)
