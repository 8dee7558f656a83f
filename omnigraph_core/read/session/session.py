"""What one read works with: the tables of a snapshot, opened when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.query.checked import NearestSearch
from omnigraph_core.read.plan.conditions import Run
from omnigraph_core.read.session.budget import Budget
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.read.session.statistics import Statistics
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.topology.cache import CacheKey, ReadCache
from omnigraph_core.topology.neighbours import Topology
from omnigraph_core.topology.store import TopologyStore
from omnigraph_core.topology.stored import TopologyIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# What an open table is expected to take.
_TABLE_BYTES = 1 << 16

# What a part of a read may hold of the memory of the whole: sorting and grouping have theirs, and so have
# rows on their way from one part to the next.
_PART_SHARE = 4


class Session:
    """One read of one snapshot. Every type is opened at the version the snapshot pins, once."""

    def __init__(
        self,
        tables: Tables,
        snapshot: Snapshot,
        schema: Schema,
        run: Run,
        budget: Budget,
        settings: Settings,
        cache: ReadCache,
        store: TopologyStore | None = None,
        whole: Session | None = None,
    ) -> None:
        """`whole` is the session that this one is a part of."""
        self.schema = schema
        self.run = run
        self.budget = budget
        self.statistics: Statistics = Statistics() if whole is None else whole.statistics.summed()
        self.settings = settings
        self._tables = tables
        self._snapshot = snapshot
        self.vectors: dict[NearestSearch, npt.NDArray[np.float64] | None] = {}
        """What searches by distance look for, once it is known."""
        self._entities: dict[str, Entities] = {}
        self.cache = cache
        mode = settings.traversal_mode
        self._store = store
        self._index: TopologyIndex = TopologyIndex(tables, cache, store) if whole is None else whole._index
        self.topology = Topology(self.nodes, self.entities, mode, budget, self.statistics, cache, self._index)

    @property
    def storage(self) -> Storage:
        return self._tables.storage

    def part(self, *, is_least: bool = False) -> Session:
        """For a part of the same read, which has met nothing; it may hold less, unless it is the least."""
        budget = self.budget.part(1 if is_least else _PART_SHARE)
        rest = self._tables, self._snapshot, self.schema, self.run
        return Session(*rest, budget, self.settings, self.cache, self._store, self)

    def forget(self) -> None:
        """Let go of everything that was met and read."""
        self._entities.clear()
        self.topology.forget()
        self.budget.begin_again()

    def nodes(self, type_name: str) -> Entities:
        return self.entities(self.schema.node(type_name))

    def entities(self, entity: EntityType) -> Entities:
        key = entity.table_key
        if key not in self._entities:
            entry = self._snapshot.entry(key)
            opened: CacheKey[Table] = CacheKey(("table", entry))
            table = self.cache.get(opened)
            if table is None:
                table = self._tables.open(entry.ref, entry.table_version)
                self.cache.put(opened, table, _TABLE_BYTES)
            self._entities[key] = Entities(
                entity, table, entry, self.budget, self.statistics, self.cache, self._index
            )
        return self._entities[key]

    def row_count(self, table_key: str) -> int:
        return self._snapshot.entry(table_key).row_count
