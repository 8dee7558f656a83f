"""A table to stage on, and what a staged write makes of it in a plan."""

from __future__ import annotations

from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fold import stage_fold
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.plan import ForkOrigin, TableWrite


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A table ready to be staged on, on the branch's own lineage; `row_count` as published."""

    table: Table
    published_version: int
    row_count: int
    fork: ForkOrigin | None = None

    def planned(self, storage: Storage, staged: StagedWrite) -> TableWrite:
        """The table's part of a plan; small fragments that have piled up are folded along."""
        fold = stage_fold(storage, self.table, staged)
        return TableWrite(
            ref=self.table.ref,
            base_version=self.table.version,
            published_version=self.published_version,
            row_count=self.row_count + staged.rows_inserted - staged.rows_deleted,
            staged=(staged,) if fold is None else (staged, fold),
            fork=self.fork,
        )
