"""Levelled row versions: manifests stay small, and comparisons, blame, merges and indexes stay right."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from omnigraph_core.diff.records import entity_changes
from omnigraph_core.graph import Graph
from omnigraph_core.tables import compare, row_versions
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.torn import versions_on_disk
from tests.support.readable import SETTINGS, fresh

SCHEMA = "node Person { name: String @key age: I32? }\n"
PERSON = "node:Person"
PUT = "query put($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
SET = "query set($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a graph of a few rows were a large one."""
    monkeypatch.setattr(row_versions, "ROW_VERSION_RUNS_MAX", 2)
    monkeypatch.setattr(row_versions, "LEVELLED_ROWS_MIN", 10)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    for number in range(8):
        put(graph, f"p{number}", number)
    return graph


def put(graph: Graph, name: str, age: int, branch: str = "main") -> None:
    graph.change(PUT, params={"name": name, "age": age}, branch=branch)


def set_age(graph: Graph, name: str, age: int, branch: str = "main") -> None:
    graph.change(SET, params={"name": name, "age": age}, branch=branch)


def maintain(graph: Graph) -> None:
    """Twice: what the first cleanup removes is what the second optimize need not tell apart."""
    for number in (1, 2):
        graph.maintain(keep=3, grace_s=0.0)
        put(graph, f"later{number}-{len(graph.log().commits)}", number)


def row_versions_of(graph: Graph) -> dict[str, tuple[int, int]]:
    entry = graph.snapshot().entry(PERSON)
    rows = graph.door.tables.open(entry.ref, entry.table_version).read(["name", *VERSIONS])
    return {row["name"]: (row[VERSIONS[0]], row[VERSIONS[1]]) for row in rows.to_pylist()}


def test_rows_of_removed_versions_get_one_version(graph: Graph) -> None:
    before = row_versions_of(graph)
    assert len(set(before.values())) == 8
    maintain(graph)
    graph.maintain(keep=3, grace_s=0.0)
    after = row_versions_of(graph)
    old = {after[f"p{number}"] for number in range(8)}
    on_disk = versions_on_disk(graph.door.tables, graph.snapshot().entry(PERSON).ref)
    assert len(old) < 8
    assert all(updated >= before[name][1] for name, (_, updated) in after.items() if name in before)
    assert max(updated for _, updated in old) <= max(on_disk)


def test_what_can_be_read_can_be_told_apart(graph: Graph) -> None:
    """No commit was removed: every row keeps the version it was written in."""
    before = row_versions_of(graph)
    graph.optimize()
    assert row_versions_of(graph) == before


def test_a_replaced_row_still_says_so(graph: Graph) -> None:
    set_age(graph, "p3", 30)
    maintain(graph)
    graph.maintain(keep=3, grace_s=0.0)
    created, updated = row_versions_of(graph)["p3"]
    assert created < updated
    assert all(a == b for name, (a, b) in row_versions_of(graph).items() if name != "p3")
    set_age(graph, "p3", 31)
    graph.optimize()
    for age, found in ((3, []), (30, []), (31, ["p3"])):
        query = f"query old() {{ match {{ $p: Person {{ age: {age} }} }} return {{ $p.name }} }}"
        assert [row["p.name"] for row in graph.query(query).to_arrow().to_pylist()] == found


def test_differences_and_merges_across_a_levelling(graph: Graph) -> None:
    graph.create_branch("side")
    set_age(graph, "p1", 100, "side")
    set_age(graph, "p2", 200)
    maintain(graph)
    set_age(graph, "p4", 400)
    maintain(graph)
    later = {name for name in row_versions_of(graph) if name.startswith("later")}
    found = (each for table in graph.diff("main", "side").table_diffs() for each in entity_changes(table))
    assert {each.entity_id for each in found} == {*later, "p1", "p2", "p4"}
    graph.merge("side", into="main")
    other = fresh(graph)
    entry = other.snapshot().entry(PERSON)
    found_rows = other.door.tables.open(entry.ref, entry.table_version).read(["name", "age"]).to_pylist()
    rows = {row["name"]: row["age"] for row in found_rows}
    assert (rows["p1"], rows["p2"], rows["p4"], rows["p5"]) == (100, 200, 400, 5)


def test_blame_says_that_nobody_can_tell(graph: Graph) -> None:
    writer = graph.log().history("main")[3].commit_id
    maintain(graph)
    maintain(graph)
    blamed = graph.blame("Person", "p4")
    (age,) = [origin for origin in blamed.origins if origin.property == "age"]
    assert age.commit.commit_id != writer
    assert age.limit == "removed_by_cleanup"
    newest = max(name for name in row_versions_of(graph) if name.startswith("later2"))
    assert graph.blame("Person", newest).origins[0].limit is None


@pytest.fixture
def restored(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Another program took an update of p1 back, by Lance's `restore`, and repair adopted that."""
    monkeypatch.setattr(compare, "CARRIED_ROWS_MIN", 0)
    entry = graph.snapshot().entry(PERSON)
    set_age(graph, "p1", 100)
    graph.create_tag("updated")
    path = graph.location.path / entry.ref.directory
    lance.dataset(str(path), version=entry.table_version).restore()
    assert graph.repair(confirm=True, force=True).commit_id is not None
    return fresh(graph)


@pytest.mark.parametrize("keep", [2, 3])
def test_a_row_that_a_restore_took_back_is_not_the_one_it_replaced(restored: Graph, keep: int) -> None:
    """The oldest version on disk that is not below its own has another row."""
    put(restored, "later", 1)
    put(restored, "latest", 1)
    restored.cleanup(keep=keep, grace_s=0.0, force=True)
    before = row_versions_of(restored)
    restored.optimize()
    assert row_versions_of(restored) != before
    found = (
        each for table in restored.diff("tag:updated", "main").table_diffs() for each in entity_changes(table)
    )
    assert {each.entity_id for each in found} == {"p1", "later", "latest"}


def test_blame_finds_who_adopted_what_a_restore_took_back(restored: Graph) -> None:
    put(restored, "later", 1)
    adopted = restored.log().history("main")[1].commit_id
    (age,) = [origin for origin in restored.blame("Person", "p1").origins if origin.property == "age"]
    assert (age.value, age.commit.commit_id, age.limit) == (1, adopted, None)
    touched = restored.commits(type_name="Person", entity_id="p1").commits
    assert [each.operation for each in touched] == ["repair", "mutation", "mutation"]


def test_the_manifest_of_a_table_does_not_grow_with_its_commits(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "n"), SCHEMA, SETTINGS)
    sizes = []
    for number in range(60):
        put(graph, f"p{number:03d}", number)
        if number % 12 == 11:
            graph.maintain(keep=3, grace_s=0.0)
            entry = graph.snapshot().entry(PERSON)
            path = graph.location.path / manifest_path(entry.ref, entry.table_version)
            sizes.append(path.stat().st_size)
    # Rows since the last run are told apart, and so are the few runs that each run leaves.
    assert sizes[-1] - sizes[1] < 22 * 24, sizes
