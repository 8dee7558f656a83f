"""Writing down that a ref moves: before it does, and once it has. See `history/moves.py`.

Under the refs lock. On object storage a process may sleep here past its lease, so every step is
one that a second process may do as well: the records are named by the operation, and created if
absent. What a second process takes for a move that did not happen is dropped; should the
sleeper still get it done, it says so itself when it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.moves import Move, MoveKind, begun_moves, completed, read_begun
from omnigraph_core.history.names import read_names
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.records import dataclass
from omnigraph_core.storage import HeldLocks, ObjectExists
from omnigraph_core.tables.durability import sync_ref_removed
from omnigraph_core.write.door import Door


@dataclass(frozen=True, slots=True)
class Note:
    """Who moves a ref, and what the log is to say about it. One note is for one move."""

    actor: str
    message: str | None = None
    undoes: str | None = None
    operation_id: str = field(default_factory=new_ulid)

    def move(
        self,
        kind: MoveKind,
        name: str,
        *,
        identity: str | None = None,
        commit_id: str | None = None,
        twin: str | None = None,
        tag: str | None = None,
        lineage: str | None = None,
        new_name: str | None = None,
    ) -> Move:
        return Move(
            operation_id=self.operation_id,
            kind=kind,
            name=name,
            identity=identity,
            twin=twin,
            commit_id=commit_id,
            actor_id=self.actor,
            created_at=now_us(),
            message=self.message,
            undoes=self.undoes,
            tag=tag,
            lineage=None if lineage == name else lineage,
            new_name=new_name,
        )


@contextmanager
def logged(door: Door, move: Move, held: HeldLocks) -> Iterator[None]:
    """Within it the ref moves. If that fails, the log has it only if it has moved nevertheless."""
    settle_moves(door, held)
    door.storage.control.create(layout.begun_operation(move.operation_id), move.encode(), held.check)
    faults.hit("move.begun")
    try:
        yield
    except OmnigraphError:
        with suppress(OmnigraphError):  # Without the lock, or the disk: the next move settles it.
            settle_moves(door, held)
        raise
    faults.hit("move.moved")
    # The ref has moved, and that is on record: what fails now is left to the next move.
    with suppress(OmnigraphError):
        _record(door, completed(door.manifest, move) or move)


def shown_name(door: Door, lineage: str, identity: str | None) -> str:
    """What the branch of a line is called."""
    return read_names(door.storage.control).of(Branch(lineage, identity))


def settle_moves(door: Door, held: HeldLocks) -> None:
    """Finish or drop the records of moves whose commands have died."""
    for operation_id in begun_moves(door.storage.control):
        move = read_begun(door.storage.control, operation_id)
        if move is None:
            continue
        if door.storage.control.exists(layout.done_operation(operation_id)):
            door.storage.control.delete(layout.begun_operation(operation_id))
            continue
        happened = completed(door.manifest, move)
        held.check()
        if happened is not None:
            _record(door, happened)
        else:
            # For good: once others have moved the same ref, it would look as if it had happened.
            path = layout.begun_operation(operation_id)
            door.storage.control.delete(path)
            sync_ref_removed(door.storage, path)
        faults.hit("move.settled")


def _record(door: Door, move: Move) -> None:
    with suppress(ObjectExists):
        door.storage.control.create(layout.done_operation(move.operation_id), move.encode())
    faults.hit("move.recorded")
    door.storage.control.delete(layout.begun_operation(move.operation_id))
