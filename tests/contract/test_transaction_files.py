"""Cleanup removes transaction files that versions repeat, and nobody misses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.manifest.rows import OBJECT_ID, head_row, rows_table
from omnigraph_core.tables.failures import CommitLost
from omnigraph_core.tables.fence import merge_fenced
from tests.support.readable import SETTINGS, contents, fresh
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, write_three


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    for number in range(4):
        write_three(graph, f"p{number}")
    return graph


def transaction_files(graph: Graph) -> list[Path]:
    return sorted(graph.location.path.rglob("*.txn"))


def without_transaction_files(graph: Graph) -> None:
    """All commits are kept, and so is every version that one of them has."""
    graph.cleanup(keep=100, grace_s=0.0)
    assert transaction_files(graph) == []


def test_they_go_after_the_grace_and_all_commits_read_as_before(graph: Graph) -> None:
    before = contents(graph)
    graph.cleanup(keep=100, grace_s=3600.0)
    kept = transaction_files(graph)
    assert len(kept) > len(before)
    told = graph.cleanup(keep=100, grace_s=0.0, dry_run=True)
    assert transaction_files(graph) == kept
    done = graph.cleanup(keep=100, grace_s=0.0)
    assert transaction_files(graph) == []
    assert sum(each.bytes for each in told.tables) == sum(each.bytes for each in done.tables)
    assert contents(fresh(graph)) == before
    assert graph.cleanup(keep=100, grace_s=0.0).tables == ()


def test_every_verb_works_without_them(graph: Graph) -> None:
    first = graph.log().history("main")[-2].commit_id
    without_transaction_files(graph)
    other = fresh(graph)
    other.create_branch("old", first)
    write_three(other, "on old", "old")
    without_transaction_files(graph)
    other.merge("old", into="main")
    other.revert(other.log().history("main")[0].commit_id)
    without_transaction_files(graph)
    other.optimize()
    other.delete_branch("old")
    write_three(fresh(graph), "later")
    check_whole(graph)
    assert [each for each in fresh(graph).doctor(deep=True) if each.severity.value != "note"] == []


@pytest.mark.parametrize("tables", ["__manifest", "_graph_commits.lance", "nodes/*"])
def test_refs_that_are_lost_are_rebuilt_without_them(tables: str, graph: Graph) -> None:
    """Where a fork was made stands in its first version, too."""
    graph.create_branch("dev")
    write_three(graph, "on dev", "dev")
    before = contents(graph)
    without_transaction_files(graph)
    lost = list(graph.location.path.glob(f"{tables}/_refs/branches/dev.json"))
    assert lost
    for ref in lost:
        ref.unlink()
    write_three(Graph.open(str(graph.location.path), SETTINGS, OpenMode.READ_WRITE), "later")
    found = contents(fresh(graph))
    assert {commit: found[commit] for commit in before} == before
    check_whole(graph)


def test_a_rival_publish_still_loses(graph: Graph) -> None:
    """The versions since its base are asked for their keys; the files of their transactions are gone."""
    manifest = graph.door.manifest
    stale = manifest.newest(manifest.branch("main"))
    head = manifest.snapshot("main").head
    assert head is not None
    write_three(graph, "first")
    without_transaction_files(graph)
    with pytest.raises(CommitLost):
        merge_fenced(graph.door.tables, stale, OBJECT_ID, rows_table([head_row(head)]))


@pytest.mark.parametrize("change", ["another byte", "no version"])
def test_one_that_no_version_repeats_stays(change: str, graph: Graph) -> None:
    folder = graph.location.path / "__manifest" / "_transactions"
    chosen = sorted(folder.iterdir())[1]
    if change == "another byte":
        data = chosen.read_bytes()
        chosen.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        chosen = chosen.rename(folder / f"900-{chosen.name.partition('-')[2]}")
    graph.cleanup(keep=100, grace_s=0.0)
    assert transaction_files(graph) == [chosen]
    before = fingerprint(graph.location.path / "__manifest")
    assert graph.cleanup(keep=100, grace_s=0.0).tables == ()
    assert fingerprint(graph.location.path / "__manifest") == before


def test_a_graph_without_them_is_smaller_by_them(graph: Graph) -> None:
    """What a kept commit costs is said in docs/maintenance.md."""
    started = size_of(graph)
    theirs = sum(path.stat().st_size for path in transaction_files(graph))
    without_transaction_files(graph)
    assert size_of(graph) <= started - theirs + SMALL


def size_of(graph: Graph) -> int:
    return sum(path.stat().st_size for path in graph.location.path.rglob("*") if path.is_file())


SMALL = 1_000
"""The record of the cleanup itself."""
