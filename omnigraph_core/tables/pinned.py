"""The tables of a graph as one try of a write sees them: each version is opened once.

Versions never change, so planning may share a handle. It belongs to one try: a branch that is
deleted and made again has versions of the same numbers, and the next try must see those.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.refs import TableRef


class PinnedTables(Tables):
    """Keeps what was opened by its number; HEAD is looked for every time.

    `known` are open already. Each gets a `Table` of its own: what is remembered with one is for one try.
    """

    def __init__(self, tables: Tables, known: Iterable[Table] = ()) -> None:
        super().__init__(tables.storage)
        self.proven_whole, self.proven_forks = tables.proven_whole, tables.proven_forks
        self._tables = tables
        self._kept = {(each.ref, each.version): Table(each.ref, each.lance) for each in known}

    def open(self, ref: TableRef, version: int | None = None) -> Table:
        if version is None:
            return self._tables.open(ref)
        kept = self.kept(ref, version)
        if kept is None:
            kept = self._kept[ref, version] = self._tables.open(ref, version)
        return kept

    def kept(self, ref: TableRef, version: int) -> Table | None:
        """What was opened of it, if it was."""
        return self._kept.get((ref, version))
