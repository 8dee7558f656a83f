"""DataFrames into a graph: several as one commit, or one through the data source; all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import BadDataError, ConflictError, NotFoundError, OmnigraphError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.spark import driver
from omnigraph_core.spark import load as spark_load
from tests.spark.twins import leftovers
from tests.support.records import edges, node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = [pytest.mark.xdist_group("spark")]

SCHEMA = """
node P { k: String @key n: I32? u: U32? v: U64? at: DateTime? vec: Vector(2)? @range(n, 0..99) }
edge Link: P -> P { w: I32 }
"""


@pytest.fixture
def graph(new_graph: Callable[[str, str], Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Two people; fragments of three rows, so that there are many."""
    monkeypatch.setattr(spark_load, "ROWS_PER_FRAGMENT", 3)
    made = new_graph("graph", SCHEMA)
    start = [node("P", k="old", n=1, u=2**32 - 1, v=2**64 - 1), node("P", k="older", n=2)]
    made.load([write_jsonl(tmp_path / "start.jsonl", start)], LoadMode.APPEND)
    return made


@pytest.fixture
def people(spark_session: Any) -> Any:
    return spark_session.range(0, 10, 1, 3).selectExpr("concat('p', id) as k", "cast(id as int) as n")


@pytest.fixture
def links(spark_session: Any) -> Any:
    frame = spark_session.range(0, 10, 1, 2)
    return frame.selectExpr("concat('p', id) as from", "'old' as to", "cast(id as int) as w")


def place(graph: Graph) -> str:
    return str(graph.location.path)


def write(spark: Any, graph: Graph, **options: Any) -> Any:
    from omnigraph_core.spark.pipeline import graph_write

    return graph_write(spark, place(graph), settings=graph.settings, **options)


@pytest.fixture(params=["by the front", "by tasks"])
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by tasks":
        monkeypatch.setattr(driver, "parts_to_ask", lambda *_: 3)


@pytest.mark.usefixtures("checked")
def test_nodes_and_edges_are_one_commit(spark_session: Any, graph: Graph, people: Any, links: Any) -> None:
    before = graph.head()
    with write(spark_session, graph, branch="etl", source="main", message="nightly", actor="bob") as w:
        w.add("P", people)
        w.add("Link", links)
        w.add("P", people.selectExpr("concat('more', k) as k", "n"))
        assert w.loaded is None
    assert w.loaded.counts == {"edge:Link": 10, "node:P": 20}
    assert graph.head() == before
    made = graph.commit("etl")
    assert (made.commit_id, made.message, made.actor_id) == (w.loaded.commit_id, "nightly", "bob")
    assert graph.commit("etl~1").commit_id == graph.commit("main").commit_id
    assert len(nodes(graph, "P", "etl")) == 22
    assert edges(graph, "Link", "etl") == [(f"p{each}", "old") for each in range(10)]
    check_whole(graph)
    assert leftovers(graph) == []


def test_a_merge_and_an_overwrite(spark_session: Any, graph: Graph, people: Any) -> None:
    with write(spark_session, graph, mode="merge") as w:
        w.add("P", people.selectExpr("if(n = 0, 'old', k) as k", "n"))
    assert len(nodes(graph, "P")) == 11
    assert nodes(graph, "P")["old"]["n"] == 0
    with write(spark_session, graph, mode="overwrite") as w:
        w.add("P", people.filter("n < 0"))
    assert nodes(graph, "P") == {}
    assert w.loaded.counts == {"node:P": 0}
    with write(spark_session, graph) as w:
        pass
    assert w.loaded is None
    assert leftovers(graph) == []


def test_what_was_read_can_be_written(spark_session: Any, graph: Graph, new_graph: Any) -> None:
    """Unsigned numbers come back from the wider types that Spark has for them."""
    copy = new_graph("copy", SCHEMA)
    rows = spark_session.read.format("omnigraph").option("type", "P").load(place(graph))
    with write(spark_session, copy) as w:
        w.add("P", rows)
    assert nodes(copy, "P") == nodes(graph, "P")


DECLARED: dict[str, tuple[str, str, type[OmnigraphError], str]] = {
    "an unknown type": ("Nobody", "'a' as k", NotFoundError, "Nobody"),
    "an unknown column": ("P", "'a' as k, 1 as nn", BadDataError, "unknown column 'nn'"),
    "a missing column": ("Link", "'a' as from, 'b' as to", BadDataError, "required column 'w' is missing"),
    "a type that does not fit": ("P", "'a' as k, 1.5d as n", BadDataError, "expects I32, found double"),
    "a struct": ("P", "'a' as k, struct(1) as n", BadDataError, "expects I32, found struct"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_what_the_columns_say_is_refused_at_once(case: str, spark_session: Any, graph: Graph) -> None:
    type_name, columns, error, message = DECLARED[case]
    with suppress(ZeroDivisionError), write(spark_session, graph) as w:
        with pytest.raises(error, match=message):
            w.add(type_name, spark_session.sql(f"select {columns}"))
        raise ZeroDivisionError
    assert leftovers(graph) == []


def test_a_block_that_fails_writes_nothing(spark_session: Any, graph: Graph, people: Any) -> None:
    head = graph.head()
    with suppress(ZeroDivisionError), write(spark_session, graph) as w:
        w.add("P", people)
        raise ZeroDivisionError
    with (
        pytest.raises(UsageError, match="'upsert' is not one of"),
        write(spark_session, graph, mode="upsert"),
    ):
        pass
    assert graph.head() == head


ROWS: dict[str, tuple[str, type[OmnigraphError], str]] = {
    "a null": ("if(id = 7, null, concat('x', id)) as k", BadDataError, r"partition 2:\d+: .*the row is \{"),
    "a range": (
        "concat('x', id) as k, cast(id * 20 as int) as n",
        BadDataError,
        r'DataFrame P, partition 1:3: .*the row is \{"k": "x5", "n": 100\}',
    ),
    "a negative": ("concat('x', id) as k, -id as v", BadDataError, "-1 is out of range for U64"),
    "a number that is too large": (
        "concat('x', id) as k, cast(id as bigint) << 33 as u",
        BadDataError,
        "is out of range for U32",
    ),
    "a decimal": ("concat('x', id) as k, cast(-id as decimal(20, 0)) as v", BadDataError, "-1 is not a U64"),
    "a key twice": ("concat('x', id % 5) as k", BadDataError, "x0"),
    "a key that is there": ("if(id = 3, 'old', concat('x', id)) as k", ConflictError, "old"),
    "Spark's own failure": ("raise_error('no such luck') as k", OmnigraphError, "no such luck"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_break_a_rule_leave_nothing(case: str, spark_session: Any, graph: Graph) -> None:
    columns, error, message = ROWS[case]
    head = graph.head()
    bad = spark_session.sql(f"select {columns} from range(0, 10, 1, 3)")
    with pytest.raises(error, match=message), write(spark_session, graph) as w:
        w.add("P", bad)
    assert graph.head() == head
    check_whole(graph)
    assert leftovers(graph) == []


def test_tasks_that_fail_are_tried_again(spark_session: Any, graph: Graph, people: Any) -> None:
    """The first attempt at a partition dies with its fragments written."""
    graph.settings = replace(graph.settings, failpoints="spark.parsed.1.0=kill,spark.parsed.2.0=error")
    with write(spark_session, graph) as w:
        w.add("P", people)
    assert w.loaded.counts == {"node:P": 10}
    assert len(nodes(graph, "P")) == 12
    check_whole(graph)
    assert leftovers(graph) == []
