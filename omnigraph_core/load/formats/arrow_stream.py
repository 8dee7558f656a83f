"""Rows that the caller holds as Arrow, to typed rows: the same checks as for Parquet.

Whatever has the Arrow C stream interface is taken: tables, batches and readers of pyarrow, data
frames of pandas and polars, relations of DuckDB. It is read once, a batch at a time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_core.errors import BadDataError
from omnigraph_core.load.formats.compressed import Tally
from omnigraph_core.load.formats.limits import PARQUET_BATCH_BYTES, PARQUET_BATCH_ROWS
from omnigraph_core.load.formats.parquet import check_types
from omnigraph_core.patterns import pattern
from omnigraph_core.schema import EntityType
from omnigraph_core.values.shown import clipped

# What pandas calls an index without a name: the positions of the rows, or what a filter left of them.
_NAMELESS_INDEX = pattern(r"__index_level_\d+__")


class ArrowStream(Protocol):
    """The Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class UnreadableStream(BadDataError):
    """The object that was given could not be read as Arrow, or not to its end."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(
            f"{source}: cannot be read as Arrow data ({clipped(problem)})", hint="nothing was loaded"
        )
        self.source = source

    def details(self) -> dict[str, object]:
        return {"file": self.source}


class ArrowSource:
    """Rows of one type. The digest is that of the Arrow IPC stream of what was given."""

    size = None

    def __init__(self, name: str, stream: ArrowStream, *, batch_bytes: int = PARQUET_BATCH_BYTES) -> None:
        self.name = name
        self._stream = stream
        self._batch_bytes = batch_bytes
        self._tally = Tally()

    @property
    def sha256(self) -> str:
        return self._tally.sha256

    @property
    def bytes_read(self) -> int:
        return self._tally.bytes_read

    def batches(self, entity: EntityType) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """The rows in batches: the number of the first, 0 for how many there are, and the batch."""
        first = 1
        with self._failures():
            reader = pa.RecordBatchReader.from_stream(self._stream)
        fields = [field for field in reader.schema if _NAMELESS_INDEX.fullmatch(field.name) is None]
        check_types(pa.schema(fields), entity, self.name)
        kept = [field.name for field in fields]
        with pa.ipc.new_stream(_Sink(self._tally), reader.schema) as digest:
            while True:
                with self._failures():
                    batch = next(reader, None)
                if batch is None:
                    return
                digest.write_batch(batch)
                for part in self._parts(batch.select(kept)):
                    yield first, 0, part
                    first += part.num_rows

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """No more at a time than a reader of files takes."""
        per_row = max(batch.nbytes // max(batch.num_rows, 1), 1)
        step = max(min(PARQUET_BATCH_ROWS, self._batch_bytes // per_row), 1)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, TypeError, ValueError, OSError) as error:
            raise UnreadableStream(self.name, str(error)) from error


class _Sink(io.RawIOBase):
    """A file that only counts and hashes what is written to it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._tally.add(view)
        return view.nbytes
