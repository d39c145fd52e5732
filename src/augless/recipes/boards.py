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


Listener = Callable[[Mapping[str, Any]], None]


def listener(run: runs.Run, then: Listener) -> Listener:
    """Return what hands records on to `then`, and writes them for TensorBoard."""
    last = run.last()
    purged = last.step + 1 if last else 0
    board = check()(str(run.folder / "tensorboard"), purge_step=purged)

    def write(record: Mapping[str, Any]) -> None:
        then(record)
        numbers = {k: v for k, v in record.items() if isinstance(v, float)}
        numbers |= {f"valid/{k}": v for k, v in record.get("scores", {}).items()}
        for i, term in enumerate(record["terms"]):
            numbers |= {f"term{i}/{k}": v for k, v in term.items() if isinstance(v, float)}
        for name, value in numbers.items():
            board.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        board.flush()

    return write
