"""Checkpoints of a training that are well signed, and still not what they should be."""

import copy
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from augless import runs, training
from mutations import mutated, paths
from small_runs import fit, new_run, term, trainer

OBJECTIVES = {
    "plain": [term()],
    "shuffled": [term(weighting="shuffled", window=3), term("r-drop", scale=0.5)],
}


def model(objective="plain", **settings):
    return trainer(terms=OBJECTIVES[objective], optimizer=training.Adam(), epochs=1, **settings)


@pytest.fixture(scope="module", params=sorted(OBJECTIVES))
def saved(request):
    """What a trainer saves after a few steps, and a fresh one to load it."""
    one = model(request.param)
    parts = one.settings.batch_rows(one.pairs, one.seed, 1)
    for rows in parts[:3]:
        one.step(rows)
    return one.checkpoint(), model(request.param)


def refused(checkpoint, fresh):
    """Load a checkpoint; tell whether it was refused, in at most three lines."""
    try:
        fresh.load(checkpoint)
    except runs.BadRun as error:
        assert len(str(error).split("\n")) <= 3 and len(str(error)) < 700
        assert "\x1b" not in str(error)
        return True
    fresh.record("interval", fresh.criterion.recent, fresh.recent)
    fresh.record("epoch", fresh.criterion.epoch, fresh.epoch)
    fresh.step(fresh.settings.batch_rows(fresh.pairs, fresh.seed, 1)[0])
    return False


def test_what_was_saved_is_accepted(saved):
    checkpoint, fresh = saved
    assert not refused(checkpoint, fresh)


def test_every_missing_extra_and_mistyped_key_of_a_state_is_refused(saved):
    checkpoint, fresh = saved
    told = [path for path in paths(checkpoint.state) if isinstance(path[-1], str)]
    assert len(told) > 30
    for path in told:
        for change in ("missing", "extra", "mistyped"):
            state = json.loads(json.dumps(checkpoint.state))
            holder = state
            for key in path[:-1]:
                holder = holder[key]
            if change == "missing":
                del holder[path[-1]]
            elif change == "extra":
                holder["\x1b[31m"] = 1
            else:
                holder[path[-1]] = "x"
            broken = runs.Checkpoint(checkpoint.step, checkpoint.tensors, state)
            assert refused(broken, fresh), (path, change)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_mutated_state_is_refused_or_gone_on_with(saved, data):
    checkpoint, fresh = saved
    state = data.draw(mutated(checkpoint.state))
    if isinstance(state, dict):
        refused(runs.Checkpoint(checkpoint.step, checkpoint.tensors, state), fresh)


TENSORS = {
    "no model": lambda tensors: tensors.pop("model"),
    "a parameter too few": lambda tensors: tensors["model"].popitem(),
    "of another shape": lambda t: t["model"].update({next(iter(t["model"])): torch.ones(2)}),
    "not numbers": lambda t: next(iter(t["model"].values())).fill_(float("nan")),
    "of another type": lambda t: t["model"].update({n: v.bool() for n, v in t["model"].items()}),
    "memory of nothing": lambda t: t["optimizer"].update({"\x1b/exp_avg": torch.ones(1)}),
    "memory of another kind": lambda t: t["optimizer"].update(
        {f"{next(iter(t['model']))}/junk": torch.ones(1)}
    ),
    "memory of another shape": lambda t: t["optimizer"].update(
        {f"{next(iter(t['model']))}/exp_avg": torch.ones(1)}
    ),
    "half a memory": lambda t: t["optimizer"].pop(f"{next(iter(t['model']))}/exp_avg"),
    "memory in whole numbers": lambda t: t["optimizer"].update(
        {n: v.long() for n, v in t["optimizer"].items()}
    ),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_that_are_not_the_trainings_are_refused(saved, kind):
    checkpoint, fresh = saved
    tensors = copy.deepcopy(checkpoint.tensors)
    TENSORS[kind](tensors)
    assert refused(runs.Checkpoint(checkpoint.step, tensors, checkpoint.state), fresh)


@pytest.mark.parametrize(
    "change", [{}, {"steps": "x"}, {"best": {}}, {"best": {"step": 1, "epoch": 1, "scores": [1]}}]
)
def test_a_signed_result_that_is_malformed_is_refused_in_a_line(tmp_path, change):
    run = new_run(tmp_path / "run")
    assert run.outcome() is None
    fit(run, model())
    done = run.result
    assert run.outcome().best.epoch == 1
    run.finish(done | change if change else {})
    with pytest.raises(runs.BadRun, match=r"result\.json is not ours") as caught:
        run.outcome()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [{"epoch": "x"}, {"scores": {"\x1b": "x"}}, {"scores": None}])
def test_a_signed_best_model_that_is_malformed_is_refused_in_a_line(tmp_path, change):
    run = new_run(tmp_path / "run")
    fit(run, model())
    best = run.best()
    assert run.kept() == run.outcome().best
    run.save_best(best.tensors["model"], best.state | change)
    (run.folder / "result.json").unlink()
    with pytest.raises(runs.BadRun, match=r"state\.json of the best model is not ours") as caught:
        fit(run, model())
    assert str(caught.value).isprintable()
