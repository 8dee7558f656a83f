"""How results look: one interface, with one implementation for people and one for machines.

Data goes to stdout, everything else to stderr. A command builds its result and hands
it over; it never prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, TextIO

from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.wording import hint_of, message_of
from omnigraph_core import shapes
from omnigraph_core.errors import OmnigraphError

JsonObject = Mapping[str, object]


class Output(Protocol):
    """Where a command's results, remarks and failures go."""

    def result(self, content: JsonObject, text: str) -> None:
        """The answer: `content` for machines, `text` for people."""

    def rows(
        self, content: JsonObject, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """An answer that people read as a table."""

    def remark(self, text: str) -> None:
        """Something worth knowing beside the answer; silent with --quiet."""

    def failure(self, error: OmnigraphError) -> None:
        """Why there is no answer."""

    def is_colored(self) -> bool:
        """May the answer have colours?"""


class HumanOutput:
    """Text for a person; a table when stdout is a terminal, tab-separated lines when it is not."""

    def __init__(self, *, quiet: bool, color: str) -> None:
        self._quiet = quiet
        self._color = color

    def result(self, content: JsonObject, text: str) -> None:
        write(sys.stdout, text)

    def rows(
        self, content: JsonObject, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        if not sys.stdout.isatty():
            lines = [columns, *([_cell(value) for value in row] for row in rows)]
            write(sys.stdout, "\n".join("\t".join(line) for line in lines))
            return
        from rich.console import Console
        from rich.table import Table

        console = Console(no_color=not self._colored(sys.stdout), highlight=False)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            is_number = bool(rows) and all(isinstance(row[columns.index(column)], int) for row in rows)
            table.add_column(column, justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        console.print(title, markup=False)
        console.print(table)

    def remark(self, text: str) -> None:
        if not self._quiet:
            write(sys.stderr, text)

    def failure(self, error: OmnigraphError) -> None:
        label = "\033[1;31merror:\033[0m" if self._colored(sys.stderr) else "error:"
        write(sys.stderr, f"{label} {message_of(error)}")
        if hint := hint_of(error):
            write(sys.stderr, f"hint: {hint}")

    def is_colored(self) -> bool:
        return self._colored(sys.stdout)

    def _colored(self, stream: TextIO) -> bool:
        return self._color == "always" or (self._color == "auto" and stream.isatty())


class JsonOutput:
    """One JSON object on stdout, or one on stderr for a failure; nothing else."""

    def result(self, content: JsonObject, text: str) -> None:
        write(sys.stdout, json.dumps(content, ensure_ascii=False, indent=2))

    def rows(
        self, content: JsonObject, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        self.result(content, "")

    def remark(self, text: str) -> None:
        """Remarks are for people; a machine finds the facts in the object."""

    def failure(self, error: OmnigraphError) -> None:
        write(sys.stderr, json.dumps(failure_object(error), ensure_ascii=False))

    def is_colored(self) -> bool:
        return False


def failure_object(error: OmnigraphError) -> dict[str, object]:
    """The documented shape of a failure, in the words of the command line and with its exit code."""
    shown = shapes.failure(error)
    worded = {"error": message_of(error), "code": shown["code"], "exit": BY_KIND[error.kind]}
    return {**worded, **shown, "error": worded["error"], "hint": hint_of(error)}


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def write(stream: TextIO, text: str) -> None:
    """Write a line."""
    stream.write(text if text.endswith("\n") else text + "\n")


def _cell(value: object) -> str:
    return one_line("" if value is None else str(value))


def one_line(text: str) -> str:
    """Text that stays on its line and moves no cursor: what cannot be printed is escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
