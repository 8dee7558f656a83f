"""Writers on S3 that die, or that sleep longer than their lease: what others find, and what a sleeper can do.

On S3 nobody knows that a writer is dead. Its lease has to run out first, and it may
wake up at any time after that.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import parse_location
from omnigraph_core.tables.refs import TableRef, control_table
from tests.support import warm
from tests.support.door_steps import COMPLETED, ROLLED_BACK, ROLLED_FORWARD, Outcome
from tests.support.paused import go_on, wait_until_stopped
from tests.support.processes import OMNIGRAPH, REPOSITORY, Omnigraph, clean_environment
from tests.support.records import PEOPLE
from tests.support.writers import WRITTEN, check_whole, content, open_graph, write_three

# The lease of one that dies or sleeps runs out soon; all others have the time that everybody has.
SHORT = {"OMNIGRAPH_LEASE_TTL": "3"}
WAITING_S = 240.0

DEATHS = {
    "write.after_a": ROLLED_BACK,
    "write.table_committed.2": ROLLED_BACK,
    "write.after_b": ROLLED_FORWARD,
    "write.published": COMPLETED,
}


@pytest.fixture
def environment(s3_environment: dict[str, str]) -> dict[str, str]:
    return {**s3_environment, "OMNIGRAPH_ACTOR": "ann"}


@pytest.fixture
def settings(environment: dict[str, str]) -> Settings:
    return load_settings(environment, Path("/"))


@pytest.fixture
def place(s3_location: Callable[[], str], settings: Settings) -> str:
    """A graph with one write in it, and a branch."""
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    write_three(graph, "first")
    graph.create_branch("dev")
    return place


def writer(place: str, branch: str, name: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return warm.Popen(
        [sys.executable, "-m", "tests.support.writers", place, branch, name],
        env=clean_environment(**environment),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_with_success(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=WAITING_S)
    assert process.returncode == 0, errors


def with_name(before: dict[str, set[str]], name: str) -> dict[str, set[str]]:
    return {key: ids | ({name} if key in WRITTEN else set()) for key, ids in before.items()}


def check_history(graph: Graph, branch: str, expected: Outcome) -> None:
    """The audit names the dead writer exactly once, and its commit is there if it is owed one."""
    audits = graph.recoveries()
    assert [each.recovery_kind for each in audits] == ([expected.recovery] if expected.recovery else [])
    assert all((each.recovery_for_actor, each.sidecar_writer_kind) == ("ann", "Load") for each in audits)
    history = graph.log().history(branch)
    by_recovery = [each.commit_id for each in history if each.actor_id == RECOVERY_ACTOR]
    assert by_recovery == [each.graph_commit_id for each in audits]
    originals = [each for each in history if each.message == "write second" and each.actor_id == "ann"]
    assert len(originals) == (1 if expected.original_commit else 0)
    for ref, key in (
        (commits_ref(branch), "graph_commit_id"),
        (control_table(layout.COMMIT_ACTORS), "graph_commit_id"),
        (control_table(layout.RECOVERIES), "operation_id"),
    ):
        ids = graph.door.tables.open(ref).read([key]).column(key).to_pylist()
        assert len(set(ids)) == len(ids), ref.key


# On a branch that must fork, the normal run has one that is rolled back and one that is completed.
TAKEN_OVER = [
    pytest.param(
        step,
        branch,
        marks=[] if branch == "main" or "after" not in step else [pytest.mark.soak],
    )
    for step in DEATHS
    for branch in ("main", "dev")
]


@pytest.mark.parametrize(("step", "branch"), TAKEN_OVER)
def test_the_next_writer_takes_over_from_a_killed_one(
    step: str, branch: str, place: str, environment: dict[str, str], settings: Settings
) -> None:
    before = content(Graph.open(place, settings), branch)
    dead = writer(place, branch, "second", environment | SHORT | {"OMNIGRAPH_FAILPOINTS": f"{step}=kill"})
    dead.communicate(timeout=WAITING_S)
    assert dead.returncode == -signal.SIGKILL
    ends_with_success(writer(place, branch, "third", environment))
    graph = open_graph(place, settings)
    check_whole(graph)
    expected = DEATHS[step]
    found = with_name(before, "second") if expected.applied else before
    assert content(graph, branch) == with_name(found, "third")
    check_history(graph, branch, expected)


# ---- asleep, not dead ----

PAUSES = {
    "write.after_a": ROLLED_BACK,
    "write.table_committed.1": ROLLED_BACK,
    "write.table_committed.2": ROLLED_BACK,
    "write.after_b": ROLLED_FORWARD,
    "manifest.before_publish": ROLLED_FORWARD,
    "write.published": COMPLETED,
}


@contextmanager
def asleep_at(
    step: str, place: str, branch: str, environment: dict[str, str], settings: Settings
) -> Iterator[subprocess.Popen[str]]:
    """A writer of "second" that is stopped at a step, for good until it gets a SIGCONT."""
    points = {**SHORT, "OMNIGRAPH_FAILPOINTS": f"{step}=stop"}
    process = writer(place, branch, "second", environment | points)
    try:
        wait_until_stopped(process)
        assert has_reached(Graph.open(place, settings), step, branch)
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def has_reached(graph: Graph, step: str, branch: str) -> bool:
    """Is all of it visible that a writer has done before it comes to the step?"""
    pending = graph.pending()
    if not pending:
        return False
    moved = 0
    for table in pending[0].tables:
        moved += graph.door.tables.open(table.ref).version > table.expected_version
    head = graph.head(branch)
    published = head is not None and head.message == "write second"
    return {
        "write.after_a": True,
        "write.table_committed.1": moved == 1,
        "write.table_committed.2": moved == 2,
        "write.after_b": moved == 3,
        "manifest.before_publish": moved == 3,
        "write.published": published,
    }[step]


SOAKED = {"write.table_committed.1", "manifest.before_publish"}


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.soak] if step in SOAKED else []) for step in PAUSES]
)
def test_a_writer_that_slept_past_its_lease_cannot_commit(
    step: str, place: str, environment: dict[str, str], settings: Settings
) -> None:
    """Only one that had published already may say that it succeeded, and leaves no second trace."""
    before = content(Graph.open(place, settings))
    with asleep_at(step, place, "main", environment, settings) as sleeper:
        ends_with_success(writer(place, "main", "third", environment))
        expected = PAUSES[step]
        found = with_name(with_name(before, "second") if expected.applied else before, "third")
        graph = open_graph(place, settings)
        assert content(graph) == found
        head = graph.head()
        go_on(sleeper)
        _, errors = sleeper.communicate(timeout=WAITING_S)
    if expected.original_commit:
        assert sleeper.returncode == 0, errors
    else:
        assert sleeper.returncode != 0
        assert any(name in errors for name in ("LockLost", "HeadChanged", "HeadMoved")), errors
    graph = open_graph(place, settings)
    assert graph.head() == head
    assert content(graph) == found
    check_whole(graph)
    check_history(graph, "main", expected)
    ends_with_success(writer(place, "main", "fourth", environment))
    check_whole(open_graph(place, settings))


# ---- init ----

BEFORE_EXISTENCE = ["lock.acquired", "init.recorded", "init.tables_created", "init.files_written"]
AFTER_EXISTENCE = ["init.manifest_created", "init.synced"]


@pytest.mark.parametrize("failpoint", [*BEFORE_EXISTENCE, *AFTER_EXISTENCE])
def test_the_next_init_completes_a_killed_one(
    failpoint: str,
    s3_location: Callable[[], str],
    environment: dict[str, str],
    settings: Settings,
    omnigraph: Omnigraph,
    people: Path,
) -> None:
    place = s3_location()
    killed = environment | SHORT | {"OMNIGRAPH_FAILPOINTS": f"{failpoint}=kill"}
    assert omnigraph("init", "--schema", people, place, environment=killed).code == -signal.SIGKILL
    if failpoint in BEFORE_EXISTENCE:
        assert omnigraph("snapshot", place, environment=environment).code == 6
    again = omnigraph("init", "--schema", people, place, environment=environment)
    assert again.code == (3 if failpoint == "init.synced" else 0), again.err
    graph = open_graph(place, settings)
    check_whole(graph)
    write_three(graph, "first")
    check_whole(graph)


def test_two_inits_at_once_make_one_graph(
    s3_location: Callable[[], str],
    environment: dict[str, str],
    settings: Settings,
    people: Path,
    tmp_path: Path,
) -> None:
    place = s3_location()
    slow = clean_environment(**environment, OMNIGRAPH_FAILPOINTS="init.tables_created=sleep:300")
    rivals = [
        warm.Popen(
            [OMNIGRAPH, "init", "--schema", people, place],
            cwd=tmp_path,
            env=slow,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert sorted(process.wait(240) for process in rivals) == [0, 3, 3]
    check_whole(open_graph(place, settings))


def test_an_init_that_slept_past_its_lease_harms_nobody(
    s3_location: Callable[[], str],
    environment: dict[str, str],
    settings: Settings,
    omnigraph: Omnigraph,
    people: Path,
    tmp_path: Path,
) -> None:
    place = s3_location()
    sleepy = clean_environment(**environment, **SHORT, OMNIGRAPH_FAILPOINTS="init.tables_created=stop")
    command: list[str | Path] = [OMNIGRAPH, "init", "--schema", people, place]
    sleeper = warm.Popen(command, cwd=tmp_path, env=sleepy, stderr=subprocess.PIPE, text=True)
    try:
        wait_until_stopped(sleeper)
        graph = Graph(parse_location(place, Path("/")), settings)
        assert all(map(graph.door.tables.exists, table_refs()))
        assert omnigraph("init", "--schema", people, place, environment=environment).code == 0
        write_three(open_graph(place, settings), "first")
    finally:
        go_on(sleeper)
    _, errors = sleeper.communicate(timeout=WAITING_S)
    assert sleeper.returncode != 0, errors
    graph = open_graph(place, settings)
    check_whole(graph)
    assert all(content(graph)[key] == {"first"} for key in WRITTEN)


def table_refs() -> list[TableRef]:
    keys = (*WRITTEN, "edge:WorksAt")
    return [TableRef(key, layout.table_path(*layout.split_table_key(key))) for key in keys]


def test_recovery_run_waits_for_the_lease_of_a_killed_writer(
    place: str, environment: dict[str, str], settings: Settings, omnigraph: Omnigraph
) -> None:
    dead = writer(
        place, "main", "second", environment | SHORT | {"OMNIGRAPH_FAILPOINTS": "write.after_b=kill"}
    )
    dead.communicate(timeout=WAITING_S)
    done = omnigraph("recovery", "run", place, "--json", environment=environment)
    assert (done.code, json.loads(done.out)["live"]) == (0, []), done.err
    assert [each["recovery_kind"] for each in json.loads(done.out)["recovered"]] == ["RolledForward"]
    check_whole(Graph.open(place, settings))
