"""What cleanup must keep: versions per lineage, and why.

Everything is asked under the refs lock, the versions on disk first: what comes to be later is
in no list, and branches, tags and names do not change meanwhile. Kept are

- of every live branch its head as it is now, and everything at or above what it publishes:
  versions between there and HEAD are somebody's write in progress;
- the newest commits of every live branch by the policy, each as the versions that its snapshot
  pins. So what a branch inherits without a fork of its own is kept with it;
- the bases of merges, and of those (`merge_bases.py`);
- commits that have a tag;
- deleted branches within the grace, with a tag or with a base of a merge, as they are (`put_aside.py`);
- versions at which forks were made, and the first one of each fork, without which nobody could say where it
  was made, should its ref be lost;
- what a staged write pins, with the version after it: Lance looks for conflicts from the base of
  a write upwards and stops at the first version that is missing. Likewise what a sidecar names;
- what was superseded within the grace: readers and writers that began before may still need it.

A record that cannot be read may name anything: then nothing is removed at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from omnigraph_core import layout
from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.history.deleted import DeletedBranch, has_its_files, read_deleted
from omnigraph_core.history.log import CommitLog, GraphCommit, read_deleted_log
from omnigraph_core.history.removed import Removals
from omnigraph_core.history.tags import read_tags
from omnigraph_core.history.travel import CommitGone, snapshot_at
from omnigraph_core.maintenance.limits import (
    CLEANUP_GRACE_DEFAULT_S,
    KEPT_COMMITS_DEFAULT,
    KEPT_COMMITS_MIN,
)
from omnigraph_core.maintenance.lineages import Lineage, Place
from omnigraph_core.maintenance.merge_bases import MergeBases
from omnigraph_core.maintenance.put_aside import spared, versions_read_by
from omnigraph_core.manifest.branch import Branch, name_of
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.write.sidecar import read_pending
from omnigraph_core.write.staging import read_record, staged_operations


@dataclass(frozen=True, slots=True)
class Policy:
    """How much history stays. A commit goes only if it is beyond every condition that is given."""

    keep: int
    """The newest commits of every branch."""
    older_than_s: float | None = None
    grace_s: float = CLEANUP_GRACE_DEFAULT_S
    """What was superseded within it stays, whatever else is said."""

    def commits(self, history: Iterable[GraphCommit], now_us: int) -> Iterator[GraphCommit]:
        """Of the readable commits of a branch, newest first, those that stay: always the head."""
        for place, commit in enumerate(history):
            is_counted = place < self.keep
            age_s = (now_us - commit.created_at) / 1_000_000
            if is_counted or (self.older_than_s is not None and age_s < self.older_than_s):
                yield commit


def checked_policy(
    keep: int | None, older_than_s: float | None, grace_s: float | None, *, force: bool
) -> Policy:
    """The policy that was asked for, if it makes sense; one that leaves next to nothing takes force."""
    for name, value in {"keep": keep, "older_than_s": older_than_s, "grace_s": grace_s}.items():
        if value is not None and (type(value) not in (int, float) or not value >= 0):
            raise UsageError(f"{name} must be a number, and not negative: {value!r}", field=name)
    if keep == 0 or type(keep) is float:
        raise UsageError("keep must be a whole number, and at least 1", field="keep")
    if keep is not None and keep < KEPT_COMMITS_MIN and not force:
        raise RefusedError(
            f"keeping {keep} of the newest commits may remove what a rollback or a late reader needs",
            hint=f"keep {KEPT_COMMITS_MIN} or more, or insist",
            field="force",
        )
    if keep is None:
        least = 1 if force else KEPT_COMMITS_MIN
        keep = KEPT_COMMITS_DEFAULT if older_than_s is None else least
    return Policy(keep, older_than_s, CLEANUP_GRACE_DEFAULT_S if grace_s is None else grace_s)


class KeepSet:
    """Versions that stay, by lineage."""

    def __init__(self) -> None:
        self._versions: dict[Lineage, set[int]] = defaultdict(set)
        self._from: dict[Lineage, int] = {}
        self._everywhere: set[int] = set()
        self.read: set[Lineage] = set()
        """Lineages that a head or a kept commit reads."""

    def add(self, lineage: Lineage, version: int) -> None:
        self._versions[lineage].add(version)

    def add_from(self, lineage: Lineage, version: int) -> None:
        """This version and everything above."""
        self.add(lineage, version)
        self._from[lineage] = min(version, self._from.get(lineage, version))

    def add_everywhere(self, version: int) -> None:
        """On every lineage of every table: a record names tables by keys, which may be others' by now."""
        self._everywhere.add(version)

    def has(self, lineage: Lineage, version: int) -> bool:
        return (
            version in self._versions.get(lineage, ())
            or version >= self._from.get(lineage, version + 1)
            or version in self._everywhere
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """The versions that stay, and the commits that can still be read."""

    versions: KeepSet
    commits: Mapping[str, GraphCommit]
    heads: Mapping[str, Snapshot]
    spared: tuple[DeletedBranch, ...] = ()
    """Deleted branches that can still be brought back. Their lineages are not touched."""
    doomed: tuple[DeletedBranch, ...] = ()
    """Those that are given up."""

    @property
    def live(self) -> Mapping[str, Branch]:
        return {name: head.on for name, head in self.heads.items()}

    @property
    def names(self) -> frozenset[str]:
        """Of live branches and of spared ones: forks of these names belong to them."""
        return frozenset(self.heads) | {each.name for each in self.spared}


def named_commits(storage: Storage, log: CommitLog) -> list[GraphCommit]:
    """Commits that stay because they have a tag, wherever they are; `TagDamaged` if nobody can tell."""
    tagged = (log.commits.get(tag.commit_id) for tag in read_tags(storage.control))
    return [commit for commit in tagged if commit is not None]


def is_readable(commit: GraphCommit, live: Mapping[str, Branch], removals: Removals) -> bool:
    """By what is on record: its branch is there, and no cleanup has removed it."""
    if commit.branch_is_gone or removals.removed_at(commit) is not None:
        return False
    branch = live.get(commit.branch)
    return branch is not None and branch.may_be(commit.on)


class Keeper:
    """Computes what is kept, from what was found on disk before."""

    def __init__(
        self, manifest: Manifest, log: CommitLog, removals: Removals, policy: Policy, now_us: int
    ) -> None:
        self._manifest = manifest
        self._storage = manifest.tables.storage
        self._log = log
        self._removals = removals
        self._policy = policy
        self._now_us = now_us
        self._kept = KeepSet()
        self._commits: dict[str, GraphCommit] = {}
        self._live: dict[str, Branch] = {}

    def run(self, places: Iterable[Place], store_now_s: float) -> Kept:
        places = list(places)
        for lost in self._manifest.lost_refs():
            raise lost.damage()
        names = [layout.MAIN_BRANCH, *sorted(self._manifest.branches())]
        heads = {name: self._manifest.snapshot(name) for name in names}
        self._live = {name: head.on for name, head in heads.items()}
        for head in heads.values():
            self._keep_head(head)
        for name in names:
            self._keep_commits(self._policy.commits(self._readable(self._log.history(name)), self._now_us))
        tagged = named_commits(self._storage, self._log)
        self._keep_commits(self._readable(tagged))
        deleted = read_deleted(self._storage.control)
        needed = {tag.on for tag in read_tags(self._storage.control)}
        aside = spared(deleted, needed, self._now_us, self._policy.grace_s)
        bases = self._bases(heads.values(), tagged, deleted, aside)
        self._keep_commits(self._readable(bases))
        needed |= {commit.on for commit in bases}
        aside = spared(deleted, needed, self._now_us, self._policy.grace_s)
        for branch in aside:
            self._keep_deleted(branch)
        self._keep_fork_points(places)
        self._keep_staged()
        self._keep_pending()
        self._keep_recent(places, store_now_s)
        doomed = tuple(each for each in deleted if each not in aside)
        return Kept(self._kept, self._commits, heads, tuple(aside), doomed)

    def _keep_deleted(self, branch: DeletedBranch) -> None:
        for lineage, version in versions_read_by(self._manifest, branch):
            self._kept.add(lineage, version)
            self._kept.read.add(lineage)

    def _keep_head(self, head: Snapshot) -> None:
        """As the branch is now, and as its commit was published: indexes may have been built since."""
        if head.head is not None and head.head.commit_id in self._log.commits:
            self._keep_commits([self._log.commits[head.head.commit_id]])
        self._kept.add_from((layout.MANIFEST, head.on.lineage), head.manifest_version)
        for entry in head.tables.values():
            lineage = (entry.table_path, entry.table_branch)
            self._kept.read.add(lineage)
            if entry.table_branch == head.on.lineage:
                self._kept.add_from(lineage, entry.table_version)
            else:
                self._kept.add(lineage, entry.table_version)

    def _keep_commits(self, commits: Iterable[GraphCommit]) -> None:
        for commit in commits:
            if commit.commit_id not in self._commits:
                self._keep_commit(commit)

    def _keep_commit(self, commit: GraphCommit) -> None:
        try:
            snapshot = snapshot_at(self._manifest, commit)
        except CommitGone:  # The row is too old to say whose commit it is; the manifest knows.
            return
        self._commits[commit.commit_id] = commit
        self._kept.add((layout.MANIFEST, snapshot.on.lineage), snapshot.manifest_version)
        for entry in snapshot.tables.values():
            self._kept.add((entry.table_path, entry.table_branch), entry.table_version)
            self._kept.read.add((entry.table_path, entry.table_branch))

    def _readable(self, commits: Iterable[GraphCommit]) -> Iterator[GraphCommit]:
        return (commit for commit in commits if self._is_readable(commit))

    def _is_readable(self, commit: GraphCommit) -> bool:
        return is_readable(commit, self._live, self._removals)

    def _bases(
        self,
        heads: Iterable[Snapshot],
        tagged: Iterable[GraphCommit],
        deleted: Iterable[DeletedBranch],
        aside: Sequence[DeletedBranch],
    ) -> list[GraphCommit]:
        tables = self._manifest.tables
        gone = {each.on for each in deleted if has_its_files(tables, each)}
        logs = (read_deleted_log(tables, each) for each in aside)
        commits = {id_: commit for log in logs for id_, commit in log.items()}
        found = MergeBases({**commits, **self._log.commits})
        found.start_at(head.head.commit_id for head in heads if head.head is not None)
        found.may_start_at(each.head for each in reversed(aside) if each.head in commits)
        found.may_start_at(commit.commit_id for commit in tagged)

        def is_aside(commit: GraphCommit) -> bool:
            return commit.on in gone and self._removals.removed_at(commit) is None

        return found.found(self._is_readable, is_aside)

    def _keep_fork_points(self, places: Iterable[Place]) -> None:
        for place in places:
            for name, fork in place.forks.items():
                self._kept.add((place.path, fork.parent), fork.parent_version)
                self._kept.add((place.path, name), fork.parent_version)

    def _keep_staged(self) -> None:
        for operation_id in staged_operations(self._storage):
            record = read_record(self._storage, operation_id)
            for _, version in record.pinned if record is not None else ():
                self._kept.add_everywhere(version)
                self._kept.add_everywhere(version + 1)

    def _keep_pending(self) -> None:
        for sidecar in read_pending(self._storage.control):
            if sidecar.base_manifest_version is not None:
                self._kept.add_from((layout.MANIFEST, sidecar.on.lineage), sidecar.base_manifest_version)
            for table in sidecar.tables:
                lineage = (table.table_path, table.table_branch)
                self._kept.add_from(lineage, min(table.expected_version, table.post_commit_pin))
                if table.published_version:
                    self._kept.add(lineage, table.published_version)

    def _keep_recent(self, places: Iterable[Place], now_s: float) -> None:
        """Also whole commits, as long as their manifest version is recent: a table's version may be
        much older than its publish, when a recovery published it."""
        recent: dict[Branch, set[int]] = {}
        for place in places:
            for branch, times in place.times.items():
                since = times.superseded_at().items()
                young = {version for version, when in since if now_s - when < self._policy.grace_s}
                for version in young:
                    self._kept.add((place.path, branch), version)
                if place.path == layout.MANIFEST:
                    recent[self._manifest.branch(name_of(branch))] = young
        for commit in self._log.commits.values():
            if commit.manifest_version in _of(recent, commit.on) and self._is_readable(commit):
                self._keep_commits([commit])


def _of(recent: Mapping[Branch, set[int]], branch: Branch) -> set[int]:
    return next((versions for each, versions in recent.items() if each.may_be(branch)), set())
