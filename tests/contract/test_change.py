"""`change`: the scenarios of the specification for mutations, through the library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.errors import BadDataError, OmnigraphError, RefusedError, UsageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.query import QueryTypeError, RefusedMutationError
from omnigraph_core.rules.validate import RecordsConflict
from omnigraph_core.rules.violations import InvalidRecords
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.write.freshness import CommitPreconditionFailed
from tests.support.records import D1, S1, edge, edges, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = pytest.mark.mostly_local

MakeGraph = Callable[..., Graph]


@pytest.fixture
def settings(place: str, tmp_path: Path, environment: dict[str, str]) -> Settings:
    return load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)


@pytest.fixture
def make(place: str, settings: Settings, tmp_path: Path) -> MakeGraph:
    def make(schema: str, records: list[dict[str, object]] | None = None) -> Graph:
        graph = Graph.init(place, schema, settings)
        if records:
            graph.load([write_jsonl(tmp_path / "start.jsonl", records)], LoadMode.APPEND)
        return graph

    return make


@pytest.fixture
def graph(make: MakeGraph) -> Graph:
    """S1 with D1."""
    return make(S1, D1)


def refused(graph: Graph, source: str, kind: type[OmnigraphError], **options: object) -> OmnigraphError:
    """The error of a change that must change nothing at all."""
    before, head = exported(graph), graph.head()
    with pytest.raises(kind) as caught:
        graph.change(source, **options)  # type: ignore[arg-type]
    assert graph.head() == head
    assert exported(graph) == before
    check_whole(graph)
    return caught.value


@pytest.mark.remotely
def test_insert_with_parameters(graph: Graph) -> None:
    source = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
    changed = graph.change(source, params={"n": "Eve", "a": 7})
    assert (changed.query_name, changed.affected_nodes, changed.affected_edges) == ("add", 1, 0)
    assert nodes(graph, "Person")["Eve"] == {"name": "Eve", "age": 7}
    graph.change(source, param_texts=["n=null"])
    assert nodes(graph, "Person")["null"] == {"name": "null"}
    check_whole(graph)


def test_inserting_a_key_again_replaces_the_whole_row(graph: Graph) -> None:
    graph.change('query q() { insert Person { name: "Ann" age: 31 } }')
    assert nodes(graph, "Person")["Ann"] == {"name": "Ann", "age": 31}
    assert len(nodes(graph, "Person")) == 4


@pytest.mark.remotely
def test_node_and_edge_in_one_query_are_one_commit(graph: Graph) -> None:
    before = len(graph.log().history("main"))
    changed = graph.change(
        'query q() { insert Knows { from: "Ann", to: "Eve", since: date("2024-05-01") } '
        'insert Person { name: "Eve" } }',
        message="meet Eve",
    )
    assert (changed.affected_nodes, changed.affected_edges) == (1, 1)
    assert ("Ann", "Eve") in edges(graph, "Knows")
    history = graph.log().history("main")
    assert len(history) == before + 1
    head = history[0]
    assert (head.commit_id, head.actor_id, head.message) == (changed.commit_id, "ann", "meet Eve")
    assert head.operation == "mutation"


def test_many_inserts_publish_once(graph: Graph) -> None:
    before = graph.snapshot().manifest_version
    inserts = " ".join(f'insert Person {{ name: "p{number}" }}' for number in range(50))
    assert graph.change(f"query q() {{ {inserts} }}").affected_nodes == 50
    assert graph.snapshot().manifest_version == before + 1
    assert len(nodes(graph, "Person")) == 54


@pytest.mark.remotely
def test_a_dangling_endpoint_leaves_nothing_of_the_first_statement(graph: Graph) -> None:
    source = 'query q() { insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Nobody" } }'
    error = refused(graph, source, InvalidRecords)
    assert str(error) == "Knows: dst 'Nobody' not found in Person"
    graph.change('query q() { insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Ann" } }')
    assert ("Eve", "Ann") in edges(graph, "Knows")


def test_cardinality_of_an_insert(graph: Graph) -> None:
    error = refused(graph, 'query q() { insert WorksAt { from: "Ann", to: "Zeta" } }', InvalidRecords)
    assert str(error) == "@card violation on edge WorksAt: source 'Ann' has 2 edges (max 1)"
    source = (
        'query q() { insert WorksAt { from: "Cy", to: "Zeta" } insert WorksAt { from: "Cy", to: "Acme" } }'
    )
    assert "source 'Cy' has 2 edges" in str(refused(graph, source, InvalidRecords))


def test_deleting_below_the_minimum_is_refused(make: MakeGraph) -> None:
    schema = "node A { k: String @key } edge Needs: A -> A @card(1..) { note: String? }"
    graph = make(schema, [node("A", k="x"), node("A", k="y")])
    graph.change('query q() { insert Needs { from: "x", to: "y", note: "only" } }')
    error = refused(graph, 'query q() { delete Needs where note = "only" }', InvalidRecords)
    assert str(error) == "@card violation on edge Needs: source 'x' has 0 edges (min 1)"
    # With its source gone there is nobody to ask.
    assert graph.change('query q() { delete A where k = "x" }').affected_edges == 1


def test_an_update_sees_an_earlier_insert(graph: Graph) -> None:
    changed = graph.change(
        'query q() { insert Person { name: "Fay", age: 1 } update Person set { age: 2 } where name = "Fay" }'
    )
    assert changed.affected_nodes == 2
    assert nodes(graph, "Person")["Fay"]["age"] == 2


def test_chained_updates_use_new_values(graph: Graph) -> None:
    changed = graph.change(
        "query q() { update Person set { age: 50 } where age = 25 "
        "update Person set { age: 60 } where age = 25 }"
    )
    assert changed.affected_nodes == 1
    assert nodes(graph, "Person")["Bob"] == {"name": "Bob", "age": 50, "tags": ["b"]}


def test_an_update_keeps_what_it_does_not_set(graph: Graph) -> None:
    source = "query q($d: Date?) { update Person set { joined: $d, tags: [] } where age >= 30 }"
    assert graph.change(source, params={"d": "2024-02-29"}).affected_nodes == 2
    assert nodes(graph, "Person")["Ann"] == {"name": "Ann", "age": 30, "tags": [], "joined": 19782}
    assert graph.change(source).affected_nodes == 2
    assert "joined" not in nodes(graph, "Person")["Dee"]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('query q() { update Person set { name: "Anna" } where name = "Ann" }', "key_update"),
        ('query q() { insert Person { name: "Gus" } delete Person where name = "Bob" }', "mixed"),
    ],
)
def test_what_no_mutation_may_do(source: str, rule: str, graph: Graph) -> None:
    error = refused(graph, source, RefusedMutationError)
    assert isinstance(error, RefusedError)
    assert error.details()["rule"] == rule


@pytest.mark.remotely
def test_deleting_a_node_deletes_its_edges(graph: Graph) -> None:
    changed = graph.change('query q() { delete Person where name = "Ann" }')
    assert (changed.affected_nodes, changed.affected_edges) == (1, 4)
    assert edges(graph, "Knows") == [("Bob", "Cy")]
    assert edges(graph, "WorksAt") == [("Bob", "Acme"), ("Dee", "Zeta")]
    check_whole(graph)


def test_deleting_a_node_without_edges_leaves_edge_tables_alone(graph: Graph) -> None:
    graph.change('query q() { insert Person { name: "Eve" } }')
    before = graph.snapshot().tables
    graph.change('query q() { delete Person where name = "Eve" }')
    after = graph.snapshot().tables
    assert {key for key in after if after[key] != before[key]} == {"node:Person"}


def test_overlapping_deletes_count_once(graph: Graph) -> None:
    changed = graph.change('query q() { delete Person where age >= 30 delete Person where name = "Dee" }')
    assert (changed.affected_nodes, changed.affected_edges) == (2, 5)


def test_a_null_in_an_earlier_predicate_hides_nothing(graph: Graph) -> None:
    changed = graph.change('query q() { delete Person where age > 30 delete Person where name = "Cy" }')
    assert changed.affected_nodes == 2
    assert set(nodes(graph, "Person")) == {"Ann", "Bob"}


def test_deleting_edges_by_endpoint_and_by_property(graph: Graph) -> None:
    assert graph.change('query q() { delete Knows where from = "Ann" }').affected_edges == 2
    graph.change('query q() { insert Knows { from: "Ann", to: "Bob", note: "x" } }')
    assert graph.change('query q() { delete Knows where note = "x" }').affected_edges == 1
    assert edges(graph, "Knows") == [("Bob", "Cy"), ("Cy", "Ann")]


@pytest.mark.parametrize(
    "source",
    [
        'query q() { update Person set { age: 1 } where name = "Zed" }',
        'query q() { delete Person where name = "Zed" }',
        "query q($n: String?) { delete Person where name != $n }",
        "query q() { delete Person where age = 2.5 }",
    ],
)
def test_a_query_that_matches_nothing_makes_no_commit(source: str, graph: Graph) -> None:
    head = graph.head()
    changed = graph.change(source)
    assert (changed.affected_nodes, changed.affected_edges, changed.commit_id) == (0, 0, None)
    assert graph.head() == head


def test_a_value_out_of_range(graph: Graph) -> None:
    source = 'query q() { insert Person { name: "Big", age: 3000000000 } }'
    assert "3000000000 exceeds Int32 range" in str(refused(graph, source, BadDataError))


def test_running_a_read_as_a_change(graph: Graph) -> None:
    error = refused(graph, "query q() { match { $p: Person } return { $p.name } }", UsageError)
    assert "omnigraph query" in str(error.hint)


def test_a_type_error_has_its_code_and_place(graph: Graph) -> None:
    error = refused(graph, "query q() {\n  insert Person { age: 1 }\n}", QueryTypeError, source_name="c.gq")
    assert "T12" in str(error)
    assert str(error).startswith("c.gq:2:")


def test_properties_in_camel_case(make: MakeGraph) -> None:
    graph = make("node A { k: String @key firstName: String? }", [node("A", k="x", firstName="Ann")])
    source = 'query q() { update A set { firstName: "Bea" } where firstName = "Ann" }'
    assert graph.change(source).affected_nodes == 1
    assert graph.change('query q() { delete A where firstName = "Bea" }').affected_nodes == 1


RULES = """
node Item {
  sku: String @key
  email: String? @unique
  a: String?
  b: I32?
  color: enum(red, green)?
  @unique(a, b)
  @range(b, 0..10)
  @check(sku, "^[a-z]+$")
}
"""


def test_unique_against_committed_rows(make: MakeGraph) -> None:
    graph = make(RULES, [node("Item", sku="x", email="e"), node("Item", sku="y", a="1", b=1)])
    error = refused(graph, 'query q() { insert Item { sku: "z" email: "e" } }', RecordsConflict)
    assert str(error) == "@unique violation on Item.email: value 'e' held by 'x' and 'z'"
    graph.change('query q() { insert Item { sku: "x" email: "e" color: "red" } }')
    graph.change('query q() { insert Item { sku: "z" a: "1" b: 2 } }')
    refused(graph, 'query q() { insert Item { sku: "w" a: "1" b: 2 } }', RecordsConflict)
    refused(graph, 'query q() { update Item set { email: "e" } where sku = "z" }', RecordsConflict)
    refused(graph, 'query q() { update Item set { a: "9", b: 9 } where b > 0 }', InvalidRecords)


def test_a_freed_unique_value_can_be_taken_in_the_same_query(make: MakeGraph) -> None:
    graph = make(RULES, [node("Item", sku="x", email="e"), node("Item", sku="y", email="f")])
    graph.change(
        'query q() { update Item set { email: "g" } where sku = "x" '
        'update Item set { email: "e" } where sku = "y" }'
    )
    assert {id_: data["email"] for id_, data in nodes(graph, "Item").items()} == {"x": "g", "y": "e"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("b: 11", "@range violation on Item.b: value 11 > max 10"),
        ("color: $c", "invalid enum value 'blue' for Item.color: expected one of green, red"),
    ],
)
def test_value_rules_hold_for_insert_and_update(assignment: str, message: str, make: MakeGraph) -> None:
    graph = make(RULES, [node("Item", sku="x")])
    declared = "$c: String" if "$c" in assignment else ""
    insert = f'query q({declared}) {{ insert Item {{ sku: "y", {assignment} }} }}'
    update = f'query q({declared}) {{ update Item set {{ {assignment} }} where sku = "x" }}'
    for source in (insert, update):
        assert str(refused(graph, source, InvalidRecords, params={"c": "blue"})) == message
    error = refused(graph, 'query q() { insert Item { sku: "UPPER" } }', InvalidRecords)
    assert str(error) == "@check violation on Item.sku: value 'UPPER' does not match pattern '^[a-z]+$'"


@pytest.mark.remotely
def test_blobs_survive_an_update_of_something_else(make: MakeGraph) -> None:
    graph = make("node F { k: String @key data: Blob? note: String? }")
    graph.change('query q($b: Blob) { insert F { k: "f", data: $b } }', params={"b": "base64:aGVsbG8="})
    graph.change('query q() { insert F { k: "g" } update F set { note: "n" } where k != "zz" }')
    assert nodes(graph, "F")["f"] == {"k": "f", "data": "base64:aGVsbG8=", "note": "n"}
    assert nodes(graph, "F")["g"] == {"k": "g", "note": "n"}


@pytest.mark.remotely
def test_if_commit(graph: Graph) -> None:
    head = graph.head()
    assert head is not None
    source = "query q($n: String) { insert Person { name: $n } }"
    graph.change(source, params={"n": "Eve"}, if_commit=head.commit_id)
    error = refused(graph, source, CommitPreconditionFailed, params={"n": "Fay"}, if_commit=head.commit_id)
    assert error.details()["precondition_failure"] == {
        "expected": head.commit_id,
        "actual": graph.head().commit_id,  # type: ignore[union-attr]
    }


def test_a_dry_run_counts_and_writes_nothing(graph: Graph) -> None:
    before, head = exported(graph), graph.head()
    changed = graph.change('query q() { delete Person where name = "Ann" }', dry_run=True)
    assert (changed.affected_nodes, changed.affected_edges, changed.commit_id) == (1, 4, None)
    assert (exported(graph), graph.head()) == (before, head)
    refused(graph, 'query q() { insert Knows { from: "Ann", to: "No" } }', InvalidRecords, dry_run=True)


@pytest.mark.remotely
def test_on_a_branch(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.change('query q() { delete Person where name = "Ann" }', branch="dev")
    graph.change('query q() { update Person set { age: 1 } where name = "Bob" }', branch="dev")
    assert nodes(graph, "Person", "dev")["Bob"]["age"] == 1
    assert nodes(graph, "Person")["Bob"]["age"] == 25
    assert len(edges(graph, "Knows")) == 4
    check_whole(graph)


def test_now_is_one_instant_for_the_whole_query(make: MakeGraph) -> None:
    graph = make("node A { k: String @key at: DateTime? }")
    inserts = " ".join(f'insert A {{ k: "{number}", at: now() }}' for number in range(20))
    graph.change(f"query q() {{ {inserts} }}")
    assert len({data["at"] for data in nodes(graph, "A").values()}) == 1


def test_an_insert_beside_another_writers_insert_keeps_both(
    graph: Graph, place: str, settings: Settings
) -> None:
    other = Graph.open(place, settings, OpenMode.READ_WRITE)
    other.change('query q() { insert Person { name: "Eve" } }')
    graph.change('query q() { insert Person { name: "Fay" } }')
    assert {"Eve", "Fay"} <= set(nodes(graph, "Person"))


@pytest.mark.remotely
def test_an_update_that_lost_a_race_says_so(graph: Graph, place: str, settings: Settings) -> None:
    """Somebody else writes the table between planning and the lock."""
    other = Graph.open(place, settings, OpenMode.READ_WRITE)
    publish = graph.door.publish
    raced = threading.Event()

    def late(plan):  # type: ignore[no-untyped-def]
        if not raced.is_set():
            raced.set()
            other.change('query q() { update Person set { age: 99 } where name = "Ann" }')
        return publish(plan)

    graph.door.publish = late  # type: ignore[method-assign]
    with pytest.raises(ExpectedVersionMismatch):
        graph.change('query q() { update Person set { age: 1 } where name = "Ann" }')
    assert nodes(graph, "Person")["Ann"]["age"] == 99
    raced.clear()
    graph.change('query q() { insert Person { name: "Eve" } }')
    assert "Eve" in nodes(graph, "Person")
    check_whole(graph)


def test_an_edge_to_a_node_that_another_writer_deletes_meanwhile(
    graph: Graph, place: str, settings: Settings
) -> None:
    """The node table is only read by the insert, but it decides."""
    other = Graph.open(place, settings, OpenMode.READ_WRITE)
    publish = graph.door.publish
    raced = threading.Event()

    def late(plan):  # type: ignore[no-untyped-def]
        if not raced.is_set():
            raced.set()
            other.change('query q() { delete Person where name = "Cy" }')
        return publish(plan)

    graph.door.publish = late  # type: ignore[method-assign]
    with pytest.raises(InvalidRecords, match="dst 'Cy' not found"):
        graph.change('query q() { insert Knows { from: "Ann", to: "Cy" } }')
    check_whole(graph)


def test_more_nodes_than_a_filter_can_name(make: MakeGraph, tmp_path: Path) -> None:
    """Beyond a thousand, edges are found by a scan: those of the nodes that go, and those that count."""
    schema = "node N { k: String @key n: I32 } edge One: N -> N @card(0..1)"
    people = [node("N", k=f"k{number}", n=number) for number in range(1300)]
    graph = make(schema, people + [edge("One", f"k{number}", "k0") for number in range(1300)])
    again = write_jsonl(tmp_path / "again.jsonl", [edge("One", f"k{number}", "k1") for number in range(1200)])
    with pytest.raises(InvalidRecords) as caught:
        graph.load([again], LoadMode.APPEND)
    assert caught.value.total == 1200
    changed = graph.change("query q() { delete N where n >= 100 }")
    assert (changed.affected_nodes, changed.affected_edges) == (1200, 1200)
    assert len(edges(graph, "One")) == 100
    check_whole(graph)
