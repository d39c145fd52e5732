"""docs/quickstart.md, followed line by line on files of our own."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from augless import corpora, metrics

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "quickstart.md").read_text("utf-8")


def test_the_quickstart_does_what_it_says(tmp_path):
    (tmp_path / "mine").mkdir()
    corpus = corpora.CORPORA["toy-de-en"](train=1200, valid=50, test=60)
    for split in ("train", "valid", "test"):
        pairs = list(corpus.pairs(split))
        for language, side in (("de", "source"), ("en", "target")):
            lines = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            (tmp_path / "mine" / f"{split}.{language}").write_text(lines, "utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.S)
    assert [kind for kind, _ in blocks] == ["toml", "bash", "bash", "bash", "python"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    printed = []
    for kind, block in blocks:
        if kind == "toml":
            # A smaller model than the one that is suggested, trained for a shorter time.
            small = 'epochs = 8\n[model]\nname = "lstm"\nembedding = 96\nhidden = 96\n'
            (tmp_path / "mine.toml").write_text(f"{block}[training]\n{small}", "utf-8")
            continue
        command = ["bash", "-ec", block] if kind == "bash" else [sys.executable, "-c", block]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert re.search(r"^train +1,200 ", printed[0], flags=re.M)
    assert printed[1].count("best model: epoch") == 2
    assert re.search(r"^law .*(significant|claimed)", printed[2], flags=re.M)
    # What comes out are sentences, not repetitions of a word, and they have to do with the input.
    last = ast.literal_eval(printed[3])
    assert len(last) == 2 and all(len({*line.split()}) > 1 for line in last)
    references = (tmp_path / "mine" / "test.en").read_text("utf-8").splitlines()
    for name in ("plain.en", "law.en"):
        written = (tmp_path / name).read_text("utf-8").splitlines()
        assert metrics.degenerate(written, references) is None
        assert metrics.unrelated(written, references) is None
        assert not any(re.search(r"\b(\w+)( \1){3}\b", line) for line in (*written, *last))
        assert metrics.score("bleu-lowercased", written, references).value > 10
