import json
import os
import subprocess
import sys

import pytest


def augless(*arguments, cwd, stdin=None, env=None):
    command = [sys.executable, "-m", "augless", *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        input=stdin,
        env={**os.environ, **(env or {})},
    )


def own_files(folder, train=200):
    for split, n in (("train", train), ("valid", 5), ("test", 5)):
        for language, word in (("de", "Haus"), ("en", "house")):
            lines = "".join(f"{word} {split} {i}\n" for i in range(n))
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")


SIZE = "text.vocabulary.size=60"


def test_prepare_prints_what_it_made_and_where(tmp_path):
    done = augless(
        "prepare", "toy-de-en", "corpus.train=300", "text.vocabulary.size=400", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "train          300" in done.stdout
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


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    own_files(tmp_path)
    verb = f"prepare files corpus.path=. corpus.languages=de,en {SIZE} --json"
    done = subprocess.run(
        f"{sys.executable} -m augless {verb} | true",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_help_starts_with_examples_and_needs_no_torch(tmp_path):
    done = augless("prepare", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "augless prepare toy-de-en" in done.stdout
    script = "import sys, augless.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


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
