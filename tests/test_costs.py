"""What methods cost, quality against time as a picture, and which method to take."""

import csv
import dataclasses
import io
import re

import pytest

from augless import reports
from augless.reports import advice, charts, costs, words
from augless.runs import Spent
from augless.trials.facts import Cost
from synthetic import (
    METHODS,
    PAYLOAD,
    Reader,
    contrast,
    gather,
    gathered_of,
    hostile,
    page_of,
    plan_of,
    row_of,
    study_of,
    synthetic,
    texts_of,
)

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def gathered_trial():
    return gather(synthetic())


def spent(seconds, samples=0, **parts):
    return {"toy": Cost({"own": Spent(seconds=seconds, samples=samples), **parts})}


def gathered(*rows, seconds, plain=None, metric="bleu", **changes):
    """Evidence of one corpus, on which the baseline took 100 seconds if nothing else is said."""
    evidence = gathered_of(study_of(*rows, plain=plain, metric=metric), **changes)
    known = {m: spent(s) for m, s in {"plain": 100.0, **seconds}.items()}
    return dataclasses.replace(evidence, trial=dataclasses.replace(evidence.trial, costs=known))


# The table


def test_the_table_counts_all_that_a_method_needs(gathered_trial):
    evidence = gathered_trial
    table = costs.table(evidence, evidence.studies[0])
    parts = ["own training", "preparing", "augmentation", "other models", "tuning"]
    totals = ["seconds in all", "time / plain", "samples in all", "samples / plain"]
    assert table.head == ["Method", *totals, *parts]
    rows = {line.name: texts_of(line) for line in table.lines}
    assert list(rows) == list(METHODS)
    plain, back = 3 * 41.5 + 6 + 1.5, 3 * 83 + 6 + 1.5 + 3 * 61
    assert rows["plain"] == ["132", "1.00", "60,000", "1.00", "130", "1.5", "0", "0", "0"]
    assert rows["back-translation"][:4] == ["440", f"{back / plain:.2f}", "180,000", "3.00"]
    assert rows["back-translation"][4:] == ["255", "1.5", "60", "123", "0"]
    assert rows["exponential"][-1] == "300"
    assert "matched that of exponential" in table.legend


def test_parts_that_nothing_was_spent_on_have_no_column():
    evidence = gathered(row_of("exponential", baseline=contrast()), seconds={"exponential": 150.0})
    table = costs.table(evidence, evidence.studies[0])
    assert table.head[5:] == ["own training"]
    assert [line.cells[1].text for line in table.lines] == ["1.00", "1.50"]
    nothing = dataclasses.replace(evidence, trial=dataclasses.replace(evidence.trial, costs={}))
    assert costs.table(nothing, nothing.studies[0]) is None
    assert costs.figure(nothing, nothing.studies[0]) == []
    assert costs.line(nothing) == "" and advice.of(nothing) is None


def test_unfinished_methods_are_not_compared_by_their_cost():
    plan = plan_of(("plain", "matched", "exponential"), seeds=(1, 2))
    evidence = gather(synthetic(plan, failed={("exponential", 2)}, sentences=30))
    table = costs.table(evidence, evidence.studies[0])
    line = next(line for line in table.lines if line.name == "exponential")
    assert line.cells[0].line.endswith(" [1 of 2 seeds]")
    assert line.cells[1].text == line.cells[3].text == ""
    assert "What failed runs took is not known." in table.legend
    (panel,) = costs.figure(evidence, evidence.studies[0])
    assert not any(label.text == "exponential" for label in panel.labels)
    assert "exponential" not in costs.line(evidence)


def test_every_format_has_the_cost_and_the_advice(gathered_trial, tmp_path):
    sentence = advice.of(gathered_trial).sentence
    page = page_of(gathered_trial, tmp_path).text
    assert page.count(sentence) == 2 and "BLEU against total time" in page
    assert sentence in reports.text(gathered_trial)
    for text in (
        page,
        reports.markdown(gathered_trial),
        reports.latex(gathered_trial),
    ):
        assert "other models" in text and "180,000" in text and "seconds in all" in text
    row = reports.summary(gathered_trial)["corpora"]["toy-de-en"]["back-translation"]["cost"]
    assert row["train"] == {"seconds": 123.0, "samples": 60_000} and row["complete"]
    assert row["total"]["seconds"] == pytest.approx(439.5) and row["sample_ratio"] == 3
    told = reports.summary(gathered_trial)["advice"]
    assert told["sentence"] == sentence and told["take"] == told["best"] == "back-translation"
    lines = csv.DictReader(io.StringIO(reports.csv(gathered_trial)))
    row = next(one for one in lines if one["method"] == "back-translation")
    assert float(row["cost_total_seconds"]) == pytest.approx(439.5)
    assert row["cost_augment_seconds"] == "60.0" and row["cost_sample_ratio"] == "3.0"


def test_the_terminal_has_the_times_in_a_line(gathered_trial):
    line = costs.line(gathered_trial)
    assert line.startswith("Time with all that it needs: plain 132 s, others from ")
    assert line.endswith(f"{TIMES} to back-translation 3.3{TIMES}.") and len(line) < costs.LONGEST
    assert line in reports.text(gathered_trial)
    evidence = gathered(row_of("exponential", baseline=contrast()), seconds={"exponential": 7500.0})
    assert (
        costs.line(evidence) == f"Time with all that it needs: plain 100 s, exponential 75{TIMES}."
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.25, "4.2 s"), (90, "90 s"), (600, "10 min"), (36_000, "10.0 h")]
)
def test_times_are_written_as_one_says_them(seconds, said):
    assert words.short_duration(seconds) == said


def test_names_from_outside_are_text_in_costs_and_advice_too(tmp_path):
    evidence = gather(hostile())
    content = reports.report(evidence, tmp_path).read_text("utf-8")
    section = content.split('aria-labelledby="cost"')[1].split("</section>")[0]
    read = Reader(f"<div{section.split('>', 1)[0]}>{section.split('>', 1)[1]}</div>")
    assert read.text.count(PAYLOAD) >= 2 and not read.tags("script") and not read.tags("img")
    assert "No method can be advised: one seed says nothing about a method." in read.text
    assert "<script>" not in reports.markdown(evidence) and "\x1b" not in reports.text(evidence)


# The picture


def drawn(seconds, **contrasts):
    """The picture of methods that took so long; those that differ are given with their contrast."""
    names = [name for name in seconds if name != "plain"]
    rows = [row_of(name, baseline=contrasts.get(name)) for name in names]
    evidence = gathered(*rows, seconds=seconds)
    (panel,) = costs.figure(evidence, evidence.studies[0])
    return panel


def test_times_far_apart_are_drawn_on_a_logarithmic_axis():
    panel = drawn({"plain": 20, "b": 200, "c": 2000}, b=contrast())
    first, second, third = sorted(dot.x for dot in panel.dots)
    assert second - first == pytest.approx(third - second)
    ticks = [label.text for label in panel.labels if label.anchor == "middle"]
    assert ticks == ["0.5", "1", "2", "5", "10", "20", "minutes in all"]
    near = drawn({"plain": 10, "b": 20, "c": 30})
    first, second, third = sorted(dot.x for dot in near.dots)
    assert second - first == pytest.approx(third - second)
    ticks = [label.text for label in near.labels if label.anchor == "middle"]
    assert ticks[0] == "0" and ticks[-1] == "seconds in all", "from nothing on"


def test_every_point_has_its_interval_its_name_and_what_it_says():
    panel = drawn({"plain": 100, "law": 101}, law=contrast())
    assert {label.text for label in panel.labels} >= {"plain", "law", "BLEU"}
    assert len(panel.shapes) == 1 and panel.shapes[0].title == "law: 40.00 BLEU, 101 s"
    one, other = panel.dots
    assert abs(one.x - other.x) >= costs.BESIDE - 1e-6, "neither covers the other"
    assert {re.findall("open|claimed", dot.style)[0] for dot in panel.dots} == {"open", "claimed"}
    assert any(shape.style == "rule" for shape in panel.grid)
    ends = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", panel.shapes[0].path)]
    rule = next(shape.path for shape in panel.grid if shape.style == "rule")
    plain = float(rule.split("L")[1].split()[1])
    assert plain > ends[0] > ends[1], "from +0.3 to +1.3: all of it is above the baseline"


@pytest.mark.parametrize("span", [(1, 5), (0.3, 40), (1, 1e3), (1e-3, 1e9)])
def test_ticks_of_decades_are_few_and_inside(span):
    ticks = costs.decades(*span)
    assert 2 <= len(ticks) <= costs.TICKS + 1 and ticks == sorted(ticks)
    assert span[0] <= ticks[0] and ticks[-1] <= span[1]


def test_a_picture_needs_two_points_and_says_which_way_is_better(tmp_path):
    row = row_of("exponential", baseline=contrast(-0.8))
    evidence = gathered(row, seconds={"exponential": 500.0}, metric="perplexity")
    (panel,) = costs.figure(evidence, evidence.studies[0])
    (shape,) = panel.shapes
    assert shape.title == "exponential: 40.00 perplexity, 8 min"
    assert shape.title in panel.description
    alone = gathered(row_of("exponential", done=0), seconds={})
    assert costs.figure(alone, alone.studies[0]) == []
    assert all(charts.WIDTH >= label.x >= 0 for label in panel.labels)
    plan = plan_of(("plain", "exponential"), seeds=(1, 2), metric="perplexity", choose="loss")
    page = page_of(synthetic(plan, sentences=20), tmp_path).text
    assert "Lower and further to the left is better. Line across: plain. Bars: 95 %" in page


# Which to take


OPEN = contrast(0.4, p=0.5)
BETTER = contrast(1.0, p=0.01)
WORSE = contrast(-1.0, p=0.01)


@pytest.mark.parametrize(
    ("effects", "seconds", "take", "said"),
    [
        (  # nothing differs
            {"a": contrast(-0.1, p=0.9)},
            {"a": 150.0},
            "plain",
            "Take plain: nothing is shown to be better, and it is the cheapest.",
        ),
        (  # nothing is shown to differ
            {"a": OPEN, "b": WORSE},
            {"a": 230.0, "b": 10.0},
            "plain",
            "Take plain: nothing is shown to be better, and nothing as good is clearly cheaper. a "
            "has the best mean, by 0.4 BLEU, but the minimum detectable effect is 0.6; it took 2.3 "
            "times as long as plain.",
        ),
        (  # about as cheap is no reason
            {"a": contrast(-0.1, p=0.9)},
            {"a": 95.0},
            "plain",
            "Take plain: nothing is shown to be better, and nothing as good is clearly cheaper.",
        ),
        (
            {"a": contrast(-0.1, p=0.9)},
            {"a": 50.0},
            "a",
            "Take a: nothing is shown to be better, and it is the cheapest. It took 0.5 times as "
            "long as plain.",
        ),
        (
            {"a": BETTER},
            {"a": 101.0},
            "a",
            "Take a: it is shown to beat plain and has the best mean; it took about as long as "
            "plain.",
        ),
        (  # the cheaper one of two that are as good
            {"a": BETTER, "b": contrast(0.7, p=0.02)},
            {"a": 1200.0, "b": 300.0},
            "b",
            "Take b: it is shown to beat plain and is within the minimum detectable effect (0.6 "
            "BLEU) of a, the best mean; it took 3.0 times as long as plain.",
        ),
        (  # too far from the best, though cheaper
            {"a": contrast(2.0, p=0.001), "b": contrast(0.7, p=0.02)},
            {"a": 1200.0, "b": 300.0},
            "a",
            "Take a: it is shown to beat plain and has the best mean; it took 12 times as long as "
            "plain.",
        ),
        (  # within the effect of the best, and of the baseline as well
            {"a": BETTER, "b": contrast(0.5, p=0.2)},
            {"a": 300.0, "b": 100.0},
            "a",
            "Take a: it is shown to beat plain and has the best mean; it took 3.0 times as long as "
            "plain. b is cheaper and is within the minimum detectable effect (0.6 BLEU) of a, but "
            "is not shown to beat plain.",
        ),
        (  # the best mean is not shown, another one is: the primary contrast is not corrected
            {"a": contrast(1.1, p=0.06), "b": BETTER},
            {"a": 100.0, "b": 300.0},
            "b",
            "Take b: it is shown to beat plain and is within the minimum detectable effect (0.6 "
            "BLEU) of a, the best mean; it took 3.0 times as long as plain. a is cheaper and has "
            "the best mean, but is not shown to beat plain.",
        ),
    ],
)
def test_the_best_or_the_cheapest_that_is_as_good_is_taken(effects, seconds, take, said):
    rows = [row_of(name, baseline=one) for name, one in effects.items()]
    advised = advice.of(gathered(*rows, seconds=seconds))
    assert (advised.take, advised.sentence) == (take, said)


@pytest.mark.parametrize(("samples", "take"), [(500, "plain"), (499, "a")])
def test_a_method_that_saw_as_many_samples_is_no_cheaper_than_the_baseline(samples, take):
    evidence = gathered(row_of("a", baseline=OPEN), seconds={"a": 80.0})
    known = {"plain": spent(100.0, 500), "a": spent(80.0, samples)}
    trial = dataclasses.replace(evidence.trial, costs=known)
    assert advice.of(dataclasses.replace(evidence, trial=trial)).take == take


@pytest.mark.parametrize("kind", ["matched", "averaged", "shuffled"])
def test_a_gain_that_a_control_has_too_is_said(kind):
    row = row_of("exponential", baseline=BETTER, control=OPEN)
    evidence = gathered(row, row_of("matched", "control"), seconds={"exponential": 100.0})
    methods = evidence.plan.methods
    control = {"matched": dataclasses.replace(methods["matched"], kind=kind)}
    plan = dataclasses.replace(evidence.plan, methods=methods | control)
    trial = dataclasses.replace(evidence.trial, plan=plan)
    advised = advice.of(dataclasses.replace(evidence, trial=trial))
    said = "as plain, and is not shown to beat its control matched."
    if kind != "shuffled":  # that control has the same mean weight, and so the same learning rate
        said += " That control is a learning rate: tune the one of plain first."
    assert advised.sentence.endswith(said)
    assert advised.take == "exponential", "a control is not to be taken"


def test_a_lower_perplexity_is_taken():
    rows = [row_of("a", baseline=WORSE)]
    assert advice.of(gathered(*rows, seconds={"a": 200.0}, metric="perplexity")).take == "a"


FAULT = {1: "90 % of the outputs are empty"}


@pytest.mark.parametrize(
    ("plain", "row", "said"),
    [
        (None, row_of("a", baseline=contrast(1.0, seeds=[1.0])), "one seed says nothing about"),
        (None, row_of("a", faults=FAULT, baseline=BETTER), "outputs of a are degenerate"),
        (
            row_of("plain", "baseline", faults=FAULT),
            row_of("a", baseline=BETTER),
            "outputs of plain are degenerate",
        ),
        (None, row_of("a", done=2), "not every run of a is done"),
        (row_of("plain", "baseline", done=1), row_of("a"), "not every run of plain is done"),
        (None, row_of("a"), "a cannot be compared with plain"),
        (
            row_of("plain", "baseline", mean=0.1),
            row_of("a", baseline=OPEN, mean=0.2),
            "the models have learnt too little to be compared",
        ),
    ],
)
def test_where_nothing_is_known_nothing_is_advised(plain, row, said):
    advised = advice.of(gathered(row, plain=plain, seconds={"a": 200.0}))
    assert advised.take is None and advised.sentence.startswith(f"No method can be advised: {said}")


def test_degenerate_outputs_are_left_out_and_named(tmp_path):
    rows = [row_of("a", faults=FAULT, baseline=BETTER), row_of("b", baseline=OPEN)]
    advised = advice.of(gathered(*rows, seconds={"a": 10.0, "b": 150.0}))
    assert advised.take == "plain" and advised.left_out == ("outputs of a are degenerate",)


def test_over_several_corpora_their_mean_and_all_time_count():
    studies = [
        study_of(row_of("a", baseline=one), corpus=corpus)
        for corpus, one in (("toy", contrast(1.5)), ("other", contrast(0.2, p=0.6)))
    ]
    pooled = contrast(0.9, p=0.03, seeds=(), corpora=2)
    evidence = gathered_of(*studies, overall={"plain": (None, None), "a": (pooled, None)})
    known = {m: {c: Cost({"own": Spent(seconds=s)}) for c in ("toy", "other")} for m, s in
             (("plain", 100.0), ("a", 250.0))}  # fmt: skip
    evidence = dataclasses.replace(evidence, trial=dataclasses.replace(evidence.trial, costs=known))
    assert costs.total(evidence, "a").seconds == 500
    told = advice.of(evidence)
    assert told.take == "a" and "2.5 times as long as plain" in told.sentence
    one = dataclasses.replace(pooled, corpora=1)
    evidence.summary.rows["a"] = dataclasses.replace(evidence.summary.rows["a"], baseline=one)
    assert advice.of(evidence).sentence == (
        "No method can be advised: a cannot be compared with plain."
    )
