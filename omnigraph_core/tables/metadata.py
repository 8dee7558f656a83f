"""Staged changes of what a dataset says about itself: config, schema metadata, field metadata."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare


def schema_metadata(table: Table) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def field_metadata(table: Table, field: str) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (table.schema.field(field).metadata or {}).items()}


def stage_metadata(
    table: Table,
    operation_id: str,
    *,
    config: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    field: tuple[str, Mapping[str, str]] | None = None,
) -> StagedWrite:
    """Set the given keys in one version; keys not given stay."""
    from lance.dataset import LanceOperation

    def update(values: Mapping[str, str] | None) -> LanceOperation.UpdateMap | None:
        return None if values is None else LanceOperation.UpdateMap(dict(values))

    field_updates = None
    if field is not None:
        ids = {entry.name(): entry.id() for entry in table.lance.lance_schema.fields()}
        field_updates = {ids[field[0]]: update(field[1])}
    operation = LanceOperation.UpdateConfig(
        config_updates=update(config),
        schema_metadata_updates=update(schema),
        field_metadata_updates=field_updates,
    )
    return prepare(table.ref, StageKind.METADATA, table.version, operation, operation_id)
