"""One entity through time: which commit last changed each of its properties, and how it is followed.

A row says in which version of its table it was last updated, so all commits after the one that
published that version are passed over without a look, whatever they folded or compacted. Only
where the type is declared in another way does a row get other values without being written. At
each such commit the row is compared with what it was before: what is equal is followed along the
first parent, what is not into the merged parent that has it, and the rest is the commit's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from omnigraph_core.diff.columns import Side, shared_columns
from omnigraph_core.diff.records import shown_rows
from omnigraph_core.diff.tables import values_differ
from omnigraph_core.diff.trails import Limit, Trail, Trails
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.removed import read_removals
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Scalar
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import quote_text

_UPDATED = "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True)
class Row:
    """An entity in one state."""

    entity: EntityType
    table: Table
    values: pa.Table
    updated: int
    """The version of the table that wrote it last."""

    @property
    def side(self) -> Side:
        return Side(self.entity, self.table)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a property comes from."""

    property: str
    value: object
    commit: GraphCommit
    known_as: str
    """What the property was called when the commit set it."""
    limit: Limit | None = None
    """Why nobody can tell whether it was this commit or one before it; None if it was this one."""


@dataclass(frozen=True, slots=True)
class Blame:
    """All properties of an entity, those of the type in the order of its columns."""

    entity: EntityType
    entity_id: str
    commit: GraphCommit
    """The state that was asked about."""
    origins: tuple[Origin, ...]

    def named(self, name_of: Callable[[Branch], str]) -> Blame:
        """The same, with what the branches of its commits are called."""

        def shown(commit: GraphCommit) -> GraphCommit:
            return replace(commit, named=name_of(commit.on))

        origins = tuple(replace(each, commit=shown(each.commit)) for each in self.origins)
        return replace(self, commit=shown(self.commit), origins=origins)

    def to_arrow(self) -> pa.Table:
        """One row per property."""
        commits = [origin.commit for origin in self.origins]
        columns: dict[str, pa.Array] = {
            "property": pa.array([origin.property for origin in self.origins], pa.utf8()),
            "graph_commit_id": pa.array([commit.commit_id for commit in commits], pa.utf8()),
            "actor_id": pa.array([commit.actor_id for commit in commits], pa.utf8()),
            "created_at": pa.array([commit.created_at for commit in commits], pa.timestamp("us", "UTC")),
            "operation": pa.array([commit.operation for commit in commits], pa.utf8()),
            "message": pa.array([commit.message for commit in commits], pa.utf8()),
            "known_as": pa.array([origin.known_as for origin in self.origins], pa.utf8()),
            "limit": pa.array([origin.limit for origin in self.origins], pa.utf8()),
        }
        return pa.table(columns)


class RowsOnTrails:
    """Reads one entity along trails."""

    def __init__(self, trails: Trails, path: str, entity_id: str) -> None:
        self.trails, self.path, self.entity_id = trails, path, entity_id
        self.tables: Tables = trails.tables
        self._trails: dict[str, Trail | Limit] = {}

    def trail(self, commit: GraphCommit) -> Trail | Limit:
        if commit.commit_id not in self._trails:
            self._trails[commit.commit_id] = self.trails.of(commit, self.path)
        return self._trails[commit.commit_id]

    def read(self, trail: Trail, position: int) -> Row | Limit | None:
        """The entity in a state; None if it is not there, or why nobody can tell."""
        limit = trail.limit_at(position)
        published = trail.published_at(position)
        if limit is not None or published is None:
            return limit
        entity = trail.entity_at(position)
        if entity is None:
            return None
        try:
            table = self.tables.open(published.ref, published.table_version)
            return self._row(entity, table)
        except NotFoundError:
            # A cleanup that was recorded since may have removed it under our eyes.
            if read_removals(self.tables.storage.control).e_tag != self.trails.removals.e_tag:
                return Limit.REMOVED
            raise

    def _row(self, entity: EntityType, table: Table) -> Row | None:
        has_blobs = any(prop.type.scalar is Scalar.BLOB for prop in entity.properties)
        where = f"{ID_COLUMN} = {quote_text(self.entity_id)}"
        found = table.read([*entity.columns, _UPDATED], where, blobs=has_blobs)
        if not found.num_rows:
            return None
        updated: int = found.column(_UPDATED)[0].as_py()
        return Row(entity, table, found.select(list(entity.columns)), updated)

    def stop(self, trail: Trail, position: int, row: Row) -> int:
        """The next commit on the way back that may have changed the row of this state."""
        written = trail.oldest_with(position, row.updated)
        redeclared = trail.redeclared(position, written)
        return written if redeclared is None else redeclared

    def before(self, trail: Trail, position: int) -> Row | Limit | None:
        """The entity in the first parent of a commit."""
        if position + 1 < len(trail.commits):
            return self.read(trail, position + 1)
        return None if trail.commits[position].parent_commit_id is None else Limit.NOT_RECORDED

    def equal(self, before: Row, after: Row) -> dict[str, str]:
        """The properties that have the same value in both, by their later names, with the earlier ones."""
        return {
            each.after: each.before
            for each in shared_columns(self.tables, before.side, after.side)
            if not values_differ(before.values.column(each.before), after.values.column(each.after))[0]
        }

    def differs(self, before: Row | None, after: Row | None) -> bool:
        """Is it an insert, a delete, or an update of a property that both have?"""
        if before is None or after is None:
            return before is not after
        shared = shared_columns(self.tables, before.side, after.side)
        return len(self.equal(before, after)) < len(shared)


@dataclass(frozen=True, slots=True)
class _Place:
    """How far some properties have been followed; by their names in the end, what they are called here."""

    trail: Trail
    position: int
    row: Row
    names: Mapping[str, str]


def blame(rows: RowsOnTrails, commit: GraphCommit) -> Blame | None:
    """Where every property of the entity has its value from; None if a commit does not have the entity."""
    trail = rows.trail(commit)
    row = trail if isinstance(trail, Limit) else rows.read(trail, 0)
    if row is None:
        return None
    if isinstance(row, Limit) or isinstance(trail, Limit):
        raise NotFoundError(f"commit {commit.commit_id} can no longer be read")
    names = [name for name in row.entity.columns if name != ID_COLUMN]
    found = dict(_origins(rows, _Place(trail, 0, row, {name: name for name in names})))
    rows.trails.prove()
    ((_, values),) = shown_rows(row.entity, row.values)
    origins = tuple(Origin(name, values[name], *found[name]) for name in names)
    return Blame(row.entity, rows.entity_id, commit, origins)


_Found = tuple[GraphCommit, str, Limit | None]


def _origins(rows: RowsOnTrails, start: _Place) -> Iterator[tuple[str, _Found]]:
    """Properties that part at a merge are followed for themselves, each along one way."""
    waiting = [start]
    while waiting:
        for following in _step(rows, waiting.pop()):
            if isinstance(following, _Place):
                waiting.append(following)
            else:
                yield following


def _step(rows: RowsOnTrails, place: _Place) -> Iterator[_Place | tuple[str, _Found]]:
    """From a state to the commit that may have set its values, and on to that commit's parents."""
    trail, position = place.trail, rows.stop(place.trail, place.position, place.row)
    commit, left = trail.commits[position], dict(place.names)
    before = rows.before(trail, position)
    limit = before if isinstance(before, Limit) else None
    if isinstance(before, Row):
        same, left = _parted(rows, before, place.row, left)
        if same:
            yield _Place(trail, position + 1, before, same)
    merged = rows.trails.log.commits.get(commit.merged_parent_commit_id or "")
    if left and limit is None and commit.merged_parent_commit_id is not None:
        other = Limit.NOT_RECORDED if merged is None else rows.trail(merged)
        there = other if isinstance(other, Limit) else rows.read(other, 0)
        if isinstance(there, Limit):
            limit = there
        elif there is not None and not isinstance(other, Limit):
            same, left = _parted(rows, there, place.row, left)
            if same:
                yield _Place(other, 0, there, same)
    for name, here in left.items():
        yield name, (commit, here, limit)


def _parted(
    rows: RowsOnTrails, before: Row, after: Row, names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names whose values are the same before, with what they are called there; and the others."""
    equal = rows.equal(before, after)
    same = {name: equal[here] for name, here in names.items() if here in equal}
    return same, {name: here for name, here in names.items() if name not in same}
