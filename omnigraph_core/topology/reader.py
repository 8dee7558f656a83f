"""What topology asks of the read it works for. The floor of reads is above this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from omnigraph_core.manifest.snapshot import SubTableEntry
    from omnigraph_core.tables.dataset import Table
    from omnigraph_core.topology.arrays import IntArray
    from omnigraph_core.topology.idtable import IdTable
    from omnigraph_core.topology.node_numbers import NodeNumbers


class CodedEntities(Protocol):
    """The nodes or edges of one type at one version. A code is the number a read gives to an id
    when it meets it; a position is its place in the numbering, the same for every read."""

    @property
    def table(self) -> Table: ...

    @property
    def entry(self) -> SubTableEntry: ...

    @property
    def row_count(self) -> int: ...

    @property
    def size(self) -> int:
        """How many have been met; all codes are below it."""

    @property
    def codes_are_positions(self) -> bool: ...

    def numbering(self) -> IdTable | NodeNumbers:
        """All ids of the type."""

    @property
    def numbered_by(self) -> str | None:
        """The index on disk whose numbering it is, if it is one's; those of two are not the same."""

    def ids_of(self, codes: IntArray) -> pa.Array: ...

    def codes_of(self, ids: pa.Array) -> IntArray:
        """Ids not met before get the next codes."""

    def positions_of(self, codes: IntArray) -> IntArray: ...

    def codes_at(self, positions: IntArray) -> IntArray: ...

    def met(self, pieces: Iterable[pa.Array]) -> IntArray:
        """Codes of ids none of which occurs twice."""

    def keep(self, name: str, codes: IntArray, pieces: Sequence[pa.Array]) -> None:
        """Remember a property that was read along the way."""


class Limits(Protocol):
    """How long a read may take and how much it may hold; every method raises when that is used up."""

    @property
    def memory_bytes(self) -> int: ...

    def check_time(self) -> None: ...

    def check_rows(self, rows: int, columns: int) -> None: ...

    def check_bytes(self, rows: int, needed: int) -> None: ...


class StepLog(Protocol):
    """What a read remembers of its steps."""

    def count_read(self, rows: int, size: int) -> None: ...

    def note(self, text: str) -> None: ...
