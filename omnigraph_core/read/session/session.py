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
    ) -> None:
        self.schema = schema
        self.run = run
        self.budget = budget
        self.statistics = Statistics()
        self.settings = settings
        self._tables = tables
        self._snapshot = snapshot
        self.vectors: dict[NearestSearch, npt.NDArray[np.float64] | None] = {}
        """What searches by distance look for, once it is known."""
        self._entities: dict[str, Entities] = {}
        self.cache = cache
        mode = settings.traversal_mode
        self._index = TopologyIndex(tables, cache, store)
        self.topology = Topology(self.nodes, self.entities, mode, budget, self.statistics, cache, self._index)

    @property
    def storage(self) -> Storage:
        return self._tables.storage

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
