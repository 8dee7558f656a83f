"""The rules of every write, asked of a merge: what neither side broke alone is a conflict of both.

A row that clashes is not judged: it has its conflict already. It still is there, so an edge to it
is no orphan.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.layout import split_table_key
from omnigraph_core.merge.conflicts import Conflict, ConflictKind
from omnigraph_core.merge.engine import MergedTable
from omnigraph_core.merge.ground import Ground
from omnigraph_core.merge.ours import CommittedByOurs
from omnigraph_core.rules.cardinality import check_cardinality
from omnigraph_core.rules.changeset import ChangeSet, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import WHOLE
from omnigraph_core.rules.references import check_references
from omnigraph_core.rules.uniqueness import check_unique_committed, check_unique_inside
from omnigraph_core.rules.values import check_values
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EdgeType, EntityType, Schema
from omnigraph_core.schema.model import ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.keys import rows_with
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.columns import storable


def change_set(schema: Schema, tables: Sequence[MergedTable]) -> ChangeSet:
    """What the merge does to ours, clashing rows left out."""
    changes = {each.entity.table_key: each.change for each in tables}
    return ChangeSet(schema, {key: change for key, change in changes.items() if not change.is_empty})


def broken_rules(ground: Ground, tables: Sequence[MergedTable]) -> list[Conflict]:
    """Everything that the merge would break."""
    schema, committed = ground.schema, CommittedByOurs(ground)
    judged = {each.entity.table_key: each.judged for each in tables}
    changes = ChangeSet(schema, {key: change for key, change in judged.items() if not change.is_empty})
    clashing = {each.entity.table_key: each.clashing_ids for each in tables}
    found: list[Conflict] = []
    for change in changes:
        part = change.part((), WHOLE)
        found += _values(part)
        found += _uniqueness(_without_clashing(part, clashing[change.key]), committed)
    found += _references(_with_clashing(changes, tables), committed, clashing)
    found += _cardinality(changes, committed, ground)
    return found


def _collector() -> Violations:
    """Keeps all, and takes one violation for each source where one for each edge is offered."""
    return Violations(keep=sys.maxsize)


def _values(change: TableChange) -> Iterator[Conflict]:
    violations = _collector()
    check_values(change, violations)
    return _conflicts(ConflictKind.VALUE_CONSTRAINT_VIOLATION, change.entity, violations.first)


def _uniqueness(change: TableChange, committed: Committed) -> Iterator[Conflict]:
    """About several entities each: the message names the holders."""
    violations = _collector()
    check_unique_inside(change, (WHOLE,), violations)
    check_unique_committed(change, (WHOLE,), committed, violations)
    anonymous = (replace(each, entity_id=None) for each in violations.first)
    return _conflicts(ConflictKind.UNIQUE_VIOLATION, change.entity, anonymous)


def _references(
    changes: ChangeSet, committed: Committed, clashing: dict[str, pa.Array]
) -> Iterator[Conflict]:
    violations = _collector()
    check_references(changes, committed, violations)
    entities = {entity.name: entity for entity in changes.schema.edges}
    known = {key: set(ids.to_pylist()) for key, ids in clashing.items() if key.startswith("edge:")}
    of_theirs = _written(changes, violations.first)
    for each in violations.first:
        entity = entities[each.type_name or ""]
        if each.entity_id not in known.get(entity.table_key, ()):
            who = "ours" if (entity.table_key, each.entity_id) in of_theirs else "theirs"
            told = replace(each, message=f"{each.message}: {who} deleted it")
            yield from _conflicts(ConflictKind.ORPHAN_EDGE, entity, [told])


def _written(changes: ChangeSet, orphans: Sequence[Violation]) -> set[tuple[str, str]]:
    """Which of these edges the merge writes, by table: those are theirs, and ours lacks their node."""
    wanted = pa.array(sorted({each.entity_id for each in orphans if each.entity_id}), pa.utf8())
    found = set()
    for edge in changes.schema.edges if len(wanted) else ():
        if (change := changes.tables.get(edge.table_key)) is not None:
            ids = change.part((), WHOLE).rows.column(ID_COLUMN)
            found |= {(edge.table_key, each) for each in ids.filter(pc.is_in(ids, wanted)).to_pylist()}
    return found


def _cardinality(changes: ChangeSet, committed: Committed, ground: Ground) -> Iterator[Conflict]:
    violations = _collector()
    check_cardinality(changes, committed, violations, partial(_bare_in_theirs, ground))
    entities = {entity.name: entity for entity in changes.schema.edges}
    for each in violations.first:
        entity = entities[each.type_name or ""]
        yield from _conflicts(ConflictKind.CARDINALITY_VIOLATION, entity, [replace(each, entity_id=None)])


def _bare_in_theirs(ground: Ground, edge: EdgeType, sources: pa.Array) -> pa.Array:
    """Of these nodes, those that theirs has without an edge, under a bound that is as strict.

    There a node that never had one may be; so may it be here, where theirs gave it that state:
    what had no edge before a load has none when the load is taken back.
    """
    theirs = ground.sides.theirs
    edges, nodes = (ground.lens(theirs, each) for each in (edge, ground.schema.node(edge.from_type)))
    if edges.side is None or not isinstance(edges.side.entity, EdgeType):
        return sources.slice(0, 0)
    if edges.side.entity.cardinality.minimum < edge.cardinality.minimum:
        return sources.slice(0, 0)
    known = whole(nodes.of(sources).table.column(ID_COLUMN))
    busy = rows_with(edges.side.table, [SRC_COLUMN], [SRC_COLUMN], known).column(SRC_COLUMN)
    return known.filter(pc.invert(pc.is_in(known, value_set=whole(busy))))


def _without_clashing(change: TableChange, ids: pa.Array) -> TableChange:
    """A committed row that clashes holds no tuple against the others."""
    if change.replaces or not len(ids):
        return change
    return replace(change, removed=pa.concat_arrays([change.removed, ids]))


def _with_clashing(changes: ChangeSet, tables: Sequence[MergedTable]) -> ChangeSet:
    """Nodes that clash are there, on whichever side they are."""
    with_them = dict(changes.tables)
    for each in tables:
        if each.entity.kind != "node" or not each.rows.clashing.num_rows:
            continue
        change = each.judged
        present = storable(each.rows.clashing, each.entity)
        with_them[each.entity.table_key] = replace(change, rows=pa.concat_tables([change.rows, present]))
    return ChangeSet(changes.schema, with_them, changes.parts)


def _conflicts(kind: ConflictKind, entity: EntityType, found: Iterable[Violation]) -> Iterator[Conflict]:
    entity_kind, type_name = split_table_key(entity.table_key)
    for each in found:
        yield Conflict(
            kind=kind,
            entity_kind=entity_kind,
            type_name=type_name,
            entity_id=each.entity_id,
            property_name=each.property,
            base=None,
            ours=None,
            theirs=None,
            message=each.message,
        )
