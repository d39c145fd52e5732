"""A knob's type, meaning and limits on one line, checked wherever it is set.

    radius: Annotated[float, "how far neighbours lie", Within(1e-6, 1e6)] = 1.0

The fields of a dataclass that derives from `Knobs` are checked when an instance is made, in Python
or from a file. `build` makes one from plain values, as TOML and JSON have them; a choice among
several kinds says in which table they are listed: `Annotated[Loss, "...", Among("losses.LOSSES")]`.
What files say that no user wrote is checked by `schemas`.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")

LARGEST_SEED = 2**63 - 1


class BadKnob(ValueError):  # noqa: N818  # named for what it is
    """A value that a knob cannot have: which knob, and what it can be."""


@dataclass(frozen=True)
class Above:
    """A number greater than a bound."""

    bound: float

    def __call__(self, value: float) -> bool:
        """Tell whether a number keeps the limit."""
        return value > self.bound

    def __str__(self) -> str:
        return f"above {_spelt(self.bound)}"


@dataclass(frozen=True)
class AtLeast(Above):
    """A number not smaller than a bound."""

    def __call__(self, value: float) -> bool:
        """Tell whether a number keeps the limit."""
        return value >= self.bound

    def __str__(self) -> str:
        return f"at least {_spelt(self.bound)}"


@dataclass(frozen=True)
class Below:
    """A number smaller than a bound."""

    bound: float

    def __call__(self, value: float) -> bool:
        """Tell whether a number keeps the limit."""
        return value < self.bound

    def __str__(self) -> str:
        return f"below {_spelt(self.bound)}"


@dataclass(frozen=True)
class AtMost(Below):
    """A number not greater than a bound."""

    def __call__(self, value: float) -> bool:
        """Tell whether a number keeps the limit."""
        return value <= self.bound

    def __str__(self) -> str:
        return f"at most {_spelt(self.bound)}"


@dataclass(frozen=True)
class Within:
    """A number between two bounds, or one of them; infinite only if a bound is."""

    low: float
    high: float

    def __call__(self, value: float) -> bool:
        """Tell whether a number keeps the limit."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        endless = self.high > sys.float_info.max
        return (
            str(AtLeast(self.low)) if endless else f"from {_spelt(self.low)} to {_spelt(self.high)}"
        )


Limit = Above | Below | Within


class UnknownName(KeyError):  # noqa: N818  # named for what it is
    """A name that a table of choices does not list."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError's would be quoted


class Choices(dict[str, Any]):
    """A table of choices, name -> kind; says what it lists when asked for another name."""

    def __missing__(self, name: object) -> Any:
        meant = hint(name, self) if isinstance(name, str) else ""
        raise UnknownName(f"there is no {shown(name)}{meant}; it can be: {', '.join(self)}")


@dataclass(frozen=True)
class Among:
    """The table that lists what can be chosen, such as `polar.WEIGHTINGS`; loaded when needed."""

    table: str

    @property
    def choices(self) -> Mapping[str, Any]:
        """The table: name -> what it stands for."""
        module, name = self.table.split(".")
        table: Mapping[str, Any] = getattr(importlib.import_module(f"augless.{module}"), name)
        return table


@dataclass(frozen=True)
class Knob:
    """What is written on a knob's line."""

    name: str
    kind: Any
    meaning: str
    limits: tuple[Limit, ...]
    among: Among | None
    field: dataclasses.Field[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it can have, or a list of them, if it is no more than that."""
        if self.among is None or self.kind not in (str, tuple[str, ...]):
            return ()
        return tuple(self.among.choices)

    @property
    def wanted(self) -> str:
        """What its value must be, in words."""
        if self.names:
            return f"{'one' if self.kind is str else 'some'} of {', '.join(self.names)}"
        return _wanted(self.kind, self.limits)

    @property
    def needed(self) -> bool:
        """Tell whether it has no default."""
        missing = dataclasses.MISSING
        return self.field.default is missing and self.field.default_factory is missing

    def check(self, value: Any, where: str, given: Any = None) -> None:
        """Refuse a value of another type, or beyond the limits; say what was given for it."""
        fits, meant = _fits(self.kind, value, self.limits), ""
        if fits and self.names:
            unknown = {*((value,) if isinstance(value, str) else value)} - {*self.names}
            fits, meant = not unknown, "".join(hint(name, self.names) for name in sorted(unknown))
        if not fits:
            said = shown(value if given is None else given)
            raise BadKnob(f"{where} is {said}; it must be {self.wanted}{meant}")


_known: dict[type[Any], dict[str, Knob]] = {}


def of(kind: type[Any]) -> dict[str, Knob]:
    """Return the knobs of a dataclass by name."""
    if kind not in _known:
        _known[kind] = _read(kind)
    return _known[kind]


def _read(kind: type[Any]) -> dict[str, Knob]:
    hints = get_type_hints(kind, include_extras=True)
    knobs = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        inner, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        knobs[field.name] = Knob(
            name=field.name,
            kind=inner,
            meaning=next((note for note in notes if isinstance(note, str)), field.name),
            limits=tuple(note for note in notes if isinstance(note, Limit)),
            among=next((note for note in notes if isinstance(note, Among)), None),
            field=field,
        )
    return knobs


class Knobs:
    """A dataclass whose fields are checked against their types and limits when it is made."""

    def __post_init__(self) -> None:
        for name, knob in of(type(self)).items():
            knob.check(getattr(self, name), name)


def build(kind: type[Kind], values: Any, where: str = "") -> Kind:
    """Make a dataclass from a table of plain values; every key, type and limit is checked."""
    if not isinstance(values, Mapping):
        raise BadKnob(f"{where or 'the whole'} must be a table of keys, not {shown(values)}")
    knobs = of(kind)
    check_keys(values, knobs, where)
    built = {}
    for key, value in values.items():
        full = f"{where}.{key}" if where else key
        built[key] = _built(knobs[key], value, full)
        knobs[key].check(built[key], full, value)
    for key, knob in knobs.items():
        if knob.needed and key not in built:
            full = f"{where}.{key}" if where else key
            raise BadKnob(f"{full} is not given; write {full}=... ({knob.meaning})")
    try:
        return kind(**built)
    except BadKnob:
        raise
    except (ValueError, TypeError) as error:  # what several knobs together cannot be
        raise BadKnob(f"{where}: {error}" if where else str(error)) from None


def check_keys(values: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known, and suggest one that is."""
    these = list(known)
    for key in values:
        if key not in these:
            full = f"{where}.{key}" if where else key
            have = ", ".join(these)
            raise BadKnob(f"there is no key {shown(full)}{hint(key, these)}\nit can have: {have}")


def hint(word: str, known: Iterable[str]) -> str:
    """Suggest what a misspelt word was meant to be."""
    close = difflib.get_close_matches(str(word)[:100], list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: Any) -> str:
    """Spell a value from elsewhere in a few characters, none of which controls a terminal."""
    try:
        spelt = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except ValueError:  # of more digits than Python spells
        return "a number of thousands of digits"
    except RecursionError:
        return "nested too deeply"
    return spelt if len(spelt) <= 100 else f"{spelt[:97]}..."


def _built(knob: Knob, value: Any, where: str) -> Any:
    if knob.among is not None and not knob.names:
        return _chosen(knob, knob.among.choices, value, where)
    return _converted(knob.kind, value, where)


def _chosen(knob: Knob, choices: Mapping[str, Any], value: Any, where: str) -> Any:
    """Build the component that a name, or a table with a name and knobs, stands for."""
    values = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = values.pop("name", None)
    factory = knob.field.default_factory
    if name is None and factory is not dataclasses.MISSING:  # knobs of the default
        default = type(factory())
        name = next(name for name, kind in choices.items() if kind is default)
    if not isinstance(name, str) or name not in choices:
        meant = hint(str(name), choices) if isinstance(name, str) else ""
        raise BadKnob(f"{where} is {shown(name)}{meant}\nit can be: {', '.join(choices)}")
    for key in values:
        having = [other for other, kind in choices.items() if key in of(kind)]
        if having and name not in having:
            raise BadKnob(
                f"there is no key {shown(f'{where}.{key}')}: {where} is {name!r}\n"
                f"{key} belongs to {', '.join(having)}; write {where}=... first"
            )
    return build(choices[name], values, where)


def _converted(kind: Any, value: Any, where: str) -> Any:
    """Return a plain value as its knob has it; one that does not fit is returned as it is."""
    origin, parts = get_origin(kind), get_args(kind)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if origin is Annotated:
        return _converted(parts[0], value, where)
    if origin in (Union, UnionType):
        # What only Python can give, such as measured neighbours, is left out.
        plain = [one for one in parts if not dataclasses.is_dataclass(one)]
        tried = (_converted(one, value, where) for one in plain)
        return next((one for one in tried if _fits(kind, one, ())), value)
    if origin in (tuple, list) and isinstance(value, str):
        value = value.split(",")  # on a command line, a.de,a.en is kinder than ["a.de", "a.en"]
    if origin in (tuple, list) and isinstance(value, list | tuple):
        one = parts[0]
        if dataclasses.is_dataclass(one) and any(not isinstance(v, Mapping) for v in value):
            raise BadKnob(f"{where} must be a list of tables, as in [[{where}]]")
        kinds = parts if origin is tuple and parts[-1] is not ... else (one,) * len(value)
        if len(kinds) != len(value):
            return value
        pairs = enumerate(zip(kinds, value, strict=True))
        return origin(_converted(k, v, f"{where}.{i}") for i, (k, v) in pairs)
    if origin is dict and isinstance(value, Mapping):
        return {k: _converted(parts[1], v, f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(kind):
        return build(kind, value, where)  # type: ignore[arg-type]  # a class, not an instance
    if kind is Path and (number or isinstance(value, str)):
        return Path(str(value))
    if kind is str and number:
        return shown(value)  # a folder called 2014
    if kind is float and value in ("inf", "-inf"):
        return float(value)  # JSON has no other way to say so
    if kind is float and number and _fits(float, value, ()):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _fits(kind: Any, value: Any, limits: tuple[Limit, ...]) -> bool:
    """Tell whether a value has a type, and the numbers in it keep the limits."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _fits(parts[0], value, (*limits, *(p for p in parts[1:] if isinstance(p, Limit))))
    if origin in (Union, UnionType):
        return any(_fits(one, value, limits) for one in parts)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in parts)
    if origin in (tuple, list):
        if not isinstance(value, origin):
            return False
        kinds = parts if origin is tuple and parts[-1] is not ... else (parts[0],) * len(value)
        return len(kinds) == len(value) and all(
            _fits(k, v, limits) for k, v in zip(kinds, value, strict=True)
        )
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(parts[0], k, ()) and _fits(parts[1], v, limits) for k, v in value.items()
        )
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | kind):
            return False
        endless = any(isinstance(one, Within) and one.high == value for one in limits)
        number = abs(value) <= sys.float_info.max or endless or (kind is int and not limits)
        return number and all(limit(value) for limit in limits)
    if kind is Any:
        return True
    if isinstance(value, str | Path) and "\0" in str(value):
        return False
    return isinstance(value, kind)


_WORDS = {bool: "true or false", str: "text without NUL", Path: "a path", NoneType: "none"}


def _wanted(kind: Any, limits: tuple[Limit, ...]) -> str:
    """Say what a value must be."""
    origin, parts = get_origin(kind), get_args(kind)
    bounds = "".join(f", {limit}" for limit in limits)
    if origin is Annotated:
        return _wanted(parts[0], (*limits, *(p for p in parts[1:] if isinstance(p, Limit))))
    if origin in (Union, UnionType):
        return " or ".join(_wanted(one, limits) for one in parts)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (tuple, list):
        fixed = origin is tuple and parts[-1] is not ...
        return f"{len(parts) if fixed else 'several'} values, each {_wanted(parts[0], limits)}"
    if origin is dict:
        return f"a table of keys, each {_wanted(parts[1], limits)}"
    if kind in (int, float):
        return f"a {'whole ' if kind is int else ''}number{bounds}"
    return _WORDS.get(kind, f"a {getattr(kind, '__name__', 'value')}")


def _spelt(bound: float) -> str:
    if bound == LARGEST_SEED:
        return "2^63 - 1"
    whole = bound == int(bound) and abs(bound) < 10**9
    return f"{int(bound):,}" if whole else f"{bound:g}"
