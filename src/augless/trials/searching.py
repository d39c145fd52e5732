"""Points that Optuna proposes, each decided by the plan and the scores of those before it.

Nothing is kept: the same scores give the same points, so a search is replayed from records.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from augless.trials.facts import Attempt, Values
from augless.trials.plans import BadPlan, Plan, Range
from augless.trials.spelling import literal

Results = Callable[[Values], Attempt | None]
"""point -> what came of it, None while that is not known"""


def points_of(plan: Plan, corpus: str, method: str, results: Results) -> list[Values]:
    """List the combinations that a method tries, as far as they are decided by now.

    A search draws the first blindly: they need no scores and can all be run at once. Each later one
    waits for all before it.
    """
    if not plan.searched(method):
        return plan.points(method)
    space = plan.tune[method]
    # Choices as text, because Optuna's cannot be lists or tables.
    choices = {
        key: vars(values) if isinstance(values, Range) else list(map(literal, values))
        for key, values in space.items()
    }
    points: list[Values] = []
    drawn: list[Values] = []
    scores: list[float | None] = []
    blind = max(2, (plan.budget + 1) // 2)
    while len(points) < max(blind, len(scores) + 1) and len(points) < plan.budget:
        seen = list(zip(drawn, scores, strict=True)) if len(points) >= blind else []
        place = [corpus, method, len(points)]
        drawn.append(_proposed(json.dumps([choices, plan.chooses_highest, place, blind, seen])))
        points.append({key: _value(space[key], value) for key, value in drawn[-1].items()})
        if len(scores) == len(points) - 1 and (attempt := results(points[-1])) is not None:
            scores.append(None if attempt.score is None else plan.ranked(attempt.score))
    return points


@functools.lru_cache(maxsize=4096)
def _proposed(asked: str) -> Values:
    """Return a point by its place, the space, and the points before it with their scores."""
    load()
    import optuna

    choices, maximised, place, blind, seen = json.loads(asked)
    space = {key: _distribution(values) for key, values in choices.items()}
    # A new one for each point: what it draws must not depend on what it drew before.
    seed = int(hashlib.sha256(json.dumps(place).encode()).hexdigest()[:8], 16)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=blind)
    study = optuna.create_study(sampler=sampler, direction="maximize" if maximised else "minimize")
    states = optuna.trial.TrialState
    for params, score in seen:
        state = states.FAIL if score is None else states.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=space, value=score, state=state)
        )
    return study.ask(space).params


def _distribution(values: Any) -> Any:
    from optuna import distributions

    if isinstance(values, list):
        return distributions.CategoricalDistribution(values)
    whole = isinstance(values["low"], int) and isinstance(values["high"], int)
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(**values)


def _value(values: list[Any] | Range, param: Any) -> Any:
    if not isinstance(values, Range):
        return next(value for value in values if literal(value) == param)
    if isinstance(param, int):
        return param
    # What machines agree on: the last digits of a logarithm are not among it.
    return min(max(float(f"{param:.6g}"), values.low), values.high)


def load() -> None:
    """Load Optuna, or say how to install it."""
    try:
        import optuna
    except ImportError:
        advice = "pip install 'augless[search]', or list the values to try"
        raise BadPlan(f"a range is searched by Optuna, which is not installed; {advice}") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
