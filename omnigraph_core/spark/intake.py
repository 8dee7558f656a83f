"""The records of one type that executors have written: what rules look at is read back when they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Origin
from omnigraph_core.load.assemble import LoadMode, is_keyed
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.held import LINE_COLUMN, SOURCE_COLUMN, HeldRows
from omnigraph_core.load.intake import Intake
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.spark.outcome import NewFragment, Parsed
from omnigraph_core.spark.parse import read_places
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import fragment_from, read_new_rows
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Written:
    """A fragment, and where its rows were; `start` is the position of the first among all of the type."""

    new: NewFragment
    source: str
    lines_before: int
    start: int

    def lines(self, storage: Storage) -> pa.Array:
        import pyarrow.compute as pc

        return pc.add(read_places(storage, self.new)[0], self.lines_before)

    def without_made_ids(self, rows: pa.Table, storage: Storage) -> pa.Table:
        """Rows with the ids they came with; an id that was made up says nothing."""
        import pyarrow as pa
        import pyarrow.compute as pc

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
        import pyarrow as pa

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


class WrittenRows(HeldRows):
    """Rows held in fragments that nothing refers to yet."""

    def __init__(self, written: WrittenType, storage: Storage, budget: MemoryBudget) -> None:
        super().__init__(written.entity, budget)
        self.key_bytes = written.key_bytes
        self._written, self._storage = written, storage
        self._sources = {name: number for number, name in enumerate(written.sources)}

    @property
    def count(self) -> int:
        return self._written.rows

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        import pyarrow as pa

        from omnigraph_core.schema.arrow import table_schema

        fields = [table_schema(self.entity).field(name).remove_metadata() for name in columns]
        placed = [pa.field(SOURCE_COLUMN, pa.int32()), pa.field(LINE_COLUMN, pa.int64())]
        schema = pa.schema([*(field.with_nullable(True) for field in fields), *placed])
        yield schema.empty_table()
        for each in self._written.fragments:
            yield self._written.read(self._storage, each, columns).cast(schema)


class WrittenIntake(Intake):
    """All records of one type of a load, in fragments that nothing refers to yet."""

    def __init__(
        self,
        written: WrittenType,
        mode: LoadMode,
        budget: MemoryBudget,
        storage: Storage,
        table: Table,
        *,
        rejecting: bool,
    ) -> None:
        super().__init__(written.entity, mode, budget, rejecting=rejecting)
        self._written, self._storage, self._table = written, storage, table
        self._held = WrittenRows(written, storage, budget)
        self._ids_given = written.given_ids

    @property
    def is_all_rejected(self) -> bool:
        """Also of what was rejected for its values, and is in no fragment."""
        return self.rows + self._written.dropped > 0 and self.rows == len(self._rejected)

    def rejected_rows(self) -> Iterator[tuple[Origin, pa.Table]]:
        import pyarrow as pa

        for written in self._written.fragments:
            if inside := self._rejected_in(written):
                chosen = pa.array(inside)
                lines = written.lines(self._storage).take(chosen)
                rows = written.without_made_ids(self._read_back(written), self._storage)
                yield Origin.of(written.source, lines), rows.take(chosen)

    def sink(self, on_written: Callable[[Sequence[StagedFile]], None]) -> RowSink:
        """The fragments to publish. Those with rejected rows are written anew without them."""
        import numpy as np
        import pyarrow as pa

        sink = RowSink(self._storage, self._table, on_written)
        for written in self._written.fragments:
            inside = self._rejected_in(written)
            if not inside:
                files = [StagedFile(path, size) for path, size in written.new.files]
                sink.adopt([fragment_from(written.new.fragment)], files)
            elif len(inside) < written.new.rows:
                good = np.ones(written.new.rows, np.bool_)
                good[inside] = False
                sink.write(self._read_back(written).filter(pa.array(good)))
        return sink

    def _rejected_in(self, written: Written) -> list[int]:
        end = written.start + written.new.rows
        return sorted(each - written.start for each in self._rejected if written.start <= each < end)

    def _read_back(self, written: Written) -> pa.Table:
        import pyarrow as pa

        one = RowSink(self._storage, self._table)
        one.adopt([fragment_from(written.new.fragment)], [])
        return pa.concat_tables(list(one.read_back()))
