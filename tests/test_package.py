"""The wheel, in an environment that has only what the wheel asks for."""

import email
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent

USE = """
import torch
from augless import losses, polar, transport
weights = polar.WEIGHTINGS["exponential"](radius=1.0)(torch.tensor([0.1, 1.0, 10.0]))
assert 1 < weights[0] < weights[1] < weights[2] < 2
print("weights", [round(w, 4) for w in weights.tolist()])
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_with_its_recipes_and_pages_and_its_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = [path for path in (source / "augless").rglob("*.*") if path.is_file()]
    ours = {str(path.relative_to(source)) for path in files if path.suffix != ".pyc"}
    assert {Path(name).suffix for name in ours} >= {".py", ".toml", ".html", ".css", ".typed"}
    assert ours <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def needed(requirements, known):
    """Add the distributions that requirements come to, those of extras left out."""
    for requirement in map(Requirement, requirements):
        if requirement.name not in known and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            known[requirement.name] = metadata.distribution(requirement.name)
            needed(known[requirement.name].requires or [], known)
    return known


def test_every_package_that_a_developer_installs_is_pinned_to_the_version_tested():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(name): version for name, version in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [one for part in ("augment", "survey", "dev") for one in extras[part]]
    asked += [one for part in ("tensorboard", "zstd", "search") for one in extras[part]]
    ours = [one for one in asked if not one.startswith("augless")]
    known = needed([*project["dependencies"], *ours], {})
    installed = {canonicalize_name(name): one.version for name, one in known.items()}
    # A build of torch for one kind of machine says so after a plus.
    assert {name: version.partition("+")[0] for name, version in installed.items()} == {
        name: pinned.get(name) for name in installed
    }


def test_the_wheel_works_in_an_environment_with_only_what_it_asks_for(wheel, tmp_path):
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".dist-info/METADATA"))
    asked = email.message_from_bytes(zipfile.ZipFile(wheel).read(name)).get_all("Requires-Dist")
    for distribution in needed(asked, {}).values():
        for top in {path.parts[0] for path in distribution.files if path.parts[0] != ".."}:
            link, target = packages / top, Path(distribution.locate_file(top))
            if target.exists() and not link.exists():
                link.symlink_to(target)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    run(python, "-m", "pip", "check")
    output = run(python, "-I", "-W", "error", "-c", USE, cwd=tmp_path)
    assert output.startswith("weights")
    assert run(python, "-I", "-m", "augless", "--version", cwd=tmp_path).startswith("augless ")
    tree = run(python, "-I", "-c", "import augless; print(augless.__file__)", cwd=tmp_path)
    assert Path(tree.strip()).is_relative_to(tmp_path)  # not the working copy
