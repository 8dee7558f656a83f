"""Texts in parts: equal ones together, on every machine, wherever they stand in memory."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_core.rules.parts import WHOLE, Part, ask_by_part, part_numbers, parts
from omnigraph_core.rules.violations import Violation, Violations

TEXTS = st.lists(
    st.none() | st.text(max_size=8) | st.sampled_from(["a", "b", "x" * 5000, "x" * 4096]), max_size=40
)


@given(TEXTS, st.integers(2, 9), st.integers(0, 5))
def test_equal_texts_are_in_one_part_and_no_text_in_two(
    texts: list[str | None], count: int, shift: int
) -> None:
    array = pa.array(["zz"] * shift + texts, pa.utf8()).slice(shift)
    dealt = [
        [text for text, mine in zip(texts, part.holds(array).to_pylist(), strict=True) if mine]
        for part in parts(count)
    ]
    assert sorted(text for part in dealt for text in part) == sorted(
        text for text in texts if text is not None
    )
    for text in set(texts) - {None}:
        assert sum(text in part for part in dealt) == 1


def test_texts_spread_evenly() -> None:
    numbers = part_numbers(pa.array([f"person-{number:06d}" for number in range(100_000)]), 10)
    counts = [int((numbers == number).sum()) for number in range(10)]
    assert min(counts) > 9_500
    assert max(counts) < 10_500


def test_the_whole_holds_nulls_too() -> None:
    assert WHOLE.holds(pa.array([None, "a"])).to_pylist() == [True, True]
    assert not any(part.holds(pa.array([None], pa.utf8())).to_pylist()[0] for part in parts(3))


@pytest.mark.parametrize("keep", [2, None])
def test_what_the_parts_find_is_in_the_order_of_the_rows(keep: int | None) -> None:
    def ask(part: Part, violations: Violations) -> int:
        violations.extend(
            Violation(f"row {row}", row=("node:P", row)) for row in range(part.number, 9, part.count)
        )
        return part.number

    found = Violations(keep)
    assert ask_by_part(parts(4), found, ask) == [0, 1, 2, 3]
    assert found.total == 9
    assert [violation.message for violation in found.first] == [f"row {row}" for row in range(9)][:keep]
