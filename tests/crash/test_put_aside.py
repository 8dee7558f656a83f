"""Deleted branches: back as they were, whoever dies on the way, until their name is used again."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from omnigraph_core.errors import NotFoundError, RefusedError
from omnigraph_core.graph import Graph
from omnigraph_core.history.deleted import DeletedDamaged
from omnigraph_core.history.refs import TaggedCommitGone
from omnigraph_core.history.tags import TagDamaged
from omnigraph_core.settings import Settings
from omnigraph_core.write.branches import BranchExists
from omnigraph_core.write.put_aside import BranchIsTagged
from omnigraph_core.write.undelete import NothingToUndelete
from tests.support import warm
from tests.support.processes import REPOSITORY, Omnigraph, clean_environment
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    return graph


def killed(graph: Graph, step: str, verb: str, branch: str = "dev") -> None:
    program = (
        "import sys; from pathlib import Path; from tests.support.writers import open_graph;"
        f"open_graph(Path(sys.argv[1])).{verb}({branch!r})"
    )
    done = warm.run(
        [sys.executable, "-c", program, str(graph.location.path)],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def files_of(graph: Graph) -> set[str]:
    """Everything of branch dev and its deletion that is on disk."""
    root = graph.location.path
    found = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return {path for path in found if "tree/dev/" in path or "/dev.json" in path or "__deleted" in path}


def test_undelete_brings_the_very_branch_back(graph: Graph, omnigraph: Omnigraph) -> None:
    before, head = content(graph, "dev"), graph.log().heads["dev"]
    on, files = graph.snapshot("dev").on, files_of(graph)
    store = ("--store", graph.location.uri)
    assert omnigraph("branch", "delete", "dev", *store, "--as", "bob").code == 0
    assert graph.branches() == ["main"]
    with pytest.raises(NotFoundError):
        graph.snapshot("dev")
    (aside,) = graph.deleted_branches()
    assert (aside.name, aside.on, aside.head, aside.actor_id) == ("dev", on, head, "bob")
    back = omnigraph("branch", "undelete", "dev", *store, "--as", "eve", "--json")
    assert json.loads(back.out) == {
        "uri": graph.location.uri,
        "name": "dev",
        "graph_commit_id": head,
        "actor_id": "eve",
    }
    graph = open_graph(graph.location.path, SETTINGS)
    assert (graph.snapshot("dev").on, graph.log().heads["dev"]) == (on, head)
    assert (content(graph, "dev"), files_of(graph), graph.deleted_branches()) == (before, files, [])
    write_three(graph, "later", "dev")
    graph.create_branch("child", "dev")
    check_whole(graph)
    again = omnigraph("branch", "undelete", "dev", *store, "--json")
    assert (again.code, json.loads(again.err)["branch"]) == (3, "dev")
    missing = omnigraph("branch", "undelete", "nope", *store, "--json")
    assert (missing.code, json.loads(missing.err)["branch"]) == (6, "nope")


@pytest.mark.parametrize("name", ["dev", "dev/sub"])
def test_using_the_name_again_gives_the_deleted_branch_up(name: str, graph: Graph) -> None:
    graph.create_branch("young", "dev")
    write_three(graph, "on-young", "young")
    graph.delete_branch("young")
    graph.delete_branch("dev")
    graph.create_branch(name)
    assert content(graph, name) == content(graph)
    assert graph.deleted_branches() == []
    for gone in ("dev", "young"):
        with pytest.raises((NothingToUndelete, BranchExists, RefusedError)):
            graph.undelete_branch(gone)
    write_three(graph, "new", name)
    graph.create_branch("young")
    check_whole(graph)


def test_a_branch_whose_parent_is_deleted_waits_for_it(graph: Graph) -> None:
    graph.create_branch("young", "dev")
    write_three(graph, "on-young", "young")
    before = content(graph, "young")
    graph.delete_branch("young")
    graph.delete_branch("dev")
    with pytest.raises(RefusedError, match="made from branch 'dev', which is deleted"):
        graph.undelete_branch("young")
    graph.undelete_branch("dev")
    graph.undelete_branch("young")
    assert content(graph, "young") == before
    check_whole(graph)


def test_a_tag_keeps_a_deleted_branch(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_tag("v1", "dev")
    before = content(graph, "dev")
    graph.delete_branch("dev")
    with pytest.raises(TaggedCommitGone):
        graph.commit("tag:v1")
    for name in ("dev", "dev/sub"):
        refused = omnigraph("branch", "create", name, "--store", graph.location.uri, "--json")
        failure = json.loads(refused.err)
        assert (refused.code, failure["branch"], failure["tags"]) == (5, "dev", ["v1"])
    graph.undelete_branch("dev")
    assert content(graph, "dev") == before
    assert graph.commit("tag:v1").commit_id == graph.log().heads["dev"]
    graph.delete_branch("dev")
    with pytest.raises(BranchIsTagged):
        graph.create_branch("dev")
    graph.delete_tag("v1")
    graph.create_branch("dev")
    check_whole(graph)


def test_a_delete_that_died_before_the_ref_went_deleted_nothing(graph: Graph) -> None:
    before = content(graph, "dev")
    killed(graph, "branch.put_aside", "delete_branch")
    graph = open_graph(graph.location.path, SETTINGS)
    assert (graph.branches(), graph.deleted_branches()) == (["dev", "main"], [])
    write_three(graph, "later", "dev")
    graph.delete_branch("dev")
    graph.undelete_branch("dev")
    assert {key: rows - {"later"} for key, rows in content(graph, "dev").items()} == before
    check_whole(graph)


def test_a_delete_that_died_when_the_ref_was_gone_can_be_undone(graph: Graph) -> None:
    before = content(graph, "dev")
    killed(graph, "tables.fork_ref_deleted", "delete_branch")
    graph = open_graph(graph.location.path, SETTINGS)
    assert graph.branches() == ["main"]
    graph.undelete_branch("dev")
    assert content(graph, "dev") == before
    check_whole(graph)


def test_an_undelete_that_died_is_whole_or_nothing(graph: Graph) -> None:
    before = content(graph, "dev")
    graph.delete_branch("dev")
    killed(graph, "branch.undelete_checked", "undelete_branch")
    assert open_graph(graph.location.path, SETTINGS).branches() == ["main"]
    killed(graph, "branch.undeleted", "undelete_branch")
    graph = open_graph(graph.location.path, SETTINGS)
    assert (content(graph, "dev"), graph.deleted_branches()) == (before, [])
    graph.delete_branch("dev")
    graph.undelete_branch("dev")
    assert content(graph, "dev") == before
    check_whole(graph)


@pytest.mark.parametrize("step", ["branch.given_up", "branch.fork_deleted", "branch.create_cleared"])
def test_a_create_that_died_while_it_gave_a_branch_up_leaves_the_name_free(step: str, graph: Graph) -> None:
    graph.delete_branch("dev")
    killed(graph, step, "create_branch")
    graph = open_graph(graph.location.path, SETTINGS)
    with pytest.raises(NothingToUndelete):
        graph.undelete_branch("dev")
    graph.create_branch("dev")
    assert content(graph, "dev") == content(graph)
    write_three(graph, "new", "dev")
    check_whole(graph)


def test_the_newest_of_several_is_meant_and_an_unreadable_record_is_damage(graph: Graph) -> None:
    graph.delete_branch("dev")
    (record,) = (graph.location.path / "__deleted").iterdir()
    whole = record.read_bytes()
    for data in (b"", b"{}", whole.replace(b'"branch": "dev"', b'"branch": "main"')[:-9]):
        record.write_bytes(data)
        with pytest.raises(DeletedDamaged):
            graph.undelete_branch("dev")
        with pytest.raises(DeletedDamaged):
            graph.create_branch("dev")
    record.write_bytes(whole)
    graph.undelete_branch("dev")
    check_whole(graph)


def test_a_record_that_says_something_else_than_was_written_is_damage(graph: Graph) -> None:
    """A branch of another name, or a tag of another branch: nobody would keep what it stands for."""
    graph.create_tag("v1", "dev")
    graph.delete_branch("dev")
    root = graph.location.path
    (record,) = (root / "__deleted").iterdir()
    for path, damage in ((record, DeletedDamaged), (root / "__tags" / "v1.json", TagDamaged)):
        whole = path.read_bytes()
        for key, value in json.loads(whole).items():
            other = value + 1 if isinstance(value, int) else f"{value or 'x'}x"
            path.write_text(json.dumps({**json.loads(whole), key: other}))
            with pytest.raises(damage):
                graph.create_branch("dev")
        path.write_bytes(whole)
    with pytest.raises(BranchIsTagged):
        graph.create_branch("dev")
    graph.undelete_branch("dev")
    check_whole(graph)
