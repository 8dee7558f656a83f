"""Putting the rows of a publish into `__manifest`, so that of two publishes on one version one is refused.

Every publish replaces the head row where it is in the version it was checked against. So all of
them touch one fragment, and Lance takes the first of them (`tables/fence.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.manifest.rows import HEAD_OBJECT_ID, OBJECT_ID, TYPE_HEAD, TYPE_VERSION
from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.records import dataclass
from omnigraph_core.storage.beside import Beside
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_files
from omnigraph_core.tables.fence import Replacement, RowPlace, merge_fenced, replace_fenced
from omnigraph_core.tables.replacement import find_places, stage_replacement

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ArrangedRows:
    """The rows of a publish with those in front that replace one, the head row first, and their places.

    Where there is no head row to replace, there are no places.
    """

    rows: pa.Table
    places: tuple[RowPlace, ...]

    @property
    def head_row_id(self) -> int | None:
        return self.places[0].row_id if self.places else None


def arranged(
    table: Table, state: ManifestState, rows: pa.Table, places: Mapping[str, RowPlace] | None = None
) -> ArrangedRows:
    """As of exactly this version of the manifest, of which `state` is the reduction."""
    if places is None:
        places = known_places(state, rows)
    if places is None:
        places = find_places(table, OBJECT_ID, rows.column(OBJECT_ID))
    if HEAD_OBJECT_ID not in places:
        return ArrangedRows(rows, ())
    ids: list[str] = rows.column(OBJECT_ID).to_pylist()
    replacing = sorted((id_ for id_ in ids if id_ in places), key=lambda id_: id_ != HEAD_OBJECT_ID)
    order = [*replacing, *(id_ for id_ in ids if id_ not in places)]
    return ArrangedRows(rows.take([ids.index(id_) for id_ in order]), tuple(places[id_] for id_ in replacing))


def known_places(state: ManifestState, rows: pa.Table) -> dict[str, RowPlace] | None:
    """Where the rows are that these replace, by object id; None if they have to be looked for.

    Most publishes replace the head row alone, and `state` knows where that is.
    """
    kinds, keys, versions = (
        rows.column(name).to_pylist() for name in ("object_type", "table_key", "table_version")
    )
    is_new = all(
        kind == TYPE_HEAD or (kind == TYPE_VERSION and state.has_no_row_of(key, version))
        for kind, key, version in zip(kinds, keys, versions, strict=True)
    )
    return {HEAD_OBJECT_ID: state.head_at} if is_new and state.head_at is not None else None


class PublishAhead:
    """The files of a publish, written and synced beside what comes before it. No version refers to them.

    They are right for exactly the state that its rows were checked against.
    """

    def __init__(
        self,
        tables: Tables,
        table: Table,
        state: ManifestState,
        rows: pa.Table,
        places: Mapping[str, RowPlace],
        operation_id: str,
    ) -> None:
        self._control = tables.storage.control
        self._state = state
        self._is_ours = True

        def write() -> tuple[ArrangedRows, Replacement]:
            ours = arranged(table, state, rows, places)
            staged = stage_replacement(table, ours.rows, ours.places, operation_id)
            sync_files(tables.storage, staged.files)
            return ours, staged

        self._work = Beside(write)

    def is_for(self, state: ManifestState) -> bool:
        """Also False if it failed: whatever was not synced is written anew."""
        return self._is_ours and state is self._state and self._work.error() is None

    def take(self) -> Replacement:
        """The files, which are the caller's from now on."""
        self._is_ours = False
        return self._work.result()[1]

    @property
    def arranged(self) -> ArrangedRows:
        return self._work.result()[0]

    def discard(self) -> None:
        """Remove the files, unless they were taken."""
        if self._work.error() is None and self._is_ours:
            with suppress(OmnigraphError):
                self._control.delete_many(self.take().files)


def upsert_fenced(
    tables: Tables,
    table: Table,
    arranged: ArrangedRows,
    operation_id: str,
    ahead: PublishAhead | None = None,
) -> Table:
    """Put the rows into the manifest; CommitLost if it has moved.

    Without a head row to replace (a graph that others have made) there is nothing yet that
    every publish touches, and only the slow fence holds. The files of a publish that lost are
    left to cleanup: on object storage it may be said to have lost although it has landed.
    """
    if ahead is not None:
        return replace_fenced(tables, ahead.take())
    if not arranged.places:
        return merge_fenced(tables, table, OBJECT_ID, arranged.rows)
    staged = stage_replacement(table, arranged.rows, arranged.places, operation_id)
    return replace_fenced(tables, staged)
