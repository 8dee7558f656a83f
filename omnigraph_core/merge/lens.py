"""The table of one state read as a type of the merged schema: columns renamed, widened, filled.

A column that the state does not have holds what a migration would fill it with. A value that the
merged type cannot hold is one that nobody has: where two states differ in it they differ, and a
side that has one cannot be merged.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.columns import Side
from omnigraph_core.diff.equality import Mask, differ
from omnigraph_core.merge.rows import Rows, rows
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Property, Scalar
from omnigraph_core.schema.arrow import arrow_type, table_schema
from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.compare import Compared, compare, still_there
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.keys import no_places, remember_keys
from omnigraph_core.tables.row_set import RowSet, all_rows, read_rows_of
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.coerce import coerce
from omnigraph_core.values.columns import column


@dataclass(frozen=True, slots=True)
class Lens:
    """One type of the merge in one state, which may not have it."""

    entity: EntityType
    side: Side | None
    properties: Mapping[str, str]
    """The names that the state has for properties of the type, as far as it has them."""

    @property
    def names(self) -> list[str]:
        return list(self.entity.columns)

    def stored(self, name: str) -> str | None:
        """What a column of the type is called in the state."""
        if self.entity.find_property(name) is None:
            return name
        return self.properties.get(name)

    def of(self, ids: pa.Array) -> Rows:
        """The rows with these ids, as far as there are any."""
        if self.side is None:
            return self.none()
        return self._as_type(read_rows_of(self.side.table, pa.chunked_array([ids]), self._wanted, blobs=True))

    def none(self) -> Rows:
        return rows(read_schema(self.entity).empty_table())

    def all(self) -> RowSet | None:
        return None if self.side is None else all_rows(self.side.table)

    def read(self, chosen: RowSet | None) -> Rows:
        """Whole rows, blobs as bytes, with the columns of the type."""
        if chosen is None:
            return self.none()
        return self._as_type(chosen.read(self._wanted, blobs=True))

    @property
    def _wanted(self) -> list[str]:
        return [stored for name in self.names if (stored := self.stored(name)) is not None]

    def _as_type(self, found: pa.Table) -> Rows:
        columns: dict[str, pa.ChunkedArray] = {}
        nobody: dict[str, Mask] = {}
        for name in self.names:
            prop, stored = self.entity.find_property(name), self.stored(name)
            if prop is None or stored is None:
                values = found.column(name) if prop is None else _filled(prop, found.num_rows)
            else:
                values, unfit = _as(found.column(stored), prop)
                if unfit is not None:
                    nobody[name] = unfit
            columns[name] = values
        return Rows(pa.table(columns), nobody)

    def read_placed(self, chosen: RowSet | None) -> tuple[Rows, pa.Table]:
        """The same, and where the rows are: columns id, _rowid, _rowaddr."""
        if chosen is None:
            return self.none(), no_places()
        found = chosen.read(self._wanted, blobs=True)
        return self._as_type(found), found.select(no_places().column_names)

    def kept(self, tables: Tables, base: Lens, places: pa.Table) -> pa.Array:
        """The ids of those rows of a base that this state has in the very same files: nobody touched them.

        Where they are is remembered with the table.
        """
        if self.side is None or base.side is None or dict(self.properties) != dict(base.properties):
            return pa.array([], pa.utf8())
        table, other = self.side.table, base.side.table
        if table.ref.path != other.ref.path:
            return pa.array([], pa.utf8())
        found = still_there(tables, other, table, places, self._pairs(base))
        ids = found.column(ID_COLUMN)
        if table.known_keys is None:
            remember_keys(table, ids, found)
        return whole(ids)

    def is_same_table(self, other: Lens) -> bool:
        """Is it the same version of the same table, read in the same way?"""
        if self.side is None or other.side is None:
            return self.side is other.side
        mine, yours = self.side.table, other.side.table
        return (mine.ref.path, mine.ref.branch, mine.version, dict(self.properties)) == (
            yours.ref.path,
            yours.ref.branch,
            yours.version,
            dict(other.properties),
        )

    def compared(self, tables: Tables, other: Lens) -> tuple[RowSet | None, RowSet | None]:
        """Rows in which the two may differ: all, if they are two tables."""
        if self.side is None or other.side is None or self.side.table.ref.path != other.side.table.ref.path:
            return self.all(), other.all()
        found: Compared = compare(tables, self.side.table, other.side.table, self._pairs(other))
        return found.gone, found.come

    def _pairs(self, other: Lens) -> list[tuple[str | None, str | None]]:
        """The columns of both; None where a state does not have it."""
        return [pair for name in self.names if any(pair := (self.stored(name), other.stored(name)))]


def read_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type as they are read: blobs are bytes."""
    blobs = {prop.name for prop in entity.properties if prop.type.scalar is Scalar.BLOB}
    fields = table_schema(entity)
    types = {each.name: pa.large_binary() if each.name in blobs else each.type for each in fields}
    return pa.schema([pa.field(name, type_) for name, type_ in types.items()])


def filling(prop: Property) -> pa.Scalar:
    """What rows have that were there before the property was."""
    default = default_of(prop)
    if prop.type.scalar is Scalar.BLOB or default is None:
        return pa.scalar(None, _type(prop))
    return column([coerce(default, prop.type)], prop)[0]


def _filled(prop: Property, count: int) -> pa.ChunkedArray:
    value = filling(prop)
    array = pa.nulls(count, _type(prop)) if not value.is_valid else pa.repeat(value, count)
    return pa.chunked_array([array], _type(prop))


def _type(prop: Property) -> pa.DataType:
    return pa.large_binary() if prop.type.scalar is Scalar.BLOB else arrow_type(prop.type)


def _as(values: pa.ChunkedArray, prop: Property) -> tuple[pa.ChunkedArray, Mask | None]:
    """The values as the property has them; null where it cannot hold one, and a mask of these."""
    wanted = _type(prop)
    if values.type == wanted or prop.type.scalar is Scalar.BLOB:
        return values, None
    try:
        return values.cast(wanted), None
    except pa.ArrowInvalid:
        return _those_that_fit(whole(values), wanted)


def _those_that_fit(values: pa.Array, wanted: pa.DataType) -> tuple[pa.ChunkedArray, Mask]:
    narrowed = values.cast(wanted, safe=False)
    unfit = differ(narrowed.cast(values.type, safe=False), values)
    found = pc.if_else(pa.array(~unfit), narrowed, pa.scalar(None, wanted))
    return pa.chunked_array([found], wanted), np.asarray(unfit)
