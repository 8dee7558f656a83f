"""Records of a graph as a test sees them: what `export` says, parsed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

PEOPLE = """\
node Person {
  name: String @key
  age: I32?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""

# Schema and data of the worked examples.
S1 = """
node Person { name: String @key age: I32? tags: [String]? joined: Date? }
node Company { name: String @key size: enum(small, large)? }
edge Knows: Person -> Person { since: Date? note: String? }
edge WorksAt: Person -> Company @card(0..1)
"""
D1: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "Ann", "age": 30, "tags": ["a", "b"]}},
    {"type": "Person", "data": {"name": "Bob", "age": 25, "tags": ["b"]}},
    {"type": "Person", "data": {"name": "Cy"}},
    {"type": "Person", "data": {"name": "Dee", "age": 40}},
    {"type": "Company", "data": {"name": "Acme", "size": "small"}},
    {"type": "Company", "data": {"name": "Zeta", "size": "large"}},
    {"edge": "Knows", "from": "Ann", "to": "Bob"},
    {"edge": "Knows", "from": "Ann", "to": "Dee"},
    {"edge": "Knows", "from": "Bob", "to": "Cy"},
    {"edge": "Knows", "from": "Cy", "to": "Ann"},
    {"edge": "WorksAt", "from": "Ann", "to": "Acme"},
    {"edge": "WorksAt", "from": "Bob", "to": "Acme"},
    {"edge": "WorksAt", "from": "Dee", "to": "Zeta"},
]


def node(type_: str, **data: Any) -> dict[str, Any]:
    return {"type": type_, "data": data}


def edge(type_: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": type_, "from": source, "to": target, "data": data}


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """A file of records; returns its name as a load takes it."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def make_people(place: Path) -> Path:
    """A graph of S1 with D1, in one load."""
    graph = Graph.init(str(place), S1, Settings(fsync=False, actor="ann"))
    graph.load([write_jsonl(place.with_suffix(".jsonl"), D1)], LoadMode.APPEND)
    return place


def exported(graph: Graph, branch: str = "main") -> list[dict[str, Any]]:
    lines = b"".join(graph.export(branch=branch)).splitlines()
    return [json.loads(line) for line in lines]


def nodes(graph: Graph, type_: str, branch: str = "main") -> dict[str, dict[str, Any]]:
    """Properties of all nodes of a type, by id; nulls left out."""
    found = [record["data"] for record in exported(graph, branch) if record.get("type") == type_]
    return {data["id"]: _without_nulls(data) for data in found}


def edges(graph: Graph, type_: str, branch: str = "main") -> list[tuple[str, str]]:
    """Endpoints of all edges of a type, sorted."""
    found = [record for record in exported(graph, branch) if record.get("edge") == type_]
    return sorted((record["from"], record["to"]) for record in found)


def _without_nulls(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None and name != "id"}
