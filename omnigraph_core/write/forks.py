"""Lazy forks: the first write to a table on a branch gives it a lineage of its own.

Fork first, then stage: files staged against the parent's dataset would be committed on
the fork without complaint, and be unreadable from then on.
"""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.tables.branches import create_fork, delete_fork, read_fork
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import sync_fork
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.freshness import StalePlan
from omnigraph_core.write.plan import ForkOrigin
from omnigraph_core.write.writable import WritableTable


def own_lineage(branch: str) -> str | None:
    """The Lance branch that a graph branch writes to: each moves only its own."""
    return None if branch == layout.MAIN_BRANCH else branch


def needs_fork(entry: SubTableEntry, branch: str) -> bool:
    return entry.table_branch != own_lineage(branch)


def fork_table(tables: Tables, entry: SubTableEntry, base: Snapshot, current: Snapshot) -> WritableTable:
    """Fork a table for the first write on this branch, synced; under the branch lock.

    `current` is the manifest as the lock's holder sees it. A fork it does not refer to
    is a leftover, or was made a moment ago by a writer that is still staging: when it is
    untouched and starts where ours would, it serves both of us.
    """
    now = current.tables.get(entry.table_key)
    if now != entry:
        raise StalePlan(entry.table_key, entry.table_version, now.table_version if now else 0)
    origin = ForkOrigin(entry.table_branch, entry.table_version)
    ref = entry.ref.on(base.branch)
    if not _is_usable(tables, ref, origin):
        if read_fork(tables, ref, base.branch) is not None:
            delete_fork(tables, ref, base.branch)
        create_fork(tables, entry.ref, base.branch, entry.table_version)
    # Also one we found: whoever made it may have died before this.
    sync_fork(tables.storage, ref, base.branch)
    faults.hit("write.forked")
    return WritableTable(tables.open(ref), entry.table_version, entry.row_count, origin)


def _is_usable(tables: Tables, ref: TableRef, origin: ForkOrigin) -> bool:
    if ref.branch is None:
        return False
    fork = read_fork(tables, ref, ref.branch)
    if fork is None or (fork.parent, fork.parent_version) != (origin.parent_branch, origin.parent_version):
        return False
    return tables.open(ref).version == origin.parent_version
