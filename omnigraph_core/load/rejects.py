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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph_core.errors import LimitError, StorageError, UsageError
from omnigraph_core.rules.changeset import Origin
from omnigraph_core.rules.violations import SHOWN_MAX, InvalidRecords, Violation
from omnigraph_core.schema import EdgeType, EntityType
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN
from omnigraph_core.values.coerce import BLOB_PREFIX

if TYPE_CHECKING:
    import sqlite3

    import pyarrow as pa


class TooManyRejects(LimitError):
    """More records were bad than the caller allows; nothing was changed."""

    has_lines = True

    def __init__(self, limit: int, violations: tuple[Violation, ...]) -> None:
        shown = "\n".join(str(violation) for violation in violations[:3])
        super().__init__(f"more than {limit} records were rejected; the first are:\n{shown}")
        self.limit = limit
        self.violations = violations

    def details(self) -> dict[str, object]:
        return {"max_rejects": self.limit, "violations": [each.details() for each in self.violations[:20]]}


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
    """All records rejected so far, on disk: there may be as many as the input has lines.

    A record is known by its input and line, so that several violations make one reject. Those
    that a record is rejected for by itself stay; those that come of a state of the graph go
    when the load is checked against another one.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sources: dict[str, int] = {}
        self._first: list[Violation] = []
        self._counts = [0, 0]
        self._layer = 0
        self._kept: sqlite3.Connection | None = None

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def by_graph(self) -> int:
        """How many are rejected only because of what the graph says."""
        return self._counts[1]

    def restart(self) -> None:
        """Another state of the graph is looked at."""
        if self._counts[1]:
            self._run("DELETE FROM reasons WHERE layer = 1")
            self._run("DELETE FROM records WHERE layer = 1")
        self._counts[1], self._layer = 0, 1
        self._first = self._first[: self._counts[0]]

    def add(self, violations: Sequence[Violation]) -> None:
        """Raises TooManyRejects beyond the limit, and InvalidRecords for violations without a record."""
        for violation in violations:
            if violation.line is None:
                raise InvalidRecords((violation,), 1)
        places = [(self._number(each.source), each.line) for each in violations]
        found = zip(places, violations, strict=True)
        new = self._insert(
            "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?)",
            [(*place, each.type_name, each.record, self._layer) for place, each in found],
        )
        if len(self._first) < SHOWN_MAX:
            by_place = {(each.source, each.line): each for each in reversed((*self._first, *violations))}
            self._first = list(by_place.values())[::-1][:SHOWN_MAX]
        found = zip(places, violations, strict=True)
        self._insert(
            "INSERT INTO reasons VALUES (?, ?, ?, ?)",
            [(*place, _storable(_reason(each)), self._layer) for place, each in found],
        )
        self._counts[self._layer] += new
        if self._limit is not None and len(self) > self._limit:
            raise TooManyRejects(self._limit, tuple(self._first))

    def describe(self, origin: Origin, records: Iterable[bytes]) -> None:
        """Add the content of rejected rows that the reader accepted."""
        rows = []
        for row, record in enumerate(records):
            source, line = origin.place(row)
            rows.append((record, self._number(source), line))
        self._insert("UPDATE records SET record = ? WHERE source = ? AND line = ? AND record IS NULL", rows)

    def lines(self) -> Iterator[bytes]:
        """By input and line."""
        if self._kept is None:
            return
        self._run("CREATE INDEX IF NOT EXISTS by_place ON reasons (source, line)")
        for name, number in sorted(self._sources.items()):
            found = self._run(
                "SELECT line, type, record, reason FROM records JOIN reasons USING (source, line)"
                " WHERE source = ? ORDER BY line, reasons.rowid",
                (number,),
            )
            for (line, type_name, record), rows in groupby(found, lambda row: row[:3]):
                yield _line(name, line, type_name, record, [row[3] for row in rows])

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _number(self, source: str | None) -> int:
        return self._sources.setdefault(source or "", len(self._sources))

    def _insert(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        with _disk_failures():
            return max(self._database.executemany(statement, rows).rowcount, 0)

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        with _disk_failures():
            return self._database.execute(statement, values)

    @property
    def _database(self) -> sqlite3.Connection:
        """A database without a name is a temporary file, gone with the process."""
        if self._kept is None:
            import sqlite3

            self._kept = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            for statement in _TABLES:
                self._kept.execute(statement)
        return self._kept


_TABLES = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA cache_size = -8192",
    "CREATE TABLE records (source INTEGER, line INTEGER, type TEXT, record BLOB, layer INTEGER,"
    " PRIMARY KEY (source, line)) WITHOUT ROWID",
    "CREATE TABLE reasons (source INTEGER, line INTEGER, reason TEXT, layer INTEGER)",
    "BEGIN",
)


@contextmanager
def _disk_failures() -> Iterator[None]:
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(
            f"cannot keep rejected records in {tempfile.gettempdir()}: {error}",
            hint="set TMPDIR to a directory with room for them",
        ) from error


def _storable(text: str) -> str:
    """Text that UTF-8 can represent; half a surrogate pair is escaped, as it will be in the file."""
    return text.encode("utf-8", "backslashreplace").decode()


def _line(source: str, line: int, type_name: str | None, record: bytes | None, reasons: list[str]) -> bytes:
    content: dict[str, object] = {
        "file": source or None,
        "line": line,
        "type": type_name,
        "reason": "; ".join(dict.fromkeys(reasons)),
        "record": _original(record),
    }
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


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
        self._in_place = os.path.exists(path) and not os.path.isfile(path)
        folder = Path(tempfile.gettempdir()) if self._in_place else self._path.parent
        self._unfinished = folder / f".{self._path.name}.{os.getpid()}.tmp"

    def write(self, rejects: Rejects) -> None:
        if os.path.isdir(self._path):
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
        with suppress(OSError):
            self._unfinished.unlink()

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"{self._path} cannot be written: {error.strerror or error}", field="rejects")
