"""The peers' side of the social network benchmark. Runs under a Python of its own, without OmniGraph.

PYTHON benchmarks/ldbc_peer.py load|ask duckdb|kuzu|ladybug FOLDER
"""

import json
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.ldbc_answers import plain
from benchmarks.ldbc_queries import QUESTIONS, TYPES, used

KUZU_TYPES = {
    "String": "STRING",
    "I32": "INT32",
    "Date": "DATE",
    "DateTime": "TIMESTAMP_TZ",
    "[String]": "STRING[]",
}


class DuckDB:
    def __init__(self, folder: Path, place: str | None = None) -> None:
        import duckdb

        self.folder = folder
        self.connection = duckdb.connect(str(folder / "duckdb") if place is None else place)
        self.connection.execute("SET TimeZone = 'UTC'")

    def load(self) -> None:
        execute = self.connection.execute
        for path in sorted(self.folder.glob("*.parquet")):
            described = execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
            columns = []
            for name, kind in (row[:2] for row in described):
                shown = {"from": "src", "to": "dst"}.get(name, name)
                cast = "::TIMESTAMP" if kind.startswith("TIMESTAMP") else ""
                columns.append(f'"{name}"{cast} AS "{shown}"')
            execute(f"CREATE TABLE {path.stem} AS SELECT {', '.join(columns)} FROM '{path}'")
            names = {row[0] for row in described}
            for column in ("src", "dst") if "from" in names else ("name",):
                execute(f"CREATE INDEX {path.stem}_{column} ON {path.stem}({column})")
        execute("CREATE TABLE K AS SELECT src AS s, dst AS d FROM Knows UNION SELECT dst, src FROM Knows")
        execute("CREATE INDEX K_s ON K(s)")

    def ask(self, name: str, keys: dict[str, Any]) -> list[Any]:
        sql = QUESTIONS[name].sql
        found: list[Any] = self.connection.execute(sql, {key: keys[key] for key in used(sql)}).fetchall()
        return found


class GraphDatabase:
    """Kuzu, or LadybugDB which continues it: one language, one interface."""

    def __init__(self, folder: Path, package: str) -> None:
        import importlib

        module = importlib.import_module({"ladybug": "real_ladybug"}.get(package, package))
        self.folder = folder
        self.connection = module.Connection(module.Database(str(folder / package)))

    def load(self) -> None:
        schema = (self.folder / "schema.pg").read_text(encoding="utf-8")
        for kind, name, ends, body in re.findall(
            r"(node|edge) (\w+)(?:: (\w+ -> \w+))? ?(?:\{([^}]*)\})?", schema
        ):
            properties = re.findall(r"(\w+): (enum\([^)]*\)|\[?\w+\]?)\??( @key)?", body)
            columns = [
                f"{prop} {KUZU_TYPES.get(type_, 'STRING')}{' PRIMARY KEY' if key else ''}"
                for prop, type_, key in properties
            ]
            if kind == "node":
                self.connection.execute(f"CREATE NODE TABLE {name}({', '.join(columns)})")
            else:
                near, far = ends.split(" -> ")
                parts = [f"FROM {near} TO {far}", *columns]
                self.connection.execute(f"CREATE REL TABLE {name}({', '.join(parts)})")
            self.connection.execute(f"COPY {name} FROM '{self.folder}/{name}.parquet'")

    def ask(self, name: str, keys: dict[str, Any]) -> list[Any]:
        text = QUESTIONS[name].cypher
        found: list[Any] = self.connection.execute(text, {key: keys[key] for key in used(text)}).get_all()
        return found


def typed(keys: dict[str, Any]) -> dict[str, Any]:
    """Keys as Python values; JSON has no moments."""
    return {
        key: datetime.fromisoformat(value) if TYPES[key] == "DateTime" else value
        for key, value in keys.items()
    }


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
        keys = typed(keys)
        if engine == "duckdb":
            keys = {k: v.replace(tzinfo=None) if isinstance(v, datetime) else v for k, v in keys.items()}
        start, cpu = time.perf_counter(), time.process_time()
        rows = peer.ask(name, keys)
        spent = [(time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000]
        print(json.dumps([*spent, plain(rows)]), flush=True)


if __name__ == "__main__":
    main()
