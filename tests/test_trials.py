"""Trials: the same table whatever happens in between, and test data kept for the end."""

import dataclasses
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from augless import corpora, errors, metrics, runs, storage, trials
from augless.recipes import following, reading
from augless.trials import graph, layout, plans, records, running, spelling, summary, work
from augless.trials.layout import Layout
from augless.trials.state import State
from support import alive, descendants, record, until
from support import scores as scores_of

TINY = """
title = "tiny"
recipes = ["toy-de-en"]
seeds = [1, 2]
control = "matched"
metric = "perplexity"
metrics = ["bleu", "bleu-tokenised"]
[overrides]
corpus = {name = "toy-de-en", train = 48, valid = 8, test = 10}
text.vocabulary.size = 150
model = {name = "lstm", embedding = 8, hidden = 8}
training = {epochs = 2, batch = 16, log_every = 1, save_every = 2}
search = {name = "beam", size = 2, max_ratio = 1.0}
validation = {name = "greedy", max_ratio = 1.0}
[methods.plain]
[methods.matched]
matches = "exponential"
[methods.exponential]
terms.0.weighting = {name = "exponential"}
[tune.exponential]
terms.0.weighting.radius = [0.5, 2.0]
"""
BROKEN = """
[methods.broken]
training.optimizer = {name = "sgd", rate = 1e38}
training.clip = 0.0
"""


def load(folder, content=TINY):
    path = folder / "tiny.toml"
    path.write_text(content)
    return trials.Plan.load(str(path))


def values(trial):
    """Return all that may not depend on how a trial went."""
    known = {}
    for entry in trial.entries:
        if entry.record is not None:
            tables = {k: v.tobytes() for k, v in entry.record.statistics.items()}
            key = (entry.corpus, entry.method, entry.seed)
            known[key] = (entry.record.id, entry.record.scores, tables, entry.record.hypotheses)
    return known


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A trial that nobody disturbs, one run at a time; one of its methods cannot work."""
    root = tmp_path_factory.mktemp("reference")
    statuses = []
    trial = trials.run(load(root, TINY + BROKEN), root=root, on_status=statuses.append)
    return root, trial, statuses


def test_a_trial_fills_the_table_and_a_failed_run_stops_no_other(reference):
    _, trial, statuses = reference
    failures = {(e.method, e.seed): e.failure for e in trial.entries if e.record is None}
    assert set(failures) == {("broken", 1), ("broken", 2)}
    assert {failure.code for failure in failures.values()} == {7}
    table = trials.summarise(trial, resamples=200)
    assert [*table.rows] == ["plain", "matched", "exponential", "broken"]
    cell = table["exponential"].results["toy-de-en"]
    assert len(cell.values) == 2 and cell.deviation is not None
    assert cell.mean == pytest.approx(sum(cell.values.values()) / 2)
    assert cell.baseline is not None and cell.control is not None
    assert cell.control_name == "matched"
    assert table["matched"].results["toy-de-en"].control is None
    assert table["broken"].results["toy-de-en"].failures.keys() == {1, 2}
    assert table["plain"].results["toy-de-en"].samples == 96
    # Six batches teach no model to speak, which is said before all of them have failed to.
    alarm = statuses[-1].alarm
    assert alarm.startswith(
        "plain on toy-de-en, seed 1: its outputs tell nothing: 10 of 10 outputs"
    )
    assert any(status.alarm == alarm for status in statuses if status.done < 10)
    plain = next(entry.record for entry in trial.entries if entry.method == "plain")
    assert plain.fault == records.fault_of(plain, "bleu") and plain.fault in alarm
    # What leads is what tuning would choose, not what has the best score.
    (_, least), *_ = statuses[-1].best.values()
    losses = [e.record.table("valid", "nats").mean() for e in trial.entries if e.record]
    tried = [one.scores for of in trial.chosen.values() for one in of["toy-de-en"].tried]
    assert least == pytest.approx(min(itertools.chain(losses, *tried)))
    assert statuses[-1].failed == 2
    assert statuses[-1].done + statuses[-1].failed == statuses[-1].total == 12


def test_no_time_is_said_before_a_corpus_is_prepared(tmp_path):
    state = running.opened(load(tmp_path, TINY), root=tmp_path / "root", records=None)
    assert running._Scheduler(state, None, 1, None).status().eta is None


def test_what_is_left_shrinks_between_the_reports_of_long_epochs_and_grows_when_one_is_overdue():
    pace = running.Pace(began=0.0)
    assert pace.left(0, 400, 100, now=90.0) is None
    assert pace.left(100, 300, 100, now=100.0) == pytest.approx(300)
    assert pace.left(100, 300, 100, now=150.0) == pytest.approx(250)
    assert pace.left(100, 300, 100, now=200.0) == pytest.approx(200)
    assert pace.left(100, 300, 100, now=300.0) == pytest.approx(300)
    assert pace.left(200, 200, 100, now=300.0) == pytest.approx(300)
    assert pace.left(400, 0, 0, now=700.0) == 0


def test_hyper_parameters_are_chosen_on_the_validation_set_and_the_test_set_is_decoded_once(
    reference,
):
    root, trial, _ = reference
    choice = trial.chosen["exponential"]["toy-de-en"]
    scores = [attempt.score for attempt in choice.tried]
    assert len(scores) == 2 and choice.best.score == min(scores) and choice.by == "sentence-loss"
    assert choice.best == choice.tried[scores.index(min(scores))]
    logs = [path.read_text() for path in (root / "logs").glob("score-*.log")]
    final = [e for e in trial.entries if e.record is not None]
    assert sum(log.count("decoding test") for log in logs) == len(final) == 6
    tried = [trials.Record.load(path) for path in (root / "records").iterdir()]
    seeds = sorted(r.seed for r in tried if r.scores.keys() == {"valid"})
    assert seeds == sorted([*choice.seeds] * 2) and len(choice.seeds) == 2
    # The best is also the luckiest.
    assert not {*choice.seeds} & {entry.seed for entry in final}
    nats = {
        (r.recipe["terms.0.weighting.radius"], r.seed): r.statistics["valid/nats"].mean()
        for r in tried
        if r.seed in choice.seeds
    }
    for attempt in choice.tried:
        (radius,) = attempt.values.values()
        assert attempt.scores == tuple(nats[radius, seed] for seed in choice.seeds)
        assert attempt.score == pytest.approx(sum(attempt.scores) / 2)
    assert all(attempt.seconds > 0 for attempt in choice.tried)
    radii = {e.record.recipe["terms.0.weighting.of.radius"] for e in final if e.method == "matched"}
    assert radii == {*choice.best.values.values()}


def test_records_alone_make_the_same_table_on_another_machine(reference, tmp_path):
    root, trial, _ = reference
    shutil.copytree(root / "records", tmp_path / "committed")
    plan = load(tmp_path)
    again = trials.run(plan, root=tmp_path / "new", records=tmp_path / "committed")
    assert again.complete and not (tmp_path / "new" / "runs").exists()
    one, other = values(trial), values(again)
    assert {k: v[:3] for k, v in one.items()} == {k: v[:3] for k, v in other.items()}
    assert again.chosen == trial.chosen
    shutil.rmtree(tmp_path / "committed")  # what was used of it is kept
    assert values(trials.collect(plan, root=tmp_path / "new")) == other


def test_a_finished_run_keeps_its_best_model_alone(reference):
    root, trial, _ = reference
    for entry in trial.entries:
        if entry.record is not None:
            (folder,) = (root / "runs").glob(f"*-{entry.record.id}")
            assert list(folder.glob("best-*")) and not list(folder.glob("checkpoint-*"))


def test_a_report_knows_what_failed_and_a_new_session_tries_it_again(reference, tmp_path):
    root, trial, _ = reference
    copy = shutil.copytree(root, tmp_path / "copy")
    again = trials.collect(trial.plan, root=copy)
    assert {(e.method, e.seed): e.failure for e in again.entries} == {
        (e.method, e.seed): e.failure for e in trial.entries
    }
    for path in (copy / "failures").iterdir():
        path.write_text('{"code": 1, "why": "of old"}')
    assert {entry.failure for entry in trials.collect(trial.plan, root=copy).entries} == {
        None,
        trials.Failure(1, "of old"),
    }
    retried = trials.run(trial.plan, root=copy)
    assert {entry.failure.code for entry in retried.entries if entry.record is None} == {7}


def test_a_failed_combination_is_passed_over_by_a_report_too(tmp_path):
    content = TINY.replace("training = {epochs = 2,", "training = {clip = 0.0, epochs = 2,")
    content = content.replace("radius = [0.5, 2.0]", "radius = [0.5]")
    content = content.replace('[methods.matched]\nmatches = "exponential"\n', "")
    content = content.replace('control = "matched"\n', "")
    content += 'training.optimizer = [{name = "sgd", rate = 1e38}, {name = "sgd", rate = 0.1}]\n'
    plan = load(tmp_path, content.replace("seeds = [1, 2]", "seeds = [1]"))
    trial = trials.run(plan, root=tmp_path / "root")
    assert trial.complete
    tried = trial.chosen["exponential"]["toy-de-en"].tried
    assert tried[0].failure.code == 7 and tried[1].failure is None
    again = trials.collect(plan, root=tmp_path / "root")
    assert again.complete and again.chosen == trial.chosen


PUBLIC = """
title = "Public"
recipes = {"De-En" = {recipe = "multi30k", corpus.path = "FOLDER"}}
seeds = [1]
metric = "perplexity"
[overrides]
text.vocabulary.size = 60
model = {name = "lstm", embedding = 8, hidden = 8}
training = {epochs = 1, batch = 16}
search = {name = "greedy", max_ratio = 1.0}
validation = {name = "greedy", max_ratio = 1.0}
[methods.plain]
"""


def test_records_stand_in_for_a_public_corpus_that_is_not_there_and_only_for_such(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for split, text in (("train", "ab cd"), ("val", "cd"), ("test", "ab")):
        for side in ("de", "en"):
            (folder / f"{split}.{side}").write_text(f"{text}\n" * 20)
    plan = load(tmp_path, PUBLIC.replace("FOLDER", str(folder)))
    root = tmp_path / "root"
    trial = trials.run(plan, root=root, command="augless trial tiny.toml")
    assert trial.complete and trial.notes == () and trial.command == "augless trial tiny.toml"
    (root / "command.txt").unlink()
    assert trials.collect(plan, root=root).command == ""
    (root / "plan.toml").write_text(f"# augless trial old.toml\n{plan.as_toml()}")
    assert trials.collect(plan, root=root).command == "augless trial old.toml", "as once kept"

    inputs = {file.name: file.sha256 for file in trial.entries[0].record.inputs}
    content = (folder / "val.de").read_bytes()
    assert inputs["val.de"] == hashlib.sha256(content).hexdigest() and len(inputs) == 6

    away = shutil.move(folder, tmp_path / "away")
    again = trials.collect(plan, root=root)
    assert again.complete and values(again) == values(trial)
    assert again.notes == ("De-En is not on this machine: what is said of it is from records.",)
    assert (again.sources, again.references) == (trial.sources, trial.references)
    other = load(tmp_path, PUBLIC.replace("FOLDER", str(folder)).replace("[1]", "[2]"))
    with pytest.raises(corpora.BadData, match="no such file"):
        trials.collect(other, root=root)

    shutil.move(away, folder)
    (folder / "train.de.gz").write_bytes(b"")  # which of the two is meant?
    with pytest.raises(corpora.BadData, match="both there"):
        trials.collect(plan, root=root)
    (folder / "train.de.gz").unlink()
    (folder / "train.de").write_text("ab\n" * 19)  # there, but wrong
    with pytest.raises(corpora.BadData, match=r"train\.de"):
        trials.collect(plan, root=root)


def run_of(state, corpus, method, seed, point=()):
    """Return the job that scores a run."""
    return graph.run(state.plan, corpus, method, seed, dict(point))


def test_records_of_two_corpora_are_not_mixed(tmp_path):
    content = PUBLIC.replace("FOLDER", str(tmp_path / "nowhere")).replace("[1]", "[1, 2]")
    state = State(load(tmp_path, content), Layout(tmp_path), retry=False)
    jobs = [run_of(state, "De-En", "plain", seed) for seed in (1, 2)]
    for number, job in enumerate(jobs):
        resolved = job.resolved
        name = following.run_name(resolved, f"corpus {number}")
        made = record(
            id=name,
            corpus=f"corpus {number}",
            scores=scores_of(),
            statistics={},
            recipe=graph.settled(resolved),
        )
        made.save(tmp_path / "records" / name)
    state.recover_missing_corpora()
    left = [state.record(job) for job in jobs]
    assert [one is None for one in left].count(True) == 1, "of one of the two corpora only"


def test_records_of_other_languages_of_a_corpus_do_not_stand_in(tmp_path):
    recipe = f'{{recipe = "multi30k", corpus.path = "{tmp_path / "nowhere"}"'
    both = f"{{De-En = {recipe}}}, Fr-En = {recipe}, corpus.languages = ['fr', 'en']}}}}"
    content = re.sub("recipes = .*", f"recipes = {both}", PUBLIC)
    state = State(load(tmp_path, content), Layout(tmp_path), retry=False)
    german, french = (run_of(state, corpus, "plain", 1) for corpus in ("De-En", "Fr-En"))
    name = following.run_name(french.resolved, "corpus")
    assert name == following.run_name(german.resolved, "corpus")
    settled = graph.settled(french.resolved)
    made = record(id=name, corpus="corpus", scores=scores_of(), statistics={}, recipe=settled)
    made.save(tmp_path / "records" / name)
    state.recover_missing_corpora()
    assert (state.record(german), state.record(french).id) == (None, name)


def test_a_folder_of_files_that_is_gone_is_remembered_for_the_reverse_model_too(tmp_path):
    files = f'{{name = "files", path = "{tmp_path / "nowhere"}", languages = ["de", "en"]}}'
    content = PUBLIC.replace('{recipe = "multi30k", corpus.path = "FOLDER"}', '"files"')
    content = content.replace("[overrides]", f"[overrides]\ncorpus = {files}")
    content += '[methods.bt]\naugment.name = "back-translation"\n'
    plan, layout = load(tmp_path, content), Layout(tmp_path)
    jobs = [*graph.with_needs(State(plan, layout, retry=False).jobs())]
    sources = {job.source for job in jobs if job.kind == "prepare"}
    assert len(sources) == 2, "one of them has its sides swapped"
    known = {s: {"fingerprint": str(i), "seconds": 1.0} for i, s in enumerate(sorted(sources))}
    layout.corpora.write_text(json.dumps(known))
    state = State(plan, layout, retry=False)
    state.recover_missing_corpora()
    assert {*state.corpora} == sources
    assert state.cost("De-En", "bt")["prepare"].seconds == 2.0


def victim_of(folder):
    """Make a folder with files that nobody may touch, and return how to see that nobody did."""
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    (folder / "record.json").write_text("not ours")
    return lambda: {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["x/../../victim", "../victim", "VICTIM", "..", "a" * 11 + "/"])
def test_a_record_whose_identifier_is_a_path_is_refused_and_deletes_nothing(tmp_path, name):
    seen = victim_of(tmp_path / "victim")
    before = seen()
    plan = load(tmp_path, PUBLIC.replace("FOLDER", str(tmp_path / "nowhere")))
    root, shared = tmp_path / "trials" / "root", tmp_path / "shared"
    (root / "records" / "x").mkdir(parents=True)
    state = State(plan, Layout(root), retry=False)
    recipe = graph.settled(run_of(state, "De-En", "plain", 1).resolved)
    hostile = name.replace("VICTIM", str(tmp_path / "victim"))
    record(id=hostile, corpus="c", scores=scores_of(), recipe=recipe).save(shared / "one")
    with pytest.raises(records.BadRecord, match="no identifier"):
        records.Record.load(shared / "one")
    with pytest.raises(corpora.BadData):  # the corpus is absent, and no record stands in
        trials.run(plan, root=root, records=shared)
    assert seen() == before


@pytest.mark.parametrize("place", ["records/aaaaaaaaaaaa", "records", "hypotheses", "runs"])
def test_links_in_a_trial_folder_from_elsewhere_are_not_followed(tmp_path, place):
    seen = victim_of(tmp_path / "victim")
    before = seen()
    root = tmp_path / "root"
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(tmp_path / "victim")
    made = record(id="a" * 12, corpus="c", scores=scores_of(), recipe={})
    places = Layout(root)
    with pytest.raises(storage.Linked, match="is a link"):
        made.save(places.record("a" * 12))
        records.save_hypotheses(places.hypotheses("a" * 12), {"test": ["x"]})
        places.run("name-" + "a" * 12)
    assert seen() == before


def test_saving_a_record_again_keeps_files_that_are_not_ours(tmp_path):
    made = record(id="a" * 12, corpus="c", scores=scores_of(), recipe={})
    made.save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    again = replace(made, statistics={"test/nats": np.arange(3.0)})
    again.save(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 3 and {"notes.txt", "record.json"} < {*left}
    assert (records.Record.load(tmp_path).statistics["test/nats"] == np.arange(3.0)).all()


def test_a_record_older_than_a_knob_counts_where_the_knob_has_its_default(tmp_path):
    plan = load(tmp_path, PUBLIC.replace("FOLDER", str(tmp_path / "nowhere")))
    state = State(plan, Layout(tmp_path), retry=False)
    resolved = run_of(state, "De-En", "plain", 1).resolved
    recipe = graph.settled(resolved)
    del recipe["training.word_dropout"]
    name = following.run_name(resolved, "c")
    made = record(id=name, corpus="c", scores=scores_of(), statistics={}, recipe=recipe)
    made.save(tmp_path / "records" / name)
    assert trials.collect(plan, root=tmp_path).complete
    for change in ("training.epochs=7", "training.word_dropout=0.1", "text.lowercase=false"):
        other = trials.Plan.load(str(tmp_path / "tiny.toml"), [f"overrides.{change}"])
        with pytest.raises(corpora.BadData, match="no such file"):
            trials.collect(other, root=tmp_path)


def test_own_files_that_are_gone_are_known_by_what_a_trial_remembers(tmp_path):
    for name in ("train", "valid", "test"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text("ab cd\n" * 20)
    splits = {s: [tmp_path / f"{s}.{x}" for x in ("de", "en")] for s in ("train", "valid", "test")}
    changes = spelling.written(tomllib.loads(PUBLIC)["overrides"])
    plan = replace(
        trials.own(**splits, changes=[*changes, "seeds=[1]"]),
        methods={"plain": trials.Method()},
        tune={},
        budget=0,
        control=None,
        primary=None,
    )
    root = tmp_path / "root"
    whole = trials.run(plan, root=root)
    assert whole.complete
    (command,) = {entry.record.command for entry in whole.entries}
    assert command.endswith(" --threads 1 --device cpu")  # else other bits
    (tmp_path / "train.de").rename(tmp_path / "elsewhere")
    (tmp_path / "train.en").unlink()
    again = trials.collect(plan, root=root)
    assert values(again) == values(whole)
    assert (again.sources, again.references) == (whole.sources, whole.references)
    assert again.notes == ("files is not on this machine: what is said of it is from records.",)
    # Of other files nothing is known, whatever they are called.
    other = load(tmp_path, plan.as_toml().replace("train.de", "other.de"))
    with pytest.raises(corpora.BadData, match="no such file"):
        trials.collect(other, root=root)
    for damaged in ("[]", "{", '{"x": 1}'):
        (root / "corpora.json").write_text(damaged)
        with pytest.raises(corpora.BadData, match="no such file"):
            trials.collect(plan, root=root)


def test_published_numbers_stay_those_of_the_plans_own_metric():
    plan = trials.Plan.load("table1", ["metric=chrf"])
    assert plan.metric == "chrf" and plan.published("CE", "De-En") is None
    assert plan.methods["CE"].published["De-En"] == {"bleu-tokenised": 27.98}
    assert plan.methods["CE+BT"].published["De-En"] == {"bleu-tokenised": 29.35}


def test_two_trials_do_not_share_a_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "PATIENCE", 0.1)
    plan, root = load(tmp_path), tmp_path / "root"
    with Layout(root).alone():
        with pytest.raises(errors.Busy, match="in use by another trial"):
            trials.run(plan, root=root)
        assert root.exists()
    assert not root.exists()  # as nothing came of it
    assert not trials.run(plan, root=root, max_minutes=0).complete


def test_a_folder_that_cannot_be_held_is_used_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(storage.fcntl, "flock", refuse)
    with Layout(tmp_path / "root").alone():
        (tmp_path / "root" / "file").touch()
    assert (tmp_path / "root" / "file").exists()


def test_a_stop_while_the_weighting_itself_is_chosen_is_no_mistake(tmp_path):
    tuned = TINY.replace('terms.0.weighting = {name = "exponential"}', "").replace(
        "terms.0.weighting.radius = [0.5, 2.0]", 'terms.0.weighting = ["exponential", "uniform"]'
    )
    trial = trials.run(load(tmp_path, tuned), root=tmp_path / "root", max_minutes=0)
    assert not trial.complete and all(entry.failure is None for entry in trial.entries)


@pytest.mark.parametrize("name", trials.shipped())
@pytest.mark.parametrize("small", [False, True])
def test_a_plan_is_read_back_as_it_was_written(name, small, tmp_path):
    plan = trials.Plan.load(name, small=small)
    (tmp_path / "other.toml").write_text(f"# a command\n{plan.as_toml()}")
    assert trials.Plan.load(str(tmp_path / "other.toml")) == plan
    # As older versions wrote it.
    older = plan.as_toml().replace(f'scale = "{plan.scale}"', f"small = {str(small).lower()}")
    (tmp_path / "other.toml").write_text(older)
    assert trials.Plan.load(str(tmp_path / "other.toml")) == plan


def test_a_written_plan_has_sections_with_comments_and_no_long_lines():
    for name in (*trials.shipped(), plans.OWN):
        lines = trials.Plan.load(name, small=name != "figure3").as_toml().split("\n")
        assert max(map(len, lines)) < 200, name
        assert not lines[0].startswith("#"), "where older plans have their command"
        groups = [line.strip("[]").split(".")[0] for line in lines if line.startswith("[")]
        assert {*groups} <= {"recipes", "methods", "overrides", "tune", "published_only"}
        assert {"recipes", "methods"} <= {*groups}
        comments = [lines[i + 1] for i, line in enumerate(lines[:-1]) if not line]
        assert len(comments) == len({*groups}) and all(one[:2] == "# " for one in comments)


def test_a_range_and_quoted_names_are_read_back(tmp_path):
    content = TINY.replace("[0.5, 2.0]", "{low = 0.5, high = 2.0, log = true}") + "\n"
    content = "budget = 3\n" + content + '[methods."a \\"b\\" = c"]\n'
    plan = load(tmp_path, content)
    (tmp_path / "other.toml").write_text(plan.as_toml())
    assert trials.Plan.load(str(tmp_path / "other.toml")) == plan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("overrides.seed=3", "overrides sets seed; write seeds"),
        ("recipes.x.seed=3", "recipes.x sets seed"),
        ("methods.plain.seed=3", "methods.plain sets seed"),
        ("tune.exponential.seed=[3]", "tune.exponential sets seed"),
        ("methods.plain.corpus.train=3", "methods.plain sets corpus"),
        ("tune.exponential.corpus.train=[3]", "tune.exponential sets corpus"),
    ],
)
def test_seeds_and_corpora_are_the_plans(change, said, tmp_path):
    content = TINY.replace('["toy-de-en"]', '{x = {recipe = "toy-de-en"}}')
    (tmp_path / "tiny.toml").write_text(content)
    with pytest.raises(trials.BadPlan, match=said):
        trials.Plan.load(str(tmp_path / "tiny.toml"), [change])


def test_a_table_of_nothing_to_tune_is_refused(tmp_path):
    with pytest.raises(trials.BadPlan, match=r"tune\.plain is empty"):
        load(tmp_path, TINY + "[tune.plain]\n")


def test_a_plan_without_a_small_scale_says_so(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    with pytest.raises(trials.BadPlan, match="no small scale"):
        trials.Plan.load(str(tmp_path / "tiny.toml"), small=True)


def test_methods_scored_in_another_way_are_not_compared(reference):
    _, trial, _ = reference

    def changed(entry):
        if entry.method != "exponential" or entry.record is None:
            return entry
        scores = {split: dict(of) for split, of in entry.record.scores.items()}
        scores["test"]["perplexity"] = replace(scores["test"]["perplexity"], signature="another")
        return replace(entry, record=replace(entry.record, scores=scores))

    table = trials.summarise(replace(trial, entries=[*map(changed, trial.entries)]), resamples=200)
    row = table["exponential"].results["toy-de-en"]
    assert row.baseline is None and row.control is None and row.mean is not None
    assert table["matched"].results["toy-de-en"].baseline is not None
    assert any("scored in several ways" in warning for warning in table.warnings)


def test_nothing_in_a_record_tells_where_on_the_machine_it_was_made(tmp_path):
    for name in ("train", "valid", "test"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text("a b c\n")
    files = {
        split: [tmp_path / f"{split}.de", tmp_path / f"{split}.en"]
        for split in ("train", "valid", "test")
    }
    plan = trials.own(**files, languages=("de", "en"))
    state = State(plan, Layout(tmp_path), retry=False)
    graph.check(plan)
    job = run_of(state, "files", "plain", 1)
    assert str(tmp_path) in job.command
    assert str(tmp_path) not in job.portable
    assert str(tmp_path) not in json.dumps(graph.settled(job.resolved))
    given = [f"methods.plain.augment={{name='round-trip', there='{tmp_path}'}}"]
    given.append("methods.plain.augment.back.recipe=multi30k")
    given.append(f"methods.plain.augment.back.corpus.path={tmp_path}")
    trip = trials.own(**files, languages=("de", "en"), changes=given)
    job = run_of(State(trip, Layout(tmp_path), retry=False), "files", "plain", 1)
    assert job.command.count(str(tmp_path)) > 2
    assert str(tmp_path) not in job.portable
    assert str(tmp_path) not in json.dumps(graph.settled(job.resolved))
    assert [*plan.methods] == ["plain", "shuffled", "linear", "exponential"]
    assert {*plan.tune} == {"plain", "linear", "exponential"} and plan.untuned == []


SCRIPT = """
import sys
from augless import trials
trials.run(trials.Plan.load(sys.argv[1]), root=sys.argv[2], jobs=2)
"""


def test_stopped_and_killed_midway_a_trial_goes_on_to_the_same_table(reference, tmp_path):
    _, undisturbed, _ = reference
    plan, root = load(tmp_path), tmp_path / "root"

    def begun():
        return [*(root / "runs").glob("[!.]*/checkpoint-*")]

    stopped = trials.run(plan, root=root, jobs=2, stop=lambda: bool(begun()))
    assert not stopped.complete
    assert not any(entry.failure for entry in stopped.entries)
    before = {*begun()}

    parent = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path / "tiny.toml", root])
    until(lambda: {*begun()} - before)
    tree = descendants(parent.pid)
    parent.kill()
    assert parent.wait() == -signal.SIGKILL
    assert len(tree) >= 2
    until(lambda: not alive(tree))

    whole = trials.run(plan, root=root, jobs=2)
    assert whole.complete
    assert values(whole) == values(undisturbed)
    same = dataclasses.replace(undisturbed, plan=plan, entries=undisturbed.entries[:6])
    one, other = (trials.summarise(t, resamples=200) for t in (whole, same))
    for method in one.rows:
        cells = [table[method].results["toy-de-en"] for table in (one, other)]
        timeless = [dataclasses.replace(cell, seconds=None, records={}) for cell in cells]
        assert timeless[0] == timeless[1]


def test_no_time_is_no_run(tmp_path):
    trial = trials.run(load(tmp_path), root=tmp_path / "root", max_minutes=0)
    assert not trial.complete and not (tmp_path / "root" / "runs").exists()
    assert all(entry.failure is None for entry in trial.entries)


def test_a_forecast_lists_every_run_and_begins_none(tmp_path):
    root = tmp_path / "root"
    expected = trials.forecast(load(tmp_path), root=root, jobs=2)
    assert len(expected.runs) == 2 * 2 + 2 * 3
    assert all(run.seconds > 0 and run.share == 0 for run in expected.runs)
    assert len(expected.measured) == 1
    measured = next(iter(expected.measured.values()))
    assert 1 <= measured.steps <= 6 and measured.step > 0 and measured.training > 0
    assert measured.training == pytest.approx(6 * measured.step)
    total = sum(run.seconds for run in expected.runs)
    assert expected.seconds == pytest.approx(total / 2)
    assert [path.name for path in root.iterdir()] == ["prepared"]


def test_a_forecast_counts_what_is_done(reference, tmp_path):
    root, _, _ = reference
    plan = load(tmp_path)
    expected = trials.forecast(plan, root=root)
    assert expected.seconds == 0 and {run.note for run in expected.runs} == {"done"}


def test_collecting_runs_nothing(reference):
    root, trial, _ = reference
    assert values(trials.collect(trial.plan, root=root)) == values(trial)


# Records


def same(one, other):
    for field in dataclasses.fields(trials.Record):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "statistics":
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[key], b[key]) for key in a)
        else:
            assert a == b, field.name


def test_a_record_comes_back_as_it_was(tmp_path):
    record().save(tmp_path / "r")
    same(trials.Record.load(tmp_path / "r"), record())
    assert sum(path.stat().st_size for path in (tmp_path / "r").iterdir()) < 2000


def test_numbers_that_json_cannot_say_become_none(tmp_path):
    record(scores=scores_of(float("inf"))).save(tmp_path / "r")
    assert trials.Record.load(tmp_path / "r").scores["test"]["perplexity"].value is None


def test_a_record_of_the_same_run_joins_its_scores(tmp_path):
    record().save(tmp_path / "r")
    more = scores_of(metric="bleu", splits=["test"])
    record(scores=more, statistics={"test/bleu": np.ones((2, 10))}).save(tmp_path / "r")
    joined = trials.Record.load(tmp_path / "r")
    assert joined.scores == record().scores | more
    assert {*joined.statistics} == {"valid/bleu", "valid/nats", "test/bleu"}
    assert len([*(tmp_path / "r").iterdir()]) == 2


@pytest.mark.parametrize("place", range(0, 100, 7))
def test_a_damaged_record_is_none(tmp_path, place):
    record().save(tmp_path / "r")
    for path in sorted((tmp_path / "r").iterdir()):
        content = bytearray(path.read_bytes())
        content[place * len(content) // 100] ^= 1
        shutil.copytree(tmp_path / "r", tmp_path / f"bad {path.name}")
        (tmp_path / f"bad {path.name}" / path.name).write_bytes(content)
        with pytest.raises(trials.BadRecord, match="can be used"):
            trials.Record.load(tmp_path / f"bad {path.name}")


def test_an_absent_record_and_a_foreign_one_are_refused(tmp_path):
    with pytest.raises(trials.BadRecord, match="it is not there"):
        trials.Record.load(tmp_path / "r")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "record.json").write_text('{"format": "another"}')
    with pytest.raises(trials.BadRecord, match="format"):
        trials.Record.load(tmp_path / "r")


def test_hypotheses_lie_beside_the_record_and_may_be_anything(tmp_path):
    lines = ["a\u2028b", "", "c\r", "d"]
    records.save_hypotheses(tmp_path, {"test": lines})
    assert record().with_hypotheses(tmp_path).hypotheses == {"test": lines}
    assert record().with_hypotheses(tmp_path / "none").hypotheses is None


def test_a_history_is_thinned_between_epochs_only():
    history = [runs.Logged(kind="interval", step=i) for i in range(1000)]
    history.insert(500, runs.Logged(kind="epoch", step=500))
    kept = work.thinned(history)
    assert len(kept) == 201 and kept[100].kind == "epoch"
    assert work.thinned(history[:50]) == tuple(history[:50])


# Plans


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", trials.shipped())
def test_every_shipped_plan_can_be_followed(name, small):
    plan = trials.Plan.load(name, small=small)
    state = State(plan, Layout(Path("nowhere")), retry=False)
    graph.check(plan)
    assert (plan.scale == "small") == small
    if small:
        toys = [run_of(state, c, plan.baseline, 1).resolved for c in plan.recipes]
        assert all(isinstance(r.recipe.corpus, corpora.toy.Toy) for r in toys)


def test_the_paper_stands_beside_ours():
    plan = trials.Plan.load("table1")
    assert plan.published("WD+OURS", "En-It") == 27.15
    assert plan.published("CE+BT", "De-En") == 29.35
    assert plan.published("CE+exact", "De-En") is None
    assert trials.Plan.load("table1", small=True).published("CE", "De-En") is None
    dialogue = trials.Plan.load("table2")
    assert dialogue.published("CE", "Reddit") == 7.22
    assert dialogue.published("Human", "Reddit", "distinct-2") == 0.897


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titel": "x"}, "there is no key 'titel'; did you mean 'title'?"),
        ({"baseline": "plane"}, "baseline names 'plane'; did you mean 'plain'?"),
        ({"control": "x"}, "control names 'x'"),
        ({"metric": "blue"}, "loss; did you mean 'bleu'?"),
        ({"metrics": ["bleu", "crhf"]}, "loss; did you mean 'chrf'?"),
        ({"seeds": [1, 1]}, "seeds are [1, 1]; they must be different"),
        ({"seeds": ["a"]}, "seeds is ['a']; it must be several values, each a whole number"),
        ({"seeds": []}, "seeds is empty; give one or more"),
        ({"seeds": "1,²"}, "it must be several values, each a whole number"),
        ({"seeds": "1," + "9" * 5000}, "Exceeds the limit"),
        ({"recipes": ["a", "a"]}, "two of the same name"),
        ({"recipes": {"a": {}}}, "recipes.a.recipe is not given"),
        ({"methods": {}}, "at least one recipe and one method"),
        ({"methods": {"plain": 3}}, "methods.plain must be a table of keys, not 3"),
        ({"methods": {"plain": {"seed": 3}}}, "methods.plain sets seed"),
        ({"methods": {"plain": {"corpus": {"train": 3}}}}, "methods.plain sets corpus"),
        ({"methods": {"plain": {"matches": "a"}}}, "methods.plain.matches names 'a'"),
        (
            {"methods": {"plain": {"published": {"toy-de": 3}}}},
            "published names 'toy-de'; did you mean 'toy-de-en'?",
        ),
        ({"tune": {"plian": {"a": [1]}}}, "tune.plian names 'plian'; did you mean 'plain'?"),
        ({"tune": {"plain": {"a": 1}}}, "tune.plain.a is 1; it must be a list"),
        ({"tune": {"plain": {"a": [1]}}, "budget": 2}, "budget is 2, but tune has 1"),
        (
            {"methods": {"plain": {}, "b": {}}, "tune": {"plain": {"a": [1]}, "b": {"a": [1, 2]}}},
            "as many combinations: plain 1, b 2",
        ),
        ({"view": "pie"}, "view is 'pie'"),
        ({"choose": "sentence-los"}, "choose names 'sentence-los'; did you mean 'sentence-loss'?"),
        ({"tuning_seeds": 0}, "tuning_seeds is 0; it must be a whole number, from 1 to 100"),
        ({"tuning_seeds": [0]}, "it must be a whole number"),
    ],
)
def test_a_bad_plan_is_refused_in_a_line(change, message):
    content = {"title": "t", "recipes": ["toy-de-en"], "methods": {"plain": {}}} | change
    with pytest.raises(trials.BadPlan) as caught:
        plans.parsed("bad", content)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_mistake_in_a_method_is_found_before_any_work(tmp_path):
    plan = load(tmp_path, TINY.replace('name = "exponential"', 'name = "exponental"'))
    with pytest.raises(trials.BadPlan, match=r"exponential on toy-de-en: .*'exponential'\?"):
        trials.run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_a_control_of_nothing_is_refused(tmp_path):
    plan = load(tmp_path, TINY.replace('matches = "exponential"', 'matches = "plain"'))
    with pytest.raises(trials.BadPlan, match="only plain ones"):
        trials.run(plan, root=tmp_path / "root")


def test_a_corpus_that_is_not_there_is_said_before_any_work(tmp_path):
    with pytest.raises(corpora.BadData, match="iwslt14"):
        trials.run(trials.Plan.load("figure2"), root=tmp_path / "root")


def test_plans_that_do_not_exist_are_refused_with_a_hint(tmp_path):
    with pytest.raises(trials.BadPlan, match="did you mean 'table1'"):
        trials.Plan.load("tabel1")
    with pytest.raises(trials.BadPlan, match="there is no plan file"):
        trials.Plan.load(str(tmp_path / "x.toml"))
    (tmp_path / "x.toml").write_text("a = ")
    with pytest.raises(trials.BadPlan, match="is not TOML"):
        trials.Plan.load(str(tmp_path / "x.toml"))


P = "search.length_penalty"
BEAM = {"search.name": "beam", "search.length_penalty": 0.6, "search.size": 2}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (["overrides.training.batch=4"], {**BEAM, "training.batch": 4, "model.hidden": 16}),
        (["overrides.search.size=7"], {**BEAM, "search.size": 7}),
        (["overrides.search=greedy"], {"search.name": "greedy", "training.epochs": 2}),
        (["overrides.search=beam", "overrides.search.size=7"], {**BEAM, "search.size": 7, P: 1.0}),
        (["overrides.search={size=3}"], {**BEAM, "search.size": 3}),
        (["overrides.model.hidden=8"], {"model.hidden": 8, "model.embedding": 16}),
        ([f"overrides.model.hidden={h}" for h in (8, 12)], {"model.hidden": 12}),
        (
            ["overrides.model.hidden=8", "overrides.model=lstm", "overrides.model.hidden=12"],
            {"model.hidden": 12, "model.embedding": 256},
        ),
        ([f"overrides.{P}=0.1", f"recipes.x.{P}=0.9"], {P: 0.9}),
    ],
)
def test_a_command_line_has_the_last_word_on_what_a_corpus_says(changes, wanted, tmp_path):
    corpus = f'recipe = "toy-de-en", {P} = 0.6, training.epochs = 2'
    model = 'model = {name = "lstm", hidden = 16, embedding = 16}'
    content = TINY.replace('["toy-de-en"]', f"{{x = {{{corpus}, {model}}}}}")
    (tmp_path / "tiny.toml").write_text(content)
    plan = trials.Plan.load(str(tmp_path / "tiny.toml"), changes)
    values = graph.run(plan, "x", "plain", 1, {}).resolved.values
    assert {key: values[key] for key in wanted} == wanted
    (tmp_path / "again.toml").write_text(plan.as_toml())
    assert trials.Plan.load(str(tmp_path / "again.toml")) == plan


def test_a_plan_can_be_changed_key_by_key():
    changes = [
        "seeds=[7]",
        "overrides.training.epochs=3",
        "recipes.De-En.corpus.path=elsewhere",
        "methods.CE.training.batch=8",
    ]
    plan = trials.Plan.load("figure2", changes)
    assert plan.seeds == (7,)
    assert trials.Plan.load("figure2", ["seeds=7"]).seeds == (7,)
    assert trials.Plan.load("figure2", ["seeds=7,9"]).seeds == (7, 9)
    chosen = {"training.watch": ["test"], "training.metric": "bleu-tokenised"}
    assert plan.overrides == {"training.epochs": 3, **chosen}
    assert plan.recipes["De-En"].overrides == {"corpus.path": "elsewhere"}
    assert plan.methods["CE"].overrides == {"training.batch": 8}
    for bad in ("seeds", "x=1", "methods=1"):
        with pytest.raises(trials.BadPlan):
            trials.Plan.load("figure2", [bad])


@pytest.mark.parametrize(
    "value",
    [1, 1.5, 1e-4, True, "a 'b' \"c\" \\ ü \x7f", [1, "x"], {"name": "x", "of": {"a b": [1.0]}}],
)
def test_what_is_written_reads_back(value):
    written = spelling.written({"key": value})[0].removeprefix("key=")
    assert tomllib.loads(f"x = {written}")["x"] == value


def test_a_table_with_a_name_replaces_and_one_without_changes():
    flat = reading.spread({"terms": {"0": {"weighting": {"name": "x", "a": 1}}}, "m": {"b": 2}})
    assert flat == {"terms.0.weighting": {"name": "x", "a": 1}, "m.b": 2}


def test_combinations_are_all_products():
    plan = trials.Plan.load("own")
    assert len(plan.points("exponential")) == len(plan.points("plain")) == plan.budget == 4
    assert plan.points("exponential")[1] == {
        "training.optimizer.rate": 0.75,
        "terms.0.weighting.radius": 4.0,
    }


@pytest.mark.parametrize("name", [n for n in trials.shipped() if n != "figure3"] + ["own"])
@pytest.mark.parametrize("small", [False, True])
def test_shipped_plans_reach_doses_that_matter(name, small):
    given = ["recipes.files.corpus.train=['a.de','a.en']"] if name == "own" else []
    plan = trials.Plan.load(name, given, small=small)
    laws = 0
    for method in plan.tune:
        points = plan.points(method)
        recipe = graph.run(plan, next(iter(plan.recipes)), method, 1, points[-1]).resolved.recipe
        for i, term in enumerate(recipe.terms):
            if type(term.weighting).__name__ != "Exponential":
                continue
            laws += 1
            assert term.weighting.normalise == "running-mean" and term.weighting.strength == 8.0
            radii = {point.get(f"terms.{i}.weighting.radius") for point in points}
            # The demo and what is small have no time for the radius.
            assert radii == {0.25, 4.0} or ((small or name == "demo") and len(radii) == 1)
    assert laws
    assert plan.baseline in plan.tune, "plain is tuned too, as hard as all, which a plan checks"
    assert plan.tuning_seeds == (1 if small or name == "demo" else 2)


@pytest.mark.parametrize("name", [n for n in trials.shipped() if n != "figure3"])
def test_at_small_scale_everything_tries_the_same_learning_rates(name):
    plan = trials.Plan.load(name, small=True)
    rates = plan.tune[plan.baseline]["training.optimizer.rate"]
    assert len(rates) == plan.budget
    for method, space in plan.tune.items():
        assert space["training.optimizer.rate"] == rates, method


def test_an_own_plan_has_multiples_of_the_suggested_rate_and_says_what_was_suggested(tmp_path):
    for name in ("train", "valid", "test"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text("ab cd\n" * 300)
    splits = {s: [tmp_path / f"{s}.{x}" for x in ("de", "en")] for s in ("train", "valid", "test")}
    plan = trials.own(**splits)
    base = plan.recipes["files"].overrides
    rate = base["training.optimizer.rate"]
    multiples = [rate / 2, 0.75 * rate, rate, 1.5 * rate]
    assert plan.tune["plain"]["training.optimizer.rate"] == pytest.approx(multiples)
    assert base["training.per"] == "token" and base["text.vocabulary.size"] >= 300
    quick = trials.own(**splits, quick=True)
    assert quick.overrides["corpus.sample"] and len(quick.seeds) < len(plan.seeds)
    assert quick.budget == 2 and quick.tuning_seeds == 1
    rivals = trials.own(**splits, rivals=True)
    assert {"masked-lm", "back-translation", "word-edits", "r-drop"} <= rivals.tune.keys()
    given = trials.own(**splits, changes=["training.optimizer={name='sgd',rate=2.0}"])
    assert given.tune["plain"]["training.optimizer.rate"] == [1.0, 1.5, 2.0, 3.0]


@pytest.mark.parametrize("kind", ["matched", "averaged", "shuffled"])
def test_a_control_is_of_the_kind_that_the_plan_says(kind):
    control = {"matches": "law", "kind": kind}
    content = {
        "title": "t",
        "recipes": ["toy-de-en"],
        "methods": {
            "plain": {},
            "law": {"terms": [{"weighting": {"name": "exponential", "radius": 2.0}}]},
            "control": control,
        },
    }
    plan = plans.parsed("p", content)
    values = graph.run(plan, "toy-de-en", "control", 1, {}).resolved.values
    assert values["terms.0.weighting.name"] == kind
    assert values["terms.0.weighting.of.name"] == "exponential"
    assert values["terms.0.weighting.of.radius"] == 2.0
    law = {"name": "staged", "first": {"name": "falling"}, "after": 7}
    content["methods"]["law"] = {"terms": [{"weighting": law}]}
    values = graph.run(plans.parsed("p", content), "toy-de-en", "control", 1, {}).resolved.values
    assert values["terms.0.weighting.of.first.name"] == "falling"
    assert values["terms.0.weighting.of.after"] == 7
    control["kind"] = "mached"
    with pytest.raises(trials.BadPlan, match="matched"):
        plans.parsed("p", content)


def test_help_does_not_wait_for_torch():
    check = "import sys, augless.trials; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


# Tables


def invented(seed, shift):
    """Make a record whose BLEU statistics are those of copies of a sentence, some of it wrong."""
    generator = np.random.default_rng([seed, 7])
    matched = generator.integers(3, 6, 60) + (generator.random(60) < shift)
    rows = np.zeros((60, 10))
    rows[:, :2], rows[:, 6:] = 10, [10, 9, 8, 7]
    rows[:, 2:6] = matched[:, None] - np.arange(4) * 0.5
    score = metrics.score_of(metrics.METRICS["bleu"](), rows, "s")
    scores = scores_of(score.value, "bleu", ["test"])
    return dataclasses.replace(record(seed=seed), scores=scores, statistics={"test/bleu": rows})


def test_a_table_compares_with_the_baseline_and_with_the_control():
    content = {
        "title": "t",
        "recipes": ["toy-de-en"],
        "methods": {"plain": {}, "better": {}, "control": {"matches": "better"}, "late": {}},
        "published_only": {"BT": {"toy-de-en": 30}},
    }
    plan = plans.parsed("p", content)
    shifts = {"plain": 0.0, "better": 0.9, "control": 0.0}
    entries = [
        trials.Entry(
            corpus="toy-de-en",
            method=method,
            seed=seed,
            record=invented(seed, shifts[method]) if method in shifts else None,
            failure=None,
        )
        for method in plan.methods
        for seed in plan.seeds
    ]
    trial = trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen={})
    table = trials.summarise(trial, resamples=500)
    better, control = (table[m].results["toy-de-en"] for m in ("better", "control"))
    assert better.baseline.claimed and better.control.claimed
    assert better.baseline.estimate > 0 and better.baseline.minimum_detectable_effect > 0
    assert control.baseline.estimate == 0 and not control.baseline.claimed
    assert table["late"].results["toy-de-en"].mean is None
    assert [*table.rows] == [*plan.methods]
    assert table["late"].results["toy-de-en"].values == {} and table.warnings == []
    assert not trial.complete
    assert (
        summary.score_of(entries[0].record, "bleu").value
        == entries[0].record.scores["test"]["bleu"].value
    )


def test_a_plan_with_odd_names_is_read_back_as_it_is(tmp_path):
    methods = {"plain": trials.Method(), 'a "b" \\ \x7f ü': trials.Method()}
    plan = trials.Plan(
        name="odd",
        title="t \x7f",
        recipes={"x \x7f": trials.Base(recipe="toy-de-en")},
        methods=methods,
    )
    (tmp_path / "odd.toml").write_text(plan.as_toml(), "utf-8")
    assert trials.Plan.load(str(tmp_path / "odd.toml")) == plan
