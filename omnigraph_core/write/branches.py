"""Branches of a graph: create, list, delete.

A branch is a Lance branch of `__manifest`, with a twin on the commit table. Creating
one makes the twin first and the manifest branch last; deleting goes the other way, and
removes the twin after everything else. So the manifest branch alone decides whether a
branch exists, and a twin without one says that forks of tables may be left too: the
next create of the name (or of one that would share its directory) clears them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile

from omnigraph_core import faults, layout
from omnigraph_core.errors import ConflictError, OmnigraphError, RefusedError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.log import GraphCommit, read_branch_log
from omnigraph_core.history.recoveries import ROLLED_BACK, read_recoveries
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.reader import BranchNotFound, manifest_ref
from omnigraph_core.tables.branches import create_fork, delete_fork, list_forks, read_fork
from omnigraph_core.tables.durability import sync_fork
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.door import Door
from omnigraph_core.write.staging import StagingRecord, amend, staging

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NAME_LENGTH_MAX = 200


class BranchExists(ConflictError):
    """A live branch has the name."""

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch '{branch}' exists already")
        self.branch = branch

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch}


class BranchHasDescendants(RefusedError):
    """Branches were made from this one, and read data it owns."""

    def __init__(self, branch: str, descendants: list[str]) -> None:
        super().__init__(
            f"branch '{branch}' has descendants: {', '.join(descendants)}", hint="delete those first"
        )
        self.branch, self.descendants = branch, descendants

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch, "descendants": self.descendants}


def check_name(name: str) -> str:
    """The trimmed name, if a branch may have it."""
    name = name.strip()
    if name in (layout.MAIN_BRANCH, layout.SCHEMA_LOCK_BRANCH):
        raise RefusedError(f"the branch name '{name}' is reserved")
    segments = name.split("/")
    if len(name) > _NAME_LENGTH_MAX or not all(
        _SEGMENT.fullmatch(part) and ".." not in part and not part.endswith((".lock", "."))
        for part in segments
    ):
        raise RefusedError(
            f"'{name}' cannot be a branch name",
            hint="use letters, digits, '-', '_', '.' and '/', such as review/2026-11; not '..' or '.lock'",
        )
    return name


def create_branch(door: Door, name: str, source: GraphCommit) -> None:
    """Make branch `name` start at a commit; touches the manifest and the commit table only."""
    name = check_name(name)
    locks = [layout.REFS_LOCK, layout.branch_lock(source.branch), layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch create {name}") as held:
        source_lock = next(lock for lock in held.locks if lock.name == layout.branch_lock(source.branch))
        door.sweeper.heal(source.branch, source_lock)
        _refuse_taken(door, name)
        commits = commits_ref(source.branch)
        _clear_leftovers(door, source.branch, name)
        twin = door.tables.open(commits)
        create_fork(door.tables, commits, name, twin.version)
        sync_fork(door.storage, commits, name)
        faults.hit("branch.twin_created")
        held.check()
        manifest = manifest_ref(source.branch)
        create_fork(door.tables, manifest, name, source.manifest_version)
        faults.hit("branch.manifest_created")
        sync_fork(door.storage, manifest, name)


@contextmanager
def branch_for_write(
    door: Door, name: str, source: GraphCommit, kind: str, actor: str | None
) -> Iterator[None]:
    """A new branch for the block to write to; it stays only if the block succeeds.

    A process that is killed in between leaves a staging record, and the next read-write
    open removes the branch, unless something was published on it.
    """
    record = StagingRecord(new_ulid(), kind, name, actor, (), (), made_from=source.commit_id)
    failure: BaseException | None = None
    with staging(door.storage, record):
        create_branch(door, name, source)
        identity = door.manifest.branch_identity(name)
        amend(door.storage, replace(record, made_branch=identity))
        faults.hit("branch.made_for_write")
        try:
            yield
        except BaseException as error:
            # The branch goes, and then the record of it may.
            failure = error
            forget_unwritten(door, name, source.commit_id, identity)
    if failure is not None:
        raise failure


def forget_unwritten(door: Door, name: str, start: str, identity: str | None) -> None:
    """Remove a branch that a write made which failed or died, if nothing was ever written on it.

    A write that was rolled back has left commits of its recovery there, and nothing else. A
    process killed while it made the branch never learned the identity; then name and start
    have to do.
    """
    fork = door.manifest.branches().get(name)
    if fork is None or identity not in (None, fork.identity):
        return
    log = read_branch_log(door.tables, door.manifest, name)
    since = takewhile(lambda commit: commit.commit_id != start, log.history(name))
    undone = {
        each.graph_commit_id for each in read_recoveries(door.tables) if each.recovery_kind == ROLLED_BACK
    }
    if log.commits.get(start) and all(commit.commit_id in undone for commit in since):
        with suppress(BranchHasDescendants):
            delete_branch(door, name)


def delete_branch(door: Door, name: str) -> None:
    """Remove a branch: the manifest branch first, which is decisive, the rest as far as possible."""
    name = name.strip()
    if name in (layout.MAIN_BRANCH, layout.SCHEMA_LOCK_BRANCH):
        raise RefusedError(f"branch '{name}' cannot be deleted")
    locks = [layout.REFS_LOCK, layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch delete {name}") as held:
        if name not in door.manifest.branches():
            raise BranchNotFound(name)
        descendants = [fork.name for fork in door.manifest.branches().values() if fork.parent == name]
        if descendants:
            raise BranchHasDescendants(name, sorted(descendants))
        branch_lock = next(lock for lock in held.locks if lock.name == layout.branch_lock(name))
        door.sweeper.heal(name, branch_lock)
        refs = [entry.ref for entry in door.manifest.snapshot(name).tables.values()]
        held.check()
        delete_fork(door.tables, manifest_ref(layout.MAIN_BRANCH), name)
        faults.hit("branch.manifest_deleted")
        with suppress(OmnigraphError):  # The branch is gone; what cannot be removed now is a leftover.
            _remove_forks(door, refs, name)


def _refuse_taken(door: Door, name: str) -> None:
    live = door.manifest.branches()
    if name in live:
        raise BranchExists(name)
    for other in live:
        if _share_a_directory(other, name):
            raise RefusedError(
                f"branch '{name}' overlaps with the live branch '{other}'",
                hint="branch names must not be path prefixes of each other",
            )


def _clear_leftovers(door: Door, source: str, name: str) -> None:
    """Clear twins without a manifest branch, and the forks below them: a create or delete died half-way.

    Under the refs lock: what is no branch now does not become one meanwhile.
    """
    live = door.manifest.branches()
    for other in list_forks(door.tables, commits_ref(layout.MAIN_BRANCH)):
        if other not in live and _share_a_directory(other, name):
            refs = [entry.ref for entry in door.manifest.snapshot(source).tables.values()]
            _remove_forks(door, refs, other)


def _remove_forks(door: Door, refs: list[TableRef], name: str) -> None:
    """Every fork of a branch that is gone, published or not; the twin last, which tells of the others."""
    for ref in (*refs, commits_ref(layout.MAIN_BRANCH)):
        _remove_fork(door, ref, name)
        faults.hit("branch.fork_deleted")


def _remove_fork(door: Door, ref: TableRef, name: str) -> None:
    """Also its children: they are leftovers themselves, a branch with descendants is never deleted."""
    if read_fork(door.tables, ref, name) is not None:
        for child in [fork.name for fork in list_forks(door.tables, ref).values() if fork.parent == name]:
            _remove_fork(door, ref, child)
        delete_fork(door.tables, ref, name)


def _share_a_directory(one: str, other: str) -> bool:
    """Lance keeps `a/b` inside `a`."""
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")
