"""A wrong type in a call of the library is refused before anything is done, in every public method."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.arguments import WrongArgument
from omnigraph_core.errors import ErrorKind
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.view import QueryOptions
from tests.support.records import PEOPLE, node, nodes, write_jsonl
from tests.support.trees import fingerprint as tree
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
INSERT = "query q($n: String) { insert Person { name: $n } }"
READ = "query q() { match { $p: Person } return { $p.name } }"


class Odd:
    """Nothing that anybody expects."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    place = tmp_path_factory.mktemp("arguments")
    write_jsonl(place / "in.jsonl", [node("Person", name="file")])
    return Graph.init(str(place / "g"), PEOPLE, SETTINGS)


def good(graph: Graph) -> dict[str, dict[str, Any]]:
    """For each public method arguments with which it would work; those left out have defaults."""
    place, data = str(graph.location.path), str(graph.location.path.parent / "in.jsonl")
    return {
        "init": {"place": place + "-new", "schema_source": PEOPLE, "settings": SETTINGS},
        "open": {"place": place, "settings": SETTINGS},
        "snapshot_of": {"ref": "main"},
        "commit": {"ref": "main"},
        "create_branch": {"name": "b"},
        "delete_branch": {"name": "b"},
        "rename_branch": {"name": "main", "new": "b"},
        "undelete_branch": {"name": "b"},
        "create_tag": {"name": "t"},
        "delete_tag": {"name": "t"},
        "change": {"source": INSERT, "params": {"n": "x"}},
        "load": {"data": [data], "mode": LoadMode.APPEND},
        "export_files": {"out": graph.location.path.parent / "out", "format": "jsonl"},
        "query": {"source": READ},
        "blob": {"kind": "node", "type_name": "Person", "entity_id": "x", "name": "age"},
        "lock_holder": {"branch": "main"},
        "catalog_of": {"ref": "main"},
        "plan_schema": {"wanted": PEOPLE},
        "prepare": {"source": "query q() { match { $p: Person } return { $p.name } }"},
        "apply_schema": {"source": PEOPLE},
        "diff": {"a": "main", "b": "main"},
        "blame": {"type_name": "Person", "entity_id": "x"},
        "merge": {"source": "b"},
        "revert": {"ref": "main"},
        "reset_branch": {"name": "main", "ref": "main"},
    }


def public_methods() -> dict[str, list[str]]:
    """Every public method with the names of its parameters."""
    found = {}
    for name, member in inspect.getmembers(Graph, callable):
        if not name.startswith("_"):
            named = [each for each in inspect.signature(member).parameters if each not in ("self", "options")]
            found[name] = named + (sorted(QueryOptions.__annotations__) if name == "query" else [])
    return found


CASES = [(method, parameter) for method, names in public_methods().items() for parameter in names]


@pytest.mark.parametrize(("method", "parameter"), CASES)
def test_every_argument_of_every_method_is_looked_at(method: str, parameter: str, graph: Graph) -> None:
    before = tree(graph.location.path.parent)
    arguments = good(graph).get(method, {}) | {parameter: Odd()}
    with pytest.raises(WrongArgument, match=f"^{parameter} must be ") as refused:
        getattr(graph, method)(**arguments)
    assert refused.value.kind is ErrorKind.USAGE
    assert tree(graph.location.path.parent) == before


WRONG: dict[str, Callable[[Graph], object]] = {
    "a number as message": lambda graph: graph.change(INSERT, params={"n": "x"}, message=4711),  # type: ignore[arg-type]
    "a number as actor": lambda graph: graph.change(INSERT, params={"n": "x"}, actor=5),  # type: ignore[arg-type]
    "half a character": lambda graph: graph.change(INSERT, params={"n": "x"}, message="\ud800"),
    "a list of parameters": lambda graph: graph.change(INSERT, params=["x"]),  # type: ignore[arg-type]
    "parameters by number": lambda graph: graph.change(INSERT, params={1: "x"}),  # type: ignore[dict-item]
    "one text of parameters": lambda graph: graph.change(INSERT, param_texts="n=x"),
    "yes": lambda graph: graph.change(INSERT, params={"n": "x"}, dry_run="no"),  # type: ignore[arg-type]
    "bytes as data": lambda graph: graph.load(b"in.jsonl", LoadMode.APPEND),  # type: ignore[arg-type]
    "numbers as records": lambda graph: graph.load([1, 2], LoadMode.APPEND),  # type: ignore[list-item]
    "no mode": lambda graph: graph.load(["in.jsonl"], "replace"),  # type: ignore[arg-type]
    "a bogus way to open": lambda graph: Graph.open(str(graph.location.path), SETTINGS, mode="bogus"),  # type: ignore[arg-type]
    "bad rejects": lambda graph: graph.load([], LoadMode.APPEND, max_rejects=-1),
    "time": lambda graph: graph.query(READ, timeout_s=float("nan")),
    "an actor in the settings": lambda graph: Graph.open("g", replace(SETTINGS, actor=5)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_work_changes_nothing(what: str, graph: Graph) -> None:
    before = tree(graph.location.path)
    with pytest.raises(WrongArgument):
        WRONG[what](graph)
    assert tree(graph.location.path) == before
    check_whole(graph)


def test_texts_and_paths_that_mean_the_right_thing_are_taken(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    path = tmp_path / "in.jsonl"
    write_jsonl(path, [node("Person", name="file")])
    graph.load([path], "overwrite")  # type: ignore[list-item, arg-type]
    assert set(nodes(graph, "Person")) == {"file"}
    text = b"".join(graph.export(format="jsonl"))  # type: ignore[arg-type]
    assert json.loads(text)["data"]["name"] == "file"
    Graph.open(str(tmp_path / "g"), SETTINGS, "read-write")  # type: ignore[arg-type]
    assert OpenMode("read-write") is OpenMode.READ_WRITE
