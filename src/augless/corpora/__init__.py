"""Raw parallel data, public or generated, to aligned and checksummed pairs.

A corpus has knobs, splits, and pairs that stream::

    corpus = corpora.CORPORA["files"](path=Path("talks"), languages=("de", "en"))
    corpus.check()
    for pair in corpus.pairs("train"):
        ...

What is wrong with the data is a `BadData`, which names file and line. What lines are, and which
compressed forms are read: `augless.corpora.reading`. No network is used, but by `download` of a
public corpus.
"""

from typing import Any

from augless.corpora.corpus import Corpus
from augless.corpora.downloading import Progress
from augless.corpora.drawn import Reddit, Tatoeba
from augless.corpora.files import FORMATS, Files, Format
from augless.corpora.published import (
    IWSLT14,
    IWSLT15EnglishVietnamese,
    Multi30k,
    Published,
)
from augless.corpora.reading import BadData, Pair, Tally
from augless.corpora.toy import ToyDialogue, ToyGermanEnglish
from augless.knobs import Choices

# `Any`, so that a type checker lets every kind have knobs of its own. A name says the languages of
# a corpus that has no others; elsewhere `languages` does.
CORPORA: dict[str, type[Any]] = Choices(
    {
        "files": Files,
        "iwslt14": IWSLT14,
        "iwslt15-en-vi": IWSLT15EnglishVietnamese,
        "multi30k": Multi30k,
        "reddit": Reddit,
        "tatoeba": Tatoeba,
        "toy-de-en": ToyGermanEnglish,
        "toy-dialogue": ToyDialogue,
    }
)

__all__ = [
    "CORPORA",
    "FORMATS",
    "IWSLT14",
    "BadData",
    "Corpus",
    "Files",
    "Format",
    "IWSLT15EnglishVietnamese",
    "Multi30k",
    "Pair",
    "Progress",
    "Published",
    "Reddit",
    "Tally",
    "Tatoeba",
    "ToyDialogue",
    "ToyGermanEnglish",
]
