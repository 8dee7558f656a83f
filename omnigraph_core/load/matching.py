"""Which committed row each record of a merge is: by its own id, or by a @unique group of its type.

Everything is asked part by part, and what is found is put back in the order of the rows,
so that memory does not grow with the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.held_rows import HeldChange, HeldRows
from omnigraph_core.load.identified import RowIds
from omnigraph_core.rules.changeset import TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import Part, ask_by_part
from omnigraph_core.rules.rows_by_part import RowsByPart
from omnigraph_core.rules.uniqueness import held_in
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import Unique
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.values.identity import FreshIds, tuple_texts
from omnigraph_core.values.repeats import last_of_each
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from omnigraph_core.load.roles import KeptRows

    Mask = np.ndarray[Any, Any]

_POSITION = "position"


class MatchedRows:
    """Rows with the ids that matching gave them."""

    def __init__(self, kept: KeptRows, ids: RowIds) -> None:
        self.entity, self.count, self.sources = kept.entity, kept.count, kept.sources
        self.key_bytes, self.given_ids, self.dropped = kept.key_bytes, kept.given_ids, kept.dropped
        self.chosen = kept.chosen
        self.ids = ids
        self._kept = kept

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        selected = self._kept.selected(columns)
        if ID_COLUMN not in columns:
            yield from selected
            return
        nothing = next(selected)
        yield nothing
        position = columns.index(ID_COLUMN)
        field = nothing.schema.field(position)
        ids = self.ids.in_step()
        for rows in selected:
            yield rows.set_column(position, field, ids(rows.num_rows))

    def close(self) -> None:
        """The rows are closed by the source that keeps them."""


class Matching:
    """One attempt to match the rows of a type."""

    def __init__(
        self, held: HeldRows, committed: Committed, parts: tuple[Part, ...], budget: MemoryBudget
    ) -> None:
        self._held, self._committed, self._parts, self._budget = held, committed, parts, budget
        own = [rows.column(ID_COLUMN).is_null().to_numpy() for rows in held.kept.selected([ID_COLUMN])]
        self._open: Mask = np.concatenate(own)
        """Which rows nothing has identified yet."""
        self._unmatchable = self._open.copy()
        self.by_group: Mask = np.zeros(held.count, np.bool_)
        """Which rows were found by a @unique group."""
        batches = max(1, -(-held.count // ROWS_PER_FRAGMENT))
        self._found = RowsByPart(batches)

    @property
    def unmatchable(self) -> int:
        """How many rows have nothing to match them by."""
        return int(self._unmatchable.sum())

    @property
    def is_fresh(self) -> bool:
        """Is every row new?"""
        return bool(self._open.all())

    def rows(self, fresh: FreshIds) -> MatchedRows:
        """The rows with their ids: given, matched, or fresh."""
        for group in self._held.entity.uniques:
            for part in self._parts:
                self._match(group, part)
        ids = RowIds(self._budget)
        start = 0
        for number, rows in enumerate(self._held.kept.selected([ID_COLUMN]), -1):
            if number >= 0:
                ids.add(self._completed(rows.column(ID_COLUMN).combine_chunks(), number, start, fresh))
                start += rows.num_rows
        self._found.close()
        return MatchedRows(self._held.kept, ids)

    def _match(self, group: Unique, part: Part) -> None:
        entity = self._held.entity
        change = HeldChange(entity, self._held, None).part(group.columns, part)
        positions = _positions(change)
        texts = tuple_texts(change.rows, group.columns, entity)
        self._unmatchable[positions[texts.is_valid().to_numpy(zero_copy_only=False)]] = False
        texts = pc.if_else(pa.array(self._open[positions]), texts, pa.scalar(None, pa.utf8()))
        wanted = pc.drop_null(pc.unique(texts))
        if not len(wanted):
            return
        there = held_in(self._committed, entity, group.columns, part, wanted)
        where = pc.index_in(texts, value_set=there.column("text").combine_chunks(), skip_nulls=True)
        met = where.is_valid()
        ids = there.column("id").combine_chunks().take(where.drop_null())
        found = positions[met.to_numpy(zero_copy_only=False)]
        self._open[found] = False
        self.by_group[found] = True
        self._found.add(pa.table({_POSITION: found, ID_COLUMN: ids}), found // ROWS_PER_FRAGMENT)

    def _completed(self, own: pa.Array, batch: int, start: int, fresh: FreshIds) -> pa.Array:
        if not own.null_count:
            return own
        for found in self._found.pieces(batch):
            places = np.full(len(own), -1, np.int64)
            places[found.column(_POSITION).to_numpy() - start] = np.arange(found.num_rows)
            known = pa.array(places, mask=places < 0)
            own = pc.coalesce(own, found.column(ID_COLUMN).combine_chunks().take(known))
        return pc.coalesce(own, fresh.slice(start, len(own))) if own.null_count else own


def _positions(change: TableChange) -> Mask:
    origin = change.origin
    assert origin is not None
    assert origin.positions is not None
    positions: Mask = origin.positions.to_numpy()
    return positions


def check_met_once(rows: HeldChange, by_group: Mask, parts: tuple[Part, ...], violations: Violations) -> None:
    """No two records may match the same committed row."""

    def ask(part: Part, violations: Violations) -> None:
        change = rows.part((ID_COLUMN,), part)
        _check_met_once(change, pa.array(by_group[_positions(change)]), violations)

    ask_by_part(parts, violations, ask)


def _check_met_once(change: TableChange, by_group: pa.Array, violations: Violations) -> None:
    origin, ids = change.origin, change.rows.column(ID_COLUMN).combine_chunks()
    assert origin is not None
    met = pc.unique(ids.filter(by_group))
    several = pc.value_counts(ids.filter(pc.is_in(ids, value_set=met)))
    shared = several.field("values").filter(pc.greater(several.field("counts"), 1))
    if not len(shared):
        return
    rows = pc.indices_nonzero(pc.is_in(ids, value_set=shared))
    first = pc.index_in(ids.take(rows), value_set=ids)
    later = pc.not_equal(rows.cast(pa.int32()), first)
    where = dict(zip(rows.filter(later).to_pylist(), first.filter(later).to_pylist(), strict=True))

    def describe(row: int) -> str:
        source, line = origin.place(where[row])
        return f"is the same entity '{clipped(ids[row].as_py())}' as the record at {source}:{line}"

    change.report(violations, rows.filter(later), None, describe)


def last_of_each_id(rows: HeldChange, parts: Sequence[Part]) -> pa.Array | None:
    """Which rows stay if the last of equal ids wins; None means all."""
    stays = np.ones(rows.held.count, np.bool_) if rows.taken is None else rows.taken.to_numpy(False).copy()
    for part in parts:
        change = rows.part((ID_COLUMN,), part)
        last = last_of_each(change.rows.column(ID_COLUMN).combine_chunks())
        if last is not None:
            stays[_positions(change)[~last.to_numpy(zero_copy_only=False)]] = False
    return None if stays.all() else pa.array(stays)
