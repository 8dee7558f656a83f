"""`load`: inputs to one commit. Everything is read and checked before any table moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph_core.change.changeset import ChangeSet
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.plan import Intent, plan_changes
from omnigraph_core.change.validate import check_against
from omnigraph_core.change.violations import Violations
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.assemble import Gathered, LoadMode, assemble, check_gathered, gather
from omnigraph_core.load.jsonl import read_jsonl
from omnigraph_core.load.source import Source
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.schema import Schema
from omnigraph_core.write.door import Door
from omnigraph_core.write.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outcome of a load; no commit when there was nothing to load."""

    mode: LoadMode
    counts: Mapping[str, int]
    """Entities by table key, in the order of the keys."""
    unmatchable: int
    """Records merged as new because nothing could tell whether they were there already."""
    commit_id: str | None
    warnings: tuple[str, ...] = ()
    branch_created: bool = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Load:
    """One load: its inputs once read, then planned as often as it takes."""

    def __init__(
        self,
        door: Door,
        schema: Schema,
        mode: LoadMode,
        intent: Intent,
        progress: Progress = silent,
    ) -> None:
        self._door = door
        self._schema = schema
        self._mode = mode
        self._intent = replace(intent, strict=mode is LoadMode.OVERWRITE)
        self._progress = progress
        self._gathered: dict[str, Gathered] = {}
        self._changes = ChangeSet(schema)
        self._unmatchable = 0

    def read(self, paths: Sequence[str]) -> None:
        """Read and check the inputs by themselves; raises InvalidRecords with all that is wrong."""
        sources = [Source(path) for path in paths]
        violations = Violations()
        self._gathered = gather(read_jsonl(sources, self._schema, violations, self._progress))
        violations.raise_if_any()
        self._step("check")
        for records in self._gathered.values():
            check_gathered(records, self._mode, violations)
        violations.raise_if_any()
        inputs = [
            {"name": source.name, "sha256": source.sha256, "bytes": source.bytes_read} for source in sources
        ]
        self._intent = replace(self._intent, inputs=inputs)

    def check(self, base: Snapshot) -> Committed:
        """Check the records against one state of the graph; raises if they do not fit it."""
        committed = Committed(self._door.tables, base)
        assembled = assemble(self._gathered, self._mode, self._schema, committed)
        check_against(assembled.changes, committed, Violations())
        self._changes, self._unmatchable = assembled.changes, assembled.unmatchable
        return committed

    def publish(self, branch: str) -> Loaded:
        """Check, stage and publish; nothing when no record was read."""

        def build(base: Snapshot) -> WritePlan | None:
            committed = self.check(base)
            if self._changes.is_empty:
                return None
            self._step("write")
            return plan_changes(self._door, self._changes, committed, self._intent)

        published = self._door.write(branch, build)
        warnings = published.warnings + (self._index(branch) if published.commit_id else ())
        return self.outcome(published.commit_id, warnings)

    def _index(self, branch: str) -> tuple[str, ...]:
        """The load is durable; indexes that cannot be built now are built by a later load or optimize."""
        loaded = [change.entity for change in self._changes]
        self._step("index")
        try:
            ensure_indexes(self._door, branch, loaded, self._intent.actor)
        except OmnigraphError as error:
            return (f"the load is done, but its indexes are not: {error}",)
        return ()

    def outcome(self, commit_id: str | None = None, warnings: tuple[str, ...] = ()) -> Loaded:
        """What was loaded, or would be, as of the last check."""
        counts = {change.key: change.rows.num_rows for change in self._changes}
        return Loaded(self._mode, counts, self._unmatchable, commit_id, warnings)

    def _step(self, phase: str) -> None:
        self._progress(ProgressEvent(phase, 0))
