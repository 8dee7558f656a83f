"""Taking an operation back, as a new operation.

A commit is taken back like by `revert`: what it did is undone, whatever has happened since. A ref
goes back to where it was, if it still is where the operation left it. Everything goes by identity:
another branch or tag may have the name by now.
"""

from __future__ import annotations

from omnigraph_core.change.plan import Intent
from omnigraph_core.errors import NotFoundError, RefusedError
from omnigraph_core.history.log import GraphCommit, read_log
from omnigraph_core.history.moves import Move, MoveKind, live_fork
from omnigraph_core.history.operations import Operation, taken_back_by
from omnigraph_core.history.refs import CommitNotFound
from omnigraph_core.history.tags import decode_tag, read_tag
from omnigraph_core.history.travel import branch_of
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.commit import Operation as Verb
from omnigraph_core.merge.run import Merge, MergeConflicts, Merged, Outcome
from omnigraph_core.records import dataclass
from omnigraph_core.write.branches import BranchExists, delete_branch
from omnigraph_core.write.door import Door
from omnigraph_core.write.moves import Note, shown_name
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.rename import rename_branch
from omnigraph_core.write.tags import create_tag, delete_tag
from omnigraph_core.write.undelete import undelete_branch


class CannotUndo(RefusedError):
    """Things are not as the operation left them, or there is nothing before it."""


class NothingToUndo(NotFoundError):
    """What the operation made is gone, or what it removed cannot be had back."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The operation that was taken back, and what came of it."""

    operation: Operation
    operation_id: str | None
    """Of the operation that took it back."""
    merged: Merged | None = None
    """Of a commit."""


class Undo:
    """Takes one operation back."""

    def __init__(self, door: Door, actor: str, message: str | None) -> None:
        self._door = door
        self._actor = actor
        self._message = message

    def run(self, operation: Operation) -> Undone:
        """Things may be such that it could be taken back again; only if they are not, it matters whether
        it was."""
        try:
            return self._run(operation)
        except (CannotUndo, NothingToUndo, MergeConflicts) as error:
            by = taken_back_by(self._door.manifest, operation.operation_id)
            if by is None:
                raise
            raise CannotUndo(
                f"operation {operation.operation_id} was taken back already, by {by.operation_id}",
                hint=f"take that back with `omnigraph undo {by.operation_id}`",
            ) from error

    def _run(self, operation: Operation) -> Undone:
        done = operation.done
        if isinstance(done, GraphCommit):
            return self._commit(operation, done)
        note = Note(self._actor, self._message, done.operation_id)
        {
            MoveKind.BRANCH_CREATE: self._put_aside,
            MoveKind.BRANCH_UNDELETE: self._put_aside,
            MoveKind.BRANCH_DELETE: self._bring_back,
            MoveKind.BRANCH_RENAME: self._rename_back,
            MoveKind.TAG_CREATE: self._remove_tag,
            MoveKind.TAG_DELETE: self._restore_tag,
        }[done.kind](done, note)
        return Undone(operation, note.operation_id)

    def _commit(self, operation: Operation, commit: GraphCommit) -> Undone:
        if commit.parent_commit_id is None or commit.operation == Verb.INIT:
            raise CannotUndo(f"operation {commit.commit_id} made the graph, and cannot be taken back")
        if not operation.changes_content:
            raise CannotUndo(
                f"operation {commit.commit_id} changed no content; there is nothing to take back"
            )
        branch_of(self._door.manifest, commit)
        if operation.creates_branch and self._is_all_there_is(commit):
            note = Note(self._actor, self._message, commit.commit_id)
            only_at, identity = commit.commit_id, commit.on.identity
            delete_branch(self._door, commit.branch, note, only_at=only_at, identity=identity)
            return Undone(operation, note.operation_id)
        message = self._message if self._message is not None else f"Undo {commit.commit_id}"
        about = {"undoes": commit.commit_id, "reverts": commit.commit_id}
        intent = Intent(WriterKind.REVERT, self._actor, message, about=about)
        # Before its sidecar it proves that the branch of the commit still is that very branch.
        merged = Merge(self._door, intent).revert(commit, commit.branch, records_head=True)
        if merged.outcome is Outcome.UP_TO_DATE:
            raise CannotUndo(f"nothing of operation {commit.commit_id} is left to take back")
        return Undone(operation, merged.commit_id, merged)

    def _is_all_there_is(self, commit: GraphCommit) -> bool:
        """Is the commit the only one on its branch?"""
        head = self._door.manifest.snapshot(commit.branch).head
        if head is None or head.commit_id != commit.commit_id:
            return False
        log = read_log(self._door.tables, self._door.manifest)
        start = log.commits.get(commit.parent_commit_id or "")
        return start is not None and start.on != commit.on

    def _put_aside(self, move: Move, note: Note) -> None:
        """A branch that came goes again. It can be brought back, but not what was written on it would
        be expected to go with it: so only if nothing was."""
        fork = live_fork(self._door.manifest, move.line)
        called = shown_name(self._door, move.line, move.identity)
        if fork is None or fork.identity != move.identity:
            raise NothingToUndo(f"branch '{called}' of operation {move.operation_id} no longer exists")
        head = self._door.manifest.snapshot(move.line).head
        if head is not None and head.commit_id != move.commit_id:
            raise CannotUndo(
                f"branch '{called}' was written to since operation {move.operation_id}",
                hint=f"undo what was written first, or delete it: `omnigraph branch delete {called}`",
            )
        delete_branch(self._door, move.line, note, only_at=move.commit_id, identity=move.identity)

    def _bring_back(self, move: Move, note: Note) -> None:
        fork = live_fork(self._door.manifest, move.line)
        called = shown_name(self._door, move.line, move.identity)
        if fork is not None and fork.identity == move.identity:
            raise CannotUndo(f"branch '{called}' of operation {move.operation_id} is already back")
        if fork is not None:
            raise BranchExists(called)
        undelete_branch(self._door, move.line, note, identity=move.identity)

    def _rename_back(self, move: Move, note: Note) -> None:
        branch = Branch(move.line, move.identity)
        called = shown_name(self._door, move.line, move.identity)
        fork = live_fork(self._door.manifest, move.line)
        if fork is None or fork.identity != move.identity:
            raise NothingToUndo(f"branch '{called}' of operation {move.operation_id} no longer exists")
        if called != move.new_name:
            raise CannotUndo(
                f"the branch that operation {move.operation_id} called '{move.new_name}' is '{called}' by now"
            )
        rename_branch(self._door, branch, called, move.name, note)

    def _remove_tag(self, move: Move, note: Note) -> None:
        found = read_tag(self._door.storage.control, move.name)
        if found.revision != move.identity:
            raise NothingToUndo(f"tag '{move.name}' is not the one that operation {move.operation_id} made")
        delete_tag(self._door, move.name, note, revision=move.identity)

    def _restore_tag(self, move: Move, note: Note) -> None:
        if move.tag is None or move.commit_id is None:
            raise CannotUndo(
                f"tag '{move.name}' was damaged when operation {move.operation_id} deleted it; "
                "nobody knows what it named"
            )
        tag = decode_tag(move.name, move.tag.encode())
        commit = read_log(self._door.tables, self._door.manifest).commits.get(tag.commit_id)
        if commit is None:
            raise CommitNotFound(f"tag '{move.name}' named commit {tag.commit_id}, which is not on record")
        create_tag(self._door, move.name, commit, note, tag.message)
