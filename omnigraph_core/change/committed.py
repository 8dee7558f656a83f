"""The committed rows a change is planned against, and a memory of which tables it looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph_core.change.dealt import DealtTable
from omnigraph_core.change.parts import Part
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.schema import EntityType
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import are_few, find_keys

if TYPE_CHECKING:
    import pyarrow as pa

# Reading a table so often costs less than dealing it into parts.
_SCANS_MAX = 3


class Committed:
    """One snapshot. Every table handed out is part of what the change depends on."""

    deals = True
    """Will somebody ask for one part after the other? Then tables are dealt into parts, too."""

    def __init__(self, tables: Tables, base: Snapshot) -> None:
        self.base = base
        self.reads: dict[str, int] = {}
        """Tables read, with the versions they were read at: the plan's read set."""
        self._tables = tables
        self._open: dict[str, Table] = {}
        self._dealt: dict[tuple[str, tuple[str, ...]], DealtTable] = {}

    def table(self, table_key: str) -> Table:
        if table_key not in self._open:
            entry = self.base.entry(table_key)
            self._open[table_key] = self._tables.open(entry.ref, entry.table_version)
            self.reads[table_key] = entry.table_version
        return self._open[table_key]

    def with_ids(self, entity: EntityType, ids: pa.Array, part: Part) -> pa.Table:
        """The rows that have one of the ids, all of the part: columns id, _rowid, _rowaddr."""
        import pyarrow as pa

        dealt = self.dealt(entity, ("id",), part, len(ids))
        if dealt is None:
            return find_keys(self.table(entity.table_key), pa.chunked_array([ids]))
        return dealt.having(part.number, ids).select(["id", "_rowid", "_rowaddr"])

    def dealt(self, entity: EntityType, by: Sequence[str], part: Part, texts: int) -> DealtTable | None:
        """The table by parts, if it is worth dealing for someone who looks for so many texts a part."""
        key = (entity.table_key, tuple(by))
        if key not in self._dealt:
            table = self.table(entity.table_key)
            rows = table.count_rows()
            if not rows or not self.deals or part.count <= _SCANS_MAX or are_few(texts, rows):
                return None
            self._dealt[key] = DealtTable(table, entity, by, part.count)
        return self._dealt[key]
