"""From records to a change set: rows gathered by type, each with an id, each id once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import ChangeSet, Origin, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.identity import fresh_ids, tuple_texts
from omnigraph_core.change.uniqueness import check_unique_inside, holding, repeats
from omnigraph_core.change.values import check_values
from omnigraph_core.change.violations import Violations
from omnigraph_core.load.records import TypedRows
from omnigraph_core.schema import EntityType, NodeType, Schema

if TYPE_CHECKING:
    import pyarrow as pa


class LoadMode(StrEnum):
    """What records mean for entities that are there already; the text is the option's."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


VERBS = {LoadMode.OVERWRITE: Verb.REPLACE, LoadMode.APPEND: Verb.INSERT, LoadMode.MERGE: Verb.UPSERT}


@dataclass(frozen=True, slots=True)
class Gathered:
    """All records of one type. `id` is null where a record has none."""

    entity: EntityType
    rows: pa.Table
    origin: Origin


def gather(pieces: Iterable[TypedRows]) -> dict[str, Gathered]:
    """The records of an input by table key, in the order they were read."""
    import pyarrow as pa

    by_key: dict[str, list[TypedRows]] = {}
    for piece in pieces:
        by_key.setdefault(piece.entity.table_key, []).append(piece)
    found = {}
    for key, same in sorted(by_key.items()):
        sources = tuple(dict.fromkeys(piece.source for piece in same))
        numbers = [
            pa.repeat(pa.scalar(sources.index(piece.source), pa.int32()), len(piece.lines)) for piece in same
        ]
        origin = Origin(sources, pa.concat_arrays(numbers), pa.concat_arrays([piece.lines for piece in same]))
        rows = pa.concat_tables([piece.rows for piece in same])
        found[key] = Gathered(same[0].entity, rows, origin)
    return found


def check_gathered(records: Gathered, mode: LoadMode, violations: Violations) -> None:
    """Rules that the records of a type break by themselves, whatever the graph holds."""
    change = TableChange(records.entity, VERBS[mode], records.rows, records.origin)
    check_values(change, violations)
    check_unique_inside(records.entity, records.rows, records.origin, violations)
    if mode is not LoadMode.MERGE and not is_keyed(records.entity):
        _check_ids_once(change, records.origin, violations)


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


@dataclass(frozen=True, slots=True)
class Assembled:
    """A change set, and how many merged records could only ever be new: nothing identifies them."""

    changes: ChangeSet
    unmatchable: int


def assemble(
    gathered: dict[str, Gathered], mode: LoadMode, schema: Schema, committed: Committed
) -> Assembled:
    """Give every record its id, in the light of what is committed."""
    changes = {}
    unmatchable = 0
    for key, records in gathered.items():
        rows, origin, fresh = records.rows, records.origin, False
        missing = rows.column("id").null_count
        if mode is LoadMode.MERGE and not is_keyed(records.entity):
            if missing:
                rows, left = _matched(records, committed)
                unmatchable += left
                fresh = missing == rows.num_rows and rows.column("id").null_count == missing
            rows, origin = _last_of_each(rows, origin)
        elif missing:
            fresh = missing == rows.num_rows
        changes[key] = TableChange(records.entity, VERBS[mode], _with_ids(rows), origin, fresh=fresh)
        if fresh and mode is LoadMode.MERGE:
            changes[key] = replace(changes[key], verb=Verb.INSERT)
    return Assembled(ChangeSet(schema, changes), unmatchable)


def is_keyed(entity: EntityType) -> bool:
    return isinstance(entity, NodeType) and entity.key is not None


def _matched(records: Gathered, committed: Committed) -> tuple[pa.Table, int]:
    """Ids of committed rows for records without one that give a whole @unique group of theirs.

    The number is of records that give none, which a second merge will add once more.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = records.rows.column("id").combine_chunks()
    identified = pc.is_valid(ids)
    for group in records.entity.uniques:
        texts = tuple_texts(records.rows, group.columns, records.entity)
        open_ = pc.and_(pc.is_null(ids), pc.is_valid(texts))
        identified = pc.or_(identified, pc.is_valid(texts))
        wanted = pc.unique(texts.filter(open_))
        if not len(wanted):
            continue
        held = holding(committed.table(records.entity.table_key), records.entity, group.columns, wanted)
        holders = (
            held.column("id")
            .combine_chunks()
            .take(pc.index_in(texts, value_set=held.column("text").combine_chunks()))
        )
        ids = pc.if_else(open_, holders, ids)
    position = records.rows.schema.get_field_index("id")
    rows = records.rows.set_column(position, pa.field("id", pa.utf8()), ids)
    return rows, pc.sum(pc.invert(identified)).as_py() or 0


def _last_of_each(rows: pa.Table, origin: Origin) -> tuple[pa.Table, Origin]:
    """Of records with equal ids, the last; records without id are all different."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = rows.column("id").combine_chunks()
    if not len(repeats(ids)):
        return rows, origin
    codes = pc.dictionary_encode(ids).indices
    valid = np.flatnonzero(pc.is_valid(codes).to_numpy(zero_copy_only=False))
    _, from_end = np.unique(codes.drop_null().to_numpy()[::-1], return_index=True)
    last = valid[len(valid) - 1 - from_end]
    unnamed = np.flatnonzero(pc.is_null(codes).to_numpy(zero_copy_only=False))
    kept = pa.array(np.sort(np.concatenate([last, unnamed])))
    return rows.take(kept), Origin(origin.sources, origin.source.take(kept), origin.lines.take(kept))


def _with_ids(rows: pa.Table) -> pa.Table:
    """The rows with fresh ids where there was none; `id` is required from here on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = rows.column("id").combine_chunks()
    if ids.null_count == len(ids):
        ids = fresh_ids(len(ids))
    elif ids.null_count:
        ids = pc.replace_with_mask(ids, pc.is_null(ids), fresh_ids(ids.null_count))
    position = rows.schema.get_field_index("id")
    return rows.set_column(position, pa.field("id", pa.utf8(), nullable=False), ids)
