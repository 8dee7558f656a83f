"""The committed rows of ours under the names of the merged schema, for the rules."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_core.merge.ground import Ground
from omnigraph_core.rules.committed import Committed, Pinned
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.memory import empty_table
from omnigraph_core.tables.refs import TableRef


class OurTables:
    """The tables of ours by the keys that they will have."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._entities = {each.table_key: each for each in ground.schema.types()}

    def entry(self, table_key: str) -> Pinned:
        key = self.key(self._entities[table_key])
        assert key is not None
        return self._ground.sides.ours.snapshot.entry(key)

    def key(self, entity: EntityType) -> str | None:
        return self._ground.key_of(self._ground.sides.ours, entity)

    def imagined(self, table_key: str) -> pa.Schema | None:
        """The key columns of a type that ours does not have; rules that need more see all its rows."""
        entity = self._entities[table_key]
        if self.key(entity) is not None:
            return None
        return pa.schema([each for each in table_schema(entity) if entity.find_property(each.name) is None])


class CommittedByOurs(Committed):
    """The same for the rules: a type that ours does not have is empty."""

    def __init__(self, ground: Ground) -> None:
        self._ours = OurTables(ground)
        super().__init__(ground.tables, self._ours)

    def table(self, table_key: str) -> Table:
        if table_key not in self._open:
            schema = self._ours.imagined(table_key)
            if schema is not None:
                self._open[table_key] = empty_table(TableRef(table_key, ""), schema)
        return super().table(table_key)
