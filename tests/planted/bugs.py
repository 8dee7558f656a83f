"""Deliberate mistakes, one at a time, to prove that the tests would notice.

Each mistake is planted by replacing a function of the installed library inside a
process, never by editing it; the library does not know of them. `test_planted.py`
runs the guard of each one, a test of the normal suite, with the mistake planted in
pytest and in every process it starts, and requires it to fail.

A mistake is written against the seams of the library as they are. When such a seam
moves, `Plant.replace` says so at once: a mistake that changes nothing proves nothing.

`verbs.py` has those of the later verbs.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BUG_VARIABLE = "PLANTED_BUG"
REACHED_VARIABLE = "PLANTED_BUG_REACHED"

DOOR = "tests/crash/test_door.py"
RULES = "tests/crash/test_recovery_rules.py"
GUARDS = "tests/planted/test_guards.py"
PUBLISHER = "tests/contract/test_manifest_publisher.py"
SETTLED = "tests/crash/test_settled_once.py"
TORN_TAILS = "tests/crash/test_torn_tails.py"
SHARED_FORKS = "tests/crash/test_shared_forks.py"
DISK_ERRORS = "tests/crash/test_disk_errors.py"
FORKS = "tests/contract/test_tables_branches.py"
OPENS = "tests/contract/test_opens.py"
PAUSED = "tests/crash/test_paused_branches.py"
MOVES = "tests/crash/test_moves.py"
UNDO = "tests/contract/test_undo.py"
NAMES = "tests/contract/test_names_used_again.py"
REFS = "tests/crash/test_branch_refs.py"
EVOLVE = "tests/unit/test_schema_evolve.py"
ANSWERS = "tests/contract/test_migrate_answers.py"
INDEXES = "tests/contract/test_tables_indexes.py"
DEFAULTS = "tests/contract/test_defaults.py"
DAMAGE = "tests/hostile/test_damage.py"
TORN = "tests/crash/test_torn_history.py"
ATTACKS = "tests/crash/test_attacks_1.py"
APPLY_DEATHS = "tests/crash/test_schema_apply.py"
APPLY = "tests/contract/test_schema_apply.py"
APPLY_STAGING = "tests/crash/test_schema_staging.py"
COLUMNS = "tests/contract/test_tables_evolve.py"
LANCE_COLUMNS = "tests/contract/test_lance_columns.py"
COMPARED = "tests/contract/test_tables_compare.py"
MERGED_ROWS = "tests/unit/merge/test_rows.py"
MERGED = "tests/unit/merge/test_model.py"
MERGES = "tests/contract/test_merge.py"
MERGE_DEATHS = "tests/crash/test_merge.py"
EQUALITY = "tests/unit/diff/test_equality.py"


class Plant:
    """Replaces functions, and notes in a file that one of the replacements was called."""

    def __init__(self, reached: Path | None) -> None:
        self._reached = reached

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in the place of `owner.name`, which must exist.

        A builtin may be named too: it is hidden for that module alone.
        """
        if name in vars(owner):
            original = vars(owner)[name]
        elif name in vars(builtins):
            original = vars(builtins)[name]
        else:
            raise LookupError(f"{owner.__name__} has no {name}: this planted bug must follow the code")
        planted = make(original)

        def noting(*arguments: Any, **named: Any) -> Any:
            if self._reached is not None:
                self._reached.touch()
            return planted(*arguments, **named)

        setattr(owner, name, noting)


@dataclass(frozen=True)
class Bug:
    """`guard` is the test that must fail; `evidence` what it must say, as a pattern."""

    name: str
    guard: str
    evidence: str
    apply: Callable[[Plant], None]


BUGS: dict[str, Bug] = {}


def bug(guard: str, evidence: str) -> Callable[[Callable[[Plant], None]], Callable[[Plant], None]]:
    def register(apply: Callable[[Plant], None]) -> Callable[[Plant], None]:
        name = apply.__name__.replace("_", "-")
        BUGS[name] = Bug(name, guard, evidence, apply)
        return apply

    return register


def plant_from_environment() -> None:
    """Plant the bug the environment names, if any; in pytest and in every child alike."""
    from tests.planted import verbs

    name = os.environ.get(BUG_VARIABLE)
    if name:
        reached = os.environ.get(REACHED_VARIABLE)
        verbs.BUGS[name].apply(Plant(Path(reached) if reached else None))


def _nothing(_: Any) -> Callable[..., None]:
    return lambda *arguments, **named: None


def _append_again(_: Any) -> Callable[..., bool]:
    from omnigraph_core.tables.log_append import append_rows

    def append(
        tables: Any, ref: Any, key: str, rows: Any, operation_id: str, barrier: Any, guard: Any, *marks: Any
    ) -> bool:
        append_rows(tables, ref, rows, operation_id, barrier, *marks)
        return True

    return append


# ---- the phases of a write ----


@bug(
    f"{DOOR}::test_dying_at_every_step[main-write.table_committed.2-kill]",
    r"AssertionError: \('main', 'node:Company'\)",
)
def skip_the_sidecar(plant: Plant) -> None:
    """Phase A writes nothing."""
    from omnigraph_core import faults
    from omnigraph_core.write.phases import Phases
    from omnigraph_core.write.sidecar import StoredSidecar

    def record(phases: Phases, sidecar: Any) -> StoredSidecar:
        faults.hit("recovery.sidecar_write")
        faults.hit("write.after_a")
        return StoredSidecar(sidecar, "")

    plant.replace(Phases, "record", lambda original: record)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-manifest.after_publish-kill]",
    r"AssertionError: \('main', 'edge:Knows'\)",
)
def publish_before_the_last_table(plant: Plant) -> None:
    """The last table of a write is committed after the publish that names its version."""
    from omnigraph_core.manifest.publisher import Publisher
    from omnigraph_core.write import phases

    last: list[Any] = []
    late: list[Callable[[], object]] = []

    def running(original: Any) -> Any:
        def run(self: phases.Phases, plan: Any, *more: Any) -> Any:
            last[:] = plan.staged[-1:]
            return original(self, plan, *more)

        return run

    def commit(original: Any) -> Any:
        def later(tables: Any, staged: Any, *more: Any, **named: Any) -> Any:
            if last and staged is last[0]:
                late.append(lambda: original(tables, staged, *more, **named))
                return tables.open(staged.ref, staged.read_version)
            return original(tables, staged, *more, **named)

        return later

    def publish(original: Any) -> Any:
        def then_commit(self: Publisher, *arguments: Any, **named: Any) -> Any:
            published = original(self, *arguments, **named)
            while late:
                late.pop()()
            return published

        return then_commit

    plant.replace(phases.Phases, "_phases_b_and_c", running)
    plant.replace(phases, "commit_exact", commit)
    plant.replace(Publisher, "publish", publish)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-history.actor_recorded-kill]",
    r"assert \[\] == \['RolledForward'\]",
)
def delete_the_sidecar_before_the_commit_row(plant: Plant) -> None:
    """Phase D comes before the end of phase C."""
    from omnigraph_core.write import phases

    writing: list[tuple[Any, str]] = []

    def running(original: Any) -> Any:
        def run(self: phases.Phases, plan: Any, sidecar: Any, *more: Any) -> Any:
            writing[:] = [(self.storage.control, sidecar.path)]
            return original(self, plan, sidecar, *more)

        return run

    def record(original: Any) -> Any:
        def forgetful(*arguments: Any, **named: Any) -> Any:
            control, path = writing[0]
            control.delete(path)
            return original(*arguments, **named)

        return forgetful

    plant.replace(phases.Phases, "_phases_b_and_c", running)
    plant.replace(phases, "record_commit", record)


@bug(
    f"{DOOR}::test_dying_at_every_step[branch that must fork-write.after_d-kill]",
    r"assert 1 == -<Signals.SIGKILL: 9>",
)
def fork_after_staging(plant: Plant) -> None:
    """Files are staged against the parent's dataset, and committed on the fork."""
    from omnigraph_core.tables.dataset import Table
    from omnigraph_core.write.door import Door

    def open_for_write(original: Any) -> Any:
        def on_the_parent(self: Door, attempt: Any, table_key: str) -> Any:
            writable = original(self, attempt, table_key)
            if writable.fork is None:
                return writable
            entry = attempt.snapshot.entry(table_key)
            parent = self.tables.open(entry.ref, entry.table_version)
            return replace(writable, table=Table(writable.table.ref, parent.lance))

        return on_the_parent

    plant.replace(Door, "open_for_write", open_for_write)


@bug(f"{RULES}::test_a_failure_in_the_middle_is_settled_at_once", r"assert 'nothing was changed' in 'None'")
def leave_a_failed_phase_to_others(plant: Plant) -> None:
    """A write that fails in the middle raises and does not recover itself."""
    from omnigraph_core.write.phases import Phases

    def settle(_phases: Phases, _sidecar: Any, _lock: Any, error: Exception) -> None:
        raise error

    plant.replace(Phases, "_settle", lambda original: settle)


@bug(
    f"{RULES}::test_staged_files_that_vanish_are_noticed_before_the_commit",
    r"DID NOT RAISE StagedFileMissing",
)
def trust_the_staged_files(plant: Plant) -> None:
    """Nobody looks whether the staged files are still there."""
    from omnigraph_core.write import freshness

    plant.replace(freshness, "verify_files", _nothing)


@bug(f"{GUARDS}::test_two_that_plan_at_once_both_land", r"recovery_kind=<RecoveryKind.ROLLED_BACK")
def publish_stale_plans(plant: Plant) -> None:
    """Under the lock, nobody asks whether the plan's tables have moved."""
    from omnigraph_core.write import door

    plant.replace(door, "check_assumptions", _nothing)


@bug(f"{GUARDS}::test_commits_get_later_while_the_clock_goes_back", r"assert times == sorted")
def trust_the_clock(plant: Plant) -> None:
    """created_at is the clock's time, also when the parent is younger."""
    from omnigraph_core.write import door

    plant.replace(door, "max", lambda original: lambda now, floor: now)


# ---- locks, fences, identities ----


@bug(
    "tests/concurrent/test_publisher.py::test_one_publisher_of_a_version_wins_each_round[2-tables]",
    r"assert len\(won\) == 1|<= LOSSES|RowsReappeared",
)
def publish_beside_the_old_head_row(plant: Plant) -> None:
    """A publish adds its head row and leaves the one it replaces: no two publishes touch the same."""
    from omnigraph_core.tables import replacement
    from omnigraph_core.tables.replace import Marked

    plant.replace(replacement, "_marked", lambda original: lambda table, places: Marked([], []))


@bug(f"{GUARDS}::test_a_sweep_leaves_a_live_writer_alone", r"\(\(Recovered\(.* == \(\(\), 1\)")
def ignore_the_lock(plant: Plant) -> None:
    """Everybody gets the lock at once."""
    from omnigraph_core.storage.flock import FileLock

    def lock_current_file(lock: Any) -> int:
        return int(lock._open())

    plant.replace(FileLock, "_lock_current_file", lambda original: lock_current_file)


@bug(
    "tests/contract/test_tables_commit.py::test_committing_the_same_write_twice_lands_once[main-local]",
    r"ForeignCommit: .* instead of",
)
def no_head_check(plant: Plant) -> None:
    """commit_exact takes the version it was staged on for HEAD."""
    from omnigraph_core.tables.dataset import Table

    plant.replace(Table, "latest_version", lambda original: lambda table: table.version)


@bug(f"{PUBLISHER}::test_disjoint_publishes_conflict_through_the_head_row[local-main]", r"RowsReappeared")
def a_head_row_for_every_commit(plant: Plant) -> None:
    """Two publishes have no key in common when their tables differ."""
    from omnigraph_core.manifest import rows

    def head_row(original: Any) -> Any:
        return lambda head: {**original(head), rows.OBJECT_ID: f"graph_head:{head.commit_id}"}

    plant.replace(rows, "head_row", head_row)


@bug(f"{PUBLISHER}::test_another_head_than_expected_is_refused[local-main]", r"DID NOT RAISE HeadChanged")
def ignore_the_expected_head(plant: Plant) -> None:
    """The publisher does not compare the head row with the one seen under the lock."""
    from omnigraph_core.manifest import request

    def check(original: Any) -> Any:
        return lambda wanted, state: original(replace(wanted, expected_head=None, expected_token=None), state)

    plant.replace(request, "_check_expectations", check)


@bug(
    f"{RULES}::test_a_reused_branch_name_is_another_branch",
    r"'RolledBack'>\] == \['OrphanedBranchDiscarded'\]",
)
def take_a_reused_name_for_the_old_branch(plant: Plant) -> None:
    """A branch is known by its name alone."""
    from omnigraph_core.manifest.reader import Manifest

    def branch(original: Any) -> Any:
        def named(manifest: Manifest, name: str) -> Any:
            found = original(manifest, name)
            return replace(found, identity=found.identity and name)

        return named

    plant.replace(Manifest, "branch", branch)


# ---- recovery ----


@bug(
    f"{ATTACKS}::test_a_power_cut_after_the_decision_of_a_recovery[write.table_committed.3-torn0]",
    r"of table '(node|edge):\w+' is published but missing",
)
def decide_upon_what_may_be_lost(plant: Plant) -> None:
    """Recovery decides to publish versions that nobody has synced, and a power cut takes them."""
    from omnigraph_core.write.recovery import Recoverer

    plant.replace(Recoverer, "_sync_for_dead_writer", _nothing)


@bug(f"{ATTACKS}::test_a_ref_that_goes_while_it_is_looked_at_is_not_damaged", r"RefDamaged")
def look_at_a_ref_once(plant: Plant) -> None:
    """The state of a ref is what its tree says, although the ref is gone by then."""
    from omnigraph_core.tables import fork_refs

    def state(original: Any) -> Any:
        def damaged_at_once(tables: Any, tree: Any, data: bytes, fork: Any, witness: Any) -> Any:
            found = original(tables, tree, data, fork, witness)
            if found is fork_refs.RefState.DAMAGED:
                raise fork_refs.RefDamaged(tree.key, tree.branch, tree.directory)
            return found

        return damaged_at_once

    plant.replace(fork_refs, "_state", state)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-write.table_committed.2-kill]",
    r"AssertionError: \('main', 'edge:Knows'\)",
)
def roll_forward_a_partial_set(plant: Plant) -> None:
    """One table that moved is enough to publish all of them."""
    from omnigraph_core.write import decide

    plant.replace(decide, "all", lambda original: any)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-write.table_committed.1-kill]",
    r"AssertionError: \('main', 'node:Person'\)",
)
def restore_without_publish(plant: Plant) -> None:
    """Restored tables are not published: HEAD stays ahead of the manifest."""
    from omnigraph_core.write.recovery import Recoverer

    def publish(original: Any) -> Any:
        return lambda self, case, restored: original(self, case, [])

    plant.replace(Recoverer, "_publish_restored", publish)


@bug(
    f"{GUARDS}::test_a_foreign_commit_in_the_place_of_ours_is_rolled_back",
    r'assert all\(content\(graph\)\[key\] == \{"first"\}',
)
def decide_by_versions_only(plant: Plant) -> None:
    """Whoever made the expected version, it counts as ours."""
    from omnigraph_core.write import classify

    def moved(table: Any, head: Any) -> bool:
        return bool(head.version == table.post_commit_pin)

    plant.replace(classify, "_moved_by_exactly_ours", lambda original: moved)


@bug(
    f"{GUARDS}::test_who_dies_while_another_plans_is_recovered_under_the_lock",
    r"assert control.list\(layout.RECOVERY_DIR\) == \[\]",
)
def heal_only_before_the_lock(plant: Plant) -> None:
    """Sidecars are swept when planning begins, and not again under the lock."""
    from omnigraph_core.write.sweep import Sweeper

    plant.replace(Sweeper, "heal", lambda original: lambda sweeper, branch, lock: [])


@bug(
    f"{DOOR}::test_dying_again_in_recovery[write.after_b-recovery.audited-main]",
    r"lledForward'>\] == \['RolledForward'\]",
)
def audit_every_attempt(plant: Plant) -> None:
    """Nobody asks whether the audit row of a recovery is there, neither before it nor when it is written."""
    from omnigraph_core.history import recoveries
    from omnigraph_core.write import recovery

    plant.replace(recovery, "is_audited", lambda original: lambda *arguments: False)
    plant.replace(recoveries, "append_if_absent", _append_again)


@bug(f"{GUARDS}::test_recovery_adds_no_history_row_twice", r"_graph_commit_actors.lance")
def append_history_rows_again(plant: Plant) -> None:
    """Recovery appends commit and actor rows, whether they are there or not."""
    from omnigraph_core.history import commits

    plant.replace(commits, "append_if_absent", _append_again)


@bug(
    f"{PAUSED}::test_a_writer_that_slept_after_its_publish_records_nothing_on_a_branch_made_meanwhile"
    "[delete_create_and_write-told0]",
    r"a commit of another branch is there",
)
def append_history_rows_without_the_lock(plant: Plant) -> None:
    """Nobody asks for the lock before a row goes to the commit table that has the branch's name now."""
    from omnigraph_core.tables import log_append

    def append(original: Any) -> Any:
        return lambda *arguments: original(*arguments[:6])

    plant.replace(log_append, "append_rows", append)


@bug(f"{DOOR}::test_dying_again_in_recovery[write.after_b-recovery.after_publish-main]", r"assert 1 == 0")
def decide_anew_after_each_crash(plant: Plant) -> None:
    """Recovery does not write down what it decided."""
    from omnigraph_core.write import recovery

    def write(control: Any, stored: Any, decision: Any, guard: Any) -> Any:
        return replace(stored, sidecar=replace(stored.sidecar, decision=decision))

    plant.replace(recovery, "write_decision", lambda original: write)


@bug(
    f"{GUARDS}::test_a_short_deletion_file_is_never_rolled_forward",
    r"Arrow file does not contain correct footer",
)
def roll_forward_without_looking_at_the_files(plant: Plant) -> None:
    """Tables that moved are published, whether their data is there or not."""
    from omnigraph_core.tables import torn
    from omnigraph_core.write import decide

    plant.replace(decide, "files_are_whole", lambda original: lambda storage, sidecar: True)
    plant.replace(torn, "_is_short", lambda original: lambda tables, path, size: False)


@bug(f"{OPENS}::test_a_write_after_one_to_another_branch", r"_graph_commit_actors")
def take_what_is_open_for_head(plant: Plant) -> None:
    """Nobody asks whether a table that the last write left open is still HEAD."""
    from omnigraph_core.tables.held_tables import HeldTables

    plant.replace(HeldTables, "_is_known_head", lambda original: lambda self, kept: True)


@bug(
    f"{SETTLED}::test_a_recovery_that_comes_too_late_does_not_bring_the_sidecar_back",
    r"DID NOT RAISE SidecarTaken",
)
def decide_over_whatever_is_there(plant: Plant) -> None:
    """Recovery writes its decision without asking whether the sidecar is still the one it read."""
    from omnigraph_core.write import recovery
    from omnigraph_core.write.sidecar import StoredSidecar
    from omnigraph_core.write.sidecar_record import encode

    def write(control: Any, stored: Any, decision: Any, guard: Any) -> Any:
        decided = replace(stored.sidecar, decision=decision)
        return StoredSidecar(decided, control.put(decided.path, encode(decided)))

    plant.replace(recovery, "write_decision", lambda original: write)


@bug(
    f"{SETTLED}::test_a_writer_does_not_delete_a_sidecar_that_recovery_has_decided_about",
    r"assert \[\] == \[b",
)
def delete_sidecars_by_name(plant: Plant) -> None:
    """In phase D the sidecar is deleted, whatever it says by now."""
    from omnigraph_core.write import phases

    def forget(storage: Any, stored: Any, guard: Any) -> None:
        storage.control.delete(stored.sidecar.path)

    plant.replace(phases, "forget_sidecar", lambda original: forget)


@bug(
    f"{SETTLED}::test_the_sidecar_of_a_recovered_write_comes_back[write.table_committed.1]",
    r"HistoryDamaged: .* lacks ancestors other than itself",
)
def recover_whatever_is_in_the_folder(plant: Plant) -> None:
    """A sidecar that is back is taken for that of a write that nobody has settled."""
    from omnigraph_core.write import recovery

    plant.replace(recovery, "is_audited", lambda original: lambda *arguments: False)
    plant.replace(recovery, "past_commits", lambda original: lambda *arguments: {})


@bug(
    f"{SETTLED}::test_a_publish_that_lands_beside_the_fence_keeps_its_head",
    r"its rows are there, and its commit is not",
)
def fence_without_looking(plant: Plant) -> None:
    """Recovery publishes over any head row, not only over the one it saw."""
    from omnigraph_core.write.case import RecoveryCase

    def publish(original: Any) -> Any:
        return lambda *arguments: replace(original(*arguments), expected_head=None, expected_token=None)

    plant.replace(RecoveryCase, "publish", publish)


@bug(
    f"{SHARED_FORKS}::test_who_shares_a_fork_with_a_dead_writer_finishes[write.table_committed.1]",
    r"assert all\(each == files\[0\]|ReplansUsedUp|TableNotFound",
)
def remove_the_forks_of_dead_writers(plant: Plant) -> None:
    """A fork that no publish names goes with the write that used it first, whoever else has staged on it."""
    from omnigraph_core.write.recovery import Recoverer

    def undo(original: Any) -> Any:
        def removing(self: Recoverer, case: Any, finding: Any) -> Any:
            if finding.in_manifest or finding.table.fork is None:
                return original(self, case, finding)
            ref = finding.table.ref
            self._storage.control.delete(f"{ref.path}/_refs/branches/{ref.branch}.json")
            self._storage.control.delete_prefix(ref.directory)
            return None

        return removing

    plant.replace(Recoverer, "_undo", undo)


@bug(
    f"{SHARED_FORKS}::test_staged_files_that_are_gone_are_written_again",
    r"ReplansUsedUp: branch 'dev': another writer committed first 6 times",
)
def use_missing_files_again(plant: Plant) -> None:
    """A load that is planned again takes for granted that what it wrote is still there."""
    from omnigraph_core.load.staging import Stager

    plant.replace(Stager, "_is_there", lambda original: lambda stager, done: True)


# ---- durability ----


@bug(
    f"{TORN_TAILS}::test_the_first_of_two_versions_of_a_table_is_torn[write.table_committed.2-tear-kept]",
    r"reading the transaction of table 'node:Person' failed|Drift: table 'node:Person'",
)
def trust_what_is_above_a_torn_version(plant: Plant) -> None:
    """Torn versions are looked for from the newest down, to the first whole one."""
    from omnigraph_core.tables import torn
    from omnigraph_core.write import classify

    def torn_from(tables: Any, ref: Any, published: int) -> int | None:
        lowest = None
        for version in torn.versions_on_disk(tables, ref):
            if version <= published or not torn.is_torn(tables, ref, version):
                break
            lowest = version
        return lowest

    for module in (torn, classify):
        plant.replace(module, "torn_from", lambda original: torn_from)


@bug(
    f"{DISK_ERRORS}::test_who_recovers_a_publish_that_could_not_be_synced_writes_it_anew",
    r"assert 74 == -<Signals.SIGKILL: 9>|assert '/.*manifest' in ",
)
def sync_again_after_a_failure(plant: Plant) -> None:
    """What somebody else could not sync is synced once more, which succeeds and proves nothing."""
    from omnigraph_core.storage.sync import Syncer

    plant.replace(Syncer, "write_anew", lambda original: lambda syncer, files: syncer.barrier(files))


@bug(f"{DISK_ERRORS}::test_a_table_that_could_not_be_synced_stays_rolled_back", r"assert not True")
def forget_that_a_sync_failed(plant: Plant) -> None:
    """Recovery finds every table in its place, and rolls forward."""
    from omnigraph_core.write import recovery

    def decide(original: Any) -> Any:
        return lambda manifest, case, sync_failed: original(manifest, case, sync_failed=False)

    plant.replace(recovery, "decide", decide)


@bug(f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing", r"dropped: the write is lost")
def no_sync(plant: Plant) -> None:
    """Nothing is ever synced, though the settings say so."""
    from omnigraph_core.storage.sync import Syncer

    def init(original: Any) -> Any:
        return lambda syncer, enabled: original(syncer, False)

    plant.replace(Syncer, "__init__", init)


@bug(f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing", r"dropped: OSError: .*Not found")
def staged_files_not_synced(plant: Plant) -> None:
    """Barrier A forgets the data: a table is committed over files that may vanish."""
    from omnigraph_core.write import door

    plant.replace(door, "sync_staged", _nothing)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing",
    r"dropped: AssertionError: \('main', 'edge:Knows'\)",
)
def table_manifests_not_synced(plant: Plant) -> None:
    """Barrier B is missing: the publish names versions that may vanish."""
    from omnigraph_core.write import phases

    plant.replace(phases, "sync_manifests", _nothing)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing",
    r"torn: ManifestDamaged",
)
def publish_not_synced(plant: Plant) -> None:
    """Barrier C forgets the manifest: an acknowledged write may vanish."""
    from omnigraph_core.manifest import publisher
    from omnigraph_core.tables.durability import Barrier

    class Forgetful(Barrier):
        def add_version(self, table: Any, base: Any) -> None:
            pass

        def add_manifest(self, table: Any) -> None:
            pass

    def publish(original: Any) -> Any:
        def without(self: publisher.Publisher, request: Any, guard: Any, _: Any = None, *more: Any) -> Any:
            return original(self, request, guard, Forgetful(self._tables.storage), *more)

        return without

    plant.replace(publisher.Publisher, "publish", publish)


@bug(f"{GUARDS}::test_a_power_cut_after_two_writes_loses_nothing", r"(torn|dropped): HistoryDamaged")
def history_not_synced(plant: Plant) -> None:
    """Barrier C forgets the commit row: history gets a hole with the next commit."""
    from omnigraph_core.tables.durability import Barrier
    from omnigraph_core.write import phases

    def record(original: Any) -> Any:
        def without(tables: Any, head: Any, branch: str, version: int, barrier: Any, *more: Any) -> Any:
            return original(tables, head, branch, version, Barrier(tables.storage), *more)

        return without

    plant.replace(phases, "record_commit", record)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_first_write_on_a_branch_loses_nothing",
    r"dropped: (Branch|Table)NotFound",
)
def forks_not_synced(plant: Plant) -> None:
    """A branch and its tables' forks may vanish, though commits on them were synced."""
    from omnigraph_core.write import branches, door, forks

    for module in (branches, door, forks):
        plant.replace(module, "sync_fork", _nothing)


@bug(f"{GUARDS}::test_a_power_cut_after_recovery_loses_nothing", r"dropped: TableLost: .*'edge:Knows'")
def recovery_trusts_the_dead_writers_syncs(plant: Plant) -> None:
    """Roll forward publishes versions that the dead writer may not have synced."""
    from omnigraph_core.write.recovery import Recoverer

    plant.replace(Recoverer, "_sync_for_dead_writer", _nothing)


@bug(
    f"{GUARDS}::test_a_torn_version_is_set_aside_by_whoever_comes_next",
    r"(?s)opening table 'node:Person' failed.*\n2 failed",
)
def torn_versions_stay(plant: Plant) -> None:
    """A table manifest that a power cut tore is not set aside."""
    from omnigraph_core.write import freshness, recovery

    for module in (recovery, freshness):
        plant.replace(module, "set_aside_torn", lambda original: lambda *arguments: [])


# ---- damage, and what a power cut leaves of history ----


@bug(f"{DAMAGE}::test_an_acknowledged_publish_is_never_passed_over[main-.lance-short]", r"DID NOT RAISE")
def fall_back_to_whatever_is_whole(plant: Plant) -> None:
    """A torn newest manifest is passed over without asking history."""
    from omnigraph_core.write.testimony import Testimony

    plant.replace(Testimony, "recorded_above", _nothing)
    plant.replace(Testimony, "is_silent", _nothing)


@bug(
    f"{TORN}::test_a_torn_publish_is_passed_over_while_its_write_is_pending[history.commit_recorded]",
    r"ManifestDamaged",
)
def call_a_pending_publish_damage(plant: Plant) -> None:
    """That a write is pending is not taken as the reason for a torn publish."""
    from omnigraph_core.write.testimony import Testimony

    plant.replace(Testimony, "pending_commits", lambda original: lambda self: frozenset())


@bug(f"{DAMAGE}::test_replaced_rows_that_reappear_are_noticed", r"DID NOT RAISE")
def believe_the_last_of_two_heads(plant: Plant) -> None:
    """Replaced rows of the manifest that are visible again are not noticed."""
    from omnigraph_core.manifest import snapshot

    def reduce(original: Any) -> Any:
        def last(rows: Any, known: Any) -> Any:
            import pyarrow.compute as pc

            heads = pc.equal(rows.column("object_type"), "graph_head")
            others = rows.filter(pc.invert(heads))
            return replace(
                original(others, known),
                head=snapshot.GraphHead.from_json(rows.filter(heads)["metadata"][-1].as_py()),
            )

        return last

    plant.replace(snapshot, "_reduce", reduce)


@bug(
    f"{DAMAGE}::test_lost_history_is_said[_graph_commits.lance-short]",
    r"DID NOT RAISE|StorageError: reading table '_graph_commits.lance'",
)
def lose_commits_in_silence(plant: Plant) -> None:
    """Whatever older version of the commit table is whole is the history."""
    from omnigraph_core.history import log

    plant.replace(log, "check_commits", _nothing)


@bug(f"{DAMAGE}::test_lost_history_is_said[_graph_commit_actors.lance-gone]", r"DID NOT RAISE")
def lose_actors_in_silence(plant: Plant) -> None:
    """A commit without its actor is shown without one."""
    from omnigraph_core.history import log

    plant.replace(log, "check_actors", _nothing)


@bug(f"{DAMAGE}::test_a_lost_row_of_the_head_is_written_again", r"HistoryDamaged")
def leave_the_head_without_its_rows(plant: Plant) -> None:
    """A write follows a head whose commit row is lost, and does not write it again."""
    from omnigraph_core.history import settle

    plant.replace(settle, "complete_commit", _nothing)


@bug(f"{TORN}::test_a_torn_first_version_of_the_audit_table_is_made_again", r"_graph_commit_recoveries")
def torn_logs_stay(plant: Plant) -> None:
    """A version of a log that a power cut tore is not set aside."""
    from omnigraph_core.write import recovery

    plant.replace(recovery, "settle_torn", _nothing)


@bug(
    f"{TORN}::test_a_write_does_not_stand_on_what_another_has_not_synced",
    r"HistoryDamaged|assert None == 'eve'",
)
def sync_only_ones_own_history(plant: Plant) -> None:
    """A barrier syncs what a version added, whatever it stands on."""
    from omnigraph_core.tables import log_append
    from omnigraph_core.tables.durability import manifest_path

    def add(_: Any) -> Any:
        return lambda tables, barrier, landed, operation_id: barrier.add_files(
            [manifest_path(landed.ref, landed.version)]
        )

    plant.replace(log_append, "_add", add)


@bug(
    "tests/unit/test_storage_local.py::test_a_folder_that_another_holds_is_waited_for_in_vain_and_named[replace]",
    r"DID NOT RAISE",
)
def replace_without_the_folders_lock(plant: Plant) -> None:
    """A control object is compared and replaced while another process may be doing the same."""
    from omnigraph_core.storage import local

    plant.replace(local, "lock_folder", _nothing)


@bug(f"{DAMAGE}::test_a_changed_byte_is_found_by_the_digests", r"assert \[\] == \['")
def digest_the_size_only(plant: Plant) -> None:
    """What is recorded of a file does not depend on its bytes."""
    from omnigraph_core.storage.local import LocalControlStore

    plant.replace(LocalControlStore, "digest", lambda original: lambda store, path: str(store.size(path)))


# ---- tables, snapshots, branches ----


@bug(
    "tests/contract/test_tables_model.py::test_random_writes_agree_with_a_dictionary[local-20261116-main]",
    r"name: found\[name\] for name in survivors",
)
def upsert_with_new_row_ids(plant: Plant) -> None:
    """An updated row does not keep its row id."""
    from omnigraph_core.tables import sink

    plant.replace(sink, "keep_row_ids", _nothing)


@bug(
    "tests/contract/test_manifest_snapshots.py::test_hundreds_of_publishes_read_the_same_in_every_way[main-local-7]",
    r"assert Snapshot\(",
)
def incremental_snapshot_across_a_compaction(plant: Plant) -> None:
    """What is new in the manifest is told by counting fragments, as if none were ever rewritten."""
    from omnigraph_core.manifest import reader
    from omnigraph_core.manifest.snapshot import EMPTY_STATE, STATE_COLUMNS

    def state_of(self: reader.Manifest, table: Any, branch: Any) -> Any:
        known = self._states.get(branch, EMPTY_STATE)
        fragment_ids = sorted(table.fragment_rows())
        rows = table.read(STATE_COLUMNS, fragment_ids=fragment_ids[len(known.fragment_ids) :])
        state = known.advanced(table.version, frozenset(fragment_ids), rows)
        self._states[branch] = state
        return state

    plant.replace(reader.Manifest, "state_of", lambda original: state_of)


@bug(
    f"{GUARDS}::test_a_branch_is_there_or_not_wherever_its_making_dies[tables.fork_created]",
    r"assert \('dev' in \['dev', 'main'\]\) is False",
)
def make_the_manifest_branch_first(plant: Plant) -> None:
    """A branch exists before its commit table does."""
    from omnigraph_core.manifest.reader import manifest_ref
    from omnigraph_core.tables.branches import create_fork as create
    from omnigraph_core.write import branches

    def create_fork(original: Any) -> Any:
        def backwards(tables: Any, source: Any, name: str, version: int, guard: Any) -> Any:
            manifest = manifest_ref(source.branch or "main")
            if source.path == manifest.path:
                return tables.open(source.on(name))
            create(tables, manifest, name, tables.open(manifest).version, guard)
            return original(tables, source, name, version, guard)

        return backwards

    plant.replace(branches, "create_fork", create_fork)


# ---- identity of branches and forks ----


@bug(f"{MOVES}::test_what_was_dropped_does_not_come_true_by_what_others_do", r"'dev', 'dev'")
def believe_what_has_begun(plant: Plant) -> None:
    """A move that has begun counts as done, without a look at the ref."""
    from omnigraph_core.history import moves as history
    from omnigraph_core.write import moves

    for module in (history, moves):
        plant.replace(module, "completed", lambda original: lambda manifest, move: move)


@bug(f"{UNDO}::test_what_is_not_as_it_was_left_is_refused", r"DID NOT RAISE")
def undo_by_name(plant: Plant) -> None:
    """Undo takes the tag that has the name now for the one that it is about."""
    from omnigraph_core.merge import undo

    def read_tag(original: Any) -> Any:
        class Whichever:
            revision = type("Any", (), {"__eq__": lambda *_: True, "__ne__": lambda *_: False})()

        return lambda control, name: Whichever()

    def delete_tag(original: Any) -> Any:
        return lambda door, name, note, *, revision: original(door, name, note)

    plant.replace(undo, "read_tag", read_tag)
    plant.replace(undo, "delete_tag", delete_tag)


@bug(
    f"{PAUSED}::test_a_process_stopped_while_forking_does_not_delete_the_fork_that_another_published",
    r"AssertionError: after waking up: (ReplansUsedUp|TableNotFound)",
)
def delete_forks_that_cannot_be_used(plant: Plant) -> None:
    """A fork that has moved is deleted and made anew, as if nobody could have published it."""
    from omnigraph_core.tables.commit import unguarded
    from omnigraph_core.write import forks

    def starts_at(original: Any) -> Any:
        def is_untouched(tables: Any, ref: Any, found: Any, origin: Any) -> bool:
            usable = original(tables, ref, found, origin)
            return bool(usable and tables.open(ref).version == origin.parent_version)

        return is_untouched

    def delete_fork(original: Any) -> Any:
        return lambda tables, ref, found, guard: original(tables, ref, found, unguarded)

    plant.replace(forks, "_starts_at", starts_at)
    plant.replace(forks, "delete_fork", delete_fork)


@bug(
    f"{PAUSED}::test_a_create_that_slept_while_it_gave_a_deleted_branch_up_harms_no_other[1]",
    r"AssertionError: branch.given_up: (ReplansUsedUp|TableNotFound)",
)
def delete_forks_by_name(plant: Plant) -> None:
    """Whatever has the name when a fork's turn comes is deleted, and nobody asks for the lock."""
    from omnigraph_core.tables.commit import unguarded
    from omnigraph_core.tables.fork_refs import find_ref
    from omnigraph_core.write import branch_forks, branches

    def delete_fork(original: Any) -> Any:
        def by_name(tables: Any, ref: Any, found: Any, guard: Any) -> None:
            original(tables, ref, find_ref(tables, ref, found.name), unguarded)

        return by_name

    plant.replace(branch_forks, "delete_fork", delete_fork)
    plant.replace(branches, "delete_files", _nothing)


@bug(
    f"{FORKS}::test_a_delete_that_sleeps_removes_nothing_of_a_fork_made_meanwhile[local-tables.fork_ref_deleted]",
    r"assert file_tree\(storage\) == after",
)
def list_the_files_when_the_ref_is_gone(plant: Plant) -> None:
    """What lies in the directory of a deleted fork is removed, whenever that is."""
    from omnigraph_core.tables import branches

    def delete_files(original: Any) -> Any:
        def everything(tables: Any, files: Any, guard: Any) -> None:
            control = tables.storage.control
            for directory in {path.partition("/_versions/")[0] for path in files[:1]}:
                control.delete_many(control.list_prefix(directory))
            original(tables, files, guard)

        return everything

    plant.replace(branches, "delete_files", delete_files)


@bug(
    f"{FORKS}::test_a_fork_made_anew_is_not_deleted_by_who_knew_the_old_one[local]",
    r"DID NOT RAISE ForkReplaced",
)
def do_not_compare_the_ref(plant: Plant) -> None:
    """The ref that was read is not compared with the one that is there."""
    from omnigraph_core.tables import branches

    def remove_ref(tables: Any, ref: Any, found: Any, guard: Any) -> None:
        guard()
        tables.storage.control.delete(found.path)

    plant.replace(branches, "remove_ref", lambda original: remove_ref)


@bug(f"{REFS}::test_until_then_nobody_takes_it_for_absent[flipped]", r"DID NOT RAISE RefDamaged")
def take_an_unreadable_ref_for_absent(plant: Plant) -> None:
    """A ref that cannot be read is no branch, whoever was told that it was made."""
    from omnigraph_core.tables import fork_refs
    from omnigraph_core.write.testimony import Testimony

    def state(original: Any) -> Any:
        def lenient(tables: Any, tree: Any, data: bytes, fork: Any, witness: Any) -> Any:
            found = original(tables, tree, data, fork, witness)
            return fork_refs.RefState.UNFINISHED if fork is None else found

        return lenient

    plant.replace(fork_refs, "_state", state)
    plant.replace(Testimony, "lost", lambda original: lambda self, names: [])
    plant.replace(Testimony, "was_made", lambda original: lambda self, name: False)


@bug(
    f"{REFS}::test_a_create_that_a_power_cut_ended_is_no_branch[no tree-create]",
    r"assert \['dev', 'main'\] == \['main'\]",
)
def trust_a_ref_without_its_tree(plant: Plant) -> None:
    """A ref that can be read is a branch, whether its tree survived or not."""
    from omnigraph_core.tables import fork_refs

    plant.replace(fork_refs, "_begins_whole", lambda original: lambda tables, tree, fork: True)


@bug(
    f"{REFS}::test_a_table_can_be_written_whatever_is_left_of_its_fork[torn tree]",
    r"(failed|Not found|ForkExists)",
)
def use_a_fork_whose_start_is_torn(plant: Plant) -> None:
    """Of a fork that is found, only its origin is looked at."""
    from omnigraph_core.tables import fork_refs
    from omnigraph_core.write import forks

    for module in (fork_refs, forks):
        plant.replace(module, "manifest_is_whole", lambda original: lambda tables, ref, version: True)


@bug(
    f"{REFS}::test_a_late_commit_on_a_fork_does_not_touch_the_table_it_was_forked_from",
    r"assert |Error",
)
def take_a_moved_fork_for_a_moved_table(plant: Plant) -> None:
    """A late commit on a fork is undone on the table that the manifest names: its parent."""
    from omnigraph_core.write import door

    def describe(original: Any) -> Any:
        def on_the_parent(current: Any, table: Any, head: Any, token: int) -> Any:
            parent = head.ref.on(current.entry(head.ref.key).table_branch)
            return original(current, table, Renamed(head, parent), token)

        return on_the_parent

    class Renamed:
        def __init__(self, head: Any, ref: Any) -> None:
            self.ref, self.version = ref, head.version

    plant.replace(door, "describe_late_write", describe)


@bug(
    f"{REFS}::test_a_write_that_died_on_a_branch_with_a_damaged_ref_is_recovered[write.published]",
    r"on\.identity == identity",
)
def forget_who_a_branch_was(plant: Plant) -> None:
    """A rebuilt ref gets a new uuid, although a pending write knows the old one."""
    from omnigraph_core.write import ref_repair

    plant.replace(ref_repair, "_known_identity", lambda original: lambda manifest, ref, name: None)


@bug(f"{REFS}::test_a_start_whose_branch_was_replaced_meanwhile_is_refused", r"DID NOT RAISE StartMoved")
def trust_where_a_branch_starts(plant: Plant) -> None:
    """The commit that was looked up without a lock is not looked at again."""
    from omnigraph_core.write import branches

    plant.replace(branches, "_check_start", _nothing)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_branch_was_deleted_does_not_bring_it_back",
    r"dropped: the branch is back",
)
def deleted_refs_not_synced(plant: Plant) -> None:
    """A power cut may bring back a branch that somebody was told is deleted."""
    from omnigraph_core.tables import branches

    plant.replace(branches, "sync_ref_removed", _nothing)


# ---- plans of schema changes ----


@bug(
    f"{INDEXES}::test_an_index_follows_its_column_when_names_are_handed_on[local]",
    r"At index 0 diff: BuiltIndex\(name='body_fts'",
)
def find_indexes_by_name(plant: Plant) -> None:
    """An index counts as that of the column whose name is in its own."""
    from omnigraph_core.tables.indexes import BuiltIndex

    plant.replace(BuiltIndex, "serves", lambda original: lambda self, spec: self.name == spec.name)


@bug(f"{ANSWERS}::test_a_default_is_the_same_in_all_rows", r"Answer\(rows=0")
def forget_what_defaults_fill(plant: Plant) -> None:
    """A uniqueness is asked of the rows as they are, not as they would be."""
    from omnigraph_core.migrate.answers import NONE, Asked

    def shared(original: Any) -> Any:
        return lambda self, columns: NONE if any(map(self._is_constant, columns)) else original(self, columns)

    plant.replace(Asked, "_shared", shared)


@bug(f"{DEFAULTS}::test_an_export_with_nulls_comes_back_as_it_was", r"assert \['good', 'good'\]")
def fill_nulls_with_defaults(plant: Plant) -> None:
    """A null is taken for a value that is missing, so that a default brings back what was cleared."""
    from omnigraph_core.load.formats import jsonl_fast

    def filled(original: Any) -> Any:
        def every_null(column: Any, prop: Any, lines: Any) -> Any:
            default = jsonl_fast.default_scalar(prop)
            return column if default is None else column.fill_null(default)

        return every_null

    plant.replace(jsonl_fast, "_filled", filled)


@bug(
    f"{EVOLVE}::test_hints_move_properties_at_once_or_not_at_all[old name again, new]",
    r"assert \{'a': 'a', 'b': None\}",
)
def match_by_name_before_hints(plant: Plant) -> None:
    """A name that exists keeps its column, so a column whose name was handed on is lost."""
    from omnigraph_core.schema.evolve import names

    def claim(original: Any) -> Any:
        def only_what_leaves(self: Any, name: str) -> None:
            if self._hints[name] not in self._hints:
                original(self, name)

        return only_what_leaves

    plant.replace(names._Match, "_claim", claim)


@bug(
    f"{EVOLVE}::test_the_data_is_asked_only_what_the_schemas_cannot_tell[unique of less]",
    r"assert \[\] == \[Distinct",
)
def take_any_unique_for_another(plant: Plant) -> None:
    """A wider uniqueness is believed to hold a narrower one."""
    from omnigraph_core.schema.evolve import rules

    plant.replace(rules, "_tells_apart", lambda original: lambda constraint, columns: True)


@bug(
    f'{EVOLVE}::test_a_key_widens_only_where_its_ids_stay[b: {{}} @key @rename_from("a")-I32-F64-False]',
    r"assert True == False",
)
def widen_keys_like_any_property(plant: Plant) -> None:
    """The ids of existing nodes no longer are the texts of their keys."""
    from omnigraph_core.schema.evolve import compare

    plant.replace(compare, "_key_columns", lambda original: lambda type_, names: frozenset())


# ---- what loads stage, and the branches they make ----

PROVISIONAL = "tests/crash/test_provisional.py"
STAGING = "tests/crash/test_staging.py"
SWEPT = "tests/crash/test_swept_loads.py"
OVERTAKEN = "tests/contract/test_overtaken.py"
INIT = "tests/crash/test_init.py"


@bug(
    f"{PROVISIONAL}::test_a_sweep_removes_no_branch_that_is_being_written_to",
    r"an acknowledged write is gone with its branch",
)
def judge_a_branch_before_locking_it(plant: Plant) -> None:
    """Whether a branch was written to is asked first; then it is deleted, under the locks."""
    from omnigraph_core import faults
    from omnigraph_core.write import branches, opening, provisional
    from omnigraph_core.write.moves import Note

    def forget(door: Any, record: Any, *, patient: bool) -> bool:
        if not provisional._was_written(door, record):
            faults.hit("branch.to_be_forgotten")
            branches.delete_branch(door, record.branch, Note("ann"))
        return True

    plant.replace(opening, "forget_unwritten", lambda original: forget)


@bug(
    f"{PROVISIONAL}::test_a_branch_of_the_same_name_made_after_it_is_another",
    r"assert \['main'\] == \['main', 'x'\]",
)
def know_a_branch_by_its_name(plant: Plant) -> None:
    """The branch of the name in the record is taken for the one that the load had made."""
    from omnigraph_core.write import provisional

    class Whatever:
        def __ne__(self, other: object) -> bool:
            return False

    def read(original: Any) -> Any:
        return lambda *given: replace(original(*given), identity=Whatever())

    plant.replace(provisional, "read_fork", read)


@bug(
    f"{PROVISIONAL}::test_of_two_loads_into_one_new_name_none_removes_the_branch_of_the_other",
    r"a sweep took the branch that a live load is about to write to",
)
def forget_a_branch_that_another_load_wants(plant: Plant) -> None:
    """Only what was written counts, not who is about to."""
    from omnigraph_core.write import provisional

    plant.replace(provisional, "other_is_staging", lambda original: lambda *given, **named: False)


@bug(f"{PROVISIONAL}::test_a_sweep_waits_for_no_writer", r"the lock 'branch\.x\S*' is held by|is held by")
def wait_for_writers_in_a_sweep(plant: Plant) -> None:
    """The same, where somebody writes to the branch that a dead load has made."""
    wait_in_a_sweep(plant)


@bug(f"{PROVISIONAL}::test_a_sweep_waits_for_nobody_who_makes_branches", r"the lock 'refs' is held by")
def wait_in_a_sweep(plant: Plant) -> None:
    """A sweep deletes the branch of a dead load as anybody would: when its lock can be had."""
    from omnigraph_core.write import branches, opening, staging

    def sweep(storage: Any, forget_branch: Any) -> Any:
        for operation_id in staging.staged_operations(storage):
            lock = storage.locks.lock(staging.staging_lock(operation_id))
            if lock.try_acquire():
                with lock:
                    branches.delete_branch(
                        forget_branch.args[0], staging.read_record(storage, operation_id).branch, "ann"
                    )
        return staging.StagingSweep((), ())

    plant.replace(opening, "sweep_staging", lambda original: sweep)


@bug(
    f"{STAGING}::test_a_sweep_that_slept_takes_nothing_from_a_write_that_went_on",
    r"assert False\n.*where False = exists\(\)",
)
def sweep_without_a_claim(plant: Plant) -> None:
    """Who has the lock may delete; whether the record is still the one that was read is not asked."""
    from omnigraph_core.write import staging

    plant.replace(staging, "_claimed", lambda original: lambda *given: True)


@bug(
    f"{SWEPT}::test_a_load_that_was_swept_stops_and_leaves_nothing[write.after_a-append]",
    r"DID NOT RAISE|StagedFileMissing|StorageError",
)
def hand_over_what_is_not_there(plant: Plant) -> None:
    """A load writes its record whatever became of it, and goes on."""
    from omnigraph_core.write.staging import KeptRecord

    def amend(kept: Any, **changes: Any) -> None:
        kept.record = replace(kept.record, **changes)
        kept._e_tag = kept._storage.control.put(kept.record.path, kept.record.encode())

    plant.replace(KeptRecord, "amend", lambda original: amend)


@bug(
    f"{SWEPT}::test_a_command_that_looks_once_sweeps_the_dead_and_not_the_living",
    r"Left contains one more item",
)
def never_take_a_lease_at_first_sight(plant: Plant) -> None:
    """Only a lease that was watched run out is taken over."""
    from omnigraph_core.storage.lease_object import LeaseWatch

    plant.replace(LeaseWatch, "is_long_dead", lambda original: lambda *given: False)


@bug(
    f"{SWEPT}::test_a_command_that_looks_once_sweeps_the_dead_and_not_the_living",
    r"it may still be alive",
)
def take_every_lease_at_first_sight(plant: Plant) -> None:
    """A lease that somebody holds is old."""
    from omnigraph_core.storage.lease_object import LeaseWatch

    plant.replace(LeaseWatch, "is_long_dead", lambda original: lambda *given: True)


@bug(
    f"{STAGING}::test_a_record_is_understood_in_full_or_not_at_all[paths is ['nodes']]",
    r"DID NOT RAISE",
)
def believe_what_a_record_names(plant: Plant) -> None:
    """A staging record may name any folder of the graph."""
    from omnigraph_core.write import staging_record

    plant.replace(staging_record, "_checked", lambda original: lambda operation_id, path: path)


@bug(f"{INIT}::test_nobody_takes_the_record_of_an_init_at_work", r"Finished\(code=0")
def write_to_a_graph_that_is_not_made_yet(plant: Plant) -> None:
    """A writer does not wait for the init that is at its last step."""
    from omnigraph_core.write import opening

    plant.replace(opening, "_finish_init", _nothing)


@bug(f"{INIT}::test_what_a_dead_init_made_is_synced_before_its_record_goes", r"__manifest/_versions/")
def acknowledge_for_a_dead_init_without_its_syncs(plant: Plant) -> None:
    """The record of an init that had made its graph goes at once."""
    from omnigraph_core.write import creation, opening

    def finish(storage: Any, tables: Any, guard: Any) -> None:
        for operation_id in creation.init_records(storage.control):
            creation._forget_record(storage, operation_id)

    plant.replace(opening, "finish_init", lambda original: finish)


@bug(f"{OVERTAKEN}::test_it_is_as_if_the_load_had_come_after[its id]", r"RecordsConflict")
def publish_whatever_came_meanwhile(plant: Plant) -> None:
    """A load is rebased without a look at what the others wrote."""
    from omnigraph_core.load import run

    plant.replace(run, "concern", lambda original: lambda moved, changes: False)


@bug(f"{OVERTAKEN}::test_nobody_waits_for_the_check_of_a_long_load[append]", r"LockTimeout")
def check_a_long_load_under_the_lock(plant: Plant) -> None:
    """After a lost race a load of any size is planned under the lock."""
    from omnigraph_core.load.run import Load
    from omnigraph_core.write.door import Door

    plant.replace(Load, "_rebased", lambda original: lambda *given: None)
    plant.replace(
        Door, "write", lambda original: lambda door, branch, build, **named: original(door, branch, build)
    )


@bug(
    "tests/contract/test_arguments.py::test_what_cannot_work_changes_nothing[a number as message]",
    r"is not a text: 4711",
)
def look_at_no_argument(plant: Plant) -> None:
    """What callers pass is believed to be of the declared type."""
    from omnigraph_core import arguments

    plant.replace(arguments, "optional_texts", _nothing)


# ---- schema apply ----


@bug(
    f"{APPLY_DEATHS}::test_dying_at_every_step[all together-main-write.table_committed.1]",
    r"TableNotFound|does not exist|never registered|is missing",
)
def undo_a_renamed_table_by_its_new_key(plant: Plant) -> None:
    """Recovery takes a table whose key is new for one that the write made, and removes it."""
    from omnigraph_core.write import classify
    from omnigraph_core.write.recovery import Recoverer

    def removed(self: Any, case: Any, head: Any) -> bool:
        self._storage.control.delete_prefix(head.ref.directory)
        return True

    def judged(original: Any) -> Any:
        return lambda tables, table, state, known_as: original(tables, table, state, None)

    plant.replace(classify, "_find", judged)
    plant.replace(Recoverer, "_remove_unregistered", lambda original: removed)


@bug(
    f"{APPLY_DEATHS}::test_dying_at_every_step[all together-main-write.after_c]",
    r"_schema\.pg",
)
def recover_without_promoting(plant: Plant) -> None:
    """The files in the root stay what they were when the writer died before it replaced them."""
    from omnigraph_core.write import opening, phases, recovery

    plant.replace(recovery, "promote_schema", _nothing)
    plant.replace(phases, "promote_schema", _nothing)
    plant.replace(opening, "promote_head", _nothing)


@bug(
    f"{APPLY}::test_a_plan_for_a_table_that_another_has_taken_the_place_of_is_stale",
    r"assert 1 == 2|does not exist|has no version|VersionNotFound",
)
def tell_a_table_by_its_key(plant: Plant) -> None:
    """A plan holds as long as the key has the same version, whichever table has the key."""
    from omnigraph_core.write import freshness

    plant.replace(freshness, "_is_another", lambda original: lambda before, now: False)


@bug(f"{COLUMNS}::test_one_value_for_all_rows_is_written_once_and_copied[local]", r"assert|''")
def copy_from_any_fragment(plant: Plant) -> None:
    """The file of a fragment that has lost rows is copied to others: their rows lack the value."""
    from omnigraph_core.tables import column_files

    plant.replace(column_files, "_is_model", lambda original: lambda fragment: True)


@bug(f"{APPLY_STAGING}::test_a_dead_apply_is_swept_and_a_live_one_is_not[schema.staged-main]", r"assert not")
def stage_columns_off_the_record(plant: Plant) -> None:
    """An apply tells nobody of the files it writes."""
    from omnigraph_core.write.on_record import FilesOnRecord

    plant.replace(FilesOnRecord, "add", _nothing)


@bug(
    f"{APPLY_STAGING}::test_what_is_dropped_for_good_is_gone_with_the_commits_that_had_it[main]",
    r"assert \[.*\] == \[\]",
)
def leave_dropped_bytes(plant: Plant) -> None:
    """A hard drop takes the column away and leaves its values in the files."""
    from omnigraph_core.tables import evolve

    plant.replace(evolve, "stage_purge", lambda original: lambda *given, **named: [])


@bug(f"{LANCE_COLUMNS}::test_the_id_of_a_dropped_column_shows_its_values", r"DID NOT RAISE")
def believe_what_lance_accepts(plant: Plant) -> None:
    """A change of columns is committed without a look at what it makes."""
    from omnigraph_core.tables import evolve

    plant.replace(evolve, "_prove", _nothing)


@bug(
    f"{LANCE_COLUMNS}::test_merge_and_a_writer_of_rows_keep_each_other_out[local-the columns-append-main]",
    r"DID NOT RAISE",
)
def give_the_fence_away(plant: Plant) -> None:
    """A change of columns says that it preserves nullability, and lets paused appends land."""
    from lance.dataset import LanceOperation

    from omnigraph_core.tables import evolve

    def flagged(original: Any) -> Any:
        def prepared(ref: Any, kind: Any, version: int, change: Any, *more: Any, **named: Any) -> Any:
            if isinstance(change, LanceOperation.Merge):
                change = LanceOperation.Merge(change.fragments, change.schema, preserves_nullability=True)
            return original(ref, kind, version, change, *more, **named)

        return prepared

    plant.replace(evolve, "prepare", flagged)


@bug(f"{COMPARED}::test_columns_are_matched_by_field_identity_as_far_as_lineages_share_it", r"height|weight")
def trust_field_ids_across_lineages(plant: Plant) -> None:
    """A field id means the same column on every lineage, whoever handed it out."""
    from omnigraph_core.tables import lineage

    plant.replace(lineage, "_roots_before", lambda original: lambda tables, a, b: set(range(1000)))


@bug(
    f"{COMPARED}::test_a_row_that_two_lineages_changed_in_versions_of_the_same_number[local]",
    r"assert",
)
def trust_row_versions_across_lineages(plant: Plant) -> None:
    """A row id and a version mean the same row on every lineage, whoever handed them out."""
    from omnigraph_core.tables import compare
    from omnigraph_core.tables.lineage import Parting

    plant.replace(compare, "parting", lambda original: lambda tables, a, b: Parting(10**9, 0))


@bug(f"{EQUALITY}::test_floats_by_bits_but_for_nan", r"AssertionError|assert")
def compare_floats_as_numbers(plant: Plant) -> None:
    """-0.0 is the same as 0.0."""
    from omnigraph_core.diff import equality

    def differ(x: Any, y: Any) -> Any:
        one, other = (values.to_numpy(zero_copy_only=False) for values in (x, y))
        return (one != other) & ~((one != one) & (other != other))

    plant.replace(equality, "_floats_differ", lambda original: differ)


@bug(f"{MERGED}::test_a_change_taken_back_stays_taken_back", r"m1")
def merge_from_one_base_of_several(plant: Plant) -> None:
    """Of several lowest common ancestors any one will do."""
    from omnigraph_core.history import bases

    plant.replace(bases, "_lowest", lambda original: lambda parents, among: original(parents, among)[:1])


@bug(f"{MERGED_ROWS}::test_the_ends_of_an_edge_are_one_value", r"assert")
def merge_the_ends_of_an_edge_apart(plant: Plant) -> None:
    """An edge that was moved at one end on each side is moved at both."""
    from omnigraph_core.merge import rows

    plant.replace(
        rows, "units_of", lambda original: lambda names: {name: (name,) for name in names if name != "id"}
    )


@bug(f"{MERGED_ROWS}::test_where_bases_clash_the_virtual_one_has_a_value_of_nobody", r"assert")
def take_ours_where_bases_clash(plant: Plant) -> None:
    """A virtual base has the value of one of its bases where they do not agree."""
    from omnigraph_core.merge import rows

    plant.replace(rows, "virtual", lambda original: lambda *sides: rows.Rows(original(*sides).table, {}))


@bug(f"{MERGES}::test_a_source_that_is_replaced_is_not_merged", r"DID NOT RAISE")
def merge_what_had_the_name(plant: Plant) -> None:
    """Nobody looks whether the branches that were read are still the same."""
    from omnigraph_core.merge import states

    plant.replace(states.States, "prove", _nothing)


@bug(f"{MERGES}::test_a_base_is_read_from_a_branch_that_is_put_aside", r"assert")
def forget_bases_of_deleted_branches(plant: Plant) -> None:
    """What a deleted branch brought to both sides is a change of each."""
    from omnigraph_core.history import travel

    plant.replace(travel, "find_aside", lambda original: lambda tables, branch: None)


@bug(f"{MERGES}::test_without_any_base_all_of_theirs_is_new", r"assert")
def merge_nothing_without_a_base(plant: Plant) -> None:
    """Theirs is as in all bases, of which there are none."""
    from omnigraph_core.merge import engine

    plant.replace(engine._Merger, "_candidates", lambda original: lambda self, changed: [])


@bug(
    "tests/cli/test_merge.py::test_a_file_of_conflicts_that_cannot_be_written_is_refused_before_anything_is_done",
    r"assert",
)
def find_out_after_the_merge_where_conflicts_go(plant: Plant) -> None:
    """Whether the file can be written is asked when there is something to write."""
    from omnigraph_cli import conflict_file

    plant.replace(conflict_file.ConflictFile, "__enter__", lambda original: lambda self: self)


@bug(
    "tests/crash/test_put_aside.py::test_a_record_that_says_something_else_than_was_written_is_damage",
    r"DID NOT RAISE",
)
def believe_every_record(plant: Plant) -> None:
    """A record that can be parsed is as it was written."""
    from omnigraph_core.history import sealed

    plant.replace(sealed, "_digest", lambda original: lambda content: content.get("digest"))


@bug(f"{MERGES}::test_a_head_that_moves_without_a_table_makes_the_bases_stale", r"assert")
def merge_onto_any_head(plant: Plant) -> None:
    """The bases of a merge hold although the head has moved."""
    from omnigraph_core.merge import run

    plant.replace(run.Merge, "_check_head", _nothing)


@bug(f"{MERGE_DEATHS}::test_dying_at_every_step[merge-write.after_d]", r"AssertionError|assert|Error")
def leave_merged_commits_behind(plant: Plant) -> None:
    """A merge names its second parent, whose row stays on the other branch alone."""
    from omnigraph_core.merge import run

    plant.replace(run, "carry_commits", _nothing)


@bug("tests/contract/test_seals.py::test_another_actor_is_found", r"assert")
def seal_without_the_actor(plant: Plant) -> None:
    """Anybody may have made the commit."""
    from omnigraph_core.maintenance.checks import seals
    from omnigraph_core.manifest import seal

    def forgetful(original: Any) -> Any:
        return lambda commit, parent_seal: original(replace(commit, actor_id=None), parent_seal)

    plant.replace(seal, "seal_for", forgetful)
    plant.replace(seals, "seal_for", forgetful)


@bug("tests/contract/test_row_versions.py::test_a_replaced_row_still_says_so", r"assert")
def level_replaced_rows_like_new_ones(plant: Plant) -> None:
    """A row that was replaced looks as if it had been new then."""
    from omnigraph_core.tables import row_versions

    def careless(original: Any) -> Any:
        return lambda pair, ordered: original((pair[0], pair[2], pair[2]), ordered)

    plant.replace(row_versions, "_levelled", careless)


@bug("tests/contract/test_transaction_files.py::test_one_that_no_version_repeats_stays", r"assert")
def remove_every_old_transaction_file(plant: Plant) -> None:
    """Nobody looks whether a version says the same."""
    from omnigraph_core.tables import transactions

    plant.replace(transactions, "_repeated", lambda original: lambda *given: 1)


BLAMES = "tests/contract/test_blame.py"


@bug(f"{BLAMES}::test_a_merged_branch_is_followed_while_its_files_are_there", r"assert")
def blame_the_merge(plant: Plant) -> None:
    """A value that a merge took from another branch is said to be the merge's own."""
    from omnigraph_core.diff.entity import RowsOnTrails

    def on_main(original: Any) -> Any:
        return lambda self, before, after: (
            {} if before.table.ref.branch is not None else original(self, before, after)
        )

    plant.replace(RowsOnTrails, "equal", on_main)


@bug(f"{BLAMES}::test_renamed_added_and_widened_properties", r"assert")
def blame_by_row_versions_alone(plant: Plant) -> None:
    """A schema gives rows values without writing them, and blame passes over it."""
    from omnigraph_core.diff.trails import Trail

    plant.replace(Trail, "redeclared", lambda original: lambda self, start, end: None)


@bug(f"{BLAMES}::test_what_cleanup_removed_is_the_end_and_tags_are_not", r"VersionNotFound")
def blame_what_was_removed(plant: Plant) -> None:
    """What cleanup removed is read as long as its files last, or blamed on who came after."""
    from omnigraph_core.diff.trails import Trail

    plant.replace(Trail, "limit_at", _nothing)


# ---- maintenance ----

CLEANUPS = "tests/contract/test_cleanup.py"
LEFTOVERS = "tests/contract/test_leftovers.py"


@bug(f"{CLEANUPS}::test_what_a_staged_write_pins_stays_with_its_successor", r"assert \{")
def forget_the_successor_of_a_pin(plant: Plant) -> None:
    """Lance looks for conflicts from the pinned version upwards, and finds the next one missing."""
    from omnigraph_core.maintenance import keep

    def pins_alone(original: Any) -> Any:
        def keep_staged(self: Any) -> None:
            for operation_id in keep.staged_operations(self._storage):
                for _, version in keep.read_record(self._storage, operation_id).pinned:
                    self._kept.add_everywhere(version)

        return keep_staged

    plant.replace(keep.Keeper, "_keep_staged", pins_alone)


@bug(f"{CLEANUPS}::test_a_commit_with_a_tag_stays_until_the_tag_goes", r"assert")
def forget_tags(plant: Plant) -> None:
    """A commit that has a tag is as old as any other."""
    from omnigraph_core.maintenance import keep

    plant.replace(keep, "named_commits", lambda original: lambda storage, log: [])


@bug(f"{CLEANUPS}::test_a_branch_that_has_forked_nothing_keeps_what_it_inherits", r"Error|assert")
def forget_lazy_branches(plant: Plant) -> None:
    """Only branches with tables of their own count."""
    from omnigraph_core.maintenance.keep import Keeper

    class Forked:
        def __init__(self, manifest: Any, names: set[str]) -> None:
            self._manifest, self._names = manifest, names

        def __getattr__(self, name: str) -> Any:
            return getattr(self._manifest, name)

        def branches(self) -> Any:
            return {name: each for name, each in self._manifest.branches().items() if name in self._names}

    def without_lazy(original: Any) -> Any:
        def run(self: Any, places: Any, now_s: float) -> Any:
            places = list(places)
            names = {name for place in places if not place.is_control for name in place.forks}
            self._manifest = Forked(self._manifest, names)
            return original(self, places, now_s)

        return run

    plant.replace(Keeper, "run", without_lazy)


@bug(f"{LEFTOVERS}::test_rows_of_removed_versions_go_and_nothing_else_changes", r"assert")
def prune_rows_that_are_needed(plant: Plant) -> None:
    """Every row but those of the head goes."""
    from omnigraph_core.maintenance import control

    plant.replace(
        control,
        "superseded_rows",
        lambda original: lambda table, state, is_kept: original(table, state, lambda *_: False),
    )


@bug(f"{LEFTOVERS}::test_staged_files_stay_while_anybody_has_a_record", r"path\.exists\(\)|assert")
def remove_staged_files_of_the_living(plant: Plant) -> None:
    """A record that is there keeps no file that is not on its list yet."""
    from omnigraph_core.maintenance import leftovers

    plant.replace(leftovers, "staged_operations", lambda original: lambda storage: [])


@bug(f"{NAMES}::test_a_load_never_writes_to_a_branch_that_is_called_otherwise[meanwhile]", r"DID NOT RAISE")
def load_into_whatever_is_on_the_line(plant: Plant) -> None:
    """A load that was to make a branch writes to the one on its line, whatever that is called."""
    from omnigraph_core.load import run

    plant.replace(run, "prove_called", _nothing)


@bug(f"{NAMES}::test_a_load_that_makes_a_branch_gives_no_renamed_one_up", r"NothingToUndelete")
def make_branches_where_renamed_ones_are(plant: Plant) -> None:
    """A new branch gets the line of its name, though a renamed one that was deleted is still there."""
    from omnigraph_core.opened import OpenGraph

    plant.replace(OpenGraph, "_new_line", lambda original: lambda self, name: name)


USED_NAMES = "tests/contract/test_merge_used_names.py"


@bug(f"{USED_NAMES}::test_an_edit_of_a_dropped_column_never_goes_to_one_of_its_name", r"DID NOT RAISE")
def merge_columns_by_name(plant: Plant) -> None:
    """A merge takes a property that was dropped and added again for the one that had its name."""
    from omnigraph_core.diff import columns

    def by_name(original: Any) -> Any:
        return lambda tables, a, b, **_: original(tables, a, b)

    plant.replace(columns, "common_columns", by_name)


@bug(f"{USED_NAMES}::test_a_column_that_is_wide_and_renamed_is_what_it_was", r"SchemasDiffer")
def forget_what_a_wide_column_was(plant: Plant) -> None:
    """A column that is written anew in a wider type does not say which one it was."""
    from omnigraph_core.tables.evolve import _Change

    plant.replace(_Change, "_root", _nothing)


@bug(
    "tests/contract/test_merge_schemas.py::test_what_the_other_side_wrote_is_never_dropped", r"DID NOT RAISE"
)
def merge_drops_what_was_written(plant: Plant) -> None:
    """A merge takes a drop along although the other side has written to what goes."""
    from omnigraph_core.merge import run

    plant.replace(run, "lost_edits", lambda original: lambda ground: [])


PERMUTED = "tests/contract/test_permuted_ids.py"


@bug(f"{PERMUTED}::test_edges_follow_in_every_format_and_order[edges first-jsonl]", r"not found in Part")
def edges_stay_behind(plant: Plant) -> None:
    """A node that came under another id gets its own, and edges go on naming the other."""
    from omnigraph_core.load.held_rows import SpooledRows

    plant.replace(SpooledRows, "rewrite", _nothing)


@bug(f"{PERMUTED}::test_an_id_that_could_mean_two_nodes[1-the id of a node that gives it]", r"DID NOT RAISE")
def an_id_means_two_nodes(plant: Plant) -> None:
    """Nobody asks whether an id in another order is the id of another node."""
    from omnigraph_core.load.renaming import _Renamed

    plant.replace(_Renamed, "check", _nothing)


@bug("tests/contract/test_library.py::test_read_only_refuses_every_write", r"DID NOT RAISE")
def reading_is_enough_to_write(plant: Plant) -> None:
    """A graph that was opened for reading lets itself be written through."""
    from omnigraph_core.opened import OpenGraph

    plant.replace(OpenGraph, "_refuse_read_only", _nothing)


TOPOLOGY = "tests/contract/test_topology.py"


@bug(f"{TOPOLOGY}::test_edges_that_came_and_went_are_told_apart", r"AssertionError")
def topology_forgets_what_is_gone(plant: Plant) -> None:
    """Edges that were deleted since a topology index was built are still followed."""
    from omnigraph_core.topology import delta

    plant.replace(delta, "_without", lambda original: lambda values, others: values[:0])


@bug(f"{TOPOLOGY}::test_a_file_in_the_place_of_another_is_not_believed", r"AssertionError")
def topology_believes_any_file(plant: Plant) -> None:
    """A file of arrays is not asked for its name."""
    from omnigraph_core.topology import store

    def nameless(original: Any) -> Any:
        def decoded(name: str, data: memoryview) -> Any:
            from omnigraph_core.topology.format import _read_header

            return original(_read_header(data)["name"], data)

        return decoded

    plant.replace(store, "decoded", nameless)


@bug(
    "tests/contract/test_query_memory.py::test_a_match_larger_than_memory_gives_the_same_answer_in_parts",
    r"AssertionError",
)
def a_part_of_a_match_is_lost(plant: Plant) -> None:
    """Where the rows of a match are divided, the last part is forgotten."""
    from omnigraph_core.read.match.parts import Part

    plant.replace(Part, "divided", lambda original: lambda self, parts: list(original(self, parts))[:-1])


@bug("tests/fuzz/test_records.py::test_a_few_mutants[lock]", r"TypeError|OverflowError|AttributeError")
def believe_a_lock_record(plant: Plant) -> None:
    """What a lock file says of its holder is taken as it is."""
    from omnigraph_core.storage.locks import LockHolder

    def unchecked(_: Any) -> Any:
        return lambda fields: None if fields is None else LockHolder(**fields._content)

    plant.replace(LockHolder, "of", unchecked)


@bug("tests/spark/test_sink.py::test_a_write_that_spark_aborts_is_gone", r"assert \[.*__staging")
def an_aborted_dataframe_stays(plant: Plant) -> None:
    """A write of a DataFrame that is given up leaves its folder behind."""
    from omnigraph_core.spark.running import RunningJob

    plant.replace(RunningJob, "_clean_up", _nothing)


@bug("tests/spark/test_source.py::test_what_lance_makes_of_pushed_filters", r"In\(attribute")
def a_pushed_filter_hides_a_row(plant: Plant) -> None:
    """Of the values of an `in` that is pushed down, the first is forgotten."""
    from omnigraph_core.spark import pushed

    def short(original: Any) -> Any:
        return lambda column, type_, values: original(column, type_, tuple(values)[1:])

    plant.replace(pushed, "_any_of", short)
