"""Rows of a query as text: table, json, jsonl, csv, kv, md.

Values are JSON everywhere: a Date is `YYYY-MM-DD`, a DateTime
`YYYY-MM-DDTHH:MM:SS.mmmZ`, numbers that are not finite are the strings `NaN`,
`Infinity` and `-Infinity`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from omnigraph_cli.limits import CELL_CHARACTERS_MAX, ROWS_PER_BLOCK
from omnigraph_cli.output import tell, write_exactly
from omnigraph_cli.tables import RULED, Absent, Number, cut, laid_out, terminal_columns
from omnigraph_core import shapes
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_core.read.answer.result import QueryResult


class RowFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    MD = "md"

    def put(self, stream: TextIO, text: str) -> None:
        """Write a block as those want it who read this format."""
        (tell if self in (RowFormat.TABLE, RowFormat.KV, RowFormat.MD) else write_exactly)(stream, text)


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


def _json(result: QueryResult) -> Iterator[str]:
    """Pretty-printed, the rows a block at a time: an answer may be large."""
    yield (
        json.dumps(shapes.query_head(result), ensure_ascii=False, indent=2)[: -len("\n}")] + ',\n  "rows": ['
    )
    separator = "\n"
    for rows in _blocks(result):
        texts = [json.dumps(_object(result, row), ensure_ascii=False) for row in rows]
        yield separator + ",\n".join(f"    {text}" for text in texts)
        separator = ",\n"
    yield ("\n  ]" if result.row_count else "]") + "\n}\n"


def _jsonl(result: QueryResult, *, metadata: bool) -> Iterator[str]:
    if metadata:
        yield json.dumps(shapes.query_metadata(result), ensure_ascii=False) + "\n"
    for rows in _blocks(result):
        yield "".join(json.dumps(_object(result, row), ensure_ascii=False) + "\n" for row in rows)


def _csv(result: QueryResult) -> Iterator[str]:
    """Null is `null`, and the text "null" is quoted, so that they differ."""
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
    if not result.row_count:
        yield "(no rows)\n"
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
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return "<br>".join(map(one_line, text.split("\n")))


def _table(result: QueryResult) -> Iterator[str]:
    yield title(result) + "\n"
    if not result.columns:
        yield "(no rows)\n"
        return
    rows = [[_shown(value) for value in row] for block in _blocks(result) for row in block]
    room = terminal_columns() if sys.stdout.isatty() else None
    for line in laid_out(result.columns, rows, room=room, style=RULED):
        yield line + "\n"


def _shown(value: object) -> object:
    """Numbers stay numbers, which stand to the right."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(_cell(value))
    if value is None:
        return Absent(_cell(value))
    return cut(_line(value), CELL_CHARACTERS_MAX)


def title(result: QueryResult) -> str:
    noun = "row" if result.row_count == 1 else "rows"
    target = result.target
    where = f"snapshot {target.snapshot}" if target.branch is None else f"branch {target.branch}"
    return one_line(f"{result.row_count} {noun} from {where} via {result.query_name}")


def _blocks(result: QueryResult) -> Iterator[list[tuple[object, ...]]]:
    """Rows of JSON values, a few thousand at a time, as the query produces them."""
    for batch in result.to_batches():
        for start in range(0, batch.num_rows, ROWS_PER_BLOCK):
            part = batch.slice(start, ROWS_PER_BLOCK)
            columns = [[shapes.value(value) for value in column.to_pylist()] for column in part.columns]
            yield list(zip(*columns, strict=True))


def _object(result: QueryResult, row: Sequence[object]) -> dict[str, object]:
    return dict(zip(result.columns, row, strict=True))


def _cell(value: object) -> str:
    """A value in a cell: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(value: object) -> str:
    return one_line(_cell(value))
