"""A run's directory: what is in it, and how to read it back.

::

    run.json                            recipe, fingerprints of corpus and codecs, versions
    source/codec.json, target/codec.json
    checkpoint-000007-step-1200/        manifest.json, state.json, model.safetensors, ...
    best-000002-step-900/               the same, for the best model so far
    metrics.jsonl                       what was logged, an entry a line
    result.json                         there once the run is done
    lock                                held by the process that trains

Whatever has to be whole is written aside under a name that starts with a dot, flushed, and renamed.
Every byte that is read back is compared with a SHA-256 first. A file can name no class, and nothing
is unpickled.
"""

from augless.runs.directory import CRASH_POINTS, Changed, Checkpoint, Codecs, Run, Table
from augless.runs.files import FORMAT, SIDES, BadRun
from augless.runs.progress import Best, Caution, Logged, Moment, Outcome, Spent, TermLog

__all__ = [
    "CRASH_POINTS",
    "FORMAT",
    "SIDES",
    "BadRun",
    "Best",
    "Caution",
    "Changed",
    "Checkpoint",
    "Codecs",
    "Logged",
    "Moment",
    "Outcome",
    "Run",
    "Spent",
    "Table",
    "TermLog",
]
