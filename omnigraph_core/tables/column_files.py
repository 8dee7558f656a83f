"""The values of new columns: one more file beside those of every fragment, in no version yet.

A column that has the same value in every row is the same file in all fragments of as many rows.
Lance computes it once for them, and the others get copies: all of a big table costs what one
fragment costs, and a few hundred bytes for each of the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.columns import StoredColumn, stored_columns
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import data_path, file_name, sized
from omnigraph_core.tables.limits import UNRECORDED_BYTES_MAX
from omnigraph_core.tables.staged import StagedFile

OnWritten = Callable[[Sequence[str]], None]
"""Told the paths of new files soon after they are there, or before."""


def not_told(paths: Sequence[str]) -> None:
    """For a caller that keeps no record of its files."""


@dataclass(frozen=True, slots=True)
class ColumnFiles:
    """Fragments with the columns that got values, by the names these have for now."""

    fragments: list[Any]
    columns: Mapping[str, StoredColumn] = field(default_factory=dict)
    files: list[StagedFile] = field(default_factory=list)


def write_columns(
    storage: Storage,
    table: Table,
    casts: Mapping[str, str],
    constants: Mapping[str, str],
    on_written: OnWritten,
    rows_at_once: int | None = None,
) -> ColumnFiles:
    """Write columns by the SQL of their values, so many rows at once (Lance's own choice, if None).

    A failure leaves no file behind.
    """
    fragments = table.lance.get_fragments()
    if not (casts or constants) or not fragments:
        return ColumnFiles([fragment.metadata for fragment in fragments])
    writer = _Writer(storage, table, {**casts, **constants}, on_written, rows_at_once)
    try:
        filled = list(map(writer.computed, fragments)) if casts else writer.copied(fragments)
        writer.tell()
        files = [sized(storage, path, size) for path, size in writer.written.items()]
    except BaseException:
        for path in writer.written:
            storage.control.delete(path)
        raise
    return ColumnFiles(filled, writer.columns, files)


class _Writer:
    def __init__(
        self,
        storage: Storage,
        table: Table,
        texts: Mapping[str, str],
        on_written: OnWritten,
        rows_at_once: int | None,
    ) -> None:
        self._storage, self._table = storage, table
        self._texts = dict(texts)
        self._on_written = on_written
        self._rows_at_once = rows_at_once
        self._schema: Any = None
        self.written: dict[str, int | None] = {}
        """Paths of the new files, and their sizes as far as Lance tells."""
        self._untold: dict[str, int | None] = {}

    def computed(self, fragment: Any) -> Any:
        """The fragment with a new file. Only what was written just now is new: the others are the table's."""
        with lance_failures(self._table.ref, "writing new columns of"):
            metadata, schema = fragment.merge_columns(self._texts, batch_size=self._rows_at_once)
        known = {file_name(file) for file in fragment.metadata.files}
        new = [file for file in metadata.files if file_name(file) not in known]
        self._note({data_path(self._table.ref, file): file.file_size_bytes for file in new})
        self._schema = schema
        return metadata

    @property
    def columns(self) -> Mapping[str, StoredColumn]:
        """The new ones, of whichever fragment was the last: they are the same in all."""
        stored = stored_columns(self._schema)
        return {name: stored[name] for name in self._texts}

    def copied(self, fragments: Sequence[Any]) -> list[Any]:
        """All fragments, each with the file of the first that has as many rows, or with a copy of it."""
        firsts: dict[int, Any] = {}
        for fragment in fragments:
            rows = fragment.metadata.physical_rows
            if rows not in firsts and _is_model(fragment.metadata):
                firsts[rows] = self.computed(fragment)
        done = {each.id: each for each in firsts.values()}
        for fragment in fragments:
            if fragment.metadata.physical_rows not in firsts:
                done[fragment.fragment_id] = self.computed(fragment)
        others = [fragment.metadata for fragment in fragments if fragment.fragment_id not in done]
        copies = [_another(firsts[each.physical_rows].files[-1]) for each in others]
        self._note({data_path(self._table.ref, copy): copy.file_size_bytes for copy in copies})
        self.tell()
        for each, copy in zip(others, copies, strict=True):
            first = firsts[each.physical_rows].files[-1]
            self._storage.control.copy(data_path(self._table.ref, first), data_path(self._table.ref, copy))
            done[each.id] = replace(each, files=[*each.files, copy])
        return [done[fragment.fragment_id] for fragment in fragments]

    def _note(self, files: Mapping[str, int | None]) -> None:
        self.written |= files
        self._untold |= files
        if sum(size or 0 for size in self._untold.values()) > UNRECORDED_BYTES_MAX:
            self.tell()

    def tell(self) -> None:
        if self._untold:
            self._on_written(list(self._untold))
            self._untold = {}


def _is_model(fragment: Any) -> bool:
    """Can its file be copied? Lance leaves deleted rows without the value."""
    return not fragment.num_deletions


def _another(file: Any) -> Any:
    """A data file with the same content and a name of its own."""
    from lance.fragment import DataFile

    return DataFile(
        f"{uuid.uuid4().hex}.lance",
        file.fields,
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
    )
