"""The forks of tables that a branch has, or has left: found under the locks, and removed by what was found.

A twin without a manifest branch says that there may be some: of a deleted branch, or of a create that died.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError, RefusedError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.deleted import DeletedBranch
from omnigraph_core.manifest.reader import BranchNotFound, manifest_ref
from omnigraph_core.storage import HeldLocks
from omnigraph_core.tables.branches import ForkExists, children_of, clear_leftovers, delete_fork
from omnigraph_core.tables.fork_refs import (
    ForkRef,
    RefDamaged,
    RefState,
    find_ref,
    fork_names,
    fork_names_near,
    share_a_directory,
)
from omnigraph_core.tables.ref_repair import heal_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.door import Door
from omnigraph_core.write.naming import refuse_taken_line
from omnigraph_core.write.put_aside import deleted_branches, give_up, with_descendants
from omnigraph_core.write.ref_repair import repair_refs


def clear_for(door: Door, source: str, name: str, near: Sequence[ForkRef], held: HeldLocks) -> None:
    """Before a branch is made: clear twins without a manifest branch, and the forks below them: of deleted
    branches, or of a create that died half-way. `near` are the refs that share its directory.

    Under the refs lock: what is no branch now does not become one meanwhile.
    """
    twins = fork_names_near(door.tables, commits_ref(layout.MAIN_BRANCH), name)
    deleted = deleted_branches(door)
    gone = (each.name for each in deleted if share_a_directory(each.name, name))
    leftovers = {*twins, *gone} - _live(near)
    _refuse_lost(door, name, {name, *leftovers}, held)
    if not leftovers:
        return
    live = _live(door.manifest.branch_refs())
    doomed = with_descendants(deleted, leftovers)
    refs = table_refs(door, source, *door.manifest.branch_names(), deleted=doomed)
    give_up(door, name, doomed, held)
    # Those made from them first, whose data is in the same files.
    for other in [*(each.name for each in reversed(doomed)), *sorted(leftovers)]:
        if other not in live:
            _clear_manifest(door, other, held)
            remove_forks(door, forks_of(door, refs, other, held), other, held)


def _refuse_lost(door: Door, name: str, leftovers: Iterable[str], held: HeldLocks) -> None:
    """A branch that has lost its ref, though nobody deleted it, gets it back: it is in the way."""
    if door.manifest.testimony.lost(sorted(leftovers)):
        repair_refs(door.manifest, held.check, thorough=True)
        refuse_taken_line(door, name)


def _live(found: Iterable[ForkRef]) -> set[str]:
    return {each.name for each in found if each.state is not RefState.UNFINISHED}


def _clear_manifest(door: Door, name: str, held: HeldLocks) -> None:
    """Remove what a branch without a ref has in `__manifest`."""
    with suppress(RefusedError, ForkExists):
        clear_leftovers(door.tables, manifest_ref(layout.MAIN_BRANCH), name, held.check)


Forks = list[tuple[TableRef, ForkRef]]
"""Forks as they were found, in the order in which they can go: children before parents, and the twin
last, which tells of the others."""


def table_refs(door: Door, *branches: str, deleted: Sequence[DeletedBranch] = ()) -> list[TableRef]:
    """Every dataset in which these branches may have forks, also of types that are dropped or renamed."""
    paths = {path: key for branch in branches for path, key in door.manifest.paths(branch).items()}
    for each in deleted:
        with suppress(OmnigraphError):  # What it alone knows of stays for cleanup.
            paths.update(door.manifest.paths_of(each.on))
    return [TableRef(key, path) for path, key in sorted(paths.items())]


def tables_of(door: Door, branch: str) -> list[TableRef]:
    """Also of a branch that is nothing but its ref: a request for it landed after the branch was gone."""
    try:
        return table_refs(door, branch)
    except BranchNotFound:
        return table_refs(door, layout.MAIN_BRANCH)


def forks_of(door: Door, refs: list[TableRef], name: str, held: HeldLocks) -> Forks:
    """Every fork of a branch that is to go, published or not.

    Also their children: they are leftovers themselves, a branch with descendants is never deleted.
    """
    found: Forks = []
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


def remove_forks(door: Door, forks: Forks, name: str, held: HeldLocks) -> None:
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
