"""Moves of refs that leave no commit: a branch or a tag that came, went, or got another name.

A publish is on record by its commit. These moves have a record of their own: `begun` before the
ref moves, `done` after it, both durable. A record that has only begun says nothing by itself:
whether the ref has moved is asked of the ref, by identity. Moves are made one at a time, under the
refs lock, and each settles what an earlier one left (`write/moves.py`), so the answer cannot
change before it is written down. So a command that is killed is in the log if it did something,
and is not if it did nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.fields import Fields, is_ulid
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.names import read_names
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.history.tags import decode_tag
from omnigraph_core.manifest.branch import Branch, branch_name
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.fork_refs import Fork, read_fork

_VERSION = 1
_SUFFIX = ".json"
_TIME_CHARACTERS = 10
"""Of a ULID: those that say when it was made."""


class MoveKind(StrEnum):
    """What was done; the text is on disk and in answers."""

    BRANCH_CREATE = "branchcreate"
    BRANCH_DELETE = "branchdelete"
    BRANCH_UNDELETE = "branchundelete"
    BRANCH_RENAME = "branchrename"
    TAG_CREATE = "tagcreate"
    TAG_DELETE = "tagdelete"

    @property
    def is_of_tag(self) -> bool:
        return self in (MoveKind.TAG_CREATE, MoveKind.TAG_DELETE)


class MoveDamaged(StorageError):
    """A record that cannot be read: nobody knows what was done, or whether it was."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as an operation: {reason}",
            hint="restore the file from a backup, or remove it to take the operation off the log",
        )
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


@dataclass(frozen=True, slots=True)
class Move:
    """One ref that moved, or is about to."""

    operation_id: str
    kind: MoveKind
    name: str
    """What the branch or the tag is called; of a rename, before it."""
    identity: str | None
    """Of the branch, or the revision of the tag. Not known of a branch that is about to be made, nor of
    a tag that was damaged."""
    twin: str | None
    """Of a branch that is made: the identity of its twin, which is there before the branch is."""
    commit_id: str | None
    """The head of the branch, or what the tag names."""
    actor_id: str
    created_at: int
    """Microseconds since the epoch."""
    message: str | None = None
    undoes: str | None = None
    """The operation that this one takes back."""
    tag: str | None = None
    """The object of a tag that is deleted, to the byte."""
    lineage: str | None = None
    """The line of the branch, if it is not the name."""
    new_name: str | None = None
    """Of a rename."""

    @property
    def line(self) -> str:
        """Where the versions of the branch are."""
        return self.lineage or self.name

    def encode(self) -> bytes:
        content = {
            "schema_version": _VERSION,
            "operation_id": self.operation_id,
            "kind": self.kind.value,
            "name": self.name,
            "identity": self.identity,
            "twin": self.twin,
            "commit_id": self.commit_id,
            "actor_id": self.actor_id,
            "created_at": self.created_at,
            "message": self.message,
            "undoes": self.undoes,
            "tag": self.tag,
            "lineage": self.lineage,
            "new_name": self.new_name,
        }
        return seal(content)


def begun_moves(control: ControlStore) -> list[str]:
    """The ids of moves that have begun, and are not known to have ended."""
    return _ids(control, layout.BEGUN_OPERATIONS)


def done_moves(control: ControlStore) -> list[str]:
    """The ids of moves that are on record as done."""
    return _ids(control, layout.DONE_OPERATIONS)


def read_begun(control: ControlStore, operation_id: str) -> Move | None:
    return _read(control, operation_id, layout.begun_operation(operation_id))


def read_done(control: ControlStore, operation_id: str) -> Move | None:
    return _read(control, operation_id, layout.done_operation(operation_id))


def newest_moves(manifest: Manifest, limit: int | None = None) -> list[Move]:
    """All moves, newest first, or only the newest; those among the begun ones that happened, too.

    Only the records that are asked for are read.
    """
    control = manifest.tables.storage.control
    begun = (_happened_unrecorded(manifest, each) for each in begun_moves(control))
    found = {each.operation_id: each for each in begun if each is not None}
    ids = sorted(done_moves(control), reverse=True)
    if limit is not None and limit < len(ids):
        # Ids of one millisecond are in no order; the records are.
        oldest = ids[limit][:_TIME_CHARACTERS]
        ids = [each for each in ids if each[:_TIME_CHARACTERS] >= oldest]
    for each in ids:
        if (move := read_done(control, each)) is not None:
            found[each] = move
    ordered = sorted(found.values(), key=lambda move: (move.created_at, move.operation_id), reverse=True)
    return ordered[:limit]


def move_ids(control: ControlStore) -> list[str]:
    """The ids of all moves, also of those that may not have happened."""
    return [*done_moves(control), *begun_moves(control)]


def read_move(manifest: Manifest, operation_id: str) -> Move | None:
    """The move of this id, if it happened."""
    done = read_done(manifest.tables.storage.control, operation_id)
    return done if done is not None else _happened_unrecorded(manifest, operation_id)


def _happened_unrecorded(manifest: Manifest, operation_id: str) -> Move | None:
    move = read_begun(manifest.tables.storage.control, operation_id)
    return None if move is None else completed(manifest, move)


def completed(manifest: Manifest, move: Move) -> Move | None:
    """The move with all that is known once it has happened; None if its ref has not moved."""
    if move.kind.is_of_tag:
        is_there = _has_tag(manifest.tables.storage.control, move)
        return move if is_there == (move.kind is MoveKind.TAG_CREATE) else None
    if move.kind is MoveKind.BRANCH_RENAME:
        entry = read_names(manifest.tables.storage.control).entry(Branch(move.line, move.identity))
        return move if entry is not None and entry.revision == move.operation_id else None
    fork = live_fork(manifest, move.line)
    if move.kind is MoveKind.BRANCH_CREATE:
        twin = read_fork(manifest.tables, commits_ref(layout.MAIN_BRANCH), move.line)
        is_made = fork is not None and twin is not None and twin.identity == move.twin
        return replace(move, identity=fork.identity) if is_made and fork is not None else None
    is_there = fork is not None and fork.identity == move.identity
    return move if is_there == (move.kind is MoveKind.BRANCH_UNDELETE) else None


def live_fork(manifest: Manifest, branch: str) -> Fork | None:
    found = manifest.branch_ref(branch)
    return None if found is None else found.fork_or_none()


def _has_tag(control: ControlStore, move: Move) -> bool:
    """Is exactly this tag there? One that was damaged is, as long as its bytes are."""
    found = control.get(layout.tag(move.name))
    if found is None:
        return False
    try:
        return decode_tag(move.name, found.data).revision == move.identity
    except OmnigraphError:
        return move.identity is None


def _ids(control: ControlStore, folder: str) -> list[str]:
    names = (file.removesuffix(_SUFFIX) for file in control.list(folder) if file.endswith(_SUFFIX))
    return [name for name in names if is_ulid(name)]


def _read(control: ControlStore, operation_id: str, path: str) -> Move | None:
    found = control.get(path)
    if found is None:
        return None
    try:
        return _from_json(operation_id, unseal(found.data, _VERSION))
    except ValueError as error:
        raise MoveDamaged(path, str(error)) from error


def _from_json(operation_id: str, content: Fields) -> Move:
    if content.text("operation_id") != operation_id:
        raise content.refuse("operation_id", "that of its file")
    kind = MoveKind(content.text("kind"))
    identity = content.optional_text("identity")
    if identity is None and kind not in (MoveKind.BRANCH_CREATE, MoveKind.TAG_DELETE):
        raise ValueError("it does not say which branch or tag it is about")
    name_in = content.text if kind.is_of_tag else partial(branch_name, content)
    new_name = content.optional_text("new_name")
    if (kind is MoveKind.BRANCH_RENAME) != (new_name is not None):
        raise ValueError("a rename has a new name, and nothing else has")
    lineage = content.optional_text("lineage")
    move = Move(
        operation_id=operation_id,
        kind=kind,
        name=name_in("name"),
        identity=identity,
        twin=content.optional_text("twin"),
        commit_id=content.optional_text("commit_id"),
        actor_id=content.text("actor_id"),
        created_at=content.moment("created_at"),
        message=content.optional_text("message"),
        undoes=content.optional_text("undoes"),
        tag=content.optional_text("tag"),
        lineage=None if lineage is None else branch_name(content, "lineage"),
        new_name=None if new_name is None else branch_name(content, "new_name"),
    )
    content.end()
    return move
