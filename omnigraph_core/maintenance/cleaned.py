"""What a cleanup did, or would do."""

from __future__ import annotations

from omnigraph_core.maintenance.keep import Policy
from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """What a lineage takes on disk; forks count by themselves."""

    versions: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """One lineage: what went of it, or would go."""

    table_key: str
    branch: str
    versions: int = 0
    files: int = 0
    bytes: int = 0
    before: Usage = Usage()
    after: Usage = Usage()
    """As it was found. Writers at work may have added to it."""
    action: str = "versions"
    """`versions`; `rows` of `__manifest`; `staged` files of the dead; `fork` or `dataset` when all of one
    went; `busy` when somebody writes to it, and the next cleanup does it."""
    rows: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One run."""

    policy: Policy
    tables: tuple[CleanedTable, ...]
    commits_removed: int
    commits_left: int
    branches_purged: tuple[str, ...] = ()
    """Deleted branches that cannot be brought back any more."""
    branches_spared: tuple[str, ...] = ()
    """Those that can."""
    leftovers: int = 0
    """Files of killed processes that belong to no table."""
    leftover_bytes: int = 0

    @property
    def has_failed(self) -> bool:
        return any(table.error is not None for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables) + self.leftover_bytes

    @property
    def is_nothing(self) -> bool:
        return not (self.tables or self.branches_purged or self.leftovers)
