"""One typed recipe: every choice by name, checked before any work starts.

A recipe is TOML that says only what differs from the defaults. A choice (a corpus, a vocabulary) is
a name or a table with a name and knobs; the knobs are the fields of the component's dataclass, so
a component's own file is the only place where its knobs, defaults and meanings are written.
Precedence: defaults < recipe < key=value.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pydantic

from augless import corpora, data, text

Table = Mapping[str, type[Any]]

# The tables that a field's choices are listed in, by the field's name.
TABLES: dict[str, Table] = {"corpus": corpora.CORPORA, "vocabulary": text.VOCABULARIES}


class BadRecipe(ValueError):  # noqa: N818  # named for what it is
    """A recipe that cannot be followed: which key, why, and what to write instead."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a run."""

    corpus: Annotated[corpora.Corpus, "which pairs"]
    text: Annotated[data.Settings, "how text becomes ids"] = field(default_factory=data.Settings)


@dataclass(frozen=True)
class Resolved:
    """A recipe with its name, and where each of its values came from."""

    name: str
    recipe: Recipe
    origins: dict[str, tuple[Any, str]]
    """dotted key -> (value, "default" | "recipe" | "command line")"""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all values: two recipes with the same one are the same."""
        values = {key: str(value) for key, (value, _) in sorted(self.origins.items())}
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def shipped() -> list[str]:
    """List the recipes that come with the package."""
    folder = resources.files(__name__)
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load(recipe: str, overrides: Sequence[str] = ()) -> Resolved:
    """Read a recipe, a file or the name of a shipped one, and apply key=value overrides."""
    name, values = _read(recipe)
    origins: dict[str, str] = dict.fromkeys(_dotted(values), "recipe")
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            raise BadRecipe(f"{override!r} is not key=value, such as text.lowercase=true")
        _assign(values, key.split("."), _value(value))
        origins |= dict.fromkeys([key], "command line")
    built = _build(Recipe, values, "")
    found = {}
    for key, value in _fields(built):
        owner = next((k for k in (key, key.removesuffix(".name")) if k in origins), None)
        found[key] = (value, origins[owner] if owner else "default")
    return Resolved(name, built, found)


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
            f"there is no recipe {recipe!r}{_hint(recipe, shipped())}\n"
            f"give a .toml file or one of: {', '.join(shipped())}"
        )
    content = (resources.files(__name__) / f"{recipe}.toml").read_text("utf-8")
    return recipe, tomllib.loads(content)


def _build(kind: type[Any], values: Any, where: str) -> Any:
    """Build a dataclass from a table of values, every key and type checked."""
    if not isinstance(values, Mapping):
        raise BadRecipe(f"{where or 'the recipe'} must be a table of keys, not {values!r}")
    knobs = {f.name: f for f in dataclasses.fields(kind)}
    for key in values:
        if key not in knobs:
            full = f"{where}.{key}" if where else key
            these = ", ".join(knobs)
            raise BadRecipe(f"there is no key {full!r}{_hint(key, knobs)}\nit can have: {these}")
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


def _convert(hint: Any, value: Any, knob: dataclasses.Field[Any], where: str) -> Any:
    if knob.name in TABLES:
        return _choose(TABLES[knob.name], value, knob, where)
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]  # a class, not an instance
    if isinstance(value, str) and "tuple" in str(hint):
        value = value.split(",")  # on a command line, a.de,a.en is kinder than ["a.de", "a.en"]
    if isinstance(value, int | float) and not isinstance(value, bool) and "Path" in str(hint):
        value = str(value)  # a folder called 2014
    try:
        return pydantic.TypeAdapter(hint).validate_python(value, strict=False)
    except pydantic.ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise BadRecipe(f"{where} is {value!r}: {reason[0].lower()}{reason[1:]}") from None


def _choose(table: Table, value: Any, knob: dataclasses.Field[Any], where: str) -> Any:
    """Build the component that a name, or a table with a name and knobs, stands for."""
    knobs = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = knobs.pop("name", None)
    if name is None and knob.default_factory is not dataclasses.MISSING:  # knobs of the default
        default = type(knob.default_factory())
        name = next(name for name, kind in table.items() if kind is default)
    if not isinstance(name, str) or name not in table:
        hint = _hint(str(name), table)
        raise BadRecipe(f"{where} is {name!r}{hint}\nit can be: {', '.join(table)}")
    return _build(table[name], knobs, where)


def _hint(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _meaning(kind: type[Any], key: str) -> str:
    hint = get_type_hints(kind, include_extras=True)[key]
    return next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, str)), key)


def _value(written: str) -> Any:
    """Read the value of key=value as TOML, or else as the string it is."""
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


def _assign(values: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a dotted key; a choice given by name becomes a table to hold its knobs."""
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = values[key] = {"name": inner}
        values = inner
    values[keys[-1]] = value


def _dotted(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        found += _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [prefix + key]
    return found


def _fields(built: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten a recipe into dotted keys and values, choices with their names."""
    found: list[tuple[str, Any]] = []
    for knob in dataclasses.fields(built):
        value, key = getattr(built, knob.name), prefix + knob.name
        if dataclasses.is_dataclass(value):
            table = TABLES.get(knob.name, {})
            found += [(f"{key}.name", n) for n, kind in table.items() if kind is type(value)]
            found += _fields(value, f"{key}.")
        else:
            found.append((key, value))
    return found
