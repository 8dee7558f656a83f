"""Asking the data what a migration plan wants to know.

Every question is about the image a table would have: columns under their new names, new ones
filled, values widened. The image is never built. A renamed column is read by its old name, a
widened one is cast batch by batch, and a new one has one value for all rows, which a rule either
sees at once or can ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.limits import MEMORY_DEFAULT_BYTES
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.migrate.groups import Dealt, dealt_texts
from omnigraph_core.query.predicate import column_sql, string_sql
from omnigraph_core.rules.values import beyond_bounds, unmatched
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.schema.evolve import (
    Answer,
    Column,
    Distinct,
    Fits,
    Matches,
    MigrationPlan,
    NoNulls,
    NoRows,
    OneOf,
    Question,
    TableImage,
    Within,
)
from omnigraph_core.schema.model import ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.identity import tuple_texts

SAMPLES_MAX = 5
"""So many ids are named of the rows that break a rule."""

NONE = Answer(0)

_BATCH_BYTES = 1 << 23


def answer(
    tables: Tables, snapshot: Snapshot, plan: MigrationPlan, *, memory_bytes: int = MEMORY_DEFAULT_BYTES
) -> Mapping[Question, Answer]:
    """The answer to every question of the plan, from the rows that are live in the snapshot."""
    opened: dict[str, Asked] = {}
    answers: dict[Question, Answer] = {}
    for question in plan.questions:
        if question not in answers:
            if question.table not in opened:
                opened[question.table] = _asked(tables, snapshot, plan.image(question.table), memory_bytes)
            answers[question] = opened[question.table].answer(question)
    return answers


def _asked(tables: Tables, snapshot: Snapshot, image: TableImage, memory_bytes: int) -> Asked:
    assert image.origin is not None, "a new table is not asked"
    entry = snapshot.entry(image.origin.table_key)
    return Asked(image, tables.open(entry.ref, entry.table_version), memory_bytes)


class Asked:
    """One table as it is, asked as what it would be."""

    def __init__(self, image: TableImage, table: Table, memory_bytes: int) -> None:
        self._image = image
        self._table = table
        self._memory_bytes = memory_bytes

    def answer(self, question: Question) -> Answer:
        match question:
            case NoRows():
                return self._filtered(None)
            case NoNulls(property=name):
                return self._filtered(f"{column_sql(self._stored(name))} IS NULL")
            case OneOf(property=name, values=values):
                listed = ", ".join(map(string_sql, values))
                return self._filtered(f"{column_sql(self._stored(name))} NOT IN ({listed})")
            case Within(constraint=range_):
                return self._masked(
                    range_.property, lambda values: reduce(pc.or_, beyond_bounds(values, range_))
                )
            case Matches(constraint=check):
                return self._masked(check.property, lambda values: unmatched(values, check))
            case Distinct(constraint=unique):
                return self._shared(unique.columns)
            case Fits(cardinality=cardinality):
                with self._dealt([SRC_COLUMN]) as edges:
                    total, sources = edges.outnumbered(cardinality.minimum, cardinality.maximum, SAMPLES_MAX)
                return Answer(total, tuple(sources))

    def _column(self, name: str) -> Column:
        column = self._image.column(name)
        assert column is not None, "a question is about a property"
        return column

    def _stored(self, name: str) -> str:
        """What a property is called in the table."""
        column = self._column(name)
        assert column.origin is not None, "a question is about a property that has values"
        return column.origin.name

    def _filtered(self, where: str | None) -> Answer:
        """The rows for which Lance finds the filter true; null is not."""
        rows = self._table.count_rows(where)
        if not rows:
            return NONE
        found = self._table.scan([ID_COLUMN], where, limit=SAMPLES_MAX).read_all()
        return Answer(rows, tuple(found.column(ID_COLUMN).to_pylist()))

    def _masked(self, name: str, broken: Callable[[pa.Array], pa.Array]) -> Answer:
        """The rows whose value of one property is found broken."""
        rows, seen = 0, 0
        places: list[int] = []
        for batch in self._table.scan([self._stored(name)], batch_bytes=_BATCH_BYTES):
            mask = broken(self._image_of(self._column(name), batch.column(0)))
            if any_true(mask):
                found = pc.indices_nonzero(mask)
                rows += len(found)
                places += [seen + at for at in found[: SAMPLES_MAX - len(places)].to_pylist()]
            seen += batch.num_rows
        return Answer(rows, self._ids(places))

    def _shared(self, columns: Sequence[str]) -> Answer:
        """All rows that share their tuple with another.

        A new column has the same value in every row, so it tells no two of them apart.
        """
        telling = [name for name in columns if not self._is_constant(name)]
        if not telling:
            return self._filtered(None) if self._table.count_rows() > 1 else NONE
        with self._dealt(telling) as dealt:
            rows, places = dealt.repeated(SAMPLES_MAX)
        return Answer(rows, self._ids(places))

    def _is_constant(self, name: str) -> bool:
        column = self._image.column(name)
        return column is not None and column.origin is None

    def _dealt(self, columns: Sequence[str]) -> Dealt:
        """The texts by which the rows' tuples of these columns are compared."""
        found = {name: self._image.column(name) for name in columns}
        stored = [name if column is None else self._stored(name) for name, column in found.items()]

        def texts(rows: pa.RecordBatch | pa.Table) -> pa.Array:
            arrays = {
                name: rows.column(old) if column is None else self._image_of(column, rows.column(old))
                for (name, column), old in zip(found.items(), stored, strict=True)
            }
            return tuple_texts(pa.table(arrays), columns, self._image.entity)

        return dealt_texts(self._table, stored, texts, self._memory_bytes)

    def _image_of(self, column: Column, values: pa.Array) -> pa.Array:
        return pc.cast(values, arrow_type(column.prop.type)) if column.widened else values

    def _ids(self, places: Sequence[int]) -> tuple[str, ...]:
        """The ids of the rows at these places of a scan."""
        if not places:
            return ()
        return tuple(self._table.take([ID_COLUMN], places).column(ID_COLUMN).to_pylist())
