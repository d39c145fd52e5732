"""A dataclass as the schema of a file: keys, types and limits, checked when the file is read.

Keys that a schema does not know are ignored, so that older and newer files can be read; one with
`__pydantic_config__ = EXACT` refuses them. What users set is no file's: that is in `knobs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = TypeVar("Kind")

EXACT = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)
LARGEST = 1e15
"""a number beyond it counts as not finite: sums and squares of it would not be"""


def _usable(value: float | None) -> float | None:
    return value if value is not None and abs(value) <= LARGEST else None


Number = Annotated[float | None, pydantic.AfterValidator(_usable)]
"""None where it is not known or not finite"""
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Seconds = Annotated[float, pydantic.Field(ge=0, le=LARGEST)]

_WORDS = {"missing": "it is missing", "unexpected_keyword_argument": "there is no such key"}
_adapters: dict[Any, pydantic.TypeAdapter[Any]] = {}


def parsed(kind: type[Kind], content: str | bytes) -> Kind:
    """Read JSON by its schema; `ValueError` says in one line which key is wrong, and why."""
    if kind not in _adapters:
        _adapters[kind] = pydantic.TypeAdapter(kind)  # slow to make
    adapter: pydantic.TypeAdapter[Kind] = _adapters[kind]
    try:
        return adapter.validate_json(content, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    said = _WORDS.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    where = ".".join(map(str, first["loc"]))[:80]
    line = " ".join((f"{where}: " * bool(where) + said[:1].lower() + said[1:]).split())[:300]
    raise ValueError(line if line.isprintable() else ascii(line)[1:-1])


def check_whole(value: DataclassInstance, said: Mapping[str, Any]) -> None:
    """Refuse what left a default to stand for what a file once said; `said` is what it says."""
    for field in fields(value):
        if field.name not in said:
            raise ValueError(f"the key {field.name!r} is missing")
        inner = getattr(value, field.name)
        if is_dataclass(inner) and not isinstance(inner, type):
            check_whole(inner, said[field.name])


def written(value: DataclassInstance) -> dict[str, Any]:
    """Return a dataclass as a file has it: JSON's values, but what is as by default is left out."""
    table = asdict(value)
    for field in fields(value):
        factory = field.default_factory
        default = field.default if factory is MISSING else factory()
        if getattr(value, field.name) == default:
            del table[field.name]
    return table


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot say, such as a correlation of constants, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
