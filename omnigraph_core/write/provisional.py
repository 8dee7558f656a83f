"""Branches that exist on approval: made for one write, and kept only if it succeeds.

Whose branch is it? Lance invents the identity of a branch while it makes it, so a process
that dies there never learns it. But the twin on the commit table is made before the branch
itself, under the same locks: its identity is in the staging record before the branch
exists. The branch of that name is the record's own if, and only if, it has that twin. A
record without one owns nothing.

It is removed only if nothing was ever written on it and nobody is about to. All of that is
asked under the refs lock and the branch's own, right before it goes: a writer that was told
success had the branch's lock for it, and whoever makes a branch of this name has both.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import takewhile

from omnigraph_core import faults, layout
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.log import GraphCommit, read_branch_log
from omnigraph_core.history.recoveries import RecoveryKind, read_recoveries
from omnigraph_core.storage import HeldLocks, LockTimeout
from omnigraph_core.tables.fork_refs import Fork, read_fork
from omnigraph_core.write.branches import (
    BranchExists,
    BranchHasDescendants,
    create_branch,
    remove_branch,
)
from omnigraph_core.write.door import Door
from omnigraph_core.write.naming import prove_called
from omnigraph_core.write.staging import KeptRecord, other_is_staging
from omnigraph_core.write.staging_record import StagingRecord


def made_for_write(door: Door, name: str, called: str, source: GraphCommit, kept: KeptRecord) -> bool:
    """Make the branch that a write is for; False if another process has made it in the meantime.

    A branch made here stays only if the write succeeds: else `forget_unwritten` removes it, by
    the record. While the record is kept, it also keeps others from removing the branch as one
    that nobody writes to. A branch that another process made is none of our business, and is written
    to only if it is called as was asked for.
    """
    other_name = None if called == name else called
    try:
        create_branch(door, name, source, None, on_twin=partial(_claim, kept), called=other_name)
    except BranchExists:
        prove_called(door, name, called)
        return False
    faults.hit("branch.made_for_write")
    return True


def _claim(kept: KeptRecord, twin: Fork) -> None:
    kept.amend(made_twin=twin.identity)


def forget_unwritten(door: Door, record: StagingRecord, *, patient: bool) -> bool:
    """Remove the branch that a write made which failed or died, if nothing was ever written on it.

    True when nothing is left to do for the record; False when another process is at work there, and
    a later sweep has to see. A patient caller waits for the locks as a writer would.
    """
    if record.made_twin is None:
        return True
    names = [layout.REFS_LOCK, layout.branch_lock(record.branch)]
    doing = f"remove the unused branch {record.branch}"
    try:
        held = door.storage.locks.lock_all(names, None if patient else 0.0, doing=doing)
    except LockTimeout:
        return False
    with held:
        return _forget(door, record, held)


def _forget(door: Door, record: StagingRecord, held: HeldLocks) -> bool:
    name = record.branch
    fork = door.manifest.branches().get(name)
    twin = read_fork(door.tables, commits_ref(layout.MAIN_BRANCH), name)
    if fork is None or twin is None or twin.identity != record.made_twin:
        return True
    if other_is_staging(door.storage, name, besides=record.operation_id):
        return False
    lock = next(lock for lock in held.locks if lock.name == layout.branch_lock(name))
    door.sweeper.heal(name, lock)
    if _was_written(door, record):
        return True
    faults.hit("branch.to_be_forgotten")
    with suppress(BranchHasDescendants):  # Somebody builds on it: it is a branch like any other by now.
        remove_branch(door, name, fork.identity, held)
    return True


def _was_written(door: Door, record: StagingRecord) -> bool:
    """A write that was rolled back has left commits of its recovery there, and nothing else."""
    log = read_branch_log(door.tables, door.manifest, record.branch)
    if log.commits.get(record.made_from or "") is None:
        return True
    since = takewhile(lambda commit: commit.commit_id != record.made_from, log.history(record.branch))
    undone = {
        each.graph_commit_id
        for each in read_recoveries(door.tables)
        if each.recovery_kind is RecoveryKind.ROLLED_BACK
    }
    return not all(commit.commit_id in undone for commit in since)
