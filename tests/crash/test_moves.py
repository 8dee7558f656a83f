"""Commands that move a ref, killed at every step: in the log if they did something, and not if not."""

from __future__ import annotations

import signal
import sys

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.writers import check_log, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")

# The verb, what it leaves in the log, and the steps at which it is killed: whether it has happened then.
MATRIX = {
    "create_branch('new')": (
        "branchcreate",
        {
            "branch.twin_created": False,
            "move.begun": False,
            "branch.manifest_created": True,
            "move.moved": True,
            "move.recorded": True,
        },
    ),
    "delete_branch('dev')": (
        "branchdelete",
        {"move.begun": False, "branch.put_aside": False, "tables.fork_ref_deleted": True, "move.moved": True},
    ),
    "undelete_branch('old')": (
        "branchundelete",
        {"move.begun": False, "branch.undeleted": True, "move.recorded": True},
    ),
    "rename_branch('dev', 'new')": (
        "branchrename",
        {"move.begun": False, "branch.renamed": True, "move.moved": True, "move.recorded": True},
    ),
    "create_tag('v2')": ("tagcreate", {"move.begun": False, "tag.created": True, "move.moved": True}),
    "delete_tag('v1')": ("tagdelete", {"move.begun": False, "tag.deleted": True, "move.recorded": True}),
    "undo()": (
        "branchundelete",
        {"move.begun": False, "branch.undeleted": True, "move.moved": True, "move.recorded": True},
    ),
}
CASES = [(verb, step) for verb, (_, steps) in MATRIX.items() for step in steps]


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    graph.create_branch("dev")
    graph.create_branch("old")
    graph.create_tag("v1")
    graph.delete_branch("old")
    return graph


def killed(graph: Graph, step: str, verb: str) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.support.writers import open_graph;"
        f"open_graph(Path(sys.argv[1])).{verb}"
    )
    done = warm.run(
        [sys.executable, "-c", program, str(graph.location.path)],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(("verb", "step"), CASES)
def test_a_command_that_is_killed_is_in_the_log_if_it_did_something(
    verb: str, step: str, graph: Graph
) -> None:
    kind, steps = MATRIX[verb]
    before = [each.operation_id for each in graph.operations()]
    killed(graph, step, verb)
    root = graph.location.path
    files = sorted(str(path) for path in root.rglob("*"))
    # The log is the same for a reader, which writes nothing, and after the next command has settled it.
    seen = Graph.open(str(root), SETTINGS).operations()
    assert sorted(str(path) for path in root.rglob("*")) == files
    assert [each.operation_id for each in seen[steps[step] :]] == before
    assert not steps[step] or seen[0].kind == kind
    check_log(graph)
    graph = open_graph(root, SETTINGS)
    graph.create_tag("later")
    after = graph.operations()
    assert [each.operation_id for each in after[1:]] == [each.operation_id for each in seen]
    assert list((root / layout.BEGUN_OPERATIONS).iterdir()) == []
    check_whole(graph)
    check_log(graph)


def test_what_was_dropped_does_not_come_true_by_what_others_do(graph: Graph) -> None:
    """A delete that died before the ref went; then another one deletes the branch."""
    killed(graph, "move.begun", "delete_branch('dev')")
    graph = open_graph(graph.location.path, SETTINGS)
    graph.delete_branch("dev")
    assert [each.kind for each in graph.operations(2)] == ["branchdelete", "branchdelete"]
    assert [each.before.name for each in graph.operations(2) if each.before] == ["dev", "old"]
    check_whole(graph)
    check_log(graph)


def test_an_undo_of_a_write_that_is_killed_is_whole_or_nothing(graph: Graph) -> None:
    before = content(graph)
    write_three(graph, "second")
    after = content(graph)
    killed(graph, "write.after_a", "undo()")
    graph = open_graph(graph.location.path, SETTINGS)
    assert content(graph) == after
    killed(graph, "write.after_c", "undo()")
    graph = open_graph(graph.location.path, SETTINGS)
    assert content(graph) == before
    assert graph.operations(2)[1].undoes is not None
    graph.undo()
    assert content(graph) == after
    check_whole(graph)
    check_log(graph)
