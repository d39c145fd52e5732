"""Records, which come from other people too: well signed, and still not what they should be."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augless import reports, runs, storage, trials
from augless.trials import records
from support import record, score

DEEP = json.loads("[" * 500 + "]" * 500)
JUNK = [None, True, "x", -1, 1e308, 10**400, [], {}, [1], {"a": 1}, DEEP, "\u2028\x1b[2J", [[[]]]]
KEYS = ("recipe", "seed", "corpus", "versions", "command", "result", "scores", "history", "inputs")
NAN = float("nan")


def signed(folder, changes, statistics=None):
    """Write a record with other content, and sums that are right."""
    whole = record(
        scores={s: {"bleu": score(12.5)} for s in ("valid", "test")},
        statistics={f"{s}/bleu": np.ones((5, 10)) for s in ("valid", "test")},
    )
    whole.save(folder)
    content = json.loads((folder / "record.json").read_bytes())
    if statistics is not None:
        tensors = records.packed(statistics)
        content["statistics"] = storage.digest(tensors)
        (folder / f"statistics-{content['statistics'][:8]}.safetensors.gz").write_bytes(tensors)
    del content["sha256"]
    (folder / "record.json").write_bytes(records.document(content | changes))
    return folder


def usable(folder):
    """Load a record, or be refused in one line; what is loaded has a table and a page."""
    try:
        loaded = trials.Record.load(folder)
    except trials.BadRecord as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 500
        return False
    plan = trials.Plan(
        name="p",
        title="t",
        recipes={"c": trials.Base(recipe="toy-de-en")},
        methods={"plain": trials.Method(), "law": trials.Method()},
        seeds=(1,),
    )
    entries = [
        trials.Entry(corpus="c", method="plain", seed=1, record=loaded, failure=None),
        trials.Entry(corpus="c", method="law", seed=1, record=loaded, failure=None),
    ]
    trial = trials.Trial(plan=plan, entries=entries, sources={}, references={}, chosen={})
    evidence = reports.gather(trial)
    reports.report(evidence, folder / "report")
    assert reports.text(evidence)
    return True


@pytest.mark.parametrize("key", KEYS)
def test_junk_in_a_signed_record_is_refused_in_a_line_or_reported_on(tmp_path, key):
    loaded = [usable(signed(tmp_path / str(k), {key: junk})) for k, junk in enumerate(JUNK)]
    assert not all(loaded), "none of it is what it should be"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scores": {"test": {"bleu": {"value": "12", "signature": "s"}}}}, "value"),
        ({"scores": {"test": {"bleu": {}}}}, "test.bleu.value: it is missing"),
        ({"result": {"seconds": -1.0}}, "result.seconds"),
        ({"result": {"samples": 10**400}}, "result.samples"),
        ({"history": [{"kind": "epoch", "step": 1, "terms": [{"histogram": "x"}]}]}, "histogram"),
        ({"history": [{"kind": "day", "step": 1}]}, "history.0.kind"),
        ({"inputs": [{"name": "a"}]}, "inputs.0.bytes"),
        ({"versions": {"torch": 2}}, "versions.torch"),
        ({"id": "x/../../victim"}, "no identifier"),
        ({"seed": -1}, "seed"),
        ({"statistics": "x"}, "SHA-256"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, said):
    with pytest.raises(trials.BadRecord, match="can be used") as caught:
        trials.Record.load(signed(tmp_path, changes))
    assert said in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", [1e308, 1e16, -1e300, 10**400])
def test_a_score_beyond_all_bounds_counts_as_not_finite(tmp_path, value):
    changes = {"scores": {"test": {"bleu": {"value": value, "signature": "s"}}}}
    folder = signed(tmp_path, changes)
    assert trials.Record.load(folder).value("test", "bleu") is None and usable(folder)


@pytest.mark.parametrize(
    "table",
    [
        np.ones((5, 3)),
        np.ones(5),
        np.ones((5, 10, 1)),
        np.ones((0, 10)),
        np.ones((4, 10)),
    ],
)
def test_statistics_of_another_shape_are_refused(tmp_path, table):
    statistics = {"test/bleu": table, "test/nats": np.ones(5)}
    with pytest.raises(trials.BadRecord, match="statistics"):
        trials.Record.load(signed(tmp_path, {}, statistics))


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf, 1e300, -1.0, 0.0])
def test_statistics_that_cannot_be_summed_are_left_out(tmp_path, value):
    folder = signed(tmp_path, {}, {"test/bleu": np.full((5, 10), value)})
    loaded = trials.Record.load(folder)
    assert ("test/bleu" in loaded.statistics) == (value == 0)
    assert usable(folder)


def test_hypotheses_that_are_not_text_are_left_out(tmp_path):
    (tmp_path / "test.txt").write_bytes(b"\xff\xfe\n")
    (tmp_path / "valid.txt").write_bytes(b"fine\n")
    assert record().with_hypotheses(tmp_path).hypotheses == {"valid": ["fine"]}


def test_a_record_written_before_a_field_was_added_is_read(tmp_path):
    folder = signed(tmp_path, {"history": [{"kind": "epoch", "step": 3, "since": 2020}]})
    content = json.loads((folder / "record.json").read_bytes())
    del content["inputs"], content["sha256"]
    content["result"] = {"seconds": 2.0, "samples": 4}
    (folder / "record.json").write_bytes(records.document(content))
    loaded = trials.Record.load(folder)
    assert loaded.inputs == () and loaded.result == runs.Outcome(seconds=2.0, samples=4)
    assert loaded.history == (runs.Logged(kind="epoch", step=3),)


def test_terms_are_typed_and_junk_among_them_is_no_term():
    recipe = {
        "terms.0.loss.name": "cross-entropy",
        "terms.1.loss.name": "wasserstein",
        "terms.1.loss.solver": "exact",
        "terms.1.weighting.name": "exponential",
        "terms.1.weighting.radius": 0.5,
        "terms.1.scale": 0.1,
        "terms.\u00b2.loss.name": "x",
        "terms.x.loss": 3,
    }
    made = record(recipe=recipe)
    assert made.weighted_term == 1 and len(made.terms) == 2
    assert made.terms[1].loss.knobs == {"solver": "exact"} and made.terms[1].scale == 0.1
    assert made.terms[1].weighting.knobs == {"radius": 0.5} and not made.terms[0].weighs


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KEYS), st.data())
def test_mutated_records_give_no_traceback(tmp_path_factory, key, data):
    folder = tmp_path_factory.mktemp("mutated")
    content = json.loads((signed(folder, {}) / "record.json").read_bytes())
    inner = content[key]
    if isinstance(inner, dict) and inner and data.draw(st.booleans()):
        changed = {**inner, data.draw(st.sampled_from([*inner])): data.draw(values)}
    else:
        changed = data.draw(values)
    usable(signed(folder, {key: changed}))


@pytest.mark.parametrize(
    "content", ["a = " + "[" * 3000 + "]" * 3000, "seeds = [" + "9" * 5000 + "]", "a = \x00"]
)
def test_a_plan_that_cannot_be_read_is_refused_in_a_line(tmp_path, content):
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises(trials.BadPlan) as caught:
        trials.Plan.load(str(tmp_path / "p.toml"))
    assert len(str(caught.value).splitlines()) <= 3
