"""Records that are set aside instead of failing the load, and the file they are written to.

One JSON line for each rejected record: where it was, why, and what it said. A record the
reader could not take is given as it stood; one that broke a rule later, as the load
record it was read as.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph_core.errors import LimitError, StorageError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Origin
from omnigraph_core.rules.violations import InvalidRecords, Violation
from omnigraph_core.schema import EdgeType, EntityType
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN
from omnigraph_core.values.coerce import BLOB_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa


class TooManyRejects(LimitError):
    """More records were bad than the caller allows; nothing was changed."""

    def __init__(self, limit: int, violations: tuple[Violation, ...]) -> None:
        shown = "\n".join(str(violation) for violation in violations[:3])
        super().__init__(f"more than {limit} records were rejected; the first are:\n{shown}")
        self.limit = limit
        self.violations = violations

    def details(self) -> dict[str, object]:
        return {"max_rejects": self.limit, "violations": [each.details() for each in self.violations[:20]]}


@dataclass(slots=True)
class Rejected:
    """One record with everything that is wrong with it."""

    violations: list[Violation] = field(default_factory=list)
    record: bytes | None = None

    def line(self) -> bytes:
        first = self.violations[0]
        content: dict[str, object] = {
            "file": first.source,
            "line": first.line,
            "type": first.type_name,
            "reason": "; ".join(dict.fromkeys(_reason(each) for each in self.violations)),
            "record": _original(self.record),
        }
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _reason(violation: Violation) -> str:
    prop = violation.property
    named = prop is None or f".{prop}" in violation.message
    return violation.message if named else f"{prop}: {violation.message}"


def _original(record: bytes | None) -> object:
    """The record as JSON if it parses, else as text."""
    if record is None:
        return None
    text = record.decode("utf-8", "backslashreplace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class Rejects:
    """All records rejected so far, in the order they were found.

    A record is known by its input and line, so that several violations make one reject.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._found: dict[tuple[str | None, int | None], Rejected] = {}

    def __len__(self) -> int:
        return len(self._found)

    def copy(self) -> Rejects:
        other = Rejects(self._limit)
        other._found = {key: Rejected(list(r.violations), r.record) for key, r in self._found.items()}
        return other

    def add(self, violations: Iterable[Violation]) -> None:
        """Raises TooManyRejects beyond the limit, and InvalidRecords for violations without a record."""
        for violation in violations:
            if violation.line is None:
                raise InvalidRecords((violation,), 1)
            rejected = self._found.setdefault((violation.source, violation.line), Rejected())
            rejected.violations.append(violation)
            rejected.record = rejected.record or violation.record
        if self._limit is not None and len(self._found) > self._limit:
            raise TooManyRejects(self._limit, tuple(each.violations[0] for each in self._found.values()))

    def describe(self, origin: Origin, records: Iterable[bytes]) -> None:
        """Add the content of rejected rows that the reader accepted."""
        for row, record in enumerate(records):
            rejected = self._found.get(origin.place(row))
            if rejected is not None and rejected.record is None:
                rejected.record = record

    def lines(self) -> Iterator[bytes]:
        """By input and line."""
        for _, rejected in sorted(self._found.items(), key=lambda item: (item[0][0] or "", item[0][1] or 0)):
            yield rejected.line()


def record_lines(rows: pa.Table, entity: EntityType) -> Iterator[bytes]:
    """Rows as the load records they could have been read from, without nulls."""
    for row in rows.to_pylist():
        record: dict[str, object] = {"type": entity.name}
        if isinstance(entity, EdgeType):
            record = {"edge": entity.name, "from": row.pop(SRC_COLUMN), "to": row.pop(DST_COLUMN)}
        record["data"] = {name: value for name, value in row.items() if value is not None}
        yield json.dumps(record, ensure_ascii=False, default=_plain).encode("utf-8", "backslashreplace")


def _plain(value: object) -> object:
    """Values that JSON has no form for: dates, and the bytes of blobs."""
    if isinstance(value, date):
        return value.isoformat()
    return BLOB_PREFIX + base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class RejectsFile:
    """The rejects file: temporary until the load is done, and only then under its name.

    A link is followed to the file it names. A pipe or a device has no content that could be
    replaced: it is written into, once the load is done.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.realpath(path))
        self._in_place = self._path.exists() and not self._path.is_file()
        folder = Path(tempfile.gettempdir()) if self._in_place else self._path.parent
        self._unfinished = folder / f".{self._path.name}.{os.getpid()}.tmp"

    def write(self, rejects: Rejects) -> None:
        if self._path.is_dir():
            raise UsageError(f"{self._path} is a directory", field="rejects")
        try:
            with self._unfinished.open("wb") as file:
                file.writelines(rejects.lines())
        except OSError as error:
            self.forget()
            raise self._failed(error) from error

    def keep(self) -> None:
        try:
            if not self._in_place:
                self._unfinished.replace(self._path)
                return
            with self._unfinished.open("rb") as file, self._path.open("wb") as device:
                shutil.copyfileobj(file, device)
        except OSError as error:
            raise self._failed(error) from error

    def forget(self) -> None:
        self._unfinished.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"{self._path} cannot be written: {error.strerror or error}", field="rejects")
