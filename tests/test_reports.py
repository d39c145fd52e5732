import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import json
import math
import re
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pytest

from augless import metrics, recipes, reports, trials
from augless.recipes import following
from augless.reports import (
    answers,
    buckets,
    charts,
    evidence,
    examples,
    exports,
    figures,
    pages,
    tables,
)
from augless.trials import facts

SENTENCES = 240
WORDS = re.findall(
    r"\w+",
    "the a small old young tired happy man woman child dog cat teacher garden house river street "
    "bread letter book window sees finds writes brings sells loves with near behind under morning "
    "evening today often never slowly quietly in and because while two three red green",
)
FOREIGN = re.findall(
    r"\w+",
    "der ein kleiner alter junger müder froher Mann Frau Kind Hund Katze Lehrer Garten Haus Fluss "
    "Straße Brot Brief Buch Fenster sieht findet schreibt bringt verkauft liebt mit nahe hinter "
    "unter Morgen Abend heute oft nie langsam leise in und weil während zwei drei rot grün",
)
# Method -> overrides, share of words it gets right beyond plain, mean weight, spread, copies.
METHODS = {
    "plain": ((), 0.0, 1.0, 0.0, 1),
    "matched": (("terms.0.weighting={name='matched'}",), 0.012, 1.71, 0.0, 1),
    "linear": (("terms.0.weighting={name='linear',corollary=2,c1=0.01}",), -0.02, 1.35, 0.2, 1),
    "exponential": (("terms.0.weighting={name='exponential',radius=1.0}",), 0.03, 1.7, 0.12, 1),
    "uniform": (("terms.0.weighting={name='uniform',radius=0.5}",), 0.01, 1.9, 0.06, 1),
    "back-translation": ((), 0.035, 1.0, 0.0, 2),
}
PAYLOAD = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;</style></svg>{{ 7*7 }}"


LOST = trials.Failure(7, "the loss is not finite")
GRID = {"terms.0.weighting.radius": [0.5, 1.0, 2.0], "terms.0.weighting.strength": [0.5, 1.0]}


def plan_of(methods=METHODS, corpora=("toy-de-en",), seeds=(1, 2, 3), **changes):
    special = {
        "plain": trials.Method(published={corpora[0]: {"bleu": 27.98}}),
        "matched": trials.Method(matches="exponential"),
    }
    table = {name: special.get(name, trials.Method()) for name in methods}
    if isinstance(methods, dict) and methods is not METHODS:
        table = methods
    values = {
        "name": "synthetic",
        "title": "Does weighting help on toy German?",
        "recipes": {corpus: trials.Base(recipe="toy-de-en") for corpus in corpora},
        "methods": table,
        "seeds": tuple(seeds),
        "baseline": "plain",
        "control": "matched" if "matched" in table else None,
        "metric": "bleu",
        "metrics": ("bleu", "chrf", "perplexity"),
        "choose": "bleu",
        "tune": {m: GRID for m in table if m == "exponential"},
    }
    return trials.Plan(**(values | changes))


def corpus_of(rng, sentences=SENTENCES):
    lengths = rng.integers(3, 26, sentences)
    rows = [rng.integers(len(WORDS), size=n) for n in lengths]
    sources = [" ".join(FOREIGN[i] for i in row) + "." for row in rows]
    references = [" ".join(WORDS[i] for i in row) + "." for row in rows]
    return sources, references, lengths, rng.beta(2, 5, sentences)


def outputs_of(references, hardness, skill, rng):
    """Get words right by chance: more often in easy sentences, and the more so by skill."""
    lines = []
    for reference, hard in zip(references, hardness, strict=True):
        right = np.clip(0.93 - 0.5 * hard + skill * (0.5 + hard), 0, 1)
        words = reference.rstrip(".").split()
        kept = [w if rng.random() < right else str(rng.choice(WORDS)) for w in words]
        lines.append(" ".join(kept) + ".")
    return lines


def history_of(method, skill, rng, samples=20_000, epochs=8, intervals=40):
    _, _, mean, spread, copies = METHODS.get(method, METHODS["exponential"])

    def terms(share):
        loss = 60 * math.exp(-2.2 * share) + 9
        counts = rng.gamma(2 + 2 * share, 1 / (2 + 2 * share), 4000) * 10
        return [
            {
                "loss": loss,
                "weight": mean + (0.03 * math.sin(7 * share) + rng.normal(0, 0.006)) * (spread > 0),
                "weight_sd": spread * (0.6 + share) + abs(rng.normal(0, 0.004)) * (spread > 0),
                "weight_min": 1.0,
                "weight_max": mean + 3 * spread,
                "raised": 1.0 if mean > 1 else 0.0,
                "effective_samples": 1 - spread / 10,
                "weight_length_correlation": (0.8 - 0.2 * share) * (spread > 0),
                "histogram": np.bincount(counts.astype(int).clip(max=40), minlength=41).tolist(),
                "mean_loss": loss,
                "mean_weight": mean,
            }
        ]

    found = []
    for k in range(1, intervals + 1):
        share = k / intervals
        place = {"step": k * 50, "samples": int(copies * samples * share), "epoch": 1}
        found.append({"kind": "interval", **place, "terms": terms(share)})
    for k in range(1, epochs + 1):
        share = k / epochs
        score = 33 * (1 - math.exp(-3.4 * share)) + 30 * skill * share + rng.normal(0, 0.25)
        place = {"step": k * 250, "samples": int(copies * samples * share), "epoch": k}
        scores = {"loss": 2.5 - share, "perplexity": math.exp(2.5 - share), "bleu": score}
        found.append({"kind": "epoch", **place, "terms": terms(share), "scores": scores})
    return found


@functools.cache
def recipe_of(overrides):
    return following.identity(recipes.load("toy-de-en", overrides))


def record_of(method, seed, corpus, texts, *, skill, written=True, kinds=None):
    # A stream of its own, so that a record does not depend on which others are made.
    rng = np.random.default_rng([seed, *map(ord, method), *map(ord, corpus)])
    _, references, lengths, hardness = texts
    overrides, _, _, _, copies = METHODS.get(method, METHODS["exponential"])
    hypotheses = outputs_of(references, hardness, skill + rng.normal(0, 0.002), rng)
    tokens = lengths + 2.0  # a full stop and the end symbol
    nats = tokens * (0.4 + 2 * hardness + rng.normal(0, 0.05, len(lengths)))
    given = {"hypotheses": hypotheses, "references": references, "nats": nats, "tokens": tokens}
    scores, statistics = {}, {}
    for name in kinds or ("bleu", "chrf", "perplexity"):
        score = metrics.score(name, **given)
        scores[name] = trials.Score(score.value, score.signature)
        statistics[f"test/{name}"] = score.statistics
    statistics |= {"test/nats": nats, "test/length": tokens - 1}  # without the end symbol
    statistics |= {"test/source_length": lengths.astype(np.float64)}
    steps = {"steps": 2000, "epochs": 8, "samples": 20_000 * copies, "tokens": 300_000}
    return trials.Record(
        id=hashlib.sha256(f"{method} {seed} {corpus}".encode()).hexdigest()[:12],
        name="toy-de-en",
        recipe={**recipe_of(overrides), "seed": seed},
        seed=seed,
        corpus="8f2c0e6d" * 8,
        inputs=(trials.Input(name="train.<de>", bytes=9, sha256="5a" * 32),),
        versions=following.versions(),
        command=f"augless train toy-de-en {' '.join(overrides)} seed={seed}",
        result=trials.Result(**steps, seconds=41.5 * copies + seed),
        scores={"test": scores, "valid": scores},
        statistics=statistics,
        history=facts.history_of(history_of(method, skill, rng)),
        hypotheses={"test": hypotheses} if written else None,
    )


def synthetic(
    plan=None, *, skills=None, failed=(), waiting=(), sentences=SENTENCES, texts=None, written=True
):
    """Make a believable trial: real scores of made-up outputs, histories from formulas."""
    plan = plan or plan_of()
    skills = {name: row[1] for name, row in METHODS.items()} | (skills or {})
    entries, sources, references = [], {}, {}
    for k, corpus in enumerate(plan.recipes):
        text = texts or corpus_of(np.random.default_rng(k), sentences)
        sources[corpus], references[corpus] = text[0], text[1]
        for method in plan.methods:
            for seed in plan.seeds:
                gone = (method, seed) in waiting or method in waiting
                failure = LOST if (method, seed) in failed else None
                record = None
                if failure is None and not gone:
                    # Corpora differ in how much a method helps.
                    skill = skills.get(method, 0.02) * (1 - 0.9 * k)
                    record = record_of(
                        method, seed, corpus, text, skill=skill, written=written, kinds=plan.metrics
                    )
                entries.append(
                    trials.Entry(
                        corpus=corpus, method=method, seed=seed, record=record, failure=failure
                    )
                )
    tried = [
        trials.Attempt(
            values=point,
            score=31.0 + i % 4 / 3 if i else None,
            failure=None if i else LOST,
            seconds=60.0 if i else None,
        )
        for i, point in enumerate(plan.points("exponential"))
    ]
    chosen = {}
    if tried:
        choice = trials.Choice(
            best=tried[3], by="bleu", seeds=plan.seeds_of_tuning, tried=tuple(tried)
        )
        chosen = {"exponential": dict.fromkeys(plan.recipes, choice)}
    return trials.Trial(
        plan=plan, entries=entries, sources=sources, references=references, chosen=chosen
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A thousand reshuffles tell as much here as ten thousand."""
    whole = trials.table
    monkeypatch.setattr(trials, "table", lambda trial: whole(trial, trials=1000))


@pytest.fixture(scope="module")
def trial():
    return synthetic()


@pytest.fixture(scope="module")
def small():
    """Two corpora, two methods, a failure: quick to report."""
    plan = plan_of(("plain", "matched", "exponential"), ("toy", "other"), seeds=(1, 2))
    return synthetic(plan, failed={("exponential", 2)}, sentences=40)


@pytest.fixture
def page(trial, tmp_path):
    return reports.report(trial, tmp_path).read_text("utf-8")


class Reader(HTMLParser):
    """Elements with their attributes, text, and whether all that was opened is closed."""

    VOID: ClassVar = {"meta", "link", "input", "br", "path", "rect", "circle"}

    def __init__(self, content):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID or self.open[-1:] == ["svg"]:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open[-1:] == [tag]:
            self.open.pop()
        else:
            assert tag in self.VOID or "path" in self.open, f"</{tag}> within {self.open}"

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


def contrast(
    difference=0.8, seeds=None, p=0.01, smallest=0.6, claimed=None, method_p=0.01, alike=False
):
    seeds = (difference,) * 3 if seeds is None else seeds
    agree = len({value > 0 for value in seeds}) == 1 and 0 not in seeds
    return evidence.Contrast(
        difference=difference,
        seeds=tuple(seeds),
        p=p,
        method_p=method_p if len(seeds) > 1 else None,
        agree=agree,
        claimed=(p < 0.05 and agree) if claimed is None else claimed,
        smallest=smallest,
        alike=alike,
    )


def row_of(
    method,
    role="method",
    baseline=None,
    control=None,
    failures=None,
    done=3,
    weighs=True,
    matched=True,
    besides=False,
    **changes,
):
    values = {seed: 40.0 + seed / 10 for seed in range(1, done + 1)}
    cell = trials.Cell(
        values=values,
        mean=40.0 if values else None,
        deviation=0.1 if done > 1 else None,
        scores={},
        baseline=None,
        control=None,
        control_name="matched" if role == "method" else None,
        published=None,
        seconds=1.0,
        samples=1.0,
        failures=failures or {},
    )
    return evidence.Row(
        method=method,
        style="m0",
        role=role,
        cell=dataclasses.replace(cell, **changes),
        baseline=baseline,
        control=control,
        weighs=weighs,
        matched=matched,
        besides=besides,
        waiting=3 - done - len(failures or {}),
    )


def study_of(*rows, corpus="toy", metric="bleu", plain=None):
    rows = [plain or row_of("plain", "baseline"), *rows]
    return evidence.Study(
        corpus=corpus,
        metric=metrics.METRICS[metric](),
        level=0.05,
        rows=rows,
        records={row.method: dict.fromkeys(row.cell.values) for row in rows},
        sources=(),
        references=(),
    )


OPEN = {"p": 0.6, "smallest": 0.6}
ALIKE = {"p": 1.0, "smallest": None, "alike": True}
BEATS = "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree)"
ALONE = "so it may be a change of step size and no more."
ANSWERS = {
    "better, and no better than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(0.1, **OPEN)),
        f"{BEATS}; against its control matched the difference is +0.1, which this trial could not "
        "have told from nothing: the smallest effect it could have seen is 0.6.",
    ),
    "better than both": (
        row_of("exponential", baseline=contrast(), control=contrast(0.7, p=0.0004)),
        f"{BEATS}, and its control matched by 0.7 (p < 0.001, all 3 seeds agree): which samples of "
        "a batch it prefers matters.",
    ),
    "better than both, the control by luck of seeds": (
        row_of("exponential", baseline=contrast(), control=contrast(0.7, method_p=0.3)),
        f"{BEATS}, and its control matched by 0.7 for these models (p = 0.01, all 3 seeds agree; "
        "counting other seeds in, p = 0.30).",
    ),
    "better than both, but the control matches another": (
        row_of("exponential", baseline=contrast(), control=contrast(0.7), matched=False),
        f"{BEATS}, and matched by 0.7 (p = 0.01, all 3 seeds agree); it has no learning-rate "
        f"control of its own, {ALONE}",
    ),
    "better, but worse than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(-0.7)),
        f"{BEATS}, but its control matched is better still, by 0.7 (p = 0.01, all 3 seeds agree): "
        "the mean weight of a batch alone does more.",
    ),
    "better, and just as its control": (
        row_of("exponential", baseline=contrast(), control=contrast(0.0, **ALIKE)),
        f"{BEATS}; against its control matched no sentence differs in its score.",
    ),
    "better, without a control": (
        row_of("exponential", baseline=contrast(), control_name=None, matched=False),
        f"{BEATS}; it has no learning-rate control of its own, {ALONE}",
    ),
    "better, and the control failed": (
        row_of("exponential", baseline=contrast()),
        f"{BEATS}; its control has no result to compare with, {ALONE}",
    ),
    "a rival that makes other data": (
        row_of(
            "exponential", baseline=contrast(), control=contrast(0.7), weighs=False, matched=False
        ),
        f"{BEATS}, and matched by 0.7 (p = 0.01, all 3 seeds agree).",
    ),
    "better by the luck of seeds": (
        row_of("exponential", baseline=contrast(method_p=0.39), control=contrast(0.1, **OPEN)),
        "exponential is better than plain by 0.8 BLEU for these models (p = 0.01, all 3 seeds "
        "agree; counting other seeds in, p = 0.39); against its control matched the difference is "
        "+0.1, which this trial could not have told from nothing: the smallest effect it could "
        "have seen is 0.6.",
    ),
    "worse": (
        row_of("linear", baseline=contrast(-1.2, p=0.004)),
        "linear is worse than plain by 1.2 BLEU (p = 0.004, all 3 seeds agree).",
    ),
    "worse by the luck of two seeds": (
        row_of("linear", baseline=contrast(-1.2, seeds=(-1.1, -1.3), method_p=0.41)),
        "linear is worse than plain by 1.2 BLEU for these models (p = 0.01, both seeds agree; "
        "counting other seeds in, p = 0.41).",
    ),
    "too small to see": (
        row_of("linear", baseline=contrast(-0.03, p=0.9)),
        "linear is not shown to differ from plain: it is 0.03 BLEU worse, which this trial could "
        "not have told from nothing: the smallest effect it could have seen is 0.6.",
    ),
    "no sentence differs": (
        row_of("linear", baseline=contrast(0.0, **ALIKE)),
        "linear does not differ from plain: no sentence differs in its score.",
    ),
    "just as good, by other sentences": (
        row_of("linear", baseline=contrast(0.0, p=1.0)),
        "linear is not shown to differ from plain: it is exactly as good, as far as this trial can "
        "tell: the smallest effect it could have seen is 0.6.",
    ),
    "seeds disagree": (
        row_of("linear", baseline=contrast(0.9, seeds=(2.0, -0.2, 0.9))),
        "linear is not shown to differ from plain: it is 0.9 BLEU better, and though p = 0.01, the "
        "seeds disagree on its sign, so it is not claimed.",
    ),
    "large and unlucky": (
        row_of("linear", baseline=contrast(0.9, p=0.06)),
        "linear is not shown to differ from plain: it is 0.9 BLEU better, which is not enough to "
        "claim (p = 0.06).",
    ),
    "one seed": (
        row_of("linear", baseline=contrast(seeds=(0.8,)), done=1, control_name=None, matched=False),
        "linear is better than plain by 0.8 BLEU for these models (p = 0.01, one seed only); it "
        f"has no learning-rate control of its own, {ALONE}",
    ),
}


@pytest.mark.parametrize(("row", "sentence"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_says_no_more_than_the_numbers(row, sentence):
    assert answers.answer([study_of(row)]).sentence == sentence


def test_the_answer_speaks_of_the_best_of_several_methods():
    best = row_of("exponential", baseline=contrast(0.2, p=0.7))
    other = row_of("linear", baseline=contrast(-1.0))
    found = answers.answer([study_of(other, best)])
    assert found.sentence.startswith("No weighting is shown to beat plain: the best, exponential,")
    assert "plain is better than linear (by 1.0, p = 0.01)." in found.notes
    worse = row_of("exponential", baseline=contrast(-0.4))
    found = answers.answer([study_of(other, worse)])
    assert found.sentence.startswith(
        "Every weighting is worse than plain: the least so, exponential, by 0.4 BLEU"
    )
    shaky = row_of("linear", baseline=contrast(-1.0, method_p=0.2))
    found = answers.answer([study_of(shaky, worse)])
    assert found.sentence.startswith("Every weighting is worse than plain for these models: the")
    assert "plain is better than linear (by 1.0, p = 0.01, for these models)." in found.notes


def test_a_lower_perplexity_is_better():
    row = row_of("exponential", baseline=contrast(-0.8), control=contrast(-0.5))
    found = answers.answer([study_of(row, metric="perplexity")])
    assert found.sentence.startswith("exponential beats plain by 0.8 perplexity")
    assert "and its control matched by 0.5" in found.sentence


def test_the_answer_on_several_corpora_names_or_counts_them():
    good = row_of("exponential", baseline=contrast(), control=contrast(0.1, **OPEN))
    undecided = row_of("exponential", baseline=contrast(-0.1, **OPEN))
    found = answers.answer([study_of(good, corpus="one"), study_of(undecided, corpus="two")])
    assert found.sentence == (
        "exponential beats plain on one by 0.8 BLEU (p = 0.01, all 3 seeds agree), where it is not "
        "shown to beat its control matched; it is not shown to differ from plain on two, where the "
        "smallest effect it could have seen is 0.6 BLEU."
    )
    assert found.notes[0].startswith("On one: exponential beats plain")
    many = [study_of(good, corpus=str(k)) for k in range(5)]
    assert "on all corpora by 0.8 BLEU (p = 0.01 at most, all" in answers.answer(many).sentence
    mixed = [*many, study_of(undecided, corpus="x")]
    assert "beats plain on 5 of 6 corpora" in answers.answer(mixed).sentence
    lucky = row_of("exponential", baseline=contrast(method_p=0.3), control=contrast(0.7))
    found = answers.answer([study_of(good, corpus="one"), study_of(lucky, corpus="two")])
    assert found.sentence.endswith(
        "; it is better than plain on two by 0.8 BLEU for these models (p = 0.01, all 3 seeds "
        "agree; counting other seeds in, p = 0.30), and its control matched too."
    )
    same = row_of("exponential", baseline=contrast(0.0, **ALIKE))
    found = answers.answer([study_of(same, corpus=name) for name in ("one", "two")])
    assert found.sentence == (
        "exponential is not shown to differ from plain on one and two, where no sentence differs "
        "in its score."
    )


def test_a_gain_without_a_control_may_be_one_of_step_size_on_any_number_of_corpora():
    def said(*rows):
        studies = [study_of(row, corpus=str(k)) for k, row in enumerate(rows)]
        return answers.answer(studies).sentence

    own = row_of("exponential", baseline=contrast(), control=contrast(0.7))
    other = dataclasses.replace(own, matched=False)
    bare = row_of("exponential", baseline=contrast(), control_name=None, matched=False)
    assert "step size" not in said(own, own)
    alone = "; it has no learning-rate control of its own"
    assert said(bare, bare).endswith(f"all 3 seeds agree){alone}, {ALONE}")
    assert said(other, other).endswith(f", and matched too{alone}, {ALONE}")
    assert said(own, bare).endswith(f"{alone} on 1 of these, {ALONE}")
    failed = row_of("exponential", baseline=contrast())
    assert said(failed, failed).endswith(f"; its control has no result to compare with, {ALONE}")
    rival = row_of("exponential", baseline=contrast(), weighs=False, matched=False)
    assert "step size" not in said(rival, rival)


BLIND = "this trial could not have claimed any difference, having too few sentences or seeds too"


def test_a_trial_that_could_have_seen_nothing_says_so(tmp_path):
    blind = {"p": 0.6, "smallest": None}
    row = row_of("linear", baseline=contrast(0.4, **blind))
    assert answers.answer([study_of(row)]).sentence == (
        f"linear is not shown to differ from plain: it is 0.4 BLEU better, but {BLIND} far apart."
    )
    control = row_of("linear", baseline=contrast(), control=contrast(0.1, **blind))
    assert f"the difference is +0.1, but {BLIND}" in answers.answer([study_of(control)]).sentence
    several = answers.answer([study_of(row, corpus=name) for name in "ab"]).sentence
    assert several.endswith(f"plain on a and b, where {BLIND} far apart.")
    found = gathered_of(study_of(row))
    assert tables.tables(found)[0].lines[1].smallest == tables.NOTHING
    (zone,) = figures.differences(found.studies[0]).panels[0].bars
    assert zone.width > 250 and "no difference could" in zone.title
    assert exports.summary(found)["corpora"]["toy"]["linear"]["baseline"]["smallest"] is None
    lines = csv.DictReader(io.StringIO(exports.csv(found)))
    line = next(r for r in lines if (r["method"], r["metric"]) == ("linear", "bleu"))
    assert line["smallest_baseline"] == "" and line["difference_baseline"] == "0.4"
    # Three sentences can be swapped in eight ways only.
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1, 2)), sentences=3)
    assert evidence.gather(trial).studies[0].row("linear").baseline.smallest is None
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert f"“{tables.NOTHING}” stands for nothing: there are too few sentences" in page


def test_the_page_says_what_it_could_have_seen(trial, tmp_path):
    meant = "the smallest true difference from plain that four trials of five like this one would"
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert f"{meant} claim, counting in the luck of sentences and of seeds" in page
    assert "stands for nothing" not in page
    alone = synthetic(plan_of(("plain", "linear"), seeds=(1,)), sentences=20)
    page = Reader(reports.report(alone, tmp_path).read_text("utf-8")).text
    assert f"{meant} claim, counting in the luck of sentences; of that of seeds, one" in page


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
        row = evidence.gather(same).studies[0].row("linear")
        assert row.baseline.alike == alike


def test_no_rounding_crosses_the_level_or_makes_something_nothing():
    shown = [answers.probability(p) for p in (0.0496, 0.0504, 0.05, 0.04, 0.049999, 0.0004, 0.3)]
    values = ["= 0.0496", "= 0.0504", "= 0.05", "= 0.04", "= 0.049999", "< 0.001", "= 0.30"]
    assert shown == [f"p {value}" for value in values]
    study = study_of(row_of("linear"))
    amounts = [answers.amount(study, value) for value in (0.8, 0.03, -0.003, 0.0, 1e-12)]
    assert amounts == ["0.8", "0.03", "0.003", "0.0", "0.000000"]


def test_a_method_that_is_best_overall_is_not_called_best_where_it_is_not():
    good = row_of("exponential", baseline=contrast())
    undecided = row_of("exponential", baseline=contrast(-0.3, **OPEN))
    other = row_of("linear", baseline=contrast(0.1, **OPEN))
    found = answers.answer([study_of(good, corpus="a"), study_of(undecided, other, corpus="b")])
    assert not any("the best" in note for note in found.notes)


def test_failures_and_missing_runs_are_said():
    row = row_of("exponential", baseline=contrast())
    broken = row_of("linear", failures={1: "killed", 2: "killed"}, done=0)
    notes = answers.answer([study_of(row, broken)]).notes
    assert any(note.startswith("2 of 9 runs failed (linear)") for note in notes)
    assert any(note.startswith("1 of 9 runs is not done yet") for note in notes)


def test_a_bleu_near_nothing_gives_no_answer_but_advice():
    def study(score, other, corpus="toy"):
        plain = row_of("plain", "baseline", mean=score)
        row = row_of("linear", baseline=contrast(0.01), mean=other)
        return study_of(row, plain=plain, corpus=corpus)

    found = answers.answer([study(0.32, 0.33)])
    assert found.sentence == (
        "There is no answer: a BLEU of 0.32 is too near 0 to tell methods apart."
    )
    (advice,) = found.notes
    assert advice.endswith("By characters: augless trial PLAN metric=chrf")
    assert "too short or too free" in advice and found.method == "linear"
    advice = answers.answer([study(0.32, 0.33)], "augless trial demo").notes[0]
    assert advice.endswith("augless trial demo metric=chrf")
    found = answers.answer([study(0.0, 0.0), study(0.5, 0.1, "other")])
    assert found.sentence.endswith("a BLEU of 0.00 to 0.50 is too near 0 to tell methods apart.")
    found = answers.answer([study(0.0, 0.0), study(40.0, 40.8, "other")])
    assert found.sentence.startswith("On other, the only corpus with an answer: linear beats plain")
    assert found.notes[0] == (
        "On toy there is no answer: a BLEU of 0.00 is too near 0 to tell methods apart."
    )
    assert found.notes[-1].endswith("metric=chrf")
    found = answers.answer([study(0.5, 30.0)])
    assert found.sentence.startswith("linear beats plain")
    assert "plain has a BLEU near 0 (0.50), where it says little." in found.notes
    for score, mark in ((0.32, ""), (40.0, "▲")):
        found = gathered_of(study(score, score))
        assert tables.tables(found)[0].lines[1].baseline.mark == mark
        mean = figures.differences(found.studies[0]).panels[0].dots[-1]
        assert ("claimed" in mean.style) == bool(mark)
        claimed = exports.summary(found)["corpora"]["toy"]["linear"]["baseline"]["claimed"]
        assert claimed == bool(mark)


def test_perfect_words_that_bleu_cannot_score_are_not_called_unlearnt(tmp_path):
    texts = (["Hund"] * 12, ["dog"] * 12, np.ones(12, int), np.zeros(12))
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1,)), texts=texts)
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert "There is no answer: a BLEU of" in page
    assert "augless trial PLAN metric=chrf" in page and "hardly" not in page.split("may mean")[0]


def test_the_answer_is_about_methods_that_weigh_samples():
    rival = row_of("wd", baseline=contrast(1.5), weighs=False, besides=True)
    row = row_of("exponential", baseline=contrast(0.2, p=0.7))
    other = row_of("linear", baseline=contrast(0.1, p=0.7))
    found = answers.answer([study_of(rival, row, other)])
    assert found.method == "exponential"
    assert found.sentence.startswith("No weighting is shown to beat plain: the best, exponential,")
    assert found.notes == ("plain is beaten by wd (by 1.5, p = 0.01; it weighs no samples).",)
    unsure = row_of("wd", baseline=contrast(1.5, p=0.07), weighs=False)
    found = answers.answer([study_of(unsure, row)])
    assert found.method == "exponential"
    assert found.notes == (
        "Most is gained by wd, which weighs no samples: it is 1.5 BLEU better than plain "
        "(p = 0.07, not claimed).",
    )
    assert answers.answer([study_of(rival)]).sentence.startswith("wd beats plain by 1.5 BLEU")


def test_what_else_a_difference_may_be_is_said():
    row = row_of("wd + exponential", baseline=contrast(0.5, smallest=0.6), besides=True)
    notes = answers.answer([study_of(row)]).notes
    assert notes[0].startswith("wd + exponential differs from plain in more than its weights")
    assert notes[1].startswith("The difference of wd + exponential is below 0.6, which trials")
    sound = row_of("exponential", baseline=contrast(0.8, smallest=0.6))
    assert answers.answer([study_of(sound)]).notes == ()


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
        for entry in small.entries
    ]
    found = {}
    for trial in (small, dataclasses.replace(small, entries=entries)):
        rows = evidence.gather(trial).studies[0].rows
        found[trial is small] = [row.besides for row in rows]
    assert found == {True: [False, False, False], False: [False, False, True]}


def test_a_method_alone_is_compared_with_nothing(tmp_path):
    plan = plan_of(("plain",), seeds=(1, 2))
    trial = synthetic(plan, sentences=20)
    expected = "There is nothing to compare with: plain is the only method."
    assert reports.summary(trial)["sentence"] == expected
    assert expected in Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    plan = plan_of(("plain", "matched", "exponential"), seeds=(1,))
    rows = evidence.gather(synthetic(plan, sentences=20)).studies[0].rows
    study = study_of(rows[1], plain=rows[0])
    assert answers.answer([study]).sentence.endswith("plain is alone with controls.")


def test_luck_of_seeds_is_said():
    row = row_of("exponential", baseline=contrast(method_p=0.2))
    notes = answers.answer([study_of(row)]).notes
    assert any("may be luck: exponential (p = 0.20)" in note for note in notes)
    alone = row_of("exponential", baseline=contrast(seeds=(0.8,)), done=1)
    assert any("There is one seed" in note for note in answers.answer([study_of(alone)]).notes)


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
    found = answers.answer([study_of(row, plain=plain)])
    assert found.sentence.startswith("There is no answer") and sentence in found.sentence
    assert found.method is None


def test_the_page_is_one_file_without_network_or_scripts(page):
    read = Reader(page)
    assert read.open == []
    assert not read.tags("script") and not read.tags("img") and not read.tags("iframe")
    assert [link["href"] for link in read.tags("link")] == ["data:,"]
    assert "http://" not in page and "https://" not in page and "@import" not in page
    assert "url(" not in page
    assert len(page.encode()) < 2_000_000


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
    read = Reader(reports.report(trial, tmp_path).read_text("utf-8"))
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert len(levels) > 10
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    names = [e["aria-label"] for _, e in read.elements if e.get("role") == "region"]
    assert len(names) == len({*names}) >= 4


def test_notes_on_many_corpora_are_folded(small, tmp_path):
    names = tuple("abcdef")
    trial = synthetic(plan_of(("plain", "linear"), names, seeds=(1,)), sentences=20)
    answer = answers.of(evidence.gather(trial))
    assert len(answer.by_corpus) > pages.MOST and len(answer.general) == 1
    page = reports.report(trial, tmp_path).read_text("utf-8")
    header = page.split("</header>")[0]
    before, inside = header.split("<details>")
    assert f"{len(answer.by_corpus)} notes, corpus by corpus" in inside
    assert before.count("<li>") == 1 and inside.count("<li>") == len(answer.by_corpus)
    assert all(f"- {note}" in reports.text(trial) for note in answer.notes)
    page = reports.report(small, tmp_path).read_text("utf-8")
    assert "<details>" not in page.split("</header>")[0], "few are not folded"


def test_the_page_shows_all_that_was_asked_for(page, trial):
    text = Reader(page).text
    assert answers.answer(evidence.gather(trial).studies).sentence in text
    for heading in ("Learning", "Weights over time", "Losses and their weights", "Examples"):
        assert heading in text
    record = trial.entries[0].record
    for entry in trial.entries:
        assert entry.record.command in text and entry.record.id in text
    assert record.corpus in text and record.versions["torch"] in text
    assert record.scores["test"]["bleu"].signature in text
    assert "27.98" in text and "1, 2, 3" in text
    assert "← chosen" in text and "terms.0.weighting.radius = 1" in text


def test_the_same_trial_gives_the_same_bytes(trial, page, tmp_path):
    assert reports.report(trial, tmp_path / "again").read_text("utf-8") == page
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert names == ["index.html", "table.csv", "table.md", "table.tex", "table.txt"]


def hostile():
    """A trial in which every string that can come from outside is a payload."""
    methods = {name: trials.Method() for name in ("plain", PAYLOAD, "bad & | $_{x}")}
    plan = plan_of(methods, (PAYLOAD,), seeds=(1,), title=PAYLOAD)
    rng = np.random.default_rng(0)
    sources, references, lengths, hardness = corpus_of(rng, 12)
    texts = [f"{PAYLOAD} {s}" for s in sources], [f"{PAYLOAD} {r}" for r in references]
    found = synthetic(plan, texts=(*texts, lengths, hardness), failed={("bad & | $_{x}", 1)})
    entries = [
        dataclasses.replace(
            entry,
            failure=trials.Failure(3, PAYLOAD) if entry.failure else None,
            record=entry.record
            and dataclasses.replace(
                entry.record,
                command=PAYLOAD,
                versions={PAYLOAD: PAYLOAD},
                recipe={**entry.record.recipe, "x": f"{PAYLOAD}{entry.method}"},
                hypotheses={"test": [f"{PAYLOAD} {k}" for k in range(12)]},
            ),
        )
        for entry in found.entries
    ]
    failure = trials.Failure(3, PAYLOAD)
    tried = trials.Attempt(values={PAYLOAD: PAYLOAD}, score=None, failure=failure)
    choice = trials.Choice(best=None, by="loss", seeds=(0,), tried=(tried,))
    return dataclasses.replace(found, entries=entries, chosen={PAYLOAD: {PAYLOAD: choice}})


def test_what_comes_from_outside_is_text_and_never_markup(tmp_path):
    content = reports.report(hostile(), tmp_path).read_text("utf-8")
    read = Reader(content)
    assert not read.tags("script") and not read.tags("img")
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert "49" not in re.sub(r"[\d.]{3,}", "", read.text) or "{{ 7*7 }}" in read.text
    assert read.text.count(PAYLOAD) > 20
    assert content.count("<style>") == content.count("</style>") == 1
    assert read.open == []


def test_terminals_latex_and_spreadsheets_get_no_commands(tmp_path):
    trial = hostile()
    plan = dataclasses.replace(trial.plan, title="x")
    methods = {"plain": trials.Method(), "=1+1\x1b[31m": trials.Method()}
    plan = dataclasses.replace(plan, methods=methods)
    entries = [
        dataclasses.replace(e, method="=1+1\x1b[31m" if e.method == PAYLOAD else e.method)
        for e in trial.entries
        if e.method in ("plain", PAYLOAD)
    ]
    changed = dataclasses.replace(trial, plan=plan, entries=entries)
    assert "\x1b" not in reports.text(changed)
    assert "'=1+1" in reports.csv(changed)
    latex = reports.latex(trial)
    assert r"bad \& \textbar{} \$\_\{x\}" in latex
    assert r"\textless{}script\textgreater{}" in latex
    body = latex.split("\n", 1)[1]
    assert not {*"<>|"} & {*body}, "which LaTeX prints as other characters"
    assert r"\{\{ 7*7 \}\}" in latex
    lines = reports.markdown(trial).splitlines()
    row = next(line for line in lines if line.startswith("| bad"))
    assert r"bad \& \| \$\_\{x\}" in row and "<script>" not in reports.markdown(trial)


def test_the_table_is_the_same_in_every_format(trial, small):
    found = list(csv.DictReader(io.StringIO(reports.csv(trial))))
    assert {row["metric"] for row in found} == {*trial.plan.metrics}
    assert all(row["difference_baseline"] == "" for row in found if row["metric"] != "bleu")
    found = [row for row in found if row["metric"] == "bleu"]
    assert [row["method"] for row in found] == list(METHODS)
    plain, linear = found[0], found[2]
    assert plain["difference_baseline"] == "" and plain["published"] == "27.98"
    gap = float(linear["mean"]) - float(plain["mean"])
    assert float(linear["difference_baseline"]) == pytest.approx(gap)
    shown = f"{gap:+.2f}".replace("-", charts.MINUS)
    assert shown in reports.markdown(trial) and shown in reports.text(trial)
    assert shown.replace(charts.MINUS, "$-$") in reports.latex(trial)
    assert reports.latex(small).count(r"\toprule") == 5, "one of all, and two of each corpus"
    assert "seed 2: exit code 7" in reports.text(small)


def test_every_format_has_what_the_page_has(small, trial):
    found = list(csv.DictReader(io.StringIO(reports.csv(trial))))
    row = next(r for r in found if (r["method"], r["metric"]) == ("linear", "chrf"))
    record = next(e.record for e in trial.entries if (e.method, e.seed) == ("linear", 2))
    assert float(row["seed_2"]) == record.value("test", "chrf")
    row = next(r for r in found if (r["method"], r["metric"]) == ("exponential", "bleu"))
    contrasts = evidence.gather(trial).studies[0].row("exponential")
    assert float(row["holm_p_baseline"]) == contrasts.baseline.p
    assert float(row["holm_p_control"]) == contrasts.control.p and row["tuning_seconds"] == "300.0"
    assert "p_baseline" not in row and "p_control" not in row
    chance = f"exponential ({answers.probability(contrasts.baseline.p)}"
    for text in (reports.markdown(trial), reports.latex(trial), reports.text(trial)):
        plain = text.replace(r"\textless{}", "<").replace("\\<", "<")
        assert "Against plain: matched (p" in plain and chance in plain
        assert "Against matched: linear (p" in plain
        assert "after Holm's correction over all methods and corpora" in plain
    for text in (reports.markdown(small), reports.latex(small), reports.text(small)):
        assert text.count("exponential, seed 2: exit code 7: the loss is not finite") == 2


def test_a_mean_over_some_seeds_does_not_look_whole(small, tmp_path):
    found = evidence.gather(small)
    by_method = {row.method: row.cells[0] for row in tables.overview(found).rows}
    assert by_method["exponential"].text.endswith(" [1 of 2 seeds]")
    assert by_method["matched"].seeds == "" and "[" not in by_method["matched"].text
    page = Reader(reports.report(small, tmp_path).read_text("utf-8")).text
    assert "1 of 2 seeds" in page and "[1 of 2 seeds]" in reports.markdown(small).replace("\\", "")


def test_several_corpora_have_a_table_of_all(small, tmp_path):
    whole = tables.overview(evidence.gather(small))
    assert whole.corpora == ["toy", "other"]
    assert [row.method for row in whole.rows] == ["plain", "matched", "exponential"]
    assert whole.rows[0].cells[0].text.endswith("(27.98)")
    assert whole.legend in Reader(reports.report(small, tmp_path).read_text("utf-8")).text


def test_every_row_of_a_markdown_table_has_as_many_cells(trial):
    for table in reports.markdown(trial).split("### ")[1:]:
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
    trial = synthetic(plan, sentences=20)
    shown = tables.table(evidence.gather(trial), evidence.gather(trial).studies[0])
    assert [line.published for line in shown.lines] == ["28.70", "", "28.50"]
    scores = tables.scores(evidence.gather(trial), evidence.gather(trial).studies[0])
    assert [row.method for row in scores.rows] == ["plain", "linear", "CE+MLM", "Human"]
    assert [cell.published for cell in scores.rows[0].cells] == ["28.70", "7.10", ""]
    assert [cell.text for cell in scores.rows[3].cells] == ["", "", "(0.940)"]
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    for text in (page, reports.markdown(trial), reports.latex(trial)):
        assert "Human" in text and "(0.940)" in text and "(7.10)" in text
    found = list(csv.DictReader(io.StringIO(reports.csv(trial))))
    published = {(row["method"], row["metric"]): row["published"] for row in found}
    assert published["plain", "perplexity"] == "7.1" and published["Human", "distinct-1"] == "0.94"


def test_the_summary_is_json_and_has_all_numbers(trial, small):
    found = reports.summary(small)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["sentence"] and found["metric"] == "bleu" and found["baseline"] == "plain"
    assert {*found["corpora"]} == {"toy", "other"}
    assert found["corpora"]["toy"]["exponential"]["failures"] == {
        "2": "exit code 7: the loss is not finite"
    }
    found = reports.summary(trial)
    row = found["corpora"]["toy-de-en"]["linear"]
    cell = evidence.gather(trial).studies[0].row("linear").cell
    assert row["mean"] == cell.mean and row["deviation"] == cell.deviation
    assert {*row["scores"]} == {"bleu", "chrf", "perplexity"}
    assert row["baseline"]["holm_p"] == cell.baseline.holm_p
    assert row["baseline"]["method_p"] == cell.baseline.method_p
    assert row["baseline"]["claimed"] == cell.baseline.significant
    assert row["baseline"]["smallest"] == cell.baseline.smallest_detectable
    assert row["control"]["name"] == "matched" and not row["control"]["matches"]
    assert row["control"]["difference"] == cell.control.difference
    assert found["corpora"]["toy-de-en"]["exponential"]["control"]["matches"]
    assert found["corpora"]["toy-de-en"]["plain"]["published"] == 27.98
    assert row["seconds"] and row["samples"] and row["failures"] == {}
    assert row["tuning_seconds"] is None
    assert found["corpora"]["toy-de-en"]["exponential"]["tuning_seconds"] == 300
    assert row["scores"]["bleu"]["seeds"] == row["seeds"] and len(row["seeds"]) == 3


def test_the_terminal_has_the_notes_of_the_page(small, tmp_path):
    notes = answers.of(evidence.gather(small)).notes
    page = Reader(reports.report(small, tmp_path).read_text("utf-8")).text
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
    notes = ("toy-de-en is not on this machine",)
    changed = dataclasses.replace(trial, entries=entries, notes=notes)
    found = evidence.gather(changed)
    assert found.studies[0].row("linear").baseline is None
    page = Reader(reports.report(changed, tmp_path).read_text("utf-8")).text
    for text in (page, reports.text(changed)):
        assert text.count("toy-de-en is not on this machine.") == 1
        assert text.count("bleu on toy-de-en was scored in several ways") == 1
        assert text.count("1 of 18 runs is not done yet") == 1
        assert "seeds left" not in text
    assert any("seeds left" in warning for warning in found.table.warnings), "the page counts them"


def scored_otherwise(record):
    """The same record, with another signature and a sentence less."""
    bleu = dataclasses.replace(record.scores["test"]["bleu"], signature="bleu|another")
    scores = {**record.scores, "test": {**record.scores["test"], "bleu": bleu}}
    statistics = {name: table[:-1] for name, table in record.statistics.items()}
    return dataclasses.replace(record, scores=scores, statistics=statistics)


def test_methods_that_were_scored_otherwise_are_not_compared(tmp_path):
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1, 2)), sentences=20)
    entries = [
        dataclasses.replace(e, record=scored_otherwise(e.record)) if e.method == "linear" else e
        for e in trial.entries
    ]
    changed = dataclasses.replace(trial, entries=entries)
    page = Reader(reports.report(changed, tmp_path).read_text("utf-8")).text
    assert "There is no answer: no method can be compared with plain." in page


def test_the_raw_files_are_named_with_their_checksums(small, tmp_path):
    page = Reader(reports.report(small, tmp_path).read_text("utf-8")).text
    assert "1 files" not in page and "1 file and its SHA-256" in page
    assert "train.<de>" in page and "5a" * 32 in page


def test_evidence_is_gathered_once(small, tmp_path, monkeypatch):
    counted, whole = [], trials.table
    monkeypatch.setattr(trials, "table", lambda trial: counted.append(1) or whole(trial))
    trial = dataclasses.replace(small)
    reports.report(trial, tmp_path)
    reports.text(trial)
    reports.summary(trial)
    assert len(counted) == 1
    reports.text(dataclasses.replace(small))
    assert len(counted) == 2, "another trial has other evidence"


def test_columns_name_the_control_and_only_its_method_learns_from_it(trial, page):
    found = tables.table(evidence.gather(trial), evidence.gather(trial).studies[0])
    assert found.columns["control"] == "against matched"
    lead = Reader(page).text.split("The numbers")[1].split("Method")[0]
    assert "which samples of a batch are preferred: matched for exponential." in lead
    assert "No control matches linear and uniform: a difference from matched may there" in lead
    methods = {"plain": trials.Method(), "linear": trials.Method(), "uniform": trials.Method()}
    methods |= {f"as {m}": trials.Method(matches=m) for m in ("linear", "uniform")}
    gathered = evidence.gather(synthetic(plan_of(methods, seeds=(1,)), sentences=20))
    several = tables.table(gathered, gathered.studies[0])
    assert several.columns["control"] == "against its control"
    controls = [line.control.said[0] for line in several.lines if line.control]
    assert controls == ["from as linear", "from as uniform"]


def test_no_text_says_that_a_control_prefers_no_sample(page):
    assert not re.search("prefers? no samples?", Reader(page).text)


def test_marks_are_hollow_where_seeds_may_explain_a_difference():
    lucky = row_of("linear", baseline=contrast(-1.0, method_p=0.2))
    sure = row_of("exponential", baseline=contrast())
    found = gathered_of(study_of(lucky, sure))
    shown = tables.table(found, found.studies[0])
    assert [line.baseline.mark for line in shown.lines[1:]] == ["▽", "▲"]
    assert "over seeds p = 0.20" in shown.lines[1].baseline.said
    assert "△ ▽ for these models only" in tables.legend(shown)
    found = gathered_of(study_of(sure))
    assert "△" not in tables.legend(tables.table(found, found.studies[0]))


def test_figures_and_tables_have_the_same_marks():
    rows = [
        row_of("lucky", baseline=contrast(-1.0, method_p=0.2)),
        row_of("sure", baseline=contrast()),
        row_of("unsure", baseline=contrast(0.1, **OPEN)),
    ]
    found = gathered_of(study_of(*rows))
    marks = [line.baseline.mark for line in tables.tables(found)[0].lines[1:]]
    panel = figures.differences(found.studies[0]).panels[0]
    drawn = [dot.style.split()[1] for dot in panel.dots if dot.style.startswith("mean")]
    assert marks == ["▽", "▲", ""] and drawn == ["open", "claimed", "open"]
    assert [label.text for label in panel.labels if label.text in {*"△▲▽▼"}] == ["▽", "▲"]
    assert "1.00 ▽, p = 0.01; sure +0.80 ▲, p = 0.01" in panel.description


def gathered_of(study):
    """Evidence of one study, of which there is no trial."""
    methods = {row.method: trials.Method() for row in study.rows}
    plan = plan_of(methods, (study.corpus,))
    trial = trials.Trial(plan=plan, entries=[], sources={}, references={}, chosen={})
    study = dataclasses.replace(study, records={row.method: {} for row in study.rows})
    return dataclasses.replace(evidence.gather(trial), studies=[study])


def test_with_one_seed_nothing_is_said_of_every_seed(tmp_path):
    trial = synthetic(plan_of(("plain", "linear"), seeds=(1,)), sentences=20)
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    for text in (page, reports.text(trial)):
        assert "every seed agrees" not in text and "deviation over seeds" not in text
        assert "there being one seed" in text


def test_nothing_has_no_sign():
    assert charts.fixed(-0.001, 2) == "0.00" and charts.fixed(-0.01, 2) == f"{charts.MINUS}0.01"
    assert [charts.signed(charts.fixed(v, 1)) for v in (0.04, 0.1, -0.1)] == [
        "0.0",
        "+0.1",
        f"{charts.MINUS}0.1",
    ]
    row = row_of("linear", baseline=contrast(-0.001, p=0.9))
    found = gathered_of(study_of(row))
    assert tables.table(found, found.studies[0]).lines[1].baseline.text == "0.00"


def test_where_no_sentence_differs_no_effect_is_called_smallest():
    found = gathered_of(study_of(row_of("x", baseline=contrast(0.0, **ALIKE))))
    (zone,) = figures.differences(found.studies[0]).panels[0].bars
    assert zone.width == 0
    assert tables.table(found, found.studies[0]).lines[1].smallest == ""


def test_the_page_says_what_was_tuned_and_what_was_not(tmp_path):
    names = ("plain", "matched", "linear", "exponential")
    plan = plan_of(names, seeds=(1,))
    page = reports.report(synthetic(plan, sentences=20), tmp_path).read_text("utf-8")
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
    page = reports.report(trial, tmp_path).read_text("utf-8")
    assert "and 1 combination each of exponential." in Reader(page).text


def test_what_was_tried_is_listed_best_first_with_its_cost(page, trial):
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
    said = pages._facts(evidence.gather(dataclasses.replace(trial, chosen=chosen)))
    assert not any("tuning" in what for _, what in said), "which older records do not know"


def test_the_page_says_how_to_repeat_all_of_it(trial, tmp_path):
    command = "augless trial synthetic seeds=[1,2,3]"
    changed = dataclasses.replace(trial, command=command)
    page = Reader(reports.report(changed, tmp_path).read_text("utf-8")).text
    repeat = page.split("To repeat it")[1]
    assert command in repeat and trial.plan.as_toml() in repeat
    assert "All of it" not in page and "may be less than was trained" in repeat
    assert "What tuning tried is under “The methods”." in repeat
    assert "exit code 7" in page.split("Chosen for exponential")[1], "the run that failed"
    for name, version in trial.entries[0].record.versions.items():
        assert name in repeat and version in repeat


def test_a_watched_test_set_is_not_called_tested_once(trial, tmp_path):
    def watched(record):
        history = [
            dataclasses.replace(e, scores={**e.scores, "test bleu": 1.0}) if e.scores else e
            for e in record.history
        ]
        return dataclasses.replace(record, history=tuple(history))

    entries = [dataclasses.replace(e, record=watched(e.record)) for e in trial.entries]
    changed = dataclasses.replace(trial, entries=entries)
    page = Reader(reports.report(changed, tmp_path).read_text("utf-8")).text
    assert "same sentences." in page and "scored at every epoch, which chose nothing" in page
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert "same sentences, once." in page and "scored at every epoch" not in page


@pytest.mark.parametrize(
    ("view", "first"), [("table", "numbers"), ("samples", "learning"), ("sweep", "sweep")]
)
def test_what_the_plan_looks_at_comes_first(view, first, tmp_path):
    methods = {"plain": trials.Method(), "linear": trials.Method(series="C1", at=1.0)}
    trial = synthetic(plan_of(methods, seeds=(1,), view=view), sentences=20)
    page = Reader(reports.report(trial, tmp_path).read_text("utf-8"))
    sections = [section["aria-labelledby"] for section in page.tags("section")]
    assert sections[0] == first and len({*sections}) == len(sections)


def test_seconds_are_explained(trial, page):
    assert "Seconds are of training alone, without tuning" in Reader(page).text
    assert "Seconds are of training alone, without tuning" in reports.markdown(trial)


@pytest.mark.parametrize("waiting", [("plain",), ("exponential", "matched"), tuple(METHODS)])
def test_an_unfinished_trial_has_a_page(waiting, tmp_path):
    plan = plan_of(("plain", "matched", "exponential"), seeds=(1,))
    trial = synthetic(plan, waiting=waiting, sentences=20)
    text = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert "There is no answer" in text


def test_without_outputs_and_without_weights_there_is_still_a_page(tmp_path):
    plan = plan_of(("plain", "back-translation"), seeds=(1, 2))
    trial = synthetic(plan, sentences=30, written=False)
    text = Reader(reports.report(trial, tmp_path).read_text("utf-8")).text
    assert "not on this machine" in text and "No method weighs its samples." in text


def test_a_metric_that_is_no_sum_has_a_page_but_no_test(tmp_path):
    names = ("corpus-distinct-1", "bleu")
    plan = plan_of(("plain", "linear"), seeds=(1, 2), metric=names[0], metrics=names)
    text = Reader(reports.report(synthetic(plan, sentences=20), tmp_path).read_text("utf-8")).text
    assert "is no sum over sentences" in text


def test_a_sweep_is_drawn_over_its_knob(tmp_path):
    names = ("plain", "a", "b", "c")
    points = {"a": 0.1, "b": 1.0, "c": 10.0}
    methods = {n: trials.Method(series="C1", at=points.get(n)) for n in names}
    plan = plan_of(methods, seeds=(1, 2), view="sweep")
    found = evidence.gather(synthetic(plan, sentences=20))
    figure = figures.sweep(found.studies[0], plan)
    assert [panel.title for panel in figure.panels] == ["C1"]
    assert "0.1 gives" in figure.panels[0].description
    assert len(figure.panels[0].dots) == 3


def test_the_second_half_is_looked_at_closer():
    lines = [charts.Series(style="m0", name="x", x=[0.5, 1.0], y=[7.0, 36.0])]
    panel = charts.curves(lines, title="", description="", x_name="")
    assert "0" not in [label.text for label in panel.labels if label.anchor == "end"]
    assert charts.rounded(7, 36) == (5, 40)


def test_a_method_has_one_colour_throughout(trial, page):
    found = evidence.gather(trial)
    colours = {method: style.split()[0] for method, style in found.styles.items()}
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


def test_examples_are_chosen_by_what_they_do_to_the_score(trial):
    study = evidence.gather(trial).studies[0]
    seed, kinds = examples.kinds(study, "exponential")
    assert seed == 1 and [kind.title.split()[-1] for kind in kinds] == ["gains", "losses", "random"]
    assert examples.kinds(study, "exponential") == (seed, kinds)
    numbers = [example.number for kind in kinds for example in kind.examples]
    assert len(numbers) == len({*numbers}) == 9
    ours, theirs = (study.records[m][1].statistics["test/bleu"] for m in ("exponential", "plain"))
    total, bleu = theirs.sum(0), study.metric

    def change(index):
        return float(bleu.value(total + ours[index] - theirs[index]) - bleu.value(total))

    changes = [change(i) for i in range(len(ours))]
    best = kinds[0].examples[0].number - 1
    assert changes[best] == max(changes)
    assert changes[kinds[1].examples[0].number - 1] == min(changes)


def test_buckets_by_length_hold_every_sentence_once():
    lengths = np.random.default_rng(0).integers(1, 40, 300).astype(float)
    parts, names = buckets.by_length(lengths)
    assert sorted(np.concatenate(parts)) == list(range(300))
    assert len(names) == 4 and names[0].startswith("1")
    same, names = buckets.by_length(np.full(10, 7.0))
    assert len(same) == 1 and names == ["7"]


def test_buckets_of_a_metric_add_up_to_its_score(trial):
    study = evidence.gather(trial).studies[0]
    record = study.records["plain"][1]
    table = record.statistics["test/bleu"]
    parts, _ = buckets.by_length(record.statistics["test/source_length"])
    whole = study.metric.value(sum(table[b].sum(0) for b in parts))
    assert float(whole) == pytest.approx(record.value("test", "bleu"))


def test_difficulty_is_the_loss_per_token_as_perplexity_counts_them(trial):
    study = evidence.gather(trial).studies[0]
    nats, tokens = np.mean(
        [r.statistics["test/perplexity"].T for r in study.records["plain"].values()], axis=0
    )
    found = buckets._hardness(study, study.baseline, SENTENCES)
    assert found == pytest.approx(nats / tokens)
    assert "equal length are kept together" in buckets.quality(study).caption


def test_weights_of_one_of_several_terms_say_which(trial):
    study = evidence.gather(trial).studies[0]
    assert "term" not in figures.weights(study).caption
    second = recipe_of(METHODS["exponential"][0])
    second = {k.replace("terms.0.", "terms.1."): v for k, v in second.items()}
    second |= {"terms.0.loss.name": "cross-entropy", "terms.0.weighting.name": "plain"}
    second |= {"terms.1.loss.name": "wasserstein", "terms.1.scale": 0.1}

    def changed(record):
        empty = trials.TermLog()
        history = [dataclasses.replace(e, terms=(empty, *e.terms)) for e in record.history]
        return dataclasses.replace(record, recipe=second, history=tuple(history))

    records = {s: changed(r) for s, r in study.records["exponential"].items()}
    study = dataclasses.replace(study, records={**study.records, "exponential": records})
    said = "exponential, term 2 of 2: wasserstein \N{MULTIPLICATION SIGN} 0.1"
    assert figures.weights(study).caption.endswith(f"Weights are those of one term: {said}.")
    assert said in [panel.title for panel in figures.losses(study).panels]


def test_weight_curves_are_those_of_training(trial):
    study = evidence.gather(trial).studies[0]
    curve = figures.weight_curve(study, study.row("exponential"), 0, 41)
    # The exact weights at L / R = 0.1, 0.5, 1 and 2, from the table of the paper's laws.
    expected = [1.1807, 1.5094, 1.7051, 1.8732]
    assert [curve[k] for k in (1, 5, 10, 20)] == pytest.approx(expected, abs=1e-4)
    flat = figures.weight_curve(study, study.row("matched"), 0, 41)
    assert {*flat} == {study.records["matched"][1].history[-1].terms[0].weight}


def test_a_curve_that_cannot_be_known_here_is_left_out(trial):
    study = evidence.gather(trial).studies[0]
    recipe = {"terms.0.weighting.name": "a law of a later version"}
    records = {s: dataclasses.replace(r, recipe=recipe) for s, r in study.records["linear"].items()}
    changed = dataclasses.replace(study, records={**study.records, "linear": records})
    assert figures.weight_curve(changed, changed.row("linear"), 0, 41) is None
    assert figures.losses(changed) is not None


def test_ticks_are_round_and_inside():
    for low, high in [(0, 1), (-3, 7.5), (26.2, 33.9), (0, 2e6), (1, 1.0001)]:
        ticks = charts.Scale(low, high, 0, 100).ticks()
        assert 2 <= len(ticks) <= 8
        assert all(low - 1e-6 <= tick <= high + 1e-6 for tick in ticks)
    assert charts.rounded(5, 5) != (5, 5) and charts.rounded(0, 0)[0] < 0
    shown = [charts.shown(value) for value in (0, 0.1 + 0.2, -2, 20_000, 1.5e6)]
    assert shown == ["0", "0.3", f"{charts.MINUS}2", "20k", "1.5M"]


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
        found = re.findall(r"--(?:m\d|base|control): #(\w{6})", theme)
        assert len(found) == evidence.COLOURS + 2
        rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (0, 2, 4)] for c in found])
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
