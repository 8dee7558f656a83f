"""Branches whose ref is gone although nobody deleted them.

The ref file of `__manifest` is what makes a branch exist. A twin or a tree without one is no proof that
there was a branch: a create that died leaves them as well, and so does a deleted branch. What tells
is the record of what was done. A branch was there, and is lost, if

- versions of it are on disk, without which nothing can be said or rebuilt, **and**
- no record of a deleted branch has its name, and no move of it has begun and not ended, **and**
- the newest move of it that is done did not delete it; or, if none is on record because a load made it
  (or an older OmniGraph), its own commit table has a commit made on it that is no recovery's.

A record that cannot be read may tell of a deletion: then nothing is called lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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


def lost_branches(tables: Tables, names: Iterable[str]) -> list[str]:
    """Those of these names that are lost.

    Nobody is kept from making and deleting branches meanwhile. So the refs are looked for between two
    looks at the records, which have to say the same.
    """
    named = (name for name in names if is_branch_name(name))  # From files: it may be anything.
    left = [name for name in named if versions_on_disk(tables, manifest_ref(name))]
    if not left:
        return []
    before = _witnesses(tables, left)
    main = manifest_ref(layout.MAIN_BRANCH)
    gone = [name for name in before if not tables.storage.control.exists(ref_path(main, name))]
    after = _witnesses(tables, gone) if gone else {}
    return sorted(name for name in gone if before[name] == after.get(name))


def was_made(tables: Tables, name: str) -> bool:
    """Was the branch there, to its last byte, and nobody deleted it? A power cut cannot have torn it."""
    found = _done_and_undone(tables.storage.control)
    return found is not None and name in found[0] and name not in found[1]


def identities_on_record(control: ControlStore) -> Mapping[str, str]:
    """What branches are known by, by their lines, as far as their making and what came after is on record."""
    recorded = _done_and_undone(control)
    if recorded is None:
        return {}
    moves, undone = recorded
    made = {(move.line, move.identity) for move in _moves_of_branches(control) if move.kind in _MADE}
    return {
        line: move.identity
        for line, move in moves.items()
        if line not in undone and move.identity is not None and (line, move.identity) in made
    }


def _moves_of_branches(control: ControlStore) -> Iterator[Move]:
    found = (read_done(control, each) for each in done_moves(control))
    return (move for move in found if move is not None and not move.kind.is_of_tag)


def newest_moves_of_lines(control: ControlStore) -> Mapping[str, Move]:
    """The newest move of each branch that is on record as done, by its line."""
    found: dict[str, Move] = {}
    for move in _moves_of_branches(control):
        known = found.get(move.line)
        if known is None or _age(known) < _age(move):
            found[move.line] = move
    return found


def _age(move: Move) -> tuple[int, str]:
    return move.created_at, move.operation_id


def _witnesses(tables: Tables, names: Iterable[str]) -> dict[str, str]:
    """The operation or the commit that says that a branch was there and was not deleted, by name."""
    recorded = _done_and_undone(tables.storage.control)
    if recorded is None:
        return {}
    moves, undone = recorded
    found = {}
    for name in set(names) - undone:
        witness = moves[name].operation_id if name in moves else _own_commit(tables, name)
        if witness is not None:
            found[name] = witness
    return found


def _done_and_undone(control: ControlStore) -> tuple[Mapping[str, Move], set[str]] | None:
    """The newest moves, and the branches that are deleted, or may be on their way to it or from it.

    None if a record cannot be read.
    """
    try:
        moves = newest_moves_of_lines(control)
        begun = [read_begun(control, each) for each in begun_moves(control)]
        deleted = [read_record(control, each) for each in deleted_identities(control)]
    except OmnigraphError:
        return None
    undone = {each.line for each in begun if each is not None}
    undone |= {each.name for each in deleted if each is not None}
    return moves, undone | {line for line, move in moves.items() if move.kind is MoveKind.BRANCH_DELETE}


def _own_commit(tables: Tables, name: str) -> str | None:
    """The newest commit that was made on the branch by somebody."""
    try:
        rows = read_log_rows(tables, commits_ref(name), commits_schema()).to_pylist()
        of_recoveries = recovery_commits(tables)
    except OmnigraphError:
        return None
    own = [row for row in rows if row["manifest_branch"] == name and row.get("branch_identity")]
    return max(
        (row["graph_commit_id"] for row in own if row["graph_commit_id"] not in of_recoveries), default=None
    )
