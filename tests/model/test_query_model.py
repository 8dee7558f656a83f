"""Random graphs and random queries: the executor, in every way of traversing, against the naive reader."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.query import as_read, check_query, choose_query, parse_queries
from omnigraph_core.settings import Settings, TraversalMode
from tests.model.naive import NaiveEdge, NaiveGraph, NaiveReader

SCHEMA = """
node A { k: String @key i: I32? f: F64? u: U64? s: String? l: [String]? d: Date? t: DateTime? b: Bool? }
node B { k: String @key i: I32? f: F64? s: String? }
edge E: A -> A { w: I32? x: String? }
edge F: A -> B { w: I32? }
edge G: B -> B
"""
ENDS = {"e": ("A", "A"), "f": ("A", "B"), "g": ("B", "B")}
EDGE_PROPERTIES = {"e": ["w", "x"], "f": ["w"], "g": []}
NODE_PROPERTIES = {"A": ["k", "i", "f", "u", "s", "d", "t", "b"], "B": ["k", "i", "f", "s"]}
NUMBERS = {"i", "f", "u", "w"}
WORDS = ["", "a", "ab", "b", "ba%", "a_b", "Å", "null", "it's"]
DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in range(3)]
INSTANTS = [datetime(2024, 1, 1, 12, tzinfo=timezone.utc) + timedelta(milliseconds=n) for n in range(3)]


def random_value(chance: random.Random, name: str) -> Any:
    if name != "k" and chance.random() < 0.2:
        return None
    if name in ("i", "w"):
        return chance.choice([-1, 0, 1, 2, 2**31 - 1])
    if name == "f":
        return chance.choice([-1.5, 0.0, -0.0, 1.0, 2.0, 1e300, 0.1])
    if name == "u":
        return chance.choice([0, 1, 2, 2**53 + 1, 2**63 - 1])
    if name == "l":
        return chance.sample(WORDS, chance.randrange(3))
    if name == "d":
        return chance.choice(DAYS)
    if name == "t":
        return chance.choice(INSTANTS)
    return chance.random() < 0.5 if name == "b" else chance.choice(WORDS)


def stored(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.isoformat() if isinstance(value, date) else value


def random_graph(chance: random.Random) -> tuple[NaiveGraph, list[dict[str, Any]]]:
    """A few nodes with the same ids in both types; parallel edges and loops are likely."""
    naive, records = NaiveGraph({"A": {}, "B": {}}, {"E": [], "F": [], "G": []}), []
    for type_ in ("A", "B"):
        for number in range(chance.randrange(0 if type_ == "B" else 2, 8)):
            names = [*NODE_PROPERTIES[type_], *(["l"] if type_ == "A" else [])]
            values = {name: random_value(chance, name) for name in names}
            values["k"] = f"n{number}"
            naive.nodes[type_][values["k"]] = values
            records.append({"type": type_, "data": {name: stored(each) for name, each in values.items()}})
    for word, (source, target) in ENDS.items():
        if not naive.nodes[source] or not naive.nodes[target]:
            continue
        for number in range(chance.randrange(14)):
            ends = [chance.choice(sorted(naive.nodes[type_])) for type_ in (source, target)]
            values = {name: random_value(chance, name) for name in EDGE_PROPERTIES[word]}
            id_ = f"{word}{chance.randrange(100)}-{number}"
            naive.edges[word.upper()].append(NaiveEdge(id_, ends[0], ends[1], values))
            data = {"id": id_, **{name: stored(each) for name, each in values.items()}}
            records.append({"edge": word.upper(), "from": ends[0], "to": ends[1], "data": data})
    return naive, records


class QueryMaker:
    """A random query that type-checks."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names = 0

    def text(self) -> str:
        scope: dict[str, str] = {}
        clauses = [self.binding(scope)]
        clauses += [self.clause(scope, 0) for _ in range(self.chance.randrange(4))]
        return f"query q() {{ match {{ {' '.join(clauses)} }} {self.returned(scope)} }}"

    def fresh(self) -> str:
        self.names += 1
        return self.chance.choice("pqrst") + str(self.names)

    def binding(self, scope: dict[str, str]) -> str:
        type_ = self.chance.choice("AAB")
        known = [name for name, bound in scope.items() if bound == type_]
        name = self.chance.choice(known) if known and self.chance.random() < 0.4 else self.fresh()
        scope[name] = type_
        tests = ""
        if self.chance.random() < 0.4:
            prop = self.chance.choice([each for each in NODE_PROPERTIES[type_] if each != "b"])
            tests = f" {{ {prop}: {self.literal(prop)} }}"
        elif type_ == "A" and self.chance.random() < 0.1:
            tests = f" {{ l: {self.literal('s')} }}"
        return f"${name}: {type_}{tests}"

    def clause(self, scope: dict[str, str], depth: int) -> str:
        kind = self.chance.random()
        if kind < 0.5:
            return self.traversal(scope)
        if kind < 0.58 and len(scope) < 3:
            return self.binding(scope)
        if kind < 0.8 or depth > 1:
            return self.filter(scope)
        return self.negation(scope, depth)

    def negation(self, scope: dict[str, str], depth: int) -> str:
        inner = dict(scope)
        outer = {name: type_ for name, type_ in scope.items() if type_ in "AB"}
        first = self.traversal(inner, from_=self.chance.choice(sorted(outer)))
        clauses = [first] + [self.clause(inner, depth + 1) for _ in range(self.chance.randrange(3))]
        if self.chance.random() < 0.3:
            clauses = [self.filter(scope)]
        return f"not {{ {' '.join(clauses)} }}"

    def traversal(self, scope: dict[str, str], from_: str | None = None) -> str:
        nodes = sorted(name for name, type_ in scope.items() if type_ in "AB")
        left = from_ or self.chance.choice(nodes)
        words = [word for word, ends in ENDS.items() if scope[left] in ends]
        word = self.chance.choice(words)
        source, target = ENDS[word]
        far = target if scope[left] == source else source
        known = [name for name in nodes if scope[name] == far]
        pick = self.chance.random()
        right = self.chance.choice(known) if known and pick < 0.25 else "_" if pick < 0.4 else self.fresh()
        undirected = source == target and self.chance.random() < 0.3
        shown = f"<{word}>" if undirected else word
        hops, edge = "", ""
        if self.chance.random() < 0.35:
            low = self.chance.randrange(1, 4)
            hops = f"{{{low},{low + self.chance.randrange(3)}}}"
        elif self.chance.random() < 0.3:
            name = self.fresh() if self.chance.random() < 0.8 else "_"
            edge = f"${name}:"
            if name != "_":
                scope[name] = word
        if right != "_":
            scope[right] = far
        return f"${left} {edge}{shown}{hops} ${right}"

    def properties(self, scope: dict[str, str]) -> list[tuple[str, str]]:
        found = []
        for name, type_ in scope.items():
            known = NODE_PROPERTIES.get(type_) or EDGE_PROPERTIES.get(type_, [])
            found += [(name, prop) for prop in known]
        return sorted(found)

    def filter(self, scope: dict[str, str]) -> str:
        name, prop = self.chance.choice(self.properties(scope))
        use = f"${name}.{prop}"
        if prop in ("s", "k", "x") and self.chance.random() < 0.3:
            pair = [use, self.literal("s")]
            self.chance.shuffle(pair)
            return f"{pair[0]} {self.chance.choice(['contains', 'starts_with'])} {pair[1]}"
        operator = self.chance.choice(["=", "!=", "<", "<=", ">", ">="])
        if prop == "b":
            operator = self.chance.choice(["=", "!="])
        group = NUMBERS if prop in NUMBERS else {"s", "k", "x"} if prop in ("s", "k", "x") else {prop}
        others = [other for other in self.properties(scope) if other[1] in group]
        if self.chance.random() < 0.5:
            other = self.chance.choice(others)
            return f"{use} {operator} ${other[0]}.{other[1]}"
        sides = [use, self.literal(prop)]
        self.chance.shuffle(sides)
        return f"{sides[0]} {operator} {sides[1]}"

    def literal(self, name: str) -> str:
        if name in NUMBERS:
            choices = ["0", "1", "2", "2147483647"]
            return self.chance.choice(choices if name in ("i", "u", "w") else [*choices, "0.1", "2.0"])
        if name == "d":
            return f'date("{self.chance.choice(DAYS)}")'
        if name == "t":
            return f'datetime("{self.chance.choice(INSTANTS).isoformat()}")'
        if name == "b":
            return self.chance.choice(["true", "false"])
        return json.dumps(self.chance.choice([*WORDS, "n1", "n2"]), ensure_ascii=False)

    def returned(self, scope: dict[str, str]) -> str:
        nodes = sorted(name for name, type_ in scope.items() if type_ in "AB")
        uses = [f"${name}.{prop}" for name, prop in self.properties(scope)] + [f"${name}" for name in nodes]
        chosen = self.chance.sample(uses, min(len(uses), self.chance.randrange(1, 4)))
        columns = [f"{use} as c{number}" for number, use in enumerate(chosen)]
        orderable = [f"c{number}" for number in range(len(chosen))]
        if self.chance.random() < 0.3:
            columns = columns[: self.chance.randrange(len(columns) + 1)]
            orderable = orderable[: len(columns)]
            for number in range(self.chance.randrange(1, 4)):
                columns.append(f"{self.aggregate(scope, nodes)} as g{number}")
                orderable.append(f"g{number}")
        else:
            orderable += [f"${name}.{prop}" for name, prop in self.properties(scope)]
        keys = [
            f"{key}{self.chance.choice(['', ' asc', ' desc'])}"
            for key in self.chance.sample(orderable, min(len(orderable), self.chance.randrange(3)))
        ]
        order = f" order {{ {', '.join(keys)} }}" if keys else ""
        limit = f" limit {self.chance.randrange(6)}" if self.chance.random() < 0.3 else ""
        return f"return {{ {', '.join(columns)} }}{order}{limit}"

    def aggregate(self, scope: dict[str, str], nodes: list[str]) -> str:
        numbers = [f"${name}.{prop}" for name, prop in self.properties(scope) if prop in NUMBERS]
        texts = [f"${name}.{prop}" for name, prop in self.properties(scope) if prop in ("s", "k", "x")]
        function = self.chance.choice(["count", "sum", "avg", "min", "max"])
        if function == "count":
            return f"count(${self.chance.choice(nodes)})"
        if function in ("sum", "avg"):
            # Sums of floats depend on their order in the last digit.
            numbers = [use for use in numbers if not use.endswith(".f")]
            return f"{function}({self.chance.choice(numbers)})" if numbers else f"count(${nodes[0]})"
        return f"{function}({self.chance.choice(numbers + texts)})"


def compare(graphs: list[Graph], naive: NaiveGraph, source: str) -> None:
    file = parse_queries(source, "random.gq")
    read = as_read(check_query(choose_query(file), graphs[0].catalog().schema, file.source))
    expected = NaiveReader(naive, read, datetime.now(timezone.utc)).rows()
    for graph in graphs:
        found = graph.query(source)
        assert found.to_pylist() == expected, f"{graph.settings.traversal_mode}: {source}\n{found.plan}"


def run(seed: int, queries: int, place: Path) -> None:
    chance = random.Random(seed)
    naive, records = random_graph(chance)
    settings = Settings(fsync=False, actor="tester", working_directory=place)
    graph = Graph.init(str(place / f"g{seed}"), SCHEMA, settings)
    data = place / f"{seed}.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    graph.load([str(data)], LoadMode.APPEND)
    if seed % 2:
        graph.build_topology()
    graphs = [
        Graph.open(str(place / f"g{seed}"), replace(settings, traversal_mode=mode))
        for mode in (TraversalMode.INDEXED, TraversalMode.CSR)
    ]
    maker = QueryMaker(chance)
    for _ in range(queries):
        compare(graphs, naive, maker.text())


@pytest.mark.parametrize("seed", range(6))
def test_queries_agree_with_the_naive_reader(seed: int, tmp_path: Path) -> None:
    run(seed, 60, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_many_queries_agree_with_the_naive_reader(seed: int, tmp_path: Path) -> None:
    run(seed, 400, tmp_path)
