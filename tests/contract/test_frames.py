"""Data frames in and out. They are no part of the development environment, because pyarrow imports pandas
with every command where it finds it; `make frames` runs these tests with both."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import omnigraph_core as og
from tests.support.records import PEOPLE, nodes

SETTINGS = og.Settings(fsync=False, actor="ann")
NAMES = "query names() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }"
WHY = "not installed; `make frames` has it"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", PEOPLE, settings=SETTINGS)


def test_pandas_there_and_back(graph: og.Graph) -> None:
    pd: Any = pytest.importorskip("pandas", reason=WHY)
    people = pd.DataFrame({"name": ["Ann", "Bob"], "age": [30, 25]})
    assert people["age"].dtype == "int64"
    graph.load(people, "append", type="Person")
    found = graph.query(NAMES).to_pandas()
    assert found.to_dict("list") == {"name": ["Ann", "Bob"], "age": [30, 25]}


def test_the_index_of_pandas(graph: og.Graph) -> None:
    """One with a name is a column; the positions that a filter leaves are none."""
    pd: Any = pytest.importorskip("pandas", reason=WHY)
    people = pd.DataFrame({"name": ["Ann", "Bob", "Cy"], "age": pd.array([30, None, 5], "Int32")})
    graph.load(people[people["name"] != "Ann"], "append", type="Person")
    graph.load(people[people["name"] == "Ann"].set_index("name"), "append", type="Person")
    assert nodes(graph, "Person").keys() == {"Ann", "Bob", "Cy"}
    assert [row["age"] for row in graph.query(NAMES)] == [30, None, 5]


def test_kinds_of_pandas(graph: og.Graph) -> None:
    """Categories and dates are taken; what pandas cannot express in Arrow is one clear error."""
    pd: Any = pytest.importorskip("pandas", reason=WHY)
    graph.load(pd.DataFrame({"name": pd.Categorical(["Ann", "Bob"])}), "append", type="Person")
    known = pd.DataFrame({"from": ["Ann"], "to": ["Bob"], "since": [date(2024, 5, 1)]})
    graph.load(known, "append", type="Knows")
    with pytest.raises(og.BadDataError, match="cannot be read as Arrow data"):
        graph.load(pd.DataFrame({"name": ["Cy"], "age": [object()]}), "append", type="Person")
    with pytest.raises(og.InvalidRecords, match="expects I32, found double"):
        graph.load(pd.DataFrame({"name": ["Cy", "Di"], "age": [1, None]}), "append", type="Person")
    assert nodes(graph, "Person").keys() == {"Ann", "Bob"}


def test_polars_there_and_back(graph: og.Graph) -> None:
    pl: Any = pytest.importorskip("polars", reason=WHY)
    people = pl.DataFrame({"name": ["Ann", "Bob"], "age": [30, None]})
    graph.load({"Person": people, "Knows": pl.DataFrame({"from": ["Ann"], "to": ["Bob"]})}, "append")
    assert graph.query(NAMES).to_polars().equals(people.cast({"age": pl.Int32}))
    assert pl.DataFrame(graph.query(NAMES)).shape == (2, 2)
    with pytest.raises(og.UsageError, match="not LazyFrame"):
        graph.load(people.lazy(), "append", type="Person")
