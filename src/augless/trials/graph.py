"""Jobs and what they need: a plan is a graph of them, of which more is known as scores come in.

A job says its kind of work and which jobs have to be done before: a run is scored after it was
trained, and trained after its corpus was prepared, or enlarged by made pairs. A final run of a
tuned method needs the job that chooses its hyper-parameters, and that one the scores of all runs
that try some: so it is known what a final run is when it may begin. What a job is called follows
from its content (`state`), so that work which was done before, here or elsewhere, is recognised,
and two methods that come to the same run share it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from augless import recipes
from augless.recipes.reading import nested, toml_value
from augless.trials import facts
from augless.trials.facts import Values
from augless.trials.plans import BadPlan, Plan
from augless.trials.spelling import literal, written

if TYPE_CHECKING:  # brings torch, which help does without
    from augless.recipes import Resolved
    from augless.recipes.recipe import Recipe

Kind = Literal["prepare", "augment", "train", "score", "choose"]
Purpose = Literal["tune", "final"]

_CORPUS = ("corpus", "text")  # the part of a recipe that decides the prepared corpus

_FOLDER = "FOLDER"  # in place of a path


class Recipes:
    """Recipes with overrides, each read once: that takes a while, and many jobs share one."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...], str], Resolved[Recipe]] = {}

    def __call__(
        self, recipe: str, overrides: tuple[str, ...], model: str = ""
    ) -> Resolved[Recipe]:
        """Return a recipe, or that of a model which it needs first, by its name."""
        from augless.recipes import needing

        key = (recipe, overrides, model)
        if key in self._known:
            return self._known[key]
        if model:
            resolved = needing.needs(self(recipe, overrides))[model]
        else:
            resolved = recipes.load(recipe, overrides)
        return self._known.setdefault(key, resolved)

    def __reduce__(self) -> tuple[type[Recipes], tuple[()]]:
        """Leave what is known behind: another process reads the one that it needs."""
        return Recipes, ()


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
    tried: Values = field(default_factory=dict, compare=False)
    """those of the overrides that tuning chooses among"""
    needs: tuple[Job, ...] = field(default=(), repr=False, compare=False)
    """follows from the rest, and from what was chosen"""
    model: str = ""
    """the model that it is about, by the name that the recipe's augmenter gives it: one that has to
    be trained before pairs can be made; nothing where it is about the recipe itself"""
    recipes: Recipes = field(default_factory=Recipes, repr=False, compare=False)
    """reads its recipe; all jobs of a trial share one"""

    @property
    def resolved(self) -> Resolved[Recipe]:
        """The recipe that it is about."""
        return self.recipes(self.recipe, self.overrides, self.model)

    @functools.cached_property
    def source(self) -> str:
        """Where its corpus is and how it is prepared, as JSON."""
        values = self.resolved.values
        parts = {key: value for key, value in values.items() if key.split(".")[0] in _CORPUS}
        return json.dumps(parts, sort_keys=True)

    @property
    def splits(self) -> tuple[str, ...]:
        """What is decoded: the test set by final runs only."""
        return ("valid",) if self.purpose == "tune" else ("valid", "test")

    @property
    def command(self) -> str:
        """How to repeat the run."""
        return shlex.join(["augless", "train", self.recipe, *self.overrides])

    @property
    def portable(self) -> str:
        """How to repeat the run, without paths of this machine."""
        away = {f"corpus.{name}" for name in self.resolved.recipe.corpus.located}
        shown = []
        for override in self.overrides:
            key, _, value = override.partition("=")
            if key in away:
                override = f"{key}={_FOLDER if key == 'corpus.path' else 'FILES'}"
            elif _part(override) == "augment":
                override = f"{key}={literal(_placeless(toml_value(value)))}"
            shown.append(override)
        return dataclasses.replace(self, overrides=tuple(shown)).command


def with_needs(jobs: Iterable[Job]) -> list[Job]:
    """List jobs and all that they need, what is needed first, each once."""
    listed: dict[Job, None] = {}

    def add(job: Job) -> None:
        if job not in listed:
            for need in job.needs:
                add(need)
            listed[job] = None

    for job in jobs:
        add(job)
    return [*listed]


def run(
    plan: Plan,
    corpus: str,
    method: str,
    seed: int,
    point: Mapping[str, Any],
    purpose: Purpose = "final",
    choose: Job | None = None,
    read: Recipes | None = None,
) -> Job:
    """Return the job that scores a run of a method with a combination of hyper-parameters."""
    read = read or Recipes()
    entry, base = plan.methods[method], plan.recipes[corpus]
    overrides = [*written(plan.overrides), *written(base.overrides)]
    overrides += written(plan.methods[plan.source(method)].overrides) + written(point)
    if entry.matches is not None:
        overrides += written(_controls(read(base.recipe, tuple(overrides)), entry.kind))
        overrides += written(entry.overrides)
    overrides.append(f"seed={seed}")
    which = tuple(one for one in overrides if _part(one) in _CORPUS)
    prepare = Job("prepare", corpus, base.recipe, which, recipes=read)
    train = Job(
        kind="train",
        corpus=corpus,
        recipe=base.recipe,
        overrides=tuple(overrides),
        method=method,
        seed=seed,
        purpose=purpose,
        tried=dict(point),
        recipes=read,
    )
    first = (job for kind in NEEDS.values() for job in kind(train, prepare))
    needs = (prepare, *first, *((choose,) if choose else ()))
    train = dataclasses.replace(train, needs=needs)
    return dataclasses.replace(train, kind="score", needs=(train,))


def choose(tries: Sequence[Job]) -> Job:
    """Return the job that chooses among the combinations that runs try.

    Nobody has to do it: it is done when all of them have ended.
    """
    return dataclasses.replace(tries[0], kind="choose", tried={}, needs=tuple(tries))


def _augment(train: Job, prepare: Job) -> list[Job]:
    """Return the job that makes a run's pairs, with what it needs; none if it has only its own.

    Its overrides are those that decide the texts, so that runs which differ in others share it: the
    weight of made pairs is never one, the seed only if something is drawn, and how the run is
    trained only if the reverse model is trained likewise.
    """
    from augless import augmentation

    augmenter = train.resolved.recipe.augment
    if augmenter is None:
        return []
    overrides = train.overrides
    if augmentation.REVERSE not in augmenter.needs.values():
        parts = (*_CORPUS, "augment", *(("seed",) if augmenter.seeded else ()))
        overrides = tuple(one for one in overrides if _part(one) in parts)
    made = dataclasses.replace(
        train,
        kind="augment",
        overrides=(*overrides, "augment.w=1.0"),
        purpose="final",
        tried={},
        needs=(prepare,),
    )
    for name in augmenter.needs:
        read = dataclasses.replace(prepare, overrides=made.overrides, model=name)
        other = dataclasses.replace(made, kind="train", model=name, needs=(read,))
        made = dataclasses.replace(made, needs=(*made.needs, other))
    return [made]


NEEDS: dict[Kind, Callable[[Job, Job], Sequence[Job]]] = {"augment": _augment}
"""kind of job -> which of them a run needs before it is trained, from the jobs that train it and
prepare its corpus"""


def _part(override: str) -> str:
    """Return which part of a recipe an override changes."""
    return override.partition("=")[0].split(".")[0]


def _controls(resolved: Resolved[Recipe], kind: str) -> dict[str, Any]:
    """Return overrides that take the place of a recipe's weightings by their controls."""
    controls = {}
    for place, term in enumerate(facts.terms_of(resolved.values)):
        if term.weighs:
            knobs = {key: one for key, one in term.weighting.knobs.items() if one is not None}
            of = nested({"name": term.weighting.name, **knobs})
            controls[f"terms.{place}.weighting"] = {"name": kind, "of": of}
    if not controls:
        raise BadPlan("a control needs a weighting to match, and there are only plain ones")
    return controls


def check(plan: Plan, read: Recipes | None = None) -> None:
    """Resolve every run that is known before any score; raise the first mistake."""
    from augless import augmentation
    from augless.recipes import needing

    read = read or Recipes()
    for corpus in plan.recipes:
        # A control repeats the mistakes of what it matches: those first.
        for method in sorted(plan.methods, key=lambda name: plan.source(name) != name):
            for point in plan.points(plan.source(method)) or [{}]:
                try:
                    seed = plan.seeds[0]
                    resolved = run(plan, corpus, method, seed, point, read=read).resolved
                    if needing.needs(resolved):  # before these are trained
                        needing.check(resolved)
                except (recipes.BadRecipe, augmentation.BadAugmentation) as error:
                    raise BadPlan(f"{method} on {corpus}: {error}") from None


def settled(resolved: Resolved[Recipe]) -> dict[str, Any]:
    """Return what decides a run, but for where on this machine its files lie."""
    from augless.recipes import following

    away = {f"corpus.{name}" for name in resolved.recipe.corpus.located}
    free = {*following.FREE, *away}
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
