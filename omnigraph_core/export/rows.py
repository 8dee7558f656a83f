"""The rows of a type in the order of their ids, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph_core.schema import EntityType, Scalar
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import in_filter

# One blob may be as large as memory allows, so rows with blobs come in small numbers.
_BLOB_BATCH_ROWS = 64


def ordered_rows(table: Table, entity: EntityType) -> Iterator[pa.Table]:
    """All rows by ascending id (by code point). Blob columns hold their bytes."""
    names = list(entity.columns)
    if not blob_columns(entity):
        for batch in table.scan(names, order_by="id"):
            yield pa.Table.from_batches([batch])
        return
    ids = table.scan(["id"], order_by="id").read_all().column("id")
    for start in range(0, len(ids), _BLOB_BATCH_ROWS):
        some = ids.slice(start, _BLOB_BATCH_ROWS)
        yield table.read(names, in_filter(some), blobs=True).sort_by("id")


def blob_columns(entity: EntityType) -> list[str]:
    return [prop.name for prop in entity.properties if prop.type.scalar is Scalar.BLOB]
