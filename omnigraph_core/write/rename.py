"""Giving a branch another name. See `history/names.py`: one control object changes, and nothing else."""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.errors import RefusedError
from omnigraph_core.history.moves import MoveKind
from omnigraph_core.history.names import NameEntry, read_names
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced
from omnigraph_core.write.door import Door
from omnigraph_core.write.moves import Note, logged
from omnigraph_core.write.naming import check_name, enter_name, prove_still_called, refuse_taken


def rename_branch(door: Door, branch: Branch, called: str, new: str, note: Note) -> None:
    """Call exactly this branch otherwise, if it still is `called` so; durable when it returns."""
    if branch.is_main:
        raise RefusedError(f"branch '{branch.name}' cannot be renamed")
    new = check_name(new)
    locks = [layout.REFS_LOCK, layout.branch_lock(branch.name)]
    with door.storage.locks.lock_all(locks, doing=f"branch rename {new}") as held:
        faults.hit("branch.rename_locked")
        found = door.manifest.branch_ref(branch.name)
        fork = None if found is None else found.fork_or_none()
        if fork is None:
            raise BranchNotFound(branch.name)
        if fork.identity != branch.identity:
            raise BranchReplaced(f"branch '{branch.name}' was deleted and recreated in the meantime")
        names = read_names(door.storage.control)
        prove_still_called(branch, called, names)
        refuse_taken(door, new, names, branch)
        head = door.manifest.snapshot(branch.name).head
        move = note.move(
            MoveKind.BRANCH_RENAME,
            called,
            lineage=branch.name,
            identity=branch.identity,
            commit_id=None if head is None else head.commit_id,
            new_name=new,
        )
        with logged(door, move, held):
            entry = NameEntry(branch.name, branch.identity, new, note.operation_id)
            enter_name(door, names, entry, held)
            faults.hit("branch.renamed")
