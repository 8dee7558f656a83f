"""The way of one table back along first parents: which commit published which version of it.

A manifest keeps the rows of all versions that its branch ever published, so one reading of the
newest manifest shows the whole way, without a look at the commits in between. What a branch held
that was deleted, and not yet purged, is read as well: merged branches rarely live long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cached_property

from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.deleted import find_aside
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.history.removed import Removals
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.commit import Operation
from omnigraph_core.manifest.published import Published, read_published
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced, Manifest, manifest_ref
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.tables.dataset import Table

SchemaOf = Callable[[GraphCommit], Schema]


class Limit(StrEnum):
    """Why the way ends before the first commit."""

    REMOVED = "removed_by_cleanup"
    BRANCH_DELETED = "branch_deleted"
    NOT_RECORDED = "not_recorded"


@dataclass(frozen=True, slots=True)
class Stage:
    """A version of the table, from the commit that published it up to the next stage."""

    position: int
    """Of the commit, in the order of the trail: 0 is the newest."""
    published: Published | None
    """None: from here on there is no such type."""


class Trail:
    """One table along the first parents of a commit. A state is named by the position of its commit."""

    def __init__(
        self,
        commits: tuple[GraphCommit, ...],
        stages: tuple[Stage, ...],
        schema_of: SchemaOf,
        removals: Removals,
    ) -> None:
        self.commits = commits
        self.stages = stages
        """From the newest to the oldest."""
        self._positions = [stage.position for stage in stages]
        self._schema_of, self._removals = schema_of, removals

    def index_at(self, position: int) -> int:
        """The number of the stage that a state has; past the last one if the table was not there yet."""
        return bisect_left(self._positions, position)

    def published_at(self, position: int) -> Published | None:
        index = self.index_at(position)
        return self.stages[index].published if index < len(self.stages) else None

    def entity_at(self, position: int) -> EntityType | None:
        """What the type was in that state; None if it was not there."""
        published = self.published_at(position)
        return None if published is None else _declared(self._schema_of(self.commits[position]), published)

    def limit_at(self, position: int) -> Limit | None:
        """Why the table cannot be read in that state. One kept commit that has the version is enough.

        The position behind the last commit stands for what was before everything.
        """
        index = self.index_at(position)
        if index == len(self.stages):
            return None if self._is_whole else Limit.NOT_RECORDED
        first = self._positions[index - 1] + 1 if index else 0
        span = self.commits[first : self._positions[index] + 1]
        is_kept = any(self._removals.removed_at(commit) is None for commit in span)
        return None if is_kept or self.stages[index].published is None else Limit.REMOVED

    def oldest_with(self, position: int, updated: int) -> int:
        """The commit that published a row which that state has, by the version of its last update.

        What repair has adopted may be an older version that another program restored, rows and all.
        """
        index = self.index_at(position)
        while index + 1 < len(self.stages):
            older = self.stages[index + 1].published
            is_adopted = self.commits[self._positions[index]].operation == Operation.REPAIR
            if is_adopted or older is None or older.table_version < updated:
                break
            index += 1
        return self._positions[index]

    def redeclared(self, start: int, end: int) -> int | None:
        """The newest commit in the range that declares the type in another way than its parent."""
        at = bisect_left(self._schema_changes, start)
        while at < len(self._schema_changes) and self._schema_changes[at] < end:
            if self.entity_at(self._schema_changes[at]) != self.entity_at(self._schema_changes[at] + 1):
                return self._schema_changes[at]
            at += 1
        return None

    @cached_property
    def _schema_changes(self) -> list[int]:
        hashes = [commit.schema_hash for commit in self.commits]
        return [at for at in range(len(hashes) - 1) if hashes[at] != hashes[at + 1]]

    @property
    def _is_whole(self) -> bool:
        return bool(self.commits) and self.commits[-1].parent_commit_id is None


class Trails:
    """Trails of one graph. What they were read from must be proven to be there when all is read."""

    def __init__(self, manifest: Manifest, log: CommitLog, removals: Removals, schema_of: SchemaOf) -> None:
        self.log, self.removals, self.schema_of = log, removals, schema_of
        self._manifest = manifest
        self.tables = manifest.tables
        self._published: dict[Branch, tuple[Published, ...] | None] = {}

    def of(self, commit: GraphCommit, path: str) -> Trail | Limit:
        """The trail of a table from a commit back, or why there is none."""
        commits = tuple(self.log.first_parents(commit.commit_id))
        published = self.published(commit)
        if published is None:
            return Limit.BRANCH_DELETED
        mine, end = self._of_path(published, path)
        for at, each in enumerate(commits):
            if each.commit_id == end:
                commits = commits[: at + 1]
                break
        stages = _stages(commits, mine.values(), self.schema_of)
        return Trail(commits, stages, self.schema_of, self.removals)

    def published(self, commit: GraphCommit) -> tuple[Published, ...] | None:
        """All that was published on the way to a commit, and perhaps more; None if its branch is gone."""
        if commit.on not in self._published:
            table = None if commit.branch_is_gone else self._open(commit.on)
            self._published[commit.on] = None if table is None else read_published(table)
        return self._published[commit.on]

    def prove(self) -> None:
        """Raise unless every branch that was read from is still there, deleted or not, by identity."""
        for on, published in self._published.items():
            if published is not None and not self._is_live(on) and self._put_aside(on) is None:
                raise BranchReplaced(f"branch '{on.name}' was deleted while it was read")

    def _open(self, on: Branch) -> Table | None:
        if self._is_live(on):
            return self._manifest.open_for_read(on.name)
        version = self._put_aside(on)
        if version is None:
            return None
        try:
            return self.tables.open(manifest_ref(on.name), version)
        except NotFoundError:
            if self._put_aside(on) is None:
                return None
            raise

    def _is_live(self, on: Branch) -> bool:
        try:
            return self._manifest.branch(on.name).may_be(on)
        except BranchNotFound:
            return False

    def _put_aside(self, on: Branch) -> int | None:
        """The newest manifest version of a branch that was deleted, as long as nothing has purged it."""
        aside = find_aside(self.tables, on)
        return None if aside is None else aside.manifest_version

    def _of_path(self, published: Iterable[Published], path: str) -> tuple[dict[int, Published], str | None]:
        """All versions of one dataset, and the commit below which they are not known.

        A key may have been given to another dataset since. Its rows have replaced those with the
        same numbers, so these are looked up in the manifest of the commit before.
        """
        everything = list(published)
        mine = {each.table_version: each for each in everything if each.table_path == path}
        keys = {each.table_key for each in mine.values()}
        others = {each.commit_id for each in everything if each.table_key in keys and each.table_path != path}
        known = [commit for each in others if (commit := self.log.commits.get(each or "")) is not None]
        first = min(known, key=lambda each: each.created_at, default=None)
        if first is None or first.parent_commit_id is None:
            return mine, None
        before = self.log.commits.get(first.parent_commit_id)
        if before is None or self.removals.removed_at(before) is not None:
            return mine, first.commit_id
        table = self.tables.open(manifest_ref(before.branch), before.manifest_version)
        earlier, end = self._of_path(read_published(table), path)
        return {**earlier, **mine}, end


def _stages(
    commits: tuple[GraphCommit, ...], published: Iterable[Published], schema_of: SchemaOf
) -> tuple[Stage, ...]:
    """The newest version that each commit published, and the commits that dropped the type."""
    positions = {commit.commit_id: at for at, commit in enumerate(commits)}
    newest: dict[int, Published] = {}
    for each in published:
        at = positions.get(each.commit_id or "")
        if at is not None and (at not in newest or newest[at].table_version <= each.table_version):
            newest[at] = each
    found: list[Stage] = []
    current: Published | None = None
    changes = [at for at in range(len(commits) - 1) if commits[at].schema_hash != commits[at + 1].schema_hash]
    for at in sorted({*newest, *changes}, reverse=True):
        if at in newest:
            current = newest[at]
        elif current is None or _declared(schema_of(commits[at]), current) is not None:
            continue
        else:
            current = None
        found.append(Stage(at, current))
    return tuple(reversed(found))


def _declared(schema: Schema, published: Published) -> EntityType | None:
    kind, _, name = published.table_key.partition(":")
    return schema.find_node(name) if kind == "node" else schema.find_edge(name)
