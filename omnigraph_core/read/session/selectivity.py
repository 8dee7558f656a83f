"""Whether the indexes of a table help a filter.

Lance asks an index for every condition it has one for. For a range that lets much of a
table through that takes several times as long as reading the column; a few rows of the
table tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.read.plan.steps import ScanNodes
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, list_indexes, serving
from omnigraph_core.tables.memory import matching_rows

if TYPE_CHECKING:
    from omnigraph_core.read.session.entities import Entities

_ROWS_MIN = 50_000
_SAMPLED_ROWS = 512
_SELECTIVE_PART = 0.1


def index_pays(entities: Entities, scan: ScanNodes) -> bool:
    """False if the only conditions that have an index let too much through."""
    if not scan.ranges or entities.row_count < _ROWS_MIN:
        return True
    indexed = list_indexes(entities.table)
    names = {name for name, _ in scan.ranges} | scan.equal
    helped = {name for name in names if serving(indexed, IndexSpec(name, IndexKind.BTREE)) is not None}
    if helped & scan.equal:
        return True
    wide = True
    for name, where in scan.ranges:
        if name in helped:
            rows = entities.table.sample([name], _SAMPLED_ROWS)
            passing = len(matching_rows(rows, where, entities.table.ref))
            wide = wide and passing > rows.num_rows * _SELECTIVE_PART
    return not wide
