"""Filters of a Spark query as the SQL that Lance filters by; those without an equal are left to Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as spark

from omnigraph_core.query.predicate import NEVER, NoMatch, column_sql, comparison_sql
from omnigraph_core.query.syntax import Operator
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, PropertyType, Scalar
from omnigraph_core.schema.files import file_columns

_OPERATORS: dict[type[spark.Filter], Operator] = {
    spark.EqualTo: Operator.EQ,
    spark.EqualNullSafe: Operator.EQ,
    spark.GreaterThan: Operator.GT,
    spark.GreaterThanOrEqual: Operator.GE,
    spark.LessThan: Operator.LT,
    spark.LessThanOrEqual: Operator.LE,
    spark.StringStartsWith: Operator.STARTS_WITH,
}
_NUMBERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
_STRING = PropertyType(Scalar.STRING)
_FALSE = "false"


@dataclass(frozen=True, slots=True)
class Pushed:
    """What Lance filters by, and what is left to Spark."""

    where: str | None
    left: tuple[spark.Filter, ...]


def push(filters: Iterable[spark.Filter], entity: EntityType) -> Pushed:
    """Divide filters that must all hold. A row passes the SQL exactly if Spark would keep it."""
    sql, left = [], []
    for each in filters:
        found = filter_sql(each, entity)
        if found is None:
            left.append(each)
        else:
            sql.append(f"({found})")
    return Pushed(" AND ".join(sql) or None, tuple(left))


def filter_sql(asked: spark.Filter, entity: EntityType) -> str | None:
    """One filter; None if it is for Spark to ask."""
    if isinstance(asked, spark.Not):
        return _negated(asked.child, entity)
    at = _column(asked, entity)
    if at is None:
        return None
    column, type_ = at
    if isinstance(asked, spark.IsNull):
        return f"{column_sql(column)} IS NULL"
    if isinstance(asked, spark.IsNotNull):
        return f"{column_sql(column)} IS NOT NULL"
    if isinstance(asked, spark.In):
        return _any_of(column, type_, asked.value)
    if isinstance(asked, spark.EqualNullSafe) and asked.value is None:
        return f"{column_sql(column)} IS NULL"
    operator = _OPERATORS.get(type(asked))
    return None if operator is None else _compared(column, type_, operator, getattr(asked, "value", None))


def _negated(child: spark.Filter, entity: EntityType) -> str | None:
    """Only where null means the same to both: a null is neither equal to a value nor unequal."""
    at = _column(child, entity)
    if at is None:
        return None
    if isinstance(child, spark.IsNull):
        return filter_sql(spark.IsNotNull(child.attribute), entity)
    if isinstance(child, spark.IsNotNull):
        return filter_sql(spark.IsNull(child.attribute), entity)
    if isinstance(child, spark.EqualTo):
        return _compared(*at, Operator.NE, child.value)
    return None


def _column(asked: spark.Filter, entity: EntityType) -> tuple[str, PropertyType] | None:
    """The column of the table, if it is one of single values that Lance can compare."""
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    column = file_columns(entity).get(path[0]) if len(path) == 1 else None
    if column is None:
        return None
    prop = entity.find_property(column)
    type_ = _STRING if prop is None else prop.type
    is_single = not type_.is_list and type_.scalar not in (Scalar.VECTOR, Scalar.BLOB)
    return (column, type_) if is_single else None


def _any_of(column: str, type_: PropertyType, values: Iterable[Any]) -> str | None:
    """Null in the list matches nothing."""
    given = [value for value in values if value is not None]
    found = [_compared(column, type_, Operator.EQ, value) for value in given]
    if any(each is None for each in found):
        return None
    return " OR ".join(each for each in found if each is not None) or _FALSE


def _compared(column: str, type_: PropertyType, operator: Operator, value: Any) -> str | None:
    if value is None:
        return _FALSE
    plain = _PLAIN[type_.scalar](value)
    if plain is None or (operator is Operator.STARTS_WITH and type_.scalar is not Scalar.STRING):
        return None
    found = comparison_sql(column, type_, operator, plain)
    if isinstance(found, NoMatch):
        assert found is NEVER
        return _FALSE
    return found


def _whole(value: Any) -> int | None:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: Any) -> datetime | None:
    """A time that is one of a column's: whole milliseconds of UTC."""
    if not isinstance(value, datetime) or value.tzinfo is None or value.microsecond % 1000:
        return None
    return value


def _finite(value: Any) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _of(*types: type) -> Callable[[Any], Any]:
    """The value itself, if it is of one of these types and of no other."""
    return lambda value: value if type(value) in types else None


_PLAIN: dict[Scalar, Callable[[Any], Any]] = {
    Scalar.STRING: _of(str),
    Scalar.BOOL: _of(bool),
    Scalar.F32: _finite,
    Scalar.F64: _finite,
    Scalar.DATE: _of(date),
    Scalar.DATE_TIME: _moment,
    **dict.fromkeys(_NUMBERS, _whole),
}
