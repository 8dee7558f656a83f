"""How a filter is best asked of a table: with its indexes or without, its columns early or late.

Lance asks an index for every condition it has one for, and fetches strings row by row for what passes.
Where much of a table passes, reading the columns is several times as fast; some rows of the table tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.read.plan.steps import ScanNodes
from omnigraph_core.records import dataclass
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, list_indexes, serving
from omnigraph_core.tables.memory import matching_rows

if TYPE_CHECKING:
    from omnigraph_core.read.session.entities import Entities

_ROWS_MIN = 50_000

# Enough to tell one in a hundred from none.
_SAMPLED_ROWS = 4_096

# Measured on 1 M rows: beyond 1 % a scan is faster than a BTREE, and beyond 3 to 10 % reading all
# columns is faster than fetching those of the rows that pass.
_SELECTIVE_PART = 0.01
_EARLY_PART = 0.05


@dataclass(frozen=True, slots=True)
class ScanWay:
    """How a scan is done; it never shows in an answer."""

    use_index: bool = True
    early: bool = False


def way_for_many(entities: Entities, passing: int) -> ScanWay:
    """The way to read so many rows, which are known to pass, once more with other columns."""
    is_many = passing > entities.row_count * _EARLY_PART
    return ScanWay(use_index=not is_many, early=is_many)


def scan_way(entities: Entities, scan: ScanNodes) -> ScanWay:
    """Without an index if the only conditions that have one let too much through."""
    if not scan.ranges or entities.row_count < _ROWS_MIN:
        return ScanWay()
    indexed = list_indexes(entities.table)
    names = {name for name, _ in scan.ranges} | scan.equal
    helped = {name for name in names if serving(indexed, IndexSpec(name, IndexKind.BTREE)) is not None}
    if helped & scan.equal:
        return ScanWay()
    rows = entities.sampled([name for name, _ in scan.ranges], _SAMPLED_ROWS)
    shares = {
        name: len(matching_rows(rows.select([name]), where, entities.table.ref)) / max(1, rows.num_rows)
        for name, where in scan.ranges
    }
    use_index = any(share <= _SELECTIVE_PART for name, share in shares.items() if name in helped)
    passing = 1.0
    for share in shares.values():
        passing *= share
    return ScanWay(use_index, early=not use_index and not scan.equal and passing > _EARLY_PART)
