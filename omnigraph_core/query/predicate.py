"""One comparison of a column with a value, as the SQL text Lance filters by.

Numbers are compared at the column's type. For an F32 column the value is rounded as the column
rounds what it is given, so that `f = 0.1` finds the 0.1 that was loaded. For others they are
compared exactly: a value the column cannot hold is replaced by its neighbour, with the operator
adjusted, so that `age > 2.5` on integers is `age > 2` and `age = 2.5` is no match at all. A
comparison that can never hold is `NEVER` rather than SQL, and saves its caller the scan. Null never matches.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from enum import Enum
from typing import Final

from omnigraph_core.query.checked import Condition, Plain, PlainValue, PropertyTest
from omnigraph_core.query.params import BoundParams
from omnigraph_core.query.syntax import Operator
from omnigraph_core.query.temporal import to_days, to_milliseconds
from omnigraph_core.query.values import evaluate
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.values.scalars import ARROW_NUMBERS, INTEGER_RANGES, neighbour, single


class NoMatch(Enum):
    NEVER = "never"


NEVER: Final = NoMatch.NEVER

Sql = str | NoMatch

_FLIPPED = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_SMALLEST_I64 = INTEGER_RANGES[Scalar.I64][0]


def condition_sql(condition: Condition, params: BoundParams, now: datetime) -> Sql:
    """The `where` of an update or delete."""
    value = evaluate(condition.value, params, now)
    return comparison_sql(condition.column, condition.type, condition.operator, value)


def pattern_sql(test: PropertyTest, params: BoundParams, now: datetime) -> Sql:
    """One `name: value` of binding braces."""
    value = evaluate(test.value, params, now)
    if test.type.is_list:
        return membership_sql(test.property, test.type, value)
    return comparison_sql(test.property, test.type, Operator.EQ, value)


def comparison_sql(column: str, type_: PropertyType, operator: Operator, value: Plain) -> Sql:
    """`column operator value`, for a scalar column; `contains` and `starts_with` on Strings too."""
    if value is None:
        return NEVER
    assert not isinstance(value, tuple), "lists are never compared"
    name = column_sql(column)
    if operator in (Operator.CONTAINS, Operator.STARTS_WITH):
        return f"{operator}({name}, {_text(value)})"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_comparison(name, type_.scalar, operator, value)
    return f"{name} {operator} {_value(value)}"


def membership_sql(column: str, type_: PropertyType, value: Plain) -> Sql:
    """Is the value among the items of a list column?"""
    if value is None:
        return NEVER
    assert not isinstance(value, tuple), "only one item is looked for"
    name = column_sql(column)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"array_has({name}, {_value(value)})"
    value = _as_stored(type_.scalar, value)
    stored = neighbour(type_.scalar, value)
    if stored != value:
        return NEVER
    found = f"array_has({name}, {_cast(type_.scalar, stored)})"
    if isinstance(stored, float) and stored == 0:
        # Unlike `=`, looking into a list tells the two zeros apart.
        return f"({found} OR array_has({name}, {_cast(type_.scalar, -stored)}))"
    return found


def within_text_sql(operator: Operator, text: Plain, column: str) -> Sql:
    """The other way round: does the given text contain, or start with, the column's?"""
    return NEVER if text is None else f"{operator}({_text(text)}, {column_sql(column)})"


def flipped(operator: Operator) -> Operator:
    """The comparison with its two sides exchanged."""
    return _FLIPPED.get(operator, operator)


def column_sql(name: str) -> str:
    """A column name that keeps its case and is never taken for a keyword."""
    return f"`{name}`"


def string_sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _number_comparison(name: str, scalar: Scalar, operator: Operator, value: int | float) -> Sql:
    value = _as_stored(scalar, value)
    stored = neighbour(scalar, value)
    number = _number(scalar, stored)
    if stored == value:
        return f"{name} {operator} {number}"
    if operator is Operator.EQ:
        return NEVER
    if operator is Operator.NE:
        return f"{name} IS NOT NULL"
    below = operator in (Operator.LT, Operator.LE)
    if stored < value:
        return f"{name} {'<=' if below else '>'} {number}"
    return f"{name} {'<' if below else '>='} {number}"


def _as_stored(scalar: Scalar, value: int | float) -> int | float:
    """A number beside an F32 column as the column would hold it, unless it is beyond its range."""
    if scalar is not Scalar.F32:
        return value
    stored = single(value)
    return stored if math.isfinite(stored) else value


def _number(scalar: Scalar, stored: int | float) -> str:
    if scalar is Scalar.I64 and stored == _SMALLEST_I64:
        # Its digits without the sign are beyond the range, and the sign is read last.
        return _cast(scalar, stored)
    return repr(stored)


def _cast(scalar: Scalar, stored: int | float) -> str:
    """A number of exactly this type: a plain one is an Int64, never found among UInt64."""
    return f"arrow_cast('{stored!r}', '{ARROW_NUMBERS[scalar]}')"


def _value(value: PlainValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"arrow_cast({to_milliseconds(value)}, 'Date64')"
    if isinstance(value, date):
        return f"arrow_cast(arrow_cast({to_days(value)}, 'Int32'), 'Date32')"
    return _text(value)


def _text(value: Plain) -> str:
    assert isinstance(value, str)
    return string_sql(value)
