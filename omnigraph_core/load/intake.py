"""The records of one type: what validation needs of them at hand, the rest in a spool.

Rows keep the order in which they were read; a row is known by its position in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Origin, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.identity import FreshIds
from omnigraph_core.change.uniqueness import check_unique_inside, last_of_each, repeats
from omnigraph_core.change.values import check_values
from omnigraph_core.change.violations import Violations
from omnigraph_core.load.assemble import VERBS, LoadMode, is_keyed, match
from omnigraph_core.load.records import TypedRows
from omnigraph_core.load.spool import MemoryBudget, Spool
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Identified:
    """One reading of the records against one state of the graph.

    `ids` has one for every record; `stays` says which records count (None: all). Where no
    record is identified by anything, ids are made when the rows are written, and the
    change has nulls for them.
    """

    change: TableChange
    ids: pa.Array | FreshIds
    stays: pa.Array | None
    unmatchable: int

    def same_rows(self, other: Identified) -> bool:
        """Would the same rows be written?"""
        return _same(self.ids, other.ids) and _same(self.stays, other.stays)


def _same(one: pa.Array | FreshIds | None, other: pa.Array | FreshIds | None) -> bool:
    if one is None or other is None or isinstance(one, FreshIds) or isinstance(other, FreshIds):
        return one is other
    return bool(one.equals(other))


class Intake:
    """All records of one type of a load."""

    def __init__(
        self, entity: EntityType, mode: LoadMode, budget: MemoryBudget, *, rejecting: bool = False
    ) -> None:
        self.entity = entity
        self._rejecting = rejecting
        self._rejected: set[int] = set()
        self._mode = mode
        self._spool = Spool(budget)
        self._keys: list[pa.Table] = []
        self._origins: list[Origin] = []
        self._fresh = FreshIds()
        self._key_names = key_columns(entity)

    @property
    def rows(self) -> int:
        return self._spool.rows

    def add(self, piece: TypedRows, violations: Violations) -> None:
        """Take in rows; values are checked at once, the rest when all are in."""
        origin = Origin.of(piece.source, piece.lines, self.rows if self._rejecting else None)
        check_values(TableChange(self.entity, VERBS[self._mode], piece.rows, origin), violations)
        self._keys.append(piece.rows.select(self._key_names))
        self._origins.append(origin)
        if self._rejecting or not violations.total:
            self._spool.add(piece.rows)

    def check(self, violations: Violations) -> None:
        """Rules that the records break among themselves."""
        keys, origin = self._all_keys(), self._origin()
        taken = self._taken()
        if taken is not None:
            keys, origin = keys.filter(taken), origin.filter(taken)
        check_unique_inside(self.entity, keys, origin, violations)
        if self._mode is not LoadMode.MERGE and not is_keyed(self.entity):
            _check_ids_once(TableChange(self.entity, Verb.INSERT, keys, origin), origin, violations)

    def identify(self, committed: Committed, violations: Violations) -> Identified:
        """Give every record its id, in the light of what is committed.

        Of records that give the same id the last one counts; but two that turn out to be one
        entity only by what is committed are a mistake.
        """
        import pyarrow as pa

        keys, origin = self._all_keys(), self._origin()
        ids, unmatchable = keys.column(ID_COLUMN).combine_chunks(), 0
        fresh = ids.null_count == len(ids) and not is_keyed(self.entity)
        verb = VERBS[self._mode]
        if self._mode is LoadMode.MERGE and not is_keyed(self.entity):
            matched = match(keys, self.entity, lambda: committed.table(self.entity.table_key))
            fresh = fresh and matched.ids.null_count == len(ids)
            self._check_met_once(keys, matched.ids, origin, violations)
            ids, unmatchable = matched.ids, matched.unmatchable
        stays = self._taken()
        if not fresh:
            ids = self._completed(ids)
            keys = keys.set_column(0, pa.field(ID_COLUMN, pa.utf8(), nullable=False), ids)
            if self._mode is LoadMode.MERGE and not is_keyed(self.entity):
                stays = last_of_each(ids, stays)
        elif self._mode is LoadMode.MERGE:
            verb = Verb.INSERT
        if stays is not None:
            keys, origin = keys.filter(stays), origin.filter(stays)
        change = TableChange(self.entity, verb, keys, origin, fresh=fresh)
        return Identified(change, self._fresh if fresh else ids, stays, unmatchable)

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
        import pyarrow as pa

        origin, start = self._origin(), 0
        for rows in self._spool.batches(ROWS_PER_FRAGMENT):
            inside = sorted(each - start for each in self._rejected if start <= each < start + rows.num_rows)
            chosen = pa.array(inside, pa.int64())
            if inside:
                where = Origin(
                    origin.sources,
                    origin.source.slice(start, rows.num_rows).take(chosen),
                    origin.lines.slice(start, rows.num_rows).take(chosen),
                )
                yield where, rows.take(chosen)
            start += rows.num_rows

    def _check_met_once(self, keys: pa.Table, ids: pa.Array, origin: Origin, violations: Violations) -> None:
        taken = self._taken()
        if taken is not None:
            keys, ids, origin = keys.filter(taken), ids.filter(taken), origin.filter(taken)
        _check_met_once(self.entity, keys, ids, origin, violations)

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

        start = 0
        field = pa.field(ID_COLUMN, pa.utf8(), nullable=False)
        for rows in self._spool.batches(ROWS_PER_FRAGMENT):
            count = rows.num_rows
            position = rows.schema.get_field_index(ID_COLUMN)
            named = rows.set_column(position, field, identified.ids.slice(start, count))
            if identified.stays is not None:
                named = named.filter(identified.stays.slice(start, count))
            start += count
            yield named

    def close(self) -> None:
        self._spool.close()

    def _all_keys(self) -> pa.Table:
        import pyarrow as pa

        if len(self._keys) > 1:
            self._keys = [pa.concat_tables(self._keys)]
        return self._keys[0]

    def _origin(self) -> Origin:
        if len(self._origins) > 1:
            self._origins = [Origin.joined(self._origins)]
        return self._origins[0]

    def _completed(self, ids: pa.Array) -> pa.Array:
        """Fresh ids for records without any; the same ones whenever it is asked again."""
        import pyarrow.compute as pc

        if not ids.null_count or is_keyed(self.entity):
            return ids
        return pc.coalesce(ids, self._fresh.slice(0, len(ids)))


def key_columns(entity: EntityType) -> list[str]:
    """What the rules about more than one row look at."""
    names = [ID_COLUMN]
    if isinstance(entity, EdgeType):
        names += [SRC_COLUMN, DST_COLUMN]
    elif isinstance(entity, NodeType) and entity.key is not None:
        names += entity.key.columns
    for group in entity.uniques:
        names += group.columns
    return list(dict.fromkeys(names))


def _check_met_once(
    entity: EntityType, keys: pa.Table, ids: pa.Array, origin: Origin, violations: Violations
) -> None:
    """No record may be matched with a row that another record is, too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    matched = pc.and_(pc.is_null(keys.column(ID_COLUMN).combine_chunks()), pc.is_valid(ids))
    met = pc.unique(ids.filter(matched))
    several = pc.value_counts(ids.filter(pc.is_in(ids, value_set=met, skip_nulls=True)))
    shared = several.field("values").filter(pc.greater(several.field("counts"), 1))
    if not len(shared):
        return
    rows = pc.indices_nonzero(pc.is_in(ids, value_set=shared, skip_nulls=True))
    first = pc.index_in(ids.take(rows), value_set=ids)
    later = pc.not_equal(rows.cast(pa.int32()), first)
    where = dict(zip(rows.filter(later).to_pylist(), first.filter(later).to_pylist(), strict=True))

    def describe(row: int) -> str:
        source, line = origin.place(where[row])
        return f"is the same entity '{clipped(ids[row].as_py())}' as the record at {source}:{line}"

    TableChange(entity, Verb.UPSERT, keys, origin).report(violations, rows.filter(later), None, describe)


def _check_ids_once(change: TableChange, origin: Origin, violations: Violations) -> None:
    """Keyed nodes are not asked: their key has been, by its own rule."""
    import pyarrow.compute as pc

    ids = change.ids
    repeated = repeats(ids)
    if len(repeated):
        first = pc.index_in(ids.take(repeated), value_set=ids)
        where = dict(zip(repeated.to_pylist(), first.to_pylist(), strict=True))

        def describe(row: int) -> str:
            source, line = origin.place(where[row])
            return f"id '{clipped(ids[row].as_py())}' occurs twice in the input, first at {source}:{line}"

        change.report(violations, repeated, None, describe)
