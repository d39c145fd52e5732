"""Prepared pairs on disk to typed, length-bucketed batches.

`prepare` turns a corpus into a folder: two codecs, flat ids with offsets for each split, and a
manifest with statistics and the SHA-256 of everything read and written. `Prepared.open` reads it
back through memory maps, and `batches` makes the batches of an epoch, a pure function of the seed
and the epoch. Torch is imported only when a batch is made.
"""

from augless.contracts import Batch, Targets
from augless.data.batches import batch_rows, batches, collate, drop_words, padded, padding_share
from augless.data.preparing import Filters, Settings, prepare
from augless.data.store import SIDES, BadStore, Pairs, Prepared, Ragged

__all__ = [
    "SIDES",
    "BadStore",
    "Batch",
    "Filters",
    "Pairs",
    "Prepared",
    "Ragged",
    "Settings",
    "Targets",
    "batch_rows",
    "batches",
    "collate",
    "drop_words",
    "padded",
    "padding_share",
    "prepare",
]
