"""`import omnigraph_core as og`: opening, loading what is in memory, and results, as a script uses them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import omnigraph_core as og
from omnigraph_core.arguments import WrongArgument
from omnigraph_core.load.formats.arrow_stream import UnreadableStream
from omnigraph_core.load.formats.given_records import RecordUnfit
from tests.support.processes import clean_environment
from tests.support.records import PEOPLE, edges, nodes
from tests.support.trees import fingerprint as tree
from tests.support.writers import check_whole

SETTINGS = og.Settings(fsync=False, actor="ann")
NAMES = "query names() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }"
INSERT = "query add($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", PEOPLE, settings=SETTINGS) as made:
        yield made
        check_whole(og.open(tmp_path / "g", settings=SETTINGS))


def people(*names: str) -> pa.Table:
    return pa.table({"name": list(names), "age": pa.array(range(len(names)), pa.int32())})


# opening and closing


def test_open_writes_nothing_until_the_first_write(graph: og.Graph, tmp_path: Path) -> None:
    before = tree(tmp_path / "g")
    with og.open(tmp_path / "g", settings=SETTINGS) as opened:
        assert opened.query(NAMES).to_pylist() == []
        assert tree(tmp_path / "g") == before
        assert opened.mode is og.OpenMode.ON_DEMAND
        opened.change(INSERT, params={"n": "Ann"})
        assert opened.mode is og.OpenMode.READ_WRITE
    assert set(nodes(graph, "Person")) == {"Ann"}


def test_the_first_write_settles_what_a_dead_writer_left(graph: og.Graph, tmp_path: Path) -> None:
    place = str(tmp_path / "g")
    dying = f"import omnigraph_core as og; og.open({place!r}).change({INSERT!r}, params={{'n': 'Cy'}})"
    killed = clean_environment(OMNIGRAPH_FAILPOINTS="write.after_b=kill")
    assert subprocess.run([sys.executable, "-c", dying], env=killed, check=False).returncode == -9
    opened = og.open(tmp_path / "g", settings=SETTINGS)
    assert (len(opened.query(NAMES)), opened.has_pending()) == (0, True)
    opened.create_tag("after")
    assert (opened.query(NAMES).to_pylist(), opened.has_pending()) == ([{"name": "Cy", "age": None}], False)


WRITES = {
    "change": lambda graph: graph.change(INSERT, params={"n": "x"}),
    "load": lambda graph: graph.load(people("x"), "append", type="Person"),
    "apply_schema": lambda graph: graph.apply_schema(PEOPLE + "node City { name: String @key }"),
    "merge": lambda graph: graph.merge("side"),
    "revert": lambda graph: graph.revert("main"),
    "reset_branch": lambda graph: graph.reset_branch("side", "main"),
    "create_branch": lambda graph: graph.create_branch("b"),
    "rename_branch": lambda graph: graph.rename_branch("side", "b"),
    "delete_branch": lambda graph: graph.delete_branch("side"),
    "undelete_branch": lambda graph: graph.undelete_branch("side"),
    "create_tag": lambda graph: graph.create_tag("t"),
    "delete_tag": lambda graph: graph.delete_tag("v1"),
    "undo": lambda graph: graph.undo(),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(),
    "maintain": lambda graph: graph.maintain(),
    "repair": lambda graph: graph.repair(confirm=True),
    "relocate": lambda graph: graph.relocate(),
    "adopt": lambda graph: graph.adopt(),
    "prepare_for_writing": lambda graph: graph.prepare_for_writing(),
}


def test_read_only_refuses_every_write(graph: og.Graph, tmp_path: Path) -> None:
    graph.create_branch("side")
    graph.create_tag("v1")
    reader = og.open(tmp_path / "g", read_only=True, settings=SETTINGS)
    before = tree(tmp_path / "g")
    for name, write in WRITES.items():
        with pytest.raises(og.GraphReadOnly, match="opened for reading only"):
            write(reader)
        assert tree(tmp_path / "g") == before, name


def test_every_method_that_takes_an_actor_is_among_the_writes() -> None:
    found = {
        name
        for name, method in inspect.getmembers(og.Graph, inspect.isfunction)
        if "actor" in inspect.signature(method).parameters and not name.startswith("_")
    }
    assert found <= set(WRITES)


def test_read_only_allows_to_try(graph: og.Graph, tmp_path: Path) -> None:
    reader = og.open(tmp_path / "g", read_only=True, settings=SETTINGS)
    before = tree(tmp_path / "g")
    assert reader.load(people("x"), "append", type="Person", dry_run=True).total == 1
    assert reader.change(INSERT, params={"n": "x"}, dry_run=True).affected_nodes == 1
    reader.cleanup(dry_run=True)
    reader.optimize(dry_run=True)
    assert reader.doctor() == []
    assert tree(tmp_path / "g") == before


def test_a_closed_graph_says_so(graph: og.Graph, tmp_path: Path) -> None:
    opened = og.open(tmp_path / "g", settings=SETTINGS)
    with opened as same:
        assert same is opened
    opened.close()
    for use in (lambda: opened.query(NAMES), opened.branches, lambda: opened.change(INSERT), opened.doctor):
        with pytest.raises(og.GraphClosed, match="was closed"):
            use()
    assert repr(opened) == f"<Graph {opened.location.uri} (closed)>"
    with pytest.raises(AttributeError):
        opened.nothing_like_that  # type: ignore[attr-defined]  # noqa: B018


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(og.NotFoundError):
        og.open(tmp_path / "nowhere", settings=SETTINGS)
    with pytest.raises(WrongArgument, match=r"^place must be"):
        og.open(5)  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match=r"^read_only must be"):
        og.open("g", read_only="no")  # type: ignore[arg-type]
    with pytest.raises(og.UsageError, match=r"schema file .* cannot be read"):
        og.init(tmp_path / "g", tmp_path / "nowhere.pg", settings=SETTINGS)
    (tmp_path / "s.pg").write_text("node P { name: String @key,, }")
    with pytest.raises(og.BadDataError) as refused:
        og.init(tmp_path / "g", tmp_path / "s.pg", settings=SETTINGS)
    assert "s.pg" in str(refused.value)
    assert not (tmp_path / "g").exists()


def test_the_actor_signs(tmp_path: Path) -> None:
    og.init(tmp_path / "g", PEOPLE, actor="ann", message="hello", settings=og.Settings(fsync=False))
    opened = og.open(tmp_path / "g", actor="bob", settings=og.Settings(fsync=False))
    opened.change(INSERT, params={"n": "x"})
    assert [(each.actor_id, each.message) for each in opened.commits()] == [
        ("bob", None),
        ("ann", "hello"),
    ]


# loading what is in memory


class Streamed:
    """Nothing but the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


FORMS: dict[str, Any] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(),
    "list of tables": lambda table: [table.slice(0, 1), table.slice(1)],
    "list of batches": lambda table: table.to_batches(max_chunksize=1),
    "iterator of batches": lambda table: iter(table.to_batches(max_chunksize=1)),
    "stream": Streamed,
    "DuckDB": lambda table_: duckdb.sql("select * from table_").set_alias("x"),
    "records": lambda table: table.to_pylist(),
    "generator of records": lambda table: (each for each in table.to_pylist()),
    "dictionary encoded": lambda table: table.set_column(0, "name", table["name"].dictionary_encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form: str, graph: og.Graph) -> None:
    loaded = graph.load(FORMS[form](people("Ann", "Bob")), "append", type="Person")
    assert (loaded.total, loaded.counts) == (2, {"node:Person": 2})
    assert graph.query(NAMES).to_pylist() == [{"name": "Ann", "age": 0}, {"name": "Bob", "age": 1}]
    assert graph.commit("main").commit_id == loaded.commit_id


def test_types_in_one_commit(graph: og.Graph, tmp_path: Path) -> None:
    """Nodes and edges together, from a table, records and a file; an edge may come before its nodes."""
    pq.write_table(pa.table({"name": ["Acme"]}), tmp_path / "firms.parquet")
    loaded = graph.load(
        {
            "Knows": pa.table({"from": ["Ann"], "to": ["Bob"], "since": [date(2024, 5, 1)]}),
            "Person": people("Ann", "Bob"),
            "WorksAt": [{"from": "Ann", "to": "Acme"}],
            "Company": tmp_path / "firms.parquet",
        },
        og.LoadMode.APPEND,
        message="all at once",
    )
    assert loaded.counts == {"edge:Knows": 1, "edge:WorksAt": 1, "node:Company": 1, "node:Person": 2}
    assert (edges(graph, "Knows"), edges(graph, "WorksAt")) == ([("Ann", "Bob")], [("Ann", "Acme")])
    assert [each.message for each in graph.commits()] == ["all at once", None]


def test_inputs_are_on_record(graph: og.Graph) -> None:
    """The same table has the same digest, whatever it came in as; another one has not."""
    found = []
    for data in (people("Ann"), Streamed(people("Ann")), people("Bob")):
        graph.load(data, "merge", type="Person")
        (recorded,) = json.loads(graph.commit("main").details or "")["inputs"]
        assert (recorded["name"], recorded["bytes"] > 0) == ("<Person>", True)
        found.append(recorded["sha256"])
    assert found[0] == found[1] != found[2]


def test_records_that_name_their_types(graph: og.Graph) -> None:
    graph.load(
        [
            {"edge": "Knows", "from": "Ann", "to": "Ann", "data": {"since": date(2024, 5, 1)}},
            {"type": "Person", "data": {"name": "Ann"}},
        ],
        "append",
    )
    assert edges(graph, "Knows") == [("Ann", "Ann")]


def test_python_values_are_taken_as_records_write_them(tmp_path: Path) -> None:
    schema = "node T { k: String @key d: Date? t: DateTime? b: Blob? v: Vector(2)? l: [I32]? n: I64? }"
    graph = og.init(tmp_path / "g", schema, settings=SETTINGS)
    numbers = pytest.importorskip("numpy")
    moment = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    record = {
        "k": "a",
        "d": date(2024, 5, 1),
        "t": moment,
        "b": b"\x00\xff",
        "v": numbers.array([0.5, 1.5]),
        "l": (1, 2),
        "n": numbers.int64(2**53 + 1),
    }
    graph.load([record], "append", type="T")
    asked = "query q() { match { $x: T } return { $x.d as d, $x.t as t, $x.v as v, $x.l as l, $x.n as n } }"
    assert graph.query(asked).to_pylist() == [
        {"d": date(2024, 5, 1), "t": moment, "v": [0.5, 1.5], "l": [1, 2], "n": 2**53 + 1}
    ]
    assert graph.at().blob("node", "T", "a", "b").read() == b"\x00\xff"


def test_a_typed_input_without_rows_empties_its_type(graph: og.Graph) -> None:
    for empty in (people().slice(0, 0), [], iter([])):
        graph.load(people("Ann"), "overwrite", type="Person")
        assert graph.load(empty, "overwrite", type="Person").commit_id is not None
        assert nodes(graph, "Person") == {}
    assert graph.load([], "overwrite").commit_id is None


WRONG: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no type": (people("a"), {}, WrongArgument, "type must be the name of a type"),
    "unknown type": (people("a"), {"type": "Nope"}, og.NotFoundError, "Nope"),
    "two types": ({"Person": people("a")}, {"type": "Person"}, WrongArgument, "type must be None"),
    "a format": (people("a"), {"type": "Person", "format": "csv"}, WrongArgument, "format must be None"),
    "unknown column": (
        people("a").rename_columns(["nmae", "age"]),
        {"type": "Person"},
        og.InvalidRecords,
        "unknown column 'nmae'",
    ),
    "wrong column": (
        pa.table({"name": ["a"], "age": ["old"]}),
        {"type": "Person"},
        og.InvalidRecords,
        "'age' expects I32, found string",
    ),
    "a key twice": (people("a", "a"), {"type": "Person"}, og.InvalidRecords, "<Person>:"),
    "no such node": (
        pa.table({"from": ["a"], "to": ["b"]}),
        {"type": "Knows"},
        og.BadDataError,
        "<Knows>:1",
    ),
    "a record with a wrong value": (
        [{"name": "a"}, {"name": "b", "age": "old"}],
        {"type": "Person"},
        og.InvalidRecords,
        "<Person>:2",
    ),
    "a record that is none": ([{"name": "a"}, 5], {"type": "Person"}, RecordUnfit, "<Person>:2: a record is"),
    "a value of no kind": ([{"name": object()}], {"type": "Person"}, RecordUnfit, "cannot be loaded"),
    "no data at all": (None, {"type": "Person"}, WrongArgument, "data must be"),
    "a number by type": ({"Person": 5}, {}, WrongArgument, "data must be"),
    "types by number": ({5: people("a")}, {}, WrongArgument, "data must be"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_and_nothing_changes(what: str, graph: og.Graph, tmp_path: Path) -> None:
    data, options, error, words = WRONG[what]
    before = tree(tmp_path / "g")
    with pytest.raises(error) as refused:
        graph.load(data, "append", **options)
    assert words in str(refused.value)
    assert tree(tmp_path / "g") == before


def test_a_stream_that_breaks_off_changes_nothing(graph: og.Graph, tmp_path: Path) -> None:
    table = people("Ann")

    def batches() -> Iterator[pa.RecordBatch]:
        yield table.to_batches()[0]
        raise ValueError("the disk is gone")

    before = tree(tmp_path / "g")
    reader = pa.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(UnreadableStream, match="the disk is gone"):
        graph.load(reader, "append", type="Person")
    assert tree(tmp_path / "g") == before


def test_bad_rows_can_be_set_aside(graph: og.Graph, tmp_path: Path) -> None:
    table = pa.table({"name": ["Ann", None, "Bob"]})
    loaded = graph.load(table, "append", type="Person", rejects=str(tmp_path / "bad.jsonl"))
    assert (loaded.total, loaded.rejected) == (2, 1)
    assert '"file": "<Person>", "line": 2' in (tmp_path / "bad.jsonl").read_text()


def test_batches_are_cut_to_what_readers_of_files_take(graph: og.Graph, tmp_path: Path) -> None:
    small = og.open(tmp_path / "g", settings=og.Settings(fsync=False, memory_limit_bytes=1 << 20))
    count = 70_000
    loaded = small.load(
        pa.table({"name": [f"p{i:06}" for i in range(count)]}), og.LoadMode.APPEND, type="Person"
    )
    assert loaded.total == count


# results


def test_a_result_in_all_its_forms(graph: og.Graph) -> None:
    graph.load(people("Ann", "Bob"), "append", type="Person")
    result = graph.query(NAMES)
    rows = [{"name": "Ann", "age": 0}, {"name": "Bob", "age": 1}]
    assert (len(result), list(result), result.to_pylist()) == (2, rows, rows)
    assert pa.table(result) == result.to_arrow()
    assert duckdb.sql("select sum(age) from result").fetchall() == [(1,)]
    assert sum(batch.num_rows for batch in result.to_batches()) == 2
    assert repr(result) == "names: 2 rows from branch main\nname | age\n-----+----\nAnn  | 0\nBob  | 1"


def test_html_shows_text_as_text(graph: og.Graph) -> None:
    graph.load([{"name": "<script>alert(1)</script>"}], "append", type="Person")
    html = graph.query(NAMES)._repr_html_()
    assert "<script>" not in html
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>null</td>" in html


def test_long_answers_are_shown_in_part(graph: og.Graph) -> None:
    graph.load([{"name": f"{i:03}" + "x" * 80} for i in range(30)], "append", type="Person")
    result = graph.query(NAMES)
    assert repr(result).endswith("… 10 more")
    assert max(map(len, repr(result).splitlines())) < 75
    assert result._repr_html_().count("<tr>") == 21


def test_a_missing_library_is_named(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    result = graph.query(NAMES)
    for library, convert in (("pandas", result.to_pandas), ("polars", result.to_polars)):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(og.UsageError, match=f"{library} is not installed") as refused:
            convert()
        assert refused.value.hint == f"pip install {library}"


# threads


def test_threads_share_a_graph(graph: og.Graph, tmp_path: Path) -> None:
    """Readers and writers on one object; the first write of two threads repairs once."""
    shared = og.open(tmp_path / "g", settings=SETTINGS)

    def work(number: int) -> int:
        shared.load(people(f"p{number}"), "append", type="Person")
        return len(shared.query(NAMES))

    with ThreadPoolExecutor(4) as threads:
        seen = list(threads.map(work, range(8)))
    assert min(seen) >= 1
    assert set(nodes(shared, "Person")) == {f"p{i}" for i in range(8)}
