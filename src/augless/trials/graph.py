"""Jobs and what they need: a plan is a graph of them, of which more is known as scores come in.

A job says its kind of work and which jobs have to be done before: a run is scored after it was
trained, trained after its corpus was prepared, and a method with hyper-parameters to choose needs
the runs that tried them. What a job is called follows from its content, so that work which was done
before, here or elsewhere, is recognised, and two methods that come to the same run share it.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from augless import corpora, recipes
from augless.recipes.reading import toml_value
from augless.trials import facts
from augless.trials.facts import Choice, Cost, Spent, Values
from augless.trials.keys import BadPlan
from augless.trials.plans import Plan
from augless.trials.spelling import literal, written

if TYPE_CHECKING:  # brings torch, which help does without
    from augless.recipes import Resolved
    from augless.recipes.following import Recipe

Kind = Literal["prepare", "augment", "train", "score"]
Purpose = Literal["tune", "final"]
Resolve = Callable[[str, tuple[str, ...]], "Resolved[Recipe]"]
"""a recipe and its overrides -> what they come to; remembers, as reading takes a while"""

_FOLDER = "FOLDER"  # in place of a path
_CORPUS = ("corpus", "text")  # the part of a recipe that decides the prepared corpus


@dataclass(frozen=True)
class Job:
    """A piece of work, and what has to be done before it."""

    kind: Kind
    corpus: str
    """label of the recipe"""
    recipe: str
    overrides: tuple[str, ...]
    method: str = ""
    seed: int = 0
    purpose: Purpose = "final"
    tried: tuple[str, ...] = ()
    """those of the overrides that tuning chooses among"""
    needs: tuple[Job, ...] = field(default=(), repr=False)
    need: str = ""
    """the model that it is about, by the name that the recipe's augmenter gives it: one that has to
    be trained before pairs can be made; nothing where it is about the recipe itself"""

    @property
    def splits(self) -> tuple[str, ...]:
        """What is decoded: the test set by final runs only."""
        return ("valid",) if self.purpose == "tune" else ("valid", "test")

    @property
    def command(self) -> str:
        """How to repeat the run."""
        return shlex.join(["augless", "train", self.recipe, *self.overrides])

    @property
    def blocking(self) -> Iterator[Job]:
        """What it needs and cannot do without; without a run that tuning tried, others do."""
        passed_over: tuple[Purpose, ...] = ("tune",) if self.purpose == "final" else ()
        return (need for need in self.needs if need.purpose not in passed_over)

    @property
    def trained(self) -> Job:
        """The job that trains the run which this one scores; any other job itself."""
        trains = (need for need in self.needs if need.kind == "train")
        return next(trains, self) if self.kind == "score" else self

    def all_needs(self) -> Iterator[Job]:
        """Yield all that has to be done before it, what is needed first."""
        for need in self.needs:
            yield from need.all_needs()
            yield need


def run(
    plan: Plan,
    resolve: Resolve,
    corpus: str,
    method: str,
    seed: int,
    point: Mapping[str, Any],
    purpose: Purpose = "final",
    before: Iterable[Job] = (),
) -> Job:
    """Return the job that scores a run of a method with what was chosen for it, and its needs."""
    entry, base = plan.methods[method], plan.recipes[corpus]
    overrides = [*written(plan.overrides), *written(base.overrides)]
    if entry.matches is not None:
        overrides += written(plan.methods[entry.matches].overrides) + written(point)
        overrides += written(_controls(resolve(base.recipe, tuple(overrides)), entry.kind))
        overrides += written(entry.overrides)
    else:
        overrides += written(entry.overrides) + written(point)
    overrides += written({"seed": seed})
    which = tuple(one for one in overrides if _part(one) in _CORPUS)
    prepare = Job("prepare", corpus, base.recipe, which, purpose=purpose)
    made = _augment(resolve, prepare, tuple(overrides), method, seed)
    train = Job(
        kind="train",
        corpus=corpus,
        recipe=base.recipe,
        overrides=tuple(overrides),
        method=method,
        seed=seed,
        purpose=purpose,
        tried=tuple(written(point)),
        needs=(prepare, *made, *before),
    )
    return dataclasses.replace(train, kind="score", needs=(train,))


def _augment(
    resolve: Resolve, prepare: Job, overrides: tuple[str, ...], method: str, seed: int
) -> list[Job]:
    """Return the job that makes a run's pairs, with what it needs; none if it has only its own.

    Its overrides are those that decide the texts, so that runs which differ in others share it: the
    weight of made pairs is never one, the seed only if something is drawn, and how the run is
    trained only if the reverse model is trained likewise.
    """
    from augless import augmentation
    from augless.recipes import needing

    resolved = resolve(prepare.recipe, overrides)
    augmenter = resolved.recipe.augment
    if augmenter is None:
        return []
    parts = (*_CORPUS, "augment", *(("seed",) if augmenter.seeded else ()))
    if augmentation.REVERSE not in augmenter.needs.values():
        overrides = tuple(one for one in overrides if _part(one) in parts)
    one = (*overrides, "augment.w=1.0")
    made = dataclasses.replace(
        prepare, kind="augment", overrides=one, method=method, seed=seed, needs=(prepare,)
    )
    for name in needing.needs(resolved):
        read = dataclasses.replace(prepare, overrides=one, need=name)
        train = dataclasses.replace(made, kind="train", need=name, needs=(read,))
        made = dataclasses.replace(made, needs=(*made.needs, train))
    return [made]


def _part(override: str) -> str:
    """Return which part of a recipe an override changes."""
    return override.partition("=")[0].split(".")[0]


def as_asked(job: Job, resolved: Resolved[Recipe]) -> Resolved[Recipe]:
    """Return the recipe that a job is about: that of its overrides, or of a model that needs."""
    from augless.recipes import needing

    return needing.needs(resolved)[job.need] if job.need else resolved


def tuning(plan: Plan, resolve: Resolve, corpus: str, method: str, point: Values) -> list[Job]:
    """Return the jobs that score a combination that tuning tries, one for each of its seeds."""
    seeds = plan.seeds_of_tuning
    return [run(plan, resolve, corpus, method, seed, point, "tune") for seed in seeds]


Tried = Callable[[str, str], list[Values]]
"""label of the recipe, method -> the combinations to try that are known by now"""
Chosen = Callable[[str, str], Choice | None]
"""label of the recipe, method -> what tuning chose, None while that is not known"""


def of(plan: Plan, resolve: Resolve, tried: Tried, chosen: Chosen) -> list[Job]:
    """List the runs to score that are known by now, with their needs, tuning first."""
    tunes: dict[tuple[str, str], list[Job]] = {}
    finals = []
    for corpus in plan.recipes:
        for method in plan.methods:
            source, point = plan.source(method), {}
            before: list[Job] = []
            if source in plan.tune:
                if (corpus, source) not in tunes:
                    tunes[corpus, source] = [
                        job
                        for one in tried(corpus, source)
                        for job in tuning(plan, resolve, corpus, source, one)
                    ]
                before = tunes[corpus, source]
                choice = chosen(corpus, source)
                if choice is None or choice.best is None:
                    continue
                point = choice.best.values
            finals += [
                run(plan, resolve, corpus, method, seed, point, "final", before)
                for seed in plan.seeds
            ]
    return [job for jobs in tunes.values() for job in jobs] + finals


def whole(jobs: Iterable[Job]) -> list[Job]:
    """List jobs and all that they need, what is needed first, each once."""
    return list(dict.fromkeys(one for job in jobs for one in (*job.all_needs(), job)))


Told = Callable[[Job], Mapping[str, Spent]]
"""a run -> what its own result says was done before its training, by what it was"""


def cost(
    runs: Iterable[Job],
    key: Callable[[Job], str | None],
    spent: Callable[[Job], Spent],
    told: Told = lambda job: {},
) -> Cost:
    """Add up what a method's runs took with all that they need, each piece of work once.

    `key` is what a job is called by its content, None while that is not known; `spent` is what it
    took itself. Where nothing is known of made pairs, or of the model that made them, as where
    only records are, what the run itself says of them counts.
    """
    jobs = list(runs)
    own = {key(job.trained) for job in jobs}
    elsewhere = _elsewhere(jobs, key, told)
    parts: dict[str, Spent] = {}
    counted: set[str] = set()
    for job in whole(jobs):
        name, took = elsewhere.get(job, (key(job), Spent()))
        if name is None or name in counted:
            continue
        counted.add(name)
        part: str = job.kind if job.kind in ("prepare", "augment") else "train"
        if part == "train" and job.purpose == "tune" and not job.need:
            part = "tune"
        if name in own:
            part = "own"
        known = spent(job)
        parts[part] = parts.get(part, Spent()) + (took if known == Spent() else known)
    return Cost(**parts)


def _elsewhere(
    jobs: Iterable[Job], key: Callable[[Job], str | None], told: Told
) -> dict[Job, tuple[str | None, Spent]]:
    """Return what runs say of the jobs that made their pairs: what they are called and took."""
    found: dict[Job, tuple[str | None, Spent]] = {}
    for run in whole(jobs):
        said = dict(told(run)) if run.kind == "train" else {}
        made = next((need for need in run.needs if need.kind == "augment"), None)
        if made is None or not said:
            continue
        name = key(made)
        for need in made.needs:
            if need.kind == "train":
                # A corpus turned around is not known where it was never prepared.
                called = key(need) or (name and f"{name}, {need.need}")
                found.setdefault(need, (called, said.pop(need.need, Spent())))
        # Rewriting trains nothing: its samples are none of training.
        rewriting = Spent(seconds=said.pop(facts.REWRITING, Spent()).seconds)
        found.setdefault(made, (name, sum(said.values(), rewriting)))
    return found


def check(plan: Plan, resolve: Resolve) -> None:
    """Resolve every run that is known before any score; raise the first mistake."""
    from augless import augmentation
    from augless.recipes import needing

    for corpus in plan.recipes:
        # A control repeats the mistakes of what it matches: those first.
        for method in sorted(plan.methods, key=lambda name: plan.source(name) != name):
            for point in plan.points(plan.source(method)) or [{}]:
                try:
                    job = run(plan, resolve, corpus, method, plan.seeds[0], point)
                    resolved = resolve(job.recipe, job.overrides)
                    if needing.needs(resolved):  # before these are trained
                        needing.check(resolved)
                except (recipes.BadRecipe, augmentation.BadAugmentation) as error:
                    raise BadPlan(f"{method} on {corpus}: {error}") from None


def settled(resolved: Resolved[Recipe]) -> dict[str, Any]:
    """Return what decides a run, but for where on this machine its files lie."""
    from augless.recipes import following

    away = {f"corpus.{name}" for name in located(resolved.recipe.corpus)}
    free = (*following.FREE, *away)
    return {
        key: _placeless(value) if key.startswith("augment.") else value
        for key, value in resolved.values.items()
        if key not in free
    }


def _placeless(value: Any) -> Any:
    """Return a value without paths of this machine: models can be given by their folders."""
    if isinstance(value, Mapping):
        return {key: _placeless(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_placeless(one) for one in value]
    return _FOLDER if isinstance(value, str) and Path(value).is_absolute() else value


def same(recipe: Mapping[str, Any], resolved: Resolved[Recipe]) -> bool:
    """Tell whether a record's recipe is this one; knobs that it does not know had their default."""
    from augless.recipes.reading import changed

    wanted, said = settled(resolved), changed(resolved.recipe)
    known = {key: value for key, value in wanted.items() if key in recipe}
    return recipe == known and not said & (wanted.keys() - known.keys())


def located(corpus: corpora.Corpus) -> list[str]:
    """List the knobs of a corpus that say where files are."""
    settled = corpus.settled()
    return [knob.name for knob in dataclasses.fields(corpus) if knob.name not in settled]


def portable(job: Job, resolved: Resolved[Recipe]) -> str:
    """Return the command that repeats a run, without paths of this machine."""
    away = {f"corpus.{name}": name for name in located(resolved.recipe.corpus)}
    shown = []
    for override in job.overrides:
        key, _, value = override.partition("=")
        if key in away:
            override = f"{key}={_FOLDER if away[key] == 'path' else 'FILES'}"
        elif _part(key) == "augment":
            override = f"{key}={literal(_placeless(toml_value(value)))}"
        shown.append(override)
    return dataclasses.replace(job, overrides=tuple(shown)).command


def _controls(resolved: Resolved[Recipe], kind: str) -> dict[str, Any]:
    """Return overrides that take the place of a recipe's weightings by their controls."""
    found = {}
    for i in range(len(resolved.recipe.terms)):
        prefix = f"terms.{i}.weighting."
        knobs = {
            key.removeprefix(prefix): value
            for key, value in resolved.values.items()
            if key.startswith(prefix) and value is not None
        }
        if knobs["name"] != "plain":
            found[prefix.removesuffix(".")] = {"name": kind, "of": knobs}
    if not found:
        raise BadPlan("a control needs a weighting to match, and there are only plain ones")
    return found
