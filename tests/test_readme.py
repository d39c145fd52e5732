"""The README's code runs, and its pictures and links exist."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


CODE = [
    pytest.param(path, block, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(blocks(path))
    # What needs more than the block itself is followed by test_quickstart and test_extending.
    if path.name not in ("quickstart.md", "extend.md")
]


@pytest.mark.parametrize(("path", "block"), CODE)
def test_code_in_the_documents_runs(path, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"{path.name}", "exec"), {"__name__": "__main__"})


def test_code_in_the_documents_passes_a_type_checker(tmp_path):
    for number, parameters in enumerate(CODE):
        code = f"# mypy: allow-untyped-calls\n{parameters.values[1]}"  # `backward` has no types
        (tmp_path / f"block_{number}.py").write_text(code, encoding="utf-8")
    # Else as strictly as the package, so that what was found out of torch then need not be again.
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache")]
    files = sorted(map(str, tmp_path.glob("block_*.py")))
    done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_readme_shows_code():
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_files_are_not_broken(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    targets += re.findall(r'(?:src|srcset)="([^":]+)"', text)
    for target in targets:
        assert (path.parent / target).exists(), f"{path.name} points at {target}"


def module_at(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_the_script_draws(tmp_path, capsys):
    module_at(ROOT / "docs" / "figures.py").main(tmp_path)
    drawn = {path.name: path for path in tmp_path.iterdir()}
    shown = {path.name: path for path in (ROOT / "docs" / "figures").iterdir()}
    assert drawn.keys() == shown.keys()
    for name, path in drawn.items():
        same(path, shown[name], "figures")


def same(made, committed, target):
    """Check that a file is what a script writes; last digits may differ between machines."""
    now, then = (path.read_text(encoding="utf-8") for path in (made, committed))
    shapes = [re.sub(r"-?\d+(\.\d+)?", "0", text) for text in (now, then)]
    assert shapes[0] == shapes[1], f"{committed.name} is stale: run make {target}"
    numbers = [list(map(float, re.findall(r"-?\d+\.\d+", text))) for text in (now, then)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.01), f"{committed.name} is stale"


def test_the_demo_shows_that_a_law_stands_for_explicit_neighbours(monkeypatch):
    demo = module_at(ROOT / "examples" / "regression.py")
    monkeypatch.setattr(demo, "STEPS", 200)
    runs = {name: demo.train(objective, seed=0) for name, objective in demo.METHODS.items()}
    truth = runs[demo.AUGMENTED].predictions
    gap = {name: demo.distance(run.predictions, truth).mean() for name, run in runs.items()}
    assert gap["uniform law"] < 0.5 * gap["matched"] < 0.5 * gap["plain"]


def test_the_reference_lists_the_keys_as_they_are():
    written = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert module_at(ROOT / "docs" / "reference.py").text() == written, "run make figures"


def test_the_results_are_what_the_records_say(tmp_path):
    module_at(ROOT / "docs" / "results.py").main(tmp_path)
    made, kept = (folder / "results" for folder in (tmp_path, ROOT / "docs"))
    assert {path.name for path in made.iterdir()} == {path.name for path in kept.iterdir()}
    for path in (tmp_path / "results.md", *made.iterdir()):
        same(path, ROOT / "docs" / path.relative_to(tmp_path), "results")
