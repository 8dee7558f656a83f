"""What a merge of schemas would lose: values in a property, or rows of a type, that one side dropped.

The other side may have written them since. Nobody asked for that to go, so it is a conflict of the
schemas, and not a matter of rows: no choice for a row can keep what has no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from omnigraph_core.diff.equality import differ
from omnigraph_core.diff.graph import State
from omnigraph_core.diff.tables import RowChanges, TableDiff
from omnigraph_core.merge.ground import Ground, identity
from omnigraph_core.merge.lens import filling
from omnigraph_core.schema import EntityType, Property


def lost_edits(ground: Ground) -> list[str]:
    """A line for each type and property that is gone in the result, and was written by one side since."""
    sides = ground.sides
    found = [*_lost_by(ground, sides.ours, "ours"), *_lost_by(ground, sides.theirs, "theirs")]
    return sorted(found)


def _lost_by(ground: Ground, side: State, named: str) -> Iterator[str]:
    if any(base is side for base in ground.sides.bases.values()):
        return
    since = ground.since_ours if named == "ours" else ground.since_theirs
    kept = {mine: key for key, mine in since.types.items()}
    for entity in side.schema.types():
        key = kept.get(entity.table_key)
        gone = [] if key is None else _gone(entity, set(since.properties[key].values()))
        if key is not None and not gone:
            continue
        if all(_wrote(ground, base, side, entity, gone) for base in ground.sides.bases.values()):
            what = f"{entity.kind} type {entity.name}"
            if gone:
                what = f"property {', '.join(f'{entity.name}.{prop.name}' for prop in gone)}"
            yield f"{what} was dropped by one side, and {named} has written to it since"


def _gone(entity: EntityType, kept: set[str]) -> list[Property]:
    return [prop for prop in entity.properties if prop.name not in kept]


def _wrote(ground: Ground, base: State, side: State, entity: EntityType, gone: Sequence[Property]) -> bool:
    """Has the side changed rows of a type, or values of some of its properties, since the base?"""
    key = identity(ground.tables, base, side).types.get(entity.table_key)
    if key is None:
        return False
    was, now = base.snapshot.entry(key), side.snapshot.entry(entity.table_key)
    if (was.table_path, was.table_branch, was.table_version) == (
        now.table_path,
        now.table_branch,
        now.table_version,
    ):
        return False
    before = next(each for each in base.schema.types() if each.table_key == key)
    after = side.side(ground.tables, entity)
    if was.table_path != now.table_path:
        return bool(after.table.count_rows())
    diff = TableDiff(ground.tables, base.side(ground.tables, before), after)
    if not gone:
        return any(True for _ in diff.batches())
    return any(_has_edits(each, gone) for each in diff.batches())


def _has_edits(found: RowChanges, gone: Sequence[Property]) -> bool:
    """Is a value changed, or does a new row hold another one than every row would have got?"""
    changed = {name for name, mask in found.changed.items() if mask.any()}
    return any(prop.name in changed or _is_set(found.inserted, prop) for prop in gone)


def _is_set(inserted: pa.Table, prop: Property) -> bool:
    if not inserted.num_rows:
        return False
    values = inserted.column(prop.name)
    filled = filling(prop)
    if not filled.is_valid:
        return bool(values.null_count < len(values))
    return bool(differ(values, pa.chunked_array([pa.repeat(filled, len(values))], values.type)).any())
