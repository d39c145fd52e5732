"""The wheel, in an environment that has only what the wheel asks for."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


def test_the_wheel_holds_the_package_and_its_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"augless/{path.name}" for path in (ROOT / "src" / "augless").glob("*.py")}
    assert modules | {"augless/py.typed"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_works_in_a_clean_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--retries",
        "10",
        "--constraint",
        constraints,
        str(wheel),
    )
    output = run(python, "-I", "-W", "error", "-c", USE, cwd=tmp_path)
    assert output.startswith("weights")
