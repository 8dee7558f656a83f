"""`optimize`: fewer, larger fragments, no deleted rows to skip, and indexes over everything.

It changes no answer, only what answers cost. All the work is done before the branch is
locked, against one snapshot. A writer that comes first wins: its table is planned again and
the others are not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.history.log import read_branch_log
from omnigraph_core.ids import new_ulid
from omnigraph_core.indexes.topology import EDGES_MIN, TopologyBuilder, TopologyBuilt
from omnigraph_core.maintenance.control import compact_control, rewritable
from omnigraph_core.maintenance.drift import find_drift, seems_drifted
from omnigraph_core.maintenance.limits import OPTIMIZE_ROUNDS_MAX, STALE_ROWS_MAX
from omnigraph_core.maintenance.needs import Needs, TableWork, inherited, of_control
from omnigraph_core.maintenance.optimized import Optimized, OptimizedTable, Skipped
from omnigraph_core.maintenance.repair import newest_forced
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.tables.compaction import (
    stage_compaction,
)
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.staged import StagedFile, StagedWrite, StageKind, discard_files
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.write.actors import Signature
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind
from omnigraph_core.write.staging import KeptRecord, staging
from omnigraph_core.write.staging_record import OPTIMIZE_KIND, StagingRecord


class Optimizer:
    """Optimizes one branch."""

    def __init__(
        self,
        door: Door,
        branch: str,
        signature: Signature,
        *,
        memory_bytes: int,
        tables_at_once: int = 1,
        progress: Progress = silent,
    ) -> None:
        self._door = door
        self._branch = branch
        self._signature = signature
        self._memory_bytes = memory_bytes // tables_at_once
        self._needs = Needs(door, branch, self._memory_bytes)
        self._tables_at_once = tables_at_once
        self._progress = progress

    def preview(self, types: Collection[str] = ()) -> Optimized:
        """What a run would do; nothing is written."""
        attempt = Attempt(self._door.manifest.snapshot(self._branch), self._door.schemas)
        works = self._needs.of(attempt, types)
        drifted = seems_drifted(self._door, self._branch, {work.key: work.head for work in works})
        tables = [work.skipped(Skipped.DRIFT) if work.key in drifted else work.estimated() for work in works]
        control = [] if types else map(of_control, rewritable(self._door, self._branch))
        return Optimized(self._branch, _ordered(inherited(attempt, types), tables, control))

    def run(self, types: Collection[str] = ()) -> Optimized:
        """Optimize the tables of these types, or all of them."""
        attempt = self._door.attempt(self._branch)
        done = {each.table_key: each for each in inherited(attempt, types)}
        commits: list[str] = []
        warnings: list[str] = []
        for number in range(1, 1 + OPTIMIZE_ROUNDS_MAX):
            round_ = _Round(self, types, frozenset(done))
            published = round_.publish(attempt)
            commits += [published.commit_id] if published.commit_id and round_.makes_commit else []
            warnings += published.warnings
            done |= round_.done
            if not round_.moved:
                break
            attempt = self._door.attempt(self._branch)
            if number == OPTIMIZE_ROUNDS_MAX:
                works = self._needs.of(attempt, types, done)
                done |= {work.key: work.skipped(Skipped.BUSY) for work in works}
        control = [] if types else self._compacted(warnings)
        topology = () if types else self._topology(warnings)
        tables = _ordered(done.values(), control)
        return Optimized(self._branch, tables, tuple(commits), tuple(warnings), topology)

    def _topology(self, warnings: list[str]) -> tuple[TopologyBuilt, ...]:
        """After the tables, whose fragments it is about. Failing to is no reason to fail, either."""
        attempt = self._door.attempt(self._branch)
        builder = TopologyBuilder(self._door.tables, self._memory_bytes, self._progress)
        try:
            return tuple(builder.build(attempt.snapshot, attempt.schema, edges_min=EDGES_MIN))
        except OmnigraphError as error:
            warnings.append(f"the topology index was left as it is: {error}")
            return ()

    def _compacted(self, warnings: list[str]) -> list[OptimizedTable]:
        """Our own tables last: the publishes above added to them. Failing to is no reason to fail."""
        try:
            done = compact_control(self._door, self._branch)
        except OmnigraphError as error:
            warnings.append(f"the tables of commits were left as they are: {error}")
            return []
        return [replace(of_control(each), committed=True) for each in done]

    def look(self) -> list[OptimizedTable]:
        """What the tables need that are this branch's own, and ours. Small ones do without indexes."""
        attempt = Attempt(self._door.manifest.snapshot(self._branch), self._door.schemas)
        works = self._needs.of(attempt, ())
        small = [replace(w.expected(), indexes=()) for w in works if w.entry.row_count < STALE_ROWS_MAX]
        large = [work.expected() for work in works if work.entry.row_count >= STALE_ROWS_MAX]
        return [*map(of_control, rewritable(self._door, self._branch)), *small, *large]

    def _stage(self, work: TableWork, operation_id: str) -> tuple[StagedWrite, ...]:
        self._progress(ProgressEvent(f"optimize {work.key}", 0))
        return tuple(
            stage_compaction(
                self._door.storage,
                work.table,
                lambda table: self._needs.indexes(work.entity, table),
                operation_id,
                drops_indexes=work.drops_indexes,
                readable=self._readable(work.table),
                memory_bytes=self._memory_bytes,
            )
        )

    def _readable(self, table: Table) -> list[int]:
        """Versions that somebody may still read. Forks are short-lived, and compared across lineages.

        None from before a repair by force: it may have brought rows back that these do not have.
        """
        if table.ref.branch is not None:
            return []
        try:
            log = read_branch_log(self._door.tables, self._door.manifest, self._branch, with_actors=False)
            forced = newest_forced(each.commit for each in log.commits.values())
        except StorageError:  # Levelling can wait.
            return []
        on_disk = versions_on_disk(self._door.tables, table.ref)
        return [version for version in on_disk if forced <= version <= table.version]


class _Round:
    """One plan: staged once, and published with every table that has not moved since."""

    def __init__(self, optimizer: Optimizer, types: Collection[str], besides: frozenset[str]) -> None:
        self._optimizer = optimizer
        self._door = optimizer._door
        self._types, self._besides = types, besides
        self._operation_id = new_ulid()
        self._kept: KeptRecord | None = None
        self._recording = threading.Lock()
        self._staged: dict[str, tuple[TableWork, tuple[StagedWrite, ...]]] = {}
        self.done: dict[str, OptimizedTable] = {}
        self.moved: set[str] = set()
        """Tables that another writer came first to."""
        self.makes_commit = False
        """Was a table rewritten? Indexes alone are no commit: the head stays."""

    def publish(self, attempt: Attempt) -> Published:
        """Do what there is to do as of `attempt`; tables that move meanwhile are left to another round."""
        works = self._wanted(attempt)
        if not works:
            return Published(None, attempt.snapshot)
        record = StagingRecord(
            self._operation_id,
            OPTIMIZE_KIND,
            attempt.branch,
            self._optimizer._signature.actor,
            pinned=tuple((work.key, work.entry.table_version) for work in works),
        )
        with staging(self._door.storage, record) as self._kept:
            try:
                return self._door.write(attempt.branch, self._plan, plans_long=True)
            finally:
                with suppress(OmnigraphError):
                    self._discard()

    def _wanted(self, attempt: Attempt) -> list[TableWork]:
        """The tables with something to do. Those without are done, and so are those with drift."""
        works = self._optimizer._needs.of(attempt, self._types, self._besides)
        suspects = {work.key for work in works if work.head != work.entry.table_version}
        drifted = find_drift(self._door, attempt.branch, suspects) if suspects else {}
        for work in works:
            if work.key in drifted:
                self.done[work.key] = work.skipped(Skipped.DRIFT)
            elif not work.is_needed:
                self.done[work.key] = work.expected()
        self.moved = suspects - set(drifted)
        return [work for work in works if work.key not in self.done and work.key not in self.moved]

    def _plan(self, attempt: Attempt) -> WritePlan | None:
        works = [work for work in self._wanted(attempt) if self._is_new(work)]
        with ThreadPoolExecutor(self._optimizer._tables_at_once, thread_name_prefix="optimize") as pool:
            list(pool.map(self._stage, works))
        writes = [_table_write(work, writes) for work, writes in self._staged.values() if writes]
        faults.hit("optimize.staged")
        if not writes:
            return None
        signature = self._optimizer._signature
        self.makes_commit = any(map(_is_rewritten, writes))
        return WritePlan(
            operation_id=self._operation_id,
            kind=WriterKind.OPTIMIZE,
            attempt=attempt,
            actor=signature.actor,
            is_own_actor=signature.is_own,
            message=signature.message,
            tables=sorted(writes, key=lambda write: write.ref.key),
            details=self._details(),
            spared=frozenset(file.path for file in self._files()),
            makes_commit=self.makes_commit,
            rebase=self._without_moved,
            guard=self._guard,
            on_recorded=self._hand_over,
        )

    def _is_new(self, work: TableWork) -> bool:
        """Was this version of the table not staged yet? What was staged on another goes."""
        known = self._staged.get(work.key)
        if known is None:
            return True
        if known[0].entry.table_version == work.entry.table_version:
            return False
        discard_files(self._door.storage, self._staged.pop(work.key)[1])
        return True

    def _stage(self, work: TableWork) -> None:
        writes = self._optimizer._stage(work, self._operation_id)
        with self._recording:
            self._staged[work.key] = (work, writes)
            self.done[work.key] = _outcome(work, writes)
            assert self._kept is not None
            self._kept.amend(paths=tuple(file.path for file in self._files()))

    def _without_moved(self, plan: WritePlan, current: Snapshot) -> WritePlan | None:
        """The plan for the tables that are still where they were; the others win."""
        moved = {
            write.ref.key
            for write in plan.tables
            if (entry := current.tables.get(write.ref.key)) is None
            or entry.table_version != write.published_version
        }
        self.moved |= moved
        for key in moved:
            self.done.pop(key, None)
        left = [write for write in plan.tables if write.ref.key not in moved]
        if not left:
            return None
        self.makes_commit = any(map(_is_rewritten, left))
        return replace(
            plan,
            attempt=plan.attempt.at(current),
            tables=left,
            details=self._details(),
            makes_commit=self.makes_commit,
        )

    def _details(self) -> str:
        """What the commit did, table by table."""
        tables = {
            key: {"fragments": [each.fragments, each.fragments_after], "indexes": list(each.indexes)}
            for key, each in sorted(self.done.items())
            if each.committed
        }
        return json.dumps({"optimized": tables}, ensure_ascii=False, separators=(",", ":"))

    def _files(self) -> list[StagedFile]:
        return [file for _, writes in self._staged.values() for write in writes for file in write.files]

    def _guard(self) -> None:
        assert self._kept is not None
        self._kept.check()

    def _hand_over(self) -> None:
        """From here on the sidecar names what is published; the rest is still ours."""
        assert self._kept is not None
        self._staged = {key: each for key, each in self._staged.items() if key in self.moved}
        self._kept.amend(paths=tuple(file.path for file in self._files()))

    def _discard(self) -> None:
        discard_files(self._door.storage, [write for _, writes in self._staged.values() for write in writes])
        self._staged = {}


def _outcome(work: TableWork, writes: Sequence[StagedWrite]) -> OptimizedTable:
    if not writes:
        return work.untouched()
    is_compacted = _is_rewritten(_table_write(work, tuple(writes)))
    done = work.expected() if is_compacted else replace(work.untouched(), indexes=work.indexes.names)
    size = sum(file.size for write in writes for file in write.files)
    return replace(done, bytes_written=size, committed=True)


def _is_rewritten(write: TableWrite) -> bool:
    return any(staged.kind is StageKind.COMPACTION for staged in write.staged)


def _table_write(work: TableWork, writes: tuple[StagedWrite, ...]) -> TableWrite:
    entry = work.entry
    return TableWrite(entry.ref, entry.table_version, entry.table_version, entry.row_count, writes)


def _ordered(*tables: Iterable[OptimizedTable]) -> tuple[OptimizedTable, ...]:
    return tuple(sorted(chain(*tables), key=lambda each: each.table_key))
