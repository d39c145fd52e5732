"""Which method to take: the best, or one that is as good, as far as can be told, and cheaper.

Choice: a method counts as being as good as the best one if it is within the minimum detectable
effect of it and is not claimed to be worse. Where the best is shown to beat the baseline, so must
be what is taken: the minimum detectable effect may be larger than that very difference, and then
methods that differ from nothing are within it. Of those the cheapest is taken. Times are rough, as
runs go side by side: within a tenth of the shortest they count as equal, and then the baseline,
which is the simplest, goes before the best, and the best before others. Controls are there to
explain, not to be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from augless import trials
from augless.reports import answers, costs
from augless.reports.evidence import Evidence, Study

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
    gain: float
    """over the baseline, so that more is better"""
    seconds: float
    contrast: trials.Contrast | None
    """None of the baseline"""


def of(found: Evidence) -> Advice | None:
    """Say which method to take, over all corpora; None where no cost is known."""
    plain = found.plan.baseline
    asked = {row.method for study in found.studies for row in study.rows if row.role == "method"}
    if not costs.total(found, plain).seconds or not asked:
        return None
    if why := _silent(found):
        return Advice(sentence=f"{_NONE}: {why}.")
    candidates, left_out = _candidates(found, [m for m in found.plan.methods if m in asked])
    if len(candidates) == 1:
        return Advice(sentence=f"{_NONE}: {answers.joined(left_out)}.", left_out=left_out)
    best = max(candidates, key=lambda one: one.gain)
    better = [one for one in candidates if _claimed(found, one, "better")]
    near = [
        one
        for one in candidates
        if (not better if one.contrast is None else _near(found, one, best))
    ]
    shown = [one for one in better if one in near] or better
    take, cheapest = _cheapest(shown or near, best), _cheapest(near or shown, best)
    say = _shown if shown else _not_shown
    return Advice(
        sentence=say(found, take, best, cheapest, candidates),
        take=take.method,
        best=best.method,
        cheapest=cheapest.method,
        left_out=left_out,
    )


def _cheapest(among: Sequence[_Candidate], best: _Candidate) -> _Candidate:
    """Return the cheapest; of those about as cheap the baseline, then the best."""
    shortest = min(one.seconds for one in among)
    equal = [one for one in among if one.seconds <= ROUGH * shortest]
    return max(equal, key=lambda one: (one.contrast is None, one is best, one.gain))


def _silent(found: Evidence) -> str:
    """Say why nothing can be advised at all; nothing if something can."""
    plain, rows = found.plan.baseline, [study.baseline for study in found.studies]
    if any(row.cell.faults for row in rows):
        return f"outputs of {plain} are degenerate"
    if not all(map(costs.whole, rows)):
        return f"not every run of {plain} is done"
    if all(study.silent for study in found.studies):
        return "the models have learnt too little to be compared"
    contrasts = [row.baseline for row in found.overall.values() if row.baseline]
    if contrasts and not any(one.of_methods for one in contrasts):
        return "one seed says nothing about a method"
    return ""


def _candidates(
    found: Evidence, methods: Sequence[str]
) -> tuple[list[_Candidate], tuple[str, ...]]:
    """Return the baseline and the methods to choose among, and why others are left out."""
    plain = found.plan.baseline
    seconds = costs.total(found, plain).seconds
    listed = [_Candidate(method=plain, gain=0.0, seconds=seconds, contrast=None)]
    out = []
    for method in methods:
        contrast = found.overall[method].baseline
        rows = [row for study in found.studies if (row := study.row(method)) is not None]
        spent = costs.total(found, method).seconds
        if any(row.cell.faults for row in rows) or (contrast is not None and contrast.fault):
            out.append(f"outputs of {method} are degenerate")
        elif not all(map(costs.whole, rows)) or not spent:
            out.append(f"not every run of {method} is done")
        elif contrast is None or contrast.corpora < len(found.studies):
            out.append(f"{method} cannot be compared with {plain}")
        else:
            gain = _study(found).gain(contrast.difference)
            listed.append(_Candidate(method=method, gain=gain, seconds=spent, contrast=contrast))
    return listed, tuple(out)


def _study(found: Evidence) -> Study:
    return next(study for study in found.studies if not study.silent)


def _claimed(found: Evidence, one: _Candidate, kind: answers.Verdict) -> bool:
    return one.contrast is not None and answers.overall(found, one.contrast) == kind


def _detectable(one: _Candidate, best: _Candidate) -> float:
    """Return the minimum detectable effect of what is compared with the best."""
    contrast = best.contrast or one.contrast
    assert contrast is not None  # there is one baseline
    return 0.0 if contrast.alike else contrast.test.minimum_detectable_effect


def _near(found: Evidence, one: _Candidate, best: _Candidate) -> bool:
    """Tell whether a method is as good as the best, as far as can be told."""
    if one is best:
        return True
    worse = _claimed(found, one, "worse")
    return not worse and best.gain - one.gain <= _detectable(one, best)


def _not_shown(
    found: Evidence,
    take: _Candidate,
    best: _Candidate,
    cheapest: _Candidate,
    candidates: Sequence[_Candidate],
) -> str:
    """Say what to take where nothing is shown to beat the baseline."""
    plain, study = candidates[0], _study(found)
    least = cheapest.seconds == min(one.seconds for one in candidates)
    cheap = "it is the cheapest" if least else "nothing as good is clearly cheaper"
    said = f"Take {take.method}: nothing is shown to be better, and {cheap}."
    if take is not plain:
        return f"{said} It took {_long(take, plain)}."
    if best is plain or best.gain <= 0:
        return said
    effect = answers.amount(study, _detectable(plain, best))
    return (
        f"{said} {best.method} has the best mean, by {answers.amount(study, best.gain)} "
        f"{study.unit}, but the minimum detectable effect is {effect}; it took "
        f"{_long(best, plain)}."
    )


def _shown(
    found: Evidence,
    take: _Candidate,
    best: _Candidate,
    cheapest: _Candidate,
    candidates: Sequence[_Candidate],
) -> str:
    """Say what to take where something is shown to beat the baseline."""
    plain, study = candidates[0], _study(found)
    effect = f"{answers.amount(study, _detectable(plain, best))} {study.unit}"
    within = f"is within the minimum detectable effect ({effect}) of"
    if take is best:
        why = f"it is shown to beat {plain.method} and has the best mean"
    else:
        why = f"it is shown to beat {plain.method} and {within} {best.method}, the best mean"
    said = f"Take {take.method}: {why}; it took {_long(take, plain)}{_but(found, take)}."
    if cheapest is take:
        return said
    near = "has the best mean" if cheapest is best else f"{within} {best.method}"
    return (
        f"{said} {cheapest.method} is cheaper and {near}, but is not shown to beat {plain.method}."
    )


def _long(mine: _Candidate, theirs: _Candidate) -> str:
    ratio = mine.seconds / theirs.seconds
    if 0.95 <= ratio < 1.05:
        return f"about as long as {theirs.method}"
    return f"{costs.times(ratio)} times as long as {theirs.method}"


def _but(found: Evidence, take: _Candidate) -> str:
    """Say that a gain may be a learning rate's."""
    control, name = found.overall[take.method].control, found.plan.control_of(take.method)
    matched = name is not None and found.plan.methods[name].matches == take.method
    if control is None or not matched or answers.overall(found, control) == "better":
        return ""
    return f", and is not shown to beat its control {name}"
