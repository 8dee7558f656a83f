"""One dataset of the original becomes ours, without changing an answer.

Every step finds out by itself whether it is still to be done, so after a kill all of them are repeated.
What was put on top of the published version and never published is put back first: one node delete of
the original leaves versions behind in every edge table, with content that nobody checked.
"""

from __future__ import annotations

from omnigraph_core import faults
from omnigraph_core.errors import StorageError
from omnigraph_core.indexes.rules import index_specs
from omnigraph_core.manifest.snapshot import SubTableEntry
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.storage import Storage
from omnigraph_core.tables.commit import Guard, commit_exact, restored_by_us, stage_restore
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_manifests, sync_staged
from omnigraph_core.tables.foreign import out_of_step, with_nulls, without_cleanup
from omnigraph_core.tables.indexes import (
    IndexKind,
    IndexSpec,
    is_like_ours,
    is_readable,
    list_indexes,
    stage_indexes,
)


def unpublished(tables: Tables, entry: SubTableEntry) -> int:
    """How many versions above the published one are not ours, and not put back yet."""
    head = tables.open(entry.ref)
    if head.version < entry.table_version:
        raise StorageError(
            f"table '{entry.table_key}': version {entry.table_version} is published, "
            f"and HEAD is {head.version}"
        )
    versions = range(head.version, entry.table_version, -1)
    for passed, version in enumerate(versions):
        made = restored_by_us(head, version)
        if made == entry.table_version:
            return 0
        if made is None:
            return len(versions) - passed
    return 0


def adopt_table(
    tables: Tables, entry: SubTableEntry, entity: EntityType | None, operation_id: str, guard: Guard
) -> Table:
    """HEAD with the published content, none of the original's settings, and indexes that we can use."""
    head = tables.open(entry.ref)
    if unpublished(tables, entry):
        head = out_of_step(tables, head, operation_id, guard)
        staged = stage_restore(head, entry.table_version, operation_id, undoes="")
        head = commit_exact(tables, staged, guard)
        faults.hit("adopt.drift_put_back")
    head = without_cleanup(tables, head, operation_id, guard)
    faults.hit("adopt.table_settled")
    head = _with_our_indexes(tables, head, entity, operation_id, guard)
    return with_nulls(tables, head, operation_id, guard)


def _with_our_indexes(
    tables: Tables, table: Table, entity: EntityType | None, operation_id: str, guard: Guard
) -> Table:
    drop = [] if entity is None else _bad(tables.storage, table, entity)
    if not drop:
        return table
    vectors = [spec for spec in _lost(table, entity, drop) if spec.kind is IndexKind.VECTOR]
    staged = stage_indexes(tables.storage, table, operation_id, build=vectors, drop=drop)
    sync_staged(tables.storage, [staged])
    committed = commit_exact(tables, staged, guard)
    sync_manifests(tables, [committed])
    faults.hit("adopt.indexes_replaced")
    return committed


def _lost(table: Table, entity: EntityType | None, drop: list[str]) -> list[IndexSpec]:
    """What the indexes that go were for, where there is something to be indexed."""
    gone = [index for name, index in list_indexes(table).items() if name in drop]
    specs = [] if entity is None else index_specs(entity)
    wanted = [spec for spec in specs if any(index.serves(spec) for index in gone)]
    return [spec for spec in wanted if table.count_rows(f"{spec.column} IS NOT NULL")]


def bad_indexes(storage: Storage, table: Table, schema: Schema) -> tuple[str, ...]:
    """The indexes of a table that cannot stay, by name."""
    entity = next((each for each in schema.types() if each.table_key == table.ref.key), None)
    return () if entity is None else tuple(_bad(storage, table, entity))


def _bad(storage: Storage, table: Table, entity: EntityType) -> list[str]:
    """Those that cannot be read, would be built a second time, or answer otherwise than ours."""
    specs = index_specs(entity)
    found: list[str] = []
    served: set[IndexSpec] = set()
    for name, index in sorted(list_indexes(table).items()):
        spec = next((each for each in specs if index.serves(each)), None)
        is_kept = (
            spec is not None
            and spec not in served
            and is_like_ours(table, index)
            and is_readable(storage, table, index)
        )
        if is_kept and spec is not None:
            served.add(spec)
        else:
            found.append(name)
    return found
