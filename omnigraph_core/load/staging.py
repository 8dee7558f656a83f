"""Writing the rows of a load into fragments, and keeping them when it has to be planned again.

The fragments of a big load take long to write, so they are on record while they wait:
should the process die, whoever writes next deletes them by path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph_core import faults
from omnigraph_core.change.changeset import Change, Verb
from omnigraph_core.change.dealt import DealtTable
from omnigraph_core.change.parts import Part
from omnigraph_core.errors import InternalError
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.intake import Identified, Intake
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.replace import replacing_first
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedFile, StagedWrite
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.staging import StagingRecord, amend, staging
from omnigraph_core.write.writable import WritableTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Written:
    """What one table got, and what was known when it was written."""

    identified: Identified
    sink: RowSink
    existing: pa.Table | None
    """In a merge: id, row id and address of the rows that will be replaced."""


class Stager:
    """The fragments of one load, table by table."""

    def __init__(self, storage: Storage, branch: str, actor: str | None, progress: Progress) -> None:
        self._storage = storage
        self._progress = progress
        self._record = StagingRecord(new_ulid(), WriterKind.LOAD.value, branch, actor, (), ())
        self._is_recorded = False
        self._written: dict[str, _Written] = {}
        self._rows = 0
        self._lock = threading.Lock()
        self._is_stopped = False

    @contextmanager
    def recorded(self, read_base: Callable[[], Snapshot], rows: int) -> Iterator[None]:
        """Keep a staging record while the block runs; a load of a moment needs none.

        Whatever was written and not taken over by a publish is deleted at the end.
        """
        self._is_recorded = rows >= ROWS_PER_FRAGMENT
        if self._is_recorded:
            tables = sorted(read_base().tables.items())
            pinned = tuple((key, entry.table_version) for key, entry in tables)
            self._record = replace(self._record, pinned=pinned)
        failure: BaseException | None = None
        with staging(self._storage, self._record) if self._is_recorded else nullcontext():
            try:
                yield
            except BaseException as error:
                # With nothing left to tell, the record may go as well.
                failure = error
            self.discard()
        if failure is not None:
            raise failure

    @property
    def files(self) -> frozenset[str]:
        """Everything written so far, which another attempt can use again."""
        return frozenset(file.path for each in self._written.values() for file in each.sink.files)

    def stage(
        self,
        writable: WritableTable,
        intake: Intake,
        identified: Identified,
        parts: tuple[Part, ...],
        operation_id: str,
    ) -> StagedWrite:
        """The rows of one table as a write on this version of it; written only if they are not yet."""
        table, change = writable.table, identified.change
        existing = None
        if change.verb is Verb.UPSERT:
            existing = _replaced(table, change, parts)
        done = self._written.get(change.key)
        if done is None or not _still_holds(done, identified, existing):
            if done is not None:
                done.sink.discard()
            done = self._write(writable, intake, identified, existing)
        if change.verb is Verb.REPLACE:
            return done.sink.stage_overwrite(table, operation_id)
        if existing is None:
            return done.sink.stage_append(table.version, operation_id)
        return done.sink.stage_upsert(table, existing.column("_rowaddr"), operation_id)

    def _write(
        self, writable: WritableTable, intake: Intake, identified: Identified, existing: pa.Table | None
    ) -> _Written:
        sink = RowSink(self._storage, writable.table, self._on_written)
        done = _Written(identified, sink, existing)
        self._written[identified.change.key] = done
        for rows in intake.content(identified):
            if self._is_stopped:
                raise InternalError("another table of this load could not be written")
            _write_rows(sink, rows, existing)
            with self._lock:
                self._rows += rows.num_rows
                self._progress(ProgressEvent("write", self._rows, None, "rows"))
            faults.hit("load.fragment_written")
        return done

    def stop(self) -> None:
        """Write no more: tables that are being written are given up at the next fragment."""
        self._is_stopped = True

    def _on_written(self, files: Sequence[StagedFile]) -> None:
        if not self._is_recorded:
            return
        with self._lock:
            paths = (*self._record.paths, *(file.path for file in files))
            self._record = replace(self._record, paths=paths)
            amend(self._storage, self._record)

    def hand_over(self) -> None:
        """The sidecar names these writes from now on; whoever recovers it decides about the files."""
        self._written = {}
        if self._is_recorded:
            self._record = replace(self._record, paths=())
            amend(self._storage, self._record)

    def discard(self) -> None:
        for done in self._written.values():
            done.sink.discard()
        self._written = {}


def _replaced(table: Table, change: Change, parts: tuple[Part, ...]) -> pa.Table:
    """Id, row id and address of the rows that give way to rows of an upsert."""
    import pyarrow as pa

    if len(parts) == 1 or not table.count_rows():
        return find_keys(table, pa.chunked_array([change.part(("id",), parts[0]).ids]))
    dealt = DealtTable(table, change.entity, ("id",), len(parts))
    found = [dealt.having(part.number, change.part(("id",), part).ids) for part in parts]
    return pa.concat_tables(found).select(["id", "_rowid", "_rowaddr"])


def _write_rows(sink: RowSink, rows: pa.Table, existing: pa.Table | None) -> None:
    if existing is None:
        sink.write(rows)
        return
    import pyarrow.compute as pc

    mine = existing.filter(pc.is_in(existing.column("id"), value_set=rows.column("id").combine_chunks()))
    sink.write(*replacing_first(rows, mine))


def _still_holds(done: _Written, identified: Identified, existing: pa.Table | None) -> bool:
    """The same rows, replacing the same ones: then what was written can be used as it is."""
    if not done.identified.same_rows(identified):
        return False
    if existing is None or done.existing is None:
        return existing is done.existing
    columns = ["id", "_rowid"]
    mine, theirs = done.existing.select(columns).sort_by("id"), existing.select(columns).sort_by("id")
    return bool(mine.combine_chunks().equals(theirs.combine_chunks()))
