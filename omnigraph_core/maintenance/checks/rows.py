"""Rows: no id, key or unique tuple occurs twice, and every edge ends at nodes that are there.

Only the columns that are compared are read, one distinct table version after the other. Edges are
judged once for each pair of an edge table and a node table, however many branches have both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.maintenance.examination import Examination, Published
from omnigraph_core.maintenance.findings import Finding, attempt, error
from omnigraph_core.maintenance.limits import EXAMPLES_MAX
from omnigraph_core.schema import EdgeType, EntityType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.values.identity import is_keyed, tuple_texts
from omnigraph_core.values.shown import clipped
from omnigraph_core.values.twice import Texts, absent, twice

# Of the memory for data, what hashes may take; batches and Lance's own buffers have the rest.
_HASH_SHARE = 4
_BATCH_BYTES = 8 << 20


def check_rows(seen: Examination) -> Iterator[Finding]:
    for found in seen.published:
        if found.entity is not None and found.entry.row_count:
            yield from attempt("rows-unreadable", found.where, _repeats, seen, found, found.entity)
    yield from _dangling(seen)


def _repeats(seen: Examination, found: Published, entity: EntityType) -> Iterator[Finding]:
    table = seen.open(found)
    groups: list[tuple[str, tuple[str, ...]]] = [("duplicate-id", (ID_COLUMN,))]
    if is_keyed(entity):
        groups.append(("duplicate-key", tuple(entity.key.columns)))  # type: ignore[union-attr]
    groups += [("duplicate-unique", tuple(group.columns)) for group in entity.uniques]
    for code, columns in groups:
        texts = _texts(table, columns, entity)
        repeated = twice(texts, found.entry.row_count, seen.memory_bytes // _HASH_SHARE)
        if repeated:
            text = f"{len(repeated):,} values of {', '.join(columns)} occur more than once: {_some(repeated)}"
            yield error(code, found.where, text)


def _dangling(seen: Examination) -> Iterator[Finding]:
    by_place = {
        (each.entry.table_path, each.entry.table_branch, each.entry.table_version): each
        for each in seen.published
    }
    asked: set[tuple[object, ...]] = set()
    for name, snapshot in seen.heads.items():
        schema = seen.schemas.get(name)
        for edge in () if schema is None else schema.edges:
            for column, node in ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type)):
                ends = snapshot.tables.get(edge.table_key)
                nodes = snapshot.tables.get(schema.node(node).table_key) if schema is not None else None
                if ends is None or nodes is None or not ends.row_count:
                    continue
                places = [(each.table_path, each.table_branch, each.table_version) for each in (ends, nodes)]
                if (*places, column) in asked:
                    continue
                asked.add((*places, column))
                pair = (by_place[places[0]], by_place[places[1]])
                where = f"{name} {edge.table_key}"
                yield from attempt("rows-unreadable", where, _ends, seen, pair, edge, column, node)


def _ends(
    seen: Examination, pair: tuple[Published, Published], edge: EdgeType, column: str, node: str
) -> Iterator[Finding]:
    edges, nodes = (
        _plain(seen.open(each), name) for each, name in zip(pair, (column, ID_COLUMN), strict=True)
    )
    count, examples = 0, list[str]()
    rows = pair[1].entry.row_count
    for missing in absent(edges, nodes, rows, seen.memory_bytes // _HASH_SHARE):
        count += len(missing)
        examples += (
            missing[: EXAMPLES_MAX - len(examples)].to_pylist() if len(examples) < EXAMPLES_MAX else []
        )
    if count:
        text = f"{count:,} edges have a {column} that {node} does not have: {_some(examples)}"
        yield error("dangling-edge", f"{pair[0].branches[0]} {edge.table_key}", text)


def _plain(table: Table, column: str) -> Texts:
    def read() -> Iterator[pa.Array]:
        for batch in table.scan([column], batch_bytes=_BATCH_BYTES):
            yield batch.column(column)

    return read


def _texts(table: Table, columns: Sequence[str], entity: EntityType) -> Texts:
    """The text of each tuple; a tuple with a null is equal to none."""
    if tuple(columns) == (ID_COLUMN,):
        return _plain(table, ID_COLUMN)

    def read() -> Iterator[pa.Array]:
        for batch in table.scan(list(columns), batch_bytes=_BATCH_BYTES):
            if batch.num_rows:
                texts = tuple_texts(pa.Table.from_batches([batch]), columns, entity)
                yield texts if texts.type == pa.utf8() else pc.cast(texts, pa.utf8())

    return read


def _some(texts: Iterable[str]) -> str:
    shown = [f"'{clipped(text)}'" for text in sorted(texts)[: EXAMPLES_MAX + 1]]
    return ", ".join(shown[:EXAMPLES_MAX]) + (", …" if len(shown) > EXAMPLES_MAX else "")
