"""Writing the rows of a load into fragments, and keeping them when it has to be planned again.

The fragments of a big load take long to write, so they are on record while they wait:
should the process die, the next writer deletes them by path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core import faults
from omnigraph_core.errors import InternalError
from omnigraph_core.load.held_rows import SpooledRows
from omnigraph_core.load.identified import Identified
from omnigraph_core.load.intake import content
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, ProgressEvent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change
from omnigraph_core.rules.parts import Part
from omnigraph_core.rules.rows_by_part import TableByPart
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.tables.moved import Moved
from omnigraph_core.tables.replace import replacing_first
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedFile, StagedWrite
from omnigraph_core.write.writable import WritableTable


@dataclass(frozen=True, slots=True)
class _Written:
    """What one table got, and what was known when it was written."""

    identified: Identified
    sink: RowSink
    existing: pa.Table | None
    """In a merge: id, row id and address of the rows that will be replaced."""


class Stager:
    """The fragments of one load, table by table."""

    def __init__(
        self, storage: Storage, record: LoadRecord, rows: Mapping[str, SpooledRows], progress: Progress
    ) -> None:
        self._storage = storage
        self._progress = progress
        self._record, self._spooled = record, rows
        self._written: dict[str, _Written] = {}
        self._rows = 0
        self._lock = threading.Lock()
        self._is_stopped = False

    @property
    def is_long(self) -> bool:
        return sum(rows.count for rows in self._spooled.values()) >= ROWS_PER_FRAGMENT

    def begin(self, read_base: Callable[[], Snapshot]) -> None:
        """A load of a moment needs no record of its files."""
        self._record.put_away_by(self.discard)
        if self.is_long:
            self._record.pin(read_base())

    def begin_attempt(self) -> None:
        """The rows wait in this process, and can be written again."""

    def guard(self) -> None:
        if self.is_long:
            self._record.check()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file.path for each in self._written.values() for file in each.sink.files)

    def stage(
        self,
        writable: WritableTable,
        identified: Identified,
        parts: tuple[Part, ...],
        operation_id: str,
    ) -> StagedWrite:
        table, change = writable.table, identified.change
        is_upsert = not change.replaces and not change.only_adds
        existing = _replaced(table, change, parts) if is_upsert else None
        done = self._written.get(change.key)
        if done is None or not self._is_there(done) or not _still_holds(done, identified, existing):
            if done is not None:
                done.sink.discard()
            done = self._write(writable, identified, existing)
        elif existing is not None:
            done = self._written[change.key] = replace(done, existing=existing)
        if change.replaces:
            return done.sink.stage_overwrite(table, operation_id)
        if existing is None:
            return done.sink.stage_append(table.version, operation_id)
        return done.sink.stage_upsert(table, existing.column("_rowaddr"), operation_id)

    def _is_there(self, done: _Written) -> bool:
        """What was staged on a fork goes when another writer has to clear the fork."""
        return all(self._storage.control.size(file.path) == file.size for file in done.sink.files)

    def restage(
        self, writable: WritableTable, identified: Identified, moved: Moved, operation_id: str
    ) -> StagedWrite:
        done = self._written[identified.change.key]
        if done.existing is None:
            return done.sink.stage_append(writable.table.version, operation_id)
        return done.sink.stage_upsert(writable.table, _moved_along(done.existing, moved), operation_id)

    def _write(self, writable: WritableTable, identified: Identified, existing: pa.Table | None) -> _Written:
        sink = RowSink(self._storage, writable.table, self._on_written)
        done = _Written(identified, sink, existing)
        self._written[identified.change.key] = done
        for rows in content(self._spooled[identified.change.key], identified):
            if self._is_stopped:
                raise InternalError("another table of this load could not be written")
            _write_rows(sink, rows, existing)
            with self._lock:
                self._rows += rows.num_rows
                self._progress(ProgressEvent("write", self._rows, None, "rows"))
            faults.hit("load.fragment_written")
        return done

    def stop(self) -> None:
        """Tables that are being written are given up at the next fragment."""
        self._is_stopped = True

    def _on_written(self, files: Sequence[StagedFile]) -> None:
        if self.is_long:
            with self._lock:
                self._record.add_paths(file.path for file in files)

    def hand_over(self) -> None:
        if self.is_long:
            self._record.drop_paths(self.files)
        self._written = {}
        faults.hit("load.handed_over")

    def discard(self) -> None:
        for done in self._written.values():
            done.sink.discard()
        self._written = {}


def _replaced(table: Table, change: Change, parts: tuple[Part, ...]) -> pa.Table:
    """Id, row id and address of the rows that give way to rows of an upsert."""
    if len(parts) == 1 or not table.count_rows():
        return find_keys(table, pa.chunked_array([change.part(("id",), parts[0]).ids]))
    dealt = TableByPart(table, change.entity, ("id",), len(parts))
    found = [dealt.having(part.number, change.part(("id",), part).ids) for part in parts]
    return pa.concat_tables(found).select(["id", "_rowid", "_rowaddr"])


def _moved_along(existing: pa.Table, moved: Moved) -> pa.ChunkedArray:
    """Where the rows that give way are now; they are all there, under their row ids."""
    addresses = existing.column("_rowaddr")
    left = pa.array(sorted(moved.left), pa.uint64())
    stayed = pc.invert(pc.is_in(pc.shift_right(addresses, pa.scalar(32, pa.uint64())), value_set=left))
    places = pc.index_in(existing.column("_rowid"), value_set=moved.places.column("_rowid").combine_chunks())
    found = moved.places.column("_rowaddr").take(places)
    now = pc.if_else(stayed, addresses, found)
    if now.null_count:
        raise InternalError("a row that a load replaces is gone, and no check has noticed")
    return now


def _write_rows(sink: RowSink, rows: pa.Table, existing: pa.Table | None) -> None:
    if existing is None:
        sink.write(rows)
        return
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
