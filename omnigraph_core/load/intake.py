"""The records of one type of a load: checked by themselves, given their ids, handed on to be written.

Rows keep the order in which they were read; a row is known by its position in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from omnigraph_core.change.changeset import Change, Origin, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.identity import FreshIds
from omnigraph_core.change.parts import Part, ask_by_part
from omnigraph_core.change.uniqueness import check_unique_inside, repeats
from omnigraph_core.change.values import check_values
from omnigraph_core.change.violations import Violations
from omnigraph_core.load.assemble import VERBS, LoadMode, is_keyed
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.held import HeldChange, HeldRows
from omnigraph_core.load.matching import Matching, RowIds, check_met_once, last_of_each_id
from omnigraph_core.load.records import TypedRows
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Identified:
    """One reading of the records against one state of the graph.

    `stays` says which records count (None: all). `ids` has one for every record; None when
    each has its own or, without one, takes a fresh one when it is written.
    """

    change: Change
    ids: RowIds | None
    stays: pa.Array | None
    unmatchable: int

    def same_rows(self, other: Identified) -> bool:
        """Would the same rows be written?"""
        return _same(self.stays, other.stays) and _same(self.ids, other.ids)


def _same(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other))


class Intake:
    """All records of one type of a load."""

    def __init__(
        self, entity: EntityType, mode: LoadMode, budget: MemoryBudget, *, rejecting: bool = False
    ) -> None:
        self.entity = entity
        self._rejecting = rejecting
        self._rejected: set[int] = set()
        self._mode = mode
        self._budget = budget
        self._held = HeldRows(entity, budget)
        self._fresh = FreshIds()
        self._ids_given = 0

    @property
    def rows(self) -> int:
        return self._held.count

    @property
    def key_bytes(self) -> int:
        return self._held.key_bytes

    def add(self, piece: TypedRows, violations: Violations) -> None:
        """Take in rows; values are checked at once, the rest when all are in."""
        origin = Origin.of(piece.source, piece.lines, self.rows)
        check_values(TableChange(self.entity, VERBS[self._mode], piece.rows, origin), violations)
        self._ids_given += piece.rows.num_rows - piece.rows.column(ID_COLUMN).null_count
        if self._rejecting or not violations.total:
            self._held.add(piece)

    def check(self, parts: tuple[Part, ...], violations: Violations) -> None:
        """Rules that the records break among themselves."""
        asks_ids = bool(self._ids_given) and self._mode is not LoadMode.MERGE
        check_among(self._change(Verb.INSERT), parts, violations, asks_ids=asks_ids)

    def identify(self, committed: Committed, parts: tuple[Part, ...], violations: Violations) -> Identified:
        """Give every record its id, in the light of what is committed."""
        verb = VERBS[self._mode]
        if self._mode is not LoadMode.MERGE or is_keyed(self.entity):
            return Identified(self._change(verb), None, self._taken(), 0)
        if not self._ids_given and not self.entity.uniques:
            change = self._change(Verb.INSERT)
            return Identified(change, None, self._taken(), self.rows)
        return self._matched(committed, parts, violations)

    def _change(self, verb: Verb) -> HeldChange:
        fresh = not self._ids_given and not is_keyed(self.entity)
        return HeldChange(self.entity, verb, self._held, self._taken(), fresh)

    def _matched(self, committed: Committed, parts: tuple[Part, ...], violations: Violations) -> Identified:
        """Records of a merge, with the ids of the rows they are by their own or by a @unique group.

        Of records that give the same id the last one counts; but two that turn out to be one
        entity only by what is committed are a mistake.
        """
        matching = Matching(self._held, committed, parts, self._budget)
        rows = matching.rows(self._fresh)
        fresh = matching.is_fresh
        taken = HeldChange(self.entity, Verb.UPSERT, rows, self._taken(), fresh)
        check_met_once(taken, matching.by_group, parts, violations)
        stays = last_of_each_id(taken, parts)
        change = HeldChange(self.entity, Verb.INSERT if fresh else Verb.UPSERT, rows, stays, fresh)
        return Identified(change, rows.ids, stays, matching.unmatchable)

    def reject(self, positions: Iterable[int]) -> None:
        """Leave rows out from now on."""
        self._rejected.update(positions)

    def restart(self, kept: frozenset[int]) -> None:
        """Forget which rows were left out, but for these."""
        self._rejected = set(kept)

    @property
    def is_all_rejected(self) -> bool:
        """Nothing is left of what came: the type is treated as if it had not been in the input."""
        return 0 < self.rows == len(self._rejected)

    @property
    def rejected(self) -> frozenset[int]:
        return frozenset(self._rejected)

    def rejected_rows(self) -> Iterator[tuple[Origin, pa.Table]]:
        """The rows left out, with their origin, as far as they were taken in."""
        import pyarrow.compute as pc

        taken = self._taken()
        if taken is None:
            return
        for origin, rows in self._held.placed(ROWS_PER_FRAGMENT):
            chosen = pc.invert(taken.take(origin.positions))
            if pc.any(chosen).as_py():
                yield origin.filter(chosen), rows.filter(chosen)

    def _taken(self) -> pa.Array | None:
        """Which rows are not rejected; None for all."""
        import numpy as np
        import pyarrow as pa

        if not self._rejected:
            return None
        taken = np.ones(self.rows, np.bool_)
        taken[list(self._rejected)] = False
        return pa.array(taken)

    def content(self, identified: Identified) -> Iterator[pa.Table]:
        """The whole rows, with their ids, a fragment's worth at a time."""
        import pyarrow as pa
        import pyarrow.compute as pc

        start = 0
        field = pa.field(ID_COLUMN, pa.utf8(), nullable=False)
        known = None if identified.ids is None else identified.ids.batches(ROWS_PER_FRAGMENT)
        for rows in self._held.batches(ROWS_PER_FRAGMENT):
            count = rows.num_rows
            position = rows.schema.get_field_index(ID_COLUMN)
            ids = rows.column(position) if known is None else next(known)
            if ids.null_count:
                ids = pc.coalesce(ids, self._fresh.slice(start, count))
            named = rows.set_column(position, field, ids)
            if identified.stays is not None:
                named = named.filter(identified.stays.slice(start, count))
            start += count
            yield named

    def close(self) -> None:
        self._held.close()


def check_among(change: Change, parts: tuple[Part, ...], violations: Violations, *, asks_ids: bool) -> None:
    """What the rows of one type break among themselves.

    Keyed nodes are not asked for their ids: their key has been, by its own rule.
    """
    check_unique_inside(change, parts, violations)
    if asks_ids and not is_keyed(change.entity):

        def ask(part: Part, violations: Violations) -> None:
            _check_ids_once(change.part((ID_COLUMN,), part), violations)

        ask_by_part(parts, violations, ask)


def _check_ids_once(change: TableChange, violations: Violations) -> None:
    import pyarrow.compute as pc

    ids, origin = change.rows.column(ID_COLUMN).combine_chunks(), change.origin
    repeated = repeats(ids)
    if len(repeated) and origin is not None:
        first = pc.index_in(ids.take(repeated), value_set=ids)
        where = dict(zip(repeated.to_pylist(), first.to_pylist(), strict=True))

        def describe(row: int) -> str:
            source, line = origin.place(where[row])
            return f"id '{clipped(ids[row].as_py())}' occurs twice in the input, first at {source}:{line}"

        change.report(violations, repeated, None, describe)
