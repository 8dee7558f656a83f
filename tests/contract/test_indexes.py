"""Indexes that follow the data: which, when, through the door, and never in the way of a write."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.indexes import ensure
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.indexes.rules import index_specs
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.run import Loaded
from omnigraph_core.schema import compile_schema
from omnigraph_core.settings import Settings
from omnigraph_core.tables.indexes import list_indexes, uncovered_fragments
from tests.support.records import edge, node, nodes, write_jsonl
from tests.support.writers import check_whole, open_graph

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """
node Doc {
  slug: String @key
  title: String @index
  kind: enum(a, b)? @index
  rank: F64? @index
  day: Date?
  v: Vector(2)? @index
  tags: [String]?
}
node Seat { hall: String row: I32 @key(hall, row) }
edge Cites: Doc -> Doc { note: String? @index }
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph in which more than ten rows without an index are many."""
    monkeypatch.setattr(ensure, "UNINDEXED_ROWS_MAX", 10)
    monkeypatch.setitem(ensure_indexes.__kwdefaults__, "unindexed_max", 10)
    return Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)


def load(graph: Graph, folder: Path, numbers: range, *, vectors: bool = True, branch: str = "main") -> Loaded:
    records = [
        node("Doc", slug=f"d{n}", title=f"title {n}", rank=n / 2, v=[n, 1] if vectors else None)
        for n in numbers
    ]
    records += [edge("Cites", f"d{n}", f"d{numbers[0]}", id=f"e{n}") for n in numbers]
    return graph.load([write_jsonl(folder / "in.jsonl", records)], LoadMode.APPEND, branch=branch)


def built(graph: Graph, key: str, branch: str = "main") -> set[str]:
    entry = graph.snapshot(branch).entry(key)
    return set(list_indexes(graph.door.tables.open(entry.ref, entry.table_version)))


def uncovered(graph: Graph, key: str) -> set[int]:
    """How many fragments each index leaves out."""
    table = graph.door.tables.open(graph.snapshot().entry(key).ref)
    return {len(uncovered_fragments(table, index)) for index in list_indexes(table).values()}


DOC = {"id_btree", "slug_btree", "slug_fts", "title_fts", "kind_btree", "rank_btree", "v_vector"}
CITES = {"id_btree", "src_btree", "dst_btree"}


def test_which_column_gets_which_index() -> None:
    schema = compile_schema(SCHEMA)
    named = {entity.name: {spec.name for spec in index_specs(entity)} for entity in schema.types()}
    assert named == {"Doc": DOC, "Seat": {"id_btree"}, "Cites": CITES}


def test_a_big_load_builds_them_without_a_commit(graph: Graph, tmp_path: Path) -> None:
    loaded = load(graph, tmp_path, range(20))
    assert loaded.warnings == ()
    head = graph.head()
    assert head is not None
    assert head.commit_id == loaded.commit_id
    assert (built(graph, "node:Doc"), built(graph, "edge:Cites")) == (DOC, CITES)
    assert built(graph, "node:Seat") == set()
    assert len(graph.log().history("main")) == 2
    check_whole(graph)


def test_a_small_load_builds_none_and_a_later_one_catches_up(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, range(8))
    assert built(graph, "node:Doc") == set()
    load(graph, tmp_path, range(100, 110))
    assert built(graph, "node:Doc") == DOC
    load(graph, tmp_path, range(200, 205))
    assert uncovered(graph, "node:Doc") == {1}
    load(graph, tmp_path, range(300, 310))
    assert uncovered(graph, "node:Doc") == {0}
    assert len(nodes(graph, "Doc")) == 33
    check_whole(graph)


def test_a_vector_index_waits_for_a_vector(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, range(20), vectors=False)
    assert built(graph, "node:Doc") == DOC - {"v_vector"}
    load(graph, tmp_path, range(100, 120))
    assert built(graph, "node:Doc") == DOC
    assert load(graph, tmp_path, range(200, 220), vectors=False).warnings == ()
    assert uncovered(graph, "node:Doc") == {0, 1}


def test_a_branch_indexes_what_it_wrote_and_nothing_else(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, range(8))
    graph.create_branch("dev")
    records = [node("Doc", slug=f"x{n}", title="t") for n in range(20)]
    graph.load([write_jsonl(tmp_path / "x.jsonl", records)], LoadMode.APPEND, branch="dev")
    assert built(graph, "node:Doc", "dev") == DOC
    assert built(graph, "node:Doc") == set()
    assert ensure_indexes(graph.door, "dev", None, "ann", unindexed_max=0) == {}
    check_whole(graph)


def test_doing_it_twice_does_it_once(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, range(20))
    before = graph.snapshot()
    assert ensure_indexes(graph.door, "main", None, "ann") == {}
    assert graph.snapshot() == before


def test_indexes_that_fail_do_not_fail_the_load(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(graph, tmp_path, range(8))
    write = ensure.stage_indexes

    def failing(*arguments: object, **options: object) -> object:
        faults.arm("write.after_b=error")
        return write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ensure, "stage_indexes", failing)
    loaded = load(graph, tmp_path, range(100, 120))
    faults.arm("")
    assert loaded.commit_id is not None
    assert len(nodes(graph, "Doc")) == 28
    check_whole(open_graph(tmp_path / "g", SETTINGS))


@pytest.mark.parametrize(
    "step", ["write.after_a", "write.table_committed.1", "write.after_b", "write.published"]
)
def test_dying_while_indexing_leaves_the_data_as_it_was(step: str, graph: Graph, tmp_path: Path) -> None:
    """A step that fails stands for the death here; see the crash matrix for real ones."""
    load(graph, tmp_path, range(20))
    before = nodes(graph, "Doc")
    graph.change('query q() { insert Doc { slug: "late", title: "t", v: [1.0, 2.0] } }')
    faults.arm(f"{step}=error")
    with suppress(OmnigraphError):
        ensure_indexes(graph.door, "main", None, "ann", unindexed_max=0)
    faults.arm("")
    again = open_graph(tmp_path / "g", SETTINGS)
    assert nodes(again, "Doc") == before | {"late": {"slug": "late", "title": "t", "v": [1, 2]}}
    check_whole(again)
    ensure_indexes(again.door, "main", None, "ann", unindexed_max=0)
    assert uncovered(again, "node:Doc") == {0}
    check_whole(again)
