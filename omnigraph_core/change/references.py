"""Endpoints: every edge starts and ends at a node that is there after the change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Change, ChangeSet, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.parts import WHOLE, Part, ask_by_part
from omnigraph_core.change.violations import Violation, Violations
from omnigraph_core.schema import EdgeType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa


def check_references(changes: ChangeSet, committed: Committed, violations: Violations) -> None:
    """Edges that come in must find their nodes; nodes that go must leave no edge behind."""
    for edge in changes.schema.edges:
        for column, type_name in ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type)):
            node = changes.schema.node(type_name)
            edges, nodes = changes.of(edge), changes.of(node)
            if edges is not None and edges.has_new_rows:
                ask = partial(_check_new_edges, edges, column, node, nodes, committed)
                ask_by_part(changes.parts, violations, ask)
            if nodes is not None and nodes.verb is Verb.REPLACE:
                kept = partial(_check_kept_edges, edge, column, nodes, edges, committed)
                ask_by_part(changes.parts, violations, kept)


def _check_new_edges(
    edges: Change,
    column: str,
    node: NodeType,
    nodes: Change | None,
    committed: Committed,
    part: Part,
    violations: Violations,
) -> None:
    import pyarrow.compute as pc

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
    """Those of `ids` that no node of this type has once the change of the nodes is made."""
    import pyarrow.compute as pc

    if change is not None and change.has_new_rows:
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=change.ids)))
    if not len(ids) or (change is not None and change.verb is Verb.REPLACE):
        return ids
    there = committed.with_ids(node, ids, part).column("id").combine_chunks()
    if change is not None and change.verb is Verb.DELETE:
        there = there.filter(pc.invert(pc.is_in(there, value_set=change.ids)))
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
    import pyarrow.compute as pc

    if edges is not None and edges.verb is Verb.REPLACE:
        return
    there = nodes.part((ID_COLUMN,), part).ids
    replaced = None if edges is None else edges.part((), WHOLE).ids
    for batch in committed.table(edge.table_key).scan(["id", column]):
        ends = batch.column(column)
        gone = pc.and_(part.holds(ends), pc.invert(pc.is_in(ends, value_set=there)))
        if replaced is not None:
            gone = pc.and_(gone, pc.invert(pc.is_in(batch.column("id"), value_set=replaced)))
        orphans = batch.filter(gone)
        ids, ends = orphans.column("id"), orphans.column(column)

        def word(row: int, ids: pa.Array = ids, ends: pa.Array = ends) -> Violation:
            end, edge_id = clipped(ends[row].as_py()), ids[row].as_py()
            left = f"{column} '{end}' of edge '{edge_id}' would be left without its {nodes.entity.name}"
            return Violation(left, type_name=edge.name)

        violations.add_worded(range(orphans.num_rows), word)
