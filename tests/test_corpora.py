"""Corpora: what is read back is what was written, and what is wrong is named by file and line."""

import dataclasses
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from augless import corpora
from augless.corpora import CORPORA, BadData, Files, Pair, Tally, drawn, reading
from augless.corpora.toy import author, dialogue, english, german, meaning, sentences


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(source, target, tmp_path, **knobs):
    """Read two plain files of these contents as the split train."""
    files = write(tmp_path / "train.de", source), write(tmp_path / "train.en", target)
    return list(Files(train=files, **knobs).pairs("train"))


def fails(action, *fragments):
    """Check that something is refused, in one to three lines that say all of this."""
    with pytest.raises(BadData) as caught:
        action()
    message = str(caught.value)
    assert 1 <= len(message.split("\n")) <= 3, message
    assert message.isascii() or message.replace("\n", "").isprintable()
    for fragment in fragments:
        assert fragment in message, (fragment, message)
    return message


# Files that anybody has


def zstandard_compress(data):
    return zstandard.ZstdCompressor().compress(data)


COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard_compress}
PAIRS = [Pair("Guten Tag", "good day"), Pair("ja\u2028nein", "yes\x85no"), Pair("ß", "s\x0bs\x0cs")]


@pytest.mark.parametrize("ending", COMPRESS)
def test_two_files_are_read_plain_or_compressed(tmp_path, ending):
    sides = ("".join(f"{p.source}\n" for p in PAIRS), "".join(f"{p.target}\n" for p in PAIRS))
    files = [
        write(tmp_path / f"a.{side}{ending}", COMPRESS[ending](text.encode()))
        for side, text in zip(("de", "en"), sides, strict=True)
    ]
    corpus = Files(test=tuple(files))
    corpus.check()
    assert corpus.splits() == ("test",)
    assert corpus.inputs() == files
    assert list(corpus.pairs("test")) == PAIRS


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_compression_is_seen_without_the_ending(tmp_path, ending):
    packed = COMPRESS[ending](b"one\ntwo\n")
    assert read(packed, packed, tmp_path) == [Pair("one", "one"), Pair("two", "two")]


def test_a_file_of_several_compressed_parts_is_read_to_the_end(tmp_path):
    parts = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    assert len(read(parts, parts, tmp_path)) == 2


def test_several_zstd_frames_are_read_to_the_end(tmp_path):
    parts = zstandard_compress(b"one\n") + zstandard_compress(b"two\n" * 100_000)
    assert len(read(parts, parts, tmp_path)) == 100_001


@pytest.mark.parametrize(("columns", "expected"), [((1, 2), ("a", "b")), ((3, 1), ("c", "a"))])
def test_a_tsv_file_gives_the_columns_asked_for(tmp_path, columns, expected):
    path = write(tmp_path / "x.tsv", "a\tb\tc\n")
    assert list(Files(train=(path,), columns=columns).pairs("train")) == [Pair(*expected)]


def test_a_jsonl_file_gives_the_fields_asked_for(tmp_path):
    path = write(tmp_path / "x.jsonl.gz", gzip.compress(b'{"de": "ja", "en": "yes", "n": 1}\n'))
    by_language = Files(train=(path,), languages=("en", "de"))
    by_field = Files(train=(path,), fields=("de", "en"))
    assert list(by_language.pairs("train")) == [Pair("yes", "ja")]
    assert list(by_field.pairs("train")) == [Pair("ja", "yes")]


def test_the_form_can_be_told_where_the_name_does_not_tell(tmp_path):
    path = write(tmp_path / "corpus.txt", "a\tb\n")
    fails(lambda: Files(train=(path,)), "corpus.txt", "TSV or JSONL", 'form="tsv"')
    assert list(Files(train=(path,), form="tsv").pairs("train")) == [Pair("a", "b")]


def test_a_weight_in_tsv_is_a_column_by_number(tmp_path):
    path = write(tmp_path / "train.tsv", "a\tb\t0.5\n")
    said = "weight is 'share'; name its TSV column by number"
    fails(lambda: Files(train=(path,), weight="share"), said)
    fails(Files(path=tmp_path, weight="share").check, said)
    assert [one.weight for one in Files(path=tmp_path, weight="3").pairs("train")] == [0.5]


def test_a_folder_is_searched_for_splits(tmp_path):
    for name in ("train.query", "train.response", "dev.query.gz", "dev.response.xz"):
        packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
        write(tmp_path / name, packed(name.encode()))
    write(tmp_path / "test.tsv", "q\tr\n")
    write(tmp_path / "hard.jsonl", '{"query": "q", "response": "r"}')
    write(tmp_path / "notes.md", "not read")
    corpus = Files(path=tmp_path, languages=("query", "response"), extra=("hard",))
    corpus.check()
    assert corpus.splits() == ("train", "valid", "test", "hard")
    assert [len(list(corpus.pairs(split))) for split in corpus.splits()] == [1, 1, 1, 1]
    assert list(corpus.pairs("valid")) == [Pair("dev.query.gz", "dev.response.xz")]


@pytest.mark.parametrize(
    ("names", "fragments"),
    [
        (["train.de", "train.de.gz", "train.en"], ["train.de and train.de.gz", "which is meant"]),
        (["train.de"], ["train.de", "no train.en"]),
        (["train.en"], ["train.en", "no train.de"]),
        (["valid.de", "valid.en", "dev.de", "dev.en"], ["valid and dev", "which is meant"]),
        (["valid.de", "dev.en"], ["valid.de", "no valid.en"]),
        ([], ["no split", "train.de and train.en"]),
    ],
)
def test_a_folder_that_is_not_clear_is_refused(tmp_path, names, fragments):
    for name in names:
        write(tmp_path / name, "x\n")
    fails(lambda: Files(path=tmp_path, languages=("de", "en")).check(), *fragments)


def test_a_folder_that_is_not_there_or_not_a_folder_is_refused(tmp_path):
    fails(lambda: Files(path=tmp_path / "no").check(), "no", "not there")
    fails(lambda: Files(path=write(tmp_path / "f", "x")).check(), "not a directory")
    fails(lambda: Files(path=tmp_path, extra=("hard",)).check(), "'hard'", "not there")


@pytest.mark.parametrize(
    ("knobs", "fragments"),
    [
        ({}, ["either path"]),
        ({"path": Path("x"), "train": (Path("a"), Path("b"))}, ["either path"]),
        ({"train": (Path("a"), Path("b"), Path("c"))}, ["train has 3 files"]),
        ({"train": (Path("-"), Path("b"))}, ["standard input", "TSV or JSONL"]),
        ({"train": (Path("-"),), "test": (Path("-"),), "form": "tsv"}, ["one split only"]),
        ({"train": (Path("-"),)}, ["standard input", 'form="tsv"']),
        ({"path": Path("x"), "fields": ("de",)}, ["name two"]),
        ({"path": Path("x"), "languages": ("de", "de")}, ["'de' and 'de'"]),
        ({"train": (Path("a"), Path("b")), "extra": ("hard",)}, ["extra", "path"]),
    ],
)
def test_knobs_that_make_no_sense_are_refused_before_any_file_is_touched(knobs, fragments):
    fails(lambda: Files(**knobs), *fragments)


@pytest.fixture
def piped(monkeypatch):
    """Give a function that pipes bytes into standard input."""
    monkeypatch.setattr(reading, "spooled", {})

    def pipe(data, terminal=False):
        stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: terminal)
        monkeypatch.setattr(sys, "stdin", stream)

    yield pipe
    for copy in reading.spooled.values():
        copy.close()


def test_standard_input_is_a_split_that_can_be_read_again(piped):
    piped(b"a\tb\nc\td\n")
    corpus = Files(train=(Path("-"),), form="tsv")
    corpus.check()
    first = corpus.fingerprint()
    assert list(corpus.pairs("train")) == list(corpus.pairs("train"))
    assert list(corpus.pairs("train")) == [Pair("a", "b"), Pair("c", "d")]
    assert corpus.fingerprint() == first


def test_a_fault_in_standard_input_is_named_so(piped):
    piped(b"a\tb\nc\n")
    corpus = Files(train=(Path("-"),), form="tsv")
    fails(lambda: list(corpus.pairs("train")), "standard input, line 2", "column 2")


def test_a_terminal_is_not_waited_for(piped):
    piped(b"", terminal=True)
    fails(Files(train=(Path("-"),), form="tsv").check, "nothing is piped in")


def test_a_pipe_into_a_real_process_is_read_and_leaves_nothing_behind(tmp_path):
    code = (
        "from pathlib import Path; from augless import corpora\n"
        "corpus = corpora.Files(train=(Path('-'),), form='jsonl', languages=('a', 'b'))\n"
        "corpus.check(); print(list(corpus.pairs('train')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=gzip.compress(b'{"a": "x", "b": "y"}\n'),
        capture_output=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert b"Pair(source='x', target='y', weight=1.0, made=False)" in run.stdout
    assert not list(tmp_path.iterdir())


def test_a_killed_reader_of_standard_input_leaves_nothing_behind(tmp_path):
    code = (
        "import os, signal; from pathlib import Path; from augless import corpora\n"
        "corpus = corpora.Files(train=(Path('-'),), form='tsv')\n"
        "corpus.check(); next(corpus.pairs('train')); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=b"a\tb\n", env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert run.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


# What is wrong with them


def test_unequal_files_say_where_they_part_in_either_direction(tmp_path):
    parts = ["train.de has 2 lines and", "train.en has 4", "Line 3", "train.en", "'three'"]
    fails(lambda: read("1\n2\n", "one\ntwo\nthree\nfour\n", tmp_path), *parts)
    parts = ["train.de has 3 lines and", "train.en has 1", "Line 2", "train.de", "'zwei'"]
    fails(lambda: read("eins\nzwei\ndrei\n", "one\n", tmp_path), *parts)


def test_unequal_files_are_refused_also_where_blank_lines_are_dropped(tmp_path):
    fails(lambda: read("1\n\n3\n", "1\n2\n", tmp_path, empty="drop"), "3 lines", "2", "Line 3")
    fails(lambda: read("1\n", "1\n\n", tmp_path, empty="drop"), "1 lines", "2", "Line 2")


def test_an_empty_side_is_refused_or_dropped_on_both_sides(tmp_path):
    source, target = "a\n \t\nc\nd\n", "A\nB\n\nD\n"
    fails(lambda: read(source, target, tmp_path), "train.de, line 2", "corpus.empty=drop")
    fails(lambda: read("a\nb\n", "A\n\u2003\n", tmp_path), "train.en, line 2")
    assert read(source, target, tmp_path, empty="drop") == [Pair("a", "A"), Pair("d", "D")]


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n", "\ufeff", "\r\n\r\n"])
def test_a_corpus_of_nothing_is_refused(tmp_path, content):
    fails(lambda: read(content, content, tmp_path, empty="drop"), "no pair", "train.de", "train.en")


UNREADABLE = {
    "missing": (lambda path: None, ["no such file"]),
    "directory": (lambda path: path.mkdir(), ["directory"]),
    "dangling": (lambda path: path.symlink_to("nowhere"), ["cannot be read"]),
    "pipe": (lambda path: os.mkfifo(path), ["not a regular file"]),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_refused_by_check(tmp_path, kind):
    make, fragments = UNREADABLE[kind]
    make(tmp_path / "a.de")
    other = write(tmp_path / "a.en", "x")
    corpus = Files(train=(tmp_path / "a.de", other))
    fails(corpus.check, "a.de", *fragments)
    if kind != "pipe":
        fails(lambda: list(corpus.pairs("train")), "a.de")
        fails(corpus.fingerprint, "a.de", "cannot be read")


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.tsv", "a\tb")
    monkeypatch.setattr(Path, "open", denied)
    fails(Files(train=(path,)).check, "a.tsv", "Permission denied")
    fails(lambda: list(Files(train=(path,)).pairs("train")), "a.tsv", "Permission denied")


def test_a_missing_zstandard_is_said_in_one_line_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = write(tmp_path / "a.tsv.zst", b"")
    fails(Files(train=(path,)).check, "a.tsv.zst", "pip install zstandard")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_compressed_file_cut_short_anywhere_is_never_taken_for_whole(tmp_path, ending):
    text = "".join(f"line {i * i}\n" for i in range(500)).encode()
    packed = COMPRESS[ending](text)
    for length in [*range(1, 40), *range(40, len(packed), 61), len(packed) - 1]:
        path = write(tmp_path / f"a{ending}", packed[:length])
        fails(lambda p=path: [*reading.numbered(p, Tally())], f"a{ending}", "compressed file is")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_flipped_bit_in_a_compressed_file_never_changes_what_is_read(tmp_path, ending):
    text = "".join(f"line {i * i}\n" for i in range(60)).encode()
    packed = bytearray(COMPRESS[ending](text))
    expected = text.decode().splitlines()
    if ending == ".zst":
        packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(text))
    refused = 0
    for place in range(len(packed)):
        packed[place] ^= 1 << (place % 8)
        path = write(tmp_path / f"a{ending}", bytes(packed))
        try:
            assert [line for _, line in reading.numbered(path, Tally())] == expected
        except BadData:
            refused += 1
        packed[place] ^= 1 << (place % 8)
    assert refused > 0.7 * len(packed)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    packed = gzip.compress(b"ok\n" + bytes(64 << 20).replace(b"\0", b"x"), 1)
    path = write(tmp_path / "a.gz", packed)
    fails(lambda: [*reading.numbered(path, Tally())], "a.gz, line 2", "longer than 8 MiB")


@pytest.mark.parametrize("length", [99, 100, 101, 102, 500])
def test_the_longest_line_does_not_depend_on_where_blocks_end(tmp_path, monkeypatch, length):
    monkeypatch.setattr(reading, "LONGEST", 100)
    outcomes = set()
    for block in (1, 7, 50, 100):
        monkeypatch.setattr(reading, "BLOCK", block)
        path = write(tmp_path / "a", "a\n" + "x" * length + "\nb\n")
        try:
            outcomes.add(len([*reading.numbered(path, Tally())]))
        except BadData as error:
            outcomes.add(str(error).split(":")[0].split(", ")[1])
    assert outcomes == {3} if length <= 100 else {"line 2"}


ONE_FILE = [
    ("tsv", "a\tb\nc\n", ["line 2", "column 2 is wanted, of 1"]),
    ("tsv", "a b\n", ["line 1", "column 2"]),
    ("tsv", "a\tb\n\nc\td\n", ["line 2", "the line is empty"]),
    ("tsv", "a\t \n", ["line 1", "the target is empty"]),
    ("tsv", "\tb\n", ["line 1", "the source is empty"]),
    ("tsv", "a\tb\nc\td\0\n", ["line 2, byte 4", "NUL"]),
    ("jsonl", '{"source": "a"}\n', ["line 1", "no field 'target'", "'source'"]),
    ("jsonl", "{}\n", ["line 1", "no field 'source'", "none"]),
    ("jsonl", '["a", "b"]\n', ["line 1", "not a JSON object"]),
    ("jsonl", '"a"\n', ["line 1", "not a JSON object"]),
    ("jsonl", "null\n", ["line 1", "not a JSON object"]),
    ("jsonl", '{"source": "a", "target": 3}\n', ["line 1", "'target' is not text"]),
    ("jsonl", '{"source": ["a"], "target": "b"}\n', ["line 1", "'source' is not text"]),
    ("jsonl", '{"source": "a", "target": null}\n', ["line 1", "'target' is not text"]),
    ("jsonl", '{"source": "a", "target": "b"}\n{"sou', ["line 2", "not JSON"]),
    ("jsonl", '{"source": "a", "target": ""}\n', ["line 1", "the target is empty"]),
    ("jsonl", '{"source": "\\u0000", "target": "b"}\n', ["line 1", "NUL"]),
    ("jsonl", '{"source": "\\ud800", "target": "b"}\n', ["line 1", "half a character"]),
    ("jsonl", "[" * 100_000 + "\n", ["line 1", "not JSON"]),
    ("jsonl", '{"source": ' + "9" * 5000 + "}\n", ["line 1", "not JSON"]),
    ("jsonl", "\n\n", ["line 1", "the line is empty"]),
]


@pytest.mark.parametrize(("form", "content", "fragments"), ONE_FILE)
def test_a_bad_line_of_tsv_or_jsonl_is_named(tmp_path, form, content, fragments):
    path = write(tmp_path / f"x.{form}", content)
    fails(lambda: list(Files(train=(path,)).pairs("train")), f"x.{form}", *fragments)


def test_blank_lines_of_one_file_can_be_dropped(tmp_path):
    path = write(tmp_path / "x.tsv", "\na\tb\n \t \n\n")
    assert list(Files(train=(path,), empty="drop").pairs("train")) == [Pair("a", "b")]


def test_a_message_stays_on_its_lines_whatever_the_file_is_called(tmp_path):
    path = write(tmp_path / "a\nb\u202e.tsv", "x\n")
    message = fails(lambda: list(Files(train=(path,)).pairs("train")), "line 1")
    assert "a\\nb\\u202e.tsv" in message


# 60 nasty cases: what the source file holds, the target being "1\n2\n...", and what becomes of it.
# A number is how many lines it has; a list is the lines; a text is in the message.

PICKLE = b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94."
NASTY = [
    (b"a\nb\n", ["a", "b"]),
    (b"a\nb", ["a", "b"]),
    (b"a\r\nb\r\n", ["a", "b"]),
    (b"a\r\nb\r", ["a", "b"]),
    (b"a\r\r\nb\n", ["a\r", "b"]),
    (b"a\rb\n", ["a\rb"]),
    (b"\ra\n", ["\ra"]),
    (b"a\n\r", "line 2: the line is empty"),
    (b"a\n\r\n", "line 2: the line is empty"),
    (b"a\x0bb\n", ["a\x0bb"]),
    (b"a\x0cb\n", ["a\x0cb"]),
    (b"a\x1cb\x1db\x1eb\n", ["a\x1cb\x1db\x1eb"]),
    ("a\x85b\n".encode(), ["a\x85b"]),
    ("a\u2028b\n".encode(), ["a\u2028b"]),
    ("a\u2029b\n".encode(), ["a\u2029b"]),
    ("\u2028\n".encode(), "line 1: the line is empty"),
    (b"\xef\xbb\xbfa\n", ["a"]),
    (b"\xef\xbb\xbf\xef\xbb\xbfa\n", ["\ufeffa"]),
    (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    (b"\xef\xbb\xbf\n", "line 1: the line is empty"),
    (b"\xef\xbb\n", "line 1, byte 1"),
    (b"\xff\xfea\0\n\0", "UTF-16"),
    (b"\xfe\xff\0a\0\n", "UTF-16"),
    (b"a\n\xff\n", "line 2, byte 1: this byte (0xff) is not UTF-8"),
    (b"a\nbc\x80d\n", "line 2, byte 3: this byte (0x80)"),
    (b"a\xc3\nb\n", "line 1, byte 2"),
    (b"a\n\xc3", "line 2, byte 1"),
    (b"\xc0\x80\n", "line 1, byte 1"),
    (b"\xed\xa0\x80\n", "line 1, byte 1"),
    (b"\xf4\x90\x80\x80\n", "line 1, byte 1"),
    (b"\xe4\n", "line 1, byte 1"),
    ("Straße".encode("latin-1") + b"\n", "line 1, byte 5"),
    (b"a\0b\n", "line 1, byte 2: this byte (0x00) is NUL"),
    (b"a\nb\nc\0", "line 3, byte 2"),
    (b"\0" * 100, "line 1, byte 1"),
    (b"PK\x03\x04\x14\x00\x00\x00", "zip archive"),
    (PICKLE, "line 1, byte 1"),
    (b"\x89PNG\r\n\x1a\n", "line 1, byte 1"),
    (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "line 2, byte 2"),
    (b"\x7fELF\x02\x01\x01\x00", "NUL"),
    (b"SQLite format 3\x00", "NUL"),
    (b"\x1f\x8b", "compressed file is"),
    (b"\x1f\x8bnonsense", "compressed file is"),
    (b"\xfd7zXZ\0nonsense", "compressed file is"),
    (b"\n", "line 1: the line is empty"),
    (b"\n\n\n", "line 1: the line is empty"),
    (b"a\n\nb\n", "line 2: the line is empty"),
    (b"a\n   \nb\n", "line 2: the line is empty"),
    ("a\n\u3000\n".encode(), "line 2: the line is empty"),
    ("a\n\u00a0\n".encode(), "line 2: the line is empty"),
    ("\u200b\n".encode(), ["\u200b"]),
    ("e\u0301\n\u00e9\n".encode(), ["e\u0301", "\u00e9"]),
    ("\U0001f600\u200d\U0001f600\n".encode(), ["\U0001f600\u200d\U0001f600"]),
    ("\u202eabc\n".encode(), ["\u202eabc"]),
    (b"<pad> <unk> @@ </s>\n", ["<pad> <unk> @@ </s>"]),
    (b"\x1b[31mred\x07\n", ["\x1b[31mred\x07"]),
    (b"a\tb\n", ["a\tb"]),
    (b'"a\n"\n', ['"a', '"']),
    (b"a" * 3_000_000 + b"\nb\n", ["a" * 3_000_000, "b"]),
    (b"a" * 9_000_000 + b"\n", "line 1: longer than 8 MiB"),
    (b"ab\n" * 700_000, 700_000),
    (("ß" * 333 + "\n").encode() * 4_000, 4_000),
]


def test_there_are_sixty_nasty_cases():
    assert len(NASTY) >= 60


@pytest.mark.parametrize(("content", "expected"), NASTY, ids=range(len(NASTY)))
def test_a_nasty_file_is_read_exactly_or_refused_by_line(tmp_path, content, expected):
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    numbers = "".join(f"{i}\n" for i in range(1, lines + 1))
    if isinstance(expected, str):
        fails(lambda: read(content, numbers, tmp_path), "train.de", expected)
    else:
        pairs = read(content, numbers, tmp_path)
        assert [pair.target for pair in pairs] == [str(i) for i in range(1, lines + 1)]
        if isinstance(expected, int):
            assert len(pairs) == expected
        else:
            assert [pair.source for pair in pairs] == expected


# Any text, in any form

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\0"), max_size=20)
ODD = st.sampled_from("\u2028\u2029\x85\x0b\x0c\r\x1c\t \ufeff\u200b'\"\\<&😀é́")
LINE = st.builds("".join, st.lists(TEXT | ODD, min_size=1, max_size=4)).filter(
    lambda line: line.strip() and not line.endswith("\r") and not line.startswith("\ufeff")
)
ANY = st.lists(st.tuples(LINE, LINE), min_size=1, max_size=12)
COMPRESSED = ("", ".gz", ".xz")


@contextmanager
def blocks_of(size):
    before, reading.BLOCK = reading.BLOCK, size
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    finally:
        reading.BLOCK = before


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pairs=ANY, size=st.integers(1, 40), form=st.sampled_from(COMPRESSED), last=st.booleans())
def test_any_pairs_in_two_files_are_read_back(pairs, size, form, last):
    with blocks_of(size) as folder:
        sides = ("\n".join(side).encode() + b"\n" * last for side in zip(*pairs, strict=True))
        files = [write(folder / f"{n}{form}", COMPRESS[form](side)) for n, side in enumerate(sides)]
        read = list(Files(train=tuple(files)).pairs("train"))
        assert [(pair.source, pair.target) for pair in read] == pairs


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pairs=ANY, size=st.integers(1, 40), form=st.sampled_from(COMPRESSED))
def test_any_pairs_in_tsv_are_read_back(pairs, size, form):
    pairs = [(one.replace("\t", "") or "x", other.replace("\t", "") or "x") for one, other in pairs]
    pairs = [pair for pair in pairs if pair[0].strip() and pair[1].strip()] or [("x", "y")]
    pairs = [(one.lstrip("\ufeff") or "x", other.rstrip("\r") or "x") for one, other in pairs]
    with blocks_of(size) as folder:
        text = "".join(f"{one}\t{other}\n" for one, other in pairs).encode()
        path = write(folder / f"x.tsv{form}", COMPRESS[form](text))
        read = [(p.source, p.target) for p in Files(train=(path,), empty="drop").pairs("train")]
        assert read == [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pairs=ANY, size=st.integers(1, 40), form=st.sampled_from(COMPRESSED), ascii=st.booleans())
def test_any_pairs_in_jsonl_are_read_back(pairs, size, form, ascii):
    pairs = [(f"{one}\n{other}", f"{other}\r") for one, other in pairs]
    with blocks_of(size) as folder:
        text = "".join(
            json.dumps({"source": one, "x": 1, "target": other}, ensure_ascii=ascii) + "\n"
            for one, other in pairs
        )
        path = write(folder / f"x.jsonl{form}", COMPRESS[form](text.encode()))
        read = Files(train=(path,)).pairs("train")
        assert [(pair.source, pair.target) for pair in read] == pairs


@settings(max_examples=100, deadline=None, derandomize=True)
@given(one=st.lists(LINE, max_size=9), other=st.lists(LINE, max_size=9), size=st.integers(1, 40))
def test_unequal_files_are_never_zipped(one, other, size):
    if len(one) == len(other):
        other = [*other, "more"]
    with blocks_of(size) as folder:
        files = [
            write(folder / str(n), "".join(f"{line}\n" for line in side))
            for n, side in enumerate((one, other))
        ]
        counts = f"has {len(one)} lines", f"has {len(other)}"
        for empty in ("error", "drop"):
            corpus = Files(train=tuple(files), empty=empty)
            message = fails(lambda c=corpus: list(c.pairs("train")), *counts)
            assert f"Line {min(len(one), len(other)) + 1} " in message


@settings(max_examples=200, deadline=None, derandomize=True)
@given(content=st.binary(max_size=200), size=st.integers(1, 40))
def test_any_bytes_are_lines_or_refused(content, size):
    with blocks_of(size) as folder:
        path = write(folder / "a", content)
        try:
            lines = [line for _, line in reading.numbered(path, Tally())]
        except BadData:
            return
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
        assert [line.rstrip("\r") for line in lines] == [
            line.rstrip("\r") for line in text.removesuffix("\n").split("\n") if text
        ]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(content=st.text(max_size=80).map(lambda text: text.encode(errors="replace")))
def test_any_text_as_jsonl_is_pairs_or_refused(content):
    with blocks_of(64) as folder:
        path = write(folder / "a.jsonl", content)
        try:
            list(Files(train=(path,)).pairs("train"))
        except BadData as error:
            assert "a.jsonl" in str(error)


# The publishers' files, small


def ted_training(language, lines):
    head = [
        f"<url>http://www.ted.com/talks/lang/{language}/x.html</url>",
        "<keywords>talks, science</keywords>",
        "<talkid>28</talkid>",
        f"<title>Title {language}</title>",
        f"<description>TED Talk Subtitles: {language}.</description>",
    ]
    return "\n".join([*head, *lines]) + "\n"


def ted_xml(language, lines):
    segments = "".join(f'<seg id="{i}"> {line}  </seg>\n' for i, line in enumerate(lines, 1))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n'
        f'<refset setid="x" srclang="german" trglang="{language}">\n'
        '<doc docid="93" genre="lectures">\n<url>http://www.ted.com</url>\n'
        f"<description>not a &amp; segment</description>\n{segments}</doc>\n</refset>\n</mteval>\n"
    )


SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def iwslt14(folder, other="de", pair=None, extended=True, lines=50):
    pair = pair or f"{other}-en"
    for side in (other, "en"):
        spoken = [f"this is the spoken line {i} {side} ." for i in range(lines)]
        write(folder / f"train.tags.{pair}.{side}", ted_training(side, spoken))
        for name in SETS:
            if extended or name != "TEDX.dev2012":
                text = ted_xml(side, [f"{name} {i} {side} &amp; it\u2019s" for i in (1, 2)])
                write(folder / f"IWSLT14.{name}.{pair}.{side}.xml", text)
    return folder


def stanford(folder):
    for stem in ("train", "tst2012", "tst2013"):
        for side in ("en", "vi"):
            write(folder / f"{stem}.{side}", f"{stem} {side} &apos;s &amp;quot; &#91;\nx\n")
    return folder


def multi30k(folder):
    for stem in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        for side in ("de", "en", "fr") if "2017" in stem else ("cs", "de", "en", "fr"):
            text = gzip.compress(f"{stem} {side}\n".encode(), mtime=0)
            write(folder / f"data/task1/raw/{stem}.{side}.gz", text)
    return folder


def reddit(folder, rounds=60):
    for n, split in enumerate(("train", "valid", "test")):
        records = [
            {
                "post": ["post", str(i % 25), "words"],
                "response": [f"answer {i}", "from", split],
                "post_triples": [0, 1],
                "all_triples": [[1, 2]],
            }
            for i in range(n, rounds, 3)
        ]
        records.append({"post": ["long"] * 20, "response": ["a"]})
        records.append({"post": ["a"], "response": ["long"] * 20})
        write(folder / f"{split}set.txt", "".join(json.dumps(r) + "\n" for r in records))
    return folder


def anki(folder, name="fra"):
    lines = [
        f"Sentence number {i}.\tPhrase numéro {i}.\tCC-BY 2.0 (France) #{i}" for i in range(60)
    ]
    lines += ["Go!\tVa !\tCC", "Go.\tBouge !\tCC", "Move!\tbouge\tCC", "Go on.\tva\tCC"]
    write(folder / f"{name}.txt", "\n".join(lines) + "\n")
    return folder


def own(folder):
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            write(folder / f"{split}.{side}", f"{split} {side}\n")
    return folder


FRENCH = {"languages": ("fr", "en")}
BUILD = {  # a name in CORPORA, and what is special
    "files": (own, {}),
    "iwslt14": (iwslt14, {}),
    "iwslt14 fairseq": (
        lambda folder: iwslt14(folder, "fr", extended=False),
        {"split": "fairseq", **FRENCH},
    ),
    "iwslt14 it": (
        lambda folder: iwslt14(folder, "it", extended=False),
        {"languages": ("it", "en")},
    ),
    "iwslt15-en-vi": (stanford, {}),
    "multi30k": (multi30k, {}),
    "multi30k fr": (multi30k, FRENCH),
    "multi30k cs": (multi30k, {"languages": ("cs", "de")}),
    "reddit": (reddit, {"train": 20, "valid": 4, "test": 5}),
    "tatoeba": (anki, {"valid": 5, "test": 7}),
    "toy-de-en": (None, {"train": 30, "valid": 10, "test": 10}),
    "toy-dialogue": (None, {"train": 30, "valid": 10, "test": 10}),
}


def build(name, folder, **knobs):
    make, own_knobs = BUILD[name]
    path = {"path": make(folder)} if make else {}
    return CORPORA[name.split()[0]](**path, **own_knobs | knobs)


def test_every_corpus_is_tested():
    assert {name.split()[0] for name in BUILD} == {*CORPORA}


@pytest.mark.parametrize("name", BUILD)
def test_every_corpus_streams_pairs_of_its_splits(tmp_path, name):
    corpus = build(name, tmp_path)
    corpus.check()
    assert {"train", "valid", "test"} <= set(corpus.splits())
    for split in corpus.splits():
        pairs = list(corpus.pairs(split))
        assert pairs and pairs == list(corpus.pairs(split))
        assert all(isinstance(pair, Pair) and pair.weight == 1.0 for pair in pairs)
        assert all(pair.source.strip() and pair.target.strip() for pair in pairs)
    fails(lambda: corpus.pairs("dev"), "'dev'", "train")


@pytest.mark.parametrize("name", BUILD)
def test_every_corpus_turns_round(tmp_path, name):
    corpus = build(name, tmp_path)
    back = dataclasses.replace(corpus, languages=corpus.languages[::-1])
    for split in corpus.splits():
        forth = [(pair.source, pair.target) for pair in corpus.pairs(split)]
        assert [(pair.target, pair.source) for pair in back.pairs(split)] == forth
    assert back.fingerprint() != corpus.fingerprint()


@pytest.mark.parametrize("name", BUILD)
def test_every_fingerprint_follows_the_content_and_not_the_place(tmp_path, name):
    corpus = build(name, tmp_path / "here")
    elsewhere = build(name, tmp_path / "there")
    assert re.fullmatch("[0-9a-f]{64}", corpus.fingerprint())
    assert corpus.fingerprint() == elsewhere.fingerprint()
    for path in elsewhere.inputs():
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        assert elsewhere.fingerprint() != corpus.fingerprint(), path
        path.write_bytes(before)
    assert elsewhere.fingerprint() == corpus.fingerprint()


@pytest.mark.parametrize("name", BUILD)
def test_every_missing_file_is_named_with_where_to_get_it(tmp_path, name):
    corpus = build(name, tmp_path)
    for path in corpus.inputs():
        before = path.read_bytes()
        path.unlink()
        try:
            corpus.check()
        except BadData as error:
            assert path.name.split(".")[0] in str(error)
            if name != "files":
                assert str(tmp_path) in str(error) and "put it there" in str(error)
                assert corpus.address in str(error) and corpus.address.startswith("http")
        else:  # a split that may be absent
            assert "TEDX" in path.name or "test_2017" in path.name
        path.write_bytes(before)


@pytest.mark.parametrize("name", BUILD)
def test_every_corpus_tells_how_much_of_its_input_was_read(tmp_path, name):
    tally = Tally()
    pairs = build(name, tmp_path).pairs("train", tally)
    next(pairs)
    assert 0 < tally.done <= tally.total
    list(pairs)
    assert tally.done == tally.total
    assert tally.empty == 0


def append_empty(path, line):
    """Append a pair without a source: this line to a file of one side, or a line of both sides."""
    if path.name.endswith("set.txt"):
        line = json.dumps({"post": [" "], "response": ["x"]})
    elif path.name.endswith(".txt"):
        line = "\tx\tCC"
    elif path.name.endswith(".xml"):
        line = f'<seg id="9">{line} </seg>'
    content = f"{line}\n".encode()
    with path.open("ab") as file:
        file.write(gzip.compress(content) if path.suffix == ".gz" else content)


DROPPED = {  # of a split that takes its pairs from the lines of another, none
    "iwslt14 fairseq": {"train": 1, "valid": 0, "test": 4},
    "reddit": {"train": 3, "valid": 0, "test": 0},
    "tatoeba": {"train": 1, "valid": 0, "test": 0},
}


@pytest.mark.parametrize("name", [name for name in BUILD if not name.startswith("toy")])
def test_every_pair_dropped_as_empty_is_counted_once(tmp_path, name):
    corpus = dataclasses.replace(build(name, tmp_path), empty="drop")
    before = {split: list(corpus.pairs(split)) for split in corpus.splits()}
    for number, path in enumerate(corpus.inputs()):
        append_empty(path, "x" * (number % 2))
    corpus = dataclasses.replace(corpus)  # what was drawn is remembered
    counts = {}
    for split in corpus.splits():
        tally = Tally()
        assert list(corpus.pairs(split, tally)) == before[split]
        counts[split] = tally.empty
    assert counts == DROPPED.get(name, dict.fromkeys(corpus.splits(), 1))
    refused = dataclasses.replace(corpus, empty="error")
    fails(lambda: [list(refused.pairs(split)) for split in refused.splits()], "empty=drop")


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_says_its_licence_languages_and_knobs(name):
    kind = CORPORA[name]
    assert kind.licence
    assert len(kind.languages) == 2
    hints = get_type_hints(kind, include_extras=True)
    for knob in dataclasses.fields(kind):
        assert get_origin(hints[knob.name]) is Annotated, knob.name
        assert isinstance(get_args(hints[knob.name])[1], str)
    assert kind.__dataclass_params__.frozen


@pytest.mark.parametrize("name", BUILD)
def test_no_corpus_opens_a_connection(tmp_path, name, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    corpus = build(name, tmp_path)
    corpus.check()
    assert list(corpus.pairs("test"))


@pytest.mark.parametrize("name", [n for n in BUILD if n not in ("files", "tatoeba")])
def test_languages_that_a_corpus_does_not_have_are_refused(tmp_path, name):
    fails(lambda: build(name, tmp_path, languages=("en", "xx")), "'xx'")


def test_iwslt14_has_every_language_with_english_only(tmp_path):
    for other in ("ar", "pt-br", "zh"):
        folder = iwslt14(tmp_path / other, other, extended=False)
        corpus = corpora.IWSLT14(path=folder, languages=("en", other))
        corpus.check()
        assert next(corpus.pairs("test")).target.startswith(f"TED.tst2012 1 {other}")
    two = "languages are 'de' and 'fr'; one of them must be 'en'."
    fails(lambda: corpora.IWSLT14(path=tmp_path, languages=("de", "fr")), two)
    fails(lambda: corpora.IWSLT14(path=tmp_path, languages=("en", "en")), "they must be two of de")


def test_multi30k_has_any_two_of_its_languages_and_the_later_tests_of_some(tmp_path):
    folder = multi30k(tmp_path)
    german = corpora.Multi30k(path=folder, languages=("fr", "de"))
    assert next(german.pairs("test2017")) == Pair("test_2017_flickr fr", "test_2017_flickr de")
    czech = corpora.Multi30k(path=folder, languages=("en", "cs"))
    czech.check()
    assert czech.splits() == ("train", "valid", "test")
    fails(lambda: corpora.Multi30k(path=folder, languages=("en", "it")), "of cs, de, en, fr.")


def test_a_split_without_pairs_is_refused():
    for size in (-1, 0):
        with pytest.raises(ValueError, match=f"train is {size}; it must be a whole number, from 1"):
            corpora.ToyDialogue(train=size)


def test_torch_is_not_imported():
    code = "import sys, augless.corpora; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_iwslt14_keeps_titles_and_drops_metadata_on_both_sides(tmp_path):
    corpus = corpora.IWSLT14(path=iwslt14(tmp_path))
    pairs = list(corpus.pairs("train"))
    assert pairs[:3] == [
        Pair("Title de", "Title en"),
        Pair("TED Talk Subtitles: de.", "TED Talk Subtitles: en."),
        Pair("this is the spoken line 0 de .", "this is the spoken line 0 en ."),
    ]
    assert len(pairs) == 52


def test_iwslt14_drops_the_tags_of_later_years_too(tmp_path):
    iwslt14(tmp_path)
    tags = '<doc docid="1">\n<speaker>A</speaker>\n<reviewer href="x">B</reviewer>\n'
    for side, extra in (("de", '<translator href="y">C</translator>\n'), ("en", "")):
        write(tmp_path / f"train.tags.de-en.{side}", f"{tags}{extra}{side} < 3\n</doc>\n")
    corpus = corpora.IWSLT14(path=tmp_path)
    assert list(corpus.pairs("train")) == [Pair("de < 3", "en < 3")]


def test_iwslt14_paper_split_is_tst2011_and_tst2012(tmp_path):
    corpus = corpora.IWSLT14(path=iwslt14(tmp_path))
    expected = [Pair(f"TED.tst2011 {i} de & it's", f"TED.tst2011 {i} en & it's") for i in (1, 2)]
    assert list(corpus.pairs("valid")) == expected
    assert [pair.source[:11] for pair in corpus.pairs("test")] == ["TED.tst2012"] * 2
    assert not any("dev2010" in path.name for path in corpus.inputs())


def test_iwslt14_fairseq_split_is_every_23rd_line_and_five_sets_joined(tmp_path):
    folder = iwslt14(tmp_path)
    long = "viel zu lang " * 9
    for side in ("de", "en"):
        path = folder / f"train.tags.de-en.{side}"
        path.write_text(f"{long if side == 'de' else 'short'}\n" + path.read_text())
    corpus = corpora.IWSLT14(path=folder, split="fairseq")
    kept = list(corpora.IWSLT14(path=folder).pairs("train"))[1:]
    assert list(corpus.pairs("valid")) == [kept[22], kept[45]]
    assert list(corpus.pairs("train")) == [p for i, p in enumerate(kept, 1) if i % 23]
    names = [pair.source.split()[0] for pair in corpus.pairs("test")]
    assert names == [name for name in SETS for _ in (1, 2)]


def test_iwslt14_does_without_the_tedx_talks_where_there_are_none(tmp_path):
    folder = iwslt14(tmp_path / "fr-en", "fr", extended=False)
    corpus = corpora.IWSLT14(path=folder.parent, split="fairseq", **FRENCH)
    corpus.check()
    assert len(list(corpus.pairs("test"))) == 8


def test_iwslt14_reads_the_archive_of_the_other_direction(tmp_path):
    folder = iwslt14(tmp_path, "it", "en-it")
    corpus = corpora.IWSLT14(path=folder, languages=("it", "en"))
    corpus.check()
    assert next(corpus.pairs("valid")).source == "TED.tst2011 1 it & it's"


def test_iwslt14_of_unequal_lengths_is_refused_by_the_line_of_the_file(tmp_path):
    folder = iwslt14(tmp_path)
    path = folder / "train.tags.de-en.en"
    path.write_text(path.read_text() + "one more\n")
    corpus = corpora.IWSLT14(path=folder)
    parts = ["has 52 lines", "has 53", "Line 56 of", "train.tags.de-en.en", "'one more'"]
    fails(lambda: list(corpus.pairs("train")), *parts)
    path = folder / "IWSLT14.TED.tst2011.de-en.de.xml"
    path.write_text(path.read_text().replace('<seg id="2"> TED', "TED"))
    fails(lambda: list(corpus.pairs("valid")), "has 1 lines", "has 2", "en.xml")


def test_an_xml_file_cannot_do_harm(tmp_path):
    folder = iwslt14(tmp_path)
    secret = write(tmp_path / "secret", "secret")
    bomb = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">\n' for i in range(9))
    head = f'<!DOCTYPE x [<!ENTITY l0 "lol">\n{bomb}<!ENTITY e SYSTEM "file://{secret}">]>\n'
    for side in ("de", "en"):
        path = folder / f"IWSLT14.TED.tst2011.de-en.{side}.xml"
        path.write_text(head + '<seg id="1"> &l9; &e; &#0; &#xD800; &#x41; &amp;lt; </seg>\n')
    corpus = corpora.IWSLT14(path=folder)
    line = "&l9; &e; &#0; &#xD800; A &lt;"
    assert list(corpus.pairs("valid")) == [Pair(line, line)]


def test_a_broken_segment_is_refused_by_line(tmp_path):
    folder = iwslt14(tmp_path)
    path = write(folder / "IWSLT14.TED.tst2011.de-en.de.xml", '<mteval>\n<seg id="1"> half\n</seg>')
    corpus = corpora.IWSLT14(path=folder)
    fails(lambda: list(corpus.pairs("valid")), f"{path.name}, line 2", "<seg id=...>")


def test_iwslt15_escapes_are_undone_unless_kept(tmp_path):
    folder = stanford(tmp_path)
    undone = next(corpora.IWSLT15EnglishVietnamese(path=folder).pairs("valid"))
    assert undone == Pair("tst2012 en 's &quot; [", "tst2012 vi 's &quot; [")
    kept = next(corpora.IWSLT15EnglishVietnamese(path=folder, escapes="keep").pairs("test"))
    assert kept.source == "tst2013 en &apos;s &amp;quot; &#91;"


def test_multi30k_is_found_under_either_naming(tmp_path):
    raw = corpora.Multi30k(path=multi30k(tmp_path / "repository"), **FRENCH)
    assert raw.splits() == ("train", "valid", "test", "test2017")
    assert list(raw.pairs("test")) == [Pair("test_2016_flickr fr", "test_2016_flickr en")]
    for stem in ("train", "valid", "test"):
        for side in ("de", "en"):
            write(tmp_path / "plain" / f"{stem}.{side}", f"{stem} {side}\n")
    plain = corpora.Multi30k(path=tmp_path / "plain")
    plain.check()
    assert list(plain.pairs("valid")) == [Pair("valid de", "valid en")]


def test_reddit_is_drawn_without_overlap_and_short(tmp_path):
    corpus = build("reddit", tmp_path)
    pairs = {split: list(corpus.pairs(split)) for split in corpus.splits()}
    assert {split: len(drawn_pairs) for split, drawn_pairs in pairs.items()} == {
        "train": 20,
        "valid": 4,
        "test": 5,
    }
    posts = [{pair.source for pair in drawn_pairs} for drawn_pairs in pairs.values()]
    assert not posts[0] & posts[1] and not posts[0] & posts[2] and not posts[1] & posts[2]
    assert not any("long" in pair.source + pair.target for p in pairs.values() for pair in p)
    assert any(pair.target.endswith("from test") for pair in pairs["train"])
    other = build("reddit", tmp_path, seed=2)
    assert list(other.pairs("test")) != pairs["test"]
    same = dataclasses.replace(corpus, train=10)
    assert list(same.pairs("test")) == pairs["test"]


def test_a_reddit_round_that_occurs_twice_is_drawn_once(tmp_path):
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}set.txt", '{"post": ["a"], "response": ["b"]}\n' * 3)
    corpus = corpora.Reddit(path=tmp_path, train=1, valid=1, test=1)
    fails(lambda: list(corpus.pairs("train")), "wants 3 pairs", "only 1")
    fails(
        lambda: list(corpora.Reddit(path=tmp_path).pairs("train")),
        "wants 207,000 pairs",
        "only 1",
        "fewer",
    )


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ('{"post": "a", "response": ["b"]}', "'post' is not a list of words"),
        ('{"post": ["a"]}', "'response' is not a list of words"),
        ('{"post": ["a"], "response": [1]}', "'response' is not a list of words"),
        ("[1]", "not a JSON object"),
        ('{"post": ["\\ud800"], "response": ["b"]}', "half a character"),
    ],
)
def test_a_bad_reddit_line_is_named(tmp_path, line, fragment):
    corpus = build("reddit", tmp_path)
    path = tmp_path / "validset.txt"
    path.write_text(path.read_text() + line + "\n")
    number = path.read_text().count("\n")
    fails(lambda: list(corpus.pairs("train")), f"validset.txt, line {number}", fragment)


def test_tatoeba_groups_never_cross_splits(tmp_path):
    lines = []
    for i in range(300):  # chains: line i shares its English with one, its French with another
        lines.append(f"E {i // 2}.\tF {(i + 1) // 2 if i % 6 else i}!\tCC")
    write(tmp_path / "fra.txt", "\n".join(lines) + "\n")
    corpus = corpora.Tatoeba(path=tmp_path, valid=30, test=42)
    pairs = {split: list(corpus.pairs(split)) for split in corpus.splits()}
    assert [len(split_pairs) for split_pairs in pairs.values()] == [300 - 72, 30, 42]
    for side in ("source", "target"):
        seen = Counter()
        for split_pairs in pairs.values():
            seen.update({drawn.bare(getattr(pair, side)) for pair in split_pairs})
        assert max(seen.values()) == 1, seen.most_common(3)


def test_tatoeba_does_not_mind_case_and_punctuation(tmp_path):
    corpus = build("tatoeba", tmp_path)
    where = {p.source: split for split in corpus.splits() for p in corpus.pairs(split)}
    assert len({where[line] for line in ("Go!", "Go.", "Move!", "Go on.")}) == 1


def test_tatoeba_knows_the_exports_names(tmp_path):
    anki(tmp_path, "deu")
    anki(tmp_path, "tur")
    assert corpora.Tatoeba(path=tmp_path, languages=("de", "en")).inputs()[0].name == "deu.txt"
    assert corpora.Tatoeba(path=tmp_path, languages=("en", "tur")).inputs()[0].name == "tur.txt"
    fails(lambda: corpora.Tatoeba(path=tmp_path, languages=("de", "fr")), "must be 'en'")
    few = corpora.Tatoeba(path=tmp_path, languages=("en", "de"))
    fails(lambda: list(few.pairs("test")), "deu.txt", "too few", "valid to at most")


def test_a_corpus_that_grows_while_it_is_read_is_refused(tmp_path):
    corpus = build("tatoeba", tmp_path)
    assert list(corpus.pairs("test"))
    path = corpus.inputs()[0]
    path.write_text(path.read_text() + "new\tneuf\n")
    fails(lambda: list(corpus.pairs("test")), "changed")


SHARED = {
    "iwslt14_en-de": ("en", "de"),
    "ted_en-fr": ("en", "fr"),
    "iwslt15_en-vi": ("en", "vi"),
    "tatoeba_en-fr": ("en", "fr"),
    "tatoeba_en-de": ("de", "en"),
    "multi30k": ("de", "en"),
    "reddit_pairs": ("query", "response"),
    "dailydialog_pairs": ("query", "response"),
}


@pytest.mark.parametrize("name", SHARED)
def test_real_corpora_are_read_with_one_set_of_knobs_each(name):
    root = os.environ.get("AUGLESS_DATA")
    if not root:
        pytest.skip("AUGLESS_DATA names no folder of real corpora")
    corpus = Files(path=Path(root) / name, languages=SHARED[name])
    corpus.check()
    assert corpus.splits() == ("train", "valid", "test")
    table = (Path(root) / "README.md").read_text(encoding="utf-8")
    for split, path in zip(corpus.splits(), corpus.inputs()[::2], strict=True):
        lines = re.search(rf"`{name}/{re.escape(path.name)}` \| ([\d,]+) ", table)
        assert sum(1 for _ in corpus.pairs(split)) == int(lines[1].replace(",", ""))


# The corpora made from a seed


def digest(pairs):
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    return hashlib.sha256(text.encode()).hexdigest()


GOLDEN = {
    ("toy-de-en", 1): "bdb9431ccf9dc98d86100b87ab6009ad2da151c1ab779f515b0f2c0b7b767488",
    ("toy-de-en", 2): "bb36c9a6aa618d1e37d9cde8c3beeaedbf4ceb1bf02f2440271341fd52ddb2e8",
    ("toy-dialogue", 1): "0234401fb9a81c368ac015e68d06458f4f4a76a026dbdfa558c61d6566c3b284",
    ("toy-dialogue", 2): "06759e3e1a322b89018bfcb42b381d39734999f9d636cb1f8a30127392405ae8",
}


@pytest.mark.parametrize(("name", "seed"), GOLDEN)
def test_generated_corpora_are_the_same_everywhere(name, seed):
    corpus = CORPORA[name](seed=seed, train=300, valid=100, test=100)
    pairs = [pair for split in corpus.splits() for pair in corpus.pairs(split)]
    # If you meant to change the corpus: raise its `version`, then this.
    assert digest(pairs) == GOLDEN[name, seed]


@pytest.fixture(scope="module")
def toy():
    corpus = corpora.ToyGermanEnglish()
    return {split: list(corpus.pairs(split)) for split in corpus.splits()}


@pytest.fixture(scope="module")
def talk():
    corpus = corpora.ToyDialogue()
    return {split: list(corpus.pairs(split)) for split in corpus.splits()}


def test_generated_corpora_have_the_sizes_asked_for(toy, talk):
    for splits in (toy, talk):
        assert {split: len(pairs) for split, pairs in splits.items()} == {
            "train": 2000,
            "valid": 400,
            "test": 400,
        }


def test_no_toy_sentence_of_either_side_occurs_twice(toy):
    for side in ("source", "target"):
        sentences = [getattr(pair, side) for pairs in toy.values() for pair in pairs]
        assert len(set(sentences)) == len(sentences)


def test_no_held_out_opening_occurs_elsewhere(talk):
    queries = {split: [pair.source for pair in pairs] for split, pairs in talk.items()}
    held_out = queries["valid"] + queries["test"]
    assert len(set(held_out)) == len(held_out)
    assert not set(held_out) & set(queries["train"])
    pairs = [(pair.source, pair.target) for pair in talk["train"]]
    assert len(set(pairs)) == len(pairs)
    assert len(set(queries["train"])) < 0.9 * len(pairs)  # some have several responses


@pytest.mark.parametrize("name", ["toy-de-en", "toy-dialogue"])
def test_test_and_valid_do_not_depend_on_the_size_of_train(name):
    small = CORPORA[name](train=20, valid=30, test=40)
    large = CORPORA[name](train=200, valid=30, test=40)
    assert list(small.pairs("test")) == list(large.pairs("test"))
    assert list(small.pairs("valid")) == list(large.pairs("valid"))
    assert list(small.pairs("train")) == list(large.pairs("train"))[:20]
    assert small.fingerprint() != large.fingerprint()


def test_another_seed_is_another_corpus(toy):
    other = list(corpora.ToyGermanEnglish(seed=2).pairs("test"))
    assert len({pair.source for pair in other} & {pair.source for pair in toy["test"]}) < 20


def test_a_generated_corpus_that_runs_dry_says_so(monkeypatch):
    monkeypatch.setattr(dialogue, "TURNS", [(["Hello."], ["Hi."])])
    fails(lambda: list(corpora.ToyDialogue().pairs("test")), "only about 1 different", "fewer")


def test_toy_statistics_leave_room_to_learn(toy):
    for side, words in (("source", 2_000), ("target", 1_400)):
        known = Counter(w for pair in toy["train"] for w in getattr(pair, side).split())
        assert len(known) > words
        lengths = [len(getattr(pair, side).split()) for pair in toy["train"]]
        assert min(lengths) >= 3 and max(lengths) <= 20
        assert sum(length > 10 for length in lengths) > 200
        test = [w for pair in toy["test"] for w in getattr(pair, side).split()]
        assert 0.02 < sum(w not in known for w in test) / len(test) < 0.2


def test_dialogue_statistics_leave_room_to_learn(talk):
    words = Counter(w for pair in talk["train"] for w in pair.target.split())
    assert len(words) > 600
    assert len({pair.target for pair in talk["train"]}) > 1_000
    assert all(2 <= len(pair.source.split()) <= 20 for pair in talk["train"])


def test_every_turn_of_the_dialogue_can_be_filled():
    class Last(dialogue.Dice):
        def pick(self, values):
            return values[-1]

    for openings, responses in dialogue.TURNS:
        assert len(openings) >= 2 and len(responses) >= 3
        for turn in openings + responses:
            for slot in re.findall(r"\{(\w+)\}", turn):
                filled = {"person": "Anna"}
                dialogue.fill(slot, filled, Last(1))
                assert slot in filled
    assert len(dialogue.TURNS) >= 30


def test_the_dialogue_knows_its_facts(talk):
    pairs = [pair for split in talk.values() for pair in split]
    numbers = {dialogue.english.number(n): n for n in range(2, 30)}
    sums = capitals = 0
    for pair in pairs:
        asked = re.fullmatch(
            r"(?:How much is|Can you add|What is) (\S+) (?:plus|and) (\S+)\?", pair.source
        )
        if asked:
            answer = next(w for w in re.findall("[a-z-]+", pair.target.lower()) if w in numbers)
            assert numbers[asked[1]] + numbers[asked[2]] == numbers[answer]
            sums += 1
        asked = re.search(r"the capital of (\w+)\?", pair.source)
        if asked:
            facts = dict(fact.split(":") for fact in dialogue.COUNTRIES.split(", "))
            assert facts[asked[1]] in pair.target
            capitals += 1
        assert not re.search(r"\ba [aeiou]|[{}]|  ", f"{pair.source} {pair.target}")
    assert sums > 20 and capitals > 10


# German and English


def the(name, determiner="the", meant="", **rest):
    """Find a noun by its German name, and say which where two have it."""
    nouns = [noun for noun in meaning.NOUNS if noun.german == name and meant in noun.english]
    adjectives = tuple((adjective(word), top) for word, top in rest.pop("adjectives", ()))
    return meaning.Phrase(nouns[0], determiner, adjectives=adjectives, **rest)


def adjective(word):
    return next(a for a in meaning.ADJECTIVES if a.german[0] == word)


def says(subject, verb, *objects, **rest):
    """Make a clause of a verb, given as `essen/eat`."""
    de, en = verb.split("/")
    for usage in meaning.VERBS:
        for verb in (v for row in usage.verbs for v in row):
            fits = verb.prefix + verb.german == de and len(usage.slots) == len(objects)
            if fits and verb.english[0] == en:
                slots = zip(usage.slots, objects, strict=True)
                swapped = "<" in usage.marks
                return meaning.Clause(subject, verb, tuple(slots), swapped=swapped, **rest)
    raise AssertionError(verb)


ICH, DU, ER, SIE, WIR, THEY = author.SUBJECTS
ANNA = next(name for name in author.NAMES if name.german == "Anna")
WHO = meaning.Fixed("wer", "who")
GESTERN = meaning.Adverbial("gestern", "yesterday")
OFT = meaning.Adverbial("oft", "often")
SINCE = meaning.Adverbial("seit zwei Jahren", "for two years")
where = meaning.Where
BED, BENCH = the("Bett"), the("Bank", meant="bench")
CINEMA = where("in", "acc", "to", the("Kino"))
BERLIN = where("in", "dat", "in", meaning.Fixed("Berlin", "Berlin"))


def related(phrase, verb, *objects, gap=-1, subject=None, **rest):
    """Add a relative clause to a phrase."""
    filled = [phrase if what is None else what for what in objects]
    inner = says(subject or phrase, verb, *filled, gap=gap, **rest)
    return meaning.Phrase(phrase.noun, phrase.determiner, phrase.plural, relative=inner)


def old(name, words, determiner="the", **rest):
    """A phrase with adjectives."""
    return the(name, determiner, adjectives=[(word, False) for word in words.split()], **rest)


MAIN = [
    # case, gender, the endings of adjectives
    (
        "Der Mann sieht den Hund.",
        "The man sees the dog.",
        says(the("Mann"), "sehen/see", the("Hund")),
    ),
    (
        "Der Hund sieht den Mann.",
        "The dog sees the man.",
        says(the("Hund"), "sehen/see", the("Mann")),
    ),
    (
        "Das Kind hilft der alten Frau.",
        "The child helps the old woman.",
        says(the("Kind"), "helfen/help", old("Frau", "alt")),
    ),
    (
        "Eine alte Frau sucht ein neues Kleid.",
        "An old woman looks for a new dress.",
        says(old("Frau", "alt", "a"), "suchen/look", old("Kleid", "neu", "a")),
    ),
    (
        "Ein müder Mann kauft einen teuren Mantel.",
        "A tired man buys an expensive coat.",
        says(
            old("Mann", "müde", "a"),
            "kaufen/buy",
            old("Mantel", "teuer", "a"),
        ),
    ),
    (
        "Wir trinken kaltes Wasser.",
        "We drink cold water.",
        says(WIR, "trinken/drink", old("Wasser", "kalt", "bare")),
    ),
    (
        "Meine großen schwarzen Hunde fressen das Fleisch.",
        "My big black dogs eat the meat.",
        says(
            old("Hund", "groß schwarz", "1s", plural=True),
            "fressen/eat",
            the("Fleisch"),
        ),
    ),
    (
        "Die Frau dankt einundzwanzig klugen Kindern.",
        "The woman thanks twenty-one clever children.",
        says(the("Frau"), "danken/thank", old("Kind", "klug", "#21", plural=True)),
    ),
    (
        "Alle faulen Studenten schlafen.",
        "All lazy students sleep.",
        says(old("Student", "faul", "all", plural=True), "schlafen/sleep"),
    ),
    (
        "Viele faule Studenten schlafen.",
        "Many lazy students sleep.",
        says(old("Student", "faul", "many", plural=True), "schlafen/sleep"),
    ),
    (
        "Er liest Annas altes Buch.",
        "He reads Anna's old book.",
        says(ER, "lesen/read", old("Buch", "alt", "@Anna")),
    ),
    (
        "Ich kenne das Haus des Jungen.",
        "I know the boy's house.",
        says(ICH, "kennen/know", the("Haus", possessor=the("Junge"))),
    ),
    (
        "Das Auto meines Freundes gehört dem Nachbarn.",
        "My friend's car belongs to the neighbour.",
        says(the("Auto", possessor=the("Freund", "1s")), "gehören/belong", the("Nachbar")),
    ),
    ("Ich sehe einen Bären.", "I see a bear.", says(ICH, "sehen/see", the("Bär", "a"))),
    (
        "Der älteste Hund beißt dich.",
        "The oldest dog bites you.",
        says(the("Hund", adjectives=[("alt", True)]), "beißen/bite", DU),
    ),
    # number that differs
    (
        "Sie sucht ihre Brille.",
        "She looks for her glasses.",
        says(SIE, "suchen/look", the("Brille", "3f")),
    ),
    (
        "Die Hose gehört ihm.",
        "The trousers belong to him.",
        says(the("Hose"), "gehören/belong", ER),
    ),
    # tense
    (
        "Die Frau las den Brief.",
        "The woman read the letter.",
        says(the("Frau"), "lesen/read", the("Brief"), tense="past"),
    ),
    (
        "Die Frau hat den Brief gelesen.",
        "The woman has read the letter.",
        says(the("Frau"), "lesen/read", the("Brief"), tense="perfect"),
    ),
    (
        "Das Kind ist eingeschlafen.",
        "The child has fallen asleep.",
        says(the("Kind"), "einschlafen/fall", tense="perfect"),
    ),
    (
        "Ich habe das Buch gekauft.",
        "I bought the book.",
        says(ICH, "kaufen/buy", the("Buch"), tense="past"),
    ),
    (
        "Sie werden Anna einladen.",
        "They will invite Anna.",
        says(THEY, "einladen/invite", ANNA, tense="future"),
    ),
    (
        "Der Mann kennt seit zwei Jahren die Frau.",
        "The man has known the woman for two years.",
        says(the("Mann"), "kennen/know", the("Frau"), tense="ongoing", time=SINCE),
    ),
    (
        "Der Mann liest gerade ein Buch.",
        "The man is reading a book.",
        says(the("Mann"), "lesen/read", the("Buch", "a"), progressive=True),
    ),
    (
        "Der Mann liest gern Bücher.",
        "The man likes to read books.",
        says(the("Mann"), "lesen/read", the("Buch", "bare", plural=True), gladly=True),
    ),
    # verbs that separate, reflexive and modal verbs
    (
        "Die Mutter ruft mich an.",
        "The mother calls me.",
        says(the("Mutter"), "anrufen/call", ICH),
    ),
    (
        "Die Mutter holt das Kind ab.",
        "The mother picks up the child.",
        says(the("Mutter"), "abholen/pick", the("Kind")),
    ),
    (
        "Die Mutter holt mich ab.",
        "The mother picks me up.",
        says(the("Mutter"), "abholen/pick", ICH),
    ),
    ("Du beeilst dich.", "You hurry.", says(DU, "beeilen/hurry")),
    (
        "Gestern freute sich die Tochter auf die Reise.",
        "Yesterday, the daughter looked forward to the trip.",
        says(the("Tochter"), "freuen/look", the("Reise"), time=GESTERN, fronted=True, tense="past"),
    ),
    (
        "Der Arzt muss die Tür nicht öffnen.",
        "The doctor does not have to open the door.",
        says(the("Arzt"), "öffnen/open", the("Tür"), modal="müssen", negated=True),
    ),
    (
        "Der Arzt darf die Tür nicht öffnen.",
        "The doctor must not open the door.",
        says(the("Arzt"), "öffnen/open", the("Tür"), modal="dürfen", negated=True),
    ),
    (
        "Der Arzt wollte die Tür aufmachen.",
        "The doctor wanted to open the door.",
        says(the("Arzt"), "aufmachen/open", the("Tür"), modal="wollen", tense="past"),
    ),
    # negation
    (
        "Der Bauer sieht kein Pferd.",
        "The farmer does not see a horse.",
        says(the("Bauer"), "sehen/see", the("Pferd", "a"), negated=True),
    ),
    (
        "Der Bauer hat keine Milch getrunken.",
        "The farmer has not drunk any milk.",
        says(the("Bauer"), "trinken/drink", the("Milch", "bare"), negated=True, tense="perfect"),
    ),
    (
        "Der Bauer kann nicht ins Kino gehen.",
        "The farmer cannot go to the cinema.",
        says(the("Bauer"), "gehen/go", negated=True, modal="können", where=CINEMA),
    ),
    (
        "Ich habe keine Angst vor dem Hund.",
        "I am not afraid of the dog.",
        says(ICH, "haben/be", the("Hund"), negated=True),
    ),
    # prepositions; objects and their order
    (
        "Das Kind legt das Buch auf den Tisch.",
        "The child puts the book on the table.",
        says(the("Kind"), "legen/put", the("Buch"), where=where("auf", "acc", "on", the("Tisch"))),
    ),
    (
        "Das Buch liegt auf dem Tisch.",
        "The book is on the table.",
        says(the("Buch"), "liegen/be", where=where("auf", "dat", "on", the("Tisch"))),
    ),
    (
        "Das Kind stellt das Glas neben das Bett.",
        "The child puts the glass next to the bed.",
        says(
            the("Kind"),
            "stellen/put",
            the("Glas"),
            where=where("neben", "acc", "next to", the("Bett")),
        ),
    ),
    (
        "Die Frau geht zur Bank.",
        "The woman goes to the bank.",
        says(the("Frau"), "gehen/go", where=where("zu", "dat", "to", the("Bank", meant="bank"))),
    ),
    (
        "Die Frau sitzt auf der Bank.",
        "The woman sits on the bench.",
        says(
            the("Frau"), "sitzen/sit", where=where("auf", "dat", "on", the("Bank", meant="bench"))
        ),
    ),
    (
        "Die Frau gibt dem Mann den Schlüssel.",
        "The woman gives the man the key.",
        says(the("Frau"), "geben/give", the("Mann"), the("Schlüssel")),
    ),
    (
        "Die Frau gibt dem Mann oft einen Schlüssel.",
        "The woman often gives the man a key.",
        says(the("Frau"), "geben/give", the("Mann"), the("Schlüssel", "a"), often=OFT),
    ),
    (
        "Die Frau gibt ihn ihm.",
        "The woman gives it to him.",
        says(the("Frau"), "geben/give", ER, author.pronoun(the("Schlüssel"))),
    ),
    (
        "Anna denkt daran.",
        "Anna thinks of it.",
        says(ANNA, "denken/think", author.pronoun(the("Reise"))),
    ),
    ("Anna wartet auf sie.", "Anna waits for her.", says(ANNA, "warten/wait", SIE)),
    (
        "Anna bittet den Kellner um Kaffee.",
        "Anna asks the waiter for coffee.",
        says(ANNA, "bitten/ask", the("Kellner"), the("Kaffee", "bare")),
    ),
    # nothing word by word
    (
        "Die Frau isst die Birne.",
        "The woman eats the pear.",
        says(the("Frau"), "essen/eat", the("Birne", meant="pear")),
    ),
    (
        "Die Katze frisst die Maus.",
        "The cat eats the mouse.",
        says(the("Katze"), "fressen/eat", the("Maus")),
    ),
    (
        "Die Kleider gefallen der Frau.",
        "The woman likes the dresses.",
        says(the("Frau"), "gefallen/like", the("Kleid", plural=True)),
    ),
    ("Die Suppe schmeckt mir.", "I like the soup.", says(ICH, "schmecken/like", the("Suppe"))),
    (
        "Der Lehrer beantwortet die Frage.",
        "The teacher answers the question.",
        says(the("Lehrer"), "beantworten/answer", the("Frage")),
    ),
    (
        "Der Lehrer antwortet dem Kind.",
        "The teacher answers the child.",
        says(the("Lehrer"), "antworten/answer", the("Kind")),
    ),
    (
        "Das Haus wurde vom Bauern gebaut.",
        "The house was built by the farmer.",
        says(the("Bauer"), "bauen/build", the("Haus"), tense="past", passive=True),
    ),
    # relative clauses
    (
        "Der Mann, der in Berlin wohnt, lacht.",
        "The man who lives in Berlin laughs.",
        says(related(the("Mann"), "wohnen/live", where=BERLIN), "lachen/laugh"),
    ),
    (
        "Die Frau hat das Buch gekauft, das er liest.",
        "The woman has bought the book that he reads.",
        says(
            the("Frau"),
            "kaufen/buy",
            related(the("Buch"), "lesen/read", None, gap=0, subject=ER),
            tense="perfect",
        ),
    ),
    (
        "Der Bus, auf den wir warten, fuhr ab.",
        "The bus that we wait for departed.",
        says(
            related(the("Bus"), "warten/wait", None, gap=0, subject=WIR),
            "abfahren/depart",
            tense="past",
        ),
    ),
    (
        "Die Kinder, denen ich helfe, spielen.",
        "The children that I help play.",
        says(
            related(the("Kind", plural=True), "helfen/help", None, gap=0, subject=ICH),
            "spielen/play",
        ),
    ),
]


@pytest.mark.parametrize(("de", "en", "clause"), MAIN, ids=[row[0] for row in MAIN])
def test_a_meaning_is_spelt_right_in_both_languages(de, en, clause):
    assert german.sentence(german.clause(clause, "main"), ".") == de
    assert english.sentence(english.clause(clause), ".") == en


@pytest.mark.parametrize(
    ("clause", "final", "asked", "to_do"),
    [
        (
            says(the("Mann"), "anrufen/call", the("Tante")),
            "der Mann die Tante anruft",
            "ruft der Mann die Tante an",
            "die Tante anzurufen",
        ),
        (
            says(the("Mann"), "freuen/look", the("Fest")),
            "sich der Mann auf das Fest freut",
            "freut sich der Mann auf das Fest",
            "sich auf das Fest zu freuen",
        ),
        (
            says(ICH, "beeilen/hurry"),
            "ich mich beeile",
            "beeile ich mich",
            "mich zu beeilen",
        ),
        (
            says(the("Frau"), "schicken/send", the("Sohn", "3f"), the("Brief", "a")),
            "die Frau ihrem Sohn einen Brief schickt",
            "schickt die Frau ihrem Sohn einen Brief",
            "ihrem Sohn einen Brief zu schicken",
        ),
    ],
)
def test_the_german_verb_stands_last_first_or_after_zu(clause, final, asked, to_do):
    assert german.clause(clause, "final") == final
    assert german.clause(clause, "question") == asked
    assert german.clause(clause, "zu") == to_do


@pytest.mark.parametrize(
    ("tense", "modal", "expected"),
    [
        ("perfect", "", "er das Auto abgeholt hat"),
        ("future", "", "er das Auto abholen wird"),
        ("past", "können", "er das Auto abholen konnte"),
        ("past", "", "er das Auto abholte"),
    ],
)
def test_the_finite_verb_ends_a_subordinate_clause(tense, modal, expected):
    clause = says(ER, "abholen/pick", the("Auto"), tense=tense, modal=modal)
    assert german.clause(clause, "final") == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (says(ER, "lesen/read", the("Buch")), "does he read the book"),
        (says(ER, "lesen/read", the("Buch"), tense="past"), "did he read the book"),
        (says(ER, "lesen/read", the("Buch"), negated=True), "does he not read the book"),
        (says(DU, "langweilen/be", tense="past"), "were you bored"),
        (says(ICH, "langweilen/be"), "am I bored"),
        (says(ER, "lesen/read", the("Buch"), modal="möchten"), "would he like to read the book"),
        (says(ER, "lesen/read", the("Buch"), modal="wollen"), "does he want to read the book"),
        (says(ER, "lesen/read", the("Buch"), tense="perfect"), "has he read the book"),
    ],
)
def test_an_english_question_has_its_auxiliary(clause, expected):
    assert english.clause(clause, ask=True) == expected


@pytest.mark.parametrize(
    ("value", "de", "en"),
    [
        (2, "zwei", "two"),
        (12, "zwölf", "twelve"),
        (16, "sechzehn", "sixteen"),
        (17, "siebzehn", "seventeen"),
        (21, "einundzwanzig", "twenty-one"),
        (30, "dreißig", "thirty"),
        (66, "sechsundsechzig", "sixty-six"),
        (97, "siebenundneunzig", "ninety-seven"),
    ],
)
def test_numbers_are_spelt(value, de, en):
    assert (german.number(value), english.number(value)) == (de, en)


def test_the_lexicon_is_large_and_every_word_of_it_is_used():
    assert len({noun.german for noun in meaning.NOUNS}) >= 200
    assert len({(v.prefix, v.german) for u in meaning.VERBS for r in u.verbs for v in r}) >= 100
    assert len({adjective.german[0] for adjective in meaning.ADJECTIVES}) >= 55
    kinds = {kind for noun in meaning.NOUNS for kind in noun.kinds}
    for usage in meaning.VERBS:
        assert usage.subjects <= kinds
        assert all(slot.kinds <= kinds for slot in usage.slots)
    by = author.Author(author.Dice(3))
    text = " ".join(sentences.sentence(by)[1] for _ in range(20_000))
    said = set(re.findall(r"\w+", text))
    unsaid = [n for n in meaning.NOUNS if not {n.german, n.plural, n.plural + "n"} & said]
    assert not unsaid, [noun.german for noun in unsaid]


@pytest.fixture(scope="module")
def german_text():
    by = author.Author(author.Dice(7))
    return [sentences.sentence(by)[1] for _ in range(6_000)]


# Independently of the code: which articles go with a gender, and how an adjective ends after them.
ARTICLES = {
    "m": "der den dem des ein einen einem eines kein keinen keinem",
    "f": "die der eine einer keine keiner",
    "n": "das dem des ein einem eines kein keinem",
    "p": "die den der keine keinen",
}
ENDINGS = {
    "der": {"m": "e", "f": "en", "p": "en"},
    "die": {"f": "e", "p": "en"},
    "das": {"n": "e"},
    "den": {"m": "en", "p": "en"},
    "dem": {"m": "en", "n": "en"},
    "ein": {"m": "er", "n": "es"},
    "eine": {"f": "e"},
    "einen": {"m": "en"},
    "einem": {"m": "en", "n": "en"},
    "einer": {"f": "en"},
    "kein": {"m": "er", "n": "es"},
    "keine": {"f": "e", "p": "en"},
    "keinen": {"m": "en", "p": "en"},
}


def genders():
    """Map every form of every noun to the genders it can have; p is the plural."""
    forms = {}
    for noun in meaning.NOUNS:
        if noun.gender != "p":
            forms.setdefault(noun.german, set()).add(noun.gender)
        if noun.weak:
            forms.setdefault(noun.plural, set()).add("m")
        elif noun.gender in "mn" and "person" in noun.kinds:  # who own things: des Mannes
            forms.setdefault(noun.german + "s", set()).add(noun.gender)
            forms.setdefault(noun.german + "es", set()).add(noun.gender)
        if noun.plural:
            forms.setdefault(noun.plural, set()).add("p")
            if not noun.plural.endswith(("n", "s")):
                forms.setdefault(noun.plural + "n", set()).add("p")
    return forms


def test_every_article_and_adjective_agrees_with_its_noun(german_text):
    nouns = genders()
    articles = {article for row in ARTICLES.values() for article in row.split()}
    stems = [stem for a in meaning.ADJECTIVES for stem in (a.german[0], a.german[2]) if stem]
    described = {german.attributive(stem, end) for stem in stems for end in ("e", "en", "er", "es")}
    checked = Counter()
    for line in german_text:
        # Relative pronouns look like articles; a comma keeps apart what does not belong together.
        line = re.sub(
            r", (?:(?:auf|an|mit|von|über|um|vor|in|für) )?d(?:er|ie|as|en|em) ", ", ", line
        )
        words = re.findall(r"\w+|,", line[0].lower() + line[1:])
        for first, second, third in zip(["", *words], words, words[1:], strict=False):
            if third in nouns and second in articles:
                assert any(second in ARTICLES[gender].split() for gender in nouns[third]), line
                checked["article"] += 1
            elif third in nouns and second in described and first in ENDINGS:
                allowed = {ENDINGS[first].get(gender) for gender in nouns[third]} - {None}
                assert allowed and second.endswith(tuple(allowed)), line
                checked["adjective"] += 1
    assert checked["article"] > 2_000 and checked["adjective"] > 500, checked


def finite_forms():
    verbs = [v for usage in meaning.VERBS for row in usage.verbs for v in row]
    verbs += [v for rows, _ in meaning.GOVERNORS for row in rows for v in row]
    verbs += [meaning.BE, sentences.BECOME]
    forms = set()
    for verb in verbs:
        for past in (False, True):
            for person, plural in ((1, False), (2, False), (3, False), (3, True)):
                forms.add(verb.prefix + german.finite(verb, past, person, plural))
    for helper in ("haben", "sein", "werden", *german.PAST, "möchten", "sollen"):
        for past in (False, True) if helper in german.PAST else (False,):
            for person, plural in ((1, False), (2, False), (3, False), (3, True)):
                forms.add(german.finite(german.auxiliary(helper), past, person, plural))
    return forms


def test_every_subordinate_clause_ends_in_a_finite_verb(german_text):
    forms = finite_forms()
    begin = "(?:^|, )(?:[Ww]eil|[Oo]bwohl|dass|[Ww]ährend|[Bb]evor|[Ss]obald|[Ww]enn)"
    checked = 0
    for line in german_text:
        for inner in re.findall(f"{begin} ([^,.?!]+)[,.]", line):
            assert inner.split()[-1] in forms, line
            checked += 1
    assert checked > 500


def test_every_sentence_is_tidy(german_text):
    by = author.Author(author.Dice(8))
    for line in german_text + [sentences.sentence(by)[0] for _ in range(3_000)]:
        assert re.fullmatch(r"[A-ZÄÖÜ][\w', -]*\w[.?!]", line), line
        assert not re.search(r"  | ,|,[^ ]", line), line
        # sie sie, um um and the like are right; a noun or a verb twice is not.
        twice = re.search(r"\b(\w{4,}) \1\b", line)
        assert not twice, line


@given(st.integers(1, 60), st.integers(1, 70))
def test_a_sample_is_evenly_spread_and_of_the_size_asked_for(total, most):
    with tempfile.TemporaryDirectory() as folder:
        for side in ("a", "b"):
            Path(folder, f"train.{side}").write_text("".join(f"{i}\n" for i in range(total)))
            Path(folder, f"valid.{side}").write_text("".join(f"{i}\n" for i in range(total)))
        corpus = corpora.Files(
            path=Path(folder), languages=("a", "b"), sample=most, held_out=most + 1
        )
        places = [int(pair.source) for pair in corpus.pairs("train")]
        assert len(places) == min(total, most) and len({*places}) == len(places)
        gaps = [b - a for a, b in itertools.pairwise([-1, *places, total])]
        if total > most:
            assert max(gaps) <= -(-total // most) + 1
        assert len([*corpus.pairs("valid")]) == min(total, most + 1)
