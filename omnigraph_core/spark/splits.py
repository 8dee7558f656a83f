"""The input cut into splits that tasks can read side by side.

JSON lines that are not compressed are cut anywhere: a line belongs to the part in which
it begins. Parquet is cut between row groups. Everything else is one part a file: where a
CSV record ends can only be told from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from omnigraph_core.load.formats.compressed import CODECS
from omnigraph_core.load.formats.parquet import ParquetSource
from omnigraph_core.load.formats.source import LocalFile, Place
from omnigraph_core.load.inputs import Input
from omnigraph_core.records import dataclass
from omnigraph_core.schema.files import Format

# A few fragments' worth of records, and small beside the memory of an executor.
SPLIT_BYTES = 64 * 2**20
_START_BYTES = 4


@dataclass(frozen=True, slots=True)
class Split:
    """One part: bytes of JSON lines from `start` to `end`, row groups of Parquet, or a whole file."""

    number: int
    name: str
    """The input as the caller called it."""
    place: str
    """An absolute path, or s3://."""
    format: Format | None
    """None: a DataFrame."""
    table_key: str | None
    """The type it is about; None if its records say."""
    start: int
    end: int
    is_whole: bool
    size: int

    def partition(self, number: int) -> Split:
        """One of the partitions that this stands for: of a DataFrame by its number, whose rows are
        counted anew; of what Spark itself reads the next stretch of it."""
        if self.format is None:
            return replace(self, name=f"{self.name}, partition {number}")
        return replace(self, start=number)


def cut_inputs(inputs: Sequence[Input]) -> list[Split]:
    """The splits of all inputs, in the order of their records."""
    found = [split for given in inputs for split in _splits(given, SPLIT_BYTES)]
    return [replace(part, number=number) for number, part in enumerate(found)]


def _splits(given: Input, split_bytes: int) -> Iterator[Split]:
    size = given.size or 0
    key = None if given.entity is None else given.entity.table_key
    whole = Split(0, given.name, _place(given), given.format, key, 0, size, is_whole=True, size=size)
    if isinstance(given.source, ParquetSource):
        yield from _row_groups(whole, given.source.row_groups(), split_bytes)
    elif given.format is Format.JSONL and size > split_bytes and not _is_compressed(given.place):
        number = -(-size // split_bytes)
        bounds = [size * each // number for each in range(number + 1)]
        for start, end in pairwise(bounds):
            yield replace(whole, start=start, end=end, is_whole=False, size=end - start)
    else:
        yield whole


def _place(given: Input) -> str:
    import os

    place = given.place
    return os.path.abspath(place.path) if isinstance(place, LocalFile) else str(place)


def _row_groups(whole: Split, rows: Sequence[int], split_bytes: int) -> Iterator[Split]:
    """Row groups that follow each other, about as many bytes together as a part should have."""
    if not rows:
        yield replace(whole, start=0, end=0)
        return
    each = max(1, whole.size // len(rows))
    step = max(1, split_bytes // each)
    for start in range(0, len(rows), step):
        end = min(start + step, len(rows))
        yield replace(whole, start=start, end=end, is_whole=False, size=each * (end - start))


def _is_compressed(place: Place) -> bool:
    with place.open() as file:
        start = file.read(_START_BYTES)
    return any(start.startswith(magic) for _, magic in CODECS.values())
