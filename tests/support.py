"""What several test modules need: records, trials and waiting, made in one place."""

import ast
import contextlib
import fcntl
import io
import itertools
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
import tokenize
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from augless import corpora, runs, schemas, storage, trials
from augless.recipes import following, reading
from augless.recipes.recipe import Recipe


def score(value, signature="s"):
    return trials.Score(value, signature)


def scores(value=1.0, metric="perplexity", splits=("valid", "test"), signature="s"):
    return {split: {metric: score(value, signature)} for split in splits}


def record(**changes):
    """Make a record; its result and its history may be given as JSON has them."""
    generator = np.random.default_rng(0)
    whole = {
        "id": "0123456789ab",
        "name": "toy",
        "recipe": {"seed": 1},
        "seed": 1,
        "corpus": "c",
        "versions": {"torch": "2"},
        "command": "augless train toy",
        "result": {"steps": 3, "seconds": 1.5, "samples": 30},
        "scores": {"valid": {"bleu": score(12.5)}},
        "statistics": {
            "valid/bleu": generator.integers(0, 300, (5, 10)).astype(np.float64),
            "valid/nats": generator.random(5),
        },
        "history": [{"kind": "epoch", "step": 3}],
    } | changes
    whole["result"] = schemas.parsed(runs.Outcome, storage.encoded(whole["result"]))
    history = storage.encoded(whole["history"])
    whole["history"] = schemas.parsed(tuple[runs.Logged, ...], history)
    return trials.Record(**whole)


def until(condition, seconds=240):
    """Wait for a condition, however slow the machine; fail if it never holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def descendants(process):
    """List the processes that a process has started, and those that they have."""
    children = []
    with contextlib.suppress(OSError):  # it may end meanwhile
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                children += [child, *descendants(child)]
    return children


def alive(processes):
    """List those processes that still run; one that nobody has waited for yet does not."""
    return [pid for pid in processes if Path(f"/proc/{pid}/cwd").exists()]


def killed(action, *, at):
    """Do something in a process that is killed at a point of `storage.crash_point`."""
    child = os.fork()
    if not child:
        try:
            os.environ["AUGLESS_CRASH"] = at
            action()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def augless(*arguments, cwd, stdin=None, env=None):
    """Run the command to its end."""
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
    """Write two files a split, such as somebody has."""
    for split, n in (("train", train), ("valid", 5), ("test", 5)):
        for language, word in (("de", "Haus"), ("en", "house")):
            lines = "".join(f"{word} {split} {i}\n" for i in range(n))
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")


def on_a_terminal(*arguments, cwd, env):
    """Run with standard error on a terminal, and return what was written there."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "augless", *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **env},
    )
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while some := os.read(main, 1 << 16):
            written += some
    os.close(main)
    assert process.wait() == 0, written
    return written.decode()


def code_lines(source):
    """Count lines that hold code: neither blank, nor comment, nor docstring."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skip and token.string:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


# What rules, marks, special symbols and careless readers trip over.
ATOMS = [
    *"'',,..--``\"\"abstxzSZM1290éÉß\u017f½²٣५中あ가ก़्😀&<>|[]$€%/\\()?!:;«»\u2019“„…\u2013—ǅʰªⅷⅧⓐΣσς",
    *(" ", " ", " ", "  ", "\t", "\x0b", "\x0c", "\r", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"),
    *("\x00", "\x01", "\x1f", "\x7f", "\u200b", "\u200d", "\xad", "\ufeff", "\u0301", "\ud800"),
    *("Mr", "Mr.", "No", "No.", "Nr.", "z.B.", "bzw.", "Dr.", "i.e.", "U.S.", "M.", "al.", "p."),
    *("..", "...", "''", "``", ",,", ",5", "1,2", "1.2", "1'", "'2", ".'", "'.", ",'", "',", "' '"),
    *("l'", "n't", "'s", "'S", "'ll", "DOT", "MULTI", "DOTMULTI", "&amp;", "&apos;", "@-@", "@@"),
    *("<unk>", "<pad>", "<eos>", "</s>", "</w>", "▁", "￭", " unknown", "İ", "H̱", "👩\u200d💻"),
]


@dataclass(frozen=True, kw_only=True)
class Listed(corpora.Corpus):
    """Pairs given one by one."""

    languages: tuple[str, str] = ("de", "en")
    train: Annotated[tuple[tuple[str, str], ...], "pairs"]
    valid: Annotated[tuple[tuple[str, str], ...], "pairs"] = (("ein Haus .", "a house ."),)
    weights: Annotated[tuple[float, ...], "of the training pairs"] = ()

    def splits(self):
        return ("train", "valid")

    def stream(self, split, tally):
        weights = self.weights if split == "train" and self.weights else itertools.repeat(1.0)
        for (source, target), weight in zip(getattr(self, split), weights, strict=False):
            yield corpora.Pair(source, target, weight)


def trained(folder, corpus):
    """Train a model that is good for nothing, quickly."""
    values = {
        "corpus": "toy-de-en",
        "text": {"vocabulary": {"name": "subwords", "size": 300}},
        "model": {"name": "lstm", "embedding": 16, "hidden": 16},
        "training": {
            "epochs": 6,
            "batch": 8,
            "metric": "loss",
            "optimizer": {"name": "adam", "rate": 0.02, "warmup": 5},
        },
    }
    resolved = reading.resolve(Recipe, "tiny", values, {})
    recipe = replace(resolved.recipe, corpus=corpus)
    place = following.Place(prepared=folder / "data")
    run, finished = following.train(replace(resolved, recipe=recipe), place, folder=folder / "run")
    assert finished
    return run.folder
