"""Tables that fit a terminal: columns by display width, or one block of lines per row if it is narrow.

A letter of Chinese or an emoji takes two columns of a terminal and a combining mark takes none, so
widths are not lengths. Ids, times and numbers are never cut: part of one would look like another.
Other cells are cut with `…`. If not even that fits, each row becomes a block, one line per cell.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise

from omnigraph_cli.limits import CELL_CHARACTERS_MAX, COLUMN_WIDTH_MIN, SHORT_ID_CHARACTERS
from omnigraph_core.records import dataclass
from omnigraph_core.values.shown import one_line


class Id(str):
    """An id: listings on a terminal show its end, which every REF takes."""

    __slots__ = ()

    def shown(self, *, whole: bool) -> str:
        return self[:] if whole else self[-SHORT_ID_CHARACTERS:]


class OrBefore(Id):
    """The id of a commit that may have had it from an older one."""

    __slots__ = ()

    def shown(self, *, whole: bool) -> str:
        return f"{super().shown(whole=whole)} or before"

    def __str__(self) -> str:
        return self.shown(whole=True)


class Fixed(str):
    """Text that is never cut, such as a time."""

    __slots__ = ()


class Number(Fixed):
    """A number as it is to be shown; it stands to the right, as an `int` does."""

    __slots__ = ()


class Absent(str):
    """How a missing value is shown; it says nothing about its column."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Style:
    """How the columns of a table are kept apart, and how its head is set off."""

    gap: str
    has_rule: bool
    bold: bool


LISTING = Style("  ", False, False)
BOLD_LISTING = Style("  ", False, True)
RULED = Style(" | ", True, False)


def terminal_columns() -> int:
    return shutil.get_terminal_size().columns


def width(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, room: int) -> str:
    """The beginning that fits, with `…` if that is not all of it."""
    if width(text) <= room:
        return text
    if text.isascii():
        return text[: max(room - 1, 0)] + "…"
    low, high = 0, len(text)
    while low < high:  # the longest beginning; widths grow with it
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(text[:middle]) < room else (low, middle - 1)
    return text[:low] + "…"


def padded(text: str, room: int, *, to_the_right: bool = False) -> str:
    space = " " * (room - width(text))
    return space + text if to_the_right else text + space


def laid_out(
    names: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    room: int | None,
    style: Style,
    full_ids: bool = True,
) -> Iterator[str]:
    """The lines of a table; `room` is the columns of the terminal, None for as many as it takes."""
    table = _Table(names, rows, full_ids=full_ids)
    widths = table.widths(None if room is None else room - len(style.gap) * (len(names) - 1))
    if widths is None:
        yield from table.blocks(room or 0)
        return
    head = table.line(table.names, widths, style.gap, is_head=True)
    yield f"\033[1m{head}\033[0m" if style.bold else head
    if style.has_rule:
        yield style.gap.replace("|", "+").replace(" ", "-").join("-" * each for each in widths)
    for row in table.cells:
        yield table.line(row, widths, style.gap)


class _Table:
    """Cells as text, and what is known about each column."""

    def __init__(self, names: Sequence[str], rows: Sequence[Sequence[object]], *, full_ids: bool) -> None:
        self.names = [cut(one_line(name), CELL_CHARACTERS_MAX) for name in names]
        self.cells = [[_text(value, full_ids=full_ids) for value in row] for row in rows]
        columns = [[row[at] for row in rows] for at in range(len(names))]
        self._is_number = [_all_are(values, (int, Number)) for values in columns]
        self._is_fixed = [_all_are(values, (int, Id, Fixed)) for values in columns]
        self._natural = [
            max([width(name), *(width(row[at]) for row in self.cells)]) for at, name in enumerate(self.names)
        ]

    def widths(self, room: int | None) -> list[int] | None:
        """The width of each column; None if they cannot stand side by side."""
        if room is None or sum(self._natural) <= room:
            return self._natural
        least = [
            natural if fixed else min(natural, COLUMN_WIDTH_MIN)
            for natural, fixed in zip(self._natural, self._is_fixed, strict=True)
        ]
        if sum(least) > room:
            return None
        # The widest columns give way first: lower a common ceiling until all fit.
        for ceiling in range(max(self._natural), 0, -1):
            widths = [
                max(minimum, min(natural, ceiling))
                for minimum, natural in zip(least, self._natural, strict=True)
            ]
            if sum(widths) <= room:
                return widths
        return least

    def line(self, row: Sequence[str], widths: Sequence[int], gap: str, *, is_head: bool = False) -> str:
        cells = [
            padded(cut(cell, room), room, to_the_right=number)
            for cell, room, number in zip(row, widths, self._is_number, strict=True)
        ]
        return gap.join(cells) if is_head and gap.strip() else gap.join(cells).rstrip()

    def blocks(self, room: int) -> Iterator[str]:
        """One line per cell that is not empty, and an empty line between rows."""
        label = min(max(map(width, self.names)), max(room // 3, 1))
        blocks = [
            [
                f"{padded(cut(name, label), label)}  {cut(cell, max(room - label - 2, COLUMN_WIDTH_MIN))}"
                for name, cell in zip(self.names, row, strict=True)
                if cell
            ]
            for row in self.cells
        ]
        for block, following in pairwise([*blocks, []]):
            yield from block
            if following:
                yield ""


def _all_are(values: Sequence[object], kinds: tuple[type, ...]) -> bool:
    known = [value for value in values if value is not None and not isinstance(value, Absent)]
    return bool(known) and all(isinstance(each, kinds) and not isinstance(each, bool) for each in known)


def _text(value: object, *, full_ids: bool) -> str:
    if isinstance(value, Id):
        return value.shown(whole=full_ids)
    return one_line("" if value is None else str(value))
