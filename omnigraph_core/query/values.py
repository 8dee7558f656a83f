"""What value expressions stand for when a query runs, and what a column can hold.

Literals and parameters are converted to the type of the column they are assigned to:
whole numbers widen to floats if nothing is lost, nothing else changes its nature.
"""

from __future__ import annotations

import math
from datetime import datetime

from omnigraph_core.query.checked import (
    Assigned,
    Constant,
    CurrentTime,
    Plain,
    PlainValue,
    ValueExpression,
)
from omnigraph_core.query.errors import UnfitValueError
from omnigraph_core.query.params import BoundParams
from omnigraph_core.query.temporal import whole_milliseconds
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.values.scalars import ARROW_NUMBERS, INTEGER_RANGES, rounded


def evaluate(expression: ValueExpression, params: BoundParams, now: datetime) -> Plain:
    """The value of an expression. `now` is aware and the same for the whole run."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, CurrentTime):
        return whole_milliseconds(now)
    return params[expression.name]


def assigned_value(assignment: Assigned, params: BoundParams, now: datetime) -> Plain:
    """The value as its column stores it, or `UnfitValueError`."""
    value = evaluate(assignment.value, params, now)
    return column_value(assignment.property, assignment.type, value)


def column_value(name: str, type_: PropertyType, value: Plain) -> Plain:
    """A value as a column of the type stores it; `name` is for the complaint."""
    if not isinstance(value, tuple):
        return _scalar(name, type_, value)
    if type_.scalar is Scalar.VECTOR:
        return tuple(_component(name, item) for item in value)
    return tuple(_scalar(name, type_, item) for item in value)


def _scalar(name: str, type_: PropertyType, value: PlainValue) -> PlainValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if type_.scalar.is_integer:
        return _integer(name, type_.scalar, value)
    return _real(name, type_.scalar, value)


def _integer(name: str, scalar: Scalar, value: int | float) -> int:
    if isinstance(value, float):
        raise UnfitValueError(name, f"cannot convert float {value!r} to {ARROW_NUMBERS[scalar]}")
    low, high = INTEGER_RANGES[scalar]
    if not low <= value <= high:
        raise UnfitValueError(name, f"integer value {value} exceeds {ARROW_NUMBERS[scalar]} range")
    return value


def _real(name: str, scalar: Scalar, value: int | float) -> float:
    stored = rounded(value, scalar)
    if not math.isfinite(stored):
        raise UnfitValueError(name, f"value {value!r} exceeds {ARROW_NUMBERS[scalar]} range")
    if isinstance(value, int) and stored != value:
        raise UnfitValueError(name, f"integer value {value} is not exact as {ARROW_NUMBERS[scalar]}")
    return stored


def _component(name: str, value: PlainValue) -> float:
    assert isinstance(value, int | float)
    stored = rounded(value, Scalar.F32)
    if not math.isfinite(stored):
        raise UnfitValueError(name, f"vector component {value!r} exceeds Float32 range")
    return stored
