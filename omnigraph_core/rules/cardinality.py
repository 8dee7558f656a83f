"""@card: how many edges of a type each source may have, for the sources a change touches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.rules.changeset import Change, ChangeSet, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import WHOLE, Part, ask_by_part
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EdgeType
from omnigraph_core.schema.model import ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.keys import rows_with
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.shown import clipped

Bare = Callable[[EdgeType, pa.Array], pa.Array]
"""Of the sources that are left without an edge, those that may be."""


def check_cardinality(
    changes: ChangeSet, committed: Committed, violations: Violations, may_be_bare: Bare | None = None
) -> None:
    """Count the edges of every source that gains, loses or moves one.

    A node that never had an edge is not asked for its minimum, and neither is one that goes, nor
    one that may be bare. A change of committed edges may take one from a source that no row names,
    so it is asked as a whole.
    """
    for edge in changes.schema.edges:
        edges = changes.of(edge)
        if edges is not None and not edge.cardinality.is_unbounded:
            by_source = edges.only_adds or edges.replaces
            nodes = changes.of(changes.schema.node(edge.from_type))
            ask = partial(_check_part, edges, edge, nodes, committed, may_be_bare)
            ask_by_part(changes.parts if by_source else (WHOLE,), violations, ask)


def _check_part(
    edges: Change,
    edge: EdgeType,
    nodes: Change | None,
    committed: Committed,
    may_be_bare: Bare | None,
    part: Part,
    violations: Violations,
) -> None:
    change = edges.part((SRC_COLUMN,), part)
    counts = _staying(
        _counts(change, part, committed), None if nodes is None else nodes.part((ID_COLUMN,), part)
    )
    if may_be_bare is not None:
        counts = _without_bare(counts, partial(may_be_bare, edge))
    _compare(change, edge, counts, violations)


def _without_bare(counts: pa.Table, may_be_bare: Callable[[pa.Array], pa.Array]) -> pa.Table:
    is_bare = pc.equal(counts.column("edges"), 0)
    bare = whole(counts.filter(is_bare).column(SRC_COLUMN))
    if not len(bare):
        return counts
    exempt = pc.is_in(counts.column(SRC_COLUMN), value_set=may_be_bare(bare))
    return counts.filter(pc.invert(pc.and_(is_bare, exempt)))


def _counts(change: TableChange, part: Part, committed: Committed) -> pa.Table:
    """Edges after the change for each touched source: columns `src`, `edges`."""
    mine = change.rows.column(SRC_COLUMN)
    table, names = committed.table(change.key), ["id", SRC_COLUMN]
    if change.replaces:
        chunks = [batch.column(0) for batch in table.scan([SRC_COLUMN])]
        lost = pa.chunked_array([chunk.filter(part.holds(chunk)) for chunk in chunks], pa.utf8())
        staying = lost.slice(0, 0)
    else:
        leaving = change.leaving
        lost = rows_with(table, names, ["id"], leaving).column(SRC_COLUMN)
        touched = pc.unique(pa.chunked_array([*mine.chunks, *lost.chunks], pa.utf8()))
        around = rows_with(table, names, [SRC_COLUMN], touched)
        stays = pc.invert(pc.is_in(around.column("id"), value_set=leaving))
        staying = around.filter(stays).column(SRC_COLUMN)
    present = pa.chunked_array([*mine.chunks, *staying.chunks], pa.utf8())
    counted = pc.value_counts(present)
    losers = pc.unique(lost)
    empty = losers.filter(pc.invert(pc.is_in(losers, value_set=counted.field("values"))))
    sources = pa.concat_arrays([counted.field("values"), empty])
    edges = pa.concat_arrays([counted.field("counts"), pa.array([0] * len(empty), pa.int64())])
    return pa.table({SRC_COLUMN: sources, "edges": edges})


def _staying(counts: pa.Table, nodes: TableChange | None) -> pa.Table:
    """Leave out the sources that the same change removes."""
    if nodes is None or nodes.only_adds:
        return counts
    sources = counts.column(SRC_COLUMN)
    if nodes.replaces:
        return counts.filter(pc.is_in(sources, value_set=nodes.ids))
    return counts.filter(pc.invert(pc.is_in(sources, value_set=nodes.removed)))


def _compare(change: TableChange, edge: EdgeType, counts: pa.Table, violations: Violations) -> None:
    edges = counts.column("edges")
    bad = pc.less(edges, edge.cardinality.minimum)
    if edge.cardinality.maximum is not None:
        bad = pc.or_(bad, pc.greater(edges, edge.cardinality.maximum))
    wrong = counts.filter(bad).sort_by(SRC_COLUMN)
    if violations.wanted is None:
        _report_each(change, edge, wrong, violations)
        return
    sources = change.rows.column(SRC_COLUMN)
    names, numbers = wrong.column(SRC_COLUMN), wrong.column("edges")

    def word(row: int) -> Violation:
        name = names[row].as_py()
        at = sources.index(name).as_py()
        source, line = change.origin.place(at) if change.origin and at >= 0 else (None, None)
        return Violation(_words(edge, name, numbers[row].as_py()), source, line, edge.name)

    violations.add_worded(range(wrong.num_rows), word)


def _report_each(change: TableChange, edge: EdgeType, wrong: pa.Table, violations: Violations) -> None:
    """One violation per edge of an offending source, so that each of them can be rejected."""
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
