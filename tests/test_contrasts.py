"""Differences between methods, had other seeds been drawn: against references and simulations."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from augless import metrics
from augless.metrics import contrasts

NAMES = ("plain", "a", "b", "c", "d", "e")


def drawn(generator, methods=6, seeds=4, *, shared=1.8, own=0.9, effect=0.0):
    """Draw scores of a two-way model; method `a` is better by the effect."""
    values = shared * generator.standard_normal((1, seeds))
    values = values + own * generator.standard_normal((methods, seeds)) + 30
    values[1] += effect
    return metrics.Scores(NAMES[:methods], values)


def rate(simulations, event, **knobs):
    """Return in which share of simulated comparisons of `a` with plain an event happens."""
    generator = np.random.default_rng(7)
    compared = (
        metrics.difference(drawn(generator, **knobs), "a", "plain") for _ in range(simulations)
    )
    return np.mean([event(one) for one in compared])


def test_two_methods_are_compared_by_the_paired_t():
    values = np.random.default_rng(1).normal(30, 2, (2, 9))
    one = metrics.difference(metrics.Scores(("plain", "a"), values), "a", "plain")
    reference = stats.ttest_rel(values[1], values[0])
    interval = reference.confidence_interval(0.95)
    assert one.estimate == pytest.approx((values[1] - values[0]).mean())
    assert one.p == one.corrected_p == pytest.approx(reference.pvalue)
    assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
    assert one.degrees == 8


def test_the_residual_variance_is_that_of_least_squares():
    scores = drawn(np.random.default_rng(2), methods=4, seeds=5)
    method, seed = (x.ravel() for x in np.indices((4, 5)))
    design = np.concatenate([np.eye(4)[method], np.eye(5)[seed][:, 1:]], 1)
    _, squares, rank, _ = np.linalg.lstsq(design, scores.values.ravel(), rcond=None)
    assert scores.squares == pytest.approx(squares[0])
    assert scores.degrees == 20 - rank == 12
    assert scores.variance == pytest.approx(squares[0] / 12)
    assert metrics.Scores.of({"plain": [1, 2], "a": [2, 4]}).values.dtype == np.float64


def test_a_difference_adds_up_sentences_and_seeds():
    scores = drawn(np.random.default_rng(3))
    for sentence_variance in (0.0, 0.3):
        one = metrics.difference(scores, "b", "c", sentence_variance=sentence_variance)
        expected = sentence_variance + 2 * scores.variance / 4
        assert one.deviation**2 == pytest.approx(expected)
        assert one.test == "two-way" and one.degrees == 15
        t = stats.t(15)
        assert one.p == pytest.approx(2 * t.sf(abs(one.estimate) / expected**0.5))
        assert one.high - one.estimate == pytest.approx(t.ppf(0.975) * expected**0.5)
        assert one.estimate - one.low == pytest.approx(one.high - one.estimate)


@given(st.floats(-50, 50), st.lists(st.floats(-20, 20), min_size=4, max_size=4))
def test_what_all_methods_share_changes_nothing(level, luck):
    scores = drawn(np.random.default_rng(4))
    moved = metrics.Scores(scores.methods, scores.values + level + np.array(luck))
    one, other = (metrics.difference(x, "a", "plain") for x in (scores, moved))
    numbers = [dataclasses.astuple(dataclasses.replace(x, test="")) for x in (one, other)]
    assert numbers[0][:8] == pytest.approx(numbers[1][:8], rel=1e-6)
    swapped = metrics.difference(scores, "plain", "a")
    assert (swapped.estimate, swapped.p) == pytest.approx((-one.estimate, one.p))


@pytest.mark.parametrize("seeds", [2, 3, 8])
@pytest.mark.parametrize("shared", [0.0, 5.0])
def test_a_null_is_claimed_as_often_as_the_level_says(seeds, shared):
    share = rate(2000, lambda one: one.p < 0.05, seeds=seeds, shared=shared)
    assert 0.035 < share < 0.065  # 0.05 within 3 standard errors of the simulation


def test_an_interval_holds_the_truth_as_often_as_it_says():
    share = rate(2000, lambda one: one.low <= 1.3 <= one.high, effect=1.3)
    assert 0.935 < share < 0.965


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_a_true_difference_of_the_minimum_detectable_effect_is_found_as_often_as_promised(seeds):
    # 2 s^2 / S with s = 0.9 is known here, as the truth that a run's own estimate stands for.
    effect = contrasts.minimum_detectable_effect(
        0.9 * (2 / seeds) ** 0.5, 5 * (seeds - 1), 0.05, 0.8
    )
    share = rate(2000, lambda one: one.p < 0.05 and one.estimate > 0, seeds=seeds, effect=effect)
    assert 0.77 < share < 0.83


def test_more_seeds_always_see_more():
    generator = np.random.default_rng(8)
    effects = [
        np.mean(
            [
                metrics.difference(
                    drawn(generator, seeds=seeds), "a", "plain"
                ).minimum_detectable_effect
                for _ in range(50)
            ]
        )
        for seeds in (2, 3, 5, 10, 20)
    ]
    assert effects == sorted(effects, reverse=True)


def test_the_test_of_the_model_has_its_level_and_finds_a_method_that_varies_more():
    generator = np.random.default_rng(9)
    null = [metrics.model_fails(drawn(generator, seeds=8), "a", "plain") for _ in range(2000)]
    assert 0.035 < np.mean(null) < 0.065

    def noisy():
        scores = drawn(generator, seeds=8)
        scores.values[1] += 9 * generator.standard_normal(8)
        return metrics.model_fails(scores, "a", "plain")

    assert np.mean([noisy() for _ in range(200)]) > 0.9


def test_where_the_model_fails_the_paired_t_takes_over():
    generator = np.random.default_rng(10)
    for seeds in (4, 9):
        scores = drawn(generator, seeds=seeds)
        scores.values[1] += 9 * generator.standard_normal(seeds)
        one = metrics.difference(scores, "a", "plain")
        reference = stats.ttest_rel(scores.row("a"), scores.row("plain"))
        assert one.test == "paired-t" and one.degrees == seeds - 1
        assert one.p == pytest.approx(reference.pvalue)


@pytest.mark.parametrize(("seeds", "test"), [(7, "two-way"), (8, "paired-t")])
def test_a_contrast_that_varies_less_needs_eight_seeds_to_say_so(seeds, test):
    scores = drawn(np.random.default_rng(11), seeds=seeds, own=3.0)
    scores.values[1] = scores.values[0] + 1 + 0.01 * np.arange(seeds)
    assert metrics.model_fails(scores, "a", "plain")
    assert metrics.difference(scores, "a", "plain").test == test


def test_two_methods_leave_nothing_to_test_the_model_by():
    assert not metrics.model_fails(drawn(np.random.default_rng(0), methods=2), "a", "plain")


def test_scores_without_any_spread_are_told_apart_by_their_value_alone():
    scores = metrics.Scores.of({"plain": [1.0, 2.0], "a": [2.0, 3.0], "b": [1.0, 2.0]})
    assert metrics.difference(scores, "a", "plain").p < 1e-20
    assert metrics.difference(scores, "b", "plain").p == 1.0


def test_the_mean_over_corpora_by_hand():
    generator = np.random.default_rng(12)
    parts = [metrics.difference(drawn(generator, seeds=s), "a", "plain") for s in (3, 5, 9)]
    mean = metrics.mean_difference(parts)
    variances = [part.deviation**2 for part in parts]
    assert mean.estimate == pytest.approx(np.mean([part.estimate for part in parts]))
    assert mean.deviation**2 == pytest.approx(sum(variances) / 9)
    spread = sum(v**2 / part.degrees for v, part in zip(variances, parts, strict=True))
    assert mean.degrees == pytest.approx(sum(variances) ** 2 / spread)
    assert mean.test == "mean"
    shared = [dataclasses.replace(part, sentence_variance=0.9) for part in parts]
    assert metrics.mean_difference(shared).sentence_variance == pytest.approx(0.3)
    reach = stats.t(mean.degrees).ppf(0.975) * mean.deviation
    assert (mean.low, mean.high) == pytest.approx((mean.estimate - reach, mean.estimate + reach))


def test_levels_and_powers_are_those_asked_for_and_five_and_eighty_percent_else():
    generator = np.random.default_rng(25)
    scores, pair = drawn(generator), systems_of(generator, 1)
    systems = systems_of(generator, 3)

    def all_of(**knobs):
        parts = [metrics.difference(scores, name, "plain", **knobs) for name in ("a", "b")]
        found = [parts[0], metrics.mean_difference(parts, **knobs)]
        found.append(metrics.random_effects(parts, **knobs).mean)
        found += [metrics.compare(x, "plain", resamples=50, **knobs)["a"] for x in (pair, systems)]
        return found

    defaults, strict = all_of(), all_of(alpha=0.01, power=0.9)
    assert all_of(alpha=0.05, power=0.8) == defaults
    for one, other in zip(defaults, strict, strict=True):
        t = stats.t(one.degrees)
        assert (one.p, one.estimate) == (other.p, other.estimate)
        assert one.high == pytest.approx(one.estimate + t.ppf(0.975) * one.deviation)
        assert other.high == pytest.approx(one.estimate + t.ppf(0.995) * one.deviation)
        for found, alpha, power in ((one, 0.05, 0.8), (other, 0.01, 0.9)):
            shift = found.minimum_detectable_effect / found.deviation
            threshold = t.ppf(1 - alpha / 2)
            assert stats.nct(one.degrees, shift).sf(threshold) == pytest.approx(power)
    few = [
        metrics.seeds_needed(0.5, 0.3, 6, **knobs) for knobs in ({}, {"alpha": 0.05, "power": 0.8})
    ]
    assert few[0] == few[1] < metrics.seeds_needed(0.5, 0.3, 6, alpha=0.01)
    assert few[0] < metrics.seeds_needed(0.5, 0.3, 6, power=0.95)


def test_precise_corpora_without_any_spread_average_by_value():
    """No variance at all: degrees add up, and equals are told from unequals."""
    exact = metrics.mean_difference([measured(1.0, 0.0), measured(3.0, 0.0)])
    assert (exact.estimate, exact.p, exact.degrees, exact.deviation) == (2, 0, 20, 0)


def test_random_effects_of_three_unequal_corpora_by_hand():
    """DerSimonian and Laird, written out."""
    effects, variances = np.array([0.0, 1.0, 5.0]), np.array([1.0, 0.25, 4.0])
    found = metrics.random_effects(
        [measured(e, v**0.5) for e, v in zip(effects, variances, strict=True)]
    )
    fixed = 1 / variances
    q = (fixed * (effects - np.average(effects, weights=fixed)) ** 2).sum()
    tau = (q - 2) / (fixed.sum() - (fixed**2).sum() / fixed.sum())
    assert found.between**2 == pytest.approx(tau) and tau > 0
    weights = 1 / (variances + tau)
    mean = np.average(effects, weights=weights)
    assert found.mean.estimate == pytest.approx(mean)
    assert found.weights == pytest.approx(weights / weights.sum())
    observed = max(1, (weights * (effects - mean) ** 2).sum() / 2)
    assert found.mean.deviation**2 == pytest.approx(observed / weights.sum())
    assert found.mean.test == "random-effects" and found.mean.degrees == 2


def test_the_mean_over_corpora_claims_a_null_as_often_as_the_level_says():
    generator = np.random.default_rng(13)

    def claimed():
        spreads = (0.4, 0.9, 2.0)
        parts = [
            metrics.difference(drawn(generator, seeds=3, own=own), "a", "plain") for own in spreads
        ]
        return metrics.mean_difference(parts).p < 0.05

    assert 0.035 < np.mean([claimed() for _ in range(1500)]) < 0.07


def measured(effect, deviation):
    blank = metrics.Difference(0.0, 0.0, 0.0, 1.0, 1.0, 10, 0.0, 0.0, "two-way")
    return dataclasses.replace(blank, estimate=effect, deviation=deviation)


def test_random_effects_by_hand():
    """Two corpora of variance 1 with effects 0 and 4: Q = 8, tau^2 = 7, Hartung-Knapp q = 1."""
    pooled = metrics.random_effects([measured(0.0, 1.0), measured(4.0, 1.0)])
    assert pooled.between**2 == pytest.approx(7)
    assert pooled.mean.estimate == pytest.approx(2) and pooled.weights == pytest.approx((0.5, 0.5))
    assert pooled.mean.deviation**2 == pytest.approx(8 / 2)
    assert pooled.mean.high == pytest.approx(2 + stats.t(1).ppf(0.975) * 2)


def test_without_heterogeneity_precise_corpora_count_more_and_the_interval_is_no_narrower():
    pooled = metrics.random_effects([measured(1.0, 1.0), measured(1.0, 0.5), measured(1.0, 2.0)])
    assert pooled.between == 0
    assert pooled.weights == pytest.approx(np.array([1, 4, 0.25]) / 5.25)
    assert pooled.mean.deviation**2 == pytest.approx(1 / 5.25)


@pytest.mark.parametrize(("corpora", "between"), [(3, 0.0), (4, 1.0), (8, 1.0)])
def test_random_effects_hold_the_mean_effect_as_often_as_they_say(corpora, between):
    generator = np.random.default_rng(14)

    def held():
        parts = []
        for _ in range(corpora):
            effect = 0.5 + between * generator.standard_normal()
            scores = drawn(generator, seeds=4, own=generator.uniform(0.5, 1.5), effect=effect)
            parts.append(metrics.difference(scores, "a", "plain"))
        mean = metrics.random_effects(parts).mean
        return mean.low <= 0.5 <= mean.high

    assert np.mean([held() for _ in range(600)]) > 0.92


def named(**p_values):
    blank = measured(1.0, 1.0)
    return {name: dataclasses.replace(blank, p=p) for name, p in p_values.items()}


def test_a_fixed_sequence_stops_at_the_first_that_fails_and_the_rest_is_a_family_of_its_own():
    corrected = metrics.corrected(
        named(a=0.01, b=0.2, c=0.03, d=0.02, e=0.04), first=("a", "b", "c")
    )
    assert [corrected[name].corrected_p for name in "abc"] == [0.01, 0.2, 0.2]
    assert [corrected[name].corrected_p for name in "de"] == [0.04, 0.04]
    assert [one.p for one in corrected.values()] == [0.01, 0.2, 0.03, 0.02, 0.04]


def test_some_null_of_a_family_is_claimed_no_more_often_than_the_level():
    generator = np.random.default_rng(16)

    def claimed():
        scores = drawn(generator, seeds=4)
        tests = {name: metrics.difference(scores, name, "plain") for name in NAMES[1:]}
        return min(one.corrected_p for one in metrics.corrected(tests).values()) < 0.05

    assert 0.02 < np.mean([claimed() for _ in range(500)]) < 0.07


def test_the_minimum_detectable_effect_is_that_of_the_strictest_step():
    scores = drawn(np.random.default_rng(17))
    alone = {name: metrics.difference(scores, name, "plain") for name in NAMES[1:]}
    among = metrics.corrected(alone, first=("a",))
    assert among["a"] == alone["a"]
    for name in NAMES[2:]:
        strict = metrics.difference(scores, name, "plain", alpha=0.05 / 4)
        seen = strict.minimum_detectable_effect
        assert among[name].minimum_detectable_effect == pytest.approx(seen)
        assert seen > alone[name].minimum_detectable_effect


# Scores with statistics: sentences and seeds together


def systems_of(generator, seeds, *, sentences=100, suits=0.0, luck=1.0, model=0.0, effect=0.0):
    """Draw four systems whose score is a mean over sentences; `a` is better by the effect."""
    shape = (4, seeds, sentences)
    values = 10 + generator.normal(size=(1, 1, sentences)) + luck * generator.normal(size=shape)
    values += suits * generator.normal(size=(4, 1, sentences))
    values += model * generator.normal(size=(4, seeds, 1))
    values[1] += effect
    rows = np.stack([values * np.log(2), np.ones_like(values)], -1)
    metric = metrics.METRICS["bits-per-token"]()
    return {
        name: [metrics.score_of(metric, row, "s") for row in of_seeds]
        for name, of_seeds in zip(NAMES, rows, strict=False)
    }


def test_the_sentence_part_is_what_seeds_share():
    generator = np.random.default_rng(20)
    for suits in (0.0, 1.5):
        drawn = [systems_of(generator, 5, suits=suits) for _ in range(60)]
        parts = [metrics.sentence_variance(one["a"], one["plain"], resamples=300) for one in drawn]
        # Of 100 sentences; a part that is 0 is estimated by what is left above 0.
        assert np.mean(parts) == pytest.approx(2 * suits**2 / 100, rel=0.15, abs=0.002)


@pytest.mark.parametrize("seeds", [2, 4])
def test_the_sentence_part_of_a_mean_has_a_closed_form(seeds):
    """var g / N = (var of the seeds' mean - var of one seed around it / S) / N, by sentences."""
    systems = systems_of(np.random.default_rng(24), seeds, suits=2.0)
    a, b = (np.stack([x.statistics[:, 0] for x in systems[n]]) / np.log(2) for n in ("a", "plain"))
    apart = a - b
    around = (apart - apart.mean(0)).var(1).sum() / (seeds - 1)
    expected = (apart.mean(0).var() - around / seeds) / 100
    drawn = metrics.paired_bootstrap(systems["a"], systems["plain"])
    assert drawn.between_seeds**2 == pytest.approx(around / 100, rel=0.05)
    assert drawn.deviation**2 == pytest.approx(apart.mean(0).var() / 100, rel=0.05)
    variance = metrics.sentence_variance(systems["a"], systems["plain"], resamples=10_000)
    assert variance == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("luck", [{"suits": 1.0}, {"model": 0.3}, {"suits": 0.5, "model": 0.1}])
def test_a_null_is_claimed_no_more_often_than_the_level_by_whatever_luck(luck):
    generator = np.random.default_rng(21)
    claims = [
        metrics.compare(systems_of(generator, 3, **luck), "plain", resamples=100)["a"].p < 0.05
        for _ in range(600)
    ]
    assert np.mean(claims) < 0.05 + 2.5 * (0.05 * 0.95 / 600) ** 0.5


def test_what_is_compared_is_the_two_way_model_with_its_sentence_part():
    systems = systems_of(np.random.default_rng(22), 4, suits=1.0, model=0.2, effect=0.5)
    compared = metrics.compare(systems, "plain", resamples=500)
    assert [*compared] == ["a", "b", "c"]
    scores = metrics.Scores.of({name: [x.value for x in one] for name, one in systems.items()})
    for name, one in compared.items():
        part = metrics.sentence_variance(systems[name], systems["plain"], resamples=500)
        assert one == metrics.difference(scores, name, "plain", sentence_variance=part)
        assert one.sentence_variance == part > 0


def test_a_system_apart_does_not_count_for_how_far_others_vary():
    systems = systems_of(np.random.default_rng(25), 4, model=0.2)
    compared = metrics.compare(systems, "plain", apart={"b", "c"}, resamples=200)
    for name, among in (("a", {"plain", "a"}), ("b", {"plain", "a", "b"})):
        alone = {m: systems[m] for m in NAMES[:4] if m in among}
        assert compared[name] == metrics.compare(alone, "plain", resamples=200)[name]
    turned = metrics.compare(systems, "b", apart={"b", "c"}, resamples=200)
    alone = {m: systems[m] for m in ("plain", "a", "b")}
    assert turned["a"] == metrics.compare(alone, "b", resamples=200)["a"]


def test_two_thousand_test_sets_are_drawn_unless_told():
    for seeds in (1, 2):
        systems = systems_of(np.random.default_rng(26), seeds, suits=1.0)
        drawn = [metrics.compare(systems, "plain", **k) for k in ({}, {"resamples": 2000})]
        assert drawn[0] == drawn[1] != metrics.compare(systems, "plain", resamples=1999)
    parts = [
        metrics.sentence_variance(systems["a"], systems["b"], **k)
        for k in ({}, {"resamples": 2000})
    ]
    assert parts[0] == parts[1] > 0


def test_one_seed_compares_two_models_and_says_so():
    systems = systems_of(np.random.default_rng(23), 1, effect=0.6)
    one = metrics.compare(systems, "plain", resamples=1000)["a"]
    assert one.test == "sentences" and one.degrees == 99
    swaps = metrics.approximate_randomisation(systems["a"], systems["plain"], resamples=1000)
    assert (one.p, one.corrected_p, one.estimate) == (swaps.p, swaps.p, swaps.difference)
    assert one.low > 0 and one.p < 0.05
    drawn = metrics.paired_bootstrap(systems["a"], systems["plain"], resamples=1000)
    assert one.deviation == pytest.approx(drawn.deviation)
    assert one.sentence_variance == pytest.approx(drawn.deviation**2)
    same = metrics.compare({"plain": systems["plain"], "a": systems["plain"]}, "plain")["a"]
    assert (same.estimate, same.p, same.low, same.high) == (0, 1, 0, 0)


def test_seeds_that_are_needed_are_the_first_to_see_the_effect():
    needed = metrics.seeds_needed(0.5, 0.3, 6)
    deviations = [(0.6 / seeds) ** 0.5 for seeds in (needed - 1, needed)]
    degrees = 5 * (needed - 2), 5 * (needed - 1)
    pairs = zip(deviations, degrees, strict=True)
    seen = [contrasts.minimum_detectable_effect(*pair, 0.05, 0.8) for pair in pairs]
    assert seen[1] <= 0.5 < seen[0]
    assert metrics.seeds_needed(0.5, 0.3, 6, sentence_variance=0.04, most=50) is None


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        ({"plain": [1.0, 2.0]}, "1 methods cannot be compared"),
        ({"plain": [1.0], "a": [2.0]}, "one seed says nothing"),
        ({"plain": [1.0, 2.0], "a": [2.0]}, "different numbers of seeds"),
        ({"plain": [1.0, 2.0], "a": [2.0, float("nan")]}, "not finite"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(systems, message):
    with pytest.raises(metrics.BadScores, match=message):
        metrics.Scores.of(systems)


def test_what_is_not_there_is_named():
    scores = drawn(np.random.default_rng(0), methods=2)
    with pytest.raises(metrics.BadScores, match="'law' is none of plain, a"):
        metrics.difference(scores, "law", "plain")
    with pytest.raises(metrics.BadScores, match="'x' is none of the contrasts a"):
        metrics.corrected(named(a=0.5), first=("x",))
    with pytest.raises(metrics.BadScores, match="no corpus"):
        metrics.mean_difference([])
    with pytest.raises(metrics.BadScores, match="at least two corpora"):
        metrics.random_effects([measured(1.0, 1.0)])


def test_importing_contrasts_loads_no_scipy():
    code = "import sys, augless.metrics.contrasts; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
