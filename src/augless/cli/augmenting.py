"""The verbs augment and neighbours."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from augless.cli import options, terminal, training
from augless.knobs import Among, AtLeast, Within

if TYPE_CHECKING:
    from augless import augmentation, recipes
    from augless.augmentation import measuring
    from augless.recipes.following import Recipe
    from augless.runs import Run

_CORPUS = ("corpus", "text")


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a recipe says of augmentation, and this verb's command line."""

    augment: Annotated[Any, "how pairs are rewritten", Among("augmentation.AUGMENTERS")]


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
    runs: Annotated[Path, "Where a reverse model is trained."] = Path("runs"),
    download: Annotated[bool, "Fetch a model that is not here from its hub."] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Make rewritten training pairs: back-translation and others.

    The same command goes on where it stopped.

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
    from augless import augmentation, recipes
    from augless.recipes import following

    own, others = _divided(augmenter, overrides or [])
    chosen = _chosen(augmenter, own)
    resolved = recipes.preparation(recipe, [one for one in others if one.startswith(_CORPUS)])
    options.set_threads(threads)
    with stop, terminal.Progress() as progress:
        if isinstance(chosen, augmentation.BackTranslation) and chosen.run is None:
            reverse = following.reverse(recipes.load(recipe, others))
            train = functools.partial(
                following.train,
                reverse,
                prepared_root=data,
                runs_root=runs,
                device=device,
                workers=workers,
            )
            chosen = chosen.with_reverse(_reverse(reverse.recipe, train, stop, progress))
        made = augmentation.augment(
            chosen,
            resolved.recipe.corpus,
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
        raise terminal.Stopped(stop.by)
    values = {"folder": str(made.folder), **made.manifest}
    terminal.result(as_json, values, lambda: summary(made, _command(made, recipe, resolved)))


def _divided(augmenter: str, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the knobs of an augmenter from the keys of a recipe."""
    from augless import augmentation, recipes

    if augmenter not in augmentation.AUGMENTERS:
        raise options.unknown("augmenter", augmenter, augmentation.AUGMENTERS)
    knobs = [knob.name for knob in dataclasses.fields(augmentation.AUGMENTERS[augmenter])]
    known = [*knobs, *_CORPUS]
    if augmenter == "back-translation":  # it trains a model, as the recipe says
        known += ["model", "terms", "training", "validation"]
    own: list[str] = []
    others: list[str] = []
    for one in overrides:
        key, equals, _ = one.removeprefix("augment.").partition("=")
        first = key.split(".")[0]
        if not equals:
            raise recipes.BadRecipe(f"{one!r} is not key=value, such as copies=2")
        if first not in known:
            raise options.unknown("key", first, known)
        (own if first in knobs else others).append(one.removeprefix("augment."))
    return own, others


def _chosen(name: str, overrides: Sequence[str]) -> augmentation.Augmenter:
    from augless.recipes import reading

    values, _ = reading.override({"augment": name}, [f"augment.{one}" for one in overrides])
    chosen: augmentation.Augmenter = reading.resolve(_Asked, name, values, {}).recipe.augment
    return chosen


def _reverse(
    recipe: Recipe,
    train: Callable[..., tuple[Run, bool]],
    stop: terminal.Stop,
    progress: terminal.Progress,
) -> Path:
    """Train a model of the reverse direction, or find it trained; return its folder."""
    source, target = recipe.corpus.languages
    progress.say(f"training a model from {source} to {target} first")
    run, finished = train(
        stop=stop, on_record=lambda r: progress.say(training.line(r)), progress=progress
    )
    if not finished:
        raise terminal.Stopped(stop.by)
    return run.folder


def summary(made: augmentation.Augmented, command: str) -> str:
    """Say what an augmented folder holds, with samples side by side, and how to train on it."""
    manifest = made.manifest
    pairs, words = manifest["pairs"], manifest["words"]
    lines = []
    for number, sample in enumerate(manifest["samples"], 1):
        for side in ("source", "target"):
            if sample[side] != sample[f"made_{side}"]:
                lines.append(f"{number:>2} {side:<6}  {sample[side]}")
                lines.append(f"   {'made':<6}  {sample[f'made_{side}']}")
    lines.append(
        f"pairs: {pairs['original']:,} original, {pairs['made']:,} made, "
        f"{pairs['left_out']:,} left out"
    )
    lines.append(f"words changed: {words['share']:.1%} of {words['all']:,} on the rewritten side")
    if "requests" in manifest:
        lines.append(f"requests to the endpoint: {manifest['requests']:,}")
    lines.append(f"time spent rewriting: {manifest['seconds']:,.1f} s")
    return "\n".join([*lines, f"train on it: {command}", str(made.folder)])


def _command(
    made: augmentation.Augmented, recipe: str, resolved: recipes.Resolved[recipes.Preparation]
) -> str:
    """Return what trains on it; what the recipe says of its text stays as it is."""
    said = [
        f"{key}={value}"
        for key, (value, origin) in resolved.origins.items()
        if origin == "command line" and key.startswith("text.")
    ]
    languages = ",".join(made.manifest["languages"])
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
    from augless import augmentation, storage
    from augless.augmentation import drawing, measuring
    from augless.recipes import following

    options.set_threads(threads)
    opened = augmentation.Augmented.open(augmented)
    writer = following.writer(run, device)
    with terminal.Progress() as progress:
        measured = measuring.measure(writer, opened, limit=limit, progress=progress)
    out.mkdir(parents=True, exist_ok=True)
    for name, triangles in measured.items():
        content = triangles.neighbours.document()
        storage.replace(storage.inside(out, f"{name}.json"), content.encode())
        storage.replace(storage.inside(out, f"{name}.csv"), triangles.table().encode())
    storage.replace(storage.inside(out, "neighbours.svg"), drawing.picture(measured).encode())
    findings = {name: measuring.assess(triangles) for name, triangles in measured.items()}
    values = {name: [vars(one) for one in these] for name, these in findings.items()}
    said = [_findings(name, these) for name, these in findings.items()]
    text = "\n".join([*said, str(out)])
    terminal.result(as_json, {"folder": str(out), "findings": values}, lambda: text)


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
