"""One page of everything, by templates that escape whatever is put into them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from typing import TYPE_CHECKING

from augless.reports import (
    advice,
    answers,
    buckets,
    costs,
    evidence,
    examples,
    figures,
    human,
    naming,
    provenance,
    tables,
)
from augless.reports.evidence import Evidence, Study

if TYPE_CHECKING:
    import jinja2

FLAT = 0.01  # share of the spread within batches of a control that gives a batch one weight
NOTES_SHOWN = 4  # notes on corpora that stand before the tables
Draw = Callable[[Study], figures.Figure | None]


@dataclass(frozen=True)
class Piece:
    """A part of the answer; a method's name has its colour."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Shown:
    """A figure of one corpus."""

    corpus: str
    figure: figures.Figure


@dataclass(frozen=True)
class Section:
    """A figure for every corpus that has one."""

    id: str
    title: str
    lead: tuple[str, ...]
    empty: str
    entries: list[Shown]


@dataclass(frozen=True)
class Numbers:
    """The table of a corpus, with a figure of its differences."""

    corpus: str
    table: tables.Table
    legend: str
    figure: figures.Figure | None
    treatments: tables.Treatments | None
    scores: tables.Scores | None


@dataclass(frozen=True)
class Cost:
    """What methods cost on a corpus, and a picture of it."""

    corpus: str
    table: costs.Costs
    figure: figures.Figure | None


@dataclass(frozen=True)
class Method:
    """A method, and what it changes in the recipe."""

    name: str
    style: str
    colour: str
    words: str
    """what it is"""
    changes: list[str]
    remark: str


@dataclass(frozen=True)
class Examples:
    """Examples of a corpus."""

    corpus: str
    seed: int
    kinds: list[examples.Kind]


def page(found: Evidence) -> str:
    """Return the page."""
    import markupsafe

    counter = itertools.count(1)
    plan, answer, advised = found.plan, answers.of(found), advice.of(found)
    folded = len(found.studies) > 1 and len(answer.by_corpus) > NOTES_SHOWN
    sections = _sections(found)
    looked_at = [section for section in sections if section.id == _LOOKED_AT[plan.view]]
    script = (resources.files("augless.reports") / "page.js").read_text("utf-8")
    return (
        _environment()
        .get_template("page.html")
        .render(
            fresh=lambda: f"p{next(counter)}",
            title=plan.title,
            answer=pieces(answer.sentence, found.styles),
            rests_on=answer.numbers,
            advice=pieces(advised.sentence, found.styles) if advised else [],
            notes=answer.general if folded else answer.notes,
            folded=answer.by_corpus if folded else (),
            commands=answer.commands,
            facts=_facts(found),
            baseline=plan.baseline,
            lead=_numbers_lead(found),
            tuning=_tuning(found),
            studies=found.studies,
            methods=_methods(found),
            overview=tables.overview(found),
            forest=_forest(found),
            forest_lead=[f"Differences from {plan.baseline}, {plan.primary} first: it is primary."],
            has_forest=any(row.baseline for row in found.overall.values()),
            numbers=[_numbers(found, study) for study in found.studies],
            human=human.table(found),
            costs=_costs(found),
            costs_lead=_costs_lead(found, advised),
            looked_at=looked_at,
            sections=[section for section in sections if section not in looked_at],
            examples=_examples(found, answer.method),
            chosen=provenance.choices(found),
            signatures=provenance.signatures(found),
            corpora=provenance.corpora(found),
            files=provenance.files(found),
            seeds=", ".join(map(str, plan.seeds)),
            versions=provenance.versions(found),
            command=found.trial.command,
            plan=plan.as_toml(),
            runs=provenance.runs(found),
            version=metadata.version("augless"),
            script=markupsafe.Markup(script),  # a file of ours
            script_hash=_hashed(script),
        )
    )


def forest(found: Evidence) -> str:
    """Return the forest plot as a file of its own, nothing if there is nothing to plot."""
    figure = _forest(found) or figures.differences(found.studies[0])
    if figure is None:
        return ""
    made = '{% from "chart.svg" import draw with context %}{{ draw(panel, "forest", alone=true) }}'
    drawn = _environment().from_string(made).render(panel=figure.panels[0])
    # What HTML forgives in a name, XML does not.
    return "".join(c for c in drawn if c.isprintable() or c == "\n") + "\n"


def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("augless", "reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hashed(script: str) -> str:
    """Name the one script that may run, for the page's Content-Security-Policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"sha256-{digest}"


def _forest(found: Evidence) -> figures.Figure | None:
    plan = found.plan
    others = [m for m in plan.methods if m not in (plan.baseline, plan.primary)]
    return figures.forest(found, [*filter(None, [plan.primary]), *others])


def pieces(sentence: str, styles: Mapping[str, str]) -> list[Piece]:
    """Cut a sentence at the names of methods."""
    names = sorted(filter(None, styles), key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
    parts = re.split(f"({pattern})", sentence) if pattern else [sentence]
    # Classes that hide a method in figures have no business here.
    return [Piece(part, evidence.colour(styles.get(part, ""))) for part in parts if part]


def _facts(found: Evidence) -> list[tuple[str, str]]:
    plan = found.plan
    entries = found.trial.entries
    done = [entry.record for entry in entries if entry.record is not None]
    trained = sum(record.result.seconds for record in done)
    tuning = sum(sum(tables.tuned(found, corpus).values()) for corpus in plan.recipes)
    counts = [
        (len(plan.methods), "method"),
        (len(plan.seeds), "seed"),
        (len(plan.recipes), "corpus" if len(plan.recipes) == 1 else "corpora"),
    ]
    facts = [(str(n), what if n == 1 or what == "corpora" else f"{what}s") for n, what in counts]
    facts.append((f"{len(done)} of {len(entries)}", "runs done"))
    facts.append(_spent(trained, "training" + (" the final runs" if plan.tune else "")))
    if tuning:
        facts.append(_spent(tuning, "tuning"))
    if found.plan.small:
        facts.append(("small", "scale of the plan"))
    return facts


def _spent(seconds: float, what: str) -> tuple[str, str]:
    hours = seconds / 3600
    whole = f"{60 * hours:.0f}"
    unit = "hours" if hours >= 1 else "minute" if whole == "1" else "minutes"
    return f"{hours:.1f}" if hours >= 1 else whole, f"{unit} of {what}"


def _numbers(found: Evidence, study: Study) -> Numbers:
    table = tables.table(found, study)
    return Numbers(
        corpus=study.corpus,
        table=table,
        legend=tables.legend(table),
        figure=figures.differences(study),
        treatments=tables.treatments(study),
        scores=tables.scores(found, study),
    )


def _costs(found: Evidence) -> list[Cost]:
    return [
        Cost(study.corpus, table, costs.figure(found, study))
        for study in found.studies
        if (table := costs.table(found, study)) is not None
    ]


def _costs_lead(found: Evidence, advised: advice.Advice | None) -> list[str]:
    """Say what is advised, and by which rule."""
    if advised is None:
        return []
    lead = [advised.sentence]
    if advised.take is not None:
        lead.append(
            "The rule: of the methods that are within the minimum detectable effect of the best "
            "mean and not shown to be worse, the cheapest. If any is shown to beat "
            f"{found.plan.baseline}, only such are taken; if not, {found.plan.baseline} goes "
            "before others that are about as cheap."
        )
        lead += [f"Left out: {why}." for why in advised.left_out]
    return lead


def _numbers_lead(found: Evidence) -> list[str]:
    """Say how the numbers came about, and how to read them."""
    plan = found.plan
    once = ", once" if not any(study.watched for study in found.studies) else ""
    seeds = "seeds" if len(plan.seeds) > 1 else "seed"
    lead = [
        f"Every method was trained with the same {seeds}, and tested on the same sentences{once}.",
        # Which need not be the metric: a finished trial can be compared by another one.
        *found.trial.selection,
        f"Methods are compared by {evidence.metric_name(plan.metric)}.",
    ]
    if not once:
        lead.insert(1, "The test set was also scored at every epoch, which chose nothing.")
    if len(plan.seeds) > 1:
        lead += [
            "One seed gives all methods the same first weights and the same order of batches, so "
            "that its luck cancels: a score is taken for method + seed + chance.",
            "Minimum detectable effect: the smallest true difference that four trials of five "
            "like this one would find.",
        ]
    return lead + _controls(found)


def _controls(found: Evidence) -> list[str]:
    """Say what a difference from a control tells, and for which methods."""
    plan, lead = found.plan, []
    controls = {m: c for m in plan.methods if (c := plan.control_of(m)) is not None}
    matched = {m: c for m, c in controls.items() if plan.methods[c].matches == m}
    weigh = {row.method for study in found.studies for row in study.rows if row.weighs}
    others = [m for m in controls if m in weigh and m not in matched]
    if matched:
        those = answers.joined([f"{c} for {m}" for m, c in matched.items()])
        lead.append(
            "A control has the weights of its method without their meaning, so that their "
            f"difference is due to which samples are preferred: {those}.{_kept(found, matched)}"
        )
    if others:
        those = answers.joined(list(dict.fromkeys(controls[m] for m in others)))
        lead.append(
            f"No control matches {answers.joined(others)}: a difference from {those} may there be "
            "one of step size."
        )
    return lead or ["No method has a learning-rate control."]


def _kept(found: Evidence, matched: Mapping[str, str]) -> str:
    """Say how much of a treatment a control by batches keeps."""
    shares = []
    for study in found.studies:
        for method, control in matched.items():
            row, other = study.row(method), study.row(control)
            within = row.treatment.within if row else None
            # One weight for all of a batch.
            flat = other is not None and (other.treatment.within or 0.0) < FLAT
            if within is not None and flat:
                shares.append(1 - within)
    if not shares:
        return ""
    return f" It keeps what differs between batches: {max(shares):.0%} of the spread at most."


_LOOKED_AT = {"table": "", "samples": "learning", "sweep": "sweep"}  # section by view of the plan


def _sections(found: Evidence) -> list[Section]:
    """Draw every figure for every corpus."""
    plan = found.plan
    drawn: list[tuple[str, str, tuple[str, ...], str, Draw]] = [
        (
            "sweep",
            "Over the knob",
            ("How the score depends on what the plan varies.",),
            "",
            lambda study: figures.sweep(study, plan),
        ),
        (
            "learning",
            "Learning",
            (
                "The score as training goes on, by the number of samples seen: "
                "a method that makes copies of its data pays for each.",
            ),
            "No run has logged an epoch.",
            lambda study: figures.learning(study, plan.metric),
        ),
        (
            "weights",
            "Weights over time",
            (
                "What weighting did to the samples. A mean that is not 1 is also a change of the "
                "learning rate; a correlation with length favours long sentences.",
            ),
            "No method weighs its samples.",
            figures.weights,
        ),
        (
            "losses",
            "Losses and their weights",
            ("How hard the samples are for each method, and how much it makes of the hard ones.",),
            "No method weighs its samples.",
            figures.losses,
        ),
        (
            "quality",
            "Short and long, easy and hard",
            ("Where the differences come from, on the test set.",),
            "There are no statistics per sentence to cut the test set by.",
            buckets.quality,
        ),
    ]
    sections = []
    for name, title, lead, empty, draw in drawn:
        shown = [Shown(study.corpus, one) for study in found.studies if (one := draw(study))]
        if shown or empty:
            sections.append(Section(name, title, lead, empty, shown))
    return sections


def _examples(found: Evidence, focus: str | None) -> list[Examples]:
    shown = []
    for study in found.studies:
        seed, kinds = examples.kinds(study, focus)
        if seed is not None:
            shown.append(Examples(study.corpus, seed, kinds))
    return shown


def _methods(found: Evidence) -> list[Method]:
    """Say what each method changes, as its runs were made and not as the plan has it."""
    plan, listed, words = found.plan, [], naming.described(found)
    for method, style in found.styles.items():
        changes, remark = [], "nothing"
        pairs = [
            (study.records[method], study.records[plan.baseline])
            for study in found.studies
            if study.records[method] and study.records[plan.baseline]
        ]
        if method == plan.baseline:
            remark = "the baseline"
        elif pairs:
            mine, theirs = (next(iter(of.values())).recipe for of in pairs[0])
            keys = [key for key in mine if key != "seed" and mine[key] != theirs.get(key)]
            changes = [f"{key} = {provenance.value(mine[key])}" for key in keys]
            changes += [f"{k} is gone" for k in theirs if k not in mine and k != "seed"]
            changes = [line for line in changes if not line.endswith(" is gone")] or changes
        else:
            changes = [
                f"{k} = {provenance.value(v)}" for k, v in plan.methods[method].overrides.items()
            ]
        listed.append(Method(method, style, evidence.colour(style), words[method], changes, remark))
    order = list(plan.methods)
    return sorted(listed, key=lambda one: order.index(one.name))


def _tuning(found: Evidence) -> list[str]:
    """Say for which methods something was chosen, and for which nothing."""
    plan = found.plan
    selection = list(found.trial.selection)
    if not plan.tune:
        return [*selection, "No hyper-parameter was tuned."]
    seeds = answers.joined([str(seed) for seed in plan.seeds_of_tuning])
    lead = [
        *selection,
        f"Tuning saw the validation set alone, with seed{'s' * (plan.tuning_seeds != 1)} {seeds}, "
        f"which no final run has, and {plan.budget} combination{'s' * (plan.budget != 1)} each of "
        f"{answers.joined(list(plan.tune))}.",
    ]
    for method, entry in plan.methods.items():
        if entry.matches in plan.tune:
            lead.append(f"{method} takes what was chosen for {entry.matches}.")
    if plan.untuned:
        lead.append(f"Nothing was tuned for {answers.joined(plan.untuned)}.")
    return lead
