"""A schema apply dies at every step: the branch has the old schema with its data, or the new one with its."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.migrations import WANTED, exported, load, make_graph
from tests.support.paused import started
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")

BEFORE, EITHER, AFTER = "not applied", "one of the two", "applied"
# Every step of an apply, in order, and what dying there means. Between the first commit of a table
# and the last, it is what recovery can make of it; a kind that moves no table rolls forward.
STEPS = {
    "schema.kept": BEFORE,
    "schema.stub_created": BEFORE,
    "write.forked": BEFORE,
    "schema.file_written": BEFORE,
    "schema.staged": BEFORE,
    "write.before_a": BEFORE,
    "write.after_a": EITHER,
    "write.table_committed.1": EITHER,
    "write.table_committed.2": EITHER,
    "write.table_committed.5": EITHER,
    "write.after_b": AFTER,
    "manifest.after_publish": AFTER,
    "history.commit_recorded": AFTER,
    "write.after_c": AFTER,
    "schema.promoted._schema.pg": AFTER,
    "schema.promoted._schema.ir.json": AFTER,
    "schema.promoted.__schema_state.json": AFTER,
    "recovery.sidecar_delete": AFTER,
    "write.after_d": AFTER,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "g"
    make_graph(root)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    root = tmp_path / "g"
    shutil.copytree(template, root)
    return root


@pytest.fixture(scope="module")
def results(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """What each kind makes of each branch when nothing goes wrong, by kind and branch."""
    found: dict[tuple[str, str], list[str]] = {}

    class Made(dict[tuple[str, str], list[str]]):
        def __missing__(self, key: tuple[str, str]) -> list[str]:
            kind, branch = key
            place = tmp_path_factory.mktemp("made") / "g"
            shutil.copytree(template, place)
            _relocated(place).apply_schema(WANTED[kind], branch=branch)
            self[key] = exported(Graph.open(str(place), SETTINGS), branch)
            return self[key]

    return Made(found)


def _relocated(root: Path) -> Graph:
    graph = Graph.open(str(root), SETTINGS)
    graph.relocate()
    return graph


def apply_and_die(root: Path, branch: str, kind: str, failpoint: str) -> int:
    done = warm.run(
        [sys.executable, "-m", "tests.support.migrations", str(root), branch, kind],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{failpoint}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


COMBINATIONS = [(kind, branch) for kind in WANTED for branch in ("main", "dev")]


def marked(kind: str, number: int, place: int) -> list[pytest.MarkDecorator]:
    """The normal run has a diagonal, of which the kind that has everything gets the most."""
    every = 2 if kind == "all together" else 12
    return [] if number % every == place % every else [pytest.mark.soak]


CASES = [
    pytest.param(kind, branch, step, marks=marked(kind, number, place))
    for place, (kind, branch) in enumerate(COMBINATIONS)
    for number, step in enumerate(STEPS)
]


RECOVERY_STEPS = {
    "write.table_committed.2": ["recovery.decided", "recovery.table_restored", "recovery.restored"],
    "write.after_b": ["recovery.before_publish", "recovery.after_publish", "schema.promoted._schema.pg"],
    "write.after_c": ["schema.promoted._schema.ir.json", "recovery.audited", "recovery.before_forget"],
}


@pytest.mark.parametrize(
    ("death", "step", "branch"),
    [
        pytest.param(death, step, branch, marks=[] if number % 2 == place else [pytest.mark.soak])
        for death, steps in RECOVERY_STEPS.items()
        for number, step in enumerate(steps)
        for place, branch in enumerate(("main", "dev"))
    ],
)
def test_dying_again_in_recovery(
    death: str, step: str, branch: str, root: Path, results: dict[tuple[str, str], list[str]]
) -> None:
    kind, graph = "all together", _relocated(root)
    other = "dev" if branch == "main" else "main"
    before, apart = exported(graph, branch), exported(graph, other)
    assert apply_and_die(root, branch, kind, death) == -signal.SIGKILL
    program = "from tests.support.writers import open_graph; import sys; open_graph(sys.argv[1])"
    warm.run(
        [sys.executable, "-c", program, str(root)],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    check_whole(graph)
    applied = death != "write.table_committed.2"
    assert exported(graph, branch) == (results[kind, branch] if applied else before)
    assert graph.catalog().source == (root / "_schema.pg").read_text()
    assert graph.apply_schema(WANTED[kind], branch=branch).applied == (not applied)
    check_goes_on(graph, root, kind, branch, results[kind, branch], apart, other)


@pytest.mark.parametrize(("kind", "branch", "step"), CASES)
def test_dying_at_every_step(
    kind: str, branch: str, step: str, root: Path, results: dict[tuple[str, str], list[str]]
) -> None:
    graph = _relocated(root)
    other = "dev" if branch == "main" else "main"
    before, apart = exported(graph, branch), exported(graph, other)
    start = graph.snapshot(branch).head
    assert start is not None
    code = apply_and_die(root, branch, kind, step)
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    check_whole(graph)
    head = graph.snapshot(branch).head
    assert head is not None
    applied = head.schema_hash != start.schema_hash
    # A step that this kind does not come by is no crash at all.
    expected = AFTER if code == 0 else STEPS[step]
    assert expected == EITHER or applied == (expected == AFTER)
    assert exported(graph, branch) == (results[kind, branch] if applied else before)
    assert exported(graph, other) == apart
    assert exported(graph, ref=start.commit_id) == before
    if branch == "main":
        shown = graph.catalog()
        assert shown.schema_hash == head.schema_hash
        assert (root / "_schema.pg").read_text() == shown.source
        assert (shown.source == WANTED[kind]) == applied
    again = graph.apply_schema(WANTED[kind], branch=branch)
    assert again.applied == (not applied)
    check_goes_on(graph, root, kind, branch, results[kind, branch], apart, other)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("schema.staged", None),
        ("write.after_b", "is recorded in __recovery/"),
        ("schema.promoted._schema.pg", "is made"),
    ],
)
def test_ctrl_c_at_a_step(
    step: str, says: str | None, root: Path, results: dict[tuple[str, str], list[str]]
) -> None:
    """Exit code 130; what was begun is said, and the next writer has the old schema or the new one."""
    kind, graph = "all together", _relocated(root)
    before = exported(graph)
    (root.parent / "wanted.pg").write_text(WANTED[kind])
    command = [sys.executable, "-m", "omnigraph_cli", "schema", "apply", str(root), "--schema", "wanted.pg"]
    environment = {"OMNIGRAPH_FSYNC": "off", "PYTHONPATH": str(REPOSITORY)}
    with started(command, cwd=root.parent, stop_at=step, **environment) as process:
        process.until_stopped()
        process.process.send_signal(signal.SIGINT)
        process.go_on()
        done = process.ended()
    assert done.code == 130, done.err
    assert says is None or says in done.err
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    check_whole(graph)
    assert exported(graph) == (before if says is None else results[kind, "main"])
    assert graph.apply_schema(WANTED[kind]).applied == (says is None)


def check_goes_on(
    graph: Graph, root: Path, kind: str, branch: str, wanted: list[str], apart: list[str], other: str
) -> None:
    """After the second apply: as if nothing had happened, and open for rows and for another schema."""
    assert exported(graph, branch) == wanted
    assert exported(graph, other) == apart
    status = {"status": "late"} if "status" in WANTED[kind] else {}
    load(graph, root, [{"type": "Person", "data": {"name": "dan", **status}}], branch)
    load(graph, root, [{"type": "Person", "data": {"name": "eve"}}], other)
    assert len(exported(graph, branch)) == len(wanted) + 1
    more = WANTED[kind].replace('@rename_from("age")', "") + "node Later { name: String @key }\n"
    more = more.replace('@rename_from("Company")', "")
    assert graph.apply_schema(more, branch=branch).applied
    check_whole(Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE))
