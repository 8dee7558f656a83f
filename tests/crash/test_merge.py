"""A merge, a revert or a reset dies at every step: the branch has all of it, with its parents, or nothing."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.merges import VERBS, do, make_graph, target_of
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import exported
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")

BEFORE, EITHER, AFTER = "not done", "one of the two", "done"
STEPS = {
    "tables.fork_created": BEFORE,
    "write.forked": BEFORE,
    "history.carried": BEFORE,
    "write.before_a": BEFORE,
    "recovery.sidecar_write": BEFORE,
    "write.after_a": EITHER,
    "write.table_committed.1": EITHER,
    "write.table_committed.2": EITHER,
    "write.after_b": AFTER,
    "manifest.before_publish": AFTER,
    "manifest.after_publish": AFTER,
    "history.commit_recorded": AFTER,
    "write.after_c": AFTER,
    "recovery.sidecar_delete": AFTER,
    "write.after_d": AFTER,
}

CASES = [
    pytest.param(verb, step, marks=[] if verb == "merge" or number % 5 == place else [pytest.mark.soak])
    for place, verb in enumerate(VERBS)
    for number, step in enumerate(STEPS)
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "g"
    make_graph(root)
    return root


def copied(template: Path, root: Path) -> Graph:
    shutil.copytree(template, root)
    graph = Graph.open(str(root), SETTINGS)
    graph.relocate()
    return graph


@pytest.mark.parametrize(("verb", "step"), CASES)
def test_dying_at_every_step(verb: str, step: str, template: Path, tmp_path: Path) -> None:
    wanted = copied(template, tmp_path / "wanted")
    do(wanted, verb)
    root, target = tmp_path / "g", target_of(verb)
    graph = copied(template, root)
    before, start = exported(graph, target), graph.head(target)
    tips = {name: graph.head(name) for name in ("dev", "same")}
    done = warm.run(
        [sys.executable, "-m", "tests.support.merges", str(root), verb],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    check_whole(graph)
    expected = AFTER if done.returncode == 0 else STEPS[step]
    made = [
        each
        for each in graph.log().first_parents(graph.log().heads[target])
        if each.operation == ("branchmerge" if "merge" in verb else verb)
    ]
    assert len(made) <= 1
    assert expected == EITHER or bool(made) == (expected == AFTER)
    assert exported(graph, target) == (exported(wanted, target) if made else before)
    assert start is not None
    if not made:
        do(graph, verb, start.commit_id)
        made = [graph.log().commits[graph.log().heads[target]]]
    source = tips["same" if verb == "empty merge" else "dev"]
    assert source is not None
    merged = source.commit_id if "merge" in verb else None
    assert made[0].merged_parent_commit_id == merged
    assert exported(graph, target) == exported(wanted, target)
    check_whole(graph)
    check_history_stays(graph, target, made[0].commit_id, merged)


def check_history_stays(graph: Graph, target: str, commit_id: str, merged: str | None) -> None:
    """The merged commits are the target's from now on, whatever becomes of the source."""
    if merged is None:
        return
    source = graph.commit(merged).branch
    known = {each.commit_id for each in graph.log().history(target)}
    graph.delete_branch(source)
    assert {each.commit_id for each in graph.log().history(target)} == known
    assert graph.commit(commit_id).merged_parent_commit_id == merged
    assert graph.commit(merged).branch == source
    graph.change('query q() { insert Person { name: "Zoe" } }', branch=target)
