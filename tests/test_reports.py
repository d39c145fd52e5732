import base64
import csv
import dataclasses
import hashlib
import io
import itertools
import json
import re
import xml.etree.ElementTree

import numpy as np
import pytest

from augless import polar, reports, runs, trials
from augless.reports import (
    answers,
    buckets,
    charts,
    evidence,
    examples,
    figures,
    naming,
    pages,
    tables,
    words,
)
from augless.trials import facts
from synthetic import (
    METHODS,
    PAYLOAD,
    SENTENCES,
    Reader,
    cell_of,
    contrast,
    gather,
    gathered_of,
    hostile,
    page_of,
    plan_of,
    recipe_of,
    row_of,
    scored_otherwise,
    study_of,
    synthetic,
    texts_of,
)


@pytest.fixture(scope="module")
def trial():
    return synthetic()


@pytest.fixture(scope="module")
def small():
    """Two corpora, two methods, a failure: quick to report."""
    plan = plan_of(("plain", "matched", "exponential"), ("toy", "other"), seeds=(1, 2))
    return gather(synthetic(plan, failed={("exponential", 2)}, sentences=40))


@pytest.fixture(scope="module")
def gathered(trial):
    return gather(trial)


@pytest.fixture(scope="module")
def page(gathered, tmp_path_factory):
    return reports.report(gathered, tmp_path_factory.mktemp("page")).read_text("utf-8")


def test_the_page_says_what_could_have_been_seen_and_by_what_models_were_chosen(
    trial, gathered, tmp_path
):
    page = page_of(gathered, tmp_path).text
    assert "Minimum detectable effect: the smallest true difference that four trials of" in page
    assert "To see 0.5 BLEU, " in page and "could have seen" not in page
    kept = (
        "The model of each run was chosen by {} on the validation set.\nMethods are compared by {}."
    )
    assert kept.format("loss", "BLEU") in page
    entries = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(
                entry.record, recipe={**entry.record.recipe, "training.metric": "bleu"}
            ),
        )
        for entry in trial.entries
    ]
    again = dataclasses.replace(trial.plan, metric="chrf")
    changed = dataclasses.replace(trial, entries=entries, plan=again)
    page = page_of(changed, tmp_path).text
    assert kept.format("bleu", "chrF") in page


def test_the_page_shows_all_that_was_asked_for(page, trial, gathered):
    text = Reader(page).text
    answer = answers.of(gathered)
    assert answer.sentence in text and all(line in text for line in answer.numbers)
    for heading in ("Learning", "Weights over time", "Losses and their weights", "Examples"):
        assert heading in text
    record = trial.entries[0].record
    for entry in trial.entries:
        assert entry.record.command in text and entry.record.id in text
    assert record.corpus in text and record.versions["torch"] in text
    assert record.scores["test"]["bleu"].signature in text
    assert "27.98" in text and "1, 2, 3" in text
    assert "← chosen" in text and "terms.0.weighting.radius = 1" in text


def test_methods_are_explained_where_they_are_first_named(page, gathered):
    described = naming.described(gathered)
    assert described["plain"] == "ordinary training: every sample has the weight 1"
    assert "mean weight that exponential gives the batch" in described["matched"]
    assert "as the paper prints them" in described["linear"]
    assert "up to 2 times as much" in described["exponential"]
    before = Reader(page.split("</header>")[0]).text
    for method, said in described.items():
        assert f"{method}{said}" in before and f"{method}: {said}" in reports.text(gathered)


@pytest.mark.parametrize("name", polar.WEIGHTINGS)
def test_every_weighting_has_words(name):
    said = naming.weighting(facts.Component(name, {"of.name": "point", "strength": 3.0}))
    assert said != f"weighs samples by {name}" and "{" not in said
    assert "4 times" in said or "4" not in said


def test_a_weighting_of_a_later_version_is_named():
    assert naming.weighting(facts.Component("{x}")) == "weighs samples by {x}"


def test_the_page_says_how_strong_each_treatment_was(page, gathered):
    study = gathered.studies[0]
    strong = study.row("linear").treatment
    assert strong.spread == pytest.approx(0.2 / 1.35) and strong.within == 0.25
    assert strong.shares == (1.0,) and strong.clipped == 0.125
    assert 0.97 < strong.effective < 1
    assert study.row("plain").treatment.spread is None, "it has no weights"
    table = tables.treatments(study)
    assert table.head == [
        "Method",
        "effect",
        "spread of weights",
        "effective sample size",
        "spread within batches",
        "clipped steps",
    ]
    effect, *rest = texts_of(next(line for line in table.lines if line.name == "linear"))
    assert rest == ["14.8 %", "98.0 %", "25.0 %", "12.5 %"]
    shown = cell_of(tables.results(gathered, study), "linear", "against plain")
    assert effect == f"{shown.text} ({shown.small[0]})"
    for text in (Reader(page).text, reports.markdown(gathered), reports.latex(gathered)):
        assert "effective sample size" in text and "14.8" in text
    lines = list(csv.DictReader(io.StringIO(reports.csv(gathered))))
    row = next(r for r in lines if (r["method"], r["metric"]) == ("linear", "bleu"))
    assert float(row["spread"]) == strong.spread and float(row["clipped"]) == 0.125
    assert float(row["gradient_share_1"]) == 1.0 and "gradient_share_2" not in row
    first = study.row("linear").records[1]
    silent = [dataclasses.replace(e, clipped=None, terms=(runs.TermLog(),)) for e in first.history]
    none = evidence.treatment_of([dataclasses.replace(first, history=tuple(silent))])
    assert not none.known and (none.spread, none.shares, none.clipped) == (None, (None,), None)


def test_a_spreadsheet_has_the_share_of_every_term_in_the_gradient(gathered):
    study = gathered.studies[0]
    shared = evidence.Treatment(shares=(0.75, 0.25), clipped=0.5)
    rows = [dataclasses.replace(r, treatment=shared) if r.weighs else r for r in study.rows]
    two = dataclasses.replace(study, rows=rows)
    written = reports.csv(dataclasses.replace(gathered, studies=(two,)))
    lines = {row["method"]: row for row in csv.DictReader(io.StringIO(written))}
    names = ("gradient_share_1", "gradient_share_2", "clipped")
    assert [lines["linear"][name] for name in names] == ["0.75", "0.25", "0.5"]
    assert [lines["plain"][name] for name in names] == ["1.0", "", "0.125"]


def test_the_page_is_one_file_without_network_whose_one_script_is_ours(page):
    read = Reader(page)
    assert read.open == []
    assert read.tags("script") == [{}] and not read.tags("img") and not read.tags("iframe")
    assert [link["href"] for link in read.tags("link")] == ["data:,"]
    assert "http://" not in page and "https://" not in page and "@import" not in page
    assert "url(" not in page
    assert len(page.encode()) < 2_000_000
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.replace("&#39;", "'")


def test_commands_are_in_a_box_with_a_button(trial, tmp_path):
    changed = dataclasses.replace(trial, command="augless trial demo 'a b'")
    read = page_of(changed, tmp_path)
    assert len(read.tags("button")) >= 1
    assert all(button["type"] == "button" for button in read.tags("button"))
    assert "augless trial demo 'a b'" in read.text


def test_a_learning_rate_at_the_edge_of_those_tried_is_a_caution(trial, tmp_path):
    rate = "training.optimizer.rate"
    (corpus,) = trial.plan.recipes

    def cautions(chosen):
        choices = {}
        for method, best in chosen.items():
            tried = [trials.Attempt(values={rate: r}, score=r) for r in (0.1, 0.2, 0.3)]
            best = next(one for one in tried if one.values[rate] == best)
            choices[method] = {
                corpus: trials.Choice(best=best, by="bleu", seeds=(0,), tried=tuple(tried))
            }
        tune = {method: {rate: [0.1, 0.3, 0.2]} for method in chosen}
        plan = dataclasses.replace(trial.plan, tune=tune, budget=0)
        changed = dataclasses.replace(trial, plan=plan, chosen=choices)
        return changed, [one for one in answers.of(gather(changed)).general if "tried" in one]

    changed, said = cautions({"plain": 0.3, "linear": 0.3, "uniform": 0.1, "exponential": 0.2})
    assert said == [
        "The best learning rate is the largest tried, for plain and linear: try larger ones.",
        "The best learning rate is the smallest tried, for uniform: try smaller ones.",
    ]
    page, text = page_of(changed, tmp_path).text, reports.text(gather(changed))
    assert all(one in page and f"- {one}" in text for one in said)
    assert cautions({"plain": 0.2})[1] == []


def test_methods_that_have_not_run_are_explained_from_the_plan(tmp_path):
    law = {"terms.0.weighting": {"name": "exponential", "normalise": "running-mean"}}
    methods = {
        "plain": trials.Method(),
        "shuffled": trials.Method(matches="exponential", kind="shuffled"),
        "exponential": trials.Method(overrides=law),
    }
    plan = plan_of(methods, seeds=(1, 2), control="shuffled", tune={})
    for waiting in ([*methods], ["shuffled", "exponential"]):
        given = gather(synthetic(plan, waiting=waiting, sentences=20))
        said = naming.described(given)
        assert said["plain"].startswith("ordinary training")
        assert "exponential" in said["shuffled"] and said["shuffled"] != said["exponential"]
        read = page_of(given, tmp_path).text
        assert "not run yet" not in read
        assert "terms.0.weighting.name = shuffled" in read
        assert "terms.0.weighting.of.normalise = running-mean" in read


def test_page_and_text_say_what_a_sample_is(trial, tmp_path):
    plan = dataclasses.replace(trial.plan, overrides={"corpus.sample": 1200})
    changed = dataclasses.replace(trial, plan=plan)
    assert "1,200 training pairs at most, a sample" in page_of(changed, tmp_path).text
    assert reports.text(gather(trial)).startswith(f"{trial.plan.title}\n")


def test_the_forest_plot_is_a_file_of_its_own(small, gathered, tmp_path):
    for one, names in ((small, {"toy", "other", "mean of 2"}), (gathered, {"linear", "uniform"})):
        reports.report(one, tmp_path)
        drawn = xml.etree.ElementTree.parse(tmp_path / "forest.svg").getroot()
        assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
        words = {"".join(e.itertext()).strip(" ▲▼") for e in drawn.iter() if e.tag.endswith("text")}
        assert names <= words, words
    reports.report(gather(synthetic(plan_of(("plain",), seeds=(1,)), sentences=20)), tmp_path)
    assert not (tmp_path / "forest.svg").exists(), "a plot of another trial"


def test_figures_and_tables_have_the_same_marks():
    rows = [
        row_of("exponential", baseline=contrast(-1.0)),
        row_of("sure", baseline=contrast()),
        row_of("unsure", baseline=contrast(0.1, p=0.6)),
    ]
    evidence = gathered_of(study_of(*rows))
    table = tables.results(evidence, evidence.studies[0])
    marks = [cell_of(table, row.method, "against plain").text[-1] for row in rows]
    panel = figures.differences(evidence.studies[0])[0]
    drawn = [dot.style.split()[1] for dot in panel.dots if dot.style.startswith("mean")]
    assert marks == ["▼", "▲", "0"] and drawn == ["claimed", "claimed", "open"]
    assert [label.text[-1] for label in panel.labels if label.text[-1] in {*"▲▼"}] == ["▼", "▲"]
    minus = words.MINUS
    assert f"{minus}1.00 ({minus}1.50 to {minus}0.50) ▼; sure +0.80" in panel.description


def test_with_one_seed_nothing_is_claimed_of_a_method(tmp_path):
    trial = synthetic(
        plan_of(("plain", "linear"), seeds=(1,)), skills={"linear": 0.2}, sentences=60
    )
    row = gather(trial).studies[0].row("linear")
    assert row.baseline.corrected_p < 0.01 and not row.baseline.claimed
    page = page_of(trial, tmp_path).text
    for text in (page, reports.text(gather(trial))):
        assert "deviation over seeds" not in text and "▲" not in text
        assert "One seed says nothing about a method" in text
        assert "There is no answer about the method: one seed says nothing about it." in text


def test_outputs_that_are_alike_are_known_by_their_statistics(trial):
    entries = [e for e in trial.entries if e.method == "plain"]
    entries += [dataclasses.replace(e, method="linear") for e in entries]
    plan = plan_of(("plain", "linear"))
    for metric, alike in (("bleu", True), ("chrf", False)):
        if not alike:
            entries[-1] = next(e for e in trial.entries if (e.method, e.seed) == ("linear", 3))
        same = dataclasses.replace(
            trial, plan=dataclasses.replace(plan, metric=metric), entries=entries
        )
        row = gather(same).studies[0].row("linear")
        assert row.baseline.alike == alike


def test_a_method_that_changes_more_than_weights_is_known_by_its_recipe(small):
    entries = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(
                entry.record, recipe={**entry.record.recipe, "terms.1.loss.name": "wasserstein"}
            ),
        )
        if entry.method == "exponential" and entry.record
        else entry
        for entry in small.trial.entries
    ]
    differing = {}
    for trial in (small.trial, dataclasses.replace(small.trial, entries=entries)):
        rows = gather(trial).studies[0].rows
        differing[trial is small.trial] = [row.differs_elsewhere for row in rows]
    assert differing == {True: [False, False, False], False: [False, False, True]}


def test_the_page_can_be_read_without_seeing_it(page):
    read = Reader(page)
    assert len(read.tags("h1")) == 1
    assert all("scope" in cell for cell in read.tags("th"))
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len({*ids})
    pictures = read.tags("svg")
    assert len(pictures) >= 14
    for picture in pictures:
        assert picture["role"] == "img"
        assert all(name in ids for name in picture["aria-labelledby"].split())


@pytest.mark.parametrize("corpora", [("one",), ("one", "two"), ("one", "two", "three")])
def test_headings_skip_no_level_and_regions_have_names_of_their_own(corpora, tmp_path):
    trial = synthetic(plan_of(("plain", "exponential"), corpora, seeds=(1,)), sentences=20)
    read = page_of(trial, tmp_path)
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert len(levels) > 10
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    names = [e["aria-label"] for _, e in read.elements if e.get("role") == "region"]
    assert len(names) == len({*names}) >= 4


def test_notes_on_many_corpora_are_folded(small, tmp_path):
    names = tuple("abcdef")
    trial = synthetic(plan_of(("plain", "linear"), names, seeds=(1,)), sentences=20)
    trial = dataclasses.replace(trial, notes=("one of all",))
    answer = answers.of(gather(trial))
    assert len(answer.by_corpus) > pages.NOTES_SHOWN and len(answer.general) == 1
    page = reports.report(gather(trial), tmp_path).read_text("utf-8")
    header = page.split("</header>")[0]
    header = header.split("</dl>")[1]
    before, inside = header.split("<details>")
    assert f"{len(answer.by_corpus)} notes, corpus by corpus" in inside
    assert before.count("<li>") == 1 and inside.count("<li>") == len(answer.by_corpus)
    assert all(f"- {note}" in reports.text(gather(trial)) for note in answer.notes)
    page = reports.report(small, tmp_path).read_text("utf-8")
    assert "<details>" not in page.split("</header>")[0], "few are not folded"


def test_the_same_trial_gives_the_same_bytes(gathered, page, tmp_path):
    assert reports.report(gathered, tmp_path / "again").read_text("utf-8") == page
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert names == ["forest.svg", "index.html", "table.csv", "table.md", "table.tex", "table.txt"]


def test_what_comes_from_outside_is_text_and_never_markup(tmp_path):
    content = reports.report(gather(hostile()), tmp_path).read_text("utf-8")
    read = Reader(content)
    assert read.tags("script") == [{}] and not read.tags("img")
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert "49" not in re.sub(r"[\d.]{3,}", "", read.text) or "{{ 7*7 }}" in read.text
    assert read.text.count(PAYLOAD) > 20
    assert content.count("<style>") == content.count("</style>") == 1
    assert read.open == []


def test_terminals_latex_and_spreadsheets_get_no_commands(tmp_path):
    trial = hostile()
    plan = dataclasses.replace(trial.plan, title="x")
    methods = {"plain": trials.Method(), "=1+1\x1b[31m": trials.Method()}
    plan = dataclasses.replace(plan, methods=methods, primary=None)
    entries = [
        dataclasses.replace(e, method="=1+1\x1b[31m" if e.method == PAYLOAD else e.method)
        for e in trial.entries
        if e.method in ("plain", PAYLOAD)
    ]
    changed = dataclasses.replace(trial, plan=plan, entries=entries)
    assert "\x1b" not in reports.text(gather(changed))
    assert "'=1+1" in reports.csv(gather(changed))
    latex = reports.latex(gather(trial))
    assert r"bad \& \textbar{} \$\_\{x\}" in latex
    assert r"\textless{}script\textgreater{}" in latex
    body = latex.split("\n", 1)[1]
    assert not {*"<>|"} & {*body}, "which LaTeX prints as other characters"
    assert r"\{\{ 7*7 \}\}" in latex
    lines = reports.markdown(gather(trial)).splitlines()
    row = next(line for line in lines if line.startswith("| bad"))
    assert r"bad \& \| \$\_\{x\}" in row and "<script>" not in reports.markdown(gather(trial))


def test_the_table_is_the_same_in_every_format(trial, gathered, small):
    lines = list(csv.DictReader(io.StringIO(reports.csv(gathered))))
    assert {row["metric"] for row in lines} == {*trial.plan.metrics}
    assert all(row["difference_baseline"] == "" for row in lines if row["metric"] != "bleu")
    lines = [row for row in lines if row["metric"] == "bleu"]
    assert [row["method"] for row in lines] == list(METHODS)
    plain, linear = lines[0], lines[2]
    assert plain["difference_baseline"] == "" and plain["published"] == "27.98"
    gap = float(linear["mean"]) - float(plain["mean"])
    assert float(linear["difference_baseline"]) == pytest.approx(gap)
    shown = f"{gap:+.2f}".replace("-", words.MINUS)
    assert shown in reports.markdown(gathered) and shown in reports.text(gathered)
    assert shown.replace(words.MINUS, "$-$") in reports.latex(gathered)
    assert reports.latex(small).count(r"\toprule") == 9, "one of all, and four of each corpus"
    assert "seed 2: exit code 7" in reports.text(small)


def test_every_format_has_what_the_page_has(small, trial, gathered):
    lines = list(csv.DictReader(io.StringIO(reports.csv(gathered))))
    row = next(r for r in lines if (r["method"], r["metric"]) == ("linear", "chrf"))
    record = next(e.record for e in trial.entries if (e.method, e.seed) == ("linear", 2))
    assert float(row["seed_2"]) == record.value("test", "chrf")
    row = next(r for r in lines if (r["method"], r["metric"]) == ("exponential", "bleu"))
    contrasts = gathered.studies[0].row("exponential")
    assert float(row["corrected_p_baseline"]) == contrasts.baseline.corrected_p
    assert float(row["corrected_p_control"]) == contrasts.control.corrected_p
    assert float(row["low_baseline"]) == contrasts.baseline.low
    assert row["tuning_seconds"] == "300.0"
    chance = f"{answers.probability(contrasts.baseline)})"
    for text in (reports.markdown(gathered), reports.latex(gathered), reports.text(gathered)):
        plain = " ".join(text.replace(r"\textless{}", "<").replace("\\<", "<").split())
        assert "Against plain: matched (" in plain and chance in plain
        assert "Against matched: linear (" in plain
        assert "corrected by Holm but for the primary contrast" in plain
    for text in (
        reports.markdown(small),
        reports.latex(small),
        reports.text(small),
    ):
        assert text.count("exponential, seed 2: exit code 7: the loss is not finite") == 2


def test_a_mean_over_some_seeds_does_not_look_whole(small, tmp_path):
    whole = tables.overview(small)
    partial, matched = (cell_of(whole, name, "toy") for name in ("exponential", "matched"))
    assert partial.line.endswith(" [1 of 2 seeds]") and partial.small == ("1 of 2 seeds",)
    assert matched.small == () and "[" not in matched.line
    page = page_of(small, tmp_path).text
    assert "1 of 2 seeds" in page and "[1 of 2 seeds]" in reports.markdown(small).replace("\\", "")


def test_several_corpora_have_a_table_of_all(small, tmp_path):
    whole = tables.overview(small)
    assert whole.head == ["Method", "toy", "other", "mean"]
    assert [line.name for line in whole.lines] == ["plain", "matched", "exponential"]
    assert cell_of(whole, "plain", "toy").line.endswith("(27.98)")
    assert whole.legend in page_of(small, tmp_path).text


def test_every_row_of_a_markdown_table_has_as_many_cells(gathered):
    for table in reports.markdown(gathered).split("### ")[1:]:
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len(lines) > len(METHODS) and len({line.count("|") for line in lines}) == 1


def test_numbers_of_the_paper_are_everywhere(tmp_path):
    methods = {
        "plain": trials.Method(published={"toy": {"bleu": 28.7, "perplexity": 7.1}}),
        "linear": trials.Method(),
    }
    only = {"CE+MLM": {"toy": {"bleu": 28.5}}, "Human": {"toy": {"distinct-1": 0.94}}}
    names = ("bleu", "perplexity", "distinct-1")
    plan = plan_of(methods, ("toy",), seeds=(1,), published_only=only, metrics=names)
    gathered = gather(synthetic(plan, sentences=20))
    shown = tables.results(gathered, gathered.studies[0])
    printed = [cell_of(shown, line.name, "in the paper").text for line in shown.lines]
    assert printed == ["28.70", "", "28.50"]
    scores = tables.scores(gathered, gathered.studies[0])
    assert [line.name for line in scores.lines] == ["plain", "linear", "CE+MLM", "Human"]
    assert [cell.small for cell in scores.lines[0].cells] == [("(28.70)",), ("(7.10)",), ()]
    assert [cell.line for cell in scores.lines[3].cells] == ["", "", "(0.940)"]
    page = page_of(gathered, tmp_path).text
    for text in (page, reports.markdown(gathered), reports.latex(gathered)):
        assert "Human" in text and "(0.940)" in text and "(7.10)" in text
    lines = list(csv.DictReader(io.StringIO(reports.csv(gathered))))
    published = {(row["method"], row["metric"]): row["published"] for row in lines}
    assert published["plain", "perplexity"] == "7.1" and published["Human", "distinct-1"] == "0.94"


def test_the_summary_is_json_and_has_all_numbers(gathered, small):
    values = reports.summary(small)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["sentence"] and values["metric"] == "bleu" and values["baseline"] == "plain"
    assert {*values["corpora"]} == {"toy", "other"}
    assert values["corpora"]["toy"]["exponential"]["failures"] == {
        "2": "exit code 7: the loss is not finite"
    }
    values = reports.summary(gathered)
    row = values["corpora"]["toy-de-en"]["linear"]
    cell = gathered.studies[0].row("linear")
    assert row["mean"] == cell.mean and row["deviation"] == cell.deviation
    assert {*row["scores"]} == {"bleu", "chrf", "perplexity"}
    test = cell.baseline
    names = ("low", "high", "p", "corrected_p", "minimum_detectable_effect", "test")
    assert [row["baseline"][name] for name in names] == [getattr(test, name) for name in names]
    assert row["baseline"]["difference"] == test.estimate
    assert row["baseline"]["claimed"] == cell.baseline.claimed
    assert (
        values["primary"] == "exponential"
        and values["overall"]["exponential"]["baseline"]["primary"]
    )
    assert values["overall"]["linear"]["baseline"]["low"] == test.low
    assert values["seeds_needed"]["toy-de-en"]["effect"] == 0.5
    assert row["control"]["name"] == "matched" and not row["control"]["matches"]
    assert row["control"]["difference"] == cell.control.estimate
    assert values["corpora"]["toy-de-en"]["exponential"]["control"]["matches"]
    assert values["corpora"]["toy-de-en"]["plain"]["published"] == 27.98
    assert row["seconds"] and row["samples"] and row["failures"] == {}
    assert row["tuning_seconds"] is None
    assert values["corpora"]["toy-de-en"]["exponential"]["tuning_seconds"] == 300
    assert row["scores"]["bleu"]["seeds"] == row["seeds"] and len(row["seeds"]) == 3


def test_the_terminal_has_the_notes_of_the_page(small, tmp_path):
    notes = answers.of(small).notes
    page = page_of(small, tmp_path).text
    assert notes and all(note in page and f"- {note}" in reports.text(small) for note in notes)


def test_warnings_and_notes_of_the_trial_are_shown_once(trial, tmp_path):
    entries = [
        dataclasses.replace(entry, record=scored_otherwise(entry.record))
        if entry.method == "linear"
        else entry
        for entry in trial.entries
        if (entry.method, entry.seed) != ("uniform", 3)
    ]
    entries.append(
        trials.Entry(corpus="toy-de-en", method="uniform", seed=3, record=None, failure=None)
    )
    notes = ("toy-de-en is not on this machine.",)
    changed = dataclasses.replace(trial, entries=entries, notes=notes)
    evidence = gather(changed)
    assert evidence.studies[0].row("linear").baseline is None
    page = page_of(changed, tmp_path).text
    for text in (page, reports.text(gather(changed))):
        assert text.count("toy-de-en is not on this machine.") == 1
        assert text.count("bleu on toy-de-en was scored in several ways") == 1
        assert text.count("1 of 18 runs is not done yet") == 1
    (warning,) = evidence.summary.warnings
    assert warning.startswith("bleu on toy-de-en was scored in several ways")


def test_methods_that_were_scored_otherwise_are_not_compared(tmp_path):
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1, 2)), sentences=20)
    entries = [
        dataclasses.replace(e, record=scored_otherwise(e.record)) if e.method == "linear" else e
        for e in trial.entries
    ]
    changed = dataclasses.replace(trial, entries=entries)
    page = page_of(changed, tmp_path).text
    assert "There is no answer: no method can be compared with plain." in page


def test_the_raw_files_are_named_with_their_checksums(small, tmp_path):
    page = page_of(small, tmp_path).text
    assert "1 files" not in page and "1 file and its SHA-256" in page
    assert "train.<de>" in page and "5a" * 32 in page


def test_nothing_is_compared_again_once_evidence_is_gathered(small, tmp_path, monkeypatch):
    monkeypatch.delattr(trials, "summarise")
    reports.report(small, tmp_path)
    assert reports.text(small) and reports.summary(small)


def test_columns_name_the_control_and_only_its_method_learns_from_it(gathered, page):
    assert "against matched" in tables.results(gathered, gathered.studies[0]).head
    lead = Reader(page).text.split("The numbers")[1].split("BLEU, difference")[0]
    assert "due to which samples are preferred: matched for exponential." in lead
    assert "It keeps what differs between batches: 75% of the spread at most." in lead
    assert "No control matches linear and uniform: a difference from matched may there" in lead
    methods = {"plain": trials.Method(), "linear": trials.Method(), "uniform": trials.Method()}
    methods |= {f"as {m}": trials.Method(matches=m) for m in ("linear", "uniform")}
    evidence = gather(synthetic(plan_of(methods, seeds=(1,)), sentences=20))
    several = tables.results(evidence, evidence.studies[0])
    controls = [cell_of(several, m, "against its control") for m in ("linear", "uniform")]
    assert [cell.small[0] for cell in controls] == ["from as linear", "from as uniform"]


def test_no_text_says_that_a_control_prefers_no_sample(page):
    assert not re.search("prefers? no samples?", Reader(page).text)


def test_nothing_has_no_sign():
    minus = words.MINUS
    assert words.fixed(-0.001, 2) == "0.00" and words.fixed(-0.01, 2) == f"{minus}0.01"
    assert [words.signed(v, 1) for v in (0.04, 0.1, -0.1)] == ["0.0", "+0.1", f"{minus}0.1"]
    row = row_of("linear", baseline=contrast(-0.001, p=0.9))
    evidence = gathered_of(study_of(row))
    shown = cell_of(tables.results(evidence, evidence.studies[0]), "linear", "against plain")
    assert shown.text == "0.00"


def test_the_page_says_what_was_tuned_and_what_was_not(tmp_path):
    names = ("plain", "matched", "linear", "exponential")
    plan = plan_of(names, seeds=(1,))
    page = reports.report(gather(synthetic(plan, sentences=20)), tmp_path).read_text("utf-8")
    lead = Reader(page).text.split("What each changes in the recipe of plain.")[1]
    assert lead.strip().startswith("Hyper-parameters were chosen by bleu on the validation set, ")
    assert "mean of 2 seeds" in lead and "each run was chosen by loss on the validation" in lead
    assert "with seeds 0 and 2, which no final run has, and 6 combinations each of exp" in lead
    assert "matched takes what was chosen for exponential." in lead
    assert "Nothing was tuned for plain and linear." in lead
    assert "same budget" not in lead
    tune = {"exponential": {"terms.0.weighting.radius": [0.5]}}
    plan = plan_of(("plain", "exponential"), seeds=(1,), tune=tune)
    trial = dataclasses.replace(synthetic(plan_of(names, seeds=(1,)), sentences=20), plan=plan)
    trial = dataclasses.replace(
        trial, chosen={}, entries=[e for e in trial.entries if e.method in plan.methods]
    )
    page = reports.report(gather(trial), tmp_path).read_text("utf-8")
    assert "and 1 combination each of exponential." in Reader(page).text


def test_what_was_tried_is_listed_best_first_with_its_cost(page, trial, tmp_path):
    text = Reader(page).text
    listed = text.split("Chosen for exponential")[1].split("To repeat it")[0]
    scores = [float(score) for score in re.findall(r"3[12]\.\d\d", listed)]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True)
    assert listed.index("exit code 7") > listed.index(f"{scores[-1]:.2f}")
    assert "the best on the validation set first: 300 seconds of training." in listed
    minutes = sum(e.record.result.seconds for e in trial.entries) / 60
    assert f"{minutes:.0f} minutes of training the final runs" in text
    assert (
        "5 minutes of tuning" in text and "Tuning took another 300 seconds for exponential." in text
    )
    choice = trial.chosen["exponential"]["toy-de-en"]
    old = tuple(dataclasses.replace(one, seconds=None) for one in choice.tried)
    chosen = {"exponential": {"toy-de-en": dataclasses.replace(choice, tried=old)}}
    facts = page_of(dataclasses.replace(trial, chosen=chosen), tmp_path).text
    assert "of training the final runs" in facts and "of tuning" not in facts, "nobody knows"


def test_the_page_says_how_to_repeat_all_of_it(trial, tmp_path):
    command = "augless trial synthetic seeds=[1,2,3]"
    changed = dataclasses.replace(trial, command=command)
    page = page_of(changed, tmp_path).text
    repeat = page.split("To repeat it")[1]
    assert command in repeat and trial.plan.as_toml() in repeat
    assert "All of it" not in page and "may be less than was trained" in repeat
    assert "What tuning tried is under “The methods”." in repeat
    assert "exit code 7" in page.split("Chosen for exponential")[1], "the run that failed"
    for name, version in trial.entries[0].record.versions.items():
        assert name in repeat and version in repeat


def test_a_watched_test_set_is_not_called_tested_once(trial, gathered, tmp_path):
    def watched(record):
        history = [
            dataclasses.replace(e, watched={"test": {"bleu": 1.0}}) if e.scores else e
            for e in record.history
        ]
        return dataclasses.replace(record, history=tuple(history))

    entries = [dataclasses.replace(e, record=watched(e.record)) for e in trial.entries]
    changed = dataclasses.replace(trial, entries=entries)
    page = page_of(changed, tmp_path).text
    assert "same sentences." in page and "scored at every epoch, which chose nothing" in page
    page = page_of(gathered, tmp_path).text
    assert "same sentences, once." in page and "scored at every epoch" not in page


@pytest.mark.parametrize(
    ("view", "first"), [("table", "numbers"), ("samples", "learning"), ("sweep", "sweep")]
)
def test_what_the_plan_looks_at_comes_first(view, first, tmp_path):
    methods = {"plain": trials.Method(), "linear": trials.Method(series="C1", at=1.0)}
    trial = synthetic(plan_of(methods, seeds=(1,), view=view), sentences=20)
    page = page_of(trial, tmp_path)
    sections = [section["aria-labelledby"] for section in page.tags("section")]
    assert sections[0] == first and len({*sections}) == len(sections)


def test_seconds_are_explained(gathered, page):
    assert "Seconds are of training alone, without tuning" in Reader(page).text
    assert "Seconds are of training alone, without tuning" in reports.markdown(gathered)


@pytest.mark.parametrize("waiting", [("plain",), ("exponential", "matched"), tuple(METHODS)])
def test_an_unfinished_trial_has_a_page(waiting, tmp_path):
    plan = plan_of(("plain", "matched", "exponential"), seeds=(1,))
    trial = synthetic(plan, waiting=waiting, sentences=20)
    text = page_of(trial, tmp_path).text
    assert "There is no answer" in text


def test_without_outputs_and_without_weights_there_is_still_a_page(tmp_path):
    plan = plan_of(("plain", "back-translation"), seeds=(1, 2))
    trial = synthetic(plan, sentences=30, written=False)
    text = page_of(trial, tmp_path).text
    assert "not on this machine" in text and "No method weighs its samples." in text


def test_a_metric_that_is_no_sum_has_a_page_but_no_test(tmp_path):
    names = ("corpus-distinct-1", "bleu")
    plan = plan_of(("plain", "linear"), seeds=(1, 2), metric=names[0], metrics=names)
    text = page_of(synthetic(plan, sentences=20), tmp_path).text
    assert "is no sum over sentences" in text


def test_a_sweep_is_drawn_over_its_knob(tmp_path):
    names = ("plain", "a", "b", "c")
    points = {"a": 0.1, "b": 1.0, "c": 10.0}
    methods = {n: trials.Method(series="C1", at=points.get(n)) for n in names}
    plan = plan_of(methods, seeds=(1, 2), view="sweep")
    evidence = gather(synthetic(plan, sentences=20))
    (panel,) = figures.sweep(plan, evidence.studies[0])
    assert panel.title == "C1" and " at 0.1, " in panel.description
    assert len(panel.dots) == 3


def test_the_second_half_is_looked_at_closer():
    lines = [charts.Series(style="m0", name="x", x=[0.5, 1.0], y=[7.0, 36.0])]
    panel = charts.plot(lines, title="", x_name="")
    assert "0" not in [label.text for label in panel.labels if label.anchor == "end"]
    assert charts.rounded(7, 36) == (5, 40)


def test_a_method_has_one_colour_throughout(gathered, page):
    evidence = gathered
    colours = {method: style.split()[0] for method, style in evidence.styles.items()}
    assert len({*colours.values()}) == len(METHODS)
    assert colours["plain"] == "base" and colours["matched"] == "control"
    for label, style in re.findall(r'<text class="of ([^"]+)"[^>]*>([^<]+)<', page):
        if style in colours:
            assert label.split()[0] == colours[style]


def test_several_controls_have_the_colour_of_what_they_match():
    methods = {"plain": trials.Method(), "a": trials.Method(), "b": trials.Method()}
    methods |= {f"as {m}": trials.Method(matches=m) for m in "ab"}
    styles = evidence.styles(plan_of(methods))
    assert styles["as b"].split()[:2] == ["control", styles["b"].split()[0]]


def test_more_methods_than_colours_are_told_apart():
    methods = {"plain": trials.Method()} | {f"x{k}": trials.Method() for k in range(12)}
    styles = evidence.styles(plan_of(methods))
    assert len({*styles.values()}) == 13 and "again" in styles["x9"]


def test_marked_pieces_are_the_hypothesis_again():
    hypothesis = "a  red dog,\tsees you ."
    pieces = examples.marked(hypothesis, "a big dog sees me.")
    assert "".join(piece.text for piece in pieces) == hypothesis
    off = [piece.text for piece in pieces if not piece.same]
    assert off == ["red", ",", "you"]
    assert examples.marked("", "x") == []
    assert [p.same for p in examples.marked("我爱猫", "我爱狗")] == [True, False]
    long = "word " * 400
    assert sum(len(p.text) for p in examples.marked(long, long)) < examples.LONGEST + 5


@pytest.mark.parametrize(
    ("hypothesis", "reference", "off"),
    [
        ("लड़का किताब पढ़ता है", "लड़की किताब पढ़ता है", ["लड़का"]),
        ("كِتَابٌ جَدِيد", "كِتَابٍ جَدِيد", ["كِتَابٌ"]),
        ("می\u200cروم شب", "می\u200cرسد شب", ["می\u200cروم"]),
        ("น้ำดี", "น้ำที่", ["ดี"]),
        ("cafe\u0301 noir", "cafe noir", ["cafe\u0301"]),
        ("か\u3099く", "かく", ["か\u3099"]),
        ("a 👩\u200d🔬!", "a 👩\u200d🎨!", ["👩\u200d🔬"]),
    ],
)
def test_marks_cut_no_letter_from_what_combines_with_it(hypothesis, reference, off):
    pieces = examples.marked(hypothesis, reference)
    assert "".join(piece.text for piece in pieces) == hypothesis
    assert [piece.text for piece in pieces if not piece.same] == off


def test_examples_are_chosen_by_what_they_do_to_the_score(gathered):
    study = gathered.studies[0]
    seed, kinds = examples.chosen("exponential", study)
    assert seed == 1 and list(kinds) == ["Largest gains", "Largest losses", "Drawn at random"]
    assert examples.chosen("exponential", study) == (seed, kinds)
    numbers = [example.number for chosen in kinds.values() for example in chosen]
    assert len(numbers) == len({*numbers}) == 9
    both = [study.row(m).records[1] for m in ("exponential", "plain")]
    ours, theirs = (record.statistics["test/bleu"] for record in both)
    total, bleu = theirs.sum(0), study.metric

    def change(index):
        return float(bleu.value(total + ours[index] - theirs[index]) - bleu.value(total))

    changes = [change(i) for i in range(len(ours))]
    best, worst = (kinds[f"Largest {kind}"][0].number - 1 for kind in ("gains", "losses"))
    assert changes[best] == max(changes) and changes[worst] == min(changes)


def test_buckets_by_length_hold_every_sentence_once():
    lengths = np.random.default_rng(0).integers(1, 40, 300).astype(float)
    parts = buckets.by_length(lengths)
    assert sorted(np.concatenate([part for _, part in parts])) == list(range(300))
    assert len(parts) == 4 and parts[0][0].startswith("1")
    assert [name for name, _ in buckets.by_length(np.full(10, 7.0))] == ["7"]


def test_buckets_of_a_metric_add_up_to_its_score(gathered):
    study = gathered.studies[0]
    record = study.row("plain").records[1]
    table = record.statistics["test/bleu"]
    parts = buckets.by_length(record.statistics["test/source_length"])
    whole = study.metric.value(sum(table[part].sum(0) for _, part in parts))
    assert float(whole) == pytest.approx(record.value("test", "bleu"))


def test_difficulty_is_the_loss_per_token_as_perplexity_counts_them(gathered, page):
    study = gathered.studies[0]
    nats, tokens = np.mean(
        [r.statistics["test/perplexity"].T for r in study.baseline.records.values()], axis=0
    )
    losses = buckets.losses_per_token(study.baseline, SENTENCES)
    assert losses == pytest.approx(nats / tokens)
    assert len(buckets.quality(study)) == 4
    assert "equal length are kept together" in Reader(page).text


def with_records(study, method, change):
    """The same study, with other records of a method."""
    rows = [
        dataclasses.replace(row, records={s: change(r) for s, r in row.records.items()})
        if row.method == method
        else row
        for row in study.rows
    ]
    return dataclasses.replace(study, rows=rows)


def test_weights_of_one_of_several_terms_say_which(gathered, page, tmp_path):
    study = gathered.studies[0]
    assert figures.of_terms(study) == "" and "Weights are those of one term" not in page
    second = recipe_of(METHODS["exponential"][0])
    second = {k.replace("terms.0.", "terms.1."): v for k, v in second.items()}
    second |= {"terms.0.loss.name": "cross-entropy", "terms.0.weighting.name": "plain"}
    second |= {"terms.1.loss.name": "wasserstein", "terms.1.scale": 0.1}

    def changed(record):
        empty = runs.TermLog()
        history = [dataclasses.replace(e, terms=(empty, *e.terms)) for e in record.history]
        return dataclasses.replace(record, recipe=second, history=tuple(history))

    study = with_records(study, "exponential", changed)
    said = "exponential, term 2 of 2: wasserstein \N{MULTIPLICATION SIGN} 0.1"
    assert said in [panel.title for panel in figures.losses(study)]
    page = page_of(dataclasses.replace(gathered, studies=[study]), tmp_path).text
    assert page.count(f" Weights are those of one term: {said}.") == 2


def test_weight_curves_are_those_of_training(gathered):
    study = gathered.studies[0]
    curve = figures.weight_curve(study.row("exponential"), 0, 41)
    # The exact weights at L / R = 0.1, 0.5, 1 and 2, from the table of the paper's laws.
    expected = [1.1807, 1.5094, 1.7051, 1.8732]
    assert [curve[k] for k in (1, 5, 10, 20)] == pytest.approx(expected, abs=1e-4)
    matched = study.row("matched")
    flat = figures.weight_curve(matched, 0, 41)
    assert {*flat} == {matched.records[1].history[-1].terms[0].weight}


def test_the_curve_of_what_is_staged_is_that_of_its_last_stage(gathered):
    study = gathered.studies[0]
    seen = study.row("linear").records[1].epochs[-1]

    def curve(after, **more):
        def staged(record):
            recipe = {"terms.0.weighting.name": "staged", "terms.0.weighting.after": after, **more}
            return dataclasses.replace(record, recipe=recipe)

        return figures.weight_curve(with_records(study, "linear", staged).row("linear"), 0, 41)

    assert seen.samples > 0
    tokens = {"terms.0.loss.name": "cross-entropy", "terms.0.loss.per": "token"}
    assert {*curve(seen.samples + 1)} == {1.0} and curve(seen.samples)[20] > 1.5
    assert {*curve(seen.tokens + 1, **tokens)} == {1.0}


def test_tokens_that_are_samples_are_no_other_loss(gathered):
    first, *_ = gathered.studies[0].row("linear").records.values()

    def one(**recipe):
        said = {f"terms.0.loss.{key}": value for key, value in recipe.items()}
        return [dataclasses.replace(first, recipe=first.recipe | said)]

    plain = one(name="cross-entropy", per="sentence-sum")
    assert not evidence._differ_elsewhere(one(name="cross-entropy", per="token"), plain)
    assert evidence._differ_elsewhere(one(name="cross-entropy", per="sentence-mean"), plain)


def test_a_curve_that_cannot_be_known_here_is_left_out(gathered):
    study = gathered.studies[0]
    recipe = {"terms.0.weighting.name": "a law of a later version"}
    changed = with_records(study, "linear", lambda r: dataclasses.replace(r, recipe=recipe))
    assert figures.weight_curve(changed.row("linear"), 0, 41) is None
    assert len(figures.losses(changed)) == len(figures.losses(study))


def test_ticks_are_round_and_inside():
    for low, high in [(0, 1), (-3, 7.5), (26.2, 33.9), (0, 2e6), (1, 1.0001)]:
        ticks = charts.Scale(low, high, 0, 100).ticks()
        assert 2 <= len(ticks) <= 8
        assert all(low - 1e-6 <= tick <= high + 1e-6 for tick in ticks)
    assert charts.rounded(5, 5) != (5, 5) and charts.rounded(0, 0)[0] < 0
    shown = [words.tick(value) for value in (0, 0.1 + 0.2, -2, 20_000, 1.5e6)]
    assert shown == ["0", "0.3", f"{words.MINUS}2", "20k", "1.5M"]


@pytest.mark.parametrize("count", [1, 2, 6, 30])
def test_names_beside_lines_do_not_overlap(count):
    rng = np.random.default_rng(count)
    places = sorted(rng.normal(100, 3, count))
    moved = charts.apart(places, 12, 210)
    gap = min(charts.LINE, (210 - 12) / max(count - 1, 1))
    assert all(b - a > gap - 0.01 for a, b in itertools.pairwise(moved))
    assert min(moved) > 11 and max(moved) < 211


# How red-, green- and blue-blind eyes see linear RGB (Machado, Oliveira and Fernandes 2009).
EYES = {
    "all": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.mark.parametrize("eyes", EYES)
def test_colours_can_be_told_apart_by_all_eyes(eyes, page):
    light, dark = page.split("prefers-color-scheme: dark")[:2]
    for theme in (light, dark):
        matches = re.findall(r"--(?:m\d|base|control): #(\w{6})", theme)
        assert len(matches) == evidence.COLOURS + 2
        rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (0, 2, 4)] for c in matches])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen = (linear @ np.array(EYES[eyes]).T).clip(0, 1)
        # CIE Lab, in which a distance of 2.3 can just be seen.
        xyz = seen @ np.array(
            [[0.4339, 0.2126, 0.0177], [0.3762, 0.7152, 0.1095], [0.1899, 0.0722, 0.8728]]
        )
        root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        x, y, z = root.T
        lab = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(len(lab), 1)]
        assert apart.min() > 12


def test_no_number_of_a_figure_is_not_a_number(page):
    numbers = re.findall(r' (?:d|x|y|cx|cy|r|width|height|viewBox)="([^"]*)"', page)
    assert len(numbers) > 1000
    assert not any(re.search("nan|inf|None", number) for number in numbers)


def test_no_control_character_of_a_name_reaches_a_file(tmp_path):
    names = {name: trials.Method() for name in ("plain", "red \x1b[31m\x07\x9b\x7f")}
    plan = plan_of(names, seeds=(1, 2), tune={})
    reports.report(gather(synthetic(plan, sentences=20)), tmp_path)
    for path in tmp_path.iterdir():
        written = path.read_bytes().decode("utf-8")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", written), path.name


def test_a_link_that_was_planted_is_not_written_through(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "report"
    victim.write_text("mine")
    folder.mkdir()
    for name in ("index.html", ".index.html.aside", "table.csv"):
        (folder / name).symlink_to(victim)
    reports.report(gather(synthetic(plan_of(seeds=(1,)), sentences=20)), folder)
    assert victim.read_text() == "mine"
    assert not (folder / "index.html").is_symlink()


def test_rivals_are_described_in_plain_words(tmp_path):
    trial = synthetic(plan_of(("plain", "back-translation"), seeds=(1, 2), tune={}), sentences=20)
    made = {"augment.name": "back-translation", "augment.w": 0.5}
    entries = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(entry.record, recipe={**entry.record.recipe, **made}),
        )
        if entry.method == "back-translation"
        else entry
        for entry in trial.entries
    ]
    changed = dataclasses.replace(trial, entries=entries)
    page = page_of(changed, tmp_path).text
    assert "trained on made pairs too: back-translation, each with the weight 0.5" in page


def test_what_a_method_changes_in_training_is_described_in_plain_words(tmp_path):
    key = "training.word_dropout"
    plan = plan_of(("plain", "dropout"), seeds=(1, 2), tune={})
    methods = plan.methods | {"dropout": trials.Method(overrides={key: 0.1})}
    trial = synthetic(dataclasses.replace(plan, methods=methods), sentences=20)
    entries = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(entry.record, recipe={**entry.record.recipe, key: 0.2}),
        )
        for entry in trial.entries
    ]
    page = page_of(dataclasses.replace(trial, entries=entries), tmp_path)
    assert page.text.count("word dropout: 0.2 of the words that it reads are hidden") == 1
