"""Whose commit is it? Branch names are used again, and so are the manifest versions of their commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.history import commits
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.recorded import newest_recorded, recorded_above
from omnigraph_core.history.travel import CommitGone
from omnigraph_core.settings import Settings
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.log_append import append_rows
from omnigraph_core.write.branches import StartMoved, create_branch
from omnigraph_core.write.plan import WriterKind
from tests.support.dying import die
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


@pytest.fixture
def old_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph by an OmniGraph that did not write down whose commits they are; with a branch."""
    known = commits.commits_schema()
    with monkeypatch.context() as patched:
        patched.setattr(commits, "commits_schema", lambda: pa.schema(list(known)[:-1]))
        graph = Graph.init(str(tmp_path / "old"), PEOPLE, SETTINGS)
        write_three(graph, "first")
        graph.create_branch("dev")
        write_three(graph, "second", "dev")
    assert columns(graph) == columns(graph, "dev") == known.names[:-1]
    return open_graph(graph.location.path, SETTINGS)


def columns(graph: Graph, branch: str = "main") -> list[str]:
    return list(graph.door.tables.open(commits_ref(branch)).schema.names)


def test_a_commit_says_which_branch_of_its_name_made_it(graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "one", "dev")
    first = graph.commit("dev")
    assert first.on == graph.snapshot("dev").on
    assert graph.commit("dev~1").on == graph.snapshot("main").on
    graph.delete_branch("dev")
    graph.create_branch("dev")
    write_three(graph, "two", "dev")
    second = graph.commit("dev")
    assert (second.branch, second.manifest_version) == (first.branch, first.manifest_version)
    assert second.on != first.on


@pytest.mark.parametrize("writes", [0, 1, 3])
def test_a_commit_of_a_deleted_branch_is_not_looked_up_in_a_new_one_of_its_name(
    graph: Graph, writes: int
) -> None:
    """Main knows the commit, as it does once it is merged: its row says that it was another branch's."""
    graph.create_branch("dev")
    write_three(graph, "gone", "dev")
    at = graph.snapshot("dev")
    commit = graph.commit("dev")
    assert at.head is not None
    graph.delete_branch("dev")
    rows = commits.commit_rows(at.head, at.on, at.manifest_version)
    append_rows(graph.door.tables, commits_ref("main"), rows, "op", Barrier(graph.door.storage))
    graph.create_branch("dev")
    for number in range(writes):
        write_three(graph, f"other-{number}", "dev")
    assert graph.commit(commit.commit_id).on == at.on
    for look in (graph.snapshot_of, graph.at, lambda ref: graph.create_branch("copy", ref)):
        with pytest.raises(CommitGone, match="'dev', which is deleted"):
            look(commit.commit_id)
    with pytest.raises(StartMoved):
        create_branch(graph.door, "copy", commit)
    recorded = {each.commit_id for each in recorded_above(graph.door.tables, "dev", 0)}
    assert commit.commit_id not in recorded
    assert len(recorded) == writes


def test_a_graph_without_identities_is_read_and_written(old_graph: Graph) -> None:
    before = {branch: old_graph.log().history(branch) for branch in ("main", "dev")}
    assert before["dev"][0].on.identity is None
    check_whole(old_graph)
    for number in range(2):
        write_three(old_graph, f"new-{number}", "dev")
    write_three(old_graph, "new", "main")
    known = commits.commits_schema().names
    assert columns(old_graph) == columns(old_graph, "dev") == known
    old_graph.create_branch("sub", "dev")
    write_three(old_graph, "newest", "sub")
    check_whole(old_graph)
    again = Graph.open(str(old_graph.location.path), SETTINGS)
    assert again.log().history("dev")[2:] == before["dev"]
    assert [each.on for each in again.log().history("dev")[:2]] == [again.snapshot("dev").on] * 2
    assert again.log().history("main")[1:] == before["main"]
    assert content(again, "sub")["node:Person"] == {"first", "second", "new-0", "new-1", "newest"}
    for commit in again.log().history("sub"):
        assert again.snapshot_of(commit.commit_id).head is not None


def test_a_writer_that_dies_after_adding_the_column_has_lost_nothing(old_graph: Graph) -> None:
    before = newest_recorded(old_graph.door.tables, "main")
    die(old_graph, "tables.columns_added", "dead")
    assert columns(old_graph) == commits.commits_schema().names
    assert newest_recorded(old_graph.door.tables, "main") == before
    graph = open_graph(old_graph.location.path, SETTINGS)
    write_three(graph, "next")
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first", "dead", "next"}


@pytest.mark.parametrize("kind", [each for each in WriterKind if each is not WriterKind.LATE_WRITER])
def test_every_writer_has_a_name_for_its_commits(kind: WriterKind) -> None:
    assert kind.operation == kind.value.lower()
