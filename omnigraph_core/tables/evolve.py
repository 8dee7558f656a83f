"""Staged changes of a table's columns: added, dropped, renamed, widened, required or not. No row moves.

One `Merge` says which stored values each column has from now on; only a column that gets values
writes any, one new file per fragment. `Merge` checks what it is given, so it is used wherever it
can be. It refuses two things: to let a column take another's name, and to change whether a column
is required. Those are a `Project`, which checks nothing, and what is added follows in a `Merge`
staged on a preview of it. What Lance would accept wrongly is caught by looking at the result:
every change is previewed and compared with what was wanted before anybody may commit it.

`preserves_nullability` of both operations stays off: it would let a writer of rows that staged
before the change commit after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import InternalError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.column_files import ColumnFiles, OnWritten, not_told, write_columns
from omnigraph_core.tables.columns import (
    StoredColumn,
    field_roots,
    highest_id,
    lance_schema,
    new_column,
    stored_columns,
    stored_shape,
)
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import file_name
from omnigraph_core.tables.limits import CAST_ROWS
from omnigraph_core.tables.literals import cast_text, literal, quoted
from omnigraph_core.tables.preview import previewed
from omnigraph_core.tables.purge import stage_purge
from omnigraph_core.tables.staged import StagedWrite, StageKind, discard_files, prepare

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column as it is to be. Without an `origin` it is new: every row gets `fill`, else null.

    A new one may still be a column from before to whoever compares: the one with the field id
    `root`, without its values.
    """

    field: pa.Field
    origin: str | None
    fill: pa.Scalar | None = None
    root: int | None = None


def stage_columns(
    storage: Storage,
    table: Table,
    wanted: Sequence[ColumnChange],
    operation_id: str,
    on_written: OnWritten = not_told,
    *,
    purges: bool = False,
) -> list[StagedWrite]:
    """Give the table exactly these columns; those that are nobody's origin go.

    One transaction, or two that follow each other. They have been seen to do what is wanted. A
    change that `purges` also rewrites the fragments with values of columns that are gone, and costs
    the table its indexes. `on_written` is told the paths of files as they are written.
    """
    staged: list[StagedWrite] = []
    try:
        with ExitStack() as previews:
            result = table
            for write in _writes(_Change(storage, table, wanted, operation_id, on_written), previews):
                staged.append(write)
                result = previews.enter_context(previewed(storage, result, write))
            _prove(table, result, wanted)
            if purges:
                version = table.version + len(staged)
                staged += stage_purge(storage, result, operation_id, on_written, read_version=version)
    except BaseException:
        discard_files(storage, staged)
        raise
    return staged


def _writes(change: _Change, previews: ExitStack) -> Iterator[StagedWrite]:
    table = change.table
    if not change.needs_project:
        yield change.merge(table, table.version)
        return
    project = change.project()
    yield project
    if change.adds:
        renamed = previews.enter_context(previewed(change.storage, table, project))
        yield change.after_project().merge(renamed, table.version + 1)


class _Change:
    """What is to become of the columns of one table; `origins` are the names they have now."""

    def __init__(
        self,
        storage: Storage,
        table: Table,
        wanted: Sequence[ColumnChange],
        operation_id: str,
        on_written: OnWritten,
    ) -> None:
        self.storage = storage
        self.table = table
        self._wanted = wanted
        self._operation_id = operation_id
        self._on_written = on_written
        self._stored = stored_columns(table.lance.lance_schema)
        self._origins = [each.origin for each in wanted]

    def _kept(self, number: int) -> bool:
        """Do the stored values stay as they are?"""
        origin = self._wanted[number].origin
        return origin is not None and stored_shape(self._wanted[number].field) == stored_shape(
            self.table.schema.field(origin)
        )

    @property
    def adds(self) -> bool:
        return not all(map(self._kept, range(len(self._wanted))))

    @property
    def needs_project(self) -> bool:
        for number, (each, origin) in enumerate(zip(self._wanted, self._origins, strict=True)):
            field, takes_over = each.field, each.field.name != origin and each.field.name in self._stored
            if takes_over or (
                self._kept(number) and field.nullable != self.table.schema.field(origin).nullable
            ):
                return True
        return False

    def project(self) -> StagedWrite:
        """New names, and which columns are required; those that are widened wait under a name of nobody."""
        from lance.dataset import LanceOperation

        columns = [
            self._renamed(number) if self._kept(number) else self._set_aside(number)
            for number, origin in enumerate(self._origins)
            if origin is not None
        ]
        operation = LanceOperation.Project(lance_schema(self.table, columns))
        return prepare(self.table.ref, StageKind.COLUMNS, self.table.version, operation, self._operation_id)

    def after_project(self) -> _Change:
        """The rest of the change, for whoever merges into what `project` has made."""
        rest = _Change(self.storage, self.table, self._wanted, self._operation_id, self._on_written)
        for number, origin in enumerate(self._origins):
            if origin is not None:
                kept = self._kept(number)
                rest._origins[number] = self._wanted[number].field.name if kept else self._aside(number)
        return rest

    def merge(self, base: Table, read_version: int) -> StagedWrite:
        """Everything at once, on a base that has the columns under the names in `origins`."""
        from lance.dataset import LanceOperation

        filled = self._filled(base)
        taken = (id_ for column in filled.columns.values() for id_ in column.ids)
        next_id = 1 + max(highest_id(base), highest_id(self.table), *taken)
        columns, roots = [], {}
        for number, each in enumerate(self._wanted):
            if self._kept(number):
                column = self._renamed(number)
            elif (written := filled.columns.get(self._temporary(number))) is not None:
                column = written.called(each.field.name, nullable=each.field.nullable)
            else:
                column = new_column(each.field, next_id)
                next_id += len(column.ids)
            columns.append(column)
            root = self._root(number)
            if root is not None:
                roots[column.ids[0]] = root
        live = {id_ for column in columns for id_ in column.ids}
        fragments = [
            replace(each, files=[file for file in each.files if live & set(file.fields)])
            for each in filled.fragments
        ]
        schema = lance_schema(self.table, columns, roots)
        operation = LanceOperation.Merge(fragments, schema)
        return prepare(
            self.table.ref, StageKind.COLUMNS, read_version, operation, self._operation_id, filled.files
        )

    def _root(self, number: int) -> int | None:
        """The first id of a column that is written anew, or that stands for one from before."""
        origin = self._wanted[number].origin
        if origin is None:
            return self._wanted[number].root
        return None if self._kept(number) else field_roots(self.table)[origin]

    def _renamed(self, number: int) -> StoredColumn:
        change = self._wanted[number]
        return self._stored_of(number).called(change.field.name, nullable=change.field.nullable)

    def _set_aside(self, number: int) -> StoredColumn:
        nullable = self.table.schema.field(self._wanted[number].origin).nullable
        return self._stored_of(number).called(self._aside(number), nullable=nullable)

    def _stored_of(self, number: int) -> StoredColumn:
        origin = self._wanted[number].origin
        assert origin is not None
        return self._stored[origin]

    def _aside(self, number: int) -> str:
        """A name that no column has, before or after."""
        name, taken = f"_{number}", {*self._stored, *(each.field.name for each in self._wanted)}
        while name in taken:
            name = f"_{name}"
        return name

    def _filled(self, base: Table) -> ColumnFiles:
        """The fragments of `base` with new files for the columns that get values."""
        import pyarrow as pa

        casts, constants, is_narrow = {}, {}, True
        for number, each in enumerate(self._wanted):
            origin = self._origins[number]
            if origin is not None and not self._kept(number):
                is_narrow = is_narrow and pa.types.is_primitive(each.field.type)
                casts[self._temporary(number)] = cast_text(quoted(origin), each.field.type)
            elif origin is None and each.fill is not None:
                constants[self._temporary(number)] = literal(each.fill, each.field.type)
        rows = CAST_ROWS if casts and is_narrow and not constants else None
        return write_columns(self.storage, base, casts, constants, self._on_written, rows)

    def _temporary(self, number: int) -> str:
        return f"{self._aside(number)}_new"


def _prove(before: Table, after: Table, wanted: Sequence[ColumnChange]) -> None:
    """Raise unless the result is exactly what was wanted; Lance does not refuse all that is not."""
    faults = list(_faults(before, after, wanted))
    if faults:
        raise InternalError(f"table '{before.ref.key}' would not become what was planned: {faults[0]}")


def _faults(before: Table, after: Table, wanted: Sequence[ColumnChange]) -> Iterator[str]:
    old, new = stored_columns(before.lance.lance_schema), stored_columns(after.lance.lance_schema)
    if [each.field.name for each in wanted] != after.schema.names:
        yield f"its columns are {', '.join(after.schema.names)}"
        return
    ids = [id_ for column in new.values() for id_ in column.ids]
    if len(set(ids)) < len(ids):
        yield "two columns share an id"
    known = {file_name(file) for file in _files(before)}
    written = {id_ for file in _files(after) for id_ in file.fields}
    stale = {id_ for file in _files(after) if file_name(file) in known for id_ in file.fields}
    for change in wanted:
        field, column = after.schema.field(change.field.name), new[change.field.name]
        if not _same_field(field, change.field):
            yield f"'{field.name}' is {field}"
        origin = None if change.origin is None else old[change.origin]
        kept = change.origin is not None and stored_shape(before.schema.field(change.origin)) == stored_shape(
            change.field
        )
        if kept and origin is not None and column.ids != origin.ids:
            yield f"'{field.name}' shows other values than '{change.origin}'"
        if not kept and stale & set(column.ids):
            yield f"'{field.name}' shows values of a column that was dropped"
        if not kept and not field.nullable and not written & set(column.ids) and _files(after):
            yield f"'{field.name}' is required and has no values"
    if after.count_rows() != before.count_rows():
        yield f"it has {after.count_rows()} rows instead of {before.count_rows()}"


def _files(table: Table) -> list[Any]:
    return [file for fragment in table.lance.get_fragments() for file in fragment.metadata.files]


def _same_field(found: pa.Field, wanted: pa.Field) -> bool:
    """Extension types are compared by how they are stored and by their name."""
    return bool(
        stored_shape(found) == stored_shape(wanted)
        and found.nullable == wanted.nullable
        and found.name == wanted.name
    )
