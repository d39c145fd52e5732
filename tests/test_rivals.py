"""Methods that augment in a trial: which jobs they are, what these share, and what they cost."""

import dataclasses
import shutil
import sys

import pytest

from augless import trials
from augless.trials import graph, running
from augless.trials.layout import Layout
from augless.trials.state import State

# Whose name in the package is that of its function.
forecast = sys.modules["augless.trials.forecast"]
SMALL = {
    "corpus": {"name": "toy-de-en", "train": 40, "valid": 6, "test": 6},
    "text.vocabulary": {"name": "subwords", "size": 150},
    "model": {"name": "lstm", "embedding": 16, "hidden": 16},
    "training.epochs": 1,
    "training.metric": "loss",
}
BACK = {"augment": {"name": "back-translation", "w": 0.5}}
EDITS = {"augment": {"name": "word-edits"}}


def plan_of(methods, **given):
    return trials.Plan(
        name="p",
        title="t",
        recipes={"toy": trials.Base(recipe="toy-de-en", overrides=SMALL)},
        methods={name: trials.Method(overrides=o) for name, o in methods.items()},
        metric="perplexity",
        baseline="plain",
        seeds=(1,),
        **given,
    )


def run_of(state, method, seed=1, point=()):
    return graph.run(state.plan, "toy", method, seed, dict(point))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A trial of all three kinds, done to its end."""
    plan = plan_of({"plain": {}, "bt": BACK, "edits": EDITS})
    root = tmp_path_factory.mktemp("trial")
    trial = trials.run(plan, root=root, jobs=1)
    assert trial.complete, [entry.failure for entry in trial.entries]
    return plan, root, trial


def kinds(job):
    return [(one.kind, one.reversed) for one in graph.whole([job])]


def test_a_method_that_augments_is_several_jobs(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK, "edits": EDITS}), Layout(tmp_path), retry=True)
    assert kinds(run_of(state, "plain")) == [
        ("prepare", False),
        ("train", False),
        ("score", False),
    ]
    assert kinds(run_of(state, "edits")) == [
        ("prepare", False),
        ("augment", False),
        ("train", False),
        ("score", False),
    ]
    assert kinds(run_of(state, "bt")) == [
        ("prepare", False),
        ("prepare", True),
        ("train", True),
        ("augment", False),
        ("train", False),
        ("score", False),
    ]
    turned = graph.whole([run_of(state, "bt")])[2].resolved.recipe
    assert turned.corpus.languages == ("en", "de") and turned.augment is None


def test_values_of_w_share_the_pairs_and_the_reverse_model(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK}), Layout(tmp_path), retry=True)
    one, other = (
        graph.whole([run_of(state, "bt", point={"augment.w": w}.items())]) for w in (0.1, 0.9)
    )
    running.prepare(state)
    keys = [[state.key(job) for job in jobs] for jobs in (one, other)]
    assert keys[0][:4] == keys[1][:4] and None not in keys[0]
    assert keys[0][4] != keys[1][4]
    third = graph.whole([run_of(state, "bt", seed=2)])
    assert state.key(third[2]) != keys[0][2]  # another seed is another reverse model


def test_a_trial_with_rivals_runs_and_counts_all_that_they_took(done):
    _, _, trial = done
    cost = {method: trial.costs[method]["toy"] for method in ("plain", "bt", "edits")}
    assert cost["plain"].augment.seconds == cost["plain"].train.samples == 0
    assert cost["plain"].own.samples == 40
    assert cost["edits"].own.samples == 80 and cost["edits"].train.samples == 0
    assert cost["bt"].train.samples == 40 and cost["bt"].train.seconds > 0
    assert cost["bt"].total.seconds > cost["bt"].own.seconds
    assert cost["bt"].prepare.seconds > 0


def test_the_same_trial_again_does_nothing(done):
    plan, root, trial = done

    def logs():  # but for corpora, which every call verifies
        logged = (path for path in (root / "logs").iterdir() if "prepare" not in path.name)
        return {path: path.stat().st_mtime_ns for path in logged}

    before = logs()
    again = trials.run(plan, root=root, jobs=1)
    assert again.complete
    assert logs() == before and len(before) == 9
    assert again.costs["bt"]["toy"].train == trial.costs["bt"]["toy"].train


def test_records_of_rivals_count_where_neither_pairs_nor_reverse_model_are(done, tmp_path):
    plan, root, trial = done
    elsewhere = trials.collect(plan, root=tmp_path / "new", records=root / "records")
    assert elsewhere.complete
    # What they took is counted all the same: their runs say it.
    there, here = (of.costs["bt"]["toy"] for of in (elsewhere, trial))
    assert there.own == here.own and there.train == here.train
    assert there.augment == here.augment and here.augment.seconds > 0


def test_pairs_that_are_gone_are_made_again_by_whoever_trains_on_them(done, tmp_path):
    plan, root, trial = done
    copy = shutil.copytree(root, tmp_path / "copy")
    (entry,) = (entry for entry in trial.entries if entry.method == "edits")
    shutil.rmtree(copy / "prepared" / "augmented")
    shutil.rmtree(copy / "records" / entry.record.id)
    (run,) = (copy / "runs").glob(f"*-{entry.record.id}")
    shutil.rmtree(run)
    again = trials.run(plan, root=copy)
    assert again.complete
    (other,) = (entry for entry in again.entries if entry.method == "edits")
    assert other.record.scores == entry.record.scores


def test_the_share_of_a_run_counts_made_pairs(done):
    plan, root, _ = done
    state = running.opened(plan, root=root, records=None)
    running.prepare(state)
    assert running.samples(state, run_of(state, "plain")) == 40
    assert running.samples(state, run_of(state, "edits")) == 80


def test_a_forecast_counts_reverse_models_and_made_pairs_once(tmp_path, monkeypatch):
    def measure(job, place, folder):
        if job.kind == "augment":
            return trials.Measured(fixed=3.0 if job.method == "bt" else 1.0)
        taken = 100.0 if job.reversed else 10.0
        return trials.Measured(steps=1, training=taken, decoding={"valid": 0.0, "test": 0.0})

    monkeypatch.setattr(forecast, "measure", measure)
    plan = plan_of(
        {"plain": {}, "bt": BACK, "edits": EDITS},
        tune={"bt": {"augment.w": [0.5, 1.0]}},
        tuning_seeds=1,
    )
    expected = trials.forecast(plan, root=tmp_path)
    seconds = [(run.job.method, run.job.purpose, run.seconds) for run in expected.runs]
    assert seconds == [
        ("bt", "tune", 10.0 + 103.0),
        ("bt", "tune", 10.0),  # another weight of the same pairs
        ("plain", "final", 10.0),
        ("edits", "final", 10.0 + 1.0),
        ("bt", "final", 10.0 + 103.0),  # another seed
    ]
    assert expected.seconds == 10.0 * 5 + 2 * 103.0 + 1.0


def test_a_forecast_of_rivals_takes_real_steps_and_few_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "PATIENCE", 0.0)
    plan = plan_of({"plain": {}, "bt": BACK, "edits": EDITS})
    overrides = SMALL | {"training.epochs": 1000, "training.batch": 8}
    long = {"toy": trials.Base(recipe="toy-de-en", overrides=overrides)}
    expected = trials.forecast(dataclasses.replace(plan, recipes=long), root=tmp_path)
    assert {run.job.method: run.seconds for run in expected.runs}.keys() == {"plain", "bt", "edits"}
    assert all(run.seconds > 0 for run in expected.runs)
    assert [*expected.measured] == [
        "plain on toy",
        "bt on toy",
        "the reverse model of bt on toy",
        "edits on toy",
    ]
    for measured in expected.measured.values():
        assert 1 <= measured.steps < 5 and measured.training > 1000 * measured.step
    assert {path.name for path in tmp_path.iterdir()} == {"prepared"}


def test_a_mistake_in_an_augmenter_is_said_before_any_work(tmp_path):
    plan = plan_of({"plain": {}, "bt": {"augment": {"name": "back-tanslation"}}})
    with pytest.raises(trials.BadPlan, match=r"bt on toy: .*did you mean 'back-translation'"):
        trials.run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_rivals_join_a_trial_on_own_files(tmp_path):
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            lines = "".join(f"{language} {split} {i}\n" for i in range(30))
            (tmp_path / f"{split}.{language}").write_text(lines)
    files = {
        split: [tmp_path / f"{split}.{language}" for language in ("de", "en")]
        for split in ("train", "valid", "test")
    }
    plain = trials.own(**files, languages=("de", "en"))
    plan = trials.own(**files, languages=("de", "en"), rivals=True)
    added = {"masked-lm", "back-translation", "word-edits", "r-drop"}
    assert {*plan.methods} == {*plain.methods, *added} and added <= {*plan.tune}
    graph.check(plan)
    recipe = graph.run(plan, "files", "r-drop", 1, {}).resolved.recipe
    losses = [type(term.loss).__name__ for term in recipe.terms]
    assert losses == ["CrossEntropy", "RDrop"]


def test_reverse_corpora_of_other_sizes_are_other_corpora(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK}), Layout(tmp_path), retry=True)
    turned = graph.whole([run_of(state, "bt")])[1]
    larger = dataclasses.replace(turned, overrides=(*turned.overrides, "corpus.train=41"))
    assert turned.reversed and state.key(turned) != state.key(larger)
