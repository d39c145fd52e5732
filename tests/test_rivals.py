"""Methods that augment in a trial: which jobs they are, what these share, and what they cost."""

import dataclasses
import shutil
import sys

import pytest

from augless import trials
from augless.trials import graph, running
from augless.trials.layout import Layout
from augless.trials.state import DONE, State

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
# Both sides through German: two models of another corpus, which have to be trained first.
TRIP = {
    "name": "round-trip",
    "size": 2,
    "there": {"recipe": "toy-de-en", **SMALL, "corpus.languages": ["en", "de"]},
    "back": {"recipe": "toy-de-en", **SMALL},
}
TWO = [{}, {"loss": "wasserstein", "scale": 0.1}]


def plan_of(methods, recipe="toy-de-en", **given):
    small = SMALL | {"corpus": SMALL["corpus"] | {"name": recipe}}
    return trials.Plan(
        name="p",
        title="t",
        recipes={"toy": trials.Base(recipe=recipe, overrides=small)},
        methods={name: trials.Method(overrides=o) for name, o in methods.items()},
        metric="perplexity",
        baseline="plain",
        **{"seeds": (1,)} | given,
    )


def trips(**given):
    methods = {"plain": {}, "trip": {"augment": TRIP}, "wd+trip": {"terms": TWO, "augment": TRIP}}
    return plan_of(methods, "toy-dialogue", seeds=(1, 2), **given)


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
    return [(one.kind, one.model) for one in graph.with_needs([job])]


def test_a_method_that_augments_is_several_jobs(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK, "edits": EDITS}), Layout(tmp_path), retry=True)
    assert kinds(run_of(state, "plain")) == [
        ("prepare", ""),
        ("train", ""),
        ("score", ""),
    ]
    assert kinds(run_of(state, "edits")) == [
        ("prepare", ""),
        ("augment", ""),
        ("train", ""),
        ("score", ""),
    ]
    assert kinds(run_of(state, "bt")) == [
        ("prepare", ""),
        ("prepare", "reverse model"),
        ("train", "reverse model"),
        ("augment", ""),
        ("train", ""),
        ("score", ""),
    ]
    turned = graph.with_needs([run_of(state, "bt")])[2].resolved.recipe
    assert turned.corpus.languages == ("en", "de") and turned.augment is None


def test_values_of_w_share_the_pairs_and_the_reverse_model(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK}), Layout(tmp_path), retry=True)
    one, other = (
        graph.with_needs([run_of(state, "bt", point={"augment.w": w}.items())]) for w in (0.1, 0.9)
    )
    running.prepare(state)
    keys = [[state.key(job) for job in jobs] for jobs in (one, other)]
    assert keys[0][:4] == keys[1][:4] and None not in keys[0]
    assert keys[0][4] != keys[1][4]
    third = graph.with_needs([run_of(state, "bt", seed=2)])
    assert state.key(third[2]) != keys[0][2]  # another seed is another reverse model


def test_a_trial_with_rivals_runs_and_counts_all_that_they_took(done):
    _, _, trial = done
    cost = {method: trial.costs[method]["toy"] for method in ("plain", "bt", "edits")}
    assert cost["plain"]["augment"].seconds == cost["plain"]["train"].samples == 0
    assert cost["plain"]["own"].samples == 40
    assert cost["edits"]["own"].samples == 80 and cost["edits"]["train"].samples == 0
    assert cost["bt"]["train"].samples == 40 and cost["bt"]["train"].seconds > 0
    assert cost["bt"].total.seconds > cost["bt"]["own"].seconds
    assert cost["bt"]["prepare"].seconds > 0


def test_the_same_trial_again_does_nothing(done):
    plan, root, trial = done

    def logs():  # but for corpora, which every call verifies
        logged = (path for path in (root / "logs").iterdir() if "prepare" not in path.name)
        return {path: path.stat().st_mtime_ns for path in logged}

    before = logs()
    again = trials.run(plan, root=root, jobs=1)
    assert again.complete
    assert logs() == before and len(before) == 9
    assert again.costs["bt"]["toy"]["train"] == trial.costs["bt"]["toy"]["train"]


def test_records_of_rivals_count_where_neither_pairs_nor_reverse_model_are(done, tmp_path):
    plan, root, trial = done
    elsewhere = trials.collect(plan, root=tmp_path / "new", records=root / "records")
    assert elsewhere.complete
    # What they took is counted all the same: their runs say it.
    there, here = (of.costs["bt"]["toy"] for of in (elsewhere, trial))
    assert there["own"] == here["own"] and there["train"] == here["train"]
    assert there["augment"] == here["augment"] and here["augment"].seconds > 0


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


def test_pairs_are_made_once_for_runs_that_differ_in_how_they_train(tmp_path):
    state = State(plan_of({"plain": {}, "edits": EDITS}), Layout(tmp_path), retry=True)
    points = ({"training.optimizer.rate": 0.1}, {"training.optimizer.rate": 0.2, "terms": TWO})
    one, other = (graph.with_needs([run_of(state, "edits", point=p.items())]) for p in points)
    running.prepare(state)
    keys = [[state.key(job) for job in jobs] for jobs in (one, other)]
    assert [job.kind for job in one] == ["prepare", "augment", "train", "score"]
    assert keys[0][:2] == keys[1][:2] and not {*keys[0][2:]} & {*keys[1][2:]}
    drawn_again = graph.with_needs([run_of(state, "edits", seed=2)])
    assert state.key(drawn_again[1]) != keys[0][1]


# Round trips


def test_a_round_trip_needs_two_models_which_all_seeds_and_rows_share(tmp_path):
    state = State(trips(), Layout(tmp_path), retry=True)
    jobs = {
        (method, seed): graph.with_needs([run_of(state, method, seed)])
        for method in ("trip", "wd+trip")
        for seed in (1, 2)
    }
    one = jobs["trip", 1]
    assert [(job.kind, job.model) for job in one] == [
        ("prepare", ""),
        ("prepare", "model there"),
        ("train", "model there"),
        ("prepare", "model back"),
        ("train", "model back"),
        ("augment", ""),
        ("train", ""),
        ("score", ""),
    ]
    ways = [one[at].resolved.recipe.corpus.languages for at in (2, 4)]
    assert ways == [("en", "de"), ("de", "en")]
    running.prepare(state)
    keys = {name: [state.key(job) for job in of] for name, of in jobs.items()}
    assert None not in keys["trip", 1] and len({*keys["trip", 1]}) == 8
    assert len({tuple(of[:6]) for of in keys.values()}) == 1, "each is done once for all"
    assert len({of[6] for of in keys.values()}) == 4


@pytest.fixture(scope="module")
def travelled(tmp_path_factory):
    """A trial with round trips, stopped when it trains what it needs first, and done to its end."""
    plan, root = trips(), tmp_path_factory.mktemp("trips")

    def training():
        return [*(root / "runs").glob("toy-de-en-*/run.json")]

    assert not trials.run(plan, root=root, jobs=1, stop=training).complete
    trial = trials.run(plan, root=root, jobs=1)
    assert trial.complete, [entry.failure for entry in trial.entries]
    return plan, root, trial


def test_models_of_a_round_trip_are_trained_once_and_counted_for_every_row(travelled):
    plan, root, trial = travelled
    models = sorted(path.name for path in (root / "runs").glob("toy-de-en-*"))
    assert len(models) == 2
    assert len([*(root / "prepared" / "augmented").glob("*")]) == 1
    for method in ("trip", "wd+trip"):
        cost = trial.costs[method]["toy"]
        assert cost["train"].samples == 80 and cost["train"].seconds > 0, (
            "two models, 40 samples each"
        )
        assert cost["augment"].seconds > 0 and cost["augment"].samples == 0
    assert trial.costs["trip"]["toy"]["train"] == trial.costs["wd+trip"]["toy"]["train"]
    assert trial.costs["plain"]["toy"]["train"].samples == 0
    (record,) = [e.record for e in trial.entries if e.method == "trip" and e.seed == 1]
    assert {*record.result.needed} == {"rewriting", "model there", "model back"}
    elsewhere = trials.collect(plan, root=root / "new", records=root / "records")
    assert elsewhere.complete
    assert elsewhere.costs["trip"]["toy"]["train"] == trial.costs["trip"]["toy"]["train"]


def test_a_round_trip_with_other_models_is_another_run(tmp_path):
    def name(**changes):
        methods = {"plain": {}, "trip": {"augment": TRIP | changes}}
        state = State(plan_of(methods, "toy-dialogue"), Layout(tmp_path), retry=True)
        running.prepare(state)
        return state.identifier(run_of(state, "trip"))

    longer = TRIP["there"] | {"training.epochs": 2}
    larger = TRIP["there"] | {"corpus": SMALL["corpus"] | {"train": 41}}
    again = TRIP["there"] | {"seed": 2}
    names = [name(), name(there=longer), name(there=larger), name(there=again)]
    assert len({*names}) == 4 and None not in names and name() == names[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"there": {"recipe": "toy-de-em"}}, "augment, model there: .*did you mean 'toy-de-en'"),
        ({"there": {"corpus.train": 3}}, "there is .*it must be a run, a model, or {recipe"),
        ({"back": {"recipe": "toy-de-en", "sed": 3}}, "augment, model back: there is no key 'sed'"),
        ({"back": {"recipe": "toy-de-en", **EDITS}}, "model back: the recipe toy-de-en augments"),
        ({"back": TRIP["there"]}, "the model there goes from en to de, and the model back from en"),
    ],
)
def test_a_round_trip_that_cannot_be_is_refused_before_any_work(tmp_path, changes, said):
    plan = plan_of({"plain": {}, "trip": {"augment": TRIP | changes}}, "toy-dialogue")
    with pytest.raises(trials.BadPlan, match=f"trip on toy: .*{said}"):
        trials.run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_table2_takes_round_trips_at_both_scales():
    for small, corpus in ((False, "iwslt14"), (True, "toy-de-en")):
        plan = trials.Plan.load("table2", small=small)
        assert {"CE+BT", "WD+BT"} <= {*plan.methods} and "CE+BT" not in plan.published_only
        for method in ("CE+BT", "WD+BT"):
            jobs = graph.with_needs([graph.run(plan, "Reddit", method, 1, {})])
            recipes = [job.resolved for job in jobs if job.model and job.kind == "train"]
            assert [one.values["corpus.name"] for one in recipes] == [corpus, corpus]
            languages = [one.recipe.corpus.languages for one in recipes]
            assert languages == [("en", "de"), ("de", "en")]
            assert (plan.published(method, "Reddit") is None) == small


# Forecasts


def test_a_forecast_lists_reverse_models_and_counts_made_pairs_once(tmp_path, monkeypatch):
    def measure(job, place, folder):
        if job.kind == "augment":
            return trials.Measured(fixed=3.0 if job.method == "bt" else 1.0)
        taken = 100.0 if job.model else 10.0
        return trials.Measured(steps=1, training=taken, decoding={"valid": 0.0, "test": 0.0})

    monkeypatch.setattr(forecast, "measure", measure)
    plan = plan_of(
        {"plain": {}, "bt": BACK, "edits": EDITS},
        tune={"bt": {"augment.w": [0.5, 1.0]}},
        tuning_seeds=1,
    )
    expected = trials.forecast(plan, root=tmp_path)
    seconds = [
        (run.job.method, run.job.model or run.job.purpose, run.seconds) for run in expected.runs
    ]
    assert seconds == [
        ("bt", "reverse model", 100.0),
        ("bt", "tune", 10.0 + 3.0),
        ("bt", "tune", 10.0),  # another weight of the same pairs
        ("plain", "final", 10.0),
        ("edits", "final", 10.0 + 1.0),
        ("bt", "reverse model", 100.0),  # another seed
        ("bt", "final", 10.0 + 3.0),
    ]
    with monkeypatch.context() as patched:
        patched.setitem(DONE, "train", lambda state, job: bool(job.model))
        again = trials.forecast(plan, root=tmp_path)
    listed = [(run.job.seed, run.note) for run in again.runs if run.job.model]
    assert listed == [(0, "done"), (1, "done")], "once for every seed"
    trip = trials.forecast(trips(), root=tmp_path)
    needs = [run.job.model for run in trip.runs if run.job.model]
    assert needs == ["model there", "model back"], "once for all seeds and rows"
    assert expected.seconds == 10.0 * 5 + 2 * 103.0 + 1.0


def test_a_forecast_of_rivals_takes_real_steps_and_few_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "PATIENCE", 0.0)
    plan = plan_of({"plain": {}, "bt": BACK, "edits": EDITS})
    overrides = SMALL | {"training.epochs": 1000, "training.batch": 8}
    long = {"toy": trials.Base(recipe="toy-de-en", overrides=overrides)}
    expected = trials.forecast(dataclasses.replace(plan, recipes=long), root=tmp_path)
    listed = [(run.job.method, run.job.model) for run in expected.runs]
    assert listed == [("plain", ""), ("bt", "reverse model"), ("bt", ""), ("edits", "")]
    assert all(run.seconds > 0 for run in expected.runs)
    assert [*expected.measured] == [
        "plain on toy",
        "the reverse model of bt on toy",
        "bt on toy",
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
    made = {"masked-lm", "back-translation", "word-edits"}
    added = made | {"r-drop", "word-dropout", "focal"}
    assert {*plan.methods} == {*plain.methods, *added} and added <= {*plan.tune}
    graph.check(plan)

    def recipe(method):
        point = plan.points(plan.source(method))[-1]
        return graph.run(plan, "files", method, 1, point).resolved.recipe

    for method in made:
        assert recipe(method).augment.name == method
    assert [type(t.loss).__name__ for t in recipe("r-drop").terms] == ["CrossEntropy", "RDrop"]
    assert all(recipe(method).terms[0].loss.smoothing == 0.2 for method in plan.methods)
    assert recipe("word-dropout").training.word_dropout == 0.2
    (term,) = recipe("focal").terms
    assert type(term.weighting).__name__ == "Focal" and term.weighting.gamma == 2.0
    assert term.weighed_by == "loss-per-token", "a whole sentence's probability is 0 to the focal"
    quick = trials.own(**files, languages=("de", "en"), rivals=True, quick=True)
    rates = [space["training.optimizer.rate"] for space in quick.tune.values()]
    assert len(rates) == 9 and all(one == rates[0] and len(one) == quick.budget for one in rates)
    assert {len(quick.points(method)) for method in quick.tune} == {2}


def test_dialogue_takes_a_round_trip_in_place_of_back_translation(tmp_path):
    for split in ("train", "valid", "test"):
        for side in ("query", "response"):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{side} {i}\n" for i in range(30)))
    sides = ("query", "response")
    files = {
        split: [tmp_path / f"{split}.{side}" for side in sides]
        for split in ("train", "valid", "test")
    }
    models = (str(tmp_path), "Helsinki/de-en")
    plan = trials.own(**files, languages=sides, rivals=True, round_trip=models)
    assert "round-trip" in plan.tune and "back-translation" not in plan.methods
    for quick in (False, True):
        own = {"languages": sides, "rivals": True, "quick": quick}
        other = trials.own(**files, **own).tune["back-translation"]
        assert trials.own(**files, **own, round_trip=models).tune["round-trip"] == other
    method = plan.methods["round-trip"].overrides
    assert method["augment.there"] == str(tmp_path) and method["augment.back"] == models[1]
    without = trials.own(**files, languages=sides, rivals=True)
    assert "back-translation" in without.tune and "round-trip" not in without.methods
    with pytest.raises(trials.BadPlan, match="give --rivals"):
        trials.own(**files, languages=sides, round_trip=models)
    with pytest.raises(trials.BadPlan, match="they are de and en"):
        trials.own(**files, languages=("de", "en"), rivals=True, round_trip=models)
    assert trials.monolingual(sides) and trials.monolingual(("source", "target"))
    assert not trials.monolingual(("de", "en"))


def test_reverse_corpora_of_other_sizes_are_other_corpora(tmp_path):
    state = State(plan_of({"plain": {}, "bt": BACK}), Layout(tmp_path), retry=True)
    turned = graph.with_needs([run_of(state, "bt")])[1]
    larger = dataclasses.replace(turned, overrides=(*turned.overrides, "corpus.train=41"))
    assert turned.model and state.key(turned) != state.key(larger)
