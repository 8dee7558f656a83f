"""Merges both ways beside writers on both branches: no write is lost, and every merge is right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from tests.support.merged_writers import (
    BRANCHES,
    SCHEMA,
    SETTINGS,
    SHARED,
    after,
    items_at,
    process,
    steps_in,
)
from tests.support.records import node, write_jsonl
from tests.support.restarted import run_with_kills
from tests.support.writers import check_log, check_whole


def made(place: Path) -> Graph:
    graph = Graph.init(str(place), SCHEMA, SETTINGS)
    rows = [node("Item", k=key, a=0, b=0) for key in SHARED]
    graph.load([write_jsonl(place.parent / "rows.jsonl", rows)], LoadMode.APPEND, message="start")
    graph.create_branch("dev")
    return graph


def run_all(root: Path, steps: int, merges: int, kills: int, chance: random.Random) -> None:
    everyone = [*(process(name, root, steps) for name in BRANCHES), process("merge", root, merges)]
    run_with_kills(everyone, kills, chance)


def check(root: Path, steps: int) -> None:
    graph = Graph.open(str(root), SETTINGS)
    graph.merge("dev", "main")
    graph.merge("main", "dev")
    every = dict.fromkeys(BRANCHES, steps)
    assert items_at(graph, "main") == items_at(graph, "dev") == after(every)
    log = graph.log()
    held: dict[str, dict[str, int]] = {}
    merges = 0
    for commit in reversed(list({**log.commits}.values())):
        items = items_at(graph, commit.commit_id) if commit.operation != "init" else {}
        if not items:
            continue
        held[commit.commit_id] = steps_in(items)
        assert items == after(held[commit.commit_id]), commit
    for commit_id, found in held.items():
        commit = log.commits[commit_id]
        parents = [
            held[id_] for id_ in (commit.parent_commit_id, commit.merged_parent_commit_id) if id_ in held
        ]
        if commit.merged_parent_commit_id is not None:
            merges += 1
            assert found == {name: max(each[name] for each in parents) for name in BRANCHES}
        elif commit.operation == "mutation":
            name, number = (commit.message or "").split()
            assert found == {**parents[0], name: int(number)}
    assert merges >= 2
    check_whole(graph)
    check_log(graph)


def test_merges_beside_writers_on_both_branches(tmp_path: Path) -> None:
    made(tmp_path / "g")
    run_all(tmp_path / "g", steps=10, merges=6, kills=3, chance=random.Random(18))
    check(tmp_path / "g", 10)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_merges_beside_writers_on_both_branches_for_long(tmp_path: Path) -> None:
    made(tmp_path / "g")
    run_all(tmp_path / "g", steps=300, merges=120, kills=60, chance=random.Random())
    check(tmp_path / "g", 300)
