"""Bringing a deleted branch back."""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.errors import NotFoundError, RefusedError
from omnigraph_core.history.deleted import DeletedBranch, has_its_files, read_deleted
from omnigraph_core.history.moves import MoveKind
from omnigraph_core.history.names import read_names
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.storage import HeldLocks, ObjectExists
from omnigraph_core.tables.fork_refs import ref_path
from omnigraph_core.write.door import Door
from omnigraph_core.write.moves import Note, logged, shown_name
from omnigraph_core.write.naming import BranchExists, refuse_taken_line, refuse_taken_name
from omnigraph_core.write.put_aside import forget_record, is_live


class NothingToUndelete(NotFoundError):
    """No deleted branch has the name, or it was purged."""

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"there is no deleted branch '{branch}' to bring back",
            hint="a deleted branch is kept until cleanup, or until its name is used again",
        )
        self.branch = branch

    def details(self) -> dict[str, object]:
        return {"branch": self.branch}


def undelete_branch(door: Door, name: str, note: Note, *, identity: str | None = None) -> DeletedBranch:
    """Bring back the branch of this name that was deleted last; durable when it returns.

    With `identity`, that very branch.

    The ref is created if absent, so another branch of the name is never overwritten.
    """
    name = name.strip()
    locks = [layout.REFS_LOCK, layout.branch_lock(name)]
    with door.storage.locks.lock_all(locks, doing=f"branch undelete {name}") as held:
        faults.hit("branch.undelete_locked")
        refuse_taken_line(door, name)
        found = [
            each
            for each in read_deleted(door.storage.control)
            if each.name == name and identity in (None, each.fork.identity)
        ]
        if not found:
            raise NothingToUndelete(shown_name(door, name, identity))
        refuse_taken_name(door, name, read_names(door.storage.control).of(found[-1].on))
        _bring_back(door, found[-1], note, held)
    return found[-1]


def _bring_back(door: Door, record: DeletedBranch, note: Note, held: HeldLocks) -> None:
    _check_parent(door, record)
    _check_files(door, record)
    faults.hit("branch.undelete_checked")
    path = ref_path(manifest_ref(layout.MAIN_BRANCH), record.name)
    move = note.move(
        MoveKind.BRANCH_UNDELETE,
        shown_name(door, record.name, record.fork.identity),
        lineage=record.name,
        identity=record.fork.identity,
        twin=record.twin,
        commit_id=record.head,
    )
    with logged(door, move, held):
        try:
            door.storage.control.create(path, record.ref, held.check)
        except ObjectExists:
            raise BranchExists(shown_name(door, record.name, record.fork.identity)) from None
        faults.hit("branch.undeleted")
    # From here on the record says nothing; it goes so that listings stay short.
    forget_record(door, record.fork.identity, held)


def _check_parent(door: Door, record: DeletedBranch) -> None:
    """A branch reads data of the one it was made from; what is deleted may be purged, data and all."""
    parent = record.fork.parent
    on = Branch(parent or layout.MAIN_BRANCH, record.fork.ancestors[-1] if parent is not None else None)
    if parent is not None and not is_live(door, on):
        names = read_names(door.storage.control)
        raise RefusedError(
            f"branch '{names.of(record.on)}' was made from branch '{names.of(on)}', which is deleted",
            hint=f"bring that back first: `omnigraph branch undelete {names.of(on)}`",
        )


def _check_files(door: Door, record: DeletedBranch) -> None:
    """What is in its directories must be its own: another branch may have had the name since."""
    if not has_its_files(door.tables, record):
        raise NothingToUndelete(shown_name(door, record.name, record.fork.identity))
    door.tables.open(manifest_ref(record.name))
