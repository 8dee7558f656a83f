"""Types of values, when two of them go together, and the setting they are checked in."""

from __future__ import annotations

from dataclasses import field
from datetime import date, datetime

from omnigraph_core.query.checked import Constant, CurrentTime, ParameterUse, ValueExpression
from omnigraph_core.query.errors import QueryTypeError
from omnigraph_core.query.syntax import ListLiteral, Literal, Now, Parameter, Query, ScalarValue, Variable
from omnigraph_core.records import dataclass
from omnigraph_core.schema import PropertyType, Scalar, Schema
from omnigraph_core.schema.source import SourceText, Span

# The name the reference passes the time of a run under; a parameter must not take it.
RESERVED_PARAMETER = "__nanograph_now"


@dataclass(frozen=True, slots=True)
class Setting:
    """What one query is checked against."""

    source: SourceText
    schema: Schema
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def error(self, span: Span, code: str | None, reason: str, *, hint: str | None = None) -> QueryTypeError:
        return QueryTypeError(self.source, span, code, reason, hint=hint)

    def parameter_use(self, variable: Variable) -> ParameterUse | None:
        found = self.parameters.get(variable.name)
        return None if found is None else ParameterUse(found.name, found.type)


def setting_of(query: Query, schema: Schema, source: SourceText) -> Setting:
    setting = Setting(source, schema)
    for parameter in query.parameters:
        if parameter.name in (RESERVED_PARAMETER, "_"):
            raise setting.error(parameter.span, None, f"parameter name `${parameter.name}` is reserved")
        setting.parameters[parameter.name] = parameter
    return setting


def compatible(left: PropertyType, right: PropertyType) -> bool:
    """Can values of the two be compared or assigned? Nullability and enum values never matter."""
    if left.is_list != right.is_list:
        return False
    if left.scalar is Scalar.VECTOR and right.scalar is Scalar.VECTOR:
        return left.dimension == right.dimension
    return left.scalar is right.scalar or (left.scalar.is_numeric and right.scalar.is_numeric)


def item_type(type_: PropertyType) -> PropertyType:
    """What a list holds."""
    return PropertyType(type_.scalar, nullable=True)


def is_scalar(type_: PropertyType) -> bool:
    """One plain value, which can be compared with another?"""
    return not type_.is_list and type_.scalar not in (Scalar.VECTOR, Scalar.BLOB)


def is_scalar_string(type_: PropertyType) -> bool:
    return type_.scalar is Scalar.STRING and not type_.is_list


def constant(setting: Setting, literal: Literal | ListLiteral) -> Constant:
    """A literal with its type. The items of a list have one type; integers beside floats are floats."""
    if isinstance(literal, Literal):
        return Constant(literal.value, PropertyType(_scalar_of(literal.value)))
    values: list[ScalarValue] = []
    common = Scalar.STRING
    for item in literal.items:
        if isinstance(item, ListLiteral):
            raise setting.error(item.span, None, "nested list literals are not supported")
        scalar = _scalar_of(item.value)
        if not values or {common, scalar} == {Scalar.I64, Scalar.F64}:
            common = Scalar.F64 if values else scalar
        elif scalar is not common:
            reason = f"list items have no common type: {common} and {scalar}"
            raise setting.error(item.span, None, reason)
        values.append(item.value)
    if common is Scalar.F64:
        values = [float(value) if isinstance(value, int) else value for value in values]
    return Constant(tuple(values), PropertyType(common, is_list=True))


def constant_value(setting: Setting, value: Literal | ListLiteral | Now) -> Constant | CurrentTime:
    return CurrentTime() if isinstance(value, Now) else constant(setting, value)


def vector_length(value: ValueExpression) -> int | None:
    """The dimension of a vector, as which a list literal of numbers counts too; else None."""
    if value.type.scalar is Scalar.VECTOR:
        return value.type.dimension
    if isinstance(value, Constant) and isinstance(value.value, tuple) and value.type.scalar.is_numeric:
        return len(value.value)
    return None


def _scalar_of(value: ScalarValue) -> Scalar:
    # In this order: a bool is an int, and a datetime a date.
    if isinstance(value, bool):
        return Scalar.BOOL
    if isinstance(value, str):
        return Scalar.STRING
    if isinstance(value, int):
        return Scalar.I64
    if isinstance(value, float):
        return Scalar.F64
    if isinstance(value, datetime):
        return Scalar.DATE_TIME
    assert isinstance(value, date)
    return Scalar.DATE
