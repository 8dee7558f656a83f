"""The clauses of a match, top to bottom: bindings, traversals, filters, negations."""

from __future__ import annotations

from omnigraph_core.query.check.expressions import operand, refuse_blob
from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.check.search import text_search
from omnigraph_core.query.check.setting import compatible, is_scalar, is_scalar_string, item_type
from omnigraph_core.query.check.traversal import check_traversal
from omnigraph_core.query.check.values import check_pattern, known_value
from omnigraph_core.query.checked import (
    Absence,
    Comparison,
    MatchClause,
    NodeBinding,
    NodeUse,
    Operand,
    PropertyTest,
    TextMatch,
)
from omnigraph_core.query.errors import QueryTypeError
from omnigraph_core.query.syntax import (
    AliasUse,
    Binding,
    Clause,
    Expression,
    Filter,
    Negation,
    Operator,
    PropertyMatch,
    TextCall,
    TextClause,
    Traversal,
    Variable,
)
from omnigraph_core.schema import NodeType


def check_clauses(scope: Scope, clauses: tuple[Clause, ...]) -> tuple[MatchClause, ...]:
    return tuple(_clause(scope, clause) for clause in clauses)


def _clause(scope: Scope, clause: Clause) -> MatchClause:
    if isinstance(clause, Binding):
        return _binding(scope, clause)
    if isinstance(clause, Traversal):
        return check_traversal(scope, clause)
    if isinstance(clause, Filter):
        return _filter(scope, clause)
    if isinstance(clause, TextClause):
        return TextMatch(text_search(scope, clause.call))
    return _negation(scope, clause)


def _negation(scope: Scope, clause: Negation) -> Absence:
    inside = scope.inside()
    clauses = check_clauses(inside, clause.clauses)
    if not inside.outer_used:
        reason = "negation must mention a variable bound outside of it"
        raise scope.setting.error(clause.span, "T9", reason)
    return Absence(clauses, tuple(inside.outer_used))


def _binding(scope: Scope, clause: Binding) -> NodeBinding:
    setting, variable = scope.setting, clause.variable
    node = setting.schema.find_node(clause.type.text)
    if node is None:
        names = ", ".join(node.name for node in setting.schema.nodes) or "none"
        reason = f"`{clause.type.text}` is not a node type"
        raise setting.error(clause.type.span, "T1", reason, hint=f"node types are: {names}")
    name = scope.name_of(variable)
    if not variable.is_anonymous:
        scope.check_can_be_node(variable)
        bound = scope.find_node(variable)
        if bound is not None and bound.name != node.name:
            reason = f"variable `{variable}` already bound to type {bound.name}, cannot rebind to {node.name}"
            raise setting.error(clause.span, None, reason)
    scope.nodes[name] = node
    return NodeBinding(name, node, tuple(_property_test(scope, node, match) for match in clause.matches))


def _property_test(scope: Scope, node: NodeType, match: PropertyMatch) -> PropertyTest:
    setting = scope.setting
    prop = node.find_property(match.name.text)
    if prop is None:
        names = ", ".join(prop.name for prop in node.properties) or "none"
        reason = f"type `{node.name}` has no property `{match.name.text}`"
        raise setting.error(match.name.span, "T2", reason, hint=f"properties are: {names}")
    written = match.value
    value = known_value(setting, written)
    if value is None:
        assert isinstance(written, Variable)
        if scope.find_node(written) is not None or scope.find_edge(written) is not None:
            reason = (
                f"a value must fit its property: `{prop.name}` expects {prop.type}, got variable `{written}`"
            )
            hint = "compare properties in a clause of their own, as in $a.x = $b.y"
            raise setting.error(written.span, "T7", reason, hint=hint)
        raise scope.not_bound(written)
    check_pattern(setting, prop, value, written.span)
    return PropertyTest(prop.name, prop.type, value)


def _filter(scope: Scope, clause: Filter) -> Comparison:
    left = operand(scope, clause.left)
    right = operand(scope, clause.right)
    for value in (left, right):
        if value is not None:
            refuse_blob(scope, value, clause.span)
    if left is None or right is None or isinstance(left, NodeUse) or isinstance(right, NodeUse):
        raise _not_scalar(scope, clause, left, right)
    if clause.operator is Operator.CONTAINS:
        fits = _can_contain(left, right)
    elif clause.operator is Operator.STARTS_WITH:
        fits = is_scalar_string(left.type) and is_scalar_string(right.type)
    elif not is_scalar(left.type) or not is_scalar(right.type):
        raise _not_scalar(scope, clause, left, right)
    else:
        fits = compatible(left.type, right.type)
    if not fits:
        reason = f"cannot compare {left.type} with {right.type}"
        hint = "numbers compare with numbers, everything else with its own type"
        if clause.operator in _TAKES:
            reason = f"cannot apply {clause.operator} to {left.type} and {right.type}"
            hint = f"{clause.operator} takes {_TAKES[clause.operator]}"
        raise scope.setting.error(clause.span, "T7", reason, hint=hint)
    return Comparison(left, clause.operator, right)


_TAKES = {
    Operator.CONTAINS: "a list and one item of it, or two Strings",
    Operator.STARTS_WITH: "two Strings",
}


def _can_contain(left: Operand, right: Operand) -> bool:
    if left.type.is_list:
        return is_scalar(right.type) and compatible(item_type(left.type), right.type)
    return is_scalar_string(left.type) and is_scalar_string(right.type)


def _not_scalar(scope: Scope, clause: Filter, left: Operand | None, right: Operand | None) -> QueryTypeError:
    hint = None
    for expression, value in ((clause.left, left), (clause.right, right)):
        if isinstance(expression, AliasUse) and expression.name.text == "null":
            hint = "there is no null literal; pass null as a parameter"
        elif value is not None and value.type.is_list:
            hint = "use contains to look into a list"
    kinds = f"{_kind(clause.left, left)} and {_kind(clause.right, right)}"
    reason = f"filter comparisons require scalar operands, got {kinds}"
    return scope.setting.error(clause.span, "T7", reason, hint=hint)


def _kind(expression: Expression, value: Operand | None) -> str:
    if isinstance(value, NodeUse):
        return f"node {value.node.name}"
    if value is not None:
        return str(value.type)
    return "search" if isinstance(expression, TextCall) else "aggregate"
