"""The acceptance scenarios of branches and merges 62 to 75, one by one, on a real graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.errors import ConflictError, RefusedError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.settings import Settings
from tests.support.records import node, nodes, write_jsonl

SCHEMA = """
node Person { name: String @key  mail: String? @unique  note: String? }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
    people = [node("Person", name=name, note="") for name in ("Ann", "Bob")]
    companies = [node("Company", name=name) for name in ("Acme", "Zeta")]
    made.load([write_jsonl(tmp_path / "rows", [*people, *companies])], LoadMode.APPEND)
    made.create_branch("dev")
    return made


def change(graph: Graph, statements: str, branch: str = "main") -> None:
    graph.change(f"query q() {{ {statements} }}", branch=branch)


def lineages(graph: Graph, branch: str) -> dict[str, str | None]:
    return {key: entry.table_branch for key, entry in graph.snapshot(branch).tables.items()}


def versions(graph: Graph, branch: str) -> dict[str, tuple[int, int]]:
    """Row id and version of the last update, by id."""
    entry = graph.snapshot(branch).entry("node:Person")
    rows = graph._tables.open(entry.ref, entry.table_version).read(
        ["id", "_row_last_updated_at_version"], with_row_id=True
    )
    return {row["id"]: (row["_rowid"], row["_row_last_updated_at_version"]) for row in rows.to_pylist()}


def test_62_only_the_table_that_is_written_forks(graph: Graph) -> None:
    change(graph, 'insert Knows { from: "Ann", to: "Bob" }', "dev")
    assert lineages(graph, "dev") == {
        "edge:Knows": "dev",
        "edge:WorksAt": None,
        "node:Company": None,
        "node:Person": None,
    }


def test_63_and_64_a_branch_of_a_branch_and_a_view_that_stays(graph: Graph) -> None:
    change(graph, 'insert Person { name: "Dee" }', "dev")
    view = graph.at(branch="dev")
    graph.create_branch("sub", "dev")
    change(graph, 'insert Person { name: "Later" }')
    change(graph, 'insert Person { name: "Sue" }', "sub")
    assert set(nodes(graph, "Person", "sub")) == {"Ann", "Bob", "Dee", "Sue"}
    change(graph, 'delete Person where name = "Dee"', "dev")
    assert b"Dee" in b"".join(view.export(types=["Person"]))


def test_65_a_branch_with_descendants_is_not_deleted_and_a_name_is_free_afterwards(graph: Graph) -> None:
    change(graph, 'insert Person { name: "Dee" }', "dev")
    graph.create_branch("sub", "dev")
    with pytest.raises(RefusedError, match="sub"):
        graph.delete_branch("dev")
    assert set(nodes(graph, "Person", "sub")) == {"Ann", "Bob", "Dee"}
    graph.delete_branch("sub")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    assert set(nodes(graph, "Person", "dev")) == {"Ann", "Bob"}


def test_66_main_is_neither_made_nor_deleted_and_nothing_is_merged_into_itself(graph: Graph) -> None:
    head = graph.commit("main")
    with pytest.raises((RefusedError, ConflictError)):
        graph.create_branch("main")
    with pytest.raises(RefusedError):
        graph.delete_branch("main")
    for name in ("main", "dev"):
        with pytest.raises(RefusedError):
            graph.merge(name, name)
    assert (graph.branches(), graph.commit("main")) == (["dev", "main"], head)


@pytest.mark.parametrize("how", ["deleted", "foreign"])
def test_67_a_fork_that_was_left_is_in_nobodys_way(graph: Graph, how: str) -> None:
    if how == "deleted":
        change(graph, 'insert Person { name: "Left" }', "dev")
        graph.delete_branch("dev")
    else:
        graph.delete_branch("dev")
        table = graph._tables.open(graph.snapshot().entry("node:Person").ref).lance
        table.create_branch("dev", table.version).delete("true")
    graph.create_branch("dev")
    change(graph, 'insert Person { name: "Dee" }', "dev")
    assert set(nodes(graph, "Person", "dev")) == {"Ann", "Bob", "Dee"}
    assert graph.merge("dev").outcome == "fast_forward"
    assert set(nodes(graph, "Person")) == {"Ann", "Bob", "Dee"}
    assert [each.code for each in graph.doctor() if each.counts] == []


EDGE = 'insert Knows { from: "Ann", to: "Bob" }'
GONE = 'delete Person where name = "Ann"'
A, B = (f'update Person set {{ note: "{note}" }} where name = "Ann"' for note in "ab")
EVE, OTHER_EVE = (f'insert Person {{ name: "Eve", note: "{note}" }}' for note in "ab")


@pytest.mark.parametrize(
    ("theirs", "ours", "outcome"),
    [
        (None, A, "already_up_to_date"),
        (A, None, "fast_forward"),
        (EVE, OTHER_EVE, "divergent_insert"),
        (EVE, EVE, "merged"),
        (GONE, GONE, "merged"),
        (GONE, EDGE, "orphan_edge"),
        (EDGE, GONE, "orphan_edge"),
        (GONE, A, "delete_vs_update"),
        (A, GONE, "delete_vs_update"),
        (A, B, "divergent_update"),
        (EDGE, EDGE, "merged"),
        (A, EVE, "merged"),
    ],
)
def test_68_pairs_of_operations(graph: Graph, theirs: str | None, ours: str | None, outcome: str) -> None:
    for statements, branch in ((theirs, "dev"), (ours, "main")):
        if statements:
            change(graph, statements, branch)
    try:
        found = {graph.merge("dev").outcome.value}
    except MergeConflicts as error:
        found = {each.kind.value for each in error.conflicts}
    assert found == {outcome}
    if (theirs, ours) == (EDGE, EDGE):
        assert graph.snapshot().entry("edge:Knows").row_count == 2
    if (theirs, ours) == (A, EVE):
        assert {key: row["note"] for key, row in nodes(graph, "Person").items()} == {
            "Ann": "a",
            "Bob": "",
            "Eve": "a",
        }


def test_69_70_and_71_merging_twice_and_the_same_change_on_both_sides(graph: Graph) -> None:
    for branch in ("main", "dev"):
        change(graph, 'update Person set { note: "same" } where name = "Ann"', branch)
    heads = [graph.commit(branch).commit_id for branch in ("main", "dev")]
    made = graph.merge("dev", "main", actor="cat")
    commit = graph.commit("main")
    assert (made.outcome, [commit.parent_commit_id, commit.merged_parent_commit_id]) == ("merged", heads)
    assert commit.actor_id == "cat"
    assert graph.merge("dev", "main").outcome == "already_up_to_date"
    assert graph.commit("main") == commit


def test_72_rules_that_only_both_sides_together_break(graph: Graph) -> None:
    change(graph, 'update Person set { mail: "x" } where name = "Ann"')
    change(graph, 'update Person set { mail: "x" } where name = "Bob"', "dev")
    change(graph, 'insert WorksAt { from: "Ann", to: "Acme" }')
    change(graph, 'insert WorksAt { from: "Ann", to: "Zeta" }', "dev")
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev", "main")
    kinds = {each.kind.value for each in raised.value.conflicts}
    assert kinds == {"unique_violation", "cardinality_violation"}


def test_73_the_empty_text_and_null_are_two_values(graph: Graph) -> None:
    path = write_jsonl(graph.location.path.parent / "null", [node("Person", name="Ann", note=None)])
    graph.load([path], LoadMode.MERGE, branch="dev")
    (found,) = [each for table in graph.diff("main", "dev").table_diffs() for each in table.batches()]
    assert found.changed_properties().to_pylist() == [["note"]]
    graph.merge("dev", "main")
    assert nodes(graph, "Person")["Ann"].get("note") is None
    assert nodes(graph, "Person")["Bob"]["note"] == ""


def test_74_and_75_a_merge_into_a_branch_leaves_other_rows_as_they_were(graph: Graph) -> None:
    graph.create_branch("other")
    change(graph, 'insert Company { name: "New" }', "other")
    change(graph, 'update Person set { note: "dev" } where name = "Ann"', "dev")
    change(graph, 'insert Person { name: "Own" }', "other")
    before = versions(graph, "other")
    assert graph.merge("dev", "other").outcome == "merged"
    after = versions(graph, "other")
    assert after["Ann"][0] == before["Ann"][0]
    assert after["Ann"] != before["Ann"]
    assert (after["Bob"], after["Own"]) == (before["Bob"], before["Own"])
    assert nodes(graph, "Person", "other")["Ann"]["note"] == "dev"
    assert set(nodes(graph, "Company", "other")) == {"Acme", "New", "Zeta"}
    assert nodes(graph, "Person")["Ann"]["note"] == ""
