"""Nodes that came under an id with the members of their key in another order: their edges follow.

Edges may stand before the nodes they name, so this is done once everything is read. What nodes
were called waits on disk if it is much, and is then asked part by part.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.layout import table_key
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.load.held_rows import (
    LINE_COLUMN,
    POSITION_COLUMN,
    SOURCE_COLUMN,
    ChangeTexts,
    HeldRows,
    SpooledRows,
    positions_from,
)
from omnigraph_core.load.spool import Spool
from omnigraph_core.rules.changeset import Origin, TableChange
from omnigraph_core.rules.parts import Part, ask_by_part, part_numbers
from omnigraph_core.rules.rows_by_part import RowsByPart
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EdgeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.shown import clipped

_GIVEN = "@given"


class Renamings:
    """What the nodes of a load were called, by type, where that is not the id their key gives."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._types: dict[str, _Renamed] = {}

    def add(self, piece: TypedRows, rows: SpooledRows) -> None:
        """Remember what rows were called that have just been added to `rows`."""
        if piece.given is not None:
            key = piece.entity.table_key
            self._types.setdefault(key, _Renamed(rows, self._budget)).add(piece)

    def settle(self, rows: Mapping[str, SpooledRows], violations: Violations) -> None:
        """Make edges name nodes by their ids; what could mean two nodes goes to `violations`."""
        for _, renamed in sorted(self._types.items()):
            renamed.check(violations)
        for _, mine in sorted(rows.items()):
            if isinstance(mine.entity, EdgeType):
                ends = {SRC_COLUMN: mine.entity.from_type, DST_COLUMN: mine.entity.to_type}
                for column, node in ends.items():
                    named = self._types.get(table_key("node", node))
                    if named is not None:
                        mine.rewrite(column, named.ends_of(mine, column))

    def close(self) -> None:
        for renamed in self._types.values():
            renamed.close()


class _Renamed:
    """The renamed nodes of one type."""

    def __init__(self, nodes: SpooledRows, budget: MemoryBudget) -> None:
        self._nodes, self._budget = nodes, budget
        self._spool = Spool(budget)
        self._bytes = 0
        self._dealt: RowsByPart | None = None

    def add(self, piece: TypedRows) -> None:
        count = piece.rows.num_rows
        positions = positions_from(self._nodes.count - count, count)
        source = pa.repeat(pa.scalar(self._nodes.sources.index(piece.source), pa.int32()), len(positions))
        rows = pa.table(
            {
                _GIVEN: piece.given,
                ID_COLUMN: piece.rows.column(ID_COLUMN),
                SOURCE_COLUMN: source,
                LINE_COLUMN: piece.lines,
                POSITION_COLUMN: positions,
            }
        )
        rows = rows.filter(rows.column(_GIVEN).is_valid())
        self._bytes += rows.nbytes
        self._spool.add(rows)

    @property
    def _parts(self) -> tuple[Part, ...]:
        return self._budget.parts(self._bytes + self._nodes.key_bytes)

    def _part(self, part: Part) -> pa.Table:
        """Those whose given ids are in the part."""
        if part.is_whole:
            return pa.concat_tables(self._spool.batches(ROWS_PER_FRAGMENT)).combine_chunks()
        if self._dealt is None:
            self._dealt = RowsByPart(part.count)
            for rows in self._spool.batches(ROWS_PER_FRAGMENT, batch_bytes=self._budget.fragment_bytes):
                rows = rows.combine_chunks()
                self._dealt.add(rows, part_numbers(rows.column(_GIVEN).combine_chunks(), part.count))
        return self._dealt.part(part.number)

    # ---- two nodes under one id ----

    def check(self, violations: Violations) -> None:
        """No two nodes may be called the same: an edge could mean either."""
        called_otherwise = np.zeros(self._nodes.count, np.bool_)
        for rows in self._spool.batches(ROWS_PER_FRAGMENT, [POSITION_COLUMN]):
            called_otherwise[rows.column(POSITION_COLUMN).to_numpy()] = True
        held = HeldRows(self._nodes, self._budget)

        def ask(part: Part, violations: Violations) -> None:
            rows, origin = held.keys() if part.is_whole else held.part((ID_COLUMN,), part)
            ids = rows.column(ID_COLUMN).combine_chunks()
            assert origin.positions is not None
            own = pa.array(~called_otherwise[origin.positions.to_numpy()])
            self._check(self._part(part), ids.filter(own), origin.filter(own), violations)

        try:
            ask_by_part(self._parts, violations, ask)
        finally:
            held.close()

    def _check(self, renamed: pa.Table, ids: pa.Array, origin: Origin, violations: Violations) -> None:
        """`ids` are those of the nodes that were not called otherwise."""
        given = renamed.column(_GIVEN).combine_chunks()
        mine = Origin(
            self._nodes.sources,
            *(
                renamed.column(name).combine_chunks()
                for name in (SOURCE_COLUMN, LINE_COLUMN, POSITION_COLUMN)
            ),
        )
        first = pc.index_in(given, value_set=given)
        own = renamed.column(ID_COLUMN).combine_chunks()
        twice = pc.not_equal(own, own.take(first))
        taken = pc.index_in(given, value_set=ids)
        change = TableChange(self._nodes.entity, renamed.select([ID_COLUMN]), mine)

        def describe(row: int) -> str:
            other, at = (mine, first) if twice[row].as_py() else (origin, taken)
            source, line = other.place(at[row].as_py())
            shown = clipped(given[row].as_py())
            return (
                f"id '{shown}' is that of another node, too, at {source}:{line}, and edges could mean either"
            )

        change.report(violations, pc.indices_nonzero(pc.or_(twice, taken.is_valid())), ID_COLUMN, describe)

    # ---- edges ----

    def ends_of(self, edges: SpooledRows, column: str) -> ChangeTexts:
        """What the ends of edges become."""
        parts = self._parts
        if len(parts) > 1:
            return _answering(self._ask(edges, column, len(parts)))
        known = self._part(parts[0])
        given, ids = (known.column(name).combine_chunks() for name in (_GIVEN, ID_COLUMN))
        return lambda ends, start: pc.coalesce(ids.take(pc.index_in(ends, value_set=given)), ends)

    def _ask(self, edges: SpooledRows, column: str, count: int) -> RowsByPart:
        """Look ends up in one part after the other; what is found is dealt by the fragments of edges."""
        asked, start = RowsByPart(count), 0
        for rows in edges.selected([column]):
            ends = rows.column(column).combine_chunks()
            mine = pa.table({_GIVEN: ends, POSITION_COLUMN: positions_from(start, len(ends))})
            asked.add(mine, part_numbers(ends, count))
            start += len(ends)
        found = RowsByPart(max(1, -(-edges.count // ROWS_PER_FRAGMENT)))
        for number in range(count):
            known = self._part(Part(number, count))
            given = known.column(_GIVEN).combine_chunks()
            for rows in asked.pieces(number):
                places = whole(pc.index_in(rows.column(_GIVEN), value_set=given))
                met = rows.column(POSITION_COLUMN).filter(places.is_valid())
                ids = known.column(ID_COLUMN).take(places.drop_null())
                if len(met):
                    found.add(
                        pa.table({POSITION_COLUMN: met, ID_COLUMN: ids}), met.to_numpy() // ROWS_PER_FRAGMENT
                    )
        asked.close()
        return found

    def close(self) -> None:
        self._spool.close()
        if self._dealt is not None:
            self._dealt.close()


def _answering(found: RowsByPart) -> ChangeTexts:
    """Ends as they were found to be; batches never reach from one fragment into the next."""

    def change(ends: pa.Array, start: int) -> pa.Array:
        for piece in found.pieces(start // ROWS_PER_FRAGMENT):
            places = np.full(len(ends), -1, np.int64)
            at = piece.column(POSITION_COLUMN).to_numpy() - start
            here = (at >= 0) & (at < len(ends))
            places[at[here]] = np.flatnonzero(here)
            ends = pc.coalesce(
                piece.column(ID_COLUMN).combine_chunks().take(pa.array(places, mask=places < 0)), ends
            )
        return ends

    return change
