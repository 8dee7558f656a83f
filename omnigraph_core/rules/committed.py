"""The committed rows a change is planned against, and a record of which tables it read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from omnigraph_core.rules.parts import Part
from omnigraph_core.rules.rows_by_part import TableByPart
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import are_few, find_keys, rows_with
from omnigraph_core.tables.refs import TableRef

# Reading a table so often costs less than dealing it into parts.
_SCANS_MAX = 3


class Pinned(Protocol):
    """A table at one version."""

    @property
    def ref(self) -> TableRef: ...

    @property
    def table_version(self) -> int: ...


class Base(Protocol):
    """Tables at the versions that a change is planned against: a snapshot, or what is known of one."""

    def entry(self, table_key: str) -> Pinned: ...


class TextsByPart(Protocol):
    """Committed rows by parts of a text; as `TableByPart`."""

    def having(self, number: int, texts: pa.Array) -> pa.Table: ...


ByText = tuple[str, tuple[str, ...]]
"""A table, by its key, and the columns of the text by which its rows are looked up."""


class Committed:
    """One state of the graph. The change depends on every table handed out.

    `deals`: will somebody ask for one part after the other? Then tables are dealt into parts, too.
    `dealt` are those that others have dealt already.
    """

    def __init__(
        self,
        tables: Tables,
        base: Base,
        *,
        deals: bool = True,
        dealt: Mapping[ByText, TextsByPart] | None = None,
    ) -> None:
        self.base = base
        self._deals = deals
        self.reads: dict[str, int] = {}
        """Tables read, with the versions they were read at: the plan's read set."""
        self._tables = tables
        self._open: dict[str, Table] = {}
        self._by_part: dict[ByText, TextsByPart] = dict(dealt or {})
        self._edges_at: dict[tuple[str, str], tuple[pa.Array, pa.Table]] = {}

    def table(self, table_key: str) -> Table:
        if table_key not in self._open:
            entry = self.base.entry(table_key)
            self._open[table_key] = self._tables.open(entry.ref, entry.table_version)
            self.reads[table_key] = entry.table_version
        return self._open[table_key]

    def with_ids(self, entity: EntityType, ids: pa.Array, part: Part) -> pa.Table:
        """The rows that have one of the ids, all of the part: columns id, _rowid, _rowaddr."""
        dealt = self.by_part(entity, ("id",), part, len(ids))
        if dealt is None:
            return find_keys(self.table(entity.table_key), pa.chunked_array([ids]))
        return dealt.having(part.number, ids).select(["id", "_rowid", "_rowaddr"])

    def edges_at(self, edge: EdgeType, node: NodeType, ids: pa.Array) -> pa.Table:
        """The edges at any of these nodes: columns id, src, dst. The table counts as read in any case.

        Who deletes nodes asks for their edges, and then a rule asks again: the answer is kept.
        """
        key = (edge.table_key, node.table_key)
        known = self._edges_at.get(key)
        if known is not None and known[0].equals(ids):
            return known[1]
        types = ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type))
        ends = [end for end, name in types if name == node.name]
        names = [ID_COLUMN, SRC_COLUMN, DST_COLUMN]
        found = rows_with(self.table(edge.table_key), names, ends, ids)
        self._edges_at[key] = (ids, found)
        return found

    def by_part(self, entity: EntityType, by: Sequence[str], part: Part, texts: int) -> TextsByPart | None:
        """The table split into parts, if that pays for looking up this many texts per part."""
        key, table = (entity.table_key, tuple(by)), self.table(entity.table_key)
        if key not in self._by_part:
            rows = table.count_rows()
            if not rows or not self._deals or part.count <= _SCANS_MAX or are_few(texts, rows):
                return None
            self._by_part[key] = TableByPart(table, entity, by, part.count)
        return self._by_part[key]
