import dataclasses
import math
import random
import subprocess
import sys
import typing

import numpy as np
import pytest
import sacrebleu
import sacremoses
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

from augless import metrics
from augless.metrics import significance

LINE = "the a dog Dog cat's house, runs sees. (big) small 3.5 well-known U.S. naïve Straße"
WORDS = LINE.split()
ADDITIVE = [name for name, metric in metrics.METRICS.items() if metric.additive]
# The same metric in the words of sacreBLEU, and what happens to the text before.
SACRE = {
    "bleu": (sacrebleu.BLEU(), str),
    "bleu-lowercased": (sacrebleu.BLEU(lowercase=True), str),
    "chrf": (sacrebleu.CHRF(), str),
    "bleu-tokenised": (
        sacrebleu.BLEU(tokenize="none", force=True),
        lambda line: moses(line).lower(),
    ),
}
every_metric = pytest.mark.parametrize("name", metrics.METRICS)
every_additive_metric = pytest.mark.parametrize("name", ADDITIVE)


def moses(line):
    return sacremoses.MosesTokenizer("en").tokenize(line, return_str=True, escape=False)


def corpus(lines=60, seed=0, noise=0.3):
    """Make references, and hypotheses that differ from them in some words."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(lines)]
    return noisy(references, seed + 1, noise), references


def noisy(references, seed, noise):
    draw = random.Random(seed)

    def word(original):
        return draw.choice(WORDS) if draw.random() < noise else original

    return [
        " ".join(map(word, line.split()[: draw.choice([None, None, 3])])) for line in references
    ]


def inputs(name, lines=60, seed=0, noise=0.3):
    """Give what a metric needs, as keywords of `score`."""
    hypotheses, references = corpus(lines, seed, noise)
    draw = np.random.default_rng(seed)
    tokens = draw.integers(1, 20, lines)
    given = {
        "hypotheses": hypotheses,
        "references": references,
        "nats": tokens * draw.gamma(2, size=lines),
        "tokens": tokens,
    }
    return {key: given[key] for key in metrics.METRICS[name].needs}


def means(values):
    """Make a system whose score under each seed is the mean of a row of values, (S, N)."""
    metric = metrics.METRICS["bits-per-token"]()
    rows = np.stack([np.asarray(values) * math.log(2), np.ones_like(values)], -1)
    return [metrics.score_of(metric, row, "means") for row in rows]


def simulated(draw, seeds, sentences, *, of_method, of_seed, of_model=0.0, shift=0.0):
    """Draw two systems; deviations of the difference of a sentence, seed and sentence, model."""
    difficulty = 10 + 2 * draw.normal(size=sentences)

    def system(shift):
        return (
            difficulty
            + of_method / math.sqrt(2) * draw.normal(size=sentences)
            + of_seed / math.sqrt(2) * draw.normal(size=(seeds, sentences))
            + of_model / math.sqrt(2) * draw.normal(size=(seeds, 1))
            + shift
        )

    return means(system(shift)), means(system(0.0))


# Every metric


@every_metric
def test_a_metric_has_knobs_with_a_meaning_and_a_default(name):
    kind = metrics.METRICS[name]
    hints = typing.get_type_hints(kind, include_extras=True)
    for knob in dataclasses.fields(kind):
        assert hints[knob.name].__metadata__[0]
    assert kind() == kind() and kind.name == name
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind().name = "other"


@every_metric
def test_a_score_is_a_function_of_the_sum_of_its_statistics(name):
    scored = metrics.score(name, **inputs(name))
    table = scored.statistics
    assert table.dtype == np.float64 and table.ndim == 2
    assert len(table) == (60 if scored.metric.additive else 1)
    assert scored.value == float(scored.metric.value(table.sum(0)))
    again = metrics.score_of(scored.metric, table, scored.signature)
    assert again == scored and again.name == name


@every_metric
def test_value_is_the_same_for_one_sum_as_for_many(name):
    metric = metrics.METRICS[name]()
    sums = np.stack(
        [metrics.score(name, **inputs(name, seed=k)).statistics.sum(0) for k in range(6)]
    )
    many = metric.value(sums.reshape(2, 3, -1))
    assert many.shape == (2, 3)
    np.testing.assert_array_equal(many.ravel(), [metric.value(row) for row in sums])


@every_additive_metric
def test_statistics_of_a_sentence_depend_on_that_sentence_alone(name):
    whole, part = inputs(name), {key: value[20:30] for key, value in inputs(name).items()}
    table = metrics.score(name, **whole).statistics[20:30]
    np.testing.assert_array_equal(metrics.score(name, **part).statistics, table)


@every_metric
def test_a_signature_is_the_same_each_time_and_changes_with_every_knob(name):
    kind = metrics.METRICS[name]
    texts = {"tokenise": "intl", "language": "de", "vocabulary": "ours"}
    numbers = {"characters": 5, "words": 2, "beta": 3}
    assert metrics.score(name, **inputs(name)).signature == kind().signature() != ""
    for knob in dataclasses.fields(kind):
        value = {**texts, **numbers}[knob.name]
        assert kind(**{knob.name: value}).signature() != kind().signature()


def test_no_two_metrics_have_the_same_title():
    titles = [kind.title or name for name, kind in metrics.METRICS.items()]
    assert len({*titles}) == len(titles)


def test_signatures_say_how_text_is_cut_and_counted():
    signatures = {name: kind().signature(2) for name, kind in metrics.METRICS.items()}
    for name in ("bleu-tokenised", "precision-1", "precision-2", "distinct-1", "distinct-2"):
        assert "case:lc" in signatures[name] and "tok:moses-en-sacremoses-" in signatures[name]
    assert "case:mixed" in signatures["bleu"] and "case:lc" in signatures["bleu-lowercased"]
    assert "tok:13a" in signatures["bleu"] and "order:2" in signatures["precision-2"]
    for name in ("bleu", "bleu-tokenised", "chrf", "precision-1"):
        assert "nrefs:2" in signatures[name] and "nrefs:1" in metrics.METRICS[name]().signature()
    assert signatures["chrf"] == metrics.METRICS["chrf"](beta=2).signature(2)
    assert metrics.METRICS["chrf"](beta=3).signature().startswith("beta:3|nrefs:1")
    assert signatures["perplexity"].startswith("base:e|mean:tokens|end:counted|vocabulary:")
    assert signatures["bits-per-token"].startswith("base:2|mean:tokens")
    assert signatures["loss"].startswith("log:e|mean:tokens")


def test_signatures_tell_all_metrics_of_a_kind_apart():
    signatures = {kind().signature() for kind in metrics.METRICS.values()}
    assert len(signatures) == len(metrics.METRICS)


# Against sacreBLEU


@pytest.mark.parametrize("name", SACRE)
@pytest.mark.parametrize("seed", range(5))
def test_a_score_is_sacrebleus_corpus_score(name, seed):
    hypotheses, references = corpus(seed=seed, noise=[0, 0.1, 0.3, 0.7, 0.95][seed])
    sacre, prepared = SACRE[name]
    expected = sacre.corpus_score(
        [prepared(line) for line in hypotheses], [[prepared(line) for line in references]]
    )
    scored = metrics.score(name, hypotheses, references)
    assert scored.value == pytest.approx(expected.score, abs=1e-9)
    if name != "bleu-tokenised":
        assert scored.signature == sacre.get_signature().format()


@pytest.mark.parametrize("name", SACRE)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_score_is_sacrebleus_for_odd_corpora_and_several_references(name, data):
    # Few words, so that there are matches; empty and short lines, so that smoothing happens.
    line = st.lists(st.sampled_from(["a", "b", "A.", "ä"]), max_size=6).map(" ".join)
    size = data.draw(st.integers(1, 3))
    lines = st.lists(line, min_size=size, max_size=size)
    hypotheses, references = data.draw(lines), data.draw(st.lists(lines, min_size=1, max_size=3))
    sacre, prepared = SACRE[name]
    expected = sacre.corpus_score(
        [prepared(line) for line in hypotheses],
        [[prepared(line) for line in stream] for stream in references],
    )
    scored = metrics.score(name, hypotheses, references)
    assert scored.value == pytest.approx(expected.score, abs=1e-9)
    assert f"nrefs:{len(references)}" in scored.signature


def test_chrf_plus_plus_is_sacrebleus():
    hypotheses, references = corpus()
    scored = metrics.score(metrics.METRICS["chrf"](words=2, beta=3), hypotheses, references)
    expected = sacrebleu.CHRF(word_order=2, beta=3).corpus_score(hypotheses, [references])
    assert scored.value == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize("tokenise", ["13a", "intl", "zh", "char", "none"])
def test_every_tokenisation_is_sacrebleus(tokenise):
    hypotheses, references = corpus()
    scored = metrics.score(metrics.METRICS["bleu"](tokenise=tokenise), hypotheses, references)
    sacre = sacrebleu.BLEU(tokenize=tokenise)
    expected = sacre.corpus_score(hypotheses, [references])
    assert scored.value == pytest.approx(expected.score, abs=1e-9)
    assert scored.signature == sacre.get_signature().format()


def test_statistics_of_bleu_are_what_sacrebleu_says_of_each_sentence():
    hypotheses, references = corpus(20)
    table = metrics.score("bleu", hypotheses, references).statistics
    sacre = sacrebleu.BLEU(effective_order=True)
    for row, hypothesis, reference in zip(table, hypotheses, references, strict=True):
        one = sacre.sentence_score(hypothesis, [reference])
        assert [*row] == [one.sys_len, one.ref_len, *one.counts, *one.totals]


@pytest.mark.parametrize("order", [1, 2])
def test_precision_is_the_one_inside_bleu(order):
    hypotheses, references = corpus()
    scored = metrics.score(f"precision-{order}", hypotheses, references)
    inside = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(
        [moses(line).lower() for line in hypotheses], [[moses(line).lower() for line in references]]
    )
    assert scored.value == pytest.approx(inside.precisions[order - 1], abs=1e-9)


# By hand


def test_precision_of_two_lines_by_hand():
    # the the cat | the dog: 1 of 3 words, "the" counts once, and 0 of 2 pairs.
    # a bird . | a bird !: 2 of 3 words, 1 of 2 pairs.
    hypotheses, references = ["The the cat", "A bird."], ["the dog", "a bird!"]
    assert metrics.score("precision-1", hypotheses, references).value == pytest.approx(100 * 3 / 6)
    assert metrics.score("precision-2", hypotheses, references).value == pytest.approx(100 * 1 / 4)
    assert metrics.score("precision-2", ["x y"], ["y x"]).value == 0
    assert metrics.score("precision-2", ["x"], ["x"]).value == 0


def test_distinct_by_hand():
    # I am, I am. -> i am , i am . : 4 distinct of 6; pairs (i am)(am ,)(, i)(am .): 4 of 6 tokens.
    # yes -> 1 of 1, no pair. (empty) -> 0.
    lines = ["I am, I am.", "yes", ""]
    assert metrics.score("distinct-1", lines).value == pytest.approx((4 / 6 + 1 + 0) / 3)
    assert metrics.score("distinct-2", lines).value == pytest.approx((4 / 6 + 0 + 0) / 3)


def test_distinct_over_a_corpus_by_hand():
    # a b a | a b c: {a b c} of 6; pairs {ab ba bc}: 3 of 6, and none across lines.
    assert metrics.score("corpus-distinct-1", ["a b a", "A b c"]).value == pytest.approx(3 / 6)
    assert metrics.score("corpus-distinct-2", ["a b a", "A b c"]).value == pytest.approx(3 / 6)
    assert metrics.score("corpus-distinct-2", ["a", "b"]).value == 0
    for name in ("distinct-1", "corpus-distinct-1", "precision-1"):
        largest = metrics.METRICS[name].largest
        assert metrics.score(name, ["a"], ["a"]).value == largest
        assert metrics.score(name, [""], ["a"]).value == 0


def test_perplexity_is_exp_of_nats_per_token_and_bits_its_logarithm():
    nats, tokens = [math.log(8) * 2, math.log(2) * 4], [2, 4]  # 6 + 4 bits in 6 tokens
    bits = metrics.score("bits-per-token", nats=nats, tokens=tokens)
    assert bits.value == pytest.approx(10 / 6)
    value = metrics.score("perplexity", nats=nats, tokens=tokens).value
    assert value == pytest.approx(2 ** (10 / 6))
    assert metrics.perplexity(sum(nats), 6) == pytest.approx(value)
    assert metrics.bits_per_token(sum(nats), 6) == pytest.approx(bits.value)
    assert metrics.perplexity(1e6, 1) == math.inf
    assert not bits.metric.higher_is_better
    nats = metrics.score("loss", nats=np.float32([0.1, 0.2]), tokens=[1, 1])
    assert nats.statistics.dtype == np.float64 and nats.value == pytest.approx(0.15)


def test_a_metric_without_a_signature_of_its_own_says_its_name_and_knobs():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Own(metrics.Metric):
        name = "own"
        a: typing.Annotated[int, "a knob"] = 1
        b: typing.Annotated[str, "another"] = "x"

        statistics = value = None

    Own.__abstractmethods__ = frozenset()
    assert Own().signature() == "own|refs:1|a:1|b:x"
    assert Own(a=2).signature(3) == "own|refs:3|a:2|b:x"
    assert Own().needs_references and not metrics.METRICS["perplexity"]().needs_references


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("bleu", ["a"] * 99, ["a"] * 100),
            "the hypotheses have 99 lines and the references 100",
        ),
        (
            ("chrf", ["a"] * 3, [["a"] * 3, ["a"] * 2]),
            "the hypotheses have 3 lines and the references 2",
        ),
        (("bleu", [], []), "bleu needs hypotheses, and there are none"),
        (("bleu", ["a"]), "bleu needs references, and there are none"),
        (("distinct-1", []), "distinct-1 needs hypotheses, and there are none"),
        (("bleu", "one", "two"), "the hypotheses are one string, not a list of lines"),
        (("bleu", ["one"], "two"), "the references are one string, not a list of lines"),
        (("perplexity", ["a"], ["a"]), "perplexity needs nats, and there are none"),
        (("belu", ["a"], ["a"]), "metric 'belu' is none of bleu, "),
    ],
)
def test_outputs_that_cannot_be_scored_are_refused_in_one_line(arguments, message):
    with pytest.raises(metrics.BadScores) as refused:
        metrics.score(*arguments)
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("nats", "tokens", "message"),
    [
        ([1.0], [1, 2], "the nats have 1 lines and the tokens 2"),
        ([1.0, math.nan], [1, 2], "sentence 2 are no finite number"),
        ([1.0, 2.0], [3, 0], "sentence 2 has no token"),
    ],
)
def test_nats_and_tokens_that_make_no_sense_are_refused(nats, tokens, message):
    with pytest.raises(metrics.BadScores, match=message):
        metrics.score("perplexity", nats=nats, tokens=tokens)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [("bleu", {"tokenise": "flores200"}), ("chrf", {"characters": 0}), ("chrf", {"beta": 0})],
)
def test_knobs_out_of_range_are_refused(name, knobs):
    with pytest.raises(ValueError, match=f"{next(iter(knobs))} is .*; it must be"):
        metrics.METRICS[name](**knobs)


def test_scores_that_do_not_compare_are_refused():
    bleu, chrf = (metrics.score(name, *corpus()) for name in ("bleu", "chrf"))
    short = metrics.score("bleu", *corpus(50))
    whole = metrics.score("corpus-distinct-1", corpus()[0])
    vast = metrics.score("perplexity", nats=[1e6], tokens=[1])
    cases = [
        ([bleu], [chrf], "does not compare with chrf"),
        ([bleu], [dataclasses.replace(bleu, signature="other")], r"does not compare.*\(other\)"),
        ([bleu], [short], "60 sentences and 50"),
        ([bleu], [bleu, bleu], "1 seeds and 2"),
        ([], [], "no scores"),
        ([whole], [whole], "no sum over sentences"),
        ([vast], [vast], "perplexity of inf"),
    ]
    for a, b, message in cases:
        for test in (metrics.approximate_randomisation, metrics.paired_bootstrap):
            with pytest.raises(metrics.BadScores, match=message):
                test(a, b)
    with pytest.raises(metrics.BadScores, match="no sum over sentences"):
        metrics.interval(whole)
    with pytest.raises(metrics.BadScores, match="0 resamples"):
        metrics.interval(bleu, resamples=0)
    with pytest.raises(metrics.BadScores, match="baseline 'x' is none of plain"):
        metrics.compare({"plain": [bleu]}, "x")
    for seeds in (1, 2):
        with pytest.raises(metrics.BadScores, match="does not compare with chrf"):
            metrics.compare({"plain": [chrf] * seeds, "a": [bleu] * seeds}, "plain")


# Intervals


def test_an_interval_is_that_of_the_normal_law_for_a_mean():
    draw = np.random.default_rng(0)
    (scored,) = means(draw.normal(5, 2, (1, 400)))
    low, high = metrics.interval(scored, resamples=20_000)
    error = scored.statistics[:, 0].std() / math.log(2) / 20
    assert low == pytest.approx(scored.value - 1.96 * error, abs=0.01)
    assert high == pytest.approx(scored.value + 1.96 * error, abs=0.01)
    assert (high - low) > np.ptp(metrics.interval(scored, confidence=0.5))


def test_an_interval_holds_sacrebleus():
    scored = metrics.score("bleu", *corpus(200))
    hypotheses, references = corpus(200)
    theirs = sacrebleu.BLEU().corpus_score(hypotheses, [references], n_bootstrap=2000)
    low, high = metrics.interval(scored)
    assert (low + high) / 2 == pytest.approx(theirs._mean, abs=0.3)
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.08)


# Tests between systems


@pytest.mark.parametrize("test", [metrics.approximate_randomisation, metrics.paired_bootstrap])
@every_additive_metric
def test_a_test_on_every_metric_is_repeatable_and_symmetric(name, test):
    a, b = ([metrics.score(name, **inputs(name, noise=n))] for n in (0.2, 0.4))
    if "nats" in metrics.METRICS[name].needs:
        rows = b[0].statistics * [1.1, 1]
        b = [metrics.score_of(b[0].metric, rows, b[0].signature)]
    one, other = test(a, b, resamples=300), test(b, a, resamples=300)
    assert one == test(a, b, resamples=300) != test(a, b, resamples=300, seed=1)
    assert one.difference == pytest.approx(a[0].value - b[0].value) == -other.difference
    assert one.deviation == pytest.approx(other.deviation, rel=1e-9)
    assert one.p == other.p and 1 / 301 <= one.p <= 1


@pytest.mark.parametrize("test", [metrics.approximate_randomisation, metrics.paired_bootstrap])
def test_a_system_does_not_differ_from_itself(test):
    a = [metrics.score("bleu", *corpus(seed=s)) for s in range(2)]
    tested = test(a, a, resamples=200)
    assert (tested.difference, tested.p, tested.deviation) == (0, 1, 0)


def test_tests_draw_ten_thousand_times_from_seed_0_unless_told():
    a, b = simulated(np.random.default_rng(8), 2, 40, of_method=1.0, of_seed=1.0, shift=0.2)
    for test in (metrics.approximate_randomisation, metrics.paired_bootstrap):
        assert test(a, b) == test(a, b, resamples=10_000, seed=0) != test(a, b, seed=1)
        assert test(a, b, resamples=1).p in (0.5, 1.0)
    interval = metrics.interval(a[0])
    assert interval == metrics.interval(a[0], confidence=0.95, resamples=10_000, seed=0)
    wide = metrics.interval(a[0], confidence=0.99)
    assert wide[0] < interval[0] < a[0].value < interval[1] < wide[1]
    with pytest.raises(metrics.BadScores, match="0 resamples are none"):
        metrics.paired_bootstrap(a, b, resamples=0)


def test_equals_are_not_told_apart_by_rounding():
    # Only one sentence differs, by a third: each swap gives the same size of difference, so p = 1.
    values = np.full((1, 30), 0.1)
    other = values.copy()
    other[0, 3] += 1 / 3
    assert metrics.approximate_randomisation(means(values), means(other), resamples=500).p == 1


@pytest.mark.parametrize("test", [metrics.approximate_randomisation, metrics.paired_bootstrap])
def test_chunks_do_not_matter(test, monkeypatch):
    # A whole number of bytes of swaps in each row, so that the generator is read in the same order.
    a, b = ([metrics.score("bleu", *corpus(64, noise=n))] for n in (0.3, 0.32))
    whole = test(a, b, resamples=100)
    monkeypatch.setattr(significance, "CHUNK_ENTRIES", 64 * 12)
    assert test(a, b, resamples=100) == whole


def test_randomisation_is_scipys_permutation_test():
    draw = np.random.default_rng(3)
    a = draw.normal(0.3, 1, (1, 10))
    b = draw.normal(0.0, 1, (1, 10))
    exact = scipy.stats.permutation_test(
        (a[0], b[0]),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    tested = metrics.approximate_randomisation(means(a), means(b), resamples=20_000)
    assert tested.difference == pytest.approx(exact.statistic)
    assert tested.deviation == pytest.approx(exact.null_distribution.std(), rel=0.02)
    error = math.sqrt(exact.pvalue * (1 - exact.pvalue) / 20_000)
    assert tested.p == pytest.approx(exact.pvalue, abs=4 * error + 1e-4)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@pytest.mark.parametrize("noise", [0.31, 0.33, 0.36])
def test_p_values_are_near_those_of_sacrebleu(name, noise):
    _, references = corpus(150)
    lines = [noisy(references, 5, 0.3), noisy(references, 6, noise)]
    a, b = ([metrics.score(name, hypotheses, references)] for hypotheses in lines)

    def theirs(kind):
        named = [("a", lines[0]), ("b", lines[1])]
        test = PairedTest(named, {name: SACRE[name][0]}, [references], kind, n_samples=2000)
        _, results = test()
        return next(column for key, column in results.items() if key != "System")[1].p_value

    ours = metrics.approximate_randomisation(a, b, resamples=8000).p
    assert ours == pytest.approx(theirs("ar"), abs=0.045)
    # Theirs folds drawn differences at 0 before centring them: one tail, where D is clearly not 0.
    ours = metrics.paired_bootstrap(a, b, resamples=8000).p
    if ours < 0.3:
        assert ours / 2 == pytest.approx(theirs("bs"), abs=0.03)


def test_bootstrap_is_scipys_standard_error():
    draw = np.random.default_rng(4)
    a, b = draw.normal(0.1, 1, (3, 80)), draw.normal(0, 1, (3, 80))
    tested = metrics.paired_bootstrap(means(a), means(b), resamples=20_000)
    per_sentence = (a - b).mean(0)
    error = per_sentence.std() / math.sqrt(80)
    assert tested.deviation == pytest.approx(error, rel=0.02)
    expected = 2 * scipy.stats.norm.sf(abs(per_sentence.mean()) / error)
    assert tested.p == pytest.approx(expected, abs=0.02)


# Calibration


def shares(simulations, seeds, test, **noise):
    """Simulate, and give the share of each number that `test` gives."""
    draw = np.random.default_rng(11)
    return np.mean(
        [test(*simulated(draw, seeds, 80, **noise), k) for k in range(simulations)], axis=0
    )


def both_tests(a, b, seed):
    tests = metrics.approximate_randomisation, metrics.paired_bootstrap
    return [test(a, b, resamples=199, seed=seed).p <= 0.05 for test in tests]


# 500 simulations: 0.05 give or take 0.01, of which three are allowed for. The bootstrap of 80
# sentences takes the deviation for 1 % too small.
@pytest.mark.parametrize(
    ("seeds", "noise"),
    [
        (1, {"of_method": 0.0, "of_seed": 1.0}),
        (3, {"of_method": 0.0, "of_seed": 1.0}),
        (3, {"of_method": 1.0, "of_seed": 1.0}),
        (3, {"of_method": 1.0, "of_seed": 0.2}),
    ],
)
def test_a_null_is_called_significant_no_more_often_than_the_level(seeds, noise):
    randomised, drawn = shares(500, seeds, both_tests, **noise)
    assert 0.02 <= randomised <= 0.08
    assert 0.02 <= drawn <= 0.09


def test_swaps_seed_by_seed_would_call_too_many_nulls_significant():
    # Why the swap is the same for all seeds: seed by seed is as if each (seed, sentence) were new.
    def pooled(a, b, seed):
        one, other = (
            [metrics.score_of(s[0].metric, np.concatenate([x.statistics for x in s]), "means")]
            for s in (a, b)
        )
        return [metrics.approximate_randomisation(one, other, resamples=199, seed=seed).p <= 0.05]

    (share,) = shares(300, 3, pooled, of_method=1.0, of_seed=0.2)
    assert share > 0.15


def test_nulls_of_bleu_are_called_significant_no_more_often_than_the_level():
    # Every sentence has two outputs, and chance says which system has which: the null itself.
    _, references = corpus(100)
    tables = np.stack(
        [
            metrics.score("bleu", noisy(references, k, 0.3), references).statistics
            for k in range(2, 4)
        ]
    )
    metric, draw, rejected = metrics.METRICS["bleu"](), np.random.default_rng(1), 0
    for k in range(400):
        owner = draw.integers(0, 2, 100)
        a, b = (
            [metrics.score_of(metric, tables[who, np.arange(100)], "s")]
            for who in (owner, 1 - owner)
        )
        rejected += metrics.approximate_randomisation(a, b, resamples=199, seed=k).p <= 0.05
    assert 0.02 <= rejected / 400 <= 0.085


@every_additive_metric
def test_the_largest_value_of_a_metric_is_the_best_that_it_says(name):
    metric = metrics.METRICS[name]()
    if "nats" in metric.needs:  # which have no end
        assert metric.largest == math.inf
        return
    assert metric.largest >= metrics.score(metric, ["a b c d e f"], [["a b c d e f"]]).value
    assert metric.largest == pytest.approx(100 if metric.needs_references else 1)


# Holm


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([], []),
        ([0.03], [0.03]),
        # 4 x 0.005, 3 x 0.01, 2 x 0.03, then 1 x 0.04 raised to what stands before it.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
    ],
)
def test_holm_by_hand(p_values, corrected):
    assert metrics.holm(p_values) == pytest.approx(corrected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_its_definition_rejects(p_values, alpha):
    rejected, order = set(), sorted(range(len(p_values)), key=p_values.__getitem__)
    for step, index in enumerate(order):
        if p_values[index] * (len(p_values) - step) >= alpha:
            break
        rejected.add(index)
    assert {k for k, p in enumerate(metrics.holm(p_values)) if p < alpha} == rejected


def test_tokenised_bleu_cuts_words_by_the_rules_of_its_language():
    line = ["Hr. Müller wohnt in der Ludwigstr. Nr. 5 bei Fr. Maier."]
    english, german = (
        metrics.score(metrics.METRICS["bleu-tokenised"](language=code), line, [line])
        for code in ("en", "de")
    )
    # Tokens of the hypothesis: the languages know other abbreviations, whose dots stay.
    assert english.statistics[0, 0] != german.statistics[0, 0]
    assert "moses-de" in german.signature and "moses-en" in english.signature


def test_importing_metrics_loads_neither_sacrebleu_nor_scipy_nor_torch():
    code = (
        "import sys; from augless import metrics; [kind() for kind in metrics.METRICS.values()];"
        "print(*{'sacrebleu', 'scipy', 'sacremoses', 'torch'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
