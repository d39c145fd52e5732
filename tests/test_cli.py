import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from augless import runs
from augless.cli import options
from augless.cli import training as verb
from augless.knobs import AtLeast, Within
from support import augless, on_a_terminal, own_files

SIZE = "text.vocabulary.size=60"


def test_prepare_prints_what_it_made_and_where(tmp_path):
    done = augless(
        "prepare", "toy-de-en", "corpus.train=300", "text.vocabulary.size=400", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert re.search("^train +300 ", done.stdout, re.MULTILINE)
    folder = tmp_path / done.stdout.strip().split("\n")[-1]
    assert (folder / "manifest.json").exists()
    assert "corpus.train = 300  (command line)" in done.stderr


def test_prepare_speaks_json(tmp_path):
    own_files(tmp_path)
    arguments = ("prepare", "files", "corpus.path=.", "corpus.languages=de,en", SIZE, "--json")
    done = augless(*arguments, "--workers", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["splits"] == {"train": 200, "valid": 5, "test": 5}
    assert json.loads(augless(*arguments, cwd=tmp_path).stdout) == answer


def test_prepare_reads_standard_input(tmp_path):
    lines = "".join(f"ein Haus {i}\ta house {i}\n" for i in range(50))
    done = augless(
        "prepare", "files", "corpus.train=-", "corpus.form=tsv", "corpus.languages=de,en", SIZE,
        cwd=tmp_path, stdin=lines,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "train: 50 pairs read; dropped: none" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["prepare", "toy-de-em"], 2, "did you mean 'toy-de-en'?"),
        (["prepare", "toy-de-en", "text.lowercas=true"], 2, "did you mean 'lowercase'?"),
        (["prepare"], 2, "Missing argument"),
        (["prepare", "toy-de-en", "--workers", "0"], 2, "greater than or equal to 1"),
        (["prepare", "files", "corpus.path=nowhere", "corpus.languages=de,en"], 3, "nowhere"),
        (["prepare", "toy-de-en", "text.filters.min_length=90"], 3, "no training pair is left"),
        (["prepare", "toy-de-en", "--out", "a-file/below"], 5, "a-file"),
    ],
)
def test_a_mistake_is_a_few_lines_and_an_exit_code(tmp_path, arguments, code, message):
    (tmp_path / "a-file").write_text("")
    done = augless(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) in (["a-file"], ["a-file", "data"])


def test_unequal_files_are_refused_and_nothing_is_written(tmp_path):
    own_files(tmp_path)
    with (tmp_path / "train.en").open("a") as file:
        file.write("one more\n")
    done = augless(
        "prepare", "files", "corpus.path=.", "corpus.languages=de,en", SIZE, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "train.en" in done.stderr and "201" in done.stderr
    assert not list(tmp_path.glob("data/*"))


@pytest.mark.parametrize(
    "verb",
    [
        f"prepare files corpus.path=. corpus.languages=de,en {SIZE} --json",
        f"prepare files corpus.path=. corpus.languages=de,en {SIZE}",
        "prepare --help",
    ],
)
@pytest.mark.parametrize("buffered", [True, False])  # notices at the end, or when it prints
def test_a_reader_that_goes_away_is_no_error(tmp_path, verb, buffered):
    own_files(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, *([] if buffered else ["-u"]), "-m", "augless", *verb.split()],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert done.returncode == 128 + signal.SIGPIPE  # as the shell says of any tool that it ended
    lines = done.stderr.splitlines()
    assert all(re.match(r"reading |counting |learning |writing |  \w", line) for line in lines)
    assert ("--help" in verb) == (not (tmp_path / "data").exists())


def test_closed_streams_are_no_error(tmp_path):
    own_files(tmp_path)
    verb = f"prepare files corpus.path=. corpus.languages=de,en {SIZE}"
    command = f"{sys.executable} -m augless {verb} >&- 2>&-"
    assert subprocess.run(command, shell=True, cwd=tmp_path).returncode == 0
    assert list(tmp_path.glob("data/*/manifest.json"))


# Progress


COLOUR = re.compile(r"\x1b\[[0-9;]*?\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")


@pytest.mark.parametrize("env", [{"NO_COLOR": ""}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_a_bar_with_the_time_left(tmp_path, env):
    own_files(tmp_path)
    for language in ("de", "en"):  # enough that a bar is seen to move
        (tmp_path / f"train.{language}").write_text(f"{'house ' * 30}\n" * 20_000)
    arguments = ("prepare", "files", "corpus.path=.", "corpus.languages=de,en", SIZE)
    written = on_a_terminal(*arguments, cwd=tmp_path, env=env)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    for stage in ("counting words", "writing train"):
        assert re.search(rf"{stage} +━[━╸╺ ]* +[1-9]\d% (-:--:--|\d:\d\d:\d\d)", plain), stage
        assert re.search(rf"{stage} +━+ 100% 0:00:00", plain), stage
    assert bool(COLOUR.search(written)) == (env["NO_COLOR"] == "")


def test_elsewhere_progress_is_plain_lines(tmp_path):
    own_files(tmp_path)
    arguments = ("prepare", "files", "corpus.path=.", "corpus.languages=de,en", SIZE)
    done = augless(*arguments, cwd=tmp_path, env={"FORCE_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    stages = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert stages == [
        "reading checksums",
        "counting words: 100%",
        "learning the vocabulary",
        "writing train: 100%",
        "writing valid: 100%",
        "writing test: 100%",
        f"next: augless train {shlex.join(arguments[1:])}",
    ]


def test_a_side_that_is_no_language_is_cut_by_the_rules_that_are_said(tmp_path):
    done = augless("prepare", "toy-dialogue", "corpus.train=200", cwd=tmp_path)
    assert "query: cut by the rules for 'en'\nresponse: cut by the rules for 'en'" in done.stdout
    done = augless("prepare", "toy-de-en", "corpus.train=200", cwd=tmp_path)
    assert done.returncode == 0 and "cut by the rules" not in done.stdout


def test_an_empty_line_is_refused_with_the_key_to_set(tmp_path):
    own_files(tmp_path)
    for language in ("de", "en"):
        with (tmp_path / f"train.{language}").open("a") as file:
            file.write("\n")
    arguments = ("prepare", "files", "corpus.path=.", "corpus.languages=de,en", SIZE)
    done = augless(*arguments, cwd=tmp_path)
    assert done.returncode == 3
    assert "train.de, line 201" in done.stderr and "corpus.empty=drop" in done.stderr
    done = augless(*arguments, "corpus.empty=drop", cwd=tmp_path)
    assert done.returncode == 0
    assert "train: 201 pairs read; dropped: 1 empty" in done.stdout


@pytest.mark.parametrize("verbs", [(), ("survey",)])
def test_help_says_in_a_whole_sentence_what_each_verb_does(tmp_path, verbs):
    done = augless(*verbs, "--help", cwd=tmp_path, env={"COLUMNS": "80"})
    _, commands = done.stdout.split("Commands:\n")
    assert all(re.match(r"  \w+ +[A-Z].*\w\.$", line) for line in commands.splitlines() if line)


def test_help_starts_with_examples_and_needs_no_torch(tmp_path):
    done = augless("prepare", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "augless prepare toy-de-en" in done.stdout
    script = "import sys, augless.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_verb_says_its_options_as_knobs_are_said():
    app, said = typer.Typer(rich_markup_mode=None), []

    @options.verb(app)
    def shout(
        word: Annotated[str, "What to shout."],
        *,
        times: Annotated[int, "How often.", Within(1, 3)] = 1,
        after: Annotated[float, "Seconds before.", AtLeast(0)] = 0.0,
        very_loud: Annotated[bool, "Louder."] = False,
        to: Annotated[Path | None, "Where to.", "--to", "-t", "FOLDER"] = None,
    ) -> None:
        said.append((word, times, after, very_loud, to))

    invoke = CliRunner().invoke
    assert invoke(app, ["ho", "--times", "3", "--very-loud", "-t", "x"]).exit_code == 0
    assert said == [("ho", 3, 0.0, True, Path("x"))]
    for wrong in (["ho", "--times", "4"], ["ho", "--after", "-1"], ["ho", "--no-very-loud"], []):
        assert invoke(app, wrong).exit_code == 2 and len(said) == 1
    shown = invoke(app, ["--help"]).output
    for text in ("What to shout.", "How often.", "--very-loud", "-t, --to FOLDER"):
        assert text in shown
    shout("ha", times=9)
    assert said[-1] == ("ha", 9, 0.0, False, None), "it is a function like any other"


def test_no_connection_is_attempted(tmp_path):
    blocker = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a connection was attempted')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "import sys; sys.argv = ['augless', 'prepare', 'toy-dialogue']\n"
        "from augless.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocker], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_line_of_training_says_what_each_term_makes_of_the_gradient_and_what_was_clipped():
    term = runs.TermLog(loss=60.0, weight=1.0, gradient_share=0.997)
    record = runs.Logged(
        kind="interval",
        epoch=1,
        step=20,
        rate=1.0,
        gradient_norm=7.0,
        tokens_per_second=900.0,
        clipped=0.75,
        terms=(term,),
    )
    other = replace(term, loss=0.9, gradient_share=0.003)
    two = verb.line(replace(record, terms=(term, other)))
    assert "99.70% of the gradient" in two and "0.30% of the gradient" in two
    assert "75% of steps clipped" in two
    assert "per token, weight" in verb.line(replace(record, by_token=(0,)))
    one = verb.line(record)
    assert "per sentence, weight" in one
    assert "of the gradient" not in one and "75% of steps clipped" in one
    unknown = verb.line(replace(record, terms=(replace(term, gradient_share=None),) * 2))
    assert "of the gradient" not in unknown
    done = replace(record, kind="epoch", scores={"loss": 2.0})
    assert verb.line(done).endswith("75% of steps clipped; validation: loss 2 nats per token")
