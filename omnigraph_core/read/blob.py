"""One blob of one entity: how large it is, and its bytes a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.errors import NotFoundError
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Scalar, Schema
from omnigraph_core.tables.blobs import BlobFile, open_blob
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.keys import quote_text

_PIECE_BYTES = 4 << 20


class BlobNotFound(NotFoundError):
    """There is no such entity, no such property, or it has no value."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A value of a blob property; `size` is in bytes."""

    type_name: str
    entity_id: str
    property_name: str
    file: BlobFile

    @property
    def size(self) -> int:
        return self.file.size

    def read(self) -> bytes:
        """All of it at once."""
        return b"".join(self.pieces())

    def pieces(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The content in order, with at most one piece in memory; or `length` bytes of it from `offset`."""
        start = min(offset, self.size)
        left = self.size - start if length is None else min(length, self.size - start)
        self.file.seek(start)
        while left > 0 and (piece := self.file.read(min(_PIECE_BYTES, left))):
            left -= len(piece)
            yield piece


def find_blob(
    tables: Tables, snapshot: Snapshot, schema: Schema, kind: str, type_name: str, entity_id: str, name: str
) -> Blob:
    """The blob of an entity at a snapshot."""
    entity: EntityType = schema.node(type_name) if kind == "node" else schema.edge(type_name)
    prop = entity.find_property(name)
    if prop is None or prop.type.scalar is not Scalar.BLOB:
        known = [each.name for each in entity.properties if each.type.scalar is Scalar.BLOB]
        hint = f"blob properties are: {', '.join(known) or 'none'}"
        raise BlobNotFound(f"{entity.name} has no blob property '{name}'", hint=hint)
    entry = snapshot.entry(entity.table_key)
    table = tables.open(entry.ref, entry.table_version)
    found = table.read(["id", name], f"id = {quote_text(entity_id)}", with_row_id=True)
    if not found.num_rows:
        raise BlobNotFound(f"there is no {entity.name} with the id '{entity_id}'")
    described = found.column(name)[0].as_py()
    is_none = described is None or (prop.type.nullable and table.is_foreign and not described["size"])
    if is_none:
        raise BlobNotFound(f"{entity.name} '{entity_id}' has no {name}")
    return Blob(entity.name, entity_id, name, open_blob(table, name, found.column("_rowid")[0].as_py()))
