"""`optimize` and `repair` through the facade: they change no answer, and say what they did."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance import optimize
from omnigraph_core.maintenance.drift import Classification
from omnigraph_core.maintenance.optimized import Skipped
from omnigraph_core.maintenance.repair import Action
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.tables.compaction import stage_compaction
from omnigraph_core.tables.staged import StagedWrite
from tests.support.readable import PERSON, contents, fresh
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, write_three


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(4):
        write_three(graph, f"p{number}")
    return graph


def fragments(graph: Graph, branch: str = "main") -> int:
    entry = graph.snapshot(branch).entry(PERSON)
    return graph.door.tables.open(entry.ref, entry.table_version).count_fragments()


def add(graph: Graph, rows: list[dict[str, object]]) -> None:
    path = graph.location.path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph.load([str(path)], LoadMode.APPEND)


def compact_outside(graph: Graph) -> None:
    """What another program may do to a table behind the graph's back."""
    table = graph.door.tables.open(graph.snapshot().entry(PERSON).ref)
    table.lance.optimize.compact_files()


def delete_outside(graph: Graph) -> None:
    graph.door.tables.open(graph.snapshot().entry(PERSON).ref).lance.delete("id = 'p0'")


def test_fragments_are_joined_and_no_answer_changes(graph: Graph) -> None:
    before = contents(graph)
    done = graph.optimize()
    assert len(done.commit_ids) == 1
    assert fragments(graph) == 1
    after = contents(fresh(graph))
    assert {commit_id: after[commit_id] for commit_id in before} == before
    newest = graph.log().history("main")
    by_id = {key: sorted(map(repr, rows)) for key, rows in after[newest[0].commit_id].items()}
    assert by_id == {key: sorted(map(repr, rows)) for key, rows in before[newest[1].commit_id].items()}
    assert graph.optimize().commit_ids == ()
    check_whole(graph)


def test_a_dry_run_changes_nothing(graph: Graph) -> None:
    before = graph.snapshot()
    assert graph.optimize(dry_run=True).commit_ids == ()
    assert graph.snapshot() == before


def test_a_dry_run_counts_the_bytes_of_indexes_too(graph: Graph) -> None:
    """Of ones that are built, of ones that a rewrite builds anew, and of ones that are extended."""
    for name in ("company", "firm"):
        add(graph, [{"type": "Company", "data": {"name": f"{name} {n}"}} for n in range(5_000)])
        write_three(graph, name)
        told = {each.table_key: each for each in graph.optimize(dry_run=True).tables}
        done = {each.table_key: each for each in graph.optimize().tables}
        for key in ("node:Company", PERSON):
            assert told[key].indexes == done[key].indexes != ()
            assert done[key].bytes_written / 3 < told[key].bytes_written < 3 * done[key].bytes_written


@pytest.mark.parametrize("at_once", [1, 3])
def test_as_many_tables_at_once_as_are_asked_for(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    together = threading.Barrier(at_once)
    most, active = [0], [0]

    def staged(*args: Any, **options: Any) -> list[StagedWrite]:
        active[0] += 1
        most[0] = max(most[0], active[0])
        together.wait(60)
        try:
            return stage_compaction(*args, **options)
        finally:
            together.wait(60)
            active[0] -= 1

    monkeypatch.setattr(optimize, "stage_compaction", staged)
    env = {"OMNIGRAPH_MAINTENANCE_CONCURRENCY": str(at_once), "OMNIGRAPH_FSYNC": "off"}
    done = Graph.open(graph.location.uri, load_settings(env), OpenMode.READ_WRITE).optimize()
    assert sum(each.committed for each in done.tables if ":" in each.table_key) == 3
    assert most[0] == at_once


def test_an_index_that_waits_is_named(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), "node Doc {\n  at: Vector(4)? @index\n}\n", Settings(fsync=False))
    add(graph, [{"type": "Doc", "data": {"at": [0.0, 1.0, 2.0, 3.0]}}])
    (doc,) = (each for each in graph.optimize(dry_run=True).tables if each.table_key == "node:Doc")
    assert [(each.column, "10,000" in each.reason) for each in doc.pending_indexes] == [("at", True)]


def test_a_branch_joins_its_own_fragments_and_leaves_its_parents(graph: Graph) -> None:
    graph.create_branch("side")
    for number in range(3):
        write_three(graph, f"s{number}", "side")
    on_main = graph.snapshot()
    graph.optimize("side")
    assert fragments(graph, "side") == 1
    assert graph.snapshot() == on_main
    check_whole(graph)


def test_optimize_and_cleanup_leave_one_file_for_what_there_is(graph: Graph) -> None:
    before = graph.door.tables.open(graph.snapshot().entry(PERSON).ref).count_rows()
    graph.optimize()
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    entry = graph.snapshot().entry(PERSON)
    assert len(list((graph.location.path / entry.table_path / "data").glob("*.lance"))) == 1
    assert graph.door.tables.open(entry.ref).count_rows() == before
    check_whole(graph)


def test_drift_is_left_alone_and_repaired_when_it_changed_no_row(graph: Graph) -> None:
    compact_outside(graph)
    done = {each.table_key: each for each in graph.optimize().tables}
    assert done[PERSON].skipped is Skipped.DRIFT
    found = {each.table_key: each for each in graph.repair().tables}
    assert (found[PERSON].classification, found[PERSON].action) == (
        Classification.VERIFIED_MAINTENANCE,
        Action.PREVIEW,
    )
    assert graph.repair(confirm=True).commit_id is not None
    write_three(graph, "later")
    check_whole(graph)


def test_drift_that_may_have_changed_rows_takes_force(graph: Graph) -> None:
    delete_outside(graph)
    refused = graph.repair(confirm=True)
    assert (refused.has_refused, refused.commit_id) == (True, None)
    # Cleanup removes nothing above what is published, and nothing that is.
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    forced = graph.repair(confirm=True, force=True)
    assert forced.commit_id is not None
    assert graph.snapshot().entry(PERSON).row_count == 3
    assert forced.breaks[0].startswith("main edge:Knows: 1 edges have a src that Person does not have")
    assert {each.code for each in graph.doctor() if each.counts} == {"dangling-edge"}
