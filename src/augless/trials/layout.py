"""Where a trial keeps what, and that only one trial works there at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from augless import storage
from augless.errors import Busy

PATIENCE = 5.0  # seconds; processes of a trial that was killed are gone by then


@dataclass(frozen=True)
class Layout:
    """Where a trial keeps what; no part of it below its root may be a link."""

    root: Path
    committed: Path | None = None
    """a second folder of records, which is only read"""

    @property
    def plan(self) -> Path:
        """The plan, as it was followed last."""
        return storage.inside(self.root, "plan.toml")

    @property
    def command(self) -> Path:
        """The command by which it was."""
        return storage.inside(self.root, "command.txt")

    @property
    def corpora(self) -> Path:
        """Which corpora were prepared, by where they came from."""
        return storage.inside(self.root, "corpora.json")

    @property
    def prepared(self) -> Path:
        """Prepared corpora, and made pairs."""
        return storage.inside(self.root, "prepared")

    @property
    def runs(self) -> Path:
        """Where the folders of runs are."""
        return storage.inside(self.root, "runs")

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return storage.inside(self.root, "runs", name)

    def done(self, key: str) -> Path:
        """A mark: a job is done; what it took."""
        return storage.inside(self.root, "done", f"{key}.json")

    def record(self, identifier: str) -> Path:
        """The record of a run, which outlives it."""
        return storage.inside(self.root, "records", identifier)

    @property
    def records(self) -> list[Path]:
        """The folders of records to read: the trial's own, and those of others."""
        roots = (self.root / "records", self.committed)
        return [root for root in roots if root is not None and root.is_dir()]

    def hypotheses(self, identifier: str) -> Path:
        """What a run generated."""
        return storage.inside(self.root, "hypotheses", identifier)

    def failure(self, key: str) -> Path:
        """Why a job failed, for as long as it is not tried again."""
        return storage.inside(self.root, "failures", f"{key}.json")

    def log(self, key: str) -> Path:
        """What the process of a job printed."""
        return storage.inside(self.root, "logs", f"{key}.log")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder: two trials at once would take each other's runs for failures."""
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            if not storage.hold(descriptor, PATIENCE):
                raise Busy(
                    f"{self.root} is in use by another trial\n"
                    "wait until it is done, or keep this one elsewhere: --out FOLDER"
                )
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # if nothing came of it, nothing is in there
                    self.root.rmdir()
        finally:
            os.close(descriptor)
