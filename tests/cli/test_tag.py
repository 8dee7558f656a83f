"""`omnigraph tag create|list|delete`, and `tag:NAME` as a ref."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from omnigraph_core import faults
from omnigraph_core.graph import Graph
from omnigraph_core.history.tags import TagDamaged, decode_tag, read_tags
from omnigraph_core.settings import Settings
from omnigraph_core.write.moves import Note
from omnigraph_core.write.tags import TagExists, TagReplaced, create_tag
from tests.support.processes import Omnigraph
from tests.support.writers import check_whole, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """Three commits on main: init, then a write of `first` and one of `second`."""
    write_three(graph, "first")
    write_three(graph, "second")
    return graph


def store(graph: Graph) -> tuple[str, str]:
    return "--store", graph.location.uri


def test_create_list_and_delete(graph: Graph, omnigraph: Omnigraph) -> None:
    middle = graph.log().history("main")[1]
    made = omnigraph(
        "tag", "create", "v/1", "main~1", *store(graph), "--as", "bob", "--message", "as shipped", "--json"
    )
    assert (made.code, made.err) == (0, "")
    answer = json.loads(made.out)
    assert isinstance(answer.pop("created_at"), int)
    expected = {
        "name": "v/1",
        "graph_commit_id": middle.commit_id,
        "manifest_branch": "main",
        "manifest_version": middle.manifest_version,
        "actor_id": "bob",
        "message": "as shipped",
    }
    assert answer == {"uri": graph.location.uri, **expected}
    assert omnigraph("tag", "create", "here", *store(graph)).out.startswith("tagged ")
    (here, first) = json.loads(omnigraph("tag", "list", graph.location.uri, "--json").out)["tags"]
    assert (here["name"], here["graph_commit_id"]) == ("here", graph.log().heads["main"])
    assert {key: first[key] for key in expected} == expected
    deleted = omnigraph("tag", "delete", "v/1", *store(graph), "--as", "bob", "--json")
    assert json.loads(deleted.out) == {
        "uri": graph.location.uri,
        "name": "v/1",
        "graph_commit_id": middle.commit_id,
        "actor_id": "bob",
    }
    assert [each.name for each in graph.tags()] == ["here"]
    missing = omnigraph("tag", "delete", "v/1", *store(graph), "--json")
    assert (missing.code, json.loads(missing.err)["tag"]) == (6, "v/1")


def test_a_tag_is_a_ref_everywhere(graph: Graph, omnigraph: Omnigraph) -> None:
    newest, middle, oldest = (each.commit_id for each in graph.log().history("main"))
    graph.create_tag("v1", "main~1")
    write_three(graph, "third")
    shown = omnigraph("commit", "show", "tag:v1", *store(graph), "--json")
    assert json.loads(shown.out)["graph_commit_id"] == middle
    assert graph.commit("tag:v1~1").commit_id == oldest
    assert graph.commit("tag:v1@{2999-01-01}").commit_id == middle
    read = omnigraph("snapshot", *store(graph), "--snapshot", "tag:v1", "--json")
    assert json.loads(read.out)["graph_commit_id"] == middle
    assert omnigraph("branch", "create", "b", "--from", "tag:v1", *store(graph)).code == 0
    assert graph.log().heads["b"] == middle
    assert graph.diff("tag:v1", "main").after.snapshot.head == graph.head()
    assert graph.create_tag("v2", "tag:v1").commit_id == middle
    assert newest != middle


def test_names_that_are_taken_or_that_no_tag_may_have(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_tag("v1", "main~1")
    taken = omnigraph("tag", "create", "v1", *store(graph), "--json")
    failure = json.loads(taken.err)
    assert (taken.code, failure["tag"], failure["commit_id"]) == (3, "v1", graph.commit("main~1").commit_id)
    for name in ("main", "", "a b", "..", "tag:x", "a~1", "ünï", "x" * 201, "a/" * 99 + "a"):
        done = omnigraph("tag", "create", *store(graph), "--", name)
        assert (done.code, done.out) == (5, ""), name
    for ref in ("tag:nope", "tag:", "tag:../x", "tag:" + "/" * 300, "tag:v1~9"):
        assert omnigraph("commit", "show", *store(graph), "--", ref).code == 6, ref
    assert [each.name for each in graph.tags()] == ["v1"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema_version": 2}', b'{"schema_version": 1}'])
def test_a_tag_that_cannot_be_read_is_damage(data: bytes, graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_tag("good")
    graph.create_tag("bad")
    (graph.location.path / "__tags" / "bad.json").write_bytes(data)
    with pytest.raises(TagDamaged):
        read_tags(graph.door.storage.control)
    listed = omnigraph("tag", "list", *store(graph), "--json")
    assert (listed.code, json.loads(listed.err)["tag"]) == (74, "bad")
    assert omnigraph("commit", "show", "tag:bad", *store(graph)).code == 74
    assert omnigraph("tag", "create", "bad", *store(graph)).code == 74
    assert omnigraph("commit", "show", "tag:good", *store(graph)).code == 0
    assert omnigraph("tag", "delete", "bad", *store(graph)).code == 0
    assert [each.name for each in graph.tags()] == ["good"]


def test_a_tag_under_another_name_is_damage(graph: Graph) -> None:
    """A copied file would let one name stand for the commit of another."""
    graph.create_tag("a")
    tags = graph.location.path / "__tags"
    (tags / "b.json").write_bytes((tags / "a.json").read_bytes())
    with pytest.raises(TagDamaged):
        graph.tags()


def test_a_tag_of_a_branch_that_is_replaced_meanwhile_is_not_made(graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    commit = graph.commit("dev")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    write_three(graph, "other", "dev")
    from omnigraph_core.history.travel import CommitGone

    with pytest.raises(CommitGone):
        create_tag(graph.door, "v1", commit, Note("ann"), None)
    assert graph.tags() == []


def test_a_delete_that_slept_spares_the_new_tag(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.create_tag("v1")
    replaced = []

    def hit(step: str) -> None:
        if step == "tag.delete_found" and not replaced:
            path = graph.location.path / "__tags" / "v1.json"
            replaced.append(path.read_bytes())
            path.unlink()
            path.write_bytes(replace(decode_tag("v1", replaced[0]), actor_id="bob").encode())

    monkeypatch.setattr(faults, "hit", hit)
    with pytest.raises(TagReplaced):
        graph.delete_tag("v1")
    assert graph.tags()[0].actor_id == "bob"


def test_two_rivals_and_one_tag(graph: Graph) -> None:
    graph.create_tag("v1", "main~1")
    with pytest.raises(TagExists):
        Graph.open(graph.location.uri, SETTINGS).create_tag("v1")
    assert graph.commit("tag:v1").commit_id == graph.commit("main~1").commit_id
    check_whole(graph)


def test_listing_tags_imports_no_lance(graph: Graph) -> None:
    import subprocess

    code = (
        "import sys; from omnigraph_core.graph import Graph; from omnigraph_core.settings import Settings\n"
        f"Graph.open({graph.location.uri!r}, Settings()).tags()\n"
        "assert 'lance' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
