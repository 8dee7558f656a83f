"""Taking a JSON object of a record apart: every member has the type it must have, and none is unknown.

Records come from disk, where they may be anything: cut, changed, forged, or of a newer version.
What is not exactly as expected is a ValueError that says which member, and its reader makes that an
error that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph_core.patterns import pattern

# What a column of 64 bits can hold; a larger number is nobody's version, size or time.
WHOLE_MAX = 2**63 - 1

# The end of the year 9999, in microseconds since the epoch; nothing can show a time beyond it.
MOMENT_MAX = 253_402_300_799_999_999

_DIGITS = pattern(r"[0-9]{1,18}")
_ULID = pattern(r"[0-9A-HJKMNP-TV-Z]{26}")


def is_ulid(text: str) -> bool:
    """Is it an id as OmniGraph makes them?"""
    return _ULID.fullmatch(text) is not None


class Fields:
    """The members of one object, taken one by one; `end` says that these were all."""

    def __init__(self, content: object, where: str = "it") -> None:
        if not isinstance(content, dict):
            raise ValueError(f"{where} is not an object")
        self._content: Mapping[str, Any] = content
        self._where = where
        self._taken: set[str] = set()

    def text(self, key: str) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, "a text")
        return self._checked(key, value)

    def optional_text(self, key: str) -> str | None:
        """Null, or a text; a member that older writers did not know is null."""
        value = self._take(key, optional=True)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text")
        return None if not value else self._checked(key, value)

    def ulid(self, key: str) -> str:
        value = self.text(key)
        if not is_ulid(value):
            raise self._wrong(key, "an id")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A number of 0 or more; `default` for a member that older writers did not know."""
        value = self._take(key, optional=default is not None)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 0 <= value <= WHOLE_MAX:
            raise self._wrong(key, "a whole number")
        return value

    def moment(self, key: str) -> int:
        """A time, in microseconds since the epoch."""
        return self._not_too_late(key, self.whole(key))

    def moment_as_text(self, key: str) -> int:
        """A time that is written as a text."""
        text = self.text(key)
        if not _DIGITS.fullmatch(text):
            raise self._wrong(key, "a time")
        return self._not_too_late(key, int(text))

    def _not_too_late(self, key: str, moment: int) -> int:
        if moment > MOMENT_MAX:
            raise self._wrong(key, "a time")
        return moment

    def optional_whole(self, key: str) -> int | None:
        value = self._take(key, optional=True)
        return None if value is None else self.whole(key)

    def seconds(self, key: str) -> float:
        """A number of 0 or more, with or without a fraction."""
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= WHOLE_MAX:
            raise self._wrong(key, "a number of seconds")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._take(key, optional=default is not None)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        found = self._list(key)
        if not all(isinstance(each, str) and each for each in found):
            raise self._wrong(key, "a list of texts")
        return tuple(self._checked(key, each) for each in found)

    def wholes(self, key: str) -> tuple[int, ...]:
        """Numbers of 0 or more."""
        found = self._list(key)
        if not all(type(each) is int and 0 <= each <= WHOLE_MAX for each in found):
            raise self._wrong(key, "a list of whole numbers")
        return tuple(found)

    def object(self, key: str) -> Fields:
        return Fields(self._take(key), f"{key} of {self._where}" if self._where != "it" else key)

    def optional_object(self, key: str) -> Fields | None:
        return None if self._take(key, optional=True) is None else self.object(key)

    def objects(self, key: str) -> Iterator[Fields]:
        for number, each in enumerate(self._list(key)):
            yield Fields(each, f"{key}[{number}]")

    def end(self) -> None:
        """ValueError if there is more than was taken: it would mean something to its writer."""
        unknown = sorted(self._content.keys() - self._taken)
        if unknown:
            raise ValueError(f"{self._where} has an unknown member: {unknown[0]!r}")

    def refuse(self, key: str, expected: str) -> ValueError:
        """What to raise for a member that is of the right type, and wrong all the same."""
        return self._wrong(key, expected)

    def _list(self, key: str) -> list[Any]:
        value = self._take(key, optional=True)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def _take(self, key: str, *, optional: bool = False) -> Any:
        self._taken.add(key)
        if not optional and key not in self._content:
            raise ValueError(f"{self._where} lacks {key!r}")
        return self._content.get(key)

    def _checked(self, key: str, value: str) -> str:
        """Half a character, which JSON can spell, is no text."""
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._wrong(key, "a text") from None
        return value

    def _wrong(self, key: str, expected: str) -> ValueError:
        return ValueError(f"{key} of {self._where} is not {expected}: {self._content.get(key)!r:.80}")
