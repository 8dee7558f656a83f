"""`load`: inputs to one commit. Everything is read and checked before any table moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from omnigraph_core.change.changeset import Change, ChangeSet
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.parts import Part
from omnigraph_core.change.plan import Intent, Staging, plan_changes
from omnigraph_core.change.validate import check_against, find_violations
from omnigraph_core.change.violations import Violations
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.assemble import LoadMode
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.inputs import Input, read_inputs
from omnigraph_core.load.intake import Identified, Intake
from omnigraph_core.load.records import TypedRows
from omnigraph_core.load.rejects import Rejects, RejectsFile, record_lines
from omnigraph_core.load.staging import Stager
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.branches import branch_for_write
from omnigraph_core.write.door import Door, Published
from omnigraph_core.write.plan import WritePlan, WriterKind
from omnigraph_core.write.writable import WritableTable


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outcome of a load; no commit when there was nothing to load."""

    mode: LoadMode
    counts: Mapping[str, int]
    """Entities by table key, in the order of the keys."""
    unmatchable: int
    """Records merged as new because nothing could tell whether they were there already."""
    commit_id: str | None
    rejected: int = 0
    warnings: tuple[str, ...] = ()
    branch_created: bool = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def is_empty(self) -> bool:
        """Is there nothing to publish? An overwrite that names a type without rows empties it."""
        return not self.total and not (self.mode is LoadMode.OVERWRITE and self.counts)


@dataclass(frozen=True, slots=True)
class Rejecting:
    """Bad records go to a file, and the good ones are loaded; up to `limit` of them."""

    file: RejectsFile
    limit: int | None = None


class Load:
    """One load: its inputs once read, then planned as often as it takes."""

    def __init__(
        self,
        door: Door,
        schema: Schema,
        mode: LoadMode,
        intent: Intent,
        memory_limit_bytes: int,
        progress: Progress = silent,
        rejecting: Rejecting | None = None,
        tables_at_once: int = 1,
    ) -> None:
        self._door = door
        self._schema = schema
        self._mode = mode
        self._intent = replace(intent, strict=mode is LoadMode.OVERWRITE)
        self._progress = progress
        self._budget = MemoryBudget(memory_limit_bytes)
        self._tables_at_once = self._budget.tables_at_once(tables_at_once)
        self._intakes: dict[str, Intake] = {}
        self._identified: dict[str, Identified] = {}
        self._rejecting = rejecting
        # Rejected for what they say by themselves; and those together with what the graph says.
        self._bad = Rejects(rejecting.limit if rejecting else None)
        self._rejects = self._bad
        self._bad_rows: dict[str, frozenset[int]] = {}

    def read(self, given: Sequence[Input]) -> None:
        """Read and check the inputs by themselves; raises InvalidRecords with all that is wrong."""
        violations = self._collector()
        self._take(read_inputs(given, self._schema, violations, self._progress), violations)
        self._examine(violations)
        inputs = [{"name": each.name, "sha256": each.sha256, "bytes": each.bytes_read} for each in given]
        self._intent = replace(self._intent, inputs=inputs)

    def _take(self, pieces: Iterable[TypedRows], violations: Violations) -> None:
        for piece in pieces:
            intake = self._intakes.get(piece.entity.table_key)
            if intake is None:
                rejecting = self._rejecting is not None
                intake = Intake(piece.entity, self._mode, self._budget, rejecting=rejecting)
                self._intakes[piece.entity.table_key] = intake
            intake.add(piece, violations)

    def _examine(self, violations: Violations) -> None:
        """Ask the records what they break among themselves, after `violations` of each by itself."""
        violations = self._settled(violations, self._bad)
        self._step("check")
        for _, intake in sorted(self._intakes.items()):
            intake.check(self._parts, violations)
        self._settled(violations, self._bad)
        self._bad_rows = {key: intake.rejected for key, intake in self._intakes.items()}

    def check(self, base: Snapshot) -> tuple[ChangeSet, Committed]:
        """Check the records against one state of the graph; raises if they do not fit it.

        Records that are to be rejected are, until what is left fits: a rejected node takes
        its edges along.
        """
        self._step("check")
        committed = Committed(self._door.tables, base)
        self._rejects = self._bad.copy()
        for key, intake in self._intakes.items():
            intake.restart(self._bad_rows.get(key, frozenset()))
        while True:
            violations = self._collector()
            identified = {
                key: intake.identify(committed, self._parts, violations)
                for key, intake in self._intakes.items()
                if not intake.is_all_rejected
            }
            tables = {key: each.change for key, each in identified.items()}
            changes = ChangeSet(self._schema, tables, self._parts)
            self._ask(changes, committed, violations)
            self._identified = identified
            if not violations.total:
                return changes, committed
            self._settled(violations, self._rejects)

    def _ask(self, changes: ChangeSet, committed: Committed, violations: Violations) -> None:
        if self._rejecting is None:
            check_against(changes, committed, violations)
        else:
            find_violations(changes, committed, violations, violations)

    @property
    def _parts(self) -> tuple[Part, ...]:
        """In how many parts the rules look at the records, so that memory suffices."""
        return self._budget.parts(sum(intake.key_bytes for intake in self._intakes.values()))

    def _collector(self) -> Violations:
        return Violations() if self._rejecting is None else Violations(keep=None)

    def _settled(self, violations: Violations, rejects: Rejects) -> Violations:
        """Raise for what is wrong, or reject it; returns a new collector."""
        if self._rejecting is None:
            violations.raise_if_any()
            return violations
        rejects.add(violations.first)
        for violation in violations.first:
            if violation.row is not None:
                key, position = violation.row
                self._intakes[key].reject([position])
        return self._collector()

    def publish(self, branch: str) -> Loaded:
        """Check, stage and publish; nothing when no record was read.

        When somebody else writes meanwhile, the records are checked again, and what was
        written of them is used again where it still says the same.
        """
        if not self._intakes:
            self._write_rejects()
            self._keep_rejects()
            return self.outcome()
        stager = Stager(self._door.storage, branch, self._intent.actor, self._progress)
        rows = sum(intake.rows for intake in self._intakes.values())
        with stager.recorded(lambda: self._door.base(branch), rows):
            published = self._door.write(branch, partial(self._plan, stager))
        self._keep_rejects()
        warnings = published.warnings + self._index(branch, published)
        return self.outcome(published.commit_id, warnings)

    def _plan(self, stager: Stager, base: Snapshot) -> WritePlan | None:
        changes, committed = self.check(base)
        self._write_rejects()
        if changes.is_empty:
            return None
        self._step("write")

        def stage(writable: WritableTable, change: Change, operation_id: str) -> StagedWrite:
            intake, identified = self._intakes[change.key], self._identified[change.key]
            return stager.stage(writable, intake, identified, changes.parts, operation_id)

        staging = Staging(stage, self._tables_at_once, stager.stop)
        plan = plan_changes(self._door, changes, committed, self._intent, staging)
        self._step("publish")
        return replace(plan, spared=stager.files, on_recorded=stager.hand_over)

    def finish(self, branch: str, start: GraphCommit | None, *, dry_run: bool) -> Loaded:
        """Publish what was read, or only check it; `start` is where a branch to be made begins."""
        if start is None and not dry_run:
            return self.publish(branch)
        self.check(self._door.manifest.snapshot(branch) if start is None else self._snapshot_at(start))
        if dry_run or start is None or self.outcome().is_empty:
            return self.outcome()
        with branch_for_write(self._door, branch, start, WriterKind.LOAD.value, self._intent.actor):
            return replace(self.publish(branch), branch_created=True)

    def _snapshot_at(self, commit: GraphCommit) -> Snapshot:
        return self._door.manifest.snapshot_at_version(commit.manifest_version, commit.branch)

    def _index(self, branch: str, published: Published) -> tuple[str, ...]:
        """The load is durable; indexes that cannot be built now are built by a later load or optimize."""
        if published.commit_id is None:
            return ()
        self._step("index")
        try:
            loaded = [intake.entity for intake in self._intakes.values()]
            actor, memory = self._intent.actor, self._budget.index_bytes
            ensure_indexes(self._door, branch, loaded, actor, memory_bytes=memory)
        except OmnigraphError as error:
            return (f"the load is done, but its indexes are not: {error}",)
        return ()

    def outcome(self, commit_id: str | None = None, warnings: tuple[str, ...] = ()) -> Loaded:
        """What was loaded, or would be, as of the last check."""
        found = sorted(self._identified.items())
        counts = {key: identified.change.count for key, identified in found}
        unmatchable = sum(identified.unmatchable for _, identified in found)
        return Loaded(self._mode, counts, unmatchable, commit_id, len(self._rejects), warnings)

    def _write_rejects(self) -> None:
        """Before anything moves: a file of rejects that cannot be written fails the load."""
        if self._rejecting is not None:
            for intake in self._intakes.values():
                for origin, rows in intake.rejected_rows():
                    self._rejects.describe(origin, record_lines(rows, intake.entity))
            self._rejecting.file.write(self._rejects)

    def _keep_rejects(self) -> None:
        if self._rejecting is not None:
            self._rejecting.file.keep()

    def close(self) -> None:
        """Give back memory and disk."""
        if self._rejecting is not None:
            self._rejecting.file.forget()
        for intake in self._intakes.values():
            intake.close()

    def _step(self, phase: str) -> None:
        """What one phase needed in passing is given back before the next begins."""
        self._budget.give_back()
        self._progress(ProgressEvent(phase, 0))
