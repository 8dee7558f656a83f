"""Branches whose ref is gone although nobody deleted them.

The ref file of `__manifest` is what makes a branch exist. A twin or a tree without one is no proof that
there was a branch: a create that died leaves them as well, and so does a deleted branch. What tells
is the record of what was done. A branch was there, and is lost, if

- versions of it are on disk, without which nothing can be said or rebuilt, **and**
- no record of a deleted branch has its name, and no move of it has begun and not ended, **and**
- a move of it is on record as done, or it came with a graph of the original, and it was not deleted since;
  or, if nothing is on record because a load made it (or an older OmniGraph), its own commit table has a
  commit made on it that is no recovery's.

Branches are told apart by identity, never by when something was done: clocks of hosts differ, and are
set back. A record that cannot be read may tell of a deletion: then nothing is called lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref, commits_schema
from omnigraph_core.history.deleted import deleted_identities, read_record
from omnigraph_core.history.moves import Move, MoveKind, begun_moves, done_moves, read_begun, read_done
from omnigraph_core.history.recoveries import recovery_commits
from omnigraph_core.manifest.branch import is_branch_name
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fork_refs import ref_path
from omnigraph_core.tables.log_read import read_log_rows
from omnigraph_core.tables.torn import versions_on_disk

_MADE = (MoveKind.BRANCH_CREATE, MoveKind.BRANCH_UNDELETE)

Living = Mapping[str, Mapping[str, tuple[Move, ...]]]
"""Branches that were there and were not deleted: by line and identity, the moves that say so. There are
none of a branch that came with a graph of the original."""


class MoveRecords:
    """The records of branches that came and went. None ever says of another branch what it said
    before, so each is read once: a thousand branches may have been deleted."""

    def __init__(self, control: ControlStore, adopted: Callable[[], Mapping[str, str]]) -> None:
        self.control = control
        self._adopted = adopted
        """The identities of the branches that came with a graph of the original, by line."""
        self._done: dict[str, Move] = {}
        self._deleted: dict[str, str] = {}

    def _done_moves(self) -> Iterator[Move]:
        """The moves of branches that are on record as done."""
        for operation_id in done_moves(self.control):
            if operation_id not in self._done:
                move = read_done(self.control, operation_id)
                if move is None:
                    continue
                self._done[operation_id] = move
            if not (move := self._done[operation_id]).kind.is_of_tag:
                yield move

    def by_line(self) -> Living:
        """All branches that are on record, also those that were deleted."""
        return _by_line(self._done_moves(), self._adopted())

    def living(self) -> Living:
        return living(self._done_moves(), self._adopted())

    def undone(self) -> set[str]:
        """The lines of branches that are deleted, or may be on their way to it or from it."""
        begun = [read_begun(self.control, each) for each in begun_moves(self.control)]
        return {each.line for each in begun if each is not None} | set(self._lines_of_deleted())

    def _lines_of_deleted(self) -> Iterator[str]:
        for identity in deleted_identities(self.control):
            if identity not in self._deleted:
                record = read_record(self.control, identity)
                if record is None:
                    continue
                self._deleted[identity] = record.name
            yield self._deleted[identity]


def lost_branches(tables: Tables, records: MoveRecords, names: Iterable[str]) -> list[str]:
    """Those of these names that are lost.

    Nobody is kept from making and deleting branches meanwhile. So the refs are looked for between two
    looks at the records, which have to say the same.
    """
    try:
        undone = records.undone()
    except OmnigraphError:
        return []
    named = (
        name for name in names if name not in undone and is_branch_name(name)
    )  # From files: it may be anything.
    left = [name for name in named if versions_on_disk(tables, manifest_ref(name))]
    if not left:
        return []
    before = _witnesses(tables, records, left)
    main = manifest_ref(layout.MAIN_BRANCH)
    gone = [name for name in before if not tables.storage.control.exists(ref_path(main, name))]
    after = _witnesses(tables, records, gone) if gone else {}
    return sorted(name for name in gone if before[name] == after.get(name))


def was_made(records: MoveRecords, name: str) -> bool:
    """Was the branch there, to its last byte, and nobody deleted it? A power cut cannot have torn it."""
    try:
        return name not in records.undone() and name in records.living()
    except OmnigraphError:
        return False


def identities_on_record(records: MoveRecords) -> Mapping[str, Collection[str]]:
    """What branches are known by, by their lines, as far as their making and what came after is on record."""
    try:
        undone, there = records.undone(), records.living()
    except OmnigraphError:
        return {}
    made = {line: _made(known) for line, known in there.items() if line not in undone}
    return {line: identities for line, identities in made.items() if identities}


def _made(known: Mapping[str, Iterable[Move]]) -> list[str]:
    return [
        identity
        for identity, moves in known.items()
        if not moves or any(move.kind in _MADE for move in moves)
    ]


def living(moves: Iterable[Move], adopted: Mapping[str, str]) -> Living:
    """Of the branches that these are about, those that are there by what is said."""
    return {line: there for line, known in _by_line(moves, adopted).items() if (there := _not_deleted(known))}


def _by_line(moves: Iterable[Move], adopted: Mapping[str, str]) -> Living:
    found: dict[str, dict[str, tuple[Move, ...]]]
    found = {line: {identity: ()} for line, identity in adopted.items()}
    for move in moves:
        if move.identity is not None:
            known = found.setdefault(move.line, {})
            known[move.identity] = (*known.get(move.identity, ()), move)
    return found


def _not_deleted(known: Mapping[str, tuple[Move, ...]]) -> dict[str, tuple[Move, ...]]:
    """A branch is deleted once, and again once it was brought back."""
    return {identity: moves for identity, moves in known.items() if not _is_deleted(moves)}


def _is_deleted(moves: Iterable[Move]) -> bool:
    times = Counter(move.kind for move in moves)
    return times[MoveKind.BRANCH_DELETE] > times[MoveKind.BRANCH_UNDELETE]


def _witnesses(tables: Tables, records: MoveRecords, names: Iterable[str]) -> dict[str, str]:
    """What says that a branch was there and was not deleted, by name; another text once it moved since."""
    try:
        # What has begun before what is done: the one is on record until the other is.
        undone = records.undone()
        by_line = records.by_line()
    except OmnigraphError:
        return {}
    found = {}
    for name in set(names) - undone:
        known = by_line.get(name, {})
        if there := _not_deleted(known):
            moves = sorted(move.operation_id for moves in there.values() for move in moves)
            found[name] = " ".join([*sorted(there), *moves])
        elif commit := _own_commit(tables, name, known):
            found[name] = commit
    return found


def _own_commit(tables: Tables, name: str, deleted: Collection[str]) -> str | None:
    """The newest commit that was made by somebody on the branch, which is none of the deleted ones."""
    try:
        rows = read_log_rows(tables, commits_ref(name), commits_schema()).to_pylist()
        of_recoveries = recovery_commits(tables)
    except OmnigraphError:
        return None
    own = [
        row
        for row in rows
        if row["manifest_branch"] == name and row.get("branch_identity") not in (None, *deleted)
    ]
    return max(
        (row["graph_commit_id"] for row in own if row["graph_commit_id"] not in of_recoveries), default=None
    )
