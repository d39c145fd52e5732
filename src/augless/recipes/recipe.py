"""The recipe: everything that decides a run, each choice by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from augless import augmentation, decoding, metrics, models, training
from augless.knobs import LARGEST_SEED, Among, Knobs, Within
from augless.recipes.preparing import Preparation
from augless.recipes.reading import hint


@dataclass(frozen=True, kw_only=True)
class Generation(Knobs):
    """The part of a recipe that a trained run needs to be opened again, beside its codecs."""

    model: Annotated[models.Architecture, "what is trained", Among("models.MODELS")] = field(
        default_factory=models.Lstm
    )
    search: Annotated[
        decoding.Search, "how sentences are generated in the end", Among("decoding.SEARCHES")
    ] = field(default_factory=decoding.Beam)
    seed: Annotated[int, "of initialisation, order and dropout", Within(0, LARGEST_SEED)] = 1


@dataclass(frozen=True, kw_only=True)
class Recipe(Generation, Preparation):
    """Everything that decides a run."""

    augment: Annotated[
        augmentation.Augmenter | None,
        "made pairs that are trained on too; none: only the corpus's own",
        Among("augmentation.AUGMENTERS"),
    ] = None
    terms: Annotated[tuple[training.Term, ...], "the summands of the objective"] = (
        training.Term(),
    )
    training: Annotated[training.Settings, "how it is trained"] = field(
        default_factory=training.Settings
    )
    validation: Annotated[
        decoding.Search, "how validation sentences are generated", Among("decoding.SEARCHES")
    ] = field(default_factory=decoding.Greedy)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.terms:
            raise ValueError("there are no terms; a recipe needs at least one")
        if self.training.metric not in metrics.METRICS:
            meant = hint(self.training.metric, metrics.METRICS)
            these = ", ".join(metrics.METRICS)
            raise ValueError(f"metric is {self.training.metric!r}{meant}\nit can be: {these}")
