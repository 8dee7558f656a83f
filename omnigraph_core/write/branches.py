"""Branches of a graph: create and delete.

A branch is a Lance branch of `__manifest`, with a twin on the commit table. Creating
one makes the twin first and the manifest branch last; so the manifest branch alone decides
whether a branch exists. Deleting puts its ref aside (`write/put_aside.py`), and nothing else
goes. A twin without a manifest branch says that forks of tables may be there too, of a deleted
branch or of a create that died: the next create of the name (or of one that would share its
directory) gives the deleted branch up and clears them, the twin after everything else.

Everything that goes is read under the locks first and goes by what was read, never by
its name, and the locks are asked about right before: on object storage they may be
gone at any moment, and another branch of the name be there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

from omnigraph_core import faults, layout
from omnigraph_core.errors import ConflictError, NotFoundError, OmnigraphError, RefusedError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.moves import MoveKind
from omnigraph_core.history.names import read_names
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.settle import settle_torn
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced, manifest_ref
from omnigraph_core.storage import HeldLocks, Lock
from omnigraph_core.tables.branches import (
    create_fork,
    delete_files,
    delete_fork,
    descends,
    unlink_fork,
)
from omnigraph_core.tables.durability import sync_fork
from omnigraph_core.tables.fork_refs import (
    Fork,
    ForkRef,
    read_fork,
)
from omnigraph_core.tables.ref_repair import require_ref
from omnigraph_core.write.branch_forks import clear_for, forks_of, remove_forks, table_refs, tables_of
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import check_head
from omnigraph_core.write.moves import Note, logged, settle_moves, shown_name
from omnigraph_core.write.naming import BranchExists as BranchExists
from omnigraph_core.write.naming import (
    check_name,
    name_line,
    prove_still_called,
    refuse_taken_line,
    refuse_taken_name,
)
from omnigraph_core.write.put_aside import (
    forget_record,
    put_aside,
)


class StartMoved(ConflictError):
    """The commit a branch was to start at is not where it was: its branch was deleted meanwhile."""

    retryable = True

    def __init__(self, commit: GraphCommit) -> None:
        super().__init__(
            f"commit {commit.commit_id} is no longer on branch '{commit.branch}': the branch was "
            "deleted or replaced in the meantime",
            hint="check `omnigraph branch list` and try again",
        )
        self.commit_id, self.branch = commit.commit_id, commit.branch

    def details(self) -> Mapping[str, object]:
        return {"commit_id": self.commit_id, "branch": self.branch}


class BranchHasDescendants(RefusedError):
    """Branches were made from this one, and read data it owns."""

    def __init__(self, branch: str, descendants: list[str]) -> None:
        super().__init__(
            f"branch '{branch}' has descendants: {', '.join(descendants)}", hint="delete those first"
        )
        self.branch, self.descendants = branch, descendants

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch, "descendants": self.descendants}


def create_branch(
    door: Door,
    name: str,
    source: GraphCommit,
    note: Note | None = None,
    on_twin: Callable[[Fork], None] = lambda twin: None,
    called: str | None = None,
) -> None:
    """Make branch `name` start at a commit; touches the manifest and the commit table only.

    `called` is what people call it, if another line has that name.

    `on_twin` is told of the twin, which says whose the branch is, before there is a branch. Without a
    note the log does not have it: then it is part of a write.
    """
    name = check_name(name)
    locks = [layout.REFS_LOCK, layout.branch_lock(source.branch), layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch create {name}") as held:
        faults.hit("branch.create_locked")
        if not door.manifest.has_branch(source.branch):
            raise StartMoved(source)
        door.sweeper.heal(source.branch, lock_of(held, source.branch))
        near = refuse_taken_line(door, name)
        refuse_taken_name(door, name, called or name)
        _check_start(door, source)
        clear_for(door, source.branch, name, near, held)
        faults.hit("branch.create_cleared")
        if called is not None:
            name_line(door, name, called, held)
        commits = commits_ref(source.branch)
        if commits.branch is not None:
            require_ref(door.tables, commits, commits.branch, held.check)
        settle_torn(door.tables, door.manifest, source.branch, held.check)
        twin = door.tables.open(commits)
        create_fork(door.tables, commits, name, twin.version, held.check)
        sync_fork(door.storage, commits, name)
        made = read_fork(door.tables, commits, name)
        if made is not None:
            on_twin(made)
        faults.hit("branch.twin_created")
        twin_identity = None if made is None else made.identity
        with _logged_create(door, called or name, name, source, note, twin_identity, held):
            manifest = manifest_ref(source.branch)
            create_fork(door.tables, manifest, name, source.manifest_version, held.check)
            faults.hit("branch.manifest_created")
            sync_fork(door.storage, manifest, name)


def _logged_create(
    door: Door,
    called: str,
    name: str,
    source: GraphCommit,
    note: Note | None,
    twin: str | None,
    held: HeldLocks,
) -> AbstractContextManager[None]:
    if note is None:
        return nullcontext()
    start = source.commit_id
    move = note.move(MoveKind.BRANCH_CREATE, called, lineage=name, commit_id=start, twin=twin)
    return logged(door, move, held)


def delete_branch(
    door: Door,
    name: str,
    note: Note,
    *,
    only_at: str | None = None,
    identity: str | None = None,
    called: str | None = None,
) -> None:
    """Delete a branch; durable when it returns. With `only_at`, only if that commit is its head, with
    `identity`, only if it is this very branch, and with `called`, only if it is called so.

    It can be brought back until it is purged.

    What is left of one whose making a power cut ended is removed: it is no branch, but has the name.
    """
    name = name.strip()
    if name in (layout.MAIN_BRANCH, layout.SCHEMA_LOCK_BRANCH):
        raise RefusedError(f"branch '{name}' cannot be deleted")
    locks = [layout.REFS_LOCK, layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch delete {name}") as held:
        faults.hit("branch.delete_locked")
        found = door.manifest.branch_ref(name)
        if found is None:
            raise BranchNotFound(name)
        fork = found.fork_or_none()
        if fork is not None and called is not None:
            prove_still_called(Branch(name, fork.identity), called, read_names(door.storage.control))
        if only_at is not None:
            door.sweeper.heal(name, lock_of(held, name))
            check_head(only_at, door.manifest.snapshot(name))
        if fork is not None:
            retire_branch(door, name, identity or fork.identity, note, held)
        else:
            _remove_unfinished(door, found, held)


def retire_branch(door: Door, name: str, identity: str, note: Note, held: HeldLocks) -> None:
    """Put exactly this branch aside, under the refs lock and its own."""
    found, fork = _settled(door, name, identity, held)
    faults.hit("branch.delete_found")
    put_aside(door, found, fork, note, held)
    faults.hit("branch.manifest_deleted")


def _settled(door: Door, name: str, identity: str, held: HeldLocks) -> tuple[ForkRef, Fork]:
    """The ref of a branch that may go: nothing was made from it, and no write on it is pending."""
    found, _ = _branch_of(door, name, identity)
    _refuse_descendants(door, found)
    door.sweeper.heal(name, lock_of(held, name))
    # Recovery took its time, and on object storage a lock may be lost in it.
    return _branch_of(door, name, identity)


def remove_schema_lock(door: Door) -> None:
    """Remove the branch by which other programs lock the schema, as far as it is there."""
    name = layout.SCHEMA_LOCK_BRANCH
    locks = [layout.REFS_LOCK, layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch delete {name}") as held:
        found = door.manifest.branch_ref(name)
        if found is None:
            return
        if (fork := found.fork_or_none()) is not None:
            remove_branch(door, name, fork.identity, held)
        else:
            _remove_unfinished(door, found, held)


def remove_branch(door: Door, name: str, identity: str, held: HeldLocks) -> None:
    """Remove exactly this branch, which was never written to, under the refs lock and its own.

    The manifest branch goes first and durably, which is decisive. What cannot be removed
    after that is a leftover, and no failure.
    """
    found, _ = _settled(door, name, identity, held)
    settle_moves(door, held)
    forget_record(door, identity, held)
    forks = forks_of(door, tables_of(door, name), name, held)
    faults.hit("branch.delete_found")
    files = unlink_fork(door.tables, manifest_ref(layout.MAIN_BRANCH), found, held.check)
    faults.hit("branch.manifest_deleted")
    with suppress(OmnigraphError):
        delete_files(door.tables, files, held.check)
        remove_forks(door, forks, name, held)


def _branch_of(door: Door, name: str, identity: str) -> tuple[ForkRef, Fork]:
    """The ref of the branch, if it still is this very branch."""
    found = door.manifest.branch_ref(name)
    fork = None if found is None else found.fork_or_none()
    if found is None or fork is None:
        raise BranchNotFound(name)
    if fork.identity != identity:
        raise BranchReplaced(f"branch '{name}' was deleted and recreated in the meantime")
    return found, fork


def _refuse_descendants(door: Door, found: ForkRef) -> None:
    descendants = [other for other in door.manifest.branch_refs() if descends(other, found)]
    if descendants:
        called = [_called(door, each) for each in (found, *descendants)]
        raise BranchHasDescendants(called[0], sorted(called[1:]))


def _called(door: Door, found: ForkRef) -> str:
    return shown_name(door, found.name, None if found.fork is None else found.fork.identity)


def _remove_unfinished(door: Door, found: ForkRef, held: HeldLocks) -> None:
    """A create that a power cut ended: nobody was told that the branch exists, and nothing is on it."""
    forks = forks_of(door, table_refs(door, layout.MAIN_BRANCH), found.name, held)
    delete_fork(door.tables, manifest_ref(layout.MAIN_BRANCH), found, held.check)
    remove_forks(door, forks, found.name, held)


def _check_start(door: Door, source: GraphCommit) -> None:
    """The commit was looked up without a lock; is it still at its place on its branch?"""
    try:
        found = snapshot_at(door.manifest, source)
    except CommitRemoved:
        raise
    except NotFoundError as error:
        raise StartMoved(source) from error
    if found.head is None:
        raise StartMoved(source)


def lock_of(held: HeldLocks, branch: str) -> Lock:
    return next(lock for lock in held.locks if lock.name == layout.branch_lock(branch))
