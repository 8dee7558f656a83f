"""Rows as load records, one JSON object per line, built column by column.

Reading the lines back gives the same rows: ids and nulls are written out, numbers in
their shortest exact form, dates as days, date-times as milliseconds, blobs as base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.export.rows import ordered_rows
from omnigraph_core.schema import EdgeType, EntityType, PropertyType, Scalar
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN, NoSuchTypeError
from omnigraph_core.tables.dataset import Table
from omnigraph_core.values.coerce import BLOB_PREFIX
from omnigraph_core.values.identity import json_escaped

_STRING = PropertyType(Scalar.STRING)


def jsonl_blocks(table: Table, entity: EntityType) -> Iterator[bytes]:
    """The records of one type in the order of their ids, in blocks of whole lines."""
    for rows in ordered_rows(table, entity):
        if rows.num_rows:
            yield jsonl_lines(rows, entity)


def jsonl_lines(rows: pa.Table, entity: EntityType) -> bytes:
    """Whole lines, in the order of the rows."""
    parts: list[pa.Array | str]
    if isinstance(entity, EdgeType):
        ends = [_texts(rows, name, _STRING, entity) for name in (SRC_COLUMN, DST_COLUMN)]
        parts = [f'{{"edge":{json.dumps(entity.name)},"from":', ends[0], ',"to":', ends[1], ',"data":{"id":']
    else:
        parts = [f'{{"type":{json.dumps(entity.name)},"data":{{"id":']
    parts.append(_texts(rows, ID_COLUMN, _STRING, entity))
    for prop in entity.properties:
        parts += [f',"{prop.name}":', _texts(rows, prop.name, prop.type, entity)]
    parts.append("}}\n")
    operands = [pa.scalar(part, pa.large_utf8()) if isinstance(part, str) else part for part in parts]
    lines = pc.binary_join_element_wise(*operands, pa.scalar("", pa.large_utf8()))
    return b"".join(joined_bytes(lines))


def joined_bytes(lines: pa.Array | pa.ChunkedArray) -> Iterator[bytes]:
    """The bytes of the lines, which are contiguous in memory."""
    chunks = lines.chunks if isinstance(lines, pa.ChunkedArray) else [lines]
    for chunk in chunks:
        offsets, characters = chunk.buffers()[1:3]
        bounds = memoryview(offsets).cast("q")
        yield memoryview(characters)[bounds[chunk.offset] : bounds[chunk.offset + len(chunk)]].tobytes()


def _texts(rows: pa.Table, name: str, type_: PropertyType, entity: EntityType) -> pa.Array:
    """The JSON text of every value of a column, `null` for null."""
    values = rows.column(name).combine_chunks()
    try:
        texts = json_texts(values, type_)
    except NotJson as error:
        raise BadDataError(f"{entity.name}.{name} holds {error}, which JSON cannot represent") from None
    return pc.fill_null(texts.cast(pa.large_utf8()), "null")


class NotJson(ValueError):
    """A value without a JSON form; the message says what it is."""


def json_texts(values: pa.Array, type_: PropertyType) -> pa.Array:
    """The JSON text of every value; null stays null. Raises NotJson for a value without one."""
    if type_.scalar is Scalar.VECTOR or type_.is_list:
        return _list_json(values, type_)
    if type_.scalar is Scalar.STRING:
        return _quoted(values)
    if type_.scalar is Scalar.BLOB:
        return _quoted(pa.array([blob_text(each) for each in values.to_pylist()], pa.large_utf8()))
    if type_.scalar in (Scalar.F32, Scalar.F64):
        return _float_json(values)
    if type_.scalar is Scalar.DATE:
        values = values.cast(pa.int32())
    elif type_.scalar is Scalar.DATE_TIME:
        values = values.cast(pa.int64())
    return values.cast(pa.utf8())


def _quoted(values: pa.Array) -> pa.Array:
    quote, nothing = pa.scalar('"', pa.large_utf8()), pa.scalar("", pa.large_utf8())
    return pc.binary_join_element_wise(quote, json_escaped(values).cast(pa.large_utf8()), quote, nothing)


def _float_json(values: pa.Array) -> pa.Array:
    """Shortest exact texts that still say they are no integers; else the sign of a zero would be lost."""
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise NotJson("a number that is not finite")
    return pc.replace_substring_regex(values.cast(pa.utf8()), pattern=r"^(-?\d+)$", replacement=r"\1.0")


def _list_json(values: pa.Array, type_: PropertyType) -> pa.Array:
    single = PropertyType(Scalar.F32 if type_.scalar is Scalar.VECTOR else type_.scalar)
    lists = values.cast(pa.list_(values.type.value_field))
    items = pc.fill_null(json_texts(lists.values, single).cast(pa.utf8()), "null")
    nulls = pc.is_null(lists) if lists.null_count else None
    joined = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, items, mask=nulls), ",")
    joined = joined.cast(pa.large_utf8())
    opened, closed = pa.scalar("[", pa.large_utf8()), pa.scalar("]", pa.large_utf8())
    return pc.binary_join_element_wise(opened, joined, closed, pa.scalar("", pa.large_utf8()))


def blob_text(data: bytes | None) -> str | None:
    """A blob as records write it."""
    return None if data is None else BLOB_PREFIX + base64.b64encode(data).decode("ascii")


def chosen_types(entities: Sequence[EntityType], names: Sequence[str]) -> list[EntityType]:
    """The types to export, in the order of table keys; a name may be that of a node and of an edge."""
    known = {entity.name for entity in entities}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise NoSuchTypeError(unknown[0], (entity.table_key for entity in entities))
    return [entity for entity in entities if not names or entity.name in names]
