"""Violations: what is wrong with records, collected so that one run names many.

A load of a million records may break a million rules. All are counted; the first few
are kept, which is what a person reads before fixing the program that wrote the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph_core.errors import BadDataError

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule and where it was found; `record` is the input as it was read."""

    message: str
    source: str | None = None
    line: int | None = None
    type_name: str | None = None
    property: str | None = None
    record: bytes | None = None
    row: tuple[str, int] | None = None
    """Table key and position of the row among all that were read; known only to whoever rejects."""

    def __str__(self) -> str:
        """`file:line: Type.property: what is wrong`, without the parts nobody knows."""
        place = [str(part) for part in (self.source, self.line) if part is not None]
        subject = ".".join(part for part in (self.type_name, self.property) if part is not None)
        parts = (":".join(place), "" if f" {subject}:" in self.message else subject, self.message)
        return ": ".join(part for part in parts if part)

    def details(self) -> dict[str, object]:
        """The shape of one entry of `violations` in machine output."""
        return {
            "file": self.source,
            "line": self.line,
            "type": self.type_name,
            "property": self.property,
            "message": self.message,
        }


class InvalidRecords(BadDataError):
    """Records break rules. `violations` are the first ones kept, `total` counts all."""

    def __init__(self, violations: tuple[Violation, ...], total: int) -> None:
        shown = violations[:SHOWN_MAX]
        lines = [str(violation) for violation in shown]
        if total > len(shown):
            lines.append(f"…and {total - len(shown)} more")
        super().__init__("\n".join(lines))
        self.violations = violations
        self.total = total

    def details(self) -> Mapping[str, object]:
        shown = [violation.details() for violation in self.violations[:SHOWN_MAX]]
        return {"violations": shown, "total": self.total}


class Violations:
    """Counts every violation and keeps the first `keep` of them (None keeps all)."""

    def __init__(self, keep: int | None = SHOWN_MAX) -> None:
        self._keep = keep
        self._kept: list[Violation] = []
        self._total = 0

    def add(self, violation: Violation) -> None:
        self._total += 1
        if self._keep is None or len(self._kept) < self._keep:
            self._kept.append(violation)

    def extend(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self.add(violation)

    def count_more(self, number: int) -> None:
        """Count violations that nobody will look at one by one."""
        self._total += number

    @property
    def total(self) -> int:
        return self._total

    @property
    def first(self) -> tuple[Violation, ...]:
        """The ones kept, in the order they were added."""
        return tuple(self._kept)

    @property
    def wanted(self) -> int | None:
        """How many more would be kept; None when all are."""
        return None if self._keep is None else self._keep - len(self._kept)

    def raise_if_any(self) -> None:
        if self._total:
            raise InvalidRecords(self.first, self._total)
