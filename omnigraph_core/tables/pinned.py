"""The tables of a graph as one try of a write sees them: each version is opened once.

Versions never change, so planning may share a handle. It belongs to one try: a branch that is
deleted and made again has versions of the same numbers, and the next try must see those.
"""

from __future__ import annotations

from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.refs import TableRef


class PinnedTables(Tables):
    """Keeps what was opened by its number; HEAD is looked for every time."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables.storage)
        self.proven_whole, self.proven_forks = tables.proven_whole, tables.proven_forks
        self._tables = tables
        self._kept: dict[tuple[TableRef, int], Table] = {}

    def open(self, ref: TableRef, version: int | None = None) -> Table:
        if version is None:
            return self._tables.open(ref)
        kept = self._kept.get((ref, version))
        if kept is None:
            kept = self._kept[ref, version] = self._tables.open(ref, version)
        return kept
