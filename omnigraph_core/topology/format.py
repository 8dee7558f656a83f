"""A file of arrays: a header that says where each of them is, then the arrays as they are in memory.

    magic (8) · length of the header (4) · its checksum (4) · header, JSON · arrays, at multiples of 64

The header has the file's own name, so that a file that was put in the place of another is told apart.
The arrays have checksums, too. They are asked for by a deep look of `doctor` and of what came over a network,
not on opening: reading everything would cost more than most queries.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from omnigraph_core.jsontext import parse_json

if TYPE_CHECKING:
    import numpy.typing as npt

    Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

_MAGIC = b"OGTOPO1\n"
_START = struct.Struct("<8sII")
_ALIGNMENT = 64
_TYPES = {"|u1", "<i4", "<u4", "<u8"}


class NotTopology(ValueError):
    """The bytes are not a file of arrays, or not the one that was asked for."""


def encoded(name: str, arrays: Arrays) -> bytes:
    """The bytes of a file that is to be called `name`."""
    entries: list[list[Any]] = [
        [key, array.dtype.str, 0, len(array), _checksum(array)] for key, array in arrays.items()
    ]
    # Room for the places, which are not known before the header is.
    room = len(_header(name, entries, 0)) + 32 * (len(entries) + 1)
    place = _aligned(_START.size + room)
    for entry, array in zip(entries, arrays.values(), strict=True):
        entry[2] = place
        place = _aligned(place + array.nbytes)
    header = _header(name, entries, place).ljust(room)
    pieces: list[bytes | memoryview] = [_START.pack(_MAGIC, len(header), zlib.crc32(header)), header]
    length = _START.size + len(header)
    for entry, array in zip(entries, arrays.values(), strict=True):
        pieces += [bytes(entry[2] - length), np.ascontiguousarray(array).data]
        length = entry[2] + array.nbytes
    pieces.append(bytes(place - length))
    return b"".join(pieces)


def decoded(name: str, data: memoryview) -> Arrays:
    """The arrays, without copying them. NotTopology if this is not the whole file of that name."""
    header = _read_header(data)
    try:
        if header["name"] != name or header["size"] != len(data):
            raise NotTopology(f"{name}: another file, or not whole")
        return {key: _array(data, *place) for key, *place, _ in header["arrays"]}
    except (KeyError, TypeError, ValueError) as error:
        raise NotTopology(f"{name}: {error}") from error


def is_file(name: str, data: memoryview) -> bool:
    """Does it say that it is this file, and whole?"""
    try:
        decoded(name, data)
    except NotTopology:
        return False
    return True


def is_sound(name: str, data: memoryview) -> bool:
    """Has every array the checksum it was written with?"""
    try:
        arrays = decoded(name, data)
        sums = {key: checksum for key, *_, checksum in _read_header(data)["arrays"]}
    except NotTopology:
        return False
    return all(_checksum(array) == sums[key] for key, array in arrays.items())


def _array(data: memoryview, type_: str, place: int, count: int) -> npt.NDArray[Any]:
    if type_ not in _TYPES or place < 0 or count < 0 or place % _ALIGNMENT:
        raise NotTopology(f"an array of {type_} at {place}")
    return np.frombuffer(data, np.dtype(type_), count, place)


def _read_header(data: memoryview) -> Any:
    if len(data) < _START.size:
        raise NotTopology("too short")
    magic, length, checksum = _START.unpack_from(data)
    header = bytes(data[_START.size : _START.size + length])
    if magic != _MAGIC or len(header) != length or zlib.crc32(header) != checksum:
        raise NotTopology("no header")
    found = parse_json(header)
    if not isinstance(found, dict):
        raise NotTopology("no header")
    return found


def _header(name: str, entries: list[list[Any]], size: int) -> bytes:
    return json.dumps({"name": name, "size": size, "arrays": entries}).encode()


def _checksum(array: npt.NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data) if len(array) else 0


def _aligned(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT
