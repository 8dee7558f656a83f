"""A graph exported elsewhere may order the members of a composite key otherwise, and it imports."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from omnigraph_core.graph import Graph
from omnigraph_core.load import budget, held_rows, renaming
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.rules.parts import parts
from omnigraph_core.rules.violations import InvalidRecords
from omnigraph_core.settings import Settings
from tests.support.records import edge, edges, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """
node Part { maker: String number: I64 note: String? @key(maker, number) }
node Site { name: String @key }
edge Fits: Part -> Part { w: I32? @unique(src, dst) }
edge At: Part -> Site
edge Holds: Site -> Part
"""


def ours(maker: str, number: int) -> str:
    return json.dumps([maker, str(number)], separators=(",", ":"), ensure_ascii=False)


def theirs(maker: str, number: int) -> str:
    return json.dumps([str(number), maker], separators=(",", ":"))


def part(maker: str, number: int, **more: Any) -> dict[str, Any]:
    return node("Part", id=theirs(maker, number), maker=maker, number=number, **more)


NODES = [part("acme", 7), part("acme", 8), part('é"\\', 7), node("Site", name="here")]
EDGES = [
    edge("Fits", theirs("acme", 7), theirs("acme", 8)),
    edge("Fits", theirs("acme", 8), theirs('é"\\', 7)),
    edge("At", theirs("acme", 7), "here"),
    edge("Holds", "here", theirs('é"\\', 7)),
]
FITS = sorted([(ours("acme", 7), ours("acme", 8)), (ours("acme", 8), ours('é"\\', 7))])


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)


def check(graph: Graph) -> None:
    assert set(nodes(graph, "Part")) == {ours("acme", 7), ours("acme", 8), ours('é"\\', 7)}
    assert edges(graph, "Fits") == FITS
    assert edges(graph, "At") == [(ours("acme", 7), "here")]
    assert edges(graph, "Holds") == [("here", ours('é"\\', 7))]
    check_whole(graph)


def _jsonl(folder: Path, records: Sequence[dict[str, Any]]) -> list[str]:
    return [write_jsonl(folder / "in.jsonl", records)]


def _rows(records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Records as tables, by type, in the order in which the types come."""
    for name in dict.fromkeys(each.get("type") or each["edge"] for each in records):
        mine = [each for each in records if name in (each.get("type"), each.get("edge"))]
        ends = ("from", "to") if "edge" in mine[0] else ()
        yield name, [{**{end: each[end] for end in ends}, **each["data"]} for each in mine]


def _csv(folder: Path, records: Sequence[dict[str, Any]]) -> list[str]:
    paths = []
    for name, rows in _rows(records):
        paths.append(folder / f"{name}.csv")
        with paths[-1].open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return [str(path) for path in paths]


def _parquet(folder: Path, records: Sequence[dict[str, Any]]) -> list[str]:
    paths = []
    for name, rows in _rows(records):
        paths.append(folder / f"{name}.parquet")
        pq.write_table(pa.Table.from_pylist(rows), paths[-1])
    return [str(path) for path in paths]


FORMATS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
Write = Callable[[Path, Sequence[dict[str, Any]]], list[str]]


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("records", [NODES + EDGES, EDGES + NODES], ids=["nodes first", "edges first"])
def test_edges_follow_in_every_format_and_order(
    write: Write, records: list[dict[str, Any]], graph: Graph, tmp_path: Path
) -> None:
    graph.load(write(tmp_path, records), LoadMode.APPEND)
    check(graph)


def test_every_mode(graph: Graph, tmp_path: Path) -> None:
    """A merge meets the nodes that are there; an overwrite puts them in their place."""
    paths = _jsonl(tmp_path, EDGES + NODES)
    assert graph.load(paths, LoadMode.APPEND, dry_run=True).total == 8
    for mode in (LoadMode.MERGE, LoadMode.OVERWRITE):
        graph.load(paths, mode)
        check(graph)
    changed = [part("acme", 7, note="new"), edge("Fits", theirs("acme", 7), theirs("acme", 8), w=5)]
    # The other end is not in this load, so it has to be named as it is here.
    with pytest.raises(InvalidRecords, match="not found in Part"):
        graph.load(_jsonl(tmp_path, changed), LoadMode.MERGE)
    changed[1]["to"] = ours("acme", 8)
    graph.load(_jsonl(tmp_path, changed), LoadMode.MERGE)
    assert nodes(graph, "Part")[ours("acme", 7)]["note"] == "new"
    assert edges(graph, "Fits") == FITS


@pytest.mark.parametrize(
    "given",
    ['[ "7" , "acme" ]', '["acme", "7"]', '["7","\\u0061cme"]'],
    ids=["spaces", "our order with a space", "escapes"],
)
def test_other_spellings_of_the_same_members(given: str, graph: Graph, tmp_path: Path) -> None:
    records = [edge("At", given, "here"), node("Part", id=given, maker="acme", number=7), NODES[-1]]
    graph.load(_jsonl(tmp_path, records), LoadMode.APPEND)
    assert edges(graph, "At") == [(ours("acme", 7), "here")]


WRONG = [
    '["7"]',
    '["7","acme","acme"]',
    '["7","other"]',
    '["7",["acme"]]',
    '[7,"acme"]',
    '["7","acme"',
    "[" * 99_999,
]


@pytest.mark.parametrize("given", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_other_members_are_refused(write: Write, given: str, graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecords, match="is not the id its key gives"):
        graph.load(write(tmp_path, [node("Part", id=given, maker="acme", number=7)]), LoadMode.APPEND)


def test_a_single_key_has_no_order(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), "node P { k: String @key }", SETTINGS)
    with pytest.raises(InvalidRecords, match="is not the id its key gives"):
        graph.load(_jsonl(tmp_path, [node("P", id='["a"]', k="a")]), LoadMode.APPEND)


SWAPS = "node P { a: String b: String @key(a, b) }\nedge E: P -> P"


def test_two_nodes_may_exchange_their_ids(tmp_path: Path) -> None:
    """All ends are renamed at once, not one after the other."""
    graph = Graph.init(str(tmp_path / "g"), SWAPS, SETTINGS)
    records = [
        edge("E", '["y","x"]', '["x","y"]'),
        edge("E", '["y","x"]', '["z","z"]'),
        node("P", id='["y","x"]', a="x", b="y"),
        node("P", id='["x","y"]', a="y", b="x"),
        node("P", id='["z","z"]', a="z", b="z"),
    ]
    graph.load(_jsonl(tmp_path, records), LoadMode.APPEND)
    assert edges(graph, "E") == [('["x","y"]', '["y","x"]'), ('["x","y"]', '["z","z"]')]


CLASHES = {
    "the id of a node that gives none": [
        node("P", a="y", b="x"),
        node("P", id='["y","x"]', a="x", b="y"),
    ],
    "the id of a node that gives it": [
        node("P", id='["y","x"]', a="y", b="x"),
        node("P", id='["y","x"]', a="x", b="y"),
    ],
    "three members": [
        node("Q", id='["z","x","y"]', a="x", b="y", c="z"),
        node("Q", id='["z","x","y"]', a="y", b="z", c="x"),
    ],
}


@pytest.mark.parametrize("name", CLASHES)
@pytest.mark.parametrize("count", [1, 3])
def test_an_id_that_could_mean_two_nodes(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget.MemoryBudget, "parts", lambda self, key_bytes: parts(count))
    schema = f"{SWAPS}\nnode Q {{ a: String b: String c: String @key(a, b, c) }}"
    graph = Graph.init(str(tmp_path / "g"), schema, SETTINGS)
    paths = _jsonl(tmp_path, CLASHES[name])
    with pytest.raises(
        InvalidRecords, match=r"in\.jsonl:2: [PQ]\.id: id '.*' is that of another node"
    ) as caught:
        graph.load(paths, LoadMode.APPEND)
    assert "in.jsonl:1" in str(caught.value)
    loaded = graph.load(paths, LoadMode.APPEND, rejects=str(tmp_path / "bad.jsonl"))
    assert (loaded.total, loaded.rejected) == (1, 1)
    check_whole(graph)


def test_one_node_under_two_ids_is_a_key_twice(graph: Graph, tmp_path: Path) -> None:
    records = [part("acme", 7), node("Part", id=ours("acme", 7), maker="acme", number=7)]
    for mode in LoadMode:
        with pytest.raises(InvalidRecords, match=r"occurs twice|held by"):
            graph.load(_jsonl(tmp_path, records), mode)
    assert exported(graph) == []


def test_what_nodes_were_called_waits_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts, fragments of seven rows and no memory for rows give the same graph."""
    chance = random.Random(3)
    keys = [(f"m{number % 5}", number) for number in range(60)]
    called = {key: chance.choice([ours, theirs])(*key) for key in keys}
    records = [
        *(edge("Fits", called[a], called[b]) for a, b in zip(keys, chance.sample(keys, 60), strict=True)),
        *(node("Part", id=called[key], maker=key[0], number=key[1]) for key in keys),
    ]
    paths = _jsonl(tmp_path, records)
    plain = Graph.init(str(tmp_path / "plain"), SCHEMA, SETTINGS)
    plain.load(paths, LoadMode.APPEND)
    for module in (held_rows, renaming):
        monkeypatch.setattr(module, "ROWS_PER_FRAGMENT", 7)
    monkeypatch.setattr(budget.MemoryBudget, "parts", lambda self, key_bytes: parts(3))
    monkeypatch.setattr(budget, "_ROWS_SHARE", 2**60)
    short = Graph.init(str(tmp_path / "short"), SCHEMA, SETTINGS)
    short.load(paths, LoadMode.APPEND)
    assert edges(short, "Fits") == edges(plain, "Fits")
    assert set(nodes(short, "Part")) == {ours(*key) for key in keys} == set(nodes(plain, "Part"))
    assert {end for each in edges(short, "Fits") for end in each} <= {ours(*key) for key in keys}
    check_whole(short)
