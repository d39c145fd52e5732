"""Exit codes: one table, and README prints it."""

import re
import signal
from pathlib import Path

import pytest

from augless import corpora, data, errors, metrics, recipes, runs, training, trials
from augless.errors import Failure


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (recipes.BadRecipe("x"), 2),
        (trials.BadPlan("x"), 2),
        (corpora.BadData("x"), 3),
        (data.BadStore("x"), 3),
        (metrics.BadScores("x"), 3),
        (runs.Changed("x"), 4),
        (trials.BadRecord("x"), 4),
        (FileNotFoundError("x"), 5),
        (errors.Busy("x"), 6),
        (training.NotFinite("x"), 7),
        (KeyError("x"), 1),
        (ValueError("x"), 1),
    ],
)
def test_every_mistake_of_a_user_has_its_code(error, code):
    assert errors.code_of(error) == code and code in errors.MEANINGS


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([Failure(7, "x")], 7),
        ([Failure(3, "x"), Failure(3, "nothing could be chosen")], 3),
        ([Failure(7, "x"), Failure(5, "x")], 1),
        ([Failure(1, "killed by SIGKILL; see x")], 1),
        ([Failure(1, "exit code 3: killed"), Failure(3, "x")], 1),
    ],
)
def test_the_code_is_that_of_the_failures_if_they_agree(failures, code):
    assert errors.code_of_all(failures) == code


def test_troubleshooting_says_what_to_do_about_every_exit_code():
    text = (Path(__file__).parent.parent / "docs" / "troubleshooting.md").read_text("utf-8")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert listed == [*sorted(errors.MEANINGS), 128 + signal.SIGPIPE]


def test_the_readme_has_the_table_of_exit_codes():
    readme = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
    listed = re.search(r"Exit codes: (.*?)\.", " ".join(readme.split()))[1]
    assert listed == ", ".join(f"{code} {meaning}" for code, meaning in errors.MEANINGS.items())
