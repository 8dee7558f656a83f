"""`cleanup`: versions that nothing can reach any more go, and so do leftovers of the dead.

First everything is decided, under the refs lock, and what goes is recorded (`history/removed.py`):
from then on no reader takes a removed commit for one that is there, and no branch starts at it.
Then it goes: the manifest's versions, those of the logs, those of the tables, each lineage under the
refs lock again, which is free in between. A version that was decided upon cannot become
reachable meanwhile: what is recorded as removed is refused as a start of anything.

A fork goes by the ref file that was read. Versions of a fork go only while its ref file is
the one that was read: a branch made anew has versions of the same numbers.

A failure at one table is reported and stops no other. A cleanup that is killed is finished by the next:
it decides the same, or more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from omnigraph_core import faults, layout
from omnigraph_core.errors import BusyError, OmnigraphError
from omnigraph_core.history.log import CommitLog, read_log
from omnigraph_core.history.removed import Floor, Removals, read_removals, write_removals
from omnigraph_core.ids import now_us
from omnigraph_core.maintenance.keep import (
    Keeper,
    KeepSet,
    Kept,
    Policy,
    is_readable,
)
from omnigraph_core.maintenance.limits import CLEANUP_ATTEMPTS_MAX
from omnigraph_core.maintenance.lineages import Place, dataset_refs, look_at
from omnigraph_core.manifest.branch import lineage_of, name_of
from omnigraph_core.progress import Progress, silent
from omnigraph_core.records import dataclass
from omnigraph_core.storage import HeldLocks, ObjectChanged, ObjectExists
from omnigraph_core.tables.branches import delete_files, delete_fork
from omnigraph_core.tables.collect import Collected, collect_versions, explain_versions
from omnigraph_core.tables.fork_refs import ForkRef, find_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.door import Door
from omnigraph_core.write.put_aside import purge_deleted, refuse_tagged
from omnigraph_core.write.sidecar import read_pending
from omnigraph_core.write.staging import read_record, staged_operations


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """One lineage: what went of it, or would go."""

    table_key: str
    branch: str
    versions: int = 0
    versions_left: int = 0
    files: int = 0
    bytes: int = 0
    action: str = "versions"
    """`versions`, `fork` when all of a fork went, `dataset` when all of a dataset did."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One run."""

    tables: tuple[CleanedTable, ...]
    commits_removed: int
    commits_left: int

    @property
    def has_failed(self) -> bool:
        return any(table.error is not None for table in self.tables)


@dataclass(frozen=True, slots=True)
class _Line:
    """One lineage and what is to go of it."""

    ref: TableRef
    fork: ForkRef | None
    versions: tuple[int, ...]
    versions_left: int
    detached: tuple[str, ...] = ()
    is_unowned: bool = False
    """A fork that its branch does not write to now: it may be made anew under the branch's lock."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """What goes; and the floors of the record."""

    lines: tuple[_Line, ...]
    forks: tuple[tuple[TableRef, ForkRef], ...]
    datasets: tuple[Place, ...]
    floors: tuple[Floor, ...]
    removals: Removals
    commits_removed: int
    commits_left: int
    failed: tuple[CleanedTable, ...] = ()


class Cleanup:
    """One run over one graph."""

    def __init__(
        self, door: Door, policy: Policy, actor: str, *, dry_run: bool = False, progress: Progress = silent
    ) -> None:
        self._door = door
        self._tables = door.tables
        self._control = door.storage.control
        self._policy = policy
        self._actor = actor
        self._dry_run = dry_run
        self._progress = progress

    def run(self) -> Cleaned:
        decision = self._decide() if self._dry_run else self._recorded()
        faults.hit("cleanup.recorded")
        done = [*decision.failed]
        for line in decision.lines:
            done.append(self._each(line.ref, line.versions_left, partial(self._collect, line)))
            faults.hit("cleanup.collected")
        for ref, found in decision.forks:
            done.append(self._each(ref.on(found.name), 0, partial(self._remove_fork, ref, found), "fork"))
            faults.hit("cleanup.fork_removed")
        for place in decision.datasets:
            done.append(self._each(place.ref, 0, partial(self._remove_dataset, place), "dataset"))
            faults.hit("cleanup.dataset_removed")
        return Cleaned(tuple(done), decision.commits_removed, decision.commits_left)

    # ---- deciding ----

    def _recorded(self) -> _Decision:
        for _ in range(CLEANUP_ATTEMPTS_MAX):
            with self._refs_lock() as held:
                decision = self._decide()
                faults.hit("cleanup.decided")
                purge_deleted(self._door, held)
                held.check()
                try:
                    if decision.floors != decision.removals.floors:
                        write_removals(self._control, decision.floors, decision.removals)
                    return decision
                except (ObjectChanged, ObjectExists):
                    continue
        raise BusyError("other cleanups of this graph were always first", hint="try again")

    def _decide(self) -> _Decision:
        """The versions on disk first: what is made after that is in no list of what goes."""
        refuse_tagged(self._door)
        manifest = self._door.manifest
        now = now_us()
        places, failed = self._places()
        removals = read_removals(self._control)
        log = read_log(self._tables, manifest)
        store_now_s = self._store_now_s()
        kept = Keeper(manifest, log, removals, self._policy, now).run(places, store_now_s)
        return _Decision(
            lines=tuple(self._lines(places, kept, store_now_s)),
            forks=tuple(self._orphans(places, kept)),
            datasets=tuple(self._unread(places, kept, store_now_s)),
            floors=tuple(self._floors(log, kept, removals, now)),
            removals=removals,
            commits_removed=sum(
                commit.commit_id not in kept.commits and is_readable(commit, kept.live, removals)
                for commit in log.commits.values()
            ),
            commits_left=len(kept.commits),
            failed=tuple(failed),
        )

    def _places(self) -> tuple[list[Place], list[CleanedTable]]:
        """Every dataset that can be looked at. Without those of the graph itself nothing can be decided."""
        places, failed = [], []
        for ref in dataset_refs(self._door.manifest):
            try:
                places.append(look_at(self._tables, ref))
            except OmnigraphError as error:
                if ref.key == ref.path:
                    raise
                failed.append(CleanedTable(ref.key, layout.MAIN_BRANCH, error=str(error)))
        return places, failed

    def _store_now_s(self) -> float:
        """By the clock that stamps files. On object storage it is asked by the lease that is held now."""
        if self._door.storage.location.is_local or self._dry_run:
            return time.time()
        return max(self._control.written_at(layout.LOCKS_DIR).values(), default=0.0)

    def _lines(self, places: Iterable[Place], kept: Kept, now_s: float) -> Iterator[_Line]:
        for place in places:
            for name, times in place.times.items():
                lineage = (place.path, name)
                is_read = place.is_control or name is None or lineage in kept.versions.read
                going = [] if not is_read else self._going(place, name, kept.versions)
                old = [path for path, when in times.detached.items() if now_s - when >= self._policy.grace_s]
                if going or old:
                    yield _Line(
                        ref=place.ref.on(name),
                        fork=None if name is None else place.refs[name],
                        versions=tuple(going),
                        versions_left=len(times.written) - len(going),
                        detached=tuple(sorted(old)),
                        is_unowned=not place.is_control and not _is_owned(kept, place, name),
                    )

    def _going(self, place: Place, name: str | None, kept: KeepSet) -> list[int]:
        """All but HEAD and what is kept. Of a log only HEAD is ever read."""
        written = place.times[name].written
        newest = max(written, default=0)
        return [each for each in sorted(written) if each != newest and not kept.has((place.path, name), each)]

    def _orphans(self, places: Iterable[Place], kept: Kept) -> Iterator[tuple[TableRef, ForkRef]]:
        """Forks of names that no branch has; children before parents. The twins of branches last:
        they tell of the others."""
        for place in sorted(places, key=lambda each: each.path == layout.COMMITS):
            if place.path == layout.MANIFEST:
                continue
            names = [
                name
                for name in place.forks
                if name not in kept.heads and (place.path, name) not in kept.versions.read
            ]
            for name in sorted(names, key=lambda each: -len(place.forks[each].ancestors)):
                yield place.ref, place.refs[name]

    def _unread(self, places: Iterable[Place], kept: Kept, now_s: float) -> Iterator[Place]:
        """Tables that no head and no kept commit has, and nobody is about to make."""
        read = {path for path, _ in kept.versions.read} | self._prepared_paths()
        for place in places:
            if place.is_control or place.path in read or set(place.forks) & set(kept.heads):
                continue
            newest = max(max(times.written.values(), default=0.0) for times in place.times.values())
            if now_s - newest >= self._policy.grace_s:
                yield place

    def _prepared_paths(self) -> set[str]:
        pending = read_pending(self._control)
        found = {table.table_path for sidecar in pending for table in sidecar.tables}
        for operation_id in staged_operations(self._door.storage):
            record = read_record(self._door.storage, operation_id)
            paths = record.paths if record is not None else ()
            found |= {"/".join(path.split("/")[:2]) for path in paths}
        return found

    def _floors(self, log: CommitLog, kept: Kept, removals: Removals, now: int) -> Iterator[Floor]:
        """Per live branch, the floor below which commits are gone; records of deleted branches go."""
        for head in kept.heads.values():
            mine = [each for each in log.commits.values() if each.on.may_be(head.on)]
            left = {each.manifest_version for each in mine if each.commit_id in kept.commits}
            gone = [each.manifest_version for each in mine if each.commit_id not in kept.commits]
            if not gone:
                continue
            floor = min((each for each in left if each > max(gone)), default=head.manifest_version)
            below = tuple(sorted(each for each in left if each < floor))
            before = removals.of(head.on)
            if before is not None and (before.floor, before.kept) == (floor, below):
                yield before
            else:
                yield Floor(head.on, floor, below, now, self._actor)

    # ---- removing ----

    def _each(
        self, ref: TableRef, left: int, work: Callable[[], Collected], action: str = "versions"
    ) -> CleanedTable:
        """What came of it; a failure is part of the answer."""
        branch = name_of(ref.branch)
        try:
            done = work()
        except OmnigraphError as error:
            return CleanedTable(ref.key, branch, versions_left=left, action=action, error=str(error))
        return CleanedTable(ref.key, branch, done.versions, left, done.files, done.bytes, action)

    def _collect(self, line: _Line) -> Collected:
        if self._dry_run:
            return explain_versions(self._tables, line.ref, line.versions)
        with self._refs_lock(line.ref.branch if line.is_unowned else None) as held:
            if not self._is_same(line.ref, line.fork):
                return Collected()
            done = collect_versions(self._tables, line.ref, line.versions, held.check)
            delete_files(self._tables, line.detached, held.check)
            return Collected(done.versions, done.files + len(line.detached), done.bytes)

    def _is_same(self, ref: TableRef, found: ForkRef | None) -> bool:
        """Is the fork still the one that was decided about?"""
        if found is None:
            return True
        now = find_ref(self._tables, ref, found.name)
        return now is not None and now.e_tag == found.e_tag

    def _remove_fork(self, ref: TableRef, found: ForkRef) -> Collected:
        sizes = self._sizes(ref.on(found.name).directory)
        if not self._dry_run:
            with self._refs_lock(found.name) as held:
                if self._door.manifest.has_branch(found.name):
                    return Collected()
                delete_fork(self._tables, ref, found, held.check)
        return Collected(0, len(sizes) + 1, sum(sizes.values()))

    def _remove_dataset(self, place: Place) -> Collected:
        """Exactly the files it has now; a type that is added again gets its place under the refs lock."""
        if self._dry_run:
            sizes = self._sizes(place.path)
            return Collected(0, len(sizes), sum(sizes.values()))
        with self._refs_lock() as held:
            if look_at(self._tables, place.ref) != place or place.path in self._read_now():
                return Collected()
            sizes = self._sizes(place.path)
            delete_files(self._tables, _versions_first(sizes), held.check)
        return Collected(0, len(sizes), sum(sizes.values()))

    def _read_now(self) -> set[str]:
        """Datasets that a live branch has, or a write is about to publish."""
        manifest = self._door.manifest
        heads = [manifest.snapshot(name) for name in (layout.MAIN_BRANCH, *manifest.branches())]
        found = {entry.table_path for head in heads for entry in head.tables.values()}
        return found | self._prepared_paths()

    def _sizes(self, prefix: str) -> Mapping[str, int]:
        return {path: self._control.size(path) or 0 for path in self._control.list_prefix(prefix)}

    @contextmanager
    def _refs_lock(self, branch: str | None = None) -> Iterator[HeldLocks]:
        """The refs lock, and that of a branch if it is free: cleanup waits for no writer."""
        with self._door.storage.locks.lock_all([layout.REFS_LOCK], doing="cleanup") as held:
            if branch is None:
                yield held
                return
            lock = self._door.storage.locks.lock(layout.branch_lock(branch), doing="cleanup")
            if not lock.try_acquire():
                raise BusyError(f"branch '{branch}' is being written to", hint="the next cleanup does it")
            with lock:
                yield HeldLocks((*held.locks, lock))


def _is_owned(kept: Kept, place: Place, name: str | None) -> bool:
    """Does the branch of this lineage write to it now?"""
    head = kept.heads.get(name_of(name))
    if head is None:
        return False
    return any(
        entry.table_path == place.path and entry.table_branch == lineage_of(head.branch)
        for entry in head.tables.values()
    )


def _versions_first(paths: Iterable[str]) -> Sequence[str]:
    return sorted(paths, key=lambda path: ("/_versions/" not in path, path))
