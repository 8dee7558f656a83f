"""Long loads beside small writes: checked again, not started again, and nothing left behind.

The load is held open right before it publishes, with everything staged, while another
writer changes the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load import staging as load_staging
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.rules.validate import RecordsConflict
from omnigraph_core.rules.violations import InvalidRecords
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.write.freshness import StalePlan
from omnigraph_core.write.plan import WritePlan
from omnigraph_core.write.writable import WritableTable
from tests.support.graphs import only_local
from tests.support.records import edge, edges, node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = pytest.mark.mostly_local

SCHEMA = """
node P { k: String @key n: I32? mail: String? @unique }
node Free { name: String note: String? @unique(name) }
edge Link: P -> P { w: I32? @unique(src, dst) }
"""
START = [*(node("P", k=f"p{number}", n=number) for number in range(6)), edge("Link", "p0", "p1", w=1)]


class Held:
    """A graph, another writer on it, and a load that waits for it once."""

    def __init__(self, graph: Graph, other: Graph, folder: Path) -> None:
        self.graph, self.other, self._folder = graph, other, folder
        self.fragments_written = 0

    def load(
        self, mode: str, records: list[dict[str, Any]], meanwhile: str, *, times: int = 1, **options: Any
    ) -> Any:
        publish, left = self.graph.door.publish, [meanwhile] * times

        def late(plan: WritePlan) -> Any:
            if left:
                self.other.change(left.pop(), params={"i": len(left)})
            return publish(plan)

        self.graph.door.publish = late  # type: ignore[method-assign]
        path = write_jsonl(self._folder / "in.jsonl", records)
        try:
            return self.graph.load([path], LoadMode(mode), **options)
        finally:
            self.graph.door.publish = publish  # type: ignore[method-assign]


@pytest.fixture
def settings(place: str, tmp_path: Path, environment: dict[str, str]) -> Settings:
    return load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)


@pytest.fixture
def held(place: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """Fragments of two rows, so that a load of a few records has several and a staging record."""
    monkeypatch.setattr(load_staging, "ROWS_PER_FRAGMENT", 2)
    monkeypatch.setattr("omnigraph_core.load.intake.ROWS_PER_FRAGMENT", 2)
    graph = Graph.init(place, SCHEMA, settings)
    graph.load([write_jsonl(tmp_path / "start.jsonl", START)], LoadMode.APPEND)
    held = Held(graph, Graph.open(place, settings, OpenMode.READ_WRITE), tmp_path)
    write = RowSink.write

    def counted(sink: RowSink, *arguments: Any) -> None:
        held.fragments_written += sink._storage is graph.door.storage
        write(sink, *arguments)

    monkeypatch.setattr(RowSink, "write", counted)
    return held


NEW = [node("P", k=f"new{number}") for number in range(6)]
INSERT = 'query q($i: I32) { insert P { k: "small", n: $i } }'


@pytest.mark.remotely
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_insert_meanwhile_does_not_cost_the_fragments(mode: str, held: Held) -> None:
    held.load(mode, NEW, INSERT, times=2)
    assert held.fragments_written == 3
    assert len(nodes(held.graph, "P")) == 13
    check_whole(held.graph)


def test_a_merge_keeps_its_fragments_while_the_rows_it_replaces_stay_the_same(held: Held) -> None:
    records = [*NEW[:3], *(node("P", k=f"p{number}", n=100) for number in range(3))]
    held.load("merge", records, 'query q($i: I32) { update P set { n: 55 } where k = "p5" }', times=2)
    assert held.fragments_written == 3
    people = nodes(held.graph, "P")
    assert (people["p0"]["n"], people["p5"]["n"], len(people)) == (100, 55, 9)
    check_whole(held.graph)


def test_a_merge_replaces_what_was_changed_meanwhile(held: Held) -> None:
    """The row is the same entity under the same row id, wherever it has moved to."""
    records = [node("P", k=f"p{number}", n=100) for number in range(4)]
    held.load("merge", records, 'query q($i: I32) { update P set { n: 55 } where k = "p1" }')
    assert held.fragments_written == 2
    assert nodes(held.graph, "P")["p1"]["n"] == 100
    assert len(nodes(held.graph, "P")) == 6
    check_whole(held.graph)


@pytest.mark.parametrize(
    "meanwhile",
    ['query q($i: I32) { insert P { k: "new1", n: 7 } }', 'query q($i: I32) { delete P where k = "p2" }'],
    ids=["its new row is inserted", "a row it replaces is deleted"],
)
@pytest.mark.remotely
def test_a_merge_is_written_again_when_what_it_replaces_has_changed(meanwhile: str, held: Held) -> None:
    records = [*NEW[:2], *(node("P", k=f"p{number}", n=100) for number in range(2, 4))]
    held.load("merge", records, meanwhile)
    assert held.fragments_written == 4
    people = nodes(held.graph, "P")
    assert {people[key].get("n") for key in ("p2", "p3")} == {100}
    assert people["new1"] == {"k": "new1"}
    check_whole(held.graph)


def test_a_merged_edge_finds_the_one_that_came_meanwhile(held: Held) -> None:
    records = [edge("Link", "p2", "p3", w=9), edge("Link", "p0", "p1", w=9), edge("Link", "p4", "p4")]
    held.load("merge", records, 'query q($i: I32) { insert Link { from: "p2", to: "p3", w: 1 } }')
    assert edges(held.graph, "Link") == [("p0", "p1"), ("p2", "p3"), ("p4", "p4")]
    check_whole(held.graph)


CONFLICTS: dict[str, tuple[str, list[dict[str, Any]], str, type[OmnigraphError]]] = {
    "an id it appends": (
        "append",
        NEW,
        'query q($i: I32) { insert P { k: "new4" } }',
        RecordsConflict,
    ),
    "a unique value": (
        "append",
        [*NEW, node("P", k="m", mail="x")],
        'query q($i: I32) { insert P { k: "other", mail: "x" } }',
        RecordsConflict,
    ),
    "a node its edges need": (
        "append",
        [edge("Link", "p2", "p3"), edge("Link", "p4", "p5"), edge("Link", "p5", "p5")],
        'query q($i: I32) { delete P where k = "p5" }',
        InvalidRecords,
    ),
    "a table it overwrites": ("overwrite", [*START[:6], *NEW], INSERT, ExpectedVersionMismatch),
}


@pytest.mark.remotely
@pytest.mark.parametrize("what", CONFLICTS)
def test_a_real_conflict_changes_nothing_and_leaves_no_file(
    what: str, held: Held, list_files: Callable[[], set[str]]
) -> None:
    mode, records, meanwhile, error = CONFLICTS[what]
    with pytest.raises(error):
        held.load(mode, records, meanwhile)
    check_whole(held.graph)
    assert not (set(nodes(held.graph, "P")) & {"new0", "new1"})
    assert edges(held.graph, "Link") == [("p0", "p1")]
    used = {
        f"{entry.ref.directory}/data/{file.path}"
        for entry in held.graph.snapshot().tables.values()
        for version in range(1, entry.table_version + 1)
        for fragment in held.graph.door.tables.open(entry.ref, version).lance.get_fragments()
        for file in fragment.metadata.files
    }
    assert list_files() == used


@pytest.fixture
def list_files(held: Held) -> Callable[[], set[str]]:
    """All data files of the graph's tables."""

    def listed() -> set[str]:
        control = held.graph.door.storage.control
        folders = [f"{entry.ref.directory}/data" for entry in held.graph.snapshot().tables.values()]
        return {f"{folder}/{name}" for folder in folders for name in control.list(folder)}

    return listed


@only_local
def test_a_big_load_spools_to_disk_and_is_the_same(place: str, tmp_path: Path) -> None:
    """About memory of our own, wherever the graph is."""
    records = [node("P", k=f"k{number:05d}", n=number % 50) for number in range(3000)]
    records += [
        edge("Link", f"k{number:05d}", f"k{(number * 7) % 3000:05d}", id=f"e{number}")
        for number in range(3000)
    ]
    path = write_jsonl(tmp_path / "big.jsonl", records)
    found = []
    for limit in (8, 1 << 30):
        settings = Settings(fsync=False, actor="ann", memory_limit_bytes=limit)
        graph = Graph.init(f"{place}-{limit}", SCHEMA, settings)
        graph.load([path], LoadMode.APPEND)
        graph.load([path], LoadMode.MERGE)
        found.append(b"".join(graph.export()))
        check_whole(graph)
    assert found[0] == found[1]
    assert len(found[0].splitlines()) == 6000


def test_a_table_that_moved_while_it_was_opened_costs_no_fragments(held: Held) -> None:
    """Of two tables written one after the other, the second is opened again from a fresh snapshot."""
    held.graph.settings = replace(held.graph.settings, load_concurrency=1)
    opened, left = held.graph.door.open_for_write, [1]

    def late(base: Snapshot, table_key: str) -> WritableTable:
        if table_key == "node:P" and left and left.pop():
            raise StalePlan(table_key, 1, 2)
        return opened(base, table_key)

    held.graph.door.open_for_write = late  # type: ignore[method-assign]
    held.load("append", [*NEW, edge("Link", "new0", "new1")], INSERT, times=0)
    assert len(nodes(held.graph, "P")) == 12
    assert ("new0", "new1") in edges(held.graph, "Link")
    check_whole(held.graph)
