"""The tables of a graph, for tasks and for those who cut them into tasks."""

from __future__ import annotations

from omnigraph_core.settings import S3Settings, Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT

# A worker runs many tasks, and opening a graph takes a moment.
_opened: dict[tuple[str, S3Settings], Tables] = {}


def tables_at(graph: str, settings: Settings) -> Tables:
    """The tables of a graph, opened once for all tasks that reach it with the same settings."""
    key = (graph, settings.s3)
    if key not in _opened:
        location = parse_location(graph, settings.working_directory)
        _opened[key] = Tables(open_storage(location, settings), settings.memory_limit_bytes)
    return _opened[key]


def fragment_groups(table: Table) -> list[tuple[int, ...]]:
    """Fragments for one task each: about as many rows together as a full fragment has."""
    found: list[tuple[int, ...]] = []
    waiting: list[int] = []
    rows = 0
    for fragment, count in table.fragment_rows().items():
        waiting.append(fragment)
        rows += count
        if rows >= ROWS_PER_FRAGMENT:
            found.append(tuple(waiting))
            waiting, rows = [], 0
    return [*found, tuple(waiting)] if waiting else found
