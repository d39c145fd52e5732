"""What the methods of a plan are, in plain words: as their runs were made, or as they will be."""

from __future__ import annotations

from typing import Any

from augless import recipes
from augless.reports.evidence import Evidence
from augless.trials import facts, graph

_PLAIN = facts.Component("plain")
# By the key that a method sets.
_KNOBS = {
    "terms.0.loss.smoothing": "label smoothing: {} of the probability is spread over all words",
    "training.word_dropout": "word dropout: {} of the words that it reads are hidden",
}


def described(evidence: Evidence) -> dict[str, str]:
    """Say what each method is, in the order of the plan."""
    return {method: _described(evidence, method) for method in evidence.plan.methods}


def _described(evidence: Evidence, method: str) -> str:
    plain, stated = method == evidence.plan.baseline, evidence.plan.methods[method]
    records = (record for row in evidence.rows(method) for record in row.records.values())
    record = next(records, None)
    recipe = planned(evidence, method) if record is None else record.recipe
    if not recipe and not plain:
        return "not run yet"
    terms, augmenter = facts.terms_of(recipe), facts.component(recipe, "augment")
    said = [_added(term) for term in terms if term.loss.name != "cross-entropy"]
    said += [
        words.format(recipe.get(key)) for key, words in _KNOBS.items() if key in stated.overrides
    ]
    if augmenter is not None:
        weight = augmenter.knobs.get("w", 1)
        said.append(f"trained on made pairs too: {augmenter.name}, each with the weight {weight}")
    if (term := next((term for term in terms if term.weighs), None)) is not None:
        weights = weighting(term.weighting, stated.matches)
        if term.weighed_by == "loss-per-token":
            weights += ", by its loss per token"
        elif term.by_token:
            weights += "; a sample is a token here"
        said.append(weights)
    elif plain:
        said.append(f"ordinary training: {weighting(_PLAIN)}")
    elif not said:
        said.append(f"{weighting(_PLAIN)}; what it changes is under “The methods”")
    return "; ".join(said)


def planned(evidence: Evidence, method: str) -> dict[str, Any]:
    """Return the recipe of a method as the plan has it; nothing if it cannot be read any more."""
    plan = evidence.plan
    corpus, *_ = plan.recipes
    try:
        return graph.run(plan, corpus, method, plan.seeds[0], {}).resolved.values
    except recipes.BadRecipe:
        return {}


def _added(term: facts.Term) -> str:
    if term.loss.name == "r-drop":
        agree = "two passes, each with its own dropout, have to agree"
        return f"{agree}, with the weight {term.scale:g}"
    return f"adds {term.scale:g} \N{MULTIPLICATION SIGN} {term.loss.name} to the loss"


def weighting(component: facts.Component, matches: str | None = None) -> str:
    """Say what a weighting does; a control takes its weights from the method that it matches."""
    from augless import polar  # brings torch

    knobs, strength = component.knobs, component.knobs.get("strength", 1.0)
    after = knobs.get("after", 0)
    kind = polar.WEIGHTINGS.get(component.name, polar.Weighting)
    if not kind.summary:
        return f"weighs samples by {component.name}"
    return str(kind.summary).format(
        of=matches or knobs.get("of.name", "another weighting"),
        value=knobs.get("value", 1),
        first=knobs.get("first.name", "plain"),
        then=knobs.get("then.name", "exponential"),
        after=after if isinstance(after, int | float) else 0,
        most=1 + strength if isinstance(strength, int | float) else 2,
    )
