"""A write plan: everything a write wants to become true at once, staged and not yet visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from omnigraph_core.manifest.publisher import Registration, Tombstone
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedWrite


class WriterKind(StrEnum):
    """Who writes; the text is part of the sidecar format."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """Where a table was forked from for this write; such a fork is removed when it is undone."""

    parent_branch: str | None
    parent_version: int


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One table of a plan: the staged transactions that follow each other on its HEAD.

    `base_version` is HEAD when the first was staged; `published_version` what the
    manifest said then: the same, or 0 for a table that this plan registers.
    """

    ref: TableRef
    base_version: int
    published_version: int
    row_count: int
    """Rows after the write."""
    staged: tuple[StagedWrite, ...]
    fork: ForkOrigin | None = None

    @property
    def final_version(self) -> int:
        return self.base_version + len(self.staged)


def _nothing() -> None:
    """What a planner does that keeps no record of its staged files."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What one write does, and everything it assumed while it was planned."""

    operation_id: str
    kind: WriterKind
    base: Snapshot
    actor: str | None
    schema_hash: str
    tables: Sequence[TableWrite] = ()
    registrations: Sequence[Registration] = ()
    tombstones: Sequence[Tombstone] = ()
    reads: Mapping[str, int] = field(default_factory=dict)
    """Tables whose content the plan depends on without writing them, with their versions."""
    strict: bool = False
    """A strict write fails when its tables moved; any other is planned again."""
    if_commit: str | None = None
    merged_parent_commit_id: str | None = None
    message: str | None = None
    details: str | None = None
    makes_commit: bool = True
    """False for writes without meaning of their own (indexes): the head commit stays."""
    spared: frozenset[str] = frozenset()
    """Staged files that another attempt will use again when this one comes too late."""
    on_recorded: Callable[[], None] = _nothing
    """Told once the sidecar is there: from then on recovery decides about the staged files."""

    @property
    def branch(self) -> str:
        return self.base.branch

    @property
    def staged(self) -> list[StagedWrite]:
        return [write for table in self.tables for write in table.staged]
