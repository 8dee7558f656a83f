"""From a fast reader to an exact one: split lines around those that do not fit, join rows in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.load.formats.parsed import Unfit
from omnigraph_core.load.formats.typed_rows import TypedRows

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def halving(
    lines: Lines, attempt: Callable[[Lines], _Result], few: int
) -> tuple[list[tuple[Lines, _Result]], list[Lines]]:
    """What `attempt` made of the lines or of parts of them; and the parts it is unfit for.

    Lines that it refuses are halved until there are so `few` that looking at them one by
    one costs less than trying again.
    """
    if not len(lines):
        return [], []
    try:
        return [(lines, attempt(lines))], []
    except Unfit:
        if len(lines) <= few:
            return [], [lines]
    middle = len(lines) // 2
    done, refused = halving(lines.slice(0, middle), attempt, few)
    more_done, more_refused = halving(lines.slice(middle, len(lines) - middle), attempt, few)
    return done + more_done, refused + more_refused


def by_type(pieces: list[TypedRows]) -> list[TypedRows]:
    """One piece per type, its rows in line order."""
    same_type: dict[str, list[TypedRows]] = {}
    for piece in pieces:
        if piece.rows.num_rows:
            same_type.setdefault(piece.entity.table_key, []).append(piece)
    return [same[0] if len(same) == 1 else _merged(same) for same in same_type.values()]


def _merged(pieces: list[TypedRows]) -> TypedRows:
    lines: pa.Array = pa.concat_arrays([piece.lines for piece in pieces])
    rows = pa.concat_tables([piece.rows for piece in pieces]).combine_chunks()
    order = pc.sort_indices(lines)
    given = _given(pieces)
    return TypedRows(
        pieces[0].entity,
        rows.take(order),
        pieces[0].source,
        lines.take(order),
        None if given is None else given.take(order),
    )


def _given(pieces: list[TypedRows]) -> pa.Array | None:
    if all(piece.given is None for piece in pieces):
        return None
    nulls = (pa.nulls(len(piece.lines), pa.utf8()) for piece in pieces)
    return pa.concat_arrays(
        [none if piece.given is None else piece.given for piece, none in zip(pieces, nulls, strict=True)]
    )
