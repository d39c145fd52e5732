"""The verbs augment and neighbours."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from augless.cli import options, terminal
from augless.errors import STOPPED
from augless.knobs import Among

if TYPE_CHECKING:
    from augless import augmentation, recipes
    from augless.augmentation import measuring

_CORPUS = ("corpus", "text")


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a recipe says of augmentation, and this verb's command line."""

    augment: Annotated[Any, "how pairs are rewritten", Among("augmentation.AUGMENTERS")]


def _augmenters(incomplete: str) -> list[str]:
    from augless import augmentation

    return [name for name in augmentation.AUGMENTERS if name.startswith(incomplete)]


Augmenting = Annotated[
    str, typer.Argument(help="How; see augless list augmenters.", autocompletion=_augmenters)
]
Knobs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Knobs of the augmenter, such as rate=0.2, and what to change in the recipe.",
    ),
]


def augment(
    augmenter: Augmenting,
    recipe: options.Recipe,
    overrides: Knobs = None,
    out: Annotated[
        Path, typer.Option(help="The folder to make; it appears when it is whole.")
    ] = ...,  # type: ignore[assignment]  # typer's way to say that it must be given
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides every draw.")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes; they change no byte.")
    ] = 1,
    data: Annotated[
        Path, typer.Option(help="Where prepared corpora and an endpoint's answers are kept.")
    ] = Path("data"),
    runs: Annotated[Path, typer.Option(help="Where a reverse model is trained.")] = Path("runs"),
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a model that is not here from its hub.")
    ] = False,
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
    stop = terminal.Stop()
    stop.listen()
    from augless import augmentation, recipes
    from augless.recipes import following

    own, others = _divided(augmenter, overrides or [])
    chosen = _chosen(augmenter, own)
    resolved = recipes.preparation(recipe, [one for one in others if one.startswith(_CORPUS)])
    options.set_threads(threads)
    with stop, terminal.Progress() as progress:
        if isinstance(chosen, augmentation.BackTranslation) and chosen.run is None:
            chosen = _with_run(chosen, recipe, others, data, runs, device, workers, stop, progress)
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
        _stopped(stop)
    if as_json:
        print(terminal.as_json({"folder": str(made.folder), **made.manifest}))
        return
    terminal.show(summary(made))
    print(_next(made, recipe, resolved))
    print(made.folder)


def _divided(augmenter: str, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the knobs of an augmenter from the keys of a recipe."""
    from augless import augmentation, recipes

    if augmenter not in augmentation.AUGMENTERS:
        these = ", ".join(augmentation.AUGMENTERS)
        hint = recipes.hint(augmenter, augmentation.AUGMENTERS)
        raise recipes.BadRecipe(f"there is no augmenter {augmenter!r}{hint}\nit can be: {these}")
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
            hint = recipes.hint(first, known)
            raise recipes.BadRecipe(
                f"there is no key {first!r}{hint}\nit can be: {', '.join(known)}"
            )
        (own if first in knobs else others).append(one.removeprefix("augment."))
    return own, others


def _chosen(name: str, overrides: Sequence[str]) -> augmentation.Augmenter:
    from augless.recipes import reading

    values, _ = reading.override({"augment": name}, [f"augment.{one}" for one in overrides])
    chosen: augmentation.Augmenter = reading.resolve(_Asked, name, values, {}).recipe.augment
    return chosen


def _with_run(
    chosen: augmentation.BackTranslation,
    recipe: str,
    overrides: Sequence[str],
    data: Path,
    runs: Path,
    device: Any,
    workers: int,
    stop: terminal.Stop,
    progress: terminal.Progress,
) -> augmentation.BackTranslation:
    """Train a model of the reverse direction, or find it trained."""
    from augless import recipes
    from augless.cli import training
    from augless.recipes import following

    reverse = following.reverse(recipes.load(recipe, overrides))
    source, target = reverse.recipe.corpus.languages
    progress.say(f"training a model from {source} to {target} first")
    place = following.Place(
        prepared=data,
        runs=runs,
        device=device,
        workers=workers,
        stop=stop,
        on_record=lambda record: progress.say(training.line(record)),
        progress=progress,
    )
    run, finished = following.train(reverse, place)
    if not finished:
        _stopped(stop)
    return chosen.with_reverse(run.folder)


def _stopped(stop: terminal.Stop) -> NoReturn:
    print(f"augless: stopped ({stop.by}); the same command goes on", file=sys.stderr)
    raise SystemExit(STOPPED)


def summary(made: augmentation.Augmented) -> str:
    """Say what an augmented folder holds, with samples side by side."""
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
    return "\n".join(lines)


def _next(
    made: augmentation.Augmented, recipe: str, resolved: recipes.Resolved[recipes.Preparation]
) -> str:
    """Say how to train on it; what the recipe says of its text stays as it is."""
    said = [
        f"{key}={value}"
        for key, (value, origin) in resolved.origins.items()
        if origin == "command line" and key.startswith("text.")
    ]
    languages = ",".join(made.manifest["languages"])
    keys = ["corpus=files", f"corpus.path={made.folder}", f"corpus.languages={languages}"]
    keys += ["corpus.weight=weight", "corpus.made=of", *said]
    return f"train on it: augless train {recipe} {' '.join(keys)}"


def neighbours(
    run: Annotated[Path, typer.Argument(help="A trained run's folder.", readable=False)],
    augmented: Annotated[Path, typer.Argument(help="A folder that augment made.", readable=False)],
    out: Annotated[
        Path, typer.Option(help="The folder to write to; files of the same names are replaced.")
    ] = Path("neighbours"),
    limit: Annotated[
        int, typer.Option(min=20, help="Original pairs that are looked at, at most.")
    ] = 2000,
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
        found = measuring.measure(writer, opened, limit=limit, progress=progress)
    out.mkdir(parents=True, exist_ok=True)
    for name, triangles in found.items():
        content = triangles.neighbours.document()
        storage.replace(storage.inside(out, f"{name}.json"), content.encode())
        storage.replace(storage.inside(out, f"{name}.csv"), triangles.table().encode())
    storage.replace(storage.inside(out, "neighbours.svg"), drawing.picture(found).encode())
    findings = {name: measuring.assess(triangles) for name, triangles in found.items()}
    if as_json:
        whole = {name: [vars(one) for one in these] for name, these in findings.items()}
        print(terminal.as_json({"folder": str(out), "findings": whole}))
        return
    for name, these in findings.items():
        print(_findings(name, these))
    print(out)


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
