"""The first modules stay light: a loss or a law in somebody's own loop loads little else."""

import json
import subprocess
import sys

import pytest

from augless import contracts, data, decoding, models, text

SCRIPT = "import sys, json, augless.{}; print(json.dumps(sorted(sys.modules)))"


def loaded(module):
    """Return what a fresh interpreter has loaded once a module is imported."""
    command = [sys.executable, "-c", SCRIPT.format(module)]
    return set(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


@pytest.mark.parametrize(
    ("module", "ours"),
    [
        ("losses", {"contracts", "knobs", "losses", "transport"}),
        ("polar", {"knobs", "polar", "ranks", "storage"}),
        ("models", {"contracts", "knobs", "models"}),
    ],
)
def test_a_loss_a_law_or_a_model_loads_neither_text_nor_corpora(module, ours):
    modules = loaded(module)
    assert {name.split(".")[1] for name in modules if name.startswith("augless.")} == ours
    assert not {"tokenizers", "sacremoses", "sacrebleu", "pydantic", "typer", "rich"} & modules


@pytest.mark.parametrize("module", ["contracts", "ranks"])
def test_contracts_load_no_torch(module):
    assert "torch" not in loaded(module)


def test_the_package_itself_is_light():
    assert not {"torch", "numpy", "scipy"} & loaded("__init__")


def test_contracts_keep_their_old_names():
    assert data.Targets is contracts.Targets and data.Batch is contracts.Batch
    assert models.Output is contracts.Output
    ids = text.PAD, text.BOS, text.EOS, text.UNK
    assert ids == (contracts.PAD, contracts.BOS, contracts.EOS, contracts.UNK)
    assert len(text.SPECIALS) == len(set(ids)) == 1 + max(ids)


def test_what_stored_runs_and_published_numbers_depend_on_stays():
    assert text.JOIN == "\x1f"  # in every stored vocabulary
    beam = decoding.Beam()
    assert (beam.size, beam.length_penalty, beam.n_best) == (5, 1.0, 1)
