"""Deliberate mistakes, one at a time, to prove that the tests would notice.

Each mistake is planted by replacing a function of the installed library inside a
process, never by editing it; the library does not know of them. `test_planted.py`
runs the guard of each one, a test of the normal suite, with the mistake planted in
pytest and in every process it starts, and requires it to fail.

A mistake is written against the seams of the library as they are. When such a seam
moves, `Plant.replace` says so at once: a mistake that changes nothing proves nothing.
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
    name = os.environ.get(BUG_VARIABLE)
    if name:
        reached = os.environ.get(REACHED_VARIABLE)
        BUGS[name].apply(Plant(Path(reached) if reached else None))


def _nothing(_: Any) -> Callable[..., None]:
    return lambda *arguments, **named: None


def _append_again(_: Any) -> Callable[..., bool]:
    from omnigraph_core.tables.log_append import append_rows

    def append(tables: Any, ref: Any, key: str, *more: Any) -> bool:
        append_rows(tables, ref, *more)
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
    from omnigraph_core.write.door import Door

    def phase_a(door: Door, sidecar: Any) -> None:
        faults.hit("recovery.sidecar_write")
        faults.hit("write.after_a")

    plant.replace(Door, "_phase_a", lambda original: phase_a)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-manifest.after_publish-kill]",
    r"AssertionError: \('main', 'edge:Knows'\)",
)
def publish_before_the_last_table(plant: Plant) -> None:
    """The last table of a write is committed after the publish that names its version."""
    from omnigraph_core.manifest.publisher import Publisher
    from omnigraph_core.write import door

    last: list[Any] = []
    late: list[Callable[[], object]] = []

    def phases(original: Any) -> Any:
        def run(self: door.Door, plan: Any, *more: Any) -> Any:
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

    plant.replace(door.Door, "_phases_b_and_c", phases)
    plant.replace(door, "commit_exact", commit)
    plant.replace(Publisher, "publish", publish)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-history.actor_recorded-kill]",
    r"assert \[\] == \['RolledForward'\]",
)
def delete_the_sidecar_before_the_commit_row(plant: Plant) -> None:
    """Phase D comes before the end of phase C."""
    from omnigraph_core.write import door

    writing: list[tuple[Any, str]] = []

    def phases(original: Any) -> Any:
        def run(self: door.Door, plan: Any, sidecar: Any, *more: Any) -> Any:
            writing[:] = [(self.storage.control, sidecar.path)]
            return original(self, plan, sidecar, *more)

        return run

    def record(original: Any) -> Any:
        def forgetful(*arguments: Any, **named: Any) -> Any:
            control, path = writing[0]
            control.delete(path)
            return original(*arguments, **named)

        return forgetful

    plant.replace(door.Door, "_phases_b_and_c", phases)
    plant.replace(door, "record_commit", record)


@bug(
    f"{DOOR}::test_dying_at_every_step[branch that must fork-write.after_d-kill]",
    r"assert 1 == -<Signals.SIGKILL: 9>",
)
def fork_after_staging(plant: Plant) -> None:
    """Files are staged against the parent's dataset, and committed on the fork."""
    from omnigraph_core.tables.dataset import Table
    from omnigraph_core.write.door import Door

    def open_for_write(original: Any) -> Any:
        def on_the_parent(self: Door, base: Any, table_key: str) -> Any:
            writable = original(self, base, table_key)
            if writable.fork is None:
                return writable
            entry = base.entry(table_key)
            parent = self.tables.open(entry.ref, entry.table_version)
            return replace(writable, table=Table(writable.table.ref, parent.lance))

        return on_the_parent

    plant.replace(Door, "open_for_write", open_for_write)


@bug(f"{RULES}::test_a_failure_in_the_middle_is_settled_at_once", r"assert 'nothing was changed' in 'None'")
def leave_a_failed_phase_to_others(plant: Plant) -> None:
    """A write that fails in the middle raises and does not recover itself."""
    from omnigraph_core.write.door import Door

    def settle(_door: Door, _sidecar: Any, _lock: Any, error: Exception) -> None:
        raise error

    plant.replace(Door, "_settle", lambda original: settle)


@bug(
    f"{RULES}::test_staged_files_that_vanish_are_noticed_before_the_commit",
    r"DID NOT RAISE StagedFileMissing",
)
def trust_the_staged_files(plant: Plant) -> None:
    """Nobody looks whether the staged files are still there."""
    from omnigraph_core.write import freshness

    plant.replace(freshness, "verify_files", _nothing)


@bug(f"{GUARDS}::test_two_that_plan_at_once_both_land", r"recovery_kind='RolledBack'")
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


@bug(f"{PUBLISHER}::test_disjoint_publishes_conflict_through_the_head_row[local-main]", r"assert 2 == 3")
def a_head_row_for_every_commit(plant: Plant) -> None:
    """Two publishes have no key in common when their tables differ."""
    from omnigraph_core.manifest import rows

    def head_row(original: Any) -> Any:
        return lambda head: {**original(head), rows.OBJECT_ID: f"graph_head:{head.commit_id}"}

    plant.replace(rows, "head_row", head_row)


@bug(f"{PUBLISHER}::test_another_head_than_expected_is_refused[local-main]", r"DID NOT RAISE HeadChanged")
def ignore_the_expected_head(plant: Plant) -> None:
    """The publisher does not compare the head row with the one seen under the lock."""
    from omnigraph_core.manifest import publisher

    def check(original: Any) -> Any:
        return lambda request, state: original(
            replace(request, expected_head=None, expected_token=None), state
        )

    plant.replace(publisher, "_check_expectations", check)


@bug(
    f"{RULES}::test_a_reused_branch_name_is_another_branch",
    r"\['RolledBack'\] == \['OrphanedBranchDiscarded'\]",
)
def take_a_reused_name_for_the_old_branch(plant: Plant) -> None:
    """A branch is known by its name alone."""
    from omnigraph_core.manifest.reader import Manifest

    def branch_identity(original: Any) -> Any:
        return lambda manifest, branch: original(manifest, branch) and branch

    plant.replace(Manifest, "branch_identity", branch_identity)


# ---- recovery ----


@bug(
    f"{DOOR}::test_dying_at_every_step[main-write.table_committed.2-kill]",
    r"AssertionError: \('main', 'edge:Knows'\)",
)
def roll_forward_a_partial_set(plant: Plant) -> None:
    """One table that moved is enough to publish all of them."""
    from omnigraph_core.write import recovery

    plant.replace(recovery, "all", lambda original: any)


@bug(
    f"{DOOR}::test_dying_at_every_step[main-write.table_committed.1-kill]",
    r"AssertionError: \('main', 'node:Person'\)",
)
def restore_without_publish(plant: Plant) -> None:
    """Restored tables are not published: HEAD stays ahead of the manifest."""
    from omnigraph_core.write.recovery import Recoverer

    def publish(original: Any) -> Any:
        return lambda self, sidecar, state, restored, lock: original(self, sidecar, state, [], lock)

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
    r'assert all\(content\(graph\)\[key\] == \{"first", "dead", "alive"\}',
)
def heal_only_before_the_lock(plant: Plant) -> None:
    """Sidecars are swept when planning begins, and not again under the lock."""
    from omnigraph_core.write.sweep import Sweeper

    plant.replace(Sweeper, "heal", lambda original: lambda sweeper, branch, lock: [])


@bug(
    f"{DOOR}::test_dying_again_in_recovery[write.after_b-recovery.audited-main]",
    r"olledForward'\] == \['RolledForward'\]",
)
def audit_every_attempt(plant: Plant) -> None:
    """The audit row of a recovery is appended, whether it is there or not."""
    from omnigraph_core.history import recoveries

    plant.replace(recoveries, "append_if_absent", _append_again)


@bug(f"{GUARDS}::test_recovery_adds_no_history_row_twice", r"_graph_commit_actors.lance")
def append_history_rows_again(plant: Plant) -> None:
    """Recovery appends commit and actor rows, whether they are there or not."""
    from omnigraph_core.history import commits

    plant.replace(commits, "append_if_absent", _append_again)


@bug(f"{DOOR}::test_dying_again_in_recovery[write.after_b-recovery.after_publish-main]", r"assert 1 == 0")
def decide_anew_after_each_crash(plant: Plant) -> None:
    """Recovery does not write down what it decided."""
    from omnigraph_core.write import recovery

    def write(control: Any, sidecar: Any, decision: Any) -> Any:
        return replace(sidecar, decision=decision)

    plant.replace(recovery, "write_decision", lambda original: write)


@bug(
    f"{GUARDS}::test_a_short_deletion_file_is_never_rolled_forward",
    r"Arrow file does not contain correct footer",
)
def roll_forward_without_looking_at_the_files(plant: Plant) -> None:
    """Tables that moved are published, whether their data is there or not."""
    from omnigraph_core.write import recovery

    plant.replace(recovery, "files_are_whole", lambda original: lambda storage, sidecar: True)


# ---- durability ----


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
    from omnigraph_core.write import door

    plant.replace(door, "sync_manifests", _nothing)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing",
    r"torn: AssertionError: \('main', 'edge:Knows'\)",
)
def publish_not_synced(plant: Plant) -> None:
    """Barrier C forgets the manifest: an acknowledged write may vanish."""
    from omnigraph_core.manifest import publisher
    from omnigraph_core.tables.durability import Barrier

    class Forgetful(Barrier):
        def add_version(self, table: Any, base: Any) -> None:
            pass

    def publish(original: Any) -> Any:
        def without(self: publisher.Publisher, request: Any, guard: Any, barrier: Any = None) -> Any:
            return original(self, request, guard, Forgetful(self._tables.storage))

        return without

    plant.replace(publisher.Publisher, "publish", publish)


@bug(f"{GUARDS}::test_a_power_cut_after_a_write_loses_nothing", r"torn: AssertionError")
def history_not_synced(plant: Plant) -> None:
    """Barrier C forgets the commit row: history gets a hole with the next commit."""
    from omnigraph_core.tables.durability import Barrier
    from omnigraph_core.write import door

    def record(original: Any) -> Any:
        def without(tables: Any, head: Any, branch: str, version: int, barrier: Any) -> Any:
            return original(tables, head, branch, version, Barrier(tables.storage))

        return without

    plant.replace(door, "record_commit", record)


@bug(
    f"{GUARDS}::test_a_power_cut_after_a_first_write_on_a_branch_loses_nothing",
    r"dropped: (Branch|Table)NotFound",
)
def forks_not_synced(plant: Plant) -> None:
    """A branch and its tables' forks may vanish, though commits on them were synced."""
    from omnigraph_core.write import branches, door, forks

    for module in (branches, door, forks):
        plant.replace(module, "sync_fork", _nothing)


@bug(f"{GUARDS}::test_a_power_cut_after_recovery_loses_nothing", r"dropped: VersionNotFound: .*'edge:Knows'")
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
    from omnigraph_core.write import classify, freshness

    for module in (classify, freshness):
        plant.replace(module, "set_aside_torn", lambda original: lambda *arguments: [])


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
    r"the head row is not ours",
)
def incremental_snapshot_across_a_compaction(plant: Plant) -> None:
    """What is new in the manifest is told by counting fragments, as if none were ever rewritten."""
    from omnigraph_core.manifest import reader
    from omnigraph_core.manifest.snapshot import EMPTY_STATE, STATE_COLUMNS

    def state_of(self: reader.Manifest, table: Any, branch: str, identity: str | None) -> Any:
        known = self._states.get((branch, identity), EMPTY_STATE)
        fragment_ids = sorted(table.fragment_rows())
        rows = table.read(STATE_COLUMNS, fragment_ids=fragment_ids[len(known.fragment_ids) :])
        state = known.advanced(table.version, frozenset(fragment_ids), rows)
        self._states[(branch, identity)] = state
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
        def backwards(tables: Any, source: Any, name: str, version: int) -> Any:
            manifest = manifest_ref(source.branch or "main")
            if source.path == manifest.path:
                return tables.open(source.on(name))
            create(tables, manifest, name, tables.open(manifest).version)
            return original(tables, source, name, version)

        return backwards

    plant.replace(branches, "create_fork", create_fork)
