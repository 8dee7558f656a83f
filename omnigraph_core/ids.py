"""Identifiers: ULIDs, canonical key text, and the FNV-1a hashes of names.

Entity ids and uniqueness tuples are compared as text, so the text of a value must
be the same whichever way the value came in; `canonical_scalar` is that one way.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

from omnigraph_core.errors import BadDataError

_FNV64_OFFSET = 0xCBF29CE484222325
_FNV64_PRIME = 0x100000001B3
_FNV32_OFFSET = 0x811C9DC5
_FNV32_PRIME = 0x01000193

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def new_ulid() -> str:
    """A fresh ULID: 26 characters that sort by the millisecond they were made in."""
    import ulid

    return str(ulid.new())


def now_us() -> int:
    """Microseconds since the epoch, UTC: the unit of every stored time."""
    return time.time_ns() // 1000


def fnv1a64_hex(text: str) -> str:
    """FNV-1a 64 of the UTF-8 bytes, as 16 lower-case hex digits: a table's directory name."""
    value = _FNV64_OFFSET
    for byte in text.encode("utf-8"):
        value = ((value ^ byte) * _FNV64_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def fnv1a32(text: str) -> int:
    """FNV-1a 32 of the UTF-8 bytes; 0 is replaced by 1 so that 0 can mean "no id"."""
    value = _FNV32_OFFSET
    for byte in text.encode("utf-8"):
        value = ((value ^ byte) * _FNV32_PRIME) & 0xFFFFFFFF
    return value or 1


def canonical_scalar(value: object, *, single: bool = False) -> str:
    """The canonical text of one key member.

    `single` says that a float is stored as 32 bits, so that its shortest
    round-trip text is taken at that width. Floats are never written with an
    exponent, and both zeros are `0`.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _canonical_float(value, single=single)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return str((aware - _EPOCH) // timedelta(milliseconds=1))
    if isinstance(value, date):
        return str((value - _EPOCH_DAY).days)
    raise BadDataError(f"a value of type {type(value).__name__} cannot be part of a key")


def _canonical_float(value: float, *, single: bool) -> str:
    if not math.isfinite(value):
        raise BadDataError("a key value must be finite, got " + repr(value))
    if value == 0:
        return "0"
    shortest = _shortest_single(value) if single else repr(value)
    text = format(Decimal(shortest), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shortest_single(value: float) -> str:
    """The shortest decimal text that reads back as the same 32-bit float."""
    (stored,) = struct.unpack("f", struct.pack("f", value))
    for digits in range(1, 10):
        text = f"{stored:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", stored):
            return text
    return repr(stored)


def entity_id(members: Sequence[str]) -> str:
    """The id of a keyed node from the canonical texts of its key members, in declared order."""
    if len(members) == 1:
        return members[0]
    return json.dumps(list(members), ensure_ascii=False, separators=(",", ":"))
