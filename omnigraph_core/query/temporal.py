"""Dates and date-times as text, both ways.

A Date is days since 1970-01-01, a DateTime whole milliseconds in UTC; in Python they
are `date` and an aware `datetime`. Years 1 to 9999 can be written.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATE_TIME = re.compile(
    r"""
    (?P<day>\d{4}-\d{2}-\d{2})
    (?: [Tt\ ] (?P<clock>\d{2}:\d{2}(?::\d{2})?) (?:\.(?P<fraction>\d{1,9}))?
        (?P<zone>[Zz]|[+-]\d{2}:?\d{2})?
    )?
    """,
    re.VERBOSE | re.ASCII,
)


def parse_date(text: str) -> date | None:
    """The day a `YYYY-MM-DD` text names, or None."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def parse_date_time(text: str) -> datetime | None:
    """The instant an ISO 8601 or RFC 3339 text names, or None.

    Without an offset it is UTC, without a time midnight; digits beyond the millisecond
    are dropped.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None or (match["fraction"] and match["clock"].count(":") < 2):
        return None
    try:
        day = date.fromisoformat(match["day"])
        if match["clock"] is None:
            return datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
        hour, minute, second = (int(part) for part in f"{match['clock']}:00".split(":")[:3])
        local = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=_zone(match["zone"]))
        milliseconds = int((match["fraction"] or "").ljust(3, "0")[:3])
        return local.astimezone(timezone.utc) + milliseconds * _MILLISECOND
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return timezone.utc
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59:
        raise ValueError("minutes of an offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


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
