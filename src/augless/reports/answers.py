"""The answer in one sentence, with its confidence, from the numbers alone.

Choice: nothing is called better or worse unless the protocol lets it be claimed; what is not
claimed is said with the smallest effect that the trial could have seen. The protocol's test speaks
of the models that were trained: only what is more than the luck of seeds too is said without "for
these models". The question is whether weighting helps, so the sentence is about a method that
weighs its samples, if there is one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from augless.reports import charts
from augless.reports.evidence import Contrast, Evidence, Row, Study
from augless.trials import summary

Verdict = Literal["better", "worse", "open"]
HARDLY = 2.0  # BLEU that says nothing
COMMAND = "augless trial PLAN"  # where nobody knows what a trial was started by
NAMED = 3  # corpora that a sentence names; more are counted
_LEFT = re.compile(r"\d+ of \d+ seeds left$")  # warnings of what the page counts itself
_ALIKE = "no sentence differs in its score"
_BLIND = (
    "this trial could not have claimed any difference, having too few sentences or seeds too far "
    "apart"
)
# Filled where a claim is more than the luck of seeds too.
_MARKS = {"better": "△▲", "worse": "▽▼", "open": ("", "")}


@dataclass(frozen=True)
class Answer:
    """What a trial found."""

    sentence: str
    method: str | None
    """the method in question"""
    by_corpus: tuple[str, ...]
    """what else must be said of methods, corpus by corpus"""
    general: tuple[str, ...]
    """what else must be said of all: failures, what the confidence is of"""

    @property
    def notes(self) -> tuple[str, ...]:
        """All that must be said besides."""
        return (*self.by_corpus, *self.general)


def of(found: Evidence) -> Answer:
    """Say what a trial found, and what its makers and its summary warn of."""
    said = answer(found.studies, found.trial.command or COMMAND)
    warnings = [warning for warning in found.table.warnings if not _LEFT.search(warning)]
    notes = dict.fromkeys((*said.general, *map(_ended, warnings), *map(_ended, found.trial.notes)))
    return dataclasses.replace(said, general=tuple(notes))


def answer(studies: Sequence[Study], command: str = COMMAND) -> Answer:
    """Say what was found, for any outcome, and what to do where BLEU cannot say it."""
    unfinished = _unfinished(studies)
    comparable = [study for study in studies if study.candidates]
    if not comparable:
        return Answer(_nothing(studies), None, (), tuple(unfinished))
    learnt = [study for study in comparable if not silent(study)]
    if len(learnt) < len(comparable):
        unfinished.insert(0, _advice(comparable[0], command))
    if not learnt:
        sentence = f"There is no answer: {_hardly(comparable)}."
        return Answer(sentence, _focus(comparable), (), tuple(unfinished))
    asked = _asked(learnt)
    focus, notes = _focus(asked), []
    if len(asked) == 1:
        sentence = _on_one(asked[0], focus)
        if len(studies) > 1:
            sentence = f"On {asked[0].corpus}, the only corpus with an answer: {sentence}"
    else:
        sentence = _on_several(asked, focus)
        notes += [f"On {study.corpus}: {_on_one(study, focus)}" for study in asked]
    notes += [
        f"On {study.corpus} there is no answer: {_hardly([study])}."
        for study in comparable
        if silent(study)
    ]
    notes += [*_caveats(asked, focus), *_rivals(learnt, focus), *_others(learnt, focus)]
    general = (*unfinished, *_confidence(learnt))
    return Answer(_capital(sentence), focus, tuple(notes), general)


def verdict(study: Study, contrast: Contrast) -> Verdict:
    """Say whether a difference may be claimed, and in which direction."""
    if not contrast.claimed or silent(study):
        return "open"
    return "better" if study.gain(contrast.difference) > 0 else "worse"


def mark(study: Study, contrast: Contrast) -> str:
    """Return the sign of a claim, hollow where it is for these models only."""
    return _MARKS[verdict(study, contrast)][contrast.beyond(study.level)]


def amount(study: Study, value: float) -> str:
    """Write the size of a difference with as many digits as it deserves."""
    scale = abs(study.baseline.cell.mean or 1.0)
    digits = 1 if scale >= 10 else 2 if scale >= 1 else 3
    # Something is not written as nothing; of less than a millionth there is only rounding.
    while digits < 6 and value and round(abs(value), digits) == 0:
        digits += 1
    return f"{abs(value):.{digits}f}"


def probability(p: float) -> str:
    """Write a p-value; one that is not the level is not rounded to it."""
    if p < 0.001 or p >= 0.1:
        return "p < 0.001" if p < 0.001 else f"p = {p:.2f}"
    digits = 1
    while float(text := f"{p:.{digits}g}") == summary.LEVEL != p:
        digits += 1
    return f"p = {text}"


def joined(parts: Sequence[str]) -> str:
    """Return a list as one reads it out."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _asked(studies: Sequence[Study]) -> list[Study]:
    """Leave out rivals that weigh no samples, unless there is nothing else."""
    asked = [
        dataclasses.replace(
            study, rows=[row for row in study.rows if row.role != "method" or row.weighs]
        )
        for study in studies
    ]
    return [study for study in asked if study.candidates] or list(studies)


def _focus(studies: Sequence[Study]) -> str:
    """Return the method that most claims speak for, and of equal ones the one that gains most."""
    ranks: dict[str, tuple[int, float]] = {}
    for study in studies:
        for row, contrast in study.candidates:
            claims, gain = ranks.get(row.method, (0, 0.0))
            better = 2 if contrast.beyond(study.level) else 1
            claims += {"better": better, "open": 0, "worse": -1}[verdict(study, contrast)]
            ranks[row.method] = claims, gain + study.gain(contrast.difference)
    return max(ranks, key=lambda method: ranks[method])


def _on_one(study: Study, focus: str) -> str:
    """Say how the method in question does on one corpus."""
    found = next(((row, c) for row, c in study.candidates if row.method == focus), None)
    plain = study.baseline.method
    if found is None:
        return f"{focus} has no result to compare with {plain}."
    row, contrast = found
    size = f"{amount(study, contrast.difference)} {study.unit}"
    contrasts = [one for _, one in study.candidates]
    kinds = {verdict(study, one) for one in contrasts}
    gains = [study.gain(one.difference) for one in contrasts]
    noun = "weighting" if all(row.weighs for row, _ in study.candidates) else "method"
    # It is the best of all corpora together, not always of this one.
    best = len(gains) > 1 and study.gain(contrast.difference) == max(gains)
    kind = verdict(study, contrast)
    if kind == "better":
        verb = "beats" if contrast.beyond(study.level) else "is better than"
        control = _against_control(study, row)
        return f"{focus} {verb} {plain} by {size}{_sure(study, [contrast])}{control}."
    if kind == "worse":
        start = f"{focus} is worse than {plain} by {size}"
        if best and kinds == {"worse"}:
            whose = "" if all(one.beyond(study.level) for one in contrasts) else " for these models"
            start = f"every {noun} is worse than {plain}{whose}: the least so, {focus}, by {size}"
            return f"{start} ({_bracket(study, [contrast])})."
        return f"{start}{_sure(study, [contrast])}."
    if best and "better" not in kinds:
        start = f"no {noun} is shown to beat {plain}: the best, {focus}, is"
        alike = f"no {noun} is shown to beat {plain}: with the best, {focus}, {_ALIKE}"
    else:
        start = f"{focus} is not shown to differ from {plain}: it is"
        alike = f"{focus} does not differ from {plain}: {_ALIKE}"
    if contrast.alike:
        return f"{alike}."
    return f"{start} {_aside(study, contrast)}, {_doubt(study, contrast)}."


def _on_several(studies: Sequence[Study], focus: str) -> str:
    """Say on how many corpora it does what."""
    plain = studies[0].baseline.method
    words: dict[tuple[Verdict, bool], str] = {
        ("better", True): "beats",
        ("better", False): "is better than",
        ("worse", True): "is worse than",
        ("worse", False): "is worse than",
        ("open", False): "is not shown to differ from",
    }
    named: dict[tuple[Verdict, bool], list[tuple[Study, Row, Contrast]]] = {k: [] for k in words}
    for study in studies:
        for row, contrast in study.candidates:
            if row.method == focus:
                kind = verdict(study, contrast)
                firm = kind != "open" and contrast.beyond(study.level)
                named[kind, firm].append((study, row, contrast))
    total = sum(map(len, named.values()))
    parts = []
    for (kind, firm), found in named.items():
        if found:
            where = f"{len(found)} of {total} corpora" if len(found) < total else "all corpora"
            if len(found) <= NAMED:
                where = joined([study.corpus for study, _, _ in found])
            control = _beside_control([(s, row) for s, row, _ in found], firm)
            span = _range([(study, contrast) for study, _, contrast in found], kind)
            control = control if kind == "better" else ""
            parts.append(f"{words[kind, firm]} {plain} on {where}{span}{control}")
    return f"{focus} {'; it '.join(parts)}."


def _beside_control(rows: Sequence[tuple[Study, Row]], firm: bool) -> str:
    """Say on how many corpora it beats its control too, as surely as the baseline."""
    found = [(study, row.control) for study, row in rows if row.control]
    uncontrolled = [row for _, row in rows if _alone(row)]
    where = "" if len(uncontrolled) == len(rows) else f" on {len(uncontrolled)} of these"
    alone = _alone(uncontrolled[0], where) if uncontrolled else ""
    if not found:
        return alone
    beaten = sum(
        verdict(study, one) == "better" and (one.beyond(study.level) or not firm)
        for study, one in found
    )
    control = _control(rows[0][1])
    if not beaten:
        return f", where it is not shown to beat {control}{alone}"
    where = "" if beaten == len(rows) else f" on {beaten} of these"
    return f", and {control}{where} too{alone}"


def _alone(row: Row, where: str = "") -> str:
    """Say that a gain may be a learning rate's, unless a control of its own can tell."""
    if not row.weighs or (row.matched and row.control):
        return ""
    missing = "its control has no result to compare with"
    missing = missing if row.matched else "it has no learning-rate control of its own"
    return f"; {missing}{where}, so it may be a change of step size and no more"


def _range(found: Sequence[tuple[Study, Contrast]], kind: Verdict) -> str:
    """Say how large differences are, or how large they would have had to be."""
    study, unit = found[0][0], found[0][0].unit
    if kind == "open":
        sizes = [amount(study, one.smallest) for study, one in found if one.smallest is not None]
        if not sizes:
            return f", where {_ALIKE if all(one.alike for _, one in found) else _BLIND}"
        return f", where the smallest effect it could have seen is {_span(sizes)} {unit}"
    span = _span([amount(study, contrast.difference) for study, contrast in found])
    return f" by {span} {unit}{_sure(study, [contrast for _, contrast in found])}"


def _span(sizes: Sequence[str]) -> str:
    low, high = min(sizes, key=float), max(sizes, key=float)
    return low if low == high else f"{low} to {high}"


def _control(row: Row) -> str:
    return f"its control {row.cell.control_name}" if row.matched else f"{row.cell.control_name}"


def _against_control(study: Study, row: Row) -> str:
    """Say whether the gain is more than a learning rate's; only its own control can tell."""
    if row.control is None:
        return _alone(row)
    kind, size = verdict(study, row.control), amount(study, row.control.difference)
    own = row.matched and row.weighs
    if kind == "better":
        firm = row.control.beyond(study.level)
        meaning = ": which samples of a batch it prefers matters" if own and firm else ""
        said = f", and {_control(row)} by {size}{_sure(study, [row.control])}{meaning}"
    elif kind == "worse":
        meaning = ": the mean weight of a batch alone does more" if own else ""
        said = f", but {_control(row)} is better still, by {size}"
        said += f"{_sure(study, [row.control])}{meaning}"
    elif row.control.alike:
        said = f"; against {_control(row)} {_ALIKE}"
    else:
        said = f"; against {_control(row)} the difference is {_with_sign(study, row.control)}, "
        said += _doubt(study, row.control)
    return said + _alone(row)


def _doubt(study: Study, contrast: Contrast) -> str:
    """Say why a difference is not claimed."""
    if contrast.p < study.level and not contrast.agree:
        found = probability(contrast.p)
        return f"and though {found}, the seeds disagree on its sign, so it is not claimed"
    if contrast.smallest is None:
        return f"but {_BLIND}"
    smallest = f"the smallest effect it could have seen is {amount(study, contrast.smallest)}"
    if contrast.difference == 0:
        return f"as far as this trial can tell: {smallest}"
    if abs(contrast.difference) < contrast.smallest:
        return f"which this trial could not have told from nothing: {smallest}"
    return f"which is not enough to claim ({probability(contrast.p)})"


def _sure(study: Study, contrasts: Sequence[Contrast]) -> str:
    """Say of what a claim holds, and how surely."""
    firm = all(contrast.beyond(study.level) for contrast in contrasts)
    return f"{'' if firm else ' for these models'} ({_bracket(study, contrasts)})"


def _bracket(study: Study, contrasts: Sequence[Contrast]) -> str:
    most = " at most" if len(contrasts) > 1 else ""
    seeds = len(contrasts[0].seeds)
    agreed = {1: "one seed only", 2: "both seeds agree"}.get(seeds, f"all {seeds} seeds agree")
    p = probability(max(contrast.p for contrast in contrasts))
    said = f"{p if '<' in p else p + most}, {agreed}"
    doubts = [one.method_p for one in contrasts if not one.beyond(study.level)]
    known = [p for p in doubts if p is not None]
    return f"{said}; counting other seeds in, {probability(max(known))}{most}" if known else said


def _aside(study: Study, contrast: Contrast) -> str:
    if contrast.difference == 0:
        return "exactly as good"
    better = study.gain(contrast.difference) > 0
    return f"{amount(study, contrast.difference)} {study.unit} {'better' if better else 'worse'}"


def _where(study: Study, studies: Sequence[Study]) -> str:
    return f" on {study.corpus}" if len(studies) > 1 else ""


def _others(studies: Sequence[Study], focus: str) -> list[str]:
    """Say what else may be claimed."""
    found = []
    for study in studies:
        for kind, words in (("better", "is beaten by"), ("worse", "is better than")):
            claims = [
                f"{row.method} (by {amount(study, c.difference)}, {probability(c.p)}"
                f"{'' if c.beyond(study.level) else ', for these models'}"
                f"{'' if row.weighs else '; it weighs no samples'})"
                for row, c in study.candidates
                if row.method != focus and verdict(study, c) == kind
            ]
            if claims:
                where = _where(study, studies)
                found.append(f"{study.baseline.method} {words} {joined(claims)}{where}.")
    return found


def _rivals(studies: Sequence[Study], focus: str) -> list[str]:
    """Say where a method that weighs no samples seems better than the one in question."""
    found = []
    for study in studies:
        best, contrast = max(study.candidates, key=lambda pair: study.gain(pair[1].difference))
        ours, gain = study.row(focus), study.gain(contrast.difference)
        if ours and ours.weighs and not best.weighs and gain > 0 and not contrast.claimed:
            found.append(
                f"Most is gained{_where(study, studies)} by {best.method}, which weighs no "
                f"samples: it is {_aside(study, contrast)} than {study.baseline.method} "
                f"({probability(contrast.p)}, not claimed)."
            )
    return found


def _caveats(studies: Sequence[Study], focus: str) -> list[str]:
    """Say what else a difference of the method in question may be, and how small."""
    notes = []
    for study in studies:
        plain, where = study.baseline, _where(study, studies)
        if _low(study, plain):
            notes.append(
                f"{plain.method} has a {study.unit} near 0{where} ({_scored(plain)}), where it "
                "says little."
            )
        for row, contrast in study.candidates:
            if row.method == focus and row.weighs and row.besides:
                notes.append(
                    f"{focus} differs from {plain.method} in more than its weights{where}: what "
                    "they do is only a part of the difference."
                )
            smallest = contrast.smallest or 0.0
            if row.method == focus and contrast.claimed and abs(contrast.difference) < smallest:
                notes.append(
                    f"The difference of {focus}{where} is below {amount(study, smallest)}, which "
                    "trials like this one would claim four times of five: it may well be smaller "
                    "than it seems."
                )
    return list(dict.fromkeys(notes))


def silent(study: Study) -> bool:
    """Tell whether BLEU is so near 0 for all that is compared that it says nothing."""
    return all(_low(study, row) for row in [study.baseline, *(row for row, _ in study.candidates)])


def _low(study: Study, row: Row) -> bool:
    return study.metric.name.startswith("bleu") and (row.cell.mean or 0.0) < HARDLY


def _scored(row: Row) -> str:
    return f"{row.cell.mean or 0.0:.2f}"


def _hardly(studies: Sequence[Study]) -> str:
    span, unit = _span([_scored(study.baseline) for study in studies]), studies[0].unit
    return f"a {unit} of {span} is too near 0 to tell methods apart"


def _advice(study: Study, command: str) -> str:
    """Say what may be wrong with a BLEU near 0, and one thing to do."""
    return (
        f"A {study.unit} near 0 may mean that the models have hardly learnt anything, or that the "
        f"sentences are too short or too free for it. By characters: {command} metric=chrf"
    )


def _confidence(studies: Sequence[Study]) -> list[str]:
    """Say what the p-values are of, where it matters."""
    contrasts = [contrast for study in studies for _, contrast in study.candidates]
    if max(len(contrast.seeds) for contrast in contrasts) == 1:
        return [
            "There is one seed: the test speaks of the models that were trained; "
            "how others would fare is unknown."
        ]
    shaky = [
        f"{row.method}{_where(study, studies)} ({probability(contrast.method_p)})"
        for study in studies
        for row, contrast in study.candidates
        if contrast.claimed and contrast.method_p is not None and not contrast.beyond(study.level)
    ]
    if shaky:
        return [
            "The test speaks of the models that were trained. Counting in that other seeds would "
            f"have given other models, these differences may be luck: {joined(shaky)}."
        ]
    return []


def _unfinished(studies: Sequence[Study]) -> list[str]:
    """Say what failed and what is missing."""
    notes = []
    rows = [row for study in studies for row in study.rows]
    failed = sum(len(row.failures) for row in rows)
    waiting = sum(row.waiting for row in rows)
    total = sum(len(study.records[row.method]) for study in studies for row in study.rows)
    total += failed + waiting
    if failed:
        who = joined(list(dict.fromkeys(row.method for row in rows if row.failures)))
        notes.append(
            f"{failed} of {total} runs failed ({who}); a method is compared only where every "
            "seed is done."
        )
    if waiting:
        verb = "is" if waiting == 1 else "are"
        notes.append(f"{waiting} of {total} runs {verb} not done yet: this is provisional.")
    return notes


def _nothing(studies: Sequence[Study]) -> str:
    """Say why there is no answer."""
    rows = [row for study in studies for row in study.rows]
    methods = [row for row in rows if row.role == "method"]
    plain = studies[0].baseline.method
    if not any(row.cell.values for row in rows):
        failed = any(row.failures for row in rows)
        return "There is no answer: " + ("the runs failed." if failed else "no run is done yet.")
    if not methods:
        only = "the only method" if len(rows) == len(studies) else "alone with controls"
        return f"There is nothing to compare with: {plain} is {only}."
    if all(not study.baseline.cell.values for study in studies):
        return f"There is no answer yet: {plain}, with which all is compared, has no result."
    if all(not study.metric.additive for study in studies):
        return (
            f"There is no answer: {studies[0].unit} is no sum over sentences, "
            "so no difference can be tested."
        )
    if any(
        _whole(study.baseline) and any(_whole(row) for row in study.rows if row.role == "method")
        for study in studies
    ):
        return f"There is no answer: no method can be compared with {plain}."
    return f"There is no answer yet: no method has every seed done, as {plain} must have too."


def _whole(row: Row) -> bool:
    return bool(row.cell.values) and not row.failures and not row.waiting


def _with_sign(study: Study, contrast: Contrast) -> str:
    sign = charts.MINUS if contrast.difference < 0 else "+" if contrast.difference > 0 else ""
    return f"{sign}{amount(study, contrast.difference)}"


def _ended(note: str) -> str:
    return note if note.endswith((".", "!", "?")) else f"{note}."


def _capital(sentence: str) -> str:
    """Begin with a capital unless with a method's name, which stays as it is."""
    ours = re.match("(no|every) (method|weighting) is ", sentence)
    return sentence[0].upper() + sentence[1:] if ours else sentence
