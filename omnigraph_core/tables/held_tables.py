"""The tables of a graph as the holder of a branch's lock sees them: each is opened once.

While the lock is held, the branch's own datasets move by the holder's commits alone, and
what these make is kept (`Tables.keep`). Logs that every branch appends to may move all the
same, and a lock may be lost. So a kept table is never a proof: `commit_exact` looks for
HEAD again, a publish is fenced, and an append is rebased. Whoever finds that a kept table
is not HEAD any more forgets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from omnigraph_core.errors import StorageError
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.refs import TableRef


class HeldTables(Tables):
    """Use one from one thread, for one lock, and let it go with the lock."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables.storage)
        self.proven_whole, self.proven_forks = tables.proven_whole, tables.proven_forks
        self._tables = tables
        self._kept: dict[TableRef, Table] = {}
        self._heads: set[TableRef] = set()
        """Whose kept version is known to be HEAD; the others were asked for by their number."""

    def consider(self, tables: Iterable[Table]) -> None:
        """Tables that are open, and may be HEAD: asked before they are used as such."""
        for table in tables:
            self._kept.setdefault(table.ref, table)

    def heads(self) -> tuple[Table, ...]:
        """What is known to be HEAD."""
        return tuple(self._kept[ref] for ref in self._kept if ref in self._heads)

    def open(self, ref: TableRef, version: int | None = None) -> Table:
        kept = self._kept.get(ref)
        if kept is not None and (kept.version == version or (version is None and self._is_known_head(kept))):
            return kept
        table = self._tables.open(ref, version)
        if version is None:
            self.keep(table)
        elif kept is None:
            self._kept[ref] = table
        return table

    def keep(self, table: Table) -> None:
        self._kept[table.ref] = table
        self._heads.add(table.ref)

    def forget(self, ref: TableRef) -> None:
        self._kept.pop(ref, None)
        self._heads.discard(ref)

    def _is_known_head(self, kept: Table) -> bool:
        with suppress(StorageError):  # Opening it says better what is wrong.
            if kept.ref not in self._heads and self.is_head(kept):
                self._heads.add(kept.ref)
        return kept.ref in self._heads
