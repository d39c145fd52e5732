"""The verbs augment and neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from augless.cli import options, terminal, training
from augless.knobs import AtLeast, Within

if TYPE_CHECKING:
    from augless import augmentation, recipes
    from augless.augmentation import measuring
    from augless.recipes.recipe import Recipe

_AUGMENTERS = options.completing("augmentation", "AUGMENTERS")
Augmenting = Annotated[str, "How; see augless list augmenters.", _AUGMENTERS]
Knobs = Annotated[
    list[str] | None,
    "Knobs of the augmenter, such as rate=0.2, and what to change in the recipe.",
    "[KEY=VALUE]...",
]


def augment(
    augmenter: Augmenting,
    recipe: options.Recipe,
    overrides: Knobs = None,
    *,
    out: Annotated[Path, "The folder to make; it appears when it is whole."],
    seed: Annotated[int, "Decides every draw.", Within(0, 2**63 - 1)] = 1,
    workers: Annotated[int, "Processes; they change no byte.", Within(1, 256)] = 1,
    data: Annotated[Path, "Where prepared corpora and an endpoint's answers are kept."] = Path(
        "data"
    ),
    runs: Annotated[Path, "Where models are trained that are needed first."] = Path("runs"),
    download: Annotated[bool, "Fetch a model that is not here from its hub."] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Make rewritten training pairs: back-translation and others.

    The same command resumes where it stopped.

    The folder holds the whole corpus: the original training pairs, the made ones with their weight
    w, and the other splits as they are. Nothing is downloaded unless asked for.

    Examples:

      augless augment masked-lm toy-de-en --out masked

      augless augment back-translation files corpus.path=mine corpus.languages=de,en w=0.5
      --out back

      augless augment paraphrase files corpus.path=mine corpus.languages=de,en
      url=http://localhost:8000/v1 model=NAME --out said-otherwise
    """
    stop = terminal.Stop().listen()
    from augless import augmentation, recipes, schemas
    from augless.recipes import following, needing

    resolved = recipes.load(recipe, _changes(augmenter, overrides or []))
    corpus, chosen = resolved.recipe.corpus, resolved.recipe.augment
    assert chosen is not None  # it is one of the changes
    needing.check(resolved)
    options.set_threads(threads)
    with stop, terminal.Progress() as progress:
        place = following.Place(
            prepared=data,
            runs=runs,
            device=device,
            workers=workers,
            stop=stop,
            on_record=lambda record: progress.say(training.line(record)),
            progress=progress,
        )
        if following.train_needs(resolved, place) is not None:
            raise terminal.stopped(stop.by)
        made = augmentation.augment(
            chosen.with_runs(following.homes(resolved, place)),
            corpus,
            out,
            seed=seed,
            workers=workers,
            writer=following.writer,
            download=download,
            cache=data,
            device=device,
            progress=progress,
            stop=stop,
        )
    if made is None:
        raise terminal.stopped(stop.by)
    values = {"folder": str(made.folder), **schemas.written(made.manifest)}
    terminal.result(as_json, values, lambda: summary(made, _command(made, recipe, resolved)))


def _changes(augmenter: str, overrides: Sequence[str]) -> list[str]:
    """Return what to change in a recipe; knobs of the augmenter go below `augment`."""
    from augless import augmentation

    if augmenter not in augmentation.AUGMENTERS:
        raise options.unknown("augmenter", augmenter, augmentation.AUGMENTERS)
    knobs = [knob.name for knob in dataclasses.fields(augmentation.AUGMENTERS[augmenter])]
    known = [*knobs, "corpus", "text"]
    if augmentation.AUGMENTERS[augmenter].reverses:  # it trains a model, as the recipe says
        known += ["model", "terms", "training", "validation"]
    changes = [f"augment={augmenter}"]
    for one in overrides:
        change = one.removeprefix("augment.")
        first = change.partition("=")[0].split(".")[0]
        if first not in known:
            raise options.unknown("key", first, known)
        changes.append(f"augment.{change}" if first in knobs else change)
    return changes


def summary(made: augmentation.Augmented, command: str) -> str:
    """Say what an augmented folder holds, with samples side by side, and how to train on it."""
    manifest = made.manifest
    pairs, words = manifest.pairs, manifest.words
    lines = []
    for number, sample in enumerate(manifest.samples, 1):
        for side in ("source", "target"):
            if sample[side] != sample[f"made_{side}"]:
                lines.append(f"{number:>2} {side:<6}  {sample[side]}")
                lines.append(f"   {'made':<6}  {sample[f'made_{side}']}")
    lines.append(
        f"pairs: {pairs.original:,} original, {pairs.made:,} made, {pairs.left_out:,} left out"
    )
    lines.append(f"words changed: {words.share:.1%} of {words.all:,} on the rewritten side")
    if manifest.requests is not None:
        lines.append(f"requests to the endpoint: {manifest.requests:,}")
    lines.append(f"time spent rewriting: {manifest.seconds:,.1f} s")
    further = f"train on it: {command}"
    if pairs.left_out and not pairs.made:
        further = "no pair could be made: the model left every text empty, or unfinished"
    return "\n".join([*lines, further, str(made.folder)])


def _command(made: augmentation.Augmented, recipe: str, resolved: recipes.Resolved[Recipe]) -> str:
    """Return what trains on it; what the recipe says of its text stays as it is."""
    said = [
        f"{key}={value}"
        for key, (value, origin) in resolved.origins.items()
        if origin == "command line" and key.startswith("text.")
    ]
    languages = ",".join(made.manifest.languages)
    keys = ["corpus=files", f"corpus.path={made.folder}", f"corpus.languages={languages}"]
    return " ".join(
        ["augless train", recipe, *keys, "corpus.weight=weight", "corpus.made=of", *said]
    )


def neighbours(
    run: Annotated[Path, "A trained run's folder."],
    augmented: Annotated[Path, "A folder that augment made."],
    *,
    out: Annotated[Path, "The folder to write to; files of the same names are replaced."] = Path(
        "neighbours"
    ),
    limit: Annotated[int, "Original pairs that are looked at, at most.", AtLeast(20)] = 2000,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Measure how far made pairs lie from their originals.

    Tests what the paper assumes of them.

    Writes a file for each geometry that the weighting empirical builds its law from, a table of
    all triangles, and a picture of the measured densities beside the assumed ones.

    Examples:

      augless neighbours runs/RUN masked

      augless train toy-de-en terms.0.weighting=empirical
      terms.0.weighting.neighbours=neighbours/euclidean.json
    """
    from augless import augmentation
    from augless.augmentation import drawing, measuring
    from augless.recipes import following

    options.set_threads(threads)
    opened = augmentation.Augmented.open(augmented)
    writer = following.writer(run, device)
    with terminal.Progress() as progress:
        measured = measuring.measure(writer, opened, limit=limit, progress=progress)
    drawing.save(measured, out)
    findings = {name: measuring.assess(triangles) for name, triangles in measured.items()}
    text = "\n".join([*map(_findings, findings, findings.values()), str(out)])
    terminal.result(as_json, {"folder": str(out), "findings": findings}, lambda: text)


def _findings(geometry: str, findings: Sequence[measuring.Findings]) -> str:
    from augless.augmentation import measuring

    if not findings:
        return f"{geometry}: too few neighbours to test anything"
    rows = [["neighbours of the", "count", "mean radius", "KS exponential", "KS uniform"]]
    rows[0] += ["mean cosine", "dimension", "flat"]
    for one in findings:
        numbers = [one.radius, one.exponential_gap, one.uniform_gap, one.cosine, one.dimension]
        row = [one.kind, f"{one.count:,}", *(f"{number:.3f}" for number in numbers)]
        rows.append([*row, f"{one.flat:.1%}"])
    return "\n".join([f"{geometry}:", terminal.table(rows), *measuring.said(findings)])
