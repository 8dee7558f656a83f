"""Random histories of a graph, with a topology index from anywhere in them: all nodes, all edges, both ways.

The index is made at one state and used at every other: before it, after it, and on branches. What it says
must be what reading the edges says, whatever was inserted, replaced, moved, deleted or optimized between.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.indexes.topology import TopologyBuilder
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, TraversalMode

SCHEMA = """
node A { k: String @key i: I32? }
node B { k: String @key i: I32? }
edge E: A -> A { w: I32? }
edge F: A -> B { w: I32? }
"""

KINDS = ["edges", "edges", "nodes", "upsert", "move", "delete edge", "delete node", "optimize", "branch"]

QUERIES = [
    "query q() { match { $a: A $a e $b } return { $a.k as a, $b.k as b, $b.i as i } order { a, b } }",
    'query q() { match { $b: A { k: "n1" } $a e $b } return { $a.k as a, $a.i as i } order { a } }',
    "query q() { match { $a: A $a <e> $b } return { $a.k as a, $b.k as b } order { a, b } }",
    'query q() { match { $a: A { k: "n0" } $a e{1,3} $b } return { $b.k as b, $b.i as i } order { b } }',
    "query q() { match { $a: A $a $w:e $b } return { $a.k as a, $b.k as b, $w.w as w } order { a, b, w } }",
    "query q() { match { $a: A $a $w:e $b $w.w > 2 } return { $a.k as a, $b.k as b } order { a, b } }",
    "query q() { match { $a: A $a $w:<e> $b $w.w < 4 } return { $a.k as a, $b.k as b } order { a, b } }",
    "query q() { match { $b: B $a f $b $a e $c } return { $a.k as a, $b.k as b, $c.i as i } order { b, a } }",
    "query q() { match { $a: A not { $a f $_ } } return { $a.k as a } order { a } }",
    "query q() { match { $a: A not { $a $w:e $x $w.w > 1 } } return { $a.k as a } order { a } }",
    "query q() { match { $b: A { i: 1 } $a e $b $c e $b $a e $c } return { $a.k as a, $b.k, $c.k } }",
    'query q() { match { $a: A { k: "n2" } $a f $b $c f $b } return { $c.k as c, $c.i as i } order { c } }',
]


class History:
    """A graph that changes at random, on two branches."""

    def __init__(self, chance: random.Random, place: Path) -> None:
        self.chance = chance
        self.place = place
        self.settings = Settings(fsync=False, actor="tester", working_directory=place)
        self.graph = Graph.init(str(place / "g"), SCHEMA, self.settings)
        self.edges = 0
        self.branches = ["main"]

    def load(self, branch: str, records: list[dict[str, Any]], mode: LoadMode) -> None:
        file = self.place / "data.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
        self.graph.load([str(file)], mode, branch=branch)

    def node(self, type_: str, number: int) -> dict[str, Any]:
        return {"type": type_, "data": {"k": f"n{number}", "i": self.chance.randrange(9)}}

    def edge(self, name: str, branch: str) -> dict[str, Any] | None:
        ends = []
        for type_ in ("A", "A" if name == "E" else "B"):
            source = f"query q() {{ match {{ $a: {type_} }} return {{ $a.k as k }} }}"
            found = [row["k"] for row in self.graph.query(source, branch=branch).to_pylist()]
            if not found:
                return None
            ends.append(found[int(self.chance.random() ** 2 * len(found))])
        self.edges += 1
        data = {"id": f"{name}{self.edges}", "w": self.chance.randrange(6)}
        return {"edge": name, "from": ends[0], "to": ends[1], "data": data}

    def begin(self) -> None:
        nodes = [self.node(type_, number) for type_ in "AB" for number in range(8)]
        self.load("main", nodes, LoadMode.APPEND)
        self.add_edges("main", 14)

    def add_edges(self, branch: str, count: int) -> None:
        found = [self.edge(self.chance.choice("EEF"), branch) for _ in range(count)]
        self.load(branch, [each for each in found if each is not None], LoadMode.APPEND)

    def step(self) -> None:
        branch = self.chance.choice(self.branches)
        kind = self.chance.choice(KINDS)
        if kind == "edges":
            self.add_edges(branch, self.chance.randrange(1, 4))
        elif kind == "nodes":
            numbers = self.chance.sample(range(20), 2)
            self.load(branch, [self.node("A", number) for number in numbers], LoadMode.MERGE)
        elif kind == "upsert":
            self.load(branch, [self.node("B", self.chance.randrange(8))], LoadMode.MERGE)
        elif kind == "move":
            self.moved(branch)
        elif kind == "delete edge":
            self.change(branch, f"delete E where w = {self.chance.randrange(6)}")
        elif kind == "delete node":
            self.change(branch, f'delete A where k = "n{self.chance.randrange(12)}"')
        elif kind == "optimize":
            self.graph.optimize(branch)
        elif len(self.branches) < 3:
            self.graph.create_branch(name := f"b{len(self.branches)}", branch)
            self.branches.append(name)

    def moved(self, branch: str) -> None:
        """An edge that is there gets other ends."""
        new = self.edge("E", branch)
        if new is not None and self.edges > 1:
            new["data"]["id"] = f"E{self.chance.randrange(1, self.edges)}"
            self.load(branch, [new], LoadMode.MERGE)

    def change(self, branch: str, text: str) -> None:
        self.graph.change(f"query q() {{ {text} }}", branch=branch)


def check(history: History) -> int:
    place = str(history.place / "g")
    read = Graph.open(place, replace(history.settings, traversal_mode=TraversalMode.INDEXED))
    asked = Graph.open(place, history.settings)
    used = 0
    for branch in history.branches:
        for source in QUERIES:
            expected = read.query(source, branch=branch).to_pylist()
            result = asked.query(source, branch=branch)
            assert result.to_pylist() == expected, (branch, source)
            used += any(step.note == "topology" for step in result.steps)
    return used


def run(seed: int, steps: int, place: Path) -> None:
    chance = random.Random(seed)
    history = History(chance, place)
    history.begin()
    used = 0
    for number in range(steps):
        if number % 7 == 2:
            branch = chance.choice(history.branches)
            builder = TopologyBuilder(history.graph._tables, 1 << 30)
            snapshot = history.graph.snapshot(branch)
            builder.build(snapshot, history.graph._schema_of(snapshot), anew=True)
        history.step()
        used += check(history)
    assert used > steps


@pytest.mark.parametrize("seed", range(2))
def test_an_index_from_any_state_agrees_with_reading(seed: int, tmp_path: Path) -> None:
    run(seed, 8, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_histories_agree_with_reading(seed: int, tmp_path: Path) -> None:
    run(seed, 40, tmp_path)
