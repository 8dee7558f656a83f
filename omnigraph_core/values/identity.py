"""Identity, a column at a time: canonical texts, ids from keys, fresh ids.

The meaning is `omnigraph_core.ids`, value by value; here it is done for millions of
rows without a Python loop over them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.ids import canonical_scalar
from omnigraph_core.schema import EntityType, Key, NodeType, PropertyType, Scalar
from omnigraph_core.values.arrays import any_true, whole

_CROCKFORD = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_LENGTH = 26
# The random half of a ULID is kept as two numbers of 40 bits: eight characters each.
_HALF_BITS = 40

# What `json.dumps(ensure_ascii=False)` escapes, in an order in which no replacement
# touches what an earlier one wrote.
_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPES = _SHORT_ESCAPES | {
    chr(code): f"\\u{code:04x}" for code in range(0x20) if chr(code) not in _SHORT_ESCAPES
}
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'

_STRING = PropertyType(Scalar.STRING)


def canonical_texts(column: pa.Array | pa.ChunkedArray, type_: PropertyType) -> pa.Array:
    """The canonical text of every value, null for null; what `ids.canonical_scalar` says."""
    values = whole(column)
    if type_.scalar is Scalar.STRING:
        return values
    if type_.scalar in (Scalar.F32, Scalar.F64):
        return _float_texts(values)
    if type_.scalar is Scalar.DATE:
        values = values.cast(pa.int32())
    elif type_.scalar is Scalar.DATE_TIME:
        values = values.cast(pa.int64())
    return values.cast(pa.utf8())


def is_keyed(entity: EntityType) -> bool:
    """Do entities of this type get their ids from a key, rather than fresh ones?"""
    return isinstance(entity, NodeType) and entity.key is not None


def key_ids(rows: pa.Table, key: Key, entity: EntityType) -> pa.Array:
    """The ids that keys give to nodes; null where a member is null."""
    return tuple_texts(rows, key.columns, entity)


def tuple_texts(rows: pa.Table, columns: Sequence[str], entity: EntityType) -> pa.Array:
    """The text under which each row's tuple of `columns` is compared; null if a member is null.

    One column gives the canonical text, several a compact JSON array of them, as in
    `ids.entity_id`. Columns that are no property (`id`, `src`, `dst`) are strings.
    """
    texts = []
    for name in columns:
        prop = entity.find_property(name)
        texts.append(canonical_texts(rows.column(name), _STRING if prop is None else prop.type))
    if len(texts) == 1:
        return texts[0]
    quoted: list[pa.Array | pa.Scalar] = [pa.scalar('["')]
    for position, text in enumerate(texts):
        quoted += [pa.scalar('","')] if position else []
        quoted.append(json_escaped(text))
    return pc.binary_join_element_wise(*quoted, pa.scalar('"]'), pa.scalar(""), null_handling="emit_null")


def json_escaped(texts: pa.Array) -> pa.Array:
    """Texts as they appear between the quotes of a JSON string."""
    if not any_true(pc.match_substring_regex(texts, pattern=_NEEDS_ESCAPE)):
        return texts
    for character, escape in _ESCAPES.items():
        texts = pc.replace_substring(texts, pattern=character, replacement=escape)
    return texts


def _float_texts(values: pa.Array) -> pa.Array:
    """Shortest round-trip texts; those that Arrow writes with an exponent are asked of `ids`."""
    single = values.type == pa.float32()
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise BadDataError("a key value must be finite")
    values = pc.if_else(pc.equal(values, 0), pa.scalar(0, values.type), values)
    texts = values.cast(pa.utf8())
    odd = pc.match_substring(texts, "e")
    if not any_true(odd):
        return texts
    chosen = values.filter(odd)
    distinct = pc.unique(chosen)
    written = pa.array([canonical_scalar(value, single=single) for value in distinct.to_pylist()], pa.utf8())
    return pc.replace_with_mask(texts, pc.fill_null(odd, False), written.take(pc.index_in(chosen, distinct)))


def fresh_ids(n: int) -> pa.Array:
    """`n` new ULIDs in ascending order, all of this millisecond; at most 82 million at once."""
    return FreshIds().slice(0, n)


class FreshIds:
    """New ULIDs in ascending order, made when they are asked for and always the same.

    The random 80 bits are drawn once and counted up, as the ULID specification does
    within a millisecond; another process drawing an overlapping range is as unlikely
    as a collision of random ids.
    """

    def __init__(self) -> None:
        self._milliseconds = time.time_ns() // 1_000_000
        # One bit is left free, so that counting up never overflows the 80 bits.
        self._high = secrets.randbits(_HALF_BITS - 1)
        self._low = secrets.randbits(_HALF_BITS)

    def slice(self, start: int, n: int) -> pa.Array:
        """`n` of them from position `start` on. Arrow's 32-bit offsets hold 82 million."""
        counted = np.uint64(self._low + start) + np.arange(n, dtype=np.uint64)
        characters = np.empty((n, _ULID_LENGTH), dtype=np.uint8)
        _write_base32(characters[:, :10], np.uint64(self._milliseconds))
        _write_base32(characters[:, 10:18], np.uint64(self._high) + (counted >> np.uint64(_HALF_BITS)))
        _write_base32(characters[:, 18:], counted & np.uint64((1 << _HALF_BITS) - 1))
        offsets = np.arange(n + 1, dtype=np.int32) * np.int32(_ULID_LENGTH)
        return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(characters))


def _write_base32(out: np.ndarray[Any, Any], number: np.ndarray[Any, Any] | np.uint64) -> None:
    """Write `number` (one, or one per row) into the columns of `out`, five bits per character."""
    alphabet = np.frombuffer(_CROCKFORD, dtype=np.uint8)
    width = out.shape[1]
    for position in range(width):
        shift = np.uint64(5 * (width - 1 - position))
        out[:, position] = alphabet[(number >> shift) & np.uint64(31)]
