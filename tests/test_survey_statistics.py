"""What a survey says in numbers, against reference implementations and known answers."""

import dataclasses
import json
import random
import re

import krippendorff
import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import inter_rater, multitest

from augless import survey
from augless.survey import agreement, datasheet, exports, inference, raters, tallying
from augless.survey.designing import Options, Scale
from augless.survey.store import Answer
from rated import answer_all, lines, made, planned


def rated(seed, annotators=5, texts=40, missing=0.2):
    """Draw ratings that agree somewhat, some missing: (A, U), 0 for none."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(1, 6, (1, texts))
    noisy = np.clip(truth + generator.integers(-1, 2, (annotators, texts)), 1, 5)
    return noisy * (generator.random((annotators, texts)) >= missing)


# Agreement


@pytest.mark.parametrize("seed", range(12))
def test_alpha_is_that_of_krippendorff(seed):
    ratings = rated(seed, annotators=2 + seed % 5, texts=5 + 7 * seed)
    expected = krippendorff.alpha(
        np.where(ratings > 0, ratings, np.nan).astype(float),
        value_domain=[1, 2, 3, 4, 5],
        level_of_measurement="ordinal",
    )
    alpha = agreement.alpha(ratings, np.arange(ratings.shape[1]), resamples=200)
    assert alpha.value == pytest.approx(expected, abs=1e-12)
    assert alpha.low <= alpha.value <= alpha.high


def test_alpha_of_perfect_agreement_is_one_and_of_opposites_negative():
    same = np.array([[1, 2, 3, 4, 5]] * 3)
    assert agreement.alpha(same, np.arange(5), resamples=50).value == 1
    opposite = np.array([[1, 5, 1, 5], [5, 1, 5, 1]])
    assert agreement.alpha(opposite, np.arange(4), resamples=50).value < 0


def test_an_undefined_alpha_says_why():
    alone = np.array([[1, 2, 0], [0, 0, 3]])
    assert "rated by two" in agreement.alpha(alone, np.arange(3)).reason
    constant = np.full((3, 4), 4)
    alpha = agreement.alpha(constant, np.arange(4))
    assert alpha.value is None and "every rating is 4" in alpha.reason
    one_item = agreement.alpha(rated(0, missing=0), np.zeros(40, dtype=int), resamples=50)
    assert one_item.value is not None and one_item.low is None and "no interval" in one_item.reason


def test_the_interval_of_alpha_is_wider_where_texts_come_in_few_items():
    ratings = rated(3, texts=60)
    apart = agreement.alpha(ratings, np.arange(60), resamples=2_000)
    clustered = agreement.alpha(ratings, np.arange(60) // 15, resamples=2_000)
    assert apart.value == clustered.value
    assert clustered.high - clustered.low != apart.high - apart.low


@pytest.mark.parametrize("seed", range(8))
def test_weighted_kappa_is_that_of_statsmodels(seed):
    one, other = rated(seed, annotators=2)
    both = (one > 0) & (other > 0)
    table = np.zeros((5, 5))
    np.add.at(table, (one[both] - 1, other[both] - 1), 1)
    expected = inter_rater.cohens_kappa(table, wt="quadratic", return_results=False)
    assert agreement.kappa(one, other).value == pytest.approx(expected, abs=1e-12)


def test_an_undefined_kappa_says_why():
    constant = np.array([3, 3, 3])
    assert "one and the same" in agreement.kappa(constant, constant).reason
    assert "in common" in agreement.kappa(np.array([1, 0]), np.array([0, 1])).reason


# Means and tests


def cube(seed, annotators=5, items=40, systems=3, effect=0.0):
    generator = np.random.default_rng(seed)
    whole = (
        3.2
        + generator.normal(0, 0.4, (annotators, 1, 1))
        + generator.normal(0, 0.5, (1, items, 1))
        + generator.normal(0, 0.3, (1, items, systems))
        + generator.normal(0, 0.7, (annotators, items, systems))
        + effect * np.arange(systems)
    )
    return np.clip(np.round(whole), 1, 5)


def test_an_interval_by_items_alone_is_that_of_scipy():
    ratings = cube(0, annotators=1, systems=1)
    (mean,) = inference.means(ratings, resamples=20_000)
    expected = stats.bootstrap(
        (ratings.ravel(),), np.mean, n_resamples=20_000, method="percentile", random_state=1
    ).confidence_interval
    assert mean.value == ratings.mean() and mean.count == 40
    # Expanded by t (1 + 1 / 39)^(1/2) / z.
    wider = stats.t.ppf(0.975, 39) * (40 / 39) ** 0.5 / stats.norm.ppf(0.975)
    ends = [mean.value + wider * (end - mean.value) for end in expected]
    assert (mean.low, mean.high) == pytest.approx(ends, abs=0.03)


def test_an_interval_that_draws_annotators_too_is_wider():
    ratings = cube(1)
    (both, *_), alone = inference.means(ratings), inference.means(ratings.mean(0, keepdims=True))[0]
    assert both.value == pytest.approx(alone.value)
    assert both.high - both.low > alone.high - alone.low


def test_missing_ratings_are_left_out_and_nothing_is_no_mean():
    ratings = cube(2)
    ratings[0, :20, 0] = np.nan
    ratings[:, :, 2] = np.nan
    means = inference.means(ratings, resamples=500)
    assert means[0].value == pytest.approx(np.nanmean(ratings[:, :, 0])) and means[0].count == 180
    assert means[2] is None
    assert inference.difference(ratings, 2, 0, resamples=500) is None


@pytest.mark.parametrize("size", [3, 7, 12])
def test_few_items_are_tested_exactly_as_scipy_does(size):
    differences = np.random.default_rng(size).integers(-8, 9, size) / 4
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=5_000
    ).pvalue
    assert inference.permutation_p(differences) == pytest.approx(expected, abs=1e-12)


def test_many_items_are_tested_as_scipy_does_but_for_chance():
    differences = np.random.default_rng(4).normal(0.15, 1, 150)
    expected = stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=50_000,
        random_state=1,
    ).pvalue
    assert inference.permutation_p(differences) == pytest.approx(expected, abs=0.015)


def test_no_difference_at_all_has_p_one():
    assert inference.permutation_p(np.zeros(30)) == 1.0
    difference = inference.difference(np.full((2, 5, 2), 3.0), 1, 0, resamples=200)
    assert (difference.value, difference.p, difference.minimum_detectable_effect) == (
        0.0,
        1.0,
        None,
    )


def test_a_true_difference_is_found_and_its_size_is_in_the_interval():
    difference = inference.difference(cube(5, items=100, effect=0.4), 2, 0)
    assert difference.p < 0.001 and difference.low < 0.8 < difference.high
    assert 0.05 < difference.minimum_detectable_effect < difference.value


def test_systems_are_compared_item_by_item_where_an_annotator_rated_both():
    ratings = np.full((2, 3, 2), np.nan)
    ratings[0, :, 0], ratings[0, :, 1] = [1, 2, 3], [2, 4, 3]
    ratings[1, 0] = [5, 1]
    assert inference.paired(ratings, 1, 0).tolist() == [-1.5, 2.0, 0.0]


def simulated(trials, effect, seed):
    """Return shares of simulated surveys whose interval holds the truth, and that claim."""
    covered = claimed = 0
    for number in range(trials):
        difference = inference.difference(
            cube(1_000 * seed + number, items=30, systems=2, effect=effect), 1, 0, resamples=400
        )
        covered += difference.low <= effect <= difference.high
        claimed += difference.p < 0.05
    return covered / trials, claimed / trials


def test_intervals_hold_the_truth_and_nulls_are_seldom_claimed():
    # With these seeds; over a thousand others, 0.99 and 0.05.
    covered, claimed = simulated(150, 0.0, seed=1)
    assert covered >= 0.93 and claimed <= 0.1


def test_intervals_of_five_annotators_hold_the_truth():
    # With plain percentiles it would be 0.88; over a thousand surveys it is 0.94.
    truth = np.mean([cube(10**6 + k, items=100, systems=1).mean() for k in range(1_000)])
    surveys = [inference.means(cube(k, systems=1), resamples=400)[0] for k in range(150)]
    assert np.mean([mean.low <= truth <= mean.high for mean in surveys]) > 0.91


def test_one_rating_has_no_interval():
    (mean,) = inference.means(np.full((1, 1, 1), 4.0), resamples=50)
    assert (mean.value, mean.low, mean.high, mean.count) == (4.0, None, None, 1)


# The whole


def scored_by(made_survey, chance, better="system-2"):
    """Return how careful people rate: system-2 and Human higher, degraded texts low."""
    names = made_survey.design.systems
    base = {}

    def scored(annotator, task, number):
        if task.kind == "degraded":
            return 1
        if task.kind == "gold":
            return next(iter(task.expected.values()))
        key = (annotator.id, task.item, task.text, number)
        if key not in base:
            lift = 1 if {better, survey.REFERENCE} & {names[s] for s in task.systems} else 0
            base[key] = min(max(chance.choice([2, 3, 3, 4]) + lift, 1), 5)
        return base[key]

    return scored


@pytest.fixture(scope="module")
def made_survey(tmp_path_factory):
    gold = (survey.Gold("q", "a good one", {"fluency": 5, "relevance": 5}),)
    options = {"items": 30, "repeats": 6, "degraded": 5, "gold": gold}
    kept = made(
        tmp_path_factory.mktemp("survey") / "s", annotators=("anna", "ben", "carl"), **options
    )
    answer_all(kept, scored_by(kept, random.Random(1)))
    return kept


def test_a_tally_gives_means_differences_and_agreement(made_survey):
    counted = survey.tally(made_survey, resamples=2_000)
    assert counted.baseline == "system-1"
    for scored in counted.scales:
        better, other = scored.row("system-2"), scored.row("system-3")
        assert better.claimed and better.difference.value > 0.5
        assert not other.claimed
        assert scored.row("system-1").difference is None
        assert scored.row(survey.REFERENCE).difference is None
        assert better.mean.low < better.mean.value < better.mean.high
        assert sum(better.counts) == better.mean.count == 30 * 3
        assert len(scored.kappas) == 3 and -1 < scored.kappa < 1
    assert [one.flags for one in counted.raters] == [()] * 3
    assert counted.raters[0].consistency.value == counted.raters[0].gold.value == 1
    assert counted.raters[0].self_kappa == 1
    assert counted.notes == []
    said = exports.sentence(counted)
    assert said.startswith("On fluency, system-2 (+") and "rated higher than system-1" in said


def test_nothing_is_claimed_where_nothing_differs(tmp_path):
    kept = made(tmp_path / "s")
    answer_all(kept, lambda one, task, k: 3 + task.item % 2)
    said = exports.sentence(survey.tally(kept, resamples=200))
    assert "On relevance, no system is shown to differ from system-1." in said


def test_means_are_those_of_the_ratings_themselves(made_survey):
    counted = survey.tally(made_survey, resamples=200)
    design, answers = made_survey.design, made_survey.answers()
    for number, scored in enumerate(counted.scales):
        for place, system in enumerate(design.systems):
            values = []
            for one in design.annotators:
                seen = set()
                for answer in answers[one.id]:
                    task = one.order[answer.place]
                    if task not in seen and place in design.tasks[task].systems:
                        values.append(answer.scores[number])
                    seen.add(task)
            assert scored.row(system).mean.value == pytest.approx(np.mean(values))


def test_p_values_are_corrected_over_systems_and_scales_by_holm(made_survey):
    counted = survey.tally(made_survey, resamples=2_000)
    known = [row.difference for scored in counted.scales for row in scored.rows if row.difference]
    assert len(known) == 4
    expected = multitest.multipletests([one.p for one in known], method="holm")[1]
    assert [one.corrected_p for one in known] == pytest.approx(list(expected))


def test_the_same_ratings_give_the_same_tally_and_people_can_be_left_out(made_survey):
    assert survey.tally(made_survey, resamples=300) == survey.tally(made_survey, resamples=300)
    fewer = survey.tally(made_survey, without=["ben"], resamples=300)
    assert fewer.without == ("ben",)
    assert fewer.scales[0].row("system-2").mean.count == 60
    assert "Left out by choice: ben." in fewer.notes
    with pytest.raises(survey.BadOptions, match="no annotator"):
        survey.tally(made_survey, without=["dora"])
    with pytest.raises(survey.BadOptions, match="is left out"):
        survey.tally(made_survey, without=["anna", "ben", "carl"])
    with pytest.raises(survey.BadOptions, match="is no system"):
        survey.tally(made_survey, baseline="x")


def test_the_reference_can_be_what_others_are_compared_with(made_survey):
    counted = survey.tally(made_survey, baseline=survey.REFERENCE, resamples=300)
    assert all(row.difference for row in counted.scales[0].rows if row.system != survey.REFERENCE)


def test_texts_that_check_annotators_do_not_count_for_systems(made_survey):
    table = tallying.table(
        made_survey.design, 0, made_survey.design.annotators, made_survey.answers()
    )
    kinds = np.array([task.kind for task in made_survey.design.tasks])
    assert not table[:, kinds != "system"].any() and table[:, kinds == "system"].all()


def test_a_survey_that_is_half_rated_says_how_far_it_is(tmp_path):
    made_survey = made(tmp_path / "s")
    answer_all(made_survey, lambda one, *_: 3 if one.id == "a1" else 4, upto=10)
    counted = survey.tally(made_survey, resamples=200)
    assert counted.notes[0] == "76 texts are not rated yet: anna (10 of 48), ben (10 of 48)."
    assert any("No text checks" in note for note in counted.notes)
    alone = survey.tally(made_survey, without=["ben"], resamples=200)
    assert any("Only one annotator" in note for note in alone.notes)
    assert any("Alpha of fluency is undefined: no text was rated by two" in n for n in alone.notes)


def test_texts_written_alike_count_for_every_system(tmp_path):
    same = lines(12)
    options = Options(items=12, annotators=("anna", "ben"))
    design = survey.design({"a": same, "b": same}, lines(12, seed=1), None, options)
    made_survey = survey.Survey.create(tmp_path / "s", design)
    answer_all(made_survey, lambda *_: 4)
    counted = survey.tally(made_survey, resamples=200)
    assert [row.mean.count for row in counted.scales[0].rows] == [24, 24]
    assert counted.scales[0].rows[1].difference.p == 1.0
    assert any("written alike" in note for note in counted.notes)
    assert any("every rating is 4" in note for note in counted.notes)


# Who rated


def looked_at(answers=None, **options):
    design = planned(items=30, repeats=6, degraded=8, annotators=("anna",), **options)
    (annotator,) = design.annotators
    chance = random.Random(0)
    given = []
    for place, number in enumerate(annotator.order):
        task = design.tasks[number]
        scores = tuple(1 if task.kind == "degraded" else chance.randint(2, 5) for _ in range(2))
        answer = Answer(annotator="a1", place=place, revision=1, scores=scores, seconds=6.0, at="")
        given.append(answers(answer, task) if answers else answer)
    return raters.rater(design, annotator, given)


def flags(rater):
    return {flag.what for flag in rater.flags}


def test_a_careful_annotator_is_not_flagged_but_for_what_they_do():
    assert flags(looked_at()) <= {"inconsistent"}  # whose ratings are drawn at random
    assert looked_at().degraded.value == 1 and looked_at().fast == 0


def test_who_is_too_fast_to_have_read_is_flagged():
    def hasty(answer, task):
        return dataclasses.replace(answer, seconds=0.3 if answer.place % 2 else 6.0)

    rater = looked_at(hasty)
    assert "too fast" in flags(rater) and rater.fast == pytest.approx(0.5, abs=0.01)

    def skimming(answer, task):  # a long text in two seconds
        return dataclasses.replace(answer, seconds=2.0)

    assert "too fast" not in flags(looked_at(skimming))


def test_who_always_says_the_same_is_flagged_and_fails_the_checks():
    def constant(answer, task):
        return dataclasses.replace(answer, scores=(3, answer.scores[1]))

    rater = looked_at(constant)
    assert rater.constant == ("fluency",) and "constant" in flags(rater)
    numb = looked_at(lambda answer, task: dataclasses.replace(answer, scores=(3, 3)))
    assert {"constant", "degraded"} <= flags(numb)
    assert numb.self_kappa is None and numb.consistency.value == 1


def test_who_misses_gold_and_contradicts_themselves_is_flagged():
    gold = tuple(survey.Gold("q", f"t {k}", {"fluency": 1, "relevance": 5}) for k in range(5))

    def reversed_(answer, task):
        scores = (5, 1) if task.kind == "gold" or answer.place % 2 else (1, 5)
        return dataclasses.replace(answer, scores=scores)

    rater = looked_at(reversed_, gold=gold)
    assert rater.gold.value == 0 and rater.gold.of == 10
    assert {"gold", "inconsistent"} <= flags(rater) or {"gold"} <= flags(rater)
    assert rater.consistency.of == 12


def test_somebody_who_rated_nothing_has_no_numbers():
    design = planned()
    nobody = raters.rater(design, design.annotators[0], [])
    assert (nobody.done, nobody.seconds, nobody.fast, nobody.flags) == (0, None, None, ())


# How it is written

NASTY = ["a|b*c", "<img src=x onerror=alert(1)>", "50% & $x_1$ ~^\\{}", "=1+1"]


@pytest.fixture
def nasty(tmp_path):
    texts = {name: lines(20, seed=k) for k, name in enumerate(NASTY)}
    options = Options(
        items=15,
        annotators=("<b>anna</b>", "ben|x"),
        title="<script>alert(1)</script>",
        scales=(Scale("<i>wit", "Is it <u>funny</u>?"),),
    )
    design = survey.design(texts, lines(20, seed=50), lines(20, seed=60), options)
    made_survey = survey.Survey.create(tmp_path / "n", design)
    chance = random.Random(2)
    answer_all(made_survey, lambda *_: chance.randint(1, 5))
    return survey.tally(made_survey, resamples=300)


def test_names_are_escaped_in_every_format(nasty, tmp_path):
    page = exports.save(nasty, tmp_path / "out").read_text()
    files = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    for text in (page, files["figure.svg"]):
        assert "<img" not in text and "<script" not in text and "<b>anna" not in text
        assert "&lt;img src=x" in text
    assert "\\<img" in files["table.md"] and "a\\|b\\*c" in files["table.md"]
    rows = [line for line in files["table.md"].splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows[:7]} == {3}
    assert r"50\% \& \$x\_1\$" in files["table.tex"]
    assert json.loads(files["tally.json"])["scales"]["<i>wit"]["systems"]["=1+1"]["mean"]["count"]
    assert "<b>anna" not in files["datasheet.md"].replace("\\<b\\>anna", "")


def test_the_rows_of_table_2_are_as_in_the_paper(made_survey):
    counted = survey.tally(made_survey, resamples=500)
    markdown, latex = exports.markdown(counted), exports.latex(counted)
    head, _, *rows = markdown.split("\n\n")[0].splitlines()
    assert head == "| Model | Fluency | Relevance |"
    assert [row.split()[1] for row in rows] == ["system-1", "system-2", "system-3", "Human"]
    best = counted.scales[0].row("system-2").mean.value
    assert f"**{best:.3f}**†" in rows[1]
    assert re.search(r"system-2 & \\textbf\{\d\.\d{3}\}\$\^\\dagger\$ & ", latex)
    assert re.search(r"\\midrule\nHuman & \d\.\d{3} & \d\.\d{3} \\\\\n\\bottomrule", latex)
    assert latex.count("\\underline{") == 2 and latex.count("{") == latex.count("}")


def test_the_terminal_shows_every_number(made_survey):
    said = exports.text(survey.tally(made_survey, resamples=300))
    for word in (
        "Fluency",
        "Relevance",
        "95 %",
        "p (Holm)",
        "alpha",
        "kappa",
        "anna",
        "minimum detectable effect",
    ):
        assert word in said


def test_the_figure_shows_every_share_and_stands_alone(made_survey):
    counted = survey.tally(made_survey, resamples=300)
    picture = exports.svg(counted)
    assert picture.startswith("<svg xmlns") and picture.count("<rect") > 8 * 3
    row = counted.scales[0].row("system-1")
    assert f"system-1: {row.counts[2]} of 90 ratings are 3" in picture
    from xml.etree import ElementTree

    ElementTree.fromstring(picture)


def test_the_data_sheet_says_what_is_known_and_marks_what_is_not(made_survey):
    sheet = datasheet.markdown(survey.tally(made_survey, resamples=300))
    for fact in ("30 of 60 lines", "seed 1", "Latin square", "6 repeated texts", "5 degraded"):
        assert fact in sheet
    assert sheet.count(datasheet.OPEN) > 8
    assert "Krippendorff's ordinal alpha" in sheet and "Holm" in sheet
