"""A merge that changes the schema dies at every step: rows, columns and types are all there, or none."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import exported
from tests.support.schema_merges import VERBS, do, make_graph, target_of
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")

BEFORE, EITHER, AFTER = "not done", "one of the two", "done"
STEPS = {
    "schema.kept": BEFORE,
    "schema.stub_created": BEFORE,
    "schema.columns_staged": BEFORE,
    "schema.staged": BEFORE,
    "history.carried": BEFORE,
    "write.before_a": BEFORE,
    "recovery.sidecar_write": BEFORE,
    "write.after_a": EITHER,
    "write.table_committed.1": EITHER,
    "write.table_committed.2": EITHER,
    "write.table_committed.3": EITHER,
    "write.table_committed.5": EITHER,
    "write.after_b": AFTER,
    "manifest.before_publish": AFTER,
    "manifest.after_publish": AFTER,
    "history.commit_recorded": AFTER,
    "write.after_c": AFTER,
    "schema.promoted._schema.pg": AFTER,
    "schema.promoted._schema.ir.json": AFTER,
    "schema.promoted.__schema_state.json": AFTER,
    "recovery.sidecar_delete": AFTER,
    "write.after_d": AFTER,
}

CASES = [
    pytest.param(verb, step, marks=[] if number % 6 == place else [pytest.mark.soak])
    for place, verb in enumerate(VERBS)
    for number, step in enumerate(STEPS)
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "g"
    make_graph(root)
    return root


@pytest.fixture(scope="module")
def wanted(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """What each verb makes of the graph if nobody kills it."""
    found = {}
    for number, verb in enumerate(VERBS):
        found[verb] = copied(template, tmp_path_factory.mktemp("wanted") / str(number))
        do(found[verb], verb)
    return found


def copied(template: Path, root: Path) -> Graph:
    shutil.copytree(template, root)
    graph = Graph.open(str(root), SETTINGS)
    graph.relocate()
    return graph


@pytest.mark.parametrize(("verb", "step"), CASES)
def test_dying_at_every_step(
    verb: str, step: str, template: Path, wanted: dict[str, Graph], tmp_path: Path
) -> None:
    root, target = tmp_path / "g", target_of(verb)
    graph = copied(template, root)
    before, old = exported(graph, target), graph.at(branch=target).schema
    after, new = exported(wanted[verb], target), wanted[verb].at(branch=target).schema
    assert old != new
    done = warm.run(
        [sys.executable, "-m", "tests.support.schema_merges", str(root), verb],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    check_whole(graph)
    expected = AFTER if done.returncode == 0 else STEPS[step]
    is_done = graph.at(branch=target).schema == new
    assert expected == EITHER or is_done == (expected == AFTER)
    assert exported(graph, target) == (after if is_done else before)
    assert is_done or graph.at(branch=target).schema == old
    if not is_done:
        do(graph, verb)
    assert exported(graph, target) == after
    assert Graph.open(str(root), SETTINGS).at(branch=target).schema == new
    assert (graph.catalog().source == (root / "_schema.pg").read_text()) is True
    graph.apply_schema(graph.catalog().source + "\nnode Last { k: String @key }")
    check_whole(graph)
