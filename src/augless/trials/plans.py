"""A plan in TOML to methods, corpora and seeds, every key checked before any work starts.

The dataclasses here are the schema: types and limits are checked by `knobs`. What a plan's file may
say otherwise than they do is brought into their form by `parsed`: a method's table holds its own
keys and those of a recipe side by side, recipes may be a list, published numbers may be bare.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from augless import knobs, metrics, recipes
from augless.knobs import LARGEST_SEED, Among, Knobs, Within
from augless.recipes import reading
from augless.trials.facts import LOSS, Values
from augless.trials.overriding import Changes
from augless.trials.spelling import key_of, literal

Published = dict[str, dict[str, float]]
"""label of a corpus -> metric -> number in the paper"""

Scale = Literal["full", "small"]

_METRIC = "bleu"
_LOSS = "loss"  # how plans of earlier versions spell `LOSS`; the metric of that name is per token
_PACKAGE = "augless.trials"
OWN = "own"
"""the plan that is followed with somebody's files only"""


class BadPlan(recipes.BadRecipe):
    """A plan that cannot be followed: which key, why, and what to write instead."""


@dataclass(frozen=True, kw_only=True)
class Base(Knobs):
    """A corpus of a plan: the recipe that all methods start from there."""

    recipe: Annotated[str, "a recipe's name, or its file"]
    overrides: Values = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Method(Knobs):
    """A row of the table: what it changes in a recipe."""

    overrides: Values = field(default_factory=dict)
    matches: Annotated[
        str | None,
        "makes it the control of a method: it gives its weights without regard to losses",
    ] = None
    kind: Annotated[
        Literal["matched", "averaged", "shuffled"],
        "which weight a sample gets: its batch's mean, which keeps what lies between batches; the "
        "running mean, which is a learning rate; or that of another sample",
    ] = "matched"
    published: Annotated[Published, "the paper's numbers, by corpus"] = field(default_factory=dict)
    series: Annotated[str | None, "the line of a figure that it is a point of"] = None
    at: Annotated[float | None, "where on that line"] = None


@dataclass(frozen=True, kw_only=True)
class Range(Knobs):
    """Numbers to search between, whole ones if both ends are written so."""

    low: Annotated[Any, "the lowest"]
    high: Annotated[Any, "the highest"]
    log: Annotated[bool, "whether orders of magnitude are searched evenly"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in (self.low, self.high):
            # Whole numbers beyond would not survive the search, which is done in floats.
            if isinstance(end, bool) or not isinstance(end, int | float) or not abs(end) < 1e15:
                raise ValueError("low and high must be numbers below 1e15")
        if self.low >= self.high:
            raise ValueError("high must be more than low")
        if self.log and self.low <= 0:
            raise ValueError("with log, low must be more than 0")
        if not (isinstance(self.low, int) and isinstance(self.high, int)):
            object.__setattr__(self, "low", float(self.low))
            object.__setattr__(self, "high", float(self.high))


Space = dict[str, list[Any] | Range]
"""dotted key of a recipe -> values to choose from"""


@dataclass(frozen=True, kw_only=True)
class Plan(Knobs):
    """Methods x seeds x corpora."""

    name: Annotated[str, "the folder's name, if not that of the file"]
    title: Annotated[str, "the page's heading"]
    recipes: Annotated[
        dict[str, Base],
        "the corpora: a list of recipes, or label = recipe and what to change in it",
    ]
    methods: Annotated[dict[str, Method], "what is compared: what each changes in the recipe"]
    overrides: Annotated[Values, "what all runs change in their recipe"] = field(
        default_factory=dict
    )
    seeds: Annotated[
        tuple[int, ...],
        "each method is trained with each; three or more, if you can",
        Within(0, LARGEST_SEED),
    ] = (1, 2, 3)
    baseline: Annotated[
        str, "what all methods are compared with; if not given, the first of them"
    ] = "plain"
    control: Annotated[
        str | None, "what methods are compared with besides, unless one `matches` them"
    ] = None
    primary: Annotated[
        str | None,
        "the method that the answer is about: its difference from the baseline, over all corpora, "
        "is not corrected; if not given, the first that weighs its samples",
    ] = None
    metric: Annotated[
        str, "what methods are compared by on the test set", Among("metrics.METRICS")
    ] = _METRIC
    metrics: Annotated[
        tuple[str, ...], "all that is scored, `metric` first", Among("metrics.METRICS")
    ] = ()
    tune: Annotated[
        dict[str, Space],
        "by method, what to try on the validation set: all combinations of lists, or, where there "
        "is a range, as many points as the budget has",
    ] = field(default_factory=dict)
    budget: Annotated[
        int, "combinations that each tuned method tries; 0: all", Within(0, 1_000_000)
    ] = 0
    choose: Annotated[
        str, "what tuning chooses by: `sentence-loss`, never weighted, or the name of a metric"
    ] = LOSS
    tuning_seeds: Annotated[
        int, "seeds that each combination is tried with; the mean over them decides", Within(1, 100)
    ] = 2
    published_only: Annotated[
        dict[str, Published], "rows of the paper that no method here makes"
    ] = field(default_factory=dict)
    view: Annotated[
        Literal["table", "samples", "sweep"],
        "what is looked at: scores; scores against samples seen; or over `at` of the methods",
    ] = "table"
    scale: Annotated[
        Scale, "`small` in the plan that a trial at small scale (`--small`) leaves in its folder"
    ] = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.recipes or not self.methods:
            raise BadPlan(f"{self.name}: a plan needs at least one recipe and one method")
        whole = Path(self.name).name == self.name and not self.name.startswith(".")
        if not self.name or not whole or not self.name.isprintable() or len(self.name) > 200:
            raise BadPlan(
                f"name is {knobs.shown(self.name)}; it names a folder, so it may have no /, "
                "nothing unprintable and no dot in front"
            )
        if not self.seeds:
            raise BadPlan("seeds is empty; give one or more, such as seeds=1,2,3")
        if len({*self.seeds}) < len(self.seeds):
            raise BadPlan(f"seeds are {list(self.seeds)}; they must be different")
        if self.choose == _LOSS:
            object.__setattr__(self, "choose", LOSS)
        self._check_names()
        self._check_overrides()
        budget = self._checked_budget()
        chosen_by = () if self.choose == LOSS else (self.choose,)
        # Derived, so that nobody has to look elsewhere.
        for key, value in {
            "budget": budget,
            "primary": self.primary or next(iter(self._candidates()), None),
            "metrics": tuple(dict.fromkeys((self.metric, *self.metrics, *chosen_by))),
        }.items():
            object.__setattr__(self, key, value)

    def _check_names(self) -> None:
        """Refuse names of methods, metrics and corpora that there are not."""
        asked: list[tuple[str, str | None, Iterable[str]]] = [
            ("baseline", self.baseline, self.methods),
            ("control", self.control, self.methods),
            ("choose", self.choose, [LOSS, *(name for name in metrics.METRICS if name != _LOSS)]),
            *((f"tune.{name}", name, self.methods) for name in self.tune),
        ]
        numbers = {f"published_only.{name}": row for name, row in self.published_only.items()}
        for name, method in self.methods.items():
            asked.append((f"methods.{name}.matches", method.matches, self.methods))
            numbers[f"methods.{name}.published"] = method.published
        for where, row in numbers.items():
            asked += [(where, label, self.recipes) for label in row]
            asked += [(where, metric, metrics.METRICS) for label in row for metric in row[label]]
        asked.append(("primary", self.primary, self._candidates()))
        for where, name_asked, known in asked:
            if name_asked is not None and name_asked not in known:
                meant = recipes.hint(name_asked, known)
                raise BadPlan(f"{where} names {name_asked!r}{meant}\nthere is: {', '.join(known)}")

    def _candidates(self) -> list[str]:
        """List what the primary contrast can be of: first the methods that weigh their samples."""
        controls = {self.baseline, self.control}
        asked = {
            name: any("weighting" in key.split(".") for key, _ in reading.dotted(method.overrides))
            for name, method in self.methods.items()
            if name not in controls and method.matches is None
        }
        return sorted(asked, key=lambda name: not asked[name])

    def _check_overrides(self) -> None:
        for where, overrides in self._all_overrides():
            for key in {k.split(".")[0] for k in overrides}:
                if key == "seed":
                    raise BadPlan(f"{where} sets seed; write seeds = [1, 2] for the whole plan")
                if key == "corpus" and where.startswith(("methods.", "tune.")):
                    raise BadPlan(f"{where} sets corpus; methods compare on one corpus")

    def _all_overrides(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "overrides", self.overrides
        yield from ((f"recipes.{name}", base.overrides) for name, base in self.recipes.items())
        yield from ((f"methods.{name}", method.overrides) for name, method in self.methods.items())
        yield from ((f"tune.{name}", space) for name, space in self.tune.items())

    def _checked_budget(self) -> int:
        """Return how many combinations each tuned method tries, which must be as many for all."""
        for name, method in self.methods.items():
            source = method.matches
            if source is not None and self.methods[source].matches is not None:
                raise BadPlan(f"methods.{name}.matches {source!r}, itself a control")
            if source is not None and name in self.tune:
                raise BadPlan(f"tune.{name}: it takes what {source!r} has")
        sizes = {}
        for name, space in self.tune.items():
            if not space:
                raise BadPlan(f"tune.{name} is empty; give values to try, or leave it out")
            if self.searched(name) and not self.budget:
                raise BadPlan(f"tune.{name} has a range; say how much to try, such as budget = 8")
            sizes[name] = self.budget if self.searched(name) else len(self.points(name))
        if len({*sizes.values()}) > 1:
            these = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise BadPlan(f"every tuned method must try as many combinations: {these}")
        budget = max(sizes.values(), default=0)
        if self.budget not in (0, budget):
            raise BadPlan(f"budget is {self.budget}, but tune has {budget} combinations a method")
        return budget

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
        return self.choose != LOSS and metrics.higher_is_better(self.choose)

    def ranked(self, score: float) -> float:
        """Return what tuning compares: all scores that are too near 0 to say anything are one."""
        return max(score, metrics.noise(self.choose))

    @property
    def chooses_by(self) -> str:
        """What tuning chooses by, in words."""
        what = f"{self.choose} on the validation set"
        if self.choose == LOSS:
            what = "validation loss in nats per sentence"
        count = self.tuning_seeds
        return f"{what}, mean of {count} seeds" if count > 1 else f"{what}, one seed"

    @staticmethod
    def load(
        plan: str,
        overrides: Sequence[str] = (),
        *,
        small: bool = False,
        rivals: bool = False,
    ) -> Plan:
        """Read a plan, a file or the name of a shipped one, and apply key=value overrides.

        `rivals` adds what the plan says under [rivals], such as further methods. `small` takes what
        it says under [small] in place of the rest.
        """
        try:
            names = shipped() if plan != OWN else [OWN]
            name, content = reading.source("plan", plan, _PACKAGE, names)
            knobs.check_keys(content, (*KEYS, "rivals") if plan == OWN else KEYS, "")
            further = _table(content.pop("rivals", {}), "rivals")
            content = _joined(content, further) if rivals else content
            less = content.pop("small", {})  # True in older plans that are at that scale already
            scale = content.pop("scale", "small" if less is True else "full")
            scaled = small and scale != "small"
            if scaled:
                if not less:
                    raise BadPlan(f"{name} has no small scale: write what differs under [small]")
                content, scale = _scaled(content, less), "small"
            # Taken before a change: numbers that the plan quotes stay those of its own metric.
            quoted = str(content.get("metric", _METRIC))
            changes = Changes()
            for one in overrides:
                key, value = reading.parted(one, "seeds=[1]")
                if (first := key.split(".")[0]) not in KEYS:
                    raise BadPlan(
                        f"there is no key {knobs.shown(key)} of a plan{knobs.hint(first, KEYS)}\n"
                        f"if it is a recipe's, write {knobs.shown(f'overrides.{one}')}"
                    )
                _assign(content, key, value)
                changes.add(key, value)
            if scaled:
                content["name"] = small_name(str(content.get("name", name)))
            made = parsed(name, content, scale, quoted)
            said = {label: changes.over(label, b.overrides) for label, b in made.recipes.items()}
            told = {label: replace(b, overrides=said[label]) for label, b in made.recipes.items()}
            return replace(made, recipes=told)
        except (knobs.BadKnob, recipes.BadRecipe) as error:
            raise BadPlan(str(error)) from None

    def as_toml(self) -> str:
        """Write the plan, at the scale it has, so that it is read back as it is.

        Tables are sections, below a comment that says what they are, for whoever edits them.
        """
        lines, sections = [], []
        for key, value in vars(self).items():
            if isinstance(value, dict):
                tables = {f"{key}.{key_of(name)}": one for name, one in value.items()}
                if key == "overrides" and value:  # which are values, not tables
                    tables = {key: value}
                sections += ["", *_comment(knobs.of(Plan)[key].meaning)] if tables else []
                for name, table in tables.items():
                    rows = _written(table).items()
                    sections += [f"[{name}]", *(f"{key_of(k)} = {literal(v)}" for k, v in rows)]
            elif value is not None:
                lines.append(f"{key} = {literal(value)}")
        return "\n".join([*lines, *sections]) + "\n"

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
        own = (name for name, other in self.methods.items() if other.matches == method)
        control = next(own, self.control)
        return None if control == method else control

    @property
    def untuned(self) -> list[str]:
        """The methods for which nothing is chosen: those without knobs get no budget."""
        return [name for name in self.methods if self.source(name) not in self.tune]

    def published(self, method: str, corpus: str, metric: str | None = None) -> float | None:
        """Return the number that the paper has, if it does."""
        row = self.published_only.get(method)
        if row is None:
            row = self.methods[method].published if method in self.methods else {}
        return row.get(corpus, {}).get(metric or self.metric)


KEYS = (*(knob.name for knob in fields(Plan)), "small")
"""what a plan's file may say; [small] says all but the last two"""


def small_name(name: str) -> str:
    """Return what a plan is called at its small scale: its folder is another one."""
    return f"{name}-small"


def shipped() -> list[str]:
    """List the plans that come with the package."""
    return [name for name in reading.shipped(_PACKAGE) if name != OWN]


def _assign(content: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key of a plan; what is below overrides is a recipe's key, and stays dotted."""
    parts = dotted.split(".")
    depth = {"overrides": 1, "recipes": 2, "methods": 2, "tune": 2}.get(parts[0], 0)
    here, rest = content, ".".join(parts[depth:])
    for part in parts[:depth]:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            raise BadPlan(f"{dotted}: {part} is {here!r}, not a table; write it out in a file")
    if not rest:
        raise BadPlan(f"{dotted} is a table; set a key of it")
    here.pop(rest, None)  # what is said last comes last
    here[rest] = value


def _joined(table: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with the keys of another one, and so on in the tables of both."""
    both = {key for key in more if isinstance(table.get(key), dict) and isinstance(more[key], dict)}
    return {**table, **more} | {key: _joined(table[key], more[key]) for key in both}


def _scaled(content: Mapping[str, Any], scale: Any) -> dict[str, Any]:
    """Return a plan at its small scale; published numbers are of another scale, and left out."""
    knobs.check_keys(_table(scale, "small"), KEYS[:-2], "small")
    merged = {**content, **scale}
    for key in ("overrides", "methods", "tune"):
        large, less = (_table(of.get(key, {}), key) for of in (content, scale))
        if key == "overrides":
            large, less = reading.spread(large), reading.spread(less)
        merged[key] = {**large, **less}
    merged["methods"] = {
        method: {key: value for key, value in _table(one, method).items() if key != "published"}
        for method, one in merged["methods"].items()
    }
    merged.pop("published_only", None)
    return merged


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadPlan(f"{where} is {knobs.shown(value)}; it must be a table of keys")
    return value


def parsed(
    name: str, content: Mapping[str, Any], scale: Scale = "full", quoted: str = _METRIC
) -> Plan:
    """Make a plan of what its file says; a mistake names its key.

    `quoted` is the metric of published numbers that do not say theirs.
    """
    try:
        return knobs.build(Plan, _formed({"name": name, **content, "scale": scale}, quoted))
    except (knobs.BadKnob, recipes.BadRecipe) as error:
        raise BadPlan(str(error)) from None


def _formed(given: dict[str, Any], quoted: str) -> dict[str, Any]:
    """Bring what a file says into the form of the schema."""
    if isinstance(given.get("seeds"), int | str):  # seeds=1 and seeds=1,2 on a command line
        given["seeds"] = reading.toml_value(f"[{given['seeds']}]")
    if isinstance(given.get("recipes"), list):
        names = [str(recipe) for recipe in given["recipes"]]
        given["recipes"] = {Path(n).stem if n.endswith(".toml") else n: n for n in names}
        if len(given["recipes"]) < len(names):
            raise BadPlan(f"recipes has two of the same name; give labels: {', '.join(names)}")

    def numbers(row: Any) -> Any:
        return _each(row, lambda _, one: one if isinstance(one, Mapping) else {quoted: one})

    forms: dict[str, Callable[[str, Any], Any]] = {
        "recipes": lambda _, one: _parted(Base, {"recipe": one} if isinstance(one, str) else one),
        "methods": lambda _, one: _parted(Method, one, published=numbers),
        "published_only": lambda _, row: numbers(row),
        "tune": lambda method, one: _space(f"tune.{method}", one),
    }
    for key, form in forms.items():
        given[key] = _each(given.get(key, {}), form)
    given["overrides"] = reading.spread(_table(given.get("overrides", {}), "overrides"))
    if isinstance(given["methods"], dict):
        given.setdefault("baseline", next(iter(given["methods"]), "plain"))
    return given


def _each(tables: Any, form: Callable[[str, Any], Any]) -> Any:
    """Bring the entries of a table into another form; what is no table its type will refuse."""
    if not isinstance(tables, Mapping):
        return tables
    return {name: form(name, one) for name, one in tables.items()}


def _parted(kind: type[Any], table: Any, **forms: Callable[[Any], Any]) -> Any:
    """Separate an entry's own keys, in the form of the schema, from its recipe overrides."""
    if not isinstance(table, Mapping):
        return table
    own = {knob.name for knob in fields(kind)} - {"overrides"}
    said = {key: forms.get(key, lambda one: one)(table[key]) for key in table if key in own}
    others = {key: value for key, value in table.items() if key not in own}
    return said | {"overrides": reading.spread(others)}


def _space(where: str, table: Any) -> Space:
    """Read what is tried: lists of values, and ranges."""
    space: Space = {}
    for key, value in reading.spread(_table(table, where), whole=("low", "high")).items():
        full = f"{where}.{key}"
        if isinstance(value, dict):
            space[key] = knobs.build(Range, value, full)
        elif isinstance(value, list) and value:
            space[key] = value
        else:
            raise BadPlan(f"{full} is {value!r}; it must be a list of values to try, or a range")
    return space


def _comment(meaning: str) -> list[str]:
    return textwrap.wrap(meaning, 100, initial_indent="# ", subsequent_indent="# ")


def _written(entry: Any) -> Any:
    """Return an entry as its table in a file: what it changes among its own keys."""
    if isinstance(entry, dict):
        return {key: _written(value) for key, value in entry.items()}
    if not isinstance(entry, Base | Method | Range):
        return entry
    said = {key: value for key, value in vars(entry).items() if value not in (None, {})}
    if "matches" not in said:
        said.pop("kind", None)
    overrides = said.pop("overrides", {})
    return said | overrides
