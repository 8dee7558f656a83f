"""The records of one type of a load: checked by themselves, given their ids, handed on to be written.

Rows keep the order in which they were read; a row is known by its position in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.held_rows import HeldChange, HeldRows, SpooledRows
from omnigraph_core.load.identified import Identified
from omnigraph_core.load.matching import Matching, check_met_once, last_of_each_id
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.rules.changeset import Change, Newness, Origin, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import Part, ask_by_part
from omnigraph_core.rules.uniqueness import check_unique_inside
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.values.identity import FreshIds, is_keyed
from omnigraph_core.values.repeats import repeats
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from omnigraph_core.load.roles import KeptRows


Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Intake:
    """All records of one type in a load."""

    def __init__(self, kept: KeptRows, mode: LoadMode, budget: MemoryBudget) -> None:
        self.entity = kept.entity
        self._kept = kept
        self._mode = mode
        self._budget = budget
        self._held = HeldRows(kept, budget)
        self._rejected: Mask | None = None
        self._fresh = FreshIds()

    @property
    def rows(self) -> int:
        return self._kept.count

    @property
    def key_bytes(self) -> int:
        return self._kept.key_bytes

    def check(self, parts: tuple[Part, ...], violations: Violations) -> None:
        """Add violations of rules among the records themselves."""
        asks_ids = bool(self._kept.given_ids) and self._mode is not LoadMode.MERGE
        check_among(self._change(), parts, violations, asks_ids=asks_ids)

    def identify(self, committed: Committed, parts: tuple[Part, ...], violations: Violations) -> Identified:
        """Give every record its id, matching it with committed rows."""
        if self._mode is not LoadMode.MERGE or is_keyed(self.entity):
            return Identified(self._change(), None, self._taken(), 0, self._fresh)
        if not self._kept.given_ids and not self.entity.uniques:
            change = HeldChange(self.entity, self._held, self._taken(), Newness.FRESH)
            return Identified(change, None, self._taken(), self.rows, self._fresh)
        return self._matched(committed, parts, violations)

    def _change(self) -> HeldChange:
        newness = newness_in(self._mode, is_fresh=not self._kept.given_ids and not is_keyed(self.entity))
        return HeldChange(self.entity, self._held, self._taken(), newness, self._mode is LoadMode.OVERWRITE)

    def _matched(self, committed: Committed, parts: tuple[Part, ...], violations: Violations) -> Identified:
        """Records of a merge, with the ids of the rows they are by their own or by a @unique group.

        Of records that give the same id the last one counts; but two that turn out to be one
        entity only by what is committed are a mistake.
        """
        matching = Matching(self._held, committed, parts, self._budget)
        matched = matching.rows(self._fresh)
        rows = HeldRows(matched, self._budget)
        taken = HeldChange(self.entity, rows, self._taken())
        check_met_once(taken, matching.by_group, parts, violations)
        stays = last_of_each_id(taken, parts)
        newness = Newness.FRESH if matching.is_fresh else Newness.OPEN
        change = HeldChange(self.entity, rows, stays, newness)
        return Identified(change, matched.ids, stays, matching.unmatchable, self._fresh)

    def reject(self, positions: Sequence[int]) -> None:
        """Leave these rows out from now on."""
        if self._rejected is None:
            self._rejected = np.zeros(self.rows, np.bool_)
        self._rejected[np.asarray(positions, np.int64)] = True

    def restart(self, kept: Mask | None) -> None:
        """Forget which rows were left out, except these."""
        self._rejected = None if kept is None else kept.copy()

    @property
    def is_all_rejected(self) -> bool:
        """Was every record rejected? Then the type counts as absent from the input."""
        rejected = 0 if self._rejected is None else np.count_nonzero(self._rejected)
        return self.rows + self._kept.dropped > 0 and self.rows == rejected

    @property
    def rejected(self) -> Mask | None:
        """Which rows are left out; None if none is."""
        return None if self._rejected is None else self._rejected.copy()

    def rejected_rows(self) -> Iterator[tuple[Origin, pa.Table]]:
        """The rejected rows that had been kept, with their origin."""
        taken = self._taken()
        return iter(()) if taken is None else self._kept.chosen(pc.invert(taken))

    def _taken(self) -> pa.Array | None:
        """Which rows are not rejected; None for all."""
        return None if self._rejected is None else pa.array(~self._rejected)

    def close(self) -> None:
        self._held.close()


def content(spooled: SpooledRows, identified: Identified) -> Iterator[pa.Table]:
    """The complete rows with their ids, one fragment at a time."""
    start = 0
    field = pa.field(ID_COLUMN, pa.utf8(), nullable=False)
    known = None if identified.ids is None else identified.ids.in_step()
    for rows in spooled.batches(ROWS_PER_FRAGMENT):
        count = rows.num_rows
        position = rows.schema.get_field_index(ID_COLUMN)
        ids = rows.column(position) if known is None else known(count)
        if ids.null_count:
            ids = pc.coalesce(ids, identified.fresh.slice(start, count))
        named = rows.set_column(position, field, ids)
        if identified.stays is not None:
            named = named.filter(identified.stays.slice(start, count))
        start += count
        yield named


def newness_in(mode: LoadMode, *, is_fresh: bool) -> Newness:
    """What a mode asks of the ids of its rows; `is_fresh`: no row came with one."""
    if mode is not LoadMode.APPEND:
        return Newness.OPEN
    return Newness.FRESH if is_fresh else Newness.REQUIRED


def check_among(change: Change, parts: tuple[Part, ...], violations: Violations, *, asks_ids: bool) -> None:
    """The rules that the rows of one type break among themselves.

    Keyed nodes are not asked for their ids: their key has been, by its own rule.
    """
    check_unique_inside(change, parts, violations)
    if asks_ids and not is_keyed(change.entity):

        def ask(part: Part, violations: Violations) -> None:
            _check_ids_once(change.part((ID_COLUMN,), part), violations)

        ask_by_part(parts, violations, ask)


def _check_ids_once(change: TableChange, violations: Violations) -> None:
    ids, origin = change.rows.column(ID_COLUMN).combine_chunks(), change.origin
    repeated = repeats(ids)
    if len(repeated) and origin is not None:
        first = pc.index_in(ids.take(repeated), value_set=ids)
        where = dict(zip(repeated.to_pylist(), first.to_pylist(), strict=True))

        def describe(row: int) -> str:
            source, line = origin.place(where[row])
            return f"id '{clipped(ids[row].as_py())}' occurs twice in the input, first at {source}:{line}"

        change.report(violations, repeated, None, describe)
