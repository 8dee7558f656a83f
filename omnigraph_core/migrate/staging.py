"""A migration plan made of staged writes: one part per table, nothing visible yet.

A renamed type keeps its table where it is; a table whose columns stay is not even touched. A
dropped type is a tombstone. Everything that touches no table is in the new schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph_core import faults
from omnigraph_core.errors import InternalError
from omnigraph_core.manifest.publisher import Registration, Tombstone
from omnigraph_core.migrate.new_tables import new_table
from omnigraph_core.schema.arrow import arrow_field, arrow_type, table_schema
from omnigraph_core.schema.evolve import Column, MigrationPlan, Mode, TableImage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.evolve import ColumnChange, stage_columns
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.values.coerce import coerce
from omnigraph_core.values.columns import column
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.on_record import FilesOnRecord
from omnigraph_core.write.plan import NewSchema, TableWrite, WritePlan, WriterKind


class MigrationStaging:
    """Stages one migration of one branch, whose lock and the refs lock are held."""

    def __init__(self, door: Door, attempt: Attempt, plan: MigrationPlan, on_record: FilesOnRecord) -> None:
        if attempt.lock is None:
            raise InternalError("a schema is applied under the lock of its branch")
        self._door = door
        self._attempt = attempt
        self._base = attempt.snapshot
        self._plan = plan
        self._guard = attempt.lock.check
        self._on_record = on_record
        self._operation_id = on_record.operation_id
        self._tables: list[TableWrite] = []
        self._registrations: list[Registration] = []

    def staged(self, schema: NewSchema, actor: str, message: str | None) -> WritePlan:
        """The write that makes the plan true, all at once."""
        for image in self._plan.touched:
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
        if image.is_same:
            ref = TableRef(key, entry.table_path, entry.table_branch)
            version = entry.table_version
            return TableWrite(ref, version, version, entry.row_count, (), renamed_from=renamed_from)
        found = self._door.open_for_write(self._attempt, entry.table_key)
        staged = self._staged_columns(found.table, image)
        return TableWrite(
            ref=replace(found.table.ref, key=key),
            base_version=found.table.version,
            published_version=found.published_version,
            row_count=found.row_count,
            staged=tuple(staged),
            fork=found.fork,
            renamed_from=renamed_from,
        )

    def _new(self, image: TableImage) -> TableWrite:
        door, base, entity = self._door, self._base, image.entity
        manifest = door.manifest.open(base.branch, base.manifest_version)
        state = door.manifest.state_of(manifest, base.on)
        found = new_table(door.tables, entity, base.branch, state, self._operation_id, self._guard)
        self._register(entity.table_key, found.table.ref.path)
        staged = self._staged_columns(found.table, image)
        return TableWrite(found.table.ref, found.table.version, 0, 0, tuple(staged), found.fork)

    def _staged_columns(self, table: Table, image: TableImage) -> list[StagedWrite]:
        """Data that is allowed to be lost is in no file of the new version."""
        return stage_columns(
            self._door.storage,
            table,
            _changes(image),
            self._operation_id,
            self._written,
            purges=self._plan.mode is Mode.HARD and bool(image.dropped),
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


def _changes(image: TableImage) -> list[ColumnChange]:
    """The columns a table is to have: the key columns as they are, then the properties."""
    columns = {each.prop.name: each for each in image.columns}
    return [
        ColumnChange(field, field.name) if field.name not in columns else _change(columns[field.name])
        for field in table_schema(image.entity)
    ]


def _change(each: Column) -> ColumnChange:
    if each.origin is not None:
        return ColumnChange(arrow_field(each.prop), each.origin.name)
    if each.fill is None:
        return ColumnChange(arrow_field(each.prop), None)
    value = column([coerce(each.fill, each.prop.type)], each.prop)[0]
    return ColumnChange(arrow_field(each.prop), None, value.cast(arrow_type(each.prop.type)))
