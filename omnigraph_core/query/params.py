"""Parameters of a run: JSON values or `K=V` texts, checked against their declared types.

Everything is checked before the query runs, so a run never stops half-way for want of
a parameter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from omnigraph_core.patterns import pattern
from omnigraph_core.query.checked import Plain, PlainValue
from omnigraph_core.query.errors import ParameterError
from omnigraph_core.query.limits import INTEGER_MAX, SHOWN_CHARACTERS_MAX
from omnigraph_core.query.syntax import Parameter
from omnigraph_core.query.temporal import parse_date, parse_date_time
from omnigraph_core.records import dataclass
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.values.scalars import INTEGER_RANGES, is_unicode, rounded

# U64 parameters are limited to the signed range, like every integer of the language.
_INTEGER_BOUNDS = {**INTEGER_RANGES, Scalar.U64: (0, INTEGER_MAX)}
_INTEGER_TEXT = pattern(r"[+-]?\d{1,40}", re.ASCII)
_REAL_TEXT = pattern(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BoundParams:
    """A value for every declared parameter; optional ones left out are None."""

    values: Mapping[str, Plain] = field(default_factory=lambda: MappingProxyType({}))

    def __getitem__(self, name: str) -> Plain:
        return self.values[name]


NO_PARAMS = BoundParams()


def bind_params(parameters: Iterable[Parameter], given: Mapping[str, Any] | None) -> BoundParams:
    """Parameters from a parsed JSON object, its keys being names without `$`.

    Names the query does not declare are allowed, so that one object can serve several
    queries. Raises `ParameterError`.
    """
    given = {} if given is None else given
    bound: dict[str, Plain] = {}
    for parameter in parameters:
        name, type_ = parameter.name, parameter.type
        value = given.get(name)
        if value is not None:
            bound[name] = _bound(name, type_, value)
        elif type_.nullable:
            bound[name] = None
        elif name in given:
            reason = f"null is not accepted for non-nullable parameter of type {type_}"
            raise ParameterError(name, reason, expected=str(type_))
        else:
            reason, hint = f"not provided (expected {type_})", f"give '{name}' a value"
            raise ParameterError(name, reason, expected=str(type_), hint=hint, field="params")
    for name, value in given.items():
        if name not in bound and isinstance(value, Mapping):
            raise ParameterError(name, "objects are not supported as parameter values")
    return BoundParams(MappingProxyType(bound))


def read_param_texts(parameters: Iterable[Parameter], texts: Iterable[str]) -> dict[str, Any]:
    """`K=V` texts to what `bind_params` takes; V is read by the declared type of K.

    A String takes the text as it is. Lists and vectors are JSON arrays. `null` is null,
    except for a String.
    """
    declared = {parameter.name: parameter for parameter in parameters}
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = _short(name.removeprefix("$"))
        if not equals:
            raise ParameterError(name, "expected NAME=VALUE")
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise ParameterError(
                name, "the query declares no such parameter", hint=f"parameters are: {known}"
            )
        if name in given:
            raise ParameterError(name, "given twice")
        given[name] = _read(name, declared[name].type, value)
    return given


def _read(name: str, type_: PropertyType, text: str) -> Any:
    textual = (Scalar.STRING, Scalar.BLOB, Scalar.DATE, Scalar.DATE_TIME)
    if text == "null" and type_.nullable and (type_.is_list or type_.scalar is not Scalar.STRING):
        return None
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise _expected(name, type_, f"a JSON array for {type_}", repr(text)) from None
    if type_.scalar in textual:
        return text
    if type_.scalar is Scalar.BOOL:
        return {"true": True, "false": False}.get(text, text)
    if type_.scalar.is_integer:
        return text
    return float(text) if _REAL_TEXT.fullmatch(text) else text


def _bound(name: str, type_: PropertyType, value: Any) -> Plain:
    if type_.scalar is Scalar.VECTOR:
        return _vector(name, type_, value)
    if not type_.is_list:
        return _scalar(name, type_, value)
    if not isinstance(value, list | tuple):
        raise _expected(name, type_, f"array for {type_}", _described(value))
    item = PropertyType(type_.scalar)
    return tuple(_scalar(name, item, one) for one in value)


def _vector(name: str, type_: PropertyType, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise _expected(name, type_, f"array for {type_}", _described(value))
    if len(value) != type_.dimension:
        raise _expected(name, type_, f"{type_.dimension} values for {type_}", str(len(value)))
    component = PropertyType(Scalar.F32)
    return tuple(_real(name, component, one) for one in value)


def _scalar(name: str, type_: PropertyType, value: Any) -> PlainValue:
    scalar = type_.scalar
    if scalar.is_integer:
        return _integer(name, type_, value)
    if scalar.is_numeric:
        return _real(name, type_, value)
    if scalar is Scalar.BOOL:
        if not isinstance(value, bool):
            raise _expected(name, type_, "boolean", _described(value))
        return value
    if scalar in (Scalar.DATE, Scalar.DATE_TIME):
        return _temporal(name, type_, value)
    if not isinstance(value, str):
        raise _expected(name, type_, "string", _described(value))
    return _unicode(name, value)


def _unicode(name: str, value: str) -> str:
    """Lone surrogates, which JSON can spell, cannot be stored."""
    if not is_unicode(value):
        raise ParameterError(name, "the text is not valid Unicode")
    return value


def _integer(name: str, type_: PropertyType, value: Any) -> int:
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected(name, type_, f"integer for {type_}", _described(value))
    low, high = _INTEGER_BOUNDS[type_.scalar]
    if not low <= value <= high:
        raise ParameterError(name, f"value {_short(value)} exceeds {type_.scalar}", expected=str(type_))
    return value


def _real(name: str, type_: PropertyType, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected(name, type_, f"float for {type_}", _described(value))
    stored = rounded(value, type_.scalar)
    if not math.isfinite(stored):
        raise ParameterError(name, f"value {_short(value)} exceeds {type_.scalar}", expected=str(type_))
    return stored


def _temporal(name: str, type_: PropertyType, value: Any) -> PlainValue:
    word = "date" if type_.scalar is Scalar.DATE else "date-time"
    if not isinstance(value, str):
        raise _expected(name, type_, f"{word} string", _described(value))
    parsed = parse_date(value) if type_.scalar is Scalar.DATE else parse_date_time(value)
    if parsed is None:
        form = "YYYY-MM-DD" if type_.scalar is Scalar.DATE else "YYYY-MM-DDTHH:MM:SS.mmmZ"
        reason = f"invalid {type_.scalar} '{_short(value)}'"
        raise ParameterError(name, reason, expected=str(type_), hint=f"write it as {form}")
    return parsed


def _expected(name: str, type_: PropertyType, what: str, got: str) -> ParameterError:
    return ParameterError(name, f"expected {what}, got {got}", expected=str(type_))


def _described(value: Any) -> str:
    """A JSON value as messages show it: its kind, and the value if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return f"string '{_short(value)}'"
    if isinstance(value, int | float):
        return f"number {_short(value)}"
    return "array" if isinstance(value, list | tuple) else "object"


def _short(value: str | int | float) -> str:
    try:
        text = str(value)
    except ValueError:  # an int of more digits than Python cares to write
        return "of thousands of digits"
    text = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
    return text if text.isprintable() else ascii(text)[1:-1]
