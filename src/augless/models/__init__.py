"""The sequence-to-sequence contract, and the LSTM and Transformer that keep it.

A model reads a batch teacher-forced (`model(batch) -> Output`), or one word at a time: `encode` the
source into a `State`, then `step` from state and last words to logits and the next state.
"""

from augless.models.contract import Model, Output, State

__all__ = ["Model", "Output", "State"]
