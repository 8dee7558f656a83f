"""How many bytes an index would take: of one that is there by its own size, of a new one by its column's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.indexes import (
    BuiltIndex,
    IndexKind,
    IndexSpec,
    list_indexes,
    serving,
    uncovered_fragments,
)

# Beside the values themselves, measured over 100,000 rows: addresses, pages, posting lists.
_ROW_BYTES = {IndexKind.FULL_TEXT: 40}
_OTHER_ROW_BYTES = 3


def estimated_bytes(table: Table, specs: Sequence[IndexSpec], extended: Collection[str]) -> int:
    """What these indexes would take, built over all rows; `extended` ones over those they miss."""
    if not specs:
        return 0
    rows, built = table.fragment_rows(), list_indexes(table)
    values = _column_bytes(table)
    total = 0.0
    for spec in specs:
        known = serving(built, spec)
        wanted = uncovered_fragments(table, known) if spec.name in extended else rows
        per_row = _known_row_bytes(known, rows)
        if per_row is None:
            per_row = _ROW_BYTES.get(spec.kind, _OTHER_ROW_BYTES)
            per_row += values.get(spec.column, 0) / max(1, sum(rows.values()))
        total += per_row * sum(rows[each] for each in wanted)
    return round(total)


def _known_row_bytes(known: BuiltIndex | None, rows: dict[int, int]) -> float | None:
    """None if nobody knows: there is none, or what it covers is gone."""
    covered = sum(rows.get(each, 0) for each in known.covered) if known else 0
    if known is None or not covered or not known.bytes:
        return None
    return known.bytes / covered


def _column_bytes(table: Table) -> dict[str, int]:
    with lance_failures(table.ref, "sizing columns of"):
        fields = {field.id(): field.name() for field in table.lance.lance_schema.fields()}
        found = table.lance.stats.data_stats().fields
    return {fields[each.id]: each.bytes_on_disk for each in found if each.id in fields}
