"""Records of a run for TensorBoard, beside the run's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from augless import runs
from augless.recipes.reading import BadRecipe


def check() -> Any:
    """Refuse to go on without TensorBoard; return what writes for it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        advice = "pip install 'augless[tensorboard]'"
        raise BadRecipe(f"TensorBoard is not installed; {advice}") from None
    return SummaryWriter


Listener = Callable[[runs.Logged], None]


def listener(run: runs.Run, then: Listener) -> Listener:
    """Return what hands records on to `then`, and writes them for TensorBoard."""
    last = run.last()
    purged = last.step + 1 if last else 0
    board = check()(str(run.folder / "tensorboard"), purge_step=purged)

    def write(record: runs.Logged) -> None:
        then(record)
        numbers = _numbers("", vars(record)) | _numbers("valid/", record.scores)
        for split, scores in record.watched.items():
            numbers |= _numbers(f"{split}/", scores)
        for i, term in enumerate(record.terms):
            numbers |= _numbers(f"term{i}/", vars(term))
        for name, value in numbers.items():
            board.add_scalar(f"{record.kind}/{name}", value, record.step)
        board.flush()

    return write


def _numbers(prefix: str, values: Mapping[str, Any]) -> dict[str, float]:
    return {f"{prefix}{k}": v for k, v in values.items() if isinstance(v, float)}
