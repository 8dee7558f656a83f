"""`_graph_commit_recoveries.lance`: one row for every repair, kept when its branch is gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.commits import actors_schema
from omnigraph_core.history.damage import check_audits
from omnigraph_core.manifest.branch import lineage_of, name_of
from omnigraph_core.manifest.reader import Testimony
from omnigraph_core.records import dataclass
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.log_append import append_if_absent
from omnigraph_core.tables.log_read import read_log_rows
from omnigraph_core.tables.refs import control_table

if TYPE_CHECKING:
    import pyarrow as pa

RECOVERY_ACTOR = "omnigraph:recovery"


class RecoveryKind(StrEnum):
    """What a recovery did about a write; the text is in its audit row."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    BRANCH_DISCARDED = "OrphanedBranchDiscarded"


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What a repair did to one table; `classification` is how it was found."""

    table_key: str
    from_version: int
    to_version: int
    classification: str

    @staticmethod
    def from_record(content: Fields) -> TableOutcome:
        """As it is written down; ValueError if it is anything else."""
        return TableOutcome(
            content.text("table_key"),
            content.whole("from_version"),
            content.whole("to_version"),
            content.optional_text("classification") or "",
        )


@dataclass(frozen=True, slots=True)
class Recovery:
    """One repair: which write it was for, what was decided, and the commit that records it."""

    graph_commit_id: str
    recovery_kind: RecoveryKind
    recovery_for_actor: str | None
    operation_id: str
    sidecar_writer_kind: str
    outcomes: tuple[TableOutcome, ...]
    created_at: int
    branch: str
    manifest_version: int
    parent_commit_id: str | None


def recoveries_schema() -> pa.Schema:
    """The seeds' columns, and where the recovery commit stands: its own row goes with its branch."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("graph_commit_id", pa.string(), nullable=False),
            pa.field("recovery_kind", pa.string(), nullable=False),
            pa.field("recovery_for_actor", pa.string()),
            pa.field("operation_id", pa.string(), nullable=False),
            pa.field("sidecar_writer_kind", pa.string(), nullable=False),
            pa.field("per_table_outcomes_json", pa.string(), nullable=False),
            pa.field("created_at", pa.timestamp("us"), nullable=False),
            pa.field("manifest_branch", pa.string()),
            pa.field("manifest_version", pa.uint64()),
            pa.field("parent_commit_id", pa.string()),
        ]
    )


def record_recovery(tables: Tables, recovery: Recovery, guard: Guard) -> None:
    """Write the audit row, once however often it is tried; under the lock of the repaired branch."""
    import pyarrow as pa

    row = {
        "graph_commit_id": recovery.graph_commit_id,
        "recovery_kind": recovery.recovery_kind,
        "recovery_for_actor": recovery.recovery_for_actor,
        "operation_id": recovery.operation_id,
        "sidecar_writer_kind": recovery.sidecar_writer_kind,
        "per_table_outcomes_json": _outcomes_json(recovery.outcomes),
        "created_at": recovery.created_at,
        "manifest_branch": lineage_of(recovery.branch),
        "manifest_version": recovery.manifest_version,
        "parent_commit_id": recovery.parent_commit_id,
    }
    rows = pa.Table.from_pylist([row], schema=recoveries_schema())
    barrier = Barrier(tables.storage)
    audit = control_table(layout.RECOVERIES)
    append_if_absent(tables, audit, ("operation_id",), rows, recovery.operation_id, barrier, guard)
    barrier.sync()


def renew_recoveries(tables: Tables) -> None:
    """Make the newest audit rows safe, which may be another's, before their sidecar goes."""
    barrier = Barrier(tables.storage)
    barrier.renew_version(tables.open(control_table(layout.RECOVERIES)), None)
    barrier.sync()


def read_recoveries(tables: Tables, testimony: Testimony | None = None) -> list[Recovery]:
    """Every repair there ever was, oldest first; checked against the commits they made, if asked to."""
    commits = recovery_commits(tables) if testimony is not None else frozenset()
    found = _read_recoveries(tables)
    if testimony is not None:
        check_audits(tables, commits - {each.graph_commit_id for each in found}, testimony)
    return found


def recovery_commits(tables: Tables) -> frozenset[str]:
    """The commits that recoveries made, by their actor, whom nobody else may be."""
    try:
        actors = read_log_rows(tables, control_table(layout.COMMIT_ACTORS), actors_schema())
    except TableNotFound:
        return frozenset()
    columns = (actors.column(name).to_pylist() for name in ("graph_commit_id", "actor_id"))
    return frozenset(id_ for id_, actor in zip(*columns, strict=True) if actor == RECOVERY_ACTOR)


def _read_recoveries(tables: Tables) -> list[Recovery]:
    try:
        rows = read_log_rows(tables, control_table(layout.RECOVERIES), recoveries_schema())
    except TableNotFound:
        return []
    created = rows.column("created_at").cast("int64").to_pylist()
    found = [
        _from_row(row, at) for row, at in zip(rows.drop(["created_at"]).to_pylist(), created, strict=True)
    ]
    return sorted(found, key=lambda recovery: (recovery.created_at, recovery.graph_commit_id))


def _from_row(row: dict[str, Any], created_at: int) -> Recovery:
    """A row that does not say what it must is damage: nothing checks the bytes of a log."""
    try:
        return _decoded(row, created_at)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StorageError(
            f"the history is damaged: {layout.RECOVERIES} has a row that cannot be read ({problem!r})",
            hint=f"restore {layout.RECOVERIES} from a backup; the rows of the graph are not affected",
        ) from problem


def _decoded(row: dict[str, Any], created_at: int) -> Recovery:
    return Recovery(
        graph_commit_id=row["graph_commit_id"],
        recovery_kind=RecoveryKind(row["recovery_kind"]),
        recovery_for_actor=row["recovery_for_actor"],
        operation_id=row["operation_id"],
        sidecar_writer_kind=row["sidecar_writer_kind"],
        outcomes=tuple(
            TableOutcome.from_record(Fields(entry)) for entry in json.loads(row["per_table_outcomes_json"])
        ),
        created_at=created_at,
        branch=name_of(row.get("manifest_branch")),
        manifest_version=row.get("manifest_version") or 0,
        parent_commit_id=row.get("parent_commit_id"),
    )


def _outcomes_json(outcomes: Sequence[TableOutcome]) -> str:
    return json.dumps(
        [
            {
                "table_key": outcome.table_key,
                "from_version": outcome.from_version,
                "to_version": outcome.to_version,
                "classification": outcome.classification,
            }
            for outcome in outcomes
        ],
        separators=(",", ":"),
    )
