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

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from omnigraph_core import faults, layout
from omnigraph_core.errors import ConflictError, NotFoundError, OmnigraphError, RefusedError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.deleted import DeletedBranch
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.moves import MoveKind
from omnigraph_core.history.names import read_names
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced, manifest_ref
from omnigraph_core.storage import HeldLocks, Lock
from omnigraph_core.tables.branches import (
    ForkExists,
    children_of,
    clear_leftovers,
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
    RefDamaged,
    RefState,
    find_ref,
    fork_names,
    read_fork,
    share_a_directory,
)
from omnigraph_core.tables.ref_repair import heal_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import check_head
from omnigraph_core.write.moves import Note, logged, settle_moves, shown_name
from omnigraph_core.write.naming import BranchExists as BranchExists
from omnigraph_core.write.naming import (
    check_name,
    name_line,
    refuse_taken,
    refuse_taken_line,
)
from omnigraph_core.write.put_aside import (
    deleted_branches,
    forget_record,
    give_up,
    put_aside,
    with_descendants,
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
        refuse_taken_line(door, name)
        refuse_taken(door, called or name, read_names(door.storage.control))
        _check_start(door, source)
        _clear_leftovers(door, source.branch, name, held)
        faults.hit("branch.create_cleared")
        if called is not None:
            name_line(door, name, called, held)
        commits = commits_ref(source.branch)
        if commits.branch is not None:
            heal_ref(door.tables, commits, commits.branch, held.check)
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
    door: Door, name: str, note: Note, *, only_at: str | None = None, identity: str | None = None
) -> None:
    """Delete a branch; durable when it returns. With `only_at`, only if that commit is its head, and
    with `identity`, only if it is this very branch.

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
        if only_at is not None:
            door.sweeper.heal(name, lock_of(held, name))
            check_head(only_at, door.manifest.snapshot(name))
        if (fork := found.fork_or_none()) is not None:
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
    forks = _forks_of(door, _tables_of(door, name), name, held)
    faults.hit("branch.delete_found")
    files = unlink_fork(door.tables, manifest_ref(layout.MAIN_BRANCH), found, held.check)
    faults.hit("branch.manifest_deleted")
    with suppress(OmnigraphError):
        delete_files(door.tables, files, held.check)
        _remove_forks(door, forks, name, held)


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
    forks = _forks_of(door, _table_refs(door, layout.MAIN_BRANCH), found.name, held)
    delete_fork(door.tables, manifest_ref(layout.MAIN_BRANCH), found, held.check)
    _remove_forks(door, forks, found.name, held)


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


def _clear_leftovers(door: Door, source: str, name: str, held: HeldLocks) -> None:
    """Clear twins without a manifest branch, and the forks below them: of deleted branches, or of a
    create that died half-way.

    Under the refs lock: what is no branch now does not become one meanwhile.
    """
    twins = fork_names(door.tables, commits_ref(layout.MAIN_BRANCH))
    deleted = deleted_branches(door)
    names = {each for each in (*twins, *(each.name for each in deleted)) if share_a_directory(each, name)}
    leftovers = names - _live(door.manifest.branch_refs_near(name))
    if not leftovers:
        return
    live = _live(door.manifest.branch_refs())
    doomed = with_descendants(deleted, leftovers)
    refs = _table_refs(door, source, *door.manifest.branch_names(), deleted=doomed)
    give_up(door, name, doomed, held)
    # Those made from them first, whose data is in the same files.
    for other in [*(each.name for each in reversed(doomed)), *sorted(leftovers)]:
        if other not in live:
            _clear_manifest(door, other, held)
            _remove_forks(door, _forks_of(door, refs, other, held), other, held)


def _live(found: Iterable[ForkRef]) -> set[str]:
    return {each.name for each in found if each.state is not RefState.UNFINISHED}


def _clear_manifest(door: Door, name: str, held: HeldLocks) -> None:
    """Remove what a branch without a ref has in `__manifest`."""
    with suppress(RefusedError, ForkExists):
        clear_leftovers(door.tables, manifest_ref(layout.MAIN_BRANCH), name, held.check)


_Forks = list[tuple[TableRef, ForkRef]]
"""Forks as they were found, in the order in which they can go: children before parents, and the twin
last, which tells of the others."""


def _table_refs(door: Door, *branches: str, deleted: Sequence[DeletedBranch] = ()) -> list[TableRef]:
    """Every dataset in which these branches may have forks, also of types that are dropped or renamed."""
    paths = {path: key for branch in branches for path, key in door.manifest.paths(branch).items()}
    for each in deleted:
        with suppress(OmnigraphError):  # What it alone knows of stays for cleanup.
            paths.update(door.manifest.paths_of(each.on))
    return [TableRef(key, path) for path, key in sorted(paths.items())]


def _tables_of(door: Door, branch: str) -> list[TableRef]:
    """Also of a branch that is nothing but its ref: a request for it landed after the branch was gone."""
    try:
        return _table_refs(door, branch)
    except BranchNotFound:
        return _table_refs(door, layout.MAIN_BRANCH)


def _forks_of(door: Door, refs: list[TableRef], name: str, held: HeldLocks) -> _Forks:
    """Every fork of a branch that is to go, published or not.

    Also their children: they are leftovers themselves, a branch with descendants is never deleted.
    """
    found: _Forks = []
    for ref in (*refs, commits_ref(layout.MAIN_BRANCH)):
        own = find_ref(door.tables, ref, name)
        if own is not None:
            found += [(ref, each) for each in _with_descendants(door, ref, own, held)]
    return found


def _with_descendants(door: Door, ref: TableRef, own: ForkRef, held: HeldLocks) -> list[ForkRef]:
    """Children before parents."""
    found = {own.name: own}
    waiting = [own]
    while waiting:
        for child in _children(door, ref, waiting.pop(), held):
            if child.name not in found:
                found[child.name] = child
                waiting.append(child)
    return sorted(found.values(), key=lambda each: -len(each.fork.ancestors) if each.fork else 0)


def _children(door: Door, ref: TableRef, own: ForkRef, held: HeldLocks) -> list[ForkRef]:
    """As far as they can be known: where a ref is beyond repair, the fork itself will be refused."""
    with suppress(RefDamaged):
        return children_of(door.tables, ref, own)
    for other in fork_names(door.tables, ref):
        with suppress(RefDamaged):
            if other != own.name:
                heal_ref(door.tables, ref, other, held.check)
    with suppress(RefDamaged):
        return children_of(door.tables, ref, own)
    return []


def _remove_forks(door: Door, forks: _Forks, name: str, held: HeldLocks) -> None:
    for ref, found in forks:
        faults.hit("branch.fork_to_delete")
        if found.name == name or not door.manifest.has_branch(found.name):
            delete_fork(door.tables, ref, found, held.check)
        else:
            _remove_leftover(door, ref, found, held)
        faults.hit("branch.fork_deleted")


def _remove_leftover(door: Door, ref: TableRef, found: ForkRef, held: HeldLocks) -> None:
    """A fork that an earlier branch of a living one's name has left: only the living one's writers know."""
    lock = door.storage.locks.lock(layout.branch_lock(found.name), doing="remove a leftover")
    if not lock.try_acquire():
        return
    with lock:
        if not _may_be_its_own(door, ref, found.name):
            both = HeldLocks((*held.locks, lock))
            delete_fork(door.tables, ref, found, both.check)


def _may_be_its_own(door: Door, ref: TableRef, branch: str) -> bool:
    """Does a living branch read its fork of this dataset, now or in an old commit? By path: a key says
    nothing of where a table is."""
    tables = door.manifest.snapshot(branch).tables.values()
    here = [entry for entry in tables if entry.table_path == ref.path]
    if here:
        return any(entry.table_branch == branch for entry in here)
    return ref.path in door.manifest.paths(branch)


def lock_of(held: HeldLocks, branch: str) -> Lock:
    return next(lock for lock in held.locks if lock.name == layout.branch_lock(branch))
