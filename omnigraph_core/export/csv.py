"""Rows of one type as CSV that the reader of CSV takes back without loss.

A header, then the rows by id. Null is an empty field and the empty text `""`; other texts
are quoted where they have to be. Dates and date-times are ISO texts, lists and vectors
JSON as in load records, blobs `base64:…`, numbers in their shortest exact form.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.export.jsonl import NotJson, blob_text, joined_bytes, json_texts
from omnigraph_core.export.rows import ordered_rows
from omnigraph_core.schema import EntityType, PropertyType, Scalar
from omnigraph_core.schema.files import file_columns
from omnigraph_core.tables.dataset import Table

_STRING = PropertyType(Scalar.STRING)
_NEEDS_QUOTES = '[",\\r\\n]'


def csv_blocks(table: Table, entity: EntityType) -> Iterator[bytes]:
    """The header, then the rows of one type in the order of their ids, in blocks of whole records."""
    yield csv_header(entity)
    for rows in ordered_rows(table, entity):
        if rows.num_rows:
            yield csv_records(rows, entity)


def csv_header(entity: EntityType) -> bytes:
    return ",".join(file_columns(entity)).encode() + b"\n"


def csv_records(rows: pa.Table, entity: EntityType) -> bytes:
    """Whole records, in the order of the rows."""
    fields = [_fields(rows.column(name).combine_chunks(), name, entity) for name in entity.columns]
    records = pc.binary_join_element_wise(*fields, pa.scalar(",", pa.large_utf8()))
    end, nothing = pa.scalar("\n", pa.large_utf8()), pa.scalar("", pa.large_utf8())
    return b"".join(joined_bytes(pc.binary_join_element_wise(records, end, nothing)))


def _fields(values: pa.Array, name: str, entity: EntityType) -> pa.Array:
    """A column as CSV fields; empty for null."""
    prop = entity.find_property(name)
    try:
        texts = _texts(values, _STRING if prop is None else prop.type)
    except NotJson as error:
        raise BadDataError(
            f"{entity.name}.{name} holds {error}, which CSV cannot represent", hint="export it as Parquet"
        ) from None
    return pc.fill_null(texts.cast(pa.large_utf8()), "")


def _texts(values: pa.Array, type_: PropertyType) -> pa.Array:
    if type_.scalar is Scalar.VECTOR or type_.is_list:
        return _quoted(json_texts(values, type_))
    if type_.scalar is Scalar.STRING:
        return _quoted(values)
    if type_.scalar is Scalar.BLOB:
        return pa.array([blob_text(each) for each in values.to_pylist()], pa.large_utf8())
    if type_.scalar is Scalar.DATE:
        return values.cast(pa.utf8())
    if type_.scalar is Scalar.DATE_TIME:
        moments = values.view(pa.int64()).view(pa.timestamp("ms")).cast(pa.utf8())
        return pc.binary_join_element_wise(pc.replace_substring(moments, " ", "T"), "Z", "")
    return json_texts(values, type_)


def _quoted(texts: pa.Array) -> pa.Array:
    """Texts, quoted only where necessary: most read better without."""
    texts = texts.cast(pa.large_utf8())
    if pc.any(pc.match_substring(texts, pattern="\0")).as_py():
        raise NotJson("a NUL character")
    needing = pc.or_(pc.match_substring_regex(texts, pattern=_NEEDS_QUOTES), pc.equal(texts, ""))
    if not pc.any(needing).as_py():
        return texts
    quote, nothing = pa.scalar('"', pa.large_utf8()), pa.scalar("", pa.large_utf8())
    doubled = pc.replace_substring(texts, pattern='"', replacement='""')
    return pc.if_else(needing, pc.binary_join_element_wise(quote, doubled, quote, nothing), texts)
