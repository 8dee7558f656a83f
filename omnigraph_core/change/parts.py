"""Rows dealt into parts by a text, so that a rule about equal texts can be asked of one part at a time.

Equal texts are always in the same part, on every machine: that is all a rule about
uniqueness, endpoints or counts needs, and no part has to be larger than memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph_core.change.violations import Violation, Violations
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_Found = TypeVar("_Found")

# The hash is a polynomial in this odd number, modulo 2**64; the second one mixes its bits.
_BASE = 0x9E3779B97F4A7C15
_MIX = 0xD6E8FEB86659FD93
_WORD = 1 << 64

# Texts are hashed so many bytes at a time, to stay in the processor's caches; of a text
# that is longer than an id has any reason to be, the beginning has to do.
_BYTES_AT_ONCE = 1 << 19
_HASHED_BYTES_MAX = 1 << 12


@dataclass(frozen=True, slots=True)
class Part:
    """The texts whose hash falls to `number`, of `count` parts."""

    number: int
    count: int

    @property
    def is_whole(self) -> bool:
        return self.count == 1

    def holds(self, texts: pa.Array) -> pa.Array:
        """Which of the texts are in this part; null ones are in none, unless there is only one part."""
        import pyarrow as pa

        if self.is_whole:
            return pa.repeat(pa.scalar(True), len(texts))
        return pa.array(part_numbers(texts, self.count) == self.number)


WHOLE = Part(0, 1)


def parts(count: int) -> tuple[Part, ...]:
    """All parts, when there are so many."""
    return tuple(Part(number, count) for number in range(count))


def ask_by_part(
    asked: tuple[Part, ...], violations: Violations, ask: Callable[[Part, Violations], _Found]
) -> list[_Found]:
    """Ask a rule of one part after the other.

    What it finds is added in the order of the rows, as if it had been asked of all at once.
    """
    if len(asked) == 1:
        return [ask(asked[0], violations.of_question())]
    found = [Violations(violations.wanted) for _ in asked]
    results = [ask(part, mine) for part, mine in zip(asked, found, strict=True)]
    add_answers(
        violations, [each for mine in found for each in mine.first], sum(mine.total for mine in found)
    )
    return results


def add_answers(violations: Violations, kept: Iterable[Violation], total: int) -> None:
    """Add what one question found in all parts, in the order of the rows."""
    violations.add_counted(sorted(kept, key=_by_row), total)


def _by_row(violation: Violation) -> tuple[int, int, str]:
    return (1, 0, violation.message) if violation.row is None else (0, violation.row[1], violation.message)


def part_numbers(texts: pa.Array, count: int) -> np.ndarray[Any, Any]:
    """The number of the part each text is in; -1 for null."""
    import numpy as np

    numbers = ((text_hashes(texts) >> np.uint64(33)) % np.uint64(count)).astype(np.int32)
    if texts.null_count:
        numbers[texts.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def text_hashes(texts: pa.Array) -> np.ndarray[Any, Any]:
    """A 64-bit number for each text: the same for equal ones, and rarely for others."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _HASHED_BYTES_MAX:
        texts = pc.binary_slice(texts.cast(pa.binary()), 0, _HASHED_BYTES_MAX)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.frombuffer(data or b"", np.uint8)
    hashes = np.empty(len(texts), np.uint64)
    start = 0
    while start < len(texts):
        stop = int(np.searchsorted(ends, ends[start] + _BYTES_AT_ONCE, "right")) - 1
        hashes[start:stop] = _polynomials(characters, ends[start : stop + 1])
        start = stop
    return hashes


def _polynomials(characters: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The number of each text that goes from one of the ends to the next.

    With S(k) the sum of byte·Bᵗ over the first k bytes of all texts in a row, the
    polynomial of the text from s to e is (S(e) − S(s))·B⁻ˢ: no loop over texts is needed.
    """
    import numpy as np

    powers, inverses = _powers()
    mine = characters[ends[0] : ends[-1]]
    sums = np.zeros(len(mine) + 1, np.uint64)
    # One more than the byte, so that a text of zero bytes differs from a shorter one.
    np.cumsum((mine.astype(np.uint64) + np.uint64(1)) * powers[: len(mine)], out=sums[1:])
    places = ends - ends[0]
    hashes: np.ndarray[Any, Any] = (sums[places[1:]] - sums[places[:-1]]) * inverses[places[:-1]]
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(_MIX)
    return hashes


@cache
def _powers() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bᵗ and B⁻ᵗ for all t that are needed."""
    import numpy as np

    def powers(base: int) -> np.ndarray[Any, Any]:
        factors = np.full(_BYTES_AT_ONCE + 1, base, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return powers(_BASE), powers(pow(_BASE, -1, _WORD))
