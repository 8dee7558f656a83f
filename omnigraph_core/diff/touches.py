"""Which of some commits changed a type, or one entity; each compared with its first parent.

The commits are looked at as trails: those along first parents that no newer trail has. Whether a commit
changed a type is known from what it published and from the counts in its details; rows are read
only where these do not say it (a repair, a recovery, a pointer). An entity is read where it may
have been written, and where something of its type was deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_core import layout
from omnigraph_core.diff.columns import Side
from omnigraph_core.diff.entity import RowsOnTrails
from omnigraph_core.diff.tables import TableDiff
from omnigraph_core.diff.trails import Limit, Stage, Trail, Trails
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.manifest.published import Published
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import NoSuchTypeError


@dataclass(frozen=True, slots=True)
class Unknown:
    """Where it is not known what changed: at this commit or before it, as far as this trail goes."""

    commit: GraphCommit
    limit: Limit


@dataclass(frozen=True, slots=True)
class Touches:
    """The commits that changed something, in the order they were given, and where nobody can tell."""

    commits: tuple[GraphCommit, ...]
    unknown: tuple[Unknown, ...] = ()

    def __len__(self) -> int:
        return len(self.commits)

    def __iter__(self) -> Iterator[GraphCommit]:
        return iter(self.commits)

    def to_arrow(self) -> pa.Table:
        """One row per commit."""
        each = self.commits
        return pa.table(
            {
                "graph_commit_id": pa.array([commit.commit_id for commit in each], pa.utf8()),
                "branch": pa.array([commit.shown_branch for commit in each], pa.utf8()),
                "actor_id": pa.array([commit.actor_id for commit in each], pa.utf8()),
                "created_at": pa.array([commit.created_at for commit in each], pa.timestamp("us", "UTC")),
                "operation": pa.array([commit.operation for commit in each], pa.utf8()),
                "message": pa.array([commit.message for commit in each], pa.utf8()),
            }
        )


_Stretch = tuple[GraphCommit, ...]
"""Commits along first parents, the newest first, that no other stretch has."""


def touching_type(trails: Trails, commits: Sequence[GraphCommit], type_name: str) -> Touches:
    """Those that changed rows or the declaration of a type."""
    stretches, gone = _stretches(trails, commits)
    found = {each.commit_id for each in gone if _counts_of_name(each, type_name)}
    unknown = [Unknown(each, Limit.BRANCH_DELETED) for each in gone if _counts(each) is None]
    for path in _paths(trails, stretches, type_name, bool(gone)):
        for stretch in stretches:
            trail = trails.of(stretch[0], path)
            if isinstance(trail, Trail):
                found |= {each.commit_id for each in _changing(trails, trail, len(stretch))}
    trails.prove()
    return Touches(tuple(each for each in commits if each.commit_id in found), tuple(unknown))


def touching_entity(
    trails: Trails, commits: Sequence[GraphCommit], type_name: str, entity_id: str
) -> Touches:
    """Those that inserted, updated or deleted an entity; also in an earlier life of its id."""
    stretches, gone = _stretches(trails, commits)
    found: set[str] = set()
    unknown = [Unknown(each, Limit.BRANCH_DELETED) for each in gone]
    for path in _paths(trails, stretches, type_name, bool(gone)):
        for stretch in stretches:
            rows = RowsOnTrails(trails, path, entity_id)
            trail = rows.trail(stretch[0])
            if isinstance(trail, Trail):
                for each in _life(rows, trail, len(stretch)):
                    if isinstance(each, Unknown):
                        unknown.append(each)
                    else:
                        found.add(each.commit_id)
    trails.prove()
    return Touches(tuple(each for each in commits if each.commit_id in found), tuple(unknown))


def _stretches(trails: Trails, commits: Sequence[GraphCommit]) -> tuple[list[_Stretch], list[GraphCommit]]:
    """All of the commits as stretches; and those whose branch is gone for good."""
    wanted = {commit.commit_id for commit in commits}
    seen: set[str] = set()
    stretches, gone = [], []
    for tip in commits:
        if tip.commit_id in seen:
            continue
        if trails.published(tip) is None:
            seen.add(tip.commit_id)
            gone.append(tip)
            continue
        part = []
        for commit in trails.log.first_parents(tip.commit_id):
            if commit.commit_id in seen or commit.commit_id not in wanted:
                break
            part.append(commit)
        seen |= {commit.commit_id for commit in part}
        stretches.append(tuple(part))
    return stretches, gone


def _paths(trails: Trails, stretches: Sequence[_Stretch], type_name: str, is_torn: bool) -> list[str]:
    """The tables that have the name in one of the newest states; or, if none has, those that once had it."""
    keys = {layout.table_key("node", type_name), layout.table_key("edge", type_name)}
    current: set[str] = set()
    ever: set[str] = set()
    known: set[str] = set()
    for stretch in stretches:
        tip = stretch[0]
        declared = {each.table_key for each in trails.schema_of(tip).types()}
        known |= declared
        named = [each for each in trails.published(tip) or () if each.table_key in keys]
        ever |= {each.table_path for each in named}
        for key in keys & declared:
            current |= _newest_path(trails, tip, [each for each in named if each.table_key == key])
    if not (current or ever or is_torn):
        raise NoSuchTypeError(type_name, known)
    return sorted(current or ever)


def _newest_path(trails: Trails, tip: GraphCommit, named: Iterable[Published]) -> set[str]:
    """The table that a key has at a commit: the one that was published last on the way to it."""
    by_commit = {each.commit_id: each.table_path for each in sorted(named, key=_generation)}
    for commit in trails.log.first_parents(tip.commit_id):
        if commit.commit_id in by_commit:
            return {by_commit[commit.commit_id]}
    return set()


def _generation(published: Published) -> int:
    return published.generation


def _changing(trails: Trails, trail: Trail, count: int) -> Iterator[GraphCommit]:
    """The first `count` commits of a trail, as far as they changed the table or its declaration."""
    for index, stage in enumerate(trail.stages):
        if stage.position >= count:
            break
        older = trail.stages[index + 1].published if index + 1 < len(trail.stages) else None
        if _has_changed(trails, trail, stage, older):
            yield trail.commits[stage.position]
    start = 0
    while (position := trail.redeclared(start, count)) is not None:
        yield trail.commits[position]
        start = position + 1


def _has_changed(trails: Trails, trail: Trail, stage: Stage, older: Published | None) -> bool:
    published = stage.published
    if published is None or older is None:
        return True
    commit = trail.commits[stage.position]
    counts = _counts(commit)
    if counts is not None and counts.get(published.table_key):
        return True
    if commit.details is not None and "optimized" in json.loads(commit.details):
        return False
    if (published.table_branch, published.table_version) == (older.table_branch, older.table_version):
        return False
    new, old = trail.entity_at(stage.position), trail.entity_at(stage.position + 1)
    if new is None or old is None or trail.limit_at(stage.position + 1) or trail.limit_at(stage.position):
        return True
    before = Side(old, trails.tables.open(older.ref, older.table_version))
    after = Side(new, trails.tables.open(published.ref, published.table_version))
    return any(True for _ in TableDiff(trails.tables, before, after).batches())


def _counts(commit: GraphCommit) -> dict[str, Any] | None:
    """How many rows the commit changed, by table key; None if it does not say."""
    details = json.loads(commit.details) if commit.details else {}
    counts: dict[str, Any] | None = details.get("counts")
    return counts


def _counts_of_name(commit: GraphCommit, type_name: str) -> bool:
    return any(key.partition(":")[2] == type_name and each for key, each in (_counts(commit) or {}).items())


def _life(rows: RowsOnTrails, trail: Trail, count: int) -> Iterator[GraphCommit | Unknown]:
    """The first `count` commits of a trail, as far as they changed the entity."""
    position = 0
    now = rows.read(trail, 0)
    while position < count:
        if isinstance(now, Limit):
            yield Unknown(trail.commits[position], now)
            position = _next_readable(trail, position)
            now = rows.read(trail, position) if position < count else None
            continue
        stop = rows.stop(trail, position, now) if now is not None else _deletion(rows, trail, position, count)
        if stop is None or stop >= count:
            return
        before = rows.before(trail, stop)
        if isinstance(before, Limit):
            if now is not None:
                yield trail.commits[stop]
        elif rows.differs(before, now):
            yield trail.commits[stop]
        position, now = stop + 1, before


def _next_readable(trail: Trail, position: int) -> int:
    """The next older state that can be read; behind the last commit if there is none."""
    index = trail.index_at(position) + 1
    while index < len(trail.stages):
        start = trail.stages[index - 1].position + 1
        if trail.limit_at(start) is None:
            return start
        index += 1
    return len(trail.commits)


def _deletion(rows: RowsOnTrails, trail: Trail, position: int, count: int) -> int | None:
    """The newest commit, from a state without the entity back, that may have deleted it."""
    for index in range(trail.index_at(position), len(trail.stages) - 1):
        stage, older = trail.stages[index], trail.stages[index + 1].published
        if stage.position >= count:
            return None
        if older is None or not _may_delete(trail.commits[stage.position], stage.published, older):
            continue
        if rows.read(trail, stage.position + 1) is not None:
            return stage.position
    return None


def _may_delete(commit: GraphCommit, published: Published | None, older: Published) -> bool:
    """Has it deleted any row of the table? Not if what it says to have added explains the row count."""
    counts = _counts(commit)
    if published is None or counts is None:
        return True
    mine = counts.get(published.table_key, {})
    return bool(mine.get("deleted")) or published.row_count != older.row_count + mine.get("inserted", 0)
