"""TOML and key=value to a dataclass of choices, every key and type checked."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import hashlib
import importlib
import itertools
import json
import math
import operator
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import pydantic

Kind = TypeVar("Kind")
Table = Mapping[str, type[Any]]

# The tables that a field's choices are listed in, by the field's name; loaded when needed, because
# those with models and losses in them bring torch.
TABLES = {
    "corpus": "corpora.CORPORA",
    "vocabulary": "text.VOCABULARIES",
    "model": "models.MODELS",
    "loss": "losses.LOSSES",
    "weighting": "polar.WEIGHTINGS",
    "augment": "augmentation.AUGMENTERS",
    "of": "polar.WEIGHTINGS",
    "optimizer": "training.OPTIMIZERS",
    "search": "decoding.SEARCHES",
    "validation": "decoding.SEARCHES",
}


@functools.cache
def table(field: str) -> Table:
    """Return the choices of a field; none if it is not a choice."""
    if field not in TABLES:
        return {}
    module, name = TABLES[field].split(".")
    found: Table = getattr(importlib.import_module(f"augless.{module}"), name)
    return found


class BadRecipe(ValueError):  # noqa: N818  # named for what it is
    """A recipe that cannot be followed: which key, why, and what to write instead."""


@dataclass(frozen=True)
class Resolved(Generic[Kind]):
    """A recipe with its name, and where each of its values came from."""

    name: str
    recipe: Kind
    origins: dict[str, tuple[Any, str]]
    """dotted key -> (value, "default" | "recipe" | "command line")"""

    @property
    def values(self) -> dict[str, Any]:
        """The recipe as JSON: dotted key -> value."""
        return {key: _plain(value) for key, (value, _) in self.origins.items()}

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


def read(
    kind: type[Kind], recipe: str, overrides: Sequence[str], others: Sequence[str]
) -> Resolved[Kind]:
    """Read a recipe, a file or the name of a shipped one, as a kind of recipe.

    `others` are top-level keys that may be there and are left alone.
    """
    name, values = _read(recipe)
    origins: dict[str, str] = dict.fromkeys(_dotted(values), "recipe")
    values, given = override(values, overrides)
    for key in given:  # what it replaces was said by nobody
        gone = [k for k in origins if f"{k.removesuffix('.name')}.".startswith(f"{key}.")]
        origins = {k: v for k, v in origins.items() if k not in gone} | {key: "command line"}
    knobs = dataclasses.fields(kind)  # type: ignore[arg-type]  # whatever kind it is
    known = [*(knob.name for knob in knobs), *others]
    _check_keys(values, known, "")
    return resolve(kind, name, {k: v for k, v in values.items() if k not in others}, origins)


def override(values: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return values with key=value overrides applied, and their keys."""
    found, keys = copy.deepcopy(values), []
    if any(one.startswith("terms.") for one in overrides):
        found.setdefault("terms", [{}])  # the default, so that another can follow it
    for one in overrides:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise BadRecipe(f"{one!r} is not key=value, such as text.lowercase=true")
        _assign(found, key.split("."), toml_value(value))
        keys.append(key)
    return found, keys


def written_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Return key=value overrides as dotted keys and values."""
    return {key: toml_value(value) for key, _, value in (one.partition("=") for one in overrides)}


def resolve(
    kind: type[Kind], name: str, values: Mapping[str, Any], origins: Mapping[str, str]
) -> Resolved[Kind]:
    """Build a recipe from its values, and say where each came from."""
    built = _build(kind, values, "")
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
            return path.stem, tomllib.loads(path.read_bytes().decode("utf-8"))
        except FileNotFoundError:
            raise BadRecipe(f"there is no recipe file {recipe}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadRecipe(f"{recipe} is not TOML: {error}") from None
    if recipe not in shipped():
        raise BadRecipe(
            f"there is no recipe {recipe!r}{hint(recipe, shipped())}\n"
            f"give a .toml file or one of: {', '.join(shipped())}"
        )
    content = (_folder() / f"{recipe}.toml").read_text("utf-8")
    return recipe, tomllib.loads(content)


def _build(kind: type[Any], values: Any, where: str) -> Any:
    """Build a dataclass from a table of values, every key and type checked."""
    if not isinstance(values, Mapping):
        raise BadRecipe(f"{where or 'the recipe'} must be a table of keys, not {values!r}")
    knobs = {f.name: f for f in dataclasses.fields(kind)}
    _check_keys(values, knobs, where)
    hints = get_type_hints(kind, include_extras=False)
    built = {}
    for key, value in values.items():
        full = f"{where}.{key}" if where else key
        built[key] = _convert(hints[key], value, knobs[key], full)
    for key, knob in knobs.items():
        needed = knob.default is dataclasses.MISSING and knob.default_factory is dataclasses.MISSING
        if needed and key not in built:
            full = f"{where}.{key}" if where else key
            raise BadRecipe(f"{full} is not given; write {full}=... ({_meaning(kind, key)})")
    try:
        return kind(**built)
    except (ValueError, TypeError) as error:
        raise BadRecipe(f"{where or 'the recipe'}: {error}") from None


def _check_keys(values: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in values:
        if key not in (these := list(known)):
            full = f"{where}.{key}" if where else key
            have = ", ".join(these)
            raise BadRecipe(f"there is no key {full!r}{hint(key, these)}\nit can have: {have}")


def _convert(wanted: Any, value: Any, knob: dataclasses.Field[Any], where: str) -> Any:
    if knob.name in TABLES and wanted is not str:  # such as the model of masked-lm, a name
        return _choose(table(knob.name), value, knob, where)
    inner = get_args(wanted)[0] if get_origin(wanted) is tuple else None
    if inner is not None and dataclasses.is_dataclass(inner):
        if not isinstance(value, list):
            raise BadRecipe(f"{where} must be a list of tables, as in [[{where}]], not {value!r}")
        kind: type[Any] = inner  # type: ignore[assignment]  # a class, not an instance
        return tuple(_build(kind, one, f"{where}.{i}") for i, one in enumerate(value))
    if dataclasses.is_dataclass(wanted):
        return _build(wanted, value, where)  # type: ignore[arg-type]  # a class, not an instance
    if isinstance(value, str) and "tuple" in str(wanted):
        value = value.split(",")  # on a command line, a.de,a.en is kinder than ["a.de", "a.en"]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (wanted is str or "Path" in str(wanted)):
        value = str(value)  # a folder called 2014
    numbers = {int, float} & {wanted, *get_args(wanted)}
    if isinstance(value, bool) and numbers and bool not in get_args(wanted):
        raise BadRecipe(f"{where} is {str(value).lower()}: it must be a number")
    if isinstance(wanted, UnionType):  # what only Python can give, such as neighbours, is left out
        kinds = [one for one in get_args(wanted) if not dataclasses.is_dataclass(one)]
        wanted = functools.reduce(operator.or_, kinds)
    try:
        return pydantic.TypeAdapter(wanted).validate_python(value, strict=False)
    except pydantic.ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise BadRecipe(f"{where} is {value!r}: {reason[0].lower()}{reason[1:]}") from None


def _choose(choices: Table, value: Any, knob: dataclasses.Field[Any], where: str) -> Any:
    """Build the component that a name, or a table with a name and knobs, stands for."""
    knobs = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = knobs.pop("name", None)
    if name is None and knob.default_factory is not dataclasses.MISSING:  # knobs of the default
        default = type(knob.default_factory())
        name = next(name for name, kind in choices.items() if kind is default)
    if not isinstance(name, str) or name not in choices:
        meant = hint(str(name), choices)
        raise BadRecipe(f"{where} is {name!r}{meant}\nit can be: {', '.join(choices)}")
    return _build(choices[name], knobs, where)


def hint(word: str, known: Iterable[str]) -> str:
    """Suggest what a misspelt word was meant to be."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _meaning(kind: type[Any], key: str) -> str:
    wanted = get_type_hints(kind, include_extras=True)[key]
    return next((m for m in getattr(wanted, "__metadata__", ()) if isinstance(m, str)), key)


def toml_value(written: str) -> Any:
    """Read the value of key=value as TOML, or else as the string it is."""
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


def _assign(values: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a dotted key; a choice given by name becomes a table to hold its knobs."""
    here: Any = values
    for key, following in itertools.pairwise(keys):
        fresh: Any = [] if following.isdigit() else {}
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
    full = ".".join(keys)
    if not key.isdigit() or int(key) > len(here):
        raise BadRecipe(f"{full}: {key!r} is not a place in a list of {len(here)}")
    if int(key) == len(here):
        here.append(fresh)
    return here[int(key)]


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
    for knob in dataclasses.fields(built):
        value, key = getattr(built, knob.name), prefix + knob.name
        if isinstance(value, tuple) and any(dataclasses.is_dataclass(one) for one in value):
            for i, one in enumerate(value):
                found += flat(one, f"{key}.{i}.")
        elif dataclasses.is_dataclass(value):
            choices = table(knob.name)
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
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _folder() -> Any:
    return resources.files("augless.recipes")
