"""What is not there although others tell of it: branches that nobody deleted, refs of forks that are read.

A branch whose ref alone is missing is among the refs (`check_branches`). Here is one of which nothing
is left that could be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.history.lost import identities_on_record
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, error
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.tables.fork_refs import ref_path
from omnigraph_core.write.ref_repair import missing_forks, strange_refs
from omnigraph_core.write.testimony import move_records


def check_lost(seen: Examination) -> Iterator[Finding]:
    """Refs are read before and after the moves, which are on record only once a ref has moved.

    A move that cannot be read is said by the check of operations, and may tell of a deletion.
    """
    known = {each.name for each in seen.branch_refs} | {each.name for each in seen.deleted}
    main = manifest_ref(layout.MAIN_BRANCH)
    for name in identities_on_record(move_records(seen.control)):
        path = ref_path(main, name)
        if name in known or not seen.knows_deleted or seen.control.exists(path):
            continue
        text = f"nothing is left of branch '{name}', which nobody deleted"
        yield error("branch-lost", path, text)
    for strange in strange_refs(seen.manifest, seen.branch_refs):
        text = f"the ref of branch '{strange.name}' says another identity than is on record"
        yield error("branch-ref-damaged", strange.path, text, "omnigraph recovery run")
    for _, missing in missing_forks(seen.tables, seen.heads.values()):
        text = f"the ref of '{missing.name}' is missing, which makes a line of '{missing.table_key}' exist"
        yield error("fork-ref-missing", missing.path, text, "omnigraph recovery run")
