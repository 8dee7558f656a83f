"""How times are shown to people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from omnigraph_cli.tables import Fixed

_STEPS = (("second", 60), ("minute", 60), ("hour", 24), ("day", 7), ("week", 52), ("year", 0))


def age(microseconds: int) -> str:
    """`5 minutes`: how long ago, by its largest unit."""
    number = max(microseconds, 0) // 1_000_000
    for unit, size in _STEPS:
        if not size or number < size:
            return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
        number //= size
    raise AssertionError("the last step has no size")


def shown_time(microseconds: int) -> Fixed:
    """A stored time, in UTC to the second."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
    except OverflowError:  # A row of the history may say anything.
        return Fixed(f"{microseconds} us")
    return Fixed(moment.strftime("%Y-%m-%d %H:%M:%SZ"))
