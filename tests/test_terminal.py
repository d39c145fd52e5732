"""What reaches a terminal or a file, whatever the files said that it comes from."""

import json
import os
import stat
from pathlib import Path

import pytest

from augless import errors, runs
from augless.cli import main, terminal
from augless.corpora import BadData, reading

HOSTILE = "\x1b[31mred\x1b[0m\x07\x9b2J\u202etxt\r\x00"


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "größer ▲ 日本"])
def test_what_is_harmless_is_shown_as_it_is(text):
    assert terminal.visible(text) == text


def test_what_controls_a_terminal_is_spelt_out(capsys):
    assert terminal.visible(HOSTILE) == (r"\x1b[31mred\x1b[0m\x07\x9b2J\u202etxt\r\x00")
    terminal.say(HOSTILE)
    terminal.result(False, None, lambda: HOSTILE)
    with terminal.Progress() as progress:
        progress(HOSTILE, 0, None)
        progress.say(HOSTILE)
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and err.count("\n") == 3
    assert out.rstrip("\n").isprintable() and err.replace("\n", "").isprintable()


def test_json_is_printable_and_means_the_same():
    spelt = terminal.as_json({"text": HOSTILE, "ok": "日本 😀 \U000e0001"})
    assert spelt.isprintable() and "日本 😀" in spelt
    assert json.loads(spelt) == {"text": HOSTILE, "ok": "日本 😀 \U000e0001"}


def test_an_error_that_quotes_a_file_cannot_control_the_terminal(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "\x1b[31mred"
    monkeypatch.setattr("sys.argv", ["augless", "generate", str(folder)])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == errors.code_of(runs.BadRun("")) and "\x1b" not in said
    assert r"\x1b[31mred" in said


def test_an_output_file_is_not_written_through_a_planted_link(tmp_path):
    (tmp_path / "victim").write_text("victim")
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(os.getpid() - 2, os.getpid() + 3):
        (folder / f".out.{number}").symlink_to("../victim")
    with terminal.output(folder / "out") as file:
        file.write("new\n")
    assert (folder / "out").read_text() == "new\n" and not (folder / "out").is_symlink()
    assert (tmp_path / "victim").read_text() == "victim"


def test_an_output_file_keeps_its_mode_and_stays_as_it_was_after_an_error(tmp_path):
    path = tmp_path / "out"
    path.write_text("old\n")
    path.chmod(0o640)
    with pytest.raises(RuntimeError), terminal.output(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old\n"
    with terminal.output(path) as file:
        file.write("größer\r\n")
    assert path.read_bytes() == "größer\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("content", [b"short\n" + b"x" * 21, b"short\n" + b"x" * 21 + b"\n"])
def test_standard_input_has_the_line_limit_that_files_have(tmp_path, monkeypatch, content):
    monkeypatch.setattr(reading, "LONGEST", 20)
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        lines = reading.lines(Path("-"))
        assert next(lines) == "short"
        with pytest.raises(BadData, match="standard input, line 2: longer than"):
            next(lines)


def test_a_line_of_the_longest_length_is_read_with_or_without_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 20)
    (tmp_path / "in").write_bytes(b"x" * 20 + b"\n" + b"y" * 20)
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert [*reading.lines(Path("-"))] == ["x" * 20, "y" * 20]
