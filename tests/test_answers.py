"""The answer of a page: a short sentence, then its numbers, and nothing that they do not show."""

import dataclasses
import types

import numpy as np
import pytest

import support
from augless import metrics, reports, runs, trials
from augless.reports import answers, evidence, figures, tables, words
from synthetic import (
    cell_of,
    contrast,
    gather,
    gathered_of,
    page_of,
    plan_of,
    row_of,
    study_of,
    synthetic,
)

OPEN = {"p": 0.6}
ALIKE = {"p": 1.0, "reach": 0.0, "alike": True}
MEASURED = "+0.8 BLEU (95 % interval +0.3 to +1.3, p = 0.01)"
MINUS = "\N{MINUS SIGN}"


def answered(*rows, **given):
    return answers.of(gathered_of(study_of(*rows), **given))


ANSWERS = {
    "better, and no better than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(0.1, **OPEN)),
        "exponential beats plain, but is not shown to beat its control matched.",
    ),
    "better than both": (
        row_of("exponential", baseline=contrast(), control=contrast(0.7, p=0.0004)),
        "exponential beats plain, and its control matched too.",
    ),
    "better, but worse than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(-0.7)),
        "exponential beats plain, but its control matched does better still.",
    ),
    "better, without a control": (
        row_of("exponential", baseline=contrast(), control_name=None, matched=False),
        "exponential beats plain.",
    ),
    "worse": (
        row_of("exponential", baseline=contrast(-1.2, p=0.004)),
        "exponential is worse than plain.",
    ),
    "open": (
        row_of("exponential", baseline=contrast(0.3, p=0.06)),
        "exponential is not shown to differ from plain.",
    ),
    "no sentence differs": (
        row_of("exponential", baseline=contrast(0.0, **ALIKE)),
        "exponential does not differ from plain: no sentence differs in its score.",
    ),
    "one seed": (
        row_of("exponential", baseline=contrast(seeds=(0.8,)), done=1),
        "There is no answer about the method: one seed says nothing about it.",
    ),
    "degenerate": (
        row_of("exponential", baseline=contrast(fault="plain, seed 1: all are empty")),
        "There is no answer: outputs of exponential or plain are degenerate.",
    ),
}


@pytest.mark.parametrize(("row", "sentence"), ANSWERS.values(), ids=ANSWERS)
def test_the_sentence_says_no_more_than_the_numbers_and_has_none(row, sentence):
    assert answered(row).sentence == sentence


def test_the_numbers_follow_the_sentence():
    row = row_of("exponential", baseline=contrast(primary=True), control=contrast(-0.1, **OPEN))
    needed = {"toy": trials.SeedsNeeded(effect=0.5, seeds=14)}
    assert answered(row, needed=needed).numbers == (
        f"{MEASURED} against plain (3 seeds, by a two-way model of methods and seeds).",
        f"{MINUS}0.1 BLEU (95 % interval {MINUS}0.6 to +0.4, corrected p = 0.60) against matched.",
        "Minimum detectable effect: 0.6 BLEU, which 4 such trials of 5 would find. "
        "To see 0.5 BLEU, 14 seeds would be needed.",
    )
    never = {"toy": trials.SeedsNeeded(effect=0.5, seeds=None)}
    assert (
        answered(row, needed=never)
        .numbers[-1]
        .endswith(
            "No number of seeds would show 0.5 BLEU against plain: the test set is too small."
        )
    )
    alone = row_of("exponential", baseline=contrast(seeds=(0.8,), primary=True), done=1)
    assert answered(alone).numbers == (
        f"The one model of exponential is {MEASURED} from that of plain, over sentences alone: "
        "other seeds would give other models.",
    )
    same = row_of("exponential", baseline=contrast(0.0, **ALIKE))
    assert not any("Minimum" in line for line in answered(same).numbers)


def test_a_gain_without_a_control_of_its_own_may_be_one_of_step_size():
    bare = row_of("exponential", baseline=contrast(), control_name=None, matched=False)
    failed = row_of("exponential", baseline=contrast())
    rival = row_of("wd", baseline=contrast(), weighs=False, matched=False)
    own = row_of("exponential", baseline=contrast(), control=contrast(0.7))
    unsure = row_of("exponential", baseline=contrast(0.3, **OPEN), matched=False)
    ends = "the gain may be a change of step size and no more."
    assert answered(bare).numbers[0].endswith(f" As it has no control of its own, {ends}")
    assert (
        answered(failed)
        .numbers[0]
        .endswith(f" As its control has no result to compare with, {ends}")
    )
    for row in (rival, own, unsure):
        assert not any(ends in line for line in answered(row).numbers)
    law = {"name": "exponential", "normalise": "running-mean"}
    recipe = {f"terms.0.weighting.{key}": value for key, value in law.items()}
    kept = dict.fromkeys((1, 2, 3), support.record(recipe=recipe))
    even = row_of("exponential", baseline=contrast(), matched=False, records=kept)
    assert answered(even).numbers[0].endswith("any weights that vary as much may do the same.")


def test_the_answer_is_about_the_primary_method_whoever_else_is_better():
    ours = row_of("exponential", baseline=contrast(0.2, p=0.7))
    other = row_of("linear", baseline=contrast(-1.0))
    rival = row_of("wd", baseline=contrast(1.5), weighs=False)
    answer = answered(other, ours, rival)
    assert answer.method == "exponential"
    assert answer.sentence == "exponential is not shown to differ from plain."
    said = "95 % interval +1.0 to +2.0, corrected p = 0.01"
    assert f"plain is beaten by wd, +1.5 BLEU ({said}); it weighs no samples." in answer.notes
    assert any(note.startswith("plain is better than linear, ") for note in answer.notes)
    assert answered(other, ours, primary="linear").sentence == "linear is worse than plain."
    unsure = row_of("wd", baseline=contrast(1.5, p=0.07), weighs=False)
    assert answered(ours, unsure).notes[0].startswith("Most is gained by wd, which weighs no samp")


def test_a_lower_perplexity_is_better():
    row = row_of("exponential", baseline=contrast(-0.8), control=contrast(-0.5))
    evidence = gathered_of(study_of(row, metric="perplexity"))
    assert answers.of(evidence).sentence == "exponential beats plain, and its control matched too."


def several(*differences, p=0.01, between=None):
    """Evidence on corpora named by numbers, with a difference over all of them."""
    studies = [
        study_of(row_of("exponential", baseline=one), corpus=str(k))
        for k, one in enumerate(differences)
    ]
    mean = contrast(0.8, p, seeds=(), corpora=len(studies), primary=True)
    if between is not None:
        like = dataclasses.replace(mean, low=-0.4, high=2.0, test="random-effects")
        mean = dataclasses.replace(mean, likely=metrics.RandomEffects(like, between, (0.5,)))
    overall = {"exponential": (dataclasses.replace(mean, test="mean"), None)}
    return gathered_of(*studies, overall=overall)


def test_the_answer_on_several_corpora_is_about_their_mean():
    evidence = several(contrast(), contrast(-0.1, **OPEN), contrast(0.0, **ALIKE), between=0.4)
    said = answers.of(evidence)
    assert said.sentence == "exponential beats plain over 3 corpora."
    assert said.numbers[0].startswith(f"{MEASURED} against plain (3 seeds on 3 corpora, their mean")
    assert said.numbers[1] == (
        f"+0.8 BLEU (95 % interval {MINUS}0.4 to +2.0) as the mean of corpora like these, by "
        "random effects: true effects vary by 0.4 between corpora."
    )
    interval = f"95 % interval {MINUS}0.6 to +0.4"
    assert said.by_corpus == (
        f"exponential on 0: {MEASURED.replace('p =', 'corrected p =')} ▲.",
        f"exponential on 1: {MINUS}0.1 BLEU ({interval}, corrected p = 0.60).",
        "exponential on 2: no sentence differs in its score.",
    )


def test_a_forest_has_a_row_for_every_corpus_and_diamonds_below():
    evidence = several(contrast(), contrast(-2.0), contrast(0.1, **OPEN), between=0.4)
    (panel,) = figures.forest(evidence)
    names = [label.text.strip() for label in panel.labels if label.style.startswith("of")]
    assert names == ["0 ▲", "1 ▼", "2", "mean of 3 ▲", "mean of such corpora"]
    styles = [shape.style.split()[0] for shape in panel.shapes]
    assert styles == ["interval"] * 3 + ["pooled"] * 2
    kinds = [dot.style.split()[1] for dot in panel.dots if dot.style.startswith("mean")]
    assert kinds == ["claimed", "claimed", "open"]
    assert "+0.80 (+0.30 to +1.30) ▲" in panel.description
    # An interval is drawn where it is said to be: 0 is in the middle of the axis.
    zero = next(shape.path for shape in panel.grid if shape.style == "rule")
    left = float(panel.shapes[1].path.split("L")[1].split()[0])
    assert left < float(zero[1:].split()[0]), "all of -2.5 to -1.5 is left of 0"
    assert figures.forest(gathered_of(evidence.studies[0])) == []


def test_failures_and_missing_runs_are_said():
    row = row_of("exponential", baseline=contrast())
    broken = row_of("linear", failures={1: "killed", 2: "killed"}, done=0)
    notes = answered(row, broken).notes
    assert any(note.startswith("2 of 9 runs failed (linear)") for note in notes)
    assert any(note.startswith("1 of 9 runs is not done yet") for note in notes)


def low(score, other, corpus="toy", **changes):
    plain = row_of("plain", "baseline", mean=score, **changes)
    row = row_of("exponential", baseline=contrast(0.01), mean=other, **changes)
    return study_of(row, plain=plain, corpus=corpus)


def test_a_bleu_near_nothing_gives_no_answer_but_advice():
    answer = answers.of(gathered_of(low(0.32, 0.33), command="augless trial demo"))
    assert answer.sentence == "There is no answer: BLEU is too near 0 to tell methods apart."
    assert answer.numbers[0] == "plain has a BLEU of 0.32."
    assert "too short or too free" in answer.numbers[1] and "Train longer" in answer.numbers[1]
    assert [one.line for one in answer.commands] == ["augless trial demo metric=chrf"]
    assert answer.method == "exponential"
    both = gathered_of(
        low(0.0, 0.0),
        low(40.0, 40.8, "other"),
        overall={"exponential": (contrast(), None)},
    )
    answer = answers.of(both)
    assert answer.sentence.startswith("exponential beats plain on ")
    assert answer.notes[0] == "On toy: plain has a BLEU of 0.00."
    assert answers.amount(low(0.5, 0.5), 0.5) == "0.50", "BLEU has two decimals, however low"
    answer = answers.of(gathered_of(low(0.5, 30.0)))
    assert answer.sentence == "exponential beats plain."
    assert "plain has a BLEU near 0 (0.50), where it says little." in answer.notes
    for score, mark in ((0.32, ""), (40.0, "▲")):
        gathered = gathered_of(low(score, score))
        table = tables.results(gathered, gathered.studies[0])
        assert cell_of(table, "exponential", "against plain").text.endswith(mark or "+0.01")
        mean = figures.differences(gathered.studies[0])[0].dots[-1]
        assert ("claimed" in mean.style) == bool(mark)


def test_degenerate_outputs_are_shown_and_never_called_better():
    constant = {1: "100 outputs have only 1 different line, such as 'a'"}
    answer = answers.of(gathered_of(low(40.0, 48.0, faults=constant)))
    assert answer.sentence == (
        "There is no answer: the outputs are empty, constant or endless repetitions."
    )
    assert answer.numbers[0] == f"plain, seed 1: {constant[1]}."
    assert answer.numbers[-1].startswith("Train longer, on more data")
    assert answer.commands == (), "no other metric mends them, and nobody knows the epochs"
    record = types.SimpleNamespace(recipe={"training.epochs": 6})
    known = low(0.0, 0.0, faults=constant, records={1: record})
    answer = answers.of(gathered_of(known, command="augless trial demo --jobs 2"))
    longer = "augless trial demo --jobs 2 overrides.training.epochs=12"
    assert [(one.why, one.line) for one in answer.commands] == [("Train longer", longer)]
    row = row_of("exponential", baseline=contrast())
    fault = f"linear, seed 1: {constant[1]}"
    broken = row_of("linear", baseline=contrast(5.0, fault=fault), faults=constant)
    gathered = gathered_of(study_of(row, broken))
    assert answers.of(gathered).sentence == "exponential beats plain."
    assert answers.of(gathered).notes == (f"Nothing is claimed of linear: {constant[1]} (seed 1).",)
    table = tables.results(gathered, gathered.studies[0])
    shown = cell_of(table, "linear", "against plain")
    assert (shown.text, shown.small[-1]) == ("+5.00", "degenerate outputs")


def test_what_else_a_difference_may_be_is_said():
    faint = evidence.Treatment(spread=0.012, shares=(0.997, 0.003), clipped=0.8)
    row = row_of("exponential", baseline=contrast(), differs_elsewhere=True, treatment=faint)
    notes = answered(row).notes
    assert notes[0].startswith("exponential differs from plain in more than its weights")
    assert notes[1] == "The treatment was weak: weights of exponential vary by 1.2% of their mean."
    assert notes[2].startswith("Term 2 of exponential makes only 0.30% of the gradient")
    assert notes[3].startswith("80% of the steps of exponential were clipped, which undoes")
    strong = evidence.Treatment(spread=0.3, shares=(0.9, 0.1), clipped=0.1)
    assert answered(row_of("exponential", baseline=contrast(), treatment=strong)).notes == ()


def test_a_shuffled_control_that_never_began_is_no_control():
    idle = evidence.Treatment(spread=0.0, idle=True)
    row = row_of("exponential", baseline=contrast())
    notes = answered(row, row_of("shuffled", treatment=idle)).notes
    assert notes[0].startswith("shuffled has weighed nothing, so it is no control: it begins after")
    plain, shuffled, early = (
        types.SimpleNamespace(
            terms=trials.facts.terms_of({"terms.0.weighting.name": name}),
            weighted_term=None if name == "plain" else 0,
            epochs=[runs.Logged(kind="epoch", epoch=1, step=9, terms=(runs.TermLog(**said),))],
        )
        for name, said in [
            ("plain", {"weight_spread": 0.0}),
            ("shuffled", {"weight_spread": 0.2}),
            ("shuffled", {"weight_spread": 0.0}),
        ]
    )
    for record, is_idle in ((plain, False), (shuffled, False), (early, True)):
        assert evidence.treatment_of([record]).idle == is_idle


def test_more_seeds_are_suggested_where_they_would_show_something():
    unsure = row_of("exponential", baseline=contrast(0.3, **OPEN))

    def suggested(row, seeds, command="augless trial demo --jobs 2"):
        needed = {"toy": trials.SeedsNeeded(effect=0.5, seeds=seeds)}
        answer = answered(row, needed=needed, command=command)
        return [one.line for one in answer.commands]

    more = ["augless trial demo --jobs 2 seeds=[1,2,3,4,5]"]
    assert suggested(unsure, 5) == more
    for earlier in ("seeds=1,2,3", "'seeds=[1,2,3]'"):
        assert suggested(unsure, 5, f"augless trial demo {earlier} --jobs 2") == more
    assert suggested(unsure, 3) == suggested(unsure, 400) == suggested(unsure, None) == []
    assert suggested(row_of("exponential", baseline=contrast()), 5) == [], "it is shown already"


def test_after_a_sample_of_own_files_the_whole_of_them_is_suggested():
    row = row_of("exponential", baseline=contrast())
    files = "augless trial --train 'a b.de' a.en --valid b.de b.en --test c.de c.en"

    def suggested(command, scale="small"):
        given = gathered_of(study_of(row), command=command)
        plan = dataclasses.replace(given.plan, scale=scale)
        answer = answers.of(
            dataclasses.replace(given, trial=dataclasses.replace(given.trial, plan=plan))
        )
        return [one.line for one in answer.commands]

    assert suggested(f"{files} --quick --jobs 1") == [f"{files} --jobs 1"]
    assert suggested(f"{files} --small") == [files]
    assert suggested(files) == suggested(f"{files} --quick", scale="full") == []
    assert suggested("augless trial demo --small") == suggested("") == []


def test_no_rounding_crosses_the_level_or_makes_something_nothing():
    known = (0.0496, 0.0504, 0.05, 0.04, 0.049999, 0.0004, 0.3)
    shown = [words.probability(contrast(p=p, primary=True)) for p in known]
    values = ["= 0.0496", "= 0.0504", "= 0.05", "= 0.04", "= 0.049999", "< 0.001", "= 0.30"]
    assert shown == [f"p {value}" for value in values]
    study = study_of(row_of("linear"))
    amounts = [answers.amount(study, value) for value in (0.8, 0.03, -0.003, 0.0, 1e-12)]
    assert amounts == ["0.8", "0.03", "0.003", "0.0", "0.000000"]


def test_perfect_words_that_bleu_cannot_score_are_not_called_unlearnt(tmp_path):
    words = [f"dog{k}" for k in range(12)]
    texts = (["Hund"] * 12, words, np.ones(12, int), np.zeros(12))
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1,)), texts=texts)
    page = page_of(trial, tmp_path).text
    assert "There is no answer: BLEU is too near 0" in page
    assert "augless trial PLAN metric=chrf" in page and "hardly" not in page.split("may mean")[0]


def test_a_method_alone_is_compared_with_nothing(tmp_path):
    trial = synthetic(plan_of(("plain",), seeds=(1, 2)), sentences=20)
    expected = "There is nothing to compare with: plain is the only method."
    assert reports.summary(gather(trial))["sentence"] == expected
    assert expected in page_of(trial, tmp_path).text
    rows = gather(synthetic(plan_of(("plain", "matched", "exponential"), seeds=(1,)), sentences=20))
    study = study_of(rows.studies[0].rows[1], plain=rows.studies[0].rows[0])
    assert answers.of(gathered_of(study)).sentence.endswith("plain is alone with controls.")


@pytest.mark.parametrize(
    ("plain", "row", "sentence"),
    [
        (row_of("plain", "baseline", done=0), row_of("x", done=0), "no run is done yet"),
        (row_of("plain", "baseline", done=0, failures={1: "x"}), row_of("x", done=0), "runs fail"),
        (row_of("plain", "baseline", done=0), row_of("x"), "plain, with which all is compared"),
        (row_of("plain", "baseline"), row_of("x", done=0), "no method has every seed done"),
        (row_of("plain", "baseline"), row_of("x"), "no method can be compared with plain"),
    ],
)
def test_without_a_comparison_there_is_no_answer_and_the_page_says_why(plain, row, sentence):
    answer = answers.of(gathered_of(study_of(row, plain=plain)))
    assert answer.sentence.startswith("There is no answer") and sentence in answer.sentence
    assert answer.method is None


def test_a_primary_method_that_failed_leaves_what_others_show():
    broken = row_of("exponential", failures={1: "killed"}, done=2)
    other = row_of("linear", baseline=contrast(-1.0))
    answer = answered(broken, other)
    assert answer.sentence == "There is no answer yet: exponential cannot be compared with plain."
    assert answer.notes[0].startswith("plain is better than linear")


@pytest.mark.parametrize("swapped", [False, True])
def test_another_metric_that_claims_the_opposite_is_told(swapped):
    plan = plan_of({name: trials.Method() for name in ("plain", "exponential")}, tune={})
    trial = synthetic(plan, skills={"plain": 0.0, "exponential": 0.2}, sentences=40)
    records = {(entry.method, entry.seed): entry.record for entry in trial.entries}
    other = {"plain": "exponential", "exponential": "plain"}

    def chrf_of_the_other(entry):
        mine, theirs = entry.record, records[other[entry.method], entry.seed]
        scores = mine.scores["test"] | {"chrf": theirs.scores["test"]["chrf"]}
        tables = mine.statistics | {"test/chrf": theirs.statistics["test/chrf"]}
        record = dataclasses.replace(mine, scores={"test": scores}, statistics=tables)
        return dataclasses.replace(entry, record=record)

    if swapped:
        trial = dataclasses.replace(trial, entries=[*map(chrf_of_the_other, trial.entries)])
    answer = answers.of(gather(trial))
    assert answer.sentence == "exponential beats plain."
    told = [line for line in answer.numbers if line.startswith("By ")]
    assert [line.split(":")[0] for line in told] == ["By chrF it is worse"] * swapped
