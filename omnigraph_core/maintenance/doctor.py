"""`doctor`: is everything as it must be? It reads and writes nothing; each finding names its remedy.

What cannot be read is a finding, not the end: the other checks go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.history.log import read_log
from omnigraph_core.history.removed import read_removals
from omnigraph_core.maintenance.lineages import Place, dataset_refs, look_at
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.records import dataclass
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.write.door import Door
from omnigraph_core.write.forks import needs_fork
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.sidecar import read_stored
from omnigraph_core.write.staging import read_record, staged_operations


class Severity(StrEnum):
    """The text is part of the JSON answer."""

    ERROR = "error"
    """Something is lost or in the way of writes."""
    WARNING = "warning"
    """Something is left over, or gets slower."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    severity: Severity
    subject: str
    message: str
    fix: str | None = None
    """The command that mends it."""


class Doctor:
    """One look at one graph."""

    def __init__(self, door: Door, read_catalog: Callable[[], object]) -> None:
        self._door = door
        self._read_catalog = read_catalog

    def run(self) -> list[Finding]:
        checks: dict[str, Callable[[], Iterator[Finding]]] = {
            "schema": self._schema,
            "history": self._history,
            "pending": self._pending,
            "staging": self._staging,
            "tables": self._tables_of_branches,
            "leftovers": self._leftovers,
        }
        found: list[Finding] = []
        for name, check in checks.items():
            try:
                found += check()
            except OmnigraphError as error:
                found.append(Finding(name, Severity.ERROR, name, str(error), error.hint))
        return found

    def _schema(self) -> Iterator[Finding]:
        """The schema files against the head; what is wrong is raised."""
        self._read_catalog()
        yield from ()

    def _history(self) -> Iterator[Finding]:
        """All rows of every line of commits are there, and the record of what was removed can be read."""
        log = read_log(self._door.tables, self._door.manifest)
        read_removals(self._door.storage.control)
        for branch, head in log.heads.items():
            if head not in log.commits:
                yield Finding("history", Severity.ERROR, branch, f"its head {head} is not on record")

    def _pending(self) -> Iterator[Finding]:
        control = self._door.storage.control
        for operation_id in pending_operations(control):
            stored = read_stored(control, operation_id)
            if stored is None:
                continue
            branch = stored.sidecar.branch
            holder = self._door.storage.locks.read_holder(layout.branch_lock(branch))
            if holder is None:
                text = f"a write to branch '{branch}' has begun and its process is gone"
                yield Finding("pending", Severity.WARNING, operation_id, text, "omnigraph recovery run")

    def _staging(self) -> Iterator[Finding]:
        storage = self._door.storage
        for operation_id in staged_operations(storage):
            record = read_record(storage, operation_id)
            if record is not None and storage.locks.read_holder(f"staging.{operation_id}") is None:
                text = f"a {record.kind} to branch '{record.branch}' staged files and its process is gone"
                yield Finding("staging", Severity.WARNING, operation_id, text, "omnigraph recovery run")

    def _tables_of_branches(self) -> Iterator[Finding]:
        manifest = self._door.manifest
        for name in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
            snapshot = manifest.snapshot(name)
            for entry in snapshot.tables.values():
                try:
                    yield from self._table(snapshot, entry)
                except OmnigraphError as error:
                    subject = f"{name} {entry.table_key}"
                    yield Finding("tables", Severity.ERROR, subject, str(error), error.hint)

    def _table(self, snapshot: Snapshot, entry: SubTableEntry) -> Iterator[Finding]:
        """What is published of it can be read and counted, and HEAD is that very version."""
        subject = f"{snapshot.branch} {entry.table_key}"
        table = self._door.tables.open(entry.ref, entry.table_version)
        rows = table.count_rows()
        if rows != entry.row_count:
            text = f"{rows} rows, where {entry.row_count} were published"
            yield Finding("rows", Severity.ERROR, subject, text)
        if needs_fork(entry, snapshot.branch):
            return
        head = table.latest_version()
        if head != entry.table_version and not pending_operations(self._door.storage.control):
            text = f"version {entry.table_version} is published, and {head} is there"
            yield Finding("drift", Severity.ERROR, subject, text, "omnigraph repair")
        if table.count_fragments() > FRAGMENTS_MAX:
            text = f"{table.count_fragments()} fragments"
            yield Finding("fragments", Severity.WARNING, subject, text, "omnigraph optimize")

    def _leftovers(self) -> Iterator[Finding]:
        """Forks of names that no branch has, and datasets that no branch ever had."""
        manifest = self._door.manifest
        live = {layout.MAIN_BRANCH, *manifest.branches()}
        known = {path for name in live for path in manifest.paths(name)}
        for ref in dataset_refs(manifest):
            try:
                place = look_at(self._door.tables, ref)
            except NotFoundError:
                continue
            yield from self._leftover(place, live, known)

    def _leftover(self, place: Place, live: set[str], known: set[str]) -> Iterator[Finding]:
        fix = "omnigraph cleanup"
        for name in sorted(set(place.refs) - live):
            text = f"a fork '{name}' that no branch has"
            yield Finding("forks", Severity.WARNING, place.ref.key, text, fix)
        if not place.is_control and place.path not in known:
            yield Finding("datasets", Severity.WARNING, place.path, "no branch ever had this table", fix)
