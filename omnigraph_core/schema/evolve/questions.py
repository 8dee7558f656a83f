"""What only the data can tell: the questions of a plan, and their answers.

A question is about the image a table would have after the migration: live rows of the branch's
head, columns under their new names, defaults filled in, values widened. It asks which rows break
a rule, and the answer is how many, with some of their ids. No row is the good answer.
"""

from __future__ import annotations

from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import Cardinality, Check, Range, Unique


@dataclass(frozen=True, slots=True)
class _About:
    """`table` is the table key after the migration."""

    table: str


@dataclass(frozen=True, slots=True)
class NoRows(_About):
    """A required property without default is added: every row counts, for none has a value."""

    property: str


@dataclass(frozen=True, slots=True)
class NoNulls(_About):
    """Rows in which the property is null."""

    property: str


@dataclass(frozen=True, slots=True)
class OneOf(_About):
    """Rows whose value is none of these; null is exempt."""

    property: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distinct(_About):
    """All rows that share their tuple with another; a null in it exempts. `src`, `dst` may be in it."""

    constraint: Unique


@dataclass(frozen=True, slots=True)
class Within(_About):
    """Rows outside the bounds; null is exempt."""

    constraint: Range


@dataclass(frozen=True, slots=True)
class Matches(_About):
    """Rows in whose value the pattern is not found; null is exempt."""

    constraint: Check


@dataclass(frozen=True, slots=True)
class Fits(_About):
    """Source nodes with too few or too many edges; a node without an edge is exempt.

    The samples are ids of source nodes.
    """

    cardinality: Cardinality


Question = NoRows | NoNulls | OneOf | Distinct | Within | Matches | Fits


@dataclass(frozen=True, slots=True)
class Answer:
    """How many rows break the rule, and the first few of their ids."""

    rows: int
    samples: tuple[str, ...] = ()
