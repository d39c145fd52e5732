"""The README's code runs, and its pictures and links exist."""

import re
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
]


@pytest.mark.parametrize(("path", "block"), CODE)
def test_code_in_the_documents_runs(path, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"{path.name}", "exec"), {"__name__": "__main__"})


def test_the_readme_shows_code():
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_files_are_not_broken(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    targets += re.findall(r'(?:src|srcset)="([^":]+)"', text)
    for target in targets:
        assert (path.parent / target).exists(), f"{path.name} points at {target}"
