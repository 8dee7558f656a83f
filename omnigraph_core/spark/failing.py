"""How errors of OmniGraph reach a user of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_core.errors import OmnigraphError


class OmnigraphFailure(Exception):
    """What was wrong, for Spark to show: it prints the text of an exception, and where it was raised."""


@contextmanager
def failures() -> Iterator[None]:
    """Raise errors of OmniGraph with their hints."""
    try:
        yield
    except OmnigraphError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        raise OmnigraphFailure(f"{error}{hint}") from None
