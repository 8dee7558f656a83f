"""A migration plan made of staged writes: one part per table, nothing visible yet.

A renamed type keeps its table where it is; a table whose columns stay is not even touched. A
dropped type is a tombstone. Everything that touches no table is in the new schema alone.

A merge brings rows along. They are staged on a preview of the table with its new columns, so
columns and rows are transactions that follow each other. A column that rows must fill before it
can be required is required after them; one that cannot become what is wanted is made anew, and
the rows fill it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from omnigraph_core import faults
from omnigraph_core.change.plan import counts_of, stage_rows
from omnigraph_core.errors import InternalError
from omnigraph_core.manifest.request import Registration, Tombstone
from omnigraph_core.migrate.new_tables import new_table
from omnigraph_core.rules.changeset import Change
from omnigraph_core.schema.arrow import arrow_field, arrow_type, table_schema
from omnigraph_core.schema.evolve import Column, MigrationPlan, Mode, TableImage
from omnigraph_core.tables.columns import field_roots
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.evolve import ColumnChange, stage_columns
from omnigraph_core.tables.preview import previewed
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedWrite, following
from omnigraph_core.values.coerce import coerce
from omnigraph_core.values.columns import column
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.on_record import FilesOnRecord
from omnigraph_core.write.plan import NewSchema, TableWrite, WritePlan, WriterKind
from omnigraph_core.write.writable import WritableTable


class MigrationStaging:
    """Stages one migration of one branch, whose lock and the refs lock are held.

    `rows` are changes of rows that go with it, by table key, in the columns of the new schema.
    `roots` are the first field ids of new columns that had been there before, likewise.
    """

    def __init__(
        self,
        door: Door,
        attempt: Attempt,
        plan: MigrationPlan,
        on_record: FilesOnRecord,
        rows: Mapping[str, Change] | None = None,
        roots: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        if attempt.lock is None:
            raise InternalError("a schema is applied under the lock of its branch")
        self._door = door
        self._attempt = attempt
        self._base = attempt.snapshot
        self._plan = plan
        self._guard = attempt.lock.check
        self._on_record = on_record
        self._rows = dict(rows or {})
        self._roots = dict(roots or {})
        self._operation_id = on_record.operation_id
        self._tables: list[TableWrite] = []
        self._registrations: list[Registration] = []

    def staged(self, schema: NewSchema, actor: str, message: str | None) -> WritePlan:
        """The write that makes the plan true, all at once."""
        touched = {image.entity.table_key for image in self._plan.touched} | self._rows.keys()
        for image in self._plan.images:
            if image.entity.table_key in touched:
                self._tables.append(self._table(image))
        return WritePlan(
            operation_id=self._operation_id,
            kind=WriterKind.SCHEMA_APPLY,
            attempt=self._attempt,
            actor=actor,
            tables=self._tables,
            registrations=self._registrations,
            tombstones=self._tombstones(),
            schema=schema,
            reads={key: entry.table_version for key, entry in self._base.tables.items()},
            strict=True,
            message=message,
            details=self._details(),
            guard=self._on_record.check,
            on_recorded=self._on_record.hand_over,
        )

    def _table(self, image: TableImage) -> TableWrite:
        if image.origin is None:
            return self._new(image)
        entry = self._base.entry(image.origin.table_key)
        key = image.entity.table_key
        renamed_from = entry.table_key if image.is_renamed else None
        if image.is_renamed:
            self._register(key, entry.table_path)
        if image.is_same and key not in self._rows:
            ref = TableRef(key, entry.table_path, entry.table_branch)
            version = entry.table_version
            return TableWrite(ref, version, version, entry.row_count, (), renamed_from=renamed_from)
        found = self._door.open_for_write(self._attempt, entry.table_key)
        if image.is_same:
            write = found.planned(self._door.storage, self._staged_rows(found, key))
            return replace(write, ref=replace(write.ref, key=key), renamed_from=renamed_from)
        return self._write(found, key, self._evolved(found, image), renamed_from)

    def _new(self, image: TableImage) -> TableWrite:
        door, base, entity = self._door, self._base, image.entity
        manifest = door.manifest.open(base.branch, base.manifest_version)
        state = door.manifest.state_of(manifest, base.on)
        found = new_table(door.tables, entity, base.branch, state, self._operation_id, self._guard)
        self._register(entity.table_key, found.table.ref.path)
        return self._write(found, entity.table_key, self._evolved(found, image), None)

    def _write(
        self, found: WritableTable, key: str, staged: list[StagedWrite], renamed_from: str | None
    ) -> TableWrite:
        return TableWrite(
            ref=replace(found.table.ref, key=key),
            base_version=found.table.version,
            published_version=found.published_version,
            row_count=found.row_count + sum(each.rows_inserted - each.rows_deleted for each in staged),
            staged=tuple(staged),
            fork=found.fork,
            renamed_from=renamed_from,
        )

    def _evolved(self, found: WritableTable, image: TableImage) -> list[StagedWrite]:
        """The columns, and the rows that are written in them."""
        wanted = _changes(image, self._known_roots(found.table, image))
        if image.entity.table_key not in self._rows:
            return self._staged_columns(found.table, wanted, drops=bool(image.dropped))
        relaxed = [_relaxed(each, found) for each in wanted]
        staged = self._staged_columns(found.table, relaxed, drops=bool(image.dropped))
        faults.hit("schema.columns_staged")
        storage, start = self._door.storage, found.table.version
        with ExitStack() as previews:
            table = found.table
            for write in staged:
                table = previews.enter_context(previewed(storage, table, write))
            written = self._staged_rows(replace(found, table=table), image.entity.table_key)
            staged.append(following(written, start + len(staged)))
            if relaxed != wanted:
                table = previews.enter_context(previewed(storage, table, written))
                same = [ColumnChange(each.field, each.field.name) for each in wanted]
                for write in self._staged_columns(table, same, drops=False):
                    staged.append(following(write, start + len(staged)))
        return staged

    def _known_roots(self, table: Table, image: TableImage) -> dict[str, int]:
        """Of columns that come back, and of those that are made anew in the place of another."""
        ids = field_roots(table)
        remade = {
            each.prop.name: ids[each.origin.name]
            for each in image.columns
            if not each.known and each.origin is not None
        }
        return {**self._roots.get(image.entity.table_key, {}), **remade}

    def _staged_rows(self, found: WritableTable, key: str) -> StagedWrite:
        staged = stage_rows(self._door, found, self._rows[key], self._operation_id)
        self._written([file.path for file in staged.files])
        return staged

    def _details(self) -> str | None:
        """Counts of rows per table key, if there are any; a schema apply has none."""
        if not self._rows:
            return None
        counts = {
            table.ref.key: counts_of(table.staged) for table in self._tables if table.ref.key in self._rows
        }
        return json.dumps({"counts": counts}, ensure_ascii=False, separators=(",", ":"))

    def _staged_columns(
        self, table: Table, wanted: Sequence[ColumnChange], *, drops: bool
    ) -> list[StagedWrite]:
        """Data that is allowed to be lost is in no file of the new version."""
        return stage_columns(
            self._door.storage,
            table,
            wanted,
            self._operation_id,
            self._written,
            purges=self._plan.mode is Mode.HARD and drops,
        )

    def _written(self, paths: Sequence[str]) -> None:
        self._on_record.add(paths)
        faults.hit("schema.file_written")

    def _register(self, key: str, path: str) -> None:
        """Under a name that another table has until now, if that is renamed or dropped."""
        live = self._base.tables.get(key)
        self._registrations.append(Registration(key, path, live.table_version if live else 0))

    def _tombstones(self) -> list[Tombstone]:
        """For names that nobody has any more."""
        renamed = [image.origin for image in self._plan.touched if image.is_renamed and image.origin]
        registered = {entry.table_key for entry in self._registrations}
        gone = {entity.table_key for entity in (*renamed, *self._plan.dropped)} - registered
        return [Tombstone(key, self._base.entry(key).table_version + 1) for key in sorted(gone)]


def _changes(image: TableImage, roots: Mapping[str, int]) -> list[ColumnChange]:
    """The columns a table is to have: the key columns as they are, then the properties."""
    columns = {each.prop.name: each for each in image.columns}
    found = [
        ColumnChange(field, field.name) if field.name not in columns else _change(columns[field.name])
        for field in table_schema(image.entity)
    ]
    return [replace(each, root=roots.get(each.field.name)) for each in found]


def _relaxed(change: ColumnChange, found: WritableTable) -> ColumnChange:
    """The column as it is before the rows are written: not required if it may lack values until then."""
    if change.field.nullable or change.fill is not None or not found.row_count:
        return change
    if change.origin is not None and not found.table.schema.field(change.origin).nullable:
        return change
    return replace(change, field=change.field.with_nullable(True))


def _change(each: Column) -> ColumnChange:
    if not each.known:
        return ColumnChange(arrow_field(each.prop), None)
    if each.origin is not None:
        return ColumnChange(arrow_field(each.prop), each.origin.name)
    if each.fill is None:
        return ColumnChange(arrow_field(each.prop), None)
    value = column([coerce(each.fill, each.prop.type)], each.prop)[0]
    return ColumnChange(arrow_field(each.prop), None, value.cast(arrow_type(each.prop.type)))
