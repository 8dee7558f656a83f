"""Rows of a base: of one commit, or of several that are merged into a virtual one.

Only rows that are asked for are read, and an older base only for rows in which the newer ones
differ; so criss-cross merges cost little more than others, however deep they go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.history.bases import Parents, lowest_readable
from omnigraph_core.merge.rows import Rows, differing_ids, rows, virtual
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.values.arrays import whole

ReadRows = Callable[[str, pa.Array], Rows]
"""The rows with these ids at a commit, as far as there are any, with the columns of the merge."""


class BaseRows:
    """The rows of one type at the bases of a merge."""

    def __init__(
        self,
        parents: Parents,
        schema: pa.Schema,
        read: ReadRows,
        is_readable: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._parents = parents
        self._schema = schema
        self._read = read
        self._is_readable = is_readable

    def of(self, bases: Sequence[str], ids: pa.Array) -> Rows:
        """The rows with these ids at the (virtual) base. Without a base there are none."""
        if not bases:
            return rows(self._schema.empty_table())
        first, *others = bases
        found = self._read(first, ids)
        joined = [first]
        for other in others:
            found = self._join(joined, found, other, ids)
            joined.append(other)
        return found

    def _join(self, joined: Sequence[str], found: Rows, other: str, ids: pa.Array) -> Rows:
        """The base that stands for those already joined, and for one more."""
        more = self._read(other, ids)
        unsettled = differing_ids(found, more)
        if not len(unsettled):
            return found
        below = lowest_readable(self._parents, joined, [other], self._is_readable)
        settled = virtual(self.of(below.commit_ids, unsettled), only(found, unsettled), only(more, unsettled))
        return together(_without(found, unsettled), settled)


def _mask(of: Rows, ids: pa.Array) -> pa.Array:
    return pc.is_in(whole(of.table.column(ID_COLUMN)), value_set=ids)


def only(of: Rows, ids: pa.Array) -> Rows:
    """Those of the rows that have one of these ids."""
    return _filtered(of, _mask(of, ids))


def _without(of: Rows, ids: pa.Array) -> Rows:
    return _filtered(of, pc.invert(_mask(of, ids)))


def _filtered(of: Rows, chosen: pa.Array) -> Rows:
    mask = chosen.to_numpy(zero_copy_only=False)
    return Rows(of.table.filter(chosen), {unit: nobody[mask] for unit, nobody in of.nobody.items()})


def together(one: Rows, other: Rows) -> Rows:
    """The rows of both, which have no id in common."""
    nobody = {}
    for unit in one.nobody.keys() | other.nobody.keys():
        parts = [side.nobody.get(unit, np.zeros(side.table.num_rows, np.bool_)) for side in (one, other)]
        nobody[unit] = np.concatenate(parts)
    return Rows(pa.concat_tables([one.table, other.table]), nobody)
