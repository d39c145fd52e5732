"""Runs killed at random and at named points end with the bits of a run never stopped."""

import functools
import os
import random
import signal
import time

import pytest
import torch._dynamo  # noqa: F401  # an optimiser loads it; here, before any fork

import small_runs as quick
from augless import errors, runs

CASES = {
    "law": {"terms": quick.OBJECTIVES["law"], "optimizer": quick.OPTIMIZERS["sgd"]},
    "wasserstein": {
        "terms": quick.OBJECTIVES["wasserstein"],
        "optimizer": quick.OPTIMIZERS["adam"],
        "model": "transformer",
    },
}
INSIDE_A_RUN = [name for name in runs.CRASH_POINTS if not name.startswith("create")]


def train(folder, case):
    """Train in this process as the command line does: a signal is noted and the step finished."""
    asked = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.append(True))
    run = quick.new_run(folder)
    finished = quick.fit(run, quick.trainer(save_every=2, **CASES[case]), stop=lambda: bool(asked))
    return 0 if finished else 75


def session(folder, case, crash="", kill_after=None):
    """Train in a child process until it ends or is killed; return its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.environ["AUGLESS_CRASH"] = crash
            code = train(folder, case)
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """What a run never stopped ends with, and how long it takes."""

    @functools.cache
    def end(case):
        folder = tmp_path_factory.mktemp("whole") / "run"
        began = time.monotonic()
        assert session(folder, case) == 0
        return quick.everything(runs.Run.open(folder)), time.monotonic() - began

    return end


def survive(folder, case, draws, seconds):
    """Kill a run at random moments, ten times at most, and let it end; count the kills."""
    for hits in range(10):
        code = session(folder, case, kill_after=draws.uniform(0, seconds / 2))
        assert code in (0, -signal.SIGKILL)  # a run that failed by itself is no kill
        if code == 0:
            return hits
    assert session(folder, case) == 0
    return 10


@pytest.mark.parametrize("case", CASES)
def test_kills_at_random_moments_change_no_bit(tmp_path, ends, case):
    expected, seconds = ends(case)
    for attempt in range(6):  # a machine may be faster now than when it was timed
        folder = tmp_path / f"run {attempt}"
        hits = survive(folder, case, random.Random(7), seconds / 4**attempt)
        if hits >= 2:
            break
    assert hits >= 2  # else this tested nothing
    assert quick.everything(runs.Run.open(folder)) == expected


SOME = ["save-file-written:3", "best-renamed:1", "log-written:3"]
MOMENTS = [
    *(("law", f"{point}:1:KILL") for point in INSIDE_A_RUN),
    *(("law", f"{point}:{name}") for point in SOME for name in ("KILL", "TERM", "INT")),
    *(("wasserstein", f"{point}:KILL") for point in SOME),
]


@pytest.mark.parametrize(("case", "crash"), MOMENTS)
def test_a_signal_inside_a_save_changes_no_bit(tmp_path, ends, case, crash):
    code = session(tmp_path / "run", case, crash=crash)
    # Nothing is rewound in a first session.
    unmet = crash.startswith("rewind")
    assert code in (-signal.SIGKILL, 75) or (unmet and code == 0)
    assert code == 0 or session(tmp_path / "run", case) == 0
    assert quick.everything(runs.Run.open(tmp_path / "run")) == ends(case)[0]


def test_a_kill_while_records_are_rewound_changes_no_bit(tmp_path, ends):
    for point in ("rewind-written", "rewind-renamed"):
        folder = tmp_path / point
        assert session(folder, "law", crash="log-written:2") == -signal.SIGKILL
        assert session(folder, "law", crash=f"{point}:1") == -signal.SIGKILL
        assert session(folder, "law") == 0
        assert quick.everything(runs.Run.open(folder)) == ends("law")[0]


def test_at_most_an_interval_of_work_is_lost(tmp_path):
    crash = "log-written:4"  # the record of step 7 or 8
    assert session(tmp_path / "run", "law", crash=crash) == -signal.SIGKILL
    run = runs.Run.open(tmp_path / "run")
    last, recorded = run.last().step, max(entry.step for entry in run.metrics())
    assert recorded - 2 <= last <= recorded


def test_a_second_process_is_told_that_the_run_is_busy(tmp_path):
    run = quick.new_run(tmp_path / "run")
    with run.lock(), pytest.raises(errors.Busy, match=f"process {os.getpid()}"):
        quick.fit(quick.new_run(tmp_path / "run"), quick.trainer())


def test_a_damaged_checkpoint_costs_an_interval_and_no_bit(tmp_path):
    whole, damaged = quick.new_run(tmp_path / "whole"), quick.new_run(tmp_path / "damaged")
    quick.fit(whole, quick.trainer(save_every=2))
    one = quick.trainer(save_every=2)
    quick.fit(damaged, one, stop=lambda: one.at.step >= 5)
    newest = max(damaged.folder.glob("checkpoint-*"))
    path = newest / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 8
    path.write_bytes(content)
    again = runs.Run.open(damaged.folder)
    assert quick.fit(again, quick.trainer(save_every=2))
    assert len(again.warnings) == 1 and newest.name in again.warnings[0]
    assert quick.everything(again) == quick.everything(whole)


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    run = quick.new_run(tmp_path / "run")
    one = quick.trainer(save_every=2)
    write = os.write

    def full(descriptor, content):
        if one.at.step >= 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        quick.fit(run, one)
    monkeypatch.setattr(os, "write", write)
    assert run.last().step == 2
    whole = quick.new_run(tmp_path / "whole")
    quick.fit(whole, quick.trainer(save_every=2))
    assert quick.fit(run, quick.trainer(save_every=2))
    assert quick.everything(run) == quick.everything(whole)


def test_the_position_survives_with_the_number_of_steps(tmp_path):
    run = quick.new_run(tmp_path / "run")
    one = quick.trainer()
    quick.fit(run, one, stop=lambda: one.at.step >= 7)
    assert run.last().state["position"]["batch"] == 2  # five batches an epoch
