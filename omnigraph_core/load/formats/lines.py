"""Lines as Arrow: a block split into lines, grouped by the type each one names.

Nothing here reads JSON in Python beyond one line per type and block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.limits import BLOCK_LINES_MAX
from omnigraph_core.load.formats.source import Block
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema

_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
# The start of a record as most programs write it: the type name first.
_HEAD = re.compile(rb'\{[ \t]*"(type|edge)"[ \t]*:[ \t]*"([A-Za-z0-9_]+)"[ \t]*(?=[,}])')
# So many types are told apart by comparing line starts; comparing costs time per type.
_HEADS_MAX = 16
_PAIRS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a block: their bytes with the newline (binary) and their numbers (int64).

    `is_ascii` is true of the whole block, which is then sure to be UTF-8.
    """

    texts: pa.Array
    numbers: pa.Array
    is_ascii: bool

    def __len__(self) -> int:
        return len(self.texts)

    def where(self, chosen: np.ndarray[Any, Any]) -> Lines:
        """The lines for which the mask is true; no copy if it is true for all."""
        if chosen.all():
            return self
        mask = pa.array(chosen)
        return Lines(self.texts.filter(mask), self.numbers.filter(mask), self.is_ascii)

    def slice(self, start: int, length: int) -> Lines:
        return Lines(self.texts.slice(start, length), self.numbers.slice(start, length), self.is_ascii)

    @property
    def joined(self) -> pa.Buffer:
        """The bytes of all lines in sequence. Not copied: Arrow stores them contiguously."""
        _, offsets, data = self.texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32)
        start = int(ends[self.texts.offset])
        return data.slice(start, int(ends[self.texts.offset + len(self)]) - start)

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each line, for the reader that goes line by line."""
        for start in range(0, len(self), _PAIRS_AT_ONCE):
            some = self.slice(start, _PAIRS_AT_ONCE)
            yield from zip(some.numbers.to_pylist(), some.texts.to_pylist(), strict=True)


def in_pieces(block: Block, lines_max: int = BLOCK_LINES_MAX) -> Iterator[Block]:
    """The block in pieces of so many lines at most: short ones take far more room than their bytes."""
    newlines = np.frombuffer(block.text, dtype=np.uint8) == _NEWLINE
    if np.count_nonzero(newlines) <= lines_max:
        yield block
        return
    start, first = 0, block.first_line
    for end in (*(np.flatnonzero(newlines)[lines_max - 1 :: lines_max] + 1).tolist(), len(block.text)):
        if end > start:
            yield Block(first, block.text[start:end])
        start, first = end, first + lines_max


def cut(block: Block) -> tuple[Lines, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The lines of a block; which of them begin with `{` and end with `}`; which have anything else.

    Empty lines are neither.

    The fast reader gives many lines at once to a parser that takes a newline for any
    other space. Lines with both braces keep it honest: a value that runs over such a
    line's end is a syntax error, so each of them holds one or more whole values; and
    pyarrow never sees a block that begins with `null`, which crashes it.
    """
    data = np.frombuffer(block.text, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE) + 1
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]
    texts = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    numbers = pa.array(np.arange(block.first_line, block.first_line + len(ends), dtype=np.int64))
    last = data[ends - 2]
    returned = last == _RETURN
    if returned.any():
        last = np.where(returned, data[ends - 3], last)
    lines = Lines(texts, numbers, block.text.isascii())
    braced = (data[offsets[:-1]] == _OPEN) & (last == _CLOSE)
    return lines, braced, ~braced & (np.diff(offsets) > np.where(returned, 2, 1))


def named_by_head(
    lines: Lines, braced: np.ndarray[Any, Any], schema: Schema
) -> tuple[list[tuple[EntityType, Lines]], np.ndarray[Any, Any]]:
    """Lines that begin with their type's name, by type; and which of the braced are left.

    Each type's start is taken from the first line that has it and looked for in all.
    """
    found: list[tuple[EntityType, Lines]] = []
    left = braced.copy()
    passed = 0
    for _ in range(_HEADS_MAX):
        passed += int(left[passed:].argmax()) if passed < len(left) else 0
        if passed >= len(left) or not left[passed]:
            break
        head = _HEAD.match(lines.texts[passed].as_py())
        entity = None if head is None else _entity(schema, head[1].decode(), head[2].decode())
        if head is None or entity is None:
            passed += 1
            continue
        mine = pc.starts_with(lines.texts, pattern=head[0]).to_numpy(zero_copy_only=False) & left
        found.append((entity, lines.where(mine)))
        left &= ~mine
    return found, left


def _entity(schema: Schema, kind: str, name: str) -> EntityType | None:
    return schema.find_node(name) if kind == "type" else schema.find_edge(name)


def named_by_columns(
    lines: Lines, types: pa.Array, edges: pa.Array, schema: Schema
) -> tuple[list[tuple[EntityType, Lines]], np.ndarray[Any, Any]]:
    """Lines by the type they name in `types` or `edges`; and which name none, or both."""
    found: list[tuple[EntityType, Lines]] = []
    odd = np.ones(len(lines), dtype=np.bool_)
    for kind, names, others in (("type", types, edges), ("edge", edges, types)):
        encoded = names.dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        codes = np.where(others.is_null().to_numpy(zero_copy_only=False), codes, -1)
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            entity = _entity(schema, kind, name)
            if entity is not None:
                mine = codes == code
                found.append((entity, lines.where(mine)))
                odd &= ~mine
    return found, odd
