"""Rows of a query on paper: table, json, jsonl, csv, kv, md.

Values are JSON everywhere: a Date is `YYYY-MM-DD`, a DateTime
`YYYY-MM-DDTHH:MM:SS.mmmZ`, numbers that are not finite are the strings `NaN`,
`Infinity` and `-Infinity`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph_core.read.result import QueryResult

_CELL_WIDTH_MAX = 80
_ROWS_PER_BLOCK = 4096


class RowFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    MD = "md"


def written(result: QueryResult, form: RowFormat, *, metadata: bool = True) -> Iterator[str]:
    """The text of a result, in blocks of whole lines. `metadata` is the first line of jsonl."""
    if form is RowFormat.JSON:
        return _json(result)
    if form is RowFormat.JSONL:
        return _jsonl(result, metadata=metadata)
    if form is RowFormat.CSV:
        return _csv(result)
    if form is RowFormat.KV:
        return _kv(result)
    return _md(result) if form is RowFormat.MD else _table(result)


def target_object(result: QueryResult) -> dict[str, object]:
    return {"branch": result.target.branch, "snapshot": result.target.snapshot}


def _json(result: QueryResult) -> Iterator[str]:
    """Pretty-printed, the rows a block at a time: an answer may be large."""
    head = {
        "query_name": result.query_name,
        "target": target_object(result),
        "graph_commit_id": result.graph_commit_id,
        "row_count": result.row_count,
        "columns": result.columns,
    }
    yield json.dumps(head, ensure_ascii=False, indent=2)[: -len("\n}")] + ',\n  "rows": ['
    separator = "\n"
    for rows in _blocks(result):
        texts = [json.dumps(_object(result, row), ensure_ascii=False) for row in rows]
        yield separator + ",\n".join(f"    {text}" for text in texts)
        separator = ",\n"
    yield ("\n  ]" if result.row_count else "]") + "\n}\n"


def _jsonl(result: QueryResult, *, metadata: bool) -> Iterator[str]:
    if metadata:
        head = {
            "kind": "metadata",
            "query_name": result.query_name,
            "target": target_object(result),
            "row_count": result.row_count,
        }
        yield json.dumps(head, ensure_ascii=False) + "\n"
    for rows in _blocks(result):
        yield "".join(json.dumps(_object(result, row), ensure_ascii=False) + "\n" for row in rows)


def _csv(result: QueryResult) -> Iterator[str]:
    """A null is `null`; the text "null" is quoted, so that the two can be told apart."""
    yield ",".join(map(_csv_cell, result.columns)) + "\n"
    for rows in _blocks(result):
        yield "".join(",".join(map(_csv_cell, row)) + "\n" for row in rows)


def _csv_cell(value: object) -> str:
    if value is None:
        return "null"
    text = _cell(value)
    if text in ("", "null") or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _kv(result: QueryResult) -> Iterator[str]:
    yield title(result) + "\n"
    number = 0
    for rows in _blocks(result):
        for row in rows:
            number += 1
            lines = [f"{name}: {_line(value)}\n" for name, value in zip(result.columns, row, strict=True)]
            yield ("\n" if number > 1 else "") + f"row {number}\n" + "".join(lines)


def _md(result: QueryResult) -> Iterator[str]:
    yield f"| {' | '.join(map(_md_cell, result.columns))} |\n|{'---|' * len(result.columns)}\n"
    for rows in _blocks(result):
        yield "".join(f"| {' | '.join(_md_cell(value) for value in row)} |\n" for row in rows)


def _md_cell(value: object) -> str:
    text = "" if value is None else _cell(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _table(result: QueryResult) -> Iterator[str]:
    yield title(result) + "\n"
    if not result.columns:
        yield "(no rows)\n"
        return
    cells = [[_cut(_line(value)) for value in row] for rows in _blocks(result) for row in rows]
    widths = [
        max([len(_cut(name)), *(len(row[i]) for row in cells)]) for i, name in enumerate(result.columns)
    ]
    yield _padded([_cut(name) for name in result.columns], widths)
    yield "-+-".join("-" * width for width in widths) + "\n"
    for row in cells:
        yield _padded(row, widths)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() + "\n"


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_WIDTH_MAX else text[: _CELL_WIDTH_MAX - 1] + "…"


def title(result: QueryResult) -> str:
    noun = "row" if result.row_count == 1 else "rows"
    target = result.target
    where = f"snapshot {target.snapshot}" if target.branch is None else f"branch {target.branch}"
    return f"{result.row_count} {noun} from {where} via {result.query_name}"


def _blocks(result: QueryResult) -> Iterator[list[tuple[object, ...]]]:
    """Rows of JSON values, a few thousand at a time, as they are made."""
    for batch in result.to_batches():
        for start in range(0, batch.num_rows, _ROWS_PER_BLOCK):
            part = batch.slice(start, _ROWS_PER_BLOCK)
            columns = [[_plain(value) for value in column.to_pylist()] for column in part.columns]
            yield list(zip(*columns, strict=True))


def _object(result: QueryResult, row: Sequence[object]) -> dict[str, object]:
    return dict(zip(result.columns, row, strict=True))


def _plain(value: Any) -> object:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        instant = value.astimezone(timezone.utc)
        return f"{instant:%Y-%m-%dT%H:%M:%S}.{instant.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _cell(value: object) -> str:
    """A value in a cell of text: strings as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(value: object) -> str:
    text = "" if value is None else _cell(value)
    return text.replace("\r", "\\r").replace("\n", "\\n")
