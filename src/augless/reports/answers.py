"""The answer in one short sentence, then the numbers that it rests on.

Choice: the sentence is about the plan's primary method, over all corpora, and nothing is called
better or worse unless the statistics let it be claimed; what is not claimed is said with the
minimum detectable effect. No number is in the sentence: they follow it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from augless import metrics, trials
from augless.reports import charts, treatments
from augless.reports.evidence import Evidence, Row, Study
from augless.trials import summary

Verdict = Literal["better", "worse", "open"]
COMMAND = "augless trial PLAN"  # where nobody knows what a trial was started by
MOST_SEEDS = 40  # that a command suggests
_LEFT = re.compile(r"\d+ of \d+ seeds left$")  # warnings of what the page counts itself
_ALIKE = "no sentence differs in its score"
_MARKS = {"better": "▲", "worse": "▼", "open": ""}
_TESTS = {
    "two-way": "by a two-way model of methods and seeds",
    "paired-t": "by a paired t test over seeds",
    "mean": "their mean",
    "random-effects": "by random effects",
    "sentences": "over sentences alone",
}


@dataclass(frozen=True)
class Command:
    """Something to do next."""

    why: str
    line: str


@dataclass(frozen=True)
class Answer:
    """What a trial found."""

    sentence: str
    numbers: tuple[str, ...]
    """what it rests on"""
    method: str | None
    """the method in question"""
    by_corpus: tuple[str, ...] = ()
    """what else must be said of methods, corpus by corpus"""
    general: tuple[str, ...] = ()
    """what else must be said of all: failures, what the runs warn of"""
    commands: tuple[Command, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """All that must be said besides."""
        return (*self.by_corpus, *self.general)


def of(found: Evidence) -> Answer:
    """Say what a trial found, for any outcome, and what its makers and its summary warn of."""
    said = _answer(found)
    warnings = [warning for warning in found.table.warnings if not _LEFT.search(warning)]
    unfinished = _unfinished(found.studies)
    notes = [*said.general, *unfinished, *map(_ended, warnings), *map(_ended, found.trial.notes)]
    return dataclasses.replace(said, general=tuple(dict.fromkeys(notes)))


def _answer(found: Evidence) -> Answer:
    studies, primary = found.studies, found.plan.primary
    comparable = [study for study in studies if study.candidates]
    if not comparable or primary is None:
        return Answer(_nothing(studies), (), None)
    mute = [study for study in comparable if study.silent]
    commands = _by_characters(found) if mute else ()
    if len(mute) == len(comparable):
        seen = [line for study in mute for line in _why_silent(study)]
        return Answer(_unlearnt(mute), tuple(dict.fromkeys(seen)), primary, commands=commands)
    contrast = found.overall[primary].baseline
    learnt = [study for study in comparable if study not in mute]
    notes = [f"On {study.corpus}: {line}" for study in mute for line in _why_silent(study)]
    notes += [*_each(found, learnt), *_faults(learnt), *_caveats(learnt, primary)]
    notes += [*_others(found, learnt), *_rivals(learnt, primary), *_weak(learnt)]
    if contrast is None:
        sentence = f"There is no answer yet: {primary} cannot be compared with {_plain(found)}."
        return Answer(sentence, (), primary, tuple(notes), (), commands)
    sentence, numbers = _sentence(found, primary), _numbers(found, primary, contrast)
    commands = (*commands, *_more_seeds(found, contrast))
    return Answer(sentence, numbers, primary, tuple(dict.fromkeys(notes)), (), commands)


def verdict(study: Study, contrast: trials.Contrast) -> Verdict:
    """Say whether a difference may be claimed, and in which direction."""
    if not contrast.claimed or study.silent:
        return "open"
    return "better" if study.gain(contrast.difference) > 0 else "worse"


def mark(study: Study, contrast: trials.Contrast) -> str:
    """Return the sign of a claim."""
    return _MARKS[verdict(study, contrast)]


def overall(found: Evidence, contrast: trials.Contrast) -> Verdict:
    """Say the same of a difference over all corpora."""
    if all(study.silent for study in found.studies):
        return "open"
    spoken = next(study for study in found.studies if not study.silent)
    return verdict(spoken, contrast)


def overall_mark(found: Evidence, contrast: trials.Contrast) -> str:
    """Return the sign of a claim over all corpora."""
    return _MARKS[overall(found, contrast)]


def amount(study: Study, value: float) -> str:
    """Write the size of a difference with as many digits as it deserves."""
    scale = abs(study.baseline.cell.mean or 1.0)
    digits = 1 if scale >= 10 else 2 if scale >= 1 else 3
    # Something is not written as nothing; of less than a millionth there is only rounding.
    while digits < 6 and value and round(abs(value), digits) == 0:
        digits += 1
    return f"{abs(value):.{digits}f}"


def interval(study: Study, test: metrics.Difference) -> str:
    """Write the ends of the 95 % interval."""
    low, high = (_signed(study, end) for end in (test.low, test.high))
    return f"95 % interval {low} to {high}"


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


# The sentence


def _plain(found: Evidence) -> str:
    return found.plan.baseline


def _sentence(found: Evidence, primary: str) -> str:
    """Say it in plain words, without a number."""
    row, plain = found.overall[primary], _plain(found)
    contrast = row.baseline
    assert contrast is not None  # whoever calls has looked
    where = f" over {contrast.corpora} corpora" if contrast.corpora > 1 else ""
    if len(found.studies) > 1 and contrast.corpora == 1:
        where = f" on {_only(found, primary)}, the only corpus with an answer"
    if contrast.fault:
        return f"There is no answer: outputs of {primary} or {plain} are degenerate."
    if not contrast.of_methods:
        return "There is no answer about the method: one seed says nothing about it."
    if contrast.alike:
        return f"{primary} does not differ from {plain}{where}: {_ALIKE}."
    kind = overall(found, contrast)
    if kind == "open":
        return f"{primary} is not shown to differ from {plain}{where}."
    if kind == "worse":
        return f"{primary} is worse than {plain}{where}."
    return f"{primary} beats {plain}{where}{_beside_control(found, row)}."


def _only(found: Evidence, primary: str) -> str:
    rows = ((study, study.row(primary)) for study in found.studies)
    return next(study.corpus for study, row in rows if row is not None and row.baseline)


def _beside_control(found: Evidence, row: trials.Row) -> str:
    """Say whether a gain is more than a learning rate's; only its own control can tell."""
    name = found.plan.control_of(row.method)
    if row.control is None or name is None:
        return ""
    own = "its control " if found.plan.methods[name].matches == row.method else ""
    kind = overall(found, row.control)
    if kind == "better":
        return f", and {own}{name} too"
    if kind == "worse":
        return f", but {own}{name} does better still"
    return f", but is not shown to beat {own}{name}"


def _numbers(found: Evidence, primary: str, contrast: trials.Contrast) -> tuple[str, ...]:
    """Say what the sentence rests on."""
    study = next(study for study in found.studies if not study.silent)
    seeds = len(found.plan.seeds)
    if not contrast.of_methods:
        return (
            f"The one model of {primary} is {_measured(study, contrast)} from that of "
            f"{_plain(found)}, {_TESTS['sentences']}: other seeds would give other models.",
        )
    tested = f"{seeds} seeds, {_TESTS[contrast.test.test]}"
    if contrast.corpora > 1:
        tested = f"{seeds} seeds on {contrast.corpora} corpora, {_TESTS[contrast.test.test]}"
    lines = [f"{_measured(study, contrast)} against {_plain(found)} ({tested})."]
    row = found.overall[primary]
    if row.control is not None:
        name = found.plan.control_of(primary)
        lines.append(f"{_measured(study, row.control)} against {name}.")
    lines[-1] += _step_size(found, study, primary)
    if contrast.likely is not None:
        lines.append(_on_like(study, contrast.likely))
    if not contrast.alike:
        lines.append(_detectable(found, study, contrast))
    return tuple(lines)


def _measured(study: Study, contrast: trials.Contrast) -> str:
    """Write a difference with its interval and its p."""
    size = f"{_signed(study, contrast.difference)} {study.unit}"
    return f"{size} ({interval(study, contrast.test)}, {probability(contrast.corrected_p)})"


def _on_like(study: Study, found: metrics.RandomEffects) -> str:
    """Say what is to be expected on other corpora."""
    size = f"{_signed(study, found.mean.estimate)} {study.unit} ({interval(study, found.mean)})"
    apart = f"true effects vary by {amount(study, found.between)} between corpora"
    return f"{size} on corpora like these, by random effects: {apart}."


def _step_size(found: Evidence, study: Study, primary: str) -> str:
    """Say that a gain may be a learning rate's, where no control of its own can tell."""
    row, contrast = study.row(primary), found.overall[primary].baseline
    gains = contrast is not None and overall(found, contrast) == "better"
    if row is None or not row.weighs or not gains or (row.matched and row.control):
        return ""
    missing = "its control has no result to compare with"
    missing = missing if row.matched else "it has no control of its own"
    return f" As {missing}, the gain may be a change of step size and no more."


def _detectable(found: Evidence, study: Study, contrast: trials.Contrast) -> str:
    """Say the minimum detectable effect, and what it takes to see something worth it."""
    effect = amount(study, contrast.test.minimum_detectable_effect)
    said = f"Minimum detectable effect: {effect} {study.unit}, which 4 such trials of 5 would find"
    return f"{said}. {needed(found)}".rstrip()


def needed(found: Evidence, corpus: str | None = None) -> str:
    """Say how many seeds would show something worth it, on one corpus or on each."""
    wanted = found.table.needed
    wanted = wanted if corpus is None else {c: n for c, n in wanted.items() if c == corpus}
    if not wanted:
        return ""
    study = found.study(next(iter(wanted)))
    effect = f"{amount(study, next(iter(wanted.values())).effect)} {study.unit}"
    counts = sorted(one.seeds for one in wanted.values() if one.seeds is not None)
    where = "" if len(found.studies) == 1 else " on one corpus alone"
    if not counts:
        return f"No number of seeds would show {effect}{where}: the test set is too small."
    span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    but = " (with some test sets none would)" if len(counts) < len(wanted) else ""
    return f"To see {effect}{where}, {span} seeds would be needed{but}."


# Further notes


def _each(found: Evidence, studies: Sequence[Study]) -> list[str]:
    """Say how the primary method does on each of several corpora."""
    if len(found.studies) == 1:
        return []
    lines = []
    for study in studies:
        row = study.row(found.plan.primary)
        if row is None or row.baseline is None:
            continue
        one = row.baseline
        said = _ALIKE if one.alike else f"{_measured(study, one)} {mark(study, one)}".rstrip()
        lines.append(f"{row.method} on {study.corpus}: {said}.")
    return lines


def _others(found: Evidence, studies: Sequence[Study]) -> list[str]:
    """Say what else may be claimed, over all corpora."""
    plain, primary = _plain(found), found.plan.primary
    study, lines = studies[0], []
    for kind, words in (("better", "is beaten by"), ("worse", "is better than")):
        claims = []
        for method, row in found.overall.items():
            known = study.row(method)
            if method == primary or known is None or known.role != "method" or not row.baseline:
                continue
            if overall(found, row.baseline) == kind:
                weighs = "" if known.weighs else "; it weighs no samples"
                claims.append(f"{method}, {_measured(study, row.baseline)}{weighs}")
        if claims:
            lines.append(f"{plain} {words} {joined(claims)}.")
    return lines


def _rivals(studies: Sequence[Study], primary: str) -> list[str]:
    """Say where a method that weighs no samples seems better than the one in question."""
    found = []
    for study in studies:
        best, contrast = max(study.candidates, key=lambda pair: study.gain(pair[1].difference))
        ours, gain = study.row(primary), study.gain(contrast.difference)
        if ours and ours.weighs and not best.weighs and gain > 0 and not contrast.claimed:
            found.append(
                f"Most is gained{_where(study, studies)} by {best.method}, which weighs no "
                f"samples: {_measured(study, contrast)}, not claimed."
            )
    return found


def _caveats(studies: Sequence[Study], primary: str) -> list[str]:
    """Say what else a difference of the method in question may be, and how faint it was."""
    notes = []
    for study in studies:
        plain, where, row = study.baseline, _where(study, studies), study.row(primary)
        if study.near_zero(plain):
            notes.append(
                f"{plain.method} has a {study.unit} near 0{where} ({_scored(plain)}), where it "
                "says little."
            )
        if row is None or row.baseline is None:
            continue
        if row.weighs and row.besides:
            notes.append(
                f"{primary} differs from {plain.method} in more than its weights{where}: what "
                "they do is only a part of the difference."
            )
        spread = row.treatment.spread
        if row.weighs and spread is not None and spread < treatments.FAINT:
            notes.append(
                f"The treatment was faint{where}: weights of {primary} vary by {spread:.1%} of "
                "their mean."
            )
    return list(dict.fromkeys(notes))


def _weak(studies: Sequence[Study]) -> list[str]:
    """Say which terms hardly reach the gradient, and where clipping undoes weights."""
    from augless.training import cautions  # late: it loads torch

    notes = []
    for study in studies:
        where = _where(study, studies)
        notes += [
            f"Term {place + 1} of {row.method} makes only {share:.2%} of the gradient{where}: it "
            "is hardly trained."
            for row in study.rows
            for place, share in enumerate(row.treatment.shares)
            if share is not None and share < cautions.WEAK
        ]
        shares = {row.method: row.treatment.clipped or 0.0 for row in study.rows if row.weighs}
        often = [method for method, share in shares.items() if share > cautions.OFTEN]
        if often:
            notes.append(
                f"{max(shares.values()):.0%} of the steps of {joined(often)} were clipped{where}, "
                "which undoes what the weights of a batch have in common."
            )
    return notes


def _faults(studies: Sequence[Study]) -> list[str]:
    """Say which outputs are degenerate."""
    return [
        f"Nothing is claimed of {row.method}{_where(study, studies)}: {fault} (seed {seed})."
        for study in studies
        for row in study.rows
        for seed, fault in list(row.cell.faults.items())[:1]
    ]


def _where(study: Study, studies: Sequence[Study]) -> str:
    return f" on {study.corpus}" if len(studies) > 1 else ""


# Models that have not learnt


def _scored(row: Row) -> str:
    return f"{row.cell.mean or 0.0:.2f}"


def _unlearnt(studies: Sequence[Study]) -> str:
    if any(row.cell.faults for study in studies for row in study.rows):
        return "There is no answer: the outputs are empty, constant or endless repetitions."
    return f"There is no answer: {studies[0].unit} is too near 0 to tell methods apart."


def _why_silent(study: Study) -> list[str]:
    """Say what was seen, and what to do."""
    faults = [
        f"{row.method}, seed {seed}: {fault}."
        for row in study.rows
        for seed, fault in list(row.cell.faults.items())[:1]
    ]
    seen = faults or [f"{study.baseline.method} has a {study.unit} of {_scored(study.baseline)}."]
    advice = f"{metrics.ADVICE[0].upper()}{metrics.ADVICE[1:]}."
    if not faults:
        advice = (
            f"A {study.unit} near 0 may mean that the models have hardly learnt anything, or that "
            f"the sentences are too short or too free for it. {advice}"
        )
    return [*seen, advice]


# What to do next


def _by_characters(found: Evidence) -> tuple[Command, ...]:
    if not found.plan.metric.startswith("bleu"):
        return ()
    line = f"{found.trial.command or COMMAND} metric=chrf"
    return (Command("Compare by characters instead", line),)


def _more_seeds(found: Evidence, contrast: trials.Contrast) -> tuple[Command, ...]:
    """Suggest as many seeds as would show something worth it, where nothing is shown yet."""
    now, plan = len(found.plan.seeds), found.plan
    if contrast.claimed or contrast.alike or contrast.fault:
        return ()
    counts = [one.seeds for one in found.table.needed.values() if one.seeds is not None]
    wanted = max(3, min(counts, default=3))
    if not now < wanted <= MOST_SEEDS:
        return ()
    unused = (seed for seed in range(1, 10 * MOST_SEEDS) if seed not in plan.seeds)
    seeds = [*plan.seeds, *(next(unused) for _ in range(wanted - now))]
    line = f"{found.trial.command or COMMAND} seeds=[{','.join(map(str, seeds))}]"
    return (Command(f"Train {wanted - now} more seeds; what is done counts", line),)


# What is missing


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


def _signed(study: Study, value: float) -> str:
    return charts.signed(f"{charts.MINUS if value < 0 else ''}{amount(study, value)}")


def _ended(note: str) -> str:
    return note if note.endswith((".", "!", "?")) else f"{note}."
