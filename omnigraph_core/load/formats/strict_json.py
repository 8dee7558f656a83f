"""JSON as load takes it: one value, every key once, no NaN, integers of any length."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

# More digits than any column can hold. Python refuses to convert very long digit strings;
# the leading ones are enough to be out of every range.
_DIGITS_MAX = 400


class JsonObject(dict[str, object]):
    """A JSON object that remembers which of its keys were given more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = ()
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated = tuple(sorted(name for name, count in counts.items() if count > 1))


class NotJson(ValueError):
    """The text is not one JSON value; the message says what is wrong and in which column."""


def parse_strict(line: bytes) -> object:
    """The one JSON value of a line; NaN and infinities are not JSON and are refused."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise NotJson(f"not valid UTF-8: byte 0x{bad:02x} at position {error.start + 1}") from error
    except json.JSONDecodeError as error:
        # Some of Python's messages end in "at" already.
        reason = error.msg.removesuffix(" at")
        raise NotJson(f"invalid JSON: {reason} at column {error.colno}") from error
    except RecursionError as error:
        raise NotJson("invalid JSON: nested too deeply") from error


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"invalid JSON: {name} is not a JSON number")


class _MinusZero(int):
    """`-0`: zero for an integer column, while a float column keeps the sign."""

    def __float__(self) -> float:
        return -0.0


def _integer(digits: str) -> int:
    return _MinusZero() if digits == "-0" else int(digits[:_DIGITS_MAX])


_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_constant=_no_constant, parse_int=_integer)
