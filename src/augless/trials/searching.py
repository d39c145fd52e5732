"""Points that Optuna proposes, each decided by the plan and the scores of those before it.

Nothing is kept: the same scores give the same points, so a search is replayed from records.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from augless.trials.facts import Attempt, Values
from augless.trials.plans import BadPlan, Plan, Range
from augless.trials.spelling import literal

if TYPE_CHECKING:  # an extra, and slow to load
    import optuna

Told = Callable[[Values], Attempt | None]
"""point -> what came of it, None while that is not known"""


Drawn = tuple[tuple[str, Any], ...]
"""Optuna's parameters of a point"""
_Choices = tuple[tuple[str, Range | tuple[str, ...]], ...]


def points_of(plan: Plan, corpus: str, method: str, told: Told) -> list[Values]:
    """List the combinations that a method tries, as far as they are decided by now.

    A search draws the first blindly: they need no scores and can all be run at once. Each later one
    waits for all before it.
    """
    if not plan.searched(method):
        return plan.points(method)
    space = plan.tune[method]
    found: list[Values] = []
    drawn: list[Drawn] = []
    scores: list[float | None] = []
    blind = max(2, (plan.budget + 1) // 2)
    while len(found) < max(blind, len(scores) + 1) and len(found) < plan.budget:
        seen = tuple(zip(drawn, scores, strict=True)) if len(found) >= blind else ()
        drawn.append(_proposed(*_key(plan, corpus, method), blind, len(found), seen))
        found.append({key: _value(space[key], value) for key, value in drawn[-1]})
        if len(scores) == len(found) - 1 and (attempt := told(found[-1])) is not None:
            scores.append(attempt.score)
    return found


def _key(plan: Plan, corpus: str, method: str) -> tuple[_Choices, str, bool, str, str]:
    """Return all of a plan that decides what is proposed to a method on a corpus."""
    space = plan.tune[method]
    # As text, because Optuna's choices cannot be lists or tables.
    choices = tuple(
        (key, values if isinstance(values, Range) else tuple(map(literal, values)))
        for key, values in space.items()
    )
    return choices, repr(space), plan.chooses_highest, corpus, method


@functools.lru_cache(maxsize=4096)
def _proposed(
    choices: _Choices,
    spelt: str,  # tells whole numbers from others, which are equal to Python
    maximised: bool,
    corpus: str,
    method: str,
    blind: int,
    k: int,
    seen: tuple[tuple[Drawn, float | None], ...],
) -> Drawn:
    """Return the k-th point by those before it and their scores; its arguments decide all of it."""
    load()
    import optuna

    distributions = _distributions(choices)
    # A new one for each point: what it draws must not depend on what it drew before.
    seed = int(hashlib.sha256(json.dumps([corpus, method, k]).encode()).hexdigest()[:8], 16)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=blind)
    study = optuna.create_study(sampler=sampler, direction="maximize" if maximised else "minimize")
    for params, score in seen:
        state = optuna.trial.TrialState.COMPLETE
        if score is None:
            state = optuna.trial.TrialState.FAIL
        given = dict(params)
        study.add_trial(
            optuna.trial.create_trial(
                params=given, distributions=distributions, value=score, state=state
            )
        )
    return tuple(study.ask(distributions).params.items())


def _distributions(choices: _Choices) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions

    found: dict[str, distributions.BaseDistribution] = {}
    for key, values in choices:
        if not isinstance(values, Range):
            found[key] = distributions.CategoricalDistribution(values)
        elif isinstance(values.low, int) and isinstance(values.high, int):
            found[key] = distributions.IntDistribution(values.low, values.high, values.log)
        else:
            found[key] = distributions.FloatDistribution(values.low, values.high, values.log)
    return found


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
