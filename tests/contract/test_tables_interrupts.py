"""Ctrl-C that arrives while Lance calls back into Python, as the installed Lance reports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_core.tables.failures import lance_failures, storage_error
from omnigraph_core.tables.refs import TableRef

REF = TableRef("node:Person", "nodes/person")


def interrupted_rows() -> Iterator[pa.RecordBatch]:
    raise KeyboardInterrupt
    yield


@contextmanager
def interrupted_commit(_: int) -> Iterator[None]:
    raise KeyboardInterrupt
    yield


def test_while_it_reads_rows(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), interrupted_rows())
    with pytest.raises(KeyboardInterrupt), lance_failures(REF, "writing"):
        lance.write_dataset(reader, tmp_path / "d")


def test_while_it_commits(tmp_path: Path) -> None:
    rows = pa.table({"a": [1]})
    with pytest.raises(KeyboardInterrupt), lance_failures(REF, "writing"):
        lance.write_dataset(rows, tmp_path / "d", commit_lock=interrupted_commit)


@pytest.mark.parametrize("text", ["External error: KeyboardInterrupt: , src/a.rs:1:2", "KeyboardInterrupt"])
def test_in_other_words(text: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        storage_error(REF, "reading", OSError(text))


def test_a_value_that_looks_like_it_is_a_failure() -> None:
    found = storage_error(REF, "reading", OSError("no such column: 'MyKeyboardInterrupt'"))
    assert "MyKeyboardInterrupt" in str(found)
