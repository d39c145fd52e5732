"""Who does jobs: one small interface, and processes of this machine that keep it.

Loading torch takes seconds, so the processes are forked from multiprocessing's fork server, which
has loaded it once. One that is killed takes no other with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import Any, Protocol

from augless.errors import BUG, STOPPED, Failure, Stopped, code_of

GRACE = 30.0
"""seconds that a job has to save when it is told to stop, or its trial was killed"""
LONGEST = 2000
"""characters of what is said of a failure"""
_LOADED = ["augless.recipes.following", "torch._dynamo", "sacrebleu", "safetensors.torch"]
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Stop = Callable[[], bool]


class Task(Protocol):
    """What can be handed to another process: a call without arguments but when to stop."""

    @property
    def log(self) -> Path:
        """Where what it prints goes."""

    @property
    def saves(self) -> bool:
        """Whether it looks for a stop and saves; what does not is ended at once."""

    def __call__(self, stop: Stop) -> Any:
        """Do it; return what others have to know."""


@dataclass(frozen=True)
class Ended:
    """A task that is over."""

    key: str
    outcome: Any
    """what the task returned, or a `Failure`"""


class Executor(Protocol):
    """Who does jobs: a pool of processes here, or another machine."""

    def submit(self, key: str, task: Task) -> None:
        """Begin a task."""

    def wait(self, seconds: float) -> list[Ended]:
        """Return the tasks that have ended since, at the latest after some seconds."""

    def close(self) -> None:
        """Have all tasks save and end."""


@dataclass(frozen=True)
class _Child:
    process: Any
    heard: connection.Connection
    log: Path


class Local:
    """A process for each task, of `threads` threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._children: dict[str, _Child] = {}

    def submit(self, key: str, task: Task) -> None:
        """Begin a task in a process of its own."""
        context = multiprocessing.get_context("forkserver")
        heard, told = context.Pipe(duplex=False)
        process = context.Process(
            target=_serve, args=(task, str(Path.cwd()), self._threads, told), name=key
        )
        with _alone(self._threads):
            context.set_forkserver_preload(_LOADED)
            forkserver.ensure_running()
            process.start()
        told.close()  # ours: its end must be heard when the process is gone
        self._children[key] = _Child(process, heard, task.log)

    def wait(self, seconds: float) -> list[Ended]:
        """Return the tasks that have ended, at the latest after some seconds."""
        sentinels = {child.process.sentinel: key for key, child in self._children.items()}
        ready = connection.wait(list(sentinels), seconds) if sentinels else []
        return [self._ended(sentinels[number]) for number in ready if isinstance(number, int)]

    def _ended(self, key: str) -> Ended:
        child = self._children.pop(key)
        child.process.join()
        code = child.process.exitcode
        child.process.close()
        with child.heard, contextlib.suppress(EOFError, OSError):
            return Ended(key, child.heard.recv())
        return Ended(key, _silent(code, child.log))

    def close(self) -> None:
        """Tell all tasks to save and end, and wait for them."""
        for child in self._children.values():
            child.process.terminate()
        self._finish()
        # One that takes longer has a checkpoint, from which it resumes to the same bits.
        for child in self._children.values():
            child.process.kill()
        self._finish()

    def _finish(self) -> None:
        """Wait until all tasks have ended, for as long as they may take to save."""
        deadline = time.monotonic() + GRACE
        while self._children and (left := deadline - time.monotonic()) > 0:
            self.wait(left)


@contextlib.contextmanager
def _alone(threads: int) -> Iterator[None]:
    """Start children with SIGINT blocked, an empty `__main__` and a fixed thread count.

    A Ctrl-C is for us, and we tell them. The script that called us need not be importable.
    """
    main, before = sys.modules["__main__"], dict(os.environ)
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def _serve(task: Task, folder: str, threads: int, told: connection.Connection) -> None:
    """Do a task in this process, and tell how it ended."""
    stopping = threading.Event()

    def note(*_: object) -> None:
        stopping.set()
        if not task.saves:
            sys.exit(STOPPED)

    signal.signal(signal.SIGTERM, note)
    os.chdir(folder)
    task.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(task.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
    for number in (1, 2):
        os.dup2(log, number)
    threading.Thread(target=_watch, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    try:
        told.send(task(stopping.is_set))
    except Stopped as error:
        told.send(Failure(STOPPED, str(error)))
    except Exception as error:
        told.send(failed(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def failed(error: Exception) -> Failure:
    """Return what is said of an error, with all of it printed where it is a bug."""
    code, said = code_of(error), str(error)[:LONGEST]
    if code == BUG:
        traceback.print_exc()
        said = f"{type(error).__name__}: {said}"
    print(said, flush=True)
    return Failure(code, said)


def _watch() -> None:
    """Save and stop when the process that submitted this one is gone, however it went."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # we are a child
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(STOPPED)


def _silent(code: int, log: Path) -> Failure:
    """Say why a process ended that did not say so itself."""
    if code == STOPPED:
        return Failure(STOPPED, "stopped")
    if code >= 0:
        return Failure(BUG, f"its process ended with code {code}; see {log}")
    name = f"signal {-code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    return Failure(BUG, f"killed by {name}; see {log}")
