"""The records of a trial, here and in a folder of others: each is read once."""

from __future__ import annotations

import functools
from pathlib import Path

from augless.trials.layout import Layout
from augless.trials.records import BadRecord, Record


class Records:
    """The records that a trial can use, by the identifiers of their runs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, Record | None] = {}
        self.refused: dict[str, str] = {}
        """folder -> why it holds no record that can be used"""

    def of(self, identifier: str) -> Record | None:
        """Return the record of a run, whatever it has scores of; None if there is none."""
        if identifier not in self._known:
            loaded = map(self._load, self._layout.find(identifier))
            record = next((one for one in loaded if one and one.id == identifier), None)
            where = self._layout.hypotheses(identifier)
            self._known[identifier] = record and record.with_hypotheses(where)
        return self._known[identifier]

    def forget(self, identifier: str) -> None:
        """Look for a record anew when it is asked for: its run has just been scored."""
        self._known.pop(identifier, None)

    @functools.cached_property
    def everything(self) -> list[Record]:
        """All records, whatever they are of."""
        return [one for one in map(self._load, self._layout.records()) if one is not None]

    def _load(self, folder: Path) -> Record | None:
        try:
            return Record.load(folder)
        except BadRecord as error:
            if folder.exists():
                self.refused[str(folder)] = str(error)
            return None
