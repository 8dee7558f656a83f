"""The first rows of an answer, for people at a prompt and in a notebook."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from omnigraph_core.values.as_json import as_json
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_core.read.answer.result import QueryResult

_ROWS_SHOWN = 20
_CELL_CHARACTERS = 60


def as_text(result: QueryResult) -> str:
    """A title and a table with as many rows as fit on a screen."""
    rows = _rows(result)
    lines = [_title(result)]
    if result.columns:
        table = [[_cut(one_line(name)) for name in result.columns], *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(result.columns))]
        padded = [
            " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        lines += [padded[0], "-+-".join("-" * width for width in widths), *padded[1:]]
    return "\n".join([*lines, *_rest(result, len(rows))])


def as_html(result: QueryResult) -> str:
    """The same as HTML; whatever stands in a cell is text."""
    rows = _rows(result)
    head = "".join(f"<th>{escape(one_line(name))}</th>" for name in result.columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(result, len(rows)))
    title = f"<p>{escape(_title(result))}</p>"
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _title(result: QueryResult) -> str:
    count = f"{result.row_count} row{'' if result.row_count == 1 else 's'}"
    target = result.target
    where = f"branch {target.branch}" if target.branch is not None else f"commit {target.snapshot}"
    return one_line(f"{result.query_name}: {count} from {where}")


def _rows(result: QueryResult) -> list[list[str]]:
    found: list[list[str]] = []
    for batch in result.to_batches():
        for row in batch.slice(0, _ROWS_SHOWN - len(found)).to_pylist():
            found.append([_cell(row[name]) for name in result.columns])
        if len(found) == _ROWS_SHOWN:
            break
    return found


def _rest(result: QueryResult, shown: int) -> list[str]:
    left = result.row_count - shown
    return [f"… {left} more"] if left > 0 else []


def _cell(value: object) -> str:
    plain = as_json(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)
    return _cut(one_line(text))


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
