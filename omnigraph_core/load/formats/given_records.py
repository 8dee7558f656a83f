"""Records that the caller holds as Python objects, as JSON lines: read like those of a file.

A record is what a line of JSON says: `{"type": "Person", "data": {…}}`. With a type it is its
columns, as a row of a file has them: `{"name": "Ann", "age": 30}`, for an edge with its ends.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, BinaryIO

from omnigraph_core.errors import BadDataError
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType
from omnigraph_core.schema.files import end_columns
from omnigraph_core.schema.model import SRC_COLUMN
from omnigraph_core.values.coerce import BLOB_PREFIX
from omnigraph_core.values.shown import clipped


class RecordUnfit(BadDataError):
    """An object that no line of JSON could say."""

    def __init__(self, source: str, number: int, problem: str) -> None:
        super().__init__(f"{source}:{number}: {problem}", hint="nothing was loaded")
        self.source, self.number = source, number

    def details(self) -> dict[str, object]:
        return {"file": self.source, "line": self.number}


@dataclass(frozen=True, slots=True)
class GivenRecords:
    """The place of an input that is no file. It can be opened once."""

    name: str
    records: Iterable[object]
    entity: EntityType | None = None
    """The type of all of them; None if each names its own."""

    def size(self) -> None:
        return None

    def open(self) -> BinaryIO:
        return io.BufferedReader(_Lines(self._lines()))

    def _lines(self) -> Iterator[bytes]:
        for number, record in enumerate(self.records, start=1):
            if not isinstance(record, Mapping):
                kind = type(record).__name__
                raise RecordUnfit(self.name, number, f"a record is a mapping, not {kind}")
            content = record if self.entity is None else _load_record(record, self.entity)
            try:
                line = json.dumps(content, default=_plain)
            except (TypeError, ValueError, RecursionError) as error:
                raise RecordUnfit(self.name, number, clipped(str(error))) from error
            yield line.encode("ascii") + b"\n"


class _Lines(io.RawIOBase):
    """Lines as a file."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            if not self._left:
                self._left = next(self._lines, b"")
            if not self._left:
                break
            part, self._left = self._left[: len(view) - filled], self._left[len(view) - filled :]
            view[filled : filled + len(part)] = part
            filled += len(part)
        return filled


def _load_record(columns: Mapping[Any, Any], entity: EntityType) -> dict[str, object]:
    if not isinstance(entity, EdgeType):
        return {"type": entity.name, "data": dict(columns)}
    data, record = dict(columns), {"edge": entity.name}
    for name, column in end_columns(entity).items():
        if name in data:
            record["from" if column == SRC_COLUMN else "to"] = data.pop(name)
    return {**record, "data": data}


def _plain(value: Any) -> object:
    """Values that JSON has no form for, as a load record writes them."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return BLOB_PREFIX + base64.b64encode(value).decode("ascii")
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if hasattr(value, "tolist"):
        return value.tolist()  # numpy: a number, or an array
    raise TypeError(f"a {type(value).__name__} cannot be loaded")
