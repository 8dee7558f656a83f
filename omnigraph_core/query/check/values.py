"""Does a value fit the property it is matched with, compared with or assigned to?

A literal that does not fit is T3, because the query itself is wrong; a parameter or
`now()` of the wrong type is T7.
"""

from __future__ import annotations

from omnigraph_core.query.check.setting import (
    Setting,
    compatible,
    constant_value,
    is_scalar,
    is_scalar_string,
    item_type,
    vector_length,
)
from omnigraph_core.query.checked import Constant, CurrentTime, ParameterUse, ValueExpression
from omnigraph_core.query.errors import QueryTypeError
from omnigraph_core.query.syntax import Operator, Value, Variable
from omnigraph_core.schema import Property, PropertyType, Scalar
from omnigraph_core.schema.source import Span


def known_value(setting: Setting, value: Value) -> ValueExpression | None:
    """A value that needs no row: a literal, `now()` or a parameter. None for any other variable."""
    if isinstance(value, Variable):
        return setting.parameter_use(value)
    return constant_value(setting, value)


def check_pattern(setting: Setting, prop: Property, value: ValueExpression, span: Span) -> None:
    """`name: value` in braces: equality with a scalar, membership in a list."""
    type_ = prop.type
    if type_.scalar is Scalar.BLOB:
        raise setting.error(span, "T3", f"a Blob cannot be matched: property `{prop.name}` is one")
    if type_.scalar is Scalar.VECTOR:
        raise setting.error(span, "T3", f"a Vector cannot be matched: property `{prop.name}` is a {type_}")
    if type_.is_list and value.type.is_list:
        hint = "the value is looked for among the items of the list"
        raise _unfit(setting, prop, value, span, f"one {type_.scalar}", hint)
    _check_scalar(setting, prop, item_type(type_) if type_.is_list else type_, value, span)


def check_condition(
    setting: Setting, prop: Property, operator: Operator, value: ValueExpression, span: Span
) -> None:
    """`property op value` of an update or delete."""
    if prop.type.scalar is Scalar.BLOB:
        raise setting.error(span, "T11", f"a Blob cannot be in a predicate: property `{prop.name}` is one")
    if not is_scalar(prop.type):
        raise setting.error(
            span, "T7", f"only scalars can be compared: property `{prop.name}` is a {prop.type}"
        )
    equality = operator in (Operator.EQ, Operator.NE)
    type_ = prop.type if equality else PropertyType(prop.type.scalar, prop.type.nullable)
    _check_scalar(setting, prop, type_, value, span)


def check_assignment(setting: Setting, prop: Property, value: ValueExpression, span: Span) -> None:
    """Only types are checked: whether a number fits its column is known when it runs."""
    type_ = prop.type
    if type_.scalar is Scalar.BLOB:
        if not is_scalar_string(value.type) and value.type.scalar is not Scalar.BLOB:
            raise _unfit(setting, prop, value, span, str(type_))
    elif type_.scalar is Scalar.VECTOR:
        length = vector_length(value)
        if length is None:
            raise _unfit(setting, prop, value, span, str(type_))
        if length != type_.dimension:
            raise _unfit(setting, prop, value, span, f"{type_.dimension} values", got=f"{length}")
    elif type_.is_list:
        empty = isinstance(value, Constant) and value.value == ()
        if not empty and not compatible(type_, value.type):
            raise _unfit(setting, prop, value, span, str(type_))
    else:
        _check_scalar(setting, prop, type_, value, span)


def _check_scalar(
    setting: Setting, prop: Property, type_: PropertyType, value: ValueExpression, span: Span
) -> None:
    if not compatible(type_, value.type):
        raise _unfit(setting, prop, value, span, str(type_))
    allowed = type_.enum_values
    if allowed is not None and isinstance(value, Constant) and value.value not in allowed:
        listed = ", ".join(allowed)
        reason = f"property `{prop.name}` expects one of [{listed}], got '{value.value}'"
        raise setting.error(span, "T3", reason)


def _unfit(
    setting: Setting,
    prop: Property,
    value: ValueExpression,
    span: Span,
    expected: str,
    hint: str | None = None,
    got: str | None = None,
) -> QueryTypeError:
    if isinstance(value, ParameterUse):
        got = f"parameter `${value.name}` of type {value.type}"
    elif isinstance(value, CurrentTime):
        got = "now() of type DateTime"
    code, rule = ("T3", "a literal") if isinstance(value, Constant) else ("T7", "a value")
    reason = f"{rule} must fit its property: `{prop.name}` expects {expected}, got {got or value.type}"
    return setting.error(span, code, reason, hint=hint)
