"""Lazy forks: the first write to a table on a branch gives it a lineage of its own.

Fork first, then stage: files staged against the parent's dataset would be committed on
the fork without complaint, and be unreadable from then on.
"""

from __future__ import annotations

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.branch import lineage_of
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.tables.branches import create_fork, delete_fork
from omnigraph_core.tables.commit import (
    Guard,
    commit_exact,
    restored_version,
    stage_restore,
    transaction_properties,
)
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_fork
from omnigraph_core.tables.failures import TableNotFound, VersionNotFound, is_missing
from omnigraph_core.tables.foreign import make_ours
from omnigraph_core.tables.fork_refs import ForkRef, RefState
from omnigraph_core.tables.ref_repair import heal_ref, require_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import OPERATION_PROPERTY
from omnigraph_core.tables.torn import manifest_is_whole, set_aside_torn
from omnigraph_core.write.freshness import StalePlan
from omnigraph_core.write.plan import ForkOrigin
from omnigraph_core.write.writable import WritableTable


def needs_fork(entry: SubTableEntry, branch: str) -> bool:
    """Each branch writes to its own lineage, and moves no other."""
    return entry.table_branch != lineage_of(branch)


def may_have_lost_a_fork(base: Snapshot, error: OmnigraphError) -> bool:
    """Until its first publish a fork is nobody's: whoever finds it torn clears it, with what we have
    staged on it. A name that is not there, of a branch or a commit, is another matter."""
    unforked = any(needs_fork(entry, base.branch) for entry in base.tables.values())
    of_a_table = isinstance(error, (StorageError, TableNotFound, VersionNotFound))
    return unforked and of_a_table and is_missing(error)


def fork_table(
    tables: Tables, entry: SubTableEntry, base: Snapshot, current: Snapshot, guard: Guard
) -> WritableTable:
    """Fork a table for the first write on this branch, synced; under the branch lock.

    `current` is the manifest as the lock's holder sees it. A fork it does not refer to
    was made by a writer that is still staging, or that died, or that slept past its lease
    and may be published by the time we look at it. So a fork that starts where ours would
    is used, whoever made it; what was committed on it and not published is undone by a
    restore, never by deleting it.
    """
    now = current.tables.get(entry.table_key)
    if now != entry:
        raise StalePlan(entry.table_key, entry.table_version, now.table_version if now else 0)
    head = fork_at(tables, entry.ref, entry.table_version, base.branch, guard)
    origin = ForkOrigin(entry.table_branch, entry.table_version)
    return WritableTable(head, entry.table_version, entry.row_count, origin)


def fork_at(tables: Tables, parent: TableRef, version: int, branch: str, guard: Guard) -> Table:
    """The branch's own lineage of a table, with the content of this version of its parent."""
    faults.hit("write.fork_wanted")
    origin = ForkOrigin(parent.branch, version)
    ref = parent.on(branch)
    if parent.branch is not None:
        require_ref(tables, ref, parent.branch, guard)
    found = heal_ref(tables, ref, branch, guard)
    faults.hit("write.fork_found")
    if found is not None and not _starts_at(tables, ref, found, origin):
        delete_fork(tables, ref, found, guard)
        found = None
    if found is None:
        create_fork(tables, parent, branch, version, guard)
    head = make_ours(tables, unwritten(tables, ref, version, guard), new_ulid(), guard)
    # Also one we found: whoever made it may have died before this.
    sync_fork(tables.storage, ref, branch)
    faults.hit("write.forked")
    return head


def _starts_at(tables: Tables, ref: TableRef, found: ForkRef, origin: ForkOrigin) -> bool:
    """A leftover of an earlier branch of the name starts elsewhere, or a power cut took its start."""
    fork = found.fork
    if fork is None or found.state is not RefState.WHOLE:
        return False
    if (fork.parent, fork.parent_version) != (origin.parent_branch, origin.parent_version):
        return False
    return manifest_is_whole(tables, ref, origin.parent_version)


def unwritten(tables: Tables, ref: TableRef, start: int, guard: Guard) -> Table:
    """HEAD with the content of the version the fork was made with; restored if it has moved."""
    set_aside_torn(tables, ref, start, guard)
    head = tables.open(ref)
    if head.version == start or restored_version(head) == start:
        return head
    undone = transaction_properties(head, head.version).get(OPERATION_PROPERTY, "")
    staged = stage_restore(head, start, new_ulid(), undoes=undone)
    faults.hit("write.fork_restore_staged")
    return commit_exact(tables, staged, guard)
