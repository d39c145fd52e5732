"""TOML and key=value to a dataclass of choices, every key and type checked."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from augless import knobs
from augless.knobs import hint

__all__ = ["BadRecipe", "Resolved", "hint", "read", "resolve", "shipped"]

Kind = TypeVar("Kind")
_PACKAGE = "augless.recipes"
LARGEST = 1 << 20  # bytes of a recipe
DEEPEST = 16  # tables within tables that a recipe may have


class BadRecipe(ValueError):  # noqa: N818  # named for what it is
    """A recipe that cannot be followed: which key, why, and what to write instead."""


@dataclass(frozen=True)
class Suggestion:
    """A value for a key that a recipe leaves open."""

    key: str
    value: Any
    reason: str

    def __str__(self) -> str:
        """Say why."""
        return self.reason


Origin = Literal["default", "recipe", "command line", "reverse"] | Suggestion
"""who said a value; "reverse": a model that translates back needs it so"""


@dataclass(frozen=True)
class Resolved(Generic[Kind]):
    """A recipe with its name, and where each of its values came from."""

    name: str
    recipe: Kind
    origins: dict[str, tuple[Any, Origin]]
    """dotted key -> value, and who said it"""

    def __repr__(self) -> str:
        return f"Resolved({self.name!r}, {len(self.origins)} values)"

    @property
    def values(self) -> dict[str, Any]:
        """The recipe as JSON: dotted key -> value."""
        return {key: _plain(value) for key, (value, _) in self.origins.items()}

    @property
    def suggestions(self) -> list[Suggestion]:
        """What nobody gave and the corpus decided."""
        return [by for _, by in self.origins.values() if isinstance(by, Suggestion)]


def shipped(package: str = _PACKAGE) -> list[str]:
    """List the recipes that come with the package, or the plans of another one."""
    names = (entry.name for entry in resources.files(package).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


Suggest = Callable[[Mapping[str, Any]], Iterable[Suggestion]]
Changes = Sequence[str] | Mapping[str, Any]
"""key=value, as on a command line, or dotted keys and their values"""


def read(
    kind: type[Kind],
    recipe: str,
    overrides: Changes,
    others: Sequence[str],
    suggest: Suggest = lambda values: (),
) -> Resolved[Kind]:
    """Read a recipe, a file or the name of a shipped one, as a kind of recipe.

    `others` are top-level keys that may be there and are left alone. `suggest` is given the values
    so far, and fills in what they leave open.
    """
    name, values = source("recipe", recipe, _PACKAGE, shipped())
    values, origins = override(values, overrides)
    try:
        knobs.check_keys(values, [*knobs.of(kind), *others], "")
    except knobs.BadKnob as error:
        raise BadRecipe(str(error)) from None
    for one in suggest(values):
        if one.key.split(".")[0] not in others:
            _assign(values, one.key.split("."), one.value)
            _assign(origins, one.key.split("."), one)
    kept = {key: value for key, value in values.items() if key not in others}
    return resolve(kind, name, kept, dict(dotted(origins)))


def override(
    values: Mapping[str, Any], overrides: Changes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values with changes applied, and, in the same form, who said each."""
    changed, origins = copy.deepcopy(dict(values)), _marked(values, "recipe")
    if any(one.startswith("terms.") for one in overrides):
        for table in (changed, origins):
            table.setdefault("terms", [{}])  # the default, so that another can follow it
    given = overrides.items() if isinstance(overrides, Mapping) else map(parted, overrides)
    for key, value in given:
        _assign(changed, key.split("."), value)
        _assign(origins, key.split("."), _marked(value, "command line"))
    return changed, origins


def _marked(value: Any, origin: Origin) -> Any:
    """Return tables within tables with their origin in place of each value."""
    if isinstance(value, Mapping):
        return {key: _marked(inner, origin) for key, inner in value.items()}
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return [_marked(inner, origin) for inner in value]
    return origin


def parted(one: str, example: str = "text.lowercase=true") -> tuple[str, Any]:
    """Return the key and the value of key=value."""
    key, equals, value = one.partition("=")
    if not equals or not key:
        raise BadRecipe(f"{knobs.shown(one)} is not key=value, such as {example}")
    return key, toml_value(value)


def spread(table: Mapping[str, Any], *, whole: Sequence[str] = ("name",)) -> dict[str, Any]:
    """Return tables within tables as dotted keys; one with a key of `whole` stays as it is.

    A table with a name is a choice, and takes the place of all that a recipe says of it.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not any(name in value for name in whole):
            inner = spread(value, whole=whole)
            values |= {f"{key}.{rest}": one for rest, one in inner.items()}
        else:
            values[key] = value
    return values


def resolve(
    kind: type[Kind], name: str, values: Mapping[str, Any], origins: Mapping[str, Origin]
) -> Resolved[Kind]:
    """Build a recipe from its values, and say where each came from."""
    try:
        built = knobs.build(kind, values)
    except knobs.BadKnob as error:
        raise BadRecipe(str(error)) from None
    return Resolved(name, built, {k: (value, _origin(origins, k)) for k, value in flat(built)})


def _origin(origins: Mapping[str, Origin], key: str) -> Origin:
    """Tell who said a value: by its key, as the name of a choice, or as a table."""
    keys = (key, key.removesuffix(".name"), *(k for k in origins if k.startswith(f"{key}.")))
    return next((origins[k] for k in keys if k in origins), "default")


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys and values as tables within tables."""
    tables: dict[str, Any] = {}
    for key, value in values.items():
        _assign(tables, key.split("."), value)
    return tables


def source(what: str, given: str, package: str, names: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the name and content of a TOML file, or of one of these that come with a package."""
    path = Path(given)
    if path.suffix == ".toml" or path.is_file():
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except FileNotFoundError:
            raise BadRecipe(f"there is no {what} file {given}") from None
        if len(content) > LARGEST:
            raise BadRecipe(f"{path} has more than {LARGEST:,} bytes; that is no {what}")
        try:
            return path.stem, toml(content.decode("utf-8"))
        except ValueError as error:
            raise BadRecipe(f"{given} is not TOML: {error}") from None
    if given not in names:
        raise BadRecipe(
            f"there is no {what} {knobs.shown(given)}{hint(given, names)}\n"
            f"give a .toml file or one of: {', '.join(names)}"
        )
    content = (resources.files(package) / f"{given}.toml").read_bytes()
    return given, tomllib.loads(content.decode("utf-8"))


def toml(written: str) -> dict[str, Any]:
    """Read TOML; raise `ValueError` for whatever is wrong with it, also with its depth or size."""
    try:
        values = tomllib.loads(written)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _depth(values) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return values


def toml_value(written: str) -> Any:
    """Read the value of key=value as TOML, or else as the string it is."""
    try:
        values = toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return written
    except ValueError as error:
        raise BadRecipe(f"{knobs.shown(written)}: {error}") from None
    return values["value"] if values.keys() == {"value"} else written


def _depth(values: Any) -> int:
    """Return how deep tables and lists lie within each other."""
    depth, level = 0, [values]
    while level:
        depth += 1
        inner = (one.values() if isinstance(one, Mapping) else one for one in level)
        level = [v for one in inner for v in one if isinstance(v, Mapping | list)]
    return depth


def _assign(values: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a dotted key; a choice given by name becomes a table to hold its knobs."""
    if len(keys) > DEEPEST:
        raise BadRecipe(f"{knobs.shown('.'.join(keys))} is nested more than {DEEPEST} deep")
    here: Any = values
    for key, following in itertools.pairwise(keys):
        fresh: Any = [] if _is_place(following) else {}
        inner = _entry(here, key, fresh, keys)
        if not isinstance(inner, dict | list):
            inner = {"name": inner}
            here[int(key) if isinstance(here, list) else key] = inner
        here = inner
    _entry(here, keys[-1], None, keys)
    here[int(keys[-1]) if isinstance(here, list) else keys[-1]] = value


def _entry(here: Any, key: str, fresh: Any, keys: list[str]) -> Any:
    """Return the entry of a table or a list; make it if it is new, and if it is next in a list."""
    if isinstance(here, dict):
        return here.setdefault(key, fresh)
    if not _is_place(key) or int(key) > len(here):
        full = knobs.shown(".".join(keys))
        raise BadRecipe(f"{full}: {key[:20]!r} is not a place in a list of {len(here)}")
    if int(key) == len(here):
        here.append(fresh)
    return here[int(key)]


def _is_place(key: str) -> bool:
    """Tell whether a key counts places of a list; ² is a digit too, but no number."""
    return key.isascii() and key.isdecimal() and len(key) < 10


def dotted(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of tables within tables, and their values."""
    for key, value in enumerate(values) if isinstance(values, list) else values.items():
        if isinstance(value, dict | list):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _leaves(built: Any, prefix: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Yield a recipe's dotted keys, their values, and whether each is other than the default."""
    for name, knob in knobs.of(type(built)).items():
        value, key = getattr(built, name), prefix + name
        if isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
            for place, one in enumerate(value):
                yield from _leaves(one, f"{key}.{place}.")
        elif dataclasses.is_dataclass(value):
            choices = knob.among.choices if knob.among else {}
            names = (name for name, kind in choices.items() if kind is type(value))
            yield from ((f"{key}.name", name, True) for name in names)
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value, value != knob.field.default


def flat(built: Any) -> list[tuple[str, Any]]:
    """Flatten a recipe into dotted keys and values, choices with their names."""
    return [(key, value) for key, value, _ in _leaves(built)]


def changed(built: Any) -> set[str]:
    """Return the dotted keys of the values that are not a knob's default, and of all names."""
    return {key for key, _, differs in _leaves(built) if differs}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
