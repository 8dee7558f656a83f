"""Work that comes in pieces: side by side on a few threads, halved around what is odd, put together again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from omnigraph_core.load.fast import Unfit
from omnigraph_core.load.lines import Lines
from omnigraph_core.load.records import TypedRows

if TYPE_CHECKING:
    import pyarrow as pa

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_THREADS_MAX = 4


def in_order(tasks: Iterable[_Task], work: Callable[[_Task], _Result]) -> Iterator[_Result]:
    """The results of `work` in the order of the tasks, with a few tasks under way at a time."""
    threads = min(os.cpu_count() or 1, _THREADS_MAX)
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="load") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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
    done, refused = halving(lines.part(0, middle), attempt, few)
    more_done, more_refused = halving(lines.part(middle, len(lines) - middle), attempt, few)
    return done + more_done, refused + more_refused


def by_type(pieces: list[TypedRows]) -> list[TypedRows]:
    """One piece for each type, its rows in the order of their lines."""
    same_type: dict[str, list[TypedRows]] = {}
    for piece in pieces:
        if piece.rows.num_rows:
            same_type.setdefault(piece.entity.table_key, []).append(piece)
    return [same[0] if len(same) == 1 else _merged(same) for same in same_type.values()]


def _merged(pieces: list[TypedRows]) -> TypedRows:
    import pyarrow as pa
    import pyarrow.compute as pc

    lines: pa.Array = pa.concat_arrays([piece.lines for piece in pieces])
    rows = pa.concat_tables([piece.rows for piece in pieces]).combine_chunks()
    order = pc.sort_indices(lines)
    return TypedRows(pieces[0].entity, rows.take(order), pieces[0].source, lines.take(order))
