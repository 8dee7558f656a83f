"""`load` and `export`: the scenarios of the specification, through the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.run import Loaded
from omnigraph_core.manifest.reader import BranchNotFound
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.rules.validate import RecordsConflict
from omnigraph_core.rules.violations import InvalidRecords
from omnigraph_core.settings import Settings, load_settings
from tests.support.records import D1, S1, edge, edges, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = pytest.mark.mostly_local

Records = Sequence[Mapping[str, Any]]


class Loader:
    """A graph with a short way to load into it."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        self.graph = graph
        self._folder = folder

    def load(self, mode: str, records: Records, **options: Any) -> Loaded:
        path = write_jsonl(self._folder / "in.jsonl", records)
        return self.graph.load([path], LoadMode(mode), **options)

    def refused(self, mode: str, records: Records, kind: type[OmnigraphError], **options: Any) -> str:
        """The message of a load that must change nothing, without the name of the file."""
        before, head, branches = exported(self.graph), self.graph.head(), self.graph.branches()
        with pytest.raises(kind) as caught:
            self.load(mode, records, **options)
        assert (exported(self.graph), self.graph.head()) == (before, head)
        assert self.graph.branches() == branches
        check_whole(self.graph)
        return str(caught.value).replace(str(self._folder / "in.jsonl"), "F")


@pytest.fixture
def settings(place: str, tmp_path: Path, environment: dict[str, str]) -> Settings:
    return load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)


@pytest.fixture
def make(place: str, settings: Settings, tmp_path: Path) -> Callable[[str], Loader]:
    return lambda schema: Loader(Graph.init(place, schema, settings), tmp_path)


@pytest.fixture
def loader(make: Callable[[str], Loader]) -> Loader:
    """S1 with D1."""
    loader = make(S1)
    loader.load("append", D1)
    return loader


@pytest.mark.remotely
def test_a_load_is_one_commit_that_names_its_input(loader: Loader) -> None:
    history = loader.graph.log().history("main")
    assert [commit.operation for commit in history] == ["load", "init"]
    assert history[0].actor_id == "ann"
    assert loader.graph.branches() == ["main"]
    details = json.loads(history[0].details or "")
    assert details["counts"]["node:Person"] == {"inserted": 4}
    assert details["counts"]["edge:Knows"] == {"inserted": 4}
    (given,) = details["inputs"]
    assert given["name"].endswith("in.jsonl")
    assert len(given["sha256"]) == 64
    check_whole(loader.graph)


def test_counts_of_a_load(make: Callable[[str], Loader]) -> None:
    loaded = make(S1).load("append", D1)
    assert dict(loaded.counts) == {"edge:Knows": 4, "edge:WorksAt": 3, "node:Company": 2, "node:Person": 4}
    assert (loaded.total, loaded.unmatchable, loaded.branch_created) == (13, 0, False)


def test_several_inputs_are_one_batch(make: Callable[[str], Loader], tmp_path: Path) -> None:
    loader = make(S1)
    first = write_jsonl(tmp_path / "edges.jsonl", [edge("Knows", "a", "b")])
    second = write_jsonl(tmp_path / "nodes.jsonl", [node("Person", name="a"), node("Person", name="b")])
    loader.graph.load([first, second], LoadMode.APPEND)
    assert edges(loader.graph, "Knows") == [("a", "b")]
    again = write_jsonl(tmp_path / "again.jsonl", [node("Person", name="c"), node("Person", name="a")])
    with pytest.raises(InvalidRecords) as caught:
        loader.graph.load([second, again], LoadMode.MERGE)
    assert str(caught.value) == (
        f"{again}:2: @key violation on Person.name: value 'a' occurs twice in the input, first at {second}:1"
    )


def test_append_of_an_existing_id_is_a_conflict(loader: Loader) -> None:
    records = [node("Person", name="Eve"), node("Person", name="Ann", age=1)]
    assert loader.refused("append", records, RecordsConflict) == "F:2: Person: id 'Ann' already exists"
    with pytest.raises(RecordsConflict) as caught:
        loader.load("append", records)
    assert caught.value.details()["key_conflict"] == {"table_key": "node:Person", "id": "Ann"}


@pytest.mark.remotely
def test_merge_replaces_old_rows_and_adds_new_ones(loader: Loader) -> None:
    loader.load("merge", [node("Person", name="Ann", age=1), node("Person", name="Eve")])
    people = nodes(loader.graph, "Person")
    assert people["Ann"] == {"name": "Ann", "age": 1}
    assert people["Bob"] == {"name": "Bob", "age": 25, "tags": ["b"]}
    assert len(people) == 5


@pytest.mark.remotely
def test_overwrite_replaces_the_types_it_has_and_no_others(loader: Loader) -> None:
    kept = nodes(loader.graph, "Company")
    records = [node("Person", name=name) for name in ("Ann", "Bob", "Cy", "Dee")]
    loader.load("overwrite", [*records, edge("Knows", "Cy", "Dee")])
    assert nodes(loader.graph, "Person")["Ann"] == {"name": "Ann"}
    assert edges(loader.graph, "Knows") == [("Cy", "Dee")]
    assert nodes(loader.graph, "Company") == kept
    assert len(edges(loader.graph, "WorksAt")) == 3


def test_overwrite_must_not_orphan_an_edge_it_keeps(loader: Loader) -> None:
    message = loader.refused("overwrite", [node("Company", name="Acme")], InvalidRecords)
    assert message.startswith("WorksAt: dst 'Zeta' of edge '")
    assert message.endswith("would be left without its Company")
    kept = [edge("WorksAt", "Ann", "Acme")]
    loader.load("overwrite", [node("Company", name="Acme"), *kept])
    assert edges(loader.graph, "WorksAt") == [("Ann", "Acme")]


def test_edges_left_without_their_nodes_are_counted_once(make: Callable[[str], Loader]) -> None:
    loader = make(S1)
    people = [node("Person", name=f"p{number}") for number in range(26)]
    loader.load("append", [*people, *(edge("Knows", "p0", f"p{number}") for number in range(1, 26))])
    with pytest.raises(InvalidRecords) as caught:
        loader.load("overwrite", [node("Person", name="p0")])
    assert caught.value.total == 25
    assert str(caught.value).endswith("…and 5 more")


def test_a_dangling_edge_fails_and_the_next_load_succeeds(loader: Loader) -> None:
    message = loader.refused("append", [edge("Knows", "Ann", "Zed")], InvalidRecords)
    assert message == "F:1: Knows: dst 'Zed' not found in Person"
    loader.load("append", [edge("Knows", "Ann", "Zed"), node("Person", name="Zed")])
    assert ("Ann", "Zed") in edges(loader.graph, "Knows")


def test_edge_names_in_any_case(loader: Loader) -> None:
    loader.load("append", [{"edge": "KNOWS", "from": "Dee", "to": "Ann"}])
    assert ("Dee", "Ann") in edges(loader.graph, "Knows")


def test_cardinality_on_load(loader: Loader) -> None:
    message = loader.refused("append", [edge("WorksAt", "Ann", "Zeta")], InvalidRecords)
    assert message == "F:1: @card violation on edge WorksAt: source 'Ann' has 2 edges (max 1)"


CARD = "node A { k: String @key } edge Needs: A -> A @card(1..2)"


def test_moving_an_edge_asks_the_source_it_leaves(make: Callable[[str], Loader]) -> None:
    loader = make(CARD)
    people = [node("A", k=name) for name in "xyz"]
    loader.load("append", [*people, edge("Needs", "x", "z", id="e1"), edge("Needs", "y", "z", id="e2")])
    message = loader.refused("merge", [edge("Needs", "y", "z", id="e1")], InvalidRecords)
    assert message == "@card violation on edge Needs: source 'x' has 0 edges (min 1)"
    loader.load("merge", [edge("Needs", "y", "z", id="e1"), edge("Needs", "x", "y", id="e3")])
    assert edges(loader.graph, "Needs") == [("x", "y"), ("y", "z"), ("y", "z")]


def test_overwriting_edges_asks_the_sources_that_lost_theirs(make: Callable[[str], Loader]) -> None:
    loader = make(CARD)
    loader.load(
        "append", [node("A", k="x"), node("A", k="y"), edge("Needs", "x", "y"), edge("Needs", "y", "x")]
    )
    message = loader.refused("overwrite", [edge("Needs", "x", "x")], InvalidRecords)
    assert message == "@card violation on edge Needs: source 'y' has 0 edges (min 1)"
    loader.load("overwrite", [edge("Needs", "x", "x"), node("A", k="x")])
    assert edges(loader.graph, "Needs") == [("x", "x")]


UNIQUE = """
node A { k: String @key email: String? @unique a: String? b: I32? @unique(a, b) }
node Free { name: String note: String? @unique(name) }
edge Link: A -> A { w: I32? @unique(src, dst) }
edge Loose: A -> A
"""


def test_unique_on_load(make: Callable[[str], Loader]) -> None:
    loader = make(UNIQUE)
    loader.load("append", [node("A", k="x", email="e", a="1", b=1), node("A", k="y", a="1", b=2)])
    twice = [node("A", k="p", email="q"), node("A", k="r", email="q")]
    assert loader.refused("append", twice, InvalidRecords) == (
        "F:2: @unique violation on A.email: value 'q' occurs twice in the input, first at F:1"
    )
    assert loader.refused("merge", [node("A", k="z", a="1", b=1)], RecordsConflict) == (
        "F:1: A: @unique violation on A.(a, b): value (1, 1) held by 'x' and 'z'"
    )
    loader.load("merge", [node("A", k="x", email="e", a="1", b=3), node("A", k="z", a="1", b=1)])
    loader.load("merge", [node("A", k="x", email="f"), node("A", k="y", email="e")])


def test_merging_the_same_file_twice_changes_nothing_the_second_time(make: Callable[[str], Loader]) -> None:
    loader = make(UNIQUE)
    records = [
        node("A", k="x"),
        node("A", k="y"),
        node("Free", name="n"),
        edge("Link", "x", "y", w=1),
        edge("Loose", "x", "y", id="given"),
    ]
    loader.load("merge", records)
    first = exported(loader.graph)
    loaded = loader.load("merge", records)
    assert exported(loader.graph) == first
    assert loaded.unmatchable == 0
    loader.load("merge", [edge("Link", "x", "y", w=2), node("Free", name="n", note="hi")])
    assert edges(loader.graph, "Link") == [("x", "y")]
    (free,) = nodes(loader.graph, "Free").values()
    assert free == {"name": "n", "note": "hi"}


def test_merged_records_that_nothing_identifies_are_new_and_counted(make: Callable[[str], Loader]) -> None:
    loader = make(UNIQUE)
    loader.load("append", [node("A", k="x")])
    for number in (1, 2):
        loaded = loader.load("merge", [edge("Loose", "x", "x"), edge("Loose", "x", "x", id="e")])
        assert loaded.unmatchable == 1
        assert len(edges(loader.graph, "Loose")) == number + 1


def test_of_equal_ids_in_a_merge_the_last_wins(make: Callable[[str], Loader]) -> None:
    loader = make(UNIQUE)
    records = [
        node("Free", id="f", name="one"),
        node("Free", id="g", name="x"),
        node("Free", id="f", name="two"),
    ]
    loaded = loader.load("merge", records)
    assert loaded.total == 2
    assert nodes(loader.graph, "Free") == {"f": {"name": "two"}, "g": {"name": "x"}}
    message = loader.refused(
        "append", [node("Free", id="h", name="1"), node("Free", id="h", name="2")], InvalidRecords
    )
    assert message == "F:2: Free: id 'h' occurs twice in the input, first at F:1"


RULES = """
node Item {
  sku: String @key
  qty: I32
  price: F64?
  kind: enum(a, b)?
  v: Vector(2)?
  @range(qty, 0..)
  @range(price, -1.5..99.5)
  @check(sku, "^[A-Z]+$")
}
"""


@pytest.mark.once_remotely
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"qty": -1}, "F:1: @range violation on Item.qty: value -1 < min 0"),
        ({"qty": 1, "price": 99.75}, "F:1: @range violation on Item.price: value 99.75 > max 99.5"),
        ({"qty": 1, "kind": "c"}, "F:1: invalid enum value 'c' for Item.kind: expected one of a, b"),
        (
            {"qty": 1, "sku": "x1"},
            "F:1: @check violation on Item.sku: value 'x1' does not match pattern '^[A-Z]+$'",
        ),
        ({}, "F:1: Item.qty: property is required, but has no value"),
        ({"qty": None}, "F:1: Item.qty: property is required, but has no value"),
        ({"qty": 1, "v": [1, "x"]}, "F:1: Item.v: item 1: expects F32, got string 'x'"),
        ({"qty": 1, "v": [1]}, "F:1: Item.v: expects 2 dimensions, got 1"),
        ({"qty": 2**31}, "F:1: Item.qty: 2147483648 is out of range for I32"),
        ({"qty": 1.0}, "F:1: Item.qty: expects I32, got number 1.0"),
        ({"qty": 1, "extra": 1}, "F:1: Item.extra: unknown input field 'extra' for 'node:Item'"),
    ],
)
def test_value_rules_on_load(data: dict[str, Any], message: str, make: Callable[[str], Loader]) -> None:
    loader = make(RULES)
    assert loader.refused("append", [node("Item", **{"sku": "X", **data})], InvalidRecords) == message


def test_twenty_violations_are_shown_and_all_are_counted(make: Callable[[str], Loader]) -> None:
    loader = make(RULES)
    records = [node("Item", sku="X" * (1 + number), qty=-number - 1) for number in range(50)]
    with pytest.raises(InvalidRecords) as caught:
        loader.load("append", records)
    assert caught.value.total == 50
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "…and 30 more"


def test_a_key_of_several_members(make: Callable[[str], Loader]) -> None:
    loader = make("node Seat { hall: String row: I32 @key(hall, row) } edge Beside: Seat -> Seat")
    seats = [node("Seat", hall='A"', row=7), node("Seat", hall="A", row=8)]
    loader.load("append", [*seats, edge("Beside", '["A\\"","7"]', '["A","8"]')])
    assert set(nodes(loader.graph, "Seat")) == {'["A\\"","7"]', '["A","8"]'}
    assert "id" in loader.refused("merge", [node("Seat", hall="B", row=1, id="B1")], InvalidRecords)


def test_no_records_no_commit(loader: Loader) -> None:
    head = loader.graph.head()
    loaded = loader.load("overwrite", [])
    assert (loaded.total, loaded.commit_id) == (0, None)
    assert loader.graph.head() == head


@pytest.mark.remotely
def test_from_makes_the_branch_with_the_load(loader: Loader) -> None:
    start = loader.graph.head()
    loader.load("append", [node("Person", name="Later")])
    assert start is not None
    loaded = loader.load("append", [node("Person", name="Eve")], branch="dev", source=start.commit_id)
    assert loaded.branch_created
    assert set(nodes(loader.graph, "Person", "dev")) == {"Ann", "Bob", "Cy", "Dee", "Eve"}
    assert "Eve" not in nodes(loader.graph, "Person")
    again = loader.load("append", [node("Person", name="Fay")], branch="dev", source="main")
    assert not again.branch_created
    check_whole(loader.graph)


@pytest.mark.remotely
def test_a_load_that_fails_makes_no_branch(loader: Loader) -> None:
    loader.refused("append", [edge("Knows", "Ann", "Zed")], InvalidRecords, branch="dev", source="main")
    loader.refused("append", [node("Person", name="Ann")], RecordsConflict, branch="dev", source="main")
    loader.refused("append", [node("Person", name="Eve")], BranchNotFound, branch="dev")
    loader.refused("append", [node("Person", name="Eve")], NotFoundError, branch="dev", source="nowhere")
    assert loader.load("append", [], branch="dev", source="main").commit_id is None
    assert loader.graph.branches() == ["main"]


def test_a_dry_run_checks_everything_and_writes_nothing(loader: Loader) -> None:
    head = loader.graph.head()
    loaded = loader.load("append", [node("Person", name="Eve")], dry_run=True)
    assert (loaded.total, loaded.commit_id) == (1, None)
    loaded = loader.load("append", [node("Person", name="Eve")], dry_run=True, branch="dev", source="main")
    assert loaded.total == 1
    assert (loader.graph.head(), loader.graph.branches()) == (head, ["main"])
    loader.refused("append", [node("Person", name="Ann")], RecordsConflict, dry_run=True)


def test_an_overwrite_that_lost_a_race_says_so(loader: Loader, place: str, settings: Settings) -> None:
    other = Graph.open(place, settings, OpenMode.READ_WRITE)
    publish = loader.graph.door.publish

    def late(plan):  # type: ignore[no-untyped-def]
        other.change('query q() { insert Company { name: "New" } }')
        return publish(plan)

    loader.graph.door.publish = late  # type: ignore[method-assign]
    with pytest.raises(ExpectedVersionMismatch):
        loader.load("overwrite", [node("Company", name="Acme"), node("Company", name="Zeta")])
    assert "New" in nodes(loader.graph, "Company")


@pytest.mark.remotely
def test_an_append_beside_another_writer_is_planned_again(
    loader: Loader, place: str, settings: Settings
) -> None:
    other = Graph.open(place, settings, OpenMode.READ_WRITE)
    publish = loader.graph.door.publish
    names = ["New", "Eve"]

    def late(plan):  # type: ignore[no-untyped-def]
        """Once: the next time the lock is held from before the load is planned."""
        while names:
            change = "query q($n: String) { insert Person { name: $n } }"
            other.change(change, params={"n": names.pop()})
        return publish(plan)

    loader.graph.door.publish = late  # type: ignore[method-assign]
    with pytest.raises(RecordsConflict, match="id 'Eve' already exists"):
        loader.load("append", [node("Person", name="Eve")])
    assert {"New", "Eve"} <= set(nodes(loader.graph, "Person"))
    check_whole(loader.graph)


ALL = """
node All {
  k: String @key s: String? b: Bool? i: I32? j: I64? u: U32? v: U64? f: F32? g: F64?
  d: Date? t: DateTime? w: Vector(3)? x: Blob? l: [I64]? e: enum(a, b-2, 3c)? n: [String]?
  ds: [Date]? ts: [DateTime]? bs: [Bool]? fs: [F64]?
}
node Loose { t: String }
edge L: All -> Loose { w: F64? }
"""
EVERYTHING = [
    node(
        "All",
        k="one",
        s='qu"ote\\ \n\t\u0001 ü 😀',
        b=True,
        i=-(2**31),
        j=2**63 - 1,
        u=2**32 - 1,
        v=2**64 - 1,
        f=0.1,
        g=1e300,
        d="2024-02-29",
        t="2024-01-01T12:00:00.123+02:00",
        w=[1, 2.5, -3],
        x="base64:aGVsbG8=",
        l=[1, -2, 2**62],
        e="b-2",
        n=['a"b', "", "c"],
        ds=["1969-12-31"],
        ts=[0],
        bs=[True, False],
        fs=[1e-7, -0.0],
    ),
    node("All", k="two"),
    node("All", k="", s="", l=[], n=[], x="base64:"),
    node("Loose", t="x", id="L1"),
    node("Loose", t="y"),
    edge("L", "one", "L1", w=-0.0),
    edge("L", "", "L1", w=5e-324),
]


@pytest.mark.remotely
def test_export_and_load_give_the_same_graph(make: Callable[[str], Loader], tmp_path: Path) -> None:
    loader = make(ALL)
    loader.load("append", EVERYTHING)
    lines = b"".join(loader.graph.export())
    backup = tmp_path / "backup.jsonl"
    backup.write_bytes(lines)
    copy = Graph.init(str(tmp_path / "copy"), ALL, Settings(fsync=False, actor="bob"))
    copy.load([str(backup)], LoadMode.OVERWRITE)
    assert b"".join(copy.export()) == lines
    one = nodes(copy, "All")["one"]
    assert (one["d"], one["t"], one["v"], one["x"]) == (19782, 1704103200123, 2**64 - 1, "base64:aGVsbG8=")
    assert [json.loads(line)["data"]["id"] for line in lines.splitlines() if b'"All"' in line] == [
        "",
        "one",
        "two",
    ]
    copy.load([str(backup)], LoadMode.MERGE)
    assert b"".join(copy.export()) == lines
    check_whole(copy)


@pytest.mark.remotely
def test_export_of_types_and_of_old_states(loader: Loader) -> None:
    graph = loader.graph
    before = b"".join(graph.export())
    head = graph.head()
    assert head is not None
    graph.change('query q() { delete Person where name = "Ann" }')
    assert b"".join(graph.export(head.commit_id)) == before
    people = b"".join(graph.export(types=["Person", "WorksAt"])).splitlines()
    assert [json.loads(line).get("edge") for line in people] == ["WorksAt", "WorksAt", None, None, None]
    with pytest.raises(NotFoundError, match="no type 'Robot'"):
        b"".join(graph.export(types=["Robot"]))


def test_ctrl_c_after_the_publish_says_which_commit_was_made(
    make: Callable[[str], Loader], monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(S1)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("omnigraph_core.load.run.ensure_indexes", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        loader.load("append", D1)
    head = loader.graph.head()
    assert head is not None
    said = f"commit {head.commit_id} is made; its indexes are left to a later load or optimize"
    assert caught.value.__notes__ == [said]
