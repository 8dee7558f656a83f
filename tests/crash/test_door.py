"""The crash matrix: a write over many tables dies at every step, and is exactly done or exactly not done."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.settings import Settings
from omnigraph_core.tables.limits import FOLD_FRAGMENTS
from tests.support import warm
from tests.support.door_steps import (
    COMMON_RECOVERY_STEPS,
    COMPLETED,
    DONE,
    FORK_STEPS,
    RECOVERY_STEPS,
    ROLLED_BACK,
    ROLLED_FORWARD,
    STEPS,
    Outcome,
)
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, open_graph, write_three

VARIANTS = {"main": "main", "branch that must fork": "dev", "registers a table": "main"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with one commit on main, and a branch that has not forked anything."""
    root = tmp_path_factory.mktemp("template") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann"))
    write_three(graph, "first")
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    root = tmp_path / "g"
    shutil.copytree(template, root)
    open_graph(root, Settings(fsync=False)).create_branch("dev")
    return root


def run_writer(root: Path, branch: str, name: str, failpoint: str, *, register: bool = False) -> int:
    arguments = [sys.executable, "-m", "tests.support.writers", str(root), branch, name]
    done = warm.run(
        [*arguments, "register"] if register else arguments,
        env=clean_environment(OMNIGRAPH_FAILPOINTS=failpoint, OMNIGRAPH_LOCK_TIMEOUT="5"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return done.returncode


def run_recovery(root: Path, failpoint: str) -> int:
    program = "from tests.support.writers import open_graph; import sys; open_graph(sys.argv[1])"
    done = warm.run(
        [sys.executable, "-c", program, str(root)],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=failpoint),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return done.returncode


def check_outcome(root: Path, branch: str, expected: Outcome, before: dict[str, set[str]]) -> None:
    """Recover twice, then compare with what is promised; then write again."""
    settings = Settings(fsync=False, actor="ann")
    graph = open_graph(root, settings)
    graph = open_graph(root, settings)
    check_whole(graph)
    after = content(graph, branch)
    if expected.applied:
        assert all("second" in ids for key, ids in after.items() if key != "edge:WorksAt")
        assert {key: ids - {"second"} for key, ids in after.items() if key in before} == before
    else:
        assert after == before
    audits = graph.recoveries()
    assert [each.recovery_kind for each in audits] == ([expected.recovery] if expected.recovery else [])
    history = graph.log().history(branch)
    by_recovery = [each for each in history if each.actor_id == RECOVERY_ACTOR]
    assert [each.commit_id for each in by_recovery] == [each.graph_commit_id for each in audits]
    originals = [each for each in history if each.message == "write second" and each.actor_id == "ann"]
    assert len(originals) == (1 if expected.original_commit else 0)
    assert all(each.recovery_for_actor == "ann" and each.sidecar_writer_kind == "Load" for each in audits)
    write_three(graph, "third", branch)
    check_whole(open_graph(root, settings))
    assert all(
        "third" in content(graph, branch)[key] for key in ("node:Person", "node:Company", "edge:Knows")
    )
    assert graph.recoveries() == audits


def in_turn(number: int, place: int, length: int) -> list[pytest.MarkDecorator]:
    """Of a matrix, the normal run has a diagonal: row `number` with one of the columns, in turn."""
    return [] if number % length == place else [pytest.mark.soak]


ERRORS = [
    pytest.param(variant, step, "error", marks=in_turn(number, place, len(VARIANTS)))
    for number, step in enumerate(STEPS)
    for place, variant in enumerate(VARIANTS)
]
FIRST, *OTHERS = VARIANTS
KILLS = [
    *(pytest.param(FIRST, step, "kill") for step in STEPS),
    *(
        pytest.param(variant, step, "kill", marks=in_turn(number, place, len(OTHERS)))
        for place, variant in enumerate(OTHERS)
        for number, step in enumerate(STEPS)
    ),
]


@pytest.mark.parametrize(("variant", "step", "action"), [*KILLS, *ERRORS])
def test_dying_at_every_step(variant: str, step: str, action: str, root: Path) -> None:
    """Killed at every step on main and in one other variant, failing in one; in soak in all of them."""
    branch = VARIANTS[variant]
    register = variant == "registers a table"
    expected = STEPS[step]
    if register and step == "write.table_committed.3":
        expected = ROLLED_BACK
    before = content(open_graph(root, Settings(fsync=False)), branch)
    code = run_writer(root, branch, "second", f"{step}={action}", register=register)
    if action == "kill":
        assert code == -signal.SIGKILL
    elif step == "recovery.sidecar_delete":
        assert code == 0
    check_outcome(root, branch, _with_error(expected, step) if action == "error" else expected, before)


def _with_error(expected: Outcome, step: str) -> Outcome:
    """A step that fails while the process lives is settled by it at once."""
    return DONE if step == "write.after_d" else expected


@pytest.mark.parametrize("action", ["kill", "error"])
@pytest.mark.parametrize("step", FORK_STEPS)
def test_dying_while_forking(step: str, action: str, root: Path) -> None:
    before = content(open_graph(root, Settings(fsync=False)), "dev")
    assert run_writer(root, "dev", "second", f"{step}={action}") != 0
    check_outcome(root, "dev", FORK_STEPS[step], before)


@pytest.fixture(scope="module")
def ripe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose next write folds the small fragments of all three tables."""
    root = tmp_path_factory.mktemp("ripe") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(FOLD_FRAGMENTS):
        write_three(graph, f"earlier{number}")
    return root


FOLD_STEPS = {f"write.table_committed.{number}": ROLLED_BACK for number in range(1, 6)} | {
    "write.table_committed.6": ROLLED_FORWARD,
    "write.published": COMPLETED,
}


@pytest.mark.parametrize("step", FOLD_STEPS)
def test_dying_in_a_write_that_folds(step: str, ripe: Path, tmp_path: Path) -> None:
    """Each table has two transactions: the rows, and the joining of small fragments."""
    root = tmp_path / "g"
    shutil.copytree(ripe, root)
    before = content(open_graph(root, Settings(fsync=False)), "main")
    assert run_writer(root, "main", "second", f"{step}=kill") == -signal.SIGKILL
    check_outcome(root, "main", FOLD_STEPS[step], before)
    graph = open_graph(root, Settings(fsync=False))
    person = graph.door.tables.open(graph.snapshot().entry("node:Person").ref)
    assert len(person.fragment_rows()) < FOLD_FRAGMENTS


DEATHS = {
    "write.table_committed.2": ROLLED_BACK,
    "write.after_b": ROLLED_FORWARD,
    "write.published": COMPLETED,
}
# On the branch every table was forked by the write itself: forks are restored and published, as tables are.
SECOND_CRASHES = [
    pytest.param(death, step, branch, marks=in_turn(number, place, 2))
    for death, steps in RECOVERY_STEPS.items()
    for number, step in enumerate([*steps, *COMMON_RECOVERY_STEPS])
    for place, branch in enumerate(("main", "dev"))
]


@pytest.mark.parametrize(("death", "step", "branch"), SECOND_CRASHES)
def test_dying_again_in_recovery(death: str, step: str, branch: str, root: Path) -> None:
    """At every step of it after every death; on main and on the branch in turn, in soak on both."""
    before = content(open_graph(root, Settings(fsync=False)), branch)
    assert run_writer(root, branch, "second", f"{death}=kill") == -signal.SIGKILL
    assert run_recovery(root, f"{step}=kill") == -signal.SIGKILL
    check_outcome(root, branch, DEATHS[death], before)
