"""Human ratings beside automatic scores on a trial's page."""

import dataclasses
import json
import random
import signal
import sys

import pytest

from augless import cli, reports, survey, trials
from augless.survey import joining
from rated import answer_all
from synthetic import PAYLOAD, cell_of, gather, page_of, plan_of, synthetic


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    counted = joining.tally
    monkeypatch.setattr(joining, "tally", lambda *a, **k: counted(*a, resamples=500, **k))


@pytest.fixture(scope="module")
def trial():
    return synthetic(plan_of(("plain", "matched", "exponential"), seeds=(1, 2)), sentences=60)


def outputs(trial, method):
    first = next(e.record for e in trial.entries if e.method == method)
    return first.hypotheses["test"]


def surveyed(folder, trial, systems, *, sources=None, rated=True, better="exponential", **options):
    """Make a survey of what methods wrote, and rate it: one system, and people, higher."""
    (corpus, *_) = trial.sources
    chosen = survey.Options(**{"items": 20, "annotators": ("anna", "ben"), **options})
    design = survey.design(
        systems, sources or trial.sources[corpus], trial.references[corpus], chosen
    )
    made = survey.Survey.create(folder, design)
    chance = random.Random(1)

    def scored(annotator, task, number):
        high = {design.systems[k] for k in task.systems} & {better, design.reference}
        return chance.choice([2, 3]) + (2 if high else 0)

    if rated:
        answer_all(made, scored)
    return made


@pytest.fixture
def made(trial, tmp_path):
    systems = {m: outputs(trial, m) for m in ("exponential", "plain")}
    others = [line[::-1] for line in systems["plain"]]
    return surveyed(tmp_path / "survey", trial, {**systems, "rival.hyp": others})


def counted(made, trial):
    return joining.counted(made, trial.plan.methods, trial.plan.baseline)


def joined(made, trial):
    return joining.beside(gather(trial), counted(made, trial))


def test_human_scores_stand_beside_automatic_ones(trial, made, tmp_path):
    gathered = joined(made, trial)
    values, table = gathered.human.values, gathered.human.table
    assert values["baseline"] == "plain", "that of the trial, not the survey's first system"
    assert table.head == ["Method", "BLEU", "fluency", "relevance"]
    assert [line.name for line in table.lines] == ["plain", "exponential", "Human"]
    plain, law, people = table.lines
    whole = survey.tally(made, baseline="plain", resamples=500)
    mean = whole.scales[0].row("exponential").mean
    assert law.cells[1].line == f"{mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f}) ▲"
    rating = values["scales"][0]["ratings"]["exponential"]
    assert rating["count"] == 40 and rating["p"] <= rating["corrected_p"] < 0.05
    assert "▲" not in plain.cells[1].line and people.cells[0].text == ""
    assert people.small == "written by people"
    cell = gathered.studies[0].row("exponential")
    assert law.cells[0].text.startswith(f"{cell.mean:.2f} ± ")
    assert "Krippendorff's ordinal alpha: fluency " in table.legend and "kappa" in table.legend
    assert "20 items by 2 annotators" in table.legend and "lower than plain" in table.legend
    assert table.remarks[:2] == [
        "Rated, but no method of this trial: rival.hyp.",
        "Not rated: matched.",
    ]
    assert not any("source that is not" in remark for remark in table.remarks)
    page = page_of(gathered, tmp_path / "r")
    assert page.open == [] and "What people said" in page.text and "written by people" in page.text
    assert f"{mean.low:.2f} to {mean.high:.2f}" in page.text and table.legend in page.text
    for text in (reports.markdown(gathered), reports.text(gathered)):
        assert "Human ratings" in text and f"{mean.value:.2f} (" in text and "rival.hyp" in text
    assert r"$\blacktriangle$" in reports.latex(gathered)
    summary = reports.summary(gathered)["human"]
    assert summary["scales"][0]["ratings"]["exponential"]["mean"] == mean.value
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert reports.summary(gather(trial))["human"] is None
    assert "What people said" not in page_of(trial, tmp_path).text


def test_texts_that_are_not_of_the_trial_are_noticed(trial, tmp_path):
    systems = {"exponential": outputs(trial, "exponential")}
    strange = [f"another {k}" for k in range(60)]
    said = counted(surveyed(tmp_path / "s", trial, systems, sources=strange), trial)
    assert said.baseline == "exponential", "the only one there is"
    remarks = joining.beside(gather(trial), said).human.table.remarks
    assert any(remark.startswith("20 of 20 items have a source that is not") for remark in remarks)
    silent = dataclasses.replace(trial, sources={})
    remarks = joining.beside(gather(silent), said).human.table.remarks
    assert not any("source that is not" in remark for remark in remarks), "nobody knows"


def test_of_several_corpora_that_of_the_rated_texts_is_shown(tmp_path):
    plan = plan_of(("plain", "exponential"), ("toy", "other"), seeds=(1, 2))
    several = synthetic(plan, sentences=30)
    systems = {"plain": outputs(several, "plain")}
    evidence = joined(surveyed(tmp_path / "s", several, systems), several)
    table = evidence.human.table
    assert table.head[1] == "BLEU"
    value = evidence.study("toy").row("plain").mean
    assert cell_of(table, "plain", "BLEU").text.startswith(f"{value:.2f} ± ")
    elsewhere = [f"another {k}" for k in range(30)]
    unknown = joined(surveyed(tmp_path / "u", several, systems, sources=elsewhere), several)
    assert unknown.human.table.head[1:3] == ["BLEU, toy", "BLEU, other"]


def test_systems_scales_and_annotators_with_any_name_stay_text(trial, tmp_path):
    nasty = PAYLOAD[:79]
    options = {
        "annotators": (nasty,),
        "scales": (survey.Scale(name=nasty, question=PAYLOAD),),
        "title": nasty,
    }
    systems = {"plain": outputs(trial, "plain"), nasty: outputs(trial, "exponential")}
    said = counted(surveyed(tmp_path / "s", trial, systems, better=nasty, **options), trial)
    gathered = joining.beside(gather(trial), said)
    page = page_of(gathered, tmp_path / "r")
    assert page.open == [] and page.tags("script") == [{}] and not page.tags("img")
    assert page.text.count(nasty) >= 2
    assert "<script>" not in reports.markdown(gathered)
    assert not {*"<>"} & {*reports.latex(gathered).split("\n", 1)[1]}
    bell = joining.beside(gathered, dataclasses.replace(said, notes=["\x1b[31m"]))
    assert "\x1b" not in reports.text(bell)


# The verb


@pytest.fixture
def called(tmp_path, trial, monkeypatch, capsys):
    """Run `augless report` on the trial in a folder; return its exit code and what it printed."""
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "plan.toml").write_text(
        'title = "t"\nrecipes = ["toy-de-en"]\nseeds = [1, 2]\ncontrol = "matched"\n'
        '[methods.plain]\n[methods.matched]\nmatches = "exponential"\n'
        '[methods.exponential]\nterms.0.weighting = "exponential"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trials, "collect", lambda *_, **__: trial)
    monkeypatch.setattr(reports, "gather", gather)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["augless", "report", "trial", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_report_takes_a_survey(called, made, tmp_path):
    code, out, err = called("--survey", "survey")
    assert code == 0 and "Human ratings" in out and "Traceback" not in err
    page = (tmp_path / "trial" / "report" / "index.html").read_text("utf-8")
    assert "What people said" in page
    code, out, _ = called("--survey", "survey", "--json")
    assert code == 0 and json.loads(out)["human"]["survey"] == made.id
    code, out, _ = called()
    assert code == 0 and "Human ratings" not in out


def test_a_survey_that_cannot_be_joined_is_a_clear_line_and_nothing_is_written(
    called, trial, tmp_path
):
    plain = outputs(trial, "plain")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    surveyed(tmp_path / "unrated", trial, {"plain": plain}, rated=False)
    surveyed(tmp_path / "strange", trial, {"plain.en": plain})
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "survey.json").write_text("{}")
    for folder, said in {
        "nowhere": "nowhere holds no survey; augless survey new makes one",
        "empty": "empty holds no survey",
        "file": "file holds no survey",
        "unrated": "nothing was rated yet in unrated; start augless survey serve",
        "strange": "no system of strange has the name of a method: plain.en, Human; methods are",
        "damaged": "is not what it should be",
    }.items():
        code, out, err = called("--survey", folder)
        lines = [line for line in err.splitlines() if line.startswith("augless: ")]
        assert code == 3 and out == "" and len(lines) == 1 and said in lines[0], (folder, err)
        assert len(err.splitlines()) <= 4 and "Traceback" not in err
        assert not (tmp_path / "trial" / "report").exists()
    assert "--systems METHOD=FILE" in called("--survey", "strange")[2]
