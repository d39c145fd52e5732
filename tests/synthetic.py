"""Trials that nobody ran: real scores of made-up outputs, histories from formulas."""

import dataclasses
import functools
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pytest

from augless import metrics, recipes, reports, runs, schemas, trials
from augless.recipes import following
from augless.reports import evidence
from augless.runs import Spent
from augless.trials import facts
from augless.trials.facts import Cost

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
        "primary": "exponential" if "exponential" in table else None,
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
                "weight_spread": spread / mean,
                "weight_within_batches": 0.25 if spread else None,
                "weight_min": 1.0,
                "weight_max": mean + 3 * spread,
                "raised": 1.0 if mean > 1 else 0.0,
                "effective_samples": 1 - spread / 10,
                "weight_length_correlation": (0.8 - 0.2 * share) * (spread > 0),
                "histogram": np.bincount(counts.astype(int).clip(max=40), minlength=41).tolist(),
                "mean_loss": loss,
                "mean_weight": mean,
                "gradient_share": 1.0,
            }
        ]

    entries = []
    for k in range(1, intervals + 1):
        share = k / intervals
        place = {"step": k * 50, "samples": int(copies * samples * share), "epoch": 1}
        entries.append({"kind": "interval", **place, "terms": terms(share)})
    for k in range(1, epochs + 1):
        share = k / epochs
        score = 33 * (1 - math.exp(-3.4 * share)) + 30 * skill * share + rng.normal(0, 0.25)
        place = {"step": k * 250, "samples": int(copies * samples * share), "epoch": k}
        scores = {"loss": 2.5 - share, "perplexity": math.exp(2.5 - share), "bleu": score}
        logged = {"terms": terms(share), "scores": scores, "clipped": 0.125}
        entries.append({"kind": "epoch", **place, **logged})
    return entries


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
        inputs=(facts.Input(name="train.<de>", bytes=9, sha256="5a" * 32),),
        versions=following.versions(),
        command=f"augless train toy-de-en {' '.join(overrides)} seed={seed}",
        result=runs.Outcome(**steps, seconds=41.5 * copies + seed),
        scores={"test": scores, "valid": scores},
        statistics=statistics,
        history=schemas.parsed(tuple[runs.Logged, ...], json.dumps(history_of(method, skill, rng))),
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
        plan=plan,
        entries=entries,
        sources=sources,
        references=references,
        chosen=chosen,
        costs=costs_of(plan, entries, chosen),
    )


def costs_of(plan, entries, chosen=None):
    """Add up what runs took; back-translation needs another model, and pairs made by it."""
    costs = {}
    for method in plan.methods:
        for corpus in plan.recipes:
            results = [
                entry.record.result
                for entry in entries
                if (entry.method, entry.corpus) == (method, corpus) and entry.record
            ]
            own = sum((Spent(seconds=r.seconds, samples=r.samples) for r in results), Spent())
            choice = (chosen or {}).get(plan.source(method), {}).get(corpus)
            parts = {"own": own, "prepare": Spent(seconds=1.5)}
            if choice:
                parts["tune"] = Spent(seconds=choice.seconds, samples=100_000)
            if method == "back-translation":
                parts["augment"] = Spent(seconds=20.0 * len(results))
                parts["train"] = Spent(seconds=41.0 * len(results), samples=20_000 * len(results))
            costs.setdefault(method, {})[corpus] = Cost(parts if results else {})
    return costs


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
        if not {"style", "script"} & {*self.open}:
            self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


def gather(trial):
    """Compare methods; a hundred test sets drawn tell as much here as two thousand."""
    with pytest.MonkeyPatch.context() as patch:
        whole = trials.summarise
        patch.setattr(trials, "summarise", lambda trial: whole(trial, resamples=100))
        return evidence.gather(trial)


def page_of(given, folder):
    """Write the page of a trial, or of what was gathered of it, and read it."""
    given = given if isinstance(given, evidence.Evidence) else gather(given)
    return Reader(reports.report(given, folder).read_text("utf-8"))


def contrast(difference=0.8, p=0.01, seeds=None, reach=0.5, detectable=0.6, **changes):
    """A difference of three seeds that agree, unless others are given."""
    seeds = (difference,) * 3 if seeds is None else tuple(seeds)
    return trials.Contrast(
        estimate=difference,
        low=difference - reach,
        high=difference + reach,
        p=p,
        corrected_p=p,
        degrees=10,
        deviation=0.2,
        minimum_detectable_effect=detectable,
        test="sentences" if len(seeds) == 1 else "two-way",
        seeds=seeds,
        **changes,
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
    differs_elsewhere=False,
    treatment=None,
    **changes,
):
    values = {seed: 40.0 + seed / 10 for seed in range(1, done + 1)}
    cell = trials.Result(
        records=dict.fromkeys(values),
        values=values,
        mean=40.0 if values else None,
        deviation=0.1 if done > 1 else None,
        scores={},
        baseline=baseline,
        control=control,
        control_name="matched" if role == "method" else None,
        seconds=1.0,
        samples=1.0,
        failures=failures or {},
        faults={},
    )
    return evidence.MethodResult(
        method=method,
        style="m0",
        role=role,
        **vars(dataclasses.replace(cell, **changes)),
        weighs=weighs,
        matched=matched,
        differs_elsewhere=differs_elsewhere,
        waiting=3 - done - len(failures or {}),
        treatment=treatment or evidence.Treatment(),
    )


def cell_of(table, name, heading):
    """Return what a table says of a method in a column."""
    line = next(line for line in table.lines if line.name == name)
    return line.cells[table.head.index(heading) - 1]


def texts_of(line):
    """Return what stands in a row of a table."""
    return [cell.text for cell in line.cells]


def study_of(*rows, corpus="toy", metric="bleu", plain=None):
    rows = [plain or row_of("plain", "baseline"), *rows]
    return evidence.Study(
        corpus=corpus,
        metric=metrics.METRICS[metric](),
        rows=rows,
        sources=(),
        references=(),
    )


def hostile():
    """A trial in which every string that can come from outside is a payload."""
    methods = {name: trials.Method() for name in ("plain", PAYLOAD, "bad & | $_{x}")}
    plan = plan_of(methods, (PAYLOAD,), seeds=(1,), title=PAYLOAD)
    rng = np.random.default_rng(0)
    sources, references, lengths, hardness = corpus_of(rng, 12)
    texts = [f"{PAYLOAD} {s}" for s in sources], [f"{PAYLOAD} {r}" for r in references]
    trial = synthetic(plan, texts=(*texts, lengths, hardness), failed={("bad & | $_{x}", 1)})
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
                hypotheses={"test": texts[1]},
            ),
        )
        for entry in trial.entries
    ]
    failure = trials.Failure(3, PAYLOAD)
    tried = trials.Attempt(values={PAYLOAD: PAYLOAD}, score=None, failure=failure)
    choice = trials.Choice(best=None, by="loss", seeds=(0,), tried=(tried,))
    return dataclasses.replace(trial, entries=entries, chosen={PAYLOAD: {PAYLOAD: choice}})


def scored_otherwise(record):
    """The same record, with another signature and a sentence less."""
    bleu = dataclasses.replace(record.scores["test"]["bleu"], signature="bleu|another")
    scores = {**record.scores, "test": {**record.scores["test"], "bleu": bleu}}
    statistics = {name: table[:-1] for name, table in record.statistics.items()}
    return dataclasses.replace(record, scores=scores, statistics=statistics)


def gathered_of(*studies, primary="exponential", overall=None, needed=None, command=""):
    """Evidence of studies of which there are no runs; overall is of methods, over all of them."""
    rows = {row.method: row for study in studies for row in study.rows}
    methods = {
        name: trials.Method(matches="exponential" if name == "matched" else None) for name in rows
    }
    methods.setdefault("matched", trials.Method(matches="exponential"))
    corpora = [study.corpus for study in studies]
    asked = [name for name, row in rows.items() if row.role == "method"]
    primary = primary if primary in asked else next(iter(asked), None)
    if primary != "exponential":
        methods["matched"] = trials.Method(matches=primary)
    plan = plan_of(methods, corpora, primary=primary, tune={})
    trial = trials.Trial(
        plan=plan, entries=[], sources={}, references={}, chosen={}, command=command
    )
    overall = overall or {name: (row.baseline, row.control) for name, row in rows.items()}
    table = trials.Summary(
        signatures={},
        rows={
            name: trials.Overall(
                results={
                    study.corpus: row for study in studies if (row := study.row(name)) is not None
                },
                baseline=overall.get(name, (None, None))[0],
                control=overall.get(name, (None, None))[1],
            )
            for name in rows
        },
        seeds_needed=needed or {},
    )
    styles = evidence.styles(plan)
    return evidence.Evidence(trial=trial, summary=table, styles=styles, studies=list(studies))
