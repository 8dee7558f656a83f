"""A staged write: files on disk and a transaction that would adopt them. HEAD has not moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.refs import TableRef

OPERATION_PROPERTY = "omnigraph:operation"
KIND_PROPERTY = "omnigraph:kind"
UNDOES_PROPERTY = "omnigraph:undoes"
PUBLISHED_PROPERTY = "omnigraph:published"


class StageKind(StrEnum):
    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    RESTORE = "restore"
    COMPACTION = "compaction"
    INDEX = "index"
    METADATA = "metadata"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file the transaction will make part of the table; path relative to the graph root."""

    path: str
    size: int
    digest: str | None = None
    """What tells its bytes from any others (`ControlStore.digest`); None for files that can be
    built again (indexes)."""


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """One transaction, ready for `commit_exact`.

    It can be proven (operation id and uuid are read back from the table's history),
    synced and, when abandoned, deleted (both by `files`).
    """

    ref: TableRef
    kind: StageKind
    read_version: int
    operation_id: str
    transaction: Any
    files: tuple[StagedFile, ...] = ()
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0

    @property
    def transaction_uuid(self) -> str:
        return str(self.transaction.uuid)


def prepare(
    ref: TableRef,
    kind: StageKind,
    read_version: int,
    operation: Any,
    operation_id: str,
    files: Iterable[StagedFile] = (),
    *,
    undoes: str | None = None,
    inserted: int = 0,
    updated: int = 0,
    deleted: int = 0,
) -> StagedWrite:
    """A staged write of a Lance operation, marked so that it can be recognised afterwards."""
    from lance.dataset import Transaction

    properties = operation_properties(operation_id, **{KIND_PROPERTY: kind.value})
    if undoes is not None:
        properties[UNDOES_PROPERTY] = undoes
    return StagedWrite(
        ref=ref,
        kind=kind,
        read_version=read_version,
        operation_id=operation_id,
        transaction=Transaction(read_version, operation, transaction_properties=properties),
        files=tuple(files),
        rows_inserted=inserted,
        rows_updated=updated,
        rows_deleted=deleted,
    )


def following(write: StagedWrite, read_version: int) -> StagedWrite:
    """The same write, to be committed on this version: it was staged on a preview of it."""
    return prepare(
        write.ref,
        write.kind,
        read_version,
        write.transaction.operation,
        write.operation_id,
        write.files,
        inserted=write.rows_inserted,
        updated=write.rows_updated,
        deleted=write.rows_deleted,
    )


def operation_properties(operation_id: str, **more: str) -> dict[str, str]:
    """What every transaction of ours carries."""
    return {OPERATION_PROPERTY: operation_id, **more}


class StagedFileMissing(StorageError):
    """A file of a staged write is gone or short. Lance would commit it all the same."""

    def __init__(self, table_key: str, path: str, expected: int, actual: int | None) -> None:
        found = "is missing" if actual is None else f"has {actual} bytes instead of {expected}"
        super().__init__(f"staged file {path} of table '{table_key}' {found}; nothing was committed")
        self.table_key = table_key
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "path": self.path}


def verify_files(storage: Storage, staged: StagedWrite) -> None:
    """Raise unless every staged file is there with its recorded size."""
    for file in staged.files:
        actual = storage.control.size(file.path)
        if actual != file.size:
            raise StagedFileMissing(staged.ref.key, file.path, file.size, actual)


def discard_files(
    storage: Storage, staged: Iterable[StagedWrite], spared: frozenset[str] = frozenset()
) -> None:
    """Delete the files of writes that will never be committed, but for the spared ones."""
    for write in staged:
        for file in write.files:
            if file.path not in spared:
                storage.control.delete(file.path)
