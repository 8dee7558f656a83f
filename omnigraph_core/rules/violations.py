"""Violations: what is wrong with records, collected so that one run reports many.

A load of a million records may break a million rules. All are counted; the first few
are kept, which is what a person reads before fixing the program that wrote the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from omnigraph_core.errors import BadDataError
from omnigraph_core.records import dataclass
from omnigraph_core.values.shown import one_line

SHOWN_MAX = 20
_SUNK_AT_ONCE = 1024

_Item = TypeVar("_Item")
Sink = Callable[[Sequence["Violation"]], None]


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
    entity_id: str | None = None
    """The entity that breaks the rule, if it is one and its id is known."""

    def __str__(self) -> str:
        """`file:line: Type.property: what is wrong`, without the parts that are unknown."""
        place = [str(part) for part in (self.source, self.line) if part is not None]
        subject = ".".join(part for part in (self.type_name, self.property) if part is not None)
        parts = (":".join(place), "" if f" {subject}:" in self.message else subject, self.message)
        return one_line(": ".join(part for part in parts if part))

    def details(self) -> dict[str, object]:
        """The shape of one entry of `violations` in machine output."""
        return {
            "file": self.source,
            "line": self.line,
            "type": self.type_name,
            "property": self.property,
            "message": self.message,
        }


def listed(violations: tuple[Violation, ...], total: int) -> str:
    """The message of a failure: the first violations, and how many more there are."""
    lines = [str(violation) for violation in violations[:SHOWN_MAX]]
    if total > len(lines):
        lines.append(f"…and {total - len(lines)} more")
    return "\n".join(lines)


def listed_details(violations: tuple[Violation, ...], total: int) -> dict[str, object]:
    """The same for machine output."""
    return {"violations": [each.details() for each in violations[:SHOWN_MAX]], "total": total}


class InvalidRecords(BadDataError):
    """Records break rules. `violations` are the first ones kept, `total` counts all."""

    has_lines = True

    def __init__(self, violations: tuple[Violation, ...], total: int) -> None:
        super().__init__(listed(violations, total))
        self.violations = violations
        self.total = total

    def details(self) -> Mapping[str, object]:
        return listed_details(self.violations, self.total)


class Violations:
    """Counts every violation and keeps the first `keep` of them (None keeps all).

    With a `sink`, all of them go there, some at a time, and none is kept for longer.
    """

    def __init__(self, keep: int | None = SHOWN_MAX, sink: Sink | None = None) -> None:
        self._keep = None if sink is not None else keep
        self._sink = sink
        self._kept: list[Violation] = []
        self._total = 0

    def add(self, violation: Violation) -> None:
        self._total += 1
        if self._keep is None or len(self._kept) < self._keep:
            self._kept.append(violation)
        if self._sink is not None and len(self._kept) >= _SUNK_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Give the sink what it has not got yet."""
        if self._sink is not None and self._kept:
            self._sink(self._kept)
            self._kept = []

    @property
    def is_sinking(self) -> bool:
        """Do violations go elsewhere, where their order does not count?"""
        return self._sink is not None

    def add_worded(self, items: Sequence[_Item], word: Callable[[_Item], Violation]) -> None:
        """Add one violation per item; only those that will be shown get a message."""
        kept = items if self.wanted is None else items[: self.wanted]
        self.extend(map(word, kept))
        self._total += len(items) - len(kept)

    def add_counted(self, found: Sequence[Violation], total: int) -> None:
        """Count `total` violations; `found` has the ones to keep."""
        kept = found if self.wanted is None else found[: self.wanted]
        self.extend(kept)
        self._total += total - len(kept)

    def extend(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self.add(violation)

    def of_question(self) -> Violations:
        """The collector for one more rule."""
        return self

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


class Answers(Violations):
    """Keeps what each rule found apart, so that the same rules can be checked on other parts."""

    def __init__(self, keep: int | None = SHOWN_MAX) -> None:
        super().__init__(keep)
        self.questions: list[Violations] = []

    def of_question(self) -> Violations:
        self.questions.append(Violations(self._keep))
        return self.questions[-1]
