"""Files from elsewhere and command lines, changed by a generator that knows their structure.

The rows `records` and `recipes` of the reliability table run the same for longer.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
import tomllib
import traceback
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from augless import (
    cli,
    corpora,
    data,
    errors,
    recipes,
    reports,
    runs,
    storage,
    text,
    training,
    trials,
)
from augless.knobs import Within, of
from augless.recipes import following, memory, reading
from augless.trials import records
from mutations import JUNK, NAMES, NUMBERS, mutated
from support import record, score

SETTINGS = data.Settings(vocabulary=text.Subwords(size=200))
TINY = [
    "corpus.train=8",
    "corpus.valid=2",
    "corpus.test=2",
    "text.vocabulary.size=200",
    "model.embedding=4",
    "model.hidden=4",
    "training.epochs=1",
    "training.batch=4",
]
# The memory that a fuzzed recipe may ask for: those who run the tests share the machine.
ROOM = 1 << 28


def explored(case, count, number):
    """Try a case on examples drawn by Hypothesis; return how many, and what went wrong."""
    faults, tried = [], []

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(st.data())
    def one(data):
        fault = case(data)
        tried.append(fault)  # not of an example that Hypothesis gave up while drawing
        if fault:
            faults.append(fault)

    one()
    return len(tried), faults


# Records, runs, plans and prepared corpora from elsewhere


class Sandbox:
    """A folder to work in, and files beside it that nothing may touch."""

    def __init__(self, root):
        root = root.resolve()
        self.root, self.work = root, root / "work"
        self.victim = root / "victim"
        self.restore()
        self.before = self.outside()
        self.templates = root / "templates"
        self.templates.mkdir()
        made = record(
            scores={s: {"bleu": score(12.5)} for s in ("valid", "test")},
            statistics={f"{s}/bleu": np.ones((5, 10)) for s in ("valid", "test")},
        )
        made.save(self.templates / "record")
        corpus = corpora.CORPORA["toy-de-en"](train=8, valid=2, test=2)
        prepared = data.prepare(corpus, SETTINGS, self.templates, name="toy")
        prepared.folder.rename(self.templates / "prepared")
        resolved = recipes.load("toy-de-en", TINY)
        self.place = following.Place(prepared=self.templates / "data")
        following.train(resolved, self.place, folder=self.templates / "run")

    def restore(self):
        """Put the files that nothing may touch as they were."""
        shutil.rmtree(self.victim, ignore_errors=True)
        self.victim.mkdir()
        for name in ("record.json", "statistics-01234567.safetensors.gz", "run.json", "notes.txt"):
            (self.victim / name).write_text(f"precious {name}")

    def touched(self):
        """Say what of those files is new, gone or changed, and put them as they were."""
        now = self.outside()
        if now == self.before:
            return ""
        names = {p.name for p in {*now, *self.before} if now.get(p) != self.before.get(p)}
        self.restore()
        return f"touched what lies outside: {sorted(names)}"

    def outside(self):
        """Return names, content and modes of all that lies beside the folder to work in."""
        return {
            path: (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.victim.rglob("*"))
        }

    def fresh(self, template):
        """Return a copy of a template, and nothing else in the folder to work in."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        return Path(shutil.copytree(self.templates / template, self.work / template))

    def judge(self, act):
        """Do something; say what is wrong with how it ended, if anything."""
        try:
            act()
        except Exception as error:
            said = str(error)
            if errors.code_of(error) == errors.BUG:
                return "".join(traceback.format_exception(error))
            if len(said.split("\n")) > 3:
                return f"too long: {said[:2000]}"
        return self.touched()


def records_case(sandbox, draw):
    """Draw a file from elsewhere, and use it as a verb would; return what was wrong, or nothing."""
    kind = draw(st.sampled_from([_record] * 6 + [_run] * 3 + [_plan, _prepared]))
    return sandbox.judge(kind(sandbox, draw))


def _record(sandbox, draw):
    folder = sandbox.fresh("record")
    content = json.loads((folder / "record.json").read_bytes())
    del content["sha256"]
    content = draw(mutated(content))
    if isinstance(content, dict):
        content.setdefault("format", records.FORMAT)
        with contextlib.suppress(ValueError, RecursionError):
            (folder / "record.json").write_bytes(records.document(content))
    _link(sandbox, draw, folder)
    hypotheses = sandbox.work / "hypotheses"
    hypotheses.mkdir()
    (hypotheses / "test.txt").write_bytes(draw(st.sampled_from([b"\xff\n", b"a\nb\n", b"\0" * 9])))
    paged = draw(st.integers(0, 19)) == 7  # a page takes longer than all the rest

    def act():
        loaded = trials.Record.load(folder).with_hypotheses(hypotheses)
        loaded.save(sandbox.work / "records" / loaded.id)  # as a trial remembers it
        evidence = reports.gather(_trial(loaded))
        said = reports.text(evidence)
        assert said and cli.terminal.visible(said).replace("\n", "").isprintable()
        if paged:
            reports.report(evidence, sandbox.work / "report")

    return act


def _trial(loaded):
    plan = trials.Plan(
        name="p",
        title="t",
        recipes={"c": trials.Base(recipe="toy-de-en")},
        methods={"plain": trials.Method(), "law": trials.Method()},
        seeds=(1,),
    )
    entries = [
        trials.Entry(corpus="c", method=method, seed=1, record=loaded, failure=None)
        for method in plan.methods
    ]
    return trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen={})


def _run(sandbox, draw):
    folder = sandbox.fresh("run")
    path = draw(st.sampled_from(sorted(folder.rglob("*.json*"))))
    _forge(draw, folder, path)
    _link(sandbox, draw, draw(st.sampled_from([folder, *folder.glob("checkpoint-*")])))
    resumed = draw(st.booleans())

    def act():
        if resumed:
            (folder / "result.json").unlink(missing_ok=True)
            resolved = recipes.load("toy-de-en", TINY)
            with contextlib.suppress(training.NotFinite):
                following.train(resolved, sandbox.place, folder=folder)
        else:
            runs.Run.open(folder).metrics()
            runs.Run.open(folder).outcome()
            lines = following.writer(folder, "cpu").generate(["ein haus", "zwei"])
            assert len(lines) == 2 and not any("\n" in line for line in lines)

    return act


def _forge(draw, folder, path):
    """Change a file of a run, with sums that are right all the way up."""
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        changed = draw(mutated(lines))
        with contextlib.suppress(ValueError, RecursionError):
            lines = changed if isinstance(changed, list) else [changed]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    content = json.loads(path.read_bytes())
    content.pop("sha256", None)
    content = draw(mutated(content))
    if not isinstance(content, dict):
        return
    with contextlib.suppress(ValueError, RecursionError):
        if path.name == "codec.json":
            content.pop("format", None)
            signed = {"format": text.codec.FORMAT, "sha256": text.codec.digest_of(content)}
            path.write_text(json.dumps(signed | content), "utf-8")
            codec = text.Codec.load(path.parent)
            header = storage.parse((folder / "run.json").read_bytes(), runs.FORMAT)
            header["vocabularies"][path.parent.name] = codec.fingerprint
            path, content = folder / "run.json", header
        if path.name == "state.json":
            path.write_bytes(storage.encoded(content))
            manifest = path.with_name("manifest.json")
            content = storage.parse(manifest.read_bytes(), runs.FORMAT)
            raw = path.read_bytes()
            entry = {"bytes": len(raw), "sha256": storage.digest(raw)}
            content["files"][path.name] = entry
            path = manifest
        content = {"format": runs.FORMAT, **content}
        path.write_bytes(storage.document(content))
        if path.name == "run.json":
            fingerprint = runs.Run.open(folder).fingerprint
            for other in (*folder.glob("*/manifest.json"), folder / "result.json"):
                belongs = storage.parse(other.read_bytes(), runs.FORMAT) | {"run": fingerprint}
                other.write_bytes(storage.document(belongs))


def _prepared(sandbox, draw):
    folder = sandbox.fresh("prepared")
    content = json.loads((folder / "manifest.json").read_bytes())
    del content["sha256"]
    content = draw(mutated(content))
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(content, dict):
            (folder / "manifest.json").write_bytes(storage.document(content))
    _link(sandbox, draw, folder)

    def act():
        prepared = data.Prepared.open(folder)
        prepared.verify()
        assert cli.preparing.summary(prepared)
        for split in prepared.splits:
            pairs = prepared.pairs(split)
            assert len(pairs.source) == len(pairs.target) == len(pairs.weight)
        assert len(prepared.codecs) == 2

    return act


PLAN = {
    "name": "p",
    "title": "t",
    "seeds": [1, 2],
    "baseline": "plain",
    "metric": "chrf",
    "metrics": ["bleu", "chrf"],
    "recipes": {"a": {"recipe": "toy-de-en", "corpus.train": 60}},
    "methods": {"plain": {}, "law": {"terms.0.weighting": {"name": "uniform", "radius": 1.0}}},
    "tune": {"law": {"terms.0.weighting.radius": [0.5, 1.0]}},
    "small": {"seeds": [1]},
}


def _plan(sandbox, draw):
    content = draw(mutated(PLAN))
    shutil.rmtree(sandbox.work, ignore_errors=True)
    sandbox.work.mkdir()
    path = sandbox.work / "plan.toml"
    path.write_bytes(toml(content).encode("utf-8", "surrogatepass"))

    def act():
        plan = trials.Plan.load(str(path))
        assert trials.Plan.load(str(path), small=True)
        assert plan.methods

    return act


def _link(sandbox, draw, folder):
    """Put a link, a pipe or a folder where a file of ours belongs, one time in four."""
    if draw(st.integers(0, 3)) or folder.resolve() != folder or not any(folder.glob("*")):
        return
    path = draw(st.sampled_from(sorted(folder.iterdir())))
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    target = draw(st.sampled_from(["victim", "itself", "pipe", "folder"]))
    if target == "victim":
        path.symlink_to(sandbox.victim / ("" if path.suffix == "" else "record.json"))
    elif target == "itself":
        path.symlink_to(path.name)
    elif target == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


def trials_case(sandbox, draw):
    """Draw a trial's folder from elsewhere and shared records, and report on them."""
    if not (sandbox.templates / "trial").exists():
        _try(sandbox)
    folder = sandbox.fresh("trial")
    shared = sandbox.work / "shared"
    shutil.copytree(folder / "records", shared)
    for _ in range(draw(st.integers(1, 3))):
        files = [folder / "plan.toml", *folder.rglob("*.json"), *shared.rglob("*.json")]
        # Not through a link that was put there before: that would be our own doing.
        plain = sorted(path for path in files if path.is_file() and path.resolve() == path)
        if not plain:
            break
        path = draw(st.sampled_from(plain))
        _rewrite(draw, path)
        _link(sandbox, draw, draw(st.sampled_from([folder, shared, path.parent])))
    (sandbox.work / "in.txt").touch()
    verb = draw(st.sampled_from(["report", "trial"]))
    extra = ["--json"] if draw(st.booleans()) else []
    if verb == "trial":
        extra += ["--jobs", "1", "--max-minutes", "0"]
    where = [str(folder)] if verb == "report" else [str(sandbox.templates / "plan.toml")]
    where += [] if verb == "report" else ["--out", str(sandbox.work)]
    return _judged(sandbox, [verb, *where, "--records", "shared", *extra])


def _try(sandbox):
    """Run a small trial, whose folder is the template."""
    content = {**PLAN, "name": "trial", "seeds": [1], "tune": {}, "small": {}, "metrics": ["chrf"]}
    content["recipes"] = {"a": {"recipe": "toy-de-en"}}
    content["overrides"] = dict(one.split("=") for one in TINY)
    content["overrides"] = {key: int(value) for key, value in content["overrides"].items()}
    (sandbox.templates / "plan.toml").write_text(toml(content))
    sandbox.work.mkdir(exist_ok=True)
    (sandbox.work / "in.txt").touch()
    arguments = ["trial", "plan.toml", "--out", ".", "--jobs", "1"]
    shutil.copy(sandbox.work / "in.txt", sandbox.templates)
    code, said = called(arguments, sandbox.templates, patience=300.0)
    assert code == 0 and (sandbox.templates / "trial" / "records").is_dir(), said


def _rewrite(draw, path):
    """Change a file of a trial, with sums that are right if it has some."""
    with contextlib.suppress(ValueError, RecursionError, OSError):
        raw = path.read_text("utf-8")
        content = tomllib.loads(raw) if path.suffix == ".toml" else json.loads(raw)
        changed = draw(mutated(content))
        if path.suffix == ".toml":
            path.write_text(toml(changed), "utf-8")
        elif path.name == "record.json" and isinstance(changed, dict):
            changed.pop("sha256", None)
            path.write_bytes(records.document(changed))
        elif isinstance(content, dict) and "sha256" in content and isinstance(changed, dict):
            changed.pop("sha256", None)
            path.write_bytes(storage.document(changed))
        else:
            path.write_text(json.dumps(changed), "utf-8")


def toml(value, top=True):
    """Write tables as TOML; numbers, texts and keys however absurd."""
    if isinstance(value, dict):
        if top:
            return "".join(f"{json.dumps(k)} = {toml(v, False)}\n" for k, v in value.items())
        return (
            "{" + ", ".join(f"{json.dumps(k)} = {toml(v, False)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one, False) for one in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: '"none"'}[value]
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    with contextlib.suppress(ValueError):
        return repr(value)
    return "1" + "0" * 5_000  # of more digits than Python spells


# Command lines and recipes


def _spelt(value):
    with contextlib.suppress(RecursionError):
        return toml(value, top=False)
    return "[" * 3_000


def _bounds(kind, prefix=""):
    """Return, for each dotted key of a recipe, values at the limits of its knob and beyond."""
    bounds = {}
    for name, knob in of(type(kind)).items():
        key, value = f"{prefix}{name}", getattr(kind, name)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            bounds |= _bounds(value[0], f"{key}.0.")
        elif is_dataclass(value):
            bounds |= _bounds(value, f"{key}.")
            if knob.among is not None:
                bounds[key] = [*knob.among.choices, "x"]
        else:
            within = [one for one in knob.limits if isinstance(one, Within)]
            ends = [end for one in within for end in (one.low, one.high, one.low - 1, 2 * one.high)]
            bounds[key] = [value, *ends, *get_args(knob.kind), True, 0, 1, 0.5]
            bounds[key] = [one for one in bounds[key] if isinstance(one, bool | int | float | str)]
    return bounds


BOUNDS = _bounds(recipes.load("toy-de-en", TINY).recipe)
NESTED = [
    "terms.0.weighting={name='exponential', radius=%s}",
    "terms.0.weighting={name='uniform', angle='isotropic', dimension=%s}",
    "terms.1.loss={name='wasserstein', solver=%s}",
    "search={name='sampling', temperature=%s}",
    "training.optimizer={name='adam', rate=%s}",
    "model={name='transformer', layers=%s}",
]
OPTIONS = {
    "--threads": ["0", "-1", "1", "100000000", "x", "1e3"],
    "--device": ["cpu", "cuda", "mps", "x", ""],
    "--workers": ["0", "-1", "1", "1000000000", "x"],
    "--max-minutes": ["nan", "-1", "1e308", "x"],
    "--nothing": ["x"],
}


def _override(draw):
    kind = draw(st.sampled_from(["bounds"] * 6 + ["nested", "nested", "absurd", "wrong"]))
    absurd = st.sampled_from([*NUMBERS, *NAMES, "auto", "nan", "inf"]) | JUNK
    if kind == "nested":
        value = draw(absurd | st.sampled_from([0.5, 1, 2, 3, 4]))
        return (draw(st.sampled_from(NESTED)) % _spelt(value)).replace("\0", "")
    key = draw(st.sampled_from(sorted(BOUNDS)))
    value = draw(st.sampled_from(BOUNDS[key]) if kind == "bounds" else absurd)
    if kind == "wrong":
        key = draw(st.sampled_from(["terms.0", "terms.9.loss", "a.².b", "", "=", key + ".x"]))
    return f"{key}={_spelt(value)}".replace("\0", "")


def _command(draw, folder):
    """Draw a command line that works but for one to three things, or not at all."""
    overrides = [_override(draw) for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3])))]
    recipe = "toy-de-en"
    if draw(st.booleans()):
        plain = recipes.load("toy-de-en", TINY).recipe
        table = draw(mutated(reading.nested({k: v for k, v in reading.flat(plain) if _says(v)})))
        content = (
            toml(table).encode("utf-8", "surrogatepass") if isinstance(table, dict) else b"\xff"
        )
        start = draw(st.integers(0, 400)) if draw(st.integers(0, 9)) == 0 else len(content)
        (folder / "recipe.toml").write_bytes(content[:start])
        recipe, overrides = "recipe.toml", overrides[: draw(st.integers(0, 1))]
    verb = draw(st.sampled_from(["train"] * 6 + ["prepare", "generate", "score"]))
    if verb == "generate":
        return ["generate", "run", "in.txt", *overrides]
    if verb == "score":
        return ["score", *draw(st.lists(st.sampled_from(["in.txt", "run", "-r", "x", "=", "-m"])))]
    extra = []
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(sorted(OPTIONS)))
        extra = [name, draw(st.sampled_from(OPTIONS[name]))]
    limit = ["--max-minutes", "0", "--data", "data"] if verb == "train" else ["--out", "data"]
    return [verb, recipe, *TINY, *overrides, *limit, *extra]


def _says(value):
    return isinstance(value, bool | int | float | str | list | tuple)


def recipes_case(sandbox, draw):
    """Draw a command line and run it in a process of its own; return what was wrong, or nothing."""
    shutil.rmtree(sandbox.work, ignore_errors=True)
    sandbox.work.mkdir()
    (sandbox.work / "run").symlink_to(sandbox.templates / "run")
    (sandbox.work / "in.txt").write_text("ein haus\n")
    arguments = _command(draw, sandbox.work)
    # Where the recipe is refused nothing starts, and no process of its own is needed.
    if reason := refused(arguments, sandbox.work):
        if draw(st.integers(0, 3)):
            return "" if len(reason.split("\n")) <= 3 else f"too long: {reason[:2_000]}"
        return _judged(sandbox, arguments, called_here)
    return _judged(sandbox, arguments)


def _judged(sandbox, arguments, call=None):
    """Run a command line; say what is wrong with how it ended, if anything."""
    code, said = (call or called)(arguments, sandbox.work)
    if touched := sandbox.touched():
        return f"{touched} by {arguments}"
    last = said[said.rindex("augless: ") if "augless: " in said else 0 :]
    good = code in {0, 2, 3, 4, 5, 6, 7, 75, 128 + signal.SIGTERM} and "Traceback" not in said
    usage = last.startswith("Usage")
    good &= code in (0, 75, 143) or len(last.rstrip("\n").split("\n")) <= (5 if usage else 3)
    good &= usage or said.replace("\n", "").replace("\t", "").isprintable()
    return "" if good else f"{ascii(arguments)[:3_000]} gave {code}: {said[-1_500:]!a}"


def refused(arguments, folder):
    """Return why the recipe of a command line is refused when it is read, nothing if it is not."""
    reader = {"train": recipes.load, "prepare": recipes.preparation}.get((*arguments, "")[0])
    if reader is None:
        return ""
    changes = [one for one in arguments[2:] if "=" in one and not one.startswith("--")]
    with contextlib.chdir(folder):
        try:
            reader(arguments[1], changes)
        except recipes.BadRecipe as error:
            return str(error)
    return ""


def called_here(arguments, folder):
    """Run the command line in this process, where it ends at once."""
    said, before = io.StringIO(), signal.getsignal(signal.SIGTERM)
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", ["augless", *arguments]),
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except Exception:
            traceback.print_exc(file=said)
            code = 1
        finally:
            signal.signal(signal.SIGTERM, before)
    return code, said.getvalue()


def called(arguments, folder, patience=6.0):
    """Run the command line in a fork; after some time end it, which it must allow."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = _inside(arguments, folder)
        finally:
            os._exit(code)
    began, asked = time.monotonic(), False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        spent = time.monotonic() - began
        if spent > patience and not asked:
            os.kill(child, signal.SIGTERM)
            asked = True
        if spent > 20 * patience:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(status), (folder / "stderr").read_text("utf-8", "replace")


def _inside(arguments, folder):
    os.chdir(folder)
    for number, name in enumerate(("in.txt", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(name, flags, 0o666), number)
    streams = ((1, "stdout"), (2, "stderr"))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name in streams:  # not pytest's
        setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.argv = ["augless", *arguments]
    memory.available = lambda: ROOM
    os.environ["COLUMNS"] = "200"
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
    return 0


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    return Sandbox(tmp_path_factory.mktemp("sandbox"))


def test_files_from_elsewhere_give_no_traceback_and_touch_nothing_outside(sandbox):
    tried, faults = explored(lambda data: records_case(sandbox, data.draw), 100, number=1)
    assert tried >= 100 and not faults, faults[0]


def test_fuzzed_command_lines_end_in_three_lines_and_the_right_code(sandbox):
    tried, faults = explored(lambda data: recipes_case(sandbox, data.draw), 100, number=1)
    assert tried >= 100 and not faults, faults[0]
