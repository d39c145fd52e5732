"""Points that Optuna proposes, each decided by the plan and the scores of those before it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augless import metrics
from augless.trials.facts import Attempt, Values
from augless.trials.plans import BadPlan, Plan, Range, Space
from augless.trials.spelling import literal

if TYPE_CHECKING:  # an extra, and slow to load
    import optuna

Told = Callable[[Values], Attempt | None]
"""point -> what came of it, None while that is not known"""
Known = list[tuple[Values, Attempt | None]]


class Search:
    """The points that a method tries on a corpus.

    They are kept in a file of Optuna's, from which a trial goes on. It is no more than a cache of
    what follows from the scores: when lost, damaged or at odds with them, it is written anew.
    """

    def __init__(self, plan: Plan, corpus: str, method: str, file: Path) -> None:
        _load()
        self._space, self._budget, self._file = plan.tune[method], plan.budget, file
        self._distributions = _distributions(self._space)
        self._who = [corpus, method]
        self._maximised = metrics.METRICS[plan.metric].higher_is_better
        what = _digest([repr(self._space), plan.budget, plan.metric])
        self._name = f"{method} on {corpus} {what[:12]}"
        # The first are drawn blindly: they need no scores and can all be run at once.
        self._blind = max(2, (plan.budget + 1) // 2)
        self._known: Known = []

    def points(self, told: Told) -> list[Values]:
        """List the points that are decided by now: later ones wait for all before them."""
        if not self._known or any(told(point) != then for point, then in self._known):
            with _locked(self._file.with_suffix(".lock")):  # a report may be made meanwhile
                self._known = self._looked_up(told)
        return [point for point, _ in self._known]

    def _looked_up(self, told: Told) -> Known:
        for _ in range(2):
            try:
                return self._replayed(self._file, told)
            except Exception:  # whatever is wrong with the file: it can be written anew
                # Its journal too, which would be taken for that of the new one.
                for path in (self._file, self._file.with_name(f"{self._file.name}-journal")):
                    path.unlink(missing_ok=True)
        return self._replayed(":memory:", told)  # such as on a full disk

    def _replayed(self, file: str | Path, told: Told) -> Known:
        import optuna

        with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection:
            if connection.execute("pragma integrity_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("an index and its table disagree")
            connection.execute("pragma synchronous = off")  # what a power cut costs can be spared
            # Opened here, because in a URL some characters of a path mean something else.
            given = {"creator": lambda: connection}
            storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=given)
            study = self._study(storage)
            trials = study.get_trials(deepcopy=False)
            if not self._agrees(trials, told):
                optuna.delete_study(study_name=self._name, storage=storage)
                study, trials = self._study(storage), []
            return self._asked(study, trials, told)

    def _study(self, storage: optuna.storages.BaseStorage) -> optuna.Study:
        import optuna

        return optuna.create_study(
            storage=storage,
            study_name=self._name,
            direction="maximize" if self._maximised else "minimize",
            load_if_exists=True,
        )

    def _agrees(self, trials: list[optuna.trial.FrozenTrial], told: Told) -> bool:
        """Tell whether a file has whole points of ours, proposed by scores that still hold."""
        for k, trial in enumerate(trials):
            whole = trial.user_attrs.get("sha256") == _digest([k, trial.params])
            if not whole or trial.distributions != self._distributions:
                return False
            outcome = told(self._point(trial.params)) if trial.state.is_finished() else None
            if outcome is not None and outcome.score != trial.value:
                return False
        return True

    def _asked(
        self, study: optuna.Study, trials: list[optuna.trial.FrozenTrial], told: Told
    ) -> Known:
        import optuna

        found: Known = []
        for k in range(self._budget):
            if k >= self._blind and any(outcome is None for _, outcome in found):
                break
            if k < len(trials):
                params, over = trials[k].params, trials[k].state.is_finished()
            else:
                # A new one each time: what it draws must not depend on what it drew before.
                study.sampler = optuna.samplers.TPESampler(
                    seed=int(_digest([*self._who, k])[:8], 16), n_startup_trials=self._blind
                )
                asked = study.ask(self._distributions)
                asked.set_user_attr("sha256", _digest([k, asked.params]))
                params, over = asked.params, False
            point = self._point(params)
            outcome = told(point)
            found.append((point, outcome))
            if outcome is not None and not over:
                failed = outcome.score is None
                state = optuna.trial.TrialState.FAIL if failed else None
                study.tell(k, outcome.score, state=state)
        return found

    def _point(self, params: Mapping[str, Any]) -> Values:
        return {key: _value(values, params[key]) for key, values in self._space.items()}


def _distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions

    found: dict[str, distributions.BaseDistribution] = {}
    for key, values in space.items():
        if not isinstance(values, Range):
            # As text, because Optuna's choices cannot be lists or tables.
            found[key] = distributions.CategoricalDistribution([*map(literal, values)])
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


def _load() -> None:
    try:
        import optuna
    except ImportError:
        advice = "pip install 'augless[search]', or list the values to try"
        raise BadPlan(f"a range is searched by Optuna, which is not installed; {advice}") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it warns of files that we write anew


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
