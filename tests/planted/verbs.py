"""Deliberate mistakes of the later verbs: adopt, relocate, cleanup, optimize, repair, undo, tags, merge.

As in `bugs.py`, whose list they join: import `BUGS` from here to have all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.planted.bugs import BUGS, Plant, _nothing, bug

__all__ = ["BUGS"]

ORIGINAL = "tests/contract/test_original.py"
KINDS = "tests/contract/test_original_kinds.py"
ADOPT = "tests/crash/test_adopt.py"
CLEANUP = "tests/contract/test_cleanup.py"
OPTIMIZE = "tests/contract/test_optimize.py"
UNDO = "tests/contract/test_undo.py"
TAGS = "tests/cli/test_tag.py"
RENAMED = (
    "tests/concurrent/test_renamed_meanwhile.py"
    "::test_a_branch_that_was_renamed_meanwhile_is_not_taken_for_the_one_of_the_name"
)
PAUSED_VERBS = "tests/crash/test_paused_verbs.py"
GUARDED = (
    "tests/crash/test_guarded_requests.py"
    "::test_what_others_may_have_replaced_is_changed_right_after_a_look_at_the_lease"
)
RETRIES = "tests/crash/test_paused_retries.py"
PAUSED_INIT = "tests/crash/test_paused_init.py"
MERGED_ROWS = "tests/unit/merge/test_rows.py"
LOST_REFS = "tests/crash/test_lost_refs.py"


def _always(answer: Any) -> Callable[[Any], Callable[..., Any]]:
    return lambda original: lambda *arguments, **named: answer


def _second(original: Any) -> Callable[..., Any]:
    """The table comes back as it was."""
    return lambda tables, table, *more: table


# ---- adopt and relocate ----


@bug(
    f"{ORIGINAL}::test_drift_is_put_back_and_never_published",
    r"assert set\(\) == \{'edge:Knows'|one more item: \{'edge'",
)
def adopt_takes_drift_for_published(plant: Plant) -> None:
    """Versions that nobody published stay on top, and become what is published."""
    from omnigraph_core.maintenance.adoption import datasets

    plant.replace(datasets, "unpublished", _always(0))


@bug(f"{ORIGINAL}::test_an_adopted_graph_has_everything_it_had[plain]", r"assert not \['lance.auto_cleanup")
def adopt_leaves_lances_own_cleanup(plant: Plant) -> None:
    from omnigraph_core.maintenance.adoption import datasets
    from omnigraph_core.tables import foreign

    plant.replace(datasets, "without_cleanup", _second)
    plant.replace(foreign, "without_cleanup", _second)


@bug(f"{ORIGINAL}::test_a_null_blob_of_the_original_is_null[after]", r"assert 'base64:' is None")
def adopt_takes_null_blobs_for_empty_ones(plant: Plant) -> None:
    import pyarrow as pa

    from omnigraph_core.tables import foreign

    plant.replace(foreign, "ids_of_empty_blobs", _always(pa.chunked_array([], pa.string())))


@bug(f"{ORIGINAL}::test_a_moved_graph_is_read_on_main_and_adopted_as_a_whole", r"GraphMoved")
def adopt_where_branches_refer_elsewhere(plant: Plant) -> None:
    from omnigraph_core.maintenance.adoption import run

    plant.replace(run, "relocate_forks", _always(0))


@bug(f"{ADOPT}::test_dying_at_every_step[adopt.recorded]", r"assert 70 == -<Signals.SIGKILL")
def adopt_off_the_record(plant: Plant) -> None:
    """Nothing keeps the original out, and nobody knows that an adoption has begun."""
    from omnigraph_core.maintenance.adoption import run

    def begin(original: Any) -> Any:
        def unrecorded(control: Any, *more: Any) -> Any:
            stored = original(control, *more)
            control.delete(stored.path)
            return stored

        return unrecorded

    plant.replace(run, "begin", begin)


@bug(f"{ORIGINAL}::test_an_adopted_graph_has_everything_it_had[branches]", r"Finding\(code='drift'")
def adopt_main_alone(plant: Plant) -> None:
    """Branches get no head row."""
    from omnigraph_core.maintenance.adoption.run import Adoption

    plant.replace(Adoption, "_publish_branch", _nothing)


@bug(f"{ORIGINAL}::test_a_pending_write_of_the_original_is_refused", r"DID NOT RAISE RefusedError")
def adopt_over_a_pending_write(plant: Plant) -> None:
    from omnigraph_core.maintenance.adoption import run

    plant.replace(run, "refuse_unfit", _nothing)


@bug(f"{ORIGINAL}::test_indexes_that_cannot_be_read_go", r"assert \(\) == \('id_idx'")
def adopt_indexes_unread(plant: Plant) -> None:
    from omnigraph_core.maintenance.adoption import datasets

    plant.replace(datasets, "is_readable", _always(True))


@bug(
    f"{KINDS}::test_it_is_read_as_it_is_and_adopted_where_it_was_moved_to[cleaned]",
    r"SchemaNotKnown|VersionNotFound",
)
def adopt_without_its_past(plant: Plant) -> None:
    """Nobody keeps which commits cannot be read any more."""
    from omnigraph_core.maintenance.adoption import past

    plant.replace(past, "write_removals", _nothing)


@bug(
    f"{ORIGINAL}::test_an_index_that_lance_does_not_extend_is_built_anew",
    r"mixes row-ID and row-address segments",
)
def extend_any_index(plant: Plant) -> None:
    from omnigraph_core.tables import indexes

    plant.replace(indexes, "_are_of_one_kind", _always(True))


@bug("tests/crash/test_mending_power_cut.py::test_any_subset_survives[relocate-False]", r"GraphMoved")
def relocate_what_has_a_ref(plant: Plant) -> None:
    """Deleted branches go on referring to the old place."""
    from omnigraph_core.tables import relocation
    from omnigraph_core.tables.fork_refs import fork_names

    plant.replace(relocation, "trees_on_disk", lambda original: fork_names)


@bug(
    f"{ORIGINAL}::test_schema_files_that_do_not_agree_are_refused[another source]",
    r"DID NOT RAISE SchemaFilesDisagree",
)
def believe_an_edited_schema(plant: Plant) -> None:
    from omnigraph_core.original import catalog

    plant.replace(catalog, "_facts", _always({}))


@bug(f"{ORIGINAL}::test_nobody_but_adopt_writes_to_it", r"DID NOT RAISE OriginalGraph")
def write_to_a_graph_of_the_original(plant: Plant) -> None:
    from omnigraph_core import opened

    plant.replace(opened, "refuse_original", _nothing)


@bug(
    f"{ORIGINAL}::test_later_writes_of_the_original_are_noticed_and_not_built_upon",
    r"DID NOT RAISE OriginalWrote",
)
def build_upon_what_the_original_wrote(plant: Plant) -> None:
    from omnigraph_core.write import door

    plant.replace(door, "refuse_later_writes", _nothing)


@bug(f"{ORIGINAL}::test_a_graph_is_read_as_it_is[branches]", r"AssertionError: assert \{'01M7")
def take_the_first_commit_for_the_head(plant: Plant) -> None:
    from omnigraph_core.original import heads

    plant.replace(heads, "_order", lambda original: lambda row: (-row["manifest_version"], 0, ""))


# ---- cleanup ----


@bug(f"{CLEANUP}::test_what_a_staged_write_pins_stays_with_its_successor", r"assert \{3, 4\} <= \{7\}")
def forget_what_is_staged(plant: Plant) -> None:
    from omnigraph_core.maintenance.keep import Keeper

    plant.replace(Keeper, "_keep_staged", _nothing)


@bug(f"{CLEANUP}::test_the_base_of_two_branches_stays_and_they_merge", r"would have been a base")
def forget_bases(plant: Plant) -> None:
    from omnigraph_core.maintenance.keep import Keeper

    plant.replace(Keeper, "_bases", _always(()))


@bug(
    f"{CLEANUP}::test_a_deleted_branch_that_comes_back_merges_as_it_would_have_before",
    r"would have been a base",
)
def forget_that_deleted_branches_merge(plant: Plant) -> None:
    from omnigraph_core.maintenance import keep

    plant.replace(keep, "read_deleted_log", _always({}))


@bug(f"{CLEANUP}::test_a_base_on_a_deleted_branch_stays_with_it", r"\(\('fix',\), \(\)\)")
def purge_what_merges_start_from(plant: Plant) -> None:
    from omnigraph_core.maintenance.merge_bases import MergeBases

    def found(original: Any) -> Any:
        return lambda self, is_live, is_aside: original(self, is_live, lambda commit: False)

    plant.replace(MergeBases, "found", found)


@bug(f"{CLEANUP}::test_a_branch_made_at_a_tag_merges_as_it_would_have_before", r"would have been a base")
def branch_at_a_tag_without_its_base(plant: Plant) -> None:
    """Nothing but heads of live branches is merged."""
    from omnigraph_core.maintenance.merge_bases import MergeBases

    plant.replace(MergeBases, "may_start_at", _nothing)


@bug(f"{CLEANUP}::test_what_was_superseded_within_the_grace_stays_readable", r"== \(\(\), 0\)")
def clean_up_without_grace(plant: Plant) -> None:
    from omnigraph_core.maintenance.keep import Keeper

    plant.replace(Keeper, "_keep_recent", _nothing)


@bug(f"{CLEANUP}::test_the_newest_commits_stay_and_the_others_are_said_to_be_removed", r"VersionNotFound")
def remove_without_saying_so(plant: Plant) -> None:
    """The record of what is gone is not written."""
    from omnigraph_core.maintenance import cleanup

    plant.replace(cleanup, "write_removals", _nothing)


@bug(
    f"{CLEANUP}::test_one_changed_digit_of_the_record_is_damage",
    r"CommitRemoved: commit",
)
def believe_what_is_said_to_be_removed(plant: Plant) -> None:
    """A record without a digest is as good as one with it."""
    from omnigraph_core.history import removed

    def without_digest(original: Any) -> Any:
        def believing(data: bytes, version: int, *, always: bool) -> Any:
            content = json.loads(data)
            content.pop("digest", None)
            return original(json.dumps(content).encode(), version, always=always)

        return believing

    plant.replace(removed, "unseal", without_digest)


@bug(
    "tests/crash/test_paused_upkeep.py::test_a_relocate_that_slept_brings_no_old_version_back[1]",
    r"_deletions/|assert not True",
)
def relocate_over_whatever_is_there(plant: Plant) -> None:
    """A version is written over by its path, whoever's it is by now."""
    from omnigraph_core.storage.s3 import S3ControlStore

    def replace(original: Any) -> Any:
        def by_name(store: Any, path: str, data: bytes, e_tag: str) -> str:
            is_version = "/_versions/" in path
            return str(store.put(path, data) if is_version else original(store, path, data, e_tag))

        return by_name

    plant.replace(S3ControlStore, "replace", replace)


@bug(
    f"{CLEANUP}::test_a_branch_made_anew_is_not_judged_by_the_record_of_the_old_one",
    r"assert \d == \(3 \+ 5\)",
)
def know_what_was_removed_by_name(plant: Plant) -> None:
    from omnigraph_core.history.removed import Removals

    def of(removals: Any, branch: Any) -> Any:
        return next((each for each in removals.floors if each.on.lineage == branch.lineage), None)

    plant.replace(Removals, "of", lambda original: of)


@bug(
    f"{CLEANUP}::test_a_dropped_type_stays_while_a_kept_commit_has_it_and_then_goes",
    r"assert \[\] == \['dataset'\]",
)
def keep_what_nobody_has(plant: Plant) -> None:
    """Datasets of types that are gone stay for ever."""
    from omnigraph_core.maintenance.cleanup import Cleanup
    from omnigraph_core.tables.collect import Collected

    plant.replace(Cleanup, "_remove_dataset", _always(Collected()))


# ---- optimize and repair ----


@bug(f"{OPTIMIZE}::test_drift_is_left_alone_and_repaired_when_it_changed_no_row", r"is <Skipped.DRIFT")
def optimize_over_drift(plant: Plant) -> None:
    from omnigraph_core.maintenance import optimize

    plant.replace(optimize, "seems_drifted", _always(set()))
    plant.replace(optimize, "find_drift", _always({}))


@bug(f"{OPTIMIZE}::test_drift_that_may_have_changed_rows_takes_force", r"== \(True, None\)")
def repair_with_force(plant: Plant) -> None:
    from omnigraph_core.maintenance import repair

    def decided(original: Any) -> Any:
        return lambda drift, schema, *, force: original(drift, schema, force=True)

    plant.replace(repair, "_decided", decided)


@bug(f"{OPTIMIZE}::test_a_dry_run_changes_nothing", r"== \(\)")
def optimize_in_a_dry_run(plant: Plant) -> None:
    from omnigraph_core.maintenance.optimize import Optimizer

    plant.replace(Optimizer, "preview", lambda original: lambda self, types=(): self.run(types))


# ---- queries ----


@bug("tests/contract/test_bm25.py::test_scores_are_those_of_the_formula", r"AssertionError|assert ")
def rank_by_texts_that_are_gone(plant: Plant) -> None:
    """Texts that were deleted count in the mean length."""
    import numpy as np

    from omnigraph_core.tables import postings

    def all_of_them(table: Any, fragments: Any, row_ids: Any) -> Any:
        return np.ones(len(row_ids), np.bool_)

    plant.replace(postings, "_are_there", lambda original: all_of_them)


@bug("tests/contract/test_nearest.py::test_the_nearest_are_the_nearest", r"AssertionError|assert ")
def believe_an_index_of_vectors(plant: Plant) -> None:
    """Of many that are equally near, those are ranked that the index happens to name."""
    from omnigraph_core.read.search import narrowing

    plant.replace(narrowing, "_are_proven", _always(True))


@bug(
    "tests/contract/test_nearest.py::test_nothing_is_lost_where_squares_of_distances_exceed_32_bits",
    r"assert ",
)
def ask_an_index_for_what_is_too_far(plant: Plant) -> None:
    """What an index cannot compare is missing from the answer."""
    from omnigraph_core.read.search import narrowing

    plant.replace(narrowing, "comparable_max", _always(math.inf))


# ---- undo, tags and moves ----


@bug(f"{TAGS}::test_a_tag_of_a_branch_that_is_replaced_meanwhile_is_not_made", r"DID NOT RAISE CommitGone")
def tag_what_was_looked_up(plant: Plant) -> None:
    from omnigraph_core.write import tags

    plant.replace(
        tags, "snapshot_at", lambda original: lambda manifest, commit: SimpleNamespace(on=commit.on)
    )


@bug(f"{UNDO}::test_what_is_not_as_it_was_left_is_refused", r"DID NOT RAISE NothingToUndo")
def untag_by_name(plant: Plant) -> None:
    """Undo takes back whatever tag has the name now."""
    from omnigraph_core.merge import undo

    def remove(self: Any, move: Any, note: Any) -> None:
        undo.delete_tag(self._door, move.name, note)

    plant.replace(undo.Undo, "_remove_tag", lambda original: remove)


@bug(f"{UNDO}::test_what_is_not_as_it_was_left_is_refused", r"DID NOT RAISE CannotUndo")
def undo_a_branch_with_what_is_on_it(plant: Plant) -> None:
    from omnigraph_core.merge import undo

    def put_aside(self: Any, move: Any, note: Any) -> None:
        undo.delete_branch(self._door, move.line, note, identity=move.identity)

    plant.replace(undo.Undo, "_put_aside", lambda original: put_aside)


@bug(f"{UNDO}::test_moves_of_refs_are_taken_back_once", r"NothingToUndo")
def forget_who_took_it_back(plant: Plant) -> None:
    from omnigraph_core.merge import undo

    plant.replace(undo, "taken_back_by", _always(None))


@bug(f"{UNDO}::test_moves_of_refs_are_taken_back_once", r"OperationNotFound")
def leave_moves_unrecorded(plant: Plant) -> None:
    """What is begun is never entered as done."""
    from omnigraph_core.write import moves

    plant.replace(moves, "_record", _nothing)


@bug(f"{UNDO}::test_names_that_are_used_again_are_not_mistaken", r"DID NOT RAISE NothingToUndelete")
def undelete_by_name(plant: Plant) -> None:
    from omnigraph_core.merge import undo

    def undelete(original: Any) -> Any:
        return lambda door, name, note, identity=None: original(door, name, note)

    plant.replace(undo, "undelete_branch", undelete)


# ---- merge ----


@bug(f"{MERGED_ROWS}::test_inserts", r"AssertionError")
def merge_what_was_inserted_twice(plant: Plant) -> None:
    import numpy as np

    from omnigraph_core.merge.rows import _Merge

    plant.replace(_Merge, "_inserted_twice", lambda original: lambda self: np.zeros(len(self.ids), np.bool_))


@bug(f"{MERGED_ROWS}::test_every_pair_of_operations_on_one_entity", r"'clashes': \[\]")
def merge_what_was_deleted_and_changed(plant: Plant) -> None:
    import numpy as np

    from omnigraph_core.merge.rows import _Merge

    def nowhere(self: Any) -> Any:
        return np.zeros(len(self.ids), np.bool_)

    plant.replace(_Merge, "_deleted_and_changed", lambda original: nowhere)


@bug(
    "tests/contract/test_merge_schemas.py::test_rows_that_break_a_new_rule_are_conflicts",
    r"DID NOT RAISE MergeConflicts",
)
def merge_rows_that_break_rules(plant: Plant) -> None:
    from omnigraph_core.merge import run

    plant.replace(run, "broken_rules", _always([]))


@bug("tests/cli/test_merge.py::test_a_resolution_is_good_for_its_heads_only", r"assert 0 == 4")
def resolve_for_other_heads(plant: Plant) -> None:
    from omnigraph_core.merge.resolve import Resolution

    plant.replace(Resolution, "check_heads", _nothing)


# ---- asleep past a lease ----


@bug(
    f"{PAUSED_INIT}::test_an_init_that_slept_harms_no_graph_made_meanwhile[13]",
    r"AssertionError: \('schema.promoted._schema.pg', 1\)",
)
def init_writes_over_schema_files(plant: Plant) -> None:
    """Whatever is there by now, and whoever has the lock."""
    from omnigraph_core import faults
    from omnigraph_core.catalog import files

    def project(control: Any, catalog: Any, guard: Any) -> None:
        for path, data in files._projection(catalog):
            control.put(path, data)
            faults.hit(f"schema.promoted.{path}")

    plant.replace(files, "project_schema", lambda original: project)


@bug(
    f"{PAUSED_VERBS}::test_a_verb_that_slept_harms_nobody[load --from beside a new branch, one step]",
    r"BranchNotFound: branch 'b0' does not exist",
)
def forget_a_branch_by_its_name(plant: Plant) -> None:
    """A load --from that failed removes whatever branch has the name by then."""
    from omnigraph_core.write import provisional

    def forget(door: Any, record: Any, held: Any) -> bool:
        if (fork := door.manifest.branches().get(record.branch)) is not None:
            provisional.remove_branch(door, record.branch, fork.identity, held)
        return True

    plant.replace(provisional, "_forget", lambda original: forget)


@bug(f"{RETRIES}::test_nothing_is_asked_for_again_without_the_lease[branch delete]", r"assert \(True, <class")
def ask_about_the_lease_once(plant: Plant) -> None:
    """A request that failed is made again, however long that takes."""
    from omnigraph_core.storage.s3 import S3ControlStore

    def once(original: Any) -> Any:
        def delete(self: Any, path: str, guard: Callable[[], None] = lambda: None) -> None:
            guard()
            original(self, path)

        return delete

    plant.replace(S3ControlStore, "delete", once)


@bug(f"{GUARDED}[refs]", r"'delete the tag: DELETE ")
def delete_without_a_look_at_the_lease(plant: Plant) -> None:
    from omnigraph_core.storage.s3 import S3ControlStore

    plant.replace(S3ControlStore, "delete", lambda original: lambda self, path, *guard: original(self, path))


# ---- names given away meanwhile ----


@bug(f"{RENAMED}[delete-rename]", r"Finished\(code=0, out='deleted branch dev")
def delete_whatever_the_branch_is_called(plant: Plant) -> None:
    """The branch that was found by the name goes, whoever has renamed it since."""
    from omnigraph_core.write import branches

    plant.replace(branches, "prove_still_called", _nothing)


@bug(f"{RENAMED}[rename-rename]", r"Finished\(code=0, out='renamed branch dev to mine")
def rename_whatever_the_branch_is_called(plant: Plant) -> None:
    from omnigraph_core.write import rename

    plant.replace(rename, "prove_still_called", _nothing)


@bug("tests/cli/test_branch.py::test_what_is_written_while_it_asks_is_not_deleted", r"assert \(0, False\)")
def delete_more_than_was_asked_about(plant: Plant) -> None:
    """The answer counts for whatever is on the branch by then."""
    from omnigraph_core.write import branches

    plant.replace(branches, "check_head", _nothing)


# ---- lost refs, and files that are none ----


@bug(
    f"{LOST_REFS}::test_a_branch_whose_ref_is_removed_is_damage_until_the_next_writer_rebuilds_it[by create]",
    r"DID NOT RAISE RefDamaged",
)
def take_a_lost_branch_for_absent(plant: Plant) -> None:
    """No ref, no branch."""
    from omnigraph_core.history import lost

    plant.replace(lost, "lost_branches", _always([]))


@bug(
    f"{LOST_REFS}::test_what_was_deleted_or_never_made_is_not_lost",
    r"(RefDamaged|BranchExists)",
)
def take_a_deleted_branch_for_lost(plant: Plant) -> None:
    """Whatever has versions on disk was there."""
    from omnigraph_core.history import lost

    plant.replace(lost, "_witnesses", lambda _: lambda tables, records, names: dict.fromkeys(names, "there"))


@bug(
    f"{LOST_REFS}::test_a_branch_that_was_made_to_its_end_is_not_taken_for_one_that_was_not[empty]",
    r"DID NOT RAISE RefDamaged",
)
def take_a_damaged_start_for_a_power_cut(plant: Plant) -> None:
    """A branch without a whole version was never finished."""
    from omnigraph_core.history import lost

    plant.replace(lost, "was_made", _always(False))


@bug(f"{LOST_REFS}::test_cleanup_removes_nothing_that_a_fork_without_a_ref_reads[table]", r"(Error|assert)")
def clean_what_a_fork_without_a_ref_reads(plant: Plant) -> None:
    from omnigraph_core.maintenance.decision import Decider

    plant.replace(Decider, "_has_rebuilt", _always(False))


@bug(
    "tests/hostile/test_links.py::test_a_ref_whose_name_leads_elsewhere_is_no_branch[__manifest]",
    r"InvalidObjectPath",
)
def believe_every_name_of_a_ref(plant: Plant) -> None:
    from omnigraph_core.tables import fork_refs

    plant.replace(fork_refs, "_is_inside", _always(True))


@bug("tests/hostile/test_odd_files.py::test_a_link_deep_in_a_table_is_refused", r"DID NOT RAISE ForeignEntry")
def let_lance_open_whatever_is_there(plant: Plant) -> None:
    from omnigraph_core.tables import dataset

    plant.replace(dataset, "refuse_foreign", _nothing)
