"""Dates and times from text: the one grammar, for every way a value can come in.

A Date is days, a DateTime milliseconds since 1970-01-01 UTC. Both stay within the
years 0001 to 9999, however they are given: beyond them neither ISO text nor Python
nor Arrow's own printing can show a value again.

DateTime text is ISO 8601 with RFC 3339 inside it: a date, or a date and a time of hours
with optional minutes, seconds and fraction, separated by `T` or a space, with an
optional offset (none means UTC). Digits beyond milliseconds are cut off, not rounded:
an event never moves into a second, a day or a year in which it did not happen. There
are no leap seconds and no hour 24, because a stored time could not tell them from the
moment after.
"""

from __future__ import annotations

import re
from datetime import date

from omnigraph_core.patterns import pattern

DAY_MS = 86_400_000
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
DAY_MIN = date.min.toordinal() - _EPOCH_ORDINAL
DAY_MAX = date.max.toordinal() - _EPOCH_ORDINAL
MS_MIN = DAY_MIN * DAY_MS
MS_MAX = (DAY_MAX + 1) * DAY_MS - 1

_DATE = r"(\d{4})-(\d{2})-(\d{2})"
_CLOCK = r"(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d+))?)?)?"
_OFFSET = r"[Zz]|([+-])(\d{2})(?::?(\d{2}))?"
_DURATION = pattern(r"(\d{1,9}(?:\.\d+)?)(s|m|h|d|w)", re.ASCII)
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DATE_TEXT = pattern(_DATE, re.ASCII)
_TIME_TEXT = pattern(rf"{_DATE}(?:[Tt ]{_CLOCK}(?:{_OFFSET})?)?", re.ASCII)


def parse_date(text: str) -> int | None:
    """Days since the epoch, or None if the text is not a day of the calendar."""
    match = _DATE_TEXT.fullmatch(text)
    return None if match is None else _days(*match.groups())


def parse_datetime(text: str) -> int | None:
    """Milliseconds since the epoch, or None if the text is not a moment that can be stored."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hours, minutes, seconds, fraction, sign, offset_h, offset_m = match.groups("0")
    days = _days(year, month, day)
    if days is None or int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    if int(offset_h) > 23 or int(offset_m) > 59:
        return None
    clock = _clock_ms(int(hours), int(minutes), int(seconds)) + int(fraction[:3].ljust(3, "0"))
    offset = _clock_ms(int(offset_h), int(offset_m), 0)
    moment = days * DAY_MS + clock - (-offset if sign == "-" else offset)
    return moment if MS_MIN <= moment <= MS_MAX else None


def parse_duration(text: str) -> float | None:
    """Seconds, or None if the text is not a number with one of the units s, m, h, d and w."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNIT_S[match[2]]


def _clock_ms(hours: int, minutes: int, seconds: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def _days(year: str, month: str, day: str) -> int | None:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        return None
