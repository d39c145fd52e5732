"""A plan to the runs that it takes: recipes resolved, corpora prepared, records looked up."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from augless import corpora, data, recipes, runs, storage, text
from augless.errors import BAD_DATA, Failure
from augless.trials import facts, searching
from augless.trials.facts import Values
from augless.trials.plans import BadPlan, Plan
from augless.trials.records import BadRecord, Record
from augless.trials.spelling import written

if TYPE_CHECKING:  # brings torch, which help does without
    from augless.recipes import Resolved
    from augless.recipes.following import Recipe

Purpose = Literal["tune", "final"]
Progress = Callable[[str, int, int | None], None]

_PATIENCE = 5.0  # seconds; processes of a trial that was killed are gone by then


@dataclass(frozen=True)
class Job:
    """One run of a trial."""

    corpus: str
    method: str
    seed: int
    purpose: Purpose
    recipe: str
    overrides: tuple[str, ...]
    tried: tuple[str, ...] = ()
    """those of the overrides that tuning chooses among"""

    @property
    def splits(self) -> tuple[str, ...]:
        """What is decoded: the test set by final runs only."""
        return ("valid",) if self.purpose == "tune" else ("valid", "test")

    @property
    def command(self) -> str:
        """How to repeat the run."""
        return shlex.join(["augless", "train", self.recipe, *self.overrides])


@dataclass(frozen=True)
class Layout:
    """Where a trial keeps what; no part of it below its root may be a link."""

    root: Path
    committed: Path | None = None
    """a second folder of records, which is only read"""

    @property
    def prepared(self) -> Path:
        """Prepared corpora."""
        return storage.inside(self.root, "prepared")

    @property
    def corpora(self) -> Path:
        """Which corpora were prepared, by where they came from."""
        return storage.inside(self.root, "corpora.json")

    @property
    def search(self) -> Path:
        """What Optuna proposed."""
        return storage.inside(self.root, "search.sqlite")

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return storage.inside(self.root, "runs", name)

    def record(self, identifier: str) -> Path:
        """The record of a run, which outlives it."""
        return storage.inside(self.root, "records", identifier)

    def hypotheses(self, identifier: str) -> Path:
        """What a run generated."""
        return storage.inside(self.root, "hypotheses", identifier)

    def failure(self, identifier: str, splits: tuple[str, ...]) -> Path:
        """Why a run failed, for as long as it is not tried again."""
        return storage.inside(self.root, "failures", f"{identifier}-{'-'.join(splits)}.json")

    @property
    def plan(self) -> Path:
        """The plan, as it was followed last; its first line is the command."""
        return storage.inside(self.root, "plan.toml")

    def log(self, identifier: str) -> Path:
        """What the process of a run printed."""
        return storage.inside(self.root, "logs", f"{identifier}.log")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder: two trials at once would take each other's runs for failures."""
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root, os.O_RDONLY)
        patience = time.monotonic() + _PATIENCE
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > patience:
                        raise runs.Busy(
                            f"{self.root} is in use by another trial\n"
                            "wait until it is done, or keep this one elsewhere: --out FOLDER"
                        ) from None
                    time.sleep(0.05)
                except OSError:  # some file systems of networks lock no folders
                    break
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # if nothing came of it, nothing is in there
                    self.root.rmdir()
        finally:
            os.close(descriptor)

    def records(self) -> list[Path]:
        """List the folders that may hold records."""
        roots = (self.root / "records", self.committed)
        folders = (root.iterdir() for root in roots if root is not None and root.is_dir())
        return sorted(p for entries in folders for p in entries if not p.name.startswith("."))

    def find(self, identifier: str) -> list[Path]:
        """List where the record of a run may be."""
        roots = (self.root / "records", self.committed)
        return [root / identifier for root in roots if root is not None]


def settled(resolved: Resolved[Recipe]) -> dict[str, Any]:
    """Return what decides a run, but for where on this machine its files lie."""
    from augless.recipes import following

    away = {f"corpus.{name}" for name in located(resolved.recipe.corpus)}
    free = (*following.FREE, *away)
    return {key: value for key, value in resolved.values.items() if key not in free}


def same(record: Mapping[str, Any], resolved: Resolved[Recipe]) -> bool:
    """Tell whether a record's recipe is this one; knobs that it does not know had their default."""
    from augless.recipes.reading import changed

    wanted, said = settled(resolved), changed(resolved.recipe)
    known = {key: value for key, value in wanted.items() if key in record}
    return record == known and not said & (wanted.keys() - known.keys())


def located(corpus: corpora.Corpus) -> list[str]:
    """List the knobs of a corpus that say where files are."""
    found = []
    for knob in dataclasses.fields(corpus):
        value = getattr(corpus, knob.name)
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(part, Path) for part in parts):
            found.append(knob.name)
    return found


def portable(job: Job, resolved: Resolved[Recipe]) -> str:
    """Return the command that repeats a run, without paths of this machine."""
    away = {f"corpus.{name}": name for name in located(resolved.recipe.corpus)}
    shown = []
    for override in job.overrides:
        key = override.partition("=")[0]
        if key in away:
            override = f"{key}={'FOLDER' if away[key] == 'path' else 'FILES'}"
        shown.append(override)
    return dataclasses.replace(job, overrides=tuple(shown)).command


def lines(corpus: corpora.Corpus, split: str) -> tuple[list[str], list[str]]:
    """Return sources and references of a split: the pairs that preparing keeps."""
    pairs = [
        pair
        for pair in corpus.pairs(split)
        if text.normalise(pair.source) and text.normalise(pair.target)
    ]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


class Book:
    """A plan with what is known of its runs: recipes, prepared corpora, records, failures."""

    def __init__(
        self,
        plan: Plan,
        layout: Layout,
        *,
        workers: int,
        progress: Progress,
        retry: bool = False,
    ) -> None:
        self.plan, self.layout, self.retry = plan, layout, retry
        self.workers, self.progress = workers, progress
        self.failed: set[tuple[str, tuple[str, ...]]] = set()
        """(identifier, splits) of runs that failed since; with `retry` no earlier failure counts"""
        self._resolved: dict[tuple[str, tuple[str, ...]], Resolved[Recipe]] = {}
        self._prepared: dict[str, data.Prepared | corpora.BadData] = {}
        self._identifiers: dict[tuple[str, tuple[str, ...]], str | None] = {}
        self._records: dict[tuple[str, tuple[str, ...]], Record | None] = {}
        self._all: list[Record] | None = None
        self._stand_ins: dict[str, list[str]] = {}
        """label of an absent corpus -> checksums of the files that its records are of"""
        self._searches: dict[tuple[str, str], searching.Search] = {}

    def check(self) -> None:
        """Resolve every run that is known by now; raise the first mistake."""
        for corpus in self.plan.recipes:
            entries = self.plan.methods.items()
            # A control repeats the mistakes of what it matches: those first.
            for method, entry in sorted(entries, key=lambda pair: pair[1].matches is not None):
                if self.plan.searched(method):
                    self._search(corpus, method)  # needs Optuna
                points = self.plan.points(entry.matches or method) or [{}]
                for point in points:
                    with _blaming(f"{method} on {corpus}"):
                        self.resolved(self.job(corpus, method, self.plan.seeds[0], point))

    def prepare(self) -> None:
        """Prepare every corpus; raise what is wrong if none can be used and no record stands in."""
        jobs = self.jobs()
        errors = [self.prepared(job) for job in jobs]
        bad = [error for error in errors if isinstance(error, corpora.BadData)]
        if len(bad) == len(jobs) and not any(self.record(job) for job in jobs):
            raise bad[0]

    def job(
        self,
        corpus: str,
        method: str,
        seed: int,
        point: Mapping[str, Any],
        purpose: Purpose = "final",
    ) -> Job:
        """Return the run of a method with what was chosen for it."""
        plan, entry, base = self.plan, self.plan.methods[method], self.plan.recipes[corpus]
        overrides = [*written(plan.overrides), *written(base.overrides)]
        if entry.matches is not None:
            overrides += written(plan.methods[entry.matches].overrides) + written(point)
            model = Job(corpus, entry.matches, seed, purpose, base.recipe, tuple(overrides))
            overrides += written(_controls(self.resolved(model)))
            overrides += written(entry.overrides)
        else:
            overrides += written(entry.overrides) + written(point)
        overrides += written({"seed": seed})
        tried = tuple(written(point))
        return Job(corpus, method, seed, purpose, base.recipe, tuple(overrides), tried)

    def jobs(self) -> list[Job]:
        """List the runs that can be done by now: what waits for tuning is not there yet."""
        found = []
        tuned: set[tuple[str, str]] = set()
        for corpus in self.plan.recipes:
            for method, entry in self.plan.methods.items():
                source = entry.matches or method
                if source in self.plan.tune:
                    if (corpus, source) not in tuned:
                        tuned.add((corpus, source))
                        found += self.tuning(corpus, source)
                    choice = self.choice(corpus, source)
                    if choice is None or choice.best is None:
                        continue
                    point = choice.best.values
                else:
                    point = {}
                found += [self.job(corpus, method, seed, point) for seed in self.plan.seeds]
        return sorted(found, key=lambda job: job.purpose != "tune")

    def tuning(self, corpus: str, method: str) -> list[Job]:
        """List the runs that a choice on the validation set takes, those that are known by now."""
        return [self._try(corpus, method, point) for point in self.points(corpus, method)]

    def points(self, corpus: str, method: str) -> list[Values]:
        """List the combinations to try; a search knows its last ones by the scores of the first."""
        if not self.plan.searched(method):
            return self.plan.points(method)
        search = self._search(corpus, method)
        return search.points(lambda point: self._outcome(corpus, method, point))

    def _search(self, corpus: str, method: str) -> searching.Search:
        key = (corpus, method)
        if key not in self._searches:
            file = self.layout.search
            self._searches[key] = searching.Search(self.plan, corpus, method, file)
        return self._searches[key]

    def _try(self, corpus: str, method: str, point: Values) -> Job:
        return self.job(corpus, method, self.plan.tuning_seed, point, "tune")

    def _outcome(self, corpus: str, method: str, point: Values) -> facts.Attempt | None:
        """Return what came of a combination; None while that is not known."""
        job = self._try(corpus, method, point)
        record, failure = self.record(job), self.failure(job)
        if record is None and failure is None:
            return None
        score = record.value("valid", self.plan.metric) if record else None
        seconds = record.result.seconds if record else None
        return facts.Attempt(values=point, score=score, failure=failure, seconds=seconds)

    def choice(self, corpus: str, method: str) -> facts.Choice | None:
        """Return what was best on the validation set; None while that is not known.

        Of equals the first wins. A combination whose run failed is passed over; with every one
        failed there is no best one.
        """
        from augless import metrics

        points = self.points(corpus, method)
        outcomes = (self._outcome(corpus, method, point) for point in points)
        tried = [outcome for outcome in outcomes if outcome is not None]
        if len(tried) < self.plan.budget:
            return None
        sign = 1 if metrics.METRICS[self.plan.metric].higher_is_better else -1
        done = [(sign * one.score, one) for one in tried if one.score is not None]
        best = max(done, key=lambda pair: pair[0], default=(0.0, None))[1]
        return facts.Choice(
            best=best, metric=self.plan.metric, seed=self.plan.tuning_seed, tried=tuple(tried)
        )

    def resolved(self, job: Job) -> Resolved[Recipe]:
        """Return a run's recipe."""
        key = (job.recipe, job.overrides)
        if key not in self._resolved:
            self._resolved[key] = recipes.load(job.recipe, job.overrides)
        return self._resolved[key]

    def prepared(self, job: Job) -> data.Prepared | corpora.BadData:
        """Return a run's corpus, prepared once for all runs on it, or why it cannot be."""
        resolved, key = self.resolved(job), self._source(job)
        if key not in self._prepared:
            recipe = resolved.recipe
            try:
                self._prepared[key] = data.prepare(
                    recipe.corpus,
                    recipe.text,
                    self.layout.prepared,
                    name=resolved.name,
                    workers=self.workers,
                    progress=self.progress,
                )
            except corpora.BadData as error:
                self._prepared[key] = error
        return self._prepared[key]

    def _source(self, job: Job) -> str:
        """Return what says where a run's corpus is and how it is prepared."""
        values = self.resolved(job).values
        parts = {k: v for k, v in values.items() if k.split(".")[0] in ("corpus", "text")}
        return json.dumps(parts, sort_keys=True)

    def identifier(self, job: Job) -> str | None:
        """Return what a run is called; None where nobody knows its corpus."""
        from augless.recipes import following

        key = (job.recipe, job.overrides)
        if key not in self._identifiers:
            prepared = self.prepared(job)
            if not isinstance(prepared, corpora.BadData):
                fingerprint: str | None = prepared.fingerprint
            else:
                fingerprint = self._remembered(job) if self.gone(job) else None
            self._identifiers[key] = fingerprint and following.run_name(
                self.resolved(job), fingerprint
            )
        return self._identifiers[key]

    def remember(self) -> None:
        """Keep what this trial was done with, for reports: records, and which corpora they are of.

        So that a page can be made again when corpora or the folder of others' records are gone.
        """
        known = self._corpora()
        for job in self.jobs():
            prepared, record = self.prepared(job), self.record(job)
            if not isinstance(prepared, corpora.BadData):
                known[self._source(job)] = prepared.fingerprint
            if record is not None and not self.layout.record(record.id).exists():
                record.save(self.layout.record(record.id))
        content = json.dumps(known, indent=1, sort_keys=True)
        storage.replace(self.layout.corpora, content.encode())

    def _corpora(self) -> dict[str, str]:
        try:
            return facts.parsed(dict[str, str], storage.read(self.layout.corpora, 1 << 26))
        except (OSError, ValueError):
            return {}

    def _remembered(self, job: Job) -> str | None:
        """Return the fingerprint that a corpus had when it was prepared here last."""
        return self._corpora().get(self._source(job))

    def record(self, job: Job) -> Record | None:
        """Return what the run left, if it is done: here, or on whatever machine."""
        identifier = self.identifier(job)
        key = (identifier or job.command, job.splits)
        if key not in self._records:
            if identifier is not None:
                found = self._named(job, identifier)
            else:
                found = self._alike(job) if self.absent(job) else None
            self._records[key] = found
        return self._records[key]

    def gone(self, job: Job) -> bool:
        """Tell whether files of a run's corpus are missing."""
        there = self._there(job)
        return bool(there) and not all(there)

    def absent(self, job: Job) -> bool:
        """Tell whether a run's corpus is a public one that is not on this machine.

        Somebody's own files have no name: if they are not where they should be, any may be meant.
        """
        if isinstance(self.resolved(job).recipe.corpus, corpora.Files):
            return False
        there = self._there(job)
        return bool(there) and not any(there)

    def _there(self, job: Job) -> list[bool]:
        """Tell of each file of a run's corpus whether it exists."""
        try:
            return [path.exists() for path in self.resolved(job).recipe.corpus.inputs()]
        except corpora.BadData:  # such as two forms of a file: it is there
            return []

    def refresh(self, identifier: str) -> None:
        """Look for a run's record again, as it may have left one by now."""
        for key in [key for key in self._records if key[0] == identifier]:
            del self._records[key]

    def _named(self, job: Job, identifier: str) -> Record | None:
        for folder in self.layout.find(identifier):
            with contextlib.suppress(BadRecord):
                found = Record.load(folder)
                if found.id == identifier and _covers(found, job, self.plan.metrics):
                    return found.with_hypotheses(self.layout.hypotheses(identifier))
        return None

    def _alike(self, job: Job) -> Record | None:
        """Find a record by its recipe alone: the corpus is not on this machine."""
        if self._all is None:
            self._all = []
            for folder in self.layout.records():
                with contextlib.suppress(BadRecord):
                    self._all.append(Record.load(folder))
        resolved = self.resolved(job)
        for record in self._all:
            # All of a corpus' runs must have had the same files.
            files = sorted(file.sha256 for file in record.inputs) or [record.corpus]
            fit = self._stand_ins.get(job.corpus, files) == files
            if fit and same(record.recipe, resolved) and _covers(record, job, self.plan.metrics):
                self._stand_ins[job.corpus] = files
                return record.with_hypotheses(self.layout.hypotheses(record.id))
        return None

    def failure(self, job: Job) -> Failure | None:
        """Return why the run failed, if it did."""
        prepared = self.prepared(job)
        if isinstance(prepared, corpora.BadData):
            why = " ".join(str(prepared).split())
            return Failure(BAD_DATA, why) if self.record(job) is None else None
        identifier = self.identifier(job) or ""
        if self.retry and (identifier, job.splits) not in self.failed:
            return None
        with contextlib.suppress(OSError, ValueError):
            content = storage.read(self.layout.failure(identifier, job.splits), 1 << 16)
            return facts.parsed(Failure, content)
        return None

    def fail(self, identifier: str, splits: tuple[str, ...], why: Failure) -> None:
        """Take note of why a run failed, for reports too."""
        path = self.layout.failure(identifier, splits)
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.replace(path, json.dumps(dataclasses.asdict(why)).encode())
        self.failed.add((identifier, splits))


def _covers(record: Record, job: Job, names: Iterable[str]) -> bool:
    return all(name in record.scores.get(split, {}) for split in job.splits for name in names)


def _controls(resolved: Resolved[Recipe]) -> dict[str, Any]:
    """Return overrides that give every sample the mean weight that a recipe would have given."""
    found = {}
    for i in range(len(resolved.recipe.terms)):
        prefix = f"terms.{i}.weighting."
        knobs = {
            key.removeprefix(prefix): value
            for key, value in resolved.values.items()
            if key.startswith(prefix) and value is not None
        }
        if knobs["name"] != "plain":
            found[prefix.removesuffix(".")] = {"name": "matched", "of": knobs}
    if not found:
        raise BadPlan("a control needs a weighting to match, and there are only plain ones")
    return found


@contextlib.contextmanager
def _blaming(what: str) -> Any:
    try:
        yield
    except recipes.BadRecipe as error:
        raise BadPlan(f"{what}: {error}") from None
