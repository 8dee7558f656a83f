"""The rows of `__manifest`: nine columns, four object types, and the ids of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.commit import Commit, OfCommit
from omnigraph_core.records import dataclass
from omnigraph_core.tables.fence import PRIMARY_KEY_METADATA

if TYPE_CHECKING:
    import pyarrow as pa

OBJECT_ID = "object_id"

COLUMNS = (
    OBJECT_ID,
    "object_type",
    "location",
    "metadata",
    "base_objects",
    "table_key",
    "table_version",
    "table_branch",
    "row_count",
)

TYPE_TABLE = "table"
TYPE_VERSION = "table_version"
TYPE_TOMBSTONE = "table_tombstone"
TYPE_HEAD = "graph_head"

HEAD_OBJECT_ID = "graph_head"

ORIGINAL_OPERATION = ""
"""The operation of a head that no row has: of a state of the Rust original."""


class Outcome(StrEnum):
    """What became of the write that a head row names; the text is on disk."""

    APPLIED = "applied"
    ROLLED_BACK = "rolled_back"


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
class GraphHead(OfCommit):
    """The head commit of a branch, as every publish writes it into the `graph_head` row.

    The commit tables are a projection of this record: it is the only place where a
    commit becomes true together with the table versions it made.
    """

    commit: Commit
    operation_id: str
    outcome: Outcome
    lock_token: int

    @property
    def is_original(self) -> bool:
        """Is it of a state of the Rust original, which has no head row?"""
        return self.operation_id == ORIGINAL_OPERATION

    @property
    def schema_hash(self) -> str:
        """Every head has one; for states of the original, which do not name any, it is found out."""
        if self.commit.schema_hash is None:
            raise StorageError(f"__manifest: the graph_head row of {self.commit_id} names no schema")
        return self.commit.schema_hash

    def with_commit(self, **changes: Any) -> GraphHead:
        """The same head row with another commit in it."""
        return replace(self, commit=replace(self.commit, **changes))

    def to_fields(self) -> dict[str, Any]:
        """One flat object, as head rows and sidecars have it."""
        own = {"operation_id": self.operation_id, "outcome": self.outcome, "lock_token": self.lock_token}
        return _fields(self.commit) | own

    @staticmethod
    def from_record(content: Fields) -> GraphHead:
        """What `to_fields` made; ValueError if it is anything else. A newer writer may have said more."""
        commit = Commit(
            commit_id=content.text("commit_id"),
            parent_commit_id=content.optional_text("parent_commit_id"),
            merged_parent_commit_id=content.optional_text("merged_parent_commit_id"),
            actor_id=content.optional_text("actor_id"),
            created_at=content.moment("created_at"),
            operation=content.optional_text("operation"),
            schema_hash=content.optional_text("schema_hash"),
            message=content.optional_text("message"),
            details=content.optional_text("details"),
        )
        outcome = Outcome(content.text("outcome"))
        return GraphHead(commit, content.text("operation_id"), outcome, content.whole("lock_token"))

    def to_json(self) -> str:
        return _compact(self.to_fields())

    @staticmethod
    def from_json(text: str) -> GraphHead:
        try:
            return GraphHead.from_record(Fields(parse_json(text)))
        except (ValueError, TypeError) as error:
            raise StorageError(f"__manifest: the graph_head row cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class VersionMetadata:
    """What a `table_version` row says about the Lance manifest behind it, and its commit."""

    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    naming_scheme: str | None = None
    commit_id: str | None = None
    generation: int = 1
    """Of the table key: how often it had been registered when this version was published."""

    def to_json(self) -> str:
        content = _fields(self)
        if self.generation == 1:
            del content["generation"]
        return _compact(content)

    @staticmethod
    def from_json(text: str | None) -> VersionMetadata:
        """Lenient about keys: older writers knew fewer, newer ones may know more."""
        try:
            content = Fields(parse_json(text) if text else {})
            return VersionMetadata(
                manifest_path=content.optional_text("manifest_path") or "",
                manifest_size=content.optional_whole("manifest_size"),
                e_tag=content.optional_text("e_tag"),
                naming_scheme=content.optional_text("naming_scheme"),
                commit_id=content.optional_text("commit_id"),
                generation=content.whole("generation", default=1),
            )
        except ValueError as error:
            raise StorageError(f"__manifest: a table_version row cannot be read: {error}") from error


def version_object_id(table_key: str, version: int) -> str:
    return f"{table_key}${version:020d}"


def tombstone_object_id(table_key: str, version: int) -> str:
    return f"{table_key}$tombstone${version:020d}"


def table_row(
    table_key: str, location: str, generation: int = 1, earlier: Sequence[str] = ()
) -> Mapping[str, object]:
    """A registration. The first of a key says no generation, as in graphs that knew of none.

    `earlier` are the locations of tables that had the key before.
    """
    metadata = None if generation == 1 else _compact({"generation": generation, "earlier": list(earlier)})
    return _row(table_key, TYPE_TABLE, table_key, location=location, metadata=metadata)


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


def tombstone_row(table_key: str, version: int, generation: int = 1) -> Mapping[str, object]:
    return _row(
        tombstone_object_id(table_key, version),
        TYPE_TOMBSTONE,
        table_key,
        table_version=version,
        metadata=_generation_json(generation),
    )


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that was registered more than once: how often, and where its tables were before."""

    generation: int
    earlier: tuple[str, ...]

    @staticmethod
    def from_json(text: str) -> Repeated:
        try:
            content = parse_json(text)
            return Repeated(int(content["generation"]), tuple(map(str, content["earlier"])))
        except (ValueError, TypeError, KeyError) as error:
            raise StorageError(f"__manifest: a table row cannot be read: {error!r}") from error


def generation_of(metadata: str | None) -> int:
    """What the metadata of a version or tombstone row says; 1 where it says nothing."""
    return VersionMetadata.from_json(metadata).generation


def _generation_json(generation: int) -> str | None:
    return None if generation == 1 else _compact({"generation": generation})


def head_row(head: GraphHead) -> Mapping[str, object]:
    return _row(HEAD_OBJECT_ID, TYPE_HEAD, HEAD_OBJECT_ID, metadata=head.to_json())


def rows_table(rows: list[Mapping[str, object]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=manifest_schema())


def _row(object_id: str, object_type: str, table_key: str, **more: object) -> Mapping[str, object]:
    return {OBJECT_ID: object_id, "object_type": object_type, "table_key": table_key, **more}


def _fields(record: Commit | VersionMetadata) -> dict[str, Any]:
    """By name. They are all plain values, of which `asdict` would make copies."""
    return {name: getattr(record, name) for name in record.__slots__}


def _compact(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
