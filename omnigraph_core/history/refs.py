"""Refs: the ways to name a commit.

branch            a branch name wins over everything else
tag:NAME          a tag
01J8…             a commit id, or at least 8 characters of its start or end
REF~N             N first parents back
REF@{TIME}        the newest commit on the way back that is not after TIME
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone

from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.history.limits import ABBREVIATION_CHARACTERS_MIN, REF_CHARACTERS_MAX
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.history.tags import TAG_PREFIX, Tag, TagNotFound
from omnigraph_core.patterns import pattern

_SUFFIX = pattern(r"(?P<base>.+)(?:~(?P<count>[0-9]*)|@\{(?P<time>[^{}]*)\})", re.DOTALL)


class CommitNotFound(NotFoundError):
    """A ref names nothing in this graph."""


class TaggedCommitGone(CommitNotFound):
    """A tag names a commit of a branch that is deleted."""

    def __init__(self, tag: Tag) -> None:
        super().__init__(
            f"tag '{tag.name}' names commit {tag.commit_id} of branch '{tag.branch}', which is deleted",
            hint=f"`omnigraph branch undelete {tag.branch}` brings it back; the tag keeps it",
        )
        self.tag = tag

    def details(self) -> Mapping[str, object]:
        return {"tag": self.tag.name, "commit_id": self.tag.commit_id, "branch": self.tag.branch}


def tag_name(ref: str) -> str | None:
    """The tag that a ref starts from, if it starts from one."""
    name = first_name(ref)
    return name.removeprefix(TAG_PREFIX) if name.startswith(TAG_PREFIX) else None


def first_name(ref: str) -> str:
    """What a ref starts from: the name before its suffixes."""
    return ref.split("~", 1)[0].split("@{", 1)[0]


def resolve(log: CommitLog, ref: str, tag: Tag | None = None) -> GraphCommit:
    """The commit a ref names; `tag` is the one it starts from, if it starts from one."""
    if len(ref) > REF_CHARACTERS_MAX:
        raise UsageError(f"'{ref[:40]}...' is too long for a ref: {len(ref)} characters")
    suffixes: list[re.Match[str]] = []
    base = ref
    while match := _SUFFIX.fullmatch(base):
        suffixes.append(match)
        base = match["base"]
    commit = _named(log, base, tag)
    for suffix in reversed(suffixes):
        if suffix["time"] is not None:
            commit = _at_time(log, commit, suffix.string, suffix["time"])
        else:
            commit = _ancestor(log, commit, suffix.string, int(suffix["count"] or 1))
    return commit


def _named(log: CommitLog, name: str, tag: Tag | None) -> GraphCommit:
    """The commit of a ref without suffixes."""
    if name in log.heads:
        return log.commits[log.heads[name]]
    if name.startswith(TAG_PREFIX):
        return _tagged(log, name.removeprefix(TAG_PREFIX), tag)
    if name in log.commits:
        return log.commits[name]
    return _abbreviated(log, name)


def _tagged(log: CommitLog, name: str, tag: Tag | None) -> GraphCommit:
    if tag is None or tag.name != name:
        raise TagNotFound(name)
    found = log.commits.get(tag.commit_id)
    if found is None or not found.on.may_be(tag.on):
        raise TaggedCommitGone(tag)
    return found


def _abbreviated(log: CommitLog, ref: str) -> GraphCommit:
    text = ref.upper()
    if len(text) < ABBREVIATION_CHARACTERS_MIN:
        raise CommitNotFound(
            f"'{ref}' is neither a branch nor a commit",
            hint=f"a commit id may be cut to its first or last {ABBREVIATION_CHARACTERS_MIN} characters",
        )
    matches = [id_ for id_ in log.commits if id_.startswith(text) or id_.endswith(text)]
    if not matches:
        raise CommitNotFound(f"'{ref}' is neither a branch nor a commit of this graph")
    if len(matches) > 1:
        raise UsageError(
            f"'{ref}' could be any of {len(matches)} commits: {', '.join(sorted(matches)[:5])}",
            hint="use more characters",
        )
    return log.commits[matches[0]]


def _ancestor(log: CommitLog, base: GraphCommit, ref: str, count: int) -> GraphCommit:
    for steps, commit in enumerate(log.first_parents(base.commit_id)):
        if steps == count:
            return commit
    raise CommitNotFound(f"'{ref}': {base.commit_id} does not have that many ancestors")


def _at_time(log: CommitLog, base: GraphCommit, ref: str, text: str) -> GraphCommit:
    limit = parse_time_us(text)
    for commit in log.first_parents(base.commit_id):
        if commit.created_at <= limit:
            return commit
    raise CommitNotFound(f"'{ref}': there is no commit that old")


def parse_time_us(text: str) -> int:
    """Microseconds since the epoch of an ISO time; UTC unless it has an offset."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"'{text}' is not an ISO time", hint="for example 2026-11-16 or 2026-11-16T08:30:00+01:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    whole = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
