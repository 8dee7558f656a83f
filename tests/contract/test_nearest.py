"""`nearest` by an index: what comparing every vector gives, with ties, without vectors, out of date."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.read.search import narrowing
from omnigraph_core.settings import Settings
from tests.support.records import node, write_jsonl

SCHEMA = """
node Doc {
  slug: String @key
  kind: I32
  mixed: Vector(3)? @index
  same: Vector(3)? @index
  rare: Vector(3)? @index
  huge: Vector(3)? @index
}
"""
PROPERTIES = ("mixed", "same", "rare", "huge")


def documents(count: int) -> list[dict[str, Any]]:
    chance = random.Random(3)
    found = []
    for number in range(count):
        mixed = [round(chance.uniform(-1, 1), 2) for _ in range(3)]
        vectors = {
            "mixed": mixed if number % 9 else None,
            "same": [float(number % 2), 0.0, 0.0],
            "rare": mixed if number % 40 == 0 else None,
            "huge": [value * 3e18 for value in mixed],
        }
        found.append(node("Doc", slug=f"d{chance.randrange(10**6):06}-{number}", kind=number % 3, **vectors))
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """An index in two segments, with rows that are gone or have moved, and rows it does not cover."""
    place = tmp_path_factory.mktemp("nearest")
    made = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="tester"))
    rows = documents(400)
    for part, is_indexed in ((rows[:250], True), (rows[250:350], True), (rows[350:], False)):
        made.load([write_jsonl(place / "rows.jsonl", part)], LoadMode.APPEND)
        if is_indexed:
            ensure_indexes(made.door, "main", None, "tester", unindexed_max=0)
    made.change('query q() { update Doc set { mixed: [0.5, 0.5, 0.5] } where slug < "d1" }')
    made.change('query q() { delete Doc where slug > "d95" }')
    made.create_branch("side")
    made.change('query q() { update Doc set { mixed: [0.5, 0.5, 0.51] } where slug > "d9" }', branch="side")
    return made


def rows_of(graph: Graph, branch: str) -> list[dict[str, Any]]:
    columns = ", ".join(f"$d.{name} as {name}" for name in ("slug", "kind", *PROPERTIES))
    return graph.query(
        f"query q() {{ match {{ $d: Doc }} return {{ {columns} }} }}", branch=branch
    ).to_pylist()


def expected(rows: list[dict[str, Any]], name: str, wanted: list[float], limit: int) -> list[str]:
    distances = {
        row["slug"]: sum((x - y) ** 2 for x, y in zip(row[name], wanted, strict=True))
        for row in rows
        if row[name] is not None
    }
    return sorted(distances, key=lambda slug: (distances[slug], slug))[:limit]


@pytest.mark.parametrize("branch", ["main", "side"])
@pytest.mark.parametrize("name", PROPERTIES)
def test_the_nearest_are_the_nearest(
    name: str, branch: str, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def noted(*given: Any) -> Any:
        found = narrowing_narrowed(*given)
        asked.append(found is not None)
        return found

    narrowing_narrowed = narrowing.narrowed
    monkeypatch.setattr(narrowing, "narrowed", noted)
    rows = rows_of(graph, branch)
    for kind in (None, 1, 7):
        passing = [row for row in rows if kind is None or row["kind"] == kind]
        where = "" if kind is None else f"$d.kind = {kind}"
        for wanted in ([0.5, 0.5, 0.5], [-0.31, 0.2, 0.9]):
            for limit in (1, 40):
                source = (
                    f"query q($v: Vector(3)) {{ match {{ $d: Doc {where} }} return {{ $d.slug as s }} "
                    f"order {{ nearest($d.{name}, $v) }} limit {limit} }}"
                )
                found = graph.query(source, params={"v": wanted}, branch=branch).to_pylist()
                # Python's numbers have 64 bits, as those of the comparison have; vectors have 32.
                wanted_32 = np.asarray(wanted, np.float32).tolist()
                assert [row["s"] for row in found] == expected(passing, name, wanted_32, limit)
    assert len(asked) == 12
    assert any(asked)
    assert all(asked) == (name in ("rare", "huge"))


@pytest.mark.parametrize("name", PROPERTIES)
def test_nothing_is_lost_where_squares_of_distances_exceed_32_bits(name: str, graph: Graph) -> None:
    """An index has nothing to say of what it cannot compare: partitions of it, or single rows."""
    rows = rows_of(graph, "main")
    for wanted in ([1e19, 2e19, 0.0], [3e38, -3e38, 1e38]):
        source = (
            "query q($v: Vector(3)) { match { $d: Doc } return { $d.slug as s } "
            f"order {{ nearest($d.{name}, $v) }} limit 400 }}"
        )
        found = graph.query(source, params={"v": wanted}).to_pylist()
        wanted_32 = np.asarray(wanted, np.float32).tolist()
        distances = {row["slug"]: math.dist(row[name], wanted_32) for row in rows if row[name] is not None}
        assert [distances[row["s"]] for row in found] == sorted(distances.values())


def test_rows_are_told_apart_where_32_bits_keep_few_digits(tmp_path: Path) -> None:
    """Of squares near zero, 2.4 and 2.9 are less than 1.8 in 32 bits, if that is the sum of three."""
    unit = 2.0**-74.5
    vectors = {f"a{number}": [math.sqrt(2.4) * unit, 0, 0] for number in range(20)}
    vectors |= {f"b{number}": [math.sqrt(2.9) * unit, 0, 0] for number in range(20)}
    vectors["c"] = [math.sqrt(0.6) * unit] * 3
    graph = Graph.init(
        str(tmp_path / "g"),
        "node Doc { slug: String @key v: Vector(3)? @index }",
        Settings(fsync=False, actor="tester"),
    )
    rows = [node("Doc", slug=slug, v=vector) for slug, vector in vectors.items()]
    graph.load([write_jsonl(tmp_path / "rows.jsonl", rows)], LoadMode.APPEND)
    ensure_indexes(graph.door, "main", None, "tester", unindexed_max=0)
    source = (
        "query q() { match { $d: Doc } return { $d.slug as s } "
        "order { nearest($d.v, [0.0, 0.0, 0.0]) } limit 1 }"
    )
    assert graph.query(source).to_pylist() == [{"s": "c"}]


def test_vectors_that_cannot_be_compared_keep_no_index_from_being_built(tmp_path: Path) -> None:
    graph = Graph.init(
        str(tmp_path / "g"),
        "node Doc { slug: String @key v: Vector(2)? @index w: Vector(2)? @index }",
        Settings(fsync=False, actor="tester"),
    )
    rows = [
        node("Doc", slug=str(number), v=[3e38 if number == 9 else 0.5, -1.0], w=[1.0, number])
        for number in range(20)
    ]
    graph.load([write_jsonl(tmp_path / "rows.jsonl", rows)], LoadMode.APPEND)
    built = ensure_indexes(graph.door, "main", None, "tester", unindexed_max=0)
    assert built == {"node:Doc": ["id_btree", "slug_btree", "slug_fts", "w_vector"]}
    assert ensure_indexes(graph.door, "main", None, "tester", unindexed_max=0) == {}
    graph.change('query q() { update Doc set { v: [0.5, 0.5] } where slug = "9" }')
    assert ensure_indexes(graph.door, "main", None, "tester", unindexed_max=0) != {}
