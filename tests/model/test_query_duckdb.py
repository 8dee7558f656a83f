"""Random graphs and random queries: the executor against DuckDB's SQL on the exported tables.

Larger graphs than the naive reader can take, and a second opinion on what a query means: every
query is made twice from one description, as `.gq` and as SQL.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.read.answer.result import QueryResult
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings, TraversalMode

SCHEMA = """
node A { k: String @key i: I32? @index f: F64? s: String? d: Date? b: Bool? }
node B { k: String @key i: I32? s: String? }
edge E: A -> A { w: I32? x: String? }
edge F: A -> B { w: I32? }
edge G: B -> B
"""
ENDS = {"e": ("A", "A"), "f": ("A", "B"), "g": ("B", "B")}
PROPERTIES = {
    "A": ["k", "i", "f", "s", "d", "b"],
    "B": ["k", "i", "s"],
    "e": ["w", "x"],
    "f": ["w"],
    "g": [],
}
KINDS = {"k": "text", "s": "text", "x": "text", "i": "int", "w": "int", "f": "float", "d": "day", "b": "bool"}
WORDS = ["", "a", "ab", "b", "ba%", "a_b", "Å", "null", "it's"]
DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in range(4)]
INTS = [-3, 0, 1, 2, 7, 2**31 - 1]
# Sums of these are exact, so that an order by one does not hang on how it was rounded.
FLOATS = [-1.5, 0.0, 1.0, 2.0, 0.125, 4096.0]


# Queries with more rows than this anywhere are asked once more with so little memory, by the node, that
# they do not fit; what a single row leads to does.
ROWS_MANY = 150
NODE_MEMORY = 140
NODES = 60


def random_value(chance: random.Random, name: str) -> Any:
    if chance.random() < 0.15:
        return None
    kind = KINDS[name]
    if kind == "text":
        return chance.choice(WORDS)
    if kind == "int":
        return chance.choice(INTS)
    if kind == "float":
        return chance.choice(FLOATS)
    return chance.random() < 0.5 if kind == "bool" else chance.choice(DAYS).isoformat()


def random_records(chance: random.Random, nodes: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    sizes = {"A": nodes, "B": max(1, nodes // 2)}
    for type_, count in sizes.items():
        for number in range(count):
            data = {name: random_value(chance, name) for name in PROPERTIES[type_] if name != "k"}
            records.append({"type": type_, "data": {"k": f"n{number}", **data}})
    for word, (source, target) in ENDS.items():
        for number in range(chance.randrange(2 * nodes)):
            # Few nodes have many edges; some edges lead back to where they come from.
            ends = [f"n{int(chance.random() ** 2 * sizes[type_])}" for type_ in (source, target)]
            data = {name: random_value(chance, name) for name in PROPERTIES[word]}
            record = {"edge": word.upper(), "from": ends[0], "to": ends[1]}
            records.append({**record, "data": {"id": f"{word}{number}", **data}})
    return records


def hash_of(record: dict[str, Any]) -> int:
    """Edges stay out at random, nodes never: without them their edges could not come."""
    return 1 if "type" in record else sum(json.dumps(record).encode())


@dataclass
class Both:
    """A query being made: clauses of the match, and the FROM and WHERE of the SQL."""

    clauses: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)


class Maker:
    """Random queries in two languages."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names = 0

    def made(self) -> tuple[str, str]:
        query = Both()
        self.binding(query)
        for _ in range(self.chance.randrange(4)):
            kind = self.chance.random()
            if kind < 0.5 and len(query.nodes) < 4:
                self.traversal(query)
            elif kind < 0.8:
                self.filter(query)
            else:
                self.negation(query)
        return self.returned(query)

    def fresh(self) -> str:
        self.names += 1
        return f"{self.chance.choice('pqrst')}{self.names}"

    def binding(self, query: Both) -> None:
        name, type_ = self.fresh(), self.chance.choice("AAB")
        query.nodes[name] = type_
        query.tables.append(f"{type_} {name}")
        tests = ""
        if self.chance.random() < 0.3:
            prop = self.chance.choice([each for each in PROPERTIES[type_] if each not in "kb"])
            written, sql = self.literal(prop)
            tests = f" {{ {prop}: {written} }}"
            query.where.append(f"{name}.{prop} = {sql}")
        query.clauses.append(f"${name}: {type_}{tests}")

    def traversal(self, query: Both) -> None:
        left = self.chance.choice(sorted(query.nodes))
        word = self.chance.choice([word for word, ends in ENDS.items() if query.nodes[left] in ends])
        source, target = ENDS[word]
        far = target if query.nodes[left] == source else source
        known = [name for name, type_ in sorted(query.nodes.items()) if type_ == far]
        closes = self.chance.random() < 0.15
        right = self.chance.choice(known) if known and closes else self.fresh()
        forward = query.nodes[left] == source
        if source == target and self.chance.random() < 0.15:
            self.per_edge(query, word, left, right, far)
            return
        relation, shown = self.relation(word, forward=forward)
        query.clauses.append(f"${left} {shown} ${right}")
        self.names += 1
        link = f"t{self.names}"
        query.tables.append(f"{relation} {link}")
        query.where += [f"{link}.s = {left}.id", f"{link}.d = {right}.id"]
        self.reached(query, right, far)

    def per_edge(self, query: Both, word: str, left: str, right: str, far: str) -> None:
        edge = self.fresh()
        query.clauses.append(f"${left} ${edge}:{word} ${right}")
        query.tables.append(f"{word.upper()} {edge}")
        query.where += [f"{edge}.src = {left}.id", f"{edge}.dst = {right}.id"]
        query.edges[edge] = word
        self.reached(query, right, far)

    def reached(self, query: Both, right: str, far: str) -> None:
        if right not in query.nodes:
            query.nodes[right] = far
            query.tables.append(f"{far} {right}")

    def relation(self, word: str, *, forward: bool) -> tuple[str, str]:
        """Who is connected with whom as a subquery with columns s and d, and as the language has it."""
        table, same = word.upper(), ENDS[word][0] == ENDS[word][1]
        ends = "src AS s, dst AS d" if forward else "dst AS s, src AS d"
        single, shown = f"(SELECT DISTINCT {ends} FROM {table})", word
        if same and self.chance.random() < 0.3:
            shown = f"<{word}>"
            single = f"(SELECT src AS s, dst AS d FROM {table} UNION SELECT dst, src FROM {table})"
        if not same or self.chance.random() < 0.5:
            return single, shown
        low = self.chance.randrange(1, 4)
        high = low + self.chance.randrange(3)
        walks = (
            f"WITH RECURSIVE walk(s, d, h) AS (SELECT s, d, 1 FROM {single} UNION "
            f"SELECT w.s, r.d, w.h + 1 FROM walk w JOIN {single} r ON w.d = r.s WHERE w.h < {high})"
        )
        first = f"CASE WHEN s = d THEN min(h) = 1 AND {low} = 1 ELSE min(h) BETWEEN {low} AND {high} END"
        return f"({walks} SELECT s, d FROM walk GROUP BY s, d HAVING {first})", f"{shown}{{{low},{high}}}"

    def negation(self, query: Both) -> None:
        """Nobody is reached; or nobody who passes."""
        left = self.chance.choice(sorted(query.nodes))
        word = self.chance.choice([word for word, ends in ENDS.items() if query.nodes[left] in ends])
        source, target = ENDS[word]
        forward = query.nodes[left] == source
        relation, shown = self.relation(word, forward=forward)
        if self.chance.random() < 0.4:
            query.clauses.append(f"not {{ ${left} {shown} $_ }}")
            query.where.append(f"NOT EXISTS (SELECT 1 FROM {relation} t WHERE t.s = {left}.id)")
            return
        right, far = self.fresh(), target if forward else source
        inner = Both(nodes={right: far})
        self.filter(inner)
        query.clauses.append(f"not {{ ${left} {shown} ${right} {' '.join(inner.clauses)} }}")
        query.where.append(
            f"NOT EXISTS (SELECT 1 FROM {relation} t JOIN {far} {right} ON {right}.id = t.d "
            f"WHERE t.s = {left}.id AND {' AND '.join(inner.where)})"
        )

    def uses(self, query: Both) -> list[tuple[str, str]]:
        bound = {**query.nodes, **query.edges}
        return sorted((name, prop) for name, type_ in bound.items() for prop in PROPERTIES[type_])

    def filter(self, query: Both) -> None:
        name, prop = self.chance.choice(self.uses(query))
        if KINDS[prop] == "text" and self.chance.random() < 0.3:
            operator = self.chance.choice(["contains", "starts_with"])
            written, sql = self.literal(prop)
            query.clauses.append(f"${name}.{prop} {operator} {written}")
            query.where.append(f"{operator}({name}.{prop}, {sql})")
            return
        signs = ["=", "!="] if KINDS[prop] == "bool" else ["=", "!=", "<", "<=", ">", ">="]
        sign = self.chance.choice(signs)
        others = [other for other in self.uses(query) if KINDS[other[1]] == KINDS[prop]]
        written, sql = self.literal(prop)
        if self.chance.random() < 0.4:
            other = self.chance.choice(others)
            written, sql = f"${other[0]}.{other[1]}", f"{other[0]}.{other[1]}"
        query.clauses.append(f"${name}.{prop} {sign} {written}")
        query.where.append(f"{name}.{prop} {sign} {sql}")

    def literal(self, name: str) -> tuple[str, str]:
        kind = KINDS[name]
        if kind == "int":
            number = str(self.chance.choice(INTS[1:]))
            return number, number
        if kind == "float":
            number = repr(self.chance.choice([0.0, 1.0, 2.0, 0.125]))
            return number, f"{number}::DOUBLE"
        if kind == "day":
            day = self.chance.choice(DAYS)
            return f'date("{day}")', f"DATE '{day}'"
        if kind == "bool":
            truth = self.chance.choice(["true", "false"])
            return truth, truth
        text = self.chance.choice([*WORDS, "n1", "n12"])
        return json.dumps(text, ensure_ascii=False), "'" + text.replace("'", "''") + "'"

    def returned(self, query: Both) -> tuple[str, str]:
        uses = [(f"${name}.{prop}", f"{name}.{prop}") for name, prop in self.uses(query)]
        uses += [(f"${name}", f"{name}.id") for name in sorted(query.nodes)]
        chosen = self.chance.sample(uses, min(len(uses), self.chance.randrange(1, 4)))
        grouped = self.chance.random() < 0.4
        if grouped:
            chosen = chosen[: self.chance.randrange(len(chosen) + 1)]
        columns = [(f"{gq} as c{n}", f"{sql} AS c{n}", f"c{n}") for n, (gq, sql) in enumerate(chosen)]
        if grouped:
            for n in range(self.chance.randrange(1, 4)):
                gq, sql = self.aggregate(query)
                columns.append((f"{gq} as g{n}", f"{sql} AS g{n}", f"g{n}"))
        names = [name for _, _, name in columns]
        keys = self.chance.sample(names, min(len(names), self.chance.randrange(3)))
        ways = {key: self.chance.choice(["", " desc"]) for key in keys}
        order = f" order {{ {', '.join(key + way for key, way in ways.items())} }}" if keys else ""
        limit = f" limit {self.chance.randrange(1, 40)}" if self.chance.random() < 0.3 else ""
        sorting = [f"{key} {'DESC NULLS LAST' if way else 'ASC NULLS FIRST'}" for key, way in ways.items()]
        if grouped:
            sorting += [f"c{n} ASC NULLS FIRST" for n in range(len(chosen))]
        else:
            variables = [*query.nodes, *query.edges]
            sorting += [f"{name}.id" for name in (sorted(variables) if keys else variables)]
        where = f" WHERE {' AND '.join(query.where)}" if query.where else ""
        groups = [f" GROUP BY {', '.join(sql for _, sql in chosen)}"] if grouped and chosen else [""]
        gq = (
            f"query q() {{ match {{ {' '.join(query.clauses)} }} "
            f"return {{ {', '.join(gq for gq, _, _ in columns)} }}{order}{limit} }}"
        )
        ordered = f" ORDER BY {', '.join(sorting)}" if sorting else ""
        sql = (
            f"SELECT {', '.join(sql for _, sql, _ in columns)} FROM {', '.join(query.tables)}"
            f"{where}{groups[0]}{ordered}{limit.upper()}"
        )
        return gq, sql

    def aggregate(self, query: Both) -> tuple[str, str]:
        uses = self.uses(query)
        numbers = [use for use in uses if KINDS[use[1]] in ("int", "float")]
        function = self.chance.choice(["count", "sum", "avg", "min", "max"])
        if function == "count" or not numbers:
            return f"count(${self.chance.choice(sorted(query.nodes))})", "count(*)"
        if function in ("min", "max"):
            numbers += [use for use in uses if KINDS[use[1]] == "text"]
        name, prop = self.chance.choice(numbers)
        value = f"{function}({name}.{prop})"
        return f"{function}(${name}.{prop})", f"{value}::DOUBLE" if function == "sum" else value


def run(seed: int, queries: int, nodes: int, place: Path) -> None:
    chance = random.Random(seed)
    settings = Settings(fsync=False, actor="tester", working_directory=place)
    graph = Graph.init(str(place / "g"), SCHEMA, settings)
    data = place / "data.jsonl"
    records = random_records(chance, nodes)
    # Every other time there is a topology index, from before the last nodes and edges came.
    early = [each for each in records if hash_of(each) % 4] if seed % 2 else []
    for some in (early, records):
        data.write_text("".join(json.dumps(record) + "\n" for record in some), encoding="utf-8")
        graph.load([str(data)], LoadMode.MERGE)
        if some is early:
            graph.build_topology()
    sql = duckdb.connect()
    for path in graph.at().export_files(place / "tables", Format.PARQUET):
        sql.execute(f"CREATE TABLE {path.stem} AS SELECT * FROM '{path}'")
        if path.stem in ("E", "F", "G"):
            sql.execute(f'ALTER TABLE {path.stem} RENAME COLUMN "from" TO src')
            sql.execute(f'ALTER TABLE {path.stem} RENAME COLUMN "to" TO dst')
    modes = [None, TraversalMode.INDEXED, TraversalMode.CSR]
    graphs = [Graph.open(str(place / "g"), replace(settings, traversal_mode=mode)) for mode in modes]
    small = [
        Graph.open(str(place / "g"), replace(each.settings, memory_limit_bytes=NODE_MEMORY * nodes))
        for each in graphs
    ]
    maker, in_parts = Maker(chance), 0
    for number in range(queries):
        source, text = maker.made()
        expected = sql.execute(text).fetchall()
        found = graphs[number % 3].query(source)
        agree(found, expected, f"{source}\n{text}")
        if max(step.rows for step in found.steps) > ROWS_MANY:
            found = small[number % 3].query(source)
            agree(found, expected, f"with little memory: {source}\n{text}")
            in_parts += any(step.step == "match in parts" for step in found.steps)
    assert in_parts or nodes < NODES


def agree(found: QueryResult, expected: list[Any], query: str) -> None:
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert rows == expected, f"{query}\n{rows[:5]} of {len(rows)}\n{expected[:5]} of {len(expected)}"


@pytest.mark.parametrize("seed", range(2))
def test_queries_agree_with_sql(seed: int, tmp_path: Path) -> None:
    run(seed, 45, NODES, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_queries_agree_with_sql(seed: int, tmp_path: Path) -> None:
    run(seed, 200, 20 + seed % 10 * 20, tmp_path)
