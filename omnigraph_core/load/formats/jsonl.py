"""JSON lines to typed rows: the fast reader for what it can prove, the exact one for the rest.

Blocks are read by a few threads side by side (pyarrow and numpy leave Python's lock
while they work) and handed on in the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from omnigraph_core.load.formats.fallback import by_type, halving
from omnigraph_core.load.formats.jsonl_exact import ExactReader
from omnigraph_core.load.formats.jsonl_fast import read_names, read_rows
from omnigraph_core.load.formats.lines import Lines, cut, in_pieces, named_by_columns, named_by_head
from omnigraph_core.load.formats.side_by_side import in_order
from omnigraph_core.load.formats.source import Block, Source
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import EntityType, Schema

# Lines that the fast reader refuses are halved until so few are left that reading them
# one by one costs less than trying again.
_EXACT_LINES = 256


def read_jsonl(
    sources: Sequence[Source],
    schema: Schema,
    violations: Violations,
    progress: Progress = silent,
) -> Iterator[TypedRows]:
    """Every good record of the sources; what is wrong with the others goes to `violations`.

    The rows of one type come in the order of the input, with ascending lines. Nothing is
    raised for bad records: the caller asks `violations` once the rows are through.
    """
    reader = _BlockReader(schema)
    for read in in_order(_blocks(sources, progress), reader.read, _weight):
        violations.extend(read.violations)
        yield from read.rows


def _blocks(sources: Sequence[Source], progress: Progress) -> Iterator[tuple[str, Block]]:
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    done = 0

    def on_bytes(number: int) -> None:
        nonlocal done
        done += number
        progress(ProgressEvent("read", done, total, "bytes"))

    for source in sources:
        for block in source.blocks(on_bytes):
            for piece in in_pieces(block):
                yield source.name, piece


def _weight(task: tuple[str, Block]) -> int:
    return len(task[1].text)


@dataclass(frozen=True, slots=True)
class _ReadBlock:
    rows: list[TypedRows]
    violations: list[Violation]


class _BlockReader:
    """Reads blocks of one schema; stateless, so threads can share it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._exact = ExactReader(schema)

    def read(self, task: tuple[str, Block]) -> _ReadBlock:
        source, block = task
        lines, braced, other = cut(block)
        named, left = named_by_head(lines, braced, self._schema)
        refused = [lines.where(other)]
        if left.any():
            parsed, unnamed = halving(lines.where(left), self._named, _EXACT_LINES)
            refused += unnamed
            for _, (more, odd) in parsed:
                named += more
                refused.append(odd)
        pieces: list[TypedRows] = []
        for entity, group in named:
            tables, unfit = halving(group, partial(read_rows, entity=entity), _EXACT_LINES)
            pieces += [TypedRows(entity, rows, source, part.numbers, given) for part, (rows, given) in tables]
            refused += unfit
        exact, violations = self._read_exact(source, refused)
        return _ReadBlock(by_type(pieces + exact), violations)

    def _named(self, lines: Lines) -> tuple[list[tuple[EntityType, Lines]], Lines]:
        """Lines by the type they name anywhere in the record, and the lines that name no single type."""
        named, odd = named_by_columns(lines, *read_names(lines), self._schema)
        return named, lines.where(odd)

    def _read_exact(self, source: str, refused: list[Lines]) -> tuple[list[TypedRows], list[Violation]]:
        rows: list[TypedRows] = []
        violations: list[Violation] = []
        for lines in refused:
            good, bad = self._exact.read(source, lines.pairs())
            rows += good
            violations += bad
        return rows, sorted(violations, key=lambda violation: violation.line or 0)
