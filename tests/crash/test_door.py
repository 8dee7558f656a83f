"""The crash matrix: a write over many tables dies at every step, and is exactly done or exactly not done."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.settings import Settings
from omnigraph_core.tables.fold import FOLD_FRAGMENTS
from tests.conftest import PEOPLE, REPOSITORY, clean_environment
from tests.writers import check_whole, content, open_graph, write_three


@dataclass(frozen=True)
class Outcome:
    """What the next read-write open makes of a write that died."""

    applied: bool
    recovery: str | None
    original_commit: bool


NOTHING = Outcome(applied=False, recovery=None, original_commit=False)
ROLLED_BACK = Outcome(applied=False, recovery="RolledBack", original_commit=False)
ROLLED_FORWARD = Outcome(applied=True, recovery="RolledForward", original_commit=False)
COMPLETED = Outcome(applied=True, recovery="RolledForward", original_commit=True)
DONE = Outcome(applied=True, recovery=None, original_commit=True)

# Every step of the door, in order, and the outcome stated for dying right there.
STEPS = {
    "write.before_a": NOTHING,
    "recovery.sidecar_write": NOTHING,
    "control.create.written": NOTHING,
    "write.after_a": ROLLED_BACK,
    "write.table_committed.1": ROLLED_BACK,
    "write.table_committed.2": ROLLED_BACK,
    "write.table_committed.3": ROLLED_FORWARD,
    "write.after_b": ROLLED_FORWARD,
    "manifest.before_publish": ROLLED_FORWARD,
    "manifest.after_publish": COMPLETED,
    "write.published": COMPLETED,
    "history.actor_recorded": COMPLETED,
    "history.commit_recorded": COMPLETED,
    "write.after_c": COMPLETED,
    "recovery.sidecar_delete": COMPLETED,
    "write.after_d": DONE,
}
FORK_STEPS = {"tables.fork_created": NOTHING, "write.forked": NOTHING}

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
    arguments = [sys.executable, "-m", "tests.writers", str(root), branch, name]
    done = subprocess.run(
        [*arguments, "register"] if register else arguments,
        env=clean_environment(OMNIGRAPH_FAILPOINTS=failpoint, OMNIGRAPH_LOCK_TIMEOUT="5"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return done.returncode


def run_recovery(root: Path, failpoint: str) -> int:
    program = (
        "from tests.writers import open_graph; import sys, pathlib; open_graph(pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run(
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


@pytest.mark.parametrize("action", ["kill", "error"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_dying_at_every_step(variant: str, step: str, action: str, root: Path) -> None:
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
RECOVERY_STEPS = {
    "write.table_committed.2": [
        "recovery.decided",
        "recovery.table_restored",
        "recovery.restored",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
    "write.after_b": [
        "recovery.decided",
        "recovery.before_publish",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
    "write.published": [
        "recovery.decided",
        "recovery.original_completed",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
}
COMMON_RECOVERY_STEPS = [
    "control.put.visible",
    "recovery.after_publish",
    "history.actor_recorded",
    "history.commit_recorded",
    "recovery.commit_recorded",
    "recovery.audited",
    "recovery.before_forget",
    "control.delete.gone",
]
# On the branch every table was forked by the write itself: forks are removed, nothing is restored.
SECOND_CRASHES = [
    (death, step, branch)
    for death, steps in RECOVERY_STEPS.items()
    for step in [*steps, *COMMON_RECOVERY_STEPS]
    for branch in ("main", "dev")
    if (step, branch) != ("recovery.table_restored", "dev")
]


@pytest.mark.parametrize(("death", "step", "branch"), SECOND_CRASHES)
def test_dying_again_in_recovery(death: str, step: str, branch: str, root: Path) -> None:
    before = content(open_graph(root, Settings(fsync=False)), branch)
    assert run_writer(root, branch, "second", f"{death}=kill") == -signal.SIGKILL
    assert run_recovery(root, f"{step}=kill") == -signal.SIGKILL
    check_outcome(root, branch, DEATHS[death], before)
