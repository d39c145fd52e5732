"""Worker processes that apply a function to blocks of pairs, results in order."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from augless import corpora

# sources, targets, weights, whether augmentation made them: quick to hand over
Block = tuple[list[str], list[str], list[float], list[bool]]
Result = TypeVar("Result")

BLOCK = 8192  # pairs that are handed to a worker at once, to begin with


@dataclass(frozen=True)
class Workers:
    """Processes that all passes over a corpus share: what one pass memoises serves the next."""

    pool: ProcessPoolExecutor | None
    waiting: int = 0
    """blocks that may be handed out at once; without a bound the whole corpus would queue up"""


@contextlib.contextmanager
def worker_processes(count: int) -> Iterator[Workers]:
    """Start worker processes, or none for a count of 1; they end with the `with`."""
    if count <= 1:
        yield Workers(None)
        return
    # A forked worker starts at once, but only a process without threads may fork; torch has some.
    threads = threading.active_count() > 1 or "torch" in sys.modules
    able = "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if able and not threads else "spawn")
    before = {child.pid for child in multiprocessing.active_children()}
    with ProcessPoolExecutor(count, context, serve, (os.getpid(),)) as pool:
        try:
            with held_back():
                pool.submit(int)  # starts them
            yield Workers(pool, 2 * count)
        except BaseException:  # nobody waits for what they are at, whatever it is
            for child in multiprocessing.active_children():
                if child.pid not in before:
                    child.kill()
            raise


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let signals wait: one that comes during a fork is swallowed by whoever is told of forks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def in_order(
    function: Callable[[Block], Result], pairs: Iterable[corpora.Pair], workers: Workers
) -> Iterator[Result]:
    """Apply a function to blocks of pairs, in worker processes if there are, results in order."""
    blocks = _blocks(pairs)
    if workers.pool is None:
        yield from map(function, blocks)
        return
    content = pickle.dumps(function)
    waiting: deque[Future[Any]] = deque()
    for block in blocks:
        waiting.append(workers.pool.submit(_apply, content, block))
        if len(waiting) > workers.waiting:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _blocks(pairs: Iterable[corpora.Pair]) -> Iterator[Block]:
    source = iter(pairs)
    # Small at first, so that a small corpus is shared out; then larger, because the counts of each
    # block are added up by one process.
    size = BLOCK
    while some := list(itertools.islice(source, size)):
        texts = [p.source for p in some], [p.target for p in some]
        yield *texts, [p.weight for p in some], [p.made for p in some]
        size = min(size * 5 // 4, 4 * BLOCK)


def serve(parent: int) -> None:
    """Begin a worker process that leaves Ctrl-C to its parent and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)  # held back while workers were started
    if sys.platform == "linux":  # a worker must not outlive a parent that was killed
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before this worker could ask to be told
            os._exit(1)


_unpacked: dict[bytes, Callable[[Block], Any]] = {}


def _apply(content: bytes, block: Block) -> Any:
    """Apply a packed function, unpacked once: it comes with every block, which costs little."""
    if content not in _unpacked:
        _unpacked.clear()
        _unpacked[content] = pickle.loads(content)
    return _unpacked[content](block)
