"""Answers of different engines as the same plain values. Imported by every side, so it needs nothing."""

from collections.abc import Iterable
from datetime import date, datetime, timezone


def plain(rows: Iterable[Iterable[object]]) -> list[list[object]]:
    return [[_value(value) for value in row] for row in rows]


def _value(value: object) -> object:
    if isinstance(value, datetime):
        value = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return float(f"{value:.10g}")  # means are rounded differently in the last digits
    return [_value(each) for each in value] if isinstance(value, (list, tuple)) else value
