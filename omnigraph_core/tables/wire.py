"""Protobuf messages taken apart and put together again, with nothing interpreted.

Enough to change one field of a message of Lance's and leave the others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

WireField = tuple[int, int, bytes]
"""Field number, wire type, and the payload (of a length-delimited field) or raw bytes."""


def fields(message: bytes) -> Iterator[WireField]:
    """The top-level fields of a protobuf message, in order, nothing interpreted."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            length, at = varint(message, at)
            end = at + length
        elif wire == 0:
            _, end = varint(message, at)
        elif wire in (1, 5):
            end = at + (8 if wire == 1 else 4)
        else:
            raise ValueError(f"wire type {wire}")
        if end > len(message):
            raise ValueError("a field is cut off")
        yield number, wire, message[at:end]
        at = end


def encoded(field: WireField) -> bytes:
    number, wire, payload = field
    length = encoded_varint(len(payload)) if wire == 2 else b""
    return encoded_varint(number << 3 | wire) + length + payload


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
