"""What callers of the library may pass: of the right type, or refused before anything is done.

Python checks none of it. A number for a message goes through planning, staging and the publish
without a word, and is found by the first who has to store it, when it is too late.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from omnigraph_core.errors import UsageError

_Choice = TypeVar("_Choice", bound=StrEnum)


class WrongArgument(UsageError):
    """An argument of a type, or with a content, that can never work."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name} must be {expected}, not {_shown(value)}")
        self.argument = name

    def details(self) -> Mapping[str, object]:
        return {"argument": self.argument}


def texts(**given: object) -> None:
    """Each of them is a text."""
    for name, value in given.items():
        _check_text(name, value, "a text")


def optional_texts(**given: object) -> None:
    """Each of them is a text or None."""
    for name, value in given.items():
        if value is not None:
            _check_text(name, value, "a text or None")


def text_lists(**given: object) -> None:
    """Each of them is a list, or another sequence, of texts; a single text is none."""
    for name, value in given.items():
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise WrongArgument(name, value, "a list of texts")
        for member in value:
            _check_text(f"each of {name}", member, "a text")


def paths(name: str, given: object) -> list[str]:
    """The paths as texts; each may also be a `Path`."""
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Sequence):
        raise WrongArgument(name, given, "a list of paths")
    named = [os.fspath(each) if isinstance(each, os.PathLike) else each for each in given]
    text_lists(**{name: named})
    return named


def flags(**given: object) -> None:
    """Each of them is True or False: of other values nobody knows what was meant."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise WrongArgument(name, value, "True or False")


def seconds(name: str, given: object) -> None:
    """A time span, or None; zero and more."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise WrongArgument(name, given, "a number of seconds or None")


def count(name: str, given: object) -> None:
    """A number of things, or None; zero and more."""
    if given is not None and (type(given) is not int or given < 0):
        raise WrongArgument(name, given, "a whole number or None")


def named_values(name: str, given: object) -> None:
    """Values by their names, or None; the values are judged by whoever knows their types."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise WrongArgument(name, given, "a mapping of names to values, or None")
    for key in given:
        _check_text(f"each name in {name}", key, "a text")


def choice(name: str, given: Any, among: type[_Choice]) -> _Choice:
    """The member that is given, or whose text is."""
    try:
        return among(given)
    except ValueError:
        raise WrongArgument(name, given, f"one of {', '.join(among)}") from None


def instance(name: str, given: object, of: type | tuple[type, ...], words: str) -> None:
    if not isinstance(given, of):
        raise WrongArgument(name, given, words)


def called(name: str, given: Callable[..., object]) -> None:
    """Something that can be called."""
    if not callable(given):
        raise WrongArgument(name, given, "a function")


def _check_text(name: str, value: object, expected: str) -> None:
    """A text that can be written to a file: half of a surrogate pair cannot."""
    if not isinstance(value, str):
        raise WrongArgument(name, value, expected)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongArgument(name, value, f"{expected} that UTF-8 can express") from None


def _shown(value: object) -> str:
    """As short as it takes to recognise it; a value may be anything, also one that fails to show itself."""
    kind = type(value).__name__
    if isinstance(value, str | int | float | bytes):
        shown = repr(value)
        return f"{kind} {shown if len(shown) <= 60 else shown[:57] + '...'}"
    return kind
