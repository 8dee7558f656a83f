"""The columns of a read: values, names, grouping."""

from __future__ import annotations

from omnigraph_core.query.check.expressions import returned
from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.checked import (
    Aggregate,
    Column,
    Constant,
    CurrentTime,
    NodeUse,
    Operand,
    ParameterUse,
    PropertyUse,
    Returned,
    Score,
)
from omnigraph_core.query.errors import QueryTypeError
from omnigraph_core.query.syntax import AliasUse, Projection

LITERAL_COLUMN = "literal"
NOW_COLUMN = "now"
SCORE_COLUMN = "score"


def check_projections(scope: Scope, projections: tuple[Projection, ...]) -> tuple[Column, ...]:
    """The columns, no two of one name: rows are shown as objects, which would lose one."""
    columns: dict[str, Column] = {}
    for projection in projections:
        value = _value(scope, projection, columns)
        alias = None if projection.alias is None else projection.alias.text
        name = alias or _column_name(value)
        if name in columns:
            hint = "give it another name, as in … as other"
            reason = f"two returned columns are called `{name}`"
            raise scope.setting.error(projection.span, None, reason, hint=hint)
        columns[name] = Column(name, value, alias or _short_name(value))
    return tuple(columns.values())


def check_grouping(scope: Scope, projections: tuple[Projection, ...], columns: tuple[Column, ...]) -> None:
    """Beside an aggregate only what can be a grouping key."""
    for projection, column in zip(projections, columns, strict=True):
        if isinstance(column.value, Constant | CurrentTime | Score):
            reason = "beside an aggregate, only properties and variables can be returned"
            raise scope.setting.error(projection.expression.span, "T9", reason)


def _value(scope: Scope, projection: Projection, columns: dict[str, Column]) -> Returned:
    expression = projection.expression
    if not isinstance(expression, AliasUse):
        return returned(scope, expression)
    column = columns.get(expression.name.text)
    if column is None:
        raise unknown_column(scope, expression, columns)
    return column.value


def unknown_column(scope: Scope, use: AliasUse, columns: dict[str, Column]) -> QueryTypeError:
    names = ", ".join(columns) or "none"
    reason = f"unknown column `{use.name.text}`"
    return scope.setting.error(use.span, None, reason, hint=f"returned columns are: {names}")


def _column_name(value: Returned) -> str:
    """The name of a column without alias; an aggregate takes that of its argument."""
    if isinstance(value, Aggregate):
        return _operand_name(value.argument)
    return SCORE_COLUMN if isinstance(value, Score) else _operand_name(value)


def _operand_name(value: Operand) -> str:
    if isinstance(value, PropertyUse):
        return f"{value.variable}.{value.property}"
    return _short_name(value)


def _short_name(value: Returned) -> str:
    """The name lint uses: the property alone, or the function."""
    if isinstance(value, PropertyUse):
        return value.property
    if isinstance(value, NodeUse):
        return value.variable
    if isinstance(value, ParameterUse):
        return value.name
    if isinstance(value, Aggregate):
        return value.function.value
    if isinstance(value, Score):
        return SCORE_COLUMN
    return NOW_COLUMN if isinstance(value, CurrentTime) else LITERAL_COLUMN
