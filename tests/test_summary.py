"""Summaries of trials: who is compared with whom, and over what luck is corrected."""

import numpy as np
import pytest

import support
from augless import metrics, trials
from augless.trials import plans, summary

SEEDS = (1, 2, 3)


def record(draw, shift, signature):
    """Make a record of bits per token of 40 sentences, of one token each."""
    rows = np.stack([10 + shift + draw.normal(size=40), np.ones(40)], 1)
    scored = metrics.score_of(metrics.METRICS["bits-per-token"](), rows, signature)
    return support.record(
        scores=support.scores(scored.value, scored.name, ["test"], signature),
        statistics={f"test/{scored.name}": rows},
    )


def summarised(shifts, *, corpora=1, signature=lambda corpus, method, seed: "s"):
    """Summarise a trial of methods that differ by their shifts; `control` is the control."""
    content = {
        "title": "t",
        "metric": "bits-per-token",
        "metrics": ["bits-per-token"],
        "control": "control",
        "seeds": [*SEEDS],
        "recipes": {f"corpus {k}": {"recipe": "toy-de-en"} for k in range(corpora)},
        "methods": {method: {} for method in shifts},
    }
    plan = plans._built("p", content, False)
    draw = np.random.default_rng(3)
    entries = [
        trials.Entry(
            corpus=corpus,
            method=method,
            seed=seed,
            record=record(draw, shift, signature(corpus, method, seed)),
            failure=None,
        )
        for corpus in plan.recipes
        for method, shift in shifts.items()
        for seed in plan.seeds
    ]
    trial = trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen={})
    return trial, trials.table(trial, trials=300)


METHODS = {"plain": 0.0, "control": 0.1, "linear": -0.4, "law": -1.0}


def contrasts(table, kind):
    """List the comparisons of a table with the baseline, or with controls."""
    cells = [cell for row in table.rows for cell in row.cells.values()]
    return [getattr(cell, kind) for cell in cells if getattr(cell, kind) is not None]


def test_seeds_scored_in_two_ways_are_not_compared_and_said_to_be():
    # Two machines: each method has the same mix of signatures over its seeds.
    _, table = summarised(METHODS, signature=lambda corpus, method, seed: f"v{seed > 1}")
    assert contrasts(table, "baseline") == contrasts(table, "control") == []
    assert all(cell.mean is not None for row in table.rows for cell in row.cells.values())
    assert any("scored in several ways" in warning for warning in table.warnings)


@pytest.mark.parametrize(
    ("mixed", "baseline", "control"),
    [
        ("linear", ["control", "law"], ["law"]),
        ("plain", [], ["linear", "law"]),
        ("control", ["linear", "law"], []),
    ],
)
def test_one_method_of_mixed_ways_spoils_its_own_comparisons_only(mixed, baseline, control):
    def signature(corpus, method, seed):
        return "other" if (corpus, method, seed) == ("corpus 0", mixed, 2) else "s"

    _, table = summarised(METHODS, corpora=2, signature=signature)
    cells = {method: table[method].cells["corpus 0"] for method in METHODS}
    assert [m for m, cell in cells.items() if cell.baseline] == baseline
    assert [m for m, cell in cells.items() if cell.control] == control
    others = {method: table[method].cells["corpus 1"] for method in METHODS}
    assert [m for m, cell in others.items() if cell.baseline] == ["control", "linear", "law"]
    assert [m for m, cell in others.items() if cell.control] == ["linear", "law"]


def test_corpora_may_be_scored_in_different_ways():
    _, table = summarised(METHODS, corpora=2, signature=lambda corpus, method, seed: corpus)
    assert len(contrasts(table, "baseline")) == 6 and len(contrasts(table, "control")) == 4
    assert table.warnings == []


@pytest.mark.parametrize(("kind", "reference"), [("baseline", "plain"), ("control", "control")])
def test_a_correction_is_over_all_methods_and_corpora_of_one_reference(kind, reference):
    trial, table = summarised(METHODS, corpora=3)

    def system(corpus, method):
        return [
            summary.score_of(entry.record, "bits-per-token")
            for entry in trial.entries
            if (entry.corpus, entry.method) == (corpus, method)
        ]

    raw = [
        metrics.compare(
            {m: system(corpus, m) for m in (reference, row.method)}, reference, trials=300
        )[row.method]
        for row in table.rows
        for corpus, cell in row.cells.items()
        if getattr(cell, kind) is not None
    ]
    found = contrasts(table, kind)
    assert len(found) == len(raw) == (9 if kind == "baseline" else 6)
    assert [one.p for one in found] == [one.p for one in raw]
    assert [one.holm_p for one in found] == metrics.holm([one.p for one in raw])
    assert [one.method_p for one in found] == metrics.holm([one.method_p for one in raw])
    assert all(
        one.smallest_detectable > alone.smallest_detectable > 0
        for one, alone in zip(found, raw, strict=True)
    )
