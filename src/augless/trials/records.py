"""What runs leave behind, small enough to commit, and what a trial makes of them.

::

    record.json                        all but the statistics, with a SHA-256 of itself and of them
    statistics-1f2e3d4c.safetensors.gz a table per metric, a row per sentence
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pydantic
from numpy.typing import NDArray

from augless import metrics, runs, schemas, storage
from augless.errors import Failure
from augless.trials import facts
from augless.trials.layout import Layout
from augless.trials.spelling import shortened

if TYPE_CHECKING:
    from augless.trials.plans import Plan

FORMAT = "augless record 1"
SPLITS = ("valid", "test")
TEST_LINES = ("test.source", "test.reference")
"""files beside the hypotheses: what they were made of, and should have been"""

_RECORD = "record.json"
_LARGEST = 1 << 28  # bytes of a file; nothing of ours comes near
# Most statistics are counts, and nats of a float32 model are float32: type, largest value.
_NARROW = ((np.uint8, 2**8 - 1), (np.uint16, 2**16 - 1), (np.uint32, 2**32 - 1), (np.float32, 1e38))


class BadRecord(ValueError):  # noqa: N818  # named for what it is, as BadRun and BadRecipe are
    """A folder that holds no record, or one that is not what was written."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What record.json says."""

    id: Annotated[str, pydantic.AfterValidator(storage.identifier)]
    """fingerprint of the recipe's identity and the prepared corpus, as in the run's name"""
    name: str
    """the recipe's"""
    recipe: dict[str, pydantic.JsonValue]
    """dotted key -> value"""
    seed: schemas.Count
    corpus: str
    """fingerprint of the prepared corpus"""
    versions: dict[str, str]
    command: str
    """how to repeat it"""
    result: runs.Outcome
    scores: facts.Scores
    history: tuple[runs.Logged, ...]
    """what was logged: every epoch, and at most about 200 intervals"""
    inputs: tuple[facts.Input, ...] = ()
    """files that the corpus was read from; older records have none"""
    fault: str = ""
    """what is wrong with its outputs as a whole, in words: those of the test set, or, of a run that
    tuning tried, of the validation set; see `fault_of`"""
    unrelated: str = ""
    """that its outputs have nothing to do with their references, in words, where that is so"""

    @functools.cached_property
    def terms(self) -> tuple[facts.Term, ...]:
        """The objective."""
        return facts.terms_of(self.recipe)

    @property
    def augmenter(self) -> facts.Component | None:
        """What made pairs that it was trained on too."""
        return facts.component(self.recipe, "augment")

    @property
    def chosen_by(self) -> str | None:
        """The metric that its model was chosen by, on the validation set."""
        metric = self.recipe.get("training.metric")
        return None if metric is None else str(metric)

    @property
    def files(self) -> list[str]:
        """Fingerprints of the input files; of the corpus, where these are not known."""
        return sorted(file.sha256 for file in self.inputs) or [self.corpus]

    @property
    def epochs(self) -> list[runs.Logged]:
        """What was logged after epochs."""
        return [entry for entry in self.history if entry.kind == "epoch"]

    @property
    def unweighted(self) -> dict[str, pydantic.JsonValue]:
        """The recipe without its seed and its terms."""
        return {k: v for k, v in self.recipe.items() if k != "seed" and not k.startswith("terms.")}

    @property
    def weighted_term(self) -> int | None:
        """Which term of the objective weighs its samples, the first if several do."""
        return next((place for place, term in enumerate(self.terms) if term.weighs), None)

    def value(self, split: str, metric: str) -> float | None:
        """Return a score, None if there is none or it is not finite."""
        score = self.scores.get(split, {}).get(metric)
        return score.value if score else None

    def signature(self, split: str, metric: str) -> str:
        """Return how a split was scored; nothing if it was not."""
        score = self.scores.get(split, {}).get(metric)
        return score.signature if score else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Record(Facts):
    """What a finished run leaves: small, committed, counts as done on any machine."""

    statistics: dict[str, NDArray[np.float64]]
    """"test/bleu" -> (N, K); "test/nats" -> (N,); "test/length" and "test/source_length" -> (N,),
    ids of reference and source without the end symbol; of the validation set "valid/nats" alone; a
    table that is not finite is left out"""
    hypotheses: dict[str, list[str]] | None = None
    """split -> lines, and `TEST_LINES`; beside the run, not in the record that is committed"""

    def table(self, split: str, name: str) -> NDArray[np.float64] | None:
        """Return the statistics of a split, such as those of a metric, if they are there."""
        return self.statistics.get(f"{split}/{name}")

    def save(self, folder: str | Path) -> None:
        """Write the record, whole or not at all, beside the scores of one that is there."""
        folder = Path(folder)
        record = self
        with contextlib.suppress(BadRecord):
            record = self._joined(Record.load(folder))
        tensors = packed(record.statistics)
        digest = storage.digest(tensors)
        plain = pydantic.TypeAdapter(Facts).dump_python(record)
        plain["history"] = [*map(schemas.written, record.history)]
        content = {"format": FORMAT, **plain, "statistics": digest}
        storage.inside(folder.parent, folder.name)  # no link
        folder.mkdir(parents=True, exist_ok=True)
        # Under a name of its own, so that one rename takes the old record's place with both files.
        storage.replace(folder / _statistics(digest), tensors)
        storage.replace(folder / _RECORD, document(schemas.finite(content)))
        others = rf"statistics-(?!{digest[:8]})[0-9a-f]{{8}}\.safetensors\.gz"
        storage.discard(folder, re.compile(others))

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
            digest = storage.parse(raw, FORMAT, document).get("statistics")
            if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
                raise BadRecord("it has no SHA-256 of its statistics")
            said = schemas.parsed(Facts, raw)
            tensors = storage.read(folder / _statistics(digest), _LARGEST)
            if storage.digest(tensors) != digest:
                raise BadRecord(f"{_statistics(digest)} is not what was written")
            statistics = _checked(_unpacked(tensors), said.scores)
        except (OSError, ValueError) as error:
            reason = "it is not there" if isinstance(error, FileNotFoundError) else error
            raise BadRecord(f"{folder} holds no record that can be used: {reason}") from None
        return Record(**vars(said), statistics=statistics)

    def with_hypotheses(self, folder: str | Path) -> Record:
        """Return the record with the lines that lie in a folder, if they do."""
        lines = {}
        for name in (*SPLITS, *TEST_LINES):
            with contextlib.suppress(OSError, ValueError):  # not there, a link, not text
                content = storage.read(Path(folder) / f"{name}.txt", _LARGEST)
                lines[name] = content.decode("utf-8").split("\n")[:-1]
        return replace(self, hypotheses=lines or None)


class Records:
    """The records that a trial can use, by the identifiers of their runs; each is read once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, Record | None] = {}
        self.refused: dict[str, str] = {}
        """folder -> why it holds no record that can be used"""

    def of(self, identifier: str | None) -> Record | None:
        """Return the record of a run, whatever it has scores of; None if there is none."""
        if identifier is None:
            return None
        if identifier not in self._known:
            loaded = (self._load(root / identifier) for root in self._layout.records)
            record = next((one for one in loaded if one and one.id == identifier), None)
            where = self._layout.hypotheses(identifier)
            self._known[identifier] = record and record.with_hypotheses(where)
        return self._known[identifier]

    def forget(self, identifier: str | None) -> None:
        """Look for a record again when it is asked for: its run has just been scored."""
        self._known.pop(identifier or "", None)

    @functools.cached_property
    def everything(self) -> list[Record]:
        """All records, whatever they are of."""
        folders = (root.glob("[!.]*") for root in self._layout.records)
        loaded = map(self._load, sorted(path for paths in folders for path in paths))
        return [record for record in loaded if record is not None]

    def _load(self, folder: Path) -> Record | None:
        try:
            return Record.load(folder)
        except BadRecord as error:
            if folder.exists():
                self.refused[str(folder)] = str(error)
            return None


def fault_of(
    record: Record, metric: str, sources: Sequence[str] = (), references: Sequence[str] = ()
) -> str:
    """Say what is wrong with the outputs of a run on the test set; nothing if they are fine.

    Looks at the outputs where they are at hand, else at what the record says of them. Outputs that
    have nothing to do with their references matter to metrics that compare the two.
    """
    compares = metrics.METRICS[metric]().needs_references
    kept = record.hypotheses or {}
    outputs = kept.get("test", [])
    sources = kept.get("test.source") or sources
    references = kept.get("test.reference") or references
    if not outputs or len(outputs) != len(references):
        return record.fault or (record.unrelated if compares else "")
    fault = metrics.degenerate(outputs, references, sources)
    unrelated = metrics.unrelated(outputs, references, sources) if compares else None
    return str(fault or unrelated or "")


def save_hypotheses(folder: str | Path, hypotheses: Mapping[str, list[str]]) -> None:
    """Write what a run generated, a file per split, and `TEST_LINES`, a line per sentence."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in hypotheses.items():
        storage.replace(folder / f"{name}.txt", "".join(f"{line}\n" for line in lines).encode())


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A final run of a trial."""

    corpus: str
    """label of the recipe"""
    method: str
    seed: int
    record: Record | None
    """None: not done yet, or failed"""
    failure: Failure | None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a report is made of."""

    plan: Plan
    entries: list[Entry]
    sources: dict[str, list[str]]
    """label of the recipe -> lines of the test set"""
    references: dict[str, list[str]]
    chosen: dict[str, dict[str, facts.Choice]]
    """method -> label of the recipe -> what was chosen on the validation set; methods without
    hyper-parameters to tune are not here"""
    costs: dict[str, dict[str, facts.Cost]] = field(default_factory=dict)
    """method -> label of the recipe -> what its runs took, with all that they need"""
    command: str = ""
    """how to repeat all of it"""
    notes: tuple[str, ...] = ()
    """sentences: what a reader has to know of where the runs come from"""

    @property
    def complete(self) -> bool:
        """Whether every run of the plan has left its record."""
        return all(entry.record is not None for entry in self.entries)

    @property
    def failures(self) -> list[Failure]:
        """Why runs have no result: those of the plan, and those that tuning tried."""
        choices = (choice for of in self.chosen.values() for choice in of.values())
        tuning = [attempt.failure for choice in choices for attempt in choice.failed]
        return [why for why in (*tuning, *(e.failure for e in self.entries)) if why is not None]

    def tuning_failures(self, method: str, corpus: str) -> list[str]:
        """Say which combinations could not be chosen for a method because a run failed."""
        choice = self.chosen.get(self.plan.source(method), {}).get(corpus)
        return [
            f"tuning with {shortened(attempt.values)}: {attempt.failure}"
            for attempt in (choice.failed if choice else ())
        ]

    @property
    def selection(self) -> tuple[str, ...]:
        """How hyper-parameters and each run's model were selected."""
        tuned = (f"Hyper-parameters were chosen by {self.plan.chooses_by}.",)
        records = (entry.record for entry in self.entries if entry.record)
        known = " or ".join(sorted({record.chosen_by for record in records if record.chosen_by}))
        models = (f"The model of each run was chosen by {known} on the validation set.",)
        return (tuned if self.plan.tune else ()) + (models if known else ())


def packed(statistics: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Return statistics as a file has them."""
    from safetensors import numpy as safetensors

    tables = {name: _narrow(table) for name, table in statistics.items()}
    return gzip.compress(safetensors.save(tables), mtime=0)


def _unpacked(content: bytes) -> dict[str, NDArray[np.float64]]:
    from safetensors import SafetensorError
    from safetensors import numpy as safetensors

    try:
        with gzip.open(io.BytesIO(content)) as file:
            plain = file.read(_LARGEST + 1)
        if len(plain) > _LARGEST:
            raise BadRecord("the statistics are too large")
        tables = safetensors.load(plain)
    except (SafetensorError, AssertionError, TypeError, EOFError, OSError, zlib.error) as error:
        raise BadRecord(f"the statistics cannot be read ({error})") from None
    return {name: table.astype(np.float64) for name, table in sorted(tables.items())}


def _checked(
    tables: dict[str, NDArray[np.float64]], scores: facts.Scores
) -> dict[str, NDArray[np.float64]]:
    """Refuse tables of other shapes than what is said of them; leave out what is not finite."""
    rows: dict[str, set[int]] = {}
    for name, table in tables.items():
        split, _, what = name.partition("/")
        if table.ndim not in (1, 2) or not table.size:
            raise BadRecord(f"the statistics {name[:80]!r} are of no sentences")
        rows.setdefault(split, set()).add(len(table))
        scored = what in scores.get(split, {}) and what in metrics.METRICS
        if scored and (table.ndim != 2 or table.shape[1] != _width(what)):
            raise BadRecord(f"the statistics of {what} do not have its shape")
    if uneven := [split for split, sizes in rows.items() if len(sizes) > 1]:
        raise BadRecord(f"the statistics of {uneven[0][:80]!r} are not all of as many sentences")
    # All are counts or nats; cross-entropies of nearly 0 may be rounded to less.
    fine = {name: ((t >= -1e-6) & (t <= schemas.LARGEST**3)).all() for name, t in tables.items()}
    return {name: table for name, table in tables.items() if fine[name]}


@functools.cache
def _width(metric: str) -> int:
    """Return how many statistics a metric has of a sentence."""
    some: list[str] = ["a"]
    one = np.ones(1)
    return int(metrics.score(metric, some, some, nats=one, tokens=one).statistics.shape[1])


def _narrow(table: NDArray[np.float64]) -> NDArray[Any]:
    """Return the same numbers in as few bytes as hold them exactly."""
    for kind, largest in _NARROW:
        # Outside the type's range a cast is undefined, and nan is in no range.
        if bool(((table >= 0) & (table <= largest)).all()):
            narrow: NDArray[Any] = table.astype(kind)
            if bool((narrow == table).all()):
                return np.ascontiguousarray(narrow)
    return np.ascontiguousarray(table)


def document(content: Mapping[str, Any]) -> bytes:
    """Write a table as JSON that ends with the SHA-256 of the rest; a line per key, for diffs."""
    whole = {**content, "sha256": storage.digest(json.dumps(content, allow_nan=False).encode())}
    lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in whole.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _statistics(digest: str) -> str:
    return f"statistics-{digest[:8]}.safetensors.gz"
