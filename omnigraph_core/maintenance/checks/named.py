"""What people have named or may want back: tags, names of branches, deleted branches, and the log of
all that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.moves import (
    Move,
    MoveDamaged,
    begun_moves,
    done_moves,
    read_begun,
    read_done,
)
from omnigraph_core.history.names import BranchNames, read_names
from omnigraph_core.history.removed import shown_day
from omnigraph_core.history.tags import read_tag, tag_names
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, error, failed, note
from omnigraph_core.storage import ControlStore


def check_tags(seen: Examination) -> Iterator[Finding]:
    for name in tag_names(seen.control):
        yield from attempt("tag-damaged", layout.tag(name), _tag, seen, name)


def _tag(seen: Examination, name: str) -> Iterator[Finding]:
    """The commit is on record and can be read, or its branch was deleted and is kept for the tag."""
    try:
        tag = read_tag(seen.control, name)
    except NotFoundError:
        return
    if tag.branch in seen.log_failures or tag.branch in seen.head_failures:
        return
    commit = seen.commits.get(tag.commit_id)
    is_there = commit is not None and seen.is_readable(commit)
    if is_there or any(each.on.may_be(tag.on) for each in seen.deleted) or not seen.knows_deleted:
        return
    text = f"its commit {tag.commit_id} is gone"
    yield error("tag-commit-gone", name, text, f"omnigraph tag delete {name}")


def check_deleted(seen: Examination) -> Iterator[Finding]:
    """One of them may be unreadable: cleanup stops then, because nobody knows what has to stay for it."""
    gone = seen.deleted
    for path, problem in seen.deleted_failures.items():
        yield failed("deleted-damaged", path, problem)
    names = read_names(seen.control) if gone else BranchNames()
    for each in gone:
        called = names.of(each.on)
        text = f"deleted on {shown_day(each.deleted_at)} by {each.actor_id}; it can still be brought back"
        yield note("branch-put-aside", called, text, f"omnigraph branch undelete {called}")


def check_names(seen: Examination) -> Iterator[Finding]:
    yield from attempt("names-damaged", layout.NAMES_RECORD, _names, seen)


def _names(seen: Examination) -> Iterator[Finding]:
    """A branch that was once called otherwise than its line keeps its entry for as long as it is there."""
    names = read_names(seen.control)
    unnamed = {each.identity: name for name, each in seen.live.items() if names.entry(each) is None}
    last: dict[str | None, Move] = {}
    for operation_id in sorted(done_moves(seen.control)):
        with suppress(MoveDamaged):  # The other check says so.
            move = read_done(seen.control, operation_id)
            if move is not None and (move.lineage is not None or move.new_name is not None):
                last[move.identity] = move
    for identity, move in last.items():
        if identity is not None and identity in unnamed:
            line, name = unnamed[identity], move.new_name or move.name
            text = f"it was called '{name}', and {layout.NAMES_RECORD} does not say so any more"
            yield error("branch-name-lost", line, text, f"omnigraph branch rename {line} {name}")


def check_operations(seen: Examination) -> Iterator[Finding]:
    """A record is written whole, and each goes by its id: one that goes meanwhile is gone."""
    for operation_id in begun_moves(seen.control):
        path = layout.begun_operation(operation_id)
        yield from attempt("operation-unreadable", path, _operation, seen, operation_id, read_begun)
    for operation_id in done_moves(seen.control):
        path = layout.done_operation(operation_id)
        yield from attempt("operation-unreadable", path, _operation, seen, operation_id, read_done)


def _operation(
    seen: Examination, operation_id: str, read: Callable[[ControlStore, str], Move | None]
) -> Iterator[Finding]:
    read(seen.control, operation_id)
    yield from ()
