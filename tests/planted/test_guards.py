"""Tests that planted bugs showed to be missing: each of them was the first to notice its bug."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.travel import CommitGone
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.settings import Settings
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import control_table
from omnigraph_core.write import door as door_module
from omnigraph_core.write.plan import WritePlan
from tests.support import warm
from tests.support.dying import die
from tests.support.plans import Change, write_changes
from tests.support.powercut import Disk, Operation, Survival, record
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.programs import require_program
from tests.support.writers import WRITTEN, check_whole, content, open_graph, rows_for, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def environment(**more: str) -> dict[str, str]:
    """For children started anywhere; keeps the path a planted bug comes in by."""
    clean = clean_environment(**more)
    paths = [str(REPOSITORY), *filter(None, [clean.get("PYTHONPATH")])]
    return {**clean, "PYTHONPATH": ":".join(paths)}


def while_planning(graph: Graph, happens: Callable[[], object], *, strict: bool = False) -> list[WritePlan]:
    """Let something happen once, between the next plan and its publish; the plans published then."""
    publish = graph.door.publish
    plans: list[WritePlan] = []

    def interrupted(plan: WritePlan) -> door_module.Published:
        if not plans:
            happens()
        plans.append(plan)
        if strict:
            plan = WritePlan(
                **{name: getattr(plan, name) for name in WritePlan.__slots__ if name != "strict"}, strict=True
            )
        return publish(plan)

    graph.door.publish = interrupted  # type: ignore[method-assign]
    return plans


# ---- rivals ----


def test_two_that_plan_at_once_both_land(graph: Graph) -> None:
    """The slower one is planned again on what the faster one wrote."""
    rival = open_graph(graph.location.path, SETTINGS)
    plans = while_planning(graph, lambda: write_three(rival, "faster"))
    write_three(graph, "slower")
    assert len(plans) == 2
    check_whole(graph)
    assert all(content(graph)[key] == {"first", "faster", "slower"} for key in WRITTEN)
    assert graph.recoveries() == []


def test_a_strict_write_fails_when_its_tables_moved(graph: Graph) -> None:
    rival = open_graph(graph.location.path, SETTINGS)
    while_planning(graph, lambda: write_three(rival, "faster"), strict=True)
    with pytest.raises(ExpectedVersionMismatch):
        write_three(graph, "slower")
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first", "faster"}
    assert graph.recoveries() == []


def test_who_dies_while_another_plans_is_recovered_under_the_lock(graph: Graph) -> None:
    """Its sidecar was not there yet when planning began, and its write was complete."""
    while_planning(graph, lambda: die(graph, "write.after_b", "dead"))
    write_three(graph, "alive")
    check_whole(graph)
    assert all(content(graph)[key] == {"first", "dead", "alive"} for key in WRITTEN)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]


def test_a_sweep_leaves_a_live_writer_alone(graph: Graph) -> None:
    """It has a sidecar like a dead one; only the lock tells them apart."""
    writer = warm.Popen(
        [sys.executable, "-m", "tests.support.writers", str(graph.location.path), "main", "slow"],
        env=environment(OMNIGRAPH_FAILPOINTS="write.after_b=sleep:600000"),
        cwd=REPOSITORY,
    )
    try:
        while not graph.has_pending() or _head(graph, WRITTEN[-1]) == 2:
            assert writer.poll() is None
        report = graph.prepare_for_writing()
        assert (report.recovered, len(report.live)) == ((), 1)
        assert content(graph)["node:Person"] == {"first"}
    finally:
        writer.kill()
        writer.wait()
    report = graph.prepare_for_writing()
    assert ([each.recovery_kind for each in report.recovered], report.live) == (["RolledForward"], ())
    check_whole(graph)


def test_commits_get_later_while_the_clock_goes_back(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    head = graph.head()
    assert head is not None
    monkeypatch.setattr(door_module, "now_us", lambda: head.created_at - 1_000_000)
    for number in range(3):
        write_three(graph, f"back-{number}")
    times = [each.created_at for each in graph.log().history("main")]
    assert times == sorted(set(times), reverse=True)
    assert [each.message for each in graph.log().history("main")][:3] == [
        f"write back-{number}" for number in (2, 1, 0)
    ]
    check_whole(graph)


# ---- recovery ----


def test_a_foreign_commit_in_the_place_of_ours_is_rolled_back(graph: Graph) -> None:
    """Every version number is the one the sidecar expects, but one transaction is a stranger's."""
    import lance

    die(graph, "write.table_committed.2", "dead")
    moved = [key for key in WRITTEN if _head(graph, key) != graph.snapshot().entry(key).table_version]
    (left,) = set(WRITTEN) - set(moved)
    entry = graph.snapshot().entry(left)
    rows = rows_for(graph.door.tables.open(entry.ref), "foreign")
    lance.write_dataset(rows, str(graph.location.path / entry.table_path), mode="append")
    graph = open_graph(graph.location.path, SETTINGS)
    check_whole(graph)
    assert all(content(graph)[key] == {"first"} for key in WRITTEN)
    (audit,) = graph.recoveries()
    assert audit.recovery_kind == "RolledBack"
    assert {each.table_key: each.classification for each in audit.outcomes}[left] == "UnexpectedAtP1"


def _head(graph: Graph, key: str) -> int:
    return graph.door.tables.open(graph.snapshot().entry(key).ref).version


@pytest.mark.parametrize("sidecar", ["kept", "lost"])
def test_a_torn_version_is_set_aside_by_whoever_comes_next(sidecar: str, graph: Graph) -> None:
    """Recovery meets it, or a writer to whom nobody told that somebody had been writing."""
    die(graph, "write.table_committed.1", "dead")
    (left,) = graph.pending()
    torn = left.tables[0]
    (graph.location.path / manifest_path(torn.ref, torn.post_commit_pin)).write_bytes(b"")
    if sidecar == "lost":
        graph.door.storage.control.delete(left.path)
    write_three(graph, "alive")
    check_whole(graph)
    assert all(content(graph)[key] == {"first", "alive"} for key in WRITTEN)
    kinds = [each.recovery_kind for each in graph.recoveries()]
    assert kinds == (["RolledBack"] if sidecar == "kept" else [])


def test_a_short_deletion_file_is_never_rolled_forward(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lance does not record its size, so the version does not look torn; the sidecar knows better."""
    write_changes(graph, "main", {"node:Person": Change({"ann": 1, "bob": 2})})

    def die_after_b(name: str) -> None:
        if name == "write.after_b":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(faults, "hit", die_after_b)
        with pytest.raises(KeyboardInterrupt):
            write_changes(graph, "main", {"node:Person": Change({"ann": 3})})
    (sidecar,) = graph.pending()
    (deletions,) = [each.path for each in sidecar.tables[0].files if "/_deletions/" in each.path]
    path = graph.location.path / deletions
    path.write_bytes(path.read_bytes()[:-1])
    graph = open_graph(graph.location.path, SETTINGS)
    check_whole(graph)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledBack"]
    person = graph.snapshot().entry("node:Person")
    ages = graph.door.tables.open(person.ref, person.table_version).read(["id", "age"], "id = 'ann'")
    assert ages.to_pylist() == [{"id": "ann", "age": 1}]


@pytest.mark.parametrize("step", ["history.actor_recorded", "history.commit_recorded"])
def test_recovery_adds_no_history_row_twice(step: str, graph: Graph) -> None:
    """The rows themselves: a log that goes by commit id would not show a second one."""
    die(graph, step, "dead")
    graph = open_graph(graph.location.path, SETTINGS)
    check_whole(graph)
    for ref in (commits_ref("main"), control_table(layout.COMMIT_ACTORS)):
        rows = graph.door.tables.open(ref).read(["graph_commit_id"])
        ids = Counter(rows.column("graph_commit_id").to_pylist())
        assert {id_: count for id_, count in ids.items() if count > 1} == {}, ref.path


# ---- branches ----

MAKING_STEPS = {
    "tables.fork_created": False,
    "branch.twin_created": False,
    "branch.manifest_created": True,
}
REMOVING_STEPS = ["tables.fork_ref_deleted", "branch.manifest_deleted"]


def graph_verb(graph: Graph, verb: str, branch: str = "dev") -> list[str]:
    """A command that opens the graph for writing and does something with a branch."""
    program = (
        "import sys; from pathlib import Path; from tests.support.writers import open_graph;"
        f"open_graph(Path(sys.argv[1])).{verb}({branch!r})"
    )
    return [sys.executable, "-c", program, str(graph.location.path)]


def branch_verb(graph: Graph, step: str, verb: str, branch: str = "dev") -> int:
    done = warm.run(
        graph_verb(graph, verb, branch),
        env=environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize("step", MAKING_STEPS)
def test_a_branch_is_there_or_not_wherever_its_making_dies(step: str, graph: Graph) -> None:
    assert branch_verb(graph, step, "create_branch") == -signal.SIGKILL
    graph = open_graph(graph.location.path, SETTINGS)
    assert ("dev" in graph.branches()) is MAKING_STEPS[step]
    check_whole(graph)
    if not MAKING_STEPS[step]:
        graph.create_branch("dev")
    _check_new_branch(graph)


@pytest.mark.parametrize("step", REMOVING_STEPS)
def test_a_branch_whose_removal_died_is_gone_and_its_name_free(step: str, graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "old", "dev")
    assert branch_verb(graph, step, "delete_branch") == -signal.SIGKILL
    graph = open_graph(graph.location.path, SETTINGS)
    assert graph.branches() == ["main"]
    check_whole(graph)
    graph.create_branch("dev")
    assert content(graph, "dev") == content(graph)
    _check_new_branch(graph)


@pytest.mark.parametrize("again", ["dev", "dev/sub"])
@pytest.mark.parametrize("step", REMOVING_STEPS)
def test_forks_that_a_dead_writer_left_do_not_outlive_their_branch(
    step: str, again: str, graph: Graph
) -> None:
    """Forked, never published, and its branch deleted, twice: nobody refers to it, and the name is free."""
    graph.create_branch("dev")
    write_three(graph, "old", "dev")
    graph.create_branch("sub", "dev")
    die(graph, "write.forked", "dead", "sub")
    assert branch_verb(graph, step, "delete_branch", "sub") == -signal.SIGKILL
    assert branch_verb(graph, step, "delete_branch", "dev") == -signal.SIGKILL
    graph.create_branch(again)
    _check_new_branch(graph, again)
    graph.create_branch("sub")
    write_three(graph, "on-sub", "sub")
    check_whole(graph)


def test_a_fork_that_a_dead_writer_left_goes_with_its_branch(graph: Graph) -> None:
    graph.create_branch("dev")
    die(graph, "write.forked", "dead", "dev")
    graph.delete_branch("dev")
    graph.create_branch("dev/sub")
    _check_new_branch(graph, "dev/sub")


def test_a_repair_of_a_deleted_branch_is_not_looked_up_in_a_new_one_of_its_name(graph: Graph) -> None:
    """Its commit stays on record; what it held is gone, and nothing else is shown in its place."""
    graph.create_branch("dev")
    die(graph, "write.table_committed.1", "dead", "dev")
    graph = open_graph(graph.location.path, SETTINGS)
    (repair,) = graph.recoveries()
    graph.delete_branch("dev")
    graph.create_branch("dev")
    for number in range(3):
        write_three(graph, f"other-{number}", "dev")
    assert graph.commit(repair.graph_commit_id).operation == "recovery"
    for look in (graph.snapshot_of, lambda ref: graph.create_branch("copy", ref)):
        with pytest.raises(CommitGone, match="'dev', which is deleted"):
            look(repair.graph_commit_id)
    assert graph.branches() == ["dev", "main"]
    check_whole(graph)


def _check_new_branch(graph: Graph, branch: str = "dev") -> None:
    """It can be written and read, starts at main's head, and has main's history below it."""
    main = graph.log().history("main")
    write_three(graph, "on-branch", branch)
    check_whole(graph)
    assert graph.log().history(branch)[1:] == main
    assert content(graph)["node:Person"] == {"first"}
    assert content(graph, branch)["node:Person"] == {"first", "on-branch"}
    log = control_table(layout.COMMITS, branch)
    ids = graph.door.tables.open(log).read(["graph_commit_id"]).column(0).to_pylist()
    assert len(ids) == len(set(ids)) == len(main) + 1


# ---- power cuts ----


def recorded(graph: Graph, tmp_path: Path, command: list[str]) -> list[Operation]:
    """What a command does to the graph, synced; the graph as it was before is kept beside it."""
    require_program("strace")
    root = graph.location.path
    shutil.copytree(root, tmp_path / "pristine")
    return record(command, root, environment(OMNIGRAPH_FSYNC="on"), tmp_path / "strace.log")


def writer_of(graph: Graph, branch: str = "main") -> list[str]:
    return [sys.executable, "-m", "tests.support.writers", str(graph.location.path), branch, "new"]


def is_after(root: Path, moment: str, branch: str = "main") -> bool:
    """Recover what the disk shows; is the write there, all of it, or nothing of it?"""
    try:
        graph = open_graph(root, SETTINGS)
        check_whole(graph)
        found = content(graph, branch)
        write_three(graph, "again", branch)
        check_whole(graph)
    except Exception as error:
        raise AssertionError(f"{moment}: {type(error).__name__}: {error}") from error
    has = {"new" in found[key] for key in WRITTEN}
    assert len(has) == 1, f"{moment}: half of the write is there"
    assert all(found[key] - {"new"} == {"first"} for key in WRITTEN), moment
    assert all(each.actor_id for each in graph.log().history(branch)), f"{moment}: a commit lost its actor"
    return has == {True}


def check_acknowledged(
    graph: Graph, tmp_path: Path, operations: list[Operation], branch: str = "main"
) -> None:
    """After the last operation nothing may be lost, whatever the disk drops."""
    disk = Disk(tmp_path / "pristine")
    for operation in operations:
        disk.apply(operation)
    for survival in Survival:
        disk.write_to(graph.location.path, survival)
        landed = is_after(graph.location.path, survival.value, branch)
        assert landed, f"{survival.value}: the write is lost"


def test_a_power_cut_after_a_write_loses_nothing(graph: Graph, tmp_path: Path) -> None:
    check_acknowledged(graph, tmp_path, recorded(graph, tmp_path, writer_of(graph)))


def test_a_power_cut_after_two_writes_loses_nothing(graph: Graph, tmp_path: Path) -> None:
    """The rows of the head could be written again from the head row; those of the commit before cannot."""
    script = f"{shlex.join(writer_of(graph))} && {shlex.join(writer_of(graph))}"
    check_acknowledged(graph, tmp_path, recorded(graph, tmp_path, ["sh", "-c", script]))


def test_a_power_cut_after_a_first_write_on_a_branch_loses_nothing(graph: Graph, tmp_path: Path) -> None:
    script = f"{shlex.join(graph_verb(graph, 'create_branch'))} && {shlex.join(writer_of(graph, 'dev'))}"
    check_acknowledged(graph, tmp_path, recorded(graph, tmp_path, ["sh", "-c", script]), "dev")


def test_a_power_cut_after_a_branch_was_deleted_does_not_bring_it_back(graph: Graph, tmp_path: Path) -> None:
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    operations = recorded(graph, tmp_path, graph_verb(graph, "delete_branch"))
    disk = Disk(tmp_path / "pristine")
    for operation in operations:
        disk.apply(operation)
    for survival in Survival:
        disk.write_to(graph.location.path, survival)
        after = open_graph(graph.location.path, SETTINGS)
        assert after.branches() == ["main"], f"{survival.value}: the branch is back"
        after.create_branch("dev")
        _check_new_branch(after)
        after.delete_branch("dev")


def test_a_power_cut_after_recovery_loses_nothing(graph: Graph, tmp_path: Path) -> None:
    """What recovery publishes is safe, also where the dead writer had not come to sync it."""
    script = (
        f"OMNIGRAPH_FAILPOINTS=write.table_committed.3=kill {shlex.join(writer_of(graph))};"
        f"{shlex.join(graph_verb(graph, 'create_branch'))}"
    )
    check_acknowledged(graph, tmp_path, recorded(graph, tmp_path, ["sh", "-c", script]))
    kinds = [each.recovery_kind for each in open_graph(graph.location.path, SETTINGS).recoveries()]
    assert kinds == ["RolledForward"]
