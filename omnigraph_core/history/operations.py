"""The log of operations: every commit, and every ref that moved without one, newest first.

Nothing is written for it on the way of a write: the commit row says all there is to say. What moved
without a commit has a record of its own (`history/moves.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.history.deleted import read_deleted
from omnigraph_core.history.limits import ABBREVIATION_CHARACTERS_MIN
from omnigraph_core.history.log import (
    GraphCommit,
    newest_first,
    read_branch_log,
    read_deleted_log,
    read_newest_log,
)
from omnigraph_core.history.moves import Move, MoveKind, move_ids, newest_moves, read_move
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.commit import CREATES_BRANCH
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.records import dataclass

_AS_BEFORE = frozenset({"recovery", "optimize", "ensureindices"})
"""Commits that change nothing which a person has put there."""


class OperationNotFound(NotFoundError):
    """No operation of the log has the id."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a branch or a tag was."""

    name: str
    commit_id: str | None
    is_tag: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the log: a commit, or a move."""

    done: GraphCommit | Move

    def named(self, name_of: Callable[[Branch], str]) -> Operation:
        """With the name that the branch of a commit has now."""
        if isinstance(self.done, Move):
            return self
        return Operation(replace(self.done, named=name_of(self.done.on)))

    @property
    def operation_id(self) -> str:
        return self.done.commit_id if isinstance(self.done, GraphCommit) else self.done.operation_id

    @property
    def created_at(self) -> int:
        return self.done.created_at

    @property
    def actor_id(self) -> str | None:
        return self.done.actor_id

    @property
    def message(self) -> str | None:
        return self.done.message

    @property
    def kind(self) -> str | None:
        """The operation of the commit, told apart where one verb has several; or that of the move."""
        if isinstance(self.done, Move):
            return self.done.kind.value
        details = self._details
        return (
            "revert" if "reverts" in details else "reset" if "resets_to" in details else self.done.operation
        )

    @property
    def undoes(self) -> str | None:
        """The operation that this one took back."""
        if isinstance(self.done, Move):
            return self.done.undoes
        undone = self._details.get("undoes")
        return undone if isinstance(undone, str) else None

    @property
    def changes_content(self) -> bool:
        """Does it leave something that can be taken back? Repairs and tidying do not."""
        return self.kind not in _AS_BEFORE

    @property
    def creates_branch(self) -> bool:
        """Was the branch made for this very commit, which a load made?"""
        return isinstance(self.done, GraphCommit) and CREATES_BRANCH in self._details

    @property
    def before(self) -> Point | None:
        """None for what was not there."""
        done = self.done
        if isinstance(done, GraphCommit):
            is_first = done.parent_commit_id is None or self.creates_branch
            return None if is_first else Point(done.shown_branch, done.parent_commit_id)
        is_new = done.kind in (MoveKind.BRANCH_CREATE, MoveKind.BRANCH_UNDELETE, MoveKind.TAG_CREATE)
        return None if is_new else Point(done.name, done.commit_id, done.kind.is_of_tag)

    @property
    def after(self) -> Point | None:
        """None for what is gone."""
        done = self.done
        if isinstance(done, GraphCommit):
            return Point(done.shown_branch, done.commit_id)
        is_gone = done.kind in (MoveKind.BRANCH_DELETE, MoveKind.TAG_DELETE)
        return None if is_gone else Point(done.new_name or done.name, done.commit_id, done.kind.is_of_tag)

    @property
    def _details(self) -> dict[str, object]:
        assert isinstance(self.done, GraphCommit)
        found = json.loads(self.done.details or "{}")
        return found if isinstance(found, dict) else {}


def newest_operations(manifest: Manifest, limit: int | None = None) -> list[Operation]:
    """The log, newest first, or only its newest part. Writes nothing."""
    done: list[GraphCommit | Move] = [*newest_moves(manifest, limit), *newest_commits(manifest, limit)]
    ordered = sorted((Operation(each) for each in done), key=_time, reverse=True)
    return ordered[:limit]


def last_to_undo(manifest: Manifest) -> Operation:
    """The newest operation that did something a person may want to take back."""
    limit = 8
    while True:
        found = newest_operations(manifest, limit)
        for each in found:
            if each.changes_content:
                return each
        if len(found) < limit:
            raise OperationNotFound("there is no operation to take back")
        limit *= 4


def find_operation(manifest: Manifest, text: str) -> Operation:
    """The operation that an id names, or at least 8 characters of its start or end."""
    commits = {each.commit_id: each for each in newest_commits(manifest)}
    wanted = text.strip().upper()
    known = {*commits, *move_ids(manifest.tables.storage.control)}
    matches = [wanted] if wanted in known else []
    if not matches and len(wanted) >= ABBREVIATION_CHARACTERS_MIN:
        matches = sorted(each for each in known if each.startswith(wanted) or each.endswith(wanted))
    if len(matches) > 1:
        raise UsageError(
            f"'{text}' could be any of {len(matches)} operations: {', '.join(matches[:5])}",
            hint="use more characters",
        )
    done = None if not matches else commits.get(matches[0]) or read_move(manifest, matches[0])
    if done is None:
        raise OperationNotFound(
            f"'{text}' is not an operation of this graph",
            hint="`omnigraph op log` shows what there is; an id may be cut to its first or last "
            f"{ABBREVIATION_CHARACTERS_MIN} characters",
        )
    return Operation(done)


def taken_back_by(manifest: Manifest, operation_id: str) -> Operation | None:
    """The operation that took another back, unless it was taken back itself."""
    undone: dict[str, Operation] = {}
    for each in newest_operations(manifest):
        if each.undoes is not None and each.operation_id not in undone:
            undone.setdefault(each.undoes, each)
    return undone.get(operation_id)


def newest_commits(manifest: Manifest, limit: int | None = None) -> list[GraphCommit]:
    """Commits of all branches, newest first; also of deleted ones, as long as they can be brought back.

    With a limit, the histories of branches whose head is older than what was found are not read,
    and of the others no more than the newest commits.
    """
    tables = manifest.tables
    heads = []
    for branch in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
        with suppress(NotFoundError):  # Deleted meanwhile.
            head = manifest.snapshot(branch).head
            heads.append((head.created_at if head is not None else 0, branch))
    found: dict[str, GraphCommit] = {}
    for newest, branch in sorted(heads, reverse=True):
        if limit is not None and _has_enough(found.values(), limit, newest):
            break
        with suppress(NotFoundError):
            if limit is None:
                found |= read_branch_log(tables, manifest, branch).commits
            else:
                found |= read_newest_log(tables, manifest, branch, limit)
    for deleted in read_deleted(tables.storage.control):
        if limit is None or not _has_enough(found.values(), limit, deleted.deleted_at):
            for commit_id, commit in read_deleted_log(tables, deleted, limit).items():
                found.setdefault(commit_id, commit)
    return newest_first(found.values())[:limit]


def _has_enough(found: Iterable[GraphCommit], limit: int, newest: int) -> bool:
    return sum(each.created_at > newest for each in found) >= limit


def _time(operation: Operation) -> tuple[int, str]:
    return operation.created_at, operation.operation_id
