"""One run of a trial in a process of its own: train, decode once, score, leave a record.

Loading torch takes seconds, so one process loads it and forks another for each run. Orders come as
lines of JSON on its standard input, exit codes go out on its standard output. When the input ends,
because the trial is over or was killed, the runs are told to save and stop. Exit codes are those of
the command line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from augless import data, metrics, recipes, runs
from augless.errors import BUG, STOPPED, code_of
from augless.trials import facts, jobs, records

if TYPE_CHECKING:
    from augless.recipes.following import Recipe

GRACE = 30.0
"""seconds that an orphan has to save, and that a run may still be held by one"""
SIGNAL = b"signal "
"""begins a line that is no order but a signal for all runs"""
INTERVALS = 200
"""records between two epochs that are kept at most"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a process is told."""

    job: jobs.Job
    identifier: str
    root: Path
    metrics: tuple[str, ...]
    threads: int
    device: str

    def line(self) -> bytes:
        """Write the order as a line of JSON."""
        return json.dumps(asdict(self) | {"root": str(self.root)}).encode() + b"\n"

    @staticmethod
    def read(line: bytes) -> Order:
        """Read an order back."""
        content = json.loads(line)
        names = [knob.name for knob in fields(jobs.Job)]
        job = jobs.Job(**{name: _tuple(content["job"][name]) for name in names})
        rest = {key: _tuple(value) for key, value in content.items() if key not in ("job", "root")}
        return Order(job=job, root=Path(content["root"]), **rest)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def load() -> None:
    """Import once for all of them what a run would, dynamo with the first optimiser it builds."""
    for name in ("augless.recipes.following", "torch._dynamo", "sacrebleu", "safetensors.torch"):
        importlib.import_module(name)


def main() -> int:
    """Fork a process for each order, and say how each of them ended."""
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    life = os.pipe()  # its writing end is open as long as this process lives
    alive: dict[int, str] = {}
    listening, heard, deadline = True, b"", math.inf
    while listening or (alive and time.monotonic() < deadline):
        if select.select([0] if listening else [], [], [], 0.02)[0]:
            part = os.read(0, 1 << 16)
            heard += part
            if not part:
                listening, deadline = False, time.monotonic() + GRACE
                _signal(alive, signal.SIGTERM)
        while b"\n" in heard:
            line, _, heard = heard.partition(b"\n")
            if line.startswith(SIGNAL):
                _signal(alive, int(line.removeprefix(SIGNAL)))
                continue
            order = Order.read(line)
            if not (process := os.fork()):
                os.close(life[1])
                _become(order, life[0])
            alive[process] = order.identifier
        while alive and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            answer = {"id": alive.pop(ended[0]), "code": os.waitstatus_to_exitcode(ended[1])}
            with contextlib.suppress(BrokenPipeError):
                os.write(1, json.dumps(answer).encode() + b"\n")
    _signal(alive, signal.SIGKILL)
    return 0


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _become(order: Order, life: int) -> NoReturn:
    """Turn this process into that of a run; never return."""
    code = BUG
    try:
        stopping = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stopping.set())
        path = jobs.Layout(order.root).log(order.identifier)
        path.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for old, new in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(old, new)
        threading.Thread(target=_watch, args=[life], daemon=True).start()
        code = _work(order, stopping)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else BUG
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(order: Order, stopping: threading.Event) -> int:
    """Follow an order; what goes wrong is a code and a line at the end of the log."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {order.job.command}", flush=True)
    try:
        return _follow(order, stopping)
    except Exception as error:
        code = code_of(error)
        if code == BUG:
            traceback.print_exc()
        said = "; ".join(str(error).splitlines())
        print(said if code != BUG else f"{type(error).__name__}: {said}", flush=True)
        return code


def _follow(order: Order, stopping: threading.Event) -> int:
    import torch

    from augless.recipes import following

    torch.set_num_threads(order.threads)
    layout, job = jobs.Layout(order.root), order.job
    resolved = recipes.load(job.recipe, job.overrides)
    folder = layout.run(f"{resolved.name}-{order.identifier}")
    patience = time.monotonic() + GRACE
    while True:
        try:
            run, finished = following.train(
                resolved,
                folder=folder,
                prepared_root=layout.prepared,
                device=order.device,  # type: ignore[arg-type]  # checked by whoever gave the order
                stop=stopping.is_set,
                on_record=_say,
            )
            break
        except runs.Busy:  # the process of a killed trial may still be saving
            if time.monotonic() > patience or stopping.is_set():
                raise
            time.sleep(0.2)
    if not finished or stopping.is_set():
        print("stopped; the same trial goes on from here", flush=True)
        return STOPPED
    # From here on nothing is half done: what was trained is saved, and a record is whole or absent.
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: sys.exit(STOPPED))
    _score(order, run, resolved)
    return 0


def _score(order: Order, run: runs.Run, resolved: recipes.Resolved[Recipe]) -> None:
    """Decode what the order asks for and leave the record."""
    from augless import training
    from augless.recipes import following

    layout, job = jobs.Layout(order.root), order.job
    recipe = resolved.recipe
    prepared = data.prepare(recipe.corpus, recipe.text, layout.prepared, name=resolved.name)
    writer = following.writer(run.folder, order.device)  # type: ignore[arg-type]  # checked
    scores: facts.Scores = {}
    statistics = {}
    hypotheses = {}
    for split in job.splits:
        print(f"decoding {split}", flush=True)
        sources, references = jobs.lines(recipe.corpus, split)
        pairs = prepared.pairs(split)
        nats, tokens = training.nats(writer.model, pairs)
        hypotheses[split] = writer.generate(sources)
        if split == "test":
            hypotheses |= dict(zip(records.SIDES, (sources, references), strict=True))
        scores[split] = {}
        for name in order.metrics:
            metric = _metric(name, prepared)
            found = metrics.score(metric, hypotheses[split], references, nats=nats, tokens=tokens)
            value = found.value if math.isfinite(found.value) else None
            scores[split][name] = facts.Score(value, found.signature)
            statistics[f"{split}/{name}"] = found.statistics
            print(f"{split} {name} {found.value:.4f}", flush=True)
        statistics[f"{split}/nats"] = nats
        statistics[f"{split}/length"] = pairs.target.lengths.astype(np.float64)
        statistics[f"{split}/source_length"] = pairs.source.lengths.astype(np.float64)
    result = run.result
    assert result is not None  # it is finished
    records.save_hypotheses(layout.hypotheses(order.identifier), hypotheses)
    records.Record(
        id=order.identifier,
        name=resolved.name,
        recipe=jobs.settled(resolved),
        seed=job.seed,
        corpus=prepared.fingerprint,
        inputs=facts.parsed(tuple[facts.Input, ...], prepared.manifest["inputs"]),
        versions={key: str(value) for key, value in run.versions.items()},
        command=f"{jobs.portable(job, resolved)} --threads {order.threads} --device {order.device}",
        result=facts.parsed(facts.Result, result),
        scores=scores,
        statistics=statistics,
        history=thinned(facts.history_of(run.metrics())),
    ).save(layout.record(order.identifier))
    # Its best model stays; what it would have gone on from is three times as large.
    run.forget()


def thinned(history: Sequence[facts.Logged]) -> tuple[facts.Logged, ...]:
    """Keep every epoch of a run's history, and evenly spaced ones of what lies between."""
    between = sum(entry.kind == "interval" for entry in history)
    every, seen = -(-between // INTERVALS) or 1, 0
    kept = []
    for entry in history:
        if entry.kind == "interval":
            seen += 1
            if seen % every:
                continue
        kept.append(entry)
    return tuple(kept)


def _metric(name: str, prepared: data.Prepared) -> metrics.Metric:
    """Make a metric, in the language of the target where that matters."""
    kind = metrics.METRICS[name]
    knobs = {knob.name for knob in fields(kind)}
    given = {}
    if "language" in knobs:
        given["language"] = prepared.codecs[1].tokeniser.language
    if "vocabulary" in knobs:
        given["vocabulary"] = prepared.codecs[1].fingerprint[:12]
    metric: metrics.Metric = kind(**given)
    return metric


def _say(record: Any) -> None:
    if record["kind"] == "epoch":
        scores = " ".join(f"{name} {value:.4f}" for name, value in record["scores"].items())
        print(f"epoch {record['epoch']} step {record['step']} {scores}", flush=True)


def _watch(life: int) -> None:
    """Stop when the process that forked this one is gone, however it went."""
    while os.read(life, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(STOPPED)
