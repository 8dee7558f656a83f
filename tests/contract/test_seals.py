"""Seals of commits: whatever makes a commit seals it, and `doctor --deep` finds what changed since."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import lance
import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.manifest.seal import seal_of, state_of
from tests.support.readable import SETTINGS, fresh
from tests.support.records import PEOPLE
from tests.support.writers import write_three

MESSAGE = "the message of a commit in the middle"
PUT = 'query put() { insert Person { name: "zoe" } }'


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "a")
    graph.change(PUT, message=MESSAGE)
    write_three(graph, "b")
    return graph


def deep(graph: Graph) -> list[tuple[str, str]]:
    return [(each.code, each.where) for each in fresh(graph).doctor(deep=True) if each.counts]


def the_one(graph: Graph) -> str:
    return next(each.commit_id for each in graph.log().commits.values() if each.message == MESSAGE)


def rewrite(graph: Graph, dataset: str, values: dict[str, str], where: str) -> None:
    lance.dataset(str(graph.location.path / dataset)).update(values, where=where)


def test_whatever_makes_a_commit_seals_it(graph: Graph) -> None:
    graph.create_branch("side")
    write_three(graph, "c", "side")
    write_three(graph, "d")
    graph.merge("side", into="main")
    graph.revert(graph.log().history("main")[0].commit_id)
    graph.apply_schema(PEOPLE + "node Extra { name: String @key }\n")
    graph.apply_schema(PEOPLE)
    for step in ("write.after_a", "write.after_b", "write.after_c"):
        faults.arm(f"{step}=error")
        with suppress(OmnigraphError):
            write_three(graph, f"dying at {step}")
        faults.arm("")
        write_three(graph, f"after {step}")
    graph.optimize()
    graph.maintain(keep=5, grace_s=0.0)
    write_three(graph, "last")
    log = fresh(graph).log()
    assert [each.commit_id for each in log.commits.values() if seal_of(each.commit) is None] == []
    unstated = {each.operation for each in log.commits.values() if state_of(each.commit) is None}
    assert unstated <= {"init", "recovery"}
    assert deep(graph) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("message", "'the message of a commit in the riddle'"),
        ("operation", "'load'"),
        ("created_at", "timestamp '2020-01-01 00:00:00'"),
        ("schema_hash", "'sha256:0'"),
        ("merged_parent_commit_id", "parent_commit_id"),
        ("details", "replace(details, 'inserted', 'inserred')"),
        ("details", 'replace(details, \'"seal":"\', \'"seal":"0\')'),
        ("details", "concat('z', details)"),
    ],
)
def test_one_changed_value_of_a_commit_is_found(graph: Graph, column: str, value: str) -> None:
    changed = the_one(graph)
    assert deep(graph) == []
    rewrite(graph, layout.COMMITS, {column: value}, f"graph_commit_id = '{changed}'")
    found = deep(graph)
    assert ("commit-changed", changed) in found
    assert "check-failed" not in {code for code, _ in found}


def test_another_actor_is_found(graph: Graph) -> None:
    changed = the_one(graph)
    rewrite(graph, layout.COMMIT_ACTORS, {"actor_id": "'bob'"}, f"graph_commit_id = '{changed}'")
    assert deep(graph) == [("commit-changed", changed)]


def test_one_letter_on_the_disk_is_found(graph: Graph) -> None:
    changed = the_one(graph)
    for path in (graph.location.path / layout.COMMITS / "data").iterdir():
        path.write_bytes(path.read_bytes().replace(b"in the middle", b"in the muddle"))
    assert "in the muddle" in str(fresh(graph).log().commits[changed].message)
    assert deep(graph) == [("commit-changed", changed)]


def test_a_head_row_with_damaged_details_is_named_by_doctor_and_by_a_write(graph: Graph) -> None:
    head = graph.log().commits[graph.log().heads["main"]]
    seal = str(seal_of(head.commit)).encode()
    for path in (graph.location.path / layout.MANIFEST / "data").iterdir():
        before, found, after = path.read_bytes().partition(seal)
        start = before.rfind(b'"details":"{')
        if found and start >= 0:
            path.write_bytes(before[:start] + before[start:].replace(b"{", b"z", 1) + found + after)
    assert ("commit-changed", head.commit_id) in deep(graph)
    with pytest.raises(StorageError, match=head.commit_id):
        write_three(fresh(graph), "c")
    assert set(fresh(graph).log().commits) == set(graph.log().commits)


def test_another_version_of_a_table_in_an_old_state_is_found(graph: Graph) -> None:
    """One bit of a row count of `__manifest`, in a version that is no head."""
    commit = graph.log().commits[the_one(graph)]
    path = graph.location.path / layout.MANIFEST
    old = lance.dataset(str(path), version=commit.manifest_version)
    rows = old.to_table(columns=["object_id", "row_count"]).to_pylist()
    chosen = next(
        row["object_id"]
        for row in rows
        if row["object_id"].startswith("node:Person$") and row["row_count"] == 2
    )
    old.update({"row_count": "row_count + 8"}, where=f"object_id = '{chosen}'")
    forged = max((path / "_versions").glob("*.manifest"), key=lambda each: each.stat().st_mtime_ns)
    target = path / "_versions" / f"{2**64 - 1 - commit.manifest_version:020d}.manifest"
    target.write_bytes(forged.read_bytes())
    forged.unlink()
    assert ("commit-changed", commit.commit_id) in deep(graph)


def test_a_commit_without_a_seal_is_valid(graph: Graph) -> None:
    """As those of an older build are, and of other writers."""
    for commit in fresh(graph).log().commits.values():
        details = {
            key: value
            for key, value in json.loads(commit.details or "{}").items()
            if key not in ("seal", "state")
        }
        text = json.dumps(details).replace("'", "''")
        where = f"graph_commit_id = '{commit.commit_id}'"
        rewrite(graph, layout.COMMITS, {"details": f"'{text}'"}, where)
    assert [each for each in deep(graph) if each[1] != graph.log().heads["main"]] == []


def test_listings_leave_digests_out_and_one_commit_shows_them(graph: Graph) -> None:
    from omnigraph_core.shapes.history import commit, commit_list

    found = graph.log().commits[the_one(graph)]
    removals = graph.removals()
    (listed,) = commit_list([found], removals)["commits"]  # type: ignore[misc]
    assert listed["details"] == {"counts": {"node:Person": {"inserted": 1}}}
    assert set(commit(found, removals)["details"]) == {"counts", "files", "seal", "state"}  # type: ignore[call-overload]
