"""Summaries of trials: who is compared with whom, and over what luck is corrected."""

import dataclasses

import numpy as np
import pytest

import support
from augless import metrics, trials
from augless.trials import plans, records, summary

SEEDS = (1, 2, 3)


def record(draw, shift, signature):
    """Make a record of bits per token of 40 sentences, of one token each."""
    rows = np.stack([10 + shift + draw.normal(size=40), np.ones(40)], 1)
    scored = metrics.score_of(metrics.METRICS["bits-per-token"](), rows, signature)
    return support.record(
        scores=support.scores(scored.value, scored.name, ["test"], signature),
        statistics={f"test/{scored.name}": rows},
    )


def summarised(shifts, *, corpora=1, primary=None, signature=lambda corpus, method, seed: "s"):
    """Summarise a trial of methods that differ by their shifts; `control` is the control."""
    content = {
        "title": "t",
        "metric": "bits-per-token",
        "metrics": ["bits-per-token"],
        "control": "control",
        **({"primary": primary} if primary else {}),
        "seeds": [*SEEDS],
        "recipes": {f"corpus {k}": {"recipe": "toy-de-en"} for k in range(corpora)},
        "methods": {method: {} for method in shifts},
    }
    plan = plans.parsed("p", content)
    draw = np.random.default_rng(3)
    entries = [
        trials.Entry(
            corpus=corpus,
            method=method,
            seed=seed,
            record=record(draw, shift, signature(corpus, method, seed)),
            failure=None,
        )
        for corpus in plan.recipes
        for method, shift in shifts.items()
        for seed in plan.seeds
    ]
    trial = trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen={})
    return trial, trials.summarise(trial, resamples=300)


METHODS = {"plain": 0.0, "control": 0.1, "linear": -0.4, "law": -1.0}


def contrasts(table, kind):
    """List the comparisons of a table with the baseline, or with controls."""
    cells = [cell for row in table.rows.values() for cell in row.results.values()]
    return [getattr(cell, kind) for cell in cells if getattr(cell, kind) is not None]


def test_a_cell_holds_means_over_seeds_and_the_deviation_of_a_sample_of_them():
    trial, _ = summarised(METHODS)
    entries = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(
                entry.record,
                result=dataclasses.replace(
                    entry.record.result, seconds=10.0 * entry.seed**2, samples=entry.seed**3
                ),
            ),
        )
        for entry in trial.entries
    ]
    table = trials.summarise(dataclasses.replace(trial, entries=entries), resamples=300)
    for row in table.rows.values():
        cell = row.results["corpus 0"]
        values = [cell.values[seed] for seed in SEEDS]
        assert cell.mean == pytest.approx(np.mean(values))
        assert cell.deviation == pytest.approx(np.std(values, ddof=1)) and cell.deviation > 0
        assert (cell.seconds, cell.samples) == pytest.approx((140 / 3, 12))


def test_seeds_scored_in_two_ways_are_not_compared_and_said_to_be():
    # Two machines: each method has the same mix of signatures over its seeds.
    _, table = summarised(METHODS, signature=lambda corpus, method, seed: f"v{seed > 1}")
    assert contrasts(table, "baseline") == contrasts(table, "control") == []
    assert all(
        cell.mean is not None for row in table.rows.values() for cell in row.results.values()
    )
    assert any("scored in several ways" in warning for warning in table.warnings)


@pytest.mark.parametrize(
    ("mixed", "baseline", "control"),
    [
        ("linear", ["control", "law"], ["law"]),
        ("plain", [], ["linear", "law"]),
        ("control", ["linear", "law"], []),
    ],
)
def test_one_method_of_mixed_ways_spoils_its_own_comparisons_only(mixed, baseline, control):
    def signature(corpus, method, seed):
        return "other" if (corpus, method, seed) == ("corpus 0", mixed, 2) else "s"

    _, table = summarised(METHODS, corpora=2, signature=signature)
    cells = {method: table[method].results["corpus 0"] for method in METHODS}
    assert [m for m, cell in cells.items() if cell.baseline] == baseline
    assert [m for m, cell in cells.items() if cell.control] == control
    others = {method: table[method].results["corpus 1"] for method in METHODS}
    assert [m for m, cell in others.items() if cell.baseline] == ["control", "linear", "law"]
    assert [m for m, cell in others.items() if cell.control] == ["linear", "law"]


def test_corpora_may_be_scored_in_different_ways():
    _, table = summarised(METHODS, corpora=2, signature=lambda corpus, method, seed: corpus)
    assert len(contrasts(table, "baseline")) == 6 and len(contrasts(table, "control")) == 4
    assert table.warnings == []


def uncorrected(trial, corpus, reference):
    """Compare all methods with one, as they were scored on a corpus."""
    systems = {}
    for entry in trial.entries:
        if entry.corpus == corpus:
            scored = summary.score_of(entry.record, "bits-per-token")
            systems.setdefault(entry.method, []).append(scored)
    return metrics.compare(systems, reference, resamples=300)


def difference_of(contrast):
    """Return what a contrast has of the test alone."""
    names = (knob.name for knob in dataclasses.fields(metrics.Difference))
    return metrics.Difference(**{name: getattr(contrast, name) for name in names})


def test_the_primary_contrast_is_not_corrected_and_its_control_waits_for_it():
    trial, table = summarised(METHODS, primary="law")
    with_plain = uncorrected(trial, "corpus 0", "plain")
    with_control = uncorrected(trial, "corpus 0", "control")
    law = table["law"]
    assert law.baseline.primary and not law.control.primary
    assert difference_of(law.baseline) == with_plain["law"]
    assert law.control.corrected_p == max(with_plain["law"].p, with_control["law"].p)
    rest = [with_plain["control"], with_plain["linear"], with_control["linear"]]
    others = [table["control"].baseline, table["linear"].baseline, table["linear"].control]
    assert [one.corrected_p for one in others] == metrics.holm([one.p for one in rest])
    assert not any(one.primary for one in others)
    for one, alone in zip(others, rest, strict=True):
        assert one.minimum_detectable_effect > alone.minimum_detectable_effect
        assert (one.low, one.high) == (alone.low, alone.high)
    cells = {method: row.results["corpus 0"] for method, row in table.rows.items()}
    assert cells["law"].baseline == law.baseline, "one corpus is all corpora"
    assert cells["linear"].control == table["linear"].control


def test_several_corpora_are_averaged_and_single_ones_are_a_family_of_their_own():
    trial, table = summarised(METHODS, corpora=3, primary="law")
    raw = {
        (side, corpus, method): one
        for side, other in (("baseline", "plain"), ("control", "control"))
        for corpus in trial.plan.recipes
        for method, one in uncorrected(trial, corpus, other).items()
        if method != "plain" and (side == "baseline" or method in ("linear", "law"))
    }
    corrected = dict(zip(raw, metrics.holm([one.p for one in raw.values()]), strict=True))
    assert len(raw) == 15
    for (side, corpus, method), p in corrected.items():
        assert getattr(table[method].results[corpus], side).corrected_p == pytest.approx(p)
    parts = [raw["baseline", corpus, "law"] for corpus in trial.plan.recipes]
    law = table["law"].baseline
    assert difference_of(law) == metrics.mean_difference(parts) and law.corpora == 3 and law.primary
    assert law.likely == metrics.random_effects(parts)
    assert not any(cell.baseline.primary for cell in table["law"].results.values())
    two = summarised(METHODS, corpora=2)[1]["law"].baseline
    assert two.corpora == 2 and two.likely is None, "two say nothing of others"


def test_only_a_primary_contrast_that_there_is_is_left_uncorrected():
    def signature(corpus, method, seed):
        return "other" if method == "plain" and seed == 2 else "s"

    _, table = summarised(METHODS, primary="law", signature=signature)
    assert table["law"].baseline is None
    both = [table[method].control for method in ("linear", "law")]
    assert [one.corrected_p for one in both] == metrics.holm([one.p for one in both])


def test_nothing_asks_that_every_seed_agrees():
    test = metrics.Difference(1.0, 0.2, 1.8, 0.02, 0.02, 8, 0.3, 1.0, "two-way")
    contrast = trials.Contrast(**vars(test), seeds=(2.0, 1.5, -0.5))
    assert contrast.claimed
    assert not dataclasses.replace(contrast, fault="all are empty").claimed
    assert not dataclasses.replace(contrast, test="sentences").claimed, "one seed"
    assert not dataclasses.replace(contrast, corrected_p=0.06).claimed


def test_the_seeds_that_would_be_needed_see_what_is_worth_it():
    _, table = summarised(METHODS, primary="law")
    needed = table.seeds_needed["corpus 0"]
    mean = table["plain"].results["corpus 0"].mean
    assert needed.effect == mean / 100, "of bits per token: about 0.01 nats"
    one = table["law"].baseline
    own = (one.deviation**2 - one.sentence_variance) * 3 / 2
    args = needed.effect, own, 1 + one.degrees // 2
    assert needed.seeds == metrics.seeds_needed(*args, sentence_variance=one.sentence_variance)
    bleu = metrics.METRICS["bleu"]()
    assert summary.worthwhile(bleu, 30.0) == summary.worthwhile(bleu, 3.0) == 0.5


LINES = [f"sentence {k} of many" for k in range(20)]


def spoken(outputs, **changes):
    """Make a record with its outputs."""
    kept = {"test": outputs, "test.source": LINES, "test.reference": LINES}
    draw = np.random.default_rng(0)
    return dataclasses.replace(record(draw, 0.0, "s"), hypotheses=kept, **changes)


def test_degenerate_outputs_are_found_in_a_record_and_said_at_once():
    assert records.fault_of(spoken(LINES), "bleu") == trials.alarm(spoken(LINES), "bleu") == ""
    constant = spoken(["a"] * 20)
    seen = "20 outputs have only 1 different line, such as 'a'"
    assert records.fault_of(constant, "bleu") == seen
    said = trials.alarm(constant, "bleu")
    assert said == f"its outputs tell nothing: {seen}; {metrics.ADVICE}"
    told = dataclasses.replace(spoken(LINES), hypotheses=None, fault=seen)
    assert records.fault_of(told, "bleu") == seen, "by whoever had the outputs"
    bare = dataclasses.replace(constant, hypotheses={"test": ["a"] * 20})
    assert records.fault_of(bare, "bleu") == ""
    assert records.fault_of(bare, "bleu", LINES, LINES) == seen
    low = dataclasses.replace(spoken(LINES), scores=support.scores(0.31, "bleu", ["test"]))
    assert trials.alarm(low, "bleu").startswith("its bleu of 0.31 is too near 0 to compare")
    assert trials.alarm(low, "chrf") == ""


def test_outputs_in_a_wrong_order_matter_to_metrics_that_compare_them_with_references():
    mixed = spoken([*reversed(LINES)])
    seen = "20 outputs fit the references of other lines as well as their own"
    told = dataclasses.replace(mixed, hypotheses=None, unrelated=seen)
    for one in (mixed, told):
        for metric in ("bleu", "chrf"):
            assert records.fault_of(one, metric).startswith(seen)
        for metric in ("perplexity", "distinct-1"):
            assert records.fault_of(one, metric) == ""


def test_a_record_keeps_what_is_wrong_with_its_outputs(tmp_path):
    spoken(LINES, fault="all are empty", unrelated="they fit").save(tmp_path / "r")
    loaded = trials.Record.load(tmp_path / "r")
    assert (loaded.fault, loaded.unrelated) == ("all are empty", "they fit")


@pytest.mark.parametrize("method", ["plain", "law"])
def test_a_difference_of_degenerate_outputs_is_never_claimed(method):
    trial, table = summarised(METHODS, primary="law")
    assert table["law"].baseline.claimed
    entries = [
        dataclasses.replace(entry, record=dataclasses.replace(entry.record, fault="all are empty"))
        if (entry.method, entry.seed) == (method, 2)
        else entry
        for entry in trial.entries
    ]
    table = trials.summarise(dataclasses.replace(trial, entries=entries), resamples=300)
    law = table["law"].baseline
    assert not law.claimed and law.fault == f"{method}, seed 2: all are empty"
    assert table[method].results["corpus 0"].faults == {2: "all are empty"}
    assert not table["linear"].control.fault, "which is of others"
    assert not table.seeds_needed, "seeds mend no outputs"


def plan_of(methods, **changes):
    content = {"title": "t", "recipes": ["toy-de-en"], "methods": methods, **changes}
    return plans.parsed("p", content)


def test_the_primary_method_is_the_first_that_weighs_unless_it_is_named():
    methods = {
        "plain": {},
        "matched": {"matches": "law"},
        "wd": {"terms": [{}, {"loss": "wasserstein"}]},
        "law": {"terms.0.weighting": {"name": "exponential"}},
        "linear": {"terms": [{"weighting": "linear"}]},
    }
    assert plan_of(methods).primary == "law"
    assert plan_of(methods, primary="linear").primary == "linear"
    assert plan_of({"plain": {}, "wd": methods["wd"]}).primary == "wd"
    assert plan_of({"plain": {}}).primary is None
    for wrong in ("plain", "matched", "lawn"):
        with pytest.raises(plans.BadPlan, match=f"primary names '{wrong}'"):
            plan_of(methods, primary=wrong)
    named = plan_of(methods, primary="linear")
    assert 'primary = "linear"' in named.as_toml()


@pytest.mark.parametrize("name", trials.shipped())
def test_every_shipped_plan_has_a_primary_method_that_weighs(name):
    plan = trials.Plan.load(name)
    assert "weighting" in str(plan.methods[plan.primary].overrides)
