"""How results look: one interface, with one implementation for people and one for machines.

Data goes to stdout, everything else to stderr. A command builds its result and hands
it over; it never prints.

Text is text: whatever stands in a message, a name or a cell, people see it as characters on
the line where it belongs. So an answer is made of lines, and what would end one, move the
cursor, set a colour or hide something is shown as an escape.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, TextIO

from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.streams import ReaderGoneError
from omnigraph_cli.tables import BOLD_LISTING, LISTING, laid_out, terminal_columns
from omnigraph_cli.wording import hint_of, message_of
from omnigraph_core import shapes
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.values.shown import one_line

JsonObject = Mapping[str, object]


class Output(Protocol):
    """Where a command's results, remarks and failures go."""

    def result(self, content: JsonObject, *lines: str) -> None:
        """The answer: `content` for machines, the lines for people."""

    def document(self, content: JsonObject, text: str) -> None:
        """An answer that is a text of its own, with lines and tabs: exact, but on a terminal harmless."""

    def drawing(self, content: JsonObject, text: str) -> None:
        """Lines with colours, in which everything that was put in is made safe already."""

    def rows(
        self,
        content: JsonObject,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *lines: str,
    ) -> None:
        """An answer that people read as a table, with lines below it."""

    def remark(self, text: str) -> None:
        """Something worth knowing beside the answer; silent with --quiet."""

    def failure(self, error: OmnigraphError) -> None:
        """Why there is no answer."""

    def is_colored(self) -> bool:
        """May the answer have colours?"""


class HumanOutput:
    """Text for a person; a table when stdout is a terminal, tab-separated lines when it is not."""

    def __init__(
        self, *, quiet: bool, color: str, tells_outcome: bool = True, full_ids: bool = False
    ) -> None:
        self._quiet = quiet
        self._color = color
        self._tells_outcome = tells_outcome
        self._full_ids = full_ids

    def result(self, content: JsonObject, *lines: str) -> None:
        if self._tells_outcome:
            tell(sys.stdout, "".join(f"{one_line(line)}\n" for line in lines))

    def document(self, content: JsonObject, text: str) -> None:
        if not self._tells_outcome:
            return
        if sys.stdout.isatty():
            tell(sys.stdout, _ended(harmless(text)))
        else:
            write(sys.stdout, text)

    def drawing(self, content: JsonObject, text: str) -> None:
        if self._tells_outcome:
            tell(sys.stdout, _ended(text))

    def rows(
        self,
        content: JsonObject,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *lines: str,
    ) -> None:
        if not self._tells_outcome:
            return
        if not sys.stdout.isatty():
            table = [columns, *([_cell(value) for value in row] for row in rows)]
            tell(sys.stdout, "".join("\t".join(row) + "\n" for row in table))
        else:
            style = BOLD_LISTING if self._colored(sys.stdout) else LISTING
            room = terminal_columns()
            shown = laid_out(columns, rows, room=room, style=style, full_ids=self._full_ids)
            tell(sys.stdout, "".join(f"{line}\n" for line in (one_line(title), *(shown if rows else ()))))
        tell(sys.stdout, "".join(f"{one_line(line)}\n" for line in lines))

    def remark(self, text: str) -> None:
        if not self._quiet:
            sys.stdout.flush()
            tell(sys.stderr, f"{one_line(text)}\n")

    def failure(self, error: OmnigraphError) -> None:
        _flush_answers()
        label = "\033[1;31merror:\033[0m" if self._colored(sys.stderr) else "error:"
        said = message_of(error)
        tell(sys.stderr, f"{label} {harmless(said) if error.has_lines else one_line(said)}\n")
        if hint := hint_of(error):
            tell(sys.stderr, f"hint: {one_line(hint)}\n")

    def is_colored(self) -> bool:
        return self._colored(sys.stdout)

    def _colored(self, stream: TextIO) -> bool:
        return self._color == "always" or (self._color == "auto" and stream.isatty())


class JsonOutput:
    """One JSON object on stdout, or one on stderr for a failure; nothing else."""

    def result(self, content: JsonObject, *lines: str) -> None:
        write(sys.stdout, json.dumps(content, ensure_ascii=False, indent=2))

    def document(self, content: JsonObject, text: str) -> None:
        self.result(content)

    def drawing(self, content: JsonObject, text: str) -> None:
        self.result(content)

    def rows(
        self,
        content: JsonObject,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *lines: str,
    ) -> None:
        self.result(content)

    def remark(self, text: str) -> None:
        """Remarks are for people; a machine finds the facts in the object."""

    def failure(self, error: OmnigraphError) -> None:
        _flush_answers()
        text = json.dumps(failure_object(error), ensure_ascii=False)
        is_shown = _encodable(sys.stderr, text) == text
        write(sys.stderr, text if is_shown else json.dumps(failure_object(error)))

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


def aligned(counts: Mapping[str, int]) -> list[str]:
    """A line per name with its number, in columns."""
    names = max(map(len, counts), default=0)
    digits = max((len(f"{count}") for count in counts.values()), default=0)
    return [f"  {name:<{names}}  {count:>{digits}}" for name, count in counts.items()]


def write(stream: TextIO, text: str) -> None:
    """Write a line, exactly."""
    write_exactly(stream, _ended(text))


def write_exactly(stream: TextIO, text: str) -> None:
    """Write what a program reads. An escape in it would be another text, so it is refused."""
    if _encodable(stream, text) != text:
        raise OutputNotEncodable(stream.encoding)
    stream.write(text)


def tell(stream: TextIO, text: str) -> None:
    """Write lines for people: a character that the encoding lacks is shown as an escape."""
    stream.write(_encodable(stream, text))


class OutputNotEncodable(StorageError):
    """The answer has characters that the encoding of standard output does not have."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the answer cannot be written as {encoding} text",
            hint="use a UTF-8 locale, or PYTHONIOENCODING=utf-8; what the command changed stays changed",
        )


def _flush_answers() -> None:
    """What was answered comes before why it ends there. That the answer is lost, too, adds nothing."""
    with contextlib.suppress(OmnigraphError, ReaderGoneError):
        sys.stdout.flush()


def _encodable(stream: TextIO, text: str) -> str:
    """Text as a stream can show it; the same text if it can show all of it."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def harmless(text: str) -> str:
    """Text of several lines: these and its tabs stay, everything else that is not shown is escaped."""
    return "\n".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def _cell(value: object) -> str:
    return one_line("" if value is None else str(value))
