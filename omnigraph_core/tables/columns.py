"""Columns as Lance stores them: a name and a type for people, an id that the data goes by.

pylance has no public way to make a schema with given ids. It does hand a schema out as one
protobuf message per field, children after their parents, and takes them back; of such a message
this module knows four fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.metadata import schema_metadata
from omnigraph_core.tables.wire import WireField, encoded, encoded_varint, fields, varint

if TYPE_CHECKING:
    import pyarrow as pa

_NAME, _ID, _PARENT, _NULLABLE = 2, 3, 4, 6
_VARINT, _TEXT = 0, 2
_TOP = -1

_HIGHEST_ID = "omnigraph.highest_field_id"
_ROOTS = "omnigraph.field_roots"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """One column: the messages of its field and of the fields inside it, in order."""

    name: str
    ids: tuple[int, ...]
    messages: tuple[bytes, ...]

    def called(self, name: str, *, nullable: bool) -> StoredColumn:
        """The same stored values, under this name."""
        top, *inside = self.messages
        texts: list[WireField] = [(_NAME, _TEXT, name.encode()), _number(_NULLABLE, int(nullable))]
        return StoredColumn(name, self.ids, (_changed(top, texts), *inside))


def stored_columns(schema: Any) -> dict[str, StoredColumn]:
    """The columns of a Lance schema by name, in its order."""
    found: list[list[bytes]] = []
    for message in _messages(schema):
        if _read(message, _PARENT) == _TOP:
            found.append([message])
        else:
            found[-1].append(message)
    return {column.name: column for column in map(_column, found)}


def stored_shape(field: pa.Field) -> tuple[pa.DataType | None, bytes | None]:
    """The type as it is stored, or the name of its extension, whether Arrow knows that or not."""
    stored = getattr(field.type, "storage_type", field.type)
    named = getattr(field.type, "extension_name", None)
    metadata = (field.metadata or {}).get(b"ARROW:extension:name")
    extension = metadata if named is None else named.encode()
    # Of a blob the original declares fewer fields, all of which are optional.
    return stored if extension is None else None, extension


def new_column(field: pa.Field, first_id: int) -> StoredColumn:
    """A column that no data file knows yet, under this id and the ones that follow."""
    import pyarrow as pa
    from lance.schema import LanceSchema

    messages = _messages(LanceSchema.from_pyarrow(pa.schema([field])))
    return _column([_shifted(message, first_id) for message in messages])


def field_roots(table: Table) -> dict[str, int]:
    """The columns by name, each with the id that it was made under.

    A column that is written anew, in a wider type, has a new id and stays what it was. So has one
    that a merge brings back.
    """
    made = {field.name(): field.id() for field in table.lance.lance_schema.fields()}
    roots = _roots(table)
    return {name: roots.get(id_, id_) for name, id_ in made.items()}


def _roots(table: Table) -> dict[int, int]:
    known = json.loads(schema_metadata(table).get(_ROOTS, "{}"))
    return {int(id_): root for id_, root in known.items()}


def lance_schema(
    table: Table, columns: Sequence[StoredColumn], roots: Mapping[int, int] | None = None
) -> Any:
    """A Lance schema of these columns for the table, which remembers the ids that were given away.

    `roots` has the first ids of columns that got new ones.
    """
    from lance.schema import LanceSchema

    ids = [id_ for column in columns for id_ in column.ids]
    metadata = schema_metadata(table) | {_HIGHEST_ID: str(max(highest_id(table), *ids))}
    known = {id_: root for id_, root in {**_roots(table), **(roots or {})}.items() if id_ in set(ids)}
    if known or _ROOTS in metadata:
        metadata[_ROOTS] = json.dumps({str(id_): root for id_, root in known.items()})
    as_bytes = json.dumps({key: list(value.encode()) for key, value in metadata.items()})
    return LanceSchema._from_protos(as_bytes, *(each for column in columns for each in column.messages))


def highest_id(table: Table) -> int:
    """The highest field id that a column or a data file of this table ever had.

    A column that is dropped leaves the files when they are rewritten. Its id still means it in
    older versions, with which this one is compared.
    """
    known = [id_ for column in stored_columns(table.lance.lance_schema).values() for id_ in column.ids]
    known.append(int(schema_metadata(table).get(_HIGHEST_ID, 0)))
    for fragment in table.lance.get_fragments():
        known += [id_ for file in fragment.metadata.files for id_ in file.fields]
    return max(known)


def _messages(schema: Any) -> Iterator[bytes]:
    _, parts = schema.__reduce__()
    yield from parts[1:]


def _column(messages: list[bytes]) -> StoredColumn:
    name = next(value for number, _, value in fields(messages[0]) if number == _NAME)
    return StoredColumn(name.decode(), tuple(_read(each, _ID) for each in messages), tuple(messages))


def _shifted(message: bytes, offset: int) -> bytes:
    parent = _read(message, _PARENT)
    moved = [_number(_ID, _read(message, _ID) + offset)]
    if parent != _TOP:
        moved.append(_number(_PARENT, parent + offset))
    return _changed(message, moved)


def _changed(message: bytes, values: list[WireField]) -> bytes:
    """The message with other values of some fields. A zero is an absent field."""
    numbers = {number for number, _, _ in values}
    kept = [field for field in fields(message) if field[0] not in numbers]
    added = [field for field in values if field[2] != b"\0"]
    return b"".join(map(encoded, sorted([*kept, *added], key=lambda field: field[0])))


def _number(number: int, value: int) -> WireField:
    return number, _VARINT, encoded_varint(value)


def _read(message: bytes, wanted: int) -> int:
    for number, _, payload in fields(message):
        if number == wanted:
            value, _ = varint(payload, 0)
            return value - 2**64 if value >= 2**63 else value
    return 0
