"""The baselines: pairs rewritten by a masked language model or back-translation.

An augmenter is a set of knobs, listed in `AUGMENTERS`. `augment` applies one to the training pairs
of a corpus and leaves a folder; `Enlarged` is that corpus with the made pairs, at a weight::

    corpus = corpora.CORPORA["toy-de-en"]()
    made = augmentation.augment(augmentation.AUGMENTERS["word-edits"](rate=0.1), corpus, "edited")
    larger = augmentation.Enlarged.of(corpus, made.folder, w=0.5)

What a pair becomes is a function of the seed, its place and its text: never of the batch it is in
or the number of processes. Validation and test pairs are not touched. No network is used, unless a
download or an endpoint is asked for.
"""

from typing import Any

from augless.augmentation.augmenter import REVERSE, Augmenter, BadAugmentation, Context, Notes
from augless.augmentation.corpus import Enlarged, Reversed
from augless.augmentation.edits import WordEdits
from augless.augmentation.folders import Augmented
from augless.augmentation.making import augment, fingerprint_of, made_from
from augless.augmentation.masked import MaskedLm
from augless.augmentation.paraphrasing import Paraphrase
from augless.augmentation.translating import BackTranslation, RoundTrip
from augless.knobs import Choices

# `Any`, so that a type checker lets every kind have knobs of its own.
AUGMENTERS: dict[str, type[Any]] = Choices(
    {
        "masked-lm": MaskedLm,
        "back-translation": BackTranslation,
        "round-trip": RoundTrip,
        "paraphrase": Paraphrase,
        "word-edits": WordEdits,
    }
)

__all__ = [
    "AUGMENTERS",
    "REVERSE",
    "Augmented",
    "Augmenter",
    "BackTranslation",
    "BadAugmentation",
    "Context",
    "Enlarged",
    "MaskedLm",
    "Notes",
    "Paraphrase",
    "Reversed",
    "RoundTrip",
    "WordEdits",
    "augment",
    "fingerprint_of",
    "made_from",
]
