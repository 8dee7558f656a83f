"""A write plan: everything a write wants to become true at once, staged and not yet visible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from omnigraph_core.manifest.commit import Operation
from omnigraph_core.manifest.request import Registration, Tombstone
from omnigraph_core.manifest.seal import TableState
from omnigraph_core.manifest.snapshot import Snapshot, table_state
from omnigraph_core.records import dataclass
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.attempt import Attempt


class WriterKind(StrEnum):
    """Who writes; the text is part of the sidecar format."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    REVERT = "Revert"
    RESET = "Reset"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"
    REPAIR = "Repair"
    ADOPT = "Adopt"
    LATE_WRITER = "LateWriter"
    """Of a sidecar for versions that no sidecar explains. It is only ever rolled back."""

    @property
    def operation(self) -> Operation:
        """What its commits say they were made by."""
        return Operation(self.value.lower())


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """Where a table was forked from for this write; such a fork was never published before."""

    parent_branch: str | None
    parent_version: int


@dataclass(frozen=True, slots=True)
class NewSchema:
    """The schema a branch has from a write on, and the text it was written as."""

    schema_hash: str
    source: str


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One table of a plan: the staged transactions that follow each other on its HEAD.

    None at all for a table that only gets another key: it stays where it is, on whichever
    lineage that is.

    `base_version` is HEAD when the first was staged; `published_version` what the
    manifest said then: the same, or 0 for a table that this plan registers, or less for
    a fork that was used before and brought back to its start.
    """

    ref: TableRef
    base_version: int
    published_version: int
    row_count: int
    """Rows after the write."""
    staged: tuple[StagedWrite, ...]
    fork: ForkOrigin | None = None
    renamed_from: str | None = None
    """The key under which the table is published until now, if this plan gives it another."""

    @property
    def final_version(self) -> int:
        return self.base_version + len(self.staged)


def _nothing() -> None:
    """What a planner says or does that keeps no record of its staged files."""


def _nothing_more(tables: Tables, guard: Guard) -> None:
    """What a planner needs besides that keeps nothing but its tables."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What one write does, and everything it assumed while it was planned."""

    operation_id: str
    kind: WriterKind
    attempt: Attempt
    actor: str | None
    is_own_actor: bool = False
    """Signed by OmniGraph itself, under a name that nobody else may use."""
    tables: Sequence[TableWrite] = ()
    registrations: Sequence[Registration] = ()
    tombstones: Sequence[Tombstone] = ()
    schema: NewSchema | None = None
    """What the branch's schema becomes; every other write keeps the one it was planned with."""
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
    rebase: Callable[[WritePlan, Snapshot], WritePlan | None] | None = None
    """Under the lock: the same plan on a later snapshot, if what happened meanwhile does not concern it."""
    guard: Callable[[], None] = _nothing
    """Raises if the staged files may have been taken for a dead writer's and removed."""
    before_a: Callable[[Tables, Guard], None] = _nothing_more
    """What must be safe before the write begins, and does no harm without it; done under the lock."""
    on_recorded: Callable[[], None] = _nothing
    """Told once the sidecar is there: from then on recovery decides about the staged files.

    Raises when they are no longer ours; then nothing may be committed.
    """

    @property
    def base(self) -> Snapshot:
        return self.attempt.snapshot

    @property
    def branch(self) -> str:
        return self.base.branch

    @property
    def details_with_files(self) -> str | None:
        """The details, and a digest of every file the commit adds: it lives as long as the commit."""
        files = {
            file.path: file.digest for write in self.staged for file in write.files if file.digest is not None
        }
        if not files:
            return self.details
        content = {**(json.loads(self.details) if self.details else {}), "files": files}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @property
    def published_tables(self) -> list[TableState]:
        """Every table as the commit of this plan publishes it."""
        entries = {key: table_state(entry) for key, entry in self.base.tables.items()}
        for each in self.tombstones:
            entries.pop(each.table_key, None)
        for table in self.tables:
            ref = table.ref
            entries[ref.key] = (ref.key, ref.path, ref.branch, table.final_version, table.row_count)
        return list(entries.values())

    @property
    def staged(self) -> list[StagedWrite]:
        return [write for table in self.tables for write in table.staged]
