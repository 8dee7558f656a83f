"""Writing fragments: rows become data files that no version refers to yet.

Importable inside a Spark executor: it needs Lance, pyarrow and a `Table`'s URI, and
nothing of the floors above.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from omnigraph_core.errors import BadDataError, InternalError
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


_READ_BATCH_ROWS = 1 << 16

BLOB_EXTENSION = "lance.blob.v2"


def conform(rows: pa.Table, schema: pa.Schema, ref: TableRef) -> pa.Table:
    """`rows` with exactly the columns of `schema`, in its order.

    A caller that gets here with the wrong columns or with a null where none is allowed
    has skipped validation; Lance would store it without a word.
    """
    import pyarrow as pa

    if set(rows.column_names) != set(schema.names) or len(rows.column_names) != len(schema.names):
        raise InternalError(
            f"table '{ref.key}' has columns {schema.names}, the rows have {rows.column_names}"
        )
    ordered = rows.select(schema.names)
    refuse_nulls(ordered, [field.name for field in schema if not field.nullable], ref)
    if ordered.schema.remove_metadata() == schema.remove_metadata():
        return ordered
    try:
        return ordered.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadDataError(f"rows do not fit table '{ref.key}': {error}") from error


def refuse_nulls(rows: pa.Table, required: Iterable[str], ref: TableRef) -> None:
    """Raise BadDataError for a null in a required column; neither pyarrow nor Lance would."""
    for name in required:
        if rows.column(name).null_count:
            raise BadDataError(f"{ref.key}.{name} is required but has a null")


def write_rows(
    table: Table, rows: pa.Table | pa.RecordBatchReader, mode: Literal["append", "overwrite"] = "append"
) -> Any:
    """Write data files for `rows` and return the transaction Lance made of them."""
    from lance.fragment import write_fragments

    with lance_failures(table.ref, "writing data of"):
        return write_fragments(
            rows,
            table.lance,
            schema=rows.schema,
            mode=mode,
            return_transaction=True,
            max_rows_per_file=ROWS_PER_FRAGMENT,
        )


def keep_row_ids(fragments: Iterable[Any], row_ids: pa.ChunkedArray) -> None:
    """Give the leading rows of new fragments the ids of the rows they replace.

    A fragment may take ids for its first rows only; Lance hands out fresh ones for
    the rest at commit.
    """
    from lance.fragment import RowIdSequence

    kept = row_ids.to_numpy()
    for fragment in fragments:
        if not len(kept):
            return
        mine, kept = kept[: fragment.physical_rows], kept[fragment.physical_rows :]
        fragment.row_id_meta = RowIdSequence(mine.tolist()).to_inline_metadata()


def file_name(data_file: Any) -> str:
    """The name of a data file. pylance 14 defines a class whenever `DataFile.path` is asked for, which
    is a millisecond of every write."""
    known = getattr(data_file, "_path", None)
    return known if isinstance(known, str) else str(data_file.path)


def data_files(
    storage: Storage, ref: TableRef, fragments: Iterable[Any], schema: pa.Schema
) -> list[StagedFile]:
    """The data files of new fragments, with the side files that hold their large blobs."""
    fragments = list(fragments)
    known = {data_path(ref, each): each.file_size_bytes for fragment in fragments for each in fragment.files}
    return [sized(storage, path, known.get(path)) for path in data_paths(storage, ref, fragments, schema)]


def data_paths(storage: Storage, ref: TableRef, fragments: Iterable[Any], schema: pa.Schema) -> list[str]:
    """Where they are."""
    paths: list[str] = []
    blobs = has_blobs(schema)
    for fragment in fragments:
        for data_file in fragment.files:
            path = data_path(ref, data_file)
            paths += [path, *(side_files(storage, path) if blobs else ())]
    return paths


def data_path(ref: TableRef, data_file: Any) -> str:
    """Where a new data file of a table is, below the graph root."""
    return f"{ref.directory}/data/{file_name(data_file)}"


def has_blobs(schema: pa.Schema) -> bool:
    """Is there a column whose large values live in side files?"""
    return any(
        getattr(field.type, "extension_name", None) == BLOB_EXTENSION
        or (field.metadata or {}).get(b"ARROW:extension:name") == BLOB_EXTENSION.encode()
        for field in schema
    )


def side_files(storage: Storage, data_file: str) -> list[str]:
    """The files that hold the large blobs of a data file; no Lance metadata names them."""
    directory = data_file.removesuffix(".lance")
    if directory == data_file:
        return []  # A deletion file.
    return [f"{directory}/{name}" for name in storage.control.list(directory)]


def fragment_text(fragment: Any) -> str:
    """A new fragment as text, to be handed to another process."""
    return json.dumps(fragment.to_json(), separators=(",", ":"))


def fragment_from(text: str) -> Any:
    from lance.fragment import FragmentMetadata

    return FragmentMetadata.from_json(text)


def read_new_rows(storage: Storage, ref: TableRef, fragment: Any, columns: Sequence[str]) -> pa.Table:
    """Some columns of a new fragment, in the order of its rows; it belongs to no version yet.

    Columns of plain types only: a blob's bytes are not in the file.
    """
    import pyarrow as pa
    from lance.file import LanceFileReader

    (data_file,) = fragment.files
    place = storage.location.child(f"{ref.directory}/data/{file_name(data_file)}")
    with lance_failures(ref, "reading staged rows of"):
        reader = LanceFileReader(place, storage_options=storage.lance_options, columns=list(columns))
        batches = reader.read_all(batch_size=_READ_BATCH_ROWS).to_batches()
        rows = pa.Table.from_batches(list(batches))
    return rows.select(list(columns)).replace_schema_metadata(None)


def deletion_files(storage: Storage, ref: TableRef, fragments: Sequence[Any]) -> list[StagedFile]:
    """The deletion files that `delete_rows` just wrote for these fragments."""
    return [
        sized(storage, f"{ref.directory}/{fragment.deletion_file.path(fragment.id)}", None)
        for fragment in fragments
        if fragment.deletion_file is not None
    ]


def sized(storage: Storage, path: str, known_size: int | None) -> StagedFile:
    size = known_size or storage.control.size(path)
    if size is None:
        raise InternalError(f"{path} was written a moment ago and is missing")
    return StagedFile(path, size, storage.control.digest(path))
