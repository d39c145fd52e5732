"""The answer in one sentence, with its confidence, from the numbers alone.

Choice: nothing is called better or worse unless the protocol lets it be claimed; what is not
claimed is said with the smallest effect that the trial could have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from augless.reports import charts
from augless.reports.evidence import Contrast, Row, Study

Verdict = Literal["better", "worse", "open"]
HARDLY = 2.0  # BLEU that says nothing
NAMED = 3  # corpora that a sentence names; more are counted


@dataclass(frozen=True)
class Answer:
    """What a trial found."""

    sentence: str
    method: str | None
    """the method that the sentence is about"""
    notes: tuple[str, ...]
    """what else must be said: other methods and corpora, failures, what the confidence is of"""


def answer(studies: Sequence[Study]) -> Answer:
    """Say what was found, for any outcome."""
    unfinished = _unfinished(studies)
    comparable = [study for study in studies if study.candidates]
    if not comparable:
        return Answer(_nothing(studies), None, tuple(unfinished))
    focus = _focus(comparable)
    notes = []
    if len(comparable) == 1:
        sentence = _on_one(comparable[0], focus)
        if len(studies) > 1:
            sentence = f"On {comparable[0].corpus}, the only corpus with an answer: {sentence}"
    else:
        sentence = _on_several(comparable, focus)
        notes += [f"On {study.corpus}: {_on_one(study, focus)}" for study in comparable]
    notes += [*_unlearnt(comparable), *_others(comparable, focus), *unfinished]
    notes += _confidence(comparable)
    return Answer(_capital(sentence), focus, tuple(notes))


def verdict(study: Study, contrast: Contrast) -> Verdict:
    """Say whether a difference may be claimed, and in which direction."""
    if not contrast.claimed:
        return "open"
    return "better" if study.gain(contrast.difference) > 0 else "worse"


def amount(study: Study, value: float) -> str:
    """Write the size of a difference with as many digits as it deserves."""
    scale = abs(study.baseline.cell.mean or 1.0)
    digits = 1 if scale >= 10 else 2 if scale >= 1 else 3
    if value and round(abs(value), digits) == 0:
        digits += 1
    return f"{abs(value):.{digits}f}"


def probability(p: float) -> str:
    """Write a p-value."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.1g}" if p < 0.1 else f"p = {p:.2f}"


def _focus(studies: Sequence[Study]) -> str:
    """Return the method that most claims speak for, and of equal ones the one that gains most."""
    points: dict[Verdict, int] = {"better": 1, "open": 0, "worse": -1}
    ranks: dict[str, tuple[int, float]] = {}
    for study in studies:
        for row, contrast in study.candidates:
            claims, gain = ranks.get(row.method, (0, 0.0))
            claims += points[verdict(study, contrast)]
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
    kinds = {verdict(study, one) for _, one in study.candidates}
    gains = [study.gain(one.difference) for _, one in study.candidates]
    # It is the best of all corpora together, not always of this one.
    best = len(gains) > 1 and study.gain(contrast.difference) == max(gains)
    kind = verdict(study, contrast)
    if kind == "better":
        control = _against_control(study, row)
        return f"{focus} beats {plain} by {size} ({_sure(contrast)}){control}."
    if kind == "worse":
        start = f"{focus} is worse than {plain} by {size}"
        if best and kinds == {"worse"}:
            start = f"every method is worse than {plain}: the least so, {focus}, by {size}"
        return f"{start} ({_sure(contrast)})."
    start = f"{focus} is not shown to differ from {plain}: it is"
    if best and "better" not in kinds:
        start = f"no method is shown to beat {plain}: the best, {focus}, is"
    return f"{start} {_aside(study, contrast)}, {_doubt(study, contrast)}."


def _on_several(studies: Sequence[Study], focus: str) -> str:
    """Say on how many corpora it does what."""
    plain = studies[0].baseline.method
    words: dict[Verdict, str] = {
        "better": f"beats {plain}",
        "worse": f"is worse than {plain}",
        "open": f"is not shown to differ from {plain}",
    }
    named: dict[Verdict, list[tuple[Study, Contrast]]] = {kind: [] for kind in words}
    for study in studies:
        for row, contrast in study.candidates:
            if row.method == focus:
                named[verdict(study, contrast)].append((study, contrast))
    total = sum(map(len, named.values()))
    parts = []
    for kind, found in named.items():
        if found:
            where = f"{len(found)} of {total} corpora" if len(found) < total else "all corpora"
            if len(found) <= NAMED:
                where = _joined([study.corpus for study, _ in found])
            control = (
                _beside_control([study for study, _ in found], focus) if kind == "better" else ""
            )
            parts.append(f"{words[kind]} on {where}{_range(found, kind)}{control}")
    return f"{focus} {'; it '.join(parts)}."


def _beside_control(studies: Sequence[Study], focus: str) -> str:
    """Say on how many corpora it beats its control too."""
    rows = [(study, study.row(focus)) for study in studies]
    found = [verdict(study, row.control) for study, row in rows if row and row.control]
    if not found:
        return ""
    beaten = found.count("better")
    if not beaten:
        return ", where it is not shown to beat the learning-rate control"
    where = "" if beaten == len(studies) else f" on {beaten} of these"
    return f", and the learning-rate control{where} too"


def _range(found: Sequence[tuple[Study, Contrast]], kind: Verdict) -> str:
    """Say how large differences are, or how large they would have had to be."""
    unit = found[0][0].unit
    if kind == "open":
        sizes = [amount(study, contrast.smallest) for study, contrast in found]
        return f", where the smallest effect it could have seen is {_span(sizes)} {unit}"
    span = _span([amount(study, contrast.difference) for study, contrast in found])
    worst = max((contrast for _, contrast in found), key=lambda contrast: contrast.p)
    most = "" if worst.p < 0.001 or len(found) == 1 else ", at most"
    return f" by {span} {unit} ({_sure(worst).replace(',', most + ',', 1)})"


def _span(sizes: Sequence[str]) -> str:
    low, high = min(sizes, key=float), max(sizes, key=float)
    return low if low == high else f"{low} to {high}"


def _against_control(study: Study, row: Row) -> str:
    """Say whether the gain is more than a learning rate's."""
    if row.control is None:
        if not row.weighs:  # as a rival does not, which makes other data
            return ""
        missing = (
            "there is no learning-rate control here"
            if row.cell.control_name is None
            else "the learning-rate control has no result to compare with"
        )
        return f"; {missing}, so it may be a larger step and no more"
    kind, size = verdict(study, row.control), amount(study, row.control.difference)
    if kind == "better":
        meaning = ": which samples it prefers matters" if row.weighs else ""
        return f", and the learning-rate control by {size} ({_sure(row.control)}){meaning}"
    if kind == "worse":
        return (
            f", but the learning-rate control is better still, by {size} "
            f"({_sure(row.control)}): a larger step alone does more"
        )
    return (
        f"; against the learning-rate control the difference is {_with_sign(study, row.control)}, "
        f"{_doubt(study, row.control)}"
    )


def _doubt(study: Study, contrast: Contrast) -> str:
    """Say why a difference is not claimed."""
    if contrast.p < study.level and not contrast.agree:
        found = probability(contrast.p)
        return f"and though {found}, the seeds disagree on its sign, so it is not claimed"
    if abs(contrast.difference) < contrast.smallest or contrast.difference == 0:
        smallest = amount(study, contrast.smallest)
        return (
            "which this trial could not have told from nothing: "
            f"the smallest effect it could have seen is {smallest}"
        )
    return f"which is not enough to claim ({probability(contrast.p)})"


def _sure(contrast: Contrast) -> str:
    seeds = len(contrast.seeds)
    agreed = "one seed only" if seeds == 1 else f"all {seeds} seeds agree"
    return f"{probability(contrast.p)}, {agreed}"


def _aside(study: Study, contrast: Contrast) -> str:
    if contrast.difference == 0:
        return "exactly as good"
    better = study.gain(contrast.difference) > 0
    return f"{amount(study, contrast.difference)} {study.unit} {'better' if better else 'worse'}"


def _others(studies: Sequence[Study], focus: str) -> list[str]:
    """Say what else may be claimed."""
    found = []
    for study in studies:
        where = f" on {study.corpus}" if len(studies) > 1 else ""
        for kind, words in (("better", "is also beaten by"), ("worse", "is better than")):
            claims = [
                f"{row.method} (by {amount(study, c.difference)}, {probability(c.p)})"
                for row, c in study.candidates
                if row.method != focus and verdict(study, c) == kind
            ]
            if claims:
                found.append(f"{study.baseline.method} {words} {_joined(claims)}{where}.")
    return found


def _unlearnt(studies: Sequence[Study]) -> list[str]:
    """Warn of models that cannot do the task yet."""
    found = [(study, study.baseline) for study in studies]
    return [
        f"{row.method} has {row.cell.mean:.2g} {study.unit} on {study.corpus}: these models have "
        "hardly learnt anything, and differences between them say little."
        for study, row in found
        if study.metric.name.startswith("bleu") and (row.cell.mean or 0.0) < HARDLY
    ]


def _confidence(studies: Sequence[Study]) -> list[str]:
    """Say what the p-values are of, where it matters."""
    contrasts = [contrast for study in studies for _, contrast in study.candidates]
    if max(len(contrast.seeds) for contrast in contrasts) == 1:
        return [
            "There is one seed: the test speaks of the models that were trained; "
            "how others would fare is unknown."
        ]
    shaky = [
        f"{row.method}{f' on {study.corpus}' if len(studies) > 1 else ''} "
        f"({probability(contrast.method_p)})"
        for study in studies
        for row, contrast in study.candidates
        if contrast.claimed
        and (contrast.method_p or 0.0) >= study.level
        and contrast.method_p is not None
    ]
    if shaky:
        return [
            "The test speaks of the models that were trained. Counting in that other seeds would "
            f"have given other models, these claims may be luck: {_joined(shaky)}."
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
        who = _joined(list(dict.fromkeys(row.method for row in rows if row.failures)))
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
    if not any(row.cell.values for row in rows):
        failed = any(row.failures for row in rows)
        return "There is no answer: " + ("the runs failed." if failed else "no run is done yet.")
    plain = studies[0].baseline.method
    if all(not study.baseline.cell.values for study in studies):
        return f"There is no answer yet: {plain}, with which all is compared, has no result."
    if all(not study.metric.additive for study in studies):
        return (
            f"There is no answer: {studies[0].unit} is no sum over sentences, "
            "so no difference can be tested."
        )
    return f"There is no answer yet: no method has every seed done, as {plain} must have too."


def _with_sign(study: Study, contrast: Contrast) -> str:
    sign = charts.MINUS if contrast.difference < 0 else "+" if contrast.difference > 0 else ""
    return f"{sign}{amount(study, contrast.difference)}"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _capital(sentence: str) -> str:
    """Begin with a capital unless with a method's name, which stays as it is."""
    ours = sentence.startswith(("no method ", "every method "))
    return sentence[0].upper() + sentence[1:] if ours else sentence
