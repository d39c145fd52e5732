"""A plan for somebody's own files, with what their size suggests."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from augless import corpora, data, recipes
from augless.corpora.reading import COMPRESSED
from augless.recipes import suggesting
from augless.recipes.reading import Suggestion
from augless.trials import spelling
from augless.trials.plans import KEYS, OWN, BadPlan, Plan, Space, small_name

_RATE = "training.optimizer.rate"
_SPLITS = ("train", "valid", "test")
_BACK = "back-translation"
# Choice: words of both sides that a first answer is trained on, at most: twice those of as many
# captions, which take five minutes.
_QUICK_WORDS = 60_000
_FEWEST = 300  # pairs, however long
_SAMPLE = "{sample}"  # in the title of the plan: how many pairs are used


def own(
    *,
    train: Iterable[str | Path],
    valid: Iterable[str | Path],
    test: Iterable[str | Path],
    languages: Iterable[str] = ("source", "target"),
    changes: Iterable[str] = (),
    quick: bool = False,
    rivals: bool = False,
    round_trip: tuple[str, str] | None = None,
    on_suggestions: Callable[[list[Suggestion]], None] = lambda suggestions: None,
) -> Plan:
    """Plan a trial on somebody's own files: two files (source, target) a split, or one of both.

    `changes` are key=value: what is no key of a plan is one of a recipe. `quick` plans a first
    answer: a sample of the pairs, a narrow model, two seeds. With `rivals`, what people would take
    instead is compared too: augmented data, R-Drop, word dropout, focal weights.
    `round_trip` are two models of translation, there and back, each a run's folder or a Hugging
    Face model's folder or name: a round trip takes the place of back-translation then.
    `on_suggestions` is given what the size of the files suggests, with reasons.
    """
    files = dict(zip(_SPLITS, (train, valid, test), strict=True))
    languages = (*languages,)
    # Absolute, so that the plan can be followed from anywhere.
    corpus = {k: [str(Path(path).absolute()) for path in v] for k, v in files.items()}
    corpus["languages"] = [*languages]
    given = spelling.written({f"recipes.files.corpus.{k}": v for k, v in corpus.items()})
    if round_trip is not None:
        if not rivals:
            raise BadPlan("a round trip is one of the rivals: give --rivals with --round-trip")
        given += spelling.written(_round_trip(quick, languages, *round_trip))
    for change in changes:
        key, equals, _ = change.partition("=")
        theirs = bool(equals) and key.split(".")[0] not in KEYS
        given.append(f"overrides.{change}" if theirs else change)
    plan = Plan.load(OWN, given, small=quick, rivals=rivals)
    if round_trip is not None:
        methods = {name: one for name, one in plan.methods.items() if name != _BACK}
        tune = {name: space for name, space in plan.tune.items() if name != _BACK}
        plan = replace(plan, methods=methods, tune=tune)
    (label, base), *_ = plan.recipes.items()
    overrides = spelling.written(plan.overrides) + spelling.written(base.overrides)
    try:
        resolved = recipes.load(base.recipe, overrides)
        if quick and (fewer := _fewer(resolved.recipe.corpus, plan)):
            plan = replace(plan, overrides=plan.overrides | fewer)
            resolved = recipes.load(base.recipe, overrides + spelling.written(fewer))
        rate = resolved.values[_RATE]
    except recipes.BadRecipe as error:
        raise BadPlan(str(error)) from None
    # Written down, so that the plan means the same when the files have grown or are gone.
    on_suggestions(resolved.suggestions)
    suggested = {one.key: one.value for one in resolved.suggestions}
    filled = replace(base, overrides=base.overrides | suggested)
    spaces = {method: _rates(space, rate) for method, space in plan.tune.items()}
    return replace(
        plan,
        name=_name(corpus, quick) if plan.name in (OWN, small_name(OWN)) else plan.name,
        title=plan.title.replace(_SAMPLE, _sample(resolved.recipe.corpus)),
        recipes=plan.recipes | {label: filled},
        tune=spaces,
    )


def _fewer(corpus: corpora.Corpus, plan: Plan) -> dict[str, int]:
    """Return how many pairs a first answer takes where lines are long; nothing where they are not.

    Numbers that were asked for stay.
    """
    shipped = Plan.load(OWN, small=True).overrides
    sizes = {key: shipped[key] for key in ("corpus.sample", "corpus.held_out")}
    size = _size(corpus)
    share = _QUICK_WORDS * size.pairs / max(1, size.words) / sizes["corpus.sample"] if size else 1.0
    return {
        key: max(_FEWEST, round(share * count))
        for key, count in sizes.items()
        if share < 1 and plan.overrides.get(key) == count
    }


def _sample(corpus: corpora.Corpus) -> str:
    """Say how many pairs are used, and of how many."""
    whole = _size(replace(corpus, sample=0)) if isinstance(corpus, corpora.Files) else None
    if not isinstance(corpus, corpora.Files) or whole is None:
        return "a sample of it"
    used = min(corpus.sample or whole.pairs, whole.pairs)
    return f"{used:,} of {whole}" if used < whole.pairs else f"all {whole}"


def _size(corpus: corpora.Corpus) -> suggesting.Size | None:
    try:
        return suggesting.measured(corpus)
    except (corpora.BadData, OSError):  # whoever uses the corpus says what is wrong
        return None


def languages_of(paths: Sequence[Path]) -> list[str]:
    """Return what the names of two files say of their languages, such as de of train.de.gz."""
    named = [path.with_suffix("") if path.suffix in COMPRESSED else path for path in paths]
    endings = [path.suffix.removeprefix(".") or "text" for path in named]
    # Of a.src.txt and a.tgt.txt they say nothing.
    return endings if len({*endings}) == len(endings) else ["source", "target"]


def _name(corpus: Mapping[str, Sequence[str]], quick: bool) -> str:
    """Return the name of a trial on somebody's own files: that of their folder, and a digest."""
    home = re.sub(r"[^\w-]+", "-", Path(corpus["train"][0]).parent.name).strip("-")[:100] or "own"
    paths = [os.fsencode(path) for split in _SPLITS for path in corpus[split]]
    digest = hashlib.sha256(bytes(1).join(paths)).hexdigest()[:6]
    return f"{home}-quick-{digest}" if quick else f"{home}-{digest}"


def monolingual(languages: Iterable[str]) -> bool:
    """Tell whether both sides may be one language, as in dialogue: neither name is a language's."""
    return not any(data.preparing.rules(side) == side for side in languages)


def _round_trip(quick: bool, languages: tuple[str, ...], there: str, back: str) -> dict[str, Any]:
    """Return a method that takes the place of back-translation, tuned as hard."""
    if not monolingual(languages):
        raise BadPlan(
            f"--round-trip takes both sides through the same models, and they are "
            f"{' and '.join(languages)}\nback-translation is what is compared for translation"
        )
    # Absolute, as the files are; what is no folder is a name.
    models = (str(Path(m).absolute()) if Path(m).exists() else m for m in (there, back))
    augment = dict(zip(("name", "there", "back"), ("round-trip", *models), strict=True))
    tune = Plan.load(OWN, small=quick, rivals=True).tune[_BACK]
    return {
        **{f"methods.round-trip.augment.{key}": value for key, value in augment.items()},
        **{f"tune.round-trip.{key}": values for key, values in tune.items()},
    }


def _rates(space: Space, suggested: float) -> Space:
    """Return a space whose learning rates are given as multiples of the suggested one."""
    factors = space.get(_RATE)
    if not isinstance(factors, list):
        return space
    return space | {_RATE: [float(f"{one * suggested:.3g}") for one in factors]}
