"""The records of one type that executors have written: what rules look at is read back when they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BusyError
from omnigraph_core.load.held_rows import LINE_COLUMN, SOURCE_COLUMN
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Origin
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.spark.outcome import NewFragment, Parsed
from omnigraph_core.spark.parse import read_places
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import fragment_from, read_new_rows
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedFile
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.identity import is_keyed


@dataclass(frozen=True, slots=True)
class Written:
    """A fragment, and where its rows were; `start` is the position of the first among all of the type."""

    new: NewFragment
    source: str
    lines_before: int
    start: int

    def lines(self, storage: Storage) -> pa.Array:
        return pc.add(read_places(storage, self.new)[0], self.lines_before)

    def without_made_ids(self, rows: pa.Table, storage: Storage) -> pa.Table:
        """Rows with the ids they came with; an id that was made up says nothing."""
        if self.new.given_ids == self.new.rows or ID_COLUMN not in rows.column_names:
            return rows
        given = read_places(storage, self.new)[1]
        ids = pc.if_else(given, rows.column(ID_COLUMN).combine_chunks(), pa.scalar(None, pa.utf8()))
        return rows.set_column(rows.schema.get_field_index(ID_COLUMN), pa.field(ID_COLUMN, pa.utf8()), ids)


@dataclass(frozen=True, slots=True)
class WrittenType:
    """All fragments of one type, in the order of the input."""

    entity: EntityType
    ref: TableRef
    fragments: tuple[Written, ...]
    given_ids: int
    dropped: int
    key_bytes: int
    sources: tuple[str, ...]
    """The inputs; a fragment's is known by its number among them."""

    @classmethod
    def of(cls, entity: EntityType, ref: TableRef, parsed: Parsed) -> WrittenType:
        fragments: list[Written] = []
        given = dropped = key_bytes = start = 0
        for split, outcome, before in zip(parsed.splits, parsed.outcomes, parsed.lines_before, strict=True):
            found = outcome.types.get(entity.table_key)
            if found is None:
                continue
            given, dropped = given + found.given_ids, dropped + found.dropped
            key_bytes += found.key_bytes
            for new in found.fragments:
                fragments.append(Written(new, split.name, before, start))
                start += new.rows
        sources = tuple(dict.fromkeys(split.name for split in parsed.splits))
        return cls(entity, ref, tuple(fragments), given, dropped, key_bytes, sources)

    @property
    def rows(self) -> int:
        return sum(each.new.rows for each in self.fragments)

    @property
    def is_fresh(self) -> bool:
        """Are all ids made up? Then they say nothing, and no rule looks at them."""
        return not self.given_ids and not is_keyed(self.entity)

    def read(self, storage: Storage, written: Written, columns: Sequence[str]) -> pa.Table:
        """Some columns of a fragment's rows, then the number of their input and their lines."""
        names = [name for name in columns if not (name == ID_COLUMN and self.is_fresh)]
        count = written.new.rows
        found = {ID_COLUMN: pa.nulls(count, pa.utf8())}
        if names:
            rows = read_new_rows(storage, self.ref, fragment_from(written.new.fragment), names)
            rows = written.without_made_ids(rows, storage)
            found |= {name: rows.column(name) for name in names}
        source = pa.scalar(self.sources.index(written.source), pa.int32())
        placed = {SOURCE_COLUMN: pa.repeat(source, count), LINE_COLUMN: written.lines(storage)}
        return pa.table({name: found[name] for name in columns} | placed)


class FragmentsGone(BusyError):
    """What tasks have written is no longer there, and the rows are nowhere else."""

    def __init__(self, table_key: str, path: str) -> None:
        super().__init__(
            f"{path}, which Spark wrote for table '{table_key}', was removed in the meantime; "
            "nothing was changed",
            hint="load the input again",
        )
        self.table_key, self.path = table_key, path

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "path": self.path}


class WrittenRows:
    """Rows of one type of a load, in fragments that nothing refers to yet."""

    def __init__(self, written: WrittenType, storage: Storage, table: Table) -> None:
        self.entity, self.sources = written.entity, written.sources
        self.given_ids, self.dropped, self.key_bytes = written.given_ids, written.dropped, written.key_bytes
        self._written, self._storage, self._table = written, storage, table

    @property
    def count(self) -> int:
        return self._written.rows

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        fields = [table_schema(self.entity).field(name).remove_metadata() for name in columns]
        placed = [pa.field(SOURCE_COLUMN, pa.int32()), pa.field(LINE_COLUMN, pa.int64())]
        schema = pa.schema([*(field.with_nullable(True) for field in fields), *placed])
        yield schema.empty_table()
        for each in self._written.fragments:
            yield self._written.read(self._storage, each, columns).cast(schema)

    def chosen(self, mask: pa.Array) -> Iterator[tuple[Origin, pa.Table]]:
        for written in self._written.fragments:
            mine = mask.slice(written.start, written.new.rows)
            if any_true(mine):
                lines = written.lines(self._storage).filter(mine)
                rows = written.without_made_ids(self._read_back(written), self._storage)
                yield Origin.of(written.source, lines), rows.filter(mine)

    def close(self) -> None:
        """The fragments belong to the staging of the load."""

    def check_files(self) -> None:
        """Raise unless all files are there: what was written on a fork goes when the fork is cleared."""
        for each in self._written.fragments:
            for path, size, _ in each.new.files:
                if self._storage.control.size(path) != size:
                    raise FragmentsGone(self._table.ref.key, path)

    def sink(self, stays: pa.Array | None, on_written: Callable[[Sequence[StagedFile]], None]) -> RowSink:
        """The fragments to publish. Those with rows that do not stay are written anew without them."""
        sink = RowSink(self._storage, self._table, on_written)
        for written in self._written.fragments:
            mine = None if stays is None else stays.slice(written.start, written.new.rows)
            if mine is None or not any_true(pc.invert(mine)):
                files = [StagedFile(*file) for file in written.new.files]
                sink.adopt([fragment_from(written.new.fragment)], files)
            elif any_true(mine):
                sink.write(self._read_back(written).filter(mine))
        return sink

    def _read_back(self, written: Written) -> pa.Table:
        one = RowSink(self._storage, self._table)
        one.adopt([fragment_from(written.new.fragment)], [])
        return pa.concat_tables(list(one.read_back()))
