"""`change`: a mutation from text to one commit, or to none when it matches nothing."""

from __future__ import annotations

from datetime import datetime, timezone

from omnigraph_core.change.committed import Committed
from omnigraph_core.change.execute import Executed, execute
from omnigraph_core.change.plan import Intent, plan_changes
from omnigraph_core.change.validate import check_against, check_rows
from omnigraph_core.change.violations import Violations
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.query import BoundParams, CheckedMutation
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import check_head
from omnigraph_core.write.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of a mutation; no commit when nothing matched, or when it was a dry run."""

    query_name: str
    affected_nodes: int
    affected_edges: int
    commit_id: str | None
    warnings: tuple[str, ...] = ()


def run_mutation(
    door: Door,
    branch: str,
    mutation: CheckedMutation,
    schema: Schema,
    params: BoundParams,
    intent: Intent,
    *,
    dry_run: bool = False,
) -> Changed:
    """Plan, validate and publish. `now()` is one instant, also when it has to be planned again."""
    now = datetime.now(timezone.utc)
    executed: Executed | None = None

    def build(base: Snapshot) -> WritePlan | None:
        nonlocal executed
        check_head(intent.if_commit, base)
        committed = Committed(door.tables, base)
        executed = execute(mutation, schema, params, now, committed)
        changes = executed.changes
        violations = Violations()
        check_rows(changes, violations)
        check_against(changes, committed, violations)
        if changes.is_empty or dry_run:
            return None
        return plan_changes(door, changes, committed, intent.with_strict(executed.strict))

    published = door.write(branch, build)
    assert executed is not None
    return Changed(
        mutation.name,
        executed.affected_nodes,
        executed.affected_edges,
        published.commit_id,
        published.warnings,
    )
