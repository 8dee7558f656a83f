"""The rules a whole change must keep, in order: values, uniqueness, endpoints, cardinality.

A later rule is asked only of rows that have passed the earlier ones: an edge to a node
that was refused would be a second message about the first mistake.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.change.cardinality import check_cardinality
from omnigraph_core.change.changeset import Change, ChangeSet, TableChange, Verb
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.parts import WHOLE, Part, ask_by_part
from omnigraph_core.change.references import check_references
from omnigraph_core.change.uniqueness import check_unique_committed, check_unique_inside
from omnigraph_core.change.values import check_values
from omnigraph_core.change.violations import Violation, Violations, listed, listed_details
from omnigraph_core.errors import ConflictError


class RecordsConflict(ConflictError):
    """Rows that are right in themselves collide with committed ones."""

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
    """What can be known from the rows alone, without looking at the graph."""
    for change in changes:
        if change.has_new_rows:
            check_values(change.part((), WHOLE), violations)
            check_unique_inside(change, changes.parts, violations)


def check_against(changes: ChangeSet, committed: Committed, violations: Violations) -> None:
    """Raise unless the graph would still be whole; `violations` of earlier rules come first."""
    violations.raise_if_any()
    conflicts = Violations()
    key_conflict = find_violations(changes, committed, violations, conflicts)
    raise_found(violations, conflicts, key_conflict)


def raise_found(violations: Violations, conflicts: Violations, key_conflict: tuple[str, str] | None) -> None:
    """Raise if anything was found; what is wrong in itself comes before conflicts."""
    violations.raise_if_any()
    if conflicts.total:
        raise RecordsConflict(conflicts.first, conflicts.total, key_conflict)


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
    if change.verb is not Verb.INSERT or change.fresh or not change.count:
        return None

    def ask(part: Part, conflicts: Violations) -> str | None:
        return _first_taken(change.part(("id",), part), part, committed, conflicts)

    taken = [id_ for id_ in ask_by_part(parts, conflicts, ask) if id_ is not None]
    return (change.key, taken[0]) if taken else None


def _first_taken(change: TableChange, part: Part, committed: Committed, conflicts: Violations) -> str | None:
    import pyarrow.compute as pc

    column = change.rows.column("id")
    taken = committed.with_ids(change.entity, change.ids, part).column("id")
    if not len(taken):
        return None
    rows = pc.indices_nonzero(pc.is_in(column, value_set=taken.combine_chunks()).combine_chunks())
    change.report(conflicts, rows, None, lambda row: f"id '{clipped(column[row].as_py())}' already exists")
    return str(column[rows[0].as_py()].as_py())
