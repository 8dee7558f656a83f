"""The tables that the last write of this process left open on each branch, for its next one.

They are of one branch, by identity, and of one head row. If the branch has that very row, nobody has
published since, and its tables are at the versions that the write made. The logs may have moved all the
same: other branches append to one of them, and a compaction makes no commit. So the next write asks
whether they are still HEAD, which takes a listing, where opening them reads them as well.
"""

from __future__ import annotations

from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.held_tables import HeldTables
from omnigraph_core.write.limits import LEFT_OPEN_BRANCHES_MAX, LEFT_OPEN_TABLES_MAX


class LeftOpen:
    """What is left open of one graph."""

    def __init__(self) -> None:
        self._of: dict[Branch, tuple[GraphHead, tuple[Table, ...]]] = {}
        """By branch, the one that was written last at the end."""

    def leave(self, published: Snapshot, held: HeldTables) -> None:
        """A write has published this, and held these."""
        tables = held.heads()
        self._of.pop(published.on, None)
        if published.head is not None and len(tables) <= LEFT_OPEN_TABLES_MAX:
            self._of[published.on] = (published.head, tables)
        for oldest in list(self._of)[:-LEFT_OPEN_BRANCHES_MAX]:
            self._of.pop(oldest, None)

    def tables(self, current: Snapshot) -> tuple[Table, ...]:
        """What is open of the branch as it is now."""
        head, tables = self._of.get(current.on, (None, ()))
        return tables if head is not None and head == current.head else ()
