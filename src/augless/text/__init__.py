"""Strings to ids and back: cleaning, tokenisation, subwords, vocabulary.

A line passes through five forms, each a plain value::

    raw line -> normalise -> keys -> words -> pieces -> ids

A *key* is a white-space separated piece of the line plus the little of its surroundings that the
tokeniser's rules look at. Everything after it is a function of the key alone, so a dictionary
remembers it, and a line of known keys costs one look-up per key.

A *word* is a token; words are what a vocabulary is learnt from. Two marks occur in words and
pieces: `JOIN`, a control character, on the side where a token touched its neighbour, and a space
at the end of a word. After `normalise` no token holds either character, so no text, however odd,
is mistaken for a mark. Special symbols have ids but no spelling: no text encodes to them.
"""

from augless.contracts import BOS, EOS, PAD, UNK
from augless.text.cleaning import lower, normalise
from augless.text.codec import Codec
from augless.text.tokenisation import JOIN, Kind, Moses, Tokeniser, detokenise, moses
from augless.text.vocabularies import (
    LONGEST_WORD,
    SPECIALS,
    VOCABULARIES,
    Subwords,
    Vocabulary,
    Words,
)

__all__ = [
    "BOS",
    "EOS",
    "JOIN",
    "LONGEST_WORD",
    "PAD",
    "SPECIALS",
    "UNK",
    "VOCABULARIES",
    "Codec",
    "Kind",
    "Moses",
    "Subwords",
    "Tokeniser",
    "Vocabulary",
    "Words",
    "detokenise",
    "lower",
    "moses",
    "normalise",
]
