"""Schema changes, merges and maintenance across each other: what a state was is what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.diff.tables import Counts
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.migrations import exported, load

SETTINGS = Settings(fsync=False, actor="ann")

TYPE = "node P { name: String @key  x: I32?  y: I32? }\n"
OTHER = "node Q { name: String @key }\n"
ROWS: list[dict[str, object]] = [
    {"type": "P", "data": {"name": name, "x": number, "y": number + 10}} for number, name in enumerate("abc")
]

# Ways from a schema to the same one, on which every row of P gets other values or goes.
DETOURS = {
    "column dropped and made again": ["node P { name: String @key  x: I32? }\n" + OTHER],
    "columns change names": [
        'node P { name: String @key  t: I32? @rename_from("x")  y: I32? }\n' + OTHER,
        'node P { name: String @key  t: I32?  x: I32? @rename_from("y") }\n' + OTHER,
        'node P { name: String @key  y: I32? @rename_from("t")  x: I32? }\n' + OTHER,
    ],
    "type dropped and made again": [OTHER],
}


def made(tmp_path: Path) -> tuple[Graph, str]:
    """A graph with some rows and a branch, and the commit with them."""
    graph = Graph.init(str(tmp_path / "g"), TYPE + OTHER, SETTINGS)
    load(graph, tmp_path / "g", ROWS)
    graph.create_branch("dev")
    head = graph.head("main")
    assert head is not None
    return graph, head.commit_id


def take(graph: Graph, detour: str, *, hard: bool, optimized: bool) -> None:
    for schema in DETOURS[detour]:
        graph.apply_schema(schema, allow_data_loss=hard)
    graph.apply_schema(TYPE + OTHER)
    if optimized:
        graph.optimize("main")


def changed(graph: Graph, before: str, after: str) -> int:
    total = Counts()
    for each in graph.diff(before, after).table_diffs():
        total = total.plus(each.counts())
    return total.total


@pytest.mark.parametrize("optimized", [False, True], ids=["", "optimized"])
@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
@pytest.mark.parametrize("detour", DETOURS)
def test_a_detour_of_the_schema_is_a_change_of_rows(
    detour: str, hard: bool, optimized: bool, tmp_path: Path
) -> None:
    """Diff shows it, a merge passes it on, and a reset takes it back, though no row was written."""
    graph, start = made(tmp_path)
    before = exported(graph)
    take(graph, detour, hard=hard, optimized=optimized)
    after = exported(graph)
    assert after != before
    if "type" not in detour:
        assert changed(graph, start, "main") == len(ROWS)
    graph.merge("main", "dev")
    assert exported(graph, "dev") == after
    graph.reset_branch("main", start)
    assert exported(graph) == before
    assert exported(graph, "dev") == after
