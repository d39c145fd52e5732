"""Searching: points follow from the plan and the scores, whatever happens to the file."""

import contextlib
import dataclasses
import math
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from augless import trials
from augless.trials import jobs, plans, running, searching, worker
from support import record, scores

RADIUS, STRENGTH = "terms.0.weighting.radius", "terms.0.weighting.strength"
SPACE = {RADIUS: {"low": 0.25, "high": 4.0, "log": True}, STRENGTH: [0.5, 1.0]}


def planned(space=SPACE, **changes):
    content = {
        "title": "t",
        "recipes": ["toy-de-en"],
        "methods": {"plain": {}, "law": {"terms.0.weighting": "exponential"}},
        "metric": "perplexity",
        "tune": {"law": space},
        "budget": 4,
    }
    return plans._built("p", content | changes, False)


# Plans


def test_a_range_is_of_whole_numbers_if_both_ends_are():
    space = {"a": {"b": {"low": 1, "high": 3}, "c": {"low": 1, "high": 2.5, "log": True}}}
    read = planned(space).tune["law"]
    assert read == {
        "a.b": plans.Range(low=1, high=3),
        "a.c": plans.Range(low=1, high=2.5, log=True),
    }
    assert isinstance(read["a.b"].low, int) and isinstance(read["a.c"].low, float)


def test_a_range_can_be_given_on_the_command_line():
    plan = trials.Plan.load("demo", [f"tune.exponential.{RADIUS}={{low=1,high=2}}", "budget=2"])
    assert plan.tune["exponential"] == {RADIUS: plans.Range(low=1, high=2)}
    assert plan.searched("exponential") and not plan.searched("linear")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{low = 2, high = 2}", "high must be more than low"),
        ("{low = 0, high = 2, log = true}", "with log, low must be more than 0"),
        ("{low = 1}", "low and high must be numbers"),
        ("{low = true, high = 2}", "low and high must be numbers"),
        ("{low = 0, high = inf}", "low and high must be numbers"),
        ("{low = nan, high = 1}", "low and high must be numbers"),
        (f"{{low = 0, high = 1{'0' * 400}}}", "low and high must be numbers"),
        ('{low = "1", high = 2}', "low and high must be numbers"),
        ("{low = 1, high = 2, step = 1}", "a range has low, high and maybe log = true"),
        ("{low = 1, high = 2, log = 1}", "a range has low, high and maybe log = true"),
        ("{log = true}", "must be a list of values to try, or a range"),
    ],
)
def test_a_bad_range_is_refused_in_a_line(given, why):
    with pytest.raises(trials.BadPlan) as caught:
        trials.Plan.load("demo", [f"tune.linear.terms.0.weighting.c1={given}", "budget=2"])
    assert str(caught.value).startswith("tune.linear.terms.0.weighting.c1")
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_every_method_has_the_same_budget():
    with pytest.raises(trials.BadPlan, match=r"tune\.law has a range; .* such as budget = 8"):
        planned(budget=0)
    grid = {"law": SPACE, "plain": {RADIUS: [1.0, 2.0]}}
    with pytest.raises(trials.BadPlan, match="as many combinations: law 4, plain 2"):
        planned(tune=grid)
    assert planned(tune=grid, budget=2).budget == 2


def test_what_an_end_of_a_range_does_wrong_is_said_before_any_work(tmp_path):
    plan = planned({RADIUS: {"low": -1.0, "high": 1.0}})
    with pytest.raises(trials.BadPlan, match=r"law on toy-de-en: .*radius"):
        trials.run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_without_optuna_a_range_is_refused_and_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    plan = planned(tune={"plain": {"training.batch": [8, 16]}, "law": SPACE}, budget=2)
    with pytest.raises(trials.BadPlan, match=r"pip install 'augless\[search\]'"):
        trials.run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


# Points


def told(score):
    return trials.Attempt(values={}, score=score)


def far(point):
    """Score a point by how far it is from the best; the largest radii fail."""
    if point[RADIUS] > 2:
        return told(None)
    return told(abs(math.log(point[RADIUS])) + point[STRENGTH])


def near(point):
    return told(float(point[RADIUS]))


def search(folder, plan=None, corpus="toy-de-en"):
    return searching.Search(plan or planned(), corpus, "law", folder / "search.sqlite")


def follow(folder, *, plan=None, score=far, between=lambda: None, pick=0, corpus="toy-de-en"):
    """Try all points, one at a time, in a new process' stead each; return them in their order."""
    plan = plan or planned()
    known = {}
    while True:
        points = search(folder, plan, corpus).points(lambda p: known.get(repr(p)))
        left = [point for point in points if repr(point) not in known]
        if not left:
            assert len(points) == plan.budget
            return points
        known[repr(left[pick])] = score(left[pick])
        between()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The points of a search in one go."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, search(folder).points(far)


def test_points_lie_in_the_space_and_some_depend_on_scores(undisturbed, tmp_path):
    _, points = undisturbed
    assert len(points) == 4
    for point in points:
        assert list(point) == [RADIUS, STRENGTH]
        assert 0.25 <= point[RADIUS] <= 4 and point[STRENGTH] in (0.5, 1.0)
    blind = search(tmp_path).points(lambda p: None)
    assert blind == points[:2]

    def opposite(point):
        return told(-point[RADIUS])

    other = follow(tmp_path / "other", score=opposite)
    assert other[:2] == points[:2] and other[2:] != points[2:]


def test_points_are_the_same_one_at_a_time_in_any_order_and_after_any_stop(undisturbed, tmp_path):
    assert follow(tmp_path, pick=-1) == undisturbed[1]


def test_points_are_the_same_without_the_file(undisturbed, tmp_path):
    file = tmp_path / "search.sqlite"
    assert follow(tmp_path, between=file.unlink) == undisturbed[1]


def test_points_are_taken_from_the_file(undisturbed, tmp_path, monkeypatch):
    folder, points = undisturbed
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.setattr("optuna.Study.ask", None)
    assert search(tmp_path / "copy").points(far) == points


def test_a_search_goes_in_the_direction_of_the_metric(tmp_path):
    plan = planned({RADIUS: {"low": 0.0, "high": 1.0}}, budget=6)
    found = {}
    for metric in ("perplexity", "bleu"):
        changed = dataclasses.replace(plan, metric=metric, metrics=())
        last = search(tmp_path, changed).points(near)[3:]
        found[metric] = sum(point[RADIUS] for point in last) / 3
    assert found["perplexity"] < found["bleu"] - 0.2


def test_methods_and_corpora_have_points_of_their_own_and_a_changed_space_has_others(tmp_path):
    one = search(tmp_path).points(far)
    assert search(tmp_path, corpus="b").points(far)[0] != one[0]
    whole = planned({RADIUS: {"low": 1, "high": 9, "log": True}})
    assert {type(p[RADIUS]) for p in search(tmp_path, whole).points(near)} == {int}
    search(tmp_path, planned(budget=3)).points(far)
    assert search(tmp_path).points(far) == one
    with contextlib.closing(sqlite3.connect(tmp_path / "search.sqlite")) as connection:
        names = connection.execute("select study_name from studies").fetchall()
    assert len({*names}) == 4


def test_lists_may_hold_anything(tmp_path):
    values = [1, 1.0, {"name": "x"}]
    space = {RADIUS: {"low": 0.0, "high": 1.0}, "a": values, "b": [7]}
    points = search(tmp_path, planned(space, budget=8)).points(near)
    assert {repr(point["a"]) for point in points} == {*map(repr, values)}
    assert {point["b"] for point in points} == {7}


@pytest.mark.parametrize("damage", ["text", "cut", "half asked", "changed", "widened"])
def test_a_file_that_is_not_what_was_written_is_written_anew(undisturbed, tmp_path, damage):
    points = undisturbed[1]
    midway = search(tmp_path).points(lambda p: far(p) if p in points[:2] else None)
    assert midway == points[:3]
    file = tmp_path / "search.sqlite"
    content = file.read_bytes()
    statements = {
        "half asked": "delete from trial_params where trial_id = 3",
        "changed": "update trial_params set param_value = 1 where trial_id = 3",
        "widened": "update trial_params set distribution_json = replace(distribution_json, 4, 5)",
    }
    if damage in statements:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            assert connection.execute(statements[damage]).rowcount != 0
            connection.commit()
    else:
        bad = {"text": b"no database\n" * 99, "cut": content[: len(content) // 2]}
        file.write_bytes(bad[damage])
        (tmp_path / "search.sqlite-journal").write_bytes(b"x")
    assert search(tmp_path).points(far) == points
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("select count(*) from trials").fetchone() == (4,)


@pytest.mark.parametrize("place", range(10, 100, 40))
def test_a_flipped_bit_changes_no_point(undisturbed, tmp_path, place):
    folder, points = undisturbed
    content = bytearray((folder / "search.sqlite").read_bytes())
    used = [i for i, byte in enumerate(content) if byte]
    content[used[place * len(used) // 100]] ^= 1
    (tmp_path / "search.sqlite").write_bytes(content)
    assert search(tmp_path).points(far) == points


def test_a_file_that_cannot_be_written_costs_nothing_but_time(undisturbed, tmp_path, monkeypatch):
    connect = sqlite3.connect

    def full(file, **options):
        if file != ":memory:":
            raise sqlite3.OperationalError("database or disk is full")
        return connect(file, **options)

    monkeypatch.setattr(sqlite3, "connect", full)
    assert search(tmp_path).points(far) == undisturbed[1]


def test_scores_are_never_taken_from_the_file(undisturbed, tmp_path):
    folder, points = undisturbed
    shutil.copy(folder / "search.sqlite", tmp_path)
    lost = search(tmp_path).points(lambda p: None if p == points[1] else far(p))
    assert lost == points[:2]  # what came after waits again
    assert search(tmp_path).points(far) == points


def test_what_a_failure_led_to_does_not_outlive_it(undisturbed, tmp_path):
    points = undisturbed[1]
    failing = search(tmp_path).points(lambda p: told(None) if p == points[0] else far(p))
    assert failing[:2] == points[:2] and failing[2:] != points[2:]
    assert search(tmp_path).points(far) == points


def test_two_processes_do_not_confuse_each_other(undisturbed, tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(follow(tmp_path))),
        threading.Thread(target=lambda: found.append(follow(tmp_path, pick=-1))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [undisturbed[1]] * 2
    with contextlib.closing(sqlite3.connect(tmp_path / "search.sqlite")) as connection:
        assert connection.execute("select count(*) from trials").fetchone() == (4,)


def test_optuna_is_loaded_late_and_says_nothing(tmp_path):
    script = """
import sys
from pathlib import Path
from augless import trials
from augless.trials import searching
plan = trials.Plan.load("demo", ["tune.linear.x={low=0,high=9}", "budget=2"])
assert "optuna" not in sys.modules
search = searching.Search(plan, "toy-de-en", "linear", Path("search.sqlite"))
search.points(lambda point: trials.Attempt(values=point, score=None))
"""
    with contextlib.closing(sqlite3.connect(tmp_path / "search.sqlite")) as connection:
        connection.execute("create table trials (study_id)")  # not as it should be
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# Trials, whose runs are invented

PLAN = """
title = "searched"
recipes = ["toy-de-en"]
seeds = [1, 2]
metric = "perplexity"
control = "matched"
budget = 4
[overrides]
corpus = {name = "toy-de-en", train = 48, valid = 8, test = 10}
text.vocabulary.size = 150
[methods.plain]
[methods.matched]
matches = "law"
[methods.law]
terms.0.weighting = {name = "exponential"}
[methods.linear]
terms.0.weighting = {name = "linear", corollary = 2, c1 = 1e-3}
[tune.law]
terms.0.weighting.radius = {low = 0.25, high = 4.0, log = true}
terms.0.weighting.strength = [0.5, 1.0]
[tune.linear]
terms.0.weighting.c1 = [1e-4, 1e-3, 1e-2, 1e-1]
"""
FAILING = 3.0  # a radius that the search comes upon


class Inventing(running._Pool):
    """A pool without processes: the last run that was begun ends first."""

    def _tell(self, line):
        self.orders = [*getattr(self, "orders", []), worker.Order.read(line)]

    def poll(self):
        if not self.children:
            return False
        order = self.orders.pop()
        invent(order)
        self._ended(order.identifier, trials.Failure(7, "not finite"))
        return True


def invent(order):
    """Leave a record, unless the radius is too large."""
    pattern = r"(?:radius|c1) ?= ?([0-9.e-]+)"
    knobs = [float(knob) for knob in re.findall(pattern, str(order.job.overrides))]
    if knobs and knobs[-1] > FAILING:
        return
    nats = sum(abs(math.log(knob)) for knob in knobs) + order.job.seed
    rows = np.stack([nats + np.arange(10.0), np.full(10, 9.0)], 1)
    value = math.exp(rows[:, 0].mean() / 9)
    record(
        id=order.identifier,
        seed=order.job.seed,
        recipe={},
        scores=scores(value, splits=order.job.splits),
        statistics={f"{split}/perplexity": rows for split in order.job.splits},
    ).save(jobs.Layout(order.root).record(order.identifier))


@pytest.fixture(scope="module", autouse=True)
def no_training():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_Pool", Inventing)
        patch.setattr(running, "_TICK", 0.0)
        patch.setattr(running, "_SPEAK", 0.0)
        yield


def load(folder):
    (folder / "searched.toml").write_text(PLAN)
    return trials.Plan.load(str(folder / "searched.toml"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A trial of one run at a time that nobody disturbs."""
    root = tmp_path_factory.mktemp("reference")
    statuses = []
    trial = trials.run(load(root), root=root, on_status=statuses.append)
    return root, trial, statuses


def test_a_search_is_a_trial_like_any_other(reference):
    _, trial, statuses = reference
    assert trial.complete
    choice = trial.chosen["law"]["toy-de-en"]
    values = [attempt.score for attempt in choice.tried]
    assert len(values) == len(trial.chosen["linear"]["toy-de-en"].tried) == 4
    assert choice.best.score == min(value for value in values if value is not None)
    assert any(attempt.failure for attempt in choice.tried)
    assert choice.seed not in {entry.seed for entry in trial.entries}
    assert {status.total for status in statuses} == {2 * 4 + 4 * 2}
    assert statuses[-1].done + statuses[-1].failed == statuses[-1].total


def test_interrupted_again_and_again_and_with_two_jobs_the_table_is_the_same(reference, tmp_path):
    _, undisturbed, _ = reference
    plan, root = load(tmp_path), tmp_path / "root"
    file = root / "search.sqlite"

    def done():
        return len([*(root / "records").glob("*")])

    ends = ((1, 2, file.unlink), (2, 6, lambda: file.write_text("x")))
    for count, most, then in ends:
        stopped = trials.run(plan, root=root, jobs=count, stop=lambda most=most: done() >= most)
        assert not stopped.complete
        then()
    whole = trials.run(plan, root=root, jobs=2)
    assert whole.complete and whole.chosen == undisturbed.chosen
    one, other = (trials.table(trial, trials=100) for trial in (whole, undisturbed))
    assert one == other


def test_records_alone_make_the_same_table_elsewhere(reference, tmp_path):
    root, trial, _ = reference
    again = trials.run(load(tmp_path), root=tmp_path / "new", records=root / "records")
    assert again.complete and again.chosen == trial.chosen


def test_a_forecast_lists_the_whole_budget(reference, tmp_path, monkeypatch):
    root, _, _ = reference
    measured = trials.Measured(
        steps=1,
        step=1,
        startup=1,
        epoch=1,
        validation=1,
        decoding={"valid": 1, "test": 1},
        epochs=1,
    )
    monkeypatch.setattr(sys.modules["augless.trials.forecast"], "_measured", lambda *_: measured)
    plan = load(tmp_path)
    runs = trials.forecast(plan, root=tmp_path / "root").runs
    assert [run.job.purpose for run in runs].count("tune") == 2 * 4
    assert len(runs) == 2 * 4 + 4 * 2 and not any(run.share for run in runs)
    assert not (tmp_path / "root" / "runs").exists()
    # Those that failed, and what waits for them, are to be done.
    left = [run.job.method for run in trials.forecast(plan, root=root).runs if run.share < 1]
    assert {*left} == {"law", "matched"}


def test_the_plan_of_the_documents_can_be_followed(tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "trials.md").read_text("utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.S)
    (tmp_path / "mine.toml").write_text(block)
    plan = trials.Plan.load(str(tmp_path / "mine.toml"))
    jobs.Book(plan, jobs.Layout(tmp_path), workers=1, progress=lambda *_: None).check()
    assert plan.searched("exponential") and not plan.searched("linear") and plan.budget == 8
