"""A plan in TOML to methods, corpora and seeds, every key checked before any work starts."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from augless import knobs, metrics, recipes
from augless.recipes import reading
from augless.trials import keys, spelling
from augless.trials.facts import LOSS, Values
from augless.trials.keys import BadPlan
from augless.trials.spelling import literal

Published = dict[str, dict[str, float]]
"""label of a corpus -> metric -> number in the paper"""
View = Literal["table", "samples", "sweep"]

_METRIC = "bleu"
CONTROLS = ("matched", "averaged", "shuffled")
"""kinds of control; names of weightings"""
OWN = "own"
"""the plan that is followed with somebody's files only"""


@dataclass(frozen=True, kw_only=True)
class Base:
    """A corpus of a plan: the recipe that all methods start from there."""

    recipe: str
    overrides: Values = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the table: what it changes in a recipe."""

    overrides: Values = field(default_factory=dict)
    matches: str | None = None
    """the method whose weights it gives to samples without regard to their loss: its control"""
    kind: str = "matched"
    """how: every sample its batch's mean weight (matched) or the running mean (averaged), or each
    the weight of another one (shuffled)"""
    published: Published = field(default_factory=dict)
    series: str | None = None
    """the line of a figure that it is a point of"""
    at: float | None = None
    """where on that line"""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers to search between, whole ones if both ends are written so."""

    low: float
    high: float
    log: bool = False
    """whether orders of magnitude are searched evenly"""


Space = dict[str, list[Any] | Range]
"""dotted key of a recipe -> values to choose from"""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Methods x seeds x corpora."""

    name: str
    title: str
    recipes: dict[str, Base]
    """label -> what all methods start from"""
    methods: dict[str, Method]
    overrides: Values = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3)
    baseline: str = "plain"
    control: str | None = None
    """the method that others are compared with besides, unless one `matches` them"""
    primary: str | None = None
    """the method whose difference from the baseline, over all corpora, is the primary contrast, for
    which nothing is corrected; if not given, the first that weighs its samples"""
    metric: str = _METRIC
    """what methods are compared by on the test set"""
    metrics: tuple[str, ...] = ()
    """all that is scored, `metric` first"""
    tune: dict[str, Space] = field(default_factory=dict)
    """method -> what to try on the validation set only: all combinations of lists, or, where there
    is a range, as many points as the budget has"""
    budget: int = 0
    """combinations that each tuned method tries"""
    choose: str = LOSS
    """what tuning chooses by on the validation set: the loss, or the name of a metric"""
    tuning_seeds: int = 2
    """seeds that each combination is tried with; the mean over them decides"""
    published_only: dict[str, Published] = field(default_factory=dict)
    """rows of the paper that no method here makes"""
    view: View = "table"
    """what is looked at: the table, scores against samples seen, or a sweep over `Method.at`"""
    small: bool = False
    """whether this is the plan's scale for a laptop"""

    def __post_init__(self) -> None:
        if not self.recipes or not self.methods:
            raise BadPlan(f"{self.name}: a plan needs at least one recipe and one method")
        whole = Path(self.name).name == self.name and not self.name.startswith(".")
        if not whole or not self.name.isprintable() or len(self.name) > 200:
            raise BadPlan(
                f"name is {knobs.shown(self.name)}; it names a folder, so it may have no /, "
                "nothing unprintable and no dot in front"
            )
        if not self.seeds or len({*self.seeds}) < len(self.seeds) or min(self.seeds) < 0:
            raise BadPlan(f"seeds are {list(self.seeds)}; they must be different, 0 or more")
        for key, method in (("baseline", self.baseline), ("control", self.control)):
            if method is not None:
                keys.known(key, method, self.methods)
        for name, entry in self.methods.items():
            if entry.matches is not None:
                keys.known(f"methods.{name}.matches", entry.matches, self.methods)
                if self.methods[entry.matches].matches is not None:
                    raise BadPlan(f"methods.{name}.matches {entry.matches!r}, itself a control")
        self._check_primary()
        for metric in (self.metric, *self.metrics):
            keys.known("metric", metric, metrics.METRICS)
        keys.known("choose", self.choose, (LOSS, *metrics.METRICS))
        if not 1 <= self.tuning_seeds <= 100:
            raise BadPlan(f"tuning_seeds is {self.tuning_seeds}; it can be 1 to 100")
        for where, overrides in self._all_overrides():
            for key in {k.split(".")[0] for k in overrides}:
                if key == "seed":
                    raise BadPlan(f"{where} sets seed; write seeds = [1, 2] for the whole plan")
                if key == "corpus" and where.startswith(("methods.", "tune.")):
                    raise BadPlan(f"{where} sets corpus; methods compare on one corpus")
        self._check_tuning()
        by = () if self.choose == LOSS else (self.choose,)
        ordered = tuple(dict.fromkeys((self.metric, *self.metrics, *by)))
        object.__setattr__(self, "metrics", ordered)

    def _all_overrides(self) -> Iterator[tuple[str, Values]]:
        yield "overrides", self.overrides
        yield from ((f"recipes.{name}", base.overrides) for name, base in self.recipes.items())
        yield from ((f"methods.{name}", entry.overrides) for name, entry in self.methods.items())
        yield from ((f"tune.{name}", dict(space)) for name, space in self.tune.items())

    def _check_primary(self) -> None:
        controls = {self.baseline, self.control}
        controls |= {name for name, entry in self.methods.items() if entry.matches is not None}
        asked = {name: entry for name, entry in self.methods.items() if name not in controls}
        if self.primary is not None:
            keys.known("primary", self.primary, asked)
            return
        weigh = (name for name, entry in asked.items() if "weighting" in literal(entry.overrides))
        object.__setattr__(self, "primary", next(weigh, next(iter(asked), None)))

    def _check_tuning(self) -> None:
        sizes = {}
        for method in self.tune:
            keys.known(f"tune.{method}", method, self.methods)
            if self.methods[method].matches is not None:
                raise BadPlan(f"tune.{method}: it takes what {self.methods[method].matches!r} has")
            if not self.tune[method]:
                raise BadPlan(f"tune.{method} is empty; give values to try, or leave it out")
            if self.searched(method) and not self.budget:
                raise BadPlan(f"tune.{method} has a range; say how much to try, such as budget = 8")
            sizes[method] = self.budget if self.searched(method) else len(self.points(method))
        if len({*sizes.values()}) > 1:
            these = ", ".join(f"{method} {size}" for method, size in sizes.items())
            raise BadPlan(f"every tuned method must try as many combinations: {these}")
        budget = max(sizes.values(), default=0)
        if self.budget not in (0, budget):
            raise BadPlan(f"budget is {self.budget}, but tune has {budget} combinations a method")
        object.__setattr__(self, "budget", budget)

    @property
    def seeds_of_tuning(self) -> tuple[int, ...]:
        """The seeds that knobs are chosen with: none of the others.

        The best of several runs is also the luckiest. Were it a final run, every tuned method would
        be ahead by that luck.
        """
        free = (seed for seed in itertools.count() if seed not in self.seeds)
        return tuple(itertools.islice(free, self.tuning_seeds))

    @property
    def chooses_highest(self) -> bool:
        """Whether a combination with a higher score is the better one."""
        return self.choose != LOSS and metrics.METRICS[self.choose].higher_is_better

    @property
    def chooses_by(self) -> str:
        """What tuning chooses by, in words."""
        what = "validation loss" if self.choose == LOSS else f"{self.choose} on the validation set"
        count = self.tuning_seeds
        return f"{what}, mean of {count} seeds" if count > 1 else f"{what}, one seed"

    @staticmethod
    def load(plan: str, overrides: Sequence[str] = (), *, small: bool = False) -> Plan:
        """Read a plan, a file or the name of a shipped one, and apply key=value overrides.

        `small` takes what the plan says under [small] in place of the rest.
        """
        name, content = _read(plan)
        keys.strict("", content, KEYS)
        scale = content.pop("small", False)
        if scale is True:  # as `as_toml` writes what is at that scale already
            small, scale = True, {}
        elif small and not scale:
            raise BadPlan(f"{name} has no small scale: write what differs under [small]")
        if scale and small:
            keys.strict("small", keys.table("small", scale), KEYS[:-1])
            content = _scaled(content, scale)
        # Taken before a change: numbers that the plan quotes stay those of its own metric.
        quoted = keys.string("metric", content.get("metric", _METRIC))
        for override in overrides:
            key, equals, value = override.partition("=")
            if not equals or not key:
                raise BadPlan(f"{override!r} is not key=value, such as seeds=[1]")
            keys.assign(content, key, reading.toml_value(value))
        keys.strict("", content, KEYS)
        return parsed(name, content, small, quoted)

    def as_toml(self) -> str:
        """Write the plan, at the scale it has, so that it is read back as it is."""
        return spelling.as_toml(self)

    def points(self, method: str) -> list[Values]:
        """Return all combinations, the first key varying slowest; of a range, its ends."""
        space = self.tune.get(method, {})
        if not space:
            return []
        listed = [[v.low, v.high] if isinstance(v, Range) else v for v in space.values()]
        return [dict(zip(space, v, strict=True)) for v in itertools.product(*listed)]

    def searched(self, method: str) -> bool:
        """Tell whether what a method tries depends on what it has tried."""
        return any(isinstance(values, Range) for values in self.tune.get(method, {}).values())

    def source(self, method: str) -> str:
        """Return the method whose hyper-parameters a method has: its own, or what it matches."""
        return self.methods[method].matches or method

    def control_of(self, method: str) -> str | None:
        """Return the method that tells a method's effect from one of the learning rate."""
        if self.methods[method].matches is not None or method == self.baseline:
            return None
        own = (name for name, entry in self.methods.items() if entry.matches == method)
        control = next(own, self.control)
        return None if control == method else control

    @property
    def untuned(self) -> list[str]:
        """The methods for which nothing is chosen: those without knobs get no budget."""
        return [
            name
            for name, entry in self.methods.items()
            if name not in self.tune and entry.matches not in self.tune
        ]

    def published(self, method: str, corpus: str, metric: str | None = None) -> float | None:
        """Return the number that the paper has, if it does."""
        table = self.published_only.get(method)
        if table is None:
            table = self.methods[method].published if method in self.methods else {}
        return table.get(corpus, {}).get(metric or self.metric)


KEYS = tuple(knob.name for knob in fields(Plan))
"""what a plan's file may say; a plan at its small scale says all but the last"""


def shipped() -> list[str]:
    """List the plans that come with the package."""
    names = (Path(entry.name) for entry in _folder().iterdir())
    return sorted(name.stem for name in names if name.suffix == ".toml" and name.stem != OWN)


_WEIGHTS = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0]


def _read(plan: str) -> tuple[str, dict[str, Any]]:
    path = Path(plan)
    if path.suffix == ".toml" or path.is_file():
        try:
            return path.stem, tomllib.loads(path.read_bytes().decode("utf-8"))
        except FileNotFoundError:
            raise BadPlan(f"there is no plan file {plan}") from None
        except RecursionError:
            raise BadPlan(f"{plan} is not a plan: its tables are nested too deeply") from None
        except ValueError as error:  # a number of thousands of digits, too
            raise BadPlan(f"{plan} is not TOML: {error}") from None
    if plan not in (OWN, *shipped()):
        raise BadPlan(
            f"there is no plan {plan!r}{recipes.hint(plan, shipped())}\n"
            f"give a .toml file or one of: {', '.join(shipped())}"
        )
    return plan, tomllib.loads((_folder() / f"{plan}.toml").read_text("utf-8"))


def parsed(name: str, content: Mapping[str, Any], small: bool, quoted: str = _METRIC) -> Plan:
    """Make a plan of what its file says; a mistake names its key."""
    for key in ("title", "recipes", "methods"):
        if key not in content:
            raise BadPlan(f"{name}: {key} is not given")
    labels = _bases(content["recipes"])
    methods = {
        method: _method(f"methods.{method}", keys.table(f"methods.{method}", table), quoted, labels)
        for method, table in keys.table("methods", content["methods"]).items()
    }
    only = {
        row: _published(f"published_only.{row}", table, quoted, labels)
        for row, table in keys.table("published_only", content.get("published_only", {})).items()
    }
    spaces = {
        method: _space(f"tune.{method}", keys.table(f"tune.{method}", table))
        for method, table in keys.table("tune", content.get("tune", {})).items()
    }
    given = {"name": name, "baseline": next(iter(methods), "plain")} | dict(content)
    plain = {key: read(key, given[key]) for key, read in _READERS.items() if key in given}
    return Plan(
        **plain, recipes=labels, methods=methods, tune=spaces, published_only=only, small=small
    )


def _bases(given: Any) -> dict[str, Base]:
    """Read the corpora: a list of recipes, or label -> a recipe and what to change in it."""
    if isinstance(given, list):
        names = keys.strings("recipes", given)
        found = {Path(n).stem if n.endswith(".toml") else n: Base(recipe=n) for n in names}
        if len(found) < len(names):
            raise BadPlan(f"recipes has two of the same name; give labels: {', '.join(names)}")
        return found
    found = {}
    for label, entry in keys.table("recipes", given).items():
        table = {"recipe": entry} if isinstance(entry, str) else dict(keys.table(label, entry))
        recipe = table.pop("recipe", None)
        if recipe is None:
            raise BadPlan(f"recipes.{label}.recipe is not given")
        name = keys.string(f"recipes.{label}.recipe", recipe)
        found[label] = Base(recipe=name, overrides=reading.spread(table))
    return found


def _method(
    where: str, given: Mapping[str, Any], metric: str, labels: Mapping[str, Base]
) -> Method:
    table = dict(given)
    published = _published(f"{where}.published", table.pop("published", {}), metric, labels)
    matches, series, at = (table.pop(key, None) for key in ("matches", "series", "at"))
    kind = keys.string(f"{where}.kind", table.pop("kind", Method.kind))
    keys.known(f"{where}.kind", kind, CONTROLS)
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float)):
        raise BadPlan(f"{where}.at is {at!r}; it must be a number")
    return Method(
        overrides=reading.spread(table),
        matches=None if matches is None else keys.string(f"{where}.matches", matches),
        kind=kind,
        published=published,
        series=None if series is None else keys.string(f"{where}.series", series),
        at=None if at is None else float(at),
    )


def _published(where: str, given: Any, metric: str, labels: Mapping[str, Base]) -> Published:
    """Read label -> a number, which is the plan's metric, or label -> metric -> a number."""
    found: Published = {}
    for label, entry in keys.table(where, given).items():
        keys.known(where, label, labels)
        for name, number in (entry if isinstance(entry, dict) else {metric: entry}).items():
            keys.known(f"{where}.{label}", name, metrics.METRICS)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise BadPlan(f"{where}.{label} is {number!r}; it must be a number")
            found.setdefault(label, {})[name] = float(number)
    return found


def _space(where: str, given: Mapping[str, Any]) -> Space:
    found: Space = {}
    for key, value in given.items():
        full = f"{where}.{key}"
        if isinstance(value, dict) and ("low" in value or "high" in value):
            found[key] = _range(full, value)
        elif isinstance(value, dict):
            inner = _space(full, value)
            found |= {f"{key}.{rest}": values for rest, values in inner.items()}
        elif isinstance(value, list) and value:
            found[key] = value
        else:
            raise BadPlan(f"{full} is {value!r}; it must be a list of values to try, or a range")
    return found


def _range(where: str, given: Mapping[str, Any]) -> Range:
    low: Any = given.get("low")
    high: Any = given.get("high")
    log = given.get("log", False)
    if {*given} - {"low", "high", "log"} or not isinstance(log, bool):
        raise BadPlan(f"{where} is {literal(given)}; a range has low, high and maybe log = true")
    for end in (low, high):
        # Whole numbers beyond would not survive the search, which is done in floats.
        if isinstance(end, bool) or not isinstance(end, int | float) or not abs(end) < 1e15:
            raise BadPlan(f"{where} is {literal(given)}; low and high must be numbers below 1e15")
    if low >= high or (log and low <= 0):
        why = "high must be more than low" if low >= high else "with log, low must be more than 0"
        raise BadPlan(f"{where} is {literal(given)}; {why}")
    whole = isinstance(low, int) and isinstance(high, int)
    return Range(low=low if whole else float(low), high=high if whole else float(high), log=log)


def _scaled(content: Mapping[str, Any], scale: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan at its small scale; published numbers are of another scale, and left out."""
    tables = {
        key: keys.table(key, content.get(key, {})) for key in ("methods", "overrides", "tune")
    }
    merged = {**content, **scale}
    merged["overrides"] = reading.spread(tables["overrides"]) | reading.spread(
        scale.get("overrides", {})
    )
    merged["methods"] = {**tables["methods"], **scale.get("methods", {})}
    merged["tune"] = {**tables["tune"], **scale.get("tune", {})}
    merged["methods"] = {
        method: {key: value for key, value in table.items() if key != "published"}
        for method, table in merged["methods"].items()
    }
    merged.pop("published_only", None)
    return merged


def _view(where: str, value: Any) -> str:
    if value not in get_args(View):
        raise BadPlan(f"{where} is {value!r}; it can be {', '.join(get_args(View))}")
    return str(value)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "name": keys.string,
    "title": keys.string,
    "overrides": lambda where, value: reading.spread(keys.table(where, value)),
    "seeds": lambda where, value: tuple(keys.numbers(where, value)),
    "baseline": keys.string,
    "control": keys.string,
    "primary": keys.string,
    "metric": keys.string,
    "metrics": lambda where, value: tuple(keys.strings(where, value)),
    "budget": keys.whole,
    "choose": keys.string,
    "tuning_seeds": keys.whole,
    "view": _view,
}
"""key of a plan -> how it is read, unless that depends on others; defaults are those of `Plan`"""


def _folder() -> Any:
    return resources.files("augless.trials")
