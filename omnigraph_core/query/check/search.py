"""The search functions: which property is searched, and with what.

What is searched for must be known before any row is read, so it is a literal or a
parameter, never a property.
"""

from __future__ import annotations

from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.check.setting import constant_value, is_scalar_string, vector_length
from omnigraph_core.query.checked import (
    Constant,
    FusedSearch,
    NearestSearch,
    TextSearch,
    ValueExpression,
)
from omnigraph_core.query.syntax import (
    Expression,
    ListLiteral,
    Literal,
    NearestCall,
    Now,
    PropertyAccess,
    RrfCall,
    TextCall,
    TextFunction,
    Variable,
)
from omnigraph_core.schema import Property, Scalar

_TEXT_CODES = {
    TextFunction.SEARCH: "T19",
    TextFunction.FUZZY: "T19",
    TextFunction.MATCH_TEXT: "T20",
    TextFunction.BM25: "T20",
}


def text_search(scope: Scope, call: TextCall) -> TextSearch:
    code = _TEXT_CODES[call.function]
    field = call.field
    if not isinstance(field, PropertyAccess):
        raise scope.setting.error(field.span, code, f"{call.function}() searches a property, as in $x.title")
    prop = _searched(scope, field, str(call.function), "T6")
    if not is_scalar_string(prop.type):
        reason = f"{call.function}() requires a String property, `{prop.name}` is {prop.type}"
        raise scope.setting.error(field.span, code, reason)
    query = _known(scope, call.query, code, f"the query of {call.function}()")
    if not is_scalar_string(query.type):
        reason = f"{call.function}() requires a String query, got {query.type}"
        raise scope.setting.error(call.query.span, code, reason)
    edits = None
    if call.max_edits is not None:
        edits = _known(scope, call.max_edits, code, "max_edits of fuzzy()")
        if edits.type.is_list or not edits.type.scalar.is_integer:
            reason = f"max_edits of fuzzy() must be an integer, got {edits.type}"
            raise scope.setting.error(call.max_edits.span, code, reason)
    return TextSearch(call.function, field.variable.name, prop.name, query, edits)


def nearest_search(scope: Scope, call: NearestCall) -> NearestSearch:
    prop = _searched(scope, call.field, "nearest", "T15")
    dimension = prop.type.dimension
    if prop.type.scalar is not Scalar.VECTOR or dimension is None:
        reason = f"nearest() requires a Vector property, `{prop.name}` is {prop.type}"
        raise scope.setting.error(call.field.span, "T15", reason)
    query = _known(scope, call.query, "T15", "the query of nearest()")
    if not is_scalar_string(query.type):
        length = vector_length(query)
        if length is None:
            reason = (
                f"nearest() requires a Vector({dimension}), a list of numbers or a String, got {query.type}"
            )
            raise scope.setting.error(call.query.span, "T15", reason)
        if length != dimension:
            sizes = f"property is Vector({dimension}), query is Vector({length})"
            reason = f"nearest vector dimension mismatch: {sizes}"
            raise scope.setting.error(call.query.span, "T15", reason)
    model = None if prop.embed is None else prop.embed.model
    return NearestSearch(call.field.variable.name, prop.name, dimension, query, model)


def fused_search(scope: Scope, call: RrfCall) -> FusedSearch:
    first = _arm(scope, call.first)
    second = _arm(scope, call.second)
    if first.variable != second.variable:
        reason = f"rrf() ranks one variable, got `${first.variable}` and `${second.variable}`"
        raise scope.setting.error(call.span, "T21", reason)
    k = None
    if call.k is not None:
        k = _known(scope, call.k, "T21", "k of rrf()")
        if k.type.is_list or not k.type.scalar.is_integer:
            raise scope.setting.error(call.k.span, "T21", f"k of rrf() must be an integer, got {k.type}")
        if isinstance(k, Constant) and k.value == 0:
            raise scope.setting.error(call.k.span, "T21", "k of rrf() must be greater than zero")
    return FusedSearch(first, second, k)


def _arm(scope: Scope, call: NearestCall | TextCall) -> NearestSearch | TextSearch:
    return nearest_search(scope, call) if isinstance(call, NearestCall) else text_search(scope, call)


def _searched(scope: Scope, field: PropertyAccess, function: str, unbound_code: str) -> Property:
    """The property a search looks at; only nodes can be searched."""
    variable = field.variable
    if scope.find_edge(variable) is not None:
        reason = f"{function}() cannot search edge variable `{variable}`"
        raise scope.setting.error(variable.span, "T23", reason)
    node = scope.find_node(variable)
    if node is None:
        raise scope.not_bound(variable, unbound_code)
    prop = node.find_property(field.name.text)
    if prop is None:
        reason = f"type `{node.name}` has no property `{field.name.text}`"
        raise scope.setting.error(field.name.span, "T6", reason)
    return prop


def _known(scope: Scope, expression: Expression, code: str, what: str) -> ValueExpression:
    if isinstance(expression, Literal | ListLiteral | Now):
        return constant_value(scope.setting, expression)
    if isinstance(expression, Variable):
        parameter = scope.setting.parameter_use(expression)
        if parameter is not None:
            return parameter
        if scope.find_node(expression) is None and scope.find_edge(expression) is None:
            raise scope.not_bound(expression)
    raise scope.setting.error(expression.span, code, f"{what} must be a literal or a parameter")
