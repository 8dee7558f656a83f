"""`load`: inputs to one commit. Everything is read and checked before any table moves."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from omnigraph_core import faults
from omnigraph_core.change.plan import Staging, plan_changes
from omnigraph_core.errors import ConflictError, OmnigraphError, said_if_interrupted
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.indexes.topology import EDGES_LOADED_MIN, EDGES_MIN, TopologyBuilder
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.identified import Identified
from omnigraph_core.load.intake import Intake, Mask
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.overtaken import concern, read_moved
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.load.rejects import Rejects, record_lines
from omnigraph_core.load.request import LoadRequest
from omnigraph_core.load.roles import Checked, Reading, RowStaging, Source
from omnigraph_core.manifest.commit import CREATES_BRANCH
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change, ChangeSet
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import Part
from omnigraph_core.rules.validate import check_against, find_violations, raise_found
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import Schema
from omnigraph_core.tables.staged import StagedWrite, discard_files
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.naming import prove_called
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import TableWrite, WritePlan
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


class InputsOutdated(ConflictError):
    """The inputs were read by a schema that the branch no longer has."""

    retryable = True

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"the schema of branch '{branch}' changed while the inputs were read", hint="load them again"
        )


class Load:
    """One load: its rows read once, then planned as often as it takes."""

    def __init__(
        self, door: Door, schema: Schema, schema_hash: str, request: LoadRequest, progress: Progress = silent
    ) -> None:
        self.door = door
        self.schema = schema
        self._schema_hash = schema_hash
        self.request = request
        self._intent = replace(request.intent, strict=request.mode is LoadMode.OVERWRITE)
        self.progress = progress
        self.budget = MemoryBudget(request.memory_limit_bytes)
        self._intakes: dict[str, Intake] = {}
        self._identified: dict[str, Identified] = {}
        self._checked: Checked | None = None
        self._rejecting = request.rejecting
        self._rejects = Rejects(self._rejecting.limit if self._rejecting else None)
        # The rows of rejected records: those found since the last time they were left out, and
        # those that are wrong by themselves.
        self._found_rows: dict[str, array[int]] = {}
        self._bad_rows: dict[str, Mask | None] = {}

    def run(self, source: Source) -> Loaded:
        """Read, check and publish; or only check, in a dry run."""
        request = self.request
        record = LoadRecord(self.door, request.branch, request.intent.actor)
        with closing(source), closing(self), record:
            reading = Reading(
                self.door, self.schema, request, self.budget, record, self._collector(), self.progress
            )
            if not source.writes_tables:
                self._read(source, reading)
                return self._finish(source, reading)
            made = request.start is not None and record.make_branch(request.start, request.name)
            self._read(source, reading)
            return self._publish(source, reading, made=made)

    def _read(self, source: Source, reading: Reading) -> None:
        """Read and check the inputs by themselves; raises InvalidRecords with all that is wrong."""
        read = source.read(reading)
        mode, budget = self.request.mode, self.budget
        self._intakes = {key: Intake(rows, mode, budget) for key, rows in read.rows.items()}
        self._checked = read.checked
        self._examine(reading.violations)
        self._intent = replace(self._intent, inputs=read.inputs())

    def _examine(self, violations: Violations) -> None:
        """Ask the records what they break among themselves, after `violations` of each by itself."""
        if self._checked is not None:
            violations.raise_if_any()
            self._checked.among.raise_if_any()
            return
        violations = self._settled(violations)
        self._step("check")
        for _, intake in sorted(self._intakes.items()):
            intake.check(self._parts, violations)
        self._settled(violations)
        self._bad_rows = {key: intake.rejected for key, intake in self._intakes.items()}

    def _check(self, base: Snapshot) -> tuple[ChangeSet, Committed]:
        """Check the records against one state of the graph; raises if they do not fit it.

        Records that are to be rejected are, until what is left fits: a rejected node takes
        its edges along.
        """
        self._step("check")
        faults.hit("load.check")
        committed = Committed(self.door.tables, base)
        self._rejects.restart()
        for key, intake in self._intakes.items():
            intake.restart(self._bad_rows.get(key))
        while True:
            violations = self._collector()
            identified = {
                key: intake.identify(committed, self._parts, violations)
                for key, intake in self._intakes.items()
                if not intake.is_all_rejected
            }
            tables = {key: each.change for key, each in identified.items()}
            changes = ChangeSet(self.schema, tables, self._parts)
            self._ask(changes, committed, violations)
            self._identified = identified
            if not violations.total:
                return changes, committed
            self._settled(violations)

    def _ask(self, changes: ChangeSet, committed: Committed, violations: Violations) -> None:
        if self._checked is not None and self._checked.is_current(committed.base):
            for key in self._checked.reads:
                committed.table(key)
            raise_found(self._checked.violations, self._checked.conflicts, self._checked.key_conflict)
        elif self._rejecting is None:
            check_against(changes, committed, violations)
        else:
            find_violations(changes, committed, violations, violations)

    @property
    def _parts(self) -> tuple[Part, ...]:
        """In how many parts the rules look at the records, so that memory suffices."""
        return self.budget.parts(sum(intake.key_bytes for intake in self._intakes.values()))

    def _collector(self) -> Violations:
        return Violations() if self._rejecting is None else Violations(sink=self._reject)

    def _reject(self, violations: Sequence[Violation]) -> None:
        """Put records aside. Their rows stay until a rule has been asked of all of them."""
        self._rejects.add(violations)
        for violation in violations:
            if violation.row is not None:
                key, position = violation.row
                self._found_rows.setdefault(key, array("q")).append(position)

    def _settled(self, violations: Violations) -> Violations:
        """Raise for what is wrong, or reject it; returns a new collector."""
        if self._rejecting is None:
            violations.raise_if_any()
            return violations
        violations.flush()
        for key, positions in self._found_rows.items():
            self._intakes[key].reject(positions)
        self._found_rows = {}
        return self._collector()

    def _finish(self, source: Source, reading: Reading) -> Loaded:
        """Publish what was read, or only check it; `start` is where a missing branch begins.

        Reading may have taken long: a branch that was made in the meantime is no longer missing.
        """
        branch, start, dry_run = self.request.branch, self.request.start, self.request.dry_run
        if branch in self.door.manifest.branches():
            if start is not None:
                prove_called(self.door, branch, self.request.name)
            start = None
        if start is None and not dry_run:
            return self._publish(source, reading, made=False)
        manifest = self.door.manifest
        self._check(manifest.snapshot(branch) if start is None else snapshot_at(manifest, start))
        if dry_run or start is None or self._outcome().is_empty:
            return self._outcome()
        return self._publish(source, reading, made=reading.record.make_branch(start, self.request.name))

    def _publish(self, source: Source, reading: Reading, *, made: bool) -> Loaded:
        """Check, stage and publish; nothing when no record was read.

        When another writer commits in the meantime, the records are checked again, and what was
        written of them is used again where it still says the same.
        """
        if not self._intakes:
            self._write_rejects()
            self._keep_rejects()
            reading.record.close(keeps_branch=False)
            return self._outcome()
        if made:
            self._intent = replace(self._intent, about={**self._intent.about, CREATES_BRANCH: True})
        branch, staging = self.request.branch, source.staging(reading)
        staging.begin(lambda: self.door.attempt(branch).snapshot)
        plan = partial(self._plan, staging)
        published = self.door.write(branch, plan, plans_long=staging.is_long)
        is_there = published.commit_id is not None
        reading.record.close(keeps_branch=is_there)
        self._keep_rejects()
        warnings = published.warnings + self._index(branch, published)
        return replace(self._outcome(published.commit_id, warnings), branch_created=made and is_there)

    def _plan(self, staging: RowStaging, attempt: Attempt) -> WritePlan | None:
        if attempt.schema_hash != self._schema_hash:
            raise InputsOutdated(attempt.branch)
        staging.begin_attempt()
        changes, committed = self._check(attempt.snapshot)
        self._write_rejects()
        if changes.is_empty:
            return None
        self._step("write")

        def stage(writable: WritableTable, change: Change, operation_id: str) -> StagedWrite:
            return staging.stage(writable, self._identified[change.key], changes.parts, operation_id)

        at_once = self.budget.tables_at_once(self.request.tables_at_once)
        how = Staging(stage, at_once, staging.stop)
        plan = plan_changes(self.door, attempt, changes, committed, self._intent, how)
        self._step("publish")
        rebase = partial(self._rebased, staging, changes) if staging.is_long else None
        return replace(
            plan, spared=staging.files, guard=staging.guard, on_recorded=staging.hand_over, rebase=rebase
        )

    def _rebased(
        self, staging: RowStaging, changes: ChangeSet, plan: WritePlan, current: Snapshot
    ) -> WritePlan | None:
        """The plan on the present state, if nothing that came meanwhile concerns it; see `load.overtaken`.

        What was rejected because of the graph might not be rejected today: that takes another check.
        """
        moved = read_moved(self.door.tables, self.schema, plan, current)
        if moved is None or self._rejects.by_graph or concern(moved, changes):
            return None
        written: dict[str, TableWrite] = {}
        try:
            for key in [table.ref.key for table in plan.tables if table.ref.key in moved]:
                entry = current.entry(key)
                opened = self.door.tables.open(entry.ref, entry.table_version)
                writable = WritableTable(opened, entry.table_version, entry.row_count)
                staged = staging.restage(writable, self._identified[key], moved[key], plan.operation_id)
                written[key] = writable.planned(self.door.storage, staged)
        except BaseException:
            staged_anew = [each for write in written.values() for each in write.staged]
            discard_files(self.door.storage, staged_anew, staging.files)
            raise
        faults.hit("load.rebased")
        return replace(
            plan,
            attempt=plan.attempt.at(current),
            tables=[written.get(table.ref.key, table) for table in plan.tables],
            reads={key: current.entry(key).table_version for key in plan.reads},
        )

    def _index(self, branch: str, published: Published) -> tuple[str, ...]:
        """The load is durable; indexes that cannot be built now are built by a later load or optimize."""
        if published.commit_id is None:
            return ()
        self._step("index")
        made = f"commit {published.commit_id} is made; its indexes are left to a later load or optimize"
        try:
            actor, memory = self._intent.actor, self.budget.index_bytes
            with said_if_interrupted(made):
                ensure_indexes(self.door, branch, list(self._intakes), actor, memory_bytes=memory)
                self._index_topology(published.snapshot, memory)
        except OmnigraphError as error:
            return (f"the load succeeded, but its indexes could not be built: {error}",)
        return ()

    def _index_topology(self, snapshot: Snapshot, memory_bytes: int) -> None:
        """After a load of many edges, the next query would read them all."""
        loaded = sum(
            identified.change.count for key, identified in self._identified.items() if key.startswith("edge:")
        )
        if loaded >= EDGES_LOADED_MIN:
            builder = TopologyBuilder(self.door.tables, memory_bytes)
            builder.build(snapshot, self.schema, edges_min=EDGES_MIN)

    def _outcome(self, commit_id: str | None = None, warnings: tuple[str, ...] = ()) -> Loaded:
        """What was loaded, or would be, as of the last check."""
        found = sorted(self._identified.items())
        counts = {key: identified.change.count for key, identified in found}
        unmatchable = sum(identified.unmatchable for _, identified in found)
        return Loaded(self.request.mode, counts, unmatchable, commit_id, len(self._rejects), warnings)

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
        """Give back memory and disk; the rows themselves belong to the source."""
        if self._rejecting is not None:
            self._rejecting.file.forget()
        self._rejects.close()
        for intake in self._intakes.values():
            intake.close()

    def _step(self, phase: str) -> None:
        """What one phase needed in passing is given back before the next begins."""
        self.budget.give_back()
        self.progress(ProgressEvent(phase, 0))
