"""Searching: points follow from the plan and the scores, whatever happens to the file."""

import dataclasses
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from augless import reports, runs, trials
from augless.recipes import following
from augless.trials import graph, plans, pool, running, searching
from augless.trials.layout import Layout
from augless.trials.state import Corpus, State
from support import record, score, scores

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
    return plans.parsed("p", content | changes)


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
    assert plan.tune["exponential"][RADIUS] == plans.Range(low=1, high=2)
    assert plan.searched("exponential") and not plan.searched("plain")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{low = 2, high = 2}", "high must be more than low"),
        ("{low = 0, high = 2, log = true}", "with log, low must be more than 0"),
        ("{low = 1}", "high is not given"),
        ("{low = true, high = 2}", "low and high must be numbers"),
        ("{low = 0, high = inf}", "low and high must be numbers"),
        ("{low = nan, high = 1}", "low and high must be numbers"),
        (f"{{low = 0, high = 1{'0' * 400}}}", "low and high must be numbers"),
        ('{low = "1", high = 2}', "low and high must be numbers"),
        ("{low = 1, high = 2, step = 1}", "it can have: low, high, log"),
        ("{low = 1, high = 2, log = 1}", "log is 1; it must be true or false"),
        ("{log = true}", "must be a list of values to try, or a range"),
    ],
)
def test_a_bad_range_is_refused_in_a_line(given, why):
    with pytest.raises(trials.BadPlan) as caught:
        trials.Plan.load("demo", [f"tune.linear.terms.0.weighting.c1={given}", "budget=2"])
    assert "tune.linear.terms.0.weighting.c1" in str(caught.value).split("\n")[0]
    assert why in str(caught.value) and len(str(caught.value).split("\n")) <= 2


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
        run(plan, root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_without_optuna_a_range_is_refused_and_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    plan = planned(tune={"plain": {"training.batch": [8, 16]}, "law": SPACE}, budget=2)
    with pytest.raises(trials.BadPlan, match=r"pip install 'augless\[search\]'"):
        run(plan, root=tmp_path / "root")
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


def points(told, plan=None, corpus="toy-de-en"):
    return searching.points_of(plan or planned(), corpus, "law", told)


def follow(*, score=far, pick=0):
    """Try all points, one at a time, as after a stop each; return them in their order."""
    known = {}
    while True:
        decided = points(lambda p: known.get(repr(p)))
        left = [point for point in decided if repr(point) not in known]
        if not left:
            assert len(decided) == planned().budget
            return decided
        known[repr(left[pick])] = score(left[pick])


def test_points_lie_in_the_space_and_some_depend_on_scores():
    whole = points(far)
    assert len(whole) == 4
    for point in whole:
        assert list(point) == [RADIUS, STRENGTH]
        assert 0.25 <= point[RADIUS] <= 4 and point[STRENGTH] in (0.5, 1.0)
    assert points(lambda p: None) == whole[:2]
    other = follow(score=lambda point: told(-point[RADIUS]))
    assert other[:2] == whole[:2] and other[2:] != whole[2:]


@pytest.mark.parametrize("pick", [0, -1])
def test_points_are_the_same_one_at_a_time_in_any_order_and_after_any_stop(pick):
    assert follow(pick=pick) == points(far)


def test_a_point_waits_for_the_scores_of_all_before_it():
    whole = points(far)
    assert points(lambda p: None if p == whole[1] else far(p)) == whole[:2]
    failing = points(lambda p: told(None) if p == whole[0] else far(p))
    assert failing[:2] == whole[:2] and failing[2:] != whole[2:]
    assert points(far) == whole, "what a failure led to does not outlive it"


def test_a_search_goes_in_the_direction_of_the_metric():
    plan = planned({RADIUS: {"low": 0.0, "high": 1.0}}, budget=6)
    means = {}
    for metric in ("perplexity", "bleu"):
        changed = dataclasses.replace(plan, choose=metric)
        last = points(near, changed)[3:]
        means[metric] = sum(point[RADIUS] for point in last) / 3
    assert means["perplexity"] < means["bleu"] - 0.2


def test_methods_and_corpora_have_points_of_their_own_and_a_changed_space_has_others():
    one = points(far)
    assert points(far, corpus="b")[0] != one[0]
    for ends, kind in (((1, 9), int), ((1.0, 9.0), float), ((1, 9), int)):
        space = {RADIUS: {"low": ends[0], "high": ends[1], "log": True}}
        assert {type(p[RADIUS]) for p in points(near, planned(space))} == {kind}
    assert points(far, planned(budget=3))[:2] == one[:2]
    assert points(far) == one


def test_lists_may_hold_anything():
    values = [1, 1.0, {"name": "x"}]
    space = {RADIUS: {"low": 0.0, "high": 1.0}, "a": values, "b": [7]}
    drawn = points(near, planned(space, budget=8))
    assert {repr(point["a"]) for point in drawn} == {*map(repr, values)}
    assert {point["b"] for point in drawn} == {7}


def test_optuna_is_loaded_late_and_says_nothing(tmp_path):
    script = """
import sys
from augless import trials
from augless.trials import searching
plan = trials.Plan.load("demo", ["tune.back-translation.x={low=0,high=9}", "budget=2"])
assert "optuna" not in sys.modules
told = lambda point: trials.Attempt(values=point, score=None)
assert len(searching.points_of(plan, "toy-de-en", "back-translation", told)) == 2
"""
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
KNOB = r"(?:radius|c1) ?= ?([0-9.e-]+)"
FAILING = 3.0  # a radius that the search comes upon


class Inventing:
    """Does jobs without processes: the last that was begun ends first."""

    def __init__(self):
        self.orders = []

    def submit(self, key, task):
        self.orders.append((key, task))

    def wait(self, seconds):
        if not self.orders:
            return []
        key, order = self.orders.pop()
        return [pool.Ended(key, invent(order))]

    def close(self):
        self.orders.clear()


def invent(order):
    """Prepare a corpus, or leave a record without training; too large a radius fails."""
    if order.job.kind == "prepare":
        return order(lambda: False)
    knobs = [float(knob) for knob in re.findall(KNOB, str(order.job.overrides))]
    if knobs and knobs[-1] > FAILING:
        return trials.Failure(7, "not finite")
    if order.job.kind == "train":
        finish(order)
        return None
    nats = sum(abs(math.log(knob)) for knob in knobs) + order.job.seed
    rows = np.stack([nats + np.arange(10.0), np.full(10, 9.0)], 1)
    value = math.exp(rows[:, 0].mean() / 9)
    record(
        id=order.identifier,
        seed=order.job.seed,
        recipe={},
        scores=scores(value, splits=order.job.splits),
        statistics={
            f"{split}/{what}": table
            for split in order.job.splits
            for what, table in (("perplexity", rows), ("nats", rows[:, 0]))
        },
    ).save(order.layout.record(order.identifier))
    return None


def finish(order):
    """Leave a finished run that nobody has trained."""
    prepared = following.prepare(order.job.resolved, order.place(lambda: False))
    runs.Run.create(order.folder, recipe={}, corpus="", codecs=prepared.codecs, versions={}).finish(
        dataclasses.asdict(runs.Outcome())
    )


def run(plan, **given):
    return trials.run(plan, executor=Inventing(), **given)


@pytest.fixture(scope="module", autouse=True)
def every_status():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "SPEAK", 0.0)
        yield


def load(folder):
    (folder / "searched.toml").write_text(PLAN)
    return trials.Plan.load(str(folder / "searched.toml"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A trial of one run at a time that nobody disturbs."""
    root = tmp_path_factory.mktemp("reference")
    statuses = []
    trial = run(load(root), root=root, on_status=statuses.append)
    return root, trial, statuses


def test_a_search_is_a_trial_like_any_other(reference):
    _, trial, statuses = reference
    assert trial.complete
    choice = trial.chosen["law"]["toy-de-en"]
    values = [attempt.score for attempt in choice.tried]
    assert len(values) == len(trial.chosen["linear"]["toy-de-en"].tried) == 4
    assert choice.best.score == min(value for value in values if value is not None)
    assert any(attempt.failure for attempt in choice.tried)
    assert not {*choice.seeds} & {entry.seed for entry in trial.entries}
    assert {status.total for status in statuses} == {2 * 2 * 4 + 4 * 2}
    assert statuses[-1].done + statuses[-1].failed == statuses[-1].total


def test_interrupted_again_and_again_and_with_two_jobs_the_table_is_the_same(reference, tmp_path):
    _, undisturbed, _ = reference
    plan, root = load(tmp_path), tmp_path / "root"

    def done():
        return len([*(root / "records").glob("*")])

    for count, most in ((1, 2), (2, 6)):
        stopped = run(plan, root=root, jobs=count, stop=lambda most=most: done() >= most)
        assert not stopped.complete
    whole = run(plan, root=root, jobs=2)
    assert whole.complete and whole.chosen == undisturbed.chosen
    one, other = (trials.summarise(trial, resamples=100) for trial in (whole, undisturbed))
    assert one == other


def test_records_alone_make_the_same_table_elsewhere(reference, tmp_path):
    root, trial, _ = reference
    again = run(load(tmp_path), root=tmp_path / "new", records=root / "records")
    assert again.complete and again.chosen == trial.chosen


class Killing(Inventing):
    """Loses the process that trains one seed of the combination that would be chosen."""

    def wait(self, seconds):
        for place, (key, order) in enumerate(self.orders):
            job = order.job
            asked = job.kind, job.purpose, job.seed
            if asked == ("train", "tune", 3) and BEST in job.overrides:
                del self.orders[place]
                return [pool.Ended(key, LOST)]
        return super().wait(seconds)


LOST = trials.Failure(1, "killed by SIGKILL")
BEST = "terms.0.weighting.c1=0.1"


def test_a_killed_run_of_tuning_is_said_everywhere_and_tried_again_before_anything_is_chosen(
    reference, tmp_path
):
    _, undisturbed, _ = reference
    plan, root = load(tmp_path), tmp_path / "root"
    whole = undisturbed.chosen["linear"]["toy-de-en"]
    assert whole.best.values == {BEST.partition("=")[0]: 0.1} and whole.seeds == (0, 3)

    lost = trials.run(plan, root=root, executor=Killing())
    choice = lost.chosen["linear"]["toy-de-en"]
    assert choice.best.values != whole.best.values
    (failed,) = choice.failed
    assert failed.values == whole.best.values and failed.failure == LOST
    assert failed.score is None and failed.scores == (whole.best.scores[0], None)
    assert lost.complete and LOST in lost.failures
    said = "linear, tuning with c1=0.1: killed by SIGKILL"
    for written in (reports.text, reports.markdown, reports.latex):
        assert said in written(reports.gather(lost)), written
    rows = [line for line in reports.csv(reports.gather(lost)).split("\n") if ",linear," in line]
    assert rows and all("tuning with c1=0.1: killed by SIGKILL" in row for row in rows)
    summary = reports.summary(reports.gather(lost))["corpora"]["toy-de-en"]["linear"]
    assert summary["tuning_failures"] == ["tuning with c1=0.1: killed by SIGKILL"]
    page = reports.report(reports.gather(lost), tmp_path / "page").read_text("utf-8")
    assert said in page

    # A report says the same; a call that does not get to it chooses nothing.
    assert trials.collect(plan, root=root).chosen == lost.chosen
    stopped = run(plan, root=root, max_minutes=0)
    assert "linear" not in stopped.chosen
    assert all(entry.record is None for entry in stopped.entries if entry.method == "linear")
    again = run(plan, root=root)
    assert again.chosen == undisturbed.chosen and LOST not in again.failures
    assert said not in reports.text(reports.gather(again))


def test_tables_say_what_was_chosen_by_what(reference):
    _, trial, _ = reference
    said = "Hyper-parameters were chosen by validation loss in nats per sentence, mean of 2 seeds."
    assert trial.selection == (said,), "the records here do not say what models were chosen by"
    for written in (reports.text, reports.markdown, reports.latex):
        assert said in " ".join(written(reports.gather(trial)).split())
    known = [
        dataclasses.replace(e, record=dataclasses.replace(e.record, recipe={"training.metric": by}))
        for e, by in zip(trial.entries, ["loss", "bleu"] * 4, strict=True)
    ]
    plan = dataclasses.replace(trial.plan, choose="chrf", tuning_seeds=1)
    assert dataclasses.replace(trial, plan=plan, entries=known).selection == (
        "Hyper-parameters were chosen by chrf on the validation set, one seed.",
        "The model of each run was chosen by bleu or loss on the validation set.",
    )


@pytest.mark.parametrize(
    ("bleu", "best"),
    [((0.0, 0.0, 0.0, 0.0), 1), ((1.6, 0.2, 0.0, 1.9), 1), ((1.6, 0.2, 2.1, 1.9), 2)],
)
def test_of_equal_scores_and_of_noise_the_one_with_the_lower_loss_is_chosen(bleu, best, tmp_path):
    plan = dataclasses.replace(load(tmp_path), choose="bleu", metrics=())
    state = State(plan, Layout(tmp_path), retry=False)
    jobs = [
        job for point in plan.points("linear") for job in state.tries("toy-de-en", "linear", point)
    ]
    for place, job in enumerate(jobs):
        state.corpora[job.source] = Corpus(fingerprint="c")
        nats = [5.0, 5.0, 3.0, 4.0, 4.0, 3.0, 1.0, 9.0][place]  # two seeds a combination
        both = {name: score(bleu[place // 2]) for name in plan.metrics}
        record(
            id=state.identifier(job),
            scores={"valid": both},
            statistics={"valid/nats": np.full(3, nats)},
        ).save(tmp_path / "records" / state.identifier(job))
    choice = state.choice("toy-de-en", "linear")
    assert [attempt.loss for attempt in choice.tried] == [5.0, 3.5, 3.5, 5.0]
    assert tuple(attempt.score for attempt in choice.tried) == bleu
    assert choice.best == choice.tried[best] and choice.by == "bleu"


def test_a_plan_may_choose_by_a_metric_which_is_then_scored():
    plan = planned(choose="chrf", tuning_seeds=3, seeds=[1, 3])
    assert plan.metrics == ("perplexity", "chrf") and plan.chooses_highest
    assert plan.seeds_of_tuning == (0, 2, 4)
    assert not planned().chooses_highest and planned().metrics == ("perplexity",)
    assert planned(choose="loss") == planned()  # as plans of earlier versions say it


def test_a_forecast_lists_the_whole_budget(reference, tmp_path, monkeypatch):
    root, _, _ = reference
    measured = trials.Measured(steps=1, training=1, decoding={"valid": 1, "test": 1})
    monkeypatch.setattr(sys.modules["augless.trials.forecast"], "measure", lambda *_: measured)
    plan = load(tmp_path)
    runs = trials.forecast(plan, root=tmp_path / "root").runs
    assert [run.job.purpose for run in runs].count("tune") == 2 * 2 * 4
    assert len(runs) == 2 * 2 * 4 + 4 * 2 and not any(run.share for run in runs)
    assert not (tmp_path / "root" / "runs").exists()
    # Those that failed, and what waits for them, are to be done.
    left = [run.job.method for run in trials.forecast(plan, root=root).runs if run.share < 1]
    assert {*left} == {"law", "matched"}


DOCUMENT = Path(__file__).parent.parent / "docs" / "trials.md"
REFERENCE = DOCUMENT.with_name("reference.md")


def test_every_key_of_a_plan_is_in_the_reference_with_its_meaning():
    rows = re.findall(r"^\| `([a-z_.A-Z]+)` \|", REFERENCE.read_text("utf-8"), flags=re.M)
    own = {f"methods.NAME.{field.name}" for field in dataclasses.fields(plans.Method)}
    keys = {*plans.KEYS} - {"small"}
    assert keys | own - {"methods.NAME.overrides"} <= {*rows}
    assert "`[small]`" in DOCUMENT.read_text("utf-8")


def test_the_plan_of_the_documents_can_be_followed(tmp_path):
    text = DOCUMENT.read_text("utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.S)
    (tmp_path / "mine.toml").write_text(block)
    plan = trials.Plan.load(str(tmp_path / "mine.toml"))
    graph.check(plan)
    assert plan.searched("exponential") and not plan.searched("linear") and plan.budget == 8
