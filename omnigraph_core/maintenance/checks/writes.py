"""Writes that have begun and not ended: sidecars and staging records, and whether their writers live.

A writer holds its lock from before its record exists until after it is gone. So a record that is
still there after its lock was found free belongs to the dead.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, warning
from omnigraph_core.write.sidecar import read_stored
from omnigraph_core.write.staging import read_record, staged_operations, staging_lock
from omnigraph_core.write.staging_record import INIT_KIND, listed_files

_RECOVER = "omnigraph recovery run"


def check_writes(seen: Examination) -> Iterator[Finding]:
    for operation_id in seen.pending():
        path = layout.sidecar(operation_id)
        yield from attempt("write-unreadable", path, _write, seen, operation_id)


def _write(seen: Examination, operation_id: str) -> Iterator[Finding]:
    stored = read_stored(seen.control, operation_id)
    if stored is None or seen.holder(layout.branch_lock(stored.sidecar.branch)) is not None:
        return
    if seen.control.exists(stored.sidecar.path):
        text = f"a write to branch '{stored.sidecar.branch}' has begun, and its process is gone"
        yield warning("write-unfinished", stored.sidecar.path, text, _RECOVER)


def check_staging(seen: Examination) -> Iterator[Finding]:
    for operation_id in staged_operations(seen.storage):
        path = layout.staging_record(operation_id)
        yield from attempt("staging-unreadable", path, _staged, seen, operation_id)


def _staged(seen: Examination, operation_id: str) -> Iterator[Finding]:
    record = read_record(seen.storage, operation_id)
    if record is None:
        return
    lock = layout.REFS_LOCK if record.kind == INIT_KIND else staging_lock(operation_id)
    files = listed_files(seen.control, operation_id, record.lists)
    if seen.holder(lock) is None and seen.control.exists(record.path):
        count = len(files) + len(record.paths)
        what = f"a {record.kind.lower()} to branch '{record.branch}'"
        text = f"{what} staged {count} files, and its process is gone"
        yield warning("staging-left", record.path, text, _RECOVER)
