"""A commit: what the head row of `__manifest` and the commit row of the history both say."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import StrEnum

from omnigraph_core.records import dataclass

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

CREATES_BRANCH = "creates_branch"
"""In the details of a commit: its branch was made for it."""


class Operation(StrEnum):
    """What a commit was made by; the text is on disk. Rows of other writers may have other texts."""

    INIT = "init"
    MUTATION = "mutation"
    LOAD = "load"
    SCHEMA_APPLY = "schemaapply"
    BRANCH_MERGE = "branchmerge"
    REVERT = "revert"
    RESET = "reset"
    ENSURE_INDICES = "ensureindices"
    OPTIMIZE = "optimize"
    REPAIR = "repair"
    ADOPT = "adopt"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, wherever it is written down."""

    commit_id: str
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """Microseconds since the epoch; later than the parent's by construction."""
    operation: str | None
    """None in rows of the original OmniGraph, as is the hash."""
    schema_hash: str | None
    message: str | None = None
    details: str | None = None
    """Compact JSON with counts per type and inputs."""


class OfCommit:
    """What a record that holds a commit answers for it."""

    __slots__ = ()

    commit: Commit

    @property
    def commit_id(self) -> str:
        return self.commit.commit_id

    @property
    def parent_commit_id(self) -> str | None:
        return self.commit.parent_commit_id

    @property
    def merged_parent_commit_id(self) -> str | None:
        return self.commit.merged_parent_commit_id

    @property
    def actor_id(self) -> str | None:
        return self.commit.actor_id

    @property
    def created_at(self) -> int:
        return self.commit.created_at

    @property
    def when(self) -> datetime:
        """`created_at` as a moment in UTC."""
        return _EPOCH + timedelta(microseconds=self.created_at)

    @property
    def operation(self) -> str | None:
        return self.commit.operation

    @property
    def message(self) -> str | None:
        return self.commit.message

    @property
    def details(self) -> str | None:
        return self.commit.details
