"""The verbs trial and report: what they refuse, say and exit with; most of it without training."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from augless import cli, trials
from augless.cli import terminal, trying, watching
from augless.recipes import reading
from augless.reports import words
from augless.trials import running, spelling
from support import alive, descendants, own_files, until

# Whose name in the package is that of its function.
forecast = sys.modules["augless.trials.forecast"]
PLAN = """
title = "tiny"
recipes = ["toy-de-en"]
seeds = [1, 2]
metric = "perplexity"
[overrides]
corpus = {name = "toy-de-en", train = 48, valid = 8, test = 10}
text.vocabulary.size = 150
model = {name = "lstm", embedding = 8, hidden = 8}
[methods.plain]
[methods.matched]
matches = "exponential"
[methods.exponential]
terms.0.weighting = {name = "exponential"}
[tune.exponential]
terms.0.weighting.radius = [0.5, 2.0]
"""
OWN = [
    *("--train", "train.de", "train.en"),
    *("--valid", "valid.de", "valid.en"),
    *("--test", "test.de", "test.en"),
]
LOST = trials.Failure(7, "the loss is not finite\n" + "and so on " * 50)


@pytest.fixture
def place(tmp_path, monkeypatch):
    own_files(tmp_path)
    (tmp_path / "tiny.toml").write_text(PLAN, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def called(place, monkeypatch, capsys):
    """Run the command line in this process; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "80")
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = {number: signal.getsignal(number) for number in numbers}

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["augless", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


# What is tried, and where


@pytest.fixture
def asked(called, monkeypatch):
    """Return the plan and the keywords that a command line asks to run."""

    calls = []

    def run(plan, **keywords):
        calls.append((plan, keywords))
        raise SystemExit

    monkeypatch.setattr(trials, "run", run)

    def ask(*arguments):
        called("trial", *arguments)
        return calls.pop()

    return ask


def test_with_own_files_keys_of_a_plan_go_to_the_plan_and_others_to_the_recipe(asked):
    changes = ("seeds=[4]", "title=Mine", "tune.linear.terms.0.weighting.c1=[1,2]")
    plan, keywords = asked(*OWN, *changes, "training.epochs=1", "overrides.model=transformer")
    assert plan.seeds == (4,) and plan.title == "Mine"
    assert plan.tune["linear"]["terms.0.weighting.c1"] == [1, 2]
    assert plan.overrides == {"training.epochs": 1, "model": "transformer"}
    assert plan.recipes["files"].overrides["corpus.languages"] == ["de", "en"]
    assert keywords["command"].startswith("augless trial --train train.de train.en")
    assert "'seeds=[4]'" in keywords["command"]


def test_files_that_name_no_languages_are_source_and_target(asked):
    files = [argument.replace(".de", ".src.txt").replace(".en", ".tgt.txt") for argument in OWN]
    plan, _ = asked(*files)
    assert plan.recipes["files"].overrides["corpus.languages"] == ["source", "target"]
    plan, _ = asked(*(argument.partition(".")[0] for argument in OWN))
    assert plan.recipes["files"].overrides["corpus.languages"] == ["source", "target"]


def test_a_plan_that_takes_the_place_of_another_is_named(asked, called, place):
    folder = place / "trials" / "tiny"
    folder.mkdir(parents=True)
    for content, said in (
        (PLAN, False),
        (PLAN.replace('"tiny"', '"Other"', 1), False),
        (PLAN.replace('["toy-de-en"]', '["toy-dialogue"]', 1), True),
        ("=", False),
    ):
        (folder / "plan.toml").write_text(content, "utf-8")
        _, _, err = called("trial", "tiny.toml")
        assert ("held a plan for other corpora, 'tiny'" in err) == said


@pytest.mark.parametrize("scale", [(), ("--quick",)])
def test_a_written_plan_is_followed_in_the_folder_of_its_files(asked, called, scale):
    _, direct = asked(*OWN, *scale)
    called("trial", *OWN, *scale, "--write-plan", "q.toml")
    plan, written = asked("q.toml")
    assert written["root"] == direct["root"] and plan.name == direct["root"].name
    assert asked(*OWN, *scale, "name=mine")[1]["root"].name.startswith("mine")
    other = [argument.replace("test.", "valid.") for argument in OWN]
    called("trial", *other, *scale, "--write-plan", "r.toml")
    assert asked("r.toml")[1]["root"] != written["root"]


def test_a_plan_that_may_have_been_edited_is_not_written_over(called, place):
    plan = ("--write-plan", "mine.toml")
    code, _, err = called("trial", *OWN, *plan)
    assert code == 0 and "training.batch = 8" in err and "(for 200 training pairs)" in err
    assert called("trial", *OWN, *plan)[0] == 0, "it says the same"
    edited = (place / "mine.toml").read_text("utf-8").replace("seeds = ", "seeds = [7] # ")
    (place / "mine.toml").write_text(edited, "utf-8")
    code, _, err = called("trial", *OWN, *plan)
    assert code == 2 and "mine.toml is there already" in err
    assert (place / "mine.toml").read_text("utf-8") == edited


def test_a_first_answer_takes_fewer_pairs_of_long_lines(asked, place):
    for split in ("train", "valid", "test"):
        for side in ("de", "en"):
            (place / f"{split}.{side}").write_text(f"{'word ' * 79}word\n" * 2000, "utf-8")
    plan, _ = asked(*OWN, "--quick")
    assert (plan.overrides["corpus.sample"], plan.overrides["corpus.held_out"]) == (375, 312)
    assert plan.title.endswith("from 375 of 2,000 training pairs")
    assert asked(*OWN, "--quick", "corpus.sample=900")[0].overrides["corpus.sample"] == 900
    assert "corpus.sample" not in asked(*OWN)[0].overrides


def test_a_first_answer_says_which_part_of_the_pairs_it_is_from(asked, called):
    plan, _ = asked(*OWN, "--quick", "corpus.sample=50")
    assert plan.title.endswith("A first answer, from 50 of 200 training pairs")
    _, _, err = called("trial", *OWN, "--quick", "corpus.sample=50")
    assert f"augless: {plan.title}\n" in err
    assert "training.batch = 8, training.patience" not in err, "they have other reasons"
    assert re.search(r"\n  .*training.batch = 8.*  \(for 50 training pairs\)\n", err)
    assert asked(*OWN, "--quick")[0].title.endswith("from all 200 training pairs")
    assert asked(*OWN, "--quick", "title=Mine")[0].title == "Mine"
    assert "answer" not in asked(*OWN)[0].title


def test_trials_on_other_files_have_other_folders(asked, place):
    root = asked(*OWN)[1]["root"]
    assert re.fullmatch(rf"{place.name}-[0-9a-f]{{6}}", root.name)
    assert root.parent == Path("trials")
    assert asked(*OWN, "training.epochs=1")[1]["root"] == root
    absolute = [argument if "-" in argument else str(place / argument) for argument in OWN]
    assert asked(*absolute)[1]["root"] == root
    others = [argument.replace("test.", "valid.") for argument in OWN]
    assert asked(*others)[1]["root"] != root
    assert asked("tiny.toml")[1]["root"] == Path("trials/tiny")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trial", *OWN, "seed=9"), "seeds = ["),
        (("trial", *OWN, "seeds=-9"), "seeds is [-9]"),
        (("trial", *OWN, "training.epoch=9"), "did you mean 'epochs'"),
        (("trial", "demo", "name=../escaped"), "names a folder"),
        (("trial", "demo", "name=/escaped"), "names a folder"),
        (("trial", "demo", "name=.."), "names a folder"),
        (("trial", "demo", "name="), "name"),
        (("trial", "demo", *OWN), "not both"),
        (("trial", "--train", "train.de", *OWN[3:]), "--train takes two files"),
        (("trial", *OWN[:6], "--test", "test.de", "--json"), "--test takes two files"),
        (("trial", *OWN, "other.de"), "take two files each"),
        (("trial", "demo", "--records", "nowhere"), "--records"),
        (("trial", "demo", "--records", "tiny.toml"), "--records"),
        (("report", "demo", "--records", "nowhere"), "--records"),
        (("trial", "tiny.toml", "--small"), "[small]"),
        (("report", "."), "it has no plan.toml"),
        (("report", "tiny.toml", "training.metric=bleu"), "write 'overrides.training.metric=bleu'"),
        (("report", "tiny.toml", "sedes=1"), "did you mean 'seeds'"),
        (("report", "tiny.toml"), "start augless trial"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(called, arguments, message):
    code, out, err = called(*arguments)
    assert code == 2 and message in err and not out and "Traceback" not in err
    assert not [*Path("trials").glob("*/runs")]


# What is said in the end


def trial_of(failures, chosen=None):
    """Return a trial of which nothing succeeded."""
    plan = trials.Plan.load("tiny.toml")
    entries = [
        trials.Entry(corpus="toy-de-en", method=method, seed=seed, record=None, failure=failure)
        for (method, seed), failure in failures.items()
    ]
    return trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen=chosen or {})


def status_of(done=0, failed=0, total=6, **changes):
    return trials.Status(done=done, failed=failed, total=total, **changes)


@pytest.fixture
def faked(called, monkeypatch):
    """Run the verb trial with a result that is given."""

    def call(trial, *arguments, status=None):
        def run(plan, *, on_status, **_):
            on_status(status or status_of())
            return trial

        monkeypatch.setattr(trials, "run", run)
        return called("trial", "tiny.toml", *arguments)

    return call


METHODS = [(method, seed) for method in ("plain", "matched", "exponential") for seed in (1, 2)]


def test_nothing_but_failures_is_a_failure_with_a_table_and_a_page(faked):
    trial = trial_of(dict.fromkeys(METHODS, LOST))
    code, out, err = faked(trial)
    assert code == 7 and "exponential" in out
    assert Path(out.strip().split("\n")[-1]).read_text("utf-8").startswith("<!")
    lines = [line for line in err.split("\n") if "failed" in line]
    assert len(lines) == 3 and "plain, seeds 1, 2, on toy-de-en failed: exit code 7" in lines[0]
    assert max(map(len, lines)) < 300 and "comparing" in err
    code, out, _ = faked(trial, "--json")
    answer = json.loads(out)
    assert code == 7 and {run["failure"] for run in answer["runs"]} == {str(LOST)}
    assert answer["sentence"] and answer["corpora"] and Path(answer["page"]).is_file()


def test_a_failed_run_is_in_the_exit_code_one_of_tuning_too(faked, monkeypatch):
    trial = trial_of({method: LOST if method == ("matched", 2) else None for method in METHODS})
    entries = [replace(e, record=None if e.failure else object()) for e in trial.entries]
    monkeypatch.setattr(trying, "present", lambda *_: None)
    assert faked(replace(trial, entries=entries))[0] == 7
    assert faked(replace(trial, entries=entries[:3]))[0] == 0
    # So is one that tuning tried, though every run of the plan is done.
    lost = trials.Attempt(values={"x": 1}, score=None, failure=trials.Failure(1, "killed"))
    choice = trials.Choice(best=None, by="loss", seeds=(0,), tried=(lost,))
    chosen = {"exponential": {"toy-de-en": choice}}
    assert faked(replace(trial, entries=entries[:3], chosen=chosen))[0] == 1


def test_runs_that_fail_in_several_ways_are_exit_1(faked):
    reasons = [trials.Failure(*pair) for pair in ((7, "a"), (1, "killed by SIGKILL"), (5, "c"))] * 2
    assert faked(trial_of(dict(zip(METHODS, reasons, strict=True))))[0] == 1


def test_combinations_that_failed_are_named(faked):
    key = "terms.0.weighting.radius"
    failed = trials.Attempt(values={key: 0.5}, score=None, failure=LOST)
    best = trials.Attempt(values={key: 2.0}, score=3.0)
    choice = trials.Choice(best=best, by="bleu", seeds=(0,), tried=(failed, best))
    chosen = {"exponential": {"toy-de-en": choice}}
    _, _, err = faked(trial_of(dict.fromkeys(METHODS), chosen))
    (line,) = [line for line in err.split("\n") if "tuning" in line]
    assert "exponential with radius=0.5, on toy-de-en failed: exit code 7" in line
    assert len(line) < 300


def test_a_stopped_trial_counts_the_same_runs_throughout(faked):
    status = status_of(done=2, failed=1, total=12)
    failures = dict.fromkeys(METHODS) | {METHODS[0]: LOST}
    code, _, err = faked(trial_of(failures), "--max-minutes", "3", status=status)
    assert code == 75 and "2 of 12 runs done, 1 failed" in err
    assert "stopped (3 minutes) with 9 of 12 runs to go" in err


def test_a_folder_is_reported_on_as_it_was_run(called, monkeypatch):
    plan = trials.Plan.load("tiny.toml", ["seeds=[5]"])
    folder = Path("elsewhere")
    folder.mkdir()
    (folder / "plan.toml").write_text(plan.as_toml(), "utf-8")
    asked = []

    def collect(plan, **keywords):
        asked.append((plan, keywords["root"]))
        return trial_of(dict.fromkeys(METHODS, LOST))

    monkeypatch.setattr(trials, "collect", collect)
    code, out, err = called("report", "elsewhere")
    assert code == 0 and asked == [(plan, folder)] and "failed: exit code 7" in err
    assert "comparing" in err and out.strip().endswith("elsewhere/report/index.html")
    called("report", "tiny.toml", "seeds=[6]")
    assert asked[1][0].seeds == (6,) and asked[1][1] == Path("trials/tiny")


# While it runs


def job_of(method="exponential", purpose="tune", **tried):
    return trials.Job("score", "toy", "toy-de-en", ("seed=1",), method, 1, purpose, tried)


def test_the_status_names_what_is_tried_and_the_metric(capsys):
    job = job_of(**{"terms.0.weighting.radius": 0.5, "terms.0.weighting.strength": 1.0})
    run = trials.Running(job=job, stage="epoch 1 of 3", score=12.345, score_name="bleu")
    status = status_of(done=1, running=[run], eta=20.0, best={"toy": (job, 12.345)})
    with terminal.Progress() as progress:
        live = watching.Live(progress, "chrf")
        live(status)
    said = capsys.readouterr().err
    assert "1 of 6 runs done, under a minute to go" in said
    assert "exponential (radius=0.5, strength=1) on toy, seed 1: epoch 1 of 3, bleu 12.3" in said
    assert "best so far on toy: exponential (radius=0.5, strength=1), chrf 12.3" in said
    with terminal.Progress() as progress:
        watching.Live(progress, "sentence-loss")(status)
    said = capsys.readouterr().err
    assert "strength=1), loss 12.35 per sentence (validation)" in said


def test_what_is_over_has_no_time_to_go(capsys):
    with terminal.Progress() as progress:
        live = watching.Live(progress, "bleu")
        live(status_of(done=5, failed=1, eta=0.0))
    assert capsys.readouterr().err == "5 of 6 runs done, 1 failed\n"


def test_what_is_wrong_with_a_run_is_said_at_once_and_once(capsys):
    with terminal.Progress() as progress:
        live = watching.Live(progress, "bleu")
        live(status_of(done=1))
        capsys.readouterr()
        live(status_of(done=2, alarm="plain on toy, seed 1: its outputs \x1b are empty"))
        said = capsys.readouterr().err
        assert said == "augless: plain on toy, seed 1: its outputs \\x1b are empty\n"
        live(status_of(done=3, alarm="plain on toy, seed 1: its outputs are empty"))
    assert "augless:" not in capsys.readouterr().err


def test_values_are_shortened_as_far_as_they_can_be_told_apart():
    one = {"terms.0.weighting.radius": 0.123456, "model.hidden": 64, "text.lowercase": True}
    assert spelling.shortened(one) == "radius=0.123, hidden=64, lowercase=True"
    two = {"terms.0.weighting.radius": 1.0, "terms.1.weighting.radius": 2.0, "terms.1.scale": 0.1}
    names = "terms.0.weighting.radius=1, terms.1.weighting.radius=2, scale=0.1"
    assert spelling.shortened(two) == names


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.01, "1 second"),
        (1.4, "1 second"),
        (59.6, "60 seconds"),
        (100, "2 minutes"),
        (5 * 3600, "5.0 hours"),
    ],
)
def test_no_time_is_said_to_be_none(seconds, said):
    assert words.duration(seconds) == said


# Beforehand


def measured(*_):
    return trials.Measured(
        steps=1, step=1.0, training=40.0, decoding={"valid": 1.0, "test": 2.0}, fixed=5.0
    )


def test_a_forecast_counts_what_every_run_costs_and_no_training_twice(called, place, monkeypatch):
    monkeypatch.setattr(forecast, "measure", measured)
    expected = trials.forecast(trials.Plan.load("tiny.toml"), root=place / "root")
    seconds = {}
    for run in expected.runs:
        key = (run.job.method, run.job.purpose)
        seconds.setdefault(key, []).append((run.seconds, run.note))
    whole, tuning = 5.0 + 40.0 + 3.0, 5.0 + 40.0 + 1.0
    assert seconds == {
        ("exponential", "tune"): [(tuning, "")] * 4,
        ("plain", "final"): [(whole, ""), (whole, "")],
        ("matched", "final"): [(whole, "after tuning"), (whole, "after tuning")],
        ("exponential", "final"): [(whole, "after tuning"), (whole, "after tuning")],
    }
    assert expected.seconds == 4 * tuning + 6 * whole

    def half(state, job):
        return 0.5 if job.method == "plain" else 0.0

    monkeypatch.setattr(running, "share", half)
    again = trials.forecast(trials.Plan.load("tiny.toml"), root=place / "root")
    plain = [run for run in again.runs if run.job.method == "plain"]
    assert [(run.seconds, run.note) for run in plain] == [(5.0 + 20.0 + 3.0, "50% trained")] * 2


def test_a_round_trip_is_asked_for_where_sides_have_no_language(called, place):
    for split in ("train", "valid", "test"):
        for name, side in (("de", "query"), ("en", "response")):
            (place / f"{split}.{side}").write_text((place / f"{split}.{name}").read_text())
    dialogue = [one.replace(".de", ".query").replace(".en", ".response") for one in OWN]
    plan = ("--rivals", "--write-plan", "plan.toml")
    code, _, err = called("trial", *OWN, *plan)
    assert code == 0 and "round trip" not in err
    code, _, err = called("trial", *dialogue, "--rivals", "--write-plan", "dialogue.toml")
    assert code == 0
    assert "no round trip of query and response" in err and "--round-trip THERE BACK" in err
    trip = ("--rivals", "--write-plan", "trip.toml", "--round-trip", "a/b", "c/d")
    code, _, err = called("trial", *dialogue, *trip)
    assert code == 0 and "round trip" not in err
    written = trials.Plan.load("trip.toml").methods
    assert written["round-trip"].overrides["augment.there"] == "a/b"
    assert "back-translation" not in written
    code, _, err = called("trial", "demo", "--round-trip", "a/b", "c/d")
    assert code == 2 and "--round-trip goes with your own files" in err
    code, _, err = called("trial", *OWN, *plan, "--round-trip", "a/b", "c/d")
    assert code == 2 and "they are de and en" in err


def test_a_dry_run_tells_combinations_apart(called, monkeypatch):
    monkeypatch.setattr(forecast, "measure", measured)
    code, out, err = called("trial", "tiny.toml", "--dry-run", "--jobs", "1")
    assert "what was prepared is kept in trials/tiny," in err
    assert [path.name for path in Path("trials/tiny").iterdir()] == ["prepared"]
    rows = [re.split(r"\s{2,}", line) for line in out.split("\n")]
    assert code == 0 and rows[1][3:] == ["tune", "radius=0.5", "46 seconds"]
    assert rows[3][3:] == ["tune", "radius=2", "46 seconds"]
    assert len({*map(tuple, rows[1:11])}) == 10 and "10 runs, 1 at once: about 8 minutes" in out
    assert not [line for line in out.split("\n") if "final" in line and "radius" in line]
    code, out, _ = called("trial", "tiny.toml", "--dry-run", "--json")
    first, _, second = json.loads(out)["runs"][:3]
    assert dict(map(reading.parted, first["tried"])) == {"terms.0.weighting.radius": 0.5}
    assert dict(map(reading.parted, second["tried"])) == {"terms.0.weighting.radius": 2.0}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ([0.0, 0.0], "2 runs, 1 at once: all done"),
        ([None, None], "2 runs, 1 at once: 2 could not be measured"),
        ([None, 30.0], "2 runs, 1 at once: about 30 seconds, 1 could not be measured"),
        ([0.0, 30.0, 0.0], "1 of 3 runs to go, 1 at once: about 30 seconds"),
    ],
)
def test_what_could_not_be_measured_is_not_done(seconds, said):
    runs = [forecast.Expected(job_of(), number, 0.0, "why") for number in seconds]
    assert watching.listed(trials.Forecast(runs, 1, {})).split("\n")[-1] == said


def test_two_methods_that_come_to_one_run_are_counted_once(place, monkeypatch):
    monkeypatch.setattr(forecast, "measure", measured)
    (place / "twin.toml").write_text(PLAN.split("[methods.matched]")[0] + "[methods.twin]\n")
    expected = trials.forecast(trials.Plan.load("twin.toml"), root=place / "root")
    assert [run.seconds for run in expected.runs] == [48.0, 48.0, 0.0, 0.0]


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_preparing_at_once_and_nothing_is_left(tmp_path, number):
    own_files(tmp_path, train=150_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "augless", "trial", *OWN, "--out", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Else ignored where the tests run in a shell's background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(lambda: [*tmp_path.glob("out/*/prepared/.*")])
    tree = descendants(process.pid)
    process.send_signal(number)
    rest = process.communicate()[1]
    assert process.returncode == 75 and f"stopped ({number.name})" in rest, rest
    assert tree and not alive(tree)
    assert not [*tmp_path.glob("out/*/prepared/*")]
    (log,) = tmp_path.glob("out/*/logs/prepare-*.log")
    assert "writing test" not in log.read_text()


def test_signals_are_noted_from_the_first_look_to_the_end_of_the_work(capfd):
    before = signal.getsignal(signal.SIGTERM)

    def end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        with terminal.Stop() as stop:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            assert not stop()
            signal.raise_signal(signal.SIGTERM)
            assert stop() and stop.by == "SIGTERM"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "saving after this step" in capfd.readouterr().err
