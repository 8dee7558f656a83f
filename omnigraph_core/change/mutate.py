"""`change`: a mutation from text to one commit, or to none when it matches nothing."""

from __future__ import annotations

from datetime import datetime, timezone

from omnigraph_core.change.execute import Executed, execute
from omnigraph_core.change.plan import Intent, plan_changes
from omnigraph_core.query import as_mutation
from omnigraph_core.query.prepared import QueryRequest
from omnigraph_core.records import dataclass
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.validate import check_against, check_rows
from omnigraph_core.rules.violations import Violations
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import check_head
from omnigraph_core.write.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of a mutation; no commit if nothing matched, or in a dry run."""

    query_name: str
    affected_nodes: int
    affected_edges: int
    commit_id: str | None
    warnings: tuple[str, ...] = ()


def run_mutation(
    door: Door,
    branch: str,
    request: QueryRequest,
    intent: Intent,
    *,
    dry_run: bool = False,
) -> Changed:
    """Plan, validate and publish. `now()` stays the same instant if it has to be planned again.

    The request is checked against the schema of each attempt: another writer may have changed it.
    """
    now = datetime.now(timezone.utc)
    executed: Executed | None = None
    name = ""

    def build(attempt: Attempt) -> WritePlan | None:
        nonlocal executed, name
        checked, params = request.prepare(attempt.schema)
        mutation = as_mutation(checked)
        name = mutation.name
        check_head(intent.if_commit, attempt.snapshot)
        committed = Committed(door.tables_of(attempt), attempt.snapshot)
        executed = execute(mutation, attempt.schema, params, now, committed)
        changes = executed.changes
        violations = Violations()
        check_rows(changes, violations)
        check_against(changes, committed, violations)
        if changes.is_empty or dry_run:
            return None
        return plan_changes(door, attempt, changes, committed, intent.with_strict(executed.strict))

    published = door.write(branch, build)
    assert executed is not None
    return Changed(
        name,
        executed.affected_nodes,
        executed.affected_edges,
        published.commit_id,
        published.warnings,
    )
