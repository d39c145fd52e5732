"""A recipe followed: from its corpus to a trained run, and from a run back to its model."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from augless import augmentation, corpora, data, decoding, metrics, models, runs, text, training
from augless.corpora import Progress
from augless.errors import Stopped
from augless.recipes import boards, memory, needing
from augless.recipes.reading import BadRecipe, Resolved, changed, nested, override, parted, resolve
from augless.recipes.recipe import Generation, Recipe
from augless.recipes.validating import validation

AUGMENTED = "augmented"
"""folder of made pairs, below that of prepared corpora"""
REWRITING = "rewriting"
"""what a run's result calls making its pairs; models that had to be trained for it have names"""
_CONTENT = "augment.content"

# Knobs that change no bit of the model, or whose content is in the corpus' fingerprint: they may
# differ when a run is resumed.
FREE = ("training.log_every", "training.save_every", "training.keep", "text.codec")


def identity(resolved: Resolved[Recipe]) -> dict[str, Any]:
    """Return the values that decide a run's bits, wherever its files lie.

    Of the corpus only the name: its content has a fingerprint of its own. Of a run to start from,
    its fingerprint, and of files of neighbours and models that augment, their content's.
    """
    augmenter = resolved.recipe.augment
    away = FREE if augmenter is None else (*FREE, *(f"augment.{k}" for k in augmenter.free))
    values = {
        key: value
        for key, value in resolved.values.items()
        if key not in away and (key == "corpus.name" or not key.startswith("corpus."))
    }
    if augmenter is None:  # runs of earlier versions know no such key
        values.pop("augment", None)
    else:
        content = augmenter.identity(_context(resolved))
        if first := {name: _settled(need) for name, need in needing.others(resolved).items()}:
            content = [content, first]
        if content is not None:
            values[_CONTENT] = content
    if resolved.recipe.training.start is not None:
        start = runs.Run.open(resolved.recipe.training.start)
        ended = "" if start.result is not None else f" at step {start.best().step}"
        values["training.start"] = start.fingerprint + ended
    for key, value in values.items():
        if key.endswith(".neighbours"):
            values[key] = hashlib.sha256(Path(value).read_bytes()).hexdigest()
    return values


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where recipes are followed, by what, and until when."""

    prepared: Path = Path("data")
    """prepared corpora, and made pairs below `AUGMENTED`"""
    runs: Path = Path("runs")
    device: training.Device = "auto"
    workers: int = 1
    """processes that prepare a corpus or rewrite pairs"""
    stop: Callable[[], bool] = lambda: False
    on_record: boards.Listener = lambda record: None
    progress: Progress = lambda stage, done, total: None


def train(
    resolved: Resolved[Recipe],
    place: Place,
    *,
    folder: Path | None = None,
    max_minutes: float = math.inf,
    tensorboard: bool = False,
) -> tuple[runs.Run, bool]:
    """Follow a recipe, or resume it; return the run and whether it is finished.

    The run's folder is named after the recipe and a fingerprint of it and its corpus. What a recipe
    that augments needs is done first: if that is stopped, the run is that of the need, or there is
    none yet and `errors.Stopped` is raised.
    """
    recipe, stop = resolved.recipe, place.stop
    deadline = time.monotonic() + 60 * max_minutes
    place = dataclasses.replace(place, stop=lambda: stop() or time.monotonic() >= deadline)
    device = _check(resolved, place.device)
    if tensorboard:
        boards.check()
    prepared = prepare(resolved, place)
    _check_splits(recipe, prepared)
    name = run_name(resolved, prepared.fingerprint)
    folder = folder or place.runs / folder_name(resolved, name)
    needed = None
    if recipe.augment is not None:
        if (before := train_needs(resolved, place)) is not None:
            return before, False
        made = augment(resolved, place)
        if made is None:
            raise Stopped("stopped while making pairs; run the same command to resume")
        needed = costs(resolved, made, place)
        enlarged = augmentation.Enlarged.of(recipe.corpus, made.folder, recipe.augment.w)
        prepared = prepare(resolved, place, enlarged)
    trainer = _trainer(recipe, prepared, device)
    run = _created(resolved, folder, prepared, device)
    with run.lock():
        if run.result is not None:
            return run, True
        finished = training.fit(
            trainer,
            run,
            validate=validation(recipe, prepared),
            watch={split: validation(recipe, prepared, split) for split in recipe.training.watch},
            higher_is_better=metrics.higher_is_better(recipe.training.metric),
            noise=metrics.noise(recipe.training.metric),
            stop=place.stop,
            needed=needed,
            on_record=boards.listener(run, place.on_record) if tensorboard else place.on_record,
            progress=place.progress,
        )
    return run, finished


def _check(resolved: Resolved[Recipe], device: training.Device) -> torch.device:
    """Refuse, before any work, what a device or a model that augments cannot do; return the device.

    What has to be trained first is looked at too.
    """
    recipe, place = resolved.recipe, _device(device)
    try:
        training.check_precision(recipe.training.precision, place)
        if recipe.training.precision == "bfloat16" and not recipe.model.autocasts:
            raise ValueError("this model computes in float32 whatever training.precision says")
    except ValueError as error:
        raise BadRecipe(str(error)) from None
    if recipe.augment is not None:  # before hours of training something else
        needing.check(resolved)
        recipe.augment.identity(_context(resolved))
    return place


def _check_splits(recipe: Recipe, prepared: data.Prepared) -> None:
    """Refuse a corpus that lacks what training looks at."""
    if "valid" not in prepared.splits:
        raise BadRecipe("the corpus has no validation pairs; give corpus.valid=...")
    for split in recipe.training.watch:
        if split not in prepared.splits or split == "train":
            these = ", ".join(set(prepared.splits) - {"train", "valid"})
            raise BadRecipe(f"training.watch names {split!r}; it can be {these}")


def _trainer(recipe: Recipe, prepared: data.Prepared, device: torch.device) -> training.Trainer:
    """Return what trains the model: as drawn, or from that of another run (warm start)."""
    memory.check(recipe.model, prepared.codecs, recipe.training)
    model = build(recipe, prepared.codecs)
    if (start := recipe.training.start) is not None:
        _begin(model, start, prepared)
    pairs = prepared.pairs("train")
    return training.Trainer(
        model, recipe.terms, recipe.training, pairs, seed=recipe.seed, device=device
    )


def _created(
    resolved: Resolved[Recipe], folder: Path, prepared: data.Prepared, device: torch.device
) -> runs.Run:
    """Make a run's folder, or open it to resume; warn where other bits will come of that."""
    run = runs.Run.create(
        folder,
        recipe=identity(resolved),
        corpus=prepared.fingerprint,
        codecs=prepared.codecs,
        versions=versions(device),
    )
    for what, now in versions(device).items():
        if (then := run.versions.get(what)) not in (None, now):
            run.warnings.append(f"begun with {what} {then}, going on with {now}: other bits")
    return run


def prepare(
    resolved: Resolved[Recipe], place: Place, corpus: corpora.Corpus | None = None
) -> data.Prepared:
    """Prepare a recipe's corpus, or another one, as the recipe says; or find that it was."""
    return data.prepare(
        corpus or resolved.recipe.corpus,
        resolved.recipe.text,
        place.prepared,
        name=resolved.name,
        workers=place.workers,
        progress=place.progress,
    )


# Recipes that augment


def train_needs(resolved: Resolved[Recipe], place: Place) -> runs.Run | None:
    """Train what must be there first; return the run that was stopped, if one was."""
    for name, need in needing.needs(resolved).items():
        source, target = need.recipe.corpus.languages
        place.progress(f"training the {name} first, from {source} to {target}", 0, None)
        run, finished = train(need, place)
        if not finished:
            return run
    return None


def homes(resolved: Resolved[Recipe], place: Place) -> dict[str, Path]:
    """Return the folders of the runs that a recipe needs, by their names."""
    return {name: home(need, place) for name, need in needing.needs(resolved).items()}


def _settled(resolved: Resolved[Recipe]) -> str:
    """Return a short fingerprint of a recipe and its corpus, whether or not its files are here.

    A public corpus is known by its name and knobs, somebody's own files by their content.
    """
    corpus = resolved.recipe.corpus
    if isinstance(corpus, corpora.Files):
        return run_name(resolved, corpus.fingerprint())
    return run_name(resolved, json.dumps(corpus.settled(), sort_keys=True))


def augment(resolved: Resolved[Recipe], place: Place) -> augmentation.Augmented | None:
    """Make the pairs that a recipe adds, or find them made; None if asked to stop.

    The runs that it needs must be done. The folder, below ``augmented``, is named after all that
    decides the texts, which the weight `w` does not: recipes that differ in it share one.
    """
    recipe = resolved.recipe
    if recipe.augment is None:
        raise ValueError("this recipe has no augment")
    chosen = dataclasses.replace(recipe.augment, w=1.0).with_runs(homes(resolved, place))
    chosen.check(recipe.corpus.languages)
    seed = recipe.seed if chosen.seeded else 0
    origin = augmentation.made_from(chosen, dataclasses.replace(_context(resolved), seed=seed))
    name = f"{resolved.name}-{chosen.name}-{augmentation.fingerprint_of(origin)[:12]}"
    return augmentation.augment(
        chosen,
        recipe.corpus,
        place.prepared / AUGMENTED / name,
        seed=seed,
        workers=place.workers,
        writer=functools.partial(writer, device=place.device),
        cache=place.prepared,
        device=place.device,
        progress=place.progress,
        stop=place.stop,
    )


def costs(
    resolved: Resolved[Recipe], made: augmentation.Augmented, place: Place
) -> dict[str, runs.Spent]:
    """Return what all took that was needed before training, by what it was."""
    manifest = made.manifest
    texts = manifest.pairs.made + manifest.pairs.left_out
    spent = {REWRITING: runs.Spent(seconds=manifest.seconds, samples=texts)}
    if (small := manifest.small_model) is not None:
        spent["small model"] = runs.Spent(seconds=small.seconds, samples=small.samples)
    for name, folder in homes(resolved, place).items():
        ended = runs.Run.open(folder).outcome() or runs.Spent()
        spent[name] = runs.Spent(seconds=ended.seconds, samples=ended.samples)
    return spent


def home(resolved: Resolved[Recipe], place: Place) -> Path:
    """Return the folder of a recipe's run, named after all that decides it.

    The name of a run that augments tells its own corpus: what it adds follows from the recipe.
    """
    name = run_name(resolved, prepare(resolved, place).fingerprint)
    return place.runs / folder_name(resolved, name)


def _context(resolved: Resolved[Recipe]) -> augmentation.Context:
    """Return what an augmenter needs to say what its texts depend on."""
    here = Path()
    return augmentation.Context(
        corpus=resolved.recipe.corpus, seed=resolved.recipe.seed, work=here, cache=here
    )


def _begin(model: models.Model, start: Path, prepared: data.Prepared) -> None:
    """Give a model the best weights of a run so far, if they mean the same words."""
    run = runs.Run.open(start)
    for side, ours, theirs in zip(data.SIDES, prepared.codecs, run.codecs, strict=True):
        if ours.fingerprint != theirs.fingerprint:
            raise BadRecipe(
                f"training.start: the {side} vocabulary of {start} is another one\n"
                f"take it for this corpus too: text.codec={start}"
            )
    try:
        training.set_weights(model, run.best().tensors["model"])
    except runs.BadRun as error:
        raise BadRecipe(f"training.start: {start}: {error}") from None


def run_name(resolved: Resolved[Recipe], corpus: str) -> str:
    """Return a short fingerprint of all that decides a run, with that of its prepared corpus.

    Only of what differs from the defaults: a knob that a later version adds renames no run.
    """
    said = {"corpus.name", _CONTENT, *changed(resolved.recipe)}
    values = {key: value for key, value in identity(resolved).items() if key in said}
    content = json.dumps([values, corpus], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def folder_name(resolved: Resolved[Recipe], name: str) -> str:
    """Return what the folder of a run is called, from the run's own name."""
    return f"{resolved.name}-{name}"


def versions(device: torch.device | None = None) -> dict[str, str]:
    """Return what else a run's bits depend on: they are the same on the same machine only."""
    return {
        "augless": metadata.version("augless"),
        "torch": torch.__version__,
        **{name: metadata.version(name) for name in ("numpy", "tokenizers", "sacrebleu")},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
        "device": device.type if device else "cpu",
    }


def build(recipe: Generation, codecs: tuple[text.Codec, text.Codec]) -> models.Model:
    """Make the model that a recipe names, at the start of its training."""
    source, target = codecs
    memory.check(recipe.model, codecs)
    try:
        shared = source.vocabulary == target.vocabulary
        return recipe.model.build(len(source), len(target), seed=recipe.seed, shared=shared)
    except ValueError as error:
        raise BadRecipe(f"model: {error}") from None


def generation_of(run: runs.Run, overrides: Sequence[str] = ()) -> Generation:
    """Return how a run's model is built and searched; names are looked up in our tables only.

    What it was trained on and by is not needed, and may be gone.
    """
    needed = {knob.name for knob in dataclasses.fields(Generation)}
    saved = nested({key: value for key, value in run.recipe.items() if key.split(".")[0] in needed})
    try:
        resolve(Generation, "", saved, {})
    except BadRecipe as error:
        raise runs.BadRun(f"{run.folder} holds a recipe of another version: {error}") from None
    named = [one for one in overrides if one.startswith("search=")]
    if all(parted(one)[1] == run.recipe.get("search.name") for one in named):
        # The search that it has, by name, is that one with its values, not with the defaults.
        overrides = [one for one in overrides if one not in named]
    return resolve(Generation, "", override(saved, overrides)[0], {}).recipe


def writer(
    folder: str | Path, device: training.Device = "auto", overrides: Sequence[str] = ()
) -> decoding.Writer:
    """Open the best model of a run, ready to generate; overrides may change how it searches."""
    for one in overrides:
        if not one.startswith(("search=", "search.")):
            raise BadRecipe(f"{one!r}: a trained run can only change search, as in search.size=10")
    run = runs.Run.open(folder)
    recipe = generation_of(run, overrides)
    model = build(recipe, run.codecs)
    training.set_weights(model, run.best().tensors["model"])
    model.to(_device(device)).eval()
    return decoding.Writer(model, run.codecs, recipe.search)


def nats(
    folder: str | Path, sources: Sequence[str], references: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64], str]:
    """Return cross-entropy and number of target tokens of each pair under a run, (N,) each.

    The third is a fingerprint of the target vocabulary, which tokens depend on.
    """
    if len(sources) != len(references):
        counts = f"{len(sources)} source lines and {len(references)} references"
        raise metrics.BadScores(f"there are {counts}; they must be as many")
    opened = writer(folder, "cpu")
    source, target = (
        data.Ragged.of(codec.encode_lines(lines))
        for codec, lines in zip(opened.codecs, (sources, references), strict=True)
    )
    pairs = data.Pairs(source, target, np.ones(len(source), np.float32))
    return *training.nats(opened.model, pairs), opened.codecs[1].fingerprint[:12]


def _device(name: training.Device) -> torch.device:
    try:
        return training.choose_device(name)
    except ValueError as error:
        raise BadRecipe(str(error)) from None
