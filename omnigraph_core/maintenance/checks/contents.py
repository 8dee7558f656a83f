"""The deep look: every file that a commit recorded is what it was, and all rows can be read.

A commit has a digest of each data and deletion file it added. Files outlive their commit, as long
as later ones read them: so those of removed commits are compared too, where they are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from omnigraph_core.errors import StorageError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.maintenance.checks.leftovers import check_files
from omnigraph_core.maintenance.examination import Examination, Published
from omnigraph_core.maintenance.findings import Finding, attempt, error
from omnigraph_core.manifest.seal import details_of
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.refs import TableRef

_BATCH_BYTES = 8 << 20
_RESTORE = "restore it from a backup"


def check_digests(seen: Examination) -> Iterator[Finding]:
    """Before anything else: what is damaged is not given to Lance afterwards."""
    for path, (digest, commit) in _recorded(seen).items():
        yield from attempt("file-unreadable", path, _file, seen, path, digest, commit)


def check_contents(seen: Examination) -> Iterator[Finding]:
    for found in seen.published:
        yield from attempt("rows-unreadable", found.where, _read_published, seen, found)
    for place in seen.places:
        logs = place.times.items() if place.is_control else ()
        for ref in (place.ref.on(branch) for branch, times in logs if times.written):
            yield from attempt("rows-unreadable", ref.directory, _read_log, seen, ref)
    yield from check_files(seen)


def _recorded(seen: Examination) -> dict[str, tuple[str, GraphCommit]]:
    """Each file once, with its digest and the commit that added it."""
    found = {}
    for commit in seen.commits.values():
        with suppress(StorageError):  # `check_seals` names a commit whose details are damaged.
            files = details_of(commit.commit).get("files", {})
            found.update({path: (digest, commit) for path, digest in files.items()})
    return found


def _file(seen: Examination, path: str, digest: str, commit: GraphCommit) -> Iterator[Finding]:
    now = seen.control.digest(path)
    if now is None and seen.is_readable(commit):
        yield error("file-missing", path, f"commit {commit.commit_id} added it, and it is gone", _RESTORE)
    elif now is not None and now != digest:
        seen.damaged.add(path)
        text = f"its bytes are not those that commit {commit.commit_id} added"
        yield error("file-changed", path, text, _RESTORE)


def _read_published(seen: Examination, found: Published) -> Iterator[Finding]:
    return _read(seen.open(found))


def _read_log(seen: Examination, ref: TableRef) -> Iterator[Finding]:
    return _read(seen.open_log(ref))


def _read(table: Table) -> Iterator[Finding]:
    """All columns of all rows, blobs included, a batch at a time."""
    for batch in table.scan(batch_bytes=_BATCH_BYTES, blobs=True):
        for column in batch.columns:
            column.validate(full=not _has_instants(column.type))
    yield from ()


def _has_instants(stored: pa.DataType) -> bool:
    """Arrow wants whole days in the type in which instants are stored."""
    return bool(pa.types.is_date64(getattr(stored, "value_type", stored)))
