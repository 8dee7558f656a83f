"""Branch create, branch delete and the first write on a branch, asleep past their lease at every step.

Whoever comes next takes over, finishes or repeats what the sleeper was at, and is told
success; then the sleeper wakes up, in the middle of a verb and without a lock. It may
fail, but nothing of what others did may go.

Most of it runs in one process: at a failpoint the sleeper's leases are given away, and
another handle of the graph acts. The two cases that lost data stop a real process with
SIGSTOP, and wait until its lease has run out.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.tables.refs import control_table
from omnigraph_core.write.branches import BranchExists
from tests.support import warm
from tests.support.asleep import Act, Sleeper
from tests.support.dying import die_here
from tests.support.paused import stops
from tests.support.plans import Change, write_changes
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.writers import check_log, check_whole, open_graph

PERSON = "node:Person"

# A third of the steps in the normal run, the others with `make soak`.
in_parts = pytest.mark.parametrize(
    "part", [1, *(pytest.param(number, marks=pytest.mark.soak) for number in (0, 2))]
)


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


@pytest.fixture
def place(s3_location: Callable[[], str], settings: Settings) -> str:
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    write_person(graph, "first", "main")
    return place


def write_person(graph: Graph, name: str, branch: str) -> None:
    # The value is written to the key column: every person has its own.
    write_changes(graph, branch, {PERSON: Change({name: sum(name.encode())})})


@pytest.fixture
def sleeper(place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    return Sleeper(place, settings, monkeypatch)


def create(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)


def delete(graph: Graph, branch: str) -> None:
    graph.delete_branch(branch)


def write(graph: Graph, branch: str) -> None:
    write_person(graph, "sleeper", branch)


def recover(graph: Graph, branch: str) -> None:
    graph.prepare_for_writing(patient=True)


def create_and_write(graph: Graph, branch: str) -> None:
    with suppress(BranchExists):
        graph.create_branch(branch)
    write_person(graph, "rival", branch)


def delete_create_and_write(graph: Graph, branch: str) -> None:
    with suppress(NotFoundError):
        graph.delete_branch(branch)
    create_and_write(graph, branch)


def create_and_delete(graph: Graph, branch: str) -> None:
    with suppress(BranchExists):
        graph.create_branch(branch)
    graph.delete_branch(branch)


def check_branch(place: str, settings: Settings, branch: str, told: set[str], moment: str) -> None:
    """Everything that somebody was told is there, and the branch can be written and read."""
    try:
        graph = open_graph(place, settings)
        write_person(graph, "later", graph.snapshot(branch).on.name)
        entry = graph.snapshot(branch).entry(PERSON)
        found = graph.door.tables.open(entry.ref, entry.table_version).read(["id"]).column("id").to_pylist()
    except OmnigraphError as error:
        raise AssertionError(f"{moment}: {type(error).__name__}: {error}") from error
    assert sorted(found) == sorted({"first", "later", *told}), moment


CREATE_STEPS = [
    "lock.acquired",
    "branch.create_locked",
    "recovery.sidecar_list",
    "branch.create_cleared",
    "tables.fork_cleared",
    "tables.fork_created",
    "branch.twin_created",
    "move.begun",
    "branch.manifest_created",
    "move.moved",
    "move.recorded",
]

DELETE_STEPS = [
    "lock.acquired",
    "branch.delete_locked",
    "recovery.sidecar_list",
    "branch.delete_found",
    "move.begun",
    "branch.put_aside",
    "tables.fork_checked",
    "tables.fork_ref_deleted",
    "move.moved",
    "move.recorded",
    "branch.manifest_deleted",
]

GIVE_UP_STEPS = [
    "branch.given_up",
    "branch.fork_to_delete",
    "tables.fork_listed",
    "tables.fork_checked",
    "tables.fork_ref_deleted",
    "tables.fork_files_deleted",
    "branch.fork_deleted",
]

UNDELETE_STEPS = [
    "lock.acquired",
    "branch.undelete_locked",
    "branch.undelete_checked",
    "move.begun",
    "branch.undeleted",
    "move.moved",
    "move.recorded",
]

FORK_STEPS = [
    "recovery.sidecar_list",
    "lock.acquired",
    "write.fork_wanted",
    "write.fork_found",
    "tables.fork_cleared",
    "tables.fork_created",
    "write.forked",
]


@in_parts
def test_a_create_that_slept_harms_no_branch_made_meanwhile(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    assert sleeper.run(create, "plain")
    assert list(dict.fromkeys(sleeper.passed)) == CREATE_STEPS
    for number, step in enumerate(CREATE_STEPS[part::3]):
        branch = f"b{number}"
        was_told = sleeper.run(create, branch, step, create_and_write)
        assert not was_told or step in CREATE_STEPS[-3:], step
        check_branch(place, settings, branch, {"rival"}, step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))


@in_parts
def test_a_create_that_slept_leaves_a_whole_branch_or_none(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    for number, step in enumerate(CREATE_STEPS[-7:][part::3]):
        branch = f"b{number}"
        sleeper.run(create, branch, step, create_and_delete)
        with suppress(BranchExists):
            open_graph(place, settings).create_branch(branch)
        check_branch(place, settings, branch, set(), step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))


@in_parts
def test_a_delete_that_slept_removes_nothing_of_a_branch_made_meanwhile(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    for number, step in enumerate(DELETE_STEPS[part::3]):
        branch = f"b{number}"
        graph.create_branch(branch)
        write_person(graph, "old", branch)
        sleeper.run(delete, branch, step, delete_create_and_write)
        check_branch(place, settings, branch, {"rival"}, step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))
    assert sleeper.run(delete, "b0")
    assert set(sleeper.passed) == set(DELETE_STEPS)


RENAME_STEPS = [
    "lock.acquired",
    "branch.rename_locked",
    "move.begun",
    "branch.renamed",
    "move.moved",
    "move.recorded",
]


def rename(graph: Graph, branch: str) -> None:
    graph.rename_branch(branch, f"{branch}-sleeper")


def rename_and_write(graph: Graph, branch: str) -> None:
    """The rival writes to the branch whatever it is called, and calls it by its own name if it can."""
    with suppress(NotFoundError):
        graph.rename_branch(branch, f"{branch}-rival")
    (name,) = [each for each in graph.branches() if each.startswith(f"{branch}-")]
    write_person(graph, "rival", graph.snapshot(name).on.name)


def rename_and_create(graph: Graph, branch: str) -> None:
    """The rival makes another branch of the old name."""
    rename_and_write(graph, branch)
    graph.create_branch(branch)
    write_person(graph, "other", graph.snapshot(branch).on.name)


@in_parts
@pytest.mark.parametrize("meanwhile", [rename_and_write, rename_and_create])
def test_a_rename_that_slept_takes_no_name_away_and_gives_none_twice(
    part: int, meanwhile: Act, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    graph.create_branch("plain")
    assert sleeper.run(rename, "plain")
    assert list(dict.fromkeys(sleeper.passed)) == RENAME_STEPS
    for number, step in enumerate(RENAME_STEPS[part::3]):
        branch = f"b{number}"
        graph.create_branch(branch)
        identity = graph.snapshot(branch).on.identity
        was_told = sleeper.run(rename, branch, step, meanwhile)
        assert was_told == (step in RENAME_STEPS[-3:]), step
        (name,) = [each for each in graph.branches() if each.startswith(f"{branch}-")]
        assert name == f"{branch}-sleeper" if was_told else f"{branch}-rival"
        assert graph.snapshot(name).on.identity == identity
        check_branch(place, settings, name, {"rival"}, step)
        if meanwhile is rename_and_create:
            check_branch(place, settings, branch, {"other"}, step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))


def undelete(graph: Graph, branch: str) -> None:
    graph.undelete_branch(branch)


def undelete_and_write(graph: Graph, branch: str) -> None:
    with suppress(OmnigraphError):
        graph.undelete_branch(branch)
    create_and_write(graph, branch)


@in_parts
def test_a_create_that_slept_while_it_gave_a_deleted_branch_up_harms_no_other(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    """The rival brings the old branch back if it can, or makes its own."""
    graph = Graph.open(place, settings)
    for number, step in enumerate(["branch.create_locked", *GIVE_UP_STEPS][part::3]):
        branch = f"b{number}"
        graph.create_branch(branch)
        write_person(graph, "old", branch)
        graph.delete_branch(branch)
        assert not sleeper.run(create, branch, step, undelete_and_write)
        told = {"old", "rival"} if step == "branch.create_locked" else {"rival"}
        check_branch(place, settings, branch, told, step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))
    graph.delete_branch("b0")
    assert sleeper.run(create, "b0")
    assert set(sleeper.passed) >= set(GIVE_UP_STEPS)


@in_parts
def test_an_undelete_that_slept_harms_no_branch_made_meanwhile(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    for number, step in enumerate(UNDELETE_STEPS[part::3]):
        branch = f"b{number}"
        graph.create_branch(branch)
        write_person(graph, "old", branch)
        graph.delete_branch(branch)
        was_told = sleeper.run(undelete, branch, step, delete_create_and_write)
        assert not was_told or step in UNDELETE_STEPS[-3:], step
        check_branch(place, settings, branch, {"rival"}, step)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))
    graph.delete_branch("b0")
    assert sleeper.run(undelete, "b0")
    assert set(sleeper.passed) == set(UNDELETE_STEPS)


@in_parts
@pytest.mark.parametrize("meanwhile", [create_and_write, delete_create_and_write])
def test_a_writer_that_slept_while_forking_removes_no_fork_of_others(
    part: int, meanwhile: Act, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    for number, step in enumerate(FORK_STEPS[part::3]):
        branch = f"b{number}"
        graph.create_branch(branch)
        was_told = sleeper.run(write, branch, step, meanwhile)
        check_branch(place, settings, branch, {"rival", "sleeper"} if was_told else {"rival"}, step)
    check_whole(open_graph(place, settings))
    graph.create_branch("plain")
    assert sleeper.run(write, "plain")
    assert set(FORK_STEPS) <= set(sleeper.passed)


RESTORE_STEPS = ["write.fork_wanted", "write.fork_found", "write.fork_restore_staged", "write.forked"]


def test_a_writer_that_slept_while_restoring_a_fork_buries_nothing(
    place: str, settings: Settings, sleeper: Sleeper
) -> None:
    """Somebody committed to the fork and never published it; the sleeper was about to undo that."""
    graph = Graph.open(place, settings)
    for number, step in enumerate(RESTORE_STEPS):
        branch = f"b{number}"
        graph.create_branch(branch)
        commit_unpublished(graph, branch)
        was_told = sleeper.run(write, branch, step, create_and_write)
        assert step in sleeper.passed
        check_branch(place, settings, branch, {"rival", "sleeper"} if was_told else {"rival"}, step)
    check_whole(open_graph(place, settings))


RECORD_STEPS = [
    "write.published",
    "tables.log_looked_up",
    "history.actor_recorded",
]


def check_history(place: str, settings: Settings, branch: str, moment: str) -> None:
    """The branch's own commits are its head and what that descends from, each once."""
    graph = open_graph(place, settings)
    on = graph.snapshot(branch).on
    rows = graph.door.tables.open(commits_ref(on.name)).read(["graph_commit_id", "manifest_branch"])
    ids = rows.column("graph_commit_id").to_pylist()
    actors = graph.door.tables.open(control_table(layout.COMMIT_ACTORS)).read(["graph_commit_id"])
    for found in (ids, actors.column(0).to_pylist()):
        assert len(set(found)) == len(found), f"{moment}: a commit is there twice"
    made_here = [id_ for id_, line in zip(ids, rows.column(1).to_pylist(), strict=True) if line == on.name]
    descended = {each.commit_id for each in graph.log().history(branch)}
    assert set(made_here) <= descended, f"{moment}: a commit of another branch is there"


@pytest.mark.parametrize(
    ("meanwhile", "told"),
    [(delete_create_and_write, {"rival"}), (create_and_write, {"rival", "sleeper"})],
)
def test_a_writer_that_slept_after_its_publish_records_nothing_on_a_branch_made_meanwhile(
    meanwhile: Act, told: set[str], place: str, settings: Settings, sleeper: Sleeper
) -> None:
    """It was told the truth, too: its publish had landed, and whoever took over completed its record."""
    graph = Graph.open(place, settings)
    for number, step in enumerate(RECORD_STEPS):
        branch = f"b{number}"
        graph.create_branch(branch)
        assert sleeper.run(write, branch, step, meanwhile), step
        assert step in sleeper.passed
        check_history(place, settings, branch, step)
        check_branch(place, settings, branch, told, step)
    check_whole(open_graph(place, settings))


def test_a_recovery_that_slept_records_nothing_on_a_branch_made_meanwhile(
    place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    steps = ["tables.log_looked_up", "recovery.after_publish"]
    for number, step in enumerate(steps):
        branch = f"b{number}"
        graph.create_branch(branch)
        die_here(lambda branch=branch: write_person(graph, "dead", branch), "write.published")
        sleeper.run(recover, branch, step, delete_create_and_write)
        assert step in sleeper.passed
        check_history(place, settings, branch, step)
        check_branch(place, settings, branch, {"rival"}, step)
    check_whole(open_graph(place, settings))


def commit_unpublished(graph: Graph, branch: str) -> None:
    """A commit on the fork of the table that no sidecar explains, as late writers leave."""
    import pyarrow as pa

    from omnigraph_core.tables.commit import commit_exact, unguarded
    from omnigraph_core.tables.stage import stage_delete

    table = graph.door.open_for_write(graph.door.attempt(branch), PERSON).table
    first = pa.chunked_array([["first"]])
    commit_exact(graph.door.tables, stage_delete(graph.door.storage, table, "late", ids=first), unguarded)


def test_a_ref_that_landed_when_its_branch_was_gone_can_be_deleted(place: str, settings: Settings) -> None:
    """Lance writes the tree first; between that and the ref others may have made and deleted the branch."""
    graph = Graph.open(place, settings)
    graph.create_branch("dev")
    graph.door.storage.control.delete_prefix(manifest_ref("dev").directory)
    with pytest.raises(BranchExists):
        graph.create_branch("dev")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    check_branch(place, settings, "dev", set(), "made again")
    check_whole(open_graph(place, settings))


# ---- processes that are stopped ----

LEASE_TTL_S = 3
WAITING_S = 60.0


@contextmanager
def stopped_at(step: str, environment: dict[str, str], *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has stopped itself at a step; goes on when it gets a SIGCONT."""
    process = warm.Popen(
        [sys.executable, *command],
        env=clean_environment(**environment, OMNIGRAPH_FAILPOINTS=f"{step}=stop"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert stops(process), f"it ended before {step}"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def wake(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=WAITING_S)
    return process.returncode, errors


@pytest.fixture
def environment(s3_environment: dict[str, str]) -> dict[str, str]:
    return {**s3_environment, "OMNIGRAPH_LEASE_TTL": f"{LEASE_TTL_S}", "OMNIGRAPH_ACTOR": "ann"}


DELETE_DEV = """
import sys
from tests.support.writers import open_graph
open_graph(sys.argv[1]).delete_branch("dev")
"""


def test_a_process_stopped_while_forking_does_not_delete_the_fork_that_another_published(
    place: str, environment: dict[str, str], settings: Settings
) -> None:
    graph = Graph.open(place, settings)
    graph.create_branch("dev")
    command = ("-m", "tests.support.writers", place, "dev", "sleeper")
    with stopped_at("write.fork_wanted", environment, *command) as sleeper:
        write_person(graph, "rival", "dev")
        code, errors = wake(sleeper)
    assert code != 0
    assert "LockLost" in errors
    check_branch(place, settings, "dev", {"rival"}, "after waking up")
    check_whole(open_graph(place, settings))


@pytest.mark.parametrize("step", ["branch.manifest_deleted", "tables.fork_checked"])
def test_a_process_stopped_while_deleting_removes_nothing_of_the_new_branch(
    step: str, place: str, environment: dict[str, str], settings: Settings
) -> None:
    graph = Graph.open(place, settings)
    graph.create_branch("dev")
    write_person(graph, "old", "dev")
    with stopped_at(step, environment, "-c", DELETE_DEV, place) as sleeper:
        delete_create_and_write(graph, "dev")
        code, errors = wake(sleeper)
    assert (code == 0) is (step == "branch.manifest_deleted"), errors
    check_branch(place, settings, "dev", {"rival"}, "after waking up")
    check_whole(open_graph(place, settings))
