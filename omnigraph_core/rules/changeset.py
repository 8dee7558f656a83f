"""A change set: what one write wants to be true, table by table, before anything is staged.

Statements of a change, records of a load and (later) the result of a merge all become
one of these; validation and staging know nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import InternalError
from omnigraph_core.records import dataclass
from omnigraph_core.rules.parts import WHOLE, Part
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.values.identity import tuple_texts


class Newness(StrEnum):
    """What is known about the ids of the rows of a change."""

    FRESH = "fresh"
    """They were made up a moment ago, or will be: no committed row can have one."""
    REQUIRED = "required"
    """One that a committed row has already is a conflict."""
    OPEN = "open"
    """A row whose id is there replaces it whole; the others are added."""


NO_IDS = pa.array([], pa.utf8())


@dataclass(frozen=True, slots=True)
class Origin:
    """Where each row was read: an index into `sources` and a line; for messages."""

    sources: tuple[str, ...]
    source: pa.Array
    lines: pa.Array
    positions: pa.Array | None = None
    """Where each row is among all that were read, for whoever may have to set it aside."""

    @classmethod
    def of(cls, source: str, lines: pa.Array, start: int | None = None) -> Origin:
        """Rows that all come from one source; `start` is the position of the first."""
        positions = None if start is None else pa.array(np.arange(start, start + len(lines)))
        return cls((source,), pa.repeat(pa.scalar(0, pa.int32()), len(lines)), lines, positions)

    @classmethod
    def joined(cls, parts: Sequence[Origin]) -> Origin:
        """The origin of rows that follow each other."""
        sources = tuple(dict.fromkeys(name for part in parts for name in part.sources))
        numbers = []
        for part in parts:
            places = pa.array([sources.index(name) for name in part.sources], pa.int32())
            numbers.append(places.take(part.source))
        lines = pa.concat_arrays([part.lines for part in parts])
        places = [part.positions for part in parts if part.positions is not None]
        return cls(sources, pa.concat_arrays(numbers), lines, pa.concat_arrays(places) if places else None)

    def filter(self, mask: pa.Array) -> Origin:
        positions = None if self.positions is None else self.positions.filter(mask)
        return Origin(self.sources, self.source.filter(mask), self.lines.filter(mask), positions)

    def place(self, row: int) -> tuple[str, int]:
        return self.sources[self.source[row].as_py()], self.lines[row].as_py()


class Change(ABC):
    """The change of one table, wherever its rows are kept: rows to write, and ids of rows that go.

    A rule that compares rows by a text asks for one part of them after the other.
    """

    entity: EntityType
    newness: Newness
    replaces: bool
    """Are the rows all there is afterwards? Then nothing is in `removed`."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are to write."""

    @property
    def removed(self) -> pa.Array:
        """The ids of committed rows that go; none of them is the id of a row."""
        return NO_IDS

    @abstractmethod
    def part(self, by: Sequence[str], part: Part) -> TableChange:
        """The rows whose text of the columns `by` is in the part; `removed` stays whole."""

    def distinct(self, column: str, part: Part) -> pa.Array:
        """The distinct texts of a column in this part; may include rows that do not count."""
        return pc.unique(self.part((column,), part).rows.column(column))

    @property
    def key(self) -> str:
        return self.entity.table_key

    @property
    def has_rows(self) -> bool:
        return self.count > 0

    @property
    def only_adds(self) -> bool:
        """Does every committed row stay as it is?"""
        return not self.replaces and self.newness is not Newness.OPEN and not len(self.removed)

    @property
    def is_empty(self) -> bool:
        return not (self.count or self.replaces or len(self.removed))


@dataclass(frozen=True, slots=True)
class TableChange(Change):
    """A change whose rows are at hand. Each id occurs once; null ones are made up when the
    rows are written."""

    entity: EntityType
    rows: pa.Table
    origin: Origin | None = None
    newness: Newness = Newness.OPEN
    replaces: bool = False
    removed: pa.Array = field(default_factory=lambda: NO_IDS)

    def __post_init__(self) -> None:
        if self.replaces and len(self.removed):
            raise InternalError(f"{self.key}: all rows are replaced, and some removed besides")

    @classmethod
    def removing(cls, entity: EntityType, ids: pa.Array) -> TableChange:
        """The rows with these ids go, and none comes."""
        return cls(entity, table_schema(entity).empty_table(), removed=ids)

    @property
    def count(self) -> int:
        return int(self.rows.num_rows)

    def part(self, by: Sequence[str], part: Part) -> TableChange:
        return self if part.is_whole else self.filter(part.holds(tuple_texts(self.rows, by, self.entity)))

    def filter(self, mask: pa.Array) -> TableChange:
        """Only the rows for which the mask is true."""
        origin = None if self.origin is None else self.origin.filter(mask)
        return replace(self, rows=self.rows.filter(mask), origin=origin)

    @property
    def ids(self) -> pa.Array:
        """The ids of the rows, without those yet to be generated."""
        return self.rows.column("id").combine_chunks().drop_null()

    @property
    def leaving(self) -> pa.Array:
        """The ids of committed rows that may give way to a row, or go."""
        if self.newness is Newness.FRESH:
            return self.removed
        return pa.concat_arrays([self.ids, self.removed]) if len(self.removed) else self.ids

    def report(
        self,
        violations: Violations,
        rows: pa.Array,
        prop: str | None,
        describe: Callable[[int], str],
    ) -> None:
        """Add one violation per row index; only those that will be shown get a message."""

        def word(index: pa.Scalar) -> Violation:
            row = index.as_py()
            source, line = self.origin.place(row) if self.origin else (None, None)
            known = None
            if self.origin is not None and self.origin.positions is not None:
                known = (self.key, self.origin.positions[row].as_py())
            entity_id = self.rows.column("id")[row].as_py()
            return Violation(
                describe(row), source, line, self.entity.name, prop, row=known, entity_id=entity_id
            )

        violations.add_worded(rows, word)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All tables that change, by table key."""

    schema: Schema
    tables: Mapping[str, Change] = field(default_factory=dict)
    parts: tuple[Part, ...] = (WHOLE,)
    """What rules that compare rows are asked of, one after the other."""

    def of(self, entity: EntityType) -> Change | None:
        return self.tables.get(entity.table_key)

    def __iter__(self) -> Iterator[Change]:
        """In table-key order, so that messages and commits are deterministic."""
        return iter([self.tables[key] for key in sorted(self.tables)])

    @property
    def is_empty(self) -> bool:
        return all(change.is_empty for change in self)
