"""Expressions of a read: what each one is, and of what type."""

from __future__ import annotations

from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.check.search import fused_search, nearest_search, text_search
from omnigraph_core.query.check.setting import constant_value, is_scalar, is_scalar_string
from omnigraph_core.query.checked import (
    Aggregate,
    NodeUse,
    Operand,
    PropertyUse,
    Returned,
    Score,
)
from omnigraph_core.query.syntax import (
    AggregateCall,
    AggregateFunction,
    AliasUse,
    Expression,
    NearestCall,
    PropertyAccess,
    RrfCall,
    TextCall,
    Variable,
)
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.schema.source import Span

_COUNT_TYPE = PropertyType(Scalar.I64)
_MEAN_TYPE = PropertyType(Scalar.F64, nullable=True)


def operand(scope: Scope, expression: Expression) -> Operand | None:
    """What an expression stands for in one row; None if it has no such value."""
    if isinstance(expression, Variable):
        return variable_use(scope, expression)
    if isinstance(expression, PropertyAccess):
        return property_use(scope, expression)
    if isinstance(expression, AliasUse | AggregateCall | TextCall | NearestCall | RrfCall):
        return None
    return constant_value(scope.setting, expression)


def variable_use(scope: Scope, variable: Variable) -> Operand:
    """A bare variable: a parameter, or the id of a node."""
    node = scope.find_node(variable)
    if node is not None:
        return NodeUse(variable.name, node)
    if scope.find_edge(variable) is not None:
        reason = f"edge variable `{variable}` cannot be used bare; name one of its properties"
        raise scope.setting.error(variable.span, "T23", reason)
    parameter = scope.setting.parameter_use(variable)
    if parameter is None:
        raise scope.not_bound(variable)
    return parameter


def property_use(scope: Scope, access: PropertyAccess, unbound_code: str = "T6") -> PropertyUse:
    variable = access.variable
    entity = scope.find_node(variable) or scope.find_edge(variable)
    if entity is None:
        if variable.name in scope.setting.parameters:
            reason = f"`{variable}` is a parameter and has no properties"
            raise scope.setting.error(variable.span, unbound_code, reason)
        raise scope.not_bound(variable, unbound_code)
    prop = entity.find_property(access.name.text)
    if prop is None:
        names = ", ".join(prop.name for prop in entity.properties) or "none"
        reason = f"type `{entity.name}` has no property `{access.name.text}`"
        raise scope.setting.error(access.name.span, "T6", reason, hint=f"properties are: {names}")
    return PropertyUse(variable.name, prop.name, prop.type, of_edge=variable.name in scope.edges)


def returned(scope: Scope, expression: Expression) -> Returned:
    """A projected expression; aliases are the caller's business."""
    if isinstance(expression, AggregateCall):
        return aggregate(scope, expression)
    if isinstance(expression, TextCall):
        return Score(text_search(scope, expression))
    if isinstance(expression, NearestCall):
        return Score(nearest_search(scope, expression))
    if isinstance(expression, RrfCall):
        return Score(fused_search(scope, expression))
    value = operand(scope, expression)
    assert value is not None, "aliases are resolved by the caller"
    refuse_blob(scope, value, expression.span)
    return value


def aggregate(scope: Scope, call: AggregateCall) -> Aggregate:
    function = call.function
    argument = operand(scope, call.argument)
    if argument is None:
        reason = f"{function}() takes a property, a variable or a literal"
        raise scope.setting.error(call.argument.span, "T8", reason)
    refuse_blob(scope, argument, call.argument.span)
    type_ = argument.type
    if function is AggregateFunction.COUNT:
        return Aggregate(function, argument, _COUNT_TYPE)
    numeric = is_scalar(type_) and type_.scalar.is_numeric
    got = f"node `{argument.node.name}`" if isinstance(argument, NodeUse) else str(type_)
    if function in (AggregateFunction.SUM, AggregateFunction.AVG):
        if not numeric:
            raise scope.setting.error(call.span, "T8", f"{function}() requires a numeric value, got {got}")
        return Aggregate(function, argument, _MEAN_TYPE)
    if not numeric and (not is_scalar_string(type_) or isinstance(argument, NodeUse)):
        raise scope.setting.error(call.span, "T8", f"{function}() requires a number or String, got {got}")
    return Aggregate(function, argument, PropertyType(type_.scalar, nullable=True))


def refuse_blob(scope: Scope, value: Operand, span: Span) -> None:
    if value.type.scalar is Scalar.BLOB:
        which = f": property `{value.property}` is one" if isinstance(value, PropertyUse) else ""
        reason = f"a query cannot return, compare, order by or aggregate a Blob{which}"
        raise scope.setting.error(span, "T24", reason, hint="`omnigraph blob get` reads one")
