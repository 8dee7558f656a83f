"""What a load is asked to do, wherever its rows come from."""

from __future__ import annotations

from omnigraph_core.change.plan import Intent
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.rejects import RejectsFile
from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Rejecting:
    """Bad records go to a file, and the good ones are loaded; up to `limit` of them."""

    file: RejectsFile
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One load."""

    mode: LoadMode
    branch: str
    start: GraphCommit | None
    """Where the branch begins if it has to be made; None for one that is there."""
    intent: Intent
    memory_limit_bytes: int
    tables_at_once: int = 1
    """How many tables are written in parallel, memory permitting."""
    rejecting: Rejecting | None = None
    dry_run: bool = False
    called: str | None = None
    """What people call the branch, if it has to be made."""

    @property
    def name(self) -> str:
        return self.called or self.branch

    @property
    def is_rejecting(self) -> bool:
        return self.rejecting is not None
