"""The checks of doctor. Each is a function over one examination, and independent of the others.

None of them may call the work of a live writer damage. A check is sound by the order in which it
reads (each says why), or by asking twice: doctor believes only what two looks in a row have found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from omnigraph_core.maintenance.checks.branches import check_branches
from omnigraph_core.maintenance.checks.contents import check_contents, check_digests
from omnigraph_core.maintenance.checks.foreign import check_foreign
from omnigraph_core.maintenance.checks.growth import check_growth
from omnigraph_core.maintenance.checks.history import check_history
from omnigraph_core.maintenance.checks.leftovers import check_leftovers
from omnigraph_core.maintenance.checks.locks import check_locks
from omnigraph_core.maintenance.checks.lost import check_lost
from omnigraph_core.maintenance.checks.named import check_deleted, check_names, check_operations, check_tags
from omnigraph_core.maintenance.checks.rows import check_rows
from omnigraph_core.maintenance.checks.schema import check_schema
from omnigraph_core.maintenance.checks.seals import check_seals
from omnigraph_core.maintenance.checks.tables import check_tables
from omnigraph_core.maintenance.checks.topology import check_topology, check_topology_contents
from omnigraph_core.maintenance.checks.writes import check_staging, check_writes
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding

Check = Callable[[Examination], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "branches": check_branches,
    "lost": check_lost,
    "schema": check_schema,
    "history": check_history,
    "writes": check_writes,
    "staging": check_staging,
    "locks": check_locks,
    "tables": check_tables,
    "rows": check_rows,
    "tags": check_tags,
    "deleted": check_deleted,
    "names": check_names,
    "operations": check_operations,
    "growth": check_growth,
    "leftovers": check_leftovers,
    "foreign": check_foreign,
    "topology": check_topology,
}

DEEP_CHECKS: Mapping[str, Check] = {
    "digests": check_digests,
    **CHECKS,
    "seals": check_seals,
    "contents": check_contents,
    "topology contents": check_topology_contents,
}
