"""The rows of `__manifest`: nine columns, four object types, and the ids of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from omnigraph_core.errors import StorageError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.tables.fence import PRIMARY_KEY_METADATA

if TYPE_CHECKING:
    import pyarrow as pa

OBJECT_ID = "object_id"

TYPE_TABLE = "table"
TYPE_VERSION = "table_version"
TYPE_TOMBSTONE = "table_tombstone"
TYPE_HEAD = "graph_head"

HEAD_OBJECT_ID = "graph_head"

OUTCOME_APPLIED = "applied"
OUTCOME_ROLLED_BACK = "rolled_back"


def manifest_schema() -> pa.Schema:
    """The nine columns. The annotation on object_id is what makes a publish a fence."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(OBJECT_ID, pa.string(), nullable=False, metadata={PRIMARY_KEY_METADATA: b"true"}),
            pa.field("object_type", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("base_objects", pa.list_(pa.string())),
            pa.field("table_key", pa.string(), nullable=False),
            pa.field("table_version", pa.uint64()),
            pa.field("table_branch", pa.string()),
            pa.field("row_count", pa.uint64()),
        ]
    )


@dataclass(frozen=True, slots=True)
class GraphHead:
    """The head commit of a branch, as every publish writes it into the `graph_head` row.

    The commit tables are a projection of this record: it is the only place where a
    commit becomes true together with the table versions it made.
    """

    commit_id: str
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """Microseconds since the epoch; later than the parent's by construction."""
    operation_id: str
    operation: str
    outcome: str
    schema_hash: str
    lock_token: int
    message: str | None = None
    details: str | None = None
    """Compact JSON with counts per type and inputs, copied to the commit row as it is."""

    def to_json(self) -> str:
        return _compact(asdict(self))

    @staticmethod
    def from_json(text: str) -> GraphHead:
        try:
            known = GraphHead.__slots__
            return GraphHead(**{key: value for key, value in parse_json(text).items() if key in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise StorageError(f"__manifest: the graph_head row cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class VersionMetadata:
    """What a `table_version` row says about the Lance manifest behind it, and its commit."""

    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    naming_scheme: str | None = None
    commit_id: str | None = None

    def to_json(self) -> str:
        return _compact(asdict(self))

    @staticmethod
    def from_json(text: str | None) -> VersionMetadata:
        """Lenient about keys: older writers knew fewer, newer ones may know more."""
        known = VersionMetadata.__slots__
        try:
            content = parse_json(text) if text else {}
            fields = {key: value for key, value in content.items() if key in known}
        except (ValueError, AttributeError) as error:
            raise StorageError(f"__manifest: a table_version row cannot be read: {error}") from error
        return VersionMetadata(**{"manifest_path": "", **fields})


def version_object_id(table_key: str, version: int) -> str:
    return f"{table_key}${version:020d}"


def tombstone_object_id(table_key: str, version: int) -> str:
    return f"{table_key}$tombstone${version:020d}"


def table_row(table_key: str, location: str) -> Mapping[str, object]:
    return _row(table_key, TYPE_TABLE, table_key, location=location)


def version_row(
    table_key: str, version: int, branch: str | None, row_count: int, metadata: VersionMetadata
) -> Mapping[str, object]:
    return _row(
        version_object_id(table_key, version),
        TYPE_VERSION,
        table_key,
        metadata=metadata.to_json(),
        table_version=version,
        table_branch=branch,
        row_count=row_count,
    )


def tombstone_row(table_key: str, version: int) -> Mapping[str, object]:
    return _row(tombstone_object_id(table_key, version), TYPE_TOMBSTONE, table_key, table_version=version)


def head_row(head: GraphHead) -> Mapping[str, object]:
    return _row(HEAD_OBJECT_ID, TYPE_HEAD, HEAD_OBJECT_ID, metadata=head.to_json())


def rows_table(rows: list[Mapping[str, object]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=manifest_schema())


def _row(object_id: str, object_type: str, table_key: str, **more: object) -> Mapping[str, object]:
    return {OBJECT_ID: object_id, "object_type": object_type, "table_key": table_key, **more}


def _compact(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
