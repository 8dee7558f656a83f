"""The stamp: which shape of `__manifest` is on disk, and the steps from older ones.

| stamp | shape |
|---|---|
| 1 | no stamp written; object_id is not annotated, so publishes do not exclude each other |
| 2 | object_id is the unenforced primary key |
| 3 | no `__run__*` branches |

Every step may run again after a crash. Reads never migrate; what a newer OmniGraph
wrote is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from omnigraph_core import faults, layout
from omnigraph_core.errors import StorageError
from omnigraph_core.manifest.rows import OBJECT_ID
from omnigraph_core.tables.branches import delete_fork
from omnigraph_core.tables.commit import Guard, commit_exact
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.fence import PRIMARY_KEY_METADATA
from omnigraph_core.tables.fork_refs import Fork, find_ref, list_forks
from omnigraph_core.tables.manifest_file import ManifestFile
from omnigraph_core.tables.metadata import field_metadata, schema_metadata, stage_metadata
from omnigraph_core.tables.refs import control_table
from omnigraph_core.tables.torn import versions_on_disk

STAMP_KEY = "omnigraph:internal_schema_version"
INTERNAL_SCHEMA_VERSION = 3
LEGACY_RUN_PREFIX = "__run__"


class StampFromFuture(StorageError):
    def __init__(self, stamp: int) -> None:
        super().__init__(
            f"this graph was written by a newer OmniGraph (internal schema {stamp}, "
            f"this one knows {INTERNAL_SCHEMA_VERSION})",
            hint="upgrade omnigraph first",
        )
        self.stamp = stamp

    def details(self) -> Mapping[str, object]:
        return {"internal_schema_version": self.stamp, "supported": INTERNAL_SCHEMA_VERSION}


def read_stamp(table: Table) -> int:
    return _stamp(schema_metadata(table))


def refuse_future_stamp_on_disk(tables: Tables) -> None:
    """The same as `refuse_future_stamp` without Lance, for commands that never open `__manifest`.

    What cannot be read here is left to those who read it.
    """
    ref = control_table(layout.MANIFEST)
    newest = max(versions_on_disk(tables, ref), default=0)
    found = tables.storage.control.get(manifest_path(ref, newest)) if newest else None
    try:
        metadata = {} if found is None else ManifestFile.decode(found.data).schema_metadata()
    except (ValueError, IndexError):
        return
    if metadata and (stamp := _stamp(metadata)) > INTERNAL_SCHEMA_VERSION:
        raise StampFromFuture(stamp)


def _stamp(metadata: Mapping[str, str]) -> int:
    text = metadata.get(STAMP_KEY, "1")
    if not text.isdecimal() or int(text) < 1:
        raise StorageError(f"__manifest: the stamp {STAMP_KEY} is '{text}', not a number from 1")
    return int(text)


def refuse_future_stamp(table: Table) -> None:
    stamp = read_stamp(table)
    if stamp > INTERNAL_SCHEMA_VERSION:
        raise StampFromFuture(stamp)


def migrate(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    """Bring the manifest (of one branch) to the current stamp; one metadata read when it is."""
    refuse_future_stamp(table)
    while (stamp := read_stamp(table)) < INTERNAL_SCHEMA_VERSION:
        table = _STEPS[stamp](tables, table, operation_id, guard)
        faults.hit(f"manifest.migrated_to_{stamp + 1}")
    return table


def _annotate_primary_key(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    key = PRIMARY_KEY_METADATA.decode()
    annotated = [field.name for field in table.schema if field_metadata(table, field.name).get(key) == "true"]
    if annotated not in ([], [OBJECT_ID]):
        raise StorageError(f"__manifest: the primary key is {annotated}, expected {OBJECT_ID}")
    # Lance refuses to set the key again, also to what it is.
    field = None if annotated else (OBJECT_ID, {key: "true"})
    staged = stage_metadata(table, operation_id, schema={STAMP_KEY: "2"}, field=field)
    return commit_exact(tables, staged, guard)


def _sweep_run_branches(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    for name in _runs_to_sweep(list_forks(tables, table.ref)):
        if (found := find_ref(tables, table.ref, name)) is not None:
            delete_fork(tables, table.ref, found, guard)
    return commit_exact(tables, stage_metadata(table, operation_id, schema={STAMP_KEY: "3"}), guard)


def _runs_to_sweep(forks: Mapping[str, Fork]) -> list[str]:
    """The legacy run branches, children before parents.

    A run that a living branch stands on is spared: its files are that branch's files,
    and refusing it would make the graph unwritable.
    """
    left = dict(forks)
    swept: list[str] = []
    while leaves := [name for name in left if _is_run(name) and not _has_child(left, name)]:
        swept += leaves
        for name in leaves:
            del left[name]
    return swept


def _is_run(name: str) -> bool:
    return name.startswith(LEGACY_RUN_PREFIX)


def _has_child(forks: Mapping[str, Fork], name: str) -> bool:
    return any(fork.parent == name for fork in forks.values())


_STEPS: dict[int, Callable[[Tables, Table, str, Guard], Table]] = {
    1: _annotate_primary_key,
    2: _sweep_run_branches,
}
