"""Which method to take: the best, or one that is as good, as far as can be told, and cheaper.

Choice: a method counts as being as good as the best one if it is within the minimum detectable
effect of it and is not claimed to be worse. Where the best is shown to beat the baseline, so must
be what is taken: the minimum detectable effect may be larger than that very difference, and then
methods that differ from nothing are within it. Of those the cheapest is taken. Times are rough, as
runs go side by side: within a tenth of the shortest they count as equal, and then the baseline,
which is the simplest, goes before the best, and the best before others. Nor is a method cheaper
than the baseline that saw as many samples: what it seems to save is the machine's luck. Controls
are there to explain, not to be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from augless import runs
from augless.reports import answers, costs
from augless.reports.cells import Verdict
from augless.reports.evidence import Evidence
from augless.reports.words import joined

ROUGH = 1.1  # times as long as another that still count as equal
_NONE = "No method can be advised"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to take, and why."""

    sentence: str
    take: str | None = None
    """None if nothing can be advised"""
    best: str | None = None
    """the method with the best mean"""
    cheapest: str | None = None
    """the cheapest within the minimum detectable effect of the best, and not claimed to be worse"""
    left_out: tuple[str, ...] = ()
    """which methods were not looked at, and why"""


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    method: str
    seconds: float
    gain: float = 0.0
    """over the baseline, so that more is better"""
    detectable: float | None = None
    """minimum detectable effect; None of the baseline"""
    kind: Verdict = "open"
    """what may be claimed of it"""

    def long(self, plain: _Candidate) -> str:
        """Say how long it took."""
        ratio = self.seconds / plain.seconds
        if 0.95 <= ratio < 1.05:
            return f"about as long as {plain.method}"
        return f"{costs.times(ratio)} times as long as {plain.method}"


def of(evidence: Evidence) -> Advice | None:
    """Say which method to take, over all corpora; None where no cost is known."""
    asked = {row.method for one in evidence.studies for row in one.rows if row.role == "method"}
    spent = costs.total(evidence, evidence.plan.baseline)
    plain = _Candidate(method=evidence.plan.baseline, seconds=spent.seconds)
    if not plain.seconds or not asked:
        return None
    if why := _silent(evidence):
        return Advice(sentence=f"{_NONE}: {why}.")
    others, left_out = _candidates(
        evidence, spent, [m for m in evidence.plan.methods if m in asked]
    )
    if not others:
        return Advice(sentence=f"{_NONE}: {joined(left_out)}.", left_out=left_out)
    best = max([plain, *others], key=lambda one: one.gain)
    better = [one for one in others if one.kind == "better"]
    near = [*([] if better else [plain]), *(one for one in others if _near(one, best))]
    shown = [one for one in better if one in near] or better
    take, cheapest = _cheapest(shown or near, best), _cheapest(near or shown, best)
    if shown:
        sentence = _shown(evidence, plain, take, best, cheapest)
    else:
        least = cheapest.seconds == min(one.seconds for one in (plain, *others))
        sentence = _not_shown(evidence, plain, take, best, least)
    return Advice(
        sentence=sentence,
        take=take.method,
        best=best.method,
        cheapest=cheapest.method,
        left_out=left_out,
    )


def _cheapest(among: Sequence[_Candidate], best: _Candidate) -> _Candidate:
    """Return the cheapest; of those about as cheap the baseline, then the best."""
    shortest = min(one.seconds for one in among)
    equal = [one for one in among if one.seconds <= ROUGH * shortest]
    return max(equal, key=lambda one: (one.detectable is None, one is best, one.gain))


def _silent(evidence: Evidence) -> str:
    """Say why nothing can be advised at all; nothing if something can."""
    plain, rows = evidence.plan.baseline, [study.baseline for study in evidence.studies]
    if any(row.faults for row in rows):
        return f"outputs of {plain} are degenerate"
    if not all(row.complete for row in rows):
        return f"not every run of {plain} is done"
    if all(study.inconclusive for study in evidence.studies):
        return "the models have learnt too little to be compared"
    contrasts = [row.baseline for row in evidence.summary.rows.values() if row.baseline]
    if contrasts and not any(one.of_methods for one in contrasts):
        return "one seed says nothing about a method"
    return ""


def _candidates(
    evidence: Evidence, plain: runs.Spent, methods: Sequence[str]
) -> tuple[list[_Candidate], tuple[str, ...]]:
    """Return the methods to choose among beside the baseline, and why others are left out."""
    listed, out = [], []
    for method in methods:
        contrast, rows = evidence.summary.rows[method].baseline, evidence.rows(method)
        spent = costs.total(evidence, method)
        if any(row.faults for row in rows) or (contrast is not None and contrast.fault):
            out.append(f"outputs of {method} are degenerate")
        elif not all(row.complete for row in rows) or not spent.seconds:
            out.append(f"not every run of {method} is done")
        elif contrast is None or contrast.corpora < len(evidence.studies):
            out.append(f"{method} cannot be compared with {evidence.plan.baseline}")
        else:
            effect = 0.0 if contrast.alike else contrast.minimum_detectable_effect
            least = plain.seconds if spent.samples and spent.samples >= plain.samples else 0.0
            one = _Candidate(
                method=method,
                seconds=max(spent.seconds, least),
                gain=evidence.first_conclusive.gain(contrast.estimate),
                detectable=effect,
                kind=evidence.verdict(contrast),
            )
            listed.append(one)
    return listed, tuple(out)


def _near(one: _Candidate, best: _Candidate) -> bool:
    """Tell whether a method is as good as the best, as far as can be told."""
    effect = one.detectable if best.detectable is None else best.detectable
    return one is best or (one.kind != "worse" and best.gain - one.gain <= (effect or 0.0))


def _not_shown(
    evidence: Evidence, plain: _Candidate, take: _Candidate, best: _Candidate, least: bool
) -> str:
    """Say what to take where nothing is shown to beat the baseline."""
    cheap = "it is the cheapest" if least else "nothing as good is clearly cheaper"
    said = f"Take {take.method}: nothing is shown to be better, and {cheap}."
    if take is not plain:
        return f"{said} It took {take.long(plain)}."
    if best.gain <= 0:
        return said
    gain, effect = (
        answers.amount(evidence.first_conclusive, v or 0.0) for v in (best.gain, best.detectable)
    )
    return (
        f"{said} {best.method} has the best mean, by {gain} {evidence.first_conclusive.unit}, but "
        f"the minimum detectable effect is {effect}; it took {best.long(plain)}."
    )


def _shown(
    evidence: Evidence, plain: _Candidate, take: _Candidate, best: _Candidate, cheapest: _Candidate
) -> str:
    """Say what to take where something is shown to beat the baseline."""
    study, beats = evidence.first_conclusive, f"shown to beat {plain.method}"
    effect = f"{answers.amount(study, best.detectable or 0.0)} {study.unit}"
    within = f"is within the minimum detectable effect ({effect}) of {best.method}"
    why = "has the best mean" if take is best else f"{within}, the best mean"
    name = evidence.plan.control_of(take.method)
    control = evidence.summary.rows[take.method].control
    but = "."
    if control and name and evidence.plan.methods[name].matches == take.method:
        kind = evidence.verdict(control)
        but = "." if kind == "better" else f", and is not shown to beat its control {name}."
        if kind != "better" and evidence.plan.methods[name].kind != "shuffled":
            but += f" That control is a learning rate: tune the one of {plain.method} first."
    said = f"Take {take.method}: it is {beats} and {why}; it took {take.long(plain)}{but}"
    if cheapest is take:
        return said
    near = "has the best mean" if cheapest is best else within
    return f"{said} {cheapest.method} is cheaper and {near}, but is not {beats}."
