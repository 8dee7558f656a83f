"""Traversals: which edge, which way, and what types its ends get."""

from __future__ import annotations

from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.checked import Direction, EdgeTraversal
from omnigraph_core.query.syntax import Traversal, Variable
from omnigraph_core.schema import EdgeType, NodeType


def check_traversal(scope: Scope, clause: Traversal) -> EdgeTraversal:
    """Binds both ends, and the edge variable if there is one."""
    edge = _edge(scope, clause)
    low, high = _hops(scope, clause)
    for end in (clause.left, clause.right):
        if not end.is_anonymous:
            scope.check_can_be_node(end)
    direction = _direction(scope, clause, edge)
    left_type, right_type = edge.from_type, edge.to_type
    if direction is Direction.BACKWARD:
        left_type, right_type = right_type, left_type
    left = _bind_end(scope, clause.left, left_type, edge)
    right = _bind_end(scope, clause.right, right_type, edge)
    return EdgeTraversal(
        left,
        right,
        edge,
        direction,
        left_type,
        right_type,
        low,
        high,
        per_edge=clause.edge_variable is not None,
        edge_variable=_bind_edge(scope, clause, edge),
    )


def _edge(scope: Scope, clause: Traversal) -> EdgeType:
    edge = scope.setting.schema.find_edge(clause.edge.text)
    if edge is None:
        names = ", ".join(edge.name for edge in scope.setting.schema.edges) or "none"
        reason = f"unknown edge type `{clause.edge.text}`"
        raise scope.setting.error(clause.edge.span, "T4", reason, hint=f"edge types are: {names}")
    if clause.undirected and edge.from_type != edge.to_type:
        reason = f"undirected traversal needs equal endpoint types, got `{_shape(edge)}`"
        raise scope.setting.error(clause.edge.span, "T22", reason)
    return edge


def _hops(scope: Scope, clause: Traversal) -> tuple[int, int]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    if clause.edge_variable is not None and (hops.minimum, hops.maximum) != (1, 1):
        raise scope.setting.error(
            hops.span, "T23", "an edge variable stands for one edge and takes no bounds"
        )
    if hops.maximum is None:
        reason = "unbounded traversal is disabled; use bounded traversal {min,max}"
        raise scope.setting.error(hops.span, "T15", reason)
    if hops.minimum == 0:
        raise scope.setting.error(hops.span, "T15", "traversal min hops must be at least 1")
    if hops.maximum < hops.minimum:
        reason = f"traversal max hops ({hops.maximum}) is below min hops ({hops.minimum})"
        raise scope.setting.error(hops.span, "T15", reason)
    return hops.minimum, hops.maximum


def _direction(scope: Scope, clause: Traversal, edge: EdgeType) -> Direction:
    """The first end with a type decides; with none the left one is the source."""
    left = scope.find_node(clause.left)
    right = scope.find_node(clause.right)
    if left is not None:
        forward = _is_source(scope, clause.left, left, edge, source=edge.from_type, target=edge.to_type)
    elif right is not None:
        forward = _is_source(scope, clause.right, right, edge, source=edge.to_type, target=edge.from_type)
    else:
        forward = True
    if clause.undirected:
        return Direction.BOTH
    return Direction.FORWARD if forward else Direction.BACKWARD


def _is_source(
    scope: Scope, variable: Variable, node: NodeType, edge: EdgeType, *, source: str, target: str
) -> bool:
    if node.name == source:
        return True
    if node.name == target:
        return False
    reason = (
        f"variable `{variable}` has type `{node.name}`, which is not an endpoint of edge `{_shape(edge)}`"
    )
    raise scope.setting.error(variable.span, "T5", reason)


def _bind_end(scope: Scope, variable: Variable, type_name: str, edge: EdgeType) -> str:
    name = scope.name_of(variable)
    bound = None if variable.is_anonymous else scope.find_node(variable)
    if bound is not None and bound.name != type_name:
        reason = (
            f"variable `{variable}` has type `{bound.name}`, "
            f"but edge `{_shape(edge)}` leads to `{type_name}` here"
        )
        raise scope.setting.error(variable.span, "T5", reason)
    scope.nodes[name] = scope.setting.schema.node(type_name)
    return name


def _bind_edge(scope: Scope, clause: Traversal, edge: EdgeType) -> str | None:
    variable = clause.edge_variable
    if variable is None or variable.is_anonymous:
        return None
    taken = (scope.nodes, scope.edges, scope.setting.parameters)
    if any(variable.name in names for names in taken):
        reason = f"edge variable `{variable}` must be a new name"
        raise scope.setting.error(variable.span, "T23", reason)
    scope.edges[variable.name] = edge
    return variable.name


def _shape(edge: EdgeType) -> str:
    return f"{edge.name}: {edge.from_type} -> {edge.to_type}"
