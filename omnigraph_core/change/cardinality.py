"""@card: how many edges of a type each source may have, for the sources a change touches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Change, ChangeSet, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.parts import WHOLE, Part, ask_by_part
from omnigraph_core.change.violations import Violation, Violations
from omnigraph_core.schema import EdgeType
from omnigraph_core.schema.model import ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.keys import rows_with

if TYPE_CHECKING:
    import pyarrow as pa


def check_cardinality(changes: ChangeSet, committed: Committed, violations: Violations) -> None:
    """Count the edges of every source that gains, loses or moves one.

    A node that never had an edge is not asked for its minimum, and neither is one that goes.
    An upsert may move an edge from one source to another, so it is asked as a whole.
    """
    for edge in changes.schema.edges:
        edges = changes.of(edge)
        if edges is not None and not edge.cardinality.is_unbounded:
            by_source = edges.verb in (Verb.INSERT, Verb.REPLACE)
            nodes = changes.of(changes.schema.node(edge.from_type))
            ask = partial(_check_part, edges, edge, nodes, committed)
            ask_by_part(changes.parts if by_source else (WHOLE,), violations, ask)


def _check_part(
    edges: Change,
    edge: EdgeType,
    nodes: Change | None,
    committed: Committed,
    part: Part,
    violations: Violations,
) -> None:
    change = edges.part((SRC_COLUMN,), part)
    counts = _staying(
        _counts(change, part, committed), None if nodes is None else nodes.part((ID_COLUMN,), part)
    )
    _compare(change, edge, counts, violations)


def _counts(change: TableChange, part: Part, committed: Committed) -> pa.Table:
    """Edges after the change for each touched source: columns `src`, `edges`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mine = (
        change.rows.column(SRC_COLUMN) if change.verb is not Verb.DELETE else pa.chunked_array([], pa.utf8())
    )
    table, names = committed.table(change.key), ["id", SRC_COLUMN]
    if change.verb is Verb.REPLACE:
        chunks = [batch.column(0) for batch in table.scan([SRC_COLUMN])]
        lost = pa.chunked_array([chunk.filter(part.holds(chunk)) for chunk in chunks], pa.utf8())
        staying = lost.slice(0, 0)
    else:
        lost = rows_with(table, names, ["id"], change.ids).column(SRC_COLUMN)
        touched = pc.unique(pa.chunked_array([*mine.chunks, *lost.chunks], pa.utf8()))
        around = rows_with(table, names, [SRC_COLUMN], touched)
        staying = around.filter(pc.invert(pc.is_in(around.column("id"), value_set=change.ids))).column(
            SRC_COLUMN
        )
    present = pa.chunked_array([*mine.chunks, *staying.chunks], pa.utf8())
    counted = pc.value_counts(present)
    losers = pc.unique(lost)
    empty = losers.filter(pc.invert(pc.is_in(losers, value_set=counted.field("values"))))
    sources = pa.concat_arrays([counted.field("values"), empty])
    edges = pa.concat_arrays([counted.field("counts"), pa.array([0] * len(empty), pa.int64())])
    return pa.table({SRC_COLUMN: sources, "edges": edges})


def _staying(counts: pa.Table, nodes: TableChange | None) -> pa.Table:
    """Without the sources that the same change removes."""
    import pyarrow.compute as pc

    if nodes is None or nodes.verb not in (Verb.DELETE, Verb.REPLACE):
        return counts
    named = pc.is_in(counts.column(SRC_COLUMN), value_set=nodes.ids)
    return counts.filter(pc.invert(named) if nodes.verb is Verb.DELETE else named)


def _compare(change: TableChange, edge: EdgeType, counts: pa.Table, violations: Violations) -> None:
    import pyarrow.compute as pc

    edges = counts.column("edges")
    bad = pc.less(edges, edge.cardinality.minimum)
    if edge.cardinality.maximum is not None:
        bad = pc.or_(bad, pc.greater(edges, edge.cardinality.maximum))
    wrong = counts.filter(bad).sort_by(SRC_COLUMN)
    if violations.wanted is None and change.verb is not Verb.DELETE:
        _report_each(change, edge, wrong, violations)
        return
    sources = change.rows.column(SRC_COLUMN) if change.verb is not Verb.DELETE else None
    names, numbers = wrong.column(SRC_COLUMN), wrong.column("edges")

    def word(row: int) -> Violation:
        name = names[row].as_py()
        at = -1 if sources is None else sources.index(name).as_py()
        source, line = change.origin.place(at) if change.origin and at >= 0 else (None, None)
        return Violation(_words(edge, name, numbers[row].as_py()), source, line, edge.name)

    violations.add_worded(range(wrong.num_rows), word)


def _report_each(change: TableChange, edge: EdgeType, wrong: pa.Table, violations: Violations) -> None:
    """One violation for each edge of a wrong source, so that every one of them can be set aside."""
    import pyarrow.compute as pc

    sources = change.rows.column(SRC_COLUMN).combine_chunks()
    edges = dict(zip(wrong.column(SRC_COLUMN).to_pylist(), wrong.column("edges").to_pylist(), strict=True))
    rows = pc.indices_nonzero(pc.is_in(sources, value_set=wrong.column(SRC_COLUMN).combine_chunks()))
    blamed = set(sources.take(rows).to_pylist())

    def describe(row: int) -> str:
        source = sources[row].as_py()
        return _words(edge, source, edges[source])

    change.report(violations, rows, None, describe)
    for source, count in edges.items():
        if source not in blamed:
            violations.add(Violation(_words(edge, source, count), type_name=edge.name))


def _words(edge: EdgeType, source: str, edges: int) -> str:
    few = edges < edge.cardinality.minimum
    bound = f"min {edge.cardinality.minimum}" if few else f"max {edge.cardinality.maximum}"
    noun = "edge" if edges == 1 else "edges"
    return f"@card violation on edge {edge.name}: source '{clipped(source)}' has {edges} {noun} ({bound})"
