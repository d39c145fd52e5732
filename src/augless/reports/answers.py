"""The answer in one short sentence, then the numbers that it rests on.

Choice: the sentence is about the plan's primary method, over all corpora, and nothing is called
better or worse unless the statistics let it be claimed; what is not claimed is said with the
minimum detectable effect. No number is in the sentence: they follow it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from augless import metrics, trials
from augless.reports import words
from augless.reports.cells import MARKS
from augless.reports.evidence import (
    SMALL_SPREAD,
    Evidence,
    MethodResult,
    Study,
    digits_of,
    metric_name,
)
from augless.reports.words import joined, probability

COMMAND = "augless trial PLAN"  # where nobody knows what a trial was started by
MOST_SEEDS = 40  # that a command suggests
_RATE = "training.optimizer.rate"
_QUICK = ("--quick", "--small")
_ALIKE = "no sentence differs in its score"
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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a trial found."""

    sentence: str
    numbers: tuple[str, ...] = ()
    """what it rests on"""
    method: str | None = None
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


def of(evidence: Evidence) -> Answer:
    """Say what a trial found, for any outcome, and what its makers and its summary warn of."""
    said = [*_unfinished(evidence), *evidence.summary.warnings, *evidence.trial.notes]
    said += _edges(evidence)
    general, primary = tuple(dict.fromkeys(said)), evidence.plan.primary
    comparable = [study for study in evidence.studies if study.candidates]
    if not comparable or primary is None:
        return Answer(sentence=_nothing(evidence.studies), general=general)
    inconclusive = [study for study in comparable if study.inconclusive]
    learnt = [study for study in comparable if not study.inconclusive]
    commands = [*_whole(evidence), *(_otherwise(evidence, inconclusive) if inconclusive else ())]
    notes: tuple[str, ...] = ()
    if not learnt:
        seen = dict.fromkeys(line for study in inconclusive for line in _why_inconclusive(study))
        sentence, numbers = _unlearnt(inconclusive), tuple(seen)
    else:
        contrast = evidence.summary.rows[primary].baseline
        sentence = _sentence(evidence, primary, contrast)
        numbers = tuple(_numbers(evidence, primary, contrast)) if contrast else ()
        numbers += tuple(_contradicted(evidence, primary, contrast)) if contrast else ()
        commands += _more_seeds(evidence, contrast) if contrast else ()
        notes = tuple(dict.fromkeys(_notes(evidence, primary, inconclusive, learnt)))
    return Answer(
        sentence=sentence,
        numbers=numbers,
        method=primary,
        by_corpus=notes,
        general=general,
        commands=tuple(commands),
    )


def amount(study: Study, value: float) -> str:
    """Write the size of a difference with as many digits as it deserves."""
    return words.fixed(abs(value), _digits(study, value))


def _signed(study: Study, value: float) -> str:
    return words.signed(value, _digits(study, value))


def _digits(study: Study, value: float) -> int:
    scale = abs(study.baseline.mean or 1.0)
    digits = 1 if scale >= 10 else min(digits_of(study.metric.name, scale), 2 if scale >= 1 else 3)
    # Something is not written as nothing; of less than a millionth there is only rounding.
    while digits < 6 and value and round(abs(value), digits) == 0:
        digits += 1
    return digits


def _interval(study: Study, test: metrics.Difference) -> str:
    return f"95 % interval {_signed(study, test.low)} to {_signed(study, test.high)}"


def _measured(study: Study, contrast: trials.Contrast) -> str:
    """Write a difference with its interval and its p."""
    size = f"{_signed(study, contrast.estimate)} {study.unit}"
    return f"{size} ({_interval(study, contrast)}, {probability(contrast)})"


# The sentence, in plain words, without a number


def _sentence(evidence: Evidence, primary: str, contrast: trials.Contrast | None) -> str:
    plain = evidence.plan.baseline
    if contrast is None:
        return f"There is no answer yet: {primary} cannot be compared with {plain}."
    where = f" over {contrast.corpora} corpora" if contrast.corpora > 1 else ""
    if len(evidence.studies) > 1 and contrast.corpora == 1:
        rows = ((study, study.row(primary)) for study in evidence.studies)
        only = next(study.corpus for study, row in rows if row is not None and row.baseline)
        where = f" on {only}, the only corpus with an answer"
    if contrast.fault:
        return f"There is no answer: outputs of {primary} or {plain} are degenerate."
    if not contrast.of_methods:
        return "There is no answer about the method: one seed says nothing about it."
    if contrast.alike:
        return f"{primary} does not differ from {plain}{where}: {_ALIKE}."
    kind = evidence.verdict(contrast)
    if kind == "open":
        return f"{primary} is not shown to differ from {plain}{where}."
    if kind == "worse":
        return f"{primary} is worse than {plain}{where}."
    return f"{primary} beats {plain}{where}{_beside_control(evidence, primary)}."


def _beside_control(evidence: Evidence, method: str) -> str:
    """Say whether a gain is more than a learning rate's; only its own control can tell."""
    name, contrast = evidence.plan.control_of(method), evidence.summary.rows[method].control
    if contrast is None or name is None:
        return ""
    own = "its control " if evidence.plan.methods[name].matches == method else ""
    return {
        "better": f", and {own}{name} too",
        "worse": f", but {own}{name} does better still",
        "open": f", but is not shown to beat {own}{name}",
    }[evidence.verdict(contrast)]


# What it rests on


def _numbers(evidence: Evidence, primary: str, contrast: trials.Contrast) -> Iterator[str]:
    """Yield the differences, and what could have been seen."""
    study, plain, test = evidence.first_conclusive, evidence.plan.baseline, _TESTS[contrast.test]
    if not contrast.of_methods:
        yield (
            f"The one model of {primary} is {_measured(study, contrast)} from that of {plain}, "
            f"{test}: other seeds would give other models."
        )
        return
    where = f" on {contrast.corpora} corpora" if contrast.corpora > 1 else ""
    tested = f"{len(evidence.plan.seeds)} seeds{where}, {test}"
    line = f"{_measured(study, contrast)} against {plain} ({tested})."
    if (control := evidence.summary.rows[primary].control) is not None:
        yield line
        line = f"{_measured(study, control)} against {evidence.plan.control_of(primary)}."
    yield line + _step_size(evidence, study.row(primary), contrast)
    if (likely := contrast.likely) is not None:
        size = f"{_signed(study, likely.mean.estimate)} {study.unit}"
        yield (
            f"{size} ({_interval(study, likely.mean)}) as the mean of corpora like these, by "
            f"random effects: true effects vary by {amount(study, likely.between)} between corpora."
        )
    if not contrast.alike:
        effect = f"{amount(study, contrast.minimum_detectable_effect)} {study.unit}"
        said = f"Minimum detectable effect: {effect}, which 4 such trials of 5 would find."
        yield f"{said} {seeds_needed(evidence)}".rstrip()


def _contradicted(evidence: Evidence, primary: str, contrast: trials.Contrast) -> Iterator[str]:
    """Yield which other metrics of the plan claim the opposite."""
    opposite = {"better": "worse", "worse": "better"}.get(evidence.verdict(contrast))
    for metric, other in evidence.by_other_metrics.items() if opposite else ():
        seen = other.summary.rows[primary].baseline
        if seen and other.verdict(seen) == opposite:
            measured = _measured(other.first_conclusive, seen)
            yield f"By {metric_name(metric)} it is {opposite}: {measured}."


def _step_size(evidence: Evidence, row: MethodResult | None, contrast: trials.Contrast) -> str:
    """Say that a gain may be a learning rate's, where no control of its own can tell."""
    gains = evidence.verdict(contrast) == "better"
    if row is None or not row.weighs or not gains or (row.matched and row.control):
        return ""
    missing = "its control has no result to compare with"
    missing = missing if row.matched else "it has no control of its own"
    first = next((record for record in row.records.values() if record), None)
    if first and row.weighted_term is not None and first.terms[row.weighted_term].normalised:
        return f" As {missing}, any weights that vary as much may do the same."
    return f" As {missing}, the gain may be a change of step size and no more."


def seeds_needed(evidence: Evidence, corpus: str | None = None) -> str:
    """Say how many seeds would show something worth it, on one corpus or on each."""
    wanted = {c: n for c, n in evidence.summary.seeds_needed.items() if corpus in (None, c)}
    if not wanted:
        return ""
    study = evidence.study(next(iter(wanted)))
    effect = f"{amount(study, wanted[study.corpus].effect)} {study.unit}"
    counts = sorted(one.seeds for one in wanted.values() if one.seeds is not None)
    where = "" if len(evidence.studies) == 1 else " on one corpus alone"
    if not counts:
        against = f"{where} against {evidence.plan.baseline}"
        return f"No number of seeds would show {effect}{against}: the test set is too small."
    span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    but = " (with some test sets none would)" if len(counts) < len(wanted) else ""
    return f"To see {effect}{where}, {span} seeds would be needed{but}."


# Further notes


def _notes(
    evidence: Evidence, primary: str, inconclusive: Sequence[Study], learnt: Sequence[Study]
) -> Iterator[str]:
    """Yield what else must be said of methods."""
    for study in inconclusive:
        yield from (f"On {study.corpus}: {line}" for line in _why_inconclusive(study))
    for study in learnt if len(evidence.studies) > 1 else ():
        row = study.row(primary)
        if row is not None and (one := row.baseline) is not None:
            said = f"{_measured(study, one)} {MARKS[study.verdict(one)]}".rstrip()
            yield f"{primary} on {study.corpus}: {_ALIKE if one.alike else said}."
    yield from _others(evidence, learnt[0])
    for study in learnt:
        where = f" on {study.corpus}" if len(learnt) > 1 else ""
        yield from _caveats(study, primary, where)
        yield from _weak(study, where)


def _others(evidence: Evidence, study: Study) -> Iterator[str]:
    """Yield what else may be claimed, over all corpora."""
    for kind, verb in (("better", "is beaten by"), ("worse", "is better than")):
        claims = []
        for method, row in evidence.summary.rows.items():
            known, one = study.row(method), row.baseline
            if known and known.role == "method" and method != evidence.plan.primary and one:
                weighs = "" if known.weighs else "; it weighs no samples"
                said = f"{method}, {_measured(study, one)}{weighs}"
                claims += [said] if evidence.verdict(one) == kind else []
        if claims:
            yield f"{evidence.plan.baseline} {verb} {joined(claims)}."


def _caveats(study: Study, primary: str, where: str) -> Iterator[str]:
    """Yield what else a difference may be on a corpus, and how weak a treatment was."""
    for row in study.rows:
        for seed, fault in list(row.faults.items())[:1]:
            yield f"Nothing is claimed of {row.method}{where}: {fault} (seed {seed})."
    plain, ours = study.baseline, study.row(primary)
    if study.near_zero(plain):
        has = f"{plain.method} has a {study.unit} near 0{where} ({_scored(plain)})"
        yield f"{has}, where it says little."
    if ours is None or ours.baseline is None or not ours.weighs:
        return
    if ours.differs_elsewhere:
        yield (
            f"{primary} differs from {plain.method} in more than its weights{where}: what they do "
            "is only a part of the difference."
        )
    spread = ours.treatment.spread
    if spread is not None and spread < SMALL_SPREAD:
        varied = f"weights of {primary} vary by {spread:.1%} of their mean"
        yield f"The treatment was weak{where}: {varied}."
    best, contrast = max(study.candidates, key=lambda pair: study.gain(pair[1].estimate))
    if not best.weighs and study.gain(contrast.estimate) > 0 and not contrast.claimed:
        rival = f"{best.method}, which weighs no samples"
        yield f"Most is gained{where} by {rival}: {_measured(study, contrast)}, not claimed."


def _weak(study: Study, where: str) -> Iterator[str]:
    """Yield which terms hardly reach the gradient, and where clipping undoes weights."""
    from augless.training import cautions  # late: it loads torch

    for row in study.rows:
        for place, share in enumerate(row.treatment.shares, 1):
            if share is not None and share < cautions.WEAK:
                makes = f"Term {place} of {row.method} makes only {share:.2%} of the gradient"
                yield f"{makes}{where}: it is hardly trained."
        if row.treatment.idle:
            yield (
                f"{row.method} has weighed nothing{where}, so it is no control: it begins after as "
                "many samples as its `window` holds, once what it controls weighs. Train longer, "
                "or give it a smaller window."
            )
    shares = {row.method: row.treatment.clipped or 0.0 for row in study.rows if row.weighs}
    often = [method for method, share in shares.items() if share > cautions.OFTEN]
    if often:
        clipped = f"{max(shares.values()):.0%} of the steps of {joined(often)} were clipped"
        yield f"{clipped}{where}, which undoes what the weights of a batch have in common."


# Models that have not learnt


def _scored(row: MethodResult) -> str:
    return f"{row.mean or 0.0:.2f}"


def _unlearnt(studies: Sequence[Study]) -> str:
    if any(row.faults for study in studies for row in study.rows):
        return "There is no answer: the outputs are empty, constant or endless repetitions."
    return f"There is no answer: {studies[0].unit} is too near 0 to tell methods apart."


def _why_inconclusive(study: Study) -> list[str]:
    """Say what was seen, and what to do."""
    faults = [
        f"{row.method}, seed {seed}: {fault}."
        for row in study.rows
        for seed, fault in list(row.faults.items())[:1]
    ]
    advice = f"{metrics.ADVICE[0].upper()}{metrics.ADVICE[1:]}."
    if faults:
        return [*faults, advice]
    return [
        f"{study.baseline.method} has a {study.unit} of {_scored(study.baseline)}.",
        f"A {study.unit} near 0 may mean that the models have hardly learnt anything, or that the "
        f"sentences are too short or too free for it. {advice}",
    ]


# What to do next


def _whole(evidence: Evidence) -> Iterator[Command]:
    """Suggest the whole of somebody's files after a sample of them."""
    given = shlex.split(evidence.trial.command)
    kept = [one for one in given if one not in _QUICK]
    own = "--train" in given and evidence.plan.scale == "small"
    if own and len(kept) < len(given) and evidence.trial.complete:
        yield Command("Next: the same with all of your data", shlex.join(kept))


def _otherwise(evidence: Evidence, studies: Sequence[Study]) -> Iterator[Command]:
    """Suggest longer training where outputs are degenerate, which no metric fixes, else chrF."""
    rows = [row for study in studies for row in study.rows]
    if any(row.faults for row in rows):
        recipes = [record.recipe for row in rows for record in row.records.values() if record]
        epochs = (recipe.get("training.epochs") for recipe in recipes)
        if most := max((one for one in epochs if isinstance(one, int)), default=0):
            line = _again(evidence, "overrides.training.epochs", f"{2 * most}")
            yield Command("Train longer", line)
    elif studies[0].metric.of_phrases:
        yield Command("Compare by characters instead", _again(evidence, "metric", "chrf"))


def _more_seeds(evidence: Evidence, contrast: trials.Contrast) -> Iterator[Command]:
    """Suggest as many seeds as would show something worth it, where nothing is shown yet."""
    seeds = list(evidence.plan.seeds)
    counts = [one.seeds for one in evidence.summary.seeds_needed.values() if one.seeds is not None]
    wanted = max(3, min(counts, default=3))
    told = contrast.claimed or contrast.alike or contrast.fault
    if not told and len(seeds) < wanted <= MOST_SEEDS:
        unused = [seed for seed in range(1, 2 * MOST_SEEDS) if seed not in seeds]
        more = unused[: wanted - len(seeds)]
        line = _again(evidence, "seeds", f"[{','.join(map(str, seeds + more))}]")
        word = "seed" if len(more) == 1 else "seeds"
        yield Command(f"Train {len(more)} more {word}; what is done counts", line)


def _again(evidence: Evidence, key: str, value: str) -> str:
    """Return the command of a trial with another value of a key."""
    given = shlex.split(evidence.trial.command or COMMAND)
    kept = [one for one in given if one.partition("=")[0] != key]
    return f"{shlex.join(kept)} {key}={value}"


# What is missing


def _unfinished(evidence: Evidence) -> Iterator[str]:
    """Yield what failed and what is missing."""
    rows = [row for study in evidence.studies for row in study.rows]
    failed, waiting = sum(len(row.failures) for row in rows), sum(row.waiting for row in rows)
    total = len(rows) * len(evidence.plan.seeds)
    if failed:
        who = joined(list(dict.fromkeys(row.method for row in rows if row.failures)))
        runs = f"{failed} of {total} runs failed ({who})"
        yield f"{runs}; a method is compared only where every seed is done."
    if waiting:
        verb = "is" if waiting == 1 else "are"
        yield f"{waiting} of {total} runs {verb} not done yet: this is provisional."


def _edges(evidence: Evidence) -> Iterator[str]:
    """Yield for which methods the best learning rate may lie beyond those that were tried."""
    found: dict[tuple[str, str], list[str]] = {}
    several = len(evidence.studies) > 1
    for method, of_corpora in evidence.trial.chosen.items():
        rates = evidence.plan.tune.get(method, {}).get(_RATE)
        if not isinstance(rates, list) or len(rates) < 3:  # of two, one is always the edge
            continue
        for corpus, choice in of_corpora.items():
            best = choice.best.values.get(_RATE) if choice.best else None
            if best in (min(rates), max(rates)):
                sizes = ("largest", "larger") if best == max(rates) else ("smallest", "smaller")
                found.setdefault(sizes, []).append(f"{method} on {corpus}" if several else method)
    for (most, more), whose in found.items():
        yield f"The best learning rate is the {most} tried, for {joined(whose)}: try {more} ones."


def _nothing(studies: Sequence[Study]) -> str:
    """Say why there is no answer."""
    rows = [row for study in studies for row in study.rows]
    methods = [row for row in rows if row.role == "method"]
    plain = studies[0].baseline.method
    if not any(row.values for row in rows):
        failed = any(row.failures for row in rows)
        return "There is no answer: " + ("the runs failed." if failed else "no run is done yet.")
    if not methods:
        only = "the only method" if len(rows) == len(studies) else "alone with controls"
        return f"There is nothing to compare with: {plain} is {only}."
    if not any(study.baseline.values for study in studies):
        return f"There is no answer yet: {plain}, with which all is compared, has no result."
    if not studies[0].metric.additive:
        return (
            f"There is no answer: {studies[0].unit} is no sum over sentences, "
            "so no difference can be tested."
        )
    complete = [study for study in studies if study.baseline.complete]
    if any(row.complete for study in complete for row in study.rows if row.role == "method"):
        return f"There is no answer: no method can be compared with {plain}."
    return f"There is no answer yet: no method has every seed done, as {plain} must have too."
