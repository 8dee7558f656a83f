"""Running the statements of a mutation: each sees what the ones before it made.

Nothing is written here. Inserted and updated rows pend in memory and hide the committed
rows of their ids; deletes only ever meet committed rows, because a query that deletes
does nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import ChangeSet, TableChange, Verb
from omnigraph_core.change.coerce import CoercionError, blob_bytes, blob_column, column
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.identity import fresh_ids, key_ids
from omnigraph_core.change.uniqueness import last_of_each
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
from omnigraph_core.schema import EdgeType, EntityType, NodeType, Property, Scalar, Schema
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import rows_with
from omnigraph_core.tables.memory import matching_rows

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Rows of one type that the run has made so far; each id once, the last version of it."""

    def __init__(self, entity: EntityType) -> None:
        from omnigraph_core.schema.arrow import table_schema

        self.entity = entity
        self.all_fresh = True
        self._schema = table_schema(entity)
        self._rows = self._schema.empty_table()
        self._inserted: list[dict[str, object]] = []

    def insert(self, values: dict[str, object]) -> None:
        """Remember one row by column; made part of the table when somebody looks."""
        self._inserted.append(values)

    @property
    def rows(self) -> pa.Table:
        if self._inserted:
            inserted, self._inserted = self._inserted, []
            self.put(_table(self.entity, inserted, self._schema), fresh=_has_fresh_ids(self.entity))
        return self._rows

    def put(self, rows: pa.Table, *, fresh: bool) -> None:
        """Add rows; they take the place of earlier ones with their ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

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
        self._of(statement.node).insert(self._values(statement.assignments))
        self._affected["node"] += 1

    def insert_edge(self, statement: InsertEdge) -> None:
        values = self._values(statement.assignments)
        values[SRC_COLUMN] = evaluate(statement.source, self._params, self._now)
        values[DST_COLUMN] = evaluate(statement.target, self._params, self._now)
        for name, end in (("from", SRC_COLUMN), ("to", DST_COLUMN)):
            if values[end] is None:
                raise UnfitValueError(name, f"an edge {statement.edge.name} needs an id here, not null")
        self._of(statement.edge).insert(values)
        self._affected["edge"] += 1

    def update(self, statement: UpdateNode) -> None:
        """Committed rows that match, unless a pending one hides them, and pending ones that do."""
        import pyarrow as pa
        import pyarrow.compute as pc

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
                self._doom(edge, _edges_at(self._committed, edge, statement.entity, found))

    def executed(self) -> Executed:
        import pyarrow as pa
        import pyarrow.compute as pc

        changes = {}
        for key, pending in self._pending.items():
            if pending.rows.num_rows:
                verb = Verb.INSERT if pending.all_fresh else Verb.UPSERT
                changes[key] = TableChange(pending.entity, verb, pending.rows, fresh=pending.all_fresh)
        for key, (entity, found) in self._doomed.items():
            ids = pc.unique(pa.chunked_array(found, pa.utf8()))
            if len(ids):
                changes[key] = TableChange(entity, Verb.DELETE, pa.table({"id": ids}))
                self._affected[entity.kind] += len(ids)
        nodes, edges = self._affected["node"], self._affected["edge"]
        return Executed(ChangeSet(self._schema, changes), nodes, edges, self._strict)

    def _of(self, entity: EntityType) -> _Pending:
        return self._pending.setdefault(entity.table_key, _Pending(entity))

    def _values(self, assignments: Sequence[Assigned]) -> dict[str, object]:
        return {each.property: self._stored(each) for each in assignments}

    def _stored(self, assignment: Assigned) -> object:
        value = assigned_value(assignment, self._params, self._now)
        if assignment.type.scalar is Scalar.BLOB and isinstance(value, str):
            try:
                return blob_bytes(value)
            except CoercionError as error:
                raise UnfitValueError(assignment.property, str(error)) from error
        return _plain(value)

    def _assigned(self, rows: pa.Table, assignments: Sequence[Assigned], entity: EntityType) -> pa.Table:
        """The rows with the assigned columns set to one value throughout."""
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


def _edges_at(committed: Committed, edge: EdgeType, node: NodeType, ids: pa.Array) -> pa.Array:
    """Edges with one of these nodes at an end. The table counts as read even if there is none."""
    table = committed.table(edge.table_key)
    types = ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type))
    ends = [end for end, name in types if name == node.name]
    return rows_with(table, ["id"], ends, ids).column("id").combine_chunks()


def _table(entity: EntityType, inserted: Sequence[dict[str, object]], schema: pa.Schema) -> pa.Table:
    """Rows given by column name as a table of the type, ids and all."""
    import pyarrow as pa

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


def _has_fresh_ids(entity: EntityType) -> bool:
    return not (isinstance(entity, NodeType) and entity.key is not None)


def _whole_rows(table: Table, entity: EntityType, where: str) -> pa.Table:
    """Matching rows with everything they have, blobs too, in the columns of a new row."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import table_schema

    schema = table_schema(entity)
    rows = table.read(schema.names, where, blobs=True)
    columns = []
    for field in schema:
        prop: Property | None = entity.find_property(field.name)
        values = rows.column(field.name)
        if prop is not None and prop.type.scalar is Scalar.BLOB:
            columns.append(blob_column(values.combine_chunks()))
        else:
            columns.append(values.cast(field.type))
    return pa.table(columns, schema=schema)


def _plain(value: Plain) -> object:
    """As Arrow takes it: dates as days, instants as milliseconds, tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return to_milliseconds(value)
    if isinstance(value, date):
        return to_days(value)
    return value
