import contextlib
import errno
import functools
import io
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from augless import errors, runs, schemas, storage, text

RECIPE = {"model.name": "lstm", "seed": 1, "terms.0.weighting.radius": 1.0, "corpus.path": "täx"}
WORDS = text.Tokeniser(language="en", kind="joined", lowercase=False)
CODECS = tuple(text.Codec(WORDS, text.Vocabulary(pieces, None)) for pieces in [("a ",), ("b ",)])
VERSIONS = {"torch": torch.__version__}


def create(folder, recipe=RECIPE, corpus="0" * 64, codecs=CODECS):
    return runs.Run.create(folder, recipe=recipe, corpus=corpus, codecs=codecs, versions=VERSIONS)


def checkpoint(step):
    """Make a checkpoint of which every file differs from that of another step."""
    generator = torch.Generator().manual_seed(step)
    model = {"weight": torch.randn(4, 3, generator=generator), "bias": torch.randn(3)}
    optimizer = {"0.step": torch.tensor(step), "0.mean": torch.randn(5, generator=generator)}
    state = {"step": step, "epoch": step // 7, "means": [[0.1 * step, 1 / 3]], "best": None}
    model["bias"] = torch.full((3,), 1 / (step + 1))
    return runs.Checkpoint(step, {"model": model, "optimizer": optimizer}, state)


def bits(tensor):
    tensor = tensor.detach().contiguous()
    return tensor.dtype, tuple(tensor.shape), tensor.reshape(-1).view(torch.uint8).tolist()


def same(one, other):
    """Tell whether two checkpoints are equal to the bit."""
    shapes = [
        {g: {n: bits(t) for n, t in tensors.items()} for g, tensors in c.tensors.items()}
        for c in (one, other)
    ]
    return one.step == other.step and one.state == other.state and shapes[0] == shapes[1]


def entry(step, **more):
    return runs.Logged(kind="interval", step=step, **more)


def example(folder):
    """Make a run with two checkpoints, a best model, metrics and a result."""
    run = create(folder)
    for step in (10, 20):
        run.log(entry(step, rate=1 / step))
        run.save(checkpoint(step))
    run.save_best(checkpoint(10).tensors["model"], {"step": 10, "score": 0.5})
    run.finish({"score": 0.5})
    return run


@functools.cache
def template():
    """Make the example once, since every file of it waits for the disk."""
    folder = tempfile.TemporaryDirectory()
    example(Path(folder.name) / "run")
    return folder  # removed when the process ends


def copy(folder):
    shutil.copytree(Path(template().name) / "run", folder)
    return runs.Run.open(folder)


@pytest.fixture(autouse=True)
def flushed(monkeypatch):
    """Do not wait for the disk, as nothing here cuts its power; list what would be flushed."""
    names = []
    link = "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda d: names.append(Path(link(d)).readlink().name))
    return names


@pytest.fixture
def run(tmp_path):
    return copy(tmp_path / "run")


def leftovers(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def files_of(folder):
    """List what a checksum guards."""
    return sorted(p for p in folder.rglob("*.*") if p.is_file() and p.suffix != ".jsonl")


# What is saved comes back


DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_to_the_bit(run, dtype):
    raw = torch.randint(0, 256, (6, 4, 8), dtype=torch.uint8)  # NaNs with payloads among them
    whole = raw.view(dtype) if dtype != torch.bool else raw > 100
    tensors = {"whole": whole, "scalar": whole.flatten()[0].clone(), "none": whole[:0]}
    tensors |= {"view": whole[1], "transposed": whole.transpose(0, 1), "strided": whole[::2, 1:]}
    tensors |= {"tied": whole, "": whole[0], "decoder.0/ü\n": whole[2:3].expand(5, -1, -1)}
    saved = runs.Checkpoint(3, {"model": tensors, "empty": {}}, {})
    run.save(saved)
    back = run.last()
    assert same(saved, back)
    assert list(back.tensors) == ["model", "empty"]
    assert all(tensor.is_contiguous() for tensor in back.tensors["model"].values())


def test_parameters_and_tied_modules_come_back(run):
    layer = torch.nn.Linear(4, 4)
    layer.again = layer.weight
    layer.weight.data = layer.weight.data.t()
    run.save(runs.Checkpoint(1, {"model": dict(layer.named_parameters())}, {}))
    assert bits(run.last().tensors["model"]["weight"]) == bits(layer.weight)


def test_a_state_comes_back(run):
    state = {"a": [1, -0.0, 0.1 + 0.2, 2**70, None, True, {"ü\n": "\udc80"}], "b": {}, "": ""}
    run.save(runs.Checkpoint(0, {}, state))
    back = run.last()
    assert json.dumps(back.state) == json.dumps(state) and back.tensors == {} and back.step == 0


@pytest.mark.parametrize(
    ("step", "tensors", "state"),
    [
        (-1, {}, {}),
        (1.5, {}, {}),
        (10**18, {}, {}),
        (1, {"../model": {}}, {}),
        (1, {"": {}}, {}),
        (1, {"model": {"__metadata__": torch.ones(1)}}, {}),
        (1, {"model": {"w": torch.ones(1).to(torch.float8_e8m0fnu)}}, {}),
        (1, {"model": {"w": torch.ones(1, dtype=torch.complex128)}}, {}),
        (1, {}, {"loss": float("nan")}),
        (1, {}, {"set": {1}}),
    ],
)
def test_what_could_not_be_read_back_is_not_saved(run, step, tensors, state):
    with pytest.raises((ValueError, TypeError, KeyError)):
        run.save(runs.Checkpoint(step, tensors, state))
    assert same(run.last(), checkpoint(20)) and not leftovers(run.folder)


def test_the_newest_are_kept(run):
    for step in (30, 40, 50):
        run.save(checkpoint(step), keep=3)
    assert [step for _, _, step in run.saved("checkpoint")] == [50, 40, 30]
    run.save(checkpoint(60), keep=1)
    assert [step for _, _, step in run.saved("checkpoint")] == [60]
    assert same(run.last(), checkpoint(60))
    with pytest.raises(ValueError, match="keep"):
        run.save(checkpoint(70), keep=0)


def test_the_best_replaces_the_best_before(run):
    assert run.best().step == 10 and run.best().state["score"] == 0.5
    run.save_best({"w": torch.ones(2)}, {"step": 30, "score": 0.7})
    best = run.best()
    assert best.state == {"step": 30, "score": 0.7} and list(best.tensors) == ["model"]
    assert len(run.saved("best")) == 1 and same(run.last(), checkpoint(20))


def test_a_step_can_be_saved_again(run):
    again = runs.Checkpoint(20, {"model": {}}, {"again": True})
    run.save(again)
    assert same(run.last(), again)


def test_a_run_without_checkpoints_has_none(tmp_path):
    run = create(tmp_path / "run")
    assert run.last() is None and run.metrics() == [] and run.result is None
    with pytest.raises(runs.BadRun, match="no model yet"):
        run.best()


def test_a_result_says_that_the_run_is_done(run):
    run.finish({"bleu": 31.5, "undefined": float("nan")})
    assert runs.Run.open(run.folder).result == {"bleu": 31.5, "undefined": None}


# Making and opening


def test_a_run_is_made_once_and_then_opened(tmp_path):
    made = create(tmp_path / "deep" / "run")
    made.save(checkpoint(5))
    again = create(tmp_path / "deep" / "run")
    assert same(again.last(), checkpoint(5))
    assert again.recipe == RECIPE and again.corpus == "0" * 64 and again.versions == VERSIONS
    assert [c.fingerprint for c in again.codecs] == [c.fingerprint for c in CODECS]
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "run"]


def test_an_empty_folder_becomes_a_run(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    create(tmp_path / "link")
    assert runs.Run.open(tmp_path / "real").recipe == RECIPE and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"terms.0.weighting.radius": 2.0}, "terms.0.weighting.radius was 1.0 and is now 2.0"),
        ({"seed": True}, "seed was 1 and is now true"),
        ({"model.name": "ü"}, 'model.name was "lstm" and is now "ü"'),
        ({"new": None}, "new was not there and is now null"),
        ({f"new.{i}": i for i in range(9)}, "new.2 was not there and is now 2; and more; name"),
    ],
)
def test_another_recipe_is_refused_by_key(run, change, said):
    with pytest.raises(runs.Changed) as refused:
        create(run.folder, RECIPE | change)
    first, next_step = str(refused.value).split("\n")
    assert said in first and "training.start=" in next_step


def test_a_key_that_went_is_named(run):
    with pytest.raises(runs.Changed, match="seed was 1 and is now gone"):
        create(run.folder, {key: value for key, value in RECIPE.items() if key != "seed"})


def test_another_corpus_or_vocabulary_is_refused(run):
    with pytest.raises(runs.Changed, match=r'the corpus was "0+" and is now "1+"'):
        create(run.folder, corpus="1" * 64)
    with pytest.raises(runs.Changed, match=r"the source vocabulary was .* and is now"):
        create(run.folder, codecs=CODECS[::-1])


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    for name, why in [("file", "no run"), ("other", "no run"), ("missing", "does not exist")]:
        with pytest.raises(runs.BadRun, match=why):
            runs.Run.open(tmp_path / name)
    for name in ("file", "other"):
        with pytest.raises(runs.BadRun, match="no run"):
            create(tmp_path / name)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]


def test_torch_is_not_loaded_to_look_at_a_run(run):
    script = (
        "import sys; from augless import runs; run = runs.Run.open(sys.argv[1]);"
        "run.recipe, run.codecs, run.metrics(), run.result;"
        "assert not {'torch', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(run.folder)], check=True)


# One process at a time


def child(action):
    """Run an action in a child process, and return its number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        action()
        code = 0
    except errors.Busy as error:
        code = 6 if "process" in str(error) else 71
    finally:
        os._exit(code)


def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def hold(folder, signal_to):
    with runs.Run.open(folder).lock():
        os.write(signal_to, b"held")
        time.sleep(60)


def test_the_second_process_is_told_who_holds_the_run(run):
    with run.lock():
        with pytest.raises(errors.Busy, match=f"in use by process {os.getpid()} on .* since "):
            runs.Run.open(run.folder).lock().__enter__()
        assert ended(child(lambda: runs.Run.open(run.folder).lock().__enter__())) == 6
    with run.lock(), pytest.raises(errors.Busy), run.lock():
        pass  # the first is not let go by the second
    assert ended(child(lambda: runs.Run.open(run.folder).lock().__enter__())) == 0


def test_a_killed_process_lets_go_of_the_run(run):
    ready, signal_to = os.pipe()
    process = child(lambda: hold(run.folder, signal_to))
    assert os.read(ready, 4) == b"held"
    with pytest.raises(errors.Busy, match=f"process {process}"), run.lock():
        pass
    os.kill(process, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    with run.lock():
        pass


def test_a_worker_that_outlives_its_parent_does_not_hold_the_run(run):
    (ready, signal_to), (up, signal_up) = os.pipe(), os.pipe()

    def parent():
        with runs.Run.open(run.folder).lock():
            worker = child(lambda: (os.write(signal_up, b"up"), time.sleep(60)))
            os.write(signal_to, struct.pack("i", worker))
            time.sleep(60)

    process = child(parent)
    assert os.read(up, 2) == b"up"
    worker = struct.unpack("i", os.read(ready, 4))[0]
    os.kill(process, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    with run.lock():
        os.kill(worker, 0)  # it is there
    os.kill(worker, signal.SIGKILL)


def test_what_a_killed_process_left_is_cleared_under_the_lock(run):
    left = [run.folder / f".{name}.aside1" for name in ("checkpoint-000009-step-1", "result.json")]
    left[0].mkdir()
    (left[0] / "model.safetensors").touch()
    left[1].touch()
    run.save(checkpoint(30))
    assert sorted(leftovers(run.folder)) == sorted(left)  # somebody else may be writing them
    with run.lock():
        run.save(checkpoint(40))
    assert leftovers(run.folder) == []


# Killed anywhere


def work(folder):
    """Do once whatever a run does; done again, it ends the same."""
    run = create(folder)
    with run.lock():
        run.rewind(2 if run.last() else 0)
        run.log(entry(30, rate=0.5))
        run.save(checkpoint(30))
        run.save_best(checkpoint(30).tensors["model"], {"step": 30, "score": 0.6})
        run.finish({"score": 0.6})


MOMENTS = [*runs.CRASH_POINTS, "save-file-written:2", "save-file-written:3", "best-file-written:2"]
BEFORE = ("begun", "file-written", "written")


@pytest.mark.parametrize("point", MOMENTS)
def test_killed_at_any_point_nothing_good_is_lost(tmp_path, monkeypatch, point):
    folder = tmp_path / "run"
    verb, _, moment = point.partition(":")[0].partition("-")
    if verb != "create":
        copy(folder).log(entry(25, rate=0.6))
    monkeypatch.setenv("AUGLESS_CRASH", point)
    assert ended(child(lambda: work(folder))) == -signal.SIGKILL
    monkeypatch.delenv("AUGLESS_CRASH")
    order = ["create", "rewind", "log", "save", "best", "finish"]

    def done(what):
        return order.index(what) < order.index(verb) or (what == verb and moment not in BEFORE)

    if verb == "create":
        assert folder.exists() == (moment == "renamed")
    else:
        run = runs.Run.open(folder)
        assert same(run.last(), checkpoint(30 if done("save") else 20))
        assert run.best().step == (30 if done("best") else 10)
        assert run.result == {"score": 0.6 if done("finish") else 0.5}
        steps = [10, 20, *([] if done("rewind") else [25]), *([30] if verb not in "rewind" else [])]
        assert [logged.step for logged in run.metrics()] == steps
        assert run.warnings == []
    work(folder)
    run = runs.Run.open(folder)
    assert same(run.last(), checkpoint(30)) and run.best().step == 30 and run.warnings == []
    assert [logged.step for logged in run.metrics()] == ([30] if verb == "create" else [10, 20, 30])
    assert run.result == {"score": 0.6} and leftovers(folder) == leftovers(tmp_path) == []


def test_another_signal_can_be_chosen(run, monkeypatch):
    monkeypatch.setenv("AUGLESS_CRASH", "save-begun:1:TERM")
    assert ended(child(lambda: work(run.folder))) == -signal.SIGTERM
    monkeypatch.setenv("AUGLESS_CRASH", "save-begun:9:KILL")
    assert ended(child(lambda: work(run.folder))) == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupted_inside_a_save_the_last_good_stays(run, error):
    with mock.patch.object(os, "fsync", side_effect=error), pytest.raises(error):
        run.save(checkpoint(30))
    assert same(run.last(), checkpoint(20)) and leftovers(run.folder) == []


def test_everything_is_flushed_before_it_gets_its_name_and_the_name_after(run, flushed):
    rename = os.rename
    flushed.clear()

    def noted(old, new):
        flushed.append(f"{old.name} -> {new.name}")
        rename(old, new)

    with mock.patch.object(os, "rename", noted):
        run.save(checkpoint(30))
    path, gone = "checkpoint-000003-step-30", "checkpoint-000001-step-10"
    aside, files = f".{path}.aside{os.getpid()}", ["state.json", "optimizer.safetensors"]
    files = ["metrics.jsonl", *files, "model.safetensors", "manifest.json"]
    moved = [f"{aside} -> {path}", "run", f"{gone} -> .{gone}.aside{os.getpid()}"]
    assert flushed == [*files, aside, *moved]
    flushed.clear()
    run.rewind(1)
    run.finish({})
    beside = [f".{name}.aside{os.getpid()}" for name in ("metrics.jsonl", "result.json")]
    assert flushed == [beside[0], "run", beside[1], "run"]
    flushed.clear()
    create(run.folder.parent / "new")
    place = [f".new.aside{os.getpid()}", run.folder.parent.name]
    names = [re.sub(r"\.(codec\.json)\..*\.aside", r"\1", name) for name in flushed]
    codecs = ["codec.json", "source", "codec.json", "target"]
    assert names == [*codecs, *codecs[2:], *codecs[:2], "run.json", *place]


# Damage


def refused(action):
    """Tell whether an action gives BadRun, with one line."""
    try:
        action()
    except runs.BadRun as error:
        return "\n" not in str(error) and len(str(error)) < 1000
    return False


def read_all(folder):
    run = runs.Run.open(folder)
    return run.last(), run.best(), run.result, run.codecs


def damage(chance, path, other):
    """Damage a file in a way drawn at random; `other` is one that it may be mistaken for."""
    content = path.read_bytes()
    place = chance.randrange(len(content))
    kind = chance.choice(["flip"] * 4 + ["cut", "cut", "grow", "zero", "other", "gone", "odd"])
    if kind == "flip":
        flipped = content[place] ^ 1 << chance.randrange(8)
        content = content[:place] + bytes([flipped]) + content[place + 1 :]
    elif kind == "cut":
        content = content[:place]
    elif kind == "grow":
        content += chance.choice([b"\0", b" ", b"\n", content])
    elif kind == "zero" and any(content[place:]):
        content = content[:place] + bytes(len(content) - place)
    else:
        content = other.read_bytes()
    path.unlink()
    if kind == "odd":
        chance.choice([path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(other)])()
    elif kind != "gone":
        path.write_bytes(content)


def restore(path, content):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.write_bytes(content)


def corruption_missed(chance, folder):
    """Damage a file of an example run; tell whether that goes unnoticed, or costs too much."""
    newest, older = (path for path, _, _ in runs.Run.open(folder).saved("checkpoint"))
    guarded = [path for path in files_of(folder) if path.parent not in (newest, older)]
    path = chance.choice(files_of(newest) * 3 + guarded)
    content = path.read_bytes()
    if path.parent != newest:
        damage(chance, path, newest / "manifest.json")
        # Without its result a run is not done; white space at the end of a codec has no effect.
        harmless = path.name == "result.json" and not path.exists()
        missed = not harmless and not refused(lambda: read_all(folder))
        if missed and path.name == "codec.json":
            codecs = runs.Run.open(folder).codecs
            missed = [c.fingerprint for c in codecs] != [c.fingerprint for c in CODECS]
    else:
        damage(chance, path, older / path.name)
        run = runs.Run.open(folder)
        noticed = same(run.last(), checkpoint(10)) and str(newest) in run.warnings[0]
        missed = not noticed or len(run.warnings) != 1
    restore(path, content)
    return missed


def test_every_damage_is_noticed_and_the_older_checkpoint_used(run):
    chance = random.Random(5)
    assert not any(corruption_missed(chance, run.folder) for _ in range(200))
    assert same(run.last(), checkpoint(20)) and run.warnings == []


def test_every_flipped_bit_of_a_manifest_is_noticed(run):
    path = run.saved("checkpoint")[0][0] / "manifest.json"
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert same(run.last(), checkpoint(10))


def test_nothing_to_go_back_to_is_said(run):
    for path, _, _ in run.saved("checkpoint"):
        (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(
        runs.BadRun, match=r"model.safetensors: .*; and there is none to go back to"
    ):
        run.last()
    assert len(run.warnings) == 2


def test_swapped_folders_are_noticed(run):
    (newest, *_), (older, *_) = run.saved("checkpoint")
    (best, *_), *_ = run.saved("best")
    newest.rename(run.folder / "aside")
    older.rename(newest)
    (run.folder / "aside").rename(older)
    assert refused(run.last)
    shutil.rmtree(newest)
    best.rename(newest)
    assert refused(run.last)


def test_a_checkpoint_of_another_run_is_noticed(run, tmp_path):
    other = create(tmp_path / "other", RECIPE | {"seed": 2})
    shutil.copytree(run.saved("checkpoint")[0][0], other.folder / "checkpoint-000002-step-20")
    with pytest.raises(runs.BadRun, match="belongs to another run"):
        other.last()


def test_the_damaged_does_not_push_out_the_good(run):
    newest = run.saved("checkpoint")[0][0]
    (newest / "state.json").unlink()
    assert run.last().step == 10
    run.save(checkpoint(15))
    assert [step for _, _, step in run.saved("checkpoint")] == [15, 10] and not newest.exists()


def test_a_reader_is_not_disturbed_by_whoever_trains(run):
    """The best model is replaced after it was listed and before it was read."""
    reader, read = runs.Run.open(run.folder), storage.read
    ((listed, _, _),) = run.saved("best")

    def slow(path, *limit):
        if path.parent == listed and listed.exists():
            run.save_best({}, {"step": 40})
        return read(path, *limit)

    with mock.patch.object(storage, "read", slow):
        assert reader.best().step == 40 and reader.warnings == []
    assert not listed.exists()


# Well signed, and still not what they should be


HEADERS = {
    "missing": lambda header: header.pop("versions"),
    "extra": lambda header: header.update(extra=1),
    "mistyped": lambda header: header.update(corpus=[3]),
    "a version that is none": lambda header: header["versions"].update(torch=[1]),
    "a version that writes to the terminal": lambda h: h["versions"].update(torch="\x1b[31m"),
    "a digit that is no number": lambda header: header["recipe"].update({"a.².b": 1}),
    "a key that writes to the terminal": lambda header: header["recipe"].update({"\x1b[31m": 1}),
    "a key without end": lambda header: header["recipe"].update({"a." * 500: 1}),
    "a side too many": lambda header: header["vocabularies"].update(third="0"),
    "a vocabulary that is none": lambda header: header["vocabularies"].update(source=None),
    "junk": lambda header: header.update(recipe=[[[]]]),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_signed_header_that_is_malformed_is_refused_in_a_line(run, kind):
    path = run.folder / "run.json"
    header = storage.parse(path.read_bytes(), runs.FORMAT)
    HEADERS[kind](header)
    path.write_bytes(storage.document(header))
    with pytest.raises(runs.BadRun, match=r"run\.json is damaged, or not ours") as caught:
        runs.Run.open(run.folder)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "change",
    [{"files": []}, {"extra": 1}, {"number": "1"}, {"metrics": {"bytes": -1}}, {"step": None}],
)
def test_a_signed_manifest_that_is_malformed_costs_one_checkpoint(run, change):
    folder = run.saved("checkpoint")[0][0]
    manifest = storage.parse((folder / "manifest.json").read_bytes(), runs.FORMAT)
    (folder / "manifest.json").write_bytes(storage.document(manifest | change))
    assert run.last().step == 10 and len(run.warnings) == 1


# Metrics


def test_records_come_back_and_what_is_not_finite_is_null(run):
    term = runs.TermLog(loss=1 / 3, weight_min=-1e400, histogram=(1, 2))
    logged = entry(30, rate=0.1 + 0.2, clipped=float("nan"), terms=(term,))
    run.log(logged)
    line = (run.folder / "metrics.jsonl").read_bytes().splitlines()[-1]
    assert line.startswith(b'{"kind": "interval", "step": 30, "rate": 0.30000000000000004, ')
    assert b'"clipped": null' in line and b'"weight_min": null' in line
    (run.folder / "result.json").unlink()
    terms = (replace(term, weight_min=None),)
    assert run.metrics()[-1] == replace(logged, clipped=None, terms=terms)


def test_records_of_earlier_and_later_versions_are_read(run):
    path = run.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "epoch", "step": 30, "newer": [{}]}\n')
    assert run.metrics()[-1] == runs.Logged(kind="epoch", step=30)


def test_watched_scores_of_older_runs_are_read():
    written = b'{"kind": "epoch", "step": 9, "scores": {"loss": 1.0, "test bleu": 2.0}}'
    logged = schemas.parsed(runs.Logged, written)
    assert (logged.scores, logged.watched) == ({"loss": 1.0}, {"test": {"bleu": 2.0}})


@pytest.mark.parametrize(
    "torn", [b'{"kind": "i', b"\0\0\0", b"\xff", b'{"kind": "epoch", "step": 30}']
)
def test_a_torn_last_line_is_dropped(run, torn):
    path = run.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + torn)
    assert [logged.step for logged in run.metrics()] == [10, 20]
    run.log(entry(30))
    assert [logged.step for logged in run.metrics()] == [10, 20, 30]


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"3", b"\xff", b"[" * 100_000, b"{}", b'{"kind": "epoch", "step": "x"}'],
)
def test_a_damaged_line_elsewhere_is_refused_by_number(run, line):
    path = run.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + line + b'\n{"kind": "epoch", "step": 30}\n')
    with pytest.raises(runs.BadRun, match=r"metrics.jsonl, line 3 is damaged") as caught:
        run.metrics()
    assert str(caught.value).isprintable()


def test_rewinding_keeps_the_bytes_of_earlier_records(run):
    path = run.folder / "metrics.jsonl"
    before = path.read_bytes()
    run.log(entry(21))
    run.log(runs.Logged(kind="epoch", step=22, scores={"\x1b": 1.0}))
    run.rewind(2)
    assert path.read_bytes() == before


LOG_DAMAGE = {
    "gone": lambda content: None,
    "cut": lambda content: content[:-3],
    "cut at a line": lambda content: content[: content.index(b"\n") + 1],
    "altered": lambda content: content.replace(b"0.05", b"0.06"),
    "empty": lambda content: b"",
    "in another order": lambda content: b"\n".join(content.split(b"\n")[1::-1]) + b"\n",
}


def damage_log(folder, kind):
    """Damage what a run logged in one of the ways above."""
    path = folder / "metrics.jsonl"
    content = LOG_DAMAGE[kind](path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize("kind", LOG_DAMAGE)
def test_records_that_are_not_what_was_logged_are_noticed(run, kind):
    damage_log(run.folder, kind)
    with pytest.raises(runs.BadRun, match=r"metrics\.jsonl"):
        run.metrics()
    (run.folder / "result.json").unlink()
    # The older checkpoint needs the first record only: the second is logged again.
    if kind in ("cut", "cut at a line", "altered"):
        assert run.last().step == 10 and "metrics.jsonl" in run.warnings[0]
        run.rewind(1)
        assert [logged.step for logged in run.metrics()] == [10]
        assert run.last().step == 10
    else:
        with pytest.raises(runs.BadRun, match=r"metrics\.jsonl.*restore it from a copy") as caught:
            run.last()
        assert "\n" not in str(caught.value)


def test_records_that_are_missing_are_not_rewound_over(run):
    with pytest.raises(runs.BadRun, match="has 2 records; 3 were logged"):
        run.rewind(3)


def test_damaged_records_that_nobody_needs_are_no_obstacle(run):
    (run.folder / "metrics.jsonl").write_bytes(b"{\n")
    run.rewind(0)
    assert (run.folder / "metrics.jsonl").read_bytes() == b""


def test_a_checkpoint_of_before_records_had_a_checksum_is_read(run):
    folder = run.saved("checkpoint")[0][0]
    manifest = storage.parse((folder / "manifest.json").read_bytes(), runs.FORMAT)
    del manifest["metrics"]
    (folder / "manifest.json").write_bytes(storage.document(manifest))
    assert run.last().step == 20 and run.warnings == []


# The disk


FAULTS = ("open", "write", "fsync", "rename", "mkdir", "close")
ERRNOS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT)


@contextlib.contextmanager
def failing(name, turn, number):
    """Let the given call of a function of the system fail; a full disk takes half a write."""
    real, calls = getattr(os, name), []

    def faulty(*arguments, **keywords):
        calls.append(arguments)
        if name == "write" and len(calls) == turn - 1 and len(arguments[1]) > 1:
            return real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        if len(calls) == turn:
            if name == "close":
                real(*arguments)
            named = () if name in ("write", "fsync", "close") else (str(arguments[0]),)
            raise OSError(number, os.strerror(number), *named)
        return real(*arguments, **keywords)

    with mock.patch.object(os, name, faulty):
        yield calls


ACTIONS = {
    "save": lambda run: run.save(checkpoint(30)),
    "best": lambda run: run.save_best(checkpoint(30).tensors["model"], {"step": 30}),
    "log": lambda run: run.log(entry(30)),
    "rewind": lambda run: run.rewind(2),
    "finish": lambda run: run.finish({"score": 0.6}),
    "create": lambda run: create(run.folder.parent / "new"),
}


def seen(run):
    """Return what each action changes, as a reader sees it, once all of it is verified."""
    run = runs.Run.open(run.folder)
    new = run.folder.parent / "new"
    last = run.last()
    assert same(last, checkpoint(last.step))
    assert run.warnings == []
    return {
        "save": last.step,
        "best": run.best().step,
        "log": [logged.step for logged in run.metrics()],
        "finish": run.result["score"],
        "create": new.exists() and [codec.fingerprint for codec in runs.Run.open(new).codecs],
    }


def disk_failed(folder, action, name, turn, number):
    """Let one call fail; return whether it did, and whether something was lost or misreported."""
    run = runs.Run.open(folder)
    if action == "rewind":
        run.log(entry(25))
    before = seen(run)
    raised, wrong = None, False
    changes = "log" if action == "rewind" else action
    with run.lock() if action != "create" else contextlib.nullcontext():
        with failing(name, turn, number) as calls:
            try:
                ACTIONS[action](run)
            except OSError as error:
                raised = error
        happened = len(calls) >= turn
        after = seen(run)
        if raised is None:  # so it has to be done
            wrong |= after[changes] == before[changes]
        else:
            wrong |= raised.errno != number or not raised.filename or not happened
        wrong |= any(after[key] != before[key] for key in before if key != changes)
        # Only the removal of an old checkpoint, when a new one is safe, may leave something.
        wrong |= bool(leftovers(folder)) and raised is not None
        wrong |= bool(leftovers(folder.parent))
        ACTIONS[action](run)  # the disk has room again
        wrong |= seen(run)[changes] in (before[changes], False)
        run.save(checkpoint(30))
        wrong |= bool(leftovers(folder))
    return happened, wrong


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_call_that_fails_loses_nothing_and_is_never_called_saved(tmp_path, action, name):
    for turn in range(1, 99):
        folder = tmp_path / str(turn) / "run"
        copy(folder)
        number = ERRNOS[turn % len(ERRNOS)]
        happened, wrong = disk_failed(folder, action, name, turn, number)
        assert not wrong, (turn, number)
        if not happened:
            break
    assert not happened


def test_a_file_that_may_not_grow_is_reported_by_the_kernel(run):
    large = runs.Checkpoint(30, {"model": {"w": torch.zeros(10_000)}}, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*model.safetensors'"):
            run.save(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert same(run.last(), checkpoint(20)) and leftovers(run.folder) == []


def test_what_cannot_be_removed_is_a_warning(run):
    def denied(path, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "denied", str(path))

    with mock.patch.object(shutil, "rmtree", denied):
        run.save(checkpoint(30))
    assert len(run.warnings) == 1 and "could not be removed" in run.warnings[0]
    assert same(run.last(), checkpoint(30))


def test_somebodys_files_in_a_checkpoint_are_not_deleted_with_it(run):
    oldest = min(run.folder.glob("checkpoint-*"))
    (oldest / "notes.txt").write_text("mine")
    run.save(checkpoint(30), keep=1)
    assert any("could not be removed: 'notes.txt' in it" in one for one in run.warnings)
    assert (oldest / "notes.txt").read_text() == "mine"
    assert same(run.last(), checkpoint(30))


def test_what_may_not_be_read_is_not_taken_for_damage(run):
    real = os.open

    def denied(path, *rest, **keywords):
        if str(path).endswith("step-20/manifest.json"):
            raise PermissionError(errno.EACCES, "denied", str(path))
        return real(path, *rest, **keywords)

    with mock.patch.object(os, "open", denied), pytest.raises(PermissionError):
        run.last()


# Files of others


class Payload:
    """Unpickled, it leaves a file behind."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def pickles(chance, trace):
    """Draw a pickle, plain or as torch saves it, that acts when it is read."""
    payload = {"state": Payload(trace), "epoch": chance.randrange(99)}
    if chance.random() < 0.4:
        buffer = io.BytesIO()
        torch.save(payload, buffer, _use_new_zipfile_serialization=chance.random() < 0.7)
        return buffer.getvalue()
    return pickle.dumps(payload, protocol=chance.randrange(6))


def archives(chance, trace):
    """Draw an archive that has been renamed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../" * chance.randrange(5) + "data.pkl", pickles(chance, trace))
    return buffer.getvalue()


def configs(chance, trace):
    """Draw JSON that names classes, has the wrong shape, or is too deep."""
    call = {chance.choice(["_target_", "__class__", "py/object", "$ref"]): "os.mkdir"}
    call |= {"args": [str(trace)], "py/reduce": [{"py/function": "os.mkdir"}, [str(trace)]]}
    odd = [call, [call], "!!python/object/apply:os.mkdir", 3, None, True, [], {}, 1e308, {"": {}}]
    deep = chance.choice(["[", '{"a":']) * chance.choice([500, 5_000, 200_000])
    table = {"format": chance.choice([runs.FORMAT, "augless run 2", call])}
    keys = ["recipe", "corpus", "vocabularies", "versions", "run", "files", "result", "series"]
    table |= {key: chance.choice(odd) for key in chance.sample(keys, chance.randrange(len(keys)))}
    documents = [json.dumps(table).encode(), json.dumps(chance.choice(odd)).encode(), deep.encode()]
    documents += [b"\xff\xfe" + json.dumps(table).encode("utf-16-le"), b"1" * 9_999, b"NaN", b""]
    documents += [storage.document(table)] * 4  # whoever can compute a checksum
    return chance.choice(documents)


def headers(chance, trace):
    """Draw a file of tensors with a malformed header."""
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    odd = [-1, 2**63, 2**64, 1.5, "8", None, [], {}, [8, 0], [-8, 0], [0, 2**64], [0, 9], [4, 12]]
    odd += ["F33", "os.mkdir", [2**32, 2**32], [2**62, 4], [-1, -2], [[2]], [0] * 100_000, True]
    entry[chance.choice([*entry, "dtype ", "more"])] = chance.choice(odd)
    header = json.dumps(chance.choice([{"w": entry}, {"w": entry, "v": entry}, [entry], "w"]))
    kinds = [
        header,
        header,
        header,
        header[:-1],
        "[" * 200_000,
        '{"w":' * 5_000,
        "",
        "\0",
        header * 2,
    ]
    raw = chance.choice(kinds).encode()
    lengths = [len(raw)] * 6 + [0, 1, 2**31, 2**63, 2**64 - 1, len(raw) // 2, len(raw) + 9]
    body = bytes(chance.choice([0, 4, 8, 8, 8, 16]))
    return struct.pack("<Q", chance.choice(lengths)) + raw + body


def plain(value):
    """Tell whether something is data and nothing else."""
    if type(value) in (dict, list, tuple):
        items = [*value, *value.values()] if type(value) is dict else value
        return all(map(plain, items))
    return value is None or type(value) in (str, int, float, bool, torch.Tensor)


def forge(run, name, content, told):
    """Put a file into the newest checkpoint, with a manifest to match if whoever does it can."""
    folder, number, step = run.saved("checkpoint")[0]
    (folder / name).write_bytes(content)
    if told and name != "manifest.json":
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": storage.digest(path.read_bytes())}
            for path in folder.iterdir()
            if path.name != "manifest.json"
        }
        manifest = {"format": runs.FORMAT, "run": run.fingerprint, "series": "checkpoint"}
        manifest |= {"number": number, "step": step, "files": files}
        (folder / "manifest.json").write_bytes(storage.document(manifest))


def untrusted_failed(chance, folder, kind):
    """Put a foreign file into a run; tell whether it acts, imports, or is not refused in a line."""
    run = runs.Run.open(folder)
    trace = folder.parent / "trace"
    content = kind(chance, trace)
    newest = run.saved("checkpoint")[0][0]
    kept = {path: path.read_bytes() for path in files_of(folder)}
    name = chance.choice(
        ["model.safetensors", "state.json", "manifest.json", "optimizer.safetensors"]
    )
    name = "model.safetensors" if kind is headers else name
    inside = kind is headers or chance.random() < 0.6
    path = newest / name
    told = chance.random() < 0.7
    if inside:
        forge(run, name, content, told)
    else:
        path = chance.choice([path for path in kept if newest not in path.parents])
        path.write_bytes(content)
    modules = set(sys.modules)
    opened = runs.Run.open(folder) if path.name != "run.json" else None
    if inside:
        back = opened.last()
        good = same(back, checkpoint(10)) and "\n" not in opened.warnings[0]
        # A state with the right checksum is whatever table it is; a header may happen to be whole.
        good |= told and name == "state.json" and not opened.warnings and plain(back.state)
        good |= told and kind is headers and not opened.warnings and plain(back.tensors)
    elif path.parent.name.startswith("checkpoint"):  # the older one: nobody looks
        good = same(opened.last(), checkpoint(20))
    else:
        good = refused(lambda: read_all(folder))
    failed = not good or trace.exists() or set(sys.modules) != modules
    for path, content in kept.items():
        if path.read_bytes() != content:
            path.write_bytes(content)
    return failed


@pytest.mark.parametrize("kind", [pickles, archives, configs, headers])
def test_foreign_files_are_refused_and_nothing_of_them_runs(run, kind):
    chance = random.Random(3)
    for trial in range(50):
        assert not untrusted_failed(chance, run.folder, kind), trial


def test_the_payload_would_act(tmp_path):
    pickle.loads(pickles(random.Random(0), tmp_path / "trace"))
    assert (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/hostname", "a/b.safetensors", "model.bin", "", "é", "."]
)
def test_a_manifest_can_only_name_files_of_its_folder(run, name):
    folder = run.saved("checkpoint")[0][0]
    manifest = storage.parse((folder / "manifest.json").read_bytes(), runs.FORMAT)
    manifest["files"][name] = {"bytes": 1, "sha256": "0"}
    (folder / "manifest.json").write_bytes(storage.document(manifest))
    assert run.last().step == 10 and f"the manifest names {name!r}" in run.warnings[0]


def test_links_are_not_followed(run, tmp_path):
    newest = run.saved("checkpoint")[0][0]
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "elsewhere")
    assert run.last().step == 10 and "link" in run.warnings[0]
    run.save(checkpoint(30))
    assert (tmp_path / "elsewhere" / "manifest.json").exists()
    (run.folder / "lock").unlink(missing_ok=True)
    (run.folder / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="lock"), run.lock():
        pass
    assert not (tmp_path / "victim").exists()


def test_files_get_the_mode_that_the_user_asks_for(run):
    mask = os.umask(0o027)
    try:
        run.save(checkpoint(30))
    finally:
        os.umask(mask)
    folder = run.saved("checkpoint")[0][0]
    assert [stat.S_IMODE(p.stat().st_mode) for p in (folder, folder / "state.json")] == [
        0o750,
        0o640,
    ]
