import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import math
import re
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pytest

from augless import metrics, recipes, reports, trials
from augless.recipes import following
from augless.reports import answers, buckets, charts, evidence, examples, figures, tables

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
    tokens = lengths + 2.0
    nats = tokens * (0.4 + 2 * hardness + rng.normal(0, 0.05, len(lengths)))
    given = {"hypotheses": hypotheses, "references": references, "nats": nats, "tokens": tokens}
    scores, statistics = {}, {}
    for name in kinds or ("bleu", "chrf", "perplexity"):
        score = metrics.score(name, **given)
        scores[name] = {"value": score.value, "signature": score.signature}
        statistics[f"test/{name}"] = score.statistics
    statistics |= {"test/nats": nats, "test/length": tokens}
    statistics |= {"test/source_length": lengths.astype(np.float64)}
    steps = {"steps": 2000, "epochs": 8, "samples": 20_000 * copies, "tokens": 300_000}
    return trials.Record(
        id=hashlib.sha256(f"{method} {seed} {corpus}".encode()).hexdigest()[:12],
        name="toy-de-en",
        recipe={**recipe_of(overrides), "seed": seed},
        seed=seed,
        corpus="8f2c0e6d" * 8,
        versions=following.versions(),
        command=f"augless train toy-de-en {' '.join(overrides)} seed={seed}",
        result={**steps, "seconds": 41.5 * copies + seed, "best": {"step": 2000}},
        scores={"test": scores, "valid": scores},
        statistics=statistics,
        history=history_of(method, skill, rng),
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
                failure = (
                    "exit code 1: the loss is not finite" if (method, seed) in failed else None
                )
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
    grid = [{"radius": r, "strength": s} for r in (0.5, 1.0, 2.0) for s in (0.5, 1.0)]
    tried = [
        {
            "values": {f"terms.0.weighting.{key}": value for key, value in point.items()},
            "score": 31.0 + i % 4 / 3 if i else None,
            "failure": None if i else "exit code 1",
        }
        for i, point in enumerate(grid)
    ]
    choice = {"values": tried[3]["values"], "score": tried[3]["score"], "metric": "bleu"}
    chosen = {"exponential": {c: choice | {"seed": 1, "tried": tried} for c in plan.recipes}}
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


def contrast(difference=0.8, seeds=None, p=0.01, smallest=0.6, claimed=None, method_p=0.01):
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
    )


def row_of(
    method,
    role="method",
    baseline=None,
    control=None,
    failures=None,
    done=3,
    weighs=True,
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
ANSWERS = {
    "better, and no better than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(0.1, **OPEN)),
        "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree); against the "
        "learning-rate control the difference is +0.1, which this trial could not have told from "
        "nothing: the smallest effect it could have seen is 0.6.",
    ),
    "better than both": (
        row_of("exponential", baseline=contrast(), control=contrast(0.7, p=0.0004)),
        "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree), and the learning-rate "
        "control by 0.7 (p < 0.001, all 3 seeds agree): which samples it prefers matters.",
    ),
    "better, but worse than its control": (
        row_of("exponential", baseline=contrast(), control=contrast(-0.7)),
        "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree), but the learning-rate "
        "control is better still, by 0.7 (p = 0.01, all 3 seeds agree): a larger step alone does "
        "more.",
    ),
    "better, without a control": (
        row_of("exponential", baseline=contrast(), control_name=None),
        "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree); there is no "
        "learning-rate control here, so it may be a larger step and no more.",
    ),
    "better, and the control failed": (
        row_of("exponential", baseline=contrast()),
        "exponential beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree); the learning-rate "
        "control has no result to compare with, so it may be a larger step and no more.",
    ),
    "a rival that makes other data": (
        row_of("back-translation", baseline=contrast(), control=contrast(0.7), weighs=False),
        "back-translation beats plain by 0.8 BLEU (p = 0.01, all 3 seeds agree), and the "
        "learning-rate control by 0.7 (p = 0.01, all 3 seeds agree).",
    ),
    "worse": (
        row_of("linear", baseline=contrast(-1.2, p=0.004)),
        "linear is worse than plain by 1.2 BLEU (p = 0.004, all 3 seeds agree).",
    ),
    "too small to see": (
        row_of("linear", baseline=contrast(-0.03, p=0.9)),
        "linear is not shown to differ from plain: it is 0.03 BLEU worse, which this trial could "
        "not have told from nothing: the smallest effect it could have seen is 0.6.",
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
        row_of("linear", baseline=contrast(seeds=(0.8,)), done=1, control_name=None),
        "linear beats plain by 0.8 BLEU (p = 0.01, one seed only); there is no learning-rate "
        "control here, so it may be a larger step and no more.",
    ),
}


@pytest.mark.parametrize(("row", "sentence"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_says_no_more_than_the_numbers(row, sentence):
    assert answers.answer([study_of(row)]).sentence == sentence


def test_the_answer_speaks_of_the_best_of_several_methods():
    best = row_of("exponential", baseline=contrast(0.2, p=0.7))
    other = row_of("linear", baseline=contrast(-1.0))
    found = answers.answer([study_of(other, best)])
    assert found.sentence.startswith("No method is shown to beat plain: the best, exponential, is")
    assert "plain is better than linear (by 1.0, p = 0.01)." in found.notes
    worse = row_of("exponential", baseline=contrast(-0.4))
    found = answers.answer([study_of(other, worse)])
    assert found.sentence.startswith(
        "Every method is worse than plain: the least so, exponential, by 0.4 BLEU"
    )


def test_a_lower_perplexity_is_better():
    row = row_of("exponential", baseline=contrast(-0.8), control=contrast(-0.5))
    found = answers.answer([study_of(row, metric="perplexity")])
    assert found.sentence.startswith("exponential beats plain by 0.8 perplexity")
    assert "and the learning-rate control by 0.5" in found.sentence


def test_the_answer_on_several_corpora_names_or_counts_them():
    good = row_of("exponential", baseline=contrast(), control=contrast(0.1, **OPEN))
    undecided = row_of("exponential", baseline=contrast(-0.1, **OPEN))
    found = answers.answer([study_of(good, corpus="one"), study_of(undecided, corpus="two")])
    assert found.sentence == (
        "exponential beats plain on one by 0.8 BLEU (p = 0.01, all 3 seeds agree), where it is not "
        "shown to beat the learning-rate control; it is not shown to differ from plain on two, "
        "where the smallest effect it could have seen is 0.6 BLEU."
    )
    assert found.notes[0].startswith("On one: exponential beats plain")
    many = [study_of(good, corpus=str(k)) for k in range(5)]
    assert "on all corpora by 0.8 BLEU (p = 0.01, at most, all" in answers.answer(many).sentence
    mixed = [*many, study_of(undecided, corpus="x")]
    assert "beats plain on 5 of 6 corpora" in answers.answer(mixed).sentence


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


def test_models_that_have_learnt_nothing_are_not_trusted():
    plain = row_of("plain", "baseline", mean=0.11)
    study = study_of(row_of("linear", baseline=contrast(0.01)), plain=plain)
    notes = answers.answer([study]).notes
    assert any(note.startswith("plain has 0.11 BLEU on toy: these models") for note in notes)


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
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert all(later <= earlier + 2 for earlier, later in itertools.pairwise(levels))
    assert all("scope" in cell for cell in read.tags("th"))
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len({*ids})
    pictures = read.tags("svg")
    assert len(pictures) >= 14
    for picture in pictures:
        assert picture["role"] == "img"
        assert all(name in ids for name in picture["aria-labelledby"].split())


def test_the_page_shows_all_that_was_asked_for(page, trial):
    text = Reader(page).text
    assert answers.answer(evidence.gather(trial).studies).sentence in text
    for heading in ("Learning", "Weights over time", "Losses and their weights", "Examples"):
        assert heading in text
    record = trial.entries[0].record
    for entry in trial.entries:
        assert entry.record.command in text and entry.record.id in text
    assert record.corpus in text and record.versions["torch"] in text
    assert record.scores["test"]["bleu"]["signature"] in text
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
            failure=PAYLOAD if entry.failure else None,
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
    tried = [{"values": {PAYLOAD: PAYLOAD}, "score": None, "failure": PAYLOAD}]
    chosen = {PAYLOAD: {PAYLOAD: {"values": {}, "score": None, "tried": tried}}}
    return dataclasses.replace(found, entries=entries, chosen=chosen)


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
    assert r"bad \& | \$\_\{x\}" in latex
    assert r"\{\{ 7*7 \}\}" in latex
    lines = reports.markdown(trial).splitlines()
    row = next(line for line in lines if line.startswith("| bad"))
    assert r"bad \& \| \$\_\{x\}" in row and "<script>" not in reports.markdown(trial)


def test_the_table_is_the_same_in_every_format(trial, small):
    found = list(csv.DictReader(io.StringIO(reports.csv(trial))))
    assert [row["method"] for row in found] == list(METHODS)
    plain, linear = found[0], found[2]
    assert plain["difference_baseline"] == "" and plain["published"] == "27.98"
    gap = float(linear["mean"]) - float(plain["mean"])
    assert float(linear["difference_baseline"]) == pytest.approx(gap)
    shown = f"{gap:+.2f}".replace("-", charts.MINUS)
    assert shown in reports.markdown(trial) and shown in reports.text(trial)
    assert shown.replace(charts.MINUS, "$-$") in reports.latex(trial)
    assert reports.latex(small).count(r"\toprule") == 3, "one of all, and one of each corpus"
    assert "seed 2: exit code 1" in reports.text(small)


def test_several_corpora_have_a_table_of_all(small, tmp_path):
    whole = tables.overview(evidence.gather(small))
    assert whole.corpora == ["toy", "other"]
    assert [row.method for row in whole.rows] == ["plain", "matched", "exponential"]
    assert whole.rows[0].cells[0].text.endswith("(27.98)")
    assert whole.legend in Reader(reports.report(small, tmp_path).read_text("utf-8")).text


def test_every_row_of_a_markdown_table_has_as_many_cells(trial):
    lines = [line for line in reports.markdown(trial).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_rows_that_only_the_paper_has_are_shown():
    only = {"CE+MLM": {"toy": {"bleu": 28.7}}}
    plan = plan_of(("plain", "linear"), ("toy",), seeds=(1,), published_only=only)
    found = tables.tables(evidence.gather(synthetic(plan, sentences=20)))[0]
    assert found.lines[-1].method == "CE+MLM" and found.lines[-1].published == "28.7"


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
    assert float(whole) == pytest.approx(record.scores["test"]["bleu"]["value"])


def test_weight_curves_are_those_of_training(trial):
    study = evidence.gather(trial).studies[0]
    curve = figures.weight_curve(study, study.row("exponential"), 0, 41)
    # The exact weights at L / R = 0.1, 0.5, 1 and 2, from the table of the paper's laws.
    expected = [1.1807, 1.5094, 1.7051, 1.8732]
    assert [curve[k] for k in (1, 5, 10, 20)] == pytest.approx(expected, abs=1e-4)
    flat = figures.weight_curve(study, study.row("matched"), 0, 41)
    assert {*flat} == {study.records["matched"][1].history[-1]["terms"][0]["weight"]}


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
