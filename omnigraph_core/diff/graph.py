"""The difference of two states of a graph, each read with its own schema.

Types are matched by the place of their tables, which a renamed type keeps; so a renamed type is
compared with what it was, and a type that came or went counts with all its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

import pyarrow as pa

from omnigraph_core.diff.columns import SchemaChange, SchemaDifference, Side, property_differences
from omnigraph_core.diff.records import EntityChange, entity_changes
from omnigraph_core.diff.tables import Lasting, TableDiff
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.model import NoSuchTypeError
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.row_set import rows_of


@dataclass(frozen=True, slots=True)
class State:
    """What is compared: a snapshot and the schema it was published with."""

    snapshot: Snapshot
    schema: Schema

    def by_path(self) -> dict[str, EntityType]:
        """The types by the places of their tables."""
        return {self.snapshot.entry(each.table_key).table_path: each for each in self.schema.types()}

    def side(self, tables: Tables, entity: EntityType) -> Side:
        entry = self.snapshot.entry(entity.table_key)
        return Side(entity, tables.open(entry.ref, entry.table_version))


@dataclass(frozen=True, slots=True)
class Match:
    """A type on both sides; None where it is not."""

    before: EntityType | None
    after: EntityType | None

    @property
    def entity(self) -> EntityType:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def names(self) -> set[str]:
        return {each.name for each in (self.before, self.after) if each is not None}

    @property
    def table_keys(self) -> set[str]:
        return {each.table_key for each in (self.before, self.after) if each is not None}


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """What `after` has that `before` has not, and the other way round; read as it is asked for."""

    tables: Tables
    before: State
    after: State
    matches: tuple[Match, ...]
    """The types to look at, in the order of their table keys."""
    ids: tuple[str, ...] | None = None
    lasting: Lasting = nullcontext

    def table_diffs(self) -> Iterator[TableDiff]:
        """Every type whose rows may differ."""
        for match in self.matches:
            if not self._is_untouched(match):
                with self.lasting():
                    before, after = self._sides(match)
                yield TableDiff(self.tables, before, after, self.ids, self.lasting)

    def changes(self) -> Iterator[EntityChange]:
        """Every entity that differs, type by type, by ascending id."""
        for found in self.table_diffs():
            yield from entity_changes(found)

    def schema_differences(self) -> list[SchemaDifference]:
        """Types and properties that are not on both sides, or not the same; of the types to look at."""
        if self.before.schema == self.after.schema:
            return []
        with self.lasting():
            return [found for match in self.matches for found in self._schema_of(match)]

    def has_none_of(self, ids: Sequence[str]) -> bool:
        """Is none of these entities in either state, in the types to look at?"""
        wanted = pa.chunked_array([ids], pa.utf8())
        with self.lasting():
            sides = (side for match in self.matches for side in self._sides(match) if side is not None)
            return all(rows_of(side.table, wanted).is_empty for side in sides)

    def _schema_of(self, match: Match) -> Iterator[SchemaDifference]:
        old, new = match.before, match.after
        if old is None or new is None:
            change = SchemaChange.TYPE_ADDED if old is None else SchemaChange.TYPE_REMOVED
            yield SchemaDifference(change, match.entity)
            return
        if old.name != new.name:
            yield SchemaDifference(SchemaChange.TYPE_RENAMED, new, was=old.name, now=new.name)
        if old.properties != new.properties:
            before, after = self.before.side(self.tables, old), self.after.side(self.tables, new)
            yield from property_differences(self.tables, before, after)

    def _sides(self, match: Match) -> tuple[Side | None, Side | None]:
        old, new = match.before, match.after
        return (
            None if old is None else self.before.side(self.tables, old),
            None if new is None else self.after.side(self.tables, new),
        )

    def _is_untouched(self, match: Match) -> bool:
        """Is it the very same version of the table?"""
        if match.before is None or match.after is None:
            return False
        old = self.before.snapshot.entry(match.before.table_key)
        new = self.after.snapshot.entry(match.after.table_key)
        return (old.table_branch, old.table_version) == (new.table_branch, new.table_version)


def diff_states(
    tables: Tables,
    before: State,
    after: State,
    types: Sequence[str] = (),
    ids: Iterable[str] | None = None,
    lasting: Lasting = nullcontext,
) -> GraphDiff:
    """Compare all types or those named, by any name they have on either side; or only some entities."""
    old, new = before.by_path(), after.by_path()
    matches = [Match(old.get(path), new.get(path)) for path in {**old, **new}]
    known = {name for match in matches for name in match.names}
    for name in types:
        if name not in known:
            raise NoSuchTypeError(name, (key for match in matches for key in match.table_keys))
    chosen = [match for match in matches if not types or match.names & set(types)]
    chosen.sort(key=lambda match: match.entity.table_key)
    wanted = None if ids is None else tuple(ids)
    return GraphDiff(tables, before, after, tuple(chosen), wanted, lasting)
