"""Running the statements of a mutation: each sees the results of those before it.

Nothing is written here. Inserted and updated rows pend in memory and hide the committed
rows of their ids; deletes only ever meet committed rows, because a query that deletes
does nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.query import BoundParams, CheckedMutation, UnfitValueError, assigned_value, evaluate
from omnigraph_core.query.checked import (
    Assigned,
    Condition,
    DeleteEntity,
    InsertEdge,
    InsertNode,
    Plain,
    UpdateNode,
)
from omnigraph_core.query.predicate import NoMatch, condition_sql
from omnigraph_core.query.temporal import to_days, to_milliseconds
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import ChangeSet, Newness, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.schema import EdgeType, EntityType, NodeType, Scalar, Schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.memory import matching_rows
from omnigraph_core.values.coerce import CoercionError, blob_bytes
from omnigraph_core.values.columns import column, storable
from omnigraph_core.values.defaults import default_values
from omnigraph_core.values.identity import fresh_ids, is_keyed, key_ids
from omnigraph_core.values.repeats import last_of_each


@dataclass(frozen=True, slots=True)
class Executed:
    """What a mutation does to this snapshot. `strict`: its rows were chosen by a predicate."""

    changes: ChangeSet
    affected_nodes: int
    affected_edges: int
    strict: bool


def execute(
    mutation: CheckedMutation, schema: Schema, params: BoundParams, now: datetime, committed: Committed
) -> Executed:
    """Work out the change set of a mutation against one snapshot."""
    run = _Run(schema, params, now, committed)
    for statement in mutation.statements:
        if isinstance(statement, InsertNode):
            run.insert_node(statement)
        elif isinstance(statement, InsertEdge):
            run.insert_edge(statement)
        elif isinstance(statement, UpdateNode):
            run.update(statement)
        else:
            run.delete(statement)
    return run.executed()


class _Pending:
    """Rows of one type created so far; each id once, in its latest version."""

    def __init__(self, entity: EntityType) -> None:
        self.entity = entity
        self.all_fresh = True
        self._schema = table_schema(entity)
        self._rows = self._schema.empty_table()
        self._inserted: list[dict[str, object]] = []

    def insert(self, values: dict[str, object]) -> None:
        """Keep one row by column; it joins the table when the table is next read."""
        self._inserted.append(values)

    @property
    def rows(self) -> pa.Table:
        if self._inserted:
            inserted, self._inserted = self._inserted, []
            self.put(_table(self.entity, inserted, self._schema), fresh=not is_keyed(self.entity))
        return self._rows

    def put(self, rows: pa.Table, *, fresh: bool) -> None:
        """Add rows; they replace earlier ones with the same ids."""
        self.all_fresh = self.all_fresh and fresh
        kept = self._rows.filter(
            pc.invert(pc.is_in(self._rows.column("id"), value_set=rows.column("id").combine_chunks()))
        )
        last = last_of_each(rows.column("id").combine_chunks())
        self._rows = pa.concat_tables([kept, rows if last is None else rows.filter(last)]).combine_chunks()


class _Run:
    def __init__(self, schema: Schema, params: BoundParams, now: datetime, committed: Committed) -> None:
        self._schema = schema
        self._params = params
        self._now = now
        self._committed = committed
        self._pending: dict[str, _Pending] = {}
        self._doomed: dict[str, tuple[EntityType, list[pa.Array]]] = {}
        self._affected = {"node": 0, "edge": 0}
        self._strict = False

    def insert_node(self, statement: InsertNode) -> None:
        self._of(statement.node).insert(self._new_values(statement.node, statement.assignments))
        self._affected["node"] += 1

    def insert_edge(self, statement: InsertEdge) -> None:
        values = self._new_values(statement.edge, statement.assignments)
        values[SRC_COLUMN] = evaluate(statement.source, self._params, self._now)
        values[DST_COLUMN] = evaluate(statement.target, self._params, self._now)
        for name, end in (("from", SRC_COLUMN), ("to", DST_COLUMN)):
            if values[end] is None:
                raise UnfitValueError(name, f"an edge {statement.edge.name} needs a node id here, not null")
        self._of(statement.edge).insert(values)
        self._affected["edge"] += 1

    def update(self, statement: UpdateNode) -> None:
        """Update the matching committed rows that no pending row hides, and the matching pending rows."""
        self._strict = True
        where = condition_sql(statement.condition, self._params, self._now)
        if isinstance(where, NoMatch):
            return
        pending = self._of(statement.node)
        table = self._committed.table(statement.node.table_key)
        rows = _whole_rows(table, statement.node, where)
        rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=pending.rows.column("id"))))
        again = pending.rows.take(matching_rows(pending.rows, where, table.ref))
        matched = pa.concat_tables([rows, again])
        if matched.num_rows:
            pending.put(self._assigned(matched, statement.assignments, statement.node), fresh=False)
        self._affected["node"] += matched.num_rows

    def delete(self, statement: DeleteEntity) -> None:
        self._strict = True
        found = self._matching_ids(statement.entity, statement.condition)
        self._doom(statement.entity, found)
        if isinstance(statement.entity, NodeType):
            for edge in self._schema.edges_at(statement.entity.name):
                edges = self._committed.edges_at(edge, statement.entity, found)
                self._doom(edge, edges.column(ID_COLUMN).combine_chunks())

    def executed(self) -> Executed:
        changes = {}
        for key, pending in self._pending.items():
            if pending.rows.num_rows:
                newness = Newness.FRESH if pending.all_fresh else Newness.OPEN
                changes[key] = TableChange(pending.entity, pending.rows, newness=newness)
        for key, (entity, found) in self._doomed.items():
            ids = pc.unique(pa.chunked_array(found, pa.utf8()))
            if len(ids):
                changes[key] = TableChange.removing(entity, ids)
                self._affected[entity.kind] += len(ids)
        nodes, edges = self._affected["node"], self._affected["edge"]
        return Executed(ChangeSet(self._schema, changes), nodes, edges, self._strict)

    def _of(self, entity: EntityType) -> _Pending:
        return self._pending.setdefault(entity.table_key, _Pending(entity))

    def _new_values(self, entity: EntityType, assignments: Sequence[Assigned]) -> dict[str, object]:
        """What an insert gives, and the defaults of what it leaves out."""
        return {**default_values(entity), **{each.property: self._stored(each) for each in assignments}}

    def _stored(self, assignment: Assigned) -> object:
        value = assigned_value(assignment, self._params, self._now)
        if assignment.type.scalar is Scalar.BLOB and isinstance(value, str):
            try:
                return blob_bytes(value)
            except CoercionError as error:
                raise UnfitValueError(assignment.property, str(error)) from error
        return _plain(value)

    def _assigned(self, rows: pa.Table, assignments: Sequence[Assigned], entity: EntityType) -> pa.Table:
        """The rows with each assigned column set to one value."""
        for each in assignments:
            prop = entity.find_property(each.property)
            assert prop is not None
            position = rows.schema.get_field_index(each.property)
            values = column([self._stored(each)] * rows.num_rows, prop)
            rows = rows.set_column(position, rows.schema.field(position), values)
        return rows

    def _matching_ids(self, entity: EntityType, condition: Condition) -> pa.Array:
        """The table counts as read even when the predicate can match nothing."""
        where = condition_sql(condition, self._params, self._now)
        table = self._committed.table(entity.table_key)
        return (
            table.read(["id"], "false" if isinstance(where, NoMatch) else where).column("id").combine_chunks()
        )

    def _doom(self, entity: EntityType, ids: pa.Array) -> None:
        self._doomed.setdefault(entity.table_key, (entity, []))[1].append(ids)


def _table(entity: EntityType, inserted: Sequence[dict[str, object]], schema: pa.Schema) -> pa.Table:
    """Rows given by column name as a table of the type, ids included."""
    columns = {}
    for prop in entity.properties:
        columns[prop.name] = column([row.get(prop.name) for row in inserted], prop)
    if isinstance(entity, EdgeType):
        for end in (SRC_COLUMN, DST_COLUMN):
            columns[end] = pa.array([row[end] for row in inserted], pa.utf8())
    if isinstance(entity, NodeType) and entity.key is not None:
        columns["id"] = key_ids(pa.table(columns), entity.key, entity)
    else:
        columns["id"] = fresh_ids(len(inserted))
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _whole_rows(table: Table, entity: EntityType, where: str) -> pa.Table:
    """Matching rows with all their columns, blobs included."""
    return storable(table.read(table_schema(entity).names, where, blobs=True), entity)


def _plain(value: Plain) -> object:
    """As Arrow takes it: dates as days, instants as milliseconds, tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return to_milliseconds(value)
    if isinstance(value, date):
        return to_days(value)
    return value
