"""A manifest file of Lance's, as far as it can be understood without Lance.

The last 16 bytes hold the position of the manifest message, which is a length and a protobuf.
"""

from __future__ import annotations

import struct

from omnigraph_core.records import dataclass
from omnigraph_core.tables.wire import fields

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_SCHEMA_METADATA_FIELD = 5
_KEY_FIELD, _VALUE_FIELD = 1, 2


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What is before the message, the message, and what the footer says beside its position."""

    before: bytes
    message: bytes
    major: int
    minor: int

    @staticmethod
    def decode(data: bytes) -> ManifestFile:
        """`ValueError` if it is not a manifest file as we know it."""
        try:
            position, major, minor, magic = _FOOTER.unpack(data[-_FOOTER.size :])
            (length,) = _LENGTH.unpack_from(data, position)
        except struct.error as error:
            raise ValueError(str(error)) from error
        start = position + _LENGTH.size
        if magic != _MAGIC or start + length + _FOOTER.size != len(data):
            raise ValueError("not a manifest file as we know it")
        return ManifestFile(data[:position], data[start : start + length], major, minor)

    def encode(self) -> bytes:
        footer = _FOOTER.pack(len(self.before), self.major, self.minor, _MAGIC)
        return self.before + _LENGTH.pack(len(self.message)) + self.message + footer

    def schema_metadata(self) -> dict[str, str]:
        """What the schema of the dataset says about itself."""
        found: dict[str, str] = {}
        for number, _, payload in fields(self.message):
            if number == _SCHEMA_METADATA_FIELD:
                entry = {inner: value for inner, _, value in fields(payload)}
                found[entry.get(_KEY_FIELD, b"").decode()] = entry.get(_VALUE_FIELD, b"").decode()
        return found
