"""Does what others have published since concern a load that was checked before it?

Checking a big load takes long, and under the branch's lock no other writer could write. So it is
checked outside, and under the lock only the difference is looked at: of every table that
moved meanwhile, the rows that were inserted, changed or removed. They do not concern the load if
they share nothing with it that a rule compares. Then the check would find today what it
found then, and the load is published on top of them. In doubt they concern it.

So what costs a long load another check is a write to the same ids, the same unique
values, the ends of its edges: not any write. Writers that keep doing just that can use up
its attempts; then it ends as busy, as a small write would. What is asked under the lock takes
one pass over the keys of the load and reads of the tables what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.held_rows import key_columns
from omnigraph_core.load.limits import MOVED_ROWS_MAX
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.rules.changeset import Change, ChangeSet, Newness
from omnigraph_core.schema import EdgeType, EntityType, Schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.failures import VersionNotFound
from omnigraph_core.tables.moved import Moved, compare
from omnigraph_core.values.identity import tuple_texts
from omnigraph_core.write.forks import needs_fork
from omnigraph_core.write.plan import WritePlan


def read_moved(tables: Tables, schema: Schema, plan: WritePlan, current: Snapshot) -> dict[str, Moved] | None:
    """What has become of every table that the plan wrote or read; None when it is another or too much."""
    entities = {entity.table_key: entity for entity in schema.types()}
    expected = {table.ref.key: table.published_version for table in plan.tables} | dict(plan.reads)
    found: dict[str, Moved] = {}
    for key, version in sorted(expected.items()):
        then, now = plan.base.tables.get(key), current.tables.get(key)
        if then is None or now is None or then.ref != now.ref or needs_fork(now, current.branch):
            return None
        if now.table_version == version:
            continue
        try:
            older, newer = tables.open(now.ref, version), tables.open(now.ref, now.table_version)
        except VersionNotFound:
            return None
        moved = compare(older, newer, key_columns(entities[key]), MOVED_ROWS_MAX)
        if moved is None:
            return None
        found[key] = moved
    return found


def concern(moved: Mapping[str, Moved], changes: ChangeSet) -> bool:
    """Do the differences share anything with the load that a rule compares?"""
    return any(
        _concerns(difference, entity, changes)
        for entity in changes.schema.types()
        if (difference := moved.get(entity.table_key)) is not None
    )


def _concerns(moved: Moved, entity: EntityType, changes: ChangeSet) -> bool:
    mine = changes.of(entity)
    ends = [] if isinstance(entity, EdgeType) else _ends(entity, changes)
    if mine is None and not ends:
        return True  # It was read for a reason that is not known here.
    if mine is not None and _rows_concern(moved, mine, changes):
        return True
    gone = moved.removed.column(ID_COLUMN).combine_chunks()
    return any(_shares(edges, (column,), gone, changes) for edges, column in ends)


def _ends(node: EntityType, changes: ChangeSet) -> list[tuple[Change, str]]:
    """Edges of the load that start or end at nodes of this type."""
    found = []
    for edge in changes.schema.edges:
        edges = changes.of(edge)
        if edges is not None and edges.has_rows:
            named = ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type))
            found += [(edges, column) for column, type_name in named if type_name == node.name]
    return found


def _rows_concern(moved: Moved, mine: Change, changes: ChangeSet) -> bool:
    """Of a table that the load writes itself."""
    if mine.replaces or len(mine.removed):
        return True
    either = pa.concat_tables([moved.before, moved.after])
    if mine.newness is not Newness.FRESH:
        # Of an id that stays, under its row id, it does not matter what the row says.
        ids = pa.concat_tables([moved.inserted, moved.removed]).column(ID_COLUMN).combine_chunks()
        if _shares(mine, (ID_COLUMN,), ids, changes):
            return True
    entity = mine.entity
    for group in entity.uniques:
        if _shares(mine, group.columns, tuple_texts(either, group.columns, entity), changes):
            return True
    if isinstance(entity, EdgeType) and not entity.cardinality.is_unbounded:
        # An upsert may take edges from sources that its own rows do not name.
        sources = either.column(SRC_COLUMN).combine_chunks()
        return not mine.only_adds or _shares(mine, (SRC_COLUMN,), sources, changes)
    return False


def _shares(mine: Change, columns: Sequence[str], texts: pa.Array, changes: ChangeSet) -> bool:
    """Has any row of the load one of the texts?"""
    wanted = pc.drop_null(texts)
    if not len(wanted):
        return False
    for part in changes.parts:
        asked = wanted.filter(part.holds(wanted))
        if not len(asked):
            continue
        rows = mine.part(columns, part).rows
        if pc.any(pc.is_in(tuple_texts(rows, columns, mine.entity), value_set=asked)).as_py():
            return True
    return False
