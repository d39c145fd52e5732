"""Writing and deleting: whole or absent, never through a link, never outside the folder."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from augless import errors, storage
from support import killed


def test_a_replaced_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "file"
    storage.replace(path, b"old")
    with pytest.raises(RuntimeError), storage.replacing(path) as file:
        file.write(b"half of the new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    storage.replace(path, b"new")
    assert path.read_bytes() == b"new" and [*tmp_path.iterdir()] == [path]


def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "file"
    storage.replace(path, b"old")
    path.chmod(0o640)
    storage.replace(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_is_replaced_and_not_written_through(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_bytes(b"mine")
    path.symlink_to(victim)
    storage.replace(path, b"new")
    assert victim.read_bytes() == b"mine" and path.read_bytes() == b"new"


def make(folder, content=b"new"):
    with storage.making(folder, "test") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_bytes(content)


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("point", ["begun", "written", "renamed"])
def test_a_folder_is_whole_or_absent_whenever_its_maker_is_killed(tmp_path, point):
    folder = tmp_path / "deep" / "folder"
    killed(lambda: make(folder), at=f"test-{point}")
    if point == "renamed":
        assert content_of(folder) == {"file": b"new"}
    else:
        assert [path.name[0] for path in folder.parent.iterdir()] == ["."]
        make(folder)  # and what was left is gone
    assert [*folder.parent.iterdir()] == [folder]


def test_a_folder_that_cannot_be_finished_is_gone(tmp_path):
    with pytest.raises(KeyboardInterrupt), storage.making(tmp_path / "folder", "test") as made:
        (made / "file").touch()
        raise KeyboardInterrupt
    assert not [*tmp_path.iterdir()]


def test_an_empty_folder_is_taken_over_and_a_full_one_is_left(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    with pytest.raises(storage.Taken, match="folder was made by another process meanwhile"):
        make(folder, b"other")
    assert content_of(folder) == {"file": b"new"} and [*tmp_path.iterdir()] == [folder]


def test_all_of_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    flushed, link = [], "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda d: flushed.append(Path(link(d)).readlink()))
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda *paths: (flushed.append("renamed"), rename(*paths)))
    make(tmp_path / "folder")
    made = tmp_path / f".folder.aside{os.getpid()}"
    assert flushed == [made / "inner" / "file", made / "inner", made, "renamed", tmp_path]


def test_only_what_dead_processes_left_of_a_folder_is_removed(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f".folder.aside{os.getppid()}", f".other.aside{ended.pid}", ".folder.aside", ".folder"]
    for name in (*names, f".folder.aside{ended.pid}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    make(tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", *names}
    storage.clear(tmp_path, "other|folder", sure=True)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", *names[2:]}


def test_a_link_where_a_folder_is_made_aside_is_not_written_through(tmp_path):
    victim, outside = tmp_path / "victim", tmp_path / "outside"
    victim.mkdir()
    (victim / "file").write_bytes(b"mine")
    outside.mkdir()
    (outside / f".folder.aside{os.getpid()}").symlink_to(victim)
    make(outside / "folder")
    assert content_of(victim) == {"file": b"mine"} and [*outside.iterdir()] == [outside / "folder"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", ".hidden", "a\0b"])
def test_a_name_that_leaves_its_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot be the name"):
        storage.inside(tmp_path, name)


def test_a_name_that_leaves_its_folder_is_no_bug_of_ours(tmp_path):
    with pytest.raises(storage.Misnamed, match=r"cannot be the name.*\n.*remove it") as caught:
        storage.inside(tmp_path, "..")
    assert errors.code_of(caught.value) == errors.IO_ERROR


def test_a_link_below_the_root_is_refused_and_the_root_may_be_one(tmp_path):
    (tmp_path / "real" / "records").mkdir(parents=True)
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "real")
    assert storage.inside(root, "records", "x") == root / "records" / "x"
    (root / "records" / "x").symlink_to(tmp_path)
    with pytest.raises(storage.Linked, match="is a link"):
        storage.inside(root, "records", "x", "below")


@pytest.mark.parametrize(
    "name", ["x/../../victim", "0123456789a", "0123456789abc", "\uff10" * 12, 7]
)
def test_what_has_not_the_form_of_an_identifier_is_refused(name):
    with pytest.raises(ValueError, match="no identifier"):
        storage.identifier(name)


def test_only_plain_files_of_known_names_are_deleted(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    folder = tmp_path / "folder"
    (folder / "part-2").mkdir(parents=True)
    (folder / "part-1").write_bytes(b"")
    (folder / "part-3").symlink_to(outside)
    (folder / "other").write_bytes(b"")
    storage.discard(folder, re.compile(r"part-\d"))
    assert sorted(p.name for p in folder.iterdir()) == ["other", "part-2", "part-3"]
    link = tmp_path / "link"
    link.symlink_to(folder)
    storage.discard(link, re.compile("other"))
    assert (folder / "other").exists() and outside.exists()


def test_reading_refuses_links_pipes_and_giants(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert storage.read(path, 5) == b"12345"
    with pytest.raises(ValueError, match="at most 4 bytes"):
        storage.read(path, 4)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError):
        storage.read(tmp_path / "link", 5)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a plain file"):
        storage.read(tmp_path / "pipe", 5)
