"""`omnigraph maintain`, `optimize` and `repair` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.maintenance import maintain
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.readable import PERSON
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, content, write_three

NOW = ("--grace", "0s")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(5):
        write_three(graph, f"p{number}")
    return graph


def test_maintain_joins_and_removes_and_the_second_time_nothing(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_branch("side")
    write_three(graph, "s0", "side")
    write_three(graph, "s1", "side")
    uri, before = graph.location.uri, [content(graph, name) for name in ("main", "side")]
    done = omnigraph("maintain", uri, "--keep", "3", *NOW, "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert answer["needed"] is True
    assert {each["branch"] for each in answer["optimize"]["tables"] if each["committed"]} == {"main", "side"}
    assert answer["cleanup"]["commits_removed"] > 0
    assert [content(graph, name) for name in ("main", "side")] == before
    again = omnigraph("maintain", uri, "--keep", "3", *NOW)
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("optimized 0 tables; removed 0 commits")
    assert omnigraph("doctor", uri).code == 0
    check_whole(graph)


def test_maintain_only_if_needed(graph: Graph, omnigraph: Omnigraph, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, before = graph.location.uri, fingerprint(graph.location.path)
    idle = omnigraph("maintain", uri, "--if-needed", *NOW)
    assert (idle.code, idle.out) == (0, "nothing is needed\n")
    assert fingerprint(graph.location.path) == before
    monkeypatch.setattr(maintain, "NEEDED_FRAGMENTS", 2)
    monkeypatch.setattr(maintain, "NEEDED_VERSIONS", 2)
    done = graph.maintain(keep=3, grace_s=0.0, if_needed=True)
    assert any("node:Person on main has 5 fragments where 1 would do" in each for each in done.reasons)
    assert any("__manifest on main has" in each for each in done.reasons)
    assert graph.maintain(keep=3, grace_s=0.0, if_needed=True).cleaned is None


def test_what_maintain_refuses(graph: Graph, omnigraph: Omnigraph) -> None:
    uri, before = graph.location.uri, fingerprint(graph.location.path)
    assert omnigraph("maintain", uri, "--keep", "2").code == 5
    for wrong in (("--keep", "0"), ("--grace", "soon")):
        assert omnigraph("maintain", uri, *wrong).code == 2
    assert omnigraph("maintain", str(graph.location.path.parent / "none")).code == 6
    assert fingerprint(graph.location.path) == before


def test_what_cannot_be_done_stops_nothing_else(graph: Graph, omnigraph: Omnigraph) -> None:
    """A table whose newest version cannot be read; all others are done, and the exit code says so."""
    broken = graph.location.path / graph.snapshot().entry("node:Company").table_path
    newest = min((broken / "_versions").glob("*.manifest"))
    newest.write_bytes(b"")
    done = omnigraph("cleanup", graph.location.uri, "--keep", "3", *NOW, "--json")
    assert done.code == 1
    answer = json.loads(done.out)
    failed = [each["table_key"] for each in answer["tables"] if each["error"]]
    assert failed == ["node:Company"]
    cleaned = {each["table_key"] for each in answer["tables"] if each["old_versions_removed"]}
    assert PERSON in cleaned
    shown = omnigraph("maintain", graph.location.uri, "--keep", "3", *NOW)
    assert shown.code == 1
    assert "node:Company on main:" in shown.err


def test_optimize(graph: Graph, omnigraph: Omnigraph) -> None:
    uri, before = graph.location.uri, fingerprint(graph.location.path)
    planned = json.loads(omnigraph("optimize", uri, "--dry-run", "--json").out)
    person = next(each for each in planned["tables"] if each["table_key"] == PERSON)
    assert (person["fragments"], person["fragments_after"], person["committed"]) == (5, 1, False)
    assert (person["fragments_removed"], person["fragments_added"]) == (5, 1)
    assert person["manifest_version"] == person["lance_head_version"]
    assert person["bytes_written"] > 0
    assert fingerprint(graph.location.path) == before
    done = omnigraph("optimize", uri, "--type", "Person")
    assert (done.code, "main\tnode:Person\t5\t1" in done.out) == (0, True)
    commit = graph.log().history("main")[0]
    assert done.out.splitlines()[-1] == f"commit {commit.commit_id}"
    assert (commit.actor_id, commit.operation) == ("omnigraph:maintenance", "optimize")
    every = json.loads(omnigraph("optimize", uri, "--all-branches", "--as", "eve", "--json").out)
    assert len(every["commits"]) == 1
    assert graph.log().history("main")[0].actor_id == "eve"
    assert json.loads(omnigraph("optimize", uri, "--json").out)["commits"] == []
    assert omnigraph("optimize", uri, "--branch", "main", "--all-branches").code == 2
    assert omnigraph("optimize", uri, "--type", "Nobody").code == 6
    check_whole(graph)


def test_repair(graph: Graph, omnigraph: Omnigraph) -> None:
    uri = graph.location.uri
    assert omnigraph("repair", uri).out == "nothing to repair\n"
    graph.door.tables.open(graph.snapshot().entry(PERSON).ref).lance.optimize.compact_files()
    for how in (("--dry-run",), ()):
        skipped = omnigraph("optimize", uri, *how)
        assert "drift_needs_repair" in skipped.out
        assert "omnigraph repair" in skipped.err
    told = json.loads(omnigraph("optimize", uri, "--dry-run", "--json").out)["tables"]
    person = next(each for each in told if each["table_key"] == PERSON)
    assert person["lance_head_version"] > person["manifest_version"]
    assert (person["bytes_written"], person["fragments_removed"]) == (0, 0)
    preview = omnigraph("repair", uri)
    assert (preview.code, "verified_maintenance\tpreview" in preview.out) == (0, True)
    told = json.loads(omnigraph("repair", uri, "--json").out)
    assert (told["confirm"], told["force"], told["manifest_version"]) == (False, False, None)
    healed = json.loads(omnigraph("repair", uri, "--confirm", "--json").out)
    assert healed["commit"] == graph.log().history("main")[0].commit_id
    assert (healed["confirm"], healed["manifest_version"]) == (True, graph.snapshot().manifest_version)
    assert graph.log().history("main")[0].actor_id == "omnigraph:repair"
    graph.door.tables.open(graph.snapshot().entry(PERSON).ref).lance.delete("id = 'p0'")
    refused = omnigraph("repair", uri, "--confirm", "--json")
    person = next(each for each in json.loads(refused.out)["tables"] if each["table_key"] == PERSON)
    assert (refused.code, person["action"], person["operations"]) == (1, "refused", ["Delete"])
    assert person["lance_head_version"] > person["manifest_version"]
    assert "takes force" in person["error"]
    assert omnigraph("repair", uri, "--force").code == 2
    src, _ = json.loads(refused.out)["breaks"]
    assert "edge:Knows: 1 edges have a src that Person does not have: 'p0'" in src
    assert "adopting this would break: main edge:Knows" in omnigraph("repair", uri).err
    forced = omnigraph("repair", uri, "--confirm", "--force")
    assert (forced.code, forced.err.count("broken now: main edge:Knows")) == (0, 2)
    assert graph.log().history("main")[0].actor_id == "omnigraph:repair:force"
    assert graph.snapshot().entry(PERSON).row_count == 4
    assert [each.code for each in graph.doctor() if each.counts] == ["dangling-edge"] * 2
