"""What the front tells the job: a JSON object in the staging folder of the load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any, ClassVar

from omnigraph_core import layout
from omnigraph_core.errors import InternalError
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema, parse_compiled, pretty_json
from omnigraph_core.schema.files import Format
from omnigraph_core.spark.splits import Split
from omnigraph_core.storage import Storage
from omnigraph_core.tables.refs import TableRef

_FORMAT_VERSION = 1


class JobKind(StrEnum):
    """What a job is for."""

    LOAD = "load"
    EXPORT = "export"


class Target(StrEnum):
    """Where the rows go."""

    TABLES = "tables"
    """Fragments of the tables themselves, which are published as they are."""
    PIECES = "pieces"
    """Files in the staging folder, which the front reads: a merge, or a dry run."""


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table on the branch's own lineage, at the version whose columns new fragments have."""

    ref: TableRef
    version: int

    @property
    def table_version(self) -> int:
        return self.version


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job."""

    operation_id: str
    graph: str
    schema: Schema
    mode: LoadMode
    target: Target
    is_rejecting: bool
    rows_per_fragment: int
    tables: Mapping[str, TableAt]
    committed: Mapping[str, TableAt]
    """Every table as the records are checked against it."""
    memory_limit_bytes: int
    """Where keys need more than a load may keep of them, the rules are asked in executors."""
    splits: tuple[Split, ...]
    """The splits; when Spark itself reads, one that stands for all of its partitions."""
    reader: str | None
    """The format that Spark itself reads, from `paths`."""
    paths: tuple[str, ...]
    front_pid: int | None
    """The process that waits for the job, if it is on the machine of the driver."""

    kind: ClassVar[JobKind] = JobKind.LOAD

    @property
    def place(self) -> str:
        """Below which its folder is."""
        return self.graph

    @property
    def folder(self) -> str:
        return layout.staging_folder(self.operation_id)

    @property
    def lists(self) -> str:
        return lists_folder(self.operation_id)

    @property
    def record(self) -> str:
        return layout.staging_record(self.operation_id)

    @property
    def path(self) -> str:
        """Where it is written down; the first file to go when the load ends."""
        return job_path(self.operation_id)

    def without_splits(self) -> JobSpec:
        """What every task needs; its own part comes with the task."""
        return replace(self, splits=())

    def write(self, storage: Storage) -> None:
        storage.control.put(self.path, self.encode())

    def encode(self) -> bytes:
        content = {
            "format": _FORMAT_VERSION,
            "operation_id": self.operation_id,
            "graph": self.graph,
            "schema": pretty_json(self.schema),
            "mode": self.mode.value,
            "target": self.target.value,
            "is_rejecting": self.is_rejecting,
            "rows_per_fragment": self.rows_per_fragment,
            "tables": encode_tables(self.tables),
            "committed": encode_tables(self.committed),
            "memory_limit_bytes": self.memory_limit_bytes,
            "splits": encode_splits(self.splits),
            "reader": self.reader,
            "paths": list(self.paths),
            "front_pid": self.front_pid,
        }
        return json.dumps(content, ensure_ascii=False).encode()


def read_spec(storage: Storage, operation_id: str) -> JobSpec:
    found = storage.control.get(job_path(operation_id))
    if found is None:
        raise InternalError(f"the load {operation_id} no longer exists")
    content: dict[str, Any] = json.loads(found.data)
    if content["format"] != _FORMAT_VERSION:
        raise InternalError("the job was submitted by another version of OmniGraph")
    return JobSpec(
        operation_id=operation_id,
        graph=content["graph"],
        schema=parse_compiled(content["schema"]),
        mode=LoadMode(content["mode"]),
        target=Target(content["target"]),
        is_rejecting=content["is_rejecting"],
        rows_per_fragment=content["rows_per_fragment"],
        tables=decode_tables(content["tables"]),
        committed=decode_tables(content["committed"]),
        memory_limit_bytes=content["memory_limit_bytes"],
        splits=decode_splits(content["splits"]),
        reader=content["reader"],
        paths=tuple(content["paths"]),
        front_pid=content["front_pid"],
    )


def encode_splits(splits: Sequence[Split]) -> list[dict[str, Any]]:
    return [asdict(split) for split in splits]


def decode_splits(content: list[dict[str, Any]]) -> tuple[Split, ...]:
    return tuple(Split(**{**each, "format": _format(each["format"])}) for each in content)


def _format(name: str | None) -> Format | None:
    return None if name is None else Format(name)


def encode_tables(tables: Mapping[str, TableAt]) -> list[dict[str, Any]]:
    return [{**asdict(each.ref), "version": each.version} for each in tables.values()]


def decode_tables(content: list[dict[str, Any]]) -> dict[str, TableAt]:
    refs = [(TableRef(each["key"], each["path"], each["branch"]), each["version"]) for each in content]
    return {ref.key: TableAt(ref, version) for ref, version in refs}


def lists_folder(operation_id: str) -> str:
    return f"{layout.staging_folder(operation_id)}/files"


def job_path(operation_id: str) -> str:
    return f"{layout.staging_folder(operation_id)}/job.json"
