"""Tables to files: each type in the format asked for, all of them whole or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from omnigraph_core.errors import UsageError
from omnigraph_core.export.csv import csv_blocks
from omnigraph_core.export.files import export_paths, whole_files
from omnigraph_core.export.jsonl import jsonl_blocks
from omnigraph_core.export.parquet import write_parquet
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.files import Format
from omnigraph_core.tables.dataset import Table


@dataclass(frozen=True, slots=True)
class TypedTable:
    """The table of one type at one version."""

    entity: EntityType
    table: Table


def text_blocks(tables: Sequence[TypedTable], format_: Format) -> Iterator[bytes]:
    """All tables as one text. Only JSON lines can hold several types; Parquet is binary."""
    if format_ is Format.PARQUET:
        raise UsageError("Parquet is binary", hint="write it to a file", field="out")
    if format_ is Format.CSV and len(tables) != 1:
        raise UsageError(
            f"CSV holds one type per file, and there are {len(tables)}",
            hint="choose one type, or write a directory",
            field="out",
        )
    blocks = csv_blocks if format_ is Format.CSV else jsonl_blocks
    for each in tables:
        yield from blocks(each.table, each.entity)


def write_files(out: Path, tables: Sequence[TypedTable], format_: Format) -> list[Path]:
    """Write `out`, or one file per type in the directory `out`; returns what was written."""
    if format_ is Format.JSONL:
        with whole_files() as files, files.open(out) as file:
            file.writelines(text_blocks(tables, format_))
        return [out]
    names = {each.entity.table_key: each.entity.name for each in tables}
    paths = export_paths(out, format_.value, names)
    with whole_files() as files:
        for each in tables:
            with files.open(paths[each.entity.table_key]) as file:
                _write_table(file, each, format_)
    return list(paths.values())


def _write_table(file: BinaryIO, typed: TypedTable, format_: Format) -> None:
    if format_ is Format.PARQUET:
        write_parquet(file, typed.table, typed.entity)
    else:
        file.writelines(csv_blocks(typed.table, typed.entity))
