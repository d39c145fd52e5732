"""The loop: batches in, a trained run out.

The objective is a list of `Term`s. A `Trainer` holds all that a checkpoint must hold, and `fit`
resumes from the last one: the order of an epoch and every draw of a step are functions of the seed
and the position, so a run that was killed ends with the bits of one that was not (on the same
machine, with the same torch and number of threads).
"""

from augless.training.fitting import fit, worked
from augless.training.loop import (
    Device,
    NotFinite,
    Settings,
    Trainer,
    check_precision,
    choose_device,
    nats,
    set_weights,
)
from augless.training.optimizers import OPTIMIZERS, Adam, AdamW, Sgd
from augless.training.terms import Term

__all__ = [
    "OPTIMIZERS",
    "Adam",
    "AdamW",
    "Device",
    "NotFinite",
    "Settings",
    "Sgd",
    "Term",
    "Trainer",
    "check_precision",
    "choose_device",
    "fit",
    "nats",
    "set_weights",
    "worked",
]
