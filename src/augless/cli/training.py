"""The verb train."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import runs, training


def train(
    recipe: options.Recipe,
    overrides: options.Overrides = None,
    *,
    run: Annotated[
        Path | None, "The run's folder; else named after the recipe, below --out."
    ] = None,
    out: Annotated[Path, "Where runs are kept."] = Path("runs"),
    data: options.Data = options.DATA,
    device: options.Device = "auto",
    threads: options.Threads = None,
    workers: options.Workers = 1,
    max_minutes: options.MaxMinutes = math.inf,
    tensorboard: Annotated[bool, "Write records for TensorBoard too."] = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Train a model; the same command resumes where it stopped.

    Examples:

      augless train toy-de-en

      augless train multi30k corpus.path=downloads/multi30k model=transformer
      training.optimizer=adam

      augless train toy-de-en terms.0.weighting=exponential seed=2 --max-minutes 10

      augless train toy-de-en augment=back-translation augment.w=0.5
    """
    stop = terminal.Stop().listen()
    from augless import recipes
    from augless.recipes import following

    resolved = recipes.load(recipe, overrides or [])
    options.set_threads(threads)
    if idle := recipes.without_effect(resolved):
        terminal.say(idle)
    with terminal.Progress() as progress:
        if not as_json:
            terminal.print_recipe(resolved.origins, verbose=verbose)
        place = following.Place(
            prepared=data,
            runs=out,
            device=device,
            workers=workers,
            stop=stop,
            on_record=lambda record: progress.say(line(record)),
            progress=progress,
        )
        trained, finished = following.train(
            resolved, place, folder=run, max_minutes=max_minutes, tensorboard=tensorboard
        )
    for warning in trained.warnings:
        terminal.say(warning)
    if not finished:
        why = stop.by or f"{max_minutes:g} minutes"
        raise terminal.stopped(why, f", saved in {trained.folder}")
    result = trained.outcome()
    assert result is not None  # it is finished
    values = {"run": str(trained.folder), **dataclasses.asdict(result)}
    terminal.result(as_json, values, lambda: _said(trained, result, resolved.recipe.training))
    if not as_json:
        source = f"input.{resolved.recipe.corpus.languages[0]}"
        terminal.print_next("augless", "generate", trained.folder, source)


def _said(trained: runs.Run, result: runs.Outcome, settings: training.Settings) -> str:
    """Say what came of a finished run, and where it is."""
    needed = result.needed.items()
    lines = [f"{what}: {one.seconds:,.1f} s, {one.samples:,} samples" for what, one in needed]
    scores = {name: math.nan if v is None else v for name, v in result.best.scores.items()}
    lines.append(f"best model: epoch {result.best.epoch} of {result.epochs}, {_scored(scores)}")
    if result.epochs < settings.epochs:
        epochs = "1 epoch" if settings.patience == 1 else f"{settings.patience} epochs"
        lines.append(
            f"early stopping: no better {settings.metric} on the validation set in "
            f"{epochs} (training.patience)"
        )
    return "\n".join([*lines, str(trained.folder)])


def line(record: runs.Logged) -> str:
    """Say what a training has just logged in one line."""
    where = f"epoch {record.epoch} step {record.step:,}"
    terms = ", ".join(_term(record, place) for place in range(len(record.terms)))
    terms += f", {record.clipped:.0%} of steps clipped"
    if record.kind == "epoch":
        every = {"validation": record.scores, **record.watched}
        scored = "; ".join(f"{split}: {_scored(scores)}" for split, scores in every.items())
        return f"{where} done: {terms}; {scored}"
    speed = f"{record.tokens_per_second:,.0f} tokens/s"
    norm = f"gradient {record.gradient_norm:.3g}"
    return f"{where}: {terms}, rate {record.rate:.3g}, {norm}, {speed}"


def _scored(scores: Mapping[str, float | None]) -> str:
    units = {"loss": " nats per token"}
    return ", ".join(f"{name} {value:.4g}{units.get(name, '')}" for name, value in scores.items())


def _term(record: runs.Logged, place: int) -> str:
    term, sample = record.terms[place], "token" if place in record.by_token else "sentence"
    said = f"loss {term.loss:.4g} per {sample}, weight {term.weight:.3f}"
    if term.gradient_share is None or len(record.terms) == 1:
        return said
    return f"{said}, {term.gradient_share:.2%} of the gradient"
