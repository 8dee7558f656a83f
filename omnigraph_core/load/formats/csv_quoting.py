"""Where the records of a CSV text end, and what their fields are.

The rules are those of RFC 4180, strictly. A field is quoted whole or not at all; inside
quotes a quote is doubled, and newlines and commas are text. Records end with a newline,
with or without a carriage return before it. In a text without mistakes a newline ends a
record exactly when the number of quotes before it is even, which is found for a block at
once. A text with mistakes is cut record by record: reading goes on behind the line in
which one was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_core.load.formats.limits import LINE_BYTES_MAX
from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.load.formats.source import Block
from omnigraph_core.records import dataclass

_QUOTE, _NEWLINE, _RETURN, _COMMA = b'"\n\r,'
_FIELD = re.compile(rb'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",\r\n]*+))(,|\r?\n)')
_QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')
_UNQUOTED = re.compile(rb'[^",\r\n]*')

NEVER_CLOSED = "a quote is opened and never closed; nothing after it was read"
_AFTER_QUOTE = "text after a closing quote (write a quote inside quotes twice)"
_INSIDE = "a quote in an unquoted field (quote the field, and write the quote twice)"
_LONE_RETURN = "a carriage return without a newline, outside quotes"


@dataclass(frozen=True, slots=True)
class Misquoted:
    """Text that is not a record: where it begins, the text itself, and what is wrong."""

    line: int
    text: bytes
    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Whole records, each with the newline that ends it, and what could not be cut.

    A record's number is that of the line it begins on. Empty lines are no records.
    """

    records: Lines
    misquoted: list[Misquoted] = field(default_factory=list)


def cut_records(blocks: Iterable[Block], record_bytes_max: int = LINE_BYTES_MAX) -> Iterator[Cut]:
    """The records of blocks of whole lines; a record that crosses a block's end waits for the next block."""
    waiting: Block | None = None
    for block in blocks:
        if waiting is not None:
            block = Block(waiting.first_line, waiting.text + block.text)
        cut, waiting = _cut(block)
        yield cut
        if waiting is not None and len(waiting.text) > record_bytes_max:
            break
    if waiting is not None:
        yield Cut(_lines([]), [Misquoted(waiting.first_line, waiting.text, NEVER_CLOSED)])


def _cut(block: Block) -> tuple[Cut, Block | None]:
    """The records of a block, and the rest if it ends inside a record."""
    data = np.frombuffer(block.text, dtype=np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    quotes = np.flatnonzero(data == _QUOTE) if b'"' in block.text else newlines[:0]
    if not _is_well_formed(block.text, data, quotes):
        return _cut_one_by_one(block)
    ending = np.arange(len(newlines))
    if len(quotes):
        ending = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
    offsets = np.zeros(len(ending) + 1, dtype=np.int32)
    offsets[1:] = newlines[ending] + 1
    numbers = np.full(len(ending), block.first_line, dtype=np.int64)
    numbers[1:] += ending[:-1] + 1
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]
    texts = pa.Array.from_buffers(pa.binary(), len(ending), buffers)
    lines = Lines(texts, pa.array(numbers), is_ascii=False)
    records = lines.where(~_is_blank(data, offsets))
    end = int(offsets[-1])
    if end == len(data):
        return Cut(records), None
    first_line = block.first_line + (int(ending[-1]) + 1 if len(ending) else 0)
    return Cut(records), Block(first_line, block.text[end:])


def _is_well_formed(text: bytes, data: np.ndarray[Any, Any], quotes: np.ndarray[Any, Any]) -> bool:
    """Does every quote stand where one may stand, and every carriage return before a newline?

    Quotes take turns at opening and closing; a doubled one closes and opens again.
    """
    opening, closing = quotes[::2], quotes[1::2]
    before = data[opening[opening > 0] - 1]
    behind = data[closing + 1]
    if not np.isin(before, (_COMMA, _NEWLINE, _QUOTE)).all():
        return False
    if not np.isin(behind, (_COMMA, _NEWLINE, _RETURN, _QUOTE)).all():
        return False
    if b"\r" not in text:
        return True
    returns = np.flatnonzero(data == _RETURN)
    lone = returns[data[returns + 1] != _NEWLINE]
    return bool((np.searchsorted(quotes, lone) % 2 == 1).all())


def _is_blank(data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    lengths = np.diff(offsets)
    blank: np.ndarray[Any, Any] = lengths == 1
    short = np.flatnonzero(lengths == 2)
    blank[short] = data[offsets[short]] == _RETURN
    return blank


def _cut_one_by_one(block: Block) -> tuple[Cut, Block | None]:
    good: list[tuple[int, bytes]] = []
    misquoted: list[Misquoted] = []
    text, start, line = block.text, 0, block.first_line
    waiting = None
    while start < len(text):
        end, problem = _end_of_record(text, start)
        if problem == NEVER_CLOSED:
            waiting = Block(line, text[start:])
            break
        record = text[start:end]
        if problem is not None:
            misquoted.append(Misquoted(line, record, problem))
        elif record.rstrip(b"\r\n"):
            good.append((line, record))
        line += record.count(b"\n")
        start = end
    return Cut(_lines(good), misquoted), waiting


def _end_of_record(text: bytes, start: int) -> tuple[int, str | None]:
    """Where a record ends; for a problem, the end of the line it was found in."""
    position = start
    while match := _FIELD.match(text, position):
        position = match.end()
        if match[3] != b",":
            return position, None
    if text[position] == _QUOTE:
        quoted = _QUOTED.match(text, position)
        if quoted is None:
            return len(text), NEVER_CLOSED
        position, problem = quoted.end(), _AFTER_QUOTE
    else:
        unquoted = _UNQUOTED.match(text, position)
        position = position if unquoted is None else unquoted.end()
        problem = _INSIDE if text[position] == _QUOTE else _LONE_RETURN
    return text.index(b"\n", position) + 1, problem


def _lines(records: list[tuple[int, bytes]]) -> Lines:
    numbers = pa.array([number for number, _ in records], pa.int64())
    return Lines(pa.array([text for _, text in records], pa.binary()), numbers, is_ascii=False)


def split_fields(record: bytes) -> list[bytes | None]:
    """The fields of one whole record; None for an unquoted empty field."""
    fields: list[bytes | None] = []
    for match in _FIELD.finditer(record):
        quoted = match[1]
        fields.append((match[2] or None) if quoted is None else quoted.replace(b'""', b'"'))
    return fields
