"""Who does jobs: processes of this machine that say how they ended, and take no script's place."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from augless import corpora, errors
from augless.errors import Failure
from augless.trials import pool


@dataclass(frozen=True)
class Task:
    """Does one of a few things."""

    what: str
    log: Path
    saves: bool = True

    def __call__(self, stop):
        import torch

        print(f"doing {self.what}")
        if self.what == "data":
            raise corpora.BadData("line 3 is empty")
        if self.what == "bug":
            raise KeyError("gone")
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "wait":
            self.log.with_name("begun").touch()
            while not stop():
                time.sleep(0.02)
            self.log.with_name("saved").touch()
            raise errors.Stopped("saved")
        return os.getpid(), torch.get_num_threads(), str(Path.cwd())


def ended(*tasks, threads=1):
    """Do tasks at once; return how each ended."""
    executor, outcomes = pool.Local(threads), {}
    for task in tasks:
        executor.submit(task.what, task)
    while len(outcomes) < len(tasks):
        outcomes |= {one.key: one.outcome for one in executor.wait(1.0)}
    return outcomes


def test_tasks_say_how_they_ended_and_one_that_is_killed_takes_no_other_with_it(tmp_path):
    tasks = [Task(what, tmp_path / what / "log") for what in ("fine", "data", "bug", "kill")]
    outcomes = ended(*tasks, threads=3)
    pid, threads, folder = outcomes["fine"]
    assert pid != os.getpid() and threads == 3 and folder == str(Path.cwd())
    assert outcomes["data"] == Failure(3, "line 3 is empty")
    assert outcomes["bug"].code == 1 and outcomes["bug"].why.startswith("KeyError")
    assert outcomes["kill"] == Failure(1, f"killed by SIGKILL; see {tmp_path / 'kill' / 'log'}")
    said = (tmp_path / "bug" / "log").read_text()
    assert "doing bug" in said and "Traceback" in said


@pytest.mark.parametrize("saves", [True, False])
def test_closing_has_tasks_save_and_ends_those_that_do_not(tmp_path, saves):
    executor = pool.Local(1)
    executor.submit("wait", Task("wait", tmp_path / "log", saves))
    while not (tmp_path / "begun").exists():
        assert executor.wait(0.05) == []
    executor.close()
    assert (tmp_path / "saved").exists() == saves
    assert executor.wait(0.0) == []


def test_a_script_that_uses_a_pool_need_not_be_importable(tmp_path):
    script = tmp_path / "a script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from test_pool import Task, ended\n"
        "print('once')\n"
        "assert isinstance(ended(Task('fine', Path('log')))['fine'], tuple)\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr
