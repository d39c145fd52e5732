"""The README's map, the order of imports and the size of modules, held by machine."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

from support import code_lines

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "augless"
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.split("\n## Map\n")[1].split("\n## ")[0]
MAP = re.findall(r"^\| `(\w+)` \| (.+) \|$", SECTION, flags=re.MULTILINE)
ORDER = [name for name, _ in MAP]


def files_of(module):
    single = PACKAGE / f"{module}.py"
    return [single] if single.exists() else sorted((PACKAGE / module).glob("**/*.py"))


def modules():
    names = {path.stem for path in PACKAGE.glob("*.py")}
    names |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return names - {"__init__", "__main__"}


def imported(tree):
    """Yield the modules of the package that a syntax tree imports, wherever it does."""
    for node in ast.walk(tree):
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        whole = isinstance(node, ast.Import) and any(n.name == "augless" for n in node.names)
        assert not relative and not whole, f"line {node.lineno}: write from augless import module"
        if isinstance(node, ast.ImportFrom) and node.module == "augless":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("augless."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (n.name.split(".")[1] for n in node.names if n.name.startswith("augless."))


def named(path):
    """Return the full name of a file's module."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("augless", *parts)).removesuffix(".__init__")


FILES = {named(path): path for path in PACKAGE.glob("**/*.py")}


def file_imports(name):
    """Return which of our files a file imports when it is loaded, and which inside functions."""
    early, late = set(), set()

    def look(node, here):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            inner = late if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else here
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("augless"):
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    here.add(whole if whole in FILES else child.module)
            look(child, inner)

    look(ast.parse(FILES[name].read_text(encoding="utf-8")), early)
    return early, late


def test_no_import_inside_a_function_breaks_a_cycle():
    # Such imports keep torch out of --help; they could all stand at the top of their files.
    graph = {name: file_imports(name) for name in FILES}

    def reached(name):
        seen, todo = set(), [name]
        while todo:
            fresh = graph[todo.pop()][0] - seen
            seen |= fresh
            todo += fresh
        return seen

    cycles = [
        f"{name} -> {late}"
        for name, (_, lates) in graph.items()
        for late in lates
        if name == late or name in reached(late)
    ]
    assert not cycles
    assert not [name for name in FILES if name in reached(name)]


def test_the_map_lists_every_module():
    assert sorted(ORDER) == sorted(modules())


@pytest.mark.parametrize(("name", "line"), MAP)
def test_the_map_says_what_the_module_says(name, line):
    tree = ast.parse(files_of(name)[0].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree).split("\n")[0] == line


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_up_the_map_only(name):
    for path in files_of(name):
        above = {*ORDER[: ORDER.index(name)], name}
        assert set(imported(ast.parse(path.read_text(encoding="utf-8")))) <= above, path


@pytest.mark.parametrize("name", ORDER)
def test_no_file_outgrows_400_lines_of_code(name):
    for path in files_of(name):
        assert code_lines(path.read_text(encoding="utf-8")) <= 400, path


def long_functions(source, most=60):
    """Yield the functions of a module that hold more lines of code, signatures included."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            if code_lines(own) > most:
                yield node.name


@pytest.mark.parametrize("folder", ["src", "bench", "soak", "docs", "examples"])
def test_no_function_outgrows_60_lines_of_code(folder):
    for path in sorted((ROOT / folder).glob("**/*.py")):
        assert not [*long_functions(path.read_text(encoding="utf-8"))], path


def test_a_long_function_is_seen():
    body = "    x = 1\n" * 59
    assert not [*long_functions(f"class A:\n  def short(self):\n{body}")]
    assert [*long_functions(f"def long():\n    {chr(34) * 3}Doc.{chr(34) * 3}\n{body}    x = 2\n")]


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*.py")), ids=lambda path: path.name)
def test_no_test_module_imports_another(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    assert not [name for name in names if name.startswith("test_")]
