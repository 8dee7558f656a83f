"""Giving every record its id: its own, its key's, that of the row it will replace, or a fresh one."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Verb
from omnigraph_core.change.identity import tuple_texts
from omnigraph_core.change.uniqueness import holding
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, NodeType
from omnigraph_core.tables.dataset import Table

if TYPE_CHECKING:
    import pyarrow as pa


class LoadMode(StrEnum):
    """What records mean for entities that are there already; the text is the option's."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


VERBS = {LoadMode.OVERWRITE: Verb.REPLACE, LoadMode.APPEND: Verb.INSERT, LoadMode.MERGE: Verb.UPSERT}


@dataclass(frozen=True, slots=True)
class Matched:
    """Ids of records as far as something identifies them; `unmatchable` counts the others."""

    ids: pa.Array
    unmatchable: int


def is_keyed(entity: EntityType) -> bool:
    return isinstance(entity, NodeType) and entity.key is not None


def match(rows: pa.Table, entity: EntityType, committed: Callable[[], Table]) -> Matched:
    """Ids of committed rows for records without one that give a whole @unique group of theirs."""
    import pyarrow.compute as pc

    ids = rows.column("id").combine_chunks()
    identified = pc.is_valid(ids)
    for group in entity.uniques:
        texts = tuple_texts(rows, group.columns, entity)
        open_ = pc.and_(pc.is_null(ids), pc.is_valid(texts))
        identified = pc.or_(identified, pc.is_valid(texts))
        wanted = pc.unique(texts.filter(open_))
        if not len(wanted):
            continue
        held = holding(committed(), entity, group.columns, wanted)
        where = pc.index_in(texts, value_set=held.column("text").combine_chunks())
        ids = pc.if_else(open_, held.column("id").combine_chunks().take(where), ids)
    return Matched(ids, pc.sum(pc.invert(identified)).as_py() or 0)
