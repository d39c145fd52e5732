"""One page of everything, by templates that escape whatever is put into them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

from augless.reports import (
    advice,
    answers,
    buckets,
    charts,
    costs,
    examples,
    figures,
    naming,
    tables,
    words,
)
from augless.reports.evidence import Evidence, Study

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

FLAT = 0.01  # share of the spread within batches of a control that gives a batch one weight
NOTES_SHOWN = 4  # notes on corpora that stand before the tables


def page(evidence: Evidence) -> str:
    """Return the page."""
    from markupsafe import Markup

    def by_corpus(make: Callable[..., Any], *given: Any) -> list[tuple[Study, Any]]:
        """Make something of every corpus that there is something to show of."""
        made = ((study, make(*given, study)) for study in evidence.studies)
        return [(study, thing) for study, thing in made if thing]

    counter, answer = itertools.count(1), answers.of(evidence)
    trial, records = evidence.trial, evidence.records
    signatures = evidence.summary.signatures.values()
    script = (resources.files("augless.reports") / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment("reports")
        .get_template("page.html")
        .render(
            evidence=evidence,
            plan=evidence.plan,
            trial=trial,
            answer=answer,
            advice=advice.of(evidence),
            folded=len(evidence.studies) > 1 and len(answer.by_corpus) > NOTES_SHOWN,
            by_corpus=by_corpus,
            coloured=partial(coloured, evidence.styles),
            fresh=lambda: f"p{next(counter)}",
            tables=tables,
            figures=figures,
            buckets=buckets,
            costs=costs,
            examples=examples,
            words=words,
            described=naming.described(evidence),
            changes={method: _changes(evidence, method) for method in evidence.styles},
            controls=_controls(evidence),
            tuning=sum(one.seconds for of in trial.chosen.values() for one in of.values()),
            signatures=dict.fromkeys(pair for of in signatures for pair in of.items()),
            corpora=dict.fromkeys((e.corpus, e.record.corpus) for e in trial.entries if e.record),
            files=dict.fromkeys((file.name, file.sha256) for r in records for file in r.inputs),
            versions=dict.fromkeys(pair for r in records for pair in r.versions.items()),
            version=metadata.version("augless"),
            script=Markup(script),  # a file of ours
            # The one script that may run, for the page's Content-Security-Policy.
            script_hash=f"sha256-{digest}",
        )
    )


def forest(evidence: Evidence) -> str:
    """Return the forest plot as a file of its own, nothing if there is nothing to plot."""
    panels = figures.forest(evidence) or figures.differences(evidence.studies[0])
    return alone(panels[0]) if panels else ""


def alone(panel: charts.Panel) -> str:
    """Return a panel as a file of its own."""
    made = '{% from "chart.svg" import draw with context %}{{ draw(panel, "panel", alone=true) }}'
    drawn = environment("reports").from_string(made).render(panel=panel)
    # What HTML forgives in a name, XML does not.
    return "".join(c for c in drawn if c.isprintable() or c == "\n") + "\n"


def environment(*packages: str, autoescape: bool = True) -> jinja2.Environment:
    """Return what renders the templates of packages."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("augless", name) for name in packages]),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not autoescape,
    )


def coloured(styles: Mapping[str, str], sentence: str) -> Markup:
    """Give the names of methods in a sentence their colours."""
    from markupsafe import Markup

    names = sorted(filter(None, styles), key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
    bold = Markup('<b class="{}">{}</b>')
    parts = re.split(f"({pattern})", sentence)
    return Markup().join(bold.format(styles[p], p) if p in names else p for p in parts)


def _controls(evidence: Evidence) -> Iterator[str]:
    """Yield what a difference from a control tells, and for which methods."""
    plan = evidence.plan
    controls = {m: c for m in plan.methods if (c := plan.control_of(m)) is not None}
    matched = {m: c for m, c in controls.items() if plan.methods[c].matches == m}
    weigh = {row.method for study in evidence.studies for row in study.rows if row.weighs}
    others = [m for m in controls if m in weigh and m not in matched]
    if matched:
        those = words.joined([f"{c} for {m}" for m, c in matched.items()])
        yield (
            "A control has the weights of its method without their meaning, so that their "
            f"difference is due to which samples are preferred: {those}.{_kept(evidence, matched)}"
        )
    if others:
        those = words.joined(list(dict.fromkeys(controls[m] for m in others)))
        but = f"a difference from {those} may there be one of step size"
        yield f"No control matches {words.joined(others)}: {but}."
    if not matched and not others:
        yield "No method has a learning-rate control."


def _kept(evidence: Evidence, matched: Mapping[str, str]) -> str:
    """Say how much of a treatment a control by batches keeps."""
    shares = []
    for method, control in matched.items():
        for row, other in zip(evidence.rows(method), evidence.rows(control), strict=True):
            # One weight for all of a batch.
            flat = (other.treatment.within or 0.0) < FLAT and not other.treatment.idle
            if row.treatment.within is not None and flat:
                shares.append(1 - row.treatment.within)
    if not shares:
        return ""
    return f" It keeps what differs between batches: {max(shares):.0%} of the spread at most."


def _changes(evidence: Evidence, method: str) -> list[str]:
    """Say what a method changes: as its runs were made, or else as the plan has it."""
    rows = zip(evidence.rows(method), evidence.rows(evidence.plan.baseline), strict=True)
    pairs = [(row, plain) for row, plain in rows if row.records and plain.records]
    if method == evidence.plan.baseline:
        return ["the baseline"]
    if pairs:
        mine, theirs = (next(iter(row.records.values())).recipe for row in pairs[0])
    else:
        mine, theirs = (naming.planned(evidence, m) for m in (method, evidence.plan.baseline))
        if not mine or not theirs:
            return ["not known yet"]
    keys = [key for key in mine if key != "seed" and mine[key] != theirs.get(key)]
    gone = [f"{key} is gone" for key in theirs if key not in mine and key != "seed"]
    return [f"{key} = {words.value(mine[key])}" for key in keys] or gone or ["nothing"]
