"""Schema changes to be killed: one of each kind, on a graph that has been through one before.

Runnable: `python -m tests.support.migrations ROOT BRANCH KIND` applies one, so that it can be killed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings

PERSON = """node Person {
  name: String @key
  age: I32?
  city: String?
  kind: enum(a, b)?
}
"""
COMPANY = "node Company { name: String @key  size: I32? }\n"
KNOWS = "edge Knows: Person -> Person { since: Date? }\n"
WORKS_AT = "edge WorksAt: Person -> Company\n"
OLD = "node Old { name: String @key  note: String? }\n"
BASE = PERSON + COMPANY + KNOWS + WORKS_AT

EVOLVED_PERSON = """node Person {
  name: String @key
  years: I64? @rename_from("age")
  kind: enum(a, b)?
  nick: String?
  status: String @default("new")
}
"""
TAG = "node Tag { name: String @key  color: String? }\nedge Tagged: Person -> Tag\n"
ANEW = "node Old { name: String @key  since: Date? }\n"

HARD = "hard drop"
"""The kind that lets go of the data that it drops."""

WANTED = {
    "columns": EVOLVED_PERSON + COMPANY + KNOWS + WORKS_AT,
    "new type": BASE + TAG,
    "type rename": PERSON
    + 'node Firm @rename_from("Company") { name: String @key  size: I32? }\n'
    + KNOWS
    + "edge WorksAt: Person -> Firm\n",
    "drop": PERSON + KNOWS,
    HARD: EVOLVED_PERSON + COMPANY.replace("  size: I32?", "") + KNOWS,
    "re-add": BASE + ANEW,
    "enum only": BASE.replace("enum(a, b)", "enum(a, b, c)"),
    "all together": EVOLVED_PERSON.replace("enum(a, b)", "enum(a, b, c)")
    + 'node Firm @rename_from("Company") { name: String @key  size: I64?  seat: String? }\n'
    + "node Company { title: String @key }\n"
    + "edge Employs: Firm -> Person { since: Date? }\n"
    + WORKS_AT.replace("Company", "Firm")
    + ANEW
    + TAG,
}
"""The last also hands a type's name on, and drops an edge type."""

ROWS = [
    {"type": "Person", "data": {"name": "ann", "age": 1, "city": "Rome", "kind": "a"}},
    {"type": "Person", "data": {"name": "bob", "age": None, "city": "Oslo", "kind": None}},
    {"type": "Company", "data": {"name": "acme", "size": 5}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "since": "2020-01-01"}},
    {"edge": "WorksAt", "from": "ann", "to": "acme", "data": {"id": "w1"}},
    {"type": "Old", "data": {"name": "relic", "note": "kept by old commits"}},
]


def make_graph(root: Path) -> Graph:
    """A graph with rows, a type that was dropped, and a branch that has forked one table."""
    settings = Settings(fsync=False, actor="ann")
    graph = Graph.init(str(root), BASE + OLD, settings)
    load(graph, root, ROWS)
    assert graph.apply_schema(BASE, message="drop Old").applied
    graph.create_branch("dev")
    load(graph, root, [{"type": "Person", "data": {"name": "cid", "age": 3}}], "dev")
    return graph


def load(graph: Graph, root: Path, rows: list[dict[str, object]], branch: str = "main") -> None:
    from omnigraph_core.load.modes import LoadMode

    file = root.parent / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph.load([str(file)], LoadMode.MERGE, branch=branch)


def exported(graph: Graph, branch: str = "main", ref: str | None = None) -> list[str]:
    """Everything, sorted, in the columns of the schema at hand."""
    return sorted(b"".join(graph.export(ref, branch=branch)).decode().splitlines())


def main() -> None:
    root, branch, kind = sys.argv[1:]
    graph = Graph.open(root, load_settings(), OpenMode.AS_IS)
    graph.apply_schema(WANTED[kind], branch=branch, message=kind, allow_data_loss=kind == HARD)


if __name__ == "__main__":
    main()
