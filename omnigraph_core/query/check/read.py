"""A whole read: match, then what it returns, in which order, how much."""

from __future__ import annotations

from omnigraph_core.query.check.match import check_clauses
from omnigraph_core.query.check.order import check_order
from omnigraph_core.query.check.projection import check_grouping, check_projections
from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.check.setting import Setting
from omnigraph_core.query.checked import Aggregate, CheckedRead
from omnigraph_core.query.syntax import Query, ReadBody


def typed_read(setting: Setting, query: Query, body: ReadBody) -> CheckedRead:
    scope = Scope(setting)
    clauses = check_clauses(scope, body.clauses)
    if not scope.nodes:
        reason = "the match binds no node"
        raise setting.error(query.name_span, None, reason, hint="bind one, as in $x: Type")
    columns = check_projections(scope, body.projections)
    grouped = any(isinstance(column.value, Aggregate) for column in columns)
    ranking, order = check_order(scope, body, columns, grouped)
    if grouped:
        check_grouping(scope, body.projections, columns)
    return CheckedRead(
        query.name,
        query.parameters,
        tuple(scope.nodes.items()),
        tuple(scope.edges.items()),
        clauses,
        columns,
        grouped,
        ranking,
        order,
        body.limit,
    )
