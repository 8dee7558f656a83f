"""Endpoints: every edge starts and ends at a node that exists after the change."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.rules.changeset import Change, ChangeSet, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import WHOLE, Part, ask_by_part
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EdgeType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.shown import clipped


def check_references(changes: ChangeSet, committed: Committed, violations: Violations) -> None:
    """New edges must find their nodes, and removed nodes must leave no edge behind."""
    for edge in changes.schema.edges:
        for column, type_name in ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type)):
            node = changes.schema.node(type_name)
            edges, nodes = changes.of(edge), changes.of(node)
            if edges is not None and edges.has_rows:
                ask = partial(_check_new_edges, edges, column, node, nodes, committed)
                ask_by_part(changes.parts, violations, ask)
            if nodes is None or (edges is not None and edges.replaces):
                continue
            if nodes.replaces:
                kept = partial(_check_kept_edges, edge, column, nodes, edges, committed)
                ask_by_part(changes.parts, violations, kept)
            elif len(nodes.removed):
                left = partial(_check_left_edges, edge, column, node, nodes.removed, edges, committed)
                ask_by_part((WHOLE,), violations, left)


def _check_new_edges(
    edges: Change,
    column: str,
    node: NodeType,
    nodes: Change | None,
    committed: Committed,
    part: Part,
    violations: Violations,
) -> None:
    near = None if nodes is None else nodes.part((ID_COLUMN,), part)
    missing = _absent(edges.distinct(column, part), node, near, part, committed)
    if len(missing):
        change = edges.part((column,), part)
        ends = change.rows.column(column)
        rows = pc.indices_nonzero(pc.is_in(ends, value_set=missing).combine_chunks())
        change.report(
            violations,
            rows,
            None,
            lambda row: f"{column} '{clipped(ends[row].as_py())}' not found in {node.name}",
        )


def _absent(
    ids: pa.Array, node: NodeType, change: TableChange | None, part: Part, committed: Committed
) -> pa.Array:
    """Those of `ids` that no node of this type has after the change."""
    if change is not None and change.has_rows:
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=change.ids)))
    if not len(ids) or (change is not None and change.replaces):
        return ids
    there = committed.with_ids(node, ids, part).column("id").combine_chunks()
    if change is not None:
        there = there.filter(pc.invert(pc.is_in(there, value_set=change.removed)))
    return ids.filter(pc.invert(pc.is_in(ids, value_set=there)))


def _check_kept_edges(
    edge: EdgeType,
    column: str,
    nodes: Change,
    edges: Change | None,
    committed: Committed,
    part: Part,
    violations: Violations,
) -> None:
    """Edges that stay in their table while the nodes they point to are replaced."""
    there = nodes.part((ID_COLUMN,), part).ids
    for batch in committed.table(edge.table_key).scan(["id", column]):
        ends = batch.column(column)
        gone = pc.and_(part.holds(ends), pc.invert(pc.is_in(ends, value_set=there)))
        orphans = _staying(pa.Table.from_batches([batch.filter(gone)]), edges)
        _report_orphans(orphans, edge, column, nodes.entity.name, violations)


def _check_left_edges(
    edge: EdgeType,
    column: str,
    node: NodeType,
    removed: pa.Array,
    edges: Change | None,
    committed: Committed,
    part: Part,
    violations: Violations,
) -> None:
    """Edges that stay in their table while nodes they point to are removed."""
    found = committed.edges_at(edge, node, removed)
    orphans = _staying(found.filter(pc.is_in(found.column(column), value_set=removed)), edges)
    _report_orphans(orphans, edge, column, node.name, violations)


def _staying(found: pa.Table, edges: Change | None) -> pa.Table:
    """Committed edges without those that the change removes, or has new rows for."""
    if edges is None or not found.num_rows:
        return found
    leaving = edges.part((), WHOLE).leaving
    return found.filter(pc.invert(pc.is_in(found.column(ID_COLUMN), value_set=leaving)))


def _report_orphans(
    orphans: pa.Table, edge: EdgeType, column: str, node_name: str, violations: Violations
) -> None:
    ids, ends = orphans.column(ID_COLUMN), orphans.column(column)

    def word(row: int) -> Violation:
        end, edge_id = clipped(ends[row].as_py()), ids[row].as_py()
        left = f"{column} '{end}' of edge '{edge_id}' would be left without its {node_name}"
        return Violation(left, type_name=edge.name, entity_id=edge_id)

    violations.add_worded(range(orphans.num_rows), word)
