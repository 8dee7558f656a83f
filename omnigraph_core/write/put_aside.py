"""Putting the ref of a deleted branch aside, and giving such a branch up for good.

Under the refs lock, which everybody has who makes, deletes, brings back or purges a branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError, RefusedError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.deleted import DeletedBranch, read_deleted
from omnigraph_core.history.moves import MoveKind
from omnigraph_core.history.tags import Tag, read_tags
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.storage import ControlStore, HeldLocks, ObjectExists
from omnigraph_core.tables.branches import ForkExists, clear_leftovers, remove_ref
from omnigraph_core.tables.durability import sync_ref_removed
from omnigraph_core.tables.fork_refs import Fork, ForkRef, read_fork
from omnigraph_core.write.door import Door
from omnigraph_core.write.moves import Note, logged, shown_name


class BranchIsTagged(RefusedError):
    """A deleted branch is in the way that a tag still needs."""

    def __init__(self, name: str, branch: str, tags: Iterable[Tag]) -> None:
        names = sorted(tag.name for tag in tags)
        super().__init__(
            f"'{name}' cannot be used again: tag '{names[0]}' names a commit of the deleted "
            f"branch '{branch}'",
            hint=f"bring it back with `omnigraph branch undelete {branch}`, or give the tag up with "
            f"`omnigraph tag delete {names[0]}`",
        )
        self.branch, self.tags = branch, names

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch, "tags": self.tags}


def put_aside(door: Door, found: ForkRef, fork: Fork, note: Note, held: HeldLocks) -> None:
    """Move the ref of exactly this branch out of the way; durable when it returns.

    The record first: whoever dies in between has deleted nothing.
    """
    snapshot = None
    with suppress(OmnigraphError):  # Also a branch that cannot be read can be deleted, and be back.
        snapshot = door.manifest.snapshot(found.name)
    twin = read_fork(door.tables, commits_ref(layout.MAIN_BRANCH), found.name)
    record = DeletedBranch(
        fork=fork,
        ref=found.data,
        twin=None if twin is None else twin.identity,
        head=snapshot.head.commit_id if snapshot is not None and snapshot.head is not None else None,
        manifest_version=0 if snapshot is None else snapshot.manifest_version,
        actor_id=note.actor,
        deleted_at=now_us(),
        revision=new_ulid(),
    )
    move = note.move(
        MoveKind.BRANCH_DELETE,
        shown_name(door, found.name, fork.identity),
        lineage=found.name,
        identity=fork.identity,
        twin=record.twin,
        commit_id=record.head,
    )
    with logged(door, move, held):
        _write(door.storage.control, record, held)
        faults.hit("branch.put_aside")
        remove_ref(door.tables, manifest_ref(layout.MAIN_BRANCH), found, held.check)


def _write(control: ControlStore, record: DeletedBranch, held: HeldLocks) -> None:
    """Over the one that an earlier delete of this very branch has left, if it died or was undone."""
    try:
        control.create(record.path, record.encode(), held.check)
    except ObjectExists:
        earlier = control.get(record.path)
        if earlier is None:
            raise
        control.replace(record.path, record.encode(), earlier.e_tag)


def forget_record(door: Door, identity: str, held: HeldLocks) -> None:
    """From here on nobody brings the branch back. Nobody else can have the path: it is the identity."""
    path = layout.deleted_branch(identity)
    if door.storage.control.exists(path):
        door.storage.control.delete(path, held.check)
        sync_ref_removed(door.storage, path)


def give_up(door: Door, name: str, doomed: list[DeletedBranch], held: HeldLocks) -> None:
    """Give deleted branches up that stand in the way of `name`; what is left of them are leftovers.

    All or none: refused if a tag names a commit of any of them.
    """
    for each in doomed:
        if pinned := [tag for tag in read_tags(door.storage.control) if tag.on == each.on]:
            raise BranchIsTagged(name, shown_name(door, each.name, each.fork.identity), pinned)
    for each in reversed(doomed):
        forget_record(door, each.fork.identity, held)
        faults.hit("branch.given_up")


def purge(door: Door, doomed: Iterable[DeletedBranch], held: HeldLocks) -> None:
    """Give these up for good, those made from others first; their forks are orphans from then on."""
    for each in sorted(doomed, key=lambda one: -len(one.fork.ancestors)):
        forget_record(door, each.fork.identity, held)
        faults.hit("branch.given_up")
        with suppress(RefusedError, ForkExists):
            clear_leftovers(door.tables, manifest_ref(layout.MAIN_BRANCH), each.name, held.check)


def with_descendants(deleted: Iterable[DeletedBranch], names: Iterable[str]) -> list[DeletedBranch]:
    """The deleted branches of these names, and those made from them, whose data they hold; parents first."""
    records, wanted = list(deleted), set(names)
    roots = {each.fork.identity for each in records if each.name in wanted}
    found = [each for each in records if roots & {each.fork.identity, *each.fork.ancestors}]
    return sorted(found, key=lambda each: len(each.fork.ancestors))


def deleted_branches(door: Door) -> list[DeletedBranch]:
    return read_deleted(door.storage.control)


def is_live(door: Door, branch: Branch) -> bool:
    """Is exactly this branch there?"""
    found = door.manifest.branch_ref(branch.name)
    fork = None if found is None else found.fork_or_none()
    return fork is not None and fork.identity == branch.identity
