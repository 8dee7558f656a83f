"""The difference of two states of a graph: what is in it, and that nothing else is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_core.diff import tables as diff_tables
from omnigraph_core.diff.columns import SchemaChange
from omnigraph_core.diff.graph import GraphDiff, State, diff_states
from omnigraph_core.diff.records import EntityChange, entity_changes
from omnigraph_core.diff.tables import Counts, TableDiff
from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced
from omnigraph_core.manifest.rows import VersionMetadata
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.schema import Schema, compile_schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.settings import Settings
from omnigraph_core.tables import row_set
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.stage import stage_upsert
from tests.support.graphs import commit, only_local, operation
from tests.support.records import PEOPLE, edge, node, write_jsonl

ALL = """
node Thing {
  k: String @key
  s: String?
  b: Bool?
  i: I32?
  u: U64?
  f: F32?
  d: F64?
  day: Date?
  at: DateTime?
  tags: [String]?
  reals: [F64]?
  v: Vector(2)?
  file: Blob?
  e: enum(x, y)?
}
edge Link: Thing -> Thing { w: F64? }
"""
VALUES: dict[str, list[Any]] = {
    "s": [None, "", "a", "ü", "a, b"],
    "b": [None, True, False],
    "i": [None, 0, -1],
    "u": [None, 0, 2**64 - 1],
    "f": [None, 0.0, -0.0, 0.1],
    "d": [None, 0.0, -0.0, 0.1],
    "day": [None, "2024-02-29", "1970-01-01"],
    "at": [None, "2024-01-01T12:00:00Z", "2024-01-01T12:00:00.001Z"],
    "tags": [None, [], ["a", "b"], ["a, b"]],
    "reals": [None, [], [0.0], [-0.0], [0.0, 1.0]],
    "v": [None, [0.0, 1.0], [0.0, -1.0]],
    "file": [None, "base64:", "base64:aGVsbG8=", "base64:aGVsbG9="],
    "e": [None, "x", "y"],
}


@pytest.fixture
def people(tmp_path: Path, settings: Settings) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, settings)
    change(graph, 'insert Person { name: "Ann", age: 1 } insert Person { name: "Bob" }')
    return graph


def change(graph: Graph, statements: str, branch: str = "main") -> None:
    graph.change(f"query q() {{ {statements} }}", branch=branch)


def changes(diff: GraphDiff) -> list[EntityChange]:
    return [each for table in diff.table_diffs() for each in entity_changes(table)]


def told(diff: GraphDiff) -> list[tuple[str, str, Any, Any]]:
    return [(each.op, each.entity_id, each.before, each.after) for each in changes(diff)]


def rows_of(graph: Graph, ref: str, key: str) -> dict[str, str]:
    """Every row as a text that tells -0.0 from 0.0, by id."""
    entry = graph.snapshot_of(ref).entry(key)
    table = graph._tables.open(entry.ref, entry.table_version)
    return texts(table.read(blobs=True))


def texts(rows: pa.Table) -> dict[str, str]:
    columns = {name: plain(rows.column(name)) for name in sorted(rows.column_names)}
    found = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return {row["id"]: repr(row) for row in found}


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Python drops the time of a date64."""
    values: list[Any] = (column.cast(pa.int64()) if column.type == pa.date64() else column).to_pylist()
    return values


def applied(diff: TableDiff, base: dict[str, str]) -> dict[str, str]:
    """The difference put on top of the earlier rows; asserts that it says no more than needed."""
    result = dict(base)
    last = ""
    for found in diff.batches():
        touched = [*texts(found.deleted), *texts(found.inserted), *texts(found.after)]
        assert len(set(touched)) == len(touched)
        assert min(touched) > last
        last = max(touched)
        before, after = texts(found.before), texts(found.after)
        assert list(before) == list(after)
        assert all(before[each] != after[each] for each in after)
        assert {**texts(found.deleted), **before}.items() <= base.items()
        assert not texts(found.inserted).keys() & base.keys()
        for names in found.changed_properties().to_pylist():
            assert names
        _check_masks(found)
        result = {name: row for name, row in result.items() if name not in texts(found.deleted)}
        result |= texts(found.inserted) | after
    return result


def _check_masks(found: diff_tables.RowChanges) -> None:
    for name, mask in found.changed.items():
        old, new = found.before.column(found.was[name]), found.after.column(name)
        expected = [repr(x) != repr(y) for x, y in zip(plain(old), plain(new), strict=True)]
        assert mask.tolist() == expected


def some_load(chooser: random.Random, path: Path) -> str:
    names = [f"t{number}" for number in range(12)]
    records = []
    for name in chooser.sample(names, 5):
        values = {key: chooser.choice(among) for key, among in VALUES.items() if chooser.random() < 0.7}
        records.append(node("Thing", k=name, **values))
    mine = [record["data"]["k"] for record in records]
    for number in range(2):
        ends = chooser.choice(mine), chooser.choice(mine)
        records.append(edge("Link", *ends, id=f"l{number}", w=chooser.choice(VALUES["d"])))
    return write_jsonl(path, records)


@pytest.mark.parametrize("seed", range(2))
def test_a_difference_applied_to_the_earlier_state_is_the_later_one(
    seed: int, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any two commits of three branches, for every type of property, in pieces of any size."""
    graph = Graph.init(str(tmp_path / "g"), ALL, settings)
    chooser = random.Random(f"diff {seed}")
    for number in range(10):
        branches = graph.branches()
        branch = chooser.choice(branches)
        if len(branches) < 3 and number % 3 == 2:
            branch = f"b{number}"
            graph.create_branch(branch, chooser.choice(branches))
        elif number % 4 == 3:
            victim = f"t{chooser.randrange(12)}"
            graph.change(f'query q() {{ delete Thing where k = "{victim}" }}', branch=branch)
        path = some_load(chooser, tmp_path / f"{number}.jsonl")
        graph.load([path], LoadMode.MERGE, branch=branch)
    commits = list(graph.log().commits)
    for _ in range(8):
        a, b = chooser.choices(commits, k=2)
        monkeypatch.setattr(row_set, "SORTED_ROWS_MAX", chooser.choice([1, 4096]))
        monkeypatch.setattr(diff_tables, "_BLOB_ROWS_AT_ONCE", chooser.choice([3, 64]))
        diff = graph.diff(a, b)
        assert diff.schema_differences() == []
        found = {each.entity.table_key: each for each in diff.table_diffs()}
        for key in ("node:Thing", "edge:Link"):
            before, after = rows_of(graph, a, key), rows_of(graph, b, key)
            assert (applied(found[key], before) if key in found else before) == after
            names = chooser.sample(sorted(before.keys() | after.keys()), min(2, len(before)))
            some = {name: after[name] for name in names if name in after}
            kept = {name: before[name] for name in names if name in before}
            for only in graph.diff(a, b, types=[key.partition(":")[2]], ids=names).table_diffs():
                assert applied(only, kept) == some


def test_a_commit_against_its_parent_and_the_first_one_against_nothing(people: Graph) -> None:
    change(people, 'update Person set { age: 2 } where name = "Ann" insert Person { name: "Cy" }')
    assert told(people.diff("main")) == [
        ("update", "Ann", {"age": 1}, {"age": 2}),
        ("insert", "Cy", None, {"age": None, "name": "Cy"}),
    ]
    first = people.diff("main~2")
    assert {each.change for each in first.schema_differences()} == {SchemaChange.TYPE_ADDED}
    assert changes(first) == []


def test_identical_states_and_both_directions(people: Graph) -> None:
    people.create_branch("dev")
    assert changes(people.diff("main", "dev")) == []
    change(people, 'delete Person where name = "Bob"', "dev")
    assert told(people.diff("main", "dev")) == [("delete", "Bob", {"age": None, "name": "Bob"}, None)]
    assert told(people.diff("dev", "main")) == [("insert", "Bob", None, {"age": None, "name": "Bob"})]
    counts = [each.counts() for each in people.diff("main", "dev").table_diffs()]
    assert Counts(deleted=1) in counts


def test_what_is_not_there(people: Graph) -> None:
    with pytest.raises(NotFoundError):
        people.diff("main", "nope")
    with pytest.raises(NotFoundError, match="no type 'Nope'"):
        people.diff("main", "main~1", types=["Nope"])
    assert people.diff("main", "main~1", types=["Person"], ids=["Zoe"]).has_none_of(["Zoe"])
    assert not people.diff("main", "main~1", types=["Person"], ids=["Ann"]).has_none_of(["Ann"])


def test_a_branch_that_goes_while_it_is_compared(people: Graph) -> None:
    """Its files go with it; then that is what is wrong."""
    people.create_branch("dev")
    change(people, 'insert Person { name: "Cy" }', "dev")
    diff = people.diff("main", "dev")
    people.delete_branch("dev")
    with pytest.raises((BranchNotFound, BranchReplaced)):
        changes(diff)


def test_read_gives_all_of_a_type_as_arrow(people: Graph) -> None:
    change(people, 'update Person set { age: 2 } where name = "Ann" insert Person { name: "Cy" }')
    (diff,) = people.diff("main").table_diffs()
    found = diff.read()
    assert found.inserted.column("id").to_pylist() == ["Cy"]
    assert found.before.to_pylist() == [{"id": "Ann", "age": 1, "name": "Ann"}]
    assert found.after.to_pylist() == [{"id": "Ann", "age": 2, "name": "Ann"}]
    assert found.changed_properties().to_pylist() == [["age"]]
    (untouched,) = people.diff("main", "main~1", types=["Person"], ids=["Bob"]).table_diffs()
    assert untouched.read().is_empty


# ---- across schemas ----


class Evolving:
    """One type whose table is altered as a schema change alters it."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.ref = TableRef("node:P", "nodes/p")

    def create(self, source: str, rows: list[dict[str, Any]]) -> tuple[Schema, Table]:
        schema = compile_schema(source, "s.pg")
        shape = table_schema(schema.nodes[0])
        table = create_table(
            self.tables, self.ref, shape, operation(), pa.Table.from_pylist(rows, schema=shape)
        )
        return schema, table

    def upsert(self, table: Table, rows: list[dict[str, Any]]) -> Table:
        given = pa.Table.from_pylist(rows, schema=table.schema)
        return commit(self.tables, stage_upsert(self.tables.storage, table, given, operation()))

    def state(self, schema: Schema, *tables: Table) -> State:
        entries = {}
        for entity, table in zip(schema.nodes, tables, strict=True):
            metadata = VersionMetadata("x")
            branch = table.ref.branch
            entry = SubTableEntry(entity.table_key, table.ref.path, table.version, branch, 0, metadata)
            entries[entity.table_key] = entry
        return State(Snapshot(Branch("main", None), 1, entries, None), schema)


@pytest.fixture
def evolving(tables: Tables) -> Evolving:
    return Evolving(tables)


OLD = "node P { name: String @key a: I32? b: String? }"


@only_local
def test_properties_are_followed_through_renames_and_new_types(evolving: Evolving) -> None:
    """About columns, wherever they lie."""
    schema, table = evolving.create(
        OLD, [{"id": n, "name": n, "a": i, "b": "x"} for i, n in enumerate("pqr")]
    )
    fork = create_fork(evolving.tables, evolving.ref, "dev", table.version, unguarded)
    fork.lance.alter_columns({"path": "b", "name": "text"}, {"path": "a", "data_type": pa.int64()})
    fork.lance.add_columns(pa.schema([pa.field("c", pa.bool_())]))
    fork = evolving.tables.open(fork.ref)
    later = compile_schema("node Q { name: String @key a: I64? text: String? c: Bool? }", "s.pg")
    fork = evolving.upsert(
        fork,
        [
            {"id": "p", "name": "p", "a": 7, "text": "y", "c": None},
            {"id": "q", "name": "q", "a": 1, "text": "x", "c": True},
            {"id": "s", "name": "s", "a": None, "text": None, "c": True},
        ],
    )
    after = evolving.state(later, fork)
    diff = diff_states(evolving.tables, evolving.state(schema, table), after)
    assert [(each.change, each.property, each.was, each.now) for each in diff.schema_differences()] == [
        ("type_renamed", None, "P", "Q"),
        ("property_changed", "a", "I32?", "I64?"),
        ("property_renamed", "text", "b", "text"),
        ("property_added", "c", None, "Bool?"),
    ]
    assert told(diff) == [
        ("update", "p", {"a": 0, "text": "x"}, {"a": 7, "text": "y"}),
        ("insert", "s", None, {"a": None, "c": True, "name": "s", "text": None}),
    ]
    back = diff_states(evolving.tables, after, evolving.state(schema, table))
    assert told(back) == [
        ("update", "p", {"a": 7, "b": "y"}, {"a": 0, "b": "x"}),
        ("delete", "s", {"a": None, "c": True, "name": "s", "text": None}, None),
    ]
    for name in ("P", "Q"):
        assert len(diff_states(evolving.tables, diff.before, after, [name]).matches) == 1


@only_local
def test_a_type_that_came_counts_with_all_its_rows(evolving: Evolving) -> None:
    """About types, wherever they lie."""
    schema, table = evolving.create(OLD, [{"id": n, "name": n, "a": 1, "b": None} for n in "pq"])
    nothing, full = (
        State(Snapshot(Branch("main", None), 0, {}, None), Schema()),
        evolving.state(schema, table),
    )
    assert [each.op for each in changes(diff_states(evolving.tables, nothing, full))] == ["insert"] * 2
    assert [each.op for each in changes(diff_states(evolving.tables, full, nothing))] == ["delete"] * 2
    (gone,) = diff_states(evolving.tables, full, nothing).schema_differences()
    assert gone.change is SchemaChange.TYPE_REMOVED


@only_local
def test_a_property_made_again_with_another_type_is_named_and_not_compared(evolving: Evolving) -> None:
    """About columns, wherever they lie."""
    schema, table = evolving.create(OLD, [{"id": "p", "name": "p", "a": 1, "b": "x"}])
    evolving.tables.open(evolving.ref).lance.drop_columns(["a"])
    evolving.tables.open(evolving.ref).lance.add_columns(pa.schema([pa.field("a", pa.utf8())]))
    later = compile_schema("node P { name: String @key a: String? b: String? }", "s.pg")
    head = evolving.tables.open(evolving.ref)
    diff = diff_states(evolving.tables, evolving.state(schema, table), evolving.state(later, head))
    (found,) = diff.schema_differences()
    assert (found.change, found.property, found.was, found.now) == (
        "property_changed",
        "a",
        "I32?",
        "String?",
    )
    assert changes(diff) == []
