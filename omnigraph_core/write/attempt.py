"""One try of one write."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_core.catalog.schemas import Schemas
from omnigraph_core.errors import RefusedError
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.storage import Lock
from omnigraph_core.tables.pinned import PinnedTables


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a planner works on: one snapshot of a branch and the schema it was published with.

    The door makes one for every try, so a plan never mixes what two of them saw.
    """

    snapshot: Snapshot
    schemas: Schemas
    lock: Lock | None = None
    """The branch's lock, when it is held for as long as the attempt lasts."""
    pinned: PinnedTables | None = None
    """The tables of the graph, each version opened once for this try."""

    @property
    def branch(self) -> str:
        return self.snapshot.branch

    @property
    def head(self) -> GraphHead:
        if self.snapshot.head is None:
            raise RefusedError(f"branch '{self.branch}' has no head row: another program made this graph")
        return self.snapshot.head

    @property
    def schema_hash(self) -> str:
        return self.head.schema_hash

    @property
    def schema(self) -> Schema:
        return self.schemas.by_hash(self.schema_hash)

    def at(self, current: Snapshot) -> Attempt:
        """The same attempt, on a later snapshot in which nothing moved that it depends on."""
        return replace(self, snapshot=current)
