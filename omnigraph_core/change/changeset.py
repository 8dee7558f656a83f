"""A change set: what one write wants to be true, table by table, before anything is staged.

Statements of a change, records of a load and (later) the result of a merge all become
one of these; validation and staging know nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph_core.change.identity import tuple_texts
from omnigraph_core.change.parts import WHOLE, Part
from omnigraph_core.change.violations import Violation, Violations
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema

if TYPE_CHECKING:
    import pyarrow as pa


class Verb(StrEnum):
    """What happens to a table; each has exactly one."""

    INSERT = "insert"
    """The rows are new: an id that is there already is a conflict."""
    UPSERT = "upsert"
    """Rows with an id that is there replace it whole; the others are added."""
    REPLACE = "replace"
    """The rows are all there is afterwards."""
    DELETE = "delete"
    """The rows with these ids go; only the column `id` is given."""


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
        import numpy as np
        import pyarrow as pa

        positions = None if start is None else pa.array(np.arange(start, start + len(lines)))
        return cls((source,), pa.repeat(pa.scalar(0, pa.int32()), len(lines)), lines, positions)

    @classmethod
    def joined(cls, parts: Sequence[Origin]) -> Origin:
        """The origin of rows that follow each other."""
        import pyarrow as pa

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
    """The change of one table, wherever its rows are kept.

    A rule that compares rows by a text asks for one part of them after the other.
    """

    entity: EntityType
    verb: Verb
    fresh: bool
    """No committed row can have any of the ids: they were made up a moment ago, or will be."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def part(self, by: Sequence[str], part: Part) -> TableChange:
        """The rows whose text of the columns `by` is in the part."""

    def distinct(self, column: str, part: Part) -> pa.Array:
        """The different texts of a column that are in the part; perhaps of rows that do not count."""
        import pyarrow.compute as pc

        return pc.unique(self.part((column,), part).rows.column(column))

    @property
    def key(self) -> str:
        return self.entity.table_key

    @property
    def has_new_rows(self) -> bool:
        return self.verb is not Verb.DELETE and self.count > 0


@dataclass(frozen=True, slots=True)
class TableChange(Change):
    """A change whose rows are at hand. Each id occurs once; null ones are made up when the
    rows are written."""

    entity: EntityType
    verb: Verb
    rows: pa.Table
    origin: Origin | None = None
    fresh: bool = False

    @property
    def count(self) -> int:
        return int(self.rows.num_rows)

    def part(self, by: Sequence[str], part: Part) -> TableChange:
        return self if part.is_whole else self.filter(part.holds(tuple_texts(self.rows, by, self.entity)))

    def filter(self, mask: pa.Array) -> TableChange:
        """Only the rows for which the mask is true."""
        origin = None if self.origin is None else self.origin.filter(mask)
        return TableChange(self.entity, self.verb, self.rows.filter(mask), origin, self.fresh)

    @property
    def ids(self) -> pa.Array:
        """The ids of the rows; none of those that are still to be made up."""
        return self.rows.column("id").combine_chunks().drop_null()

    def report(
        self,
        violations: Violations,
        rows: pa.Array,
        prop: str | None,
        describe: Callable[[int], str],
    ) -> None:
        """Add one violation for each row index; only those that will be looked at are worded."""

        def word(index: pa.Scalar) -> Violation:
            row = index.as_py()
            source, line = self.origin.place(row) if self.origin else (None, None)
            known = None
            if self.origin is not None and self.origin.positions is not None:
                known = (self.key, self.origin.positions[row].as_py())
            return Violation(describe(row), source, line, self.entity.name, prop, row=known)

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
        """In the order of table keys, so that messages and commits are the same every time."""
        return iter([self.tables[key] for key in sorted(self.tables)])

    @property
    def is_empty(self) -> bool:
        return not any(change.count or change.verb is Verb.REPLACE for change in self)
