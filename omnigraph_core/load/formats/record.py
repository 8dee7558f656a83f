"""One record at a time: what was read of it, what is wrong with it, and the good ones as rows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

import pyarrow as pa

from omnigraph_core.ids import canonical_scalar, entity_id
from omnigraph_core.load.formats.given_ids import is_same_key, not_its_id
from omnigraph_core.load.formats.limits import MISTAKES_PER_RECORD_MAX
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import Violation
from omnigraph_core.schema import EntityType, NodeType, Scalar
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.values.columns import column

RESERVED = frozenset(
    {
        "_tombstone",
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)


@dataclass(slots=True)
class Record:
    """A record under examination: the columns read so far, and what was found wrong."""

    source: str
    line: int
    text: bytes
    entity: EntityType | None = None
    given: str | None = None
    """The id it came with, if that is its own with the members of the key in another order."""
    values: dict[str, object] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    @property
    def is_hopeless(self) -> bool:
        """Are so many mistakes known that more would not be read?"""
        return len(self.violations) >= MISTAKES_PER_RECORD_MAX

    def wrong(self, message: str, name: str | None = None) -> None:
        type_name = None if self.entity is None else self.entity.name
        self.violations.append(Violation(message, self.source, self.line, type_name, name, self.text))


@dataclass(slots=True)
class Collected:
    """The good records of one type, as one list of values per column."""

    entity: EntityType
    columns: dict[str, list[object]]
    lines: list[int] = field(default_factory=list)
    given: list[str | None] = field(default_factory=list)

    def append(self, record: Record) -> None:
        self.lines.append(record.line)
        self.given.append(record.given)
        for name, values in self.columns.items():
            values.append(record.values.get(name))

    def typed_rows(self, source: str) -> TypedRows:
        arrays = [self._array(name) for name in self.columns]
        rows = pa.Table.from_arrays(arrays, schema=table_schema(self.entity))
        given = pa.array(self.given, pa.utf8()) if any(each is not None for each in self.given) else None
        return TypedRows(self.entity, rows, source, pa.array(self.lines, pa.int64()), given)

    def _array(self, name: str) -> pa.Array:
        prop = self.entity.find_property(name)
        values = self.columns[name]
        return pa.array(values, pa.utf8()) if prop is None else column(values, prop)


@lru_cache(maxsize=1024)
def near_miss(name: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)` for the closest known name; empty if none is close."""
    folded = {candidate.lower(): candidate for candidate in reversed(known)}
    close = difflib.get_close_matches(name.lower()[:100], folded, n=1, cutoff=0.75)
    return f" (did you mean '{folded[close[0]]}'?)" if close else ""


def finish_identity(record: Record, entity: EntityType) -> None:
    """Checks of a record's id that need all of its values."""
    if isinstance(entity, NodeType) and entity.key is not None:
        _identify(record, entity, entity.key.columns)
    elif record.values.get(ID_COLUMN) == "":
        record.wrong("an id must not be empty", ID_COLUMN)


def _identify(record: Record, entity: NodeType, columns: Sequence[str]) -> None:
    """Give a keyed node its canonical id; an id in the record must have the same members."""
    given = record.values.get(ID_COLUMN)
    members = [record.values.get(name) for name in columns]
    if any(member is None for member in members):
        record.values[ID_COLUMN] = None
        return
    singles = [
        prop is not None and prop.type.scalar is Scalar.F32 for prop in map(entity.find_property, columns)
    ]
    texts = [canonical_scalar(member, single=single) for member, single in zip(members, singles, strict=True)]
    canonical = entity_id(texts)
    if isinstance(given, str) and given != canonical:
        if is_same_key(given, texts):
            record.given = given
        else:
            record.wrong(not_its_id(given, canonical), ID_COLUMN)
    record.values[ID_COLUMN] = canonical
