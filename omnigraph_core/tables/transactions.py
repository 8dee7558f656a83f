"""Transaction files that only repeat what a version says itself.

Lance writes the transaction of a commit twice: into the manifest of the version it made, where it is
read from, and into a file of its own. The transaction of a publish is 33 KB, whatever its rows: half
of what a kept commit costs. A file goes only if all of its bytes are in the manifest of a version
that is there, so nothing is lost with it, whoever may be reading or committing. Its name has a uuid
that is never used again. So no lock is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef

_SUFFIX = ".txn"
# A commit that lost a race may have landed a few versions later than it was planned.
_VERSIONS_ASKED = 4


def transaction_times(tables: Tables, ref: TableRef) -> dict[str, float]:
    """When each transaction file of a lineage was written, by path; one listing."""
    folder = f"{ref.directory}/_transactions"
    written = tables.storage.control.written_at(folder)
    return {f"{folder}/{name}": when for name, when in written.items() if _base(name) is not None}


def repeated_transactions(
    tables: Tables, ref: TableRef, paths: Iterable[str], versions: Collection[int]
) -> dict[str, int]:
    """Of these files, those whose bytes are in one of these versions; with their sizes."""
    ordered = sorted(versions)
    found = {}
    for path in paths:
        base = _base(path.rpartition("/")[2])
        # The version that a fork was made with has the number that it was planned on.
        asked = [each for each in ordered if base is not None and each >= base][: 1 + _VERSIONS_ASKED]
        size = _repeated(tables, ref, path, asked)
        if size:
            found[path] = size
    return found


def _repeated(tables: Tables, ref: TableRef, path: str, versions: Iterable[int]) -> int:
    """The size of the file if a version has its bytes, else 0."""
    control = tables.storage.control
    uuid = path.rpartition("/")[2].partition("-")[2].removesuffix(_SUFFIX).encode()
    for version in versions:
        manifest = control.get(manifest_path(ref, version))
        if manifest is None or uuid not in manifest.data:
            continue
        transaction = control.get(path)
        if transaction is not None and transaction.data in manifest.data:
            return len(transaction.data)
    return 0


def delete_transactions(tables: Tables, repeated: Mapping[str, int]) -> None:
    """A folder that is empty then goes too; whoever writes a file makes its folder."""
    tables.storage.control.delete_many(sorted(repeated))


def _base(name: str) -> int | None:
    """The version that a transaction was planned on, from the name of its file."""
    base, _, uuid = name.partition("-")
    return int(base) if base.isdecimal() and uuid.endswith(_SUFFIX) else None
