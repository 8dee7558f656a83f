"""The peers' side of the query benchmark. Runs under a Python of its own, without OmniGraph.

PYTHON benchmarks/query_peer.py load|ask duckdb|kuzu|ladybug FOLDER
"""

import json
import sys
import time
from pathlib import Path

PEOPLE = "name STRING PRIMARY KEY, age INT32, city STRING, team INT32"
DOCS = "slug STRING PRIMARY KEY, lang STRING, body STRING, v FLOAT[64]"
GRAPH_TABLES = [
    f"CREATE NODE TABLE Person({PEOPLE})",
    "CREATE NODE TABLE Company(name STRING PRIMARY KEY)",
    f"CREATE NODE TABLE Doc({DOCS})",
    "CREATE REL TABLE Knows(FROM Person TO Person)",
    "CREATE REL TABLE WorksAt(FROM Person TO Company)",
]
START = "MATCH (p:Person {name: $person})"
# What is reached in up to k hops: by shortest paths, which is what the graph databases are quickest at.
GRAPH = {
    "point lookup": "MATCH (p:Person {name: $person}) RETURN p.age",
    "narrow range": "MATCH (p:Person) WHERE p.city = $city AND p.age >= $age AND p.age < $older "
    "RETURN p.name, p.age",
    "wide range": "MATCH (p:Person) WHERE p.city = $city AND p.age >= $age RETURN p.name, p.age",
    "1 hop": f"{START}-[:Knows]->(f) RETURN DISTINCT f.name",
    "2 hops": f"{START}-[:Knows* SHORTEST 1..2]->(f) WHERE f.name <> $person RETURN f.name",
    "3 hops": f"{START}-[:Knows* SHORTEST 1..3]->(f) WHERE f.name <> $person RETURN f.name",
    "3 hops and a property": f"{START}-[:Knows* SHORTEST 1..3]->(f) WHERE f.name <> $person "
    "RETURN f.name, f.age",
    "2 hops from 1,000": "MATCH (p:Person {team: $team})-[:Knows* SHORTEST 1..2]->(f) "
    "WHERE f.name <> p.name RETURN count(*)",
    "group by": "MATCH (p:Person) RETURN p.city, count(*), avg(p.age)",
    "anti-join": "MATCH (p:Person) WHERE NOT EXISTS { MATCH (p)-[:WorksAt]->(:Company) } RETURN count(*)",
    "bm25": "CALL QUERY_FTS_INDEX('Doc', 'body', $text) RETURN node.slug, score ORDER BY score DESC LIMIT 10",
    "filtered nearest": "MATCH (d:Doc) WHERE d.lang = $lang "
    "RETURN d.slug ORDER BY array_distance(d.v, CAST($vector, 'FLOAT[64]')) LIMIT 10",
}

SQL_HOP = "h{0} AS MATERIALIZED (SELECT DISTINCT k.dst FROM Knows k JOIN h{1} ON k.src = h{1}.dst)"
SQL_FIRST = "h1 AS MATERIALIZED (SELECT DISTINCT dst FROM Knows WHERE src = $person)"


def sql_hops(count: int, columns: str = "p.name") -> str:
    steps = ", ".join([SQL_FIRST, *(SQL_HOP.format(n, n - 1) for n in range(2, count + 1))])
    reached = " UNION ".join(f"SELECT dst FROM h{n}" for n in range(1, count + 1))
    joined = "" if columns == "p.name" else " JOIN Person p ON p.name = dst"
    shown = "dst" if columns == "p.name" else columns
    return f"WITH {steps} SELECT {shown} FROM ({reached}){joined} WHERE dst <> $person"


SQL = {
    "point lookup": "SELECT age FROM Person WHERE name = $person",
    "narrow range": "SELECT name, age FROM Person WHERE city = $city AND age >= $age AND age < $older",
    "wide range": "SELECT name, age FROM Person WHERE city = $city AND age >= $age",
    "1 hop": "SELECT DISTINCT dst FROM Knows WHERE src = $person",
    "2 hops": sql_hops(2),
    "3 hops": sql_hops(3),
    "3 hops and a property": sql_hops(3, "p.name, p.age"),
    "2 hops from 1,000": "WITH h1 AS MATERIALIZED (SELECT DISTINCT k.src AS p, k.dst AS f FROM Knows k "
    "JOIN Person q ON q.name = k.src WHERE q.team = $team), "
    "h2 AS MATERIALIZED (SELECT DISTINCT h1.p, k.dst AS f FROM h1 JOIN Knows k ON k.src = h1.f) "
    "SELECT count(*) FROM (SELECT * FROM h1 UNION SELECT * FROM h2) WHERE p <> f",
    "group by": "SELECT city, count(*), avg(age) FROM Person GROUP BY city",
    "anti-join": "SELECT count(*) FROM Person p "
    "WHERE NOT EXISTS (SELECT 1 FROM WorksAt w WHERE w.src = p.name)",
    "filtered nearest": "SELECT slug FROM Doc WHERE lang = $lang "
    "ORDER BY array_distance(v, $vector::FLOAT[64]) LIMIT 10",
}


class DuckDB:
    def __init__(self, folder: Path) -> None:
        import duckdb

        self.folder = folder
        self.connection = duckdb.connect(str(folder / "duckdb"))

    def load(self) -> None:
        c = self.connection
        for name in ("Person", "Company", "Doc"):
            c.execute(f"CREATE TABLE {name} AS SELECT * FROM '{self.folder}/{name}.parquet'")
        c.execute("ALTER TABLE Doc ALTER v TYPE FLOAT[64]")
        for name in ("Knows", "WorksAt"):
            c.execute(
                f'CREATE TABLE {name} AS SELECT "from" AS src, "to" AS dst '
                f"FROM '{self.folder}/{name}.parquet'"
            )
        for table, column in [
            ("Person", "name"),
            ("Person", "age"),
            ("Person", "team"),
            ("Knows", "src"),
            ("Knows", "dst"),
            ("WorksAt", "src"),
        ]:
            c.execute(f"CREATE INDEX {table}_{column} ON {table}({column})")
        c.execute("CHECKPOINT")

    def ask(self, name: str, keys: dict) -> list:
        sql = SQL[name]
        used = {key: value for key, value in keys.items() if f"${key}" in sql}
        return self.connection.execute(sql, used).fetchall()

    knows = SQL


class GraphDatabase:
    """Kuzu, or LadybugDB which continues it: one language, one interface.

    Full-text search is an extension that may have to be downloaded; without it there is no bm25.
    """

    def __init__(self, folder: Path, package: str) -> None:
        import importlib

        module = importlib.import_module({"ladybug": "real_ladybug"}.get(package, package))
        self.folder = folder
        self.connection = module.Connection(module.Database(str(folder / package)))
        self.knows = dict(GRAPH)
        try:
            self.connection.execute("INSTALL fts")
            self.connection.execute("LOAD fts")
        except RuntimeError:
            del self.knows["bm25"]

    def load(self) -> None:
        for statement in GRAPH_TABLES:
            self.connection.execute(statement)
        for name in ("Person", "Company", "Doc", "Knows", "WorksAt"):
            self.connection.execute(f"COPY {name} FROM '{self.folder}/{name}.parquet'")
        if "bm25" in self.knows:
            self.connection.execute("CALL CREATE_FTS_INDEX('Doc', 'body', ['body'])")

    def ask(self, name: str, keys: dict) -> list:
        text = GRAPH[name]
        used = {key: value for key, value in keys.items() if f"${key}" in text}
        return self.connection.execute(text, used).get_all()


def main() -> None:
    what, engine, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    start = time.perf_counter()
    peer = DuckDB(folder) if engine == "duckdb" else GraphDatabase(folder, engine)
    if what == "load":
        peer.load()
        print(json.dumps(time.perf_counter() - start))
        return
    for line in sys.stdin:
        name, keys = json.loads(line)
        if name not in peer.knows:
            print("null", flush=True)
            continue
        start, cpu = time.perf_counter(), time.process_time()
        rows = peer.ask(name, keys)
        spent = [(time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000]
        number = rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else None
        print(json.dumps([*spent, len(rows), number]), flush=True)


if __name__ == "__main__":
    main()
