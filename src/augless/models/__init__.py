"""The sequence-to-sequence contract, and the LSTM and Transformer that keep it.

A model reads a batch teacher-forced (`model(batch) -> Output`), or one word at a time: `encode` the
source into a `State`, then `step` from state and last words to logits and the next state. `MODELS`
lists the kinds that recipes name; each is a dataclass of knobs with `build`.
"""

from typing import Any

from augless.contracts import Output
from augless.knobs import Choices
from augless.models.contract import Model, State
from augless.models.lstm import Lstm, PaperLstm
from augless.models.parts import Architecture
from augless.models.transformer import PaperTransformer, Transformer

# `Any`, so that a type checker lets every kind have knobs of its own.
MODELS: dict[str, type[Any]] = Choices(
    {
        "lstm": Lstm,
        "paper-lstm": PaperLstm,
        "transformer": Transformer,
        "paper-transformer": PaperTransformer,
    }
)

__all__ = [
    "MODELS",
    "Architecture",
    "Lstm",
    "Model",
    "Output",
    "PaperLstm",
    "PaperTransformer",
    "State",
    "Transformer",
]
