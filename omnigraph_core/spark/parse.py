"""What a task does with the rows of its part: check each of them, and write them.

Every file is on a list in the staging folder from the moment it is whole, so that a load
that is abandoned, or a task whose report is never used, leaves nothing behind.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BusyError
from omnigraph_core.load.formats.given_ids import not_its_id
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.load.held_rows import key_columns
from omnigraph_core.load.rejects import record_lines
from omnigraph_core.rules.changeset import Origin, TableChange
from omnigraph_core.rules.values import check_values
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.spark.outcome import NewFragment, TypeOutcome
from omnigraph_core.spark.spec import JobSpec
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fragments import fragment_text
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.values.identity import FreshIds

LINE_COLUMN, GIVEN_COLUMN = "@line", "@given"
# A piece is one object, and is sent whole.
_PIECE_BYTES = 8 * 2**20
# Rows may be large: then a fragment has fewer of them, so that a task stays small.
_FRAGMENT_BYTES = 256 * 2**20


class Abandoned(BusyError):
    """The load that this job is part of has ended."""


class Writer(Protocol):
    """Where the rows of one type go."""

    def take(self, piece: TypedRows, violations: Violations) -> None: ...

    def finish(self) -> TypeOutcome: ...


class Workplace:
    """The graph as one attempt at one part sees it."""

    def __init__(self, spec: JobSpec, tables: Tables, name: str) -> None:
        self.spec = spec
        self.storage: Storage = tables.storage
        self.tables = tables
        self._name = name
        self._files: list[str] = []
        self._numbers = 0

    def check_wanted(self) -> None:
        """Raise if the load is over: no file may appear after its clean-up."""
        if not self.storage.control.exists(self.spec.path):
            raise Abandoned("the load has ended")

    def listed(self, paths: list[str]) -> None:
        """Put files on the list. A load that ends goes through the lists once its job is gone from its
        folder: it has seen this one, or the files are deleted here."""
        self._files += paths
        place = f"{self.spec.lists}/{self._name}.json"
        self.storage.control.put(place, json.dumps(self._files).encode())
        try:
            self.check_wanted()
        except Abandoned:
            for path in (*paths, place):
                self.storage.control.delete(path)
            raise

    def keep(self, kind: str, data: bytes) -> str:
        """Leave a file for the front in the staging folder."""
        self._numbers += 1
        path = f"{self.spec.folder}/{kind}/{self._name}.{self._numbers}"
        self.storage.control.put(path, data)
        return path


class FragmentWriter:
    """Fragments of the type's table."""

    def __init__(self, place: Workplace, entity: EntityType) -> None:
        self._place, self._entity = place, entity
        at = place.spec.tables[entity.table_key]
        table = place.tables.open(at.ref, at.version)
        self._sink = RowSink(place.storage, table, lambda files: place.listed([each.path for each in files]))
        self._fresh = FreshIds()
        self._made = self._given = self._dropped = self._key_bytes = self._waiting_rows = 0
        self._key_names = key_columns(entity)
        self._waiting: list[pa.Table] = []
        self._written: list[NewFragment] = []

    def take(self, piece: TypedRows, violations: Violations) -> None:
        rows, lines = self._checked(piece, violations)
        if not self._place.spec.is_rejecting and violations.total:
            self._waiting = []
            return
        self._key_bytes += rows.select(self._key_names).nbytes
        self._waiting.append(self._identified(rows.append_column(LINE_COLUMN, lines)))
        self._waiting_rows += rows.num_rows
        while self._waiting_rows >= self._place.spec.rows_per_fragment or self._is_large():
            self._write(min(self._waiting_rows, self._place.spec.rows_per_fragment))

    def finish(self) -> TypeOutcome:
        if self._waiting and self._waiting_rows:
            self._write(self._waiting_rows)
        return TypeOutcome(self._given, self._dropped, self._key_bytes, tuple(self._written))

    def _checked(self, piece: TypedRows, violations: Violations) -> tuple[pa.Table, pa.Array]:
        """The rows whose values are right; only asked of those that are wrong when these are rejected."""
        is_rejecting = self._place.spec.is_rejecting
        origin = Origin.of(piece.source, piece.lines, 0 if is_rejecting else None)
        if not is_rejecting:
            check_values(TableChange(self._entity, piece.rows, origin), violations)
            return piece.rows, piece.lines
        found = Violations(keep=None)
        check_values(TableChange(self._entity, piece.rows, origin), found)
        if not found.total:
            return piece.rows, piece.lines
        return self._without_bad(piece, found, violations)

    def _without_bad(
        self, piece: TypedRows, found: Violations, violations: Violations
    ) -> tuple[pa.Table, pa.Array]:
        bad = sorted({each.row[1] for each in found.first if each.row is not None})
        records = dict(zip(bad, record_lines(piece.rows.take(pa.array(bad)), self._entity), strict=True))
        for each in found.first:
            record = None if each.row is None else records[each.row[1]]
            violations.add(replace(each, record=record, row=None))
        self._dropped += len(bad)
        good = np.ones(piece.rows.num_rows, np.bool_)
        good[bad] = False
        return piece.rows.filter(pa.array(good)), piece.lines.filter(pa.array(good))

    def _identified(self, rows: pa.Table) -> pa.Table:
        """With ids for the rows that came without."""
        ids = rows.column(ID_COLUMN).combine_chunks()
        self._given += len(ids) - ids.null_count
        rows = rows.append_column(GIVEN_COLUMN, ids.is_valid())
        if ids.null_count:
            fresh = self._fresh.slice(self._made, len(ids))
            ids = fresh if ids.null_count == len(ids) else pc.coalesce(ids, fresh)
        self._made += len(ids)
        position = rows.schema.get_field_index(ID_COLUMN)
        return rows.set_column(position, pa.field(ID_COLUMN, pa.utf8(), nullable=False), ids)

    def _is_large(self) -> bool:
        return bool(sum(rows.nbytes for rows in self._waiting) > _FRAGMENT_BYTES)

    def _write(self, number: int) -> None:
        rows = pa.concat_tables(self._waiting)
        self._waiting = [rows.slice(number)]
        self._waiting_rows -= number
        rows = rows.slice(0, number)
        self._place.check_wanted()
        before, files = len(self._sink.fragments), len(self._sink.files)
        self._sink.write(rows.select(rows.column_names[:-2]))
        (fragment,) = self._sink.fragments[before:]
        mine = tuple((file.path, file.size, file.digest) for file in self._sink.files[files:])
        self._written.append(self._described(fragment_text(fragment), mine, rows))

    def _described(
        self, fragment: str, files: tuple[tuple[str, int, str | None], ...], rows: pa.Table
    ) -> NewFragment:
        """Lines ascend, so they follow each other if the last is where it should be."""
        count, lines = rows.num_rows, rows.column(LINE_COLUMN)
        first, given = lines[0].as_py(), pc.sum(rows.column(GIVEN_COLUMN)).as_py()
        places = None
        if lines[-1].as_py() - first + 1 != count or given not in (0, count):
            places = self._place.keep("places", _encode_places(rows.select([LINE_COLUMN, GIVEN_COLUMN])))
        return NewFragment(fragment, count, files, first, given, places)


def without_renamed(piece: TypedRows, violations: Violations) -> TypedRows:
    """Without nodes whose ids have the members of their keys in another order.

    A task does not know the edges of the others, which would have to follow.
    """
    if piece.given is None:
        return piece
    given, named = piece.given, piece.given.is_valid()
    records = record_lines(piece.rows.filter(named), piece.entity)
    for row, record in zip(pc.indices_nonzero(named).to_pylist(), records, strict=True):
        message = not_its_id(given[row].as_py(), piece.rows.column(ID_COLUMN)[row].as_py())
        violations.add(
            Violation(
                f"{message}; only a load without Spark takes the members of a key in another order",
                piece.source,
                piece.lines[row].as_py(),
                piece.entity.name,
                ID_COLUMN,
                record,
            )
        )
    own = pc.invert(named)
    return replace(piece, rows=piece.rows.filter(own), lines=piece.lines.filter(own), given=None)


def _encode_places(rows: pa.Table) -> bytes:
    from pyarrow import parquet as pq

    file = io.BytesIO()
    encoding = {LINE_COLUMN: "DELTA_BINARY_PACKED", GIVEN_COLUMN: "PLAIN"}
    pq.write_table(rows, file, use_dictionary=False, column_encoding=encoding, compression="zstd")
    return file.getvalue()


def read_places(storage: Storage, new: NewFragment) -> tuple[pa.Array, pa.Array]:
    """Of each row of a fragment its line in the part it was read from, and whether it gave its id."""
    from pyarrow import parquet as pq

    if new.places is None:
        lines = np.arange(new.first_line, new.first_line + new.rows, dtype=np.int64)
        return pa.array(lines), pa.repeat(pa.scalar(new.given_ids > 0), new.rows)
    found = storage.control.get(new.places)
    if found is None:
        raise Abandoned(f"{new.places} no longer exists")
    rows = pq.read_table(io.BytesIO(found.data))
    return rows.column(LINE_COLUMN).combine_chunks(), rows.column(GIVEN_COLUMN).combine_chunks()


class PieceWriter:
    """Rows as they were read, with their lines, for the front."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._pieces: list[str] = []

    def take(self, piece: TypedRows, violations: Violations) -> None:
        """Also beside records that are wrong: the front counts what is wrong with the values of these."""
        rows = piece.rows.append_column(LINE_COLUMN, piece.lines)
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _PIECE_BYTES:
            self._write()

    def finish(self) -> TypeOutcome:
        if self._waiting:
            self._write()
        return TypeOutcome(pieces=tuple(self._pieces))

    def _write(self) -> None:
        self._place.check_wanted()
        rows = pa.concat_tables(self._waiting)
        stream = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(stream, rows.schema, options=options) as writer:
            writer.write_table(rows)
        self._pieces.append(self._place.keep("pieces", stream.getvalue()))
        self._waiting, self._bytes = [], 0


def read_piece(storage: Storage, path: str) -> pa.Table:
    """The rows of a piece, their lines in the last column."""
    found = storage.control.get(path)
    if found is None:
        raise Abandoned(f"{path} no longer exists")
    return pa.ipc.open_stream(found.data).read_all()
