"""The rules a whole change must keep, in order: values, uniqueness, endpoints, cardinality.

A later rule is asked only of rows that have passed the earlier ones: an edge to a node
that was refused would be a second message about the first mistake.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from omnigraph_core.errors import ConflictError
from omnigraph_core.rules.cardinality import check_cardinality
from omnigraph_core.rules.changeset import Change, ChangeSet, Newness, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import WHOLE, Part, ask_by_part
from omnigraph_core.rules.references import check_references
from omnigraph_core.rules.uniqueness import check_unique_committed, check_unique_inside
from omnigraph_core.rules.values import check_values
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations, listed, listed_details
from omnigraph_core.values.shown import clipped


class RecordsConflict(ConflictError):
    """Rows that are valid by themselves collide with committed ones."""

    has_lines = True

    def __init__(
        self, violations: tuple[Violation, ...], total: int, key_conflict: tuple[str, str] | None
    ) -> None:
        hint = "use merge mode or an update to change existing entities" if key_conflict else None
        super().__init__(listed(violations, total), hint=hint)
        self.violations, self.total, self.key_conflict = violations, total, key_conflict

    def details(self) -> Mapping[str, object]:
        found = listed_details(self.violations, self.total)
        if self.key_conflict:
            found["key_conflict"] = {"table_key": self.key_conflict[0], "id": self.key_conflict[1]}
        return found


def check_rows(changes: ChangeSet, violations: Violations) -> None:
    """Rules that need only the rows, not the graph."""
    for change in changes:
        if change.has_rows:
            check_values(change.part((), WHOLE), violations)
            check_unique_inside(change, changes.parts, violations)


def check_against(changes: ChangeSet, committed: Committed, violations: Violations) -> None:
    """Raise unless the graph stays valid; `violations` of earlier rules come first."""
    violations.raise_if_any()
    conflicts = Violations()
    key_conflict = find_violations(changes, committed, violations, conflicts)
    raise_found(violations, conflicts, key_conflict)


def raise_found(violations: Violations, conflicts: Violations, key_conflict: tuple[str, str] | None) -> None:
    """Raise if anything was found; violations take precedence over conflicts."""
    try:
        violations.raise_if_any()
    except InvalidRecords as error:
        error.hint = _of_records_loaded_before(error, key_conflict)
        raise
    if conflicts.total:
        raise RecordsConflict(conflicts.first, conflicts.total, key_conflict)


def _of_records_loaded_before(error: InvalidRecords, key_conflict: tuple[str, str] | None) -> str | None:
    """What to do if records break a rule only because they are there already."""
    if key_conflict is not None:
        key, taken = key_conflict
        return f"{key} '{clipped(taken)}' exists already: if the input was loaded before, use merge mode"
    if any(
        each.message.startswith("@card violation") and "(max " in each.message for each in error.violations
    ):
        return (
            "an edge without id is always a new one; if these were loaded before, give them ids, "
            "or declare @unique(src, dst)"
        )
    return None


def find_violations(
    changes: ChangeSet, committed: Committed, violations: Violations, conflicts: Violations
) -> tuple[str, str] | None:
    """Everything the graph has against the change; `conflicts` are collisions with committed rows.

    Returns table key and id of an insert that found its id taken.
    """
    key_conflict = None
    for change in changes:
        key_conflict = _check_new_ids(change, changes.parts, committed, conflicts) or key_conflict
        check_unique_committed(change, changes.parts, committed, conflicts)
    check_references(changes, committed, violations)
    check_cardinality(changes, committed, violations)
    return key_conflict


def _check_new_ids(
    change: Change, parts: tuple[Part, ...], committed: Committed, conflicts: Violations
) -> tuple[str, str] | None:
    """An insert must not find its id taken; returns table key and id of one that does."""
    if change.replaces or change.newness is not Newness.REQUIRED or not change.has_rows:
        return None

    def ask(part: Part, conflicts: Violations) -> str | None:
        return _first_taken(change.part(("id",), part), part, committed, conflicts)

    taken = [id_ for id_ in ask_by_part(parts, conflicts, ask) if id_ is not None]
    return (change.key, taken[0]) if taken else None


def _first_taken(change: TableChange, part: Part, committed: Committed, conflicts: Violations) -> str | None:
    column = change.rows.column("id")
    taken = committed.with_ids(change.entity, change.ids, part).column("id")
    if not len(taken):
        return None
    rows = pc.indices_nonzero(pc.is_in(column, value_set=taken.combine_chunks()).combine_chunks())
    change.report(conflicts, rows, None, lambda row: f"id '{clipped(column[row].as_py())}' already exists")
    return str(column[rows[0].as_py()].as_py())
