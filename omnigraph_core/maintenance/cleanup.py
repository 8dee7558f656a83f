"""`cleanup`: versions that nothing can reach any more go, and so do leftovers of the dead.

First everything is decided, under the refs lock, and what goes is recorded (`history/removed.py`):
from then on no reader takes a removed commit for one that is there, and no branch starts at it.
Then it goes: the manifest's versions, those of the logs, those of the tables, each lineage under the
refs lock again, which is free in between. A version that was decided upon cannot become
reachable meanwhile: what is recorded as removed is refused as a start of anything.

A fork goes by the ref file that was read. Versions of a fork go only while its ref file is
the one that was read: a branch made anew has versions of the same numbers.

Rows of `__manifest` that tell of removed versions go next, branch by branch, and last the
leftovers of killed processes (`leftovers.py`).

A failure at one table is reported and stops no other. A cleanup that is killed is finished by the next:
it decides the same, or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from omnigraph_core import faults, layout
from omnigraph_core.errors import BusyError, OmnigraphError
from omnigraph_core.history.removed import write_removals
from omnigraph_core.maintenance.cleaned import Cleaned, CleanedTable, Usage
from omnigraph_core.maintenance.control import count_superseded, prune_manifest
from omnigraph_core.maintenance.decision import Decider, Decision, Line, prepared_paths
from omnigraph_core.maintenance.keep import Kept, Policy
from omnigraph_core.maintenance.leftovers import Leftovers
from omnigraph_core.maintenance.limits import CLEANUP_ATTEMPTS_MAX
from omnigraph_core.maintenance.lineages import Place, look_at
from omnigraph_core.manifest.branch import name_of
from omnigraph_core.manifest.reader import BranchNotFound, manifest_ref
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress, silent
from omnigraph_core.storage import HeldLocks, ObjectChanged, ObjectExists
from omnigraph_core.tables.branches import delete_files, delete_fork
from omnigraph_core.tables.collect import Collected, collect_versions, explain_versions
from omnigraph_core.tables.durability import version_of
from omnigraph_core.tables.fork_refs import ForkRef, find_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.transactions import delete_transactions, repeated_transactions
from omnigraph_core.write.door import Door
from omnigraph_core.write.put_aside import purge


class Cleanup:
    """One run over one graph."""

    def __init__(
        self, door: Door, policy: Policy, actor: str, *, dry_run: bool = False, progress: Progress = silent
    ) -> None:
        self._door = door
        self._tables = door.tables
        self._control = door.storage.control
        self._policy = policy
        self._decider = Decider(door, policy, actor, dry_run=dry_run)
        self._dry_run = dry_run
        self._progress = progress

    def run(self) -> Cleaned:
        decision = self._decider.decide() if self._dry_run else self._recorded()
        faults.hit("cleanup.recorded")
        leftovers = Leftovers(self._door, decision.now_s, self._policy.grace_s, dry_run=self._dry_run)
        done = [*decision.failed, *self._removed(decision, leftovers)]
        outside = leftovers.outside_tables()
        return Cleaned(
            policy=self._policy,
            tables=tuple(each for each in done if each is not None),
            commits_removed=decision.commits_removed,
            commits_left=decision.commits_left,
            branches_purged=tuple(sorted(each.name for each in decision.kept.doomed)),
            branches_spared=tuple(sorted(each.name for each in decision.kept.spared)),
            leftovers=outside.files,
            leftover_bytes=outside.bytes,
        )

    def _removed(self, decision: Decision, leftovers: Leftovers) -> Iterator[CleanedTable | None]:
        """Everything that was decided, one after the other; None where nothing was left to do."""
        for line in decision.lines:
            yield self._each(line.ref, partial(self._collect, line))
            faults.hit("cleanup.collected")
        for ref, found in decision.forks:
            yield self._each(ref.on(found.name), partial(self._remove_fork, ref, found), "fork")
            faults.hit("cleanup.fork_removed")
        for place in decision.datasets:
            yield self._each(place.ref, partial(self._remove_dataset, place), "dataset")
            faults.hit("cleanup.dataset_removed")
        for head in decision.kept.heads.values():
            yield self._each(manifest_ref(head.branch), partial(self._prune, decision.kept, head), "rows")
        gone = {place.path for place in decision.datasets}
        for place in decision.places:
            if place.path not in gone:
                yield from self._unreferenced(decision.kept, place, leftovers)

    def _unreferenced(self, kept: Kept, place: Place, leftovers: Leftovers) -> Iterator[CleanedTable | None]:
        try:
            found = leftovers.unreferenced(place)
        except OmnigraphError as error:
            yield CleanedTable(place.ref.key, layout.MAIN_BRANCH, action="staged", error=str(error))
            return
        for each in found:
            head = kept.heads.get(name_of(each.ref.branch))
            if head is not None:
                work = partial(leftovers.remove_unreferenced, each, head.on)
                yield self._each(each.ref, work, "staged")

    def _recorded(self) -> Decision:
        for _ in range(CLEANUP_ATTEMPTS_MAX):
            with self._refs_lock() as held:
                decision = self._decider.decide()
                faults.hit("cleanup.decided")
                purge(self._door, decision.kept.doomed, held)
                held.check()
                try:
                    if decision.floors != decision.removals.floors:
                        write_removals(self._control, decision.floors, decision.removals)
                    return decision
                except (ObjectChanged, ObjectExists):
                    continue
        raise BusyError("another cleanup of this graph was faster every time", hint="try again")

    def _each(
        self, ref: TableRef, work: Callable[[], Collected | int], action: str = "versions"
    ) -> CleanedTable | None:
        """What came of it; a failure is part of the answer. None if there was nothing to do."""
        branch = name_of(ref.branch)
        before = self._usage(ref)
        try:
            done = work()
        except BranchNotFound:  # Deleted since it was decided about: the next cleanup gives it up.
            return None
        except BusyError:
            return CleanedTable(ref.key, branch, before=before, after=before, action="busy")
        except OmnigraphError as error:
            after = self._usage(ref)
            return CleanedTable(ref.key, branch, before=before, after=after, action=action, error=str(error))
        if isinstance(done, int):
            found = CleanedTable(
                ref.key, branch, before=before, after=self._usage(ref), action=action, rows=done
            )
            return found if done else None
        if not done.files:
            return None
        after = self._usage(ref)
        if self._dry_run:
            after = Usage(
                before.versions - done.versions, before.files - done.files, before.bytes - done.bytes
            )
        return CleanedTable(ref.key, branch, done.versions, done.files, done.bytes, before, after, action)

    def _usage(self, ref: TableRef) -> Usage:
        """What is in the folder of a lineage, without its forks."""
        files = self._control.listing(ref.directory)
        own = {p: each for p, each in files.items() if not p.startswith(f"{ref.directory}/tree/")}
        versions = sum(version_of(p.rpartition("/")[2]) is not None for p in own if "/_versions/" in p)
        return Usage(versions, len(own), sum(each.size for each in own.values()))

    def _collect(self, line: Line) -> Collected:
        repeated = repeated_transactions(self._tables, line.ref, line.transactions, line.stays)
        if self._dry_run:
            return _with(explain_versions(self._tables, line.ref, line.versions), repeated)
        done = Collected()
        if line.versions or line.detached:
            with self._refs_lock(line.ref.branch if line.is_unowned else None) as held:
                if not self._is_same(line.ref, line.fork):
                    return Collected()
                done = collect_versions(self._tables, line.ref, line.versions, held.check)
                delete_files(self._tables, line.detached, held.check)
        delete_transactions(self._tables, repeated)
        return _with(Collected(done.versions, done.files + len(line.detached), done.bytes), repeated)

    def _prune(self, kept: Kept, head: Snapshot) -> int:
        def is_kept(path: str, lineage: str | None, version: int) -> bool:
            return kept.versions.has((path, lineage), version)

        work = count_superseded if self._dry_run else prune_manifest
        return work(self._door, head, is_kept)

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
        return found | prepared_paths(self._door)

    def _sizes(self, prefix: str) -> Mapping[str, int]:
        return {path: each.size for path, each in self._control.listing(prefix).items()}

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


def _with(done: Collected, more: Mapping[str, int]) -> Collected:
    return Collected(done.versions, done.files + len(more), done.bytes + sum(more.values()))


def _versions_first(paths: Iterable[str]) -> Sequence[str]:
    return sorted(paths, key=lambda path: ("/_versions/" not in path, path))
