"""What a cleanup removes, decided before anything goes: versions per lineage, forks, datasets, floors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.log import CommitLog, read_log
from omnigraph_core.history.removed import Floor, Removals, read_removals
from omnigraph_core.ids import now_us
from omnigraph_core.maintenance.cleaned import CleanedTable
from omnigraph_core.maintenance.keep import Keeper, KeepSet, Kept, Policy, is_readable
from omnigraph_core.maintenance.lineages import Place, dataset_refs, look_at
from omnigraph_core.manifest.branch import lineage_of, name_of
from omnigraph_core.records import dataclass
from omnigraph_core.tables.fork_refs import ForkRef, RefDamaged, fork_names
from omnigraph_core.tables.ref_repair import heal_ref, rebuild_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.door import Door
from omnigraph_core.write.ref_repair import missing_refs
from omnigraph_core.write.sidecar import read_pending
from omnigraph_core.write.staging import read_record, staged_operations


@dataclass(frozen=True, slots=True)
class Line:
    """One lineage and what is to go of it."""

    ref: TableRef
    fork: ForkRef | None
    versions: tuple[int, ...]
    stays: tuple[int, ...]
    """The versions that are left then."""
    detached: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    """Files that may say what a version says itself."""
    is_unowned: bool = False
    """A fork that its branch does not write to now: it may be made anew under the branch's lock."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What goes; and the floors of the record."""

    now_s: float
    """By the clock that stamps files."""
    kept: Kept
    places: tuple[Place, ...]
    lines: tuple[Line, ...]
    forks: tuple[tuple[TableRef, ForkRef], ...]
    datasets: tuple[Place, ...]
    floors: tuple[Floor, ...]
    removals: Removals
    commits_removed: int
    commits_left: int
    failed: tuple[CleanedTable, ...] = ()


class Decider:
    """Decides about one graph, under the refs lock unless nothing is to be done about it."""

    def __init__(self, door: Door, policy: Policy, actor: str, *, dry_run: bool) -> None:
        self._door = door
        self._tables = door.tables
        self._control = door.storage.control
        self._policy = policy
        self._actor = actor
        self._dry_run = dry_run

    def decide(self) -> Decision:
        """The versions on disk first: what is made after that is in no list of what goes."""
        manifest = self._door.manifest
        now = now_us()
        places, failed = self._places()
        removals = read_removals(self._control)
        log = read_log(self._tables, manifest)
        store_now_s = self._store_now_s()
        kept = Keeper(manifest, log, removals, self._policy, now).run(places, store_now_s)
        if self._has_rebuilt(kept):
            return self.decide()
        unread = tuple(self._unread(places, kept, store_now_s))
        read = [each for each in places if each not in unread]
        return Decision(
            now_s=store_now_s,
            kept=kept,
            places=tuple(places),
            lines=tuple(self._lines(read, kept, store_now_s)),
            forks=tuple(self._orphans(read, kept)),
            datasets=unread,
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
                places.append(self._look_at(ref))
            except OmnigraphError as error:
                if ref.key == ref.path:
                    raise
                failed.append(CleanedTable(ref.key, layout.MAIN_BRANCH, error=str(error)))
        return places, failed

    def _look_at(self, ref: TableRef) -> Place:
        """With damaged refs of forks rebuilt, unless somebody writes to the branch."""
        try:
            return look_at(self._tables, ref)
        except RefDamaged:
            if self._dry_run or ref.path == layout.MANIFEST:
                raise
        for name in fork_names(self._tables, ref):
            lock = self._door.storage.locks.lock(layout.branch_lock(name), doing="cleanup")
            if lock.try_acquire():
                with lock:
                    heal_ref(self._tables, ref, name, lock.check)
        return look_at(self._tables, ref)

    def _has_rebuilt(self, kept: Kept) -> bool:
        """Have refs been rebuilt of forks that are read, and whose starts nothing has kept without them?

        What a fork reads of another line goes with the versions of that line, if nobody says that
        there is a fork. Refs of `__manifest` are another matter: a deleted branch has none.
        """
        lines = (line for line in kept.versions.read if line[0] != layout.MANIFEST)
        read = [TableRef(path, path, branch) for path, branch in lines]
        twins = [commits_ref(name) for name in (*kept.heads, *(each.name for each in kept.spared))]
        missing = missing_refs(self._tables, [*read, *twins])
        for ref, found in missing:
            if self._dry_run:
                raise found.damage()
            with self._door.locked(found.name, "cleanup") as lock:
                rebuild_ref(self._tables, ref, found, lock.check)
        return bool(missing)

    def _store_now_s(self) -> float:
        """By the clock that stamps files. On object storage it is asked by the lease that is held now."""
        if self._door.storage.location.is_local or self._dry_run:
            return time.time()
        return max(self._control.written_at(layout.LOCKS_DIR).values(), default=0.0)

    def _lines(self, places: Iterable[Place], kept: Kept, now_s: float) -> Iterator[Line]:
        for place in places:
            for name, times in place.times.items():
                if name is not None and name in {each.name for each in kept.spared}:
                    continue
                lineage = (place.path, name)
                is_read = place.is_control or name is None or lineage in kept.versions.read
                going = [] if not is_read else self._going(place, name, kept.versions)
                old = self._old(times.detached, now_s)
                transactions = self._old(place.transactions[name], now_s)
                if going or old or transactions:
                    yield Line(
                        ref=place.ref.on(name),
                        fork=None if name is None else place.refs[name],
                        versions=tuple(going),
                        stays=tuple(sorted(set(times.written) - set(going))),
                        detached=old,
                        transactions=transactions,
                        is_unowned=not place.is_control and not _is_owned(kept, place, name),
                    )

    def _old(self, files: Mapping[str, float], now_s: float) -> tuple[str, ...]:
        return tuple(sorted(path for path, when in files.items() if now_s - when >= self._policy.grace_s))

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
                if name not in kept.names and (place.path, name) not in kept.versions.read
            ]
            for name in sorted(names, key=lambda each: -len(place.forks[each].ancestors)):
                yield place.ref, place.refs[name]

    def _unread(self, places: Iterable[Place], kept: Kept, now_s: float) -> Iterator[Place]:
        """Tables that no head and no kept commit has, and nobody is about to make."""
        read = {path for path, _ in kept.versions.read} | prepared_paths(self._door)
        for place in places:
            if place.is_control or place.path in read or set(place.forks) & kept.names:
                continue
            newest = max(max(times.written.values(), default=0.0) for times in place.times.values())
            if now_s - newest >= self._policy.grace_s:
                yield place

    def _floors(self, log: CommitLog, kept: Kept, removals: Removals, now: int) -> Iterator[Floor]:
        """Per live branch, the floor below which commits are gone; those of purged branches go."""
        for deleted in kept.spared:
            if (known := removals.of(deleted.on)) is not None:
                yield known
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


def prepared_paths(door: Door) -> set[str]:
    """Datasets that a write is about to publish, or has staged files in."""
    pending = read_pending(door.storage.control)
    found = {table.table_path for sidecar in pending for table in sidecar.tables}
    for operation_id in staged_operations(door.storage):
        record = read_record(door.storage, operation_id)
        paths = record.paths if record is not None else ()
        found |= {"/".join(path.split("/")[:2]) for path in paths}
    return found


def _is_owned(kept: Kept, place: Place, name: str | None) -> bool:
    """Does the branch of this lineage write to it now?"""
    head = kept.heads.get(name_of(name))
    if head is None:
        return False
    return any(
        entry.table_path == place.path and entry.table_branch == lineage_of(head.branch)
        for entry in head.tables.values()
    )
