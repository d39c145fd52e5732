"""A data sheet of the evaluation, in the order of HEDS, with all filled in that is known.

HEDS, the Human Evaluation Datasheet (Shimorina and Belz, 2022), is what reviewers of text
generation ask for. What only a person knows is left open and marked.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from importlib import metadata

from augless import metrics
from augless.reports import exports as escaping
from augless.survey import inference, raters
from augless.survey.designing import ANCHORS, POINTS
from augless.survey.tallying import Tally

OPEN = "**To fill in.**"
Question = tuple[str, str]


def markdown(tally: Tally) -> str:
    """Write the sheet in Markdown."""
    sections = [
        ("1. Where the evaluation is reported", _paper(tally)),
        ("2. The systems", _systems(tally)),
        ("3.1 The sample of outputs", _sample(tally)),
        ("3.2 The annotators", _annotators(tally)),
        ("3.3 The experiment", _experiment(tally)),
        ("4. The quality criteria", _criteria(tally)),
        ("5. Ethics", _ethics()),
    ]
    parts = [
        f"# Data sheet: {escaping.in_markdown(tally.design.title)}",
        "In the order of HEDS. Filled in by augless "
        f"{metadata.version('augless')} as far as it knows; the rest is marked.",
    ]
    for title, questions in sections:
        lines = "\n".join(f"- {question} {answer}" for question, answer in questions)
        parts.append(f"## {title}\n\n{lines}")
    return "\n\n".join(parts) + "\n"


def _known(text: str) -> str:
    return escaping.in_markdown(text)


def _paper(tally: Tally) -> list[Question]:
    return [
        ("Paper, and the experiment in it:", OPEN),
        (
            "Ratings, texts and orders:",
            f"`ratings.csv`, `survey.json`; survey `{tally.survey.id}`.",
        ),
        ("Contact:", OPEN),
    ]


def _systems(tally: Tally) -> list[Question]:
    design = tally.design
    names = ", ".join(_known(name) for name in design.systems)
    hidden = (
        f"{_known(design.reference)}, written by people and shown among the others."
        if design.reference
        else "none."
    )
    return [
        ("Task, input and output:", f"{_known(' to '.join(design.labels))}. {OPEN}"),
        ("Languages:", _known(" to ".join(filter(None, design.languages))) or OPEN),
        ("Systems:", f"{names}. How each was made: {OPEN}"),
        ("Reference:", hidden),
    ]


def _sample(tally: Tally) -> list[Question]:
    design = tally.design
    items = sum(item.line > 0 for item in design.items)
    texts = sum(task.kind == "system" for task in design.tasks)
    return [
        ("Items:", f"{items:,} of {design.population:,} lines, {texts:,} different texts."),
        ("How they were drawn:", f"at random without replacement, seed {design.seed}."),
        ("Statistical power:", _power(tally)),
    ]


def _power(tally: Tally) -> str:
    known = [
        f"{scored.scale} {apart.minimum_detectable_effect:.2f}"
        for scored in tally.scales
        for apart in [
            max(
                (
                    row.difference
                    for row in scored.rows
                    if row.difference and row.difference.minimum_detectable_effect
                ),
                key=lambda one: one.minimum_detectable_effect or 0.0,
                default=None,
            )
        ]
        if apart is not None and apart.minimum_detectable_effect is not None
    ]
    if not known:
        return OPEN
    return (
        "minimum detectable effect at "
        f"p < {metrics.LEVEL:g} (Holm) and power {metrics.POWER:g}, for the system where it is "
        f"largest: {_known(', '.join(known))} points."
    )


def _annotators(tally: Tally) -> list[Question]:
    heard = [one for one in tally.raters if one.done and one.name not in tally.without]
    left = f", {_known(', '.join(tally.without))} left out" if tally.without else ""
    seconds = [one.seconds for one in heard if one.seconds is not None]
    return [
        ("Number:", f"{len(heard)} whose ratings count{left}."),
        ("Who they are, experts or not, their languages:", OPEN),
        ("How they were found, and paid:", OPEN),
        ("Whether they know the authors, or are authors:", OPEN),
        ("Training and practice:", f"instructions on the page; no practice round. {OPEN}"),
        ("Time:", f"a median of {statistics.median(seconds):.1f} seconds a text."),
    ]


def _experiment(tally: Tally) -> list[Question]:
    design = tally.design
    tasks = design.tasks
    repeated = max(len(design.repeated(one)) for one in design.annotators)
    counts = [
        f"{repeated} repeated texts",
        f"{sum(task.kind == 'degraded' for task in tasks)} degraded",
        f"{sum(task.kind == 'gold' for task in tasks)} gold",
    ]
    return [
        ("Form:", "a page of augless survey, served or offline, one text at a time."),
        ("Who rates what:", "every annotator is to rate every text."),
        (
            "Order:",
            "items at random for each annotator; the systems of an item by a Latin square "
            "(Williams' design), so that each stands at each place equally often.",
        ),
        ("Blinding:", "annotators see neither systems nor file names; the reference is hidden."),
        ("Same texts of several systems:", "rated once, counted for each."),
        ("Checks:", f"{', '.join(counts)} for each annotator."),
        ("What the checks said:", _checks(tally.raters)),
        ("Incomplete ratings:", "kept; whoever stopped is counted as far as they came."),
    ]


def _checks(heard: Sequence[raters.Rater]) -> str:
    flags = [f"{one.name}: {flag}" for one in heard for flag in one.flags]
    return _known("; ".join(flags)) + "." if flags else "nobody was flagged."


def _criteria(tally: Tally) -> list[Question]:
    anchors = ", ".join(f"{k} {anchor}" for k, anchor in enumerate(ANCHORS, 1) if anchor)
    answers: list[Question] = []
    for scored in tally.scales:
        alpha = "undefined" if scored.alpha.value is None else f"{scored.alpha.value:.3f}"
        kappa = "undefined" if scored.kappa is None else f"{scored.kappa:.3f}"
        answers += [
            (f"**{_known(scored.scale)}**, as asked:", f"“{_known(scored.question)}”"),
            ("Kind of quality, frame of reference, form or content:", OPEN),
            (
                "Agreement between annotators:",
                f"Krippendorff's ordinal alpha {alpha}, weighted kappa {kappa} (mean of pairs).",
            ),
        ]
    return [
        ("Size of the scale:", f"{POINTS} points: {anchors}; the others for those who are unsure."),
        ("How it is answered:", "radio buttons or keys 1 to 5, absolute and one text at a time."),
        ("How scores are computed:", "the mean of all ratings of a system, each text's first."),
        (
            "Intervals:",
            "95 %, bootstrap that draws items and annotators with replacement "
            f"({inference.RESAMPLES:,} draws).",
        ),
        (
            "Tests:",
            f"two-sided permutation tests against {_known(tally.baseline)} over items, corrected "
            "by Holm over systems and scales.",
        ),
        ("Agreement of annotators with themselves:", _self(tally.raters)),
        *answers,
    ]


def _self(heard: Sequence[raters.Rater]) -> str:
    shares = [one.consistency for one in heard if one.consistency is not None]
    if not shares:
        return "not measured: no text was shown twice."
    total, near = sum(share.of for share in shares), sum(share.hits for share in shares)
    exact = sum(share.exact for share in shares)
    return f"of {total} repeated ratings {exact} are the same and {near} within a point."


def _ethics() -> list[Question]:
    return [
        ("Approval by a committee:", OPEN),
        ("Personal data:", f"names of annotators and times of their ratings are stored. {OPEN}"),
        ("Texts that may offend:", OPEN),
        ("What was done about it:", OPEN),
    ]
