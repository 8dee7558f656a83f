"""The committed rows a change is planned against, and a memory of which tables it looked at."""

from __future__ import annotations

from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.dataset import Table, Tables


class Committed:
    """One snapshot. Every table handed out is part of what the change depends on."""

    def __init__(self, tables: Tables, base: Snapshot) -> None:
        self.base = base
        self.reads: dict[str, int] = {}
        """Tables read, with the versions they were read at: the plan's read set."""
        self._tables = tables
        self._open: dict[str, Table] = {}

    def table(self, table_key: str) -> Table:
        if table_key not in self._open:
            entry = self.base.entry(table_key)
            self._open[table_key] = self._tables.open(entry.ref, entry.table_version)
            self.reads[table_key] = entry.table_version
        return self._open[table_key]
