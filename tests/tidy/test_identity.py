"""Nothing is deleted, overwritten or restored by name: every caller of what can do that, with its reason.

A new caller belongs here only with an answer to two questions. By what identity does it
know that this is what it means (an e-tag, a uuid, an operation id of its own, a path
nobody else can have)? And what happens when it sleeps for an hour right before?
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.support.processes import REPOSITORY

CORE = REPOSITORY / "omnigraph_core"

CONTROL = {"put", "delete", "delete_prefix", "delete_many", "delete_temporary"}
"""Of a control store, which acts by path."""
TABLES = {"delete_fork", "unlink_fork", "clear_leftovers", "delete_files", "stage_restore", "discard_files"}
"""Of tables."""

ALLOWED = {
    # ---- maintenance ----
    "maintenance/optimize.py _Round._discard discard_files": "what it has staged itself; uuids",
    "maintenance/optimize.py _Round._is_new discard_files": "what it has staged itself; uuids",
    "tables/compaction.py stage_compaction discard_files": "what it has just staged; uuids",
    "history/commits.py CommitAhead._discard delete_many": "files that it has written itself; uuids",
    # ---- storage ----
    "storage/lease.py S3Locks.forget delete": "the lease of a name that has an operation id in it",
    "storage/lease_object.py StoreClock._ask put": "only for the time it is written at; any content will do",
    # ---- tables ----
    "tables/branches.py remove_ref delete": "e-tag compared, then the guard",
    "tables/branches.py clear_leftovers delete_files": "refuses what may be a fork; listed before it looked",
    "tables/branches.py create_fork clear_leftovers": "guarded, right before the fork is made",
    "tables/branches.py delete_files delete_many": "exact paths, the guard before each chunk",
    "tables/transactions.py delete_transactions delete_many": "uuids; a version has the same bytes inside",
    "tables/branches.py delete_fork delete_files": "the list made before the ref went",
    "tables/branches.py delete_fork unlink_fork": "by the ref that was read",
    "tables/preview.py detached delete": "a detached version it has just made; a random number, and a uuid",
    "tables/indexes.py _segment delete_prefix": "inside an index it has just built; a uuid",
    "tables/indexes.py _are_of_one_kind delete_prefix": "an index it has just built; a uuid",
    "topology/store.py TopologyStore.remove delete_many": "ULIDs; derived data, a reader does without",
    "tables/sink.py RowSink.discard delete": "files that this very object has written; uuids",
    "tables/staged.py discard_files delete": "files of staged writes; uuids",
    "tables/torn.py _set_aside delete": "a version that is torn, guarded",
    "tables/torn.py _set_aside put": "the same bytes under a name of their own",
    # ---- manifest, catalog, change, load ----
    "catalog/files.py keep_schema put": "a schema and its text, under the hash of the schema",
    "change/plan.py _staged discard_files": "what this plan has just staged",
    "load/run.py Load._rebased discard_files": "what this plan has just staged",
    "manifest/fenced.py PublishAhead.discard delete_many": "files that it has written itself; uuids",
    "manifest/publisher.py Publisher.rewrite discard_files": "what it has just staged",
    "manifest/stamp.py _sweep_run_branches delete_fork": "by the ref that was read; guarded",
    # ---- maintenance ----
    "maintenance/adoption/datasets.py adopt_table stage_restore": "exact, of what nobody published; guarded",
    "maintenance/control.py prune_manifest discard_files": "what it has just staged",
    "maintenance/leftovers.py Leftovers._temporaries delete_temporary": "a random name; the sleeper fails",
    "maintenance/leftovers.py Leftovers._removed delete_prefix": "a folder with an operation id in its name",
    "maintenance/leftovers.py Leftovers.remove_unreferenced delete_files": "old; uuids; under the lock",
    "maintenance/cleanup.py Cleanup._collect delete_files": "detached versions; random numbers, and old",
    "maintenance/cleanup.py Cleanup._remove_dataset delete_files": "looked at again under the refs lock",
    "maintenance/cleanup.py Cleanup._remove_fork delete_fork": "by the ref that was read; guarded",
    # ---- moves of refs ----
    "write/moves.py settle_moves delete": "the record of an operation; its id. Another process does the same",
    "write/moves.py _record delete": "the record of an operation, which is on record as done; its id",
    # ---- migrate ----
    "tables/column_files.py write_columns delete": "what it has just written; uuids",
    "write/on_record.py FilesOnRecord.discard delete": "on its own record, in no sidecar; uuids",
    "tables/evolve.py stage_columns discard_files": "what it has just staged; uuids",
    # ---- write ----
    "write/branch_forks.py _clear_manifest clear_leftovers": "refuses what may be a fork; guarded",
    "write/branch_forks.py remove_forks delete_fork": "by the refs read under the locks; guarded",
    "write/branch_forks.py _remove_leftover delete_fork": "likewise, with the lock of the branch so named",
    "write/branches.py _remove_unfinished delete_fork": "by the ref that was read; guarded",
    "write/branches.py remove_branch delete_files": "the list made before the ref went",
    "write/branches.py remove_branch unlink_fork": "by the ref whose identity was compared",
    "write/door.py Door._caught_up discard_files": "what the plan staged, and no other plan uses",
    "write/door.py Door._prepared discard_files": "likewise, before a sidecar named it",
    "write/door.py Door.publish discard_files": "what the plan staged, before a sidecar named it",
    "write/door.py Door.write discard_files": "likewise",
    "write/forks.py unwritten stage_restore": "committed exactly, so on the HEAD that was seen; guarded",
    "write/forks.py fork_at delete_fork": "by the ref that was read, of another origin; guarded",
    "write/creation.py _clear delete": "a root in which no graph was ever made, under the refs lock",
    "write/creation.py _clear delete_prefix": "likewise",
    "write/put_aside.py purge clear_leftovers": "under the refs lock; refuses what may be a branch",
    "write/put_aside.py forget_record delete": "a path with the identity of a branch in it; guarded",
    "write/recovery.py Recoverer._undo stage_restore": "committed exactly, so on the HEAD that was seen",
    "write/creation.py _forget_record delete": "the record of an init that is done, under the refs lock",
    "write/recovery.py Recoverer._remove_unregistered delete_prefix": "its creator is the write; guarded",
    "write/sidecar.py forget_sidecar delete": "marked as settled by e-tag before; then anybody may",
    "write/staging.py KeptRecord.end delete": "a path with an operation id of its own",
    "write/staging.py _sweep delete": "files of a record that was taken by e-tag; the record itself",
    "write/staging.py _sweep delete_prefix": "likewise",
    "write/tags.py delete_tag delete": "e-tag compared, then the refs lock",
    "write/sweep.py Sweeper._unsettled delete": "a sidecar that is marked as settled",
    # ---- spark: everything below `__staging/<operation id>`, and files that its lists name ----
    "spark/outcome.py write_failed put": "below its operation id",
    "spark/outcome.py write_result put": "below its operation id",
    "spark/parse.py Workplace.keep put": "below its operation id",
    "spark/parse.py Workplace.listed put": "below its operation id",
    "spark/progress.py write_progress put": "below its operation id",
    "spark/running.py RunningJob._clean_up delete": "files of its own lists; uuids",
    "spark/running.py RunningJob._clean_up delete_prefix": "below its operation id",
    "spark/running.py RunningJob._drop_unused delete": "files of its own lists; uuids",
    "spark/running.py RunningJob.add_files put": "below its operation id",
    "spark/spec.py JobSpec.write put": "below its operation id",
    "spark/parse.py Workplace.listed delete": "files that it has just written; uuids",
    # ---- exports: a place that was empty, outside the graph ----
    "spark/export.py _drop_others delete": "files with the id of the export in their names",
    "spark/export.py _clear delete_prefix": "the folder of the export, in a place that was empty",
    "spark/export.py _finish delete_prefix": "likewise",
    "spark/export.py _finish put": "in a place that was empty",
    "spark/exported.py ExportSpec.write put": "below its operation id",
    "spark/exported.py ExportTask._write put": "a name with the id of the export in it",
}
"""As `module function callee`."""


def callers() -> Counter[str]:
    """`module function callee` of every call, whoever it is a method of."""
    found: Counter[str] = Counter()
    for path in sorted(CORE.rglob("*.py")):
        _Calls(path, found).visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


class _Calls(ast.NodeVisitor):
    def __init__(self, path: Path, found: Counter[str]) -> None:
        self._module = path.relative_to(CORE).as_posix()
        self._found = found
        self._inside: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node.name, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node.name, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node.func)
        if name is not None:
            self._found[f"{self._module} {'.'.join(self._inside)} {name}"] += 1
        self.generic_visit(node)

    def _enter(self, name: str, node: ast.AST) -> None:
        self._inside.append(name)
        self.generic_visit(node)
        self._inside.pop()


def _called(function: ast.expr) -> str | None:
    """The dangerous callee, if it is one: `control.put(…)`, `self._store.delete(…)`, `delete_fork(…)`."""
    if isinstance(function, ast.Name):
        return function.id if function.id in TABLES else None
    if isinstance(function, ast.Attribute) and function.attr in CONTROL:
        owner = function.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return function.attr if name.lstrip("_") in ("control", "store") else None
    return None


def test_every_caller_that_deletes_overwrites_or_restores_has_a_reason() -> None:
    found = set(callers())
    assert sorted(found - set(ALLOWED)) == [], "new callers: say by what identity, and what if it sleeps"
    assert sorted(set(ALLOWED) - found) == [], "these are gone: take them off the list"
