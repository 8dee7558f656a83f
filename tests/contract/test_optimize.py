"""`optimize` and `repair` through the facade: they change no answer, and say what they did."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.maintenance.drift import Classification
from omnigraph_core.maintenance.optimized import Skipped
from omnigraph_core.maintenance.repair import Action
from omnigraph_core.settings import Settings
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
