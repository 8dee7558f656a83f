"""What a query does, in the terms of its schema: columns it returns, types it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from omnigraph_core.query.checked import (
    CheckedMutation,
    CheckedQuery,
    CheckedRead,
    Column,
    DeleteEntity,
    EdgeTraversal,
    InsertEdge,
    NodeBinding,
    NodeUse,
    Statement,
    all_clauses,
)
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, NodeType, PropertyType, Scalar, Schema

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATE_TIME: "datetime",
    Scalar.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True)
class ResultField:
    """A returned column; `kind` is `list` for lists, whose items are of `item_kind`."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None


@dataclass(frozen=True, slots=True)
class TouchedType:
    kind: Literal["edge", "node"]
    type_name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`result` is in the order of the columns and empty for mutations; of the rest, nodes come first."""

    result: tuple[ResultField, ...]
    reads: tuple[TouchedType, ...]
    writes: tuple[TouchedType, ...]


def describe_operation(checked: CheckedQuery, schema: Schema) -> Operation:
    if isinstance(checked, CheckedMutation):
        reads = {touched for statement in checked.statements for touched in _read_by(statement, schema)}
        writes = {touched for statement in checked.statements for touched in _written_by(statement, schema)}
        return Operation((), _in_order(reads), _in_order(writes))
    result = tuple(_result_field(column) for column in checked.columns)
    return Operation(result, _in_order(set(_matched(checked))), ())


def _in_order(touched: set[TouchedType]) -> tuple[TouchedType, ...]:
    """Nodes before edges, each by name."""
    return tuple(sorted(touched, key=lambda each: (each.kind != "node", each.type_name)))


def _result_field(column: Column) -> ResultField:
    type_: PropertyType = column.type
    if isinstance(column.value, NodeUse):
        return ResultField(column.short_name, "object", type_.nullable)
    kind = _KINDS[type_.scalar]
    if type_.is_list:
        return ResultField(column.short_name, "list", type_.nullable, item_kind=kind)
    return ResultField(column.short_name, kind, type_.nullable, vector_dim=type_.dimension)


def _matched(read: CheckedRead) -> Iterator[TouchedType]:
    for clause in all_clauses(read.clauses):
        if isinstance(clause, NodeBinding):
            yield TouchedType("node", clause.node.name)
        elif isinstance(clause, EdgeTraversal):
            yield from _with_endpoints(clause.edge)


def _read_by(statement: Statement, schema: Schema) -> Iterator[TouchedType]:
    if isinstance(statement, InsertEdge):
        yield from _with_endpoints(statement.edge)
    else:
        yield from _written_by(statement, schema)


def _written_by(statement: Statement, schema: Schema) -> Iterator[TouchedType]:
    """The type a statement names; deleting nodes takes their edges along."""
    entity: EntityType = statement.entity
    yield TouchedType(entity.kind, entity.name)
    if isinstance(statement, DeleteEntity) and isinstance(entity, NodeType):
        yield from (TouchedType("edge", edge.name) for edge in schema.edges_at(entity.name))


def _with_endpoints(edge: EdgeType) -> Iterator[TouchedType]:
    yield TouchedType("edge", edge.name)
    yield TouchedType("node", edge.from_type)
    yield TouchedType("node", edge.to_type)
