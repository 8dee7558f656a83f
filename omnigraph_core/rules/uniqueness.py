"""@key and @unique: no tuple occurs twice, within the change or together with committed rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.rules.changeset import Change, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import Part, ask_by_part
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EntityType, Key, NodeType, Scalar, Unique
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import in_filter
from omnigraph_core.tables.limits import KEYS_IN_FILTER_MAX
from omnigraph_core.values.identity import tuple_texts
from omnigraph_core.values.repeats import repeats
from omnigraph_core.values.shown import clipped


def check_unique_inside(change: Change, parts: tuple[Part, ...], violations: Violations) -> None:
    """Two rows of the change must not share a tuple, not even a key: one input may not give it twice."""
    groups: list[Key | Unique] = list(change.entity.uniques)
    if isinstance(change.entity, NodeType) and change.entity.key is not None:
        groups.insert(0, change.entity.key)
    for group in groups:

        def ask(part: Part, violations: Violations, group: Key | Unique = group) -> None:
            _check_group(change.part(group.columns, part), group, violations)

        ask_by_part(parts, violations, ask)


def _check_group(change: TableChange, group: Key | Unique, violations: Violations) -> None:
    texts = tuple_texts(change.rows, group.columns, change.entity)
    repeated = repeats(texts)
    if len(repeated):
        name = "@key" if isinstance(group, Key) else "@unique"
        holders = _first_holders(texts, repeated)
        describe = _repeat_words(change, name, group.columns, texts, holders)
        change.report(violations, repeated, _only(group.columns), describe)


def check_unique_committed(
    change: Change, parts: tuple[Part, ...], committed: Committed, conflicts: Violations
) -> None:
    """No committed row that survives the change may hold a tuple of a changed row.

    Keys are exempt: a committed row with the same key is the same entity.
    """
    if change.replaces or not change.has_rows:
        return
    if change.entity.uniques and not committed.table(change.key).count_rows():
        return
    for group in change.entity.uniques:

        def ask(part: Part, conflicts: Violations, group: Unique = group) -> None:
            mine = change.part(group.columns, part)
            _check_held(mine, group, part, committed, partial(_leaving, change, parts), conflicts)

        ask_by_part(parts, conflicts, ask)


def _leaving(change: Change, parts: tuple[Part, ...], ids: pa.Array) -> pa.Array:
    """Which of the ids the change removes, or has rows for."""
    found = pc.is_in(ids, value_set=change.removed)
    for part in parts if len(ids) else ():
        found = pc.or_(found, pc.is_in(ids, value_set=change.part(("id",), part).ids))
    return found


def _check_held(
    change: TableChange,
    group: Unique,
    part: Part,
    committed: Committed,
    leaving: Callable[[pa.Array], pa.Array],
    conflicts: Violations,
) -> None:
    texts = tuple_texts(change.rows, group.columns, change.entity)
    wanted = pc.drop_null(pc.unique(texts))
    if not len(wanted):
        return
    held = held_in(committed, change.entity, group.columns, part, wanted)
    # A row that keeps its tuple is most of them; whether the others stay takes all ids.
    mine = change.rows.column("id").take(pc.index_in(held.column("text"), value_set=texts))
    held = held.filter(pc.fill_null(pc.not_equal(held.column("id"), mine), True))
    held = held.filter(pc.invert(leaving(held.column("id").combine_chunks())))
    if not held.num_rows:
        return
    holder = dict(zip(held.column("text").to_pylist(), held.column("id").to_pylist(), strict=True))
    rows = pc.indices_nonzero(pc.is_in(texts, value_set=held.column("text").combine_chunks()))
    describe = _held_words(change, group.columns, texts, holder)
    change.report(conflicts, rows, _only(group.columns), describe)


def held_in(
    committed: Committed, entity: EntityType, columns: Sequence[str], part: Part, wanted: pa.Array
) -> pa.Table:
    """Committed rows whose tuple is among `wanted`, all of the part: columns `id` and `text`."""
    dealt = committed.by_part(entity, columns, part, len(wanted))
    if dealt is None:
        return _holding(committed.table(entity.table_key), entity, columns, wanted)
    return dealt.having(part.number, wanted)


def _holding(table: Table, entity: EntityType, columns: Sequence[str], wanted: pa.Array) -> pa.Table:
    names = list(dict.fromkeys(["id", *columns]))
    found = []
    for batch in table.scan(names, _lookup(entity, columns, wanted)):
        rows = pa.Table.from_batches([batch])
        texts = tuple_texts(rows, columns, entity)
        chosen = pc.is_in(texts, value_set=wanted, skip_nulls=True)
        found.append(pa.table({"id": rows.column("id"), "text": texts}).filter(chosen))
    return pa.concat_tables(found) if found else pa.table({"id": wanted[:0], "text": wanted[:0]})


def _lookup(entity: EntityType, columns: Sequence[str], wanted: pa.Array) -> str | None:
    """A filter that keeps every row whose tuple is wanted; None when a scan is cheaper."""
    import json

    textual = [name for name in columns if _is_text(entity, name)]
    if not textual or len(wanted) > KEYS_IN_FILTER_MAX:
        return None
    position = list(columns).index(textual[0])
    members = wanted.to_pylist()
    if len(columns) > 1:
        members = [json.loads(text)[position] for text in members]
    return in_filter(pa.chunked_array([pa.array(members, pa.utf8())]), textual[0])


def _is_text(entity: EntityType, name: str) -> bool:
    prop = entity.find_property(name)
    return prop is None or (prop.type.scalar is Scalar.STRING and not prop.type.is_list)


def _first_holders(texts: pa.Array, repeated: pa.Array) -> dict[str, int]:
    """For each repeated text, the first row that holds it."""
    distinct = pc.unique(texts.take(repeated))
    rows = pc.index_in(distinct, value_set=texts)
    return dict(zip(distinct.to_pylist(), rows.to_pylist(), strict=True))


def _repeat_words(
    change: TableChange, name: str, columns: Sequence[str], texts: pa.Array, first: dict[str, int]
) -> Callable[[int], str]:
    def describe(row: int) -> str:
        text = texts[row].as_py()
        shown = _shown(change, columns, row)
        if change.origin is None:
            ids = change.rows.column("id")
            holder = f"held by '{ids[first[text]].as_py()}' and '{ids[row].as_py()}'"
        else:
            source, line = change.origin.place(first[text])
            holder = f"occurs twice in the input, first at {source}:{line}"
        return f"{name} violation on {_subject(change, columns)}: value {shown} {holder}"

    return describe


def _held_words(
    change: TableChange, columns: Sequence[str], texts: pa.Array, holder: dict[str, str]
) -> Callable[[int], str]:
    def describe(row: int) -> str:
        held_by = holder[texts[row].as_py()]
        shown = _shown(change, columns, row)
        mine = change.rows.column("id")[row].as_py()
        holders = f"'{held_by}' and '{mine}'" if mine is not None else f"'{held_by}'"
        return f"@unique violation on {_subject(change, columns)}: value {shown} held by {holders}"

    return describe


def _subject(change: TableChange, columns: Sequence[str]) -> str:
    name = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    return f"{change.entity.name}.{name}"


def _shown(change: TableChange, columns: Sequence[str], row: int) -> str:
    values = [str(change.rows.column(name)[row].as_py()) for name in columns]
    return f"'{clipped(values[0])}'" if len(values) == 1 else f"({clipped(', '.join(values))})"


def _only(columns: Sequence[str]) -> str | None:
    return columns[0] if len(columns) == 1 else None
