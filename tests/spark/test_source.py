"""A graph as DataFrames: what `spark.read.format("omnigraph")` gives is what an export would."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import load_settings
from tests.support.records import edge, node, write_jsonl

pytestmark = [pytest.mark.xdist_group("spark")]

SCHEMA = """
node P {
  k: String @key n: I32? big: I64? u: U32? v: U64? f: F32? d: F64? ok: Bool?
  day: Date? at: DateTime? tags: [String]? vec: Vector(2)? pic: Blob?
}
edge Link: P -> P { w: I32? }
edge Far: P -> P { from: String? }
"""
FULL = {
    "n": -5,
    "big": -(2**63),
    "u": 2**32 - 1,
    "v": 2**64 - 1,
    "f": 0.1,
    "d": -0.0,
    "ok": True,
    "day": "1969-12-31",
    "at": "2024-02-29T12:00:00.123Z",
    "tags": ["a", "'b"],
    "vec": [1.5, -2.0],
    "pic": "base64:aGk=",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Three commits: two people, their edges, and four more people."""
    folder = tmp_path_factory.mktemp("source")
    settings = load_settings({"OMNIGRAPH_FSYNC": "off", "OMNIGRAPH_ACTOR": "ann"}, folder)
    made = Graph.init(str(folder / "g"), SCHEMA, settings)
    for number, records in enumerate(
        [
            [node("P", k="full", **FULL), node("P", k="none")],
            [edge("Link", "full", "none", w=3, id="e1"), edge("Far", "none", "full", **{"from": "x"})],
            [node("P", k=f"p%{each}'", n=each, d=float(each)) for each in range(4)],
        ]
    ):
        made.load([write_jsonl(folder / f"{number}.jsonl", records)], LoadMode.APPEND)
    return made


@pytest.fixture(scope="module")
def read(spark_session: Any, graph: Graph) -> Any:
    """`read(type="P", ref="main~1")`"""

    def load(place: str | Path | None = None, **options: str) -> Any:
        found = spark_session.read.format("omnigraph").options(**options)
        return found.load(str(place or graph.location.path))

    return load


def test_every_type_comes_as_the_one_spark_has_for_it(read: Any) -> None:
    found = {row.k: row.asDict() for row in read(type="P", ref="main~2").collect()}
    assert found["none"] == {"id": "none", "k": "none", **dict.fromkeys(FULL)}
    assert found["full"] == {
        **FULL,
        "id": "full",
        "k": "full",
        "v": Decimal(2**64 - 1),
        "f": pytest.approx(0.1, abs=1e-7),
        "day": dt.date(1969, 12, 31),
        "at": found["full"]["at"],
        "pic": b"hi",
    }
    moment = found["full"]["at"].astimezone(dt.timezone.utc)
    assert moment == dt.datetime(2024, 2, 29, 12, 0, 0, 123000, dt.timezone.utc)
    assert str(found["full"]["d"]) == "-0.0"


def test_edges_have_ends_named_as_in_files(read: Any) -> None:
    assert read(type="Link").collect()[0].asDict() == {"id": "e1", "from": "full", "to": "none", "w": 3}
    far = read(type="edge:Far", columns="src,dst,from").collect()
    assert [tuple(row) for row in far] == [("none", "full", "x")]


def test_a_dataframe_is_one_state_of_the_graph(read: Any, graph: Graph, tmp_path: Path) -> None:
    """However often it is read, and whatever is written between; another load sees the new state."""
    graph.create_branch("moving")
    before = read(type="P", branch="moving", columns="k")
    assert before.count() == 6
    later = write_jsonl(tmp_path / "x.jsonl", [node("P", k=each) for each in ("full", "none", "late")])
    graph.load([later], LoadMode.OVERWRITE, branch="moving")
    assert before.count() == before.union(before).distinct().count() == 6
    assert read(type="P", branch="moving").count() == 3


def test_a_filtered_dataframe_is_still_whole(read: Any) -> None:
    """Spark would read through the filters of the query before, if filters were pushed unasked."""
    people = read(type="P", columns="k,n")
    several = people.filter("n > 1").union(people.filter("n > 2")).count()
    assert (several, people.count(), people.filter("n > 2").count()) == (3, 6, 1)


def test_filters_that_are_pushed_where_a_caller_asks_for_it(read: Any) -> None:
    people = read(type="P", columns="k,n", pushdown="true").filter("n >= 1 and k like 'p%' and n % 2 = 1")
    plan = people._jdf.queryExecution().executedPlan().toString()
    assert "% 2" in plan
    assert not any(each in plan for each in (">=", "StartsWith", "isnotnull"))
    assert sorted(row.k for row in people.collect()) == ["p%1'", "p%3'"]


def pushed_filters() -> list[tuple[Any, int]]:
    from pyspark.sql import datasource as spark

    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 123000, dt.timezone.utc)
    return [
        (spark.EqualTo(("k",), "full"), 1),
        (spark.EqualTo(("id",), "p%1'"), 1),
        (spark.StringStartsWith(("k",), "p%"), 4),
        (spark.In(("k",), ("full", "none", None)), 2),
        (spark.IsNull(("n",)), 1),
        (spark.IsNotNull(("n",)), 5),
        (spark.Not(spark.IsNull(("n",))), 5),
        (spark.GreaterThan(("n",), 1), 2),
        (spark.LessThan(("n",), 3), 4),
        (spark.LessThanOrEqual(("n",), -5), 1),
        (spark.Not(spark.EqualTo(("n",), 1)), 4),
        (spark.In(("n",), (1, 2, 99)), 2),
        (spark.In(("n",), ()), 0),
        (spark.EqualTo(("big",), -(2**63)), 1),
        (spark.GreaterThanOrEqual(("u",), 2**32 - 1), 1),
        (spark.EqualTo(("u",), 2**40), 0),
        (spark.EqualTo(("v",), Decimal(2**64 - 1)), 1),
        (spark.EqualTo(("f",), 0.10000000149011612), 1),
        (spark.EqualTo(("d",), 0.0), 2),
        (spark.GreaterThanOrEqual(("d",), 0.0), 5),
        (spark.EqualTo(("ok",), True), 1),
        (spark.Not(spark.EqualTo(("ok",), True)), 0),
        (spark.LessThan(("day",), dt.date(1970, 1, 1)), 1),
        (spark.EqualTo(("at",), moment), 1),
        (spark.GreaterThan(("at",), moment), 0),
        (spark.EqualNullSafe(("n",), None), 1),
        (spark.EqualNullSafe(("n",), 1), 1),
        (spark.EqualTo(("n",), None), 0),
    ]


def test_what_lance_makes_of_pushed_filters(graph: Graph) -> None:
    """Exactly the rows that Spark would keep, null and both zeros included."""
    from omnigraph_core.spark.pinned import PinnedType, pin
    from omnigraph_core.spark.pushed import push

    pinned = pin({"path": str(graph.location.path), "type": "P", "columns": "k"}, graph.settings)
    assert isinstance(pinned, PinnedType)
    (fragments,) = pinned.groups()
    for asked, expected in pushed_filters():
        found = push([asked], pinned.entity)
        assert found.left == ()
        rows = sum(batch.num_rows for batch in pinned.batches(fragments, found.where))
        assert rows == expected, f"{asked}: {found.where}"


def test_what_is_pushed_and_what_is_left(graph: Graph) -> None:
    from pyspark.sql import datasource as spark

    from omnigraph_core.spark.pushed import push

    entity = graph.at().schema.node("P")
    left: list[spark.Filter] = [
        spark.Not(spark.In(("n",), (1, None))),
        spark.EqualTo(("tags",), ["a"]),
        spark.IsNull(("pic",)),
        spark.EqualTo(("n", "deep"), 1),
        spark.EqualTo(("n",), 1.5),
        spark.StringEndsWith(("k",), "x"),
        spark.EqualTo(("at",), dt.datetime(2024, 1, 1)),
        spark.GreaterThan(("d",), float("nan")),
        spark.Not(spark.EqualNullSafe(("n",), 1)),
    ]
    taken = [spark.EqualTo(("k",), "it's"), spark.IsNotNull(("n",)), spark.In(("n",), ())]
    found = push([*left, *taken], entity)
    assert list(found.left) == left
    assert found.where == "(`k` = 'it''s') AND (`n` IS NOT NULL) AND (false)"


def test_a_query_gives_its_rows(read: Any) -> None:
    source = (
        "query q($least: I32) { match { $p: P $p.n >= $least } return { $p.k, $p.n, $p.at } order { $p.n } }"
    )
    found = read(query=source, params='{"least": 2}', ref="main").collect()
    assert [(row[0], row[1], row[2]) for row in found] == [("p%2'", 2, None), ("p%3'", 3, None)]


MISTAKES = {
    "Nobody": {"type": "Nobody"},
    "'pushdown' is true or false": {"type": "P", "pushdown": "yes"},
    "unknown option 'typ'": {"typ": "P", "type": "P"},
    "either the option 'type' or the option 'query'": {},
    "has no column 'age'": {"type": "P", "columns": "k,age"},
    "nowhere": {"type": "P", "ref": "nowhere"},
    "both 'branch' and 'ref'": {"type": "P", "branch": "main", "ref": "main"},
    "'params' is not JSON": {"query": "query q() { match { $p: P } return { $p.k } }", "params": "x"},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_said_before_any_task(message: str, graph: Graph) -> None:
    from omnigraph_core.spark.pinned import pin

    with pytest.raises(OmnigraphError, match=message):
        pin({"path": str(graph.location.path), **MISTAKES[message]}, graph.settings)


def test_spark_shows_what_was_wrong_and_what_to_do(read: Any) -> None:
    with pytest.raises(Exception, match=r"P has no column 'age'\s+hint: columns are: id, at, big, "):
        read(type="P", columns="k,age")


def test_columns_that_a_caller_declares(spark_session: Any, graph: Graph) -> None:
    """The other way to read fewer of them; never as something else."""

    def declared(columns: str) -> Any:
        found = spark_session.read.format("omnigraph").option("type", "P").schema(columns)
        return found.load(str(graph.location.path))

    assert sorted(row.n for row in declared("n int").filter("n > 0").collect()) == [1, 2, 3]
    with pytest.raises(Exception, match=r"P\.n is int, not string"):
        declared("n string").collect()
