"""What an optimize did, or would do."""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.indexes.topology import TopologyBuilt
from omnigraph_core.records import dataclass
from omnigraph_core.tables.compaction import PendingIndex


class Skipped(StrEnum):
    """Why a table was left as it is; the text is part of the JSON answer."""

    DRIFT = "drift_needs_repair"
    INHERITED = "inherited"
    """The branch has not written to it; it is its parent's."""
    BUSY = "written_meanwhile"


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """What was done to one table, or would be."""

    table_key: str
    fragments: int = 0
    fragments_after: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes: tuple[str, ...] = ()
    """Built or extended."""
    pending_indexes: tuple[PendingIndex, ...] = ()
    bytes_written: int = 0
    """Of data and indexes; before a run, an estimate."""
    published_version: int | None = None
    head_version: int | None = None
    """The newest version there was; a higher one is somebody's write in progress, or drift."""
    committed: bool = False
    skipped: Skipped | None = None


@dataclass(frozen=True, slots=True)
class Optimized:
    """One run over one branch; no commit when there was nothing to do."""

    branch: str
    tables: tuple[OptimizedTable, ...]
    commit_ids: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    topology: tuple[TopologyBuilt, ...] = ()
    """What became of the topology index: of each edge type that is large enough for one."""
