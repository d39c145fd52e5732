"""TOML and key=value to a dataclass of choices, every key and type checked."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

from augless import knobs
from augless.knobs import hint

__all__ = ["BadRecipe", "Resolved", "hint", "read", "resolve", "shipped"]

Kind = TypeVar("Kind")
LARGEST = 1 << 20  # bytes of a recipe
DEEPEST = 16  # tables within tables that a recipe may have


class BadRecipe(ValueError):  # noqa: N818  # named for what it is
    """A recipe that cannot be followed: which key, why, and what to write instead."""


@dataclass(frozen=True)
class Resolved(Generic[Kind]):
    """A recipe with its name, and where each of its values came from."""

    name: str
    recipe: Kind
    origins: dict[str, tuple[Any, str]]
    """dotted key -> (value, "default" | "recipe" | "command line" | why it was suggested)"""

    @property
    def values(self) -> dict[str, Any]:
        """The recipe as JSON: dotted key -> value."""
        return {key: _plain(value) for key, (value, _) in self.origins.items()}

    @property
    def suggested(self) -> dict[str, Any]:
        """What nobody gave and the corpus decided: dotted key -> value."""
        known = ("default", "recipe", "command line")
        return {key: value for key, (value, origin) in self.origins.items() if origin not in known}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all values: two recipes with the same one are the same."""
        return hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()


def shipped() -> list[str]:
    """List the recipes that come with the package."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _folder().iterdir()
        if entry.name.endswith(".toml")
    )


@dataclass(frozen=True)
class Suggestion:
    """A value for a key that a recipe leaves open."""

    key: str
    value: Any
    reason: str


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
    name, values = _read(recipe)
    origins: dict[str, str] = dict.fromkeys(_dotted(values), "recipe")
    values, given = override(values, overrides)
    for key in given:  # what it replaces was said by nobody
        gone = [k for k in origins if f"{k.removesuffix('.name')}.".startswith(f"{key}.")]
        origins = {k: v for k, v in origins.items() if k not in gone} | {key: "command line"}
    try:
        knobs.check_keys(values, [*knobs.of(kind), *others], "")
    except knobs.BadKnob as error:
        raise BadRecipe(str(error)) from None
    for one in suggest(values):
        if one.key.split(".")[0] not in others:
            _assign(values, one.key.split("."), one.value)
            origins[one.key] = one.reason
    return resolve(kind, name, {k: v for k, v in values.items() if k not in others}, origins)


def override(values: dict[str, Any], overrides: Changes) -> tuple[dict[str, Any], list[str]]:
    """Return values with changes applied, and their keys."""
    found, keys = copy.deepcopy(values), []
    if any(one.startswith("terms.") for one in overrides):
        found.setdefault("terms", [{}])  # the default, so that another can follow it
    given = overrides.items() if isinstance(overrides, Mapping) else map(_parted, overrides)
    for key, value in given:
        _assign(found, key.split("."), value)
        keys.append(key)
    return found, keys


def _parted(one: str) -> tuple[str, Any]:
    key, equals, value = one.partition("=")
    if not equals or not key:
        raise BadRecipe(f"{knobs.shown(one)} is not key=value, such as text.lowercase=true")
    return key, toml_value(value)


def spread(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return tables within tables as dotted keys; a table with a name is a choice, and whole."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "name" not in value:
            found |= spread(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def written_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Return key=value overrides as dotted keys and values."""
    return {key: toml_value(value) for key, _, value in (one.partition("=") for one in overrides)}


def resolve(
    kind: type[Kind], name: str, values: Mapping[str, Any], origins: Mapping[str, str]
) -> Resolved[Kind]:
    """Build a recipe from its values, and say where each came from."""
    try:
        built = knobs.build(kind, values)
    except knobs.BadKnob as error:
        raise BadRecipe(str(error)) from None
    found = {}
    for key, value in flat(built):
        # A value may have been given by the name of the choice around it, or as a whole table.
        parts = key.removesuffix(".name").split(".")
        owners = [key, *(".".join(parts[:n]) for n in range(len(parts), 0, -1))]
        exact = next((k for k in owners[:2] if k in origins), None)
        whole = next((k for k in owners if origins.get(k) == "command line"), None)
        given = exact or (whole if whole and _mentions(values, key) else None)
        found[key] = (value, origins[given] if given else "default")
    return Resolved(name, built, found)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys and values as tables within tables."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        _assign(found, key.split("."), value)
    return found


def _read(recipe: str) -> tuple[str, dict[str, Any]]:
    path = Path(recipe)
    if path.suffix == ".toml" or path.is_file():
        try:
            return path.stem, toml(_content(path).decode("utf-8"))
        except FileNotFoundError:
            raise BadRecipe(f"there is no recipe file {recipe}") from None
        except ValueError as error:
            raise BadRecipe(f"{recipe} is not TOML: {error}") from None
    if recipe not in shipped():
        raise BadRecipe(
            f"there is no recipe {knobs.shown(recipe)}{hint(recipe, shipped())}\n"
            f"give a .toml file or one of: {', '.join(shipped())}"
        )
    content = (_folder() / f"{recipe}.toml").read_text("utf-8")
    return recipe, tomllib.loads(content)


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


def _dotted(values: Any, prefix: str = "") -> list[str]:
    found = []
    entries = enumerate(values) if isinstance(values, list) else values.items()
    for key, value in entries:
        inner = isinstance(value, Mapping) or (
            isinstance(value, list) and any(isinstance(one, Mapping) for one in value)
        )
        found += _dotted(value, f"{prefix}{key}.") if inner else [f"{prefix}{key}"]
    return found


def _mentions(values: Any, dotted: str) -> bool:
    """Tell whether a dotted key was written, at whatever depth."""
    return dotted.removesuffix(".name") in {k.removesuffix(".name") for k in _dotted(values)}


def flat(built: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten a recipe into dotted keys and values, choices with their names."""
    found: list[tuple[str, Any]] = []
    known = knobs.of(type(built))
    for knob in dataclasses.fields(built):
        value, key = getattr(built, knob.name), prefix + knob.name
        if isinstance(value, tuple) and any(dataclasses.is_dataclass(one) for one in value):
            for i, one in enumerate(value):
                found += flat(one, f"{key}.{i}.")
        elif dataclasses.is_dataclass(value):
            choices = among.choices if (among := known[knob.name].among) else {}
            found += [(f"{key}.name", n) for n, kind in choices.items() if kind is type(value)]
            found += flat(value, f"{key}.")
        else:
            found.append((key, value))
    return found


def changed(built: Any, prefix: str = "") -> set[str]:
    """Return the dotted keys of the values that are not a knob's default, and of all names."""
    found = set()
    for knob in dataclasses.fields(built):
        value, key = getattr(built, knob.name), prefix + knob.name
        if isinstance(value, tuple) and any(dataclasses.is_dataclass(one) for one in value):
            found |= {k for i, one in enumerate(value) for k in changed(one, f"{key}.{i}.")}
        elif dataclasses.is_dataclass(value):
            found |= {f"{key}.name", *changed(value, f"{key}.")}
        elif value != knob.default:
            found.add(key)
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise BadRecipe(f"{path} has more than {LARGEST:,} bytes; that is no recipe")
    return content


def _folder() -> Any:
    return resources.files("augless.recipes")
