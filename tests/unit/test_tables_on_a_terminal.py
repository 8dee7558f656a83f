"""Tables by display width: they fit the terminal, and no id, time or number is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_cli.tables import BOLD_LISTING, LISTING, RULED, Absent, Fixed, Id, Number, cut, laid_out, width

COMMIT = "01M7QGMK8ATHMFRRXNGACJJ3A6"
COLUMNS = ["commit", "when", "message"]


def lines(rows: list[tuple[object, ...]], room: int | None, *, full_ids: bool = False) -> list[str]:
    return list(laid_out(COLUMNS, rows, room=room, style=LISTING, full_ids=full_ids))


@pytest.mark.parametrize(("text", "columns"), [("ab", 2), ("東京", 4), ("😀", 2), ("e\u0301", 1), ("🇫🇷", 2)])
def test_width_is_what_a_terminal_shows(text: str, columns: int) -> None:
    assert width(text) == columns


@given(st.text(alphabet="ab東😀\u0301é ", max_size=30), st.integers(1, 20))
def test_what_is_cut_fits_and_says_so(text: str, room: int) -> None:
    shown = cut(text, room)
    assert width(shown) <= room
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_columns_stand_below_each_other_whatever_the_letters() -> None:
    rows = [("東京", 7), ("Rome", 30)]
    assert list(laid_out(["city", "age"], rows, room=80, style=RULED)) == [
        "city | age",
        "-----+----",
        "東京 |   7",
        "Rome |  30",
    ]


def test_numbers_are_to_the_right_beside_missing_ones() -> None:
    rows = [(Number("1.5"),), (Absent("null"),)]
    assert list(laid_out(["amount"], rows, room=80, style=LISTING)) == ["amount", "   1.5", "  null"]


def test_the_message_gives_way_not_the_id() -> None:
    rows: list[tuple[object, ...]] = [(Id(COMMIT), Fixed("2026-11-18 14:23:12Z"), "a message " * 9)]
    head, row = lines(rows, 60)
    assert head.split() == COLUMNS
    assert row.startswith("GACJJ3A6  2026-11-18 14:23:12Z  a message ")
    assert width(row) == 60
    assert row.endswith("…")
    assert lines(rows, 60, full_ids=True)[1].startswith(f"{COMMIT}  2026-11-18 14:23:12Z  a")


def test_a_narrow_terminal_gets_a_block_per_row() -> None:
    rows: list[tuple[object, ...]] = [
        (Id(COMMIT), Fixed("2026-11-18 14:23:12Z"), None),
        (Id(COMMIT), Fixed("2026-11-18 14:23:13Z"), "x" * 50),
    ]
    assert lines(rows, 34) == [
        "commit   GACJJ3A6",
        "when     2026-11-18 14:23:12Z",
        "",
        "commit   GACJJ3A6",
        "when     2026-11-18 14:23:13Z",
        "message  " + "x" * 24 + "…",
    ]


@given(
    st.lists(st.tuples(st.text("ab東😀 ", max_size=40), st.integers(0, 10**9)), max_size=4),
    st.integers(30, 90),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, int]], room: int) -> None:
    for line in laid_out(["name", "rows"], rows, room=room, style=LISTING):
        assert width(line) <= room


def test_what_would_move_the_cursor_is_shown() -> None:
    assert list(laid_out(["a"], [("x\033[2J\ny",)], room=80, style=LISTING))[1] == r"x\x1b[2J\ny"
    assert next(laid_out(["a"], [], room=80, style=BOLD_LISTING)) == "\033[1ma\033[0m"
