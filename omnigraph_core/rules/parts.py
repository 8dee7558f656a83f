"""Rows split into parts by a text, so that a rule about equal texts can be checked part by part.

Equal texts are always in the same part, on every machine: that is all a rule about
uniqueness, endpoints or counts needs, and no part has to be larger than memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.values.hashes import text_hashes

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Part:
    """The texts whose hash falls to `number`, of `count` parts."""

    number: int
    count: int

    @property
    def is_whole(self) -> bool:
        return self.count == 1

    def holds(self, texts: pa.Array) -> pa.Array:
        """Which of the texts are in this part; nulls are in none, unless there is only one part."""
        if self.is_whole:
            return pa.repeat(pa.scalar(True), len(texts))
        return pa.array(part_numbers(texts, self.count) == self.number)


WHOLE = Part(0, 1)


def parts(count: int) -> tuple[Part, ...]:
    """All parts, of `count`."""
    return tuple(Part(number, count) for number in range(count))


def ask_by_part(
    asked: tuple[Part, ...], violations: Violations, ask: Callable[[Part, Violations], _Found]
) -> list[_Found]:
    """Check a rule on one part after the other.

    What it finds is added in the order of the rows, as if it had been asked of all at once.
    """
    if len(asked) == 1:
        return [ask(asked[0], violations.of_question())]
    if violations.is_sinking:
        return [ask(part, violations) for part in asked]
    found = [Violations(violations.wanted) for _ in asked]
    results = [ask(part, mine) for part, mine in zip(asked, found, strict=True)]
    add_answers(
        violations, [each for mine in found for each in mine.first], sum(mine.total for mine in found)
    )
    return results


def add_answers(violations: Violations, kept: Iterable[Violation], total: int) -> None:
    """Add what one rule found in all parts, in row order."""
    violations.add_counted(sorted(kept, key=_by_row), total)


def _by_row(violation: Violation) -> tuple[int, int, str]:
    return (1, 0, violation.message) if violation.row is None else (0, violation.row[1], violation.message)


def part_numbers(texts: pa.Array, count: int) -> np.ndarray[Any, Any]:
    """The number of the part each text is in; -1 for null."""
    numbers = ((text_hashes(texts) >> np.uint64(33)) % np.uint64(count)).astype(np.int32)
    if texts.null_count:
        numbers[texts.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers
