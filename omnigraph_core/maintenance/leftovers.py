"""What processes that were killed leave behind, and who proves that they are dead.

- Half-written control objects live for milliseconds and have random names. Old ones are removed; a
  writer that was only asleep fails to give its file a name, and nothing has happened.
- A folder of a Spark load whose record is gone: only tasks of a job that was given up can have
  written to it. It goes by the operation's id, under the lock of its record.
- Topology indexes beyond the newest few, and files of a builder that died before it named them. They
  are derived from the tables, so that a reader who misses one reads those.
- Files staged without a record, by a writer that died before its sidecar. No version refers to
  them, and nobody stages for a day without a record. They go under the lock of the branch: a
  writer that wakes up finds them missing when it has the lock, before it commits anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from omnigraph_core import faults, layout
from omnigraph_core.maintenance.drift import healed
from omnigraph_core.maintenance.limits import UNREFERENCED_AGE_S, UNREFERENCED_VERSIONS_MAX
from omnigraph_core.maintenance.lineages import Place
from omnigraph_core.manifest.branch import Branch, name_of
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Stored
from omnigraph_core.tables.branches import delete_files
from omnigraph_core.tables.collect import Collected
from omnigraph_core.tables.referenced import named_files, referenced_names
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.topology.store import TopologyStore
from omnigraph_core.write.door import Door
from omnigraph_core.write.staging import staged_operations, staging_lock


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """Old files of a lineage that no version refers to."""

    ref: TableRef
    files: Mapping[str, str]
    """Path to name."""
    sizes: Mapping[str, int]
    seen: Mapping[TableRef, frozenset[int]] = field(repr=False)
    """The versions that were asked, of all lineages of the table."""

    @property
    def bytes(self) -> int:
        return sum(self.sizes[path] for path in self.files)


class Leftovers:
    """Looks for them in one graph, as of one time of the store's clock."""

    def __init__(self, door: Door, now_s: float, grace_s: float, *, dry_run: bool) -> None:
        self._door = door
        self._tables = door.tables
        self._control = door.storage.control
        self._now_s, self._grace_s, self._dry_run = now_s, grace_s, dry_run

    def outside_tables(self) -> Collected:
        """Half-written objects and folders of given-up jobs."""
        found = self._temporaries()
        folders = self._folders()
        topology = self._topology()
        parts = (found, folders, topology)
        return Collected(0, sum(each.files for each in parts), sum(each.bytes for each in parts))

    def _topology(self) -> Collected:
        """Topology indexes that newer ones have taken the place of, and what killed builders left."""
        store = TopologyStore(self._door.storage)
        sizes = store.files()
        old = [name for name in store.superseded() if name in sizes and self._is_old(sizes[name])]
        if not self._dry_run:
            store.remove(old)
            faults.hit("cleanup.topology_removed")
        return Collected(0, len(old), sum(sizes[name].size for name in old))

    def _temporaries(self) -> Collected:
        old = {path: each for path, each in self._control.temporaries().items() if self._is_old(each)}
        for path in () if self._dry_run else old:
            self._control.delete_temporary(path)
            faults.hit("cleanup.temporary_removed")
        return Collected(0, len(old), sum(each.size for each in old.values()))

    def _folders(self) -> Collected:
        by_operation: dict[str, dict[str, Stored]] = {}
        for path, each in self._control.listing(layout.STAGING_DIR).items():
            operation_id, _, inside = path.removeprefix(f"{layout.STAGING_DIR}/").partition("/")
            if inside:
                by_operation.setdefault(operation_id, {})[path] = each
        known = set(staged_operations(self._door.storage))
        gone = {
            operation_id: files
            for operation_id, files in by_operation.items()
            if operation_id not in known and all(map(self._is_old, files.values()))
        }
        if not self._dry_run:
            gone = {each: files for each, files in gone.items() if self._removed(each)}
        files = [each for files in gone.values() for each in files.values()]
        return Collected(0, len(files), sum(each.size for each in files))

    def _removed(self, operation_id: str) -> bool:
        """Under the lock that the record of this operation would be kept under."""
        lock = self._door.storage.locks.lock(staging_lock(operation_id), doing="cleanup")
        if not lock.try_acquire():
            return False
        with lock:
            if self._control.exists(layout.staging_record(operation_id)):
                return False
            lock.check()
            self._control.delete_prefix(layout.staging_folder(operation_id))
        self._door.storage.locks.forget(staging_lock(operation_id))
        faults.hit("cleanup.folder_removed")
        return True

    def _is_old(self, each: Stored) -> bool:
        return self._now_s - each.written_s >= self._grace_s

    def unreferenced(self, place: Place) -> list[Unreferenced]:
        """Of one table. While a record is there, its files may not be on it yet: then nobody looks."""
        if place.is_control or staged_operations(self._door.storage):
            return []
        files = self._control.listing(place.path)
        age_s = max(self._grace_s, UNREFERENCED_AGE_S)
        old = {path: each for path, each in files.items() if self._now_s - each.written_s >= age_s}
        lines = [place.ref.on(name) for name in place.times]
        candidates = {line: named_files(old, line) for line in lines}
        seen = {line: frozenset(versions_on_disk(self._tables, line)) for line in lines}
        count = sum(map(len, seen.values()))
        if not any(candidates.values()) or count > UNREFERENCED_VERSIONS_MAX:
            return []
        used = set().union(*(self._names(line, seen[line]) for line in lines))
        sizes = {path: each.size for path, each in old.items()}
        left = {
            line: {path: name for path, name in found.items() if name not in used}
            for line, found in candidates.items()
        }
        return [Unreferenced(line, found, sizes, seen) for line, found in left.items() if found]

    def _names(self, line: TableRef, versions: Iterable[int]) -> set[str]:
        """What these versions refer to. Raises if one cannot be read."""
        return {name for each in versions for name in referenced_names(self._tables.open(line, each))}

    def remove_unreferenced(self, found: Unreferenced, on: Branch) -> Collected:
        """Under the branch's lock, what no version made since refers to either."""
        if self._dry_run:
            return Collected(0, len(found.files), found.bytes)
        with self._door.locked(name_of(found.ref.branch), "cleanup") as lock:
            current = healed(self._door, name_of(found.ref.branch), lock)
            if current.on != on or staged_operations(self._door.storage):
                return Collected()
            used: set[str] = set()
            for line, seen in found.seen.items():
                fresh = set(versions_on_disk(self._tables, line)) - seen
                used |= self._names(line, fresh)
            files = [path for path, name in sorted(found.files.items()) if name not in used]
            delete_files(self._tables, files, lock.check)
            faults.hit("cleanup.staged_removed")
        return Collected(0, len(files), sum(found.sizes[path] for path in files))
