"""What people have named or may want back: tags, and branches that were deleted."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.removed import shown_day
from omnigraph_core.history.tags import read_tag, tag_names
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, error, note


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
    if is_there or any(each.on.may_be(tag.on) for each in seen.deleted):
        return
    text = f"its commit {tag.commit_id} is gone"
    yield error("tag-commit-gone", name, text, f"omnigraph tag delete {name}")


def check_deleted(seen: Examination) -> Iterator[Finding]:
    yield from attempt("deleted-damaged", layout.DELETED_DIR, _deleted, seen)


def _deleted(seen: Examination) -> Iterator[Finding]:
    for each in seen.deleted:
        text = f"deleted on {shown_day(each.deleted_at)} by {each.actor_id}; it can still be had back"
        yield note("branch-put-aside", each.name, text, f"omnigraph branch undelete {each.name}")
