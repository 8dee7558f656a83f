"""How times are shown to people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


def shown_time(microseconds: int) -> str:
    """A stored time, in UTC to the second."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
