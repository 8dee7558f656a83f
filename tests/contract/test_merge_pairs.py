"""Every pair of operations on one entity, one on each side of a merge: the whole table, in both directions.

All pairs are done in one graph, each to entities of its own, so one merge answers them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.merge.conflicts import conflict_lines
from omnigraph_core.merge.resolve import read_resolution
from omnigraph_core.settings import Settings
from tests.support.records import edge, exported, node, write_jsonl

SCHEMA = "node Item { k: String @key  a: I64?  b: I64? }\nedge Link: Item -> Item { w: I64? }\n"

# What ours did at the left, theirs on top; "ab" are the values of the two properties, "." is no
# entity. Conflicts: a, b this property; d deleted and changed; i inserted twice.
NODES = """
        keep  a2  a3  b2  a2b3  gone  again  anew
keep    11    21  31  12  23    .     11     99
a2      21    21  !a  22  23    !d    21     !a
a3      31    !a  31  32  !a    !d    31     !a
b2      12    22  32  12  !b    !d    12     !b
a2b3    23    23  !a  !b  23    !d    23     !ab
gone    .     !d  !d  !d  !d    .     .      !d
again   11    21  31  12  23    .     11     99
anew    99    !a  !a  !b  !ab   !d    99     99
"""
NEW_NODES = """
        keep  in11  in12  in11then21
keep    .     11    12    21
in11    11    11    !i    !i
in12    12    !i    12    !i
in11then21  21  !i  !i    21
"""
# An edge from p to q with 1 on it, as its ends and its value. Conflicts: w the value, e the ends, d
# deleted and changed, o an end is missing. `pgone` deletes the node p, with the edge.
EDGES = """
        keep  w2   w3   to-r  from-r  w2to-r  gone  pgone  p2
keep    pq1   pq2  pq3  pr1   rq1     pr2     .     .      pq1
w2      pq2   pq2  !w   pr2   rq2     pr2     !d    !d     pq2
w3      pq3   !w   pq3  pr3   rq3     !w      !d    !d     pq3
to-r    pr1   pr2  pr3  pr1   !e      pr2     !d    !d     pr1
from-r  rq1   rq2  rq3  !e    rq1     !e      !d    !d     rq1
w2to-r  pr2   pr2  !w   pr2   !e      pr2     !d    !d     pr2
gone    .     !d   !d   !d    !d      !d      .     .      .
pgone   .     !d   !d   !d    !d      !d      .     .      .+d
p2      pq1   pq2  pq3  pr1   rq1     pr2     .     .+d    pq1
"""
# No edge at first; both ends are there.
NEW_EDGES = """
        keep  pq1  pq2  qp1  pgone
keep    .     pq1  pq2  qp1  .
pq1     pq1   pq1  !i   !i   !o
pq2     pq2   !i   pq2  !i   !o
qp1     qp1   !i   !i   qp1  !o
pgone   .     !o   !o   !o   .
"""

Pairs = dict[tuple[str, str], str]


def pairs(table: str) -> Pairs:
    head, *lines = [line.split() for line in table.strip().splitlines()]
    return {(line[0], name): cell for line in lines for name, cell in zip(head, line[1:], strict=True)}


class Graphs:
    """The base, and both sides; every operation is a load or a deletion of many at once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.graph = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="ann"))

    def load(self, branch: str, records: list[dict[str, Any]]) -> None:
        if records:
            self.graph.load([write_jsonl(self.place / "rows", records)], LoadMode.MERGE, branch=branch)

    def delete(self, branch: str, what: str, names: list[str], column: str) -> None:
        if names:
            where = " ".join(f'delete {what} where {column} = "{name}"' for name in names)
            self.graph.change(f"query q() {{ {where} }}", branch=branch)


def item(key: str, values: str) -> dict[str, Any]:
    return node("Item", k=key, a=int(values[0]), b=int(values[1]))


def link(key: str, value: str) -> dict[str, Any]:
    """Between the nodes of this key: their names begin with p, q or r."""
    return edge("Link", value[0] + key, value[1] + key, id=key, w=int(value[2]))


def keyed(kind: str, found: Pairs) -> Iterator[tuple[str, str, str, str]]:
    for number, ((ours, theirs), cell) in enumerate(found.items()):
        yield f"{kind}{number:03}", ours, theirs, cell


def do_to_nodes(graphs: Graphs, branch: str, done: dict[str, str]) -> None:
    later = {
        "a2": "21",
        "a3": "31",
        "b2": "12",
        "a2b3": "23",
        "again": "11",
        "anew": "99",
        "in11": "11",
        "in12": "12",
        "in11then21": "11",
    }
    gone = [key for key, how in done.items() if how in ("gone", "again", "anew")]
    graphs.delete(branch, "Item", gone, "k")
    graphs.load(branch, [item(key, later[how]) for key, how in done.items() if how in later])
    graphs.load(branch, [item(key, "21") for key, how in done.items() if how == "in11then21"])


def do_to_edges(graphs: Graphs, branch: str, done: dict[str, str]) -> None:
    later = {"w2": "pq2", "w3": "pq3", "to-r": "pr1", "from-r": "rq1", "w2to-r": "pr2"}
    later |= {each: each for each in ("pq1", "pq2", "qp1")}
    graphs.load(branch, [link(key, later[how]) for key, how in done.items() if how in later])
    graphs.load(branch, [item("p" + key, "22") for key, how in done.items() if how == "p2"])
    graphs.delete(branch, "Link", ["p" + key for key, how in done.items() if how == "gone"], "from")
    graphs.delete(branch, "Item", ["p" + key for key, how in done.items() if how == "pgone"], "k")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    graphs = Graphs(tmp_path_factory.mktemp("pairs"))
    old_nodes, new_nodes = list(keyed("n", pairs(NODES))), list(keyed("m", pairs(NEW_NODES)))
    old_edges, new_edges = list(keyed("e", pairs(EDGES))), list(keyed("f", pairs(NEW_EDGES)))
    ends = [item(end + key, "11") for key, *_ in (*old_edges, *new_edges) for end in "pqr"]
    start = [item(key, "11") for key, *_ in old_nodes] + ends + [link(key, "pq1") for key, *_ in old_edges]
    graphs.load("main", start)
    graphs.graph.create_branch("theirs")
    for branch, side in (("main", 1), ("theirs", 2)):
        do_to_nodes(graphs, branch, {each[0]: each[side] for each in (*old_nodes, *new_nodes)})
        do_to_edges(graphs, branch, {each[0]: each[side] for each in (*old_edges, *new_edges)})
    return graphs


LETTERS = {"divergent_insert": "i", "delete_vs_update": "d", "orphan_edge": "o"}


def answers(graph: Graph, source: str, into: str) -> tuple[dict[str, str], dict[str, str]]:
    """What comes of every key, as a cell of the tables: by conflicts, and by what is there without."""
    clashes: dict[str, str] = {}
    for each in graph.merge(source, into, dry_run=True).conflicts:
        assert each.entity_id is not None
        letter = LETTERS.get(each.kind.value) or each.property_name or "e"
        clashes[each.entity_id] = clashes.get(each.entity_id, "!") + letter
    graph.create_branch("out", into)
    resolved = {}
    _merge_without_clashes(graph, source)
    for record in exported(graph, "out"):
        data = record["data"]
        if "type" in record:
            resolved[data["k"]] = f"{data['a']}{data['b']}"
        else:
            resolved[data["id"]] = f"{record['from'][0]}{record['to'][0]}{data['w']}"
    graph.delete_branch("out")
    return clashes, resolved


def _merge_without_clashes(graph: Graph, source: str) -> None:
    """Clashing nodes as ours has them, clashing edges dropped."""
    found = graph.merge(source, "out", dry_run=True)
    lines = []
    for line, each in zip(conflict_lines(found.conflicts, found.heads), found.conflicts, strict=True):
        choice = "delete" if each.entity_kind == "edge" else "ours"
        lines.append(json.dumps({**json.loads(line), "choice": choice}))
    graph.merge(source, "out", resolution=read_resolution(lines, "choices"))


def check(table: str, kind: str, clashes: dict[str, str], there: dict[str, str], *, swapped: bool) -> None:
    wrong = {}
    for key, ours, theirs, cell in keyed(kind, pairs(table)):
        wanted = cell.removesuffix("+d")
        is_node_clash = cell.endswith("+d")
        found = clashes.get(key) or there.get(key, ".")
        if found != wanted or (is_node_clash and clashes.get("p" + key) != "!d"):
            pair = (theirs, ours) if swapped else (ours, theirs)
            wrong[pair] = (wanted, found)
    assert wrong == {}


@pytest.mark.parametrize("swapped", [False, True])
def test_every_pair_of_operations(graphs: Graphs, *, swapped: bool) -> None:
    source, into = ("main", "theirs") if swapped else ("theirs", "main")
    clashes, there = answers(graphs.graph, source, into)
    check(NODES, "n", clashes, there, swapped=swapped)
    check(NEW_NODES, "m", clashes, there, swapped=swapped)
    check(EDGES, "e", clashes, there, swapped=swapped)
    check(NEW_EDGES, "f", clashes, there, swapped=swapped)
