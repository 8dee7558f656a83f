"""The rows that can be among the nearest, asked of a vector index before anything else is read.

For a read that ranks one scan by distance, and has a limit. The index looks into all of its partitions
and names a few rows more than are wanted, by distances of 32 bits. What it names is used only if it proves
that no other row can be as near as those that are wanted; otherwise, as with many equal vectors, all rows
that pass are compared, as without an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph_core.query.checked import CheckedRead, FusedSearch, NearestSearch, Score
from omnigraph_core.read.plan.steps import MatchPlan, ScanNodes
from omnigraph_core.read.search.ranking import distances_of, query_vector
from omnigraph_core.tables.search import has_vector_index, nearest_rows
from omnigraph_core.tables.vectors import comparable_max
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray

# All partitions are looked into up to here; beyond, reading them takes longer than the scan it saves.
VECTOR_BYTES_MAX = 256 << 20

_LIMIT_MAX = 1_000
_MORE_MIN = 20

# How far a sum of squares of 32 bits may be from the true one, as a share of it and for each dimension.
_ROUNDING = 2.0**-23
_FLOAT_MAX = float(np.finfo(np.float32).max)

# What is nearer than this is not told apart by squares: as they near zero, 32 bits keep fewer digits.
_SQUARE_MIN = 2.0**-90


def nearest_scan(read: CheckedRead, plan: MatchPlan) -> ScanNodes | None:
    """The scan whose rows may be narrowed: all there is to the match, ranked by distance alone."""
    scan = plan.steps[0] if len(plan.steps) == 1 else None
    if not isinstance(scan, ScanNodes) or scan.searches or not isinstance(read.ranking, NearestSearch):
        return None
    if read.limit is None or not 0 < read.limit <= _LIMIT_MAX:
        return None
    scores = (column.value.search for column in read.columns if isinstance(column.value, Score))
    return None if any(isinstance(search, FusedSearch) for search in scores) else scan


def narrowed(session: Session, read: CheckedRead, scan: ScanNodes) -> IntArray | None:
    """The codes of rows that include the nearest ones, if an index can prove that."""
    search, limit = read.ranking, read.limit
    assert isinstance(search, NearestSearch)
    assert limit is not None
    entities = session.nodes(scan.node.name)
    table, size = entities.table, entities.row_count * search.dimension * 4
    if size > VECTOR_BYTES_MAX or table.is_foreign or not has_vector_index(table, search.property):
        return None
    vector = query_vector(session, search)
    if vector is None or float(np.abs(vector).max()) > comparable_max(search.dimension):
        return None
    with session.statistics.step(f"nearest of {scan}") as step:
        count = limit + max(limit, _MORE_MIN)
        found = nearest_rows(table, search.property, vector.tolist(), count, scan.where)
        session.budget.check_time()
        session.statistics.count_read(found.num_rows, found.nbytes)
        values = whole(found.column(search.property))
        squares = found.column("_distance").to_numpy().astype(np.float64)
        if found.num_rows == count and not _are_proven(
            distances_of(values, vector), squares, limit, search.dimension
        ):
            step.note = "undecided"
            return None
        codes = entities.met(found.column("id").chunks)
        entities.keep(search.property, codes, [values])
        step.rows = len(codes)
    return codes


def _are_proven(
    distances: npt.NDArray[np.float64], squares: npt.NDArray[np.float64], limit: int, dimension: int
) -> bool:
    """Is every row that was not named farther away than the wanted ones?"""
    error = (dimension + 8) * _ROUNDING
    farthest = min(float(squares.max()), _FLOAT_MAX) * (1 - error)
    return farthest > _SQUARE_MIN and float(np.partition(distances, limit - 1)[limit - 1]) ** 2 < farthest
