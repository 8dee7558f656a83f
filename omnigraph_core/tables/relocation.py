"""Moved datasets: the manifests of Lance branches name the absolute place they were made in.

A fork reads its parent's files through `base_paths`, so after its directory was moved
or copied it reads from where the graph used to be: nothing at all, or the original.
Opening such a fork is refused (`GraphMoved`) until `relocate_forks` has rewritten the paths.

The rewriting knows four things of Lance's manifest files: the last 16 bytes hold the
position of the manifest message, which is a length and a protobuf; field 18 of it is a
base path; fields 2 and 4 of that are its name (the branch, none for main) and its path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from omnigraph_core.errors import StorageError
from omnigraph_core.tables.branches import list_forks
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_BASE_PATH_FIELD = 18
_NAME_FIELD = 2
_PATH_FIELD = 4

_Field = tuple[int, int, bytes]
"""Field number, wire type, and the payload (of a length-delimited field) or raw bytes."""


def relocate_forks(tables: Tables, ref: TableRef) -> int:
    """Make every version of every fork of a dataset refer to where it is now; returns how many changed.

    Each manifest is replaced atomically, and doing it again changes nothing. Nobody may
    be writing to the dataset.
    """
    changed = 0
    home = tables.uri(ref.on(None))
    for name in list_forks(tables, ref):
        fork = ref.on(name)
        for version in versions_on_disk(tables, fork):
            path = manifest_path(fork, version)
            found = tables.storage.control.get(path)
            if found is None:
                continue
            rewritten = with_base_paths(found.data, home, path)
            if rewritten != found.data:
                tables.storage.control.put(path, rewritten)
                changed += 1
    return changed


def with_base_paths(data: bytes, home: str, path: str) -> bytes:
    """The manifest file with all of its base paths below `home`."""
    try:
        position, major, minor, magic = _FOOTER.unpack(data[-_FOOTER.size :])
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        if magic != b"LANC" or start + length + _FOOTER.size != len(data):
            raise ValueError("not a manifest file as we know it")
        message = b"".join(_relocated(field, home) for field in _fields(data[start : start + length]))
    except (struct.error, IndexError, ValueError) as error:
        raise StorageError(f"{path} cannot be relocated: {error}") from error
    footer = _FOOTER.pack(position, major, minor, magic)
    return data[:position] + _LENGTH.pack(len(message)) + message + footer


def _relocated(field: _Field, home: str) -> bytes:
    number, wire, payload = field
    if number != _BASE_PATH_FIELD:
        return _encoded(field)
    inner = list(_fields(payload))
    names = [text.decode() for inner_number, _, text in inner if inner_number == _NAME_FIELD]
    place = f"{home}/tree/{names[0]}" if names else home
    rewritten = [
        (inner_number, inner_wire, place.encode() if inner_number == _PATH_FIELD else text)
        for inner_number, inner_wire, text in inner
    ]
    return _encoded((number, wire, b"".join(map(_encoded, rewritten))))


def _fields(message: bytes) -> Iterator[_Field]:
    """The top-level fields of a protobuf message, in order, nothing interpreted."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            length, at = _varint(message, at)
            end = at + length
        elif wire == 0:
            _, end = _varint(message, at)
        elif wire in (1, 5):
            end = at + (8 if wire == 1 else 4)
        else:
            raise ValueError(f"wire type {wire}")
        if end > len(message):
            raise ValueError("a field is cut off")
        yield number, wire, message[at:end]
        at = end


def _encoded(field: _Field) -> bytes:
    number, wire, payload = field
    length = _encoded_varint(len(payload)) if wire == 2 else b""
    return _encoded_varint(number << 3 | wire) + length + payload


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
