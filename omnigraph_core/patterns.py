"""Regular expressions that are compiled when they are first used.

Compiling one takes as long as importing a small module, and a command uses few of those that the
modules it imports declare.
"""

from __future__ import annotations

import re
from typing import Any, cast


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(text, flags)`, later."""
    return cast("re.Pattern[str]", _Later(text, flags))


class _Later:
    """Has no attribute of a pattern until one is asked for, then those that are in use."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
