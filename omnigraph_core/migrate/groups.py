"""Rows that share a text: which there are, and how many, in bounded memory.

Equal texts fall into the same part. Small tables are one part, in memory; of a large one each
part lies on disk until it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.rules.parts import part_numbers
from omnigraph_core.rules.rows_by_part import RowsByPart
from omnigraph_core.tables.dataset import Table
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.repeats import repeats

_TEXT, _PLACE = "text", "place"
_PLACE_BYTES = 8

# Texts are told apart in one array, which holds 2 GiB; a part is at most an eighth of the budget.
_BUDGET_MAX_BYTES = 1 << 33
_SAMPLE_ROWS = 1_000
_BATCH_BYTES = 1 << 23


class Dealt:
    """The texts of a table's rows with the places of the rows in a scan; null texts are left out."""

    def __init__(self, parts: int) -> None:
        self._count = parts
        self._kept: list[pa.Table] = []
        self._on_disk = RowsByPart(parts) if parts > 1 else None

    def add(self, texts: pa.Array, place: int) -> None:
        """The texts of the rows from a place on."""
        places = pa.array(np.arange(place, place + len(texts)))
        rows = pa.table({_TEXT: texts, _PLACE: places})
        if self._on_disk is None:
            self._kept.append(rows.filter(pc.is_valid(texts)) if texts.null_count else rows)
        else:
            self._on_disk.add(rows, part_numbers(texts, self._count))

    def repeated(self, samples: int) -> tuple[int, list[int]]:
        """How many rows have a text that another row has, too, and the places of the first of them."""
        total = 0
        places: list[int] = []
        for texts, found in self._parts():
            if not len(repeats(texts)):
                continue
            counted = pc.value_counts(texts)
            several = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
            shared = found.filter(pc.is_in(texts, value_set=several))
            total += len(shared)
            places += shared[:samples].to_pylist()
        return total, sorted(places)[:samples]

    def outnumbered(self, minimum: int, maximum: int | None, samples: int) -> tuple[int, list[str]]:
        """How many different texts occur too rarely or too often, and the first of them."""
        total = 0
        names: list[str] = []
        for texts, _ in self._parts():
            counted = pc.value_counts(texts)
            bad = pc.less(counted.field("counts"), minimum)
            if maximum is not None:
                bad = pc.or_(bad, pc.greater(counted.field("counts"), maximum))
            wrong = counted.field("values").filter(bad)
            total += len(wrong)
            names += wrong.take(pc.sort_indices(wrong)[:samples]).to_pylist()
        return total, sorted(names)[:samples]

    def _parts(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Texts and places of one part after the other."""
        if self._on_disk is None:
            parts = iter([pa.concat_tables(self._kept)] if self._kept else [])
        else:
            parts = map(self._on_disk.part, range(self._count))
        for rows in parts:
            yield whole(rows.column(_TEXT)), whole(rows.column(_PLACE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_disk is not None:
            self._on_disk.close()


def dealt_texts(
    table: Table,
    columns: Sequence[str],
    texts: Callable[[pa.RecordBatch | pa.Table], pa.Array],
    memory_bytes: int,
) -> Dealt:
    """What `texts` makes of the columns of every row, in as many parts as memory asks for."""
    rows = table.count_rows()
    if not rows:
        return Dealt(1)
    sampled = texts(table.sample(columns, _SAMPLE_ROWS))
    text_bytes = rows * (sampled.nbytes // len(sampled) + _PLACE_BYTES)
    dealt = Dealt(len(MemoryBudget(min(memory_bytes, _BUDGET_MAX_BYTES)).parts(text_bytes)))
    place = 0
    for batch in table.scan(columns, batch_bytes=_BATCH_BYTES):
        dealt.add(texts(batch), place)
        place += batch.num_rows
    return dealt
