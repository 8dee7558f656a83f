"""The parts that a load is put together from: where rows come from, wait, and are staged.

`load.local` and `load.staging` play them for a load in this process, `spark.load` for one
whose rows a Spark job reads. `load.run` knows nothing else of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.identified import Identified
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.load.request import LoadRequest
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Origin
from omnigraph_core.rules.committed import Base
from omnigraph_core.rules.parts import Part
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings
from omnigraph_core.tables.moved import Moved
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.door import Door
from omnigraph_core.write.writable import WritableTable

if TYPE_CHECKING:
    from omnigraph_core.load.run import Load


class KeptRows(Protocol):
    """The rows of one type, in the order they were read; a row is known by its position."""

    @property
    def entity(self) -> EntityType: ...

    @property
    def count(self) -> int: ...

    @property
    def dropped(self) -> int:
        """How many records were rejected before they became rows."""

    @property
    def given_ids(self) -> int:
        """How many rows came with an id."""

    @property
    def key_bytes(self) -> int:
        """What the columns that rules look at take in memory."""

    @property
    def sources(self) -> Sequence[str]:
        """The inputs; a row knows its own by its number."""

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        """An empty table, then some columns and the origin of each row, one fragment at a time."""

    def chosen(self, mask: pa.Array) -> Iterator[tuple[Origin, pa.Table]]:
        """The rows for which the mask is true, with all their columns and their origin."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Checked:
    """What the rules said to rows elsewhere, and of which tables."""

    among: Violations
    violations: Violations
    conflicts: Violations
    key_conflict: tuple[str, str] | None
    reads: Mapping[str, int]
    """The tables that were looked at, with their versions."""

    def is_current(self, base: Base) -> bool:
        """Does it still hold? What was found holds while nothing has moved that was looked at.

        A taken id is asked for again: of a row that it would replace no unique tuple is
        held, which takes the ids of all parts to know.
        """
        if self.key_conflict is not None:
            return False
        return all(base.entry(key).table_version == version for key, version in self.reads.items())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source needs to know to read."""

    door: Door
    schema: Schema
    request: LoadRequest
    budget: MemoryBudget
    record: LoadRecord
    violations: Violations
    """What is wrong with single records goes here."""
    progress: Progress


@dataclass(frozen=True, slots=True)
class Read:
    """What came of reading, by table key."""

    rows: Mapping[str, KeptRows]
    inputs: Callable[[], Sequence[Mapping[str, object]]]
    """What the rows were read from: name, sha256, bytes. May take a moment."""
    checked: Checked | None = None


class RowStaging(Protocol):
    """Writes rows into fragments, and keeps these when the load has to be planned again."""

    @property
    def is_long(self) -> bool:
        """Is this more than a load of a moment? Then it is not planned under the lock."""

    @property
    def files(self) -> frozenset[str]:
        """Everything written so far, which another attempt can use again."""

    def begin(self, read_base: Callable[[], Snapshot]) -> None:
        """Called once, before the first attempt to publish."""

    def begin_attempt(self) -> None:
        """Called before the rows are checked; raises if they are gone and cannot be had again."""

    def stage(
        self, writable: WritableTable, identified: Identified, parts: tuple[Part, ...], operation_id: str
    ) -> StagedWrite:
        """The rows of one table as a write on this version of it; written only if they are not yet."""

    def restage(
        self, writable: WritableTable, identified: Identified, moved: Moved, operation_id: str
    ) -> StagedWrite:
        """The same rows on a later version, in which the rows they replace are the same; see `overtaken`."""

    def guard(self) -> None:
        """Raise if others took this load for dead and removed what it had written."""

    def hand_over(self) -> None:
        """The sidecar names these writes from now on; its recovery decides about the files."""

    def stop(self) -> None:
        """Write no more: another table of the load has failed."""


class Source(Protocol):
    """Where the rows of a load come from, and where they wait."""

    @property
    def writes_tables(self) -> bool:
        """Does reading write to the tables of the branch? Then the branch has to be there before."""

    def read(self, reading: Reading) -> Read: ...

    def staging(self, reading: Reading) -> RowStaging:
        """For the rows that were read."""

    def close(self) -> None: ...


Asked = tuple[Sequence[str], Format | None, str | None]
"""Paths, format and type, as the caller gave them."""


@runtime_checkable
class Elsewhere(Protocol):
    """Another place where rows are read: the options of a Spark job, or DataFrames, which have no paths."""

    def source(self, load: Load, asked: Asked, settings: Settings) -> Source: ...
