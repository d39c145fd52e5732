"""What runs leave behind, small enough to commit, and what a trial makes of them.

::

    record.json                     all but the statistics, with a SHA-256 of itself and of them
    statistics-1f2e3d4c.safetensors a table per metric, a row per sentence
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from augless import runs, storage

if TYPE_CHECKING:
    from augless.trials.plans import Plan

FORMAT = "augless record 1"
SPLITS = ("valid", "test")
SIDES = ("test.source", "test.reference")
"""files beside the hypotheses: what they were made of, and should have been"""

_RECORD = "record.json"
_LARGEST = 1 << 28  # bytes of a file; nothing of ours comes near
_COUNTS = (np.uint8, np.uint16, np.uint32)  # most statistics are counts: a byte or two each
_KEPT = {
    "id": str,
    "name": str,
    "recipe": dict,
    "seed": int,
    "corpus": str,
    "versions": dict,
    "command": str,
    "result": dict,
    "scores": dict,
    "history": list,
}


class BadRecord(ValueError):  # noqa: N818  # named for what it is, as BadRun and BadRecipe are
    """A folder that holds no record, or one that is not what was written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """What a finished run leaves: small, committed, counts as done on any machine."""

    id: str
    """fingerprint of the recipe's identity and the prepared corpus, as in the run's name"""
    name: str
    """the recipe's"""
    recipe: dict[str, Any]
    """dotted key -> value"""
    seed: int
    corpus: str
    """fingerprint of the prepared corpus"""
    versions: dict[str, str]
    command: str
    """how to repeat it"""
    result: dict[str, Any]
    """steps, epochs, samples, tokens, seconds, best"""
    scores: dict[str, dict[str, dict[str, Any]]]
    """split -> metric -> "value" and "signature"; a value that is not finite is None"""
    statistics: dict[str, NDArray[np.float64]]
    """"test/bleu" -> (N, K); "test/nats" -> (N,); "test/length" and "test/source_length" -> (N,),
    ids of reference and source without the end symbol"""
    history: list[dict[str, Any]]
    """what was logged: every epoch, and at most about 200 intervals"""
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """name, bytes and SHA-256 of each file that the corpus was read from"""
    hypotheses: dict[str, list[str]] | None = None
    """split -> lines, and `SIDES`; beside the run, not in the record that is committed"""

    def save(self, folder: str | Path) -> None:
        """Write the record, whole or not at all, beside the scores of one that is there."""
        folder = Path(folder)
        record = self
        with contextlib.suppress(BadRecord):
            record = self._joined(Record.load(folder))
        tensors = _packed(record.statistics)
        digest = _digest(tensors)
        content = {"format": FORMAT, **{key: getattr(record, key) for key in _KEPT}}
        content |= {"inputs": record.inputs, "statistics": digest}
        storage.inside(folder.parent, folder.name)  # no link
        folder.mkdir(parents=True, exist_ok=True)
        # Under a name of its own, so that one rename takes the old record's place with both files.
        storage.replace(folder / _statistics(digest), tensors)
        storage.replace(folder / _RECORD, _document(runs.finite(content)))
        others = re.compile(rf"(?!{digest[:8]})".join(("statistics-", r"[0-9a-f]{8}\.safetensors")))
        storage.discard(folder, others)

    def _joined(self, other: Record) -> Record:
        """Return the record with another's scores of the same run where it has none itself."""
        if other.id != self.id:
            return self
        splits = dict.fromkeys((*other.scores, *self.scores))
        scores = {s: other.scores.get(s, {}) | self.scores.get(s, {}) for s in splits}
        return replace(self, scores=scores, statistics=other.statistics | self.statistics)

    @staticmethod
    def load(folder: str | Path) -> Record:
        """Read a record back; nothing of it is used before all of it is verified."""
        folder = Path(folder)
        try:
            raw = storage.read(folder / _RECORD, _LARGEST)
            content = json.loads(raw)
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise BadRecord(f"it does not have the format {FORMAT!r}")
            content.pop("sha256", None)
            if _document(content) != raw:
                raise BadRecord(f"{_RECORD} is not what was written")
            for key, kind in _KEPT.items():
                if not isinstance(content.get(key), kind):
                    raise BadRecord(f"it has no {kind.__name__} {key!r}")
            storage.identifier(content["id"])
            digest = content.get("statistics")
            if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
                raise BadRecord("it has no SHA-256 of its statistics")
            tensors = storage.read(folder / _statistics(digest), _LARGEST)
            if _digest(tensors) != digest:
                raise BadRecord(f"{_statistics(digest)} is not what was written")
            statistics = _unpacked(tensors)
        except (OSError, ValueError, KeyError, RecursionError) as error:
            reason = "it is not there" if isinstance(error, FileNotFoundError) else error
            raise BadRecord(f"{folder} holds no record that can be used: {reason}") from None
        inputs = content.get("inputs", [])  # older records have none
        if not isinstance(inputs, list):
            raise BadRecord(f"{folder} holds no record that can be used: its inputs are no list")
        kept = {key: content[key] for key in _KEPT}
        return Record(statistics=statistics, inputs=inputs, **kept)

    def with_hypotheses(self, folder: str | Path) -> Record:
        """Return the record with the lines that lie in a folder, if they do."""
        found = {}
        for name in (*SPLITS, *SIDES):
            with contextlib.suppress(OSError, ValueError):  # not there, a link, not text
                content = storage.read(Path(folder) / f"{name}.txt", _LARGEST)
                found[name] = content.decode("utf-8").split("\n")[:-1]
        return replace(self, hypotheses=found or None)


def save_hypotheses(folder: str | Path, hypotheses: Mapping[str, list[str]]) -> None:
    """Write what a run generated, a file per split, and `SIDES`, a line per sentence."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in hypotheses.items():
        storage.replace(folder / f"{name}.txt", "".join(f"{line}\n" for line in lines).encode())


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One cell's run of a trial."""

    corpus: str
    """label of the recipe"""
    method: str
    seed: int
    record: Record | None
    """None: not done yet, or failed"""
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a report is made of."""

    plan: Plan
    entries: list[Entry]
    sources: dict[str, list[str]]
    """label of the recipe -> lines of the test set"""
    references: dict[str, list[str]]
    chosen: dict[str, dict[str, Any]]
    """method -> label of the recipe -> what was chosen on the validation set: "values" (dotted key
    -> value), "score", "metric", "seed", and "tried", a list of {"values", "score", "failure",
    "seconds"}; methods without knobs to tune are not here"""
    command: str = ""
    """how to repeat all of it"""
    notes: tuple[str, ...] = ()
    """what a reader has to know of where the runs come from"""

    @property
    def complete(self) -> bool:
        """Whether every run of the plan has left its record."""
        return all(entry.record is not None for entry in self.entries)


def _packed(statistics: Mapping[str, NDArray[np.float64]]) -> bytes:
    from safetensors import numpy as safetensors

    return safetensors.save({name: _narrow(table) for name, table in statistics.items()})


def _unpacked(content: bytes) -> dict[str, NDArray[np.float64]]:
    from safetensors import SafetensorError
    from safetensors import numpy as safetensors

    try:
        tables = safetensors.load(content)
    except (SafetensorError, AssertionError, TypeError) as error:
        raise BadRecord(f"the statistics cannot be read ({error})") from None
    return {name: table.astype(np.float64) for name, table in sorted(tables.items())}


def _narrow(table: NDArray[np.float64]) -> NDArray[Any]:
    """Return the same numbers in as few bytes as hold them exactly."""
    for kind in _COUNTS:
        # Outside the type's range a cast is undefined, and nan is in no range.
        if bool(((table >= 0) & (table <= np.iinfo(kind).max)).all()):
            narrow = table.astype(kind)
            if bool((narrow == table).all()):
                return np.ascontiguousarray(narrow)
    return np.ascontiguousarray(table)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _document(content: Mapping[str, Any]) -> bytes:
    """Write a table as JSON that ends with the SHA-256 of the rest; a line per key, for diffs."""
    whole = {**content, "sha256": _digest(json.dumps(content, allow_nan=False).encode())}
    lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in whole.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _statistics(digest: str) -> str:
    return f"statistics-{digest[:8]}.safetensors"
