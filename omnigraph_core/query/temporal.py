"""Dates and date-times of the language: the one grammar of `omnigraph_core.times`, as Python values.

A Date is days since 1970-01-01, a DateTime whole milliseconds in UTC; in Python they
are `date` and an aware `datetime`. Years 1 to 9999 can be written.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from omnigraph_core import times

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)


def parse_date(text: str) -> date | None:
    """The day a `YYYY-MM-DD` text names, or None."""
    days = times.parse_date(text)
    return None if days is None else _EPOCH_DAY + timedelta(days=days)


def parse_date_time(text: str) -> datetime | None:
    """The instant an ISO 8601 or RFC 3339 text names, or None; see `omnigraph_core.times`."""
    milliseconds = times.parse_datetime(text)
    return None if milliseconds is None else from_milliseconds(milliseconds)


def to_milliseconds(instant: datetime) -> int:
    """Milliseconds since the epoch: how a DateTime column stores an instant."""
    return (instant - _EPOCH) // _MILLISECOND


def from_milliseconds(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def to_days(day: date) -> int:
    """Days since the epoch: how a Date column stores a day."""
    return (day - _EPOCH_DAY).days


def whole_milliseconds(instant: datetime) -> datetime:
    """An aware instant as a DateTime column can hold it."""
    return from_milliseconds(to_milliseconds(instant))
